/*
 * A host that comes to its end in a way and at a moment that its seed names.
 *
 *   hosttest OPTIONS SEED END
 *
 * Nothing may be left of its servers then, whatever END is. It prints the pid of a
 * child that it leaves behind on purpose, if there is one, and "closed" once a close
 * has returned.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mcprt.h"

static mcprt_mgr manager;

/* Calls all the time, so that an end meets some in flight. */
static void *caller(void *unused) {
  (void)unused;
  const char *call = "{\"server\":\"plain\",\"tool\":\"add\",\"arguments\":{\"a\":40,\"b\":2},\"timeoutMs\":2000}";
  for (;;) {
    mcprt_buf out = {0, 0};
    mcprt_status s = mcprt_call(manager, call, strlen(call), &out);
    mcprt_buf_free(&out);
    if (s == MCPRT_EHANDLE || s == MCPRT_ECLOSED) return 0;
    if (s != MCPRT_OK) usleep(1000);
  }
}

/* A host's own reaper, which takes the status of every child, ours too. */
static void *reaper(void *unused) {
  (void)unused;
  for (;;)
    if (waitpid(-1, NULL, 0) < 0) usleep(200);
  return 0;
}

static void *exits(void *unused) {
  (void)unused;
  exit(0);
}

static char *slurp(const char *path, size_t *len) {
  FILE *f = fopen(path, "r");
  static char text[1 << 20];
  if (!f) exit(90);
  *len = fread(text, 1, sizeof text, f);
  fclose(f);
  return text;
}

int main(int argc, char **argv) {
  if (argc != 4) return 91;
  size_t len;
  const char *options = slurp(argv[1], &len), *end = argv[3];
  unsigned seed = (unsigned)atoi(argv[2]);
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  /* Under nohup, or in a script's background, these are ignored from the start, and would end nothing. */
  signal(SIGHUP, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  pthread_t thread;
  if (!strcmp(end, "ignore")) signal(SIGCHLD, SIG_IGN);
  if (!strcmp(end, "reap")) pthread_create(&thread, 0, reaper, 0);

  mcprt_buf out = {0, 0};
  if (mcprt_open(options, len, &manager, &out) != MCPRT_OK) return 92;
  if (mcprt_submit(manager, MCPRT_CONNECT, 0, 1, "{\"startupTimeoutMs\":0}", 22) != MCPRT_OK) return 93;
  for (int i = 0; i < 2; i++) pthread_create(&thread, 0, caller, 0);
  /* Most starts take 20 to 60 ms: the end comes before, during and after them. */
  usleep((useconds_t)(rand_r(&seed) % 120) * 1000u);

  if (!strcmp(end, "return")) return 0;
  if (!strcmp(end, "exit")) exit(3);
  if (!strcmp(end, "_exit")) _exit(4);
  if (!strcmp(end, "abort")) abort();
  if (!strcmp(end, "segv")) *(volatile int *)0 = 1;
  if (!strcmp(end, "term")) raise(SIGTERM);
  if (!strcmp(end, "int")) raise(SIGINT);
  if (!strcmp(end, "kill")) raise(SIGKILL);
  if (!strcmp(end, "hup")) raise(SIGHUP);
  if (!strcmp(end, "thread")) { pthread_create(&thread, 0, exits, 0); for (;;) pause(); }
  if (!strcmp(end, "exec")) { execl("/bin/true", "true", (char *)0); return 94; }
  if (!strcmp(end, "free")) { mcprt_free(manager); return 0; }
  if (!strcmp(end, "fork") || !strcmp(end, "forkkill")) { /* the child never execs, and lives on with all our descriptors */
    pid_t child = fork();
    if (child == 0) { usleep(20 * 1000 * 1000); _exit(0); }
    printf("child %d\n", (int)child);
    fflush(stdout);
    if (!strcmp(end, "forkkill")) raise(SIGKILL);
    _exit(0);
  }
  if (!strcmp(end, "forkexec")) { /* the child execs and outlives us */
    pid_t child = fork();
    if (child == 0) { execl("/bin/sleep", "sleep", "20", (char *)0); _exit(0); }
    printf("child %d\n", (int)child);
    fflush(stdout);
    usleep(20 * 1000);
    _exit(0);
  }
  if (!strcmp(end, "close") || !strcmp(end, "ignore") || !strcmp(end, "reap")) {
    if (mcprt_close(manager, 200) != MCPRT_OK) return 95;
    printf("closed\n");
    return 0;
  }
  for (;;) pause(); /* "killed" and "running": by the test */
}
