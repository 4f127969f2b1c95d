/*
 * Whether this process is a fork()ed child that did not exec. It has none of the
 * parent's threads: a lock may be held for ever, and every call into Go hangs.
 */
#ifndef MP_FORK_H
#define MP_FORK_H

#include <stdbool.h>

bool mp_forked(void);

#endif
