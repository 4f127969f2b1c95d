/*
 * The Go side of the boundary, in C: it answers like a runtime with one server,
 * "demo", so that the C side and the bindings can be tested without Go. Tools:
 *
 *   mcp_demo_echo  {"text":"…"}     its text back; raw numbers and unknown members survive
 *   mcp_demo_slow  {"ms":n}         after n ms; with "progress":true three notices first
 *   mcp_demo_fail  {}               a JSON-RPC error of the server
 *   mcp_demo_error {}               a success whose result says isError
 *   mcp_demo_big   {"bytes":n}      n letters
 *   mcp_demo_flood {"count":n}      n log notices, then the result
 *   mcp_demo_ask   {}               an elicitation; its result is the host's answer
 *   mcp_demo_hang  {}               nothing, until cancelled or closed; never counts its timeout
 *
 * Options honoured: maxInFlight, queueBytes, maxNotices, noticeBytes, requestTimeoutMs,
 * "stubRefuse":true, which makes open fail, and "stubMost":n, above which no number in a
 * call's arguments counts.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../gocalls.h"

/* An operation that has not ended, or a question that is open. */
struct job {
  struct job *next;
  struct mp_op *op;
  uint64_t id;
  uint64_t request; /* > 0: op ends with the answer to this question */
  int64_t due;      /* ms; when what is in `reply` comes. INT64_MAX: never */
  int32_t status;
  char *reply;
};

struct stub {
  struct mp_manager *m;
  pthread_t thread;
  mp_mutex lock;
  struct job *jobs;
  struct mp_wake again; /* a new job may be due earlier than what the thread waits for */
  int fd;
  bool closed;
  uint64_t next_request;
  int64_t request_timeout;
  int64_t most;
  int revision;
};

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* When ms from now have passed. The clock's part of a millisecond counts as a whole one: nothing comes early. */
static int64_t after_ms(int64_t ms) {
  return now_ms() + ms + 1;
}

__attribute__((format(printf, 1, 2))) static char *format(const char *f, ...) {
  char *s = NULL;
  va_list args;
  va_start(args, f);
  if (vasprintf(&s, f, args) < 0) abort();
  va_end(args);
  return s;
}

/* ---- as much JSON as a stub needs: the text is valid, member names are unique ---- */

static const char *member(const char *json, const char *name) {
  char key[64];
  snprintf(key, sizeof key, "\"%s\"", name);
  for (const char *p = json; (p = strstr(p, key)); p++) {
    const char *v = p + strlen(key);
    while (*v == ' ' || *v == '\n' || *v == '\t') v++;
    if (*v++ != ':') continue;
    while (*v == ' ' || *v == '\n' || *v == '\t') v++;
    return v;
  }
  return NULL;
}

/* The raw value of a member, malloc'd. */
static char *raw_member(const char *json, const char *name, const char *otherwise) {
  const char *v = member(json, name), *p = v;
  if (!v) return strdup(otherwise);
  int depth = 0;
  bool in_string = false;
  for (; *p; p++) {
    if (in_string) {
      if (*p == '\\') p++;
      else if (*p == '"') in_string = false;
    } else if (*p == '"') {
      in_string = true;
    } else if (*p == '{' || *p == '[') {
      depth++;
    } else if (*p == '}' || *p == ']' || *p == ',') {
      if (depth == 0) break;
      if (*p != ',') depth--;
    }
  }
  while (p > v && (p[-1] == ' ' || p[-1] == '\n' || p[-1] == '\t')) p--;
  return strndup(v, (size_t)(p - v));
}

static int64_t number_member(const char *json, const char *name, int64_t otherwise) {
  const char *v = member(json, name);
  return v ? strtoll(v, NULL, 10) : otherwise;
}

/* A number of a call's arguments, from 0 to most. */
static int64_t argument(struct stub *s, const char *json, const char *name, int64_t otherwise) {
  int64_t n = number_member(json, name, otherwise);
  return n < 0 ? 0 : n > s->most ? s->most : n;
}

static bool string_member_is(const char *json, const char *name, const char *value) {
  const char *v = member(json, name);
  size_t n = strlen(value);
  return v && *v == '"' && strncmp(v + 1, value, n) == 0 && v[n + 1] == '"';
}

/* ---- answers ---- */

