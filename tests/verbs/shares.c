/* Shares of peers at a listener: an address with many connections that are not established leaves room for the others. */
#define _GNU_SOURCE
#include "common.h"

#include <sys/resource.h>

/* With this variable, which children see too, an attacker sends what takes all places of the longest backlog, and all descriptors. */
#define LARGE "SHARES_LARGE"

struct sizes {
    int backlog, crowd, descriptors, flood;
};

/* The longest backlog has room for half as many requests as the process may have descriptors, and at most for 16,384. */
static struct sizes sizes(void)
{
    struct rlimit limit;
    if (!getenv(LARGE))
        return (struct sizes){ .backlog = 16, .crowd = 40, .descriptors = 128, .flood = 300 };
    NEED(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    int backlog = limit.rlim_cur / 2 < 16384 ? limit.rlim_cur / 2 : 16384;
    return (struct sizes){ .backlog = backlog, .crowd = backlog + backlog / 14, .descriptors = 1024, .flood = 1300 };
}

/* The descriptors of pipes: children wait until the first is closed, and write to the second. */
enum { GO = 60, SAY = 61 };

/* A peer of 127.0.0.`host` that has sent a whole Request, unless the server has reset the connection before. */
static int peer_of(int host, int port, const char *request, int length)
{
    struct sockaddr_in from = loopback(0), to = loopback(port);
    from.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xFF) | host);
    int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NEED(peer >= 0 && bind(peer, (struct sockaddr *)&from, sizeof from) == 0);
    NEED(connect(peer, (struct sockaddr *)&to, sizeof to) == 0);
    NEED(send(peer, request, length, MSG_NOSIGNAL) == length || errno == ECONNRESET || errno == EPIPE);
    return peer;
}

static void wait_for_go(void)
{
    char octet;
    NEED(read(GO, &octet, 1) == 0);
}

/* Waits until `count` of the peers have an answer, which refuses them, and closes these. */
static void refused(struct pollfd *peers, int among, int count)
{
    while (count > 0) {
        NEED(poll(peers, among, -1) > 0);
        for (int index = 0; index < among; index++)
            if (peers[index].fd >= 0 && peers[index].revents) {
                close(peers[index].fd);
                peers[index].fd = -1;
                count--;
            }
    }
    NEED(count == 0);
}

/* Revision 1, without private data. */
static const char REQUEST[20] = "MPA ID Req Frame\0\1\0\0";
/* Revision 2, limits of 4 Reads, and a ready-to-receive message that is a Write or a Read. */
static const char WITH_READY[24] = "MPA ID Req Frame\x10\2\0\4\x80\4\xC0\4";

static int crowd(int port)
{
    int among = sizes().crowd;
    struct pollfd *peers = calloc(among, sizeof *peers);
    NEED(peers);
    for (int index = 0; index < among; index++)
        peers[index] = (struct pollfd){ .fd = peer_of(2, port, REQUEST, sizeof REQUEST), .events = POLLIN };
    refused(peers, among, among - sizes().backlog);
    pid_t child = start_self("honest", port);
    refused(peers, among, 1);
    NEED(write(SAY, "", 1) == 1);
    wait_for_go();
    free(peers);
    return exit_of(child);
}

static int flood(int port)
{
    wait_for_go();
    for (int index = 0; index < sizes().flood; index++)
        peer_of(2, port, WITH_READY, sizeof WITH_READY);
    return exit_of(start_self("honest", port));
}

static int honest(int port)
{
    struct end end = { 0 };
    connect_to(&end, port, NULL, 0);
    event_is(end.events, RDMA_CM_EVENT_ESTABLISHED);
    NEED(rdma_disconnect(end.id) == 0);
    event_is(end.events, RDMA_CM_EVENT_DISCONNECTED);
    break_end(&end);
    return 0;
}

static int host_of(struct rdma_cm_id *id)
{
    return ntohl(((struct sockaddr_in *)rdma_get_peer_addr(id))->sin_addr.s_addr) & 0xFF;
}

static struct rdma_cm_id *bound(struct rdma_event_channel *events, int *port)
{
    struct rdma_cm_id *listener;
    struct sockaddr_in address = loopback(0);
    NEED(rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) == 0);
    NEED(rdma_bind_addr(listener, (struct sockaddr *)&address) == 0);
    *port = ntohs(rdma_get_src_port(listener));
    return listener;
}

