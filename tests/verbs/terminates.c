/* vendor_err of failed completions says by which Terminate the connection ended, and which side sent it. */
#include "common.h"

enum { TERMINATE = 0x10000, FROM_PEER = 0x20000 };

/* One completion, by either way to poll. */
struct found {
    uint64_t id;
    enum ibv_wc_status status;
    uint32_t vendor_err, byte_len;
};

static struct found by_wc(struct end *end)
{
    struct ibv_wc wc = completion(end->cq);
    return (struct found){ wc.wr_id, wc.status, wc.vendor_err, wc.byte_len };
}

static struct found by_ex(struct end *end)
{
    struct ibv_cq_ex *cq = (struct ibv_cq_ex *)end->cq;
    struct ibv_poll_cq_attr attributes = { 0 };
    int error;
    while ((error = ibv_start_poll(cq, &attributes)) == ENOENT)
        ;
    NEED(error == 0);
    struct found found = { cq->wr_id, cq->status, ibv_wc_read_vendor_err(cq), ibv_wc_read_byte_len(cq) };
    ibv_end_poll(cq);
    return found;
}

static struct found (*next)(struct end *);

static void check(int line, struct end *end, uint64_t id, enum ibv_wc_status status, uint32_t vendor_err, uint32_t byte_len)
{
    struct found found = next(end);
    int has_length = status != IBV_WC_SUCCESS || found.byte_len == byte_len;
    if (found.id == id && found.status == status && found.vendor_err == vendor_err && has_length)
        return;
    printf("line %d: request %lu ends with %s, vendor_err %#x, %u octets\n", line, (unsigned long)found.id,
           ibv_wc_status_str(found.status), found.vendor_err, found.byte_len);
    failures++;
}

#define IS(end, id, status, vendor_err, byte_len) check(__LINE__, end, id, status, vendor_err, byte_len)

/* As make_pair, over completion queues that both ways of polling can use. */
static void make(struct pair *pair)
{
    struct rdma_event_channel *events;
    struct ibv_cq_init_attr_ex attributes = { .cqe = 4 * DEPTH, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };
    struct ibv_cq_ex *cqs[2];
    int count = 0;
    struct ibv_context **devices;
    NEED((devices = rdma_get_devices(&count)) && count > 0);
    for (int index = 0; index < 2; index++)
        NEED(cqs[index] = ibv_create_cq_ex(devices[0], &attributes));
    rdma_free_devices(devices);
    NEED(events = rdma_create_event_channel());
    pair->listener = listen_at(events);
    connect_to(&pair->client, ntohs(rdma_get_src_port(pair->listener)), ibv_cq_ex_to_cq(cqs[0]), 0);
    accept_from(&pair->server, events, ibv_cq_ex_to_cq(cqs[1]), 0);
    event_is(pair->server.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(pair->client.events, RDMA_CM_EVENT_ESTABLISHED);
}

static void break_up(struct pair *pair)
{
    struct ibv_cq *cqs[2] = { pair->client.cq, pair->server.cq };
    break_pair(pair);
    for (int index = 0; index < 2; index++)
        NEED(ibv_destroy_cq(cqs[index]) == 0);
}

/* A message that is longer than its Receive: DDP, untagged buffer, message too long. */
static void of_a_message(void)
{
    struct pair pair;
    make(&pair);
    NEED(post_receive(&pair.client, 1, 0, 64) == 0);
    NEED(post_receive(&pair.server, 2, 0, 64) == 0 && post_receive(&pair.server, 3, 0, 32) == 0);
    NEED(post_receive(&pair.server, 4, 0, 64) == 0);
    NEED(post_send(&pair.client, 5, 0, 60, IBV_SEND_SIGNALED) == 0);
    IS(&pair.client, 5, IBV_WC_SUCCESS, 0, 60);
    IS(&pair.server, 2, IBV_WC_SUCCESS, 0, 60);
    NEED(post_send(&pair.client, 6, 0, 64, 0) == 0);
    /* The Receive that failed, and one that the end of the connection flushes. */
    IS(&pair.server, 3, IBV_WC_LOC_LEN_ERR, TERMINATE | 0x1205, 0);
    IS(&pair.server, 4, IBV_WC_WR_FLUSH_ERR, TERMINATE | 0x1205, 0);
    event_is(pair.client.events, RDMA_CM_EVENT_DISCONNECTED);
    IS(&pair.client, 1, IBV_WC_WR_FLUSH_ERR, TERMINATE | FROM_PEER | 0x1205, 0);
    /* A request that comes later. */
    NEED(post_send(&pair.client, 7, 0, 1, IBV_SEND_SIGNALED) == 0);
    IS(&pair.client, 7, IBV_WC_WR_FLUSH_ERR, TERMINATE | FROM_PEER | 0x1205, 0);
    break_up(&pair);
}

/* A Read of memory that the peer does not let be read: RDMAP, remote protection, invalid STag. */
static void of_a_read(void)
{
    struct pair pair;
    make(&pair);
    struct ibv_sge sge = { .addr = (uintptr_t)pair.client.memory, .length = 64, .lkey = pair.client.mr->lkey };
    struct ibv_send_wr wr = {
        .wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = { .remote_addr = (uintptr_t)pair.server.memory, .rkey = pair.server.mr->rkey ^ 0x55555 },
    }, *bad;
    NEED(post_receive(&pair.server, 6, 0, 32) == 0);
    NEED(ibv_post_send(pair.client.id->qp, &wr, &bad) == 0);
    IS(&pair.client, 5, IBV_WC_REM_ACCESS_ERR, TERMINATE | FROM_PEER | 0x0100, 0);
    IS(&pair.server, 6, IBV_WC_WR_FLUSH_ERR, TERMINATE | 0x0100, 0);
    break_up(&pair);
}

/* No Terminate: there is nothing to say. */
static void of_a_disconnect(void)
{
    struct pair pair;
    make(&pair);
    NEED(post_receive(&pair.server, 1, 0, 64) == 0 && post_receive(&pair.client, 2, 0, 64) == 0);
    NEED(rdma_disconnect(pair.client.id) == 0);
    event_is(pair.server.events, RDMA_CM_EVENT_DISCONNECTED);
    NEED(rdma_disconnect(pair.server.id) == 0);
    IS(&pair.server, 1, IBV_WC_WR_FLUSH_ERR, 0, 0);
    IS(&pair.client, 2, IBV_WC_WR_FLUSH_ERR, 0, 0);
    break_up(&pair);
}

int main(void)
{
    struct found (*const ways[])(struct end *) = { by_wc, by_ex };
    for (int way = 0; way < 2; way++) {
        next = ways[way];
        of_a_message();
        of_a_read();
        of_a_disconnect();
    }
    return done();
}
