/* Sends with a number by libfabric (fi_senddata, provider "verbs", FI_EP_MSG), from both ends, each right behind the event of the connection. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#define NEED(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s is not so\n", __LINE__, #what); \
            _exit(2); \
        } \
    } while (0)

enum { LENGTH = 64, CONNECTIONS = 50 };

static const char *port;
static pthread_barrier_t is_listening;

struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_eq *events;
    struct fid_domain *domain;
    struct fid_mr *mr;
    char *memory;
};

static void make_side(struct side *side, const char *address, uint64_t flags)
{
    struct fi_info *hints = fi_allocinfo();
    NEED(hints);
    hints->caps = FI_MSG;
    /* A number takes a Receive. */
    hints->mode = FI_RX_CQ_DATA;
    hints->rx_attr->mode = FI_RX_CQ_DATA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->fabric_attr->prov_name = strdup("verbs");
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    hints->domain_attr->cq_data_size = 4;
    hints->addr_format = FI_SOCKADDR_IN;
    NEED(fi_getinfo(FI_VERSION(1, 15), address, port, flags, hints, &side->info) == 0);
    fi_freeinfo(hints);
    struct fi_eq_attr of_events = { .wait_obj = FI_WAIT_UNSPEC };
    NEED(fi_fabric(side->info->fabric_attr, &side->fabric, NULL) == 0);
    NEED(fi_eq_open(side->fabric, &of_events, &side->events, NULL) == 0);
    NEED(posix_memalign((void **)&side->memory, 4096, 4096) == 0);
}

static void open_domain(struct side *side, struct fi_info *info)
{
    NEED(fi_domain(side->fabric, info, &side->domain, NULL) == 0);
    NEED(fi_mr_reg(side->domain, side->memory, 4096, FI_SEND | FI_RECV, 0, 0, 0, &side->mr, NULL) == 0);
}

static struct fid_ep *endpoint(struct side *side, struct fi_info *info, struct fid_cq **queue)
{
    struct fi_cq_attr of_queue = { .size = info->rx_attr->size + info->tx_attr->size, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE };
    struct fid_ep *ep;
    NEED(fi_endpoint(side->domain, info, &ep, NULL) == 0);
    NEED(fi_cq_open(side->domain, &of_queue, queue, NULL) == 0);
    NEED(fi_ep_bind(ep, &side->events->fid, 0) == 0);
    NEED(fi_ep_bind(ep, &(*queue)->fid, FI_TRANSMIT | FI_RECV) == 0);
    NEED(fi_enable(ep) == 0);
    NEED(fi_recv(ep, side->memory + 1024, LENGTH, fi_mr_desc(side->mr), 0, NULL) == 0);
    return ep;
}

static void awaits(struct side *side, uint32_t kind, struct fi_eq_cm_entry *entry)
{
    uint32_t event = 0;
    struct fi_eq_err_entry error = { 0 };
    ssize_t got = fi_eq_sread(side->events, &event, entry, sizeof *entry, -1, 0);
    if (got < 0)
        fi_eq_readerr(side->events, &error, 0);
    if (got < 0 || event != kind)
        fprintf(stderr, "event %u instead of %u: %zd, error %d of the provider, %d\n", event, kind, got, error.prov_errno, error.err);
    NEED(got >= 0 && event == kind);
}

static void exchange_numbers(struct side *side, struct fid_ep *ep, struct fid_cq *queue, uint32_t own, uint32_t other)
{
    struct fi_cq_data_entry entry;
    ssize_t sent;
    memset(side->memory, (char)own, LENGTH);
    while ((sent = fi_senddata(ep, side->memory, LENGTH, fi_mr_desc(side->mr), own, 0, NULL)) == -FI_EAGAIN)
        ;
    NEED(sent == 0);
    for (int count = 0; count < 2; count++) {
        ssize_t got;
        while ((got = fi_cq_read(queue, &entry, 1)) == -FI_EAGAIN)
            ;
        NEED(got == 1);
        if (!(entry.flags & FI_RECV))
            continue;
        NEED(entry.flags & FI_REMOTE_CQ_DATA);
        NEED(entry.data == other && entry.len == LENGTH);
        NEED(side->memory[1024] == (char)other && side->memory[1024 + LENGTH - 1] == (char)other);
    }
}

static void *serve(void *unused)
{
    struct side side = { 0 };
    struct fid_pep *listener;
    struct fi_eq_cm_entry entry;
    make_side(&side, NULL, FI_SOURCE);
    NEED(fi_passive_ep(side.fabric, side.info, &listener, NULL) == 0);
    NEED(fi_pep_bind(listener, &side.events->fid, 0) == 0 && fi_listen(listener) == 0);
    pthread_barrier_wait(&is_listening);
    for (int round = 0; round < CONNECTIONS; round++) {
        struct fid_cq *queue;
        awaits(&side, FI_CONNREQ, &entry);
        if (!side.domain)
            open_domain(&side, entry.info);
        struct fid_ep *ep = endpoint(&side, entry.info, &queue);
        NEED(fi_accept(ep, NULL, 0) == 0);
        fi_freeinfo(entry.info);
        awaits(&side, FI_CONNECTED, &entry);
        exchange_numbers(&side, ep, queue, 2000 + round, 1000 + round);
        awaits(&side, FI_SHUTDOWN, &entry);
        NEED(fi_close(&ep->fid) == 0 && fi_close(&queue->fid) == 0);
    }
    return unused;
}

int main(int argc, char **argv)
{
    struct side side = { 0 };
    struct fi_eq_cm_entry entry;
    pthread_t server;
    NEED(argc == 3);
    const char *address = argv[1];
    port = argv[2];
    NEED(pthread_barrier_init(&is_listening, NULL, 2) == 0 && pthread_create(&server, NULL, serve, NULL) == 0);
    pthread_barrier_wait(&is_listening);
    make_side(&side, address, 0);
    open_domain(&side, side.info);
    for (int round = 0; round < CONNECTIONS; round++) {
        struct fid_cq *queue;
        struct fid_ep *ep = endpoint(&side, side.info, &queue);
        NEED(fi_connect(ep, side.info->dest_addr, NULL, 0) == 0);
        awaits(&side, FI_CONNECTED, &entry);
        exchange_numbers(&side, ep, queue, 1000 + round, 2000 + round);
        NEED(fi_shutdown(ep, 0) == 0);
        awaits(&side, FI_SHUTDOWN, &entry);
        NEED(fi_close(&ep->fid) == 0 && fi_close(&queue->fid) == 0);
    }
    NEED(pthread_join(server, NULL) == 0);
    printf("0 failures\n");
    return 0;
}
