/* A UDP socket for IPv4 is asked whether it is for IPv6 alone, as the crate quinn-udp does. Windows answers. Under wine 8 getsockopt fails (10045).
 * Prints what the call says. */
#include <stdio.h>
#include <winsock2.h>
#include <ws2tcpip.h>

int main(void)
{
    WSADATA data;
    DWORD alone = 7;
    int length = sizeof alone, result;
    SOCKET made;
    if (WSAStartup(MAKEWORD(2, 2), &data))
        return 1;
    made = socket(AF_INET, SOCK_DGRAM, 0);
    result = getsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, (char *)&alone, &length);
    printf("getsockopt says %d (%d), %lu\n", result, result ? WSAGetLastError() : 0, alone);
    alone = 0;
    result = setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, (char *)&alone, sizeof alone);
    printf("setsockopt says %d (%d)\n", result, result ? WSAGetLastError() : 0);
    return 0;
}
