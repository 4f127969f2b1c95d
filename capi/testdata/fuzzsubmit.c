/* Submits what no host should, over the C API: requests of the corpus and mutations of
 * them, under all verbs, flags and tags, with cancels, takes, replies and closes between.
 *
 *   fuzzsubmit SECONDS SEED FILE...    each file holds requests, one a line
 *
 * What must hold: a refused submission has no completion, an accepted one exactly one,
 * a text that is refused here is refused always, and nothing is left in the queue. Built
 * with sanitizers, it also finds what C can do wrong. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mcprt.h"

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);     \
      fprintf(stderr, "seed %llu, round %llu\n", (unsigned long long)seed, rounds); \
      abort();                                                                      \
    }                                                                               \
  } while (0)

enum { MOST = 512, TEXT = 1 << 14, TAGS = 512 };

static char *corpus[MOST];
static size_t lengths[MOST], count;
static uint64_t seed, state;
static unsigned strays; /* accepted under a tag that has no place in the book */
static unsigned long long rounds, accepted, completed;

static uint64_t next(void) { /* xorshift64*: a seed gives the same run everywhere */
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * UINT64_C(2685821657736338717);
}

static size_t below(size_t n) { return (size_t)(next() % n); }

static void load(const char *file) {
  FILE *f = fopen(file, "rb");
  if (!f) exit(2);
  char *line = NULL;
  size_t room = 0;
  ssize_t n;
  while (count < MOST && (n = getline(&line, &room, f)) > 0) {
    if (line[n - 1] == '\n') n--;
    corpus[count] = malloc((size_t)n + 1);
    if (!corpus[count]) exit(2);
    memcpy(corpus[count], line, (size_t)n);
    lengths[count++] = (size_t)n;
  }
  free(line);
  fclose(f);
}

/* A request: one of the corpus, perhaps mutated. */
static size_t request(char *out) {
  static const char *const words[] = {"{", "}", "[", "]", "\"", ":", ",", "\\", "\\u0000", "\\ud800", "\xff", "\xc3", "\xf4\x90\x80\x80", "null", "-0", "1e999", "9007199254740993", "\"tool\"", "{}", "\0"};
  size_t pick = below(count), n = lengths[pick];
  if (n > TEXT) n = TEXT;
  memcpy(out, corpus[pick], n);
  for (size_t changes = below(3) ? below(4) : 0; changes > 0; changes--) {
    size_t at = below(n + 1);
    switch (below(6)) {
    case 0: /* a bit */
      if (at < n) out[at] = (char)(out[at] ^ (1 << below(8)));
      break;
    case 1: /* a cut */
      n = at;
      break;
    case 2: { /* a hole */
      size_t size = below(n - at + 1);
      memmove(out + at, out + at + size, n - at - size);
      n -= size;
      break;
    }
    case 3: { /* a word */
      const char *word = words[below(sizeof words / sizeof *words)];
      size_t size = *word ? strlen(word) : 1;
      if (n + size > TEXT) break;
      memmove(out + at + size, out + at, n - at);
      memcpy(out + at, word, size);
      n += size;
      break;
    }
    case 4: { /* a part of another one */
      size_t other = below(count), from = below(lengths[other] + 1), size = below(lengths[other] - from + 1);
      if (n + size > TEXT) break;
      memmove(out + at + size, out + at, n - at);
      memcpy(out + at, corpus[other] + from, size);
      n += size;
      break;
    }
    case 5: { /* deep */
      size_t size = below(1200);
      if (n + size > TEXT) break;
      memmove(out + at + size, out + at, n - at);
      memset(out + at, below(2) ? '[' : '{', size);
      n += size;
      break;
    }
    }
  }
  return n;
}

struct book {
  bool open, held;
};

/* Drains once and settles the accounts. */
static void drain(mcprt_mgr m, struct book *book, bool *closed) {
  static _Alignas(8) char buf[1 << 17];
  for (;;) {
    size_t used = 0;
    int32_t n = mcprt_drain(m, buf, sizeof buf, &used);
    if (n == MCPRT_ERANGE) CHECK(!"a frame is larger than any answer can be");
    if (n <= 0) return;
    for (size_t at = 0; at < used;) {
      mcprt_frame f;
      memcpy(&f, buf + at, sizeof f);
      CHECK(f.size >= sizeof f + f.len && f.size % 8 == 0 && at + f.size <= used);
      if (f.kind == MCPRT_EV_DONE && f.tag >= TAGS && f.tag <= MCPRT_TAG_MAX) CHECK(strays-- > 0);
      if (f.kind == MCPRT_EV_DONE && f.tag < TAGS) {
        CHECK(book[f.tag].open && !book[f.tag].held);
        CHECK(f.status != MCPRT_EINTERNAL);
        book[f.tag].open = false;
        completed++;
      }
      if (f.kind == MCPRT_EV_CLOSED) *closed = true;
      at += f.size;
    }
  }
}