#define SERVER_VIEW                                                                                                  \
  "{\"name\":\"demo\",\"status\":\"connected\",\"state\":\"ready\",\"toolCount\":8,"                                  \
  "\"protocolVersion\":\"2025-11-25\",\"serverInfo\":{\"name\":\"demo\",\"version\":\"1.0\"},\"instructions\":null,"  \
  "\"connectMs\":12,\"error\":null,\"retryAt\":null,"                                                                 \
  "\"source\":{\"provider\":\"inline\",\"providerName\":\"inline\",\"path\":\"\",\"level\":\"host\"},\"pid\":1}"

static const char *const names[] = {"ask", "big", "echo", "error", "fail", "flood", "hang", "slow"};

static char *tools(void) {
  char *all = strdup("");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char *more = format("%s%s{\"name\":\"mcp_demo_%s\",\"server\":\"demo\",\"tool\":\"%s\",\"label\":\"mcp:demo via inline\","
                        "\"title\":null,\"description\":\"The tool %s of the demo server.\","
                        "\"inputSchema\":{\"type\":\"object\",\"properties\":{}},\"outputSchema\":null,"
                        "\"annotations\":{\"readOnlyHint\":true},\"_meta\":null,\"deferred\":false,\"stale\":false,"
                        "\"unavailable\":false,\"fetchedAt\":\"2026-12-01T00:00:00Z\"}",
                        all, i ? "," : "", names[i], names[i], names[i]);
    free(all);
    all = more;
  }
  return all;
}

static char *connected(struct stub *s, const char *more) {
  char *all = tools();
  char *reply = format("{\"revision\":%d,\"elapsedMs\":12,\"tools\":[%s],\"servers\":[%s],\"connected\":[\"demo\"],"
                       "\"deferred\":[],\"pending\":[],\"needsTrust\":[],\"needsAuth\":[],\"needsInput\":[],"
                       "\"errors\":{},\"diagnostics\":[]%s}",
                       s->revision, all, SERVER_VIEW, more);
  free(all);
  return reply;
}

static char *list(struct stub *s, const char *req) {
  if (number_member(req, "ifRevision", -1) == s->revision)
    return format("{\"revision\":%d,\"unchanged\":true}", s->revision);
  if (string_member_is(req, "kind", "servers")) return format("{\"revision\":%d,\"servers\":[%s]}", s->revision, SERVER_VIEW);
  if (member(req, "kind") && !string_member_is(req, "kind", "tools")) {
    char *kind = raw_member(req, "kind", "");
    char *reply = format("{\"revision\":%d,%s:[]}", s->revision, kind);
    free(kind);
    return reply;
  }
  char *all = tools();
  char *reply = format("{\"revision\":%d,\"tools\":[%s]}", s->revision, all);
  free(all);
  return reply;
}

static char *discovered(void) {
  return strdup("{\"servers\":[{\"name\":\"demo\",\"transport\":\"stdio\",\"enabled\":true,\"trusted\":true,"
                "\"hash\":\"sha256:0000000000000000000000000000000000000000000000000000000000000000\","
                "\"duplicateOf\":null,\"source\":{\"provider\":\"inline\",\"providerName\":\"inline\",\"path\":\"\","
                "\"level\":\"host\"},\"config\":{\"command\":\"demo\",\"args\":[],\"env\":{}}}],\"shadowed\":[],"
                "\"diagnostics\":[],\"exaApiKeys\":[]}");
}

static char *failure(const char *code, const char *message, const char *tool, const char *data, bool with_result) {
  char *result = with_result ? format(",\"result\":{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"MCP error: %s\"}]}", message)
                             : strdup("");
  char *reply = format("{\"error\":{\"code\":\"%s\",\"message\":\"%s\"%s%s%s,\"retryable\":false%s}%s}", code, message,
                       tool ? ",\"server\":\"demo\",\"tool\":\"" : "", tool ? tool : "", tool ? "\"" : "", data, result);
  free(result);
  return reply;
}

static void end(struct mp_op *op, int32_t status, char *reply) {
  /* In two parts, as core hands over an envelope and a body. */
  size_t half = strlen(reply) / 2;
  mp_op_complete(op, status, reply, half, reply + half, strlen(reply + half), "", 0);
  free(reply);
}

static void end_closed(struct mp_op *op) {
  end(op, MCPRT_ECLOSED, failure("closed", "the manager was closed while the operation ran", NULL, "", true));
}

