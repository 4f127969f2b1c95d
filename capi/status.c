/* What this library is, and the names of its codes. Works without a runtime. */
#include "mcprt.h"

#include "fork.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *mcprt_version(void) {
  return TEXT(MCPRT_VERSION_MAJOR) "." TEXT(MCPRT_VERSION_MINOR) "." TEXT(MCPRT_VERSION_PATCH);
}

mcprt_status mcprt_check(int32_t abi, int32_t minor) {
  if (mp_forked()) return MCPRT_EFORK;
  return abi == MCPRT_ABI && minor <= MCPRT_VERSION_MINOR ? MCPRT_OK : MCPRT_EVERSION;
}

const char *mcprt_status_name(mcprt_status s) {
  switch (s) {
#define NAME(code) \
  case code: return #code;
    NAME(MCPRT_OK)
    NAME(MCPRT_EINVAL)
    NAME(MCPRT_EHANDLE)
    NAME(MCPRT_EFORK)
    NAME(MCPRT_EVERSION)
    NAME(MCPRT_ENOMEM)
    NAME(MCPRT_EBUSY)
    NAME(MCPRT_ETIMEOUT)
    NAME(MCPRT_ECANCELED)
    NAME(MCPRT_ECLOSED)
    NAME(MCPRT_ERANGE)
    NAME(MCPRT_ETAG)
    NAME(MCPRT_EAGAIN)
    NAME(MCPRT_EFAILED)
    NAME(MCPRT_EINTERNAL)
#undef NAME
  default: return "MCPRT_UNKNOWN";
  }
}
