/*
 * The whole library, with its real core and real servers, as a C program sees it.
 * real_test.go writes the options and starts it:
 *
 *   realtest main OPTIONS RESULT TOOL   servers raw, good, exits; the files hold what must
 *                                       come back byte for byte
 *   realtest deferred OPTIONS           server late: its tools are cached, it starts slowly
 *   realtest victim OPTIONS             connects, says so, and waits to be killed
 *
 * It prints nothing of its own but "ready" of the victim, so that whoever runs it sees
 * whatever the library would write.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mcprt.h"

#define FAIL(...) (fprintf(stderr, "realtest.c:%d: ", __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), abort())
#define CHECK(condition) ((condition) ? (void)0 : FAIL("not true: %s", #condition))
#define EQUAL(got, want)                                                        \
  do {                                                                          \
    long long got_ = (long long)(got), want_ = (long long)(want);               \
    if (got_ != want_) FAIL("%s is %lld, not %lld", #got, got_, want_);         \
  } while (0)

static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static mcprt_buf slurp(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) FAIL("cannot open %s", path);
  char *text = malloc(1 << 20);
  CHECK(text != NULL);
  size_t len = fread(text, 1, (1 << 20) - 1, file);
  text[len] = 0;
  fclose(file);
  return (mcprt_buf){text, len};
}

static mcprt_mgr opened(const char *options) {
  mcprt_buf text = slurp(options), out;
  mcprt_mgr m = 0;
  mcprt_status status = mcprt_open(text.ptr, text.len, &m, &out);
  if (status != MCPRT_OK) FAIL("open: %.*s", (int)out.len, out.ptr);
  free((void *)text.ptr);
  return m;
}

typedef mcprt_status verb(mcprt_mgr, const char *, size_t, mcprt_buf *);

/* The reply lives until the next call of this function. */
static mcprt_status run(verb *v, mcprt_mgr m, const char *request, mcprt_buf *reply) {
  static mcprt_buf last;
  mcprt_buf_free(&last);
  mcprt_status status = v(m, request, strlen(request), &last);
  *reply = last;
  return status;
}

static mcprt_buf must(verb *v, mcprt_mgr m, const char *request) {
  mcprt_buf reply;
  mcprt_status status = run(v, m, request, &reply);
  if (status != MCPRT_OK) FAIL("%s: %s: %s", request, mcprt_status_name(status), reply.ptr ? reply.ptr : "");
  return reply;
}

static void fails(verb *v, mcprt_mgr m, const char *request, mcprt_status want, const char *part) {
  mcprt_buf reply;
  EQUAL(run(v, m, request, &reply), want);
  if (!reply.ptr || !strstr(reply.ptr, part)) FAIL("%s: no %s in %s", request, part, reply.ptr ? reply.ptr : "nothing");
}

/* ---- completions ---- */

struct done {
  mcprt_status status;
  int times;
  size_t len;
  char *data;
};

/* Drains until `want` more operations with tags below `tags` have ended. */
static void collect(mcprt_mgr m, struct done *done, size_t tags, size_t want) {
  static char *buf;
  static size_t cap = 1 << 16;
  if (!buf) buf = malloc(cap);
  long end = now_ms() + 60000;
  while (want) {
    size_t used;
    CHECK(now_ms() < end);
    CHECK(mcprt_wait(m, 1000) >= 0);
    int32_t count = mcprt_drain(m, buf, cap, &used);
    if (count == MCPRT_ERANGE) {
      free(buf);
      buf = malloc(cap = used);
      continue;
    }
    CHECK(count >= 0);
    for (size_t at = 0; at < used;) {
      mcprt_frame frame;
      memcpy(&frame, buf + at, sizeof frame);
      if (frame.kind == MCPRT_EV_DONE && frame.tag < tags) {
        struct done *d = &done[frame.tag];
        d->status = frame.status;
        d->times++;
        d->len = frame.len;
        d->data = malloc(frame.len + 1);
        CHECK(d->data != NULL);
        memcpy(d->data, buf + at + sizeof frame, frame.len + 1);
        CHECK(want > 0);
        want--;
      }
      at += frame.size;
    }
  }
}