/* ---- jobs ---- */

static struct job *job_new(struct mp_op *op, uint64_t id, int64_t due, int32_t status, char *reply) {
  struct job *job = calloc(1, sizeof *job);
  if (!job) abort();
  *job = (struct job){.op = op, .id = id, .due = due, .status = status, .reply = reply};
  return job;
}

static void add(struct stub *s, struct job *job) {
  mp_lock(&s->lock);
  bool closed = s->closed;
  if (!closed) {
    job->next = s->jobs;
    s->jobs = job;
  }
  mp_unlock(&s->lock);
  mp_wake_send(&s->again);
  if (!closed) return;
  end_closed(job->op);
  free(job->reply);
  free(job);
}

/* Takes one job out by one of its two names; 0 matches nothing. */
static struct job *pick(struct stub *s, uint64_t id, uint64_t request) {
  struct job *found = NULL;
  mp_lock(&s->lock);
  for (struct job **at = &s->jobs; *at; at = &(*at)->next) {
    if ((id && (*at)->id == id) || (request && (*at)->request == request)) {
      found = *at;
      *at = found->next;
      break;
    }
  }
  mp_unlock(&s->lock);
  return found;
}

static void finish(struct stub *s, struct job *job, int32_t request_status, int32_t status, char *reply) {
  if (job->request) mp_request_done(s->m, job->request, request_status);
  end(job->op, status, reply);
  free(job->reply);
  free(job);
}

static void notify(struct stub *s, const char *notice) { mp_notice(s->m, notice, strlen(notice)); }

static char *canceled(void) { return failure("canceled", "the operation was cancelled", NULL, "", false); }

static void call(struct stub *s, struct mp_op *op, uint64_t id, uint64_t tag, const char *req) {
  char *tool = raw_member(req, "tool", "\"\"");
  char *arguments = raw_member(req, "arguments", "{}");
  const char *name = strncmp(tool, "\"mcp_demo_", 10) == 0 ? tool + 10 : tool + 1;
  int64_t ms = argument(s, arguments, "ms", 0), timeout = number_member(req, "timeoutMs", 30000);
  if (member(req, "method")) {
    end(op, MCPRT_OK, strdup("{\"result\":{}}"));
  } else if (strcmp(name, "echo\"") == 0) {
    char *said = raw_member(arguments, "text", "\"\"");
    end(op, MCPRT_OK, format("{\"result\":{\"content\":[{\"type\":\"text\",\"text\":%s}],\"big\":9007199254740993,"
                             "\"arguments\":%s}}", said, arguments));
    free(said);
  } else if (strcmp(name, "slow\"") == 0) {
    for (int i = 1; tag && i <= 3 && strstr(req, "\"progress\":true"); i++) {
      char *notice = format("{\"type\":\"progress\",\"tag\":%llu,\"server\":\"demo\",\"progress\":%d,\"total\":3,"
                            "\"message\":\"step %d\"}", (unsigned long long)tag, i, i);
      notify(s, notice);
      free(notice);
    }
    if (timeout > 0 && timeout < ms)
      add(s, job_new(op, id, after_ms(timeout), MCPRT_ETIMEOUT,
                     failure("timeout", "demo did not answer in time; raise timeoutMs", "slow", "", true)));
    else
      add(s, job_new(op, id, after_ms(ms), MCPRT_OK,
                     format("{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"slept %lld ms\"}]}}", (long long)ms)));
  } else if (strcmp(name, "hang\"") == 0) {
    add(s, job_new(op, id, INT64_MAX, MCPRT_OK, NULL));
  } else if (strcmp(name, "fail\"") == 0) {
    end(op, MCPRT_EFAILED, failure("rpc_error", "demo: the tool failed on purpose (-32000)", "fail",
                                   ",\"data\":{\"rpcCode\":-32000,\"rpcMessage\":\"failed on purpose\"}", true));
  } else if (strcmp(name, "error\"") == 0) {
    end(op, MCPRT_OK, strdup("{\"result\":{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"no such file\"}]}}"));
  } else if (strcmp(name, "big\"") == 0) {
    size_t n = (size_t)argument(s, arguments, "bytes", 1000);
    char *letters = malloc(n + 1);
    if (!letters) abort();
    memset(letters, 'x', n);
    letters[n] = 0;
    static const char head[] = "{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"", tail[] = "\"}]}}";
    mp_op_complete(op, MCPRT_OK, head, sizeof head - 1, letters, n, tail, sizeof tail - 1);
    free(letters);
  } else if (strcmp(name, "flood\"") == 0) {
    int64_t n = argument(s, arguments, "count", 0);
    for (int64_t i = 1; i <= n; i++) {
      char *notice = format("{\"type\":\"log\",\"server\":\"demo\",\"level\":\"info\",\"logger\":\"flood\",\"data\":%lld}", (long long)i);
      notify(s, notice);
      free(notice);
    }
    end(op, MCPRT_OK, format("{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"%lld notices\"}]}}", (long long)n));
  } else if (strcmp(name, "ask\"") == 0) {
    struct job *job = job_new(op, id, after_ms(s->request_timeout), MCPRT_EFAILED,
                              failure("timeout", "nobody answered the question of demo", "ask", "", true));
    mp_lock(&s->lock);
    uint64_t request = job->request = ++s->next_request;
    mp_unlock(&s->lock);
    add(s, job);
    static const char question[] =
        "{\"type\":\"elicitation/create\",\"server\":\"demo\",\"params\":{\"message\":\"Your name?\","
        "\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}}}},"
        "\"timeoutMs\":300000,\"attempt\":1}";
    if (!mp_request_open(s->m, request, question, sizeof question - 1)) {
      job = pick(s, 0, request);
      if (job)
        finish(s, job, 0, MCPRT_EFAILED, failure("canceled", "the host takes no more questions", "ask", "", true));
    }
  } else {
    end(op, MCPRT_EFAILED, failure("unknown_tool", "no such tool; list shows them", NULL, "", false));
  }
  free(arguments);
  free(tool);
}

