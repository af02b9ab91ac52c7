/* Names that releases after rdma-core 44 have added, at their versions. The headers need not know them. */
#define _GNU_SOURCE
#include "common.h"
#include <dlfcn.h>
#include <stdint.h>

struct mr_init_attr {
    size_t length;
    int access;
    uint64_t comp_mask, iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    void *dmah, *buf;
};

enum { IOVA = 1, ADDR = 2, FD = 4, DMAH = 16, BUF = 32 };
enum { ADDRINFO_RESOLVED = 16, ADDRINFO_ERROR, USER };

static void *named(const char *name, const char *version)
{
    void *function = dlvsym(RTLD_DEFAULT, name, version);
    if (!function) {
        printf("%s@%s is missing\n", name, version);
        fflush(stdout);
        _exit(2);
    }
    return function;
}

/* Calls a function that is not supported, with arguments that it does not look at. */
static long unsupported(const char *name, const char *version)
{
    long (*function)(void *, void *, void *, void *) = named(name, version);
    errno = 0;
    return function(NULL, NULL, NULL, NULL);
}

static void refused(void)
{
    static const struct { const char *name, *version; } null[] = {
        { "ibv_alloc_dmah", "IBVERBS_1.15" }, { "ibv_alloc_buf", "IBVERBS_1.17" },
        { "ibv_reg_buf_mr", "IBVERBS_1.17" }, { "ibv_create_comp_cntr", "IBVERBS_1.18" },
    }, minus_one[] = {
        { "ibv_dm_export_dmabuf_fd", "IBVERBS_1.16" }, { "ibv_export_buf_dmabuf_fd", "IBVERBS_1.18" },
        { "repoll_create", "RDMACM_1.5" }, { "repoll_ctl", "RDMACM_1.5" }, { "repoll_wait", "RDMACM_1.5" },
    }, code[] = {
        { "ibv_dealloc_dmah", "IBVERBS_1.15" }, { "_ibv_query_comp_cntr_caps", "IBVERBS_1.18" },
        { "ibv_destroy_comp_cntr", "IBVERBS_1.18" }, { "ibv_inc_comp_cntr", "IBVERBS_1.18" },
        { "ibv_inc_err_comp_cntr", "IBVERBS_1.18" }, { "ibv_qp_attach_comp_cntr", "IBVERBS_1.18" },
        { "ibv_read_comp_cntr", "IBVERBS_1.18" }, { "ibv_read_err_comp_cntr", "IBVERBS_1.18" },
        { "ibv_set_comp_cntr", "IBVERBS_1.18" }, { "ibv_set_err_comp_cntr", "IBVERBS_1.18" },
    };
    for (size_t at = 0; at < sizeof null / sizeof *null; at++) {
        long got = unsupported(null[at].name, null[at].version);
        int number = errno;
        CHECK(got == 0 && number == EOPNOTSUPP);
    }
    for (size_t at = 0; at < sizeof minus_one / sizeof *minus_one; at++) {
        long got = unsupported(minus_one[at].name, minus_one[at].version);
        int number = errno;
        CHECK((int)got == -1 && number == EOPNOTSUPP);
    }
    for (size_t at = 0; at < sizeof code / sizeof *code; at++)
        CHECK((int)unsupported(code[at].name, code[at].version) == EOPNOTSUPP);
    unsupported("ibv_free_buf", "IBVERBS_1.17");
}

static void regions(struct ibv_context *context)
{
    struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct mr_init_attr *) = named("ibv_reg_mr_ex", "IBVERBS_1.15");
    struct ibv_pd *pd = ibv_alloc_pd(context);
    static char memory[4096];
    struct mr_init_attr attr = { .length = sizeof memory, .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = ADDR, .addr = memory };
    struct ibv_mr *mr = reg_mr_ex(pd, &attr);
    NEED(pd && mr);
    CHECK(mr->addr == memory && mr->length == sizeof memory && mr->pd == pd && ibv_dereg_mr(mr) == 0);
    attr.comp_mask = ADDR | IOVA, attr.iova = 4096;
    NEED(mr = reg_mr_ex(pd, &attr));
    CHECK(ibv_dereg_mr(mr) == 0);
    static const int other[] = { FD, ADDR | DMAH, ADDR | BUF, ADDR | 1 << 20 };
    for (int at = 0; at < 4; at++) {
        attr.comp_mask = other[at];
        CHECK(!reg_mr_ex(pd, &attr) && errno == EOPNOTSUPP);
    }
    attr.comp_mask = 0;
    CHECK(!reg_mr_ex(pd, &attr) && errno == EINVAL);
    CHECK(!reg_mr_ex(pd, NULL) && !reg_mr_ex(NULL, &attr));
    CHECK(ibv_dealloc_pd(pd) == 0);
}

