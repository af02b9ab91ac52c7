/* Queue pairs that the program connects by their numbers. A live peer without Receives is waited for; a host that is gone fails a request. Runs in
   a network of its own, whose two addresses reach each other through the loopback interface. */
#include "common.h"

#include <time.h>

/* 4.096 us * 2^14 * (7 + 1) * 4 */
static const double LIMIT = 2.147;

static struct ibv_context *context;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

struct numbered {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *memory;
};

static void make(struct numbered *end, struct ibv_pd *pd)
{
    NEED(end->cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0));
    struct ibv_qp_init_attr attributes = {
        .send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    NEED(end->qp = ibv_create_qp(pd, &attributes));
    NEED(posix_memalign((void **)&end->memory, 4096, MEMORY) == 0);
    memset(end->memory, 0, MEMORY);
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    NEED(end->mr = ibv_reg_mr(pd, end->memory, MEMORY, access));
}

static void connect_qp(struct numbered *end, int row, uint32_t number, int peer_row)
{
    struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 7 };
    NEED(ibv_modify_qp(end->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = number, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
        .ah_attr = { .is_global = 1, .port_num = 1, .grh.sgid_index = row },
    };
    NEED(ibv_query_gid(context, 1, peer_row, &rtr.ah_attr.grh.dgid) == 0);
    NEED(ibv_modify_qp(end->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
    NEED(ibv_modify_qp(end->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN
        | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    /* What was named can be asked for. */
    struct ibv_qp_attr found;
    struct ibv_qp_init_attr made;
    CHECK(ibv_query_qp(end->qp, &found, IBV_QP_AV, &made) == 0 && made.qp_type == IBV_QPT_RC);
    CHECK(found.ah_attr.grh.sgid_index == row && found.dest_qp_num == number);
    CHECK(memcmp(&found.ah_attr.grh.dgid, &rtr.ah_attr.grh.dgid, 16) == 0);
}

static void post(struct numbered *end, enum ibv_wr_opcode opcode, struct numbered *to)
{
    struct ibv_sge sge = { .addr = (uintptr_t)end->memory, .length = MEMORY, .lkey = end->mr->lkey };
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = opcode,
        .wr.rdma = { .remote_addr = (uintptr_t)to->memory, .rkey = to->mr->rkey },
    }, *bad;
    NEED(ibv_post_send(end->qp, &wr, &bad) == 0);
}

int main(void)
{
    struct ibv_device **devices;
    NEED((devices = ibv_get_device_list(NULL)) && devices[0] && (context = ibv_open_device(devices[0])));
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct numbered one, other;
    make(&one, pd);
    make(&other, pd);
    connect_qp(&one, 0, other.qp->qp_num, 1);
    connect_qp(&other, 1, one.qp->qp_num, 0);

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
    for (int index = 0; index < MANY; index++) {
        struct ibv_sge sge = { .addr = (uintptr_t)other.memory, .length = MEMORY, .lkey = other.mr->lkey };
        struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
        NEED(ibv_post_recv(other.qp, &wr, &bad) == 0);
    }
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
