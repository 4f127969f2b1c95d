/*
 * Tests of mcprt.h as a C program sees it. Linked with the C side and the stub
 * (stub.c), or with a library whose core is the scripted one: both answer alike.
 *
 *   ctest          all tests
 *   ctest NAME     one of them
 *   CTEST_GO=1     the library has a Go side: also what only Go can do wrong
 *   CTEST_SCALE=n  divides the number of rounds, for valgrind
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mcprt.h"

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: %s: not true: %s\n", __FILE__, __LINE__, __func__, #condition); \
      abort();                                                                                \
    }                                                                                         \
  } while (0)

#define EQUAL(got, want)                                                                                     \
  do {                                                                                                       \
    long long got_ = (long long)(got), want_ = (long long)(want);                                            \
    if (got_ != want_) {                                                                                     \
      fprintf(stderr, "%s:%d: %s: %s is %lld, not %lld\n", __FILE__, __LINE__, __func__, #got, got_, want_); \
      abort();                                                                                               \
    }                                                                                                        \
  } while (0)

static int scale = 1;
static bool with_go;

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(int ms) {
  struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000L};
  nanosleep(&t, NULL);
}

static mcprt_mgr opened(const char *options) {
  mcprt_mgr m = 0;
  mcprt_buf out;
  EQUAL(mcprt_open(options, strlen(options), &m, &out), MCPRT_OK);
  CHECK(m != 0 && m < UINT64_C(1) << 53);
  CHECK(!out.ptr && !out.len);
  return m;
}

static mcprt_status submit(mcprt_mgr m, int32_t verb, uint32_t flags, uint64_t tag, const char *req) {
  return mcprt_submit(m, verb, flags, tag, req, strlen(req));
}

static bool has(mcprt_buf b, const char *part) {
  CHECK(b.ptr && b.ptr[b.len] == 0);
  return strstr(b.ptr, part) != NULL;
}

/* ---- draining, for tests that look at frames one by one ---- */

struct event {
  uint64_t tag;
  int32_t status;
  int kind;
  uint32_t len;
  char data[512]; /* the beginning */
};

static struct event events[20000];
static int event_count;

/* Drains once; the events are appended. */
static int drain(mcprt_mgr m) {
  static _Alignas(8) char buf[1 << 18];
  size_t used = 1;
  int32_t n = mcprt_drain(m, buf, sizeof buf, &used);
  int32_t seen = 0;
  for (size_t at = 0; at < used; seen++) {
    mcprt_frame f;
    memcpy(&f, buf + at, sizeof f);
    EQUAL(f.reserved, 0);
    EQUAL(f.size % 8, 0);
    CHECK(f.size > sizeof f + f.len && f.size <= sizeof f + f.len + 8);
    for (size_t i = at + sizeof f + f.len; i < at + f.size; i++) EQUAL(buf[i], 0);
    CHECK(event_count < (int)(sizeof events / sizeof *events));
    struct event *e = &events[event_count++];
    *e = (struct event){f.tag, f.status, f.kind, f.len, ""};
    memcpy(e->data, buf + at + sizeof f, f.len < sizeof e->data ? f.len : sizeof e->data - 1);
    at += f.size;
  }
  if (n >= 0) EQUAL(seen, n);
  else EQUAL(used, 0);
  return n;
}

static void forget_events(void) { event_count = 0; }

/* Waits for the first event of a kind (and tag, unless 0), which is not in `events`
 * yet or already is. */
static struct event *await_event(mcprt_mgr m, int kind, uint64_t tag) {
  int64_t end = now_ms() + 20000;
  for (;;) {
    for (int i = 0; i < event_count; i++)
      if (events[i].kind == kind && (tag == 0 || events[i].tag == tag)) return &events[i];
    CHECK(now_ms() < end);
    CHECK(mcprt_wait(m, 1000) >= 0);
    CHECK(drain(m) >= 0);
  }
}

static int count_events(int kind) {
  int n = 0;
  for (int i = 0; i < event_count; i++) n += events[i].kind == kind;
  return n;
}

static void close_and_free(mcprt_mgr m) {
  EQUAL(mcprt_close(m, 0), MCPRT_OK);
  mcprt_free(m);
}

#define ECHO "{\"tool\":\"mcp_demo_echo\",\"arguments\":{\"text\":\"hi\"}}"
#define HANG "{\"tool\":\"mcp_demo_hang\"}"
#define FAIL "{\"tool\":\"mcp_demo_fail\"}"
#define ASK "{\"tool\":\"mcp_demo_ask\"}"
#define SLOW(ms) "{\"tool\":\"mcp_demo_slow\",\"arguments\":{\"ms\":" #ms "}}"

/* ---- version, names ---- */

static void test_version(void) {
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", MCPRT_VERSION_MAJOR, MCPRT_VERSION_MINOR, MCPRT_VERSION_PATCH);
  CHECK(strcmp(mcprt_version(), version) == 0);
  EQUAL(MCPRT_CHECK(), MCPRT_OK);
  EQUAL(mcprt_check(MCPRT_ABI, 0), MCPRT_OK);
  EQUAL(mcprt_check(MCPRT_ABI + 1, 0), MCPRT_EVERSION);
  EQUAL(mcprt_check(-1, 0), MCPRT_EVERSION);
  EQUAL(mcprt_check(MCPRT_ABI, MCPRT_VERSION_MINOR + 1), MCPRT_EVERSION);
  CHECK(strcmp(mcprt_status_name(MCPRT_OK), "MCPRT_OK") == 0);
  CHECK(strcmp(mcprt_status_name(MCPRT_ETIMEOUT), "MCPRT_ETIMEOUT") == 0);
  CHECK(strcmp(mcprt_status_name(MCPRT_EINTERNAL), "MCPRT_EINTERNAL") == 0);
  CHECK(mcprt_status_name(12345) && mcprt_status_name(INT32_MIN));
}

/* ---- arguments ---- */

typedef mcprt_status verb_function(mcprt_mgr, const char *, size_t, mcprt_buf *);
static verb_function *const verbs[] = {mcprt_discover, mcprt_connect, mcprt_list, mcprt_call, mcprt_reload, mcprt_disconnect};
#define VERBS (sizeof verbs / sizeof *verbs)

static const struct { const char *text; size_t len; const char *says; } bad_texts[] = {
#define BAD(text, says) {text, sizeof text - 1, says}
  BAD("", "offset 0"),
  BAD("junk", "byte 0x6a at offset 0 of 4"),
  BAD("[]", "offset 0"),
  BAD("null", "offset 0"),
  BAD("\"{}\"", "offset 0"),
  BAD("{", "offset 1"),
  BAD("{}x", "offset 2"),
  BAD("{}\0", "byte 0x00 at offset 2"),
  BAD("{\"a\"}", "offset 4"),
  BAD("{\"a\":}", "offset 5"),
  BAD("{\"a\":1,}", "offset 7"),
  BAD("{\"a\":1 \"b\":2}", "offset 7"),
  BAD("{\"a\":[1,2}", "offset 9"),
  BAD("{\"a\":[1,]}", "offset 8"),
  BAD("{\"a\":01}", "leading zero"),
  BAD("{\"a\":1.}", "offset 7"),
  BAD("{\"a\":-}", "offset 6"),
  BAD("{\"a\":1e}", "offset 7"),
  BAD("{\"a\":tru}", "offset 5"),
  BAD("{\"a\":NaN}", "offset 5"),
  BAD("{\"a\":\"x}", "does not end"),
  BAD("{\"a\":\"\\x\"}", "escape"),
  BAD("{\"a\":\"\\u12g4\"}", "hex"),
  BAD("{\"a\":\"\\", "escape"),
  BAD("{\"a\":\"tab\there\"}", "control"),
  BAD("{\"a\":\"\0\"}", "control"),
  BAD("{'a':1}", "offset 1"),
  BAD("{a:1}", "offset 1"),
  BAD("\xef\xbb\xbf{}", "offset 0"),
  BAD("{\"a\":\"\xff\"}", "byte 0xff at offset 6 of 9 is not UTF-8"),
  BAD("{\"a\":\"\xc0\x80\"}", "not UTF-8"),
  BAD("{\"a\":\"\xc3\"}", "not UTF-8"),
  BAD("{\"a\":\"\xe0\x80\x80\"}", "not UTF-8"),
  BAD("{\"a\":\"\xed\xa0\x80\"}", "not UTF-8"),
  BAD("{\"a\":\"\xf0\x80\x80\x80\"}", "not UTF-8"),
  BAD("{\"a\":\"\xf4\x90\x80\x80\"}", "not UTF-8"),
  BAD("{\"a\":\"\xf5\x80\x80\x80\"}", "not UTF-8"),
  BAD("{\"\xff\":1}", "not UTF-8"),
  BAD("{\"a\":\"\xe2\x82", "not UTF-8"),
#undef BAD
};

