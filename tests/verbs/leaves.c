/* A peer that ends: killed, by an orderly disconnect, by its exit, or by a reset of the stream. What it leaves stays posted. */
#include "common.h"

#include <signal.h>
#include <sys/socket.h>

/* The peer connects, sends once, and then waits for its end or disconnects. */
static int peer(const char *role, int port)
{
    static struct end end;
    struct rdma_cm_event *event;
    sigset_t arrived;
    sigemptyset(&arrived);
    sigaddset(&arrived, SIGUSR1);
    NEED(sigprocmask(SIG_BLOCK, &arrived, NULL) == 0);
    connect_to(&end, port, NULL, 0);
    event_is(end.events, RDMA_CM_EVENT_ESTABLISHED);
    NEED(post_send(&end, 1, 0, 100, IBV_SEND_SIGNALED) == 0);
    NEED(completes(end.cq, 1, IBV_WC_SUCCESS));
    if (strcmp(role, "stays") == 0)
        return rdma_get_cm_event(end.events, &event);
    if (strcmp(role, "exits") == 0)
        return 0;
    if (strcmp(role, "resets") == 0) {
        /* A reset drops what has not left, so the message has to have arrived. */
        int got;
        NEED(sigwait(&arrived, &got) == 0);
        /* What closes a socket now resets its connection. */
        struct linger none = { .l_onoff = 1 };
        for (int fd = 3; fd < 100; fd++)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
        _exit(0);
    }
    NEED(rdma_disconnect(end.id) == 0);
    event_is(end.events, RDMA_CM_EVENT_DISCONNECTED);
    return 0;
}

/* What takes the Receives back. */
enum how { DISCONNECT, REQUEST };

static void with_peer(const char *role, enum how how)
{
    struct end end = { 0 };
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *listener = listen_at(events);
    pid_t child = start_self(role, ntohs(rdma_get_src_port(listener)));
    accept_from(&end, events, NULL, 0);
    for (int index = 0; index < DEPTH; index++)
        NEED(post_receive(&end, index, 0, 4096) == 0);
    event_is(end.events, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(completes(end.cq, 0, IBV_WC_SUCCESS));
    if (strcmp(role, "resets") == 0)
        NEED(kill(child, SIGUSR1) == 0);
    if (strcmp(role, "stays") == 0) {
        NEED(kill(child, SIGKILL) == 0);
        CHECK(exit_of(child) == 1000 + SIGKILL);
    }
    event_is(end.events, RDMA_CM_EVENT_DISCONNECTED);
    struct ibv_wc none;
    struct ibv_qp_attr attributes;
    struct ibv_qp_init_attr made;
    CHECK(ibv_poll_cq(end.cq, 1, &none) == 0);
    CHECK(end.id->qp->state == IBV_QPS_RTS);
    CHECK(ibv_query_qp(end.id->qp, &attributes, IBV_QP_STATE, &made) == 0 && attributes.qp_state == IBV_QPS_RTS);
    CHECK(post_receive(&end, DEPTH, 0, 4096) == 0);
    CHECK(post_receive(&end, DEPTH + 1, 0, 4096) == ENOMEM);
    CHECK(ibv_poll_cq(end.cq, 1, &none) == 0);
    if (how == REQUEST) {
        CHECK(post_send(&end, 1000, 0, 100, 0) == 0);
        CHECK(post_send(&end, 1001, 0, 100, 0) == 0);
        CHECK(completes(end.cq, 1000, IBV_WC_RETRY_EXC_ERR));
        CHECK(ibv_query_qp(end.id->qp, &attributes, IBV_QP_STATE, &made) == 0 && attributes.qp_state == IBV_QPS_ERR);
    } else {
        CHECK(rdma_disconnect(end.id) == 0);
    }
    int receives = 0, sends = 0;
    while (receives < DEPTH || sends < (how == REQUEST)) {
        struct ibv_wc wc = completion(end.cq);
        CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
        if (wc.wr_id == 1001)
            sends++;
        else
            CHECK(wc.wr_id == (uint64_t)++receives);
    }
    /* In error, requests are accepted and come back. */
    CHECK(post_receive(&end, 11, 0, 4096) == 0);
    CHECK(completes(end.cq, 11, IBV_WC_WR_FLUSH_ERR));
    if (strcmp(role, "stays") != 0)
        CHECK(exit_of(child) == 0);
    break_end(&end);
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(events);
}

int main(int count, char **arguments)
{
    if (count > 2)
        return peer(arguments[1], atoi(arguments[2]));
    const char *roles[] = { "stays", "leaves", "exits", "resets" };
    for (int round = 0; round < 20; round++)
        with_peer(roles[round % 4], round / 4 % 2);
    return done();
}
