/* The queue from the host to Go. */
#include <stdlib.h>
#include <string.h>

#include "gocalls.h"

struct mp_work *mp_work_new(enum mp_work_kind kind, const char *text, size_t len) {
  struct mp_work *work = malloc(sizeof *work + len + 1);
  if (!work) return NULL;
  *work = (struct mp_work){.kind = kind, .grace_ms = -1, .len = len, .text = (char *)(work + 1)};
  if (len) memcpy(work->text, text, len);
  work->text[len] = 0;
  return work;
}

mp_wakes mp_work_add(struct mp_manager *m, struct mp_work *work) {
  work->next = NULL;
  *m->work_tail = work;
  m->work_tail = &work->next;
  m->queue_bytes += work->len;
  if (m->go_woken) return 0;
  m->go_woken = true;
  return MP_WAKE_GO;
}

struct mp_work *mp_work_next(struct mp_manager *m) {
  mp_lock(&m->lock);
  struct mp_work *used = m->handed;
  struct mp_work *work = m->work;
  m->handed = work;
  m->work = NULL;
  m->work_tail = &m->work;
  for (const struct mp_work *w = used; w; w = w->next) m->queue_bytes -= w->len;
  if (!work) m->go_woken = false;
  mp_unlock(&m->lock);
  while (used) {
    struct mp_work *next = used->next;
    free(used);
    used = next;
  }
  return work;
}
