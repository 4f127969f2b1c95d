/* Operations, from the host's call to their end. */
#include <stdlib.h>
#include <string.h>

#include "gocalls.h"

/* For the waiters' sake an operation is looked up again after each wait: between two
 * looks another thread may have taken it, and its memory is gone. */
static bool wait_for(struct mp_manager *m, struct mp_op *op, const mp_deadline *deadline) {
  struct mp_waiter self = {.next = op->waiters, .woken = false};
  bool in_time = true;
  mp_cond_init(&self.cond);
  op->waiters = &self;
  while (!self.woken && in_time) in_time = mp_cond_wait(&self.cond, &m->lock, deadline);
  if (!self.woken) {
    /* Nobody has ended the operation, so that it still exists. */
    struct mp_waiter **at = &op->waiters;
    while (*at != &self) at = &(*at)->next;
    *at = self.next;
  }
  mp_cond_destroy(&self.cond);
  return self.woken;
}

void mp_op_wake(struct mp_op *op) {
  for (struct mp_waiter *w = op->waiters; w; w = w->next) {
    w->woken = true;
    mp_cond_wake_all(&w->cond);
  }
  op->waiters = NULL;
}

mp_wakes mp_op_ended(struct mp_manager *m, struct mp_op *op) {
  op->done = true;
  if (op->item.tag == 0) { /* of a blocking verb, whose thread owns it */
    mp_op_wake(op);
    return 0;
  }
  if (m->freed || op->forgotten) {
    mp_map_remove(&m->tags, op->item.tag);
    free(op->item.data);
    free(op);
    return 0;
  }
  if (op->held) {
    m->queue_bytes += mp_frame_size(op->item.len);
    mp_op_wake(op);
    return 0;
  }
  return mp_queue_add(m, &op->item);
}

void mp_op_complete(struct mp_op *op, int32_t status, const char *head, size_t head_len, const char *body,
                    size_t body_len, const char *tail, size_t tail_len) {
  struct mp_manager *m = op->manager;
  size_t len = head_len + body_len + tail_len;
  char *data = malloc(len + 1);
  op->item.status = data ? status : MCPRT_ENOMEM;
  op->item.data = data;
  op->item.len = data ? len : 0;
  if (data) {
    memcpy(data, head, head_len);
    memcpy(data + head_len, body, body_len);
    memcpy(data + head_len + body_len, tail, tail_len);
    data[len] = 0;
  }
  mp_manager_retain(m); /* once it has the end to work on, Go lets go of its own */
  mp_lock(&m->lock);
  m->running--;
  mp_wakes wakes = mp_op_ended(m, op);
  wakes |= mp_advance_close(m);
  mp_manager_unlock(m, wakes);
  mp_manager_release(m);
}

/* A held operation that ended leaves. */
static void unhold(struct mp_manager *m, struct mp_op *op) {
  mp_map_remove(&m->tags, op->item.tag);
  m->queue_bytes -= mp_frame_size(op->item.len);
}

static bool never_refused(int32_t verb) { return verb == MCPRT_DISCONNECT || verb == MCPRT_CLOSE; }

/* Under the lock. */
static mcprt_status admit(struct mp_manager *m, struct mp_op *op, struct mp_work *work, mp_wakes *wakes) {
  if (m->freed) return MCPRT_EHANDLE;
  if (m->closing) return MCPRT_ECLOSED;
  if (mp_map_get(&m->tags, op->item.tag)) return MCPRT_ETAG;
  if (!never_refused(work->verb) &&
      (m->tags.count >= m->limits.in_flight || m->queue_bytes > m->limits.queue_bytes))
    return MCPRT_EBUSY;
  if (!mp_map_put(&m->tags, op->item.tag, op)) return MCPRT_ENOMEM;
  op->id = work->id = ++m->next_id;
  if (work->kind == MP_WORK_CLOSE) {
    m->close_op = op;
    mp_begin_close(m, work, wakes);
  } else {
    m->running++;
    *wakes |= mp_work_add(m, work);
  }
  return MCPRT_OK;
}

mcprt_status mp_submit(struct mp_manager *m, int32_t verb, uint32_t flags, uint64_t tag, const char *text, size_t len) {
  bool held = flags & MCPRT_F_HOLD;
  struct mp_op *op = calloc(1, sizeof *op);
  struct mp_work *work = mp_work_new(verb == MCPRT_CLOSE ? MP_WORK_CLOSE : MP_WORK_START, text, len);
  mcprt_status status = op && work ? MCPRT_OK : MCPRT_ENOMEM;
  if (status == MCPRT_OK && verb == MCPRT_CLOSE) {
    /* Its answer is made here, since nothing may fail once the closing began. */
    mcprt_buf answer;
    mp_buf_set(&answer, "{}", 2);
    op->item.data = (char *)answer.ptr;
    op->item.len = answer.len;
    if (!answer.ptr) status = MCPRT_ENOMEM;
  }
  if (status == MCPRT_OK) {
    mp_wakes wakes = 0;
    op->manager = m;
    op->held = held;
    op->item.tag = tag;
    op->item.kind = MCPRT_EV_DONE;
    op->item.ends_tag = true;
    work->op = op;
    work->verb = verb;
    work->tag = tag;
    mp_lock(&m->lock);
    status = admit(m, op, work, &wakes);
    mp_manager_unlock(m, wakes);
  }
  if (status != MCPRT_OK) {
    if (op) free(op->item.data);
    free(op);
    free(work);
  }
  return status;
}

