#include "map.h"

#include <stdlib.h>

/* Callers count their keys up, so the low bits alone would do; the multiplication
 * also spreads hosts that use addresses or strides as tags. */
static size_t home(const struct mp_map *map, uint64_t key) {
  return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (map->capacity - 1);
}

static size_t find(const struct mp_map *map, uint64_t key) {
  size_t i = home(map, key);
  while (map->slots[i].key != 0 && map->slots[i].key != key) i = (i + 1) & (map->capacity - 1);
  return i;
}

void *mp_map_get(const struct mp_map *map, uint64_t key) {
  if (map->count == 0 || key == 0) return NULL;
  const struct mp_slot *slot = &map->slots[find(map, key)];
  return slot->key == key ? slot->value : NULL;
}

static bool grow(struct mp_map *map) {
  struct mp_map larger = {NULL, map->capacity ? map->capacity * 2 : 16, map->count};
  larger.slots = calloc(larger.capacity, sizeof *larger.slots);
  if (!larger.slots) return false;
  for (size_t i = 0; i < map->capacity; i++)
    if (map->slots[i].key != 0) larger.slots[find(&larger, map->slots[i].key)] = map->slots[i];
  free(map->slots);
  *map = larger;
  return true;
}

bool mp_map_put(struct mp_map *map, uint64_t key, void *value) {
  if ((map->count + 1) * 4 > map->capacity * 3 && !grow(map)) return false;
  map->slots[find(map, key)] = (struct mp_slot){key, value};
  map->count++;
  return true;
}

void *mp_map_remove(struct mp_map *map, uint64_t key) {
  void *value = mp_map_get(map, key);
  if (!value) return NULL;
  size_t hole = find(map, key);
  /* Move back what a search from its home would no longer reach across the hole. */
  for (size_t i = (hole + 1) & (map->capacity - 1); map->slots[i].key != 0; i = (i + 1) & (map->capacity - 1)) {
    size_t from_home = (i - home(map, map->slots[i].key)) & (map->capacity - 1);
    size_t from_hole = (i - hole) & (map->capacity - 1);
    if (from_home >= from_hole) {
      map->slots[hole] = map->slots[i];
      hole = i;
    }
  }
  map->slots[hole] = (struct mp_slot){0, NULL};
  map->count--;
  return value;
}

void mp_map_clear(struct mp_map *map) {
  free(map->slots);
  *map = (struct mp_map){NULL, 0, 0};
}
