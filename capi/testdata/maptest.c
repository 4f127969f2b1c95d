/* The hash table against an array that cannot be wrong. */
#include <stdio.h>
#include <stdlib.h>

#include "../map.h"

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                \
    }                                                                          \
  } while (0)

enum { KEYS = 700, ROUNDS = 200000 };

int main(void) {
  static char values[KEYS]; /* their addresses are the values */
  static const uint64_t strides[] = {1, 4096, UINT64_C(1) << 32, UINT64_C(0x10000001)};
  for (size_t s = 0; s < sizeof strides / sizeof *strides; s++) {
    struct mp_map map = {NULL, 0, 0};
    void *want[KEYS] = {NULL};
    size_t count = 0;
    unsigned seed = (unsigned)s + 1;
    CHECK(!mp_map_get(&map, 1) && !mp_map_remove(&map, 1) && !mp_map_get(&map, 0));
    for (int round = 0; round < ROUNDS; round++) {
      size_t k = (size_t)rand_r(&seed) % KEYS;
      uint64_t key = (k + 1) * strides[s];
      CHECK(mp_map_get(&map, key) == want[k]);
      /* Grows and shrinks in waves, so that chains of every length come and go. */
      if (want[k] && rand_r(&seed) % 3 < (round / 20000) % 3) {
        CHECK(mp_map_remove(&map, key) == want[k]);
        want[k] = NULL;
        count--;
      } else if (!want[k]) {
        CHECK(mp_map_put(&map, key, &values[k]));
        want[k] = &values[k];
        count++;
      }
      CHECK(map.count == count);
    }
    for (size_t k = 0; k < KEYS; k++) CHECK(mp_map_get(&map, (k + 1) * strides[s]) == want[k]);
    mp_map_clear(&map);
    CHECK(!mp_map_get(&map, strides[s]));
  }
  return 0;
}
