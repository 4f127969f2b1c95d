/*
 * The only place that knows which threads library is below: a mutex, and a
 * condition that waits on a clock nobody can set back.
 */
#ifndef MP_SYNC_H
#define MP_SYNC_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef pthread_mutex_t mp_mutex;
typedef pthread_cond_t mp_cond;

#define MP_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER

static inline void mp_mutex_init(mp_mutex *m) { pthread_mutex_init(m, NULL); }
static inline void mp_mutex_destroy(mp_mutex *m) { pthread_mutex_destroy(m); }
static inline void mp_lock(mp_mutex *m) { pthread_mutex_lock(m); }
static inline void mp_unlock(mp_mutex *m) { pthread_mutex_unlock(m); }

static inline void mp_cond_init(mp_cond *c) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(c, &attr);
  pthread_condattr_destroy(&attr);
}
static inline void mp_cond_destroy(mp_cond *c) { pthread_cond_destroy(c); }
static inline void mp_cond_wake_all(mp_cond *c) { pthread_cond_broadcast(c); }

/* A moment to wait for at most. */
typedef struct mp_deadline {
  bool never;
  struct timespec at;
} mp_deadline;

static inline mp_deadline mp_deadline_in(int32_t timeout_ms) {
  mp_deadline d = {timeout_ms < 0, {0, 0}};
  if (!d.never) {
    clock_gettime(CLOCK_MONOTONIC, &d.at);
    d.at.tv_sec += timeout_ms / 1000;
    d.at.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
    if (d.at.tv_nsec >= 1000000000L) {
      d.at.tv_nsec -= 1000000000L;
      d.at.tv_sec++;
    }
  }
  return d;
}

/* False once the deadline has passed. May wake for no reason. */
static inline bool mp_cond_wait(mp_cond *c, mp_mutex *m, const mp_deadline *d) {
  if (d->never) return pthread_cond_wait(c, m), true;
  return pthread_cond_timedwait(c, m, &d->at) != ETIMEDOUT;
}

#endif
