#include "fork.h"

#ifdef _WIN32

bool mp_forked(void) { return false; } /* there is no fork */

#else

#include <pthread.h>
#include <stdatomic.h>

static atomic_bool forked;

bool mp_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

static void in_child(void) { atomic_store_explicit(&forked, true, memory_order_relaxed); }

/* At load and not at the first call: a process may fork in between. */
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

#endif
