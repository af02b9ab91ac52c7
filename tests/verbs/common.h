/* What the programs in this folder share: checks, and connections between two ends in one process. */
#ifndef COMMON_H
#define COMMON_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

/* Goes on after a failure, which main reports. */
#define CHECK(what) \
    do { \
        errno = 0; \
        if (!(what)) { \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #what, strerror(errno)); \
            failures++; \
        } \
    } while (0)

/* Gives up: what follows needs it. */
#define NEED(what) \
    do { \
        errno = 0; \
        if (!(what)) { \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #what, strerror(errno)); \
            fflush(stdout); \
            _exit(2); \
        } \
    } while (0)

static inline int done(void)
{
    printf("%d failures\n", failures);
    return failures > 0;
}

/* One end of a connection. */
struct end {
    struct rdma_event_channel *events;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    char *memory;
};

struct pair {
    struct rdma_cm_id *listener;
    struct end client, server;
};

/* A program may have deeper queues. */
#ifndef DEEP
#define DEEP 64
#endif
enum { MEMORY = 1 << 20, DEPTH = DEEP };

static inline struct rdma_cm_id *event_is(struct rdma_event_channel *events, enum rdma_cm_event_type kind)
{
    struct rdma_cm_event *event;
    NEED(rdma_get_cm_event(events, &event) == 0);
    if (event->event != kind) {
        printf("%s in place of %s, status %d\n", rdma_event_str(event->event), rdma_event_str(kind), event->status);
        fflush(stdout);
        _exit(2);
    }
    struct rdma_cm_id *id = event->id;
    NEED(rdma_ack_cm_event(event) == 0);
    return id;
}

/* Makes the objects of an end over its identifier. The completion queue is `cq`, or one of its own. */
static inline void make_end(struct end *end, struct ibv_cq *cq, int signal_all)
{
    struct ibv_context *context = end->id->verbs;
    NEED(end->pd = ibv_alloc_pd(context));
    NEED(end->channel = ibv_create_comp_channel(context));
    NEED(end->cq = cq ? cq : ibv_create_cq(context, 4 * DEPTH, end, end->channel, 0));
    NEED(posix_memalign((void **)&end->memory, 4096, MEMORY) == 0);
    memset(end->memory, 0, MEMORY);
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    NEED(end->mr = ibv_reg_mr(end->pd, end->memory, MEMORY, access));
    struct ibv_qp_init_attr attributes = {
        .send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = signal_all,
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 },
    };
    NEED(rdma_create_qp(end->id, end->pd, &attributes) == 0);
}

static inline void break_end(struct end *end)
{
    struct ibv_cq *cq = end->cq;
    rdma_destroy_qp(end->id);
    NEED(ibv_dereg_mr(end->mr) == 0);
    if (cq->cq_context == end)
        NEED(ibv_destroy_cq(cq) == 0);
    NEED(ibv_destroy_comp_channel(end->channel) == 0);
    NEED(ibv_dealloc_pd(end->pd) == 0);
    NEED(rdma_destroy_id(end->id) == 0);
    rdma_destroy_event_channel(end->events);
    free(end->memory);
}

static inline struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A listener at a port that is free. */
static inline struct rdma_cm_id *listen_at(struct rdma_event_channel *events)
{
    struct rdma_cm_id *listener;
    struct sockaddr_in address = loopback(0);
    NEED(rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) == 0);
    NEED(rdma_bind_addr(listener, (struct sockaddr *)&address) == 0);
    NEED(rdma_listen(listener, 8) == 0);
    return listener;
}

