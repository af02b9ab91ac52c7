/* Calls that wait and calls that do several steps: identifiers without a channel, rdma_create_ep, rdma_get_request. */
#include "common.h"
#include <pthread.h>
#include <rdma/rdma_verbs.h>

static struct rdma_addrinfo *address(const char *service, int flags)
{
    struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *info;
    NEED(rdma_getaddrinfo("127.0.0.1", service, &hints, &info) == 0);
    return info;
}

static struct ibv_qp_init_attr attributes(void *context)
{
    return (struct ibv_qp_init_attr){ .qp_context = context,
                                      .cap = { .max_send_wr = 4, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1 },
                                      .qp_type = IBV_QPT_RC };
}

/* The queue pair, its queues and their channels are there, and belong together. */
static void has_queues(struct rdma_cm_id *id, void *context)
{
    NEED(id->qp && id->send_cq && id->recv_cq && id->send_cq_channel && id->recv_cq_channel);
    CHECK(id->qp->qp_context == context && id->qp->send_cq == id->send_cq && id->qp->recv_cq == id->recv_cq);
    CHECK(id->send_cq->channel == id->send_cq_channel && id->recv_cq->channel == id->recv_cq_channel);
    CHECK(id->send_cq_channel != id->recv_cq_channel && id->send_cq->cq_context == id);
    CHECK(id->pd && id->qp->pd == id->pd && id->verbs && id->qp->context == id->verbs && id->qp->state == IBV_QPS_INIT);
}

static int listener_tag;
static struct rdma_cm_id *listener;

/* Whole words, because the library reads and writes the word in which a registered octet is. */
static union word {
    uint64_t whole;
    char octet;
} sent = { .octet = 'x' }, received;

static void *serve(void *unused)
{
    struct rdma_cm_id *id;
    NEED(rdma_get_request(listener, &id) == 0);
    CHECK(id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST && id->event->listen_id == listener && id->event->id == id);
    CHECK(id->event->param.conn.private_data_len == 5 && memcmp(id->event->param.conn.private_data, "hello", 5) == 0);
    CHECK(id->channel && id->channel != listener->channel && id->context == listener->context);
    has_queues(id, &listener_tag);
    struct ibv_mr *mr = rdma_reg_msgs(id, &received, 1);
    NEED(mr && rdma_post_recv(id, NULL, &received, 1, mr) == 0);
    NEED(rdma_accept(id, NULL) == 0);
    CHECK(id->event && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
    struct ibv_wc wc;
    NEED(rdma_get_recv_comp(id, &wc) == 1);
    CHECK(wc.status == IBV_WC_SUCCESS && received.octet == 'x');
    CHECK(rdma_disconnect(id) == 0);
    /* There is no second event to wait for. */
    CHECK(rdma_disconnect(id) == 0);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    return unused;
}

static void connections(void)
{
    struct rdma_addrinfo *info = address(NULL, RAI_PASSIVE);
    struct ibv_qp_init_attr attr = attributes(&listener_tag);
    NEED(rdma_create_ep(&listener, info, NULL, &attr) == 0);
    rdma_freeaddrinfo(info);
    listener->context = &listener_tag;
    CHECK(!listener->qp);
    NEED(rdma_listen(listener, 1) == 0);
    pthread_t server;
    NEED(pthread_create(&server, NULL, serve, NULL) == 0);

    char port[8];
    snprintf(port, sizeof port, "%d", ntohs(rdma_get_src_port(listener)));
    info = address(port, 0);
    struct rdma_cm_id *id;
    attr = attributes(NULL);
    NEED(rdma_create_ep(&id, info, NULL, &attr) == 0);
    rdma_freeaddrinfo(info);
    has_queues(id, NULL);
    CHECK(attr.send_cq == id->send_cq && attr.recv_cq == id->recv_cq && attr.cap.max_recv_wr == 5);
    CHECK(id->route.num_paths == 1 && id->route.path_rec && id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
    struct rdma_conn_param with = parameters();
    with.private_data = "hello";
    with.private_data_len = 5;
    NEED(rdma_connect(id, &with) == 0);
    CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
    struct ibv_mr *mr = rdma_reg_msgs(id, &sent, 1);
    NEED(mr && rdma_post_send(id, NULL, &sent, 1, mr, IBV_SEND_SIGNALED) == 0);
    struct ibv_wc wc;
    NEED(rdma_get_send_comp(id, &wc) == 1);
    CHECK(wc.status == IBV_WC_SUCCESS);
    NEED(pthread_join(server, NULL) == 0);
    CHECK(rdma_disconnect(id) == 0);
    rdma_dereg_mr(mr);
    rdma_destroy_qp(id);
    CHECK(!id->qp && !id->send_cq && !id->recv_cq && !id->send_cq_channel && !id->recv_cq_channel);
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
}

static void failures_of_calls(void)
{
    struct rdma_cm_id *id = NULL;
    struct sockaddr_in closed = loopback(0);
    int reserved = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof closed;
    NEED(bind(reserved, (struct sockaddr *)&closed, len) == 0 && getsockname(reserved, (struct sockaddr *)&closed, &len) == 0);
    NEED(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0 && id->channel);
    NEED(rdma_resolve_addr(id, NULL, (struct sockaddr *)&closed, 2000) == 0 && rdma_resolve_route(id, 2000) == 0);
    errno = 0;
    CHECK(rdma_connect(id, NULL) == -1 && errno == ECONNREFUSED);
    CHECK(id->event->event == RDMA_CM_EVENT_REJECTED && id->event->status == 8);
    errno = 0;
    CHECK(rdma_destroy_id(id) == 0);
    close(reserved);

    /* An identifier with a channel does not wait, and gets no requests by itself. */
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *other = NULL;
    NEED(events && rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_get_request(id, &other) == -1 && errno == EINVAL && !other);
    CHECK(rdma_migrate_id(id, NULL) == 0 && id->channel != events);
    CHECK(rdma_migrate_id(id, events) == 0 && id->channel == events);
    CHECK(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(events);

    struct rdma_addrinfo nothing = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC };
    CHECK(rdma_create_ep(&id, &nothing, NULL, NULL) == -1 && errno == EINVAL);
    nothing.ai_qp_type = IBV_QPT_UD;
    CHECK(rdma_create_ep(&id, &nothing, NULL, NULL) == -1 && errno == EOPNOTSUPP);
}

/* A queue pair that the program has made itself and put into the structure goes with the endpoint. */
static void foreign_queues(void)
{
    struct rdma_addrinfo *info = address("7", 0);
    struct rdma_cm_id *id;
    NEED(rdma_create_ep(&id, info, NULL, NULL) == 0);
    rdma_freeaddrinfo(info);
    struct ibv_cq *cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = attributes(NULL);
    attr.send_cq = attr.recv_cq = cq;
    NEED(cq && (id->qp = ibv_create_qp(id->pd, &attr)));
    rdma_destroy_ep(id);
    CHECK(ibv_destroy_cq(cq) == 0);
}

int main(void)
{
    connections();
    failures_of_calls();
    foreign_queues();
    return done();
}
