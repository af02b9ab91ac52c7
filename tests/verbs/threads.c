/* Four threads poll one completion queue: each completion comes once, and those of a queue pair in the order of their requests. */
#include "common.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PAIRS = 4, MESSAGES = 4000, THREADS = 4 };

static struct pair pairs[PAIRS];
static struct ibv_cq *shared;
static atomic_int seen[2 * PAIRS][MESSAGES];
static atomic_int completed;

static void *polls(void *unused)
{
    (void)unused;
    struct ibv_wc wc[8];
    while (atomic_load(&completed) < 2 * PAIRS * MESSAGES) {
        int got = ibv_poll_cq(shared, 8, wc);
        NEED(got >= 0);
        int last[2 * PAIRS] = { 0 };
        for (int index = 0; index < got; index++) {
            int of = wc[index].wr_id >> 32, number = wc[index].wr_id & 0xFFFFFFFF;
            NEED(wc[index].status == IBV_WC_SUCCESS);
            /* Within one poll the order shows. */
            CHECK(number >= last[of]);
            last[of] = number;
            CHECK(atomic_fetch_add(&seen[of][number], 1) == 0);
        }
        atomic_fetch_add(&completed, got);
    }
    return NULL;
}

/* Each pair has a thread that posts its Receives and Sends, never more than the queues hold. */
static void *posts(void *argument)
{
    struct pair *pair = argument;
    int index = pair - pairs;
    uint64_t send = (uint64_t)(2 * index) << 32, receive = (uint64_t)(2 * index + 1) << 32;
    for (int number = 0; number < MESSAGES; number++) {
        while (post_receive(&pair->server, receive + number, 0, 64) != 0)
            ;
        while (post_send(&pair->client, send + number, 0, 64, 0) != 0)
            ;
    }
    return NULL;
}

int main(void)
{
    struct rdma_event_channel *events = rdma_create_event_channel();
    pthread_t pollers[THREADS], posters[PAIRS];
    for (int index = 0; index < PAIRS; index++) {
        struct pair *pair = &pairs[index];
        pair->listener = listen_at(events);
        resolve(&pair->client, ntohs(rdma_get_src_port(pair->listener)));
        if (!shared)
            NEED(shared = ibv_create_cq(pair->client.id->verbs, 4 * PAIRS * DEPTH, NULL, NULL, 0));
        make_end(&pair->client, shared, 1);
        struct rdma_conn_param with = parameters();
        NEED(rdma_connect(pair->client.id, &with) == 0);
        accept_from(&pair->server, events, shared, 1);
        event_is(pair->server.events, RDMA_CM_EVENT_ESTABLISHED);
        event_is(pair->client.events, RDMA_CM_EVENT_ESTABLISHED);
    }
    for (int index = 0; index < THREADS; index++)
        NEED(pthread_create(&pollers[index], NULL, polls, NULL) == 0);
    for (int index = 0; index < PAIRS; index++)
        NEED(pthread_create(&posters[index], NULL, posts, &pairs[index]) == 0);
    for (int index = 0; index < PAIRS; index++)
        pthread_join(posters[index], NULL);
    for (int index = 0; index < THREADS; index++)
        pthread_join(pollers[index], NULL);
    for (int of = 0; of < 2 * PAIRS; of++)
        for (int number = 0; number < MESSAGES; number++)
            CHECK(seen[of][number] == 1);
    for (int index = 0; index < PAIRS; index++) {
        break_end(&pairs[index].client);
        break_end(&pairs[index].server);
        rdma_destroy_id(pairs[index].listener);
    }
    CHECK(ibv_destroy_cq(shared) == 0);
    rdma_destroy_event_channel(events);
    return done();
}