static void test_bad_text(void) {
  mcprt_mgr m = opened("{}"), none = 7;
  mcprt_buf out;
  for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++) {
    /* On the heap and of the exact size, so that a read past the end is found. */
    size_t len = bad_texts[i].len;
    char *text = malloc(len ? len : 1);
    CHECK(text);
    memcpy(text, bad_texts[i].text, len);
    for (size_t v = 0; v < VERBS; v++) {
      EQUAL(verbs[v](m, text, len, &out), MCPRT_EINVAL);
      CHECK(has(out, "\"code\":\"invalid_request\"") && has(out, bad_texts[i].says));
      mcprt_buf_free(&out);
    }
    EQUAL(mcprt_submit(m, MCPRT_CALL, 0, 1, text, len), MCPRT_EINVAL);
    EQUAL(mcprt_submit(m, MCPRT_CLOSE, 0, 1, text, len), MCPRT_EINVAL);
    none = 7;
    EQUAL(mcprt_open(text, len, &none, &out), MCPRT_EINVAL);
    EQUAL(none, 0);
    CHECK(has(out, bad_texts[i].says));
    mcprt_buf_free(&out);
    free(text);
  }
  /* Nothing was queued by any of them. */
  forget_events();
  EQUAL(drain(m), 0);
  /* Depth is bounded, and what is just below the bound is not refused. */
  for (size_t depth = 999; depth <= 1001; depth += 2) {
    char deep[4096] = "{\"tool\":\"mcp_demo_echo\",\"arguments\":{\"text\":\"x\"},\"deep\":";
    size_t n = strlen(deep);
    memset(deep + n, '[', depth - 1);
    memset(deep + n + depth - 1, ']', depth - 1);
    n += 2 * (depth - 1);
    deep[n++] = '}';
    EQUAL(mcprt_call(m, deep, n, &out), depth < 1000 ? MCPRT_OK : MCPRT_EINVAL);
    mcprt_buf_free(&out);
  }
  close_and_free(m);
}

static void test_arguments(void) {
  mcprt_mgr m = opened("{}"), none = 7;
  mcprt_buf out = {"x", 1};
  size_t used = 7;
  char buf[64];

  EQUAL(mcprt_open(NULL, 3, &none, &out), MCPRT_EINVAL);
  EQUAL(none, 0);
  CHECK(has(out, "NULL"));
  mcprt_buf_free(&out);
  CHECK(!out.ptr && !out.len);
  EQUAL(mcprt_open("{}", 2, NULL, &out), MCPRT_EINVAL);
  mcprt_buf_free(&out);
  none = 7;
  EQUAL(mcprt_open("{}", 2, &none, NULL), MCPRT_EINVAL);
  EQUAL(none, 0);
  EQUAL(mcprt_open("{}", (size_t)MCPRT_FRAME_MAX + 1, &none, &out), MCPRT_EINVAL); /* and does not read it */
  CHECK(has(out, "1073741825"));
  mcprt_buf_free(&out);
  EQUAL(mcprt_open("{}", SIZE_MAX, &none, &out), MCPRT_EINVAL);
  mcprt_buf_free(&out);
  const char *refuse = "{\"stubRefuse\":true}";
  EQUAL(mcprt_open(refuse, strlen(refuse), &none, &out), MCPRT_EINVAL);
  EQUAL(none, 0);
  CHECK(has(out, "told to refuse"));
  mcprt_buf_free(&out);

  for (size_t v = 0; v < VERBS; v++) {
    EQUAL(verbs[v](m, "{}", 2, NULL), MCPRT_EINVAL);
    EQUAL(verbs[v](m, NULL, 1, &out), MCPRT_EINVAL);
    CHECK(has(out, "NULL needs the length 0"));
    mcprt_buf_free(&out);
    EQUAL(verbs[v](m, "{}", (size_t)MCPRT_FRAME_MAX + 1, &out), MCPRT_EINVAL);
    mcprt_buf_free(&out);
  }
  EQUAL(mcprt_list(m, NULL, 0, &out), MCPRT_OK); /* NULL, 0 means {} */
  mcprt_buf_free(&out);

  static const int32_t wrong_verbs[] = {0, -1, 9, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < 5; i++) EQUAL(submit(m, wrong_verbs[i], 0, 1, "{}"), MCPRT_EINVAL);
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_FORGET, 1, ECHO), MCPRT_EINVAL);
  EQUAL(submit(m, MCPRT_CALL, 0x80000000u, 1, ECHO), MCPRT_EINVAL);
  EQUAL(submit(m, MCPRT_CALL, 0, 0, ECHO), MCPRT_EINVAL);
  EQUAL(submit(m, MCPRT_CALL, 0, MCPRT_TAG_MAX + 1, ECHO), MCPRT_EINVAL);
  EQUAL(submit(m, MCPRT_CALL, 0, UINT64_MAX, ECHO), MCPRT_EINVAL);
  EQUAL(submit(m, MCPRT_REPLY, MCPRT_F_HOLD, MCPRT_TAG_MAX + 1, "{}"), MCPRT_EINVAL);
  EQUAL(submit(m, MCPRT_REPLY, 0, 1, "{}"), MCPRT_ETAG);
  EQUAL(mcprt_submit(m, MCPRT_CALL, 0, 1, NULL, 1), MCPRT_EINVAL);
  EQUAL(mcprt_submit(m, MCPRT_CALL, 0, 1, "{}", SIZE_MAX), MCPRT_EINVAL);

  EQUAL(mcprt_take(m, 1, 0, NULL), MCPRT_EINVAL);
  out = (mcprt_buf){"x", 1};
  EQUAL(mcprt_take(m, 1, 0, &out), MCPRT_ETAG);
  CHECK(!out.ptr && !out.len);
  EQUAL(mcprt_take(m, 0, 0, &out), MCPRT_ETAG);
  EQUAL(mcprt_cancel(m, 1, 0), MCPRT_OK); /* unknown tags are not an error */
  EQUAL(mcprt_cancel(m, 0, MCPRT_F_FORGET), MCPRT_OK);
  EQUAL(mcprt_cancel(m, UINT64_MAX, 0), MCPRT_OK);
  EQUAL(mcprt_cancel(m, 1, MCPRT_F_HOLD), MCPRT_EINVAL);
  EQUAL(mcprt_drain(m, buf, sizeof buf, NULL), MCPRT_EINVAL);
  EQUAL(mcprt_drain(m, NULL, 8, &used), MCPRT_EINVAL);
  EQUAL(used, 0);
  EQUAL(mcprt_drain(m, NULL, 0, &used), 0);
  EQUAL(mcprt_wait(m, 0), 0);
  mcprt_buf_free(NULL);
  out = (mcprt_buf){NULL, 0};
  mcprt_buf_free(&out);
  close_and_free(m);
}

