/* A device for iWARP refuses Sends with a number at once, and the connection goes on. */
#include "common.h"

int main(void)
{
    struct pair pair;
    make_pair(&pair);
    struct end *ends[2] = { &pair.client, &pair.server };
    for (int index = 0; index < 2; index++) {
        struct end *end = ends[index];
        struct ibv_sge sge = { .addr = (uintptr_t)end->memory, .length = 8, .lkey = end->mr->lkey };
        struct ibv_send_wr second = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM };
        struct ibv_send_wr first = { .wr_id = 1, .next = &second, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;
        CHECK(ibv_post_send(end->id->qp, &second, &bad) == EOPNOTSUPP && bad == &second);
        /* Those before it in a list stay posted. */
        CHECK(ibv_post_send(end->id->qp, &first, &bad) == EOPNOTSUPP && bad == &second);
        CHECK(completes(end->cq, 1, IBV_WC_SUCCESS));
        struct ibv_qp_init_attr_ex attributes = {
            .send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_RC, .pd = end->pd,
            .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM,
            .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
        };
        errno = 0;
        CHECK(ibv_create_qp_ex(end->id->verbs, &attributes) == NULL && errno == EOPNOTSUPP);
    }
    exchange(&pair.client, &pair.server, 'x');
    break_pair(&pair);
    return done();
}