/* Until both the address and the route are known. */
static inline void resolve(struct end *end, int port)
{
    struct sockaddr_in address = loopback(port);
    NEED(end->events = rdma_create_event_channel());
    NEED(rdma_create_id(end->events, &end->id, NULL, RDMA_PS_TCP) == 0);
    NEED(rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&address, 2000) == 0);
    event_is(end->events, RDMA_CM_EVENT_ADDR_RESOLVED);
    NEED(rdma_resolve_route(end->id, 2000) == 0);
    event_is(end->events, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static inline struct rdma_conn_param parameters(void)
{
    return (struct rdma_conn_param){ .responder_resources = 4, .initiator_depth = 4, .rnr_retry_count = 7, .retry_count = 7 };
}

static inline void connect_to(struct end *end, int port, struct ibv_cq *cq, int signal_all)
{
    resolve(end, port);
    make_end(end, cq, signal_all);
    struct rdma_conn_param with = parameters();
    NEED(rdma_connect(end->id, &with) == 0);
}

static inline void accept_from(struct end *end, struct rdma_event_channel *events, struct ibv_cq *cq, int signal_all)
{
    end->id = event_is(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    NEED(end->events = rdma_create_event_channel());
    NEED(rdma_migrate_id(end->id, end->events) == 0);
    make_end(end, cq, signal_all);
    struct rdma_conn_param with = parameters();
    NEED(rdma_accept(end->id, &with) == 0);
}

static inline void make_pair(struct pair *pair)
{
    struct rdma_event_channel *events;
    NEED(events = rdma_create_event_channel());
    pair->listener = listen_at(events);
    connect_to(&pair->client, ntohs(rdma_get_src_port(pair->listener)), NULL, 0);
    accept_from(&pair->server, events, NULL, 0);
    event_is(pair->server.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(pair->client.events, RDMA_CM_EVENT_ESTABLISHED);
}

static inline void break_pair(struct pair *pair)
{
    struct rdma_event_channel *events = pair->listener->channel;
    break_end(&pair->client);
    break_end(&pair->server);
    NEED(rdma_destroy_id(pair->listener) == 0);
    rdma_destroy_event_channel(events);
}

static inline int post_receive(struct end *end, uint64_t id, int offset, int len)
{
    struct ibv_sge sge = { .addr = (uintptr_t)end->memory + offset, .length = len, .lkey = end->mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;
    return ibv_post_recv(end->id->qp, &wr, &bad);
}

static inline int post_send(struct end *end, uint64_t id, int offset, int len, int flags)
{
    struct ibv_sge sge = { .addr = (uintptr_t)end->memory + offset, .length = len, .lkey = end->mr->lkey };
    struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags }, *bad;
    return ibv_post_send(end->id->qp, &wr, &bad);
}

static inline int post_write(struct end *end, uint64_t id, int offset, int len, uint64_t to, uint32_t rkey)
{
    struct ibv_sge sge = { .addr = (uintptr_t)end->memory + offset, .length = len, .lkey = end->mr->lkey };
    struct ibv_send_wr wr = {
        .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = { .remote_addr = to, .rkey = rkey },
    }, *bad;
    return ibv_post_send(end->id->qp, &wr, &bad);
}

/* Polls until a completion is there. */
static inline struct ibv_wc completion(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int got;
    while ((got = ibv_poll_cq(cq, 1, &wc)) == 0)
        ;
    NEED(got == 1);
    return wc;
}

/* The next completion has this number and status. */
static inline int completes(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
    struct ibv_wc wc = completion(cq);
    if (wc.wr_id == id && wc.status == status)
        return 1;
    printf("request %lu ends with %s\n", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
    return 0;
}

/* A Send from one end arrives at the other. */
static inline void exchange(struct end *from, struct end *to, char octet)
{
    memset(from->memory, octet, 100);
    CHECK(post_receive(to, 71, 0, 4096) == 0);
    CHECK(post_send(from, 72, 0, 100, IBV_SEND_SIGNALED) == 0);
    CHECK(completes(from->cq, 72, IBV_WC_SUCCESS));
    CHECK(completes(to->cq, 71, IBV_WC_SUCCESS));
    CHECK(to->memory[0] == octet && to->memory[99] == octet);
}

static inline int is_readable(int fd, int limit)
{
    struct pollfd one = { .fd = fd, .events = POLLIN };
    return poll(&one, 1, limit) == 1 && one.revents == POLLIN;
}

/* Starts this program again with other arguments. */
static inline pid_t start_self(const char *role, int port)
{
    extern char **environ;
    char number[16];
    snprintf(number, sizeof number, "%d", port);
    char *arguments[] = { "self", (char *)role, number, NULL };
    pid_t child;
    fflush(stdout);
    NEED(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
    return child;
}

static inline int exit_of(pid_t child)
{
    int status = 0;
    NEED(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#endif