static void check_stale(mcprt_mgr m) {
  mcprt_buf out = {"x", 1};
  size_t used = 7;
  char buf[64];
  EQUAL(mcprt_close(m, 0), MCPRT_EHANDLE);
  for (size_t v = 0; v < VERBS; v++) {
    out = (mcprt_buf){"x", 1};
    EQUAL(verbs[v](m, "{}", 2, &out), MCPRT_EHANDLE);
    CHECK(!out.ptr && !out.len);
  }
  EQUAL(submit(m, MCPRT_CALL, 0, 1, ECHO), MCPRT_EHANDLE);
  EQUAL(submit(m, MCPRT_REPLY, 0, MCPRT_TAG_MAX + 1, "{}"), MCPRT_EHANDLE);
  EQUAL(mcprt_take(m, 1, -1, &out), MCPRT_EHANDLE);
  EQUAL(mcprt_cancel(m, 1, 0), MCPRT_EHANDLE);
  EQUAL(mcprt_drain(m, buf, sizeof buf, &used), MCPRT_EHANDLE);
  EQUAL(used, 0);
  EQUAL(mcprt_wait(m, -1), MCPRT_EHANDLE);
  EQUAL(mcprt_notify_fd(m), MCPRT_EHANDLE);
  mcprt_free(m);
}

static void test_stale_handles(void) {
  mcprt_mgr m = opened("{}"), other = opened("{}");
  CHECK(other != m);
  mcprt_free(m);
  check_stale(m);
  check_stale(0);
  check_stale(m + 1000000);
  check_stale(UINT64_MAX);
  mcprt_mgr last = other;
  for (int i = 0; i < 50; i++) { /* never reused */
    mcprt_mgr next = opened("{}");
    CHECK(next > last);
    last = next;
    mcprt_free(next);
  }
  close_and_free(other);
}

/* ---- verbs and submissions ---- */

static void test_blocking(void) {
  mcprt_mgr m = opened("{}");
  mcprt_buf out;
  for (size_t v = 0; v < VERBS; v++) {
    if (verbs[v] == mcprt_call) continue;
    EQUAL(verbs[v](m, "{}", 2, &out), MCPRT_OK);
    CHECK(out.len > 2 && out.ptr[0] == '{' && out.ptr[out.len - 1] == '}' && strlen(out.ptr) == out.len);
    mcprt_buf_free(&out);
  }
  EQUAL(mcprt_call(m, ECHO, strlen(ECHO), &out), MCPRT_OK);
  CHECK(has(out, "{\"type\":\"text\",\"text\":\"hi\"}"));
  mcprt_buf_free(&out);
  EQUAL(mcprt_call(m, FAIL, strlen(FAIL), &out), MCPRT_EFAILED);
  CHECK(has(out, "\"code\":\"rpc_error\""));
  mcprt_buf_free(&out);
  const char *late = "{\"tool\":\"mcp_demo_slow\",\"arguments\":{\"ms\":10000},\"timeoutMs\":20}";
  EQUAL(mcprt_call(m, late, strlen(late), &out), MCPRT_ETIMEOUT);
  CHECK(has(out, "\"code\":\"timeout\""));
  mcprt_buf_free(&out);
  const char *big = "{\"tool\":\"mcp_demo_big\",\"arguments\":{\"bytes\":3000000}}";
  EQUAL(mcprt_call(m, big, strlen(big), &out), MCPRT_OK);
  CHECK(out.len > 3000000 && out.ptr[1500000] == 'x' && strlen(out.ptr) == out.len);
  mcprt_buf_free(&out);
  close_and_free(m);
}

static void test_submit(void) {
  mcprt_mgr m = opened("{}");
  forget_events();
  EQUAL(submit(m, MCPRT_CALL, 0, 5, ECHO), MCPRT_OK);
  struct event *done = await_event(m, MCPRT_EV_DONE, 5);
  EQUAL(done->status, MCPRT_OK);
  CHECK(strstr(done->data, "\"text\":\"hi\""));

  /* A tag is in use until its completion was drained. */
  EQUAL(submit(m, MCPRT_CALL, 0, 5, HANG), MCPRT_OK);
  EQUAL(submit(m, MCPRT_CALL, 0, 5, ECHO), MCPRT_ETAG);
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 5, ECHO), MCPRT_ETAG);
  EQUAL(submit(m, MCPRT_CALL, 0, MCPRT_TAG_MAX, ECHO), MCPRT_OK);
  await_event(m, MCPRT_EV_DONE, MCPRT_TAG_MAX);
  EQUAL(mcprt_cancel(m, 5, 0), MCPRT_OK);
  EQUAL(mcprt_cancel(m, 5, 0), MCPRT_OK);
  EQUAL(mcprt_wait(m, 10000), 1);
  EQUAL(submit(m, MCPRT_CALL, 0, 5, ECHO), MCPRT_ETAG); /* done, not drained */
  forget_events();
  done = await_event(m, MCPRT_EV_DONE, 5);
  EQUAL(done->status, MCPRT_ECANCELED);
  CHECK(strstr(done->data, "\"code\":\"canceled\"") && !strstr(done->data, "\"result\""));
  EQUAL(mcprt_cancel(m, 5, 0), MCPRT_OK);
  forget_events();
  EQUAL(submit(m, MCPRT_CALL, 0, 5, ECHO), MCPRT_OK);
  EQUAL(await_event(m, MCPRT_EV_DONE, 5)->status, MCPRT_OK);

  /* The caller's buffer is its own again at once. */
  char req[sizeof ECHO];
  memcpy(req, ECHO, sizeof ECHO);
  EQUAL(submit(m, MCPRT_CALL, 0, 6, req), MCPRT_OK);
  memset(req, 'z', sizeof req);
  EQUAL(await_event(m, MCPRT_EV_DONE, 6)->status, MCPRT_OK);

  /* Progress comes before the end, with the operation's tag inside. */
  forget_events();
  EQUAL(submit(m, MCPRT_CALL, 0, 7, "{\"tool\":\"mcp_demo_slow\",\"arguments\":{\"ms\":1},\"progress\":true}"), MCPRT_OK);
  await_event(m, MCPRT_EV_DONE, 7);
  EQUAL(count_events(MCPRT_EV_NOTICE), 3);
  for (int i = 0; i < 3; i++) {
    char want[32];
    snprintf(want, sizeof want, "\"progress\":%d", i + 1);
    EQUAL(events[i].kind, MCPRT_EV_NOTICE);
    CHECK(strstr(events[i].data, "\"tag\":7,") && strstr(events[i].data, want));
  }
  close_and_free(m);
}

static void test_every_tag_once(void) {
  enum { MANY = 3000 };
  mcprt_mgr m = opened("{}");
  int count = MANY / scale;
  forget_events();
  for (int i = 1; i <= count; i++) {
    EQUAL(submit(m, MCPRT_CALL, 0, (uint64_t)i << 20, i % 3 ? ECHO : HANG), MCPRT_OK);
    if (i % 3 == 0) EQUAL(mcprt_cancel(m, (uint64_t)i << 20, 0), MCPRT_OK);
  }
  while (event_count < count) {
    CHECK(mcprt_wait(m, 10000) == 1);
    drain(m);
  }
  static char seen[MANY + 1];
  memset(seen, 0, sizeof seen);
  for (int i = 0; i < event_count; i++) {
    uint64_t n = events[i].tag >> 20;
    CHECK(n >= 1 && n <= (uint64_t)count && !seen[n]);
    seen[n] = 1;
    EQUAL(events[i].status, n % 3 ? MCPRT_OK : MCPRT_ECANCELED);
  }
  EQUAL(mcprt_wait(m, 0), 0);
  close_and_free(m);
}

/* ---- drain ---- */

