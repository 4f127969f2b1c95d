/* The queue from Go to the host: frames in the order in which they happened. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "gocalls.h"

_Static_assert(sizeof(mcprt_frame) == 24, "bindings read frames by these offsets");
_Static_assert(offsetof(mcprt_frame, tag) == 0 && offsetof(mcprt_frame, status) == 8 &&
                   offsetof(mcprt_frame, kind) == 12 && offsetof(mcprt_frame, reserved) == 14 &&
                   offsetof(mcprt_frame, len) == 16 && offsetof(mcprt_frame, size) == 20,
               "bindings read frames by these offsets");

/* At least one zero byte follows the data, and the next frame is aligned. */
size_t mp_frame_size(size_t len) { return (sizeof(mcprt_frame) + len + 8) & ~(size_t)7; }

static void account(struct mp_manager *m, const struct mp_item *item, bool added) {
  uint64_t bytes = mp_frame_size(item->len);
  bool notice = item->kind == MCPRT_EV_NOTICE;
  uint64_t *sum = notice ? &m->notice_bytes : &m->queue_bytes;
  *sum = added ? *sum + bytes : *sum - bytes;
  if (notice) m->notices = added ? m->notices + 1 : m->notices - 1;
}

static void drop(struct mp_item *item) {
  free(item->data);
  free(item);
}

mp_wakes mp_queue_add(struct mp_manager *m, struct mp_item *item) {
  if (m->freed) {
    drop(item);
    return 0;
  }
  bool was_empty = !m->queue;
  item->next = NULL;
  *m->queue_tail = item;
  m->queue_tail = &item->next;
  account(m, item, true);
  if (was_empty) mp_cond_wake_all(&m->changed);
  if (m->host_woken || !mp_wake_is_open(&m->to_host)) return 0;
  m->host_woken = true;
  return MP_WAKE_HOST;
}

/* The first item leaves the queue. */
static struct mp_item *unlink_first(struct mp_manager *m) {
  struct mp_item *item = m->queue;
  m->queue = item->next;
  if (!m->queue) m->queue_tail = &m->queue;
  account(m, item, false);
  if (item == m->gap) m->gap = NULL;
  if (item->ends_tag) mp_map_remove(&m->tags, item->tag);
  return item;
}

void mp_queue_clear(struct mp_manager *m) {
  while (m->queue) drop(unlink_first(m));
}

void mp_buf_set(mcprt_buf *out, const char *text, size_t len) {
  char *copy = malloc(len + 1);
  *out = (mcprt_buf){copy, copy ? len : 0};
  if (!copy) return;
  memcpy(copy, text, len);
  copy[len] = 0;
}

static bool fits_a_frame(size_t len) { return len < MCPRT_FRAME_MAX && mp_frame_size(len) <= MCPRT_FRAME_MAX; }

/* NULL: no memory, or more than a frame holds. */
static struct mp_item *item_new(uint16_t kind, uint64_t tag, const char *text, size_t len) {
  struct mp_item *item = fits_a_frame(len) ? calloc(1, sizeof *item) : NULL;
  if (!item) return NULL;
  mcprt_buf data;
  mp_buf_set(&data, text, len);
  if (!data.ptr) {
    free(item);
    return NULL;
  }
  item->kind = kind;
  item->tag = tag;
  item->data = (char *)data.ptr;
  item->len = len;
  return item;
}

/* One frame counts all notices that were dropped since the last one that was taken:
 * the host learns where they are missing, and a flood costs no memory. */
static mp_wakes count_dropped(struct mp_manager *m) {
  if (m->gap) {
    if (m->gap->status < INT32_MAX) m->gap->status++;
    return 0;
  }
  struct mp_item *gap = item_new(MCPRT_EV_DROPPED, 0, "", 0);
  if (!gap) return 0;
  gap->status = 1;
  m->gap = gap;
  return mp_queue_add(m, gap);
}

void mp_notice(struct mp_manager *m, const char *text, size_t len) {
  struct mp_item *item = item_new(MCPRT_EV_NOTICE, 0, text, len);
  mp_wakes wakes = 0;
  mp_lock(&m->lock);
  if (m->closed || m->freed) {
    /* EV_CLOSED is the last item. */
  } else if (!item || m->notices >= m->limits.notices ||
             m->notice_bytes + mp_frame_size(item->len) > m->limits.notice_bytes) {
    wakes = count_dropped(m);
  } else {
    m->gap = NULL;
    wakes = mp_queue_add(m, item);
    item = NULL;
  }
  mp_manager_unlock(m, wakes);
  if (item) drop(item);
}

