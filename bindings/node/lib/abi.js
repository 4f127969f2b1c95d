/**
 * The numbers of include/mcprt.h that this binding uses. test/abi.test.js
 * compares them with the header, so the two cannot drift apart.
 */

export const ABI = 0
/** The oldest minor version of the library that has all that this package needs. */
export const MINOR = 1

export const Status = Object.freeze({
  OK: 0,
  EINVAL: -1,
  EHANDLE: -2,
  EFORK: -3,
  EVERSION: -4,
  ENOMEM: -5,
  EBUSY: -6,
  ETIMEOUT: -7,
  ECANCELED: -8,
  ECLOSED: -9,
  ERANGE: -10,
  ETAG: -11,
  EAGAIN: -12,
  EFAILED: -20,
  EINTERNAL: -99,
})

export const Verb = Object.freeze({
  DISCOVER: 1,
  CONNECT: 2,
  LIST: 3,
  CALL: 4,
  RELOAD: 5,
  REPLY: 6,
  DISCONNECT: 7,
  CLOSE: 8,
})

export const EventKind = Object.freeze({
  DONE: 1,
  NOTICE: 2,
  REQUEST: 3,
  DROPPED: 4,
  CLOSED: 5,
})

/** Tags of ours are 1 .. TAG_MAX; those of the library's requests lie above. */
export const TAG_MAX = 2 ** 52 - 1

/** Bytes of struct mcprt_frame. */
export const FRAME_HEADER = 24