static void test_drain_small(void) {
  mcprt_mgr m = opened("{}");
  EQUAL(submit(m, MCPRT_CALL, 0, 1, "{\"tool\":\"mcp_demo_big\",\"arguments\":{\"bytes\":1000}}"), MCPRT_OK);
  EQUAL(mcprt_wait(m, 10000), 1);
  EQUAL(submit(m, MCPRT_CALL, 0, 2, ECHO), MCPRT_OK);
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 3, ECHO), MCPRT_OK);
  mcprt_buf out;
  EQUAL(mcprt_take(m, 3, -1, &out), MCPRT_OK); /* so 2 has ended as well: one worker, in order */
  mcprt_buf_free(&out);

  size_t need = 0, used = 0;
  EQUAL(mcprt_drain(m, NULL, 0, &need), MCPRT_ERANGE);
  CHECK(need > 1000 && need % 8 == 0);
  for (size_t cap = 0; cap < need; cap += cap < need - 1 && cap + 97 >= need ? need - 1 - cap : 97) {
    char *exact = malloc(cap + 1);
    CHECK(exact);
    EQUAL(mcprt_drain(m, exact, cap, &used), MCPRT_ERANGE); /* nothing was removed */
    EQUAL(used, need);
    free(exact);
  }
  char *exact = malloc(need + 1);
  CHECK(exact);
  EQUAL(mcprt_drain(m, exact + 1, need, &used), 1); /* any alignment; whole items only */
  EQUAL(used, need);
  mcprt_frame f;
  memcpy(&f, exact + 1, sizeof f);
  EQUAL(f.tag, 1);
  EQUAL(f.size, need);
  EQUAL(f.kind, MCPRT_EV_DONE);
  CHECK(exact[1 + sizeof f + f.len] == 0);
  free(exact);
  forget_events();
  EQUAL(drain(m), 1);
  EQUAL(events[0].tag, 2);
  EQUAL(drain(m), 0);
  close_and_free(m);
}

/* ---- take ---- */

static void test_take(void) {
  mcprt_mgr m = opened("{}");
  mcprt_buf out;
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 1, SLOW(120)), MCPRT_OK);
  EQUAL(mcprt_take(m, 1, 0, &out), MCPRT_EAGAIN);
  CHECK(!out.ptr);
  int slices = 0;
  mcprt_status s;
  while ((s = mcprt_take(m, 1, 20, &out)) == MCPRT_EAGAIN) {
    CHECK(!out.ptr && !out.len);
    slices++;
  }
  EQUAL(s, MCPRT_OK);
  CHECK(slices >= 2 && has(out, "slept 120 ms"));
  mcprt_buf_free(&out);
  EQUAL(mcprt_take(m, 1, -1, &out), MCPRT_ETAG);
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 1, ECHO), MCPRT_OK); /* the tag is free */
  EQUAL(mcprt_take(m, 1, -1, &out), MCPRT_OK);
  mcprt_buf_free(&out);

  /* The operation's own status, not the wait's. */
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 2, "{\"tool\":\"mcp_demo_slow\",\"arguments\":{\"ms\":10000},\"timeoutMs\":10}"), MCPRT_OK);
  EQUAL(mcprt_take(m, 2, 10000, &out), MCPRT_ETIMEOUT);
  CHECK(has(out, "timeout"));
  mcprt_buf_free(&out);
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 3, HANG), MCPRT_OK);
  EQUAL(mcprt_cancel(m, 3, 0), MCPRT_OK);
  EQUAL(mcprt_take(m, 3, 10000, &out), MCPRT_ECANCELED);
  mcprt_buf_free(&out);

  /* What is not held cannot be taken, and what is held is not drained. */
  EQUAL(submit(m, MCPRT_CALL, 0, 4, ECHO), MCPRT_OK);
  EQUAL(mcprt_take(m, 4, 0, &out), MCPRT_ETAG);
  forget_events();
  await_event(m, MCPRT_EV_DONE, 4);
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 5, ECHO), MCPRT_OK);
  EQUAL(submit(m, MCPRT_CALL, 0, 6, ECHO), MCPRT_OK);
  await_event(m, MCPRT_EV_DONE, 6);
  EQUAL(event_count, 2);
  EQUAL(submit(m, MCPRT_CALL, 0, 5, ECHO), MCPRT_ETAG);
  EQUAL(mcprt_take(m, 5, 0, &out), MCPRT_OK);
  mcprt_buf_free(&out);

  /* After close, a held completion can still be taken. */
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 7, HANG), MCPRT_OK);
  EQUAL(mcprt_close(m, 0), MCPRT_OK);
  EQUAL(mcprt_take(m, 7, -1, &out), MCPRT_ECLOSED);
  CHECK(has(out, "closed"));
  mcprt_buf_free(&out);
  mcprt_free(m);
}

static void test_forget(void) {
  mcprt_mgr m = opened("{\"maxInFlight\":8}");
  mcprt_buf out;
  /* Done already: gone at once. */
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 1, ECHO), MCPRT_OK);
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 2, ECHO), MCPRT_OK);
  EQUAL(mcprt_take(m, 2, -1, &out), MCPRT_OK);
  mcprt_buf_free(&out);
  EQUAL(mcprt_cancel(m, 1, MCPRT_F_FORGET), MCPRT_OK);
  EQUAL(mcprt_take(m, 1, 0, &out), MCPRT_ETAG);
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 1, HANG), MCPRT_OK);
  /* Not done: no completion, and the slot comes back. */
  EQUAL(mcprt_cancel(m, 1, MCPRT_F_FORGET), MCPRT_OK);
  EQUAL(mcprt_take(m, 1, 0, &out), MCPRT_ETAG);
  EQUAL(mcprt_cancel(m, 1, MCPRT_F_FORGET), MCPRT_OK);
  for (int i = 0; i < 500 / scale; i++) {
    int64_t end = now_ms() + 10000;
    while (submit(m, MCPRT_CALL, MCPRT_F_HOLD, 10 + (uint64_t)i, i % 2 ? HANG : ECHO) == MCPRT_EBUSY) {
      CHECK(now_ms() < end);
      sleep_ms(1);
    }
    EQUAL(mcprt_cancel(m, 10 + (uint64_t)i, MCPRT_F_FORGET), MCPRT_OK);
  }
  EQUAL(mcprt_wait(m, 0), 0);
  /* On an operation that is not held it only cancels. */
  forget_events();
  int64_t end = now_ms() + 10000;
  while (submit(m, MCPRT_CALL, 0, 9, HANG) == MCPRT_EBUSY && now_ms() < end) sleep_ms(1);
  EQUAL(mcprt_cancel(m, 9, MCPRT_F_FORGET), MCPRT_OK);
  EQUAL(await_event(m, MCPRT_EV_DONE, 9)->status, MCPRT_ECANCELED);
  close_and_free(m);
}

struct taker {
  mcprt_mgr m;
  uint64_t tag;
  mcprt_status status;
};

static void *take_in_thread(void *arg) {
  struct taker *t = arg;
  mcprt_buf out;
  t->status = mcprt_take(t->m, t->tag, -1, &out);
  mcprt_buf_free(&out);
  return NULL;
}

static void *wait_in_thread(void *arg) {
  struct taker *t = arg;
  t->status = mcprt_wait(t->m, -1);
  return NULL;
}

