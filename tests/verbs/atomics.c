/* Atomics: what they do to a word, with which completions, and what is refused. Remote ends and processors of this host change one word at the
 * same time, and no change is lost. */
#include "common.h"

#include <pthread.h>

static struct pair pair;

static uint64_t *word(struct end *end, int offset)
{
    return (uint64_t *)(end->memory + offset);
}

/* A request of this end for a word of the other one. The answer goes to `answer` of this end. */
static struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge, struct end *to, int offset, uint64_t compare_add, uint64_t swap)
{
    return (struct ibv_send_wr){
        .wr_id = 1, .sg_list = sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
        .wr.atomic = {
            .remote_addr = (uintptr_t)to->memory + offset, .rkey = to->mr->rkey, .compare_add = compare_add, .swap = swap,
        },
    };
}

static struct ibv_sge answer_at(struct end *end, int offset)
{
    return (struct ibv_sge){ .addr = (uintptr_t)end->memory + offset, .length = 8, .lkey = end->mr->lkey };
}

static struct ibv_wc does(enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
    struct ibv_sge sge = answer_at(&pair.client, 8);
    struct ibv_send_wr wr = request(opcode, &sge, &pair.server, 64, compare_add, swap), *bad;
    NEED(ibv_post_send(pair.client.id->qp, &wr, &bad) == 0);
    return completion(pair.client.cq);
}

static void capabilities(void)
{
    struct ibv_device_attr attr;
    struct ibv_device_attr_ex extended;
    NEED(ibv_query_device(pair.client.id->verbs, &attr) == 0);
    CHECK(attr.atomic_cap == IBV_ATOMIC_HCA);
    CHECK(attr.max_qp_rd_atom == 128 && attr.max_qp_init_rd_atom == 128);
    NEED(ibv_query_device_ex(pair.client.id->verbs, NULL, &extended) == 0);
    CHECK(extended.orig_attr.atomic_cap == IBV_ATOMIC_HCA);
}

/* All numbers are in the byte order of the processor. */
static void values(void)
{
    const uint64_t large = 0x0102030405060708, other = 0x1112131415161718;
    uint64_t *before = word(&pair.client, 8), *at = word(&pair.server, 64);
    *at = large;
    struct ibv_wc wc = does(IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 99);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_FETCH_ADD && wc.byte_len == 8 && wc.wr_id == 1);
    CHECK(wc.qp_num == pair.client.id->qp->qp_num && wc.wc_flags == 0);
    CHECK(*before == large && *at == large + 5);
    wc = does(IBV_WR_ATOMIC_FETCH_AND_ADD, (uint64_t)-5, 0);
    CHECK(wc.status == IBV_WC_SUCCESS && *before == large + 5 && *at == large);
    wc = does(IBV_WR_ATOMIC_CMP_AND_SWP, large, other);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_COMP_SWAP && wc.byte_len == 8);
    CHECK(*before == large && *at == other);
    wc = does(IBV_WR_ATOMIC_CMP_AND_SWP, large, 7);
    CHECK(wc.status == IBV_WC_SUCCESS && *before == other && *at == other);
}

static void refusals(void)
{
    struct ibv_sge sge = answer_at(&pair.client, 8), two[2] = { sge, sge };
    struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, &pair.server, 64, 1, 0), *bad;
    uint64_t before = *word(&pair.server, 64);
    for (int length = 0; length <= 16; length++) {
        if (length == 8)
            continue;
        sge.length = length;
        bad = NULL;
        CHECK(ibv_post_send(pair.client.id->qp, &wr, &bad) == EINVAL && bad == &wr);
    }
    sge.length = 8, wr.send_flags |= IBV_SEND_INLINE;
    CHECK(ibv_post_send(pair.client.id->qp, &wr, &bad) == EINVAL);
    wr.send_flags = IBV_SEND_SIGNALED, wr.num_sge = 0;
    CHECK(ibv_post_send(pair.client.id->qp, &wr, &bad) == EINVAL);
    two[0].length = two[1].length = 4, wr.sg_list = two, wr.num_sge = 2;
    CHECK(ibv_post_send(pair.client.id->qp, &wr, &bad) == EINVAL);
    CHECK(*word(&pair.server, 64) == before);
}

/* One request over a connection of its own, which it ends. */
static void fails(enum ibv_wr_opcode opcode, int offset, uint32_t key, int access, enum ibv_wc_status status)
{
    struct pair own;
    make_pair(&own);
    struct ibv_mr *mr = ibv_reg_mr(own.server.pd, own.server.memory, MEMORY, access);
    NEED(mr);
    struct ibv_sge sge = answer_at(&own.client, 8);
    struct ibv_send_wr wr = request(opcode, &sge, &own.server, offset, 0, 1), *bad;
    wr.wr.atomic.rkey = mr->rkey ^ key;
    NEED(ibv_post_send(own.client.id->qp, &wr, &bad) == 0);
    CHECK(completes(own.client.cq, 1, status));
    for (int at = 0; at < 128; at++)
        CHECK(own.server.memory[at] == 0);
    NEED(ibv_dereg_mr(mr) == 0);
    break_pair(&own);
}

static void failures_of_peers(void)
{
    const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    const int others = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    for (int is_swap = 0; is_swap < 2; is_swap++) {
        enum ibv_wr_opcode opcode = is_swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
        fails(opcode, 65, 0, all, IBV_WC_REM_INV_REQ_ERR);
        fails(opcode, 68, 0, all, IBV_WC_REM_INV_REQ_ERR);
        fails(opcode, 64, 0, others, IBV_WC_REM_ACCESS_ERR);
        fails(opcode, 64, 1, all, IBV_WC_REM_ACCESS_ERR);
        fails(opcode, MEMORY, 0, all, IBV_WC_REM_ACCESS_ERR);
    }
}

