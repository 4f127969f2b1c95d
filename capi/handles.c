/* Names for managers. A name counts up and is never used again, so a stale one finds
 * nothing and cannot find somebody else's manager. */
#include "manager.h"

#define LAST_HANDLE UINT64_C(0x1FFFFFFFFFFFFF) /* 2^53 - 1: a double holds it */

static mp_mutex lock = MP_MUTEX_INIT;
static struct mp_map managers;
static uint64_t last;

bool mp_handle_add(struct mp_manager *m) {
  mp_lock(&lock);
  bool added = last < LAST_HANDLE && mp_map_put(&managers, last + 1, m);
  if (added) m->handle = ++last;
  mp_unlock(&lock);
  return added;
}

struct mp_manager *mp_handle_get(mcprt_mgr handle) {
  mp_lock(&lock);
  struct mp_manager *m = mp_map_get(&managers, handle);
  if (m) mp_manager_retain(m);
  mp_unlock(&lock);
  return m;
}

struct mp_manager *mp_handle_remove(mcprt_mgr handle) {
  mp_lock(&lock);
  struct mp_manager *m = mp_map_remove(&managers, handle);
  /* A process that has closed everything should hold nothing. */
  if (managers.count == 0) mp_map_clear(&managers);
  mp_unlock(&lock);
  return m;
}
