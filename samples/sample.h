/* What the samples share: the command line, addresses, and the end of the program when a call fails. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <netdirect.h>

#ifndef _WIN32
#include <arpa/inet.h>
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program if a call has failed. ND_PENDING, which the macro FAILED takes for a success, is no end of a request: wait for it first. */
static inline void check(HRESULT status, const char *what)
{
    if (FAILED(status) || status == ND_PENDING) {
        fprintf(stderr, "%s: status 0x%08X\n", what, (unsigned)status);
        exit(1);
    }
}

static inline void fail(const char *what)
{
    fprintf(stderr, "%s: error %u\n", what, (unsigned)GetLastError());
    exit(1);
}

/* An address with its length. */
typedef struct address {
    struct sockaddr_storage storage;
    ULONG length;
} address;

static inline struct sockaddr *generic(address *a) { return (struct sockaddr *)&a->storage; }

/* An IPv4 or IPv6 address and a port. */
static inline address parse(const char *text, const char *port)
{
    address a;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&a.storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a.storage;
    memset(&a, 0, sizeof(a));
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)atoi(port));
        a.length = sizeof(*v4);
    } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)atoi(port));
        a.length = sizeof(*v6);
    } else {
        fprintf(stderr, "%s is neither an IPv4 nor an IPv6 address\n", text);
        exit(2);
    }
    return a;
}

static inline unsigned port_of(address *a)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&a->storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a->storage;
    return ntohs(a->storage.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
}

/* -s ADDRESS PORT: a server on a local address, on any free port if PORT is 0. -c ADDRESS PORT: its client. */
static inline BOOL is_server(int argc, char **argv)
{
    if (argc != 4 || (strcmp(argv[1], "-s") != 0 && strcmp(argv[1], "-c") != 0)) {
        fprintf(stderr, "usage: %s -s ADDRESS PORT | -c ADDRESS PORT\n", argv[0]);
        exit(2);
    }
    return argv[1][1] == 's';
}

/* The local address from which a client reaches a remote one, with port 0: any free port. */
static inline address local_for(address *remote)
{
    address local;
    SIZE_T size = sizeof(local.storage);
    check(NdResolveAddress(generic(remote), remote->length, generic(&local), &size), "NdResolveAddress");
    local.length = (ULONG)size;
    return local;
}

/* Tells the user where to connect to. */
static inline void announce(IND2Listener *listener)
{
    address a;
    a.length = sizeof(a.storage);
#ifdef __cplusplus
    check(listener->GetLocalAddress(generic(&a), &a.length), "GetLocalAddress");
#else
    check(IND2Listener_GetLocalAddress(listener, generic(&a), &a.length), "GetLocalAddress");
#endif
    printf("listening on port %u\n", port_of(&a));
    fflush(stdout);
}

#endif
