/*
 * The only place that knows which threads library is below: a mutex, and a
 * condition that waits on a clock nobody can set back.
 */
#ifndef MP_SYNC_H
#define MP_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#ifdef _WIN32

/* Slim locks and condition variables, of Windows itself: nothing to destroy, and no
 * library of threads to ship. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

typedef SRWLOCK mp_mutex;
typedef CONDITION_VARIABLE mp_cond;

#define MP_MUTEX_INIT SRWLOCK_INIT

static inline void mp_mutex_init(mp_mutex *m) { InitializeSRWLock(m); }
static inline void mp_mutex_destroy(mp_mutex *m) { (void)m; }
static inline void mp_lock(mp_mutex *m) { AcquireSRWLockExclusive(m); }
static inline void mp_unlock(mp_mutex *m) { ReleaseSRWLockExclusive(m); }

static inline void mp_cond_init(mp_cond *c) { InitializeConditionVariable(c); }
static inline void mp_cond_destroy(mp_cond *c) { (void)c; }
static inline void mp_cond_wake_all(mp_cond *c) { WakeAllConditionVariable(c); }

/* A moment to wait for at most. */
typedef struct mp_deadline {
  bool never;
  uint64_t at; /* of GetTickCount64 */
} mp_deadline;

static inline mp_deadline mp_deadline_in(int32_t timeout_ms) {
  mp_deadline d = {timeout_ms < 0, 0};
  if (!d.never) d.at = GetTickCount64() + (uint64_t)timeout_ms;
  return d;
}

/* False once the deadline has passed. May wake for no reason. */
static inline bool mp_cond_wait(mp_cond *c, mp_mutex *m, const mp_deadline *d) {
  if (d->never) return SleepConditionVariableSRW(c, m, INFINITE, 0), true;
  uint64_t now = GetTickCount64();
  if (now >= d->at) return false;
  /* The clock counts in steps of up to 16 ms, and a wait may end a step early. */
  return SleepConditionVariableSRW(c, m, (DWORD)(d->at - now), 0) || GetTickCount64() < d->at;
}

#else

#include <errno.h>
#include <pthread.h>
#include <time.h>

typedef pthread_mutex_t mp_mutex;
typedef pthread_cond_t mp_cond;

#define MP_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER

static inline void mp_mutex_init(mp_mutex *m) { pthread_mutex_init(m, NULL); }
static inline void mp_mutex_destroy(mp_mutex *m) { pthread_mutex_destroy(m); }
static inline void mp_lock(mp_mutex *m) { pthread_mutex_lock(m); }
static inline void mp_unlock(mp_mutex *m) { pthread_mutex_unlock(m); }

#ifdef __APPLE__
/* Its conditions know no clock but the one that can be set; they can wait for a while. */
static inline void mp_cond_init(mp_cond *c) { pthread_cond_init(c, NULL); }
#else
static inline void mp_cond_init(mp_cond *c) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(c, &attr);
  pthread_condattr_destroy(&attr);
}
#endif
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
#ifdef __APPLE__
  struct timespec left;
  clock_gettime(CLOCK_MONOTONIC, &left);
  left.tv_sec = d->at.tv_sec - left.tv_sec;
  left.tv_nsec = d->at.tv_nsec - left.tv_nsec;
  if (left.tv_nsec < 0) {
    left.tv_nsec += 1000000000L;
    left.tv_sec--;
  }
  if (left.tv_sec < 0) return false;
  return pthread_cond_timedwait_relative_np(c, m, &left) != ETIMEDOUT;
#else
  return pthread_cond_timedwait(c, m, &d->at) != ETIMEDOUT;
#endif
}

#endif

#endif
