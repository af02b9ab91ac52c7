/* Queue pairs that the program connects by their numbers. A live peer without Receives is waited for; a host that is gone fails a request. Runs in
   a network of its own, whose two addresses reach each other through the loopback interface. */
#include "numbered.h"

/* 4.096 us * 2^14 * (7 + 1) * 4 */
static const double LIMIT = 2.147;

static void connect_end(struct numbered *end, int row, struct numbered *to, int peer_row)
{
    connect_qp(end->qp, row, to->qp->qp_num, peer_row);
    /* What was named can be asked for. */
    struct ibv_qp_attr found;
    struct ibv_qp_init_attr made;
    union ibv_gid gid;
    NEED(ibv_query_gid(end->qp->context, 1, peer_row, &gid) == 0);
    CHECK(ibv_query_qp(end->qp, &found, IBV_QP_AV, &made) == 0 && made.qp_type == IBV_QPT_RC);
    CHECK(found.ah_attr.grh.sgid_index == row && found.dest_qp_num == to->qp->qp_num);
    CHECK(memcmp(&found.ah_attr.grh.dgid, &gid, 16) == 0);
}

static void post(struct numbered *end, enum ibv_wr_opcode opcode, struct numbered *to)
{
    NEED(post_numbered(end, opcode, MEMORY, (uintptr_t)to->memory, to->mr->rkey) == 0);
}

int main(void)
{
    struct ibv_pd *pd;
    NEED(pd = ibv_alloc_pd(open_first()));
    struct numbered one, other;
    make_numbered(&one, pd);
    make_numbered(&other, pd);
    connect_end(&one, 0, &other, 1);
    connect_end(&other, 1, &one, 0);

    /* More than the buffers of the system hold waits for Receives, far longer than the limit. */
    enum { MANY = 32 };
    for (int index = 0; index < MANY; index++)
        post(&one, IBV_WR_SEND, &other);
    int sent = 0;
    for (double until = now() + 3 * LIMIT; now() < until;) {
        struct ibv_wc wc;
        if (ibv_poll_cq(one.cq, 1, &wc) == 1) {
            CHECK(wc.status == IBV_WC_SUCCESS);
            sent++;
        }
    }
    CHECK(sent < MANY);
    for (int index = 0; index < MANY; index++)
        NEED(receive_numbered(&other, MEMORY) == 0);
    for (; sent < MANY; sent++)
        CHECK(completion(one.cq).status == IBV_WC_SUCCESS);
    for (int index = 0; index < MANY; index++)
        CHECK(completion(other.cq).status == IBV_WC_SUCCESS);

    post(&one, IBV_WR_RDMA_READ, &other);
    CHECK(completion(one.cq).status == IBV_WC_SUCCESS);
    NEED(system("ip link set lo down") == 0);
    double start = now();
    post(&one, IBV_WR_RDMA_READ, &other);
    CHECK(completion(one.cq).status == IBV_WC_RETRY_EXC_ERR);
    CHECK(now() - start >= LIMIT);
    NEED(system("ip link set lo up") == 0);
    return done();
}
