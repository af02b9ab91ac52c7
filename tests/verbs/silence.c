/* A peer that acknowledges nothing ends the connection after the time that the program has set, unless its tries are endless. */
#include "common.h"

/* Makes a pair whose client limits the time of an acknowledgement to 1 ms. The server posts no Receive. */
static void make_limited(struct pair *pair, struct rdma_event_channel *events, int rnr_retry_count)
{
    uint8_t exponent = 8;
    pair->listener = listen_at(events);
    resolve(&pair->client, ntohs(rdma_get_src_port(pair->listener)));
    CHECK(rdma_set_option(pair->client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof exponent) == 0);
    make_end(&pair->client, NULL, 0);
    struct rdma_conn_param with = parameters();
    with.retry_count = 0;
    with.rnr_retry_count = rnr_retry_count;
    NEED(rdma_connect(pair->client.id, &with) == 0);
    accept_from(&pair->server, events, NULL, 0);
    event_is(pair->server.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(pair->client.events, RDMA_CM_EVENT_ESTABLISHED);
}

/* More than the buffers of any system hold. */
static void flood(struct end *end)
{
    for (int index = 0; index < DEPTH; index++)
        NEED(post_send(end, index, 0, MEMORY, IBV_SEND_SIGNALED) == 0);
}

int main(void)
{
    struct pair pair = { 0 };
    struct rdma_event_channel *events = rdma_create_event_channel();
    uint8_t too_long = 32;
    make_limited(&pair, events, 0);
    flood(&pair.client);
    event_is(pair.client.events, RDMA_CM_EVENT_DISCONNECTED);
    struct ibv_wc last;
    for (int index = 0; index < DEPTH; index++)
        last = completion(pair.client.cq);
    CHECK(last.wr_id == DEPTH - 1 && last.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(rdma_set_option(pair.client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &too_long, sizeof too_long) == -1 && errno == EINVAL);
    break_pair(&pair);

    /* Endless tries: the server's Receives come late, and everything arrives. */
    events = rdma_create_event_channel();
    make_limited(&pair, events, 7);
    flood(&pair.client);
    for (int index = 0; index < DEPTH; index++)
        NEED(post_receive(&pair.server, index, 0, MEMORY) == 0);
    for (int index = 0; index < DEPTH; index++)
        CHECK(completes(pair.server.cq, index, IBV_WC_SUCCESS));
    for (int index = 0; index < DEPTH; index++)
        CHECK(completes(pair.client.cq, index, IBV_WC_SUCCESS));
    break_pair(&pair);
    return done();
}
