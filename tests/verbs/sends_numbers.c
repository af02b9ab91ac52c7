/* Sends with a number (IBV_WR_SEND_WITH_IMM) over rdma_cm. The first request of the side that connects follows ESTABLISHED at once, and that of the
 * side that accepts comes before the ready-to-receive message. The argument is the number of connections. */
#include "common.h"

static int send_number(struct rdma_cm_id *id, uint64_t wr_id, struct ibv_sge *sge, uint32_t number, int flags)
{
    struct ibv_send_wr wr = {
        .wr_id = wr_id, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED | flags,
        .imm_data = number,
    }, *bad;
    return ibv_post_send(id->qp, &wr, &bad);
}

/* The next completions of this end are those of its Send and of its Receive, in any order. */
static void both(struct end *end, uint32_t number, uint32_t length)
{
    int seen = 0;
    while (seen != 3) {
        struct ibv_wc wc = completion(end->cq);
        NEED(wc.status == IBV_WC_SUCCESS && wc.qp_num == end->id->qp->qp_num);
        if (wc.wr_id == 1) {
            CHECK(wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == number && wc.byte_len == length);
            seen |= 1;
        } else {
            CHECK(wc.wr_id == 2 && wc.opcode == IBV_WC_SEND && wc.wc_flags == 0);
            seen |= 2;
        }
    }
}

/* Both ends are in this process. Each posts its request as early as it may. */
static void at_once(struct rdma_cm_id *listener, uint32_t round)
{
    struct pair pair = { .listener = listener };
    struct end *client = &pair.client, *server = &pair.server;
    int port = ntohs(rdma_get_src_port(listener));
    uint32_t numbers[2] = { htonl(round), htonl(~round) };
    resolve(client, port);
    make_end(client, NULL, 0);
    NEED(post_receive(client, 1, 0, 64) == 0);
    struct rdma_conn_param with = parameters();
    NEED(rdma_connect(client->id, &with) == 0);
    server->id = event_is(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    NEED(server->events = rdma_create_event_channel());
    NEED(rdma_migrate_id(server->id, server->events) == 0);
    make_end(server, NULL, 0);
    NEED(post_receive(server, 1, 0, 64) == 0);
    NEED(rdma_accept(server->id, &with) == 0);
    memcpy(server->memory + 64, "passive", 8);
    struct ibv_sge sge = { .addr = (uintptr_t)server->memory + 64, .length = 8, .lkey = server->mr->lkey };
    NEED(send_number(server->id, 2, &sge, numbers[1], 0) == 0);
    event_is(client->events, RDMA_CM_EVENT_ESTABLISHED);
    memcpy(client->memory + 64, "active", 7);
    sge = (struct ibv_sge){ .addr = (uintptr_t)client->memory + 64, .length = 7, .lkey = client->mr->lkey };
    NEED(send_number(client->id, 2, &sge, numbers[0], IBV_SEND_INLINE) == 0);
    event_is(server->events, RDMA_CM_EVENT_ESTABLISHED);
    both(client, numbers[1], 8);
    both(server, numbers[0], 7);
    CHECK(strcmp(client->memory, "passive") == 0 && strcmp(server->memory, "active") == 0);
    break_end(client);
    break_end(server);
}

/* By functions, and among other requests. */
static void by_functions(struct rdma_cm_id *listener)
{
    struct pair pair = { .listener = listener };
    struct end *client = &pair.client, *server = &pair.server;
    resolve(client, ntohs(rdma_get_src_port(listener)));
    NEED(client->pd = ibv_alloc_pd(client->id->verbs));
    NEED(client->cq = ibv_create_cq(client->id->verbs, 16, NULL, NULL, 0));
    struct ibv_qp_init_attr_ex attributes = {
        .send_cq = client->cq, .recv_cq = client->cq, .qp_type = IBV_QPT_RC, .pd = client->pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND,
        .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 },
    };
    NEED(rdma_create_qp_ex(client->id, &attributes) == 0);
    struct rdma_conn_param with = parameters();
    NEED(rdma_connect(client->id, &with) == 0);
    accept_from(server, listener->channel, NULL, 0);
    event_is(server->events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(client->events, RDMA_CM_EVENT_ESTABLISHED);
    for (int index = 0; index < 4; index++)
        NEED(post_receive(server, index, 64 * index, 64) == 0);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(client->id->qp);
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED;
    ex->wr_id = 10;
    ibv_wr_send_imm(ex, 77);
    ibv_wr_set_inline_data(ex, "one", 4);
    ex->wr_id = 11;
    ibv_wr_send(ex);
    ibv_wr_set_inline_data(ex, "two", 4);
    ex->wr_id = 12;
    ibv_wr_rdma_write_imm(ex, server->mr->rkey, (uintptr_t)server->memory + 4096, 78);
    ibv_wr_set_inline_data(ex, "three", 6);
    ex->wr_id = 13;
    ibv_wr_send_imm(ex, 79);
    ibv_wr_set_inline_data(ex, NULL, 0);
    NEED(ibv_wr_complete(ex) == 0);
    struct { int opcode, flags; uint32_t number, length; } expected[4] = {
        { IBV_WC_RECV, IBV_WC_WITH_IMM, 77, 4 }, { IBV_WC_RECV, 0, 0, 4 },
        { IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, 78, 6 }, { IBV_WC_RECV, IBV_WC_WITH_IMM, 79, 0 },
    };
    for (int index = 0; index < 4; index++) {
        struct ibv_wc wc = completion(server->cq);
        NEED(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)index);
        CHECK((int)wc.opcode == expected[index].opcode && (int)wc.wc_flags == expected[index].flags);
        CHECK(wc.byte_len == expected[index].length && (!wc.wc_flags || wc.imm_data == expected[index].number));
        CHECK(completes(client->cq, 10 + index, IBV_WC_SUCCESS));
    }
    CHECK(strcmp(server->memory, "one") == 0 && strcmp(server->memory + 64, "two") == 0 && strcmp(server->memory + 4096, "three") == 0);
    rdma_destroy_qp(client->id);
    NEED(ibv_destroy_cq(client->cq) == 0 && ibv_dealloc_pd(client->pd) == 0 && rdma_destroy_id(client->id) == 0);
    rdma_destroy_event_channel(client->events);
    break_end(server);
}

int main(int argc, char **argv)
{
    struct rdma_event_channel *events;
    NEED(events = rdma_create_event_channel());
    struct rdma_cm_id *listener = listen_at(events);
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    for (int round = 0; round < rounds; round++)
        at_once(listener, round);
    by_functions(listener);
    NEED(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(events);
    return done();
}
