/*
 * What a fork()ed child sees of a library that its parent loaded.
 *
 *   forktest LIBRARY fresh   the fork follows the load at once
 *   forktest LIBRARY used    the parent has a manager with a call in flight
 *
 * The child has two seconds; a call that hangs is ended by its alarm.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mcprt.h"

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

static void *library;

#define LOAD(name) __typeof__(name) *name##_ = (__typeof__(name) *)(dlsym(library, #name)); CHECK(name##_)

static void in_child(mcprt_mgr m) {
  LOAD(mcprt_version); LOAD(mcprt_check); LOAD(mcprt_status_name); LOAD(mcprt_buf_free);
  LOAD(mcprt_open); LOAD(mcprt_close); LOAD(mcprt_free);
  LOAD(mcprt_discover); LOAD(mcprt_connect); LOAD(mcprt_list); LOAD(mcprt_call); LOAD(mcprt_reload); LOAD(mcprt_disconnect);
  LOAD(mcprt_submit); LOAD(mcprt_take); LOAD(mcprt_cancel); LOAD(mcprt_drain); LOAD(mcprt_wait); LOAD(mcprt_notify_fd);
  mcprt_buf out = {"x", 1};
  mcprt_mgr other = 7;
  size_t used = 7;
  char bytes[64];
  alarm(2);
  CHECK(mcprt_check_(MCPRT_ABI, 0) == MCPRT_EFORK);
  CHECK(mcprt_open_("{}", 2, &other, &out) == MCPRT_EFORK && other == 0 && !out.ptr && !out.len);
  CHECK(mcprt_close_(m, -1) == MCPRT_EFORK);
  mcprt_free_(m);
  mcprt_status (*verbs[])(mcprt_mgr, const char *, size_t, mcprt_buf *) = {mcprt_discover_, mcprt_connect_, mcprt_list_,
                                                                          mcprt_call_, mcprt_reload_, mcprt_disconnect_};
  for (size_t i = 0; i < 6; i++) {
    out = (mcprt_buf){"x", 1};
    CHECK(verbs[i](m, "{}", 2, &out) == MCPRT_EFORK && !out.ptr && !out.len);
  }
  CHECK(mcprt_submit_(m, MCPRT_LIST, 0, 1, "{}", 2) == MCPRT_EFORK);
  CHECK(mcprt_submit_(m, MCPRT_REPLY, 0, MCPRT_TAG_MAX + 1, "{}", 2) == MCPRT_EFORK);
  out = (mcprt_buf){"x", 1};
  CHECK(mcprt_take_(m, 1, -1, &out) == MCPRT_EFORK && !out.ptr && !out.len);
  CHECK(mcprt_cancel_(m, 1, 0) == MCPRT_EFORK);
  CHECK(mcprt_drain_(m, bytes, sizeof bytes, &used) == MCPRT_EFORK && used == 0);
  CHECK(mcprt_wait_(m, -1) == MCPRT_EFORK);
  CHECK(mcprt_notify_fd_(m) == MCPRT_EFORK);
  /* These still work. */
  CHECK(strcmp(mcprt_version_(), "0.1.0") == 0);
  CHECK(strcmp(mcprt_status_name_(MCPRT_EFORK), "MCPRT_EFORK") == 0);
  out = (mcprt_buf){NULL, 0};
  mcprt_buf_free_(&out);
  _exit(0);
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  CHECK(library);
  mcprt_mgr m = 0;
  mcprt_buf result = {NULL, 0};
  int used = strcmp(argv[2], "used") == 0;
  LOAD(mcprt_open); LOAD(mcprt_list); LOAD(mcprt_call); LOAD(mcprt_submit); LOAD(mcprt_close); LOAD(mcprt_free); LOAD(mcprt_buf_free);
  if (used) {
    CHECK(mcprt_open_("{}", 2, &m, &result) == MCPRT_OK);
    CHECK(mcprt_list_(m, "{}", 2, &result) == MCPRT_OK);
    const char *hang = "{\"tool\":\"mcp_demo_hang\"}";
    CHECK(mcprt_submit_(m, MCPRT_CALL, 0, 1, hang, strlen(hang)) == MCPRT_OK);
  }
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    mcprt_buf_free_(&result); /* the child's own copy of the parent's memory */
    in_child(m);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) fprintf(stderr, "the child was ended by signal %d\n", WTERMSIG(status));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  mcprt_buf_free_(&result);

  /* The parent is as before. */
  if (!used) CHECK(mcprt_open_("{}", 2, &m, &result) == MCPRT_OK);
  CHECK(mcprt_list_(m, "{}", 2, &result) == MCPRT_OK);
  mcprt_buf_free_(&result);
  CHECK(mcprt_close_(m, 0) == MCPRT_OK);
  mcprt_free_(m);
  return 0;
}
