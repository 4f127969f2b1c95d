#include "text.h"

#include <stdint.h>
#include <string.h>

struct reader {
  const unsigned char *at, *end;
  const char *why;
};

static bool fail(struct reader *r, const char *why) {
  r->why = why;
  return false;
}

static void skip_space(struct reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t')) r->at++;
}

static bool is_digit(const struct reader *r) { return r->at < r->end && *r->at >= '0' && *r->at <= '9'; }

static bool is_hex(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* One character above ASCII: no overlong form, no surrogate, nothing over U+10FFFF. */
static bool read_utf8(struct reader *r) {
  const unsigned char *p = r->at;
  size_t more = *p >= 0xF0 ? 3 : *p >= 0xE0 ? 2 : 1;
  if (*p < 0xC2 || *p > 0xF4 || (size_t)(r->end - p) <= more) return fail(r, "is not UTF-8");
  unsigned char low = *p == 0xE0 ? 0xA0 : *p == 0xF0 ? 0x90 : 0x80;
  unsigned char high = *p == 0xED ? 0x9F : *p == 0xF4 ? 0x8F : 0xBF;
  if (p[1] < low || p[1] > high) return fail(r, "is not UTF-8");
  for (size_t i = 2; i <= more; i++)
    if (p[i] < 0x80 || p[i] > 0xBF) return fail(r, "is not UTF-8");
  r->at += more + 1;
  return true;
}

static bool read_escape(struct reader *r) {
  if (r->at + 1 >= r->end) return fail(r, "starts an escape that does not end");
  if (strchr("\"\\/bfnrt", r->at[1]) && r->at[1]) {
    r->at += 2;
    return true;
  }
  if (r->at[1] != 'u') return fail(r, "is no JSON escape");
  for (size_t i = 2; i < 6; i++)
    if ((size_t)(r->end - r->at) <= i || !is_hex(r->at[i])) return fail(r, "is a \\u without four hex digits");
  r->at += 6;
  return true;
}

/* Eight bytes at a time while none of them is special. */
static void skip_plain(struct reader *r) {
  const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones * 0x80;
  while (r->end - r->at >= 8) {
    uint64_t w;
    memcpy(&w, r->at, 8);
    uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\');
    uint64_t special = ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - ones * 0x20) & ~w) | w;
    if (special & tops) return;
    r->at += 8;
  }
}

static bool read_string(struct reader *r) {
  const unsigned char *start = r->at++;
  for (;;) {
    skip_plain(r);
    if (r->at >= r->end) {
      r->at = start;
      return fail(r, "starts a string that does not end");
    }
    if (*r->at == '"') {
      r->at++;
      return true;
    }
    if (*r->at == '\\') {
      if (!read_escape(r)) return false;
    } else if (*r->at >= 0x80) {
      if (!read_utf8(r)) return false;
    } else if (*r->at < 0x20) {
      return fail(r, "is a control character inside a string");
    } else {
      r->at++;
    }
  }
}

static bool read_digits(struct reader *r) {
  if (!is_digit(r)) return fail(r, "should be a digit");
  while (is_digit(r)) r->at++;
  return true;
}

static bool read_number(struct reader *r) {
  if (*r->at == '-') r->at++;
  if (r->at < r->end && *r->at == '0') {
    r->at++;
    if (is_digit(r)) return fail(r, "follows a leading zero");
  } else if (!read_digits(r)) {
    return false;
  }
  if (r->at < r->end && *r->at == '.') {
    r->at++;
    if (!read_digits(r)) return false;
  }
  if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
    r->at++;
    if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
    if (!read_digits(r)) return false;
  }
  return true;
}

static bool read_word(struct reader *r, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return fail(r, "starts no JSON value");
  r->at += n;
  return true;
}

static bool read_scalar(struct reader *r) {
  switch (*r->at) {
  case '"': return read_string(r);
  case 't': return read_word(r, "true");
  case 'f': return read_word(r, "false");
  case 'n': return read_word(r, "null");
  case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
    return read_number(r);
  default: return fail(r, "starts no JSON value");
  }
}

static bool read_key(struct reader *r) {
  skip_space(r);
  if (r->at >= r->end || *r->at != '"') return fail(r, "should be the name of a member");
  if (!read_string(r)) return false;
  skip_space(r);
  if (r->at >= r->end || *r->at != ':') return fail(r, "should be a colon");
  r->at++;
  return true;
}

/* `open` holds the opening bracket of each level; in ASCII its end is two further. */
static bool read_object(struct reader *r) {
  char open[MP_TEXT_DEPTH];
  size_t depth = 0;
  skip_space(r);
  if (r->at >= r->end || *r->at != '{') return fail(r, "should be the { of an object");
  do {
    /* At the start of a value. */
    skip_space(r);
    if (r->at >= r->end) return fail(r, "ends the text inside a value");
    if (*r->at == '{' || *r->at == '[') {
      if (depth == MP_TEXT_DEPTH) return fail(r, "is nested too deep");
      char bracket = (char)*r->at++;
      open[depth++] = bracket;
      skip_space(r);
      if (r->at < r->end && *r->at == bracket + 2) {
        r->at++;
        depth--;
      } else {
        if (bracket == '{' && !read_key(r)) return false;
        continue;
      }
    } else if (!read_scalar(r)) {
      return false;
    }
    /* After a value: a comma and the next one, or the ends of its parents. */
    while (depth > 0) {
      skip_space(r);
      if (r->at >= r->end) return fail(r, "ends the text inside an object or array");
      if (*r->at == ',') {
        r->at++;
        if (open[depth - 1] == '{' && !read_key(r)) return false;
        break;
      }
      if (*r->at != open[depth - 1] + 2) return fail(r, "should be a comma or the end of the object or array");
      r->at++;
      depth--;
    }
  } while (depth > 0);
  skip_space(r);
  return r->at == r->end || fail(r, "follows the end of the object");
}

bool mp_text_is_object(const char *text, size_t len, struct mp_text_fault *fault) {
  struct reader r = {(const unsigned char *)text, (const unsigned char *)text + len, NULL};
  if (read_object(&r)) return true;
  fault->at = (size_t)((const char *)r.at - text);
  fault->why = r.why;
  return false;
}
