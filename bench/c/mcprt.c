/*
 * libmcprt from C. The library is opened by dlopen, so that what its loading costs can be
 * measured too. Same flags and the same JSON line as the other drivers, plus
 *
 *   --lib PATH    the library
 *   --window K    in place of --inflight: K calls under way in all, the next one always at the
 *                 next server, also for one call at one server
 *
 * and a workload of its own, `open`: what loading and opening costs. With BENCH_CACHE=DIR
 * in the environment there is a tool cache, and the gate is eager.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../../examples/c/json.h"
#include <mcprt.h>

#define ARGUMENTS "{\"path\":\"/tmp/some/file.txt\",\"query\":\"hello\"}"

static const char *server = "build/mockserver", *url = "", *lib = "libmcprt.so.0", *cache;
static int n = 1, tools = 10, slow, slow_ms = 3000, inflight = 1, window;
static long calls = 1000, warmup = 100, result_bytes;

static __typeof__(mcprt_open) *f_open;
static __typeof__(mcprt_connect) *f_connect;
static __typeof__(mcprt_call) *f_call;
static __typeof__(mcprt_list) *f_list;
static __typeof__(mcprt_submit) *f_submit;
static __typeof__(mcprt_drain) *f_drain;
static __typeof__(mcprt_wait) *f_wait;
static __typeof__(mcprt_buf_free) *f_free;

static mcprt_mgr mgr;

static void die(const char *what, const char *why) {
  fprintf(stderr, "mcprt driver: %s: %s\n", what, why ? why : strerror(errno));
  exit(1);
}

static int64_t now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double cpu(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static long status_kb(const char *field) {
  FILE *f = fopen("/proc/self/status", "r");
  char line[256];
  long kb = 0;
  size_t k = strlen(field);
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, field, k) == 0) kb = atol(line + k + 1);
  if (f) fclose(f);
  return kb;
}

static void load(void) {
  void *handle = dlopen(lib, RTLD_NOW);
  if (!handle) die("dlopen", dlerror());
  *(void **)&f_open = dlsym(handle, "mcprt_open");
  *(void **)&f_connect = dlsym(handle, "mcprt_connect");
  *(void **)&f_call = dlsym(handle, "mcprt_call");
  *(void **)&f_list = dlsym(handle, "mcprt_list");
  *(void **)&f_submit = dlsym(handle, "mcprt_submit");
  *(void **)&f_drain = dlsym(handle, "mcprt_drain");
  *(void **)&f_wait = dlsym(handle, "mcprt_wait");
  *(void **)&f_free = dlsym(handle, "mcprt_buf_free");
}

static char *options(void) {
  static char *text;
  size_t size;
  FILE *f = open_memstream(&text, &size);
  fprintf(f, "{\"discovery\":{\"project\":false,\"user\":\"none\"},\"toolNames\":{\"prefix\":\"\"},\"cache\":{\"enabled\":%s", cache ? "true" : "false");
  if (cache) fprintf(f, ",\"dir\":\"%s\"", cache);
  fprintf(f, "},\"servers\":{");
  for (int i = 0; i < n; i++) {
    fprintf(f, "%s\"s%d\":", i ? "," : "", i);
    if (*url)
      fprintf(f, "{\"type\":\"http\",\"url\":\"%s\"}", url);
    else
      fprintf(f, "{\"command\":\"%s\",\"args\":[\"--tools\",\"%d\",\"--result-bytes\",\"%ld\",\"--start-delay\",\"%d\",\"--name\",\"s%d\"]}", server, tools,
              result_bytes, i >= n - slow ? slow_ms : 0, i);
  }
  fprintf(f, "}}");
  fclose(f);
  return text;
}

static void open_manager(void) {
  mcprt_buf out;
  char *o = options();
  if (f_open(o, strlen(o), &mgr, &out) != MCPRT_OK) die("open", out.ptr);
}

static void check_tools(const char *reply) {
  int got = json_count(json_get(reply, "tools"));
  char text[100];
  snprintf(text, sizeof text, "%d tools, want %d", got, n * tools);
  if (got != n * tools) die(text, reply);
}

static void connect_all(const char *request, mcprt_buf *reply) {
  if (f_connect(mgr, request, strlen(request), reply) != MCPRT_OK) die("connect", reply->ptr);
}

static char *call_request(int i) {
  static char text[200];
  snprintf(text, sizeof text, "{\"tool\":\"s%d_tool_0\",\"arguments\":" ARGUMENTS "}", i);
  return text;
}

static void call(const char *request) {
  mcprt_buf reply;
  if (f_call(mgr, request, strlen(request), &reply) != MCPRT_OK) die("call", reply.ptr);
  if (reply.len < 20) die("empty result", reply.ptr);
  f_free(&reply);
}

static void list_tools(void) {
  static const char request[] = "{\"server\":\"s0\",\"refresh\":true}";
  mcprt_buf reply;
  if (f_list(mgr, request, sizeof request - 1, &reply) != MCPRT_OK) die("list", reply.ptr);
  check_tools(reply.ptr);
  f_free(&reply);
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static void print_latencies(int64_t *lat, double seconds, double cpu_s) {
  double sum = 0;
  for (long i = 0; i < calls; i++) sum += (double)lat[i];
  qsort(lat, (size_t)calls, sizeof *lat, compare);
  printf("{\"calls_s\":%.1f,\"min_us\":%.2f,\"p50_us\":%.2f,\"p99_us\":%.2f,\"mean_us\":%.2f,\"cpu_s_10k\":%.4f,\"rss_kb\":%ld}\n",
         (double)calls / seconds, (double)lat[0] / 1e3, (double)lat[calls / 2] / 1e3, (double)lat[calls * 99 / 100] / 1e3,
         sum / (double)calls / 1e3, cpu_s / (double)calls * 1e4, status_kb("VmHWM:"));
}

static void sequence(int listing) {
  int64_t *lat = calloc((size_t)calls, sizeof *lat);
  char *request = call_request(0);
  for (long i = 0; i < warmup; i++) listing ? list_tools() : call(request);
  double c = cpu();
  int64_t start = now(CLOCK_MONOTONIC);
  for (long i = 0; i < calls; i++) {
    int64_t a = now(CLOCK_MONOTONIC);
    listing ? list_tools() : call(request);
    lat[i] = now(CLOCK_MONOTONIC) - a;
  }
  print_latencies(lat, (double)(now(CLOCK_MONOTONIC) - start) / 1e9, cpu() - c);
}

static void submit_call(int place, const char *request) {
  if (f_submit(mgr, MCPRT_CALL, 0, (uint64_t)place + 1, request, strlen(request)) != MCPRT_OK) die("submit", "refused");
}

/* `inflight` calls at each server, each followed by the next one there; or `window` of them, taking turns at the servers. */
static void windowed(void) {
  int places = window ? window : n * inflight;
  int64_t *lat = calloc((size_t)calls, sizeof *lat), *sent = calloc((size_t)places, sizeof *sent), start = 0;
  char **requests = calloc((size_t)n, sizeof *requests);
  long turn = 0;
  double c = 0;
  for (int i = 0; i < n; i++) requests[i] = strdup(call_request(i));
  static _Alignas(8) char buf[1 << 20];
  long got = -warmup;
  if (warmup == 0) start = now(CLOCK_MONOTONIC), c = cpu();
  for (int p = 0; p < places; p++) {
    sent[p] = now(CLOCK_MONOTONIC);
    submit_call(p, requests[turn++ % n]);
  }
  while (got < calls) {
    size_t used;
    if (f_wait(mgr, -1) < 0) die("wait", "closed");
    while (got < calls) {
      int32_t items = f_drain(mgr, buf, sizeof buf, &used);
      if (items < 0) die("drain", "refused");
      if (items == 0) break;
      /* Not beyond the last one: with many under way the queue may never be found empty, and the clock would run on. */
      for (char *at = buf; at < buf + used && got < calls;) {
        mcprt_frame *f = (mcprt_frame *)(void *)at;
        at += f->size;
        if (f->kind != MCPRT_EV_DONE) continue;
        if (f->status != MCPRT_OK || f->len < 20) die("call", (char *)(f + 1));
        int p = (int)f->tag - 1;
        int64_t t = now(CLOCK_MONOTONIC);
        if (got == 0) start = t, c = cpu();
        if (got >= 0) lat[got] = t - sent[p];
        got++;
        sent[p] = t;
        submit_call(p, requests[window ? turn++ % n : p % n]);
      }
    }
  }
  print_latencies(lat, (double)(now(CLOCK_MONOTONIC) - start) / 1e9, cpu() - c);
}

