#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pipe2 */
#endif
#include "wake.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool mp_wake_open(struct mp_wake *w) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  w->reader = ends[0];
  w->writer = ends[1];
  return true;
}

void mp_wake_close(struct mp_wake *w) {
  if (!mp_wake_is_open(w)) return;
  close(w->writer);
  close(w->reader);
  w->reader = w->writer = -1;
}

bool mp_wake_is_open(const struct mp_wake *w) { return w->writer >= 0; }

void mp_wake_send(const struct mp_wake *w) {
  int before = errno; /* a host's errno is its own */
  while (write(w->writer, "", 1) < 0 && errno == EINTR) {
  }
  errno = before;
}

int mp_wake_dup_reader(const struct mp_wake *w) { return fcntl(w->reader, F_DUPFD_CLOEXEC, 0); }
