/* ibv_close_device returns 0 with objects left: connections of the device end, and what is left can still be destroyed. */
#include "common.h"
#include <dirent.h>

static int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    NEED(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Objects are destroyed after their device was closed. */
static void wrong_order(struct ibv_device *device)
{
    struct ibv_context *context = ibv_open_device(device);
    NEED(context);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, channel, 0);
    static char memory[4096];
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_srq_init_attr of_srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(pd, &of_srq);
    NEED(pd && channel && cq && mr && srq);
    struct ibv_qp_init_attr of_qp = {
        .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1, .max_send_sge = 1 },
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &of_qp);
    NEED(qp);
    CHECK(ibv_close_device(context) == 0);
    CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_srq(srq) == 0 && ibv_dereg_mr(mr) == 0);
    CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0 && ibv_dealloc_pd(pd) == 0);
}

/* The peer learns that the connection is over. */
static void connected(struct ibv_device *device)
{
    struct end client, server;
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *listener = listen_at(events);
    resolve(&client, ntohs(rdma_get_src_port(listener)));
    struct ibv_context *context = ibv_open_device(device);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    NEED(context && pd && cq);
    struct ibv_qp_init_attr attributes = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1, .max_send_sge = 1 },
    };
    NEED(client.id->qp = ibv_create_qp(pd, &attributes));
    struct rdma_conn_param with = parameters();
    NEED(rdma_connect(client.id, &with) == 0);
    accept_from(&server, events, NULL, 0);
    event_is(server.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(client.events, RDMA_CM_EVENT_ESTABLISHED);
    CHECK(ibv_close_device(context) == 0);
    event_is(server.events, RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_qp(client.id);
    CHECK(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
    CHECK(rdma_destroy_id(client.id) == 0);
    rdma_destroy_event_channel(client.events);
    break_end(&server);
    CHECK(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(events);
}

int main(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    NEED(devices && devices[0]);
    wrong_order(devices[0]);
    connected(devices[0]);
    /* What the last close has left behind is gone with the next one. */
    int before = open_descriptors();
    for (int round = 0; round < 100; round++)
        wrong_order(devices[0]);
    CHECK(open_descriptors() == before);
    ibv_free_device_list(devices);
    return done();
}
