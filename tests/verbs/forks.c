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

int main(void)
{
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