static void test_blocked_takers(void) {
  mcprt_mgr m = opened("{}");
  struct taker takers[4];
  pthread_t threads[4];
  /* Many wait for one operation: one of them gets it. */
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 1, SLOW(60)), MCPRT_OK);
  for (int i = 0; i < 4; i++) {
    takers[i] = (struct taker){m, 1, 99};
    CHECK(pthread_create(&threads[i], NULL, take_in_thread, &takers[i]) == 0);
  }
  int got = 0;
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    CHECK(takers[i].status == MCPRT_OK || takers[i].status == MCPRT_ETAG);
    got += takers[i].status == MCPRT_OK;
  }
  EQUAL(got, 1);
  /* Forgotten while they wait. */
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 2, HANG), MCPRT_OK);
  for (int i = 0; i < 4; i++) {
    takers[i] = (struct taker){m, 2, 99};
    CHECK(pthread_create(&threads[i], NULL, take_in_thread, &takers[i]) == 0);
  }
  sleep_ms(30);
  EQUAL(mcprt_cancel(m, 2, MCPRT_F_FORGET), MCPRT_OK);
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    EQUAL(takers[i].status, MCPRT_ETAG);
  }
  /* Freed while they wait. */
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 3, HANG), MCPRT_OK);
  for (int i = 0; i < 4; i++) {
    takers[i] = (struct taker){m, 3, 99};
    CHECK(pthread_create(&threads[i], NULL, i < 2 ? take_in_thread : wait_in_thread, &takers[i]) == 0);
  }
  sleep_ms(30);
  mcprt_free(m);
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    EQUAL(takers[i].status, MCPRT_EHANDLE);
  }
}

/* ---- limits ---- */

static void test_notice_limits(void) {
  mcprt_mgr m = opened("{\"maxNotices\":100}");
  forget_events();
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 1, "{\"tool\":\"mcp_demo_flood\",\"arguments\":{\"count\":150}}"), MCPRT_OK);
  mcprt_buf out;
  EQUAL(mcprt_take(m, 1, -1, &out), MCPRT_OK);
  mcprt_buf_free(&out);
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 2, "{\"tool\":\"mcp_demo_flood\",\"arguments\":{\"count\":1000}}"), MCPRT_OK);
  EQUAL(mcprt_take(m, 2, -1, &out), MCPRT_OK);
  mcprt_buf_free(&out);
  EQUAL(submit(m, MCPRT_CALL, 0, 3, ECHO), MCPRT_OK);
  await_event(m, MCPRT_EV_DONE, 3);
  /* The oldest hundred, one gap where the rest is missing, the end. */
  EQUAL(event_count, 102);
  for (int i = 0; i < 100; i++) {
    char want[32];
    snprintf(want, sizeof want, "\"data\":%d}", i + 1);
    EQUAL(events[i].kind, MCPRT_EV_NOTICE);
    CHECK(strstr(events[i].data, want));
  }
  EQUAL(events[100].kind, MCPRT_EV_DROPPED);
  EQUAL(events[100].status, 1050);
  EQUAL(events[100].tag, 0);
  EQUAL(events[101].kind, MCPRT_EV_DONE);
  /* Room again. */
  forget_events();
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 4, "{\"tool\":\"mcp_demo_flood\",\"arguments\":{\"count\":100}}"), MCPRT_OK);
  EQUAL(mcprt_take(m, 4, -1, &out), MCPRT_OK);
  mcprt_buf_free(&out);
  CHECK(drain(m) > 0);
  EQUAL(count_events(MCPRT_EV_NOTICE), 100);
  EQUAL(count_events(MCPRT_EV_DROPPED), 0);
  close_and_free(m);

  m = opened("{\"noticeBytes\":1000}");
  forget_events();
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 1, "{\"tool\":\"mcp_demo_flood\",\"arguments\":{\"count\":50}}"), MCPRT_OK);
  EQUAL(mcprt_take(m, 1, -1, &out), MCPRT_OK);
  mcprt_buf_free(&out);
  CHECK(drain(m) > 0);
  size_t bytes = 0;
  int dropped = 0;
  for (int i = 0; i < event_count; i++) {
    if (events[i].kind == MCPRT_EV_NOTICE) bytes += (sizeof(mcprt_frame) + events[i].len + 8) & ~(size_t)7;
    if (events[i].kind == MCPRT_EV_DROPPED) dropped += events[i].status;
  }
  CHECK(bytes > 800 && bytes <= 1000);
  EQUAL(dropped + count_events(MCPRT_EV_NOTICE), 50);
  close_and_free(m);

  m = opened("{\"maxNotices\":0}");
  forget_events();
  EQUAL(submit(m, MCPRT_CALL, MCPRT_F_HOLD, 1, "{\"tool\":\"mcp_demo_flood\",\"arguments\":{\"count\":5}}"), MCPRT_OK);
  EQUAL(mcprt_take(m, 1, -1, &out), MCPRT_OK);
  mcprt_buf_free(&out);
  EQUAL(drain(m), 1);
  EQUAL(events[0].kind, MCPRT_EV_DROPPED);
  EQUAL(events[0].status, 5);
  close_and_free(m);
}

/* A host that submits and never drains. */
static void test_never_drains(void) {
  mcprt_mgr m = opened("{\"maxInFlight\":50}");
  int accepted = 0;
  for (uint64_t tag = 1; tag <= 1000; tag++) {
    mcprt_status s = submit(m, MCPRT_CALL, tag % 2 ? 0 : MCPRT_F_HOLD, tag, ECHO);
    CHECK(s == MCPRT_OK || s == MCPRT_EBUSY);
    accepted += s == MCPRT_OK;
  }
  EQUAL(accepted, 50);
  EQUAL(submit(m, MCPRT_DISCONNECT, 0, 2001, "{}"), MCPRT_OK); /* never refused so */
  mcprt_buf out;
  EQUAL(mcprt_call(m, ECHO, strlen(ECHO), &out), MCPRT_OK); /* blocking verbs are not counted */
  mcprt_buf_free(&out);
  EQUAL(mcprt_take(m, 2, -1, &out), MCPRT_OK); /* makes room... */
  mcprt_buf_free(&out);
  EQUAL(submit(m, MCPRT_CALL, 0, 3001, ECHO), MCPRT_EBUSY); /* ...which DISCONNECT had used */
  forget_events();
  while (event_count < 26) CHECK(mcprt_wait(m, 10000) == 1 && drain(m) >= 0);
  EQUAL(submit(m, MCPRT_CALL, 0, 3001, ECHO), MCPRT_OK);
  EQUAL(submit(m, MCPRT_CLOSE, 0, 3002, "{\"graceMs\":0}"), MCPRT_OK);
  await_event(m, MCPRT_EV_CLOSED, 0);
  mcprt_free(m);

  m = opened("{\"queueBytes\":100000}");
  accepted = 0;
  for (uint64_t tag = 1; tag <= 200; tag++) {
    mcprt_status s = submit(m, MCPRT_CALL, tag % 2 ? 0 : MCPRT_F_HOLD, tag, "{\"tool\":\"mcp_demo_big\",\"arguments\":{\"bytes\":10000}}");
    if (s == MCPRT_EBUSY) break;
    EQUAL(s, MCPRT_OK);
    accepted++;
    mcprt_buf none;
    s = submit(m, MCPRT_LIST, MCPRT_F_HOLD, 1000 + tag, "{}");
    if (s == MCPRT_EBUSY) break; /* the answer to the call is there already */
    EQUAL(s, MCPRT_OK);
    EQUAL(mcprt_take(m, 1000 + tag, -1, &none), MCPRT_OK); /* until the other has ended */
    mcprt_buf_free(&none);
  }
  CHECK(accepted >= 9 && accepted <= 11);
  EQUAL(submit(m, MCPRT_LIST, 0, 500, "{}"), MCPRT_EBUSY);
  forget_events();
  while (mcprt_wait(m, 0) == 1) drain(m);
  EQUAL(submit(m, MCPRT_LIST, 0, 500, "{}"), MCPRT_OK);
  mcprt_free(m);
}

/* ---- questions to the host ---- */

static uint64_t ask(mcprt_mgr m, uint64_t tag) {
  forget_events();
  EQUAL(submit(m, MCPRT_CALL, 0, tag, ASK), MCPRT_OK);
  struct event *question = await_event(m, MCPRT_EV_REQUEST, 0);
  CHECK(question->tag > MCPRT_TAG_MAX && question->tag < UINT64_C(1) << 53);
  CHECK(strstr(question->data, "elicitation/create"));
  return question->tag;
}

