/* A peer that leaves: killed, or with an orderly disconnect. */
#include "common.h"

#include <signal.h>

/* The peer connects, sends once, and then waits for its end or disconnects. */
static int peer(const char *role, int port)
{
    static struct end end;
    struct rdma_cm_event *event;
    connect_to(&end, port, NULL, 0);
    event_is(end.events, RDMA_CM_EVENT_ESTABLISHED);
    NEED(post_send(&end, 1, 0, 100, IBV_SEND_SIGNALED) == 0);
    NEED(completes(end.cq, 1, IBV_WC_SUCCESS));
    if (strcmp(role, "stays") == 0)
        return rdma_get_cm_event(end.events, &event);
    NEED(rdma_disconnect(end.id) == 0);
    event_is(end.events, RDMA_CM_EVENT_DISCONNECTED);
    return 0;
}

static void with_peer(const char *role)
{
    struct end end = { 0 };
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *listener = listen_at(events);
    pid_t child = start_self(role, ntohs(rdma_get_src_port(listener)));
    accept_from(&end, events, NULL, 0);
    for (int index = 0; index < 4; index++)
        NEED(post_receive(&end, index, 0, 4096) == 0);
    event_is(end.events, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(completes(end.cq, 0, IBV_WC_SUCCESS));
    if (strcmp(role, "stays") == 0) {
        NEED(kill(child, SIGKILL) == 0);
        CHECK(exit_of(child) == 1000 + SIGKILL);
    }
    event_is(end.events, RDMA_CM_EVENT_DISCONNECTED);
    for (int index = 1; index < 4; index++)
        CHECK(completes(end.cq, index, IBV_WC_WR_FLUSH_ERR));
    /* Later requests come back as well, in the order of their posts. */
    CHECK(post_receive(&end, 11, 0, 4096) == 0);
    CHECK(post_send(&end, 12, 0, 100, 0) == 0);
    struct ibv_wc first = completion(end.cq), second = completion(end.cq);
    CHECK(first.status == IBV_WC_WR_FLUSH_ERR && second.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(first.wr_id + second.wr_id == 23);
    if (strcmp(role, "leaves") == 0)
        CHECK(exit_of(child) == 0);
    break_end(&end);
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(events);
}

int main(int count, char **arguments)
{
    if (count > 2)
        return peer(arguments[1], atoi(arguments[2]));
    with_peer("stays");
    with_peer("leaves");
    return done();
}
