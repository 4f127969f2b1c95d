/* Nothing but a question to the compiler: do the Go functions have the types that
 * the C side calls them with? */
#include "gocalls.h"

#include "_cgo_export.h"
