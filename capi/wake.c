#if !defined(_GNU_SOURCE) && !defined(_WIN32)
#define _GNU_SOURCE /* pipe2 */
#endif
#include "wake.h"

bool mp_wake_is_open(const struct mp_wake *w) { return w->writer >= 0; }

#ifdef _WIN32

/*
 * An anonymous pipe. Go reads it in a thread of its own, and nothing but Go: no event
 * loop of Windows can watch one, so that a host has no descriptor (mp_notify_fd). It is
 * never full: between two looks of Go at the queue there is one byte at most.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

/* Handles have 32 significant bits, so that an int holds one. */
static HANDLE handle_of(int end) { return (HANDLE)(intptr_t)end; }
static int end_of(HANDLE handle) { return (int)(intptr_t)handle; }

bool mp_wake_open(struct mp_wake *w) {
  HANDLE reader, writer; /* not inherited by children */
  if (!CreatePipe(&reader, &writer, NULL, 4096)) return false;
  w->reader = end_of(reader);
  w->writer = end_of(writer);
  return true;
}

void mp_wake_close(struct mp_wake *w) {
  if (!mp_wake_is_open(w)) return;
  CloseHandle(handle_of(w->writer));
  CloseHandle(handle_of(w->reader));
  w->reader = w->writer = -1;
}

void mp_wake_send(const struct mp_wake *w) {
  DWORD before = GetLastError(), written; /* a host's error is its own */
  WriteFile(handle_of(w->writer), "", 1, &written, NULL);
  SetLastError(before);
}

int mp_wake_dup_reader(const struct mp_wake *w) {
  HANDLE self = GetCurrentProcess(), copy;
  return DuplicateHandle(self, handle_of(w->reader), self, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS) ? end_of(copy) : -1;
}

#else

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static bool open_pipe(int ends[2]) {
#ifdef __APPLE__
  /* Older systems have no pipe2: a fork between the calls may inherit the ends. */
  if (pipe(ends) != 0) return false;
  for (int i = 0; i < 2; i++) {
    fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    fcntl(ends[i], F_SETFL, O_NONBLOCK);
  }
  return true;
#else
  return pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0;
#endif
}

bool mp_wake_open(struct mp_wake *w) {
  int ends[2];
  if (!open_pipe(ends)) return false;
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

void mp_wake_send(const struct mp_wake *w) {
  int before = errno; /* a host's errno is its own */
  while (write(w->writer, "", 1) < 0 && errno == EINTR) {
  }
  errno = before;
}

int mp_wake_dup_reader(const struct mp_wake *w) { return fcntl(w->reader, F_DUPFD_CLOEXEC, 0); }

#endif
