/* What a program sees of the device and of a queue pair that the connection manager moves. */
#include "common.h"

static void device_is_its_own(struct ibv_context *context)
{
    struct ibv_device_attr device;
    NEED(ibv_query_device(context, &device) == 0);
    /* Not 0, and not assigned to anybody: the locally administered bit is set. */
    CHECK(device.vendor_id != 0 && (device.vendor_id & 0x020000) != 0);
    int copy = dup(context->cmd_fd);
    CHECK(copy >= 0 && (fcntl(context->cmd_fd, F_GETFD) & FD_CLOEXEC));
    close(copy);
}

static void is_connected(struct end *end, int timeout)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(end->id->qp->state == IBV_QPS_RTS);
    NEED(ibv_query_qp(end->id->qp, &attr, -1, &init) == 0);
    CHECK(attr.qp_state == IBV_QPS_RTS && attr.cur_qp_state == IBV_QPS_RTS);
    CHECK(attr.path_mtu >= IBV_MTU_256 && attr.path_mtu <= IBV_MTU_4096);
    CHECK(attr.dest_qp_num != 0);
    CHECK(attr.timeout == timeout && attr.retry_cnt == 5 && attr.rnr_retry == 6);
    CHECK(attr.max_rd_atomic == 4 && attr.max_dest_rd_atomic == 4);
    CHECK(attr.cap.max_send_wr >= DEPTH && attr.cap.max_recv_wr >= DEPTH);
    CHECK(init.cap.max_send_sge >= 2 && attr.port_num == 1);
}

int main(void)
{
    struct pair pair;
    struct rdma_event_channel *events;
    struct rdma_conn_param with = parameters();
    with.retry_count = 5, with.rnr_retry_count = 6;
    uint8_t timeout = 17;
    NEED(events = rdma_create_event_channel());
    pair.listener = listen_at(events);
    resolve(&pair.client, ntohs(rdma_get_src_port(pair.listener)));
    device_is_its_own(pair.client.id->verbs);
    make_end(&pair.client, NULL, 0);
    CHECK(rdma_set_option(pair.client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout) == 0);
    NEED(rdma_connect(pair.client.id, &with) == 0);
    pair.server.id = event_is(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    NEED(pair.server.events = rdma_create_event_channel());
    NEED(rdma_migrate_id(pair.server.id, pair.server.events) == 0);
    make_end(&pair.server, NULL, 0);
    CHECK(pair.server.id->qp->state == IBV_QPS_INIT);
    NEED(rdma_accept(pair.server.id, &with) == 0);
    is_connected(&pair.server, 14);
    event_is(pair.server.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(pair.client.events, RDMA_CM_EVENT_ESTABLISHED);
    is_connected(&pair.client, 17);
    exchange(&pair.client, &pair.server, 'q');
    NEED(rdma_disconnect(pair.client.id) == 0);
    CHECK(pair.client.id->qp->state == IBV_QPS_ERR);
    break_pair(&pair);
    return done();
}
