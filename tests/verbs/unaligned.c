/* Structures, lists and room for results need not be aligned: some programs keep them in packed structures. */
#include "common.h"
#include <rdma/rdma_verbs.h>
#include <stddef.h>

/* A place of this type behind the first octet of some memory. It is never freed. */
#define PLACE(type) ((type *)odd(sizeof(type)))

/* A copy of a value at such a place. */
#define AT(type, ...) \
    ({ \
        type value = __VA_ARGS__; \
        (type *)memcpy(odd(sizeof value), &value, sizeof value); \
    })

/* The value at such a place. */
#define VALUE(type, place) \
    ({ \
        type value; \
        memcpy(&value, (place), sizeof value); \
        value; \
    })

#define MEMBER(structure, type, member, place) VALUE(type, (char *)(place) + offsetof(structure, member))

static void *odd(size_t size)
{
    char *memory = calloc(1, size + 1);
    NEED(memory);
    return memory + 1;
}

static struct rdma_cm_id *next_event(struct rdma_event_channel *events, enum rdma_cm_event_type kind)
{
    struct rdma_cm_event **to = PLACE(struct rdma_cm_event *);
    NEED(rdma_get_cm_event(events, to) == 0);
    struct rdma_cm_event *event = VALUE(struct rdma_cm_event *, to);
    NEED(event->event == kind);
    struct rdma_cm_id *id = event->id;
    NEED(rdma_ack_cm_event(event) == 0);
    return id;
}

static struct rdma_cm_id *identifier(struct rdma_event_channel *events)
{
    struct rdma_cm_id **to = PLACE(struct rdma_cm_id *);
    NEED(rdma_create_id(events, to, NULL, RDMA_PS_TCP) == 0);
    return VALUE(struct rdma_cm_id *, to);
}

