/*
 * A long life in short: many calls, many reconnects, and what they leave behind.
 *
 *   soak OPTIONS CALLS RECONNECTS
 *
 * OPTIONS names one server, "demo", with the tool "echo". After a warm-up the program
 * notes its resident memory, what malloc has handed out, its descriptors and its
 * children; then it makes CALLS calls with 64 in flight and RECONNECTS reconnects, and
 * prints one line of JSON with how each has grown. Every operation must end once.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcprt.h"

#define FAIL(...) (fprintf(stderr, "soak.c:%d: ", __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

enum { FLIGHT = 64, BUFFER = 1 << 20 };

static long resident_kib(void) {
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%*d %ld", &pages) != 1) FAIL("no /proc/self/statm");
  fclose(f);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static long allocated(void) { return (long)mallinfo2().uordblks; }

static long descriptors(void) {
  long n = 0;
  DIR *d = opendir("/proc/self/fd");
  if (!d) FAIL("no /proc/self/fd");
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

static long children(void) {
  long n = 0, pid;
  char path[64];
  DIR *d = opendir("/proc/self/task");
  if (!d) FAIL("no /proc/self/task");
  for (struct dirent *e; (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/children", e->d_name);
    FILE *f = fopen(path, "r");
    if (!f) continue; /* the thread has ended */
    while (fscanf(f, "%ld", &pid) == 1) n++;
    fclose(f);
  }
  closedir(d);
  return n;
}

static mcprt_mgr m;
static long ended, failed;

static void submit(uint64_t tag) {
  static const char call[] = "{\"server\":\"demo\",\"tool\":\"echo\",\"arguments\":{\"text\":\"a text that is neither long nor short\"}}";
  mcprt_status s = mcprt_submit(m, MCPRT_CALL, 0, tag, call, sizeof call - 1);
  if (s != MCPRT_OK) FAIL("submit: %s", mcprt_status_name(s));
}

/* Makes `calls` calls, FLIGHT at a time. */
static void call(long calls) {
  static char buffer[BUFFER];
  static bool open_[FLIGHT + 1];
  long begun = 0, done = 0;
  for (; begun < FLIGHT && begun < calls; begun++) submit((uint64_t)begun + 1), open_[begun + 1] = true;
  while (done < calls) {
    size_t used;
    if (mcprt_wait(m, 30000) != 1) FAIL("nothing came for 30 s; %ld of %ld calls are done", done, calls);
    int32_t n = mcprt_drain(m, buffer, sizeof buffer, &used);
    if (n < 0) FAIL("drain: %s", mcprt_status_name(n));
    for (size_t at = 0; at < used;) {
      mcprt_frame frame;
      memcpy(&frame, buffer + at, sizeof frame);
      if (frame.kind == MCPRT_EV_DONE) {
        if (frame.tag == 0 || frame.tag > FLIGHT || !open_[frame.tag]) FAIL("tag %llu ended but was not open", (unsigned long long)frame.tag);
        if (frame.status != MCPRT_OK) failed++;
        open_[frame.tag] = false;
        ended++;
        done++;
        if (begun < calls) {
          begun++;
          open_[frame.tag] = true;
          submit(frame.tag);
        }
      }
      at += frame.size;
    }
  }
}

static void must(mcprt_status (*verb)(mcprt_mgr, const char *, size_t, mcprt_buf *), const char *request) {
  mcprt_buf out;
  mcprt_status s = verb(m, request, strlen(request), &out);
  if (s != MCPRT_OK) FAIL("%s: %.*s", request, (int)out.len, out.ptr);
  mcprt_buf_free(&out);
}

static void reconnect(long times) {
  for (long i = 0; i < times; i++) {
    must(mcprt_connect, "{\"only\":[\"demo\"],\"restart\":true,\"startupTimeoutMs\":0,\"tools\":false}");
    call(2);
  }
}

/* What a server that was just replaced leaves is closed within moments. */
static void settle(void) { usleep(500 * 1000); }

int main(int argc, char **argv) {
  if (argc != 4) FAIL("usage: soak OPTIONS CALLS RECONNECTS");
  long calls = atol(argv[2]), times = atol(argv[3]);
  static char options[1 << 16];
  FILE *f = fopen(argv[1], "r");
  if (!f) FAIL("cannot open %s", argv[1]);
  size_t len = fread(options, 1, sizeof options, f);
  fclose(f);
  mcprt_buf out;
  if (mcprt_open(options, len, &m, &out) != MCPRT_OK) FAIL("open: %.*s", (int)out.len, out.ptr);
  mcprt_buf_free(&out);
  must(mcprt_connect, "{\"startupTimeoutMs\":0,\"tools\":false}");
  call(calls / 20 + 1000);
  reconnect(times / 20 + 20);
  call(1000);
  settle();
  long rss = resident_kib(), bytes = allocated(), fds = descriptors(), sons = children();
  ended = 0;
  call(calls);
  long rss_calls = resident_kib() - rss;
  reconnect(times);
  settle();
  long lost = calls + 2 * times - ended;
  long rss_all = resident_kib() - rss, bytes_all = allocated() - bytes, fds_all = descriptors() - fds, sons_all = children() - sons;
  if (mcprt_close(m, 1000) != MCPRT_OK) FAIL("close");
  mcprt_free(m);
  printf("{\"calls\":%ld,\"reconnects\":%ld,\"lost\":%ld,\"failed\":%ld,\"rssKiB\":%ld,\"rssKiBAfterCalls\":%ld,\"rssKiBGrown\":%ld,"
         "\"mallocBytesGrown\":%ld,\"descriptorsGrown\":%ld,\"childrenGrown\":%ld,\"childrenAtEnd\":%ld}\n",
         calls, times, lost, failed, rss, rss_calls, rss_all, bytes_all, fds_all, sons_all, children());
  return 0;
}
