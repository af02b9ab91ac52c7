/* A thread waits in WSAPoll for a listener, and another one closes the listener and binds its port again. Windows frees the port when the last
 * handle is closed. Under wine 8 the port is in use (10048) until the thread that waits has noticed. Prints how often. */
#include <stdio.h>
#include <winsock2.h>

static DWORD WINAPI wait_for(void *listener)
{
    WSAPOLLFD waiting = {(SOCKET)listener, POLLRDNORM, 0};
    WSAPoll(&waiting, 1, 2000);
    return 0;
}

static SOCKET bound(struct sockaddr_in *address)
{
    BOOL alone = TRUE;
    SOCKET made = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(made, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (char *)&alone, sizeof alone);
    if (bind(made, (struct sockaddr *)address, sizeof *address)) {
        closesocket(made);
        return INVALID_SOCKET;
    }
    return made;
}

int main(void)
{
    WSADATA data;
    int round, in_use = 0, error = 0;
    if (WSAStartup(MAKEWORD(2, 2), &data))
        return 1;
    for (round = 0; round < 100; round++) {
        struct sockaddr_in address = {0};
        int length = sizeof address;
        SOCKET listener, again;
        HANDLE thread;
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = inet_addr("127.0.0.1");
        listener = bound(&address);
        if (listen(listener, 1) || getsockname(listener, (struct sockaddr *)&address, &length))
            return 1;
        thread = CreateThread(NULL, 0, wait_for, (void *)listener, 0, NULL);
        Sleep(10); /* until the thread waits */
        closesocket(listener);
        again = bound(&address);
        if (again == INVALID_SOCKET) {
            error = WSAGetLastError();
            in_use++;
        }
        closesocket(again);
        WaitForSingleObject(thread, INFINITE);
    }
    printf("the port of a closed listener was in use in %d of 100 rounds (%d)\n", in_use, error);
    return 0;
}
