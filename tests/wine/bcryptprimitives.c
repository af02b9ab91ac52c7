/* bcryptprimitives.dll with the one function that Rust's standard library needs and that wine has only since version 9. It is for tests under
 * wine alone. */
#include <windows.h>

/* RtlGenRandom of advapi32.dll. */
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count)
{
    while (count > 0) {
        ULONG part = count > 0x10000000 ? 0x10000000 : (ULONG)count;
        if (!SystemFunction036(bytes, part))
            return FALSE;
        bytes += part;
        count -= part;
    }
    return TRUE;
}