static void make_queues(struct end *end, struct ibv_srq *srq)
{
    NEED(end->pd = ibv_alloc_pd(end->id->verbs));
    NEED(end->channel = ibv_create_comp_channel(end->id->verbs));
    NEED(end->cq = ibv_create_cq(end->id->verbs, DEPTH, end, end->channel, 0));
    NEED(end->memory = calloc(1, 4096));
    NEED(end->mr = ibv_reg_mr(end->pd, end->memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    struct ibv_qp_init_attr *attributes = AT(struct ibv_qp_init_attr, {
        .send_cq = end->cq, .recv_cq = end->cq, .srq = srq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 },
    });
    NEED(rdma_create_qp(end->id, end->pd, attributes) == 0);
    CHECK(MEMBER(struct ibv_qp_init_attr, uint32_t, cap.max_inline_data, attributes) >= 64);
}

static void connect_both(struct end *client, struct end *server)
{
    struct rdma_event_channel *events;
    NEED(events = rdma_create_event_channel());
    struct rdma_cm_id *listener = identifier(events);
    NEED(rdma_bind_addr(listener, (struct sockaddr *)AT(struct sockaddr_in, loopback(0))) == 0);
    NEED(rdma_listen(listener, 8) == 0);
    struct sockaddr *to = (struct sockaddr *)AT(struct sockaddr_in, loopback(ntohs(rdma_get_src_port(listener))));
    NEED(client->events = rdma_create_event_channel());
    client->id = identifier(client->events);
    NEED(rdma_resolve_addr(client->id, (struct sockaddr *)AT(struct sockaddr_in, loopback(0)), to, 2000) == 0);
    next_event(client->events, RDMA_CM_EVENT_ADDR_RESOLVED);
    uint8_t *timeout = AT(uint8_t, 17);
    CHECK(rdma_set_option(client->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, timeout, sizeof *timeout) == 0);
    NEED(rdma_resolve_route(client->id, 2000) == 0);
    next_event(client->events, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_queues(client, NULL);
    NEED(rdma_connect(client->id, AT(struct rdma_conn_param, parameters())) == 0);
    server->id = next_event(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    NEED(server->events = rdma_create_event_channel());
    NEED(rdma_migrate_id(server->id, server->events) == 0);
    make_queues(server, NULL);
    NEED(rdma_accept(server->id, AT(struct rdma_conn_param, parameters())) == 0);
    next_event(server->events, RDMA_CM_EVENT_ESTABLISHED);
    next_event(client->events, RDMA_CM_EVENT_ESTABLISHED);
    NEED(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(events);
}

/* Two stretches of the end's memory, from `offset` on. */
static struct ibv_sge *two(struct end *end, int offset, int len)
{
    struct ibv_sge sges[2];
    for (int index = 0; index < 2; index++)
        sges[index] = (struct ibv_sge){ .addr = (uintptr_t)end->memory + offset + index * len, .length = len, .lkey = end->mr->lkey };
    return memcpy(odd(sizeof sges), sges, sizeof sges);
}

static struct ibv_recv_wr *receive(uint64_t id, struct ibv_sge *list, int count, struct ibv_recv_wr *next)
{
    return AT(struct ibv_recv_wr, { .wr_id = id, .next = next, .sg_list = list, .num_sge = count });
}

static struct ibv_send_wr *request(uint64_t id, int opcode, struct ibv_sge *list, int flags, struct ibv_send_wr *next)
{
    return AT(struct ibv_send_wr,
        { .wr_id = id, .next = next, .sg_list = list, .num_sge = 2, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED | flags });
}

/* The completions have the numbers from `first` on. They are polled `most` at a time. */
static void complete(struct ibv_cq *cq, uint64_t first, int count, int most)
{
    struct ibv_wc *room = (struct ibv_wc *)odd(most * sizeof *room);
    for (int done = 0; done < count;) {
        int got = ibv_poll_cq(cq, most, room);
        NEED(got >= 0);
        for (int index = 0; index < got; index++, done++) {
            struct ibv_wc wc = VALUE(struct ibv_wc, (char *)room + index * sizeof wc);
            CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == first + done);
        }
    }
}

static void exchange_requests(struct end *client, struct end *server)
{
    struct ibv_recv_wr **bad_receive = PLACE(struct ibv_recv_wr *);
    struct ibv_send_wr **bad_send = PLACE(struct ibv_send_wr *);
    for (int index = 0; index < 4096; index++)
        client->memory[index] = 'a' + index % 26;
    /* A list of requests, of which one has inline data and one writes. */
    struct ibv_recv_wr *receives = receive(11, two(server, 1024, 512), 2, receive(12, two(server, 2048, 512), 2, NULL));
    NEED(ibv_post_recv(server->id->qp, receives, bad_receive) == 0);
    struct ibv_send_wr *write = request(23, IBV_WR_RDMA_WRITE, two(client, 3072, 50), 0, NULL);
    uint64_t to = (uintptr_t)server->memory + 3072;
    memcpy((char *)write + offsetof(struct ibv_send_wr, wr.rdma.remote_addr), &to, sizeof to);
    memcpy((char *)write + offsetof(struct ibv_send_wr, wr.rdma.rkey), &server->mr->rkey, sizeof server->mr->rkey);
    struct ibv_send_wr *inlined = request(22, IBV_WR_SEND, two(client, 2048, 32), IBV_SEND_INLINE, write);
    NEED(ibv_post_send(client->id->qp, request(21, IBV_WR_SEND, two(client, 1024, 500), 0, inlined), bad_send) == 0);
    complete(client->cq, 21, 3, 20);
    complete(server->cq, 11, 2, 1);
    CHECK(memcmp(server->memory + 1024, client->memory + 1024, 1000) == 0);
    CHECK(memcmp(server->memory + 2048, client->memory + 2048, 64) == 0);
    /* A single request of each kind, and an event. */
    NEED(ibv_req_notify_cq(server->cq, 0) == 0);
    NEED(ibv_post_recv(server->id->qp, receive(31, two(server, 0, 512), 2, NULL), bad_receive) == 0);
    NEED(ibv_post_send(client->id->qp, request(41, IBV_WR_SEND, two(client, 0, 8), 0, NULL), bad_send) == 0);
    struct ibv_cq **cq = PLACE(struct ibv_cq *);
    void **context = PLACE(void *);
    NEED(ibv_get_cq_event(server->channel, cq, context) == 0);
    CHECK(VALUE(struct ibv_cq *, cq) == server->cq && VALUE(void *, context) == server);
    ibv_ack_cq_events(server->cq, 1);
    complete(client->cq, 41, 1, 1);
    complete(server->cq, 31, 1, 20);
    CHECK(memcmp(server->memory, client->memory, 16) == 0);
    CHECK(memcmp(server->memory + 3072, client->memory + 3072, 100) == 0);
    /* The request that is refused is named. */
    struct ibv_recv_wr *wrong = receive(51, two(server, 0, 8), 1000, NULL);
    CHECK(ibv_post_recv(server->id->qp, wrong, bad_receive) == EINVAL && VALUE(struct ibv_recv_wr *, bad_receive) == wrong);
    struct ibv_send_wr *unknown = request(52, 100, two(client, 0, 8), 0, NULL);
    CHECK(ibv_post_send(client->id->qp, unknown, bad_send) == EINVAL && VALUE(struct ibv_send_wr *, bad_send) == unknown);
}

/* Requests that are put together, on queues of the functions for extended attributes. */
static void build_requests(struct end *end)
{
    struct ibv_cq_init_attr_ex *for_cq = AT(struct ibv_cq_init_attr_ex, { .cqe = 8 });
    struct ibv_cq_ex *cq = ibv_create_cq_ex(end->id->verbs, for_cq);
    NEED(cq);
    struct ibv_qp_init_attr_ex *attributes = AT(struct ibv_qp_init_attr_ex, {
        .send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC, .pd = end->pd,
        .cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 },
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND,
    });
    struct ibv_qp *qp = ibv_create_qp_ex(end->id->verbs, attributes);
    NEED(qp);
    struct ibv_qp_attr *to_init = AT(struct ibv_qp_attr, { .qp_state = IBV_QPS_INIT, .port_num = 1 });
    CHECK(ibv_modify_qp(qp, to_init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    struct ibv_qp_attr *attr = PLACE(struct ibv_qp_attr);
    struct ibv_qp_init_attr *init = PLACE(struct ibv_qp_init_attr);
    CHECK(ibv_query_qp(qp, attr, IBV_QP_STATE, init) == 0);
    CHECK(MEMBER(struct ibv_qp_attr, enum ibv_qp_state, qp_state, attr) == IBV_QPS_INIT);
    CHECK(MEMBER(struct ibv_qp_init_attr, struct ibv_cq *, send_cq, init) == ibv_cq_ex_to_cq(cq));
    struct ibv_qp_ex *built = ibv_qp_to_qp_ex(qp);
    struct ibv_data_buf pieces[2] = { { .addr = end->memory, .length = 8 }, { .addr = end->memory, .length = 8 } };
    ibv_wr_start(built);
    built->wr_id = 1, built->wr_flags = 0;
    ibv_wr_send(built);
    ibv_wr_set_sge_list(built, 2, two(end, 0, 8));
    ibv_wr_send(built);
    ibv_wr_set_inline_data_list(built, 2, memcpy(odd(sizeof pieces), pieces, sizeof pieces));
    /* It has no connection. */
    CHECK(ibv_wr_complete(built) == EINVAL);
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

static void share_receives(struct end *end)
{
    struct ibv_srq_init_attr *attributes = AT(struct ibv_srq_init_attr, { .attr = { .max_wr = 8, .max_sge = 2 } });
    struct ibv_srq *srq = ibv_create_srq(end->pd, attributes);
    NEED(srq);
    struct ibv_recv_wr **bad = PLACE(struct ibv_recv_wr *);
    CHECK(ibv_post_srq_recv(srq, receive(1, two(end, 0, 8), 2, receive(2, two(end, 0, 8), 2, NULL)), bad) == 0);
    CHECK(ibv_modify_srq(srq, AT(struct ibv_srq_attr, { .srq_limit = 1 }), IBV_SRQ_LIMIT) == 0);
    struct ibv_srq_attr *attr = PLACE(struct ibv_srq_attr);
    CHECK(ibv_query_srq(srq, attr) == 0 && MEMBER(struct ibv_srq_attr, uint32_t, srq_limit, attr) == 1);
    CHECK(ibv_destroy_srq(srq) == 0);
}

static void ask(struct ibv_context *context)
{
    struct ibv_device_attr *device = PLACE(struct ibv_device_attr);
    CHECK(ibv_query_device(context, device) == 0 && MEMBER(struct ibv_device_attr, uint8_t, phys_port_cnt, device) == 1);
    struct ibv_device_attr_ex *extended = PLACE(struct ibv_device_attr_ex);
    CHECK(ibv_query_device_ex(context, PLACE(struct ibv_query_device_ex_input), extended) == 0);
    CHECK(MEMBER(struct ibv_device_attr_ex, uint8_t, orig_attr.phys_port_cnt, extended) == 1);
    struct ibv_port_attr *port = PLACE(struct ibv_port_attr);
    CHECK(ibv_query_port(context, 1, port) == 0 && MEMBER(struct ibv_port_attr, enum ibv_port_state, state, port) == IBV_PORT_ACTIVE);
    union ibv_gid *gid = PLACE(union ibv_gid);
    CHECK(ibv_query_gid(context, 1, 0, gid) == 0);
    struct ibv_gid_entry *entry = PLACE(struct ibv_gid_entry);
    CHECK(ibv_query_gid_ex(context, 1, 0, entry, 0) == 0 && MEMBER(struct ibv_gid_entry, uint32_t, port_num, entry) == 1);
    CHECK(memcmp(entry, gid, sizeof *gid) == 0);
    entry = (struct ibv_gid_entry *)odd(64 * sizeof *entry);
    CHECK(ibv_query_gid_table(context, entry, 64, 0) > 0);
    CHECK(memcmp(entry, gid, sizeof *gid) == 0);
    uint16_t *key = PLACE(uint16_t);
    CHECK(ibv_query_pkey(context, 1, 0, key) == 0 && VALUE(uint16_t, key) == 0xFFFF);
    int *count = PLACE(int);
    struct ibv_device **devices = ibv_get_device_list(count);
    CHECK(devices && VALUE(int, count) > 0);
    ibv_free_device_list(devices);
    struct ibv_context **contexts = rdma_get_devices(count);
    CHECK(contexts && VALUE(int, count) > 0);
    rdma_free_devices(contexts);
}

static void make_endpoint(void)
{
    struct rdma_addrinfo *hints = AT(struct rdma_addrinfo, { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP });
    struct rdma_addrinfo **info = PLACE(struct rdma_addrinfo *);
    NEED(rdma_getaddrinfo("127.0.0.1", NULL, hints, info) == 0);
    struct rdma_addrinfo *found = VALUE(struct rdma_addrinfo *, info);
    struct sockaddr *address = (struct sockaddr *)AT(struct sockaddr_in, loopback(0));
    struct rdma_addrinfo *given = AT(struct rdma_addrinfo, *found);
    memcpy((char *)given + offsetof(struct rdma_addrinfo, ai_src_addr), &address, sizeof address);
    struct rdma_cm_id **id = PLACE(struct rdma_cm_id *);
    struct ibv_qp_init_attr *attributes = AT(struct ibv_qp_init_attr, { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1 } });
    CHECK(rdma_create_ep(id, given, NULL, attributes) == 0);
    rdma_destroy_ep(VALUE(struct rdma_cm_id *, id));
    rdma_freeaddrinfo(found);
}

int main(void)
{
    struct end client, server;
    connect_both(&client, &server);
    exchange_requests(&client, &server);
    build_requests(&client);
    share_receives(&client);
    ask(client.id->verbs);
    make_endpoint();
    break_end(&client);
    break_end(&server);
    return done();
}
