/*
 * Calls every public server of mcp.json through the C API.
 *
 *   real_test PROJECT CASES     (TESTSERVERS and TESTPROJECT are in the environment)
 */
#include <mcprt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../examples/c/json.h"

static char *format(const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, fmt, args);
  char *text = malloc((size_t)len + 1);
  if (!text) abort();
  vsnprintf(text, (size_t)len + 1, fmt, again);
  va_end(args);
  va_end(again);
  return text;
}

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *text = calloc(1, 1 << 16);
  if (!text) abort();
  size_t n = fread(text, 1, (1 << 16) - 1, f);
  fclose(f);
  text[n] = 0;
  return text;
}

static int call(mcprt_mgr mgr, const char *item) {
  const char *arguments = json_get(item, "arguments");
  char server[100], tool[100], want[200], got[2000];
  json_text(json_get(item, "server"), server, sizeof server);
  json_text(json_get(item, "tool"), tool, sizeof tool);
  json_text(json_get(item, "text"), want, sizeof want);
  char *request = format("{\"server\":\"%s\",\"tool\":\"%s\",\"arguments\":%.*s}", server, tool,
                         (int)(json_skip(arguments) - arguments), arguments);
  mcprt_buf reply;
  mcprt_status status = mcprt_call(mgr, request, strlen(request), &reply);
  const char *result = reply.ptr ? json_get(reply.ptr, "result") : NULL;
  json_text(json_get(json_first(json_get(result, "content")), "text"), got, sizeof got);
  int ok = status == MCPRT_OK && strstr(got, want) != NULL &&
           json_true(json_get(result, "isError")) == json_true(json_get(item, "isError"));
  printf("%s %s %s\n", ok ? "ok  " : "FAIL", server, tool);
  if (!ok) printf("     %s: %s\n", mcprt_status_name(status), reply.ptr ? reply.ptr : "");
  mcprt_buf_free(&reply);
  free(request);
  return ok;
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: real_test PROJECT CASES\n"), 2;
  char *cases = read_file(argv[2]);
  if (!cases) return perror(argv[2]), 2;
  char *options = format("{\"cwd\":\"%s\",\"projectTrust\":\"always\",\"discovery\":{\"user\":\"none\"},"
                         "\"cache\":{\"dir\":\"%s/cache\"},\"startupTimeoutMs\":0,\"timeoutMs\":120000}",
                         argv[1], argv[1]);
  mcprt_mgr mgr;
  mcprt_buf reply;
  int passed = 0, failed = 0;
  if (mcprt_open(options, strlen(options), &mgr, &reply) != MCPRT_OK ||
      mcprt_connect(mgr, "{\"tools\":false}", 15, &reply) != MCPRT_OK || !reply.ptr ||
      json_first(json_get(reply.ptr, "errors"))) {
    printf("FAIL connect: %s\n", reply.ptr ? reply.ptr : "no reply");
    failed++;
  }
  mcprt_buf_free(&reply);
  for (const char *item = json_first(json_space(cases)); item; item = json_next(item)) {
    if (call(mgr, item))
      passed++;
    else
      failed++;
  }
  mcprt_close(mgr, -1);
  mcprt_free(mgr);
  free(options);
  free(cases);
  printf("%d passed, %d failed\n", passed, failed);
  return passed == 0 || failed > 0;
}
