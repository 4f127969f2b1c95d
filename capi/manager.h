/*
 * A manager as the C side knows it: what the host has submitted, what waits to be
 * drained or taken, and how far the end has come. Go has no copy of any of it.
 *
 * One mutex guards each manager, and no other lock is taken under it. Pipes are
 * written after it was released: functions that need it return what to wake.
 *
 *   host thread                              Go
 *   mp_submit    -> work   -> wake pipe  ->  mp_work_next, core.Manager.Start
 *   mcprt_drain  <- queue  <- wake pipe  <-  mp_op_complete, mp_notice, ...
 *
 * A reference is held by the handle table until mcprt_free, by Go until it got
 * MP_WORK_END, and by each call that runs.
 */
#ifndef MP_MANAGER_H
#define MP_MANAGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "map.h"
#include "mcprt.h"
#include "sync.h"
#include "wake.h"

/* One frame to be drained. Allocated alone or as the first member of what it ends,
 * so that free(item) is always right. */
struct mp_item {
  struct mp_item *next;
  uint64_t tag;
  int32_t status;
  uint16_t kind;
  bool ends_tag; /* with it the tag is free again */
  size_t len;
  char *data; /* NULL, or len bytes and a NUL */
};

/* A thread that waits for one operation. Lives on its stack. */
struct mp_waiter {
  struct mp_waiter *next;
  mp_cond cond;
  bool woken; /* and with that no longer in the list */
};

struct mp_op {
  struct mp_item item; /* first: an operation that ended is its own frame */
  struct mp_manager *manager;
  uint64_t id; /* Go's name for it: unlike the tag it is never used again */
  struct mp_waiter *waiters;
  bool held;      /* MCPRT_F_HOLD, or a blocking verb */
  bool forgotten; /* held, but nobody wants it */
  bool canceled;  /* asked once; not asked again */
  bool done;
};

/* A question to the host. It stays in `requests` until it has ended. */
struct mp_request {
  struct mp_item done; /* first: the frame of its end needs no memory then */
  bool answered;       /* or declined: the host has had its say */
};

enum mp_work_kind {
  MP_WORK_START = 1, /* op, verb, tag, id, text */
  MP_WORK_CANCEL,    /* id */
  MP_WORK_ANSWER,    /* tag, text */
  MP_WORK_DECLINE,   /* tag */
  MP_WORK_CLOSE,     /* grace_ms, or the text of MCPRT_CLOSE */
  MP_WORK_END        /* nothing follows: forget the manager, mp_manager_release */
};

/* Something for Go to do. */
struct mp_work {
  struct mp_work *next;
  enum mp_work_kind kind;
  int32_t verb;
  int32_t grace_ms;
  uint64_t tag, id;
  struct mp_op *op;
  size_t len;
  char *text; /* len bytes and a NUL, in the same block */
};

struct mp_limits {
  uint64_t in_flight, queue_bytes, notices, notice_bytes;
};

struct mp_manager {
  mp_mutex lock;
  atomic_size_t references;
  uint64_t handle;
  uintptr_t go; /* Go's name for this manager */
  struct mp_limits limits;

  bool closing;     /* from the first moment of a close on */
  bool core_closed; /* Go says that every server is gone */
  bool closed;      /* every operation has ended, EV_CLOSED is queued */
  bool over;        /* EV_CLOSED was drained */
  bool freed;
  mp_cond changed; /* the queue is no longer empty; closed; freed */

  uint64_t next_id;
  size_t running;         /* operations that Go has not ended */
  struct mp_map tags;     /* of operations not yet drained or taken: mp_op */
  struct mp_map requests; /* open questions: mp_request */
  struct mp_op *close_op; /* ends when everything else has */

  struct mp_work *work, **work_tail; /* not yet taken by Go */
  struct mp_work *handed;            /* in Go's hands until it asks for more */
  struct mp_work *close_work, *end_work; /* made in advance: free cannot fail */
  struct mp_wake to_go;
  bool go_woken; /* Go will look again */

  struct mp_item *queue, **queue_tail;
  struct mp_item *gap;          /* EV_DROPPED since which no notice was taken */
  struct mp_item *closed_event; /* made in advance */
  uint64_t queue_bytes;         /* of work, operations and requests that wait */
  uint64_t notices, notice_bytes;
  struct mp_wake to_host;
  bool host_woken; /* the host will drain until 0 */
};

/* What to wake after the lock was released. */
typedef unsigned mp_wakes;
#define MP_WAKE_GO 1u
#define MP_WAKE_HOST 2u

/* ---- manager.c: its life ---- */

/* With one reference, for the caller. NULL: no memory or descriptors. */
struct mp_manager *mp_manager_new(void);
void mp_manager_retain(struct mp_manager *m);
void mp_manager_release(struct mp_manager *m);
void mp_manager_unlock(struct mp_manager *m, mp_wakes wakes);
/* Under the lock. `work` is of kind MP_WORK_CLOSE; false: closing already. */
bool mp_begin_close(struct mp_manager *m, struct mp_work *work, mp_wakes *wakes);
mcprt_status mp_close(struct mp_manager *m, int32_t grace_ms);
/* The handle is out of the table already. */
void mp_free(struct mp_manager *m);
/* Under the lock, whenever one of its conditions may have become true: queues
 * EV_CLOSED, tells Go the end. */
mp_wakes mp_advance_close(struct mp_manager *m);

/* ---- operation.c: submit, cancel, take, blocking verbs ---- */

mcprt_status mp_submit(struct mp_manager *m, int32_t verb, uint32_t flags, uint64_t tag, const char *text, size_t len);
mcprt_status mp_reply(struct mp_manager *m, uint64_t tag, const char *text, size_t len);
mcprt_status mp_cancel(struct mp_manager *m, uint64_t tag, bool forget);
mcprt_status mp_take(struct mp_manager *m, uint64_t tag, int32_t timeout_ms, mcprt_buf *out);
mcprt_status mp_run(struct mp_manager *m, int32_t verb, const char *text, size_t len, mcprt_buf *out);
/* Under the lock: the operation has ended with what is in op->item. */
mp_wakes mp_op_ended(struct mp_manager *m, struct mp_op *op);
/* Under the lock: whoever waits for a held operation looks again. */
void mp_op_wake(struct mp_op *op);

/* ---- work.c: the queue to Go ---- */

/* NULL: no memory. */
struct mp_work *mp_work_new(enum mp_work_kind kind, const char *text, size_t len);
/* Under the lock. */
mp_wakes mp_work_add(struct mp_manager *m, struct mp_work *work);

/* ---- queue.c: the queue to the host ---- */

/* Under the lock. Takes the item; a manager that was freed throws it away. */
mp_wakes mp_queue_add(struct mp_manager *m, struct mp_item *item);
/* Under the lock: throws everything away. */
void mp_queue_clear(struct mp_manager *m);
int32_t mp_drain(struct mp_manager *m, void *buf, size_t cap, size_t *used);
int32_t mp_wait(struct mp_manager *m, int32_t timeout_ms);
int32_t mp_notify_fd(struct mp_manager *m);
/* Header, data and padding. */
size_t mp_frame_size(size_t len);

/* ---- handles.c ---- */

/* Takes over the caller's reference and sets m->handle. False: no memory. */
bool mp_handle_add(struct mp_manager *m);
/* With a reference for the caller, or NULL. */
struct mp_manager *mp_handle_get(mcprt_mgr handle);
/* With the table's reference, or NULL. */
struct mp_manager *mp_handle_remove(mcprt_mgr handle);

#endif