static void submit(mcprt_mgr m, int32_t verb_, uint32_t flags, uint64_t tag, const char *request) {
  EQUAL(mcprt_submit(m, verb_, flags, tag, request, strlen(request)), MCPRT_OK);
}

/* ---- cases ---- */

static void is_result(const char *ptr, size_t len, mcprt_buf raw) {
  static const char head[] = "{\"result\":";
  CHECK(len == raw.len + sizeof head);
  CHECK(!memcmp(ptr, head, sizeof head - 1));
  CHECK(!memcmp(ptr + sizeof head - 1, raw.ptr, raw.len));
  CHECK(ptr[len - 1] == '}' && ptr[len] == 0);
}

static void test_raw(mcprt_mgr m, const char *result, const char *tool) {
  const char *call = "{\"server\":\"raw\",\"tool\":\"raw\",\"arguments\":{\"n\":9007199254740993}}";
  mcprt_buf raw = slurp(result), definition = slurp(tool), out;
  CHECK(strstr(must(mcprt_list, m, "{}").ptr, definition.ptr));

  mcprt_buf reply = must(mcprt_call, m, call);
  is_result(reply.ptr, reply.len, raw);

  struct done done[2] = {{0}};
  submit(m, MCPRT_CALL, 0, 1, call);
  collect(m, done, 2, 1);
  EQUAL(done[1].status, MCPRT_OK);
  is_result(done[1].data, done[1].len, raw);
  free(done[1].data);

  submit(m, MCPRT_CALL, MCPRT_F_HOLD, 7, call);
  EQUAL(mcprt_take(m, 7, -1, &out), MCPRT_OK);
  is_result(out.ptr, out.len, raw);
  mcprt_buf_free(&out);
  free((void *)raw.ptr);
  free((void *)definition.ptr);
}

static void test_large(mcprt_mgr m) {
  mcprt_buf reply = must(mcprt_call, m, "{\"server\":\"good\",\"tool\":\"big\",\"arguments\":{\"bytes\":10485760}}");
  size_t digits = 0;
  for (size_t i = 0; i + 16 <= reply.len; i += 1)
    if (reply.ptr[i] == '0' && !memcmp(reply.ptr + i, "0123456789abcdef", 16)) digits += 16, i += 15;
  CHECK(digits >= 10485760 && digits < 10485760 + 64);
}

static void test_death(mcprt_mgr m) {
  long start = now_ms();
  fails(mcprt_call, m, "{\"server\":\"good\",\"tool\":\"die\"}", MCPRT_EFAILED, "\"code\":\"outcome_unknown\"");
  CHECK(now_ms() - start < 1000);
  must(mcprt_call, m, "{\"server\":\"good\",\"tool\":\"echo\",\"arguments\":{}}");
}

static void test_cancel(mcprt_mgr m) {
  struct done done[4] = {{0}};
  submit(m, MCPRT_CALL, 0, 3, "{\"server\":\"good\",\"tool\":\"slow\",\"arguments\":{\"ms\":60000}}");
  must(mcprt_call, m, "{\"server\":\"good\",\"tool\":\"echo\",\"arguments\":{}}"); /* the other one was sent by now */
  EQUAL(mcprt_cancel(m, 3, 0), MCPRT_OK);
  collect(m, done, 4, 1);
  EQUAL(done[3].status, MCPRT_ECANCELED);
  free(done[3].data);
  must(mcprt_call, m, "{\"server\":\"good\",\"tool\":\"echo\",\"arguments\":{}}"); /* and so was the notice */
}

