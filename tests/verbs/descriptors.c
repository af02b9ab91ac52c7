/* The descriptors of event channels, completion channels and asynchronous events are readable exactly while an event waits. */
#include "common.h"

#include <pthread.h>
#include <semaphore.h>

static void nonblocking(int fd, int on)
{
    int flags = fcntl(fd, F_GETFL);
    NEED(flags >= 0);
    NEED(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0);
}

static void of_connections(void)
{
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_event *event;
    struct rdma_cm_id *id, *listener = listen_at(events);
    struct sockaddr_in address = loopback(ntohs(rdma_get_src_port(listener)));
    NEED(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(!is_readable(events->fd, 0));
    nonblocking(events->fd, 1);
    CHECK(rdma_get_cm_event(events, &event) == -1 && errno == EAGAIN);
    NEED(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000) == 0);
    CHECK(is_readable(events->fd, 10000));
    CHECK(rdma_get_cm_event(events, &event) == 0 && event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
    rdma_ack_cm_event(event);
    CHECK(!is_readable(events->fd, 0));
    CHECK(rdma_get_cm_event(events, &event) == -1 && errno == EAGAIN);
    nonblocking(events->fd, 0);
    rdma_destroy_id(id);
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(events);
}

/* The program sleeps in its own poll, and the descriptor is not readable in vain. */
static void of_completions_in_poll(struct pair *pair)
{
    struct end *from = &pair->client, *to = &pair->server;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;
    nonblocking(to->channel->fd, 1);
    CHECK(!is_readable(to->channel->fd, 0));
    CHECK(ibv_get_cq_event(to->channel, &cq, &context) == -1 && errno == EAGAIN);
    for (int round = 0; round < 200; round++) {
        NEED(post_receive(to, round, 0, 100) == 0);
        CHECK(ibv_req_notify_cq(to->cq, 0) == 0);
        CHECK(ibv_poll_cq(to->cq, 1, &wc) == 0);
        CHECK(!is_readable(to->channel->fd, 0));
        NEED(post_send(from, round, 0, 100, IBV_SEND_SIGNALED) == 0);
        CHECK(is_readable(to->channel->fd, 10000));
        CHECK(ibv_get_cq_event(to->channel, &cq, &context) == 0 && cq == to->cq && context == to);
        CHECK(!is_readable(to->channel->fd, 0));
        ibv_ack_cq_events(cq, 1);
        CHECK(completes(to->cq, round, IBV_WC_SUCCESS));
        CHECK(completes(from->cq, round, IBV_WC_SUCCESS));
    }
    nonblocking(to->channel->fd, 0);
}

struct sender {
    struct end *end;
    sem_t go;
};

static void *sends(void *argument)
{
    struct sender *sender = argument;
    for (int round = 0; round < 200; round++) {
        sem_wait(&sender->go);
        NEED(post_send(sender->end, round, 0, 100, IBV_SEND_SIGNALED) == 0);
        CHECK(completes(sender->end->cq, round, IBV_WC_SUCCESS));
    }
    return NULL;
}

/* The program sleeps in ibv_get_cq_event, and another thread sends. */
static void of_completions_in_the_call(struct pair *pair)
{
    struct end *to = &pair->server;
    struct sender sender = { .end = &pair->client };
    struct ibv_cq *cq;
    void *context;
    pthread_t thread;
    sem_init(&sender.go, 0, 0);
    NEED(pthread_create(&thread, NULL, sends, &sender) == 0);
    for (int round = 0; round < 200; round++) {
        NEED(post_receive(to, round, 0, 100) == 0);
        CHECK(ibv_req_notify_cq(to->cq, 0) == 0);
        sem_post(&sender.go);
        CHECK(ibv_get_cq_event(to->channel, &cq, &context) == 0 && cq == to->cq);
        CHECK(!is_readable(to->channel->fd, 0));
        CHECK(completes(to->cq, round, IBV_WC_SUCCESS));
    }
    ibv_ack_cq_events(to->cq, 200);
    pthread_join(thread, NULL);
}

/* A completion queue loses completions, which is one event, and ends its queue pairs. */
static void of_asynchronous_events(struct pair *pair)
{
    struct ibv_context *context = pair->server.id->verbs;
    struct ibv_async_event event;
    struct ibv_cq *small;
    int fd = context->async_fd;
    nonblocking(fd, 1);
    CHECK(!is_readable(fd, 0));
    CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
    /* A completion queue with one place gets two completions. */
    NEED(small = ibv_create_cq(context, 1, NULL, NULL, 0));
    struct pair other = { 0 };
    struct rdma_event_channel *events = rdma_create_event_channel();
    other.listener = listen_at(events);
    connect_to(&other.client, ntohs(rdma_get_src_port(other.listener)), small, 1);
    accept_from(&other.server, events, NULL, 0);
    event_is(other.server.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(other.client.events, RDMA_CM_EVENT_ESTABLISHED);
    for (int index = 0; index < 3; index++) {
        NEED(post_receive(&other.server, index, 0, 100) == 0);
        NEED(post_send(&other.client, index, 0, 100, 0) == 0);
    }
    CHECK(is_readable(fd, 10000));
    CHECK(ibv_get_async_event(context, &event) == 0);
    CHECK(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == small);
    ibv_ack_async_event(&event);
    CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
    CHECK(!is_readable(fd, 0));
    struct ibv_wc wc;
    int got;
    while ((got = ibv_poll_cq(small, 1, &wc)) > 0)
        CHECK(wc.wr_id < 3);
    CHECK(got < 0);
    struct ibv_qp_attr attributes;
    struct ibv_qp_init_attr created;
    CHECK(ibv_query_qp(other.client.id->qp, &attributes, IBV_QP_STATE, &created) == 0);
    CHECK(attributes.qp_state == IBV_QPS_ERR);
    break_pair(&other);
    CHECK(ibv_destroy_cq(small) == 0);
    nonblocking(fd, 0);
}

int main(void)
{
    struct pair pair;
    of_connections();
    make_pair(&pair);
    of_completions_in_poll(&pair);
    of_completions_in_the_call(&pair);
    of_asynchronous_events(&pair);
    break_pair(&pair);
    return done();
}