static void test_requests(void) {
  mcprt_mgr m = opened("{}");
  uint64_t question = ask(m, 1);
  EQUAL(submit(m, MCPRT_REPLY, 0, question + 1, "{\"result\":{}}"), MCPRT_ETAG);
  EQUAL(submit(m, MCPRT_REPLY, 0, question, "junk"), MCPRT_EINVAL); /* still open */
  EQUAL(submit(m, MCPRT_REPLY, 0, question, "{\"result\":{\"name\":\"Ada\"}}"), MCPRT_OK);
  EQUAL(submit(m, MCPRT_REPLY, 0, question, "{\"result\":{\"name\":\"Bob\"}}"), MCPRT_ETAG);
  EQUAL(await_event(m, MCPRT_EV_DONE, question)->status, MCPRT_OK);
  struct event *done = await_event(m, MCPRT_EV_DONE, 1);
  EQUAL(done->status, MCPRT_OK);
  CHECK(strstr(done->data, "\"answer\":{\"name\":\"Ada\"}"));
  EQUAL(submit(m, MCPRT_REPLY, 0, question, "{\"result\":{}}"), MCPRT_ETAG);

  question = ask(m, 2); /* declined */
  EQUAL(mcprt_cancel(m, question, 0), MCPRT_OK);
  EQUAL(mcprt_cancel(m, question, 0), MCPRT_OK);
  EQUAL(submit(m, MCPRT_REPLY, 0, question, "{\"result\":{}}"), MCPRT_ETAG);
  EQUAL(await_event(m, MCPRT_EV_DONE, question)->status, MCPRT_ECANCELED);
  EQUAL(await_event(m, MCPRT_EV_DONE, 2)->status, MCPRT_EFAILED);

  question = ask(m, 3); /* answered with an error */
  EQUAL(submit(m, MCPRT_REPLY, 0, question, "{\"error\":{\"code\":1,\"message\":\"no\"}}"), MCPRT_OK);
  EQUAL(await_event(m, MCPRT_EV_DONE, question)->status, MCPRT_OK);
  EQUAL(await_event(m, MCPRT_EV_DONE, 3)->status, MCPRT_EFAILED);

  question = ask(m, 4); /* of the wrong shape */
  EQUAL(submit(m, MCPRT_REPLY, 0, question, "{\"neither\":1}"), MCPRT_OK);
  EQUAL(await_event(m, MCPRT_EV_DONE, question)->status, MCPRT_EINVAL);
  EQUAL(await_event(m, MCPRT_EV_DONE, 4)->status, MCPRT_EFAILED);

  question = ask(m, 5); /* its operation is cancelled: withdrawn */
  EQUAL(mcprt_cancel(m, 5, 0), MCPRT_OK);
  EQUAL(await_event(m, MCPRT_EV_DONE, question)->status, MCPRT_ECANCELED);
  EQUAL(await_event(m, MCPRT_EV_DONE, 5)->status, MCPRT_ECANCELED);

  question = ask(m, 6); /* open when the manager closes */
  EQUAL(mcprt_close(m, 0), MCPRT_OK);
  EQUAL(submit(m, MCPRT_REPLY, 0, question, "{\"result\":{}}"), MCPRT_ECLOSED);
  EQUAL(await_event(m, MCPRT_EV_DONE, question)->status, MCPRT_ECLOSED);
  EQUAL(await_event(m, MCPRT_EV_DONE, 6)->status, MCPRT_ECLOSED);
  mcprt_free(m);

  m = opened("{\"requestTimeoutMs\":20}");
  question = ask(m, 1);
  EQUAL(await_event(m, MCPRT_EV_DONE, question)->status, MCPRT_ETIMEOUT);
  EQUAL(submit(m, MCPRT_REPLY, 0, question, "{\"result\":{}}"), MCPRT_ETAG);
  mcprt_free(m);
}

/* A server that asks and asks is declined beyond maxInFlight open questions. */
static void test_too_many_requests(void) {
  mcprt_mgr m = opened("{\"maxInFlight\":10}");
  forget_events();
  for (uint64_t tag = 1; tag <= 10; tag++) EQUAL(submit(m, MCPRT_CALL, 0, tag, ASK), MCPRT_OK);
  while (event_count < 10) CHECK(mcprt_wait(m, 10000) == 1 && drain(m) >= 0);
  EQUAL(count_events(MCPRT_EV_REQUEST), 10);
  mcprt_buf out;
  EQUAL(mcprt_call(m, ASK, strlen(ASK), &out), MCPRT_EFAILED);
  mcprt_buf_free(&out);
  EQUAL(mcprt_wait(m, 0), 0); /* neither the question nor its end was queued */
  EQUAL(submit(m, MCPRT_REPLY, 0, events[0].tag, "{\"result\":{}}"), MCPRT_OK);
  await_event(m, MCPRT_EV_DONE, events[0].tag);
  mcprt_free(m);
}

/* ---- the notify descriptor ---- */

static bool readable(int fd, int timeout_ms) {
  struct pollfd p = {fd, POLLIN, 0};
  return poll(&p, 1, timeout_ms) == 1;
}

static void read_empty(int fd) {
  char bytes[64];
  while (read(fd, bytes, sizeof bytes) > 0) {
  }
}

static void test_notify_fd(void) {
  mcprt_mgr m = opened("{}");
  EQUAL(submit(m, MCPRT_CALL, 0, 1, ECHO), MCPRT_OK);
  EQUAL(mcprt_wait(m, 10000), 1);
  int fd = mcprt_notify_fd(m);
  CHECK(fd >= 0);
  CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
  CHECK(readable(fd, 0)); /* the queue was not empty */
  int second = mcprt_notify_fd(m);
  CHECK(second >= 0 && second != fd && readable(second, 0));
  read_empty(second);
  CHECK(!readable(fd, 0)); /* the same pipe */
  close(second);
  forget_events();
  while (drain(m) > 0) {
  }
  CHECK(!readable(fd, 0));

  /* First read, then drain until 0: no wake-up is ever lost. */
  for (uint64_t i = 0; i < (uint64_t)(2000 / scale); i++) {
    forget_events();
    EQUAL(submit(m, MCPRT_CALL, 0, 10 + i, ECHO), MCPRT_OK);
    while (event_count == 0) {
      CHECK(readable(fd, 10000));
      read_empty(fd);
      while (drain(m) > 0) {
      }
    }
  }
  /* Bytes that nobody reads do no harm. */
  for (uint64_t i = 0; i < (uint64_t)(100 / scale); i++) {
    EQUAL(submit(m, MCPRT_CALL, 0, 10000 + i, ECHO), MCPRT_OK);
    EQUAL(mcprt_wait(m, 10000), 1);
    while (drain(m) > 0) {
    }
  }
  CHECK(readable(fd, 0));
  read_empty(fd);

  EQUAL(submit(m, MCPRT_CLOSE, 0, 9, "{}"), MCPRT_OK);
  CHECK(readable(fd, 10000));
  forget_events();
  await_event(m, MCPRT_EV_CLOSED, 0);
  close(fd);
  fd = mcprt_notify_fd(m); /* works until free */
  CHECK(fd >= 0);
  EQUAL(drain(m), MCPRT_ECLOSED); /* whatever the descriptor says: a wake may be late */
  mcprt_free(m);
  CHECK(fcntl(fd, F_GETFD) >= 0); /* the caller's own */
  close(fd);
}

/* ---- close and free ---- */

