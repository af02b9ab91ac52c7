/* A thread waits in recv, and another one shuts the connection down. On Linux recv returns 0 at once. Under wine 8 it waits until its time is over;
 * a recv that begins after that fails at once. Prints what both say, and how long they took. */
#include <stdio.h>
#include <winsock2.h>

static DWORD WINAPI receive(void *connection)
{
    char octet;
    DWORD begin = GetTickCount();
    int received = recv((SOCKET)connection, &octet, 1, 0), error = WSAGetLastError();
    printf("recv says %d (%d) after %lu ms\n", received, received < 0 ? error : 0, GetTickCount() - begin);
    return 0;
}

int main(void)
{
    WSADATA data;
    struct sockaddr_in address = {0};
    DWORD limit = 3000;
    int length = sizeof address;
    SOCKET listener, client, server;
    HANDLE waiting;
    if (WSAStartup(MAKEWORD(2, 2), &data))
        return 1;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    client = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = inet_addr("127.0.0.1");
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length) || connect(client, (struct sockaddr *)&address, sizeof address))
        return 1;
    server = accept(listener, NULL, NULL);
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, (char *)&limit, sizeof limit);
    waiting = CreateThread(NULL, 0, receive, (void *)server, 0, NULL);
    Sleep(500); /* until the thread waits */
    shutdown(server, SD_BOTH);
    WaitForSingleObject(waiting, INFINITE);
    receive((void *)server);
    return 0;
}
