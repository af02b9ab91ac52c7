/* Members of the public structures that programs write and that the calls of librdmacm read. */
#include "common.h"
#include <rdma/rdma_verbs.h>

static struct rdma_event_channel *events;
static struct rdma_cm_id *listener;
static int port;

static struct ibv_qp_init_attr attributes(struct ibv_cq *cq)
{
    return (struct ibv_qp_init_attr){
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
    };
}

/* Everything of an end but the queue pair. */
static void make_queues(struct end *end)
{
    NEED(end->pd = ibv_alloc_pd(end->id->verbs));
    NEED(end->channel = ibv_create_comp_channel(end->id->verbs));
    NEED(end->cq = ibv_create_cq(end->id->verbs, 4 * DEPTH, end, end->channel, 0));
    NEED(posix_memalign((void **)&end->memory, 4096, MEMORY) == 0);
    memset(end->memory, 0, MEMORY);
    NEED(end->mr = ibv_reg_mr(end->pd, end->memory, MEMORY, IBV_ACCESS_LOCAL_WRITE));
}

/* An identifier that has a device, and no connection. */
static struct rdma_cm_id *bound(struct rdma_event_channel *channel)
{
    struct rdma_cm_id *id;
    struct sockaddr_in address = loopback(0);
    NEED(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
    NEED(rdma_bind_addr(id, (struct sockaddr *)&address) == 0);
    return id;
}

static void request_at(struct end *server)
{
    server->id = event_is(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    NEED(server->events = rdma_create_event_channel());
    NEED(rdma_migrate_id(server->id, server->events) == 0);
    make_queues(server);
}

static int state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    NEED(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
    return attr.qp_state;
}

static void exchange_and_break(struct end *client, struct end *server)
{
    event_is(server->events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(client->events, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(state_of(client->id->qp) == IBV_QPS_RTS && state_of(server->id->qp) == IBV_QPS_RTS);
    exchange(client, server, 'c');
    exchange(server, client, 's');
    break_end(client);
    break_end(server);
}

/* Both ends use a queue pair that the program has made with ibv_create_qp, in RESET. */
static void made_by_the_program(void)
{
    struct end client, server;
    resolve(&client, port);
    make_queues(&client);
    struct ibv_qp_init_attr attr = attributes(client.cq);
    NEED(client.id->qp = ibv_create_qp(client.pd, &attr));
    struct rdma_conn_param with = parameters();
    NEED(rdma_connect(client.id, &with) == 0);
    request_at(&server);
    attr = attributes(server.cq);
    NEED(server.id->qp = ibv_create_qp(server.pd, &attr));
    NEED(rdma_accept(server.id, &with) == 0);
    exchange_and_break(&client, &server);
}

/* As DAPL does it: the queue pair moves from an identifier that is then destroyed to that of the request. */
static void moved_to_a_request(int destroyed_first)
{
    struct end client, server;
    connect_to(&client, port, NULL, 0);
    request_at(&server);
    struct rdma_cm_id *maker = bound(events);
    struct ibv_qp_init_attr attr = attributes(server.cq);
    NEED(rdma_create_qp(maker, server.pd, &attr) == 0);
    server.id->qp = maker->qp;
    maker->qp = NULL;
    if (destroyed_first)
        CHECK(rdma_destroy_id(maker) == 0);
    struct rdma_conn_param with = parameters();
    NEED(rdma_accept(server.id, &with) == 0);
    if (!destroyed_first) {
        /* It has no queue pair, and may get another. */
        attr = attributes(server.cq);
        CHECK(rdma_create_qp(maker, server.pd, &attr) == 0 && maker->qp && maker->qp != server.id->qp);
        rdma_destroy_qp(maker);
        CHECK(!maker->qp && rdma_destroy_id(maker) == 0);
    }
    exchange_and_break(&client, &server);
}

/* A queue pair that was rejected with one identifier connects with another. */
static void moved_after_a_rejection(void)
{
    struct end client, server;
    connect_to(&client, port, NULL, 0);
    struct rdma_cm_id *rejected = event_is(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    CHECK(rdma_reject(rejected, NULL, 0) == 0 && rdma_destroy_id(rejected) == 0);
    event_is(client.events, RDMA_CM_EVENT_REJECTED);
    struct end second = client;
    resolve(&second, port);
    second.id->qp = client.id->qp;
    client.id->qp = NULL;
    struct rdma_conn_param with = parameters();
    NEED(rdma_connect(second.id, &with) == 0);
    accept_from(&server, events, NULL, 0);
    event_is(server.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(second.events, RDMA_CM_EVENT_ESTABLISHED);
    second.cq->cq_context = &second;
    exchange(&second, &server, 'm');
    CHECK(rdma_destroy_id(client.id) == 0);
    rdma_destroy_event_channel(client.events);
    break_end(&second);
    break_end(&server);
}

/* The queue pair is put into the structure before the program gets the answer. */
static void set_before_the_answer(void)
{
    struct end client, server;
    resolve(&client, port);
    make_queues(&client);
    struct ibv_qp_init_attr attr = attributes(client.cq);
    struct ibv_qp *qp = ibv_create_qp(client.pd, &attr);
    struct rdma_conn_param with = parameters();
    with.qp_num = qp->qp_num;
    NEED(rdma_connect(client.id, &with) == 0);
    accept_from(&server, events, NULL, 0);
    NEED(is_readable(client.events->fd, 10000));
    client.id->qp = qp;
    CHECK(rdma_establish(client.id) == -1 && errno == EINVAL);
    event_is(client.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(server.events, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(state_of(client.id->qp) == IBV_QPS_RTS);
    exchange(&client, &server, 'l');
    break_end(&client);
    break_end(&server);
}

/* A queue pair that cannot carry a connection is refused, and nothing is sent. */
static void in_a_wrong_state(void)
{
    struct end client;
    resolve(&client, port);
    make_queues(&client);
    struct ibv_qp_init_attr attr = attributes(client.cq);
    NEED(client.id->qp = ibv_create_qp(client.pd, &attr));
    NEED(ibv_modify_qp(client.id->qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE) == 0);
    struct rdma_conn_param with = parameters();
    CHECK(rdma_connect(client.id, &with) == -1 && errno == EINVAL);
    CHECK(!is_readable(events->fd, 0));
    break_end(&client);
}

/* The queues in the structure are those that rdma_create_qp takes, and that rdma_destroy_qp destroys. */
static void queues_of_an_identifier(void)
{
    struct rdma_cm_id *id = bound(events);
    struct ibv_cq *cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0), *other = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
    NEED(cq && other);
    struct ibv_qp_init_attr attr = attributes(cq);
    NEED(rdma_create_qp(id, NULL, &attr) == 0);
    /* Queues of the program stay the program's. */
    CHECK(!id->send_cq && !id->recv_cq && !id->send_cq_channel && !id->recv_cq_channel);
    CHECK(rdma_create_qp(id, NULL, &attr) == -1 && errno == EINVAL);
    rdma_destroy_qp(id);
    CHECK(!id->qp);

    id->send_cq = id->recv_cq = cq;
    attr = attributes(other);
    CHECK(rdma_create_qp(id, NULL, &attr) == -1 && errno == EINVAL && !id->qp);
    attr = attributes(NULL);
    NEED(rdma_create_qp(id, NULL, &attr) == 0);
    CHECK(attr.send_cq == cq && attr.recv_cq == cq && id->qp->send_cq == cq && id->qp->recv_cq == cq);
    CHECK(id->send_cq == cq && id->recv_cq == cq);
    rdma_destroy_qp(id);
    CHECK(!id->qp && !id->send_cq && !id->recv_cq);

    /* A shared receive queue of the program is drawn from. */
    struct ibv_srq_init_attr of_srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(id->pd, &of_srq);
    NEED(id->srq = srq);
    attr = attributes(other);
    NEED(rdma_create_qp(id, NULL, &attr) == 0);
    CHECK(id->qp->srq == srq && ibv_destroy_srq(srq) == EBUSY);
    rdma_destroy_qp(id);
    id->srq = NULL;
    /* One that was taken out of the structure is not. */
    attr = attributes(other);
    NEED(rdma_create_qp(id, NULL, &attr) == 0);
    CHECK(!id->qp->srq && ibv_destroy_srq(srq) == 0);
    rdma_destroy_qp(id);

    /* A shared receive queue moves as a queue pair does. */
    struct rdma_cm_id *second = bound(events);
    NEED(rdma_create_srq(id, NULL, &of_srq) == 0 && id->srq);
    second->srq = id->srq;
    id->srq = NULL;
    rdma_destroy_srq(second);
    CHECK(!second->srq);
    NEED(rdma_create_srq(id, NULL, &of_srq) == 0 && id->srq);
    rdma_destroy_srq(id);
    CHECK(!id->srq);

    /* The protection domain of the structure is the default. */
    struct ibv_pd *pd = ibv_alloc_pd(id->verbs), *shared = id->pd;
    NEED(id->pd = pd);
    attr = attributes(other);
    NEED(rdma_create_qp(id, NULL, &attr) == 0);
    CHECK(id->qp->pd == pd);
    rdma_destroy_qp(id);
    attr = attributes(other);
    NEED(rdma_create_qp(id, shared, &attr) == 0);
    CHECK(id->qp->pd == shared && id->pd == shared);
    rdma_destroy_qp(id);
    CHECK(ibv_dealloc_pd(pd) == 0 && ibv_destroy_cq(other) == 0);
    CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(second) == 0);
}

/* What is granted is returned, and is more than was asked for: the room of the SGEs. */
static void inline_data(void)
{
    struct end client, server;
    resolve(&client, port);
    make_queues(&client);
    for (int sges = 1; sges <= 2; sges++) {
        struct ibv_qp_init_attr attr = attributes(client.cq);
        attr.cap.max_send_sge = sges;
        struct ibv_qp_attr now;
        struct ibv_qp_init_attr init;
        NEED(rdma_create_qp(client.id, client.pd, &attr) == 0);
        CHECK(attr.cap.max_inline_data >= 16u * sges && attr.cap.max_inline_data <= 1024);
        NEED(ibv_query_qp(client.id->qp, &now, IBV_QP_CAP, &init) == 0);
        CHECK(now.cap.max_inline_data == attr.cap.max_inline_data && init.cap.max_inline_data == attr.cap.max_inline_data);
        if (sges == 1)
            rdma_destroy_qp(client.id);
    }
    struct rdma_conn_param with = parameters();
    NEED(rdma_connect(client.id, &with) == 0);
    accept_from(&server, events, NULL, 0);
    event_is(server.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(client.events, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(post_receive(&server, 1, 0, 100) == 0);
    memset(client.memory, 'i', 32);
    CHECK(post_send(&client, 2, 0, 32, IBV_SEND_INLINE | IBV_SEND_SIGNALED) == 0);
    CHECK(completes(client.cq, 2, IBV_WC_SUCCESS) && completes(server.cq, 1, IBV_WC_SUCCESS));
    CHECK(server.memory[0] == 'i' && server.memory[31] == 'i');
    break_end(&client);
    break_end(&server);
}

/* Pointers of the program are read where a call gives them back. */
static void contexts(void)
{
    struct end client, server;
    connect_to(&client, port, NULL, 0);
    listener->context = &server;
    accept_from(&server, events, NULL, 0);
    CHECK(server.id->context == &server);
    event_is(server.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(client.events, RDMA_CM_EVENT_ESTABLISHED);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    client.id->qp->qp_context = &failures;
    NEED(ibv_query_qp(client.id->qp, &attr, IBV_QP_STATE, &init) == 0);
    CHECK(init.qp_context == &failures);
    server.cq->cq_context = &failures;
    NEED(ibv_req_notify_cq(server.cq, 0) == 0);
    exchange(&client, &server, 'n');
    struct ibv_cq *cq;
    void *context;
    NEED(ibv_get_cq_event(server.channel, &cq, &context) == 0);
    CHECK(cq == server.cq && context == &failures);
    ibv_ack_cq_events(cq, 1);
    server.cq->cq_context = &server;
    break_end(&client);
    break_end(&server);
}

int main(void)
{
    NEED(events = rdma_create_event_channel());
    listener = listen_at(events);
    port = ntohs(rdma_get_src_port(listener));
    made_by_the_program();
    moved_to_a_request(1);
    moved_to_a_request(0);
    moved_after_a_rejection();
    set_before_the_answer();
    in_a_wrong_state();
    queues_of_an_identifier();
    inline_data();
    contexts();
    CHECK(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(events);
    return done();
}