static void start(struct stub *s, struct mp_op *op, uint64_t id, int32_t verb, uint64_t tag, const char *req) {
  if (verb == MCPRT_DISCOVER) {
    end(op, MCPRT_OK, discovered());
  } else if (verb == MCPRT_CONNECT || verb == MCPRT_RELOAD) {
    notify(s, "{\"type\":\"server_state\",\"name\":\"demo\",\"status\":\"connected\",\"state\":\"ready\",\"toolCount\":8}");
    notify(s, "{\"type\":\"tools_changed\",\"revision\":1,\"server\":\"demo\",\"added\":[\"mcp_demo_echo\"],"
                         "\"removed\":[],\"changed\":[],\"live\":[\"mcp_demo_echo\"],\"renamed\":{}}");
    end(op, MCPRT_OK, connected(s, verb == MCPRT_RELOAD ? ",\"changes\":{\"added\":[],\"removed\":[],\"changed\":[],\"kept\":[\"demo\"]}" : ""));
  } else if (verb == MCPRT_LIST) {
    end(op, MCPRT_OK, list(s, req));
  } else if (verb == MCPRT_CALL) {
    call(s, op, id, tag, req);
  } else {
    end(op, MCPRT_OK, strdup("{\"disconnected\":[\"demo\"]}"));
  }
}

static void answer(struct stub *s, uint64_t request, const char *reply) {
  struct job *job = pick(s, 0, request);
  if (!job) return;
  char *result = raw_member(reply, "result", "");
  char *error = raw_member(reply, "error", "");
  if (*result)
    finish(s, job, MCPRT_OK, MCPRT_OK, format("{\"result\":{\"content\":[],\"answer\":%s}}", result));
  else if (*error)
    finish(s, job, MCPRT_OK, MCPRT_EFAILED, failure("rpc_error", "the host answered with an error", "ask", "", true));
  else
    finish(s, job, MCPRT_EINVAL, MCPRT_EFAILED, failure("invalid_request", "an answer has a result or an error", "ask", "", true));
  free(result);
  free(error);
}

static void close_all(struct stub *s) {
  mp_lock(&s->lock);
  s->closed = true;
  struct job *jobs = s->jobs;
  s->jobs = NULL;
  mp_unlock(&s->lock);
  while (jobs) {
    struct job *next = jobs->next;
    if (jobs->request) mp_request_done(s->m, jobs->request, MCPRT_ECLOSED);
    end_closed(jobs->op);
    free(jobs->reply);
    free(jobs);
    jobs = next;
  }
  mp_core_closed(s->m);
}

