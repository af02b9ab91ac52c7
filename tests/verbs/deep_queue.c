/* A completion queue of the greatest depth has memory for the completions that it holds, and not for its depth. */
#include "common.h"

enum { HELD = 1000, ROUNDS = 50 };

/* Octets of this process that are in memory. */
static long resident(void)
{
    long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    NEED(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Makes a queue of this depth, which holds as many completions again and again. Returns the memory that this took, in octets. */
static long memory_of(struct rdma_cm_id *id, struct ibv_pd *pd, int depth)
{
    long before = resident();
    struct ibv_cq *cq = ibv_create_cq(id->verbs, depth, NULL, NULL, 0);
    NEED(cq && cq->cqe >= depth);
    struct ibv_qp_init_attr attributes = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 1, .max_recv_wr = HELD, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    NEED(rdma_create_qp(id, pd, &attributes) == 0);
    struct ibv_qp_attr to_error = { .qp_state = IBV_QPS_ERR };
    NEED(ibv_modify_qp(id->qp, &to_error, IBV_QP_STATE) == 0);
    long most = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct ibv_recv_wr receive = { 0 }, *bad;
        for (int index = 0; index < HELD; index++)
            NEED(ibv_post_recv(id->qp, &receive, &bad) == 0);
        long now = resident();
        most = now > most ? now : most;
        struct ibv_wc wc[8];
        int taken = 0, got;
        while ((got = ibv_poll_cq(cq, 8, wc)) > 0)
            taken += got;
        CHECK(got == 0 && taken == HELD);
    }
    rdma_destroy_qp(id);
    NEED(ibv_destroy_cq(cq) == 0);
    return most - before;
}

int main(void)
{
    struct rdma_cm_id *id;
    struct sockaddr_in address = loopback(0);
    NEED(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
    NEED(rdma_bind_addr(id, (struct sockaddr *)&address) == 0);
    struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
    NEED(pd);
    struct ibv_device_attr device;
    NEED(ibv_query_device(id->verbs, &device) == 0);
    CHECK(device.max_cqe == 1 << 22);
    CHECK(!ibv_create_cq(id->verbs, device.max_cqe + 1, NULL, NULL, 0) && errno == EINVAL);
    /* What the process needs besides, it has after this. */
    memory_of(id, pd, HELD);
    long deep = memory_of(id, pd, device.max_cqe);
    if (deep > 1 << 20) {
        printf("a queue of %d with %d completions takes %ld octets\n", device.max_cqe, HELD, deep);
        failures++;
    }
    NEED(ibv_dealloc_pd(pd) == 0);
    NEED(rdma_destroy_id(id) == 0);
    return done();
}