mcprt_status mp_reply(struct mp_manager *m, uint64_t tag, const char *text, size_t len) {
  struct mp_work *work = mp_work_new(MP_WORK_ANSWER, text, len);
  if (!work) return MCPRT_ENOMEM;
  work->tag = tag;
  mp_wakes wakes = 0;
  mcprt_status status = MCPRT_OK;
  mp_lock(&m->lock);
  struct mp_request *request = mp_map_get(&m->requests, tag);
  if (m->freed) {
    status = MCPRT_EHANDLE;
  } else if (m->closing) {
    status = MCPRT_ECLOSED;
  } else if (!request || request->answered) {
    status = MCPRT_ETAG;
  } else {
    request->answered = true;
    wakes = mp_work_add(m, work);
  }
  mp_manager_unlock(m, wakes);
  if (status != MCPRT_OK) free(work);
  return status;
}

static mcprt_status ask(struct mp_manager *m, enum mp_work_kind kind, uint64_t tag, uint64_t id, mp_wakes *wakes) {
  struct mp_work *work = mp_work_new(kind, NULL, 0);
  if (!work) return MCPRT_ENOMEM;
  work->tag = tag;
  work->id = id;
  *wakes |= mp_work_add(m, work);
  return MCPRT_OK;
}

static mcprt_status decline(struct mp_manager *m, uint64_t tag, mp_wakes *wakes) {
  struct mp_request *request = mp_map_get(&m->requests, tag);
  if (!request || request->answered) return MCPRT_OK;
  mcprt_status status = ask(m, MP_WORK_DECLINE, tag, 0, wakes);
  request->answered = status == MCPRT_OK;
  return status;
}

static mcprt_status cancel_op(struct mp_manager *m, uint64_t tag, bool forget, mp_wakes *wakes) {
  struct mp_op *op = mp_map_get(&m->tags, tag);
  if (!op) return MCPRT_OK;
  if (forget && op->held && op->done) {
    unhold(m, op);
    free(op->item.data);
    free(op);
    return MCPRT_OK;
  }
  if (op->done) return MCPRT_OK;
  if (forget && op->held) {
    /* Its tag stays in use until it has ended, so that a late progress notice is not
     * taken for one of a new operation. */
    op->forgotten = true;
    mp_op_wake(op);
  }
  if (op->canceled || op == m->close_op) return MCPRT_OK;
  mcprt_status status = ask(m, MP_WORK_CANCEL, tag, op->id, wakes);
  op->canceled = status == MCPRT_OK;
  return status;
}

mcprt_status mp_cancel(struct mp_manager *m, uint64_t tag, bool forget) {
  mp_wakes wakes = 0;
  mp_lock(&m->lock);
  mcprt_status status = m->freed             ? MCPRT_EHANDLE
                        : tag > MCPRT_TAG_MAX ? decline(m, tag, &wakes)
                                              : cancel_op(m, tag, forget, &wakes);
  mp_manager_unlock(m, wakes);
  return status;
}

/* Under the lock: waits until operation `tag` can be taken. */
static mcprt_status await(struct mp_manager *m, uint64_t tag, int32_t timeout_ms) {
  mp_deadline deadline = mp_deadline_in(timeout_ms);
  bool in_time = timeout_ms != 0;
  uint64_t id = 0;
  for (;;) {
    if (m->freed) return MCPRT_EHANDLE;
    struct mp_op *op = mp_map_get(&m->tags, tag);
    if (!op || !op->held || op->forgotten || (id && op->id != id)) return MCPRT_ETAG;
    if (op->done) return MCPRT_OK;
    if (!in_time) return MCPRT_EAGAIN;
    id = op->id;
    in_time = wait_for(m, op, &deadline);
  }
}

mcprt_status mp_take(struct mp_manager *m, uint64_t tag, int32_t timeout_ms, mcprt_buf *out) {
  struct mp_op *op = NULL;
  mp_lock(&m->lock);
  mcprt_status status = await(m, tag, timeout_ms);
  if (status == MCPRT_OK) {
    op = mp_map_get(&m->tags, tag);
    unhold(m, op);
  }
  mp_unlock(&m->lock);
  if (!op) return status;
  *out = (mcprt_buf){op->item.data, op->item.len};
  status = op->item.status;
  free(op);
  return status;
}

mcprt_status mp_run(struct mp_manager *m, int32_t verb, const char *text, size_t len, mcprt_buf *out) {
  mp_deadline never = mp_deadline_in(-1);
  struct mp_op op = {.manager = m, .held = true};
  mp_lock(&m->lock);
  mcprt_status status = m->freed ? MCPRT_EHANDLE : m->closing ? MCPRT_ECLOSED : MCPRT_OK;
  if (status == MCPRT_OK) {
    m->running++;
    op.id = ++m->next_id;
  }
  uint64_t id = op.id;
  mp_unlock(&m->lock);
  if (status != MCPRT_OK) return status;

  /* Started from here and not through the queue: that saves a hand-over between
   * threads. Waited for here and not in Go: a call that blocks in Go holds a thread
   * of its scheduler. */
  mcprtgo_start(m->go, &op, id, verb, (char *)text, len);
  mp_lock(&m->lock);
  while (!op.done) wait_for(m, &op, &never);
  mp_unlock(&m->lock);
  *out = (mcprt_buf){op.item.data, op.item.len};
  return op.item.status;
}