/* Ends what is due; returns how long to wait for the next, -1 for ever. */
static int run_due(struct stub *s) {
  for (;;) {
    int64_t now = now_ms(), first = INT64_MAX;
    uint64_t id = 0;
    mp_lock(&s->lock);
    for (const struct job *j = s->jobs; j; j = j->next) {
      if (j->due >= first) continue;
      first = j->due;
      id = j->id;
    }
    mp_unlock(&s->lock);
    if (first == INT64_MAX) return -1;
    if (first > now) return (int)(first - now);
    struct job *job = pick(s, id, 0);
    if (!job) continue;
    char *reply = job->reply;
    job->reply = NULL;
    finish(s, job, MCPRT_ETIMEOUT, job->status, reply);
  }
}

static void empty(int fd) {
  char bytes[64];
  while (read(fd, bytes, sizeof bytes) > 0) {
  }
}

static void *serve(void *arg) {
  struct stub *s = arg;
  for (bool go_on = true; go_on;) {
    struct pollfd fds[2] = {{s->fd, POLLIN, 0}, {s->again.reader, POLLIN, 0}};
    poll(fds, 2, run_due(s));
    empty(s->fd);
    empty(s->again.reader);
    for (struct mp_work *w; (w = mp_work_next(s->m));) {
      for (; w; w = w->next) {
        struct job *job;
        switch (w->kind) {
        case MP_WORK_START: start(s, w->op, w->id, w->verb, w->tag, w->text); break;
        case MP_WORK_CANCEL:
          if ((job = pick(s, w->id, 0))) finish(s, job, MCPRT_ECANCELED, MCPRT_ECANCELED, canceled());
          break;
        case MP_WORK_ANSWER: answer(s, w->tag, w->text); break;
        case MP_WORK_DECLINE:
          if ((job = pick(s, 0, w->tag)))
            finish(s, job, MCPRT_ECANCELED, MCPRT_EFAILED, failure("canceled", "the host declined", "ask", "", true));
          break;
        case MP_WORK_CLOSE: close_all(s); break;
        case MP_WORK_END: go_on = false; break;
        }
      }
    }
  }
  close(s->fd);
  mp_manager_release(s->m);
  mp_wake_close(&s->again);
  mp_mutex_destroy(&s->lock);
  free(s);
  return NULL;
}

/* ---- what Go exports ---- */

int32_t mcprtgo_open(struct mp_manager *m, char *options, size_t len, int32_t wake_fd, uintptr_t *go,
                     struct mp_limits *limits, mcprt_buf *out) {
  char *copy = strndup(options, len);
  struct stub *s = calloc(1, sizeof *s);
  if (!s || !copy) abort();
  *s = (struct stub){.m = m, .fd = wake_fd, .next_request = MCPRT_TAG_MAX, .revision = 1};
  mp_mutex_init(&s->lock);
  s->request_timeout = number_member(copy, "requestTimeoutMs", 300000);
  s->most = number_member(copy, "stubMost", (int64_t)1 << 40);
  limits->in_flight = (uint64_t)number_member(copy, "maxInFlight", 4096);
  limits->queue_bytes = (uint64_t)number_member(copy, "queueBytes", 1 << 28);
  limits->notices = (uint64_t)number_member(copy, "maxNotices", 4096);
  limits->notice_bytes = (uint64_t)number_member(copy, "noticeBytes", 1 << 24);
  bool refuse = strstr(copy, "\"stubRefuse\":true");
  free(copy);
  *go = (uintptr_t)s;
  if (!refuse && mp_wake_open(&s->again)) {
    mp_manager_retain(m);
    if (pthread_create(&s->thread, NULL, serve, s) == 0) {
      pthread_detach(s->thread);
      return MCPRT_OK;
    }
    mp_manager_release(m);
  }
  char *reply = failure("invalid_request", "the stub was told to refuse", NULL, "", false);
  mp_buf_set(out, reply, strlen(reply));
  free(reply);
  close(wake_fd);
  mp_wake_close(&s->again);
  mp_mutex_destroy(&s->lock);
  free(s);
  return MCPRT_EINVAL;
}

void mcprtgo_start(uintptr_t go, struct mp_op *op, uint64_t id, int32_t verb, char *req, size_t len) {
  char *copy = strndup(req, len);
  if (!copy) abort();
  start((struct stub *)go, op, id, verb, 0, copy);
  free(copy);
}
