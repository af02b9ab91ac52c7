/* A server that polls 8 completions at a time and stops at the first failed one gets all messages of a client that disconnects. */
#define DEEP 512
#include "common.h"

enum { ROUNDS = 1000, FEW = 8 };

static int client(int port)
{
    for (int round = 0; round < ROUNDS; round++) {
        static struct end end;
        connect_to(&end, port, NULL, 0);
        event_is(end.events, RDMA_CM_EVENT_ESTABLISHED);
        for (int index = 0; index < DEPTH; index++)
            NEED(post_send(&end, index, 0, 8, index == DEPTH - 1 ? IBV_SEND_SIGNALED : 0) == 0);
        NEED(completes(end.cq, DEPTH - 1, IBV_WC_SUCCESS));
        NEED(rdma_disconnect(end.id) == 0);
        event_is(end.events, RDMA_CM_EVENT_DISCONNECTED);
        break_end(&end);
    }
    return 0;
}

static void serve(struct rdma_event_channel *events, int round)
{
    struct end end = { 0 };
    accept_from(&end, events, NULL, 0);
    for (int index = 0; index < DEPTH; index++)
        NEED(post_receive(&end, index, 0, 8) == 0);
    event_is(end.events, RDMA_CM_EVENT_ESTABLISHED);
    for (int received = 0; received < DEPTH;) {
        struct ibv_wc few[FEW];
        int got = ibv_poll_cq(end.cq, FEW, few);
        NEED(got >= 0);
        for (int index = 0; index < got; index++, received++) {
            if (few[index].status != IBV_WC_SUCCESS) {
                printf("round %d: %s behind %d messages\n", round, ibv_wc_status_str(few[index].status), received);
                fflush(stdout);
                _exit(2);
            }
        }
    }
    event_is(end.events, RDMA_CM_EVENT_DISCONNECTED);
    break_end(&end);
}

int main(int count, char **arguments)
{
    if (count > 2)
        return client(atoi(arguments[2]));
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *listener = listen_at(events);
    pid_t child = start_self("client", ntohs(rdma_get_src_port(listener)));
    for (int round = 0; round < ROUNDS; round++)
        serve(events, round);
    CHECK(exit_of(child) == 0);
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(events);
    return done();
}
