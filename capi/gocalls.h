/*
 * Everything that crosses between C and Go, in both directions. agree.c lets the
 * compiler compare the first half with what Go really exports.
 */
#ifndef MP_GOCALLS_H
#define MP_GOCALLS_H

#include "manager.h"

/* ---- C calls Go ---- */

/* Opens core's manager and starts a goroutine that reads wake_fd, which it owns from
 * here on, on success and on failure. On success it sets *go and *limits, and has
 * taken over one reference to m; on failure *out is the error. */
extern int32_t mcprtgo_open(struct mp_manager *m, char *options, size_t len, int32_t wake_fd, uintptr_t *go,
                            struct mp_limits *limits, mcprt_buf *out);
/* Starts one operation of a blocking verb on the calling thread. Does not wait for
 * its end, which always comes through mp_op_complete. text is read before it returns. */
extern void mcprtgo_start(uintptr_t go, struct mp_op *op, uint64_t id, int32_t verb, char *text, size_t len);

/* ---- Go calls C: all from any thread, none blocks, none calls back ---- */

/* What there is to do, oldest first, or NULL: read the pipe, then look again. Stays
 * readable until the next call, which frees it. One caller at a time. */
struct mp_work *mp_work_next(struct mp_manager *m);
/* Ends an operation; exactly once for each, and the pointer is gone then. The text
 * comes in up to three parts, so that a large result needs no copy for the envelope
 * around it; a part of length 0 may point anywhere. */
void mp_op_complete(struct mp_op *op, int32_t status, const char *head, size_t head_len, const char *body,
                    size_t body_len, const char *tail, size_t tail_len);
void mp_notice(struct mp_manager *m, const char *text, size_t len);
/* False: the host has too many questions open, is closing, or memory is out. */
bool mp_request_open(struct mp_manager *m, uint64_t tag, const char *text, size_t len);
/* A tag that is not open, or not any more, is ignored. */
void mp_request_done(struct mp_manager *m, uint64_t tag, int32_t status);
/* Core's manager has closed. */
void mp_core_closed(struct mp_manager *m);
/* Fills *out with a copy; {NULL,0} without memory. */
void mp_buf_set(mcprt_buf *out, const char *text, size_t len);

#endif