bool mp_request_open(struct mp_manager *m, uint64_t tag, const char *text, size_t len) {
  struct mp_item *item = item_new(MCPRT_EV_REQUEST, tag, text, len);
  struct mp_request *request = calloc(1, sizeof *request);
  mp_wakes wakes = 0;
  mp_lock(&m->lock);
  /* A server that asks without end must not fill the host's memory. */
  bool opened = item && request && !m->closing && !m->freed && m->requests.count < m->limits.in_flight &&
                m->queue_bytes <= m->limits.queue_bytes && tag > MCPRT_TAG_MAX && !mp_map_get(&m->requests, tag) &&
                mp_map_put(&m->requests, tag, request);
  if (opened) {
    request->done.kind = MCPRT_EV_DONE;
    request->done.tag = tag;
    wakes = mp_queue_add(m, item);
  }
  mp_manager_unlock(m, wakes);
  if (!opened) {
    free(request);
    if (item) drop(item);
  }
  return opened;
}

void mp_request_done(struct mp_manager *m, uint64_t tag, int32_t status) {
  mp_wakes wakes = 0;
  mp_lock(&m->lock);
  struct mp_request *request = mp_map_remove(&m->requests, tag);
  if (request) {
    request->done.status = status;
    wakes = mp_queue_add(m, &request->done);
  }
  mp_manager_unlock(m, wakes);
}

static size_t write_frame(char *at, const struct mp_item *item) {
  size_t size = mp_frame_size(item->len);
  mcprt_frame frame = {item->tag, item->status, item->kind, 0, (uint32_t)item->len, (uint32_t)size};
  memcpy(at, &frame, sizeof frame);
  if (item->len) memcpy(at + sizeof frame, item->data, item->len);
  memset(at + sizeof frame + item->len, 0, size - sizeof frame - item->len);
  return size;
}

int32_t mp_drain(struct mp_manager *m, void *buf, size_t cap, size_t *used) {
  struct mp_item *first = NULL, **tail = &first;
  int32_t count = 0;
  size_t bytes = 0;

  mp_lock(&m->lock);
  if (m->freed || (!m->queue && m->over)) {
    count = m->freed ? MCPRT_EHANDLE : MCPRT_ECLOSED;
  } else if (m->queue && mp_frame_size(m->queue->len) > cap) {
    count = MCPRT_ERANGE;
    bytes = mp_frame_size(m->queue->len);
  } else {
    while (m->queue && count < INT32_MAX && mp_frame_size(m->queue->len) <= cap - bytes) {
      struct mp_item *item = unlink_first(m);
      if (item->kind == MCPRT_EV_CLOSED) m->over = true;
      bytes += mp_frame_size(item->len);
      count++;
      *tail = item;
      tail = &item->next;
    }
    *tail = NULL;
    if (!m->queue) m->host_woken = false;
  }
  mp_unlock(&m->lock);

  /* The copying is done outside, so that it holds up no server's reader. */
  for (char *at = buf; first;) {
    struct mp_item *next = first->next;
    at += write_frame(at, first);
    drop(first);
    first = next;
  }
  *used = bytes;
  return count;
}

int32_t mp_wait(struct mp_manager *m, int32_t timeout_ms) {
  mp_deadline deadline = mp_deadline_in(timeout_ms);
  bool in_time = timeout_ms != 0;
  mp_lock(&m->lock);
  while (!m->queue && !m->over && !m->freed && in_time) in_time = mp_cond_wait(&m->changed, &m->lock, &deadline);
  int32_t result = m->freed ? MCPRT_EHANDLE : m->queue ? 1 : m->over ? MCPRT_ECLOSED : 0;
  mp_unlock(&m->lock);
  return result;
}

#ifdef _WIN32

int32_t mp_notify_fd(struct mp_manager *m) {
  (void)m;
  return MCPRT_EINVAL;
}

#else

int32_t mp_notify_fd(struct mp_manager *m) {
  int32_t fd = MCPRT_EHANDLE;
  mp_wakes wakes = 0;
  mp_lock(&m->lock);
  if (!m->freed) {
    /* Made at the first call: a host that only waits or takes pays for no pipe. */
    bool open = mp_wake_is_open(&m->to_host) || mp_wake_open(&m->to_host);
    fd = open ? mp_wake_dup_reader(&m->to_host) : -1;
    if (fd < 0) fd = MCPRT_ENOMEM;
    if (open && m->queue) wakes = MP_WAKE_HOST;
    if (wakes) m->host_woken = true;
  }
  mp_manager_unlock(m, wakes);
  return fd;
}

#endif
