/*
 * The functions of mcprt.h. Each checks in the same order: the arguments that it can
 * judge alone, then fork, then the handle, then the text; only then does anything
 * happen. What happens is elsewhere.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fork.h"
#include "gocalls.h"
#include "handlers.h"
#include "text.h"

_Static_assert(sizeof(size_t) >= 4 && MCPRT_FRAME_MAX < UINT32_MAX - 64, "a frame's size fits its field");
_Static_assert(MCPRT_TAG_MAX == (UINT64_C(1) << 52) - 1, "a double holds every tag");

static const mcprt_buf nothing = {NULL, 0};

/* An error that the C side found itself. `message` must not need escapes. */
static void explain(mcprt_buf *out, const char *code, const char *format, ...) {
  char message[256], json[400];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  snprintf(json, sizeof json, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"retryable\":false}}", code, message);
  mp_buf_set(out, json, strlen(json));
}

static bool bad_pointer(const char *text, size_t len) { return (!text && len != 0) || len > MCPRT_FRAME_MAX; }

/* For functions that have an `out`: the same with a reason. */
static bool explain_bad_pointer(const char *what, const char *text, size_t len, mcprt_buf *out) {
  if (!text && len != 0)
    explain(out, "invalid_request", "the %s is NULL but its length is %zu; NULL needs the length 0", what, len);
  else if (len > MCPRT_FRAME_MAX)
    explain(out, "invalid_request", "the %s has %zu bytes; at most %d are allowed", what, len, MCPRT_FRAME_MAX);
  return bad_pointer(text, len);
}

static void use_default(const char **text, size_t *len) {
  if (*text) return;
  *text = "{}";
  *len = 2;
}

static bool bad_text(const char *what, const char *text, size_t len, mcprt_buf *out) {
  struct mp_text_fault fault;
  if (mp_text_is_object(text, len, &fault)) return false;
  if (!out) return true;
  if (fault.at < len)
    explain(out, "invalid_request", "the %s is no JSON object: byte 0x%02x at offset %zu of %zu %s", what,
            (unsigned char)text[fault.at], fault.at, len, fault.why);
  else
    explain(out, "invalid_request", "the %s is no JSON object: its end at offset %zu %s", what, len, fault.why);
  return true;
}

mcprt_status mcprt_open(const char *options, size_t len, mcprt_mgr *mgr, mcprt_buf *out) {
  if (out) *out = nothing;
  if (mgr) *mgr = 0;
  if (!out) return MCPRT_EINVAL;
  if (!mgr) {
    explain(out, "invalid_request", "mgr is NULL; mcprt_open stores the handle there");
    return MCPRT_EINVAL;
  }
  if (explain_bad_pointer("options text", options, len, out)) return MCPRT_EINVAL;
  if (mp_forked()) return MCPRT_EFORK;
  mp_adopt_handlers();
  use_default(&options, &len);
  if (bad_text("options text", options, len, out)) return MCPRT_EINVAL;

  struct mp_manager *m = mp_manager_new();
  if (!m) return MCPRT_ENOMEM;
  struct mp_limits limits;
  int wake_fd = mp_wake_dup_reader(&m->to_go);
  mcprt_status status = MCPRT_ENOMEM;
  if (wake_fd >= 0) status = mcprtgo_open(m, (char *)options, len, wake_fd, &m->go, &limits, out);
  if (status != MCPRT_OK) {
    mp_manager_release(m);
    return status;
  }
  mp_lock(&m->lock); /* notices may be coming in */
  m->limits = limits;
  mp_unlock(&m->lock);
  if (!mp_handle_add(m)) {
    mp_free(m);
    mp_manager_release(m);
    return MCPRT_ENOMEM;
  }
  *mgr = m->handle;
  return MCPRT_OK;
}

mcprt_status mcprt_close(mcprt_mgr mgr, int32_t grace_ms) {
  if (mp_forked()) return MCPRT_EFORK;
  struct mp_manager *m = mp_handle_get(mgr);
  if (!m) return MCPRT_EHANDLE;
  mcprt_status status = mp_close(m, grace_ms);
  mp_manager_release(m);
  return status;
}

void mcprt_free(mcprt_mgr mgr) {
  if (mp_forked()) return;
  struct mp_manager *m = mp_handle_remove(mgr);
  if (!m) return;
  mp_free(m);
  mp_manager_release(m);
}

static mcprt_status run(mcprt_mgr mgr, int32_t verb, const char *req, size_t len, mcprt_buf *out) {
  if (!out) return MCPRT_EINVAL;
  *out = nothing;
  if (explain_bad_pointer("request", req, len, out)) return MCPRT_EINVAL;
  if (mp_forked()) return MCPRT_EFORK;
  mp_adopt_handlers();
  struct mp_manager *m = mp_handle_get(mgr);
  if (!m) return MCPRT_EHANDLE;
  use_default(&req, &len);
  mcprt_status status = MCPRT_EINVAL;
  if (!bad_text("request", req, len, out)) {
    status = mp_run(m, verb, req, len, out);
    if (status == MCPRT_ECLOSED && !out->ptr)
      explain(out, "closed", "the manager is closed; open a new one with mcprt_open");
  }
  mp_manager_release(m);
  return status;
}