static void one_manager(void) {
  static const char options[] = "{\"stubMost\":5000,\"maxInFlight\":64,\"maxNotices\":16,\"requestTimeoutMs\":50,\"timeoutMs\":50,\"maxTimeoutMs\":50,\"cwd\":\"/\",\"env\":{\"HOME\":\"/nonexistent\"},"
                                "\"discovery\":{\"project\":false,\"user\":\"none\"},\"cache\":{\"enabled\":false}}";
  struct book book[TAGS] = {{false, false}};
  mcprt_mgr m = 0;
  mcprt_buf out = {NULL, 0};
  bool closed = false;
  CHECK(mcprt_open(options, sizeof options - 1, &m, &out) == MCPRT_OK);
  char *text = malloc(TEXT);
  CHECK(text);
  for (size_t i = 0, steps = 50 + below(400); i < steps; i++) {
    rounds++;
    uint64_t tag = below(20) ? 1 + below(TAGS - 1) : next();
    size_t n = request(text);
    char *exact = malloc(n ? n : 1); /* a read past the end is found */
    CHECK(exact);
    memcpy(exact, text, n);
    switch (below(12)) {
    case 0:
      (void)mcprt_cancel(m, tag, below(2) ? MCPRT_F_FORGET : 0);
      if (tag < TAGS && book[tag].held) { /* taken by nobody any more, and the tag is free at an unknown time */
        mcprt_buf b = {NULL, 0};
        mcprt_status st;
        do {
          st = mcprt_take(m, tag, 100, &b);
          mcprt_buf_free(&b);
        } while (st == MCPRT_EAGAIN);
        book[tag].open = book[tag].held = false;
      }
      break;
    case 1:
      drain(m, book, &closed);
      break;
    case 2:
      if (tag < TAGS && book[tag].held) {
        mcprt_buf b = {NULL, 0};
        mcprt_status st = mcprt_take(m, tag, (int32_t)below(3), &b);
        CHECK(st != MCPRT_ETAG);
        if (st != MCPRT_EAGAIN) book[tag].open = book[tag].held = false;
        CHECK(b.ptr == NULL || b.ptr[b.len] == 0);
        mcprt_buf_free(&b);
      }
      break;
    case 3:
      (void)mcprt_submit(m, MCPRT_REPLY, 0, MCPRT_TAG_MAX + 1 + below(20), exact, n);
      break;
    default: {
      int32_t verb = below(15) ? (int32_t[]){MCPRT_DISCOVER, MCPRT_LIST, MCPRT_CALL, MCPRT_CALL, MCPRT_CALL, MCPRT_DISCONNECT}[below(6)] : (int32_t)next();
      if (verb == MCPRT_CONNECT || verb == MCPRT_RELOAD || verb == MCPRT_CLOSE || verb == MCPRT_REPLY) break; /* they could start a program of the fuzzer's choice, or end the run */
      uint32_t flags = below(8) ? 0 : below(8) ? MCPRT_F_HOLD : (uint32_t)next();
      mcprt_status st = mcprt_submit(m, verb, flags, tag, exact, n);
      CHECK(st != MCPRT_EINTERNAL && st != MCPRT_EHANDLE);
      if (tag < TAGS && book[tag].open) CHECK(st != MCPRT_OK || tag == 0);
      if (st == MCPRT_OK) {
        CHECK(tag > 0 && tag <= MCPRT_TAG_MAX);
        accepted++;
        if (tag < TAGS) book[tag] = (struct book){true, (flags & MCPRT_F_HOLD) != 0};
        else if (flags & MCPRT_F_HOLD) (void)mcprt_cancel(m, tag, MCPRT_F_FORGET);
        else strays++;
      }
    }
    }
    free(exact);
  }
  (void)mcprt_close(m, 0);
  for (int i = 0; i < 100 && !closed; i++) drain(m, book, &closed);
  CHECK(closed);
  for (size_t i = 1; i < TAGS; i++) {
    if (book[i].open && book[i].held) {
      mcprt_buf b = {NULL, 0};
      CHECK(mcprt_take(m, i, 0, &b) != MCPRT_EAGAIN);
      mcprt_buf_free(&b);
      book[i].open = false;
    }
    CHECK(!book[i].open);
  }
  CHECK(strays == 0);
  free(text);
  mcprt_free(m);
  mcprt_buf_free(&out);
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  double seconds = atof(argv[1]);
  state = seed = strtoull(argv[2], NULL, 10) * 2 + 1;
  for (int i = 3; i < argc; i++) load(argv[i]);
  if (!count) return 2;
  struct timespec began, now;
  clock_gettime(CLOCK_MONOTONIC, &began);
  do {
    one_manager();
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) / 1e9 < seconds);
  CHECK(accepted > rounds / 20 && accepted < rounds && completed > accepted / 4); /* else it tries nothing */
  for (size_t i = 0; i < count; i++) free(corpus[i]);
  return 0;
}