/* Starts a child with the pipes. Returns the end of GO that this process closes, and the end of SAY that it reads. */
static pid_t start(const char *role, int port, int *go, int *say)
{
    int to[2], from[2];
    NEED(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    NEED(dup2(to[0], GO) == GO && dup2(from[1], SAY) == SAY);
    pid_t child = start_self(role, port);
    close(GO), close(SAY), close(to[0]), close(from[1]);
    *go = to[1];
    *say = from[0];
    return child;
}

static struct ibv_cq *completions(struct rdma_cm_id *listener)
{
    struct ibv_cq *cq = ibv_create_cq(listener->verbs, 4096, NULL, NULL, 0);
    NEED(cq);
    return cq;
}

static int accepted(struct rdma_cm_id *id, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attributes = {
        .send_cq = cq, .recv_cq = cq,
        .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct rdma_conn_param with = parameters();
    NEED(rdma_create_qp(id, NULL, &attributes) == 0);
    return rdma_accept(id, &with) == 0;
}

/* The next event, which is confirmed. */
static enum rdma_cm_event_type next_event(struct rdma_event_channel *events, struct rdma_cm_id **id)
{
    struct rdma_cm_event *event;
    NEED(rdma_get_cm_event(events, &event) == 0);
    enum rdma_cm_event_type kind = event->event;
    *id = event->id;
    NEED(rdma_ack_cm_event(event) == 0);
    return kind;
}

static void end_of(struct rdma_cm_id *id)
{
    rdma_destroy_qp(id);
    NEED(rdma_destroy_id(id) == 0);
}

/* A server that sleeps: in its full backlog an honest peer takes a place of the address that has the most, and is served when the server
   wakes. */
static void a_full_backlog_has_room_for_another_address(void)
{
    int port, go, say, requests = 0, others = 0, over = 0;
    char octet;
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *listener = bound(events, &port), *id;
    struct ibv_cq *cq = completions(listener);
    NEED(rdma_listen(listener, sizes().backlog) == 0);
    pid_t child = start("crowd", port, &go, &say);
    NEED(read(say, &octet, 1) == 1);
    while (requests < sizes().backlog || !over) {
        enum rdma_cm_event_type kind = next_event(events, &id);
        if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
            requests++;
            if (host_of(id) == 1) {
                others++;
                NEED(accepted(id, cq));
            } else {
                NEED(rdma_destroy_id(id) == 0);
            }
        } else if (kind == RDMA_CM_EVENT_DISCONNECTED) {
            NEED(rdma_disconnect(id) == 0);
            end_of(id);
            over = 1;
        } else {
            CHECK(kind == RDMA_CM_EVENT_ESTABLISHED);
        }
    }
    CHECK(others == 1);
    CHECK(!is_readable(events->fd, 0));
    close(go);
    close(say);
    CHECK(exit_of(child) == 0);
    NEED(rdma_destroy_id(listener) == 0);
    NEED(ibv_destroy_cq(cq) == 0);
    rdma_destroy_event_channel(events);
}

/* A server without descriptors: accepted peers that stay silent give way. */
static void accepted_peers_that_are_silent_give_way(void)
{
    int port, go, say, gave_way = 0, established = 0, over = 0;
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *listener = bound(events, &port), *id;
    /* Before peers take all descriptors. */
    struct ibv_cq *cq = completions(listener);
    pid_t child = start("flood", port, &go, &say);
    int descriptors = sizes().descriptors;
    struct rlimit limit = { descriptors, descriptors };
    NEED(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    NEED(rdma_listen(listener, 0) == 0);
    close(go);
    while (!over) {
        enum rdma_cm_event_type kind = next_event(events, &id);
        if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
            if (accepted(id, cq))
                continue;
        } else if (kind == RDMA_CM_EVENT_ESTABLISHED) {
            CHECK(host_of(id) == 1);
            established++;
            continue;
        } else if (kind == RDMA_CM_EVENT_CONNECT_ERROR) {
            gave_way++;
        } else if (kind == RDMA_CM_EVENT_DISCONNECTED) {
            NEED(rdma_disconnect(id) == 0);
            over = 1;
        } else if (kind == RDMA_CM_EVENT_TIMEWAIT_EXIT) {
            continue;
        } else {
            /* Not by a time limit. */
            CHECK(kind == RDMA_CM_EVENT_CONNECT_ERROR);
        }
        end_of(id);
    }
    CHECK(established == 1);
    CHECK(gave_way > 0);
    CHECK(exit_of(child) == 0);
}

int main(int count, char **arguments)
{
    if (count > 2) {
        int port = atoi(arguments[2]);
        if (strcmp(arguments[1], "crowd") == 0)
            return crowd(port);
        return strcmp(arguments[1], "flood") == 0 ? flood(port) : honest(port);
    }
    if (getenv(LARGE)) {
        struct rlimit limit;
        NEED(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        limit.rlim_cur = limit.rlim_max;
        NEED(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    a_full_backlog_has_room_for_another_address();
    accepted_peers_that_are_silent_give_way();
    return done();
}
