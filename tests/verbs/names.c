/* rdma_getaddrinfo: what names lead to, and the codes for those that lead nowhere. */
#include "common.h"
#include <netdb.h>

static int family_of(const struct sockaddr *address)
{
    return address ? address->sa_family : -1;
}

static int port_of(const struct sockaddr *address)
{
    return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

/* The result of a call that is to fail. */
static int failure(const char *node, const char *service, int flags, int family)
{
    struct rdma_addrinfo hints = { .ai_flags = flags, .ai_family = family, .ai_port_space = RDMA_PS_TCP }, *info = NULL;
    int result = rdma_getaddrinfo(node, service, &hints, &info);
    if (result == 0)
        rdma_freeaddrinfo(info);
    return result;
}

static void results(void)
{
    struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *info;
    NEED(rdma_getaddrinfo(NULL, "7471", &hints, &info) == 0);
    CHECK(info->ai_flags == RAI_PASSIVE && info->ai_family == AF_INET);
    CHECK(info->ai_qp_type == IBV_QPT_RC && info->ai_port_space == RDMA_PS_TCP);
    CHECK(family_of(info->ai_src_addr) == AF_INET && port_of(info->ai_src_addr) == 7471);
    CHECK(info->ai_src_len == sizeof(struct sockaddr_in) && info->ai_dst_len == 0 && !info->ai_dst_addr && !info->ai_next);
    rdma_freeaddrinfo(info);

    NEED(rdma_getaddrinfo("::1", NULL, NULL, &info) == 0);
    CHECK(info->ai_flags == 0 && info->ai_family == AF_INET6 && !info->ai_src_addr);
    CHECK(family_of(info->ai_dst_addr) == AF_INET6 && info->ai_dst_len == sizeof(struct sockaddr_in6));
    rdma_freeaddrinfo(info);

    /* A form that only the C library reads, and addresses of hints. */
    struct sockaddr_in source = loopback(0);
    struct rdma_addrinfo with_source = { .ai_flags = RAI_NUMERICHOST | RAI_NOROUTE, .ai_src_len = sizeof source,
                                         .ai_src_addr = (struct sockaddr *)&source };
    NEED(rdma_getaddrinfo("127.1", "7", &with_source, &info) == 0);
    CHECK(((struct sockaddr_in *)info->ai_dst_addr)->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK(port_of(info->ai_dst_addr) == 7 && info->ai_src_len == sizeof source && info->ai_src_addr != (struct sockaddr *)&source);
    rdma_freeaddrinfo(info);

    struct servent *known = getservbyname("ssh", "tcp");
    if (known) {
        NEED(rdma_getaddrinfo("127.0.0.1", "ssh", NULL, &info) == 0);
        CHECK(port_of(info->ai_dst_addr) == ntohs(known->s_port));
        rdma_freeaddrinfo(info);
    }
}

static void failures_of_names(void)
{
    struct rdma_addrinfo *info = NULL;
    errno = 0;
    CHECK(rdma_getaddrinfo(NULL, NULL, NULL, &info) == -1 && errno == EINVAL);
    CHECK(failure("localhost", "7", RAI_NUMERICHOST, 0) == EAI_NONAME);
    CHECK(failure("host.invalid", "7", RAI_NUMERICHOST, AF_INET) == EAI_NONAME);
    CHECK(failure("127.0.0.1", "70000", 0, 0) == EAI_SERVICE);
    CHECK(failure("127.0.0.1", "no-such-service", 0, 0) == EAI_SERVICE);
    CHECK(failure(NULL, "-1", RAI_PASSIVE, 0) == EAI_SERVICE);
    CHECK(failure("127.0.0.1", "7", 0, AF_UNIX) == EAI_FAMILY);
    CHECK(failure("127.0.0.1", "7", RAI_FAMILY, AF_INET6) != 0);
    CHECK(failure("127.0.0.1", "7", 0x4000, 0) == EAI_BADFLAGS);
    struct rdma_addrinfo of_datagrams = { .ai_qp_type = IBV_QPT_UD, .ai_port_space = RDMA_PS_TCP };
    CHECK(rdma_getaddrinfo("127.0.0.1", "7", &of_datagrams, &info) == EAI_SOCKTYPE);
    of_datagrams.ai_port_space = RDMA_PS_UDP;
    CHECK(rdma_getaddrinfo("127.0.0.1", "7", &of_datagrams, &info) == 0);
    CHECK(info->ai_qp_type == IBV_QPT_UD && info->ai_port_space == RDMA_PS_UDP);
    rdma_freeaddrinfo(info);
    of_datagrams.ai_qp_type = IBV_QPT_RC;
    CHECK(rdma_getaddrinfo("127.0.0.1", "7", &of_datagrams, &info) == EAI_SOCKTYPE);
    of_datagrams.ai_port_space = RDMA_PS_IB;
    errno = 0;
    CHECK(rdma_getaddrinfo("127.0.0.1", "7", &of_datagrams, &info) == -1 && errno == EOPNOTSUPP);
}

int main(void)
{
    results();
    failures_of_names();
    return done();
}
