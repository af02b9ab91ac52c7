/* In the child of a fork the library touches no socket of its parent, exit hooks do nothing, and devices can be opened anew. */
#include "common.h"

static struct pair pair;

/* Destroys what the child has inherited, as programs do that do not know better. */
static void destroys(void)
{
    rdma_disconnect(pair.client.id);
    rdma_destroy_qp(pair.client.id);
    ibv_dereg_mr(pair.client.mr);
    ibv_destroy_cq(pair.client.cq);
    ibv_destroy_comp_channel(pair.client.channel);
    ibv_dealloc_pd(pair.client.pd);
    rdma_destroy_id(pair.client.id);
    rdma_destroy_event_channel(pair.client.events);
    rdma_destroy_id(pair.listener);
}

/* Uses what the child has inherited: every call is refused. */
static void uses(void)
{
    struct ibv_wc wc;
    CHECK(post_send(&pair.client, 1, 0, 100, IBV_SEND_SIGNALED) != 0);
    CHECK(post_receive(&pair.server, 1, 0, 100) != 0);
    CHECK(ibv_poll_cq(pair.server.cq, 1, &wc) < 0);
    CHECK(ibv_req_notify_cq(pair.server.cq, 0) != 0);
    CHECK(ibv_reg_mr(pair.client.pd, pair.client.memory, 4096, 0) == NULL);
}

/* A connection of the child's own. */
static void opens_anew(void)
{
    int count;
    struct ibv_device **devices = ibv_get_device_list(&count);
    CHECK(devices && count >= 1);
    struct ibv_context *context = ibv_open_device(devices[0]);
    CHECK(context != NULL);
    CHECK(ibv_close_device(context) == 0);
    ibv_free_device_list(devices);
    struct pair own = { 0 };
    make_pair(&own);
    exchange(&own.client, &own.server, 'c');
    exchange(&own.server, &own.client, 'd');
    break_pair(&own);
}

static void nothing(void) {}

static void in_child(void (*body)(void), int with_hooks)
{
    fflush(stdout);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        body();
        if (with_hooks)
            exit(failures);
        fflush(stdout);
        _exit(failures);
    }
    /* The parent's connection goes on, while the child lives and after its end. */
    exchange(&pair.client, &pair.server, 'p');
    CHECK(exit_of(child) == 0);
    exchange(&pair.client, &pair.server, 'q');
    exchange(&pair.server, &pair.client, 'r');
}

/* A child that does nothing until the other end of the pipe is closed. */
static pid_t sleeping_child(int *end)
{
    int pipes[2];
    char octet;
    NEED(pipe(pipes) == 0);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        close(pipes[1]);
        _exit(read(pipes[0], &octet, 1) != 0);
    }
    close(pipes[0]);
    *end = pipes[1];
    return child;
}

static int is_refused(int port)
{
    struct sockaddr_in address = loopback(port);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    NEED(client >= 0);
    int refused = connect(client, (struct sockaddr *)&address, sizeof address) != 0 && errno == ECONNREFUSED;
    close(client);
    return refused;
}

/* What the parent destroys has ended, although the child has descriptors of it. */
static void what_is_destroyed_has_ended(void)
{
    struct rdma_event_channel *events;
    struct rdma_cm_id *listener, *bound;
    struct sockaddr_in address = loopback(0);
    int end;
    NEED(events = rdma_create_event_channel());
    listener = listen_at(events);
    int port = ntohs(rdma_get_src_port(listener));
    NEED(rdma_create_id(events, &bound, NULL, RDMA_PS_TCP) == 0);
    NEED(rdma_bind_addr(bound, (struct sockaddr *)&address) == 0);
    int bound_port = ntohs(rdma_get_src_port(bound));
    pid_t child = sleeping_child(&end);
    NEED(rdma_destroy_id(listener) == 0 && rdma_destroy_id(bound) == 0);
    CHECK(is_refused(port));
    for (int which = 0; which < 2; which++) {
        struct pair again;
        address = loopback(which ? bound_port : port);
        NEED(rdma_create_id(events, &again.listener, NULL, RDMA_PS_TCP) == 0);
        NEED(rdma_bind_addr(again.listener, (struct sockaddr *)&address) == 0);
        NEED(rdma_listen(again.listener, 8) == 0);
        connect_to(&again.client, ntohs(address.sin_port), NULL, 0);
        accept_from(&again.server, events, NULL, 0);
        event_is(again.server.events, RDMA_CM_EVENT_ESTABLISHED);
        event_is(again.client.events, RDMA_CM_EVENT_ESTABLISHED);
        exchange(&again.client, &again.server, 'l');
        break_end(&again.client);
        break_end(&again.server);
        NEED(rdma_destroy_id(again.listener) == 0);
    }
    rdma_destroy_event_channel(events);
    close(end);
    CHECK(exit_of(child) == 0);
}

/* A server that has begun to listen and becomes a daemon learns that its listener has ended: waits end, and calls say EIO. The parent's
 * descriptors stay as they are. */
static void a_child_that_waits_for_events_learns(void)
{
    struct end end = { 0 };
    struct rdma_cm_event *event;
    struct ibv_async_event async;
    void *context;
    NEED(end.events = rdma_create_event_channel());
    end.id = listen_at(end.events);
    NEED(end.channel = ibv_create_comp_channel(end.id->verbs));
    /* A channel that is closed leaves its number to the program. */
    struct ibv_comp_channel *other;
    NEED(other = ibv_create_comp_channel(end.id->verbs));
    int free_number = other->fd;
    NEED(ibv_destroy_comp_channel(other) == 0);
    int own = open("/dev/null", O_RDWR);
    NEED(dup2(own, free_number) == free_number);
    fflush(stdout);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        int fds[] = { end.events->fd, end.channel->fd, end.id->verbs->async_fd };
        for (int index = 0; index < 3; index++) {
            CHECK(is_readable(fds[index], -1));
            CHECK(fcntl(fds[index], F_GETFD) == FD_CLOEXEC);
        }
        CHECK(rdma_get_cm_event(end.events, &event) == -1 && errno == EIO);
        CHECK(ibv_get_cq_event(end.channel, &end.cq, &context) == -1 && errno == EIO);
        CHECK(ibv_get_async_event(end.id->verbs, &async) == -1 && errno == EIO);
        CHECK(write(free_number, "octets", 6) == 6);
        fflush(stdout);
        _exit(failures);
    }
    CHECK(exit_of(child) == 0);
    CHECK(!is_readable(end.events->fd, 0) && !is_readable(end.channel->fd, 0));
    close(own);
    close(free_number);
    NEED(ibv_destroy_comp_channel(end.channel) == 0);
    NEED(rdma_destroy_id(end.id) == 0);
    rdma_destroy_event_channel(end.events);
}

int main(void)
{
    what_is_destroyed_has_ended();
    a_child_that_waits_for_events_learns();
    make_pair(&pair);
    exchange(&pair.client, &pair.server, 'a');
    for (int with_hooks = 0; with_hooks < 2; with_hooks++) {
        in_child(nothing, with_hooks);
        in_child(destroys, with_hooks);
        in_child(uses, with_hooks);
        in_child(opens_anew, with_hooks);
    }
    break_pair(&pair);
    return done();
}
