/* Shares of peers at a listener: an address with many connections that are not established leaves room for the others. */
#define _GNU_SOURCE
#include "common.h"

#include <sys/resource.h>

enum { BACKLOG = 16, CROWD = 40, DESCRIPTORS = 128, FLOOD = 300 };

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
    struct pollfd peers[CROWD];
    for (int index = 0; index < CROWD; index++)
        peers[index] = (struct pollfd){ .fd = peer_of(2, port, REQUEST, sizeof REQUEST), .events = POLLIN };
    refused(peers, CROWD, CROWD - BACKLOG);
    peer_of(3, port, REQUEST, sizeof REQUEST);
    refused(peers, CROWD, 1);
    NEED(write(SAY, "", 1) == 1);
    wait_for_go();
    return 0;
}

static int flood(int port)
{
    wait_for_go();
    for (int index = 0; index < FLOOD; index++)
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

/* A server that sleeps: in its full backlog one address takes a place of the address that has the most. */
static void a_full_backlog_has_room_for_another_address(void)
{
    int port, go, say, others = 0;
    char octet;
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *listener = bound(events, &port);
    NEED(rdma_listen(listener, BACKLOG) == 0);
    pid_t child = start("crowd", port, &go, &say);
    NEED(read(say, &octet, 1) == 1);
    for (int index = 0; index < BACKLOG; index++) {
        struct rdma_cm_id *id = event_is(events, RDMA_CM_EVENT_CONNECT_REQUEST);
        others += host_of(id) == 3;
        NEED(rdma_destroy_id(id) == 0);
    }
    CHECK(others == 1);
    CHECK(!is_readable(events->fd, 0));
    close(go);
    close(say);
    CHECK(exit_of(child) == 0);
    NEED(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(events);
}

/* A server without descriptors: accepted peers that stay silent give way. */
static void accepted_peers_that_are_silent_give_way(void)
{
    int port, go, say, gave_way = 0, established = 0, over = 0;
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *listener = bound(events, &port);
    /* Before peers take all descriptors. */
    struct ibv_cq *cq = ibv_create_cq(listener->verbs, 4096, NULL, NULL, 0);
    NEED(cq);
    pid_t child = start("flood", port, &go, &say);
    struct rlimit limit = { DESCRIPTORS, DESCRIPTORS };
    NEED(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    NEED(rdma_listen(listener, 0) == 0);
    close(go);
    while (!over) {
        struct rdma_cm_event *event;
        NEED(rdma_get_cm_event(events, &event) == 0);
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type kind = event->event;
        NEED(rdma_ack_cm_event(event) == 0);
        if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
            struct ibv_qp_init_attr attributes = {
                .send_cq = cq, .recv_cq = cq,
                .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
            };
            struct rdma_conn_param with = parameters();
            NEED(rdma_create_qp(id, NULL, &attributes) == 0);
            if (rdma_accept(id, &with) == 0)
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
        rdma_destroy_qp(id);
        NEED(rdma_destroy_id(id) == 0);
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
    a_full_backlog_has_room_for_another_address();
    accepted_peers_that_are_silent_give_way();
    return done();
}