enum { ADDS = 2000 };
static _Atomic uint64_t *shared;

static void *add_here(void *unused)
{
    for (int index = 0; index < ADDS; index++)
        (*shared)++;
    return unused;
}

/* Adds by swaps, which are tried again until the word has not changed meanwhile. */
static void add_by_swap(struct end *from, struct end *to, int offset)
{
    struct ibv_sge sge = answer_at(from, 8);
    for (uint64_t seen = 0;;) {
        struct ibv_send_wr wr = request(IBV_WR_ATOMIC_CMP_AND_SWP, &sge, to, offset, seen, seen + 1), *bad;
        NEED(ibv_post_send(from->id->qp, &wr, &bad) == 0);
        NEED(completion(from->cq).status == IBV_WC_SUCCESS);
        uint64_t found = *word(from, 8);
        if (found == seen)
            return;
        seen = found;
    }
}

static void *swap_from_elsewhere(void *unused)
{
    struct pair *other = unused;
    for (int index = 0; index < ADDS / 4; index++)
        add_by_swap(&other->client, &pair.server, 128);
    return unused;
}

/* Another connection of this process changes the same word, as does a processor. */
static void together(void)
{
    struct pair other;
    make_pair(&other);
    struct ibv_mr *mr = ibv_reg_mr(other.server.pd, pair.server.memory, MEMORY, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    NEED(mr);
    struct ibv_mr *own = pair.server.mr;
    shared = (_Atomic uint64_t *)word(&pair.server, 128);
    pthread_t here, elsewhere;
    /* The other connection names the word by the key of its own domain. */
    struct pair renamed = other;
    pair.server.mr = mr;
    NEED(pthread_create(&elsewhere, NULL, swap_from_elsewhere, &renamed) == 0);
    NEED(pthread_create(&here, NULL, add_here, NULL) == 0);
    struct ibv_sge sge = answer_at(&pair.client, 16);
    for (int index = 0; index < ADDS; index++) {
        struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, &pair.server, 128, 1, 0), *bad;
        wr.wr.atomic.rkey = own->rkey;
        NEED(ibv_post_send(pair.client.id->qp, &wr, &bad) == 0);
        NEED(completion(pair.client.cq).status == IBV_WC_SUCCESS);
    }
    NEED(pthread_join(here, NULL) == 0 && pthread_join(elsewhere, NULL) == 0);
    pair.server.mr = own;
    CHECK(*shared == 2 * ADDS + ADDS / 4);
    NEED(ibv_dereg_mr(mr) == 0);
    break_pair(&other);
}

/* Both ends change words of the other one at the same time, more at a time than the connection allows. */
static void both_ways(void)
{
    struct end *ends[2] = { &pair.client, &pair.server };
    enum { ROUNDS = 20, EACH = 32 };
    *word(ends[0], 256) = *word(ends[1], 256) = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int index = 0; index < EACH; index++)
            for (int from = 0; from < 2; from++) {
                struct ibv_sge sge = answer_at(ends[from], 1024 + 8 * index);
                struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, ends[!from], 256, 1, 0), *bad;
                wr.wr_id = index;
                NEED(ibv_post_send(ends[from]->id->qp, &wr, &bad) == 0);
            }
        for (int from = 0; from < 2; from++)
            for (int index = 0; index < EACH; index++) {
                CHECK(completes(ends[from]->cq, index, IBV_WC_SUCCESS));
                CHECK(*word(ends[from], 1024 + 8 * index) == (uint64_t)round * EACH + index);
            }
    }
    CHECK(*word(ends[0], 256) == ROUNDS * EACH && *word(ends[1], 256) == ROUNDS * EACH);
}

/* A queue pair that is connected with itself, whose requests are put together by functions. */
static void by_functions(void)
{
    struct ibv_context *context = pair.client.id->verbs;
    struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
    struct ibv_qp_init_attr_ex attributes = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pair.client.pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
        .cap = { .max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct ibv_qp *qp = ibv_create_qp_ex(context, &attributes);
    NEED(cq && qp);
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC,
    };
    NEED(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
        .ah_attr = { .is_global = 1, .port_num = 1 },
    };
    NEED(ibv_query_gid(context, 1, 0, &rtr.ah_attr.grh.dgid) == 0);
    NEED(ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
    NEED(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN
        | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    struct end *end = &pair.client;
    uint64_t at = (uintptr_t)end->memory + 512;
    *word(end, 512) = 40;
    ibv_wr_start(ex);
    ex->wr_id = 3, ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_fetch_add(ex, end->mr->rkey, at, 2);
    ibv_wr_set_sge(ex, end->mr->lkey, (uintptr_t)end->memory + 520, 8);
    ex->wr_id = 4;
    ibv_wr_atomic_cmp_swp(ex, end->mr->rkey, at, 42, 7);
    ibv_wr_set_sge(ex, end->mr->lkey, (uintptr_t)end->memory + 528, 8);
    NEED(ibv_wr_complete(ex) == 0);
    struct ibv_wc wc = completion(cq);
    CHECK(wc.wr_id == 3 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_FETCH_ADD);
    wc = completion(cq);
    CHECK(wc.wr_id == 4 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_COMP_SWAP);
    CHECK(*word(end, 520) == 40 && *word(end, 528) == 42 && *word(end, 512) == 7);
    NEED(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
}

int main(void)
{
    make_pair(&pair);
    capabilities();
    values();
    refusals();
    failures_of_peers();
    together();
    both_ways();
    by_functions();
    break_pair(&pair);
    return done();
}
