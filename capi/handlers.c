/*
 * Gives the host's signal handlers the flag SA_ONSTACK.
 *
 * The kernel may run a handler on any thread, and without that flag it runs on the
 * stack in use there. On Go's threads this is often a goroutine's, of a few KiB: the
 * handler's frame alone overflows it, silently, into other goroutines' memory. So Go
 * adds the flag to every handler that exists when it starts. One that a host sets
 * later lacks it: libuv sets that for SIGCHLD at the first child of a Node program,
 * and then some child's end crashes it, far from the cause.
 *
 * Nobody tells us of a new handler, so this looks at times. Left alone are signals
 * that a host may send to its own threads in order to read their stacks (SIGUSR1 and
 * SIGUSR2, the real-time signals): its handlers need the stack where they are.
 */
#include "handlers.h"

#ifndef _WIN32
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGALRM, SIGPIPE, SIGURG, SIGCONT, SIGTSTP};

#define LOOK_EVERY_MS 20

static bool looked_just_now(void) {
  static _Atomic int64_t next_look;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  int64_t now = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
  int64_t next = atomic_load_explicit(&next_look, memory_order_relaxed);
  return now < next || !atomic_compare_exchange_strong(&next_look, &next, now + LOOK_EVERY_MS);
}

void mp_adopt_handlers(void) {
  if (looked_just_now()) return;
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction action;
    if (sigaction(signals[i], NULL, &action) != 0 || (action.sa_flags & SA_ONSTACK)) continue;
    if (!(action.sa_flags & SA_SIGINFO) && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)) continue;
    action.sa_flags |= SA_ONSTACK;
    sigaction(signals[i], &action, NULL);
  }
}

#else

void mp_adopt_handlers(void) {}

#endif