static void speed(struct ibv_context *context)
{
    int (*query_port_speed)(struct ibv_context *, uint32_t, uint64_t *) = named("ibv_query_port_speed", "IBVERBS_1.16");
    struct ibv_port_attr port;
    uint64_t speed = 0;
    NEED(ibv_query_port(context, 1, &port) == 0);
    /* Four lanes of 10 Gbit/s, in units of 100 Mbit/s. */
    CHECK(port.active_width == 2 && port.active_speed == 4);
    CHECK(query_port_speed(context, 1, &speed) == 0 && speed == 400);
    CHECK(query_port_speed(context, 2, &speed) == EINVAL);
    CHECK(query_port_speed(context, 257, &speed) == EINVAL);
}

static struct rdma_cm_event *next(struct rdma_event_channel *events)
{
    struct rdma_cm_event *event;
    NEED(rdma_get_cm_event(events, &event) == 0);
    return event;
}

static void of_identifiers(void)
{
    int (*resolve)(struct rdma_cm_id *, const char *, const char *, const struct rdma_addrinfo *) =
        named("rdma_resolve_addrinfo", "RDMACM_1.4");
    int (*query)(struct rdma_cm_id *, struct rdma_addrinfo **) = named("rdma_query_addrinfo", "RDMACM_1.4");
    int (*write_event)(struct rdma_cm_id *, int, int, uint64_t) = named("rdma_write_cm_event", "RDMACM_1.4");
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *id;
    struct rdma_addrinfo *info = NULL, hints = { .ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP };
    NEED(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(query(id, &info) == -1 && errno == EINVAL && !info);

    NEED(resolve(id, "127.0.0.1", "4711", &hints) == 0 && is_readable(events->fd, 10000));
    struct rdma_cm_event *event = next(events);
    CHECK((int)event->event == ADDRINFO_RESOLVED && event->status == 0 && event->id == id);
    CHECK(strcmp(rdma_event_str(event->event), "RDMA_CM_EVENT_ADDRINFO_RESOLVED") == 0);
    CHECK(rdma_ack_cm_event(event) == 0);
    for (int times = 0; times < 2; times++) {
        NEED(query(id, &info) == 0 && info && info->ai_dst_addr);
        CHECK(((struct sockaddr_in *)info->ai_dst_addr)->sin_port == htons(4711));
        rdma_freeaddrinfo(info);
    }

    NEED(resolve(id, "no address", "4711", &hints) == 0);
    event = next(events);
    CHECK((int)event->event == ADDRINFO_ERROR && event->status != 0);
    CHECK(rdma_ack_cm_event(event) == 0);
    CHECK(query(id, &info) == -1 && errno == EINVAL);
    hints.ai_flags |= 0x20; /* RAI_DNS, which is the default. */
    NEED(resolve(id, "127.0.0.1", NULL, &hints) == 0);
    CHECK(rdma_ack_cm_event(next(events)) == 0 && query(id, &info) == 0);
    rdma_freeaddrinfo(info);
    hints.ai_flags = 0x10; /* RAI_SA */
    CHECK(resolve(id, NULL, "4711", &hints) == -1 && errno == EOPNOTSUPP);
    CHECK(!is_readable(events->fd, 0));

    NEED(write_event(id, USER, -7, 0x123456789abcdef0) == 0 && is_readable(events->fd, 10000));
    event = next(events);
    CHECK((int)event->event == USER && event->status == -7 && event->id == id);
    CHECK(*(uint64_t *)&event->param == 0x123456789abcdef0);
    CHECK(strcmp(rdma_event_str(event->event), "RDMA_CM_EVENT_USER") == 0);
    CHECK(rdma_ack_cm_event(event) == 0);
    CHECK(write_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0) == -1 && errno == EINVAL);
    CHECK(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(events);
}

int main(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    NEED(devices && devices[0]);
    struct ibv_context *context = ibv_open_device(devices[0]);
    NEED(context);
    refused();
    regions(context);
    speed(context);
    of_identifiers();
    CHECK(ibv_close_device(context) == 0);
    ibv_free_device_list(devices);
    return done();
}
