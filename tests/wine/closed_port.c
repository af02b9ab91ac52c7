/* Windows reports to a connected socket of UDP that the peer's port is closed. Wine 8 reports it to no call that waits, and of a socket that is
 * bound to an address of an interface not at all: this program prints what it sees. Its argument is such an address of this machine. */
#include <stdio.h>
#include <winsock2.h>

static int reported(const char *address)
{
    struct sockaddr_in own = {0};
    int length = sizeof own, error = 0, error_length = sizeof error;
    SOCKET closed = socket(AF_INET, SOCK_DGRAM, 0), asking = socket(AF_INET, SOCK_DGRAM, 0);
    WSAPOLLFD waiting = {asking, POLLRDNORM, 0};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = inet_addr(address);
    if (bind(closed, (struct sockaddr *)&own, sizeof own) || getsockname(closed, (struct sockaddr *)&own, &length))
        return 0;
    closesocket(closed);
    length = own.sin_port;
    own.sin_port = 0;
    if (bind(asking, (struct sockaddr *)&own, sizeof own))
        return 0;
    own.sin_port = (unsigned short)length;
    if (connect(asking, (struct sockaddr *)&own, sizeof own) || send(asking, "?", 1, 0) != 1)
        return 0;
    printf("%s: a wait of 2 s reports %d, ", address, WSAPoll(&waiting, 1, 2000));
    getsockopt(asking, SOL_SOCKET, SO_ERROR, (char *)&error, &error_length);
    printf("SO_ERROR is %d\n", error);
    return 1;
}

int main(int count, char **arguments)
{
    WSADATA data;
    if (WSAStartup(MAKEWORD(2, 2), &data))
        return 1;
    return !reported("127.0.0.1") || (count > 1 && !reported(arguments[1]));
}
