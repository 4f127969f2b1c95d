/*
 * A hash table from a number above 0 to a pointer. Handles, tags in use and open
 * requests are all found through it. The caller locks.
 */
#ifndef MP_MAP_H
#define MP_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_slot {
  uint64_t key; /* 0: free */
  void *value;
};

struct mp_map { /* all zero: empty */
  struct mp_slot *slots;
  size_t capacity; /* 0 or a power of two */
  size_t count;
};

void *mp_map_get(const struct mp_map *map, uint64_t key);
/* The key must be new. False: no memory, nothing changed. */
bool mp_map_put(struct mp_map *map, uint64_t key, void *value);
/* What was there, or NULL. Never needs memory. */
void *mp_map_remove(struct mp_map *map, uint64_t key);
void mp_map_clear(struct mp_map *map);

#endif
