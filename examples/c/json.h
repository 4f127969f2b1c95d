/*
 * Just enough JSON reading for the example. A value is a pointer to its first byte
 * in the text that the library handed out (which is valid JSON and ends in NUL);
 * NULL means "not there", and every function here takes NULL for an answer.
 */
#ifndef EXAMPLE_JSON_H
#define EXAMPLE_JSON_H

#include <stdlib.h>
#include <string.h>

static inline const char *json_space(const char *p) {
  return p + strspn(p, " \t\r\n");
}

/* The byte after a value. */
static inline const char *json_skip(const char *p) {
  int depth = 0;
  do {
    if (*p == '"') {
      for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1]) p++;
      if (*p) p++;
    } else if (*p == '{' || *p == '[') {
      depth++, p++;
    } else if (*p == '}' || *p == ']') {
      depth--, p++;
    } else if (depth > 0) {
      p++;
    } else {
      p += strcspn(p, ",]} \t\r\n");
    }
  } while (depth > 0 && *p);
  return p;
}

/* for (item = json_first(array); item; item = json_next(item)) */
static inline const char *json_first(const char *list) {
  if (!list || (*list != '[' && *list != '{')) return NULL;
  const char *p = json_space(list + 1);
  return *p == ']' || *p == '}' ? NULL : p;
}

static inline const char *json_next(const char *item) {
  const char *p = json_space(json_skip(item));
  return *p == ',' ? json_space(p + 1) : NULL;
}

/* for (key = json_first(object); key; key = json_next(json_value(key))) */
static inline const char *json_value(const char *key) {
  const char *p = json_space(json_skip(key));
  return json_space(p + 1);
}

static inline const char *json_get(const char *object, const char *name) {
  size_t len = strlen(name);
  if (!object || *object != '{') return NULL;
  for (const char *key = json_first(object); key; key = json_next(json_value(key)))
    if (!strncmp(key + 1, name, len) && key[len + 1] == '"') return json_value(key);
  return NULL;
}

static inline int json_count(const char *array) {
  int n = 0;
  for (const char *item = json_first(array); item; item = json_next(item)) n++;
  return n;
}

static inline int json_true(const char *value) {
  return value && *value == 't';
}

static inline long json_int(const char *value) {
  return value ? strtol(value, NULL, 10) : 0;
}

static inline size_t json_utf8(unsigned long c, char *to) {
  if (c < 0x80) return to[0] = (char)c, 1;
  if (c < 0x800) return to[0] = (char)(0xC0 | c >> 6), to[1] = (char)(0x80 | (c & 63)), 2;
  if (c < 0x10000)
    return to[0] = (char)(0xE0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)), to[2] = (char)(0x80 | (c & 63)), 3;
  return to[0] = (char)(0xF0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 63)), to[2] = (char)(0x80 | (c >> 6 & 63)),
         to[3] = (char)(0x80 | (c & 63)), 4;
}

static inline unsigned long json_hex(const char *p) {
  char digits[5] = {0};
  strncpy(digits, p, 4);
  return strtoul(digits, NULL, 16);
}

/* A string, decoded into buf and cut to fit. Control characters become spaces: the
 * text may come from a server, and is meant for a terminal. */
static inline const char *json_text(const char *value, char *buf, size_t size) {
  size_t n = 0;
  if (value && *value == '"') {
    for (const char *p = value + 1; *p && *p != '"' && n + 4 < size; p++) {
      unsigned long c = (unsigned char)*p;
      if (c == '\\') {
        c = (unsigned char)*++p;
        if (c == 'u') {
          c = json_hex(p + 1), p += 4;
          unsigned long low = p[1] == '\\' && p[2] == 'u' ? json_hex(p + 3) : 0;
          if (c >= 0xD800 && c < 0xDC00 && low >= 0xDC00 && low < 0xE000)
            c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00), p += 6;
          n += json_utf8(c < ' ' || (c >= 0x7F && c < 0xA0) ? ' ' : c, buf + n);
          continue;
        }
        if (strchr("bfnrt", (int)c)) c = ' ';
      }
      buf[n++] = c == 0x7F ? ' ' : (char)c;
    }
  }
  buf[n] = 0;
  return buf;
}

#endif
