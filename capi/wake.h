/*
 * A pipe that wakes an event loop: Go's netpoller on one side, the host's on the
 * other (on Windows a thread of Go, and no host). A pipe and not an eventfd, since Node's net.Socket refuses the latter.
 */
#ifndef MP_WAKE_H
#define MP_WAKE_H

#include <stdbool.h>

struct mp_wake {
  int reader, writer; /* descriptors, on Windows handles; -1: not open */
};

#define MP_WAKE_CLOSED {-1, -1}

/* Both ends non-blocking and close-on-exec. False: no descriptors left. */
bool mp_wake_open(struct mp_wake *w);
void mp_wake_close(struct mp_wake *w);
bool mp_wake_is_open(const struct mp_wake *w);
/* One byte. A full pipe is readable already, so that failing is no failure. Raises
 * no SIGPIPE: the reader stays open as long as the writer. */
void mp_wake_send(const struct mp_wake *w);
/* A descriptor of its own for the reading end, or -1. */
int mp_wake_dup_reader(const struct mp_wake *w);

#endif
