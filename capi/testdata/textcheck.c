/* Reads texts, each after its length as 4 bytes in native order, and writes one
 * letter for each: y if mp_text_is_object takes it, n if not, ! if the offset that
 * it names lies outside. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../text.h"

int main(void) {
  uint32_t len;
  while (fread(&len, sizeof len, 1, stdin) == 1) {
    char *text = malloc(len ? len : 1); /* exact: a read past the end is found */
    if (!text || fread(text, 1, len, stdin) != len) return 1;
    struct mp_text_fault fault = {SIZE_MAX, NULL};
    putchar(mp_text_is_object(text, len, &fault) ? 'y' : fault.at <= len && fault.why ? 'n' : '!');
    free(text);
  }
  return 0;
}
