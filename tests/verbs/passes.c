/* Reads, Atomics and placed Writes are done while a message of the peer waits for a Receive, so that two programs do not block each other which
   would not with InfiniBand: over rdma_cm, and with a shared receive queue that is empty. The message then arrives whole.

       passes            as above
       passes waits      a message waits for 60 s, and nothing is lost */
#include "common.h"

enum { OWN = 0, TARGET = 64 << 10, ROUNDS = 50, MESSAGES = 32 };

/* A request towards the memory of the peer. */
static void post_to(struct end *end, enum ibv_wr_opcode opcode, uint64_t id, uint32_t length, const struct end *peer)
{
    struct ibv_sge sge = { .addr = (uintptr_t)end->memory + TARGET, .length = length, .lkey = end->mr->lkey };
    struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;
    uint64_t address = (uintptr_t)peer->memory + TARGET;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = peer->mr->rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = peer->mr->rkey;
    }
    NEED(ibv_post_send(end->id->qp, &wr, &bad) == 0);
}

/* `late` posts its Receives only when its own requests are done. */
static void passes(struct end *sender, struct end *late, struct ibv_srq *srq)
{
    static const struct { enum ibv_wr_opcode opcode; uint32_t length; } requests[] = {
        { IBV_WR_RDMA_READ, 1 }, { IBV_WR_RDMA_READ, 60000 }, { IBV_WR_ATOMIC_FETCH_AND_ADD, 8 }, { IBV_WR_RDMA_WRITE, 8 },
        { IBV_WR_RDMA_WRITE, 60000 }, { IBV_WR_RDMA_READ, 0 },
    };
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t length = round % 2 ? 100 : 50000;
        memset(sender->memory, round + 1, length);
        for (int message = 0; message < 3; message++)
            CHECK(post_send(sender, message, OWN, length, IBV_SEND_SIGNALED) == 0);
        for (unsigned request = 0; request < sizeof requests / sizeof *requests; request++) {
            post_to(late, requests[request].opcode, request, requests[request].length, sender);
            CHECK(completes(late->cq, request, IBV_WC_SUCCESS));
        }
        for (int message = 0; message < 3; message++) {
            struct ibv_sge sge = { .addr = (uintptr_t)late->memory, .length = TARGET, .lkey = late->mr->lkey };
            struct ibv_recv_wr wr = { .wr_id = 100 + message, .sg_list = &sge, .num_sge = 1 }, *bad;
            memset(late->memory, 0, length);
            NEED((srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(late->id->qp, &wr, &bad)) == 0);
            CHECK(completes(late->cq, 100 + message, IBV_WC_SUCCESS));
            CHECK(late->memory[0] == round + 1 && late->memory[length - 1] == round + 1);
        }
        for (int message = 0; message < 3; message++)
            CHECK(completes(sender->cq, message, IBV_WC_SUCCESS));
    }
}

/* The server's queue pair draws from a shared receive queue. */
static struct ibv_srq *make_pair_with_srq(struct pair *pair)
{
    struct ibv_srq_init_attr attributes = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
    struct rdma_event_channel *events = rdma_create_event_channel();
    pair->listener = listen_at(events);
    connect_to(&pair->client, ntohs(rdma_get_src_port(pair->listener)), NULL, 0);
    struct end *end = &pair->server;
    end->id = event_is(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    NEED(end->events = rdma_create_event_channel());
    NEED(rdma_migrate_id(end->id, end->events) == 0);
    struct ibv_srq *srq;
    NEED(end->pd = ibv_alloc_pd(end->id->verbs));
    NEED(srq = ibv_create_srq(end->pd, &attributes));
    NEED(end->cq = ibv_create_cq(end->id->verbs, 4 * DEPTH, NULL, NULL, 0));
    NEED(posix_memalign((void **)&end->memory, 4096, MEMORY) == 0);
    NEED(end->mr = ibv_reg_mr(end->pd, end->memory, MEMORY, IBV_ACCESS_LOCAL_WRITE));
    struct ibv_qp_init_attr of_qp = {
        .send_cq = end->cq, .recv_cq = end->cq, .srq = srq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = DEPTH, .max_send_sge = 1 },
    };
    NEED(rdma_create_qp(end->id, end->pd, &of_qp) == 0);
    struct rdma_conn_param with = parameters();
    NEED(rdma_accept(end->id, &with) == 0);
    event_is(end->events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(pair->client.events, RDMA_CM_EVENT_ESTABLISHED);
    return srq;
}

static void waits(void)
{
    struct pair pair;
    make_pair(&pair);
    for (int message = 0; message < MESSAGES; message++) {
        memset(pair.client.memory + message * 1000, message + 1, 1000);
        CHECK(post_send(&pair.client, message, message * 1000, 1000, IBV_SEND_SIGNALED) == 0);
    }
    struct ibv_wc none;
    for (int second = 0; second < 60; second++) {
        CHECK(poll(NULL, 0, 1000) == 0);
        CHECK(ibv_poll_cq(pair.server.cq, 1, &none) == 0);
    }
    CHECK(!is_readable(pair.client.events->fd, 0));
    for (int message = 0; message < MESSAGES; message++) {
        CHECK(post_receive(&pair.server, 100 + message, 0, 1000) == 0);
        CHECK(completes(pair.server.cq, 100 + message, IBV_WC_SUCCESS));
        CHECK(pair.server.memory[0] == message + 1 && pair.server.memory[999] == message + 1);
        CHECK(completes(pair.client.cq, message, IBV_WC_SUCCESS));
    }
    break_pair(&pair);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "waits") == 0) {
        waits();
        return done();
    }
    static struct pair pair;
    make_pair(&pair);
    passes(&pair.client, &pair.server, NULL);
    passes(&pair.server, &pair.client, NULL);
    break_pair(&pair);
    struct ibv_srq *srq = make_pair_with_srq(&pair);
    passes(&pair.client, &pair.server, srq);
    return done();
}
