/*
 * The client that the MCP conformance suite tests, over mcprt.h alone: client URL. The
 * suite names the scenario in MCP_CONFORMANCE_SCENARIO and may give credentials and calls
 * in MCP_CONFORMANCE_CONTEXT.
 */
#define _POSIX_C_SOURCE 200809L

#include <mcprt.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../c/json.h"

static mcprt_mgr mgr;
static uint64_t last_tag;

static void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  mcprt_close(mgr, -1);
  exit(1);
}

/* Text that grows. */
struct text {
  char *bytes;
  size_t len;
};

static void add(struct text *t, const char *bytes, size_t len) {
  t->bytes = realloc(t->bytes, t->len + len + 1);
  if (!t->bytes) abort();
  memcpy(t->bytes + t->len, bytes, len);
  t->bytes[t->len += len] = 0;
}

static void puts_(struct text *t, const char *s) {
  add(t, s, strlen(s));
}

/* Adds a JSON value as it is written. */
static void put_json(struct text *t, const char *value) {
  add(t, value, (size_t)(json_skip(value) - value));
}

static int is(const char *value, const char *word) {
  size_t len = strlen(word);
  return value && !strncmp(value + 1, word, len) && value[len + 1] == '"';
}

/* Stands for the person at the browser: the suite's server says yes at once, in a
 * redirect. Everything is on this machine, without TLS. */
static void sign_in(const char *url, struct text *answer) {
  char host[256] = "", port[16] = "80", head[16384];
  const char *rest = strstr(url, "://");
  if (rest && sscanf(rest + 3, "%255[^:/]:%15[0-9]", host, port) < 1) rest = NULL;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
  int fd = -1;
  if (rest && !getaddrinfo(host, port, &hints, &found))
    for (struct addrinfo *a = found; a; a = a->ai_next) {
      fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
      if (fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen)) break;
      if (fd >= 0) close(fd);
      fd = -1;
    }
  if (found) freeaddrinfo(found);
  if (fd < 0) {
    puts_(answer, "{\"result\":{\"declined\":true}}");
    return;
  }
  const char *path = strchr(rest + 3, '/');
  dprintf(fd, "GET %s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n", path ? path : "/", host, port);
  size_t len = 0;
  for (ssize_t n; len < sizeof head - 1 && (n = read(fd, head + len, sizeof head - 1 - len)) > 0;) len += (size_t)n;
  head[len] = 0;
  close(fd);
  for (char *line = head; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (*line == '\r') break;
    if (strncasecmp(line, "location:", 9)) continue;
    line += 9 + strspn(line + 9, " ");
    puts_(answer, "{\"result\":{\"callbackUrl\":\"");
    for (; *line && *line != '\r'; line++) {
      if (*line == '"' || *line == '\\') puts_(answer, "\\");
      add(answer, line, 1);
    }
    puts_(answer, "\"}}");
    return;
  }
  puts_(answer, "{\"result\":{\"declined\":true}}");
}

/* Answers what the library or a server asks. */
static void reply(uint64_t tag, const char *request) {
  struct text answer = {0};
  char url[8192];
  const char *type = json_get(request, "type");
  if (is(type, "authorization"))
    sign_in(json_text(json_get(json_get(request, "params"), "url"), url, sizeof url), &answer);
  else if (is(type, "elicitation/create"))
    puts_(&answer, "{\"result\":{\"action\":\"accept\",\"content\":{}}}");
  else if (is(type, "roots/list"))
    puts_(&answer, "{\"result\":{\"roots\":[]}}");
  else
    puts_(&answer, "{\"error\":{\"code\":-1,\"message\":\"declined\"}}");
  mcprt_submit(mgr, MCPRT_REPLY, 0, tag, answer.bytes, answer.len);
  free(answer.bytes);
}

/* Runs one operation, answers requests meanwhile, and gives its reply to be freed. */
static char *run(int32_t verb, const char *request) {
  static char buffer[8 << 20];
  char *result = NULL;
  uint64_t tag = ++last_tag;
  mcprt_status status = mcprt_submit(mgr, verb, 0, tag, request, strlen(request));
  if (status != MCPRT_OK) fail("submit: %s", mcprt_status_name(status));
  while (!result) {
    size_t used = 0;
    if (mcprt_wait(mgr, -1) < 0 || mcprt_drain(mgr, buffer, sizeof buffer, &used) < 0) fail("the queue cannot be read");
    for (size_t at = 0; at < used;) {
      mcprt_frame frame;
      memcpy(&frame, buffer + at, sizeof frame);
      const char *data = buffer + at + sizeof frame;
      if (frame.kind == MCPRT_EV_REQUEST) {
        reply(frame.tag, data);
      } else if (frame.kind == MCPRT_EV_DONE && frame.tag == tag) {
        if (frame.status != MCPRT_OK) {
          char message[2000];
          fail("%s: %s", mcprt_status_name(frame.status), json_text(json_get(json_get(data, "error"), "message"), message, sizeof message));
        }
        struct text copy = {0};
        add(&copy, data, frame.len);
        result = copy.bytes;
      }
      at += frame.size;
    }
  }
  return result;
}

/* How the suite calls what a person would write into the server's oauth block. */
static const char *const oauth[][2] = {
    {"client_id", "clientId"},       {"client_secret", "clientSecret"}, {"private_key_pem", "privateKeyPem"}, {"signing_algorithm", "signingAlgorithm"},
    {"issuer", "issuer"},            {"idp_client_id", "idpClientId"},  {"idp_id_token", "idToken"},          {"idp_issuer", "idpIssuer"},
    {"valid_jwt", "assertion"},      {"idp_token_endpoint", "idpTokenEndpoint"},
};
static const char *const grants[][2] = {
    {"client-credentials", "client_credentials"}, {"enterprise-managed", "enterprise_managed"},
    {"cross-app-access", "enterprise_managed"},   {"wif-jwt-bearer", "jwt_bearer"},
};
#define COUNT(array) (sizeof array / sizeof array[0])

