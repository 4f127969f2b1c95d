/*
 * Is this text what the header demands: UTF-8, JSON, an object? Checked before
 * anything else sees it, so that no broken text of a host reaches a server.
 */
#ifndef MP_TEXT_H
#define MP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define MP_TEXT_DEPTH 1000 /* nested arrays and objects */

struct mp_text_fault {
  size_t at;       /* offset of the first byte that is wrong */
  const char *why; /* static: "is not UTF-8" */
};

/* An object by RFC 8259, one pass, no allocation, no recursion. */
bool mp_text_is_object(const char *text, size_t len, struct mp_text_fault *fault);

#endif
