/*
 * A pthread_getattr_np of our own, which the Go runtime in this library binds to
 * and nobody else (it is hidden).
 *
 * On each call from C into Go the runtime asks for the thread's stack if the stack
 * pointer lies outside the bounds it knows. koffi runs C on a stack of its own, so
 * there it asks every time, and on a main thread glibc answers by parsing
 * /proc/self/maps: 170 microseconds for each call. The bounds of a thread do not
 * change, so one answer per thread is enough.
 *
 * Only address and size are remembered, never the pthread_attr_t: it may own memory
 * that the runtime's pthread_attr_destroy() would then free twice.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_getattr_np, RTLD_NEXT */
#endif
#include <errno.h>
#include <stddef.h>

#ifdef __GLIBC__
#include <dlfcn.h>
#include <pthread.h>

__attribute__((visibility("hidden"))) int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr);

static __thread struct {
  void *address;
  size_t size; /* 0: not asked yet */
} mine;

typedef int getattr_function(pthread_t, pthread_attr_t *);

static int ask_libc(pthread_t thread, pthread_attr_t *attr) {
  static getattr_function *libc; /* two threads may both look; they find the same */
  getattr_function *f = __atomic_load_n(&libc, __ATOMIC_RELAXED);
  if (!f) {
    *(void **)(&f) = dlsym(RTLD_NEXT, "pthread_getattr_np");
    if (!f) return ENOSYS;
    __atomic_store_n(&libc, f, __ATOMIC_RELAXED);
  }
  return f(thread, attr);
}

int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr) {
  if (!pthread_equal(thread, pthread_self())) return ask_libc(thread, attr);
  if (mine.size == 0) {
    int err = ask_libc(thread, attr);
    if (err == 0 && pthread_attr_getstack(attr, &mine.address, &mine.size) != 0) mine.size = 0;
    return err;
  }
  int err = pthread_attr_init(attr);
  return err ? err : pthread_attr_setstack(attr, mine.address, mine.size);
}

#endif
