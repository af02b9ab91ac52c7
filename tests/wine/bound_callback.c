/* What a function that BindIoCompletionCallback binds gets for a cancelled request: on Windows the status 0xC0000120, whatever the parameter's
 * name says; under wine 8 the error 995. Ends with status 0 if it is the error. */
#include <windows.h>

#include <stdio.h>

static HANDLE called;
static DWORD code;

static VOID CALLBACK routine(DWORD error, DWORD octets, LPOVERLAPPED overlapped)
{
    (void)octets;
    (void)overlapped;
    code = error;
    SetEvent(called);
}

int main(void)
{
    OVERLAPPED overlapped = {0};
    char octet;
    HANDLE pipe = CreateNamedPipeA("\\\\.\\pipe\\bound-callback", PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED, PIPE_TYPE_MESSAGE, 1, 64, 64, 0, NULL);
    HANDLE other = CreateFileA("\\\\.\\pipe\\bound-callback", GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
    called = CreateEventA(NULL, FALSE, FALSE, NULL);
    if (pipe == INVALID_HANDLE_VALUE || other == INVALID_HANDLE_VALUE || !BindIoCompletionCallback(pipe, routine, 0))
        return 2;
    ReadFile(pipe, &octet, 1, NULL, &overlapped);
    if (!CancelIoEx(pipe, &overlapped) || WaitForSingleObject(called, INFINITE) != WAIT_OBJECT_0)
        return 2;
    printf("the function got %#lx\n", code);
    return code != ERROR_OPERATION_ABORTED;
}
