/*
 * An agent loop on mcprt. Usage: agent SCRIPT.json, in a project with MCP servers.
 *
 *   cc examples/agent/c/agent.c -Iinclude -Iexamples/c -Lbuild -lmcprt -o build/agent-c
 *
 * The agent has one thread: everything is submitted, and what happens is drained.
 */
#define _POSIX_C_SOURCE 200809L

#include <mcprt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

/* All that the model is ever shown. The servers' tools come and go; this list does not, and
 * so the provider's prompt cache holds. */
static const char tools[] =
    "[{\"name\":\"search_tools\",\"description\":\"Find tools by words of their names and descriptions.\","
    "\"input_schema\":{\"type\":\"object\",\"properties\":{\"query\":{\"type\":\"string\"}},\"required\":[\"query\"]}},"
    "{\"name\":\"call_tool\",\"description\":\"Call a tool that search_tools found.\",\"input_schema\":{\"type\":\"object\","
    "\"properties\":{\"name\":{\"type\":\"string\"},\"arguments\":{\"type\":\"object\"}},\"required\":[\"name\",\"arguments\"]}}]";

static mcprt_mgr mgr;
static uint64_t last_tag;
static volatile sig_atomic_t interrupts;

static void on_interrupt(int number) {
  (void)number;
  interrupts++;
}

static void die(const char *what, const char *why) {
  fprintf(stderr, "agent: %s: %s\n", what, why ? why : "failed");
  exit(1);
}

/* A text that grows. */
struct text {
  char *at;
  size_t len;
};

static void add(struct text *t, const char *bytes, size_t len) {
  t->at = realloc(t->at, t->len + len + 1);
  if (!t->at) die("memory", NULL);
  memcpy(t->at + t->len, bytes, len);
  t->at[t->len += len] = 0;
}

static void add_text(struct text *t, const char *s) {
  add(t, s, strlen(s));
}

/* A JSON value of some text, byte for byte. */
static void add_value(struct text *t, const char *value) {
  if (value) add(t, value, (size_t)(json_skip(value) - value));
}

/* The first line of a JSON string. */
static char *line_of(const char *value) {
  static char line[1000];
  json_text(value, line, sizeof line);
  line[strcspn(line, "\n")] = 0;
  return line;
}

/* ---- the model ---------------------------------------------------------- */

/* In the place of a provider's client: does what the script says next. */
static const char *model_next(const char **script, const struct text *messages, const char *known_tools) {
  (void)messages;
  (void)known_tools;
  const char *turn = *script;
  *script = json_next(turn);
  return turn;
}

/* ---- the servers -------------------------------------------------------- */

static void progress(const char *notice) {
  if (strcmp(line_of(json_get(notice, "type")), "progress") != 0) return;
  printf("  progress %g/%g\n", strtod(json_get(notice, "progress"), NULL), strtod(json_get(notice, "total"), NULL));
}

static void answer(uint64_t tag, const char *request) {
  printf("  asked: %s\n", line_of(json_get(json_get(request, "params"), "message")));
  static const char reply[] = "{\"result\":{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}}"; /* a real host asks its user */
  mcprt_submit(mgr, MCPRT_REPLY, 0, tag, reply, sizeof reply - 1);
}

/* Runs one operation and handles meanwhile what happens. The reply is the caller's. */
static mcprt_status run(int32_t verb, const struct text *request, struct text *reply) {
  static char *buf;
  static size_t cap = 1 << 16;
  if (!buf) buf = malloc(cap);
  uint64_t tag = ++last_tag;
  int seen = interrupts;
  mcprt_status status = mcprt_submit(mgr, verb, 0, tag, request->at, request->len);
  if (status != MCPRT_OK) return status;
  for (;;) {
    size_t used;
    int32_t n = mcprt_drain(mgr, buf, cap, &used);
    if (n == MCPRT_ERANGE) {
      buf = realloc(buf, cap = used);
      if (!buf) die("memory", NULL);
      continue;
    }
    if (n < 0) return n;
    for (size_t at = 0; at < used;) {
      mcprt_frame f;
      memcpy(&f, buf + at, sizeof f);
      const char *data = buf + at + sizeof f;
      at += f.size;
      if (f.kind == MCPRT_EV_NOTICE) progress(data);
      if (f.kind == MCPRT_EV_REQUEST) answer(f.tag, data);
      if (f.kind == MCPRT_EV_DONE && f.tag == tag) {
        add(reply, data, f.len);
        status = f.status;
        tag = 0;
      }
    }
    if (tag == 0) return status;
    if (n == 0) mcprt_wait(mgr, 50); /* in slices, to see a Ctrl-C */
    if (interrupts != seen) {
      seen = interrupts;
      mcprt_cancel(mgr, tag, 0); /* the server is told; the completion comes */
    }
  }
}