static void open_runtime(const char *url, const char *scenario, const char *context) {
  struct text options = {0}, block = {0};
  for (size_t i = 0; i < COUNT(oauth); i++) {
    const char *value = json_get(context, oauth[i][0]);
    if (!value) continue;
    puts_(&block, block.len ? ",\"" : "\"");
    puts_(&block, oauth[i][1]);
    puts_(&block, "\":");
    put_json(&block, value);
  }
  for (size_t i = 0; i < COUNT(grants); i++) {
    if (!strstr(scenario, grants[i][0])) continue;
    puts_(&block, block.len ? ",\"grant\":\"" : "\"grant\":\"");
    puts_(&block, grants[i][1]);
    puts_(&block, "\"");
  }
  puts_(&options, "{\"discovery\":{\"user\":\"none\",\"project\":false},\"cache\":{\"enabled\":false},"
                  "\"auth\":{\"store\":\"memory\",\"openBrowser\":\"never\",\"redirectUri\":\"http://localhost:3000/callback\","
                  "\"clientMetadataUrl\":\"https://conformance-test.local/client-metadata.json\"},"
                  "\"answers\":[\"authorization\",\"elicitation\",\"sampling\",\"roots\"],"
                  "\"servers\":{\"suite\":{\"type\":\"http\",\"url\":\"");
  puts_(&options, url);
  puts_(&options, "\"");
  if (block.len) {
    puts_(&options, ",\"oauth\":{");
    puts_(&options, block.bytes);
    puts_(&options, "}");
  }
  puts_(&options, "}}}");
  mcprt_buf out;
  if (mcprt_open(options.bytes, options.len, &mgr, &out) != MCPRT_OK) {
    fprintf(stderr, "open: %s\n", out.ptr);
    exit(1);
  }
  mcprt_buf_free(&out);
  free(options.bytes);
  free(block.bytes);
}

static void call(const char *name, const char *arguments, const char *wrapper) {
  struct text request = {0};
  puts_(&request, "{\"server\":\"suite\",\"tool\":");
  put_json(&request, name);
  puts_(&request, ",\"arguments\":");
  puts_(&request, wrapper);
  put_json(&request, arguments);
  puts_(&request, *wrapper ? "}}" : "}");
  free(run(MCPRT_CALL, request.bytes));
  free(request.bytes);
}

static void call_all(const char *context) {
  const char *calls = json_get(context, "toolCalls");
  if (calls) {
    for (const char *c = json_first(calls); c; c = json_next(c)) call(json_get(c, "name"), json_get(c, "arguments"), "");
    return;
  }
  char *list = run(MCPRT_LIST, "{}");
  const char *tools = json_get(list, "tools");
  for (const char *tool = json_first(tools); tool; tool = json_next(tool)) {
    char name[200];
    json_text(json_get(tool, "tool"), name, sizeof name);
    const char *arguments = strcmp(name, "add_numbers") ? "{}" : "{\"a\":5,\"b\":3}", *wrapper = "";
    if (strstr(name, "echo") && json_get(json_get(json_get(tool, "inputSchema"), "properties"), "schema")) {
      const char *other = json_first(tools);
      if (other == tool) other = json_next(other);
      arguments = json_get(other, "inputSchema");
      wrapper = "{\"schema\":";
    }
    call(json_get(tool, "tool"), arguments, wrapper);
  }
  free(list);
}

/* Lists the skills and, unless the scenario is that nothing is read ahead of need, loads
 * each with all its files. */
static void load_skills(const char *scenario) {
  char *list = run(MCPRT_CALL, "{\"server\":\"suite\",\"method\":\"skills/list\"}");
  if (!strstr(scenario, "no-prefetch"))
    for (const char *skill = json_first(json_get(json_get(list, "result"), "skills")); skill; skill = json_next(skill))
      for (const char *file = json_first(json_get(skill, "resources")); file; file = json_next(file)) {
        struct text request = {0};
        puts_(&request, "{\"server\":\"suite\",\"method\":\"resources/read\",\"params\":{\"uri\":");
        put_json(&request, json_get(file, "uri"));
        puts_(&request, "}}");
        free(run(MCPRT_CALL, request.bytes));
        free(request.bytes);
      }
  free(list);
}

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: client URL\n"), 2;
  const char *scenario = getenv("MCP_CONFORMANCE_SCENARIO"), *context = getenv("MCP_CONFORMANCE_CONTEXT");
  if (!scenario) scenario = "";
  if (!context || !*context) context = "{}";
  open_runtime(argv[1], scenario, context);
  char *report = run(MCPRT_CONNECT, "{\"startupTimeoutMs\":0,\"tools\":false}");
  const char *error = json_get(json_get(report, "errors"), "suite");
  if (error) {
    char message[2000];
    fail("%s", json_text(json_get(error, "message"), message, sizeof message));
  }
  if (json_first(json_get(report, "needsAuth"))) free(run(MCPRT_CALL, "{\"method\":\"mcprt/auth.login\",\"params\":{\"server\":\"suite\"}}"));
  free(report);
  if (strstr(scenario, "sep-2640"))
    load_skills(scenario);
  else
    call_all(context);
  mcprt_close(mgr, -1);
  mcprt_free(mgr);
  return 0;
}
