/* Bad input gets the error that the manual pages name. */
#include "common.h"

static struct ibv_context *context;

/* The function returns an error number. */
#define RETURNS(number, call) \
    do { \
        int got = (call); \
        if (got != (number)) { \
            printf("%s:%d: %s: %s in place of %s\n", __FILE__, __LINE__, #call, strerror(got), strerror(number)); \
            failures++; \
        } \
    } while (0)

/* The function returns -1 or NULL, and the number is in errno. */
#define FAILS(number, call) \
    do { \
        errno = 0; \
        long got = (long)(call); \
        if ((got != -1 && got != 0) || errno != (number)) { \
            printf("%s:%d: %s: %ld and %s in place of %s\n", __FILE__, __LINE__, #call, got, strerror(errno), strerror(number)); \
            failures++; \
        } \
    } while (0)

static void of_devices(void)
{
    struct ibv_port_attr port;
    union ibv_gid gid;
    uint16_t pkey;
    RETURNS(EINVAL, ibv_query_port(context, 2, &port));
    RETURNS(EINVAL, ibv_query_port(context, 0, &port));
    FAILS(EINVAL, ibv_query_gid(context, 1, 1000, &gid));
    FAILS(EINVAL, ibv_query_pkey(context, 1, 1, &pkey));
    RETURNS(-1, ibv_get_pkey_index(context, 1, 1));
}

static void of_queues(void)
{
    struct ibv_device_attr limits;
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    NEED(pd && cq && ibv_query_device(context, &limits) == 0);
    FAILS(EINVAL, ibv_create_cq(context, 0, NULL, NULL, 0));
    FAILS(EINVAL, ibv_create_cq(context, limits.max_cqe + 1, NULL, NULL, 0));
    FAILS(EINVAL, ibv_create_cq(context, 16, NULL, NULL, 1));
    RETURNS(EINVAL, ibv_resize_cq(cq, 0));
    RETURNS(0, ibv_resize_cq(cq, 32));
    struct ibv_srq_init_attr srq_attributes = { .attr = { .max_wr = limits.max_srq_wr + 1, .max_sge = 1 } };
    FAILS(EINVAL, ibv_create_srq(pd, &srq_attributes));
    struct ibv_qp_init_attr good = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct ibv_qp_init_attr bad = good;
    bad.cap.max_inline_data = 1 << 20;
    FAILS(EINVAL, ibv_create_qp(pd, &bad));
    bad = good, bad.cap.max_send_wr = limits.max_qp_wr + 1;
    FAILS(EINVAL, ibv_create_qp(pd, &bad));
    bad = good, bad.cap.max_recv_sge = limits.max_sge + 1;
    FAILS(EINVAL, ibv_create_qp(pd, &bad));
    bad = good, bad.send_cq = NULL;
    FAILS(EINVAL, ibv_create_qp(pd, &bad));
    bad = good, bad.qp_type = IBV_QPT_RAW_PACKET;
    FAILS(EOPNOTSUPP, ibv_create_qp(pd, &bad));

    /* Parents with children. */
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *of_channel = ibv_create_cq(context, 4, NULL, channel, 0);
    struct ibv_qp *qp = ibv_create_qp(pd, &good);
    static char memory[4096];
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    NEED(channel && of_channel && qp && mr);
    RETURNS(EBUSY, ibv_destroy_comp_channel(channel));
    RETURNS(EBUSY, ibv_destroy_cq(cq));
    RETURNS(EBUSY, ibv_dealloc_pd(pd));

    /* Requests in the wrong states. */
    struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 16, .lkey = mr->lkey };
    struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad_receive = NULL;
    struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send = NULL;
    RETURNS(EINVAL, ibv_post_recv(qp, &receive, &bad_receive));
    CHECK(bad_receive == &receive);
    RETURNS(EINVAL, ibv_post_send(qp, &send, &bad_send));
    CHECK(bad_send == &send);
    struct ibv_qp_attr to_init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    struct ibv_qp_attr wrong = to_init;
    wrong.port_num = 2;
    RETURNS(EINVAL, ibv_modify_qp(qp, &wrong, mask));
    wrong = to_init, wrong.pkey_index = 3;
    RETURNS(EINVAL, ibv_modify_qp(qp, &wrong, mask));
    RETURNS(EINVAL, ibv_modify_qp(qp, &to_init, IBV_QP_STATE));
    wrong = to_init, wrong.qp_state = IBV_QPS_RTS;
    RETURNS(EINVAL, ibv_modify_qp(qp, &wrong, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
    RETURNS(0, ibv_modify_qp(qp, &to_init, mask));
    /* Receives from INIT on, as many as there are places; more SGEs than there may be. */
    for (int index = 0; index < 4; index++)
        RETURNS(0, ibv_post_recv(qp, &receive, &bad_receive));
    RETURNS(ENOMEM, ibv_post_recv(qp, &receive, &bad_receive));
    RETURNS(EINVAL, ibv_post_send(qp, &send, &bad_send));
    struct ibv_sge two[2] = { sge, sge };
    struct ibv_recv_wr long_receive = { .sg_list = two, .num_sge = 2 };
    RETURNS(EINVAL, ibv_post_recv(qp, &long_receive, &bad_receive));
    /* ERR flushes. */
    struct ibv_qp_attr to_error = { .qp_state = IBV_QPS_ERR };
    RETURNS(0, ibv_modify_qp(qp, &to_error, IBV_QP_STATE));
    for (int index = 0; index < 4; index++)
        CHECK(completion(cq).status == IBV_WC_WR_FLUSH_ERR);
    RETURNS(0, ibv_destroy_qp(qp));

    /* Queue pairs for datagrams send, to an address, no more than the MTU. */
    struct ibv_qp_init_attr of_datagrams = good;
    of_datagrams.qp_type = IBV_QPT_UD;
    NEED(qp = ibv_create_qp(pd, &of_datagrams));
    struct ibv_qp_attr state = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7 };
    RETURNS(EINVAL, ibv_modify_qp(qp, &to_init, mask));
    RETURNS(0, ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    state.qp_state = IBV_QPS_RTR;
    RETURNS(EINVAL, ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_DEST_QPN));
    RETURNS(0, ibv_modify_qp(qp, &state, IBV_QP_STATE));
    RETURNS(EINVAL, ibv_post_send(qp, &send, &bad_send));
    state.qp_state = IBV_QPS_RTS;
    RETURNS(0, ibv_modify_qp(qp, &state, IBV_QP_STATE | IBV_QP_SQ_PSN));
    RETURNS(EINVAL, ibv_post_send(qp, &send, &bad_send)); /* no address */
    struct ibv_ah_attr address = { .is_global = 1, .port_num = 1 };
    struct ibv_port_attr port;
    struct ibv_ah *handle;
    NEED(ibv_query_gid(context, 1, 0, &address.grh.dgid) == 0 && ibv_query_port(context, 1, &port) == 0);
    NEED(handle = ibv_create_ah(pd, &address));
    struct ibv_send_wr datagram = send;
    datagram.wr.ud.ah = handle, datagram.wr.ud.remote_qpn = qp->qp_num, datagram.wr.ud.remote_qkey = 7;
    sge.length = (128 << port.active_mtu) + 1;
    RETURNS(EINVAL, ibv_post_send(qp, &datagram, &bad_send));
    sge.length = 16;
    datagram.opcode = IBV_WR_RDMA_WRITE;
    RETURNS(EINVAL, ibv_post_send(qp, &datagram, &bad_send));
    datagram.opcode = IBV_WR_SEND;
    RETURNS(0, ibv_post_send(qp, &datagram, &bad_send));
    RETURNS(EBUSY, ibv_dealloc_pd(pd));
    RETURNS(0, ibv_destroy_ah(handle));
    /* No GRH says where this one comes from. */
    struct ibv_wc without = { .wc_flags = 0 }, with = { .wc_flags = IBV_WC_GRH };
    FAILS(EINVAL, ibv_create_ah_from_wc(pd, &without, NULL, 1));
    FAILS(EINVAL, ibv_create_ah_from_wc(pd, &with, (struct ibv_grh *)memory, 1));
    RETURNS(-1, ibv_init_ah_from_wc(context, 1, &with, (struct ibv_grh *)memory, &address));
    RETURNS(0, ibv_destroy_qp(qp));
    RETURNS(0, ibv_destroy_cq(of_channel));
    RETURNS(0, ibv_destroy_comp_channel(channel));
    RETURNS(0, ibv_destroy_cq(cq));
    RETURNS(EBUSY, ibv_dealloc_pd(pd));
    RETURNS(0, ibv_dereg_mr(mr));
    RETURNS(0, ibv_dealloc_pd(pd));
}

typedef void change(struct pair *, struct ibv_send_wr *);

/* One failing request on a connection of its own: the status of the request, and that of the peer's Receive. A Send that the peer
 * refuses has succeeded here already, as with every iWARP; what comes behind it is flushed. A Write is done when it is placed. */
static void fails(enum ibv_wr_opcode opcode, enum ibv_wc_status status, enum ibv_wc_status of_peer, change *change, int line)
{
    struct pair pair;
    make_pair(&pair);
    struct ibv_sge sge = { .addr = (uintptr_t)pair.client.memory, .length = 64, .lkey = pair.client.mr->lkey };
    struct ibv_send_wr wr = {
        .wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = { .remote_addr = (uintptr_t)pair.server.memory, .rkey = pair.server.mr->rkey },
    }, *bad;
    change(&pair, &wr);
    NEED(post_receive(&pair.server, 6, 0, 32) == 0);
    NEED(ibv_post_send(pair.client.id->qp, &wr, &bad) == 0);
    struct ibv_wc wc = completion(pair.client.cq), peer = completion(pair.server.cq);
    event_is(pair.client.events, RDMA_CM_EVENT_DISCONNECTED);
    if (wc.status != status || peer.status != of_peer) {
        printf("line %d: %s and %s\n", line, ibv_wc_status_str(wc.status), ibv_wc_status_str(peer.status));
        failures++;
    }
    NEED(post_send(&pair.client, 7, 0, 1, IBV_SEND_SIGNALED) == 0);
    CHECK(completes(pair.client.cq, 7, IBV_WC_WR_FLUSH_ERR));
    break_pair(&pair);
}

static void foreign_lkey(struct pair *pair, struct ibv_send_wr *wr) { wr->sg_list->lkey = pair->server.mr->lkey; }
static void no_lkey(struct pair *pair, struct ibv_send_wr *wr) { (void)pair, wr->sg_list->lkey ^= 0x55555; }
static void beyond(struct pair *pair, struct ibv_send_wr *wr) { (void)pair, wr->sg_list->addr += MEMORY; }
static void no_rkey(struct pair *pair, struct ibv_send_wr *wr) { (void)pair, wr->wr.rdma.rkey ^= 0x55555; }
static void beyond_remote(struct pair *pair, struct ibv_send_wr *wr) { (void)pair, wr->wr.rdma.remote_addr += MEMORY; }
static void too_long(struct pair *pair, struct ibv_send_wr *wr) { (void)pair, (void)wr; }

static void of_requests(void)
{
    fails(IBV_WR_SEND, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR, foreign_lkey, __LINE__);
    fails(IBV_WR_SEND, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR, no_lkey, __LINE__);
    fails(IBV_WR_SEND, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR, beyond, __LINE__);
    fails(IBV_WR_SEND, IBV_WC_SUCCESS, IBV_WC_LOC_LEN_ERR, too_long, __LINE__);
    fails(IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, no_rkey, __LINE__);
    fails(IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, beyond_remote, __LINE__);
    fails(IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, no_rkey, __LINE__);
    fails(IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, beyond_remote, __LINE__);
}

static void of_posts(void)
{
    struct pair pair;
    make_pair(&pair);
    struct end *end = &pair.client;
    struct ibv_sge sge = { .addr = (uintptr_t)end->memory, .length = 65, .lkey = end->mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE }, *bad;
    /* Longer than max_inline_data may be as it was created. */
    struct ibv_qp_attr attributes;
    struct ibv_qp_init_attr created;
    NEED(ibv_query_qp(end->id->qp, &attributes, IBV_QP_CAP, &created) == 0);
    sge.length = created.cap.max_inline_data + 1;
    RETURNS(EINVAL, ibv_post_send(end->id->qp, &wr, &bad));
    struct ibv_sge many[32] = { sge };
    NEED(created.cap.max_send_sge < 32);
    wr.sg_list = many, wr.send_flags = 0, wr.num_sge = created.cap.max_send_sge + 1;
    RETURNS(EINVAL, ibv_post_send(end->id->qp, &wr, &bad));
    wr.sg_list = &sge, wr.num_sge = 1, wr.opcode = 99;
    RETURNS(EINVAL, ibv_post_send(end->id->qp, &wr, &bad));
    /* The region stays valid. */
    errno = 0;
    CHECK(ibv_rereg_mr(end->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EOPNOTSUPP);
    wr.opcode = IBV_WR_TSO;
    RETURNS(EOPNOTSUPP, ibv_post_send(end->id->qp, &wr, &bad));
    wr.opcode = IBV_WR_SEND, wr.send_flags = 1 << 20;
    RETURNS(EINVAL, ibv_post_send(end->id->qp, &wr, &bad));
    /* A full queue: nobody polls. */
    int posted = 0, result;
    while ((result = post_send(end, posted, 0, 1, IBV_SEND_SIGNALED)) == 0 && posted < 10 * DEPTH)
        posted++;
    CHECK(result == ENOMEM && posted >= (int)created.cap.max_send_wr);
    for (int index = 0; index < posted; index++)
        NEED(post_receive(&pair.server, index, 0, 8) == 0 || index >= DEPTH);
    break_pair(&pair);
}

static void of_connections(void)
{
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *id, *other;
    struct rdma_conn_param with = parameters();
    struct sockaddr_in address = loopback(0), foreign = loopback(0);
    foreign.sin_addr.s_addr = htonl(0xC6336401); /* 198.51.100.1 */
    NEED(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0);
    FAILS(EINVAL, rdma_connect(id, &with));
    FAILS(EINVAL, rdma_accept(id, &with));
    FAILS(EINVAL, rdma_resolve_route(id, 100));
    FAILS(EINVAL, rdma_disconnect(id));
    /* As the kernel says it. */
    FAILS(ENODEV, rdma_bind_addr(id, (struct sockaddr *)&foreign));
    NEED(rdma_bind_addr(id, (struct sockaddr *)&address) == 0);
    NEED(rdma_listen(id, 1) == 0);
    NEED(rdma_create_id(events, &other, NULL, RDMA_PS_TCP) == 0);
    address.sin_port = rdma_get_src_port(id);
    int bound = rdma_bind_addr(other, (struct sockaddr *)&address);
    if (bound == 0)
        bound = rdma_listen(other, 1);
    CHECK(bound == -1);
    FAILS(EINVAL, rdma_listen(NULL, 1));
    with.private_data = &address, with.private_data_len = sizeof address;
    rdma_destroy_id(other);
    /* Nobody listens at a port that was given back. */
    struct end end = { 0 };
    int port = ntohs(rdma_get_src_port(id));
    rdma_destroy_id(id);
    resolve(&end, port);
    make_end(&end, NULL, 0);
    FAILS(EINVAL, rdma_create_qp(end.id, end.pd, &(struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC, .send_cq = end.cq, .recv_cq = end.cq }));
    with = parameters();
    NEED(rdma_connect(end.id, &with) == 0);
    event_is(end.events, RDMA_CM_EVENT_REJECTED);
    break_end(&end);
    rdma_destroy_event_channel(events);
    FAILS(EOPNOTSUPP, rdma_create_id(NULL, &id, NULL, RDMA_PS_IB));
}

int main(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    NEED(devices && (context = ibv_open_device(devices[0])));
    ibv_free_device_list(devices);
    of_devices();
    of_queues();
    of_requests();
    of_posts();
    of_connections();
    CHECK(ibv_close_device(context) == 0);
    return done();
}
