/*
 * Calls into Go from a stack of its own, as koffi does, on the main thread and on
 * others: the runtime asks for the thread's bounds each time (../stackbounds.c). A
 * stack taken for another, or memory that is freed twice, ends the program.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "mcprt.h"

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

enum { CALLS = 2000, STACK = 2 << 20 };

static ucontext_t outside, inside;
static mcprt_mgr manager;

static void call(const char *req, mcprt_status want) {
  mcprt_buf out;
  CHECK(mcprt_call(manager, req, strlen(req), &out) == want);
  CHECK(out.ptr && out.ptr[out.len] == 0);
  mcprt_buf_free(&out);
}

static void work(void) {
  static const char echo[] = "{\"tool\":\"mcp_demo_echo\",\"arguments\":{\"text\":\"hi\"}}";
  for (int i = 0; i < 50; i++) call("{\"tool\":\"mcp_demo_panic\"}", MCPRT_EINTERNAL); /* recovered on this stack */
  for (int i = 0; i < CALLS; i++) call(echo, MCPRT_OK);
}

static void on_own_stack(void) {
  void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED);
  CHECK(getcontext(&inside) == 0);
  inside.uc_stack.ss_sp = stack;
  inside.uc_stack.ss_size = STACK;
  inside.uc_link = &outside;
  makecontext(&inside, work, 0);
  CHECK(swapcontext(&outside, &inside) == 0);
  CHECK(munmap(stack, STACK) == 0);
}

static void *in_thread(void *arg) {
  on_own_stack();
  return arg;
}

int main(void) {
  mcprt_buf out;
  CHECK(mcprt_open(NULL, 0, &manager, &out) == MCPRT_OK);
  /* Threads first, one after another: each has bounds of its own to remember. */
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
  }
  on_own_stack();
  work(); /* and back on the real one */
  on_own_stack();
  CHECK(mcprt_close(manager, 0) == MCPRT_OK);
  mcprt_free(manager);
  return 0;
}
