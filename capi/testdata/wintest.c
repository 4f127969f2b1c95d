/*
 * The whole library on Windows, as a C program sees it: real servers, both ways to run
 * a verb, threads, timeouts, the end.
 *
 *   wintest TOOL    the mcprt.exe whose demo-server is to be called
 */
#define __USE_MINGW_ANSI_STDIO 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "mcprt.h"

#define FAIL(...) (fprintf(stderr, "wintest.c:%d: ", __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define CHECK(condition) ((condition) ? (void)0 : FAIL("not true: %s", #condition))
#define EQUAL(got, want)                                                \
  do {                                                                  \
    long long got_ = (long long)(got), want_ = (long long)(want);       \
    if (got_ != want_) FAIL("%s is %lld, not %lld", #got, got_, want_); \
  } while (0)

typedef mcprt_status verb(mcprt_mgr, const char *, size_t, mcprt_buf *);

/* Runs a verb and looks for a text in its reply. */
static void want(mcprt_mgr m, verb *f, const char *request, mcprt_status status, const char *text) {
  mcprt_buf out;
  mcprt_status got = f(m, request, strlen(request), &out);
  if (got != status || !out.ptr || !strstr(out.ptr, text))
    FAIL("%s: %s, no \"%s\" in %.*s", request, mcprt_status_name(got), text, (int)out.len, out.ptr ? out.ptr : "");
  mcprt_buf_free(&out);
  CHECK(!out.ptr && out.len == 0);
}

static const char ECHO[] = "{\"tool\":\"mcp_demo_echo\",\"arguments\":{\"text\":\"gr\xc3\xbc\xc3\x9f\"}}";
static const char SLOW[] = "{\"tool\":\"mcp_demo_slow\",\"arguments\":{\"ms\":60000}}";

static DWORD WINAPI call_often(void *m) {
  for (int i = 0; i < 50; i++) want(*(mcprt_mgr *)m, mcprt_call, ECHO, MCPRT_OK, "gr\xc3\xbc\xc3\x9f");
  return 0;
}

static DWORD WINAPI call_until_closed(void *m) {
  want(*(mcprt_mgr *)m, mcprt_call, SLOW, MCPRT_ECLOSED, "\"closed\"");
  return 0;
}

/* Waits for the completion of a tag, by wait and drain. */
static mcprt_status finish(mcprt_mgr m, uint64_t tag) {
  static char buffer[1 << 16];
  for (;;) {
    size_t used;
    EQUAL(mcprt_wait(m, 20000), 1);
    CHECK(mcprt_drain(m, buffer, sizeof buffer, &used) > 0);
    for (size_t at = 0; at < used;) {
      mcprt_frame f;
      memcpy(&f, buffer + at, sizeof f);
      if (f.kind == MCPRT_EV_DONE && f.tag == tag) return f.status;
      at += f.size;
    }
  }
}

int main(int argc, char **argv) {
  char options[2048], tool[1024];
  size_t n = 0;
  mcprt_mgr m;
  mcprt_buf out;
  CHECK(argc == 2);
  for (const char *c = argv[1]; *c && n + 2 < sizeof tool; c++) {
    if (*c == '\\') tool[n++] = '\\';
    tool[n++] = *c;
  }
  tool[n] = 0;
  EQUAL(MCPRT_CHECK(), MCPRT_OK);
  EQUAL(mcprt_open("[", 1, &m, &out), MCPRT_EINVAL);
  CHECK(strstr(out.ptr, "\"invalid_request\"") && strstr(out.ptr, "offset 0 of 1")); /* %zu is not msvcrt's */
  mcprt_buf_free(&out);

  snprintf(options, sizeof options,
           "{\"cache\":{\"enabled\":false},\"discovery\":{\"project\":false,\"user\":\"none\"},\"servers\":{"
           "\"demo\":{\"command\":\"%s\",\"args\":[\"demo-server\"]},"
           "\"broken\":{\"command\":\"%s\",\"args\":[\"demo-server\",\"--fail-start\",\"no licence\"]}}}",
           tool, tool);
  mcprt_status status = mcprt_open(options, strlen(options), &m, &out);
  if (status != MCPRT_OK) FAIL("open: %.*s", (int)out.len, out.ptr);
  EQUAL(mcprt_notify_fd(m), MCPRT_EINVAL);
  want(m, mcprt_connect, "{\"startupTimeoutMs\":20000}", MCPRT_OK, "no licence");
  want(m, mcprt_list, "{}", MCPRT_OK, "mcp_demo_echo");
  want(m, mcprt_call, ECHO, MCPRT_OK, "gr\xc3\xbc\xc3\x9f");
  want(m, mcprt_call, "{\"tool\":\"mcp_demo_slow\",\"arguments\":{\"ms\":60000},\"timeoutMs\":100}", MCPRT_ETIMEOUT, "\"timeout\"");

  /* The same without blocking; a held one, taken in slices; one that is cancelled. */
  EQUAL(mcprt_submit(m, MCPRT_CALL, 0, 1, ECHO, strlen(ECHO)), MCPRT_OK);
  EQUAL(finish(m, 1), MCPRT_OK);
  EQUAL(mcprt_submit(m, MCPRT_CALL, MCPRT_F_HOLD, 2, SLOW, strlen(SLOW)), MCPRT_OK);
  ULONGLONG began = GetTickCount64();
  EQUAL(mcprt_take(m, 2, 200, &out), MCPRT_EAGAIN);
  CHECK(GetTickCount64() - began >= 200);
  EQUAL(mcprt_cancel(m, 2, 0), MCPRT_OK);
  EQUAL(mcprt_take(m, 2, 20000, &out), MCPRT_ECANCELED);
  mcprt_buf_free(&out);

  HANDLE threads[8];
  for (int i = 0; i < 8; i++) CHECK((threads[i] = CreateThread(NULL, 0, call_often, &m, 0, NULL)) != NULL);
  EQUAL(WaitForMultipleObjects(8, threads, TRUE, 60000), WAIT_OBJECT_0);

  /* Close ends who waits. */
  HANDLE waiting = CreateThread(NULL, 0, call_until_closed, &m, 0, NULL);
  Sleep(200);
  EQUAL(mcprt_close(m, 2000), MCPRT_OK);
  EQUAL(WaitForSingleObject(waiting, 5000), WAIT_OBJECT_0);
  want(m, mcprt_list, "{}", MCPRT_ECLOSED, "\"closed\"");
  mcprt_free(m);
  EQUAL(mcprt_close(m, 0), MCPRT_EHANDLE);

  /* Many managers: each has a thread of Go's, which must end with it. */
  for (int i = 0; i < 200; i++) {
    EQUAL(mcprt_open(NULL, 0, &m, &out), MCPRT_OK);
    EQUAL(mcprt_close(m, 0), MCPRT_OK);
    mcprt_free(m);
  }
  puts("all is well");
  return 0;
}
