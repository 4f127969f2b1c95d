/* The life of a manager: open, closing, closed, freed. Freeing may come first. */
#include "manager.h"

#include <stdlib.h>

#include "gocalls.h"

static void destroy(struct mp_manager *m) {
  mp_queue_clear(m);
  for (struct mp_work *w = m->handed; w;) {
    struct mp_work *next = w->next;
    free(w);
    w = next;
  }
  free(m->close_work);
  free(m->end_work);
  free(m->closed_event);
  mp_map_clear(&m->tags);
  mp_map_clear(&m->requests);
  mp_wake_close(&m->to_go);
  mp_wake_close(&m->to_host);
  mp_cond_destroy(&m->changed);
  mp_mutex_destroy(&m->lock);
  free(m);
}

struct mp_manager *mp_manager_new(void) {
  struct mp_manager *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  mp_mutex_init(&m->lock);
  mp_cond_init(&m->changed);
  atomic_init(&m->references, 1);
  m->to_go = m->to_host = (struct mp_wake)MP_WAKE_CLOSED;
  m->work_tail = &m->work;
  m->queue_tail = &m->queue;
  /* Until Go has read the options: servers may speak before open returns. */
  m->limits = (struct mp_limits){4096, UINT64_C(1) << 28, 4096, UINT64_C(1) << 24};
  m->close_work = mp_work_new(MP_WORK_CLOSE, NULL, 0);
  m->end_work = mp_work_new(MP_WORK_END, NULL, 0);
  m->closed_event = calloc(1, sizeof *m->closed_event);
  if (!m->close_work || !m->end_work || !m->closed_event || !mp_wake_open(&m->to_go)) {
    destroy(m);
    return NULL;
  }
  m->closed_event->kind = MCPRT_EV_CLOSED;
  return m;
}

void mp_manager_retain(struct mp_manager *m) { atomic_fetch_add_explicit(&m->references, 1, memory_order_relaxed); }

void mp_manager_release(struct mp_manager *m) {
  if (atomic_fetch_sub_explicit(&m->references, 1, memory_order_acq_rel) == 1) destroy(m);
}

void mp_manager_unlock(struct mp_manager *m, mp_wakes wakes) {
  mp_unlock(&m->lock);
  if (wakes & MP_WAKE_GO) mp_wake_send(&m->to_go);
  if (wakes & MP_WAKE_HOST) mp_wake_send(&m->to_host);
}

bool mp_begin_close(struct mp_manager *m, struct mp_work *work, mp_wakes *wakes) {
  if (m->closing) return false;
  m->closing = true;
  *wakes |= mp_work_add(m, work);
  return true;
}

static mp_wakes begin_own_close(struct mp_manager *m, int32_t grace_ms) {
  mp_wakes wakes = 0;
  if (m->closing) return 0;
  m->close_work->grace_ms = grace_ms;
  mp_begin_close(m, m->close_work, &wakes);
  m->close_work = NULL;
  return wakes;
}

static mp_wakes end_requests(struct mp_manager *m) {
  mp_wakes wakes = 0;
  for (size_t i = 0; i < m->requests.capacity; i++) {
    struct mp_request *request = m->requests.slots[i].value;
    if (!request) continue;
    request->done.status = MCPRT_ECLOSED;
    wakes |= mp_queue_add(m, &request->done);
  }
  mp_map_clear(&m->requests);
  return wakes;
}

mp_wakes mp_advance_close(struct mp_manager *m) {
  mp_wakes wakes = 0;
  if (m->core_closed && m->running == 0 && !m->closed) {
    wakes |= end_requests(m);
    if (m->close_op) wakes |= mp_op_ended(m, m->close_op);
    m->close_op = NULL;
    m->closed = true;
    wakes |= mp_queue_add(m, m->closed_event);
    m->closed_event = NULL;
    mp_cond_wake_all(&m->changed);
  }
  if (m->closed && m->freed && m->end_work) {
    wakes |= mp_work_add(m, m->end_work);
    m->end_work = NULL;
  }
  return wakes;
}

void mp_core_closed(struct mp_manager *m) {
  mp_manager_retain(m); /* once it has the end to work on, Go lets go of its own */
  mp_lock(&m->lock);
  m->core_closed = true;
  mp_manager_unlock(m, mp_advance_close(m));
  mp_manager_release(m);
}

mcprt_status mp_close(struct mp_manager *m, int32_t grace_ms) {
  mp_deadline never = mp_deadline_in(-1);
  mp_lock(&m->lock);
  if (m->freed) {
    mp_unlock(&m->lock);
    return MCPRT_EHANDLE;
  }
  mp_manager_unlock(m, begin_own_close(m, grace_ms));
  mp_lock(&m->lock);
  while (!m->closed) mp_cond_wait(&m->changed, &m->lock, &never);
  mp_unlock(&m->lock);
  return MCPRT_OK;
}

static void free_operations(struct mp_manager *m) {
  for (size_t i = 0; i < m->tags.capacity; i++) {
    struct mp_op *op = m->tags.slots[i].value;
    if (!op) continue;
    mp_op_wake(op);
    if (op->done) {
      free(op->item.data);
      free(op);
    }
  }
  mp_map_clear(&m->tags);
}

void mp_free(struct mp_manager *m) {
  mp_wakes wakes = 0;
  mp_lock(&m->lock);
  m->freed = true;
  wakes |= begin_own_close(m, -1);
  mp_queue_clear(m); /* before the tags: what is queued frees its tag */
  free_operations(m);
  end_requests(m);
  mp_cond_wake_all(&m->changed);
  wakes |= mp_advance_close(m);
  mp_manager_unlock(m, wakes);
}
