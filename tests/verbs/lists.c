/* Counts and lengths beyond the limits of an object are refused before the list is read, and a list without an end ends. */
#include "common.h"

#include <limits.h>
#include <stdint.h>
#include <sys/mman.h>

/* Memory that no program may read. */
static void *unreadable;

static const int COUNTS[] = { -1, INT_MIN, 2, 17, 1000000, INT_MAX };
enum { COUNTED = sizeof COUNTS / sizeof *COUNTS };

/* The call refuses the request, and names it. */
#define REFUSED(number, call, bad, request) \
    do { \
        int got = (call); \
        if (got != (number) || (bad) != (request)) { \
            printf("%s:%d: %s: %s in place of %s\n", __FILE__, __LINE__, #call, strerror(got), strerror(number)); \
            failures++; \
        } \
    } while (0)

static void counts_of_sends(struct ibv_qp *qp)
{
    static const enum ibv_wr_opcode operations[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
    for (int index = 0; index < COUNTED; index++) {
        for (int operation = 0; operation < 3; operation++) {
            struct ibv_send_wr wr = { .sg_list = unreadable, .num_sge = COUNTS[index], .opcode = operations[operation] }, *bad = NULL;
            REFUSED(EINVAL, ibv_post_send(qp, &wr, &bad), bad, &wr);
        }
        /* Inline data may come in as many pieces as it has octets. */
        struct ibv_send_wr wr = { .sg_list = unreadable, .num_sge = COUNTS[index], .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE };
        struct ibv_send_wr *bad = NULL;
        if (COUNTS[index] < 0 || COUNTS[index] > 64)
            REFUSED(EINVAL, ibv_post_send(qp, &wr, &bad), bad, &wr);
    }
}

static void counts_of_receives(struct ibv_qp *qp, struct ibv_srq *srq)
{
    for (int index = 0; index < COUNTED; index++) {
        struct ibv_recv_wr wr = { .sg_list = unreadable, .num_sge = COUNTS[index] }, *bad = NULL;
        REFUSED(EINVAL, ibv_post_recv(qp, &wr, &bad), bad, &wr);
        bad = NULL;
        REFUSED(EINVAL, ibv_post_srq_recv(srq, &wr, &bad), bad, &wr);
    }
}

/* Lists that are missing. */
static void nothing(struct ibv_qp *qp, struct ibv_srq *srq)
{
    struct ibv_send_wr send = { .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send = NULL;
    REFUSED(EFAULT, ibv_post_send(qp, &send, &bad_send), bad_send, &send);
    struct ibv_recv_wr receive = { .num_sge = 1 }, *bad_receive = NULL;
    REFUSED(EFAULT, ibv_post_recv(qp, &receive, &bad_receive), bad_receive, &receive);
    bad_receive = NULL;
    REFUSED(EFAULT, ibv_post_srq_recv(srq, &receive, &bad_receive), bad_receive, &receive);
    struct ibv_sge sge = { .addr = 0, .length = 8 };
    struct ibv_send_wr inlined = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE };
    bad_send = NULL;
    REFUSED(EFAULT, ibv_post_send(qp, &inlined, &bad_send), bad_send, &inlined);
}

/* Octets of inline data. */
static void lengths(struct ibv_qp *qp)
{
    static const uint32_t LENGTHS[] = { 65, 1 << 20, 1U << 30, UINT32_MAX };
    for (int index = 0; index < 4; index++) {
        struct ibv_sge sges[2] = { { .addr = (uintptr_t)unreadable, .length = LENGTHS[index] }, { .addr = (uintptr_t)unreadable, .length = LENGTHS[index] } };
        for (int count = 1; count <= 2; count++) {
            struct ibv_send_wr wr = { .sg_list = sges, .num_sge = count, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE }, *bad = NULL;
            REFUSED(EINVAL, ibv_post_send(qp, &wr, &bad), bad, &wr);
        }
    }
}

#define BUILT(number, qp, set) \
    do { \
        ibv_wr_start(qp); \
        (qp)->wr_id = 1, (qp)->wr_flags = 0; \
        ibv_wr_send(qp); \
        set; \
        int got = ibv_wr_complete(qp); \
        if (got != (number)) { \
            printf("%s:%d: %s: %s in place of %s\n", __FILE__, __LINE__, #set, strerror(got), strerror(number)); \
            failures++; \
        } \
    } while (0)

/* Requests that are put together. */
static void built(struct ibv_qp_ex *qp)
{
    static const size_t SIZES[] = { 65, 1000000, 1UL << 30, INT_MAX, UINT32_MAX, 1UL << 32, SIZE_MAX / 16 + 1, SIZE_MAX };
    struct ibv_data_buf pieces[2] = { { .addr = unreadable, .length = SIZE_MAX }, { .addr = unreadable, .length = 1 } };
    for (int index = 0; index < 8; index++) {
        size_t size = SIZES[index];
        BUILT(EINVAL, qp, ibv_wr_set_inline_data(qp, unreadable, size));
        BUILT(EINVAL, qp, ibv_wr_set_inline_data_list(qp, size, unreadable));
        BUILT(EINVAL, qp, ibv_wr_set_sge_list(qp, size, unreadable));
        pieces[0].length = size;
        BUILT(EINVAL, qp, ibv_wr_set_inline_data_list(qp, 2, pieces));
    }
    BUILT(EFAULT, qp, ibv_wr_set_inline_data(qp, NULL, 1));
    BUILT(EFAULT, qp, ibv_wr_set_sge_list(qp, 1, NULL));
    BUILT(EFAULT, qp, ibv_wr_set_inline_data_list(qp, 1, NULL));
    /* More requests than the queue holds. */
    ibv_wr_start(qp);
    for (int request = 0; request < 100000; request++)
        ibv_wr_send(qp);
    CHECK(ibv_wr_complete(qp) == ENOMEM);
}

/* A request that follows itself. */
static void cyclic(struct ibv_qp *qp, struct ibv_srq *srq, int is_connected)
{
    struct ibv_recv_wr receives[2] = { { .next = &receives[1] }, { .next = &receives[0] } }, *bad_receive = NULL;
    CHECK(ibv_post_srq_recv(srq, receives, &bad_receive) == ENOMEM && bad_receive != NULL);
    bad_receive = NULL;
    CHECK(ibv_post_recv(qp, receives, &bad_receive) == ENOMEM && bad_receive != NULL);
    if (!is_connected)
        return;
    struct ibv_send_wr sends[2] = {
        { .next = &sends[1], .opcode = IBV_WR_SEND }, { .next = &sends[0], .opcode = IBV_WR_SEND },
    }, *bad_send = NULL;
    CHECK(ibv_post_send(qp, sends, &bad_send) == ENOMEM && bad_send != NULL);
}

int main(void)
{
    struct pair pair;
    unreadable = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(unreadable != MAP_FAILED);
    make_pair(&pair);
    struct ibv_context *context = pair.client.id->verbs;
    struct ibv_pd *pd = pair.client.pd;
    struct ibv_srq_init_attr srq_attributes = { .attr = { .max_wr = 8, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(pd, &srq_attributes);
    struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    struct ibv_qp_init_attr_ex attributes = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
        .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 },
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(context, &attributes);
    NEED(srq && cq && qp);
    CHECK(attributes.cap.max_send_sge == 1 && attributes.cap.max_inline_data == 64);
    struct ibv_qp_attr to_init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    NEED(ibv_modify_qp(qp, &to_init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);

    /* In INIT. */
    counts_of_sends(qp);
    counts_of_receives(qp, srq);
    lengths(qp);
    nothing(qp, srq);
    built(ibv_qp_to_qp_ex(qp));
    cyclic(qp, srq, 0);

    /* In ERR, where requests come back flushed. */
    struct ibv_qp_attr to_error = { .qp_state = IBV_QPS_ERR };
    NEED(ibv_modify_qp(qp, &to_error, IBV_QP_STATE) == 0);
    counts_of_sends(qp);
    counts_of_receives(qp, srq);
    lengths(qp);
    nothing(qp, srq);
    built(ibv_qp_to_qp_ex(qp));

    /* On a connection. */
    struct ibv_send_wr sends[1] = { { .sg_list = unreadable, .num_sge = 1000000, .opcode = IBV_WR_SEND } }, *bad = NULL;
    REFUSED(EINVAL, ibv_post_send(pair.client.id->qp, sends, &bad), bad, sends);
    cyclic(pair.client.id->qp, srq, 1);

    NEED(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_destroy_srq(srq) == 0);
    munmap(unreadable, 1 << 20);
    break_pair(&pair);
    return done();
}
