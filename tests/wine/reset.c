/* A peer resets a connection: on Windows recv fails with WSAECONNRESET (10054). Under wine 8 it returns 0, as after an orderly end, once a wait has
 * looked at the socket; WSAPoll still says POLLERR (1). Prints what recv and WSAPoll say. */
#include <stdio.h>
#include <winsock2.h>

int main(void)
{
    WSADATA data;
    struct sockaddr_in address = {0};
    struct linger at_once = {1, 0};
    int length = sizeof address, received;
    SOCKET listener, client, server;
    WSAPOLLFD waiting;
    char octet;
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
    setsockopt(client, SOL_SOCKET, SO_LINGER, (char *)&at_once, sizeof at_once);
    closesocket(client);
    waiting = (WSAPOLLFD){server, POLLRDNORM, 0};
    WSAPoll(&waiting, 1, 2000);
    received = recv(server, &octet, 1, 0);
    printf("recv says %d", received);
    if (received < 0)
        printf(" (%d)", WSAGetLastError());
    printf(", WSAPoll %x\n", waiting.revents);
    return 0;
}
