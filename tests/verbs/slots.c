/* A program that polls nothing is refused at the depth of its queues, in every state, and its completion queue is not overrun. */
#include "common.h"

enum { POSTS = 3000 };

/* Posts, and takes no completion. Returns the number of requests that were accepted. */
static int receives(struct end *end)
{
    int accepted = 0;
    for (int index = 0; index < POSTS; index++) {
        int error = post_receive(end, index, 0, 64);
        NEED(error == 0 || error == ENOMEM);
        accepted += error == 0;
    }
    return accepted;
}

static int sends(struct end *end)
{
    int accepted = 0;
    for (int index = 0; index < POSTS; index++) {
        int error = post_send(end, index, 0, 64, IBV_SEND_SIGNALED);
        NEED(error == 0 || error == ENOMEM);
        accepted += error == 0;
    }
    return accepted;
}

/* Takes this many completions, one at a time, and finds room for as many requests. */
static void take(struct end *end, int count, enum ibv_wc_status status)
{
    for (int index = 0; index < count; index++) {
        struct ibv_wc wc = completion(end->cq);
        CHECK(wc.status == status);
        int is_receive = wc.opcode == IBV_WC_RECV;
        CHECK(is_receive ? post_receive(end, 1, 0, 64) == 0 : post_send(end, 1, 0, 64, IBV_SEND_SIGNALED) == 0);
        CHECK(post_receive(end, 1, 0, 64) == ENOMEM);
        CHECK(post_send(end, 1, 0, 64, IBV_SEND_SIGNALED) == ENOMEM);
    }
}

/* Takes all completions that are there. */
static int take_all(struct end *end)
{
    struct ibv_wc wc[8];
    int count = 0, got;
    while ((got = ibv_poll_cq(end->cq, 8, wc)) > 0)
        count += got;
    CHECK(got == 0);
    return count;
}

/* A list without an end is refused where the queue is full. */
static void cyclic(struct end *end)
{
    struct ibv_sge sge = { .addr = (uintptr_t)end->memory, .length = 8, .lkey = end->mr->lkey };
    struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
    struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 };
    struct ibv_send_wr *bad_send = NULL;
    struct ibv_recv_wr *bad_receive = NULL;
    send.next = &send, receive.next = &receive;
    CHECK(ibv_post_send(end->id->qp, &send, &bad_send) == ENOMEM && bad_send == &send);
    CHECK(ibv_post_recv(end->id->qp, &receive, &bad_receive) == ENOMEM && bad_receive == &receive);
}

/* The end of a connection, whichever it was: everything comes back flushed, as often as the program posts. */
static void ended(struct end *end)
{
    cyclic(end);
    for (int round = 0; round < 3; round++) {
        CHECK(receives(end) == 0 && sends(end) == 0);
        take(end, 2 * DEPTH, IBV_WC_WR_FLUSH_ERR);
        CHECK(take_all(end) == 2 * DEPTH);
        cyclic(end);
    }
}

int main(void)
{
    struct pair pair;
    make_pair(&pair);
    struct end *ends[] = { &pair.client, &pair.server };
    /* As deep as both queues. */
    for (int index = 0; index < 2; index++)
        NEED(ibv_resize_cq(ends[index]->cq, 2 * DEPTH) == 0);
    for (int index = 0; index < 2; index++)
        CHECK(receives(ends[index]) == DEPTH);
    for (int index = 0; index < 2; index++)
        CHECK(sends(ends[index]) == DEPTH);
    /* Those that were sent have arrived. */
    for (int index = 0; index < 2; index++)
        take(ends[index], 2 * DEPTH, IBV_WC_SUCCESS);
    CHECK(rdma_disconnect(pair.server.id) == 0);
    event_is(pair.client.events, RDMA_CM_EVENT_DISCONNECTED);
    CHECK(rdma_disconnect(pair.client.id) == 0);
    for (int index = 0; index < 2; index++) {
        /* What the peer took in time has succeeded. */
        CHECK(receives(ends[index]) == 0 && sends(ends[index]) == 0);
        CHECK(take_all(ends[index]) == 2 * DEPTH);
        ended(ends[index]);
    }
    break_pair(&pair);
    /* A queue pair that the program moves to ERR. */
    make_pair(&pair);
    NEED(ibv_resize_cq(pair.client.cq, 2 * DEPTH) == 0);
    CHECK(receives(&pair.client) == DEPTH);
    struct ibv_qp_attr to_error = { .qp_state = IBV_QPS_ERR };
    CHECK(ibv_modify_qp(pair.client.id->qp, &to_error, IBV_QP_STATE) == 0);
    ended(&pair.client);
    break_pair(&pair);
    return done();
}