static void test_close(void) {
  mcprt_mgr m = opened("{}");
  mcprt_buf out;
  forget_events();
  for (uint64_t tag = 1; tag <= 20; tag++) EQUAL(submit(m, MCPRT_CALL, tag % 4 ? 0 : MCPRT_F_HOLD, tag, HANG), MCPRT_OK);
  EQUAL(mcprt_close(m, -1), MCPRT_OK);
  EQUAL(mcprt_close(m, -1), MCPRT_OK);
  for (size_t v = 0; v < VERBS; v++) {
    EQUAL(verbs[v](m, "{}", 2, &out), MCPRT_ECLOSED);
    CHECK(has(out, "\"code\":\"closed\""));
    mcprt_buf_free(&out);
  }
  EQUAL(submit(m, MCPRT_CALL, 0, 100, ECHO), MCPRT_ECLOSED);
  EQUAL(submit(m, MCPRT_CLOSE, 0, 100, "{}"), MCPRT_ECLOSED);
  EQUAL(submit(m, MCPRT_DISCONNECT, 0, 100, "{}"), MCPRT_ECLOSED);
  EQUAL(mcprt_cancel(m, 1, 0), MCPRT_OK);
  EQUAL(mcprt_wait(m, -1), 1);
  int fd = mcprt_notify_fd(m);
  CHECK(fd >= 3);
  close(fd);
  await_event(m, MCPRT_EV_CLOSED, 0);
  EQUAL(event_count, 16);
  for (int i = 0; i < 15; i++) {
    EQUAL(events[i].kind, MCPRT_EV_DONE);
    EQUAL(events[i].status, MCPRT_ECLOSED);
  }
  EQUAL(events[15].kind, MCPRT_EV_CLOSED); /* the last item */
  EQUAL(drain(m), MCPRT_ECLOSED);
  EQUAL(mcprt_wait(m, -1), MCPRT_ECLOSED);
  EQUAL(mcprt_take(m, 4, 0, &out), MCPRT_ECLOSED);
  mcprt_buf_free(&out);
  EQUAL(mcprt_close(m, -1), MCPRT_OK);
  mcprt_free(m);
  EQUAL(mcprt_wait(m, 0), MCPRT_EHANDLE);

  /* Without waiting. */
  m = opened("{}");
  forget_events();
  EQUAL(submit(m, MCPRT_CALL, 0, 1, HANG), MCPRT_OK);
  EQUAL(submit(m, MCPRT_CLOSE, 0, 2, "{\"graceMs\":0}"), MCPRT_OK);
  EQUAL(submit(m, MCPRT_CALL, 0, 3, ECHO), MCPRT_ECLOSED); /* from its first moment on */
  EQUAL(mcprt_cancel(m, 2, 0), MCPRT_OK);
  await_event(m, MCPRT_EV_CLOSED, 0);
  EQUAL(event_count, 3);
  EQUAL(events[0].tag, 1);
  EQUAL(events[0].status, MCPRT_ECLOSED);
  EQUAL(events[1].tag, 2);
  EQUAL(events[1].status, MCPRT_OK);
  CHECK(strcmp(events[1].data, "{}") == 0);
  mcprt_free(m);

  /* Held, and with a grace that makes no sense: that of the options. */
  m = opened("{}");
  EQUAL(submit(m, MCPRT_CLOSE, MCPRT_F_HOLD, 2, "{\"graceMs\":\"soon\"}"), MCPRT_OK);
  EQUAL(mcprt_take(m, 2, -1, &out), MCPRT_OK);
  mcprt_buf_free(&out);
  mcprt_free(m);
}

static void *call_in_thread(void *arg) {
  struct taker *t = arg;
  mcprt_buf out;
  t->status = mcprt_call(t->m, HANG, strlen(HANG), &out);
  if (t->status == MCPRT_ECLOSED) CHECK(has(out, "\"code\":\"closed\""));
  mcprt_buf_free(&out);
  return NULL;
}

static void *close_in_thread(void *arg) {
  struct taker *t = arg;
  t->status = mcprt_close(t->m, 0);
  return NULL;
}

static void test_close_while_busy(void) {
  for (int freed = 0; freed < 2; freed++) {
    mcprt_mgr m = opened("{}");
    enum { THREADS = 12 };
    struct taker t[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
      t[i] = (struct taker){m, 0, 99};
      CHECK(pthread_create(&threads[i], NULL, i < 8 ? call_in_thread : close_in_thread, &t[i]) == 0);
      if (i == 7) sleep_ms(30);
    }
    if (freed) mcprt_free(m);
    for (int i = 0; i < THREADS; i++) {
      pthread_join(threads[i], NULL);
      if (i < 8) EQUAL(t[i].status, MCPRT_ECLOSED);
      else CHECK(t[i].status == MCPRT_OK || (freed && t[i].status == MCPRT_EHANDLE));
    }
    if (!freed) mcprt_free(m);
  }
}

static void test_free_open(void) {
  for (int i = 0; i < 20; i++) {
    mcprt_mgr m = opened("{}");
    for (uint64_t tag = 1; tag <= 40; tag++)
      EQUAL(submit(m, MCPRT_CALL, tag % 2 ? MCPRT_F_HOLD : 0, tag, tag % 3 ? ECHO : tag % 5 ? HANG : ASK), MCPRT_OK);
    if (i % 2) sleep_ms(2);
    int fd = i % 3 ? -1 : mcprt_notify_fd(m);
    mcprt_free(m); /* throws away what waits, closes behind our back */
    check_stale(m);
    if (fd >= 0) close(fd);
  }
  for (int i = 0; i < 20; i++) mcprt_free(opened("{}"));
}

/* ---- many threads ---- */

enum { HAMMERS = 64, MANAGERS = 4 };
static _Atomic uint64_t shared[MANAGERS];
static _Atomic uint64_t next_tag = 1;
static atomic_int completions;

static void *hammer(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg * 2654435761u + 1;
  int rounds = 600 / scale;
  _Alignas(8) char buf[8192];
  for (int i = 0; i < rounds; i++) {
    unsigned dice = (unsigned)rand_r(&seed) % 100;
    _Atomic uint64_t *slot = &shared[(unsigned)rand_r(&seed) % MANAGERS];
    mcprt_mgr m = atomic_load(slot);
    uint64_t tag = atomic_fetch_add(&next_tag, 1);
    mcprt_buf out = {NULL, 0};
    size_t used;
    mcprt_status s = MCPRT_OK;
    if (dice < 30) {
      s = submit(m, MCPRT_CALL, dice % 2 ? MCPRT_F_HOLD : 0, tag, dice % 3 ? ECHO : dice % 5 ? HANG : ASK);
      if (dice % 7 == 0) mcprt_cancel(m, tag, 0);
      if (dice % 2 && s == MCPRT_OK) {
        s = mcprt_take(m, tag, (int32_t)(dice % 3), &out);
        if (s == MCPRT_EAGAIN) mcprt_cancel(m, tag, MCPRT_F_FORGET);
        mcprt_buf_free(&out);
      }
    } else if (dice < 60) {
      int32_t n = mcprt_drain(m, buf, dice % 2 ? sizeof buf : 64, &used);
      if (n > 0) atomic_fetch_add(&completions, n);
      s = n < 0 && n != MCPRT_ERANGE ? n : MCPRT_OK;
    } else if (dice < 70) {
      s = mcprt_call(m, dice % 2 ? ECHO : FAIL, dice % 2 ? strlen(ECHO) : strlen(FAIL), &out);
      mcprt_buf_free(&out);
    } else if (dice < 78) {
      mcprt_cancel(m, tag - (unsigned)rand_r(&seed) % 50, dice % 2 ? MCPRT_F_FORGET : 0);
      mcprt_cancel(m, MCPRT_TAG_MAX + 1 + (unsigned)rand_r(&seed) % 10, 0);
    } else if (dice < 84) {
      mcprt_wait(m, 1);
    } else if (dice < 88) {
      int fd = mcprt_notify_fd(m);
      if (fd >= 0) close(fd);
    } else if (dice < 92) {
      submit(m, MCPRT_REPLY, 0, MCPRT_TAG_MAX + 1 + (unsigned)rand_r(&seed) % 10, "{\"result\":{}}");
    } else if (dice < 94) {
      s = dice % 2 ? mcprt_close(m, 0) : submit(m, MCPRT_CLOSE, 0, tag, "{\"graceMs\":0}");
    } else if (dice < 97) {
      mcprt_mgr fresh = opened("{\"maxInFlight\":500,\"maxNotices\":50}");
      mcprt_free(atomic_exchange(slot, fresh));
    } else {
      submit(m, MCPRT_CALL, 0, tag, "{\"tool\":\"mcp_demo_flood\",\"arguments\":{\"count\":20}}");
    }
    CHECK(s == MCPRT_OK || s == MCPRT_EHANDLE || s == MCPRT_ECLOSED || s == MCPRT_EBUSY || s == MCPRT_EAGAIN ||
          s == MCPRT_EFAILED || s == MCPRT_ECANCELED || s == MCPRT_ETAG);
  }
  return NULL;
}