mcprt_status mcprt_discover(mcprt_mgr mgr, const char *req, size_t len, mcprt_buf *out) {
  return run(mgr, MCPRT_DISCOVER, req, len, out);
}
mcprt_status mcprt_connect(mcprt_mgr mgr, const char *req, size_t len, mcprt_buf *out) {
  return run(mgr, MCPRT_CONNECT, req, len, out);
}
mcprt_status mcprt_list(mcprt_mgr mgr, const char *req, size_t len, mcprt_buf *out) {
  return run(mgr, MCPRT_LIST, req, len, out);
}
mcprt_status mcprt_call(mcprt_mgr mgr, const char *req, size_t len, mcprt_buf *out) {
  return run(mgr, MCPRT_CALL, req, len, out);
}
mcprt_status mcprt_reload(mcprt_mgr mgr, const char *req, size_t len, mcprt_buf *out) {
  return run(mgr, MCPRT_RELOAD, req, len, out);
}
mcprt_status mcprt_disconnect(mcprt_mgr mgr, const char *req, size_t len, mcprt_buf *out) {
  return run(mgr, MCPRT_DISCONNECT, req, len, out);
}

static bool good_submission(int32_t verb, uint32_t flags, uint64_t tag) {
  if (verb < MCPRT_DISCOVER || verb > MCPRT_CLOSE || tag == 0) return false;
  if (verb == MCPRT_REPLY) return flags == 0;
  return (flags & ~MCPRT_F_HOLD) == 0 && tag <= MCPRT_TAG_MAX;
}

mcprt_status mcprt_submit(mcprt_mgr mgr, int32_t verb, uint32_t flags, uint64_t tag, const char *req, size_t len) {
  if (bad_pointer(req, len) || !good_submission(verb, flags, tag)) return MCPRT_EINVAL;
  if (mp_forked()) return MCPRT_EFORK;
  mp_adopt_handlers();
  struct mp_manager *m = mp_handle_get(mgr);
  if (!m) return MCPRT_EHANDLE;
  use_default(&req, &len);
  mcprt_status status = MCPRT_EINVAL;
  if (!bad_text("request", req, len, NULL))
    status = verb == MCPRT_REPLY ? mp_reply(m, tag, req, len) : mp_submit(m, verb, flags, tag, req, len);
  mp_manager_release(m);
  return status;
}

mcprt_status mcprt_take(mcprt_mgr mgr, uint64_t tag, int32_t timeout_ms, mcprt_buf *out) {
  if (!out) return MCPRT_EINVAL;
  *out = nothing;
  if (mp_forked()) return MCPRT_EFORK;
  mp_adopt_handlers();
  struct mp_manager *m = mp_handle_get(mgr);
  if (!m) return MCPRT_EHANDLE;
  mcprt_status status = mp_take(m, tag, timeout_ms, out);
  mp_manager_release(m);
  return status;
}

mcprt_status mcprt_cancel(mcprt_mgr mgr, uint64_t tag, uint32_t flags) {
  if (flags & ~MCPRT_F_FORGET) return MCPRT_EINVAL;
  if (mp_forked()) return MCPRT_EFORK;
  struct mp_manager *m = mp_handle_get(mgr);
  if (!m) return MCPRT_EHANDLE;
  mcprt_status status = mp_cancel(m, tag, flags & MCPRT_F_FORGET);
  mp_manager_release(m);
  return status;
}

int32_t mcprt_drain(mcprt_mgr mgr, void *buf, size_t cap, size_t *used) {
  if (used) *used = 0;
  if (!used || (!buf && cap != 0)) return MCPRT_EINVAL;
  if (mp_forked()) return MCPRT_EFORK;
  mp_adopt_handlers();
  struct mp_manager *m = mp_handle_get(mgr);
  if (!m) return MCPRT_EHANDLE;
  int32_t count = mp_drain(m, buf, cap, used);
  mp_manager_release(m);
  return count;
}

int32_t mcprt_wait(mcprt_mgr mgr, int32_t timeout_ms) {
  if (mp_forked()) return MCPRT_EFORK;
  mp_adopt_handlers();
  struct mp_manager *m = mp_handle_get(mgr);
  if (!m) return MCPRT_EHANDLE;
  int32_t result = mp_wait(m, timeout_ms);
  mp_manager_release(m);
  return result;
}

int32_t mcprt_notify_fd(mcprt_mgr mgr) {
  if (mp_forked()) return MCPRT_EFORK;
  struct mp_manager *m = mp_handle_get(mgr);
  if (!m) return MCPRT_EHANDLE;
  int32_t fd = mp_notify_fd(m);
  mp_manager_release(m);
  return fd;
}

void mcprt_buf_free(mcprt_buf *b) {
  if (!b) return;
  free((void *)(uintptr_t)b->ptr);
  *b = nothing;
}
