/* Registrations overlap at any alignment, and memory may be unmapped while it is registered. */
#include "common.h"

#include <sys/mman.h>

static uint32_t state = 1;

static uint32_t number(uint32_t below)
{
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

enum { REGIONS = 24, FIELD = 64 << 10 };

/* Writes through overlapping registrations, compared with plain memory. */
static void overlapping(struct pair *pair)
{
    static unsigned char model[FIELD];
    struct end *from = &pair->client, *to = &pair->server;
    struct ibv_mr *mrs[REGIONS];
    int starts[REGIONS], lens[REGIONS];
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    memset(to->memory, 0, FIELD);
    for (int index = 0; index < REGIONS; index++) {
        starts[index] = number(FIELD / 2);
        lens[index] = 1 + number(FIELD / 2);
        NEED(mrs[index] = ibv_reg_mr(to->pd, to->memory + starts[index], lens[index], access));
        CHECK(mrs[index]->lkey == mrs[index]->rkey);
        CHECK(mrs[index]->addr == to->memory + starts[index] && (int)mrs[index]->length == lens[index]);
    }
    for (int round = 0; round < 400; round++) {
        int of = number(REGIONS), offset = number(lens[of]);
        int len = 1 + number(lens[of] - offset < 3000 ? lens[of] - offset : 3000);
        memset(from->memory + 3, round, len);
        memset(model + starts[of] + offset, round, len);
        uint64_t at = (uintptr_t)to->memory + starts[of] + offset;
        NEED(post_write(from, round, 3, len, at, mrs[of]->rkey) == 0);
        CHECK(completes(from->cq, round, IBV_WC_SUCCESS));
    }
    /* A Send behind the Writes: when it has arrived, they are placed. */
    memcpy(from->memory, "last", 5);
    NEED(post_receive(to, 7, MEMORY / 2, 100) == 0);
    NEED(post_send(from, 8, 0, 5, IBV_SEND_SIGNALED) == 0);
    CHECK(completes(from->cq, 8, IBV_WC_SUCCESS) && completes(to->cq, 7, IBV_WC_SUCCESS));
    CHECK(memcmp(to->memory, model, FIELD) == 0);
    for (int index = 0; index < REGIONS; index++)
        CHECK(ibv_dereg_mr(mrs[index]) == 0);
}

/* The addresses that peers use, and remote keys, count from where the program says. */
static void other_addresses(struct pair *pair)
{
    struct end *from = &pair->client, *to = &pair->server;
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct ibv_mr *zero_based = ibv_reg_mr(to->pd, to->memory + 5, 1000, access | IBV_ACCESS_ZERO_BASED);
    struct ibv_mr *elsewhere = ibv_reg_mr_iova(to->pd, to->memory + 2000, 1000, 0xABCDEF0000, access);
    NEED(zero_based && elsewhere);
    memset(from->memory, 'z', 200);
    NEED(post_write(from, 1, 0, 100, 10, zero_based->rkey) == 0);
    NEED(post_write(from, 2, 0, 100, 0xABCDEF0000 + 10, elsewhere->rkey) == 0);
    CHECK(completes(from->cq, 1, IBV_WC_SUCCESS) && completes(from->cq, 2, IBV_WC_SUCCESS));
    NEED(post_receive(to, 3, MEMORY / 2, 100) == 0);
    NEED(post_send(from, 4, 0, 5, IBV_SEND_SIGNALED) == 0);
    CHECK(completes(from->cq, 4, IBV_WC_SUCCESS) && completes(to->cq, 3, IBV_WC_SUCCESS));
    CHECK(to->memory[15] == 'z' && to->memory[114] == 'z' && to->memory[2010] == 'z' && to->memory[2109] == 'z');
    CHECK(ibv_dereg_mr(zero_based) == 0 && ibv_dereg_mr(elsewhere) == 0);
}

/* What is not mapped cannot be registered. */
static void never_mapped(struct end *end)
{
    size_t len = 1 << 20;
    char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(memory != MAP_FAILED && munmap(memory + len / 2, len / 2) == 0);
    CHECK(ibv_reg_mr(end->pd, memory, len, IBV_ACCESS_LOCAL_WRITE) == NULL && errno == EFAULT);
    CHECK(ibv_reg_mr(end->pd, NULL, len, IBV_ACCESS_LOCAL_WRITE) == NULL && errno == EFAULT);
    CHECK(ibv_reg_mr(end->pd, memory, 0, IBV_ACCESS_LOCAL_WRITE) == NULL && errno == EINVAL);
    CHECK(ibv_reg_mr(end->pd, memory, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE) == NULL && errno == EINVAL);
    CHECK(ibv_reg_mr(end->pd, memory, 4096, IBV_ACCESS_REMOTE_WRITE) == NULL && errno == EINVAL);
    munmap(memory, len / 2);
}

/* Memory is unmapped while it is registered: the queue pair whose request names it fails, and no other. Streams carry no CRC here. */
static void unmapped(struct pair *other)
{
    struct pair pair;
    size_t len = 256 << 10;
    make_pair(&pair);
    char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(memory != MAP_FAILED);
    struct ibv_mr *mr = ibv_reg_mr(pair.client.pd, memory, len, IBV_ACCESS_LOCAL_WRITE);
    NEED(mr && munmap(memory, len) == 0);
    NEED(post_receive(&pair.server, 1, 0, len) == 0);
    struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = len, .lkey = mr->lkey };
    struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
    NEED(ibv_post_send(pair.client.id->qp, &wr, &bad) == 0);
    CHECK(completes(pair.client.cq, 2, IBV_WC_LOC_PROT_ERR));
    CHECK(completes(pair.server.cq, 1, IBV_WC_WR_FLUSH_ERR));
    event_is(pair.server.events, RDMA_CM_EVENT_DISCONNECTED);
    exchange(&other->client, &other->server, 'u');
    CHECK(ibv_dereg_mr(mr) == 0);
    break_pair(&pair);
}

int main(void)
{
    struct pair pair;
    make_pair(&pair);
    overlapping(&pair);
    other_addresses(&pair);
    never_mapped(&pair.client);
    if (getenv("SOFTND_VERBS_CRC"))
        unmapped(&pair);
    break_pair(&pair);
    return done();
}