static void test_hammer(void) {
  pthread_t threads[HAMMERS];
  for (int i = 0; i < MANAGERS; i++) atomic_store(&shared[i], opened("{\"maxInFlight\":500}"));
  for (int i = 0; i < HAMMERS; i++) CHECK(pthread_create(&threads[i], NULL, hammer, (void *)(uintptr_t)(i + 1)) == 0);
  for (int i = 0; i < HAMMERS; i++) pthread_join(threads[i], NULL);
  CHECK(atomic_load(&completions) > 0);
  for (int i = 0; i < MANAGERS; i++) {
    mcprt_mgr m = atomic_load(&shared[i]);
    mcprt_close(m, 0);
    /* However it was treated: the queue ends with EV_CLOSED, once. */
    forget_events();
    int32_t n;
    while ((n = drain(m)) > 0) {
    }
    EQUAL(n, MCPRT_ECLOSED);
    CHECK(count_events(MCPRT_EV_CLOSED) <= 1);
    if (event_count) EQUAL(events[event_count - 1].kind, MCPRT_EV_CLOSED);
    mcprt_free(m);
  }
}

/* ---- what only Go can do wrong ---- */

static void test_go(void) {
  mcprt_buf out;
  mcprt_mgr m = 7;
  const char *panic = "{\"stubPanic\":true}";
  EQUAL(mcprt_open(panic, strlen(panic), &m, &out), MCPRT_EINTERNAL);
  EQUAL(m, 0);
  CHECK(has(out, "\"code\":\"internal\"") && has(out, "told to"));
  mcprt_buf_free(&out);

  m = opened("{}");
  forget_events();
  const char *req = "{\"tool\":\"mcp_demo_panic\"}";
  EQUAL(mcprt_call(m, req, strlen(req), &out), MCPRT_EINTERNAL);
  CHECK(has(out, "a bug in mcprt was caught") && !has(out, ".go:")); /* no stack for the host */
  mcprt_buf_free(&out);
  EQUAL(submit(m, MCPRT_CALL, 0, 1, req), MCPRT_OK);
  EQUAL(await_event(m, MCPRT_EV_DONE, 1)->status, MCPRT_EINTERNAL);

  req = "{\"tool\":\"mcp_demo_twice\"}"; /* completed twice: the second is nothing */
  EQUAL(submit(m, MCPRT_CALL, 0, 2, req), MCPRT_OK);
  EQUAL(await_event(m, MCPRT_EV_DONE, 2)->status, MCPRT_OK);
  EQUAL(mcprt_wait(m, 20), 0);

  req = "{\"tool\":\"mcp_demo_huge\"}"; /* larger than a frame */
  EQUAL(submit(m, MCPRT_CALL, 0, 3, req), MCPRT_OK);
  struct event *done = await_event(m, MCPRT_EV_DONE, 3);
  EQUAL(done->status, MCPRT_EFAILED);
  CHECK(strstr(done->data, "\"code\":\"too_large\""));

  req = "{\"tool\":\"mcp_demo_stuck\"}"; /* an operation that core forgot: close ends it */
  EQUAL(submit(m, MCPRT_CALL, 0, 4, req), MCPRT_OK);
  EQUAL(mcprt_cancel(m, 4, 0), MCPRT_OK);
  EQUAL(mcprt_close(m, 0), MCPRT_OK);
  EQUAL(await_event(m, MCPRT_EV_DONE, 4)->status, MCPRT_ECLOSED);
  await_event(m, MCPRT_EV_CLOSED, 0);
  mcprt_free(m);
}

static atomic_int signals_seen;

static void on_signal(int signal) { signals_seen += signal == SIGWINCH; }

/* A handler set while the library runs must not run on a goroutine's stack. */
static void test_handlers(void) {
  struct sigaction old, own = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, now;
  mcprt_mgr m = opened("{}");
  EQUAL(sigaction(SIGWINCH, &own, &old), 0);
  int64_t end = now_ms() + 10000;
  do {
    CHECK(now_ms() < end);
    drain(m);
    sleep_ms(1);
    EQUAL(sigaction(SIGWINCH, NULL, &now), 0);
  } while (!(now.sa_flags & SA_ONSTACK));
  CHECK(now.sa_handler == on_signal && (now.sa_flags & SA_RESTART) && !(now.sa_flags & SA_SIGINFO));
  EQUAL(kill(getpid(), SIGWINCH), 0);
  while (signals_seen < 1) CHECK(now_ms() < end);

  /* What has no handler keeps none, and signals by which hosts read their own
   * threads' stacks keep theirs. */
  EQUAL(sigaction(SIGUSR1, &own, &old), 0);
  sleep_ms(30);
  drain(m);
  EQUAL(sigaction(SIGUSR1, &old, &now), 0);
  EQUAL(now.sa_flags & SA_ONSTACK, 0);
  EQUAL(sigaction(SIGHUP, NULL, &now), 0);
  CHECK((now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) && !(now.sa_flags & SA_ONSTACK)); /* nohup ignores it */
  EQUAL(mcprt_close(m, 0), MCPRT_OK);
  mcprt_free(m);
}

static const struct { const char *name; void (*run)(void); bool go; } tests[] = {
  {"version", test_version, false},
  {"arguments", test_arguments, false},
  {"bad_text", test_bad_text, false},
  {"stale_handles", test_stale_handles, false},
  {"blocking", test_blocking, false},
  {"submit", test_submit, false},
  {"every_tag_once", test_every_tag_once, false},
  {"drain_small", test_drain_small, false},
  {"take", test_take, false},
  {"forget", test_forget, false},
  {"blocked_takers", test_blocked_takers, false},
  {"notice_limits", test_notice_limits, false},
  {"never_drains", test_never_drains, false},
  {"requests", test_requests, false},
  {"too_many_requests", test_too_many_requests, false},
  {"notify_fd", test_notify_fd, false},
  {"close", test_close, false},
  {"close_while_busy", test_close_while_busy, false},
  {"free_open", test_free_open, false},
  {"hammer", test_hammer, false},
  {"handlers", test_handlers, false},
  {"go", test_go, true},
};

/* Managers that were freed end in the background: give them the time, so that a
 * leak checker sees only leaks. One thread is left, or as many as the runtime has. */
static void settle(void) { sleep_ms(with_go ? 0 : 300); }

int main(int argc, char **argv) {
  if (getenv("CTEST_SCALE")) scale = atoi(getenv("CTEST_SCALE"));
  with_go = getenv("CTEST_GO") != NULL;
  int ran = 0;
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (argc > 1 ? strcmp(argv[1], tests[i].name) != 0 : tests[i].go && !with_go) continue;
    int64_t began = now_ms();
    tests[i].run();
    printf("ok %-18s %5lld ms\n", tests[i].name, (long long)(now_ms() - began));
    fflush(stdout);
    ran++;
  }
  settle();
  CHECK(ran > 0);
  return 0;
}