static void test_fork(mcprt_mgr m) {
  pid_t child = fork();
  if (child == 0) {
    mcprt_buf out;
    size_t used;
    char buf[64];
    bool good = mcprt_call(m, "{}", 2, &out) == MCPRT_EFORK && mcprt_connect(m, "{}", 2, &out) == MCPRT_EFORK &&
                mcprt_submit(m, MCPRT_LIST, 0, 9, "{}", 2) == MCPRT_EFORK && mcprt_drain(m, buf, sizeof buf, &used) == MCPRT_EFORK &&
                mcprt_wait(m, 0) == MCPRT_EFORK && mcprt_close(m, 0) == MCPRT_EFORK && mcprt_notify_fd(m) == MCPRT_EFORK;
    _exit(good ? 0 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_disconnect(mcprt_mgr m) {
  CHECK(strstr(must(mcprt_disconnect, m, "{\"server\":\"good\"}").ptr, "[\"good\"]"));
  fails(mcprt_call, m, "{\"server\":\"good\",\"tool\":\"echo\"}", MCPRT_EFAILED, "\"code\":\"disconnected\"");
  must(mcprt_connect, m, "{\"only\":[\"good\"],\"tools\":false}");
  must(mcprt_call, m, "{\"server\":\"good\",\"tool\":\"echo\",\"arguments\":{}}");
}

static void test_close(mcprt_mgr m) {
  enum { calls = 50 };
  struct done done[100 + calls] = {{0}};
  for (uint64_t tag = 100; tag < 100 + calls; tag++) submit(m, MCPRT_CALL, 0, tag, "{\"server\":\"good\",\"tool\":\"hang\",\"timeoutMs\":0}");
  EQUAL(mcprt_close(m, 500), MCPRT_OK);
  collect(m, done, 100 + calls, calls);
  for (int i = 100; i < 100 + calls; i++) {
    EQUAL(done[i].status, MCPRT_ECLOSED);
    EQUAL(done[i].times, 1);
    free(done[i].data);
  }
  fails(mcprt_call, m, "{}", MCPRT_ECLOSED, "closed");
  mcprt_free(m);
}

static int descriptors(void) {
  int count = 0;
  DIR *dir = opendir("/proc/self/fd");
  CHECK(dir != NULL);
  while (readdir(dir)) count++;
  closedir(dir);
  return count;
}

static void test_cycles(const char *options) {
  int first = 0;
  for (int i = 0; i < 20; i++) {
    mcprt_mgr m = opened(options);
    must(mcprt_connect, m, "{\"only\":[\"good\"]}");
    EQUAL(mcprt_close(m, 200), MCPRT_OK);
    mcprt_free(m);
    if (i == 0) first = descriptors();
  }
  long end = now_ms() + 5000; /* what Go closes, it closes soon */
  while (descriptors() > first + 2) {
    CHECK(now_ms() < end);
    usleep(10000);
  }
}

static void test_deferred(const char *options) {
  enum { calls = 200 };
  static struct done done[calls + 1];
  mcprt_mgr m = opened(options);
  long start = now_ms();
  mcprt_buf reply = must(mcprt_connect, m, "{}");
  CHECK(strstr(reply.ptr, "\"deferred\":[\"late\"]") && strstr(reply.ptr, "\"deferred\":true"));
  CHECK(now_ms() - start < 900);
  char request[128];
  for (uint64_t tag = 1; tag <= calls; tag++) {
    snprintf(request, sizeof request, "{\"tool\":\"mcp_late_echo\",\"arguments\":{\"n\":%llu}}", (unsigned long long)tag);
    submit(m, MCPRT_CALL, 0, tag, request);
  }
  collect(m, done, calls + 1, calls);
  for (int i = 1; i <= calls; i++) {
    snprintf(request, sizeof request, "\\\"n\\\":%d}", i);
    EQUAL(done[i].status, MCPRT_OK);
    EQUAL(done[i].times, 1);
    CHECK(strstr(done[i].data, request));
    free(done[i].data);
  }
  CHECK(now_ms() - start >= 1000);
  mcprt_close(m, 500);
  mcprt_free(m);
}

int main(int argc, char **argv) {
  CHECK(argc >= 3 && MCPRT_CHECK() == MCPRT_OK);
  if (!strcmp(argv[1], "deferred")) {
    test_deferred(argv[2]);
    return 0;
  }
  mcprt_mgr m = opened(argv[2]);
  mcprt_buf report = must(mcprt_connect, m, "{}");
  if (!strcmp(argv[1], "victim")) {
    puts("ready");
    fflush(stdout);
    for (;;) pause();
  }
  CHECK(argc == 5 && strstr(report.ptr, "\"exitCode\":3") && strstr(report.ptr, "no licence"));
  test_raw(m, argv[3], argv[4]);
  test_large(m);
  test_death(m);
  test_cancel(m);
  test_fork(m);
  test_disconnect(m);
  test_close(m);
  test_cycles(argv[2]);
  return 0;
}
