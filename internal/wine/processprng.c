/* What Go's runtime needs of Windows 10 and Wine 8 does not have yet. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
  return RtlGenRandom(data, (ULONG)size);
}