static void search_tools(const char *arguments, struct text *out) {
  struct text request = {0}, reply = {0};
  add_text(&request, "{\"search\":");
  add_value(&request, json_get(arguments, "query"));
  add_text(&request, "}");
  if (run(MCPRT_LIST, &request, &reply) != MCPRT_OK) die("list", reply.at);
  printf("search: %s -> ", line_of(json_get(arguments, "query")));
  const char *found = json_get(reply.at, "tools"), *comma = "";
  for (const char *t = json_first(found); t; t = json_next(t), comma = ", ") printf("%s%s", comma, line_of(json_get(t, "name")));
  printf("\n");
  add_value(out, found);
  free(request.at);
  free(reply.at);
}

static long base64_bytes(const char *value) {
  const char *end = json_skip(value) - 1; /* of the string's closing quote */
  long len = (long)(end - (value + 1));
  while (len && end[-1] == '=') end--;
  return len / 4 * 3 - (long)(value + 1 + len - end);
}

static void call_tool(const char *arguments, struct text *out) {
  struct text request = {0}, reply = {0};
  add_text(&request, "{\"progress\":true,\"tool\":");
  add_value(&request, json_get(arguments, "name"));
  add_text(&request, ",\"arguments\":");
  add_value(&request, json_get(arguments, "arguments"));
  add_text(&request, "}");
  printf("call: %s\n", line_of(json_get(arguments, "name")));
  fflush(stdout);
  mcprt_status status = run(MCPRT_CALL, &request, &reply);
  const char *result = json_get(reply.at, "result"); /* of a failure, too: what a model can be shown */
  if (status == MCPRT_ECANCELED) {
    printf("  cancelled\n");
  } else if (status != MCPRT_OK) {
    printf("  error: %s\n", line_of(json_get(json_get(reply.at, "error"), "code")));
  } else if (json_true(json_get(result, "isError"))) {
    printf("  failed: %s\n", line_of(json_get(json_first(json_get(result, "content")), "text")));
  }
  for (const char *b = json_first(json_get(result, "content")); b; b = json_next(b)) {
    if (strcmp(line_of(json_get(b, "type")), "image") != 0) continue;
    printf("  %s, ", line_of(json_get(b, "mimeType")));
    printf("%ld bytes\n", base64_bytes(json_get(b, "data")));
  }
  add_value(out, json_get(result, "content"));
  free(request.at);
  free(reply.at);
}

/* ---- the agent ---------------------------------------------------------- */

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) die(path, "cannot be read");
  struct text t = {0};
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) add(&t, part, n);
  fclose(f);
  return t.at;
}

int main(int argc, char **argv) {
  if (argc != 2) die("usage", "agent SCRIPT.json");
  if (MCPRT_CHECK() != MCPRT_OK) die("library", "its version does not fit this program");
  sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
  mcprt_buf out;
  static const char options[] = "{\"projectTrust\":\"always\",\"answers\":[\"elicitation\"]}";
  if (mcprt_open(options, sizeof options - 1, &mgr, &out) != MCPRT_OK) die("open", out.ptr);

  struct text none = {0}, reply = {0}, messages = {0};
  add_text(&none, "{}");
  if (run(MCPRT_CONNECT, &none, &reply) != MCPRT_OK) die("connect", reply.at);
  const char *errors = json_get(reply.at, "errors");
  for (const char *e = json_first(errors); e; e = json_next(json_value(e))) fprintf(stderr, "%s\n", line_of(json_get(json_value(e), "message")));

  add_text(&messages, "[{\"role\":\"user\",\"content\":\"Show me what you can do.\"}");
  char *file = read_file(argv[1]);
  const char *script = json_first(file), *turn;
  while (!json_get(turn = model_next(&script, &messages, tools), "say")) {
    add_text(&messages, ",{\"role\":\"assistant\",\"content\":[");
    add_value(&messages, turn);
    add_text(&messages, "]},{\"role\":\"user\",\"content\":");
    if (strcmp(line_of(json_get(turn, "tool")), "search_tools") == 0) search_tools(json_get(turn, "arguments"), &messages);
    else call_tool(json_get(turn, "arguments"), &messages);
    add_text(&messages, "}");
  }
  printf("say: %s\n", line_of(json_get(turn, "say")));

  mcprt_close(mgr, -1);
  mcprt_free(mgr);
  free(file);
  free(none.at);
  free(reply.at);
  free(messages.at);
  return 0;
}