/* Connects, and hears meanwhile which servers are ready. Returns when the last fast one was. */
static int64_t connect_mixed(const char *request, mcprt_buf *reply) {
  int64_t fast = 0;
  int ready = 0;
  static _Alignas(8) char buf[1 << 20];
  if (f_submit(mgr, MCPRT_CONNECT, 0, 1, request, strlen(request)) != MCPRT_OK) die("submit", "refused");
  for (;;) {
    size_t used;
    if (f_wait(mgr, -1) < 0) die("wait", "closed");
    while (f_drain(mgr, buf, sizeof buf, &used) > 0)
      for (char *at = buf; at < buf + used;) {
        mcprt_frame *f = (mcprt_frame *)(void *)at;
        at += f->size;
        char *data = (char *)(f + 1);
        if (f->kind == MCPRT_EV_DONE) {
          if (f->status != MCPRT_OK) die("connect", data);
          *reply = (mcprt_buf){strdup(data), f->len};
          return fast;
        }
        if (f->kind == MCPRT_EV_NOTICE && strstr(data, "\"type\":\"tools_changed\"") && ++ready == n - slow) fast = now(CLOCK_MONOTONIC);
      }
  }
}

int main(int argc, char **argv) {
  const char *exec_at = getenv("BENCH_T0_NS"), *workload = argc > 1 ? argv[1] : "";
  for (int i = 2; i + 1 < argc; i += 2) {
    char *k = argv[i] + 2, *v = argv[i + 1];
    struct { const char *name; const char **text; int *number; long *large; } flags[] = {
        {"server", &server, 0, 0}, {"url", &url, 0, 0}, {"lib", &lib, 0, 0}, {"n", 0, &n, 0}, {"tools", 0, &tools, 0},
        {"slow", 0, &slow, 0}, {"slow-ms", 0, &slow_ms, 0}, {"inflight", 0, &inflight, 0}, {"window", 0, &window, 0},
        {"calls", 0, 0, &calls}, {"warmup", 0, 0, &warmup}, {"result-bytes", 0, 0, &result_bytes}};
    size_t at = 0, count = sizeof flags / sizeof *flags;
    while (at < count && strcmp(k, flags[at].name) != 0) at++;
    if (at == count) die("unknown flag", argv[i]);
    if (flags[at].text) *flags[at].text = v;
    if (flags[at].number) *flags[at].number = atoi(v);
    if (flags[at].large) *flags[at].large = atol(v);
  }
  cache = getenv("BENCH_CACHE");
  mcprt_buf reply = {0};
  if (strcmp(workload, "open") == 0) {
    long before = status_kb("VmRSS:");
    int64_t a = now(CLOCK_MONOTONIC);
    load();
    n = 0;
    open_manager();
    int64_t b = now(CLOCK_MONOTONIC);
    printf("{\"open_ms\":%.3f,\"rss_added_kb\":%ld,\"rss_kb\":%ld}\n", (double)(b - a) / 1e6, status_kb("VmRSS:") - before, status_kb("VmHWM:"));
    return 0;
  }
  load();
  double c = cpu();
  int64_t a = now(CLOCK_MONOTONIC), fast = 0;
  open_manager();
  if (slow) fast = connect_mixed("{\"startupTimeoutMs\":0}", &reply);
  else connect_all(cache ? "{\"gate\":\"eager\"}" : "{\"startupTimeoutMs\":0}", &reply);
  int64_t all = now(CLOCK_MONOTONIC);
  double cpu_ms = (cpu() - c) * 1e3; /* without the check, which is this program's */
  check_tools(reply.ptr);
  if (strcmp(workload, "ttt") == 0) {
    double from_exec = exec_at ? (double)(now(CLOCK_REALTIME) - atoll(exec_at)) / 1e6 : 0;
    for (int i = 0; i < n; i++) call(call_request(i));
    printf("{\"ttt_ms\":%.3f,\"ttt_fast_ms\":%.3f,\"from_exec_ms\":%.3f,\"cpu_ms\":%.3f,\"tools\":%d,\"rss_kb\":%ld}\n", (double)(all - a) / 1e6,
           (double)((fast ? fast : all) - a) / 1e6, from_exec, cpu_ms, n * tools, status_kb("VmHWM:"));
  } else if (strcmp(workload, "calls") == 0) {
    if (n == 1 && inflight == 1 && !window) sequence(0);
    else windowed();
  } else if (strcmp(workload, "list") == 0) {
    sequence(1);
  } else {
    die("unknown workload", workload);
  }
  fflush(stdout);
  _exit(0); /* the servers end on EOF */
}
