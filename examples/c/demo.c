/*
 * The main job of mcprt, in C: discover the servers of the project in the current
 * directory, connect them, look at the tools, call one, reload.
 *
 *   cc examples/c/demo.c -Iinclude -Lbuild -lmcprt -o build/demo-c
 *   cd PROJECT && LD_LIBRARY_PATH=.../build .../build/demo-c
 */
#define _POSIX_C_SOURCE 200809L

#include <mcprt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"

static int colored;

static const char *paint(const char *code) {
  return colored ? code : "";
}
#define BOLD paint("\x1b[1m")
#define FAINT paint("\x1b[2m")
#define RED paint("\x1b[31m")
#define GREEN paint("\x1b[32m")
#define YELLOW paint("\x1b[33m")
#define PLAIN paint("\x1b[0m")

static void title(const char *text) {
  printf("  %s%-9s%s ", BOLD, text, PLAIN);
}
static void indent(void) {
  printf("  %-9s ", "");
}

static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Runs one operation. It is taken in short slices, so that a spinner can turn
 * meanwhile; mcprt_discover() and the other blocking verbs are simpler. */
static const char *run(mcprt_mgr mgr, int32_t verb, const char *doing, const char *request, mcprt_buf *reply) {
  static uint64_t tag;
  static const char *frames[] = {"|", "/", "-", "\\"};
  int turning = isatty(STDERR_FILENO);
  mcprt_buf_free(reply);
  mcprt_status status = mcprt_submit(mgr, verb, MCPRT_F_HOLD, ++tag, request, strlen(request));
  if (status == MCPRT_OK) {
    for (int i = 0; (status = mcprt_take(mgr, tag, 100, reply)) == MCPRT_EAGAIN; i++)
      if (turning) fprintf(stderr, "\r\x1b[K  %s %s", frames[i % 4], doing), fflush(stderr);
    if (turning) fprintf(stderr, "\r\x1b[K");
  }
  if (status != MCPRT_OK) {
    char text[1000] = "";
    if (reply->ptr) json_text(json_get(json_get(reply->ptr, "error"), "message"), text, sizeof text);
    fflush(stdout);
    fprintf(stderr, "demo: %s: %s %s\n", doing, mcprt_status_name(status), text);
    exit(1);
  }
  return reply->ptr;
}

static void show_discovered(const char *report) {
  char text[400];
  const char *servers = json_get(report, "servers");
  title("discover");
  printf("%d servers\n", json_count(servers));
  for (const char *s = json_first(servers); s; s = json_next(s)) {
    const char *config = json_get(s, "config");
    indent();
    printf("%-8s%s", json_text(json_get(s, "name"), text, sizeof text), FAINT);
    const char *command = json_text(json_get(config, "command"), text, sizeof text);
    const char *slash = strrchr(command, '/');
    printf("%s", slash ? slash + 1 : command);
    for (const char *a = json_first(json_get(config, "args")); a; a = json_next(a))
      printf(" %s", json_text(a, text, sizeof text));
    printf("%s\n", PLAIN);
  }
}

static void show_connected(const char *report) {
  char name[200], text[1000];
  const char *tools = json_get(report, "tools"), *errors = json_get(report, "errors");
  int deferred = 0;
  for (const char *t = json_first(tools); t; t = json_next(t)) deferred += json_true(json_get(t, "deferred"));
  title("connect");
  printf("%ld ms\n", json_int(json_get(report, "elapsedMs")));
  title("tools");
  printf("%s%d live%s, %s%d deferred%s\n", GREEN, json_count(tools) - deferred, PLAIN, YELLOW, deferred, PLAIN);
  char last[200] = "";
  for (const char *t = json_first(tools); t; t = json_next(t)) { /* sorted by name, so each server's are together */
    if (strcmp(last, json_text(json_get(t, "server"), name, sizeof name)) != 0) {
      int is_deferred = json_true(json_get(t, "deferred"));
      if (*last) printf("\n");
      indent();
      printf("%-8s%s%-9s%s", strcpy(last, name), is_deferred ? YELLOW : GREEN, is_deferred ? "deferred" : "live", PLAIN);
    }
    printf(" %s", json_text(json_get(t, "tool"), text, sizeof text));
  }
  if (*last) printf("\n");
  for (const char *e = json_first(errors); e; e = json_next(json_value(e))) {
    title(json_text(e, name, sizeof name));
    printf("%s%s%s\n", RED, json_text(json_get(json_value(e), "message"), text, sizeof text), PLAIN);
  }
}

static void call(mcprt_mgr mgr, const char *name, const char *arguments, mcprt_buf *reply) {
  char request[400], doing[200], text[1000];
  snprintf(request, sizeof request, "{\"tool\":\"%s\",\"arguments\":%s}", name, arguments);
  snprintf(doing, sizeof doing, "calling %s", name);
  long start = now_ms();
  const char *result = json_get(run(mgr, MCPRT_CALL, doing, request, reply), "result");
  title("call");
  printf("%s %s%s%s -> %s  %s%ld ms%s\n", name, FAINT, arguments, PLAIN,
         json_text(json_get(json_first(json_get(result, "content")), "text"), text, sizeof text), FAINT,
         now_ms() - start, PLAIN);
}

static void show_changes(const char *report) {
  static const char *kinds[] = {"kept", "changed", "added", "removed"};
  const char *changes = json_get(report, "changes"), *comma = "";
  char name[200];
  title("reload");
  for (int i = 0; i < 4; i++) {
    const char *names = json_get(changes, kinds[i]);
    if (!json_count(names)) continue;
    printf("%s%s%s%s", comma, BOLD, kinds[i], PLAIN);
    for (const char *n = json_first(names); n; n = json_next(n)) printf(" %s", json_text(n, name, sizeof name));
    comma = ", ";
  }
  printf("\n");
}

int main(void) {
  mcprt_mgr mgr;
  mcprt_buf reply = {0};
  colored = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
  if (MCPRT_CHECK() != MCPRT_OK) {
    fprintf(stderr, "demo: the library is version %s, which does not fit this program\n", mcprt_version());
    return 1;
  }
  const char *options = "{\"projectTrust\":\"always\"}";
  if (mcprt_open(options, strlen(options), &mgr, &reply) != MCPRT_OK) {
    fprintf(stderr, "demo: %s\n", reply.ptr ? reply.ptr : "the library could not be opened");
    return 1;
  }

  show_discovered(run(mgr, MCPRT_DISCOVER, "reading config files", "{}", &reply));
  show_connected(run(mgr, MCPRT_CONNECT, "connecting", "{}", &reply));
  call(mgr, "mcp_demo_add", "{\"a\":2,\"b\":40}", &reply);
  call(mgr, "mcp_slow_echo", "{\"text\":\"worth the wait\"}", &reply);

  /* Somebody edits the config: the broken server is mended. */
  if (rename("next.mcp.json", ".mcp.json") == 0)
    show_changes(run(mgr, MCPRT_RELOAD, "reloading", "{\"tools\":false}", &reply));

  mcprt_buf_free(&reply);
  mcprt_close(mgr, -1);
  mcprt_free(mgr);
  return 0;
}
