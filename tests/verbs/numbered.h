/* Queue pairs that the program connects by their numbers. */
#ifndef NUMBERED_H
#define NUMBERED_H

#include "common.h"

#include <time.h>

/* One queue pair with what it needs. */
struct numbered {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *memory;
};

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static inline struct ibv_context *open_first(void)
{
    struct ibv_device **devices;
    struct ibv_context *context;
    NEED((devices = ibv_get_device_list(NULL)) && devices[0] && (context = ibv_open_device(devices[0])));
    ibv_free_device_list(devices);
    return context;
}

static inline struct ibv_qp *make_numbered_qp(struct ibv_pd *pd, struct ibv_cq *cq, int depth)
{
    struct ibv_qp *qp;
    struct ibv_qp_init_attr attributes = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
        .cap = { .max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    NEED(qp = ibv_create_qp(pd, &attributes));
    return qp;
}

static inline void make_numbered(struct numbered *end, struct ibv_pd *pd)
{
    NEED(end->cq = ibv_create_cq(pd->context, 4 * DEPTH, NULL, NULL, 0));
    end->qp = make_numbered_qp(pd, end->cq, DEPTH);
    NEED(posix_memalign((void **)&end->memory, 4096, MEMORY) == 0);
    memset(end->memory, 0, MEMORY);
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    NEED(end->mr = ibv_reg_mr(pd, end->memory, MEMORY, access));
}

static inline void to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 7 };
    NEED(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
}

/* The queue pair has the address of this row of the table of GIDs, and its peer that of the other row. */
static inline void to_rtr(struct ibv_qp *qp, int row, uint32_t number, int peer_row)
{
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = number, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
        .ah_attr = { .is_global = 1, .port_num = 1, .grh.sgid_index = row },
    };
    NEED(ibv_query_gid(qp->context, 1, peer_row, &rtr.ah_attr.grh.dgid) == 0);
    NEED(ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
}

/* A request waits 16.384 us * 2^timeout * 8 for its connection. */
static inline void to_rts_within(struct ibv_qp *qp, uint8_t timeout)
{
    struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
    NEED(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN
        | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static inline void to_rts(struct ibv_qp *qp)
{
    to_rts_within(qp, 14);
}

/* From RESET to RTS. */
static inline void connect_qp(struct ibv_qp *qp, int row, uint32_t number, int peer_row)
{
    to_init(qp);
    to_rtr(qp, row, number, peer_row);
    to_rts(qp);
}

/* A queue pair for datagrams in RTS, with this Q_Key. */
static inline void make_datagrams(struct numbered *end, struct ibv_pd *pd, uint32_t key)
{
    NEED(end->cq = ibv_create_cq(pd->context, 4 * DEPTH, NULL, NULL, 0));
    struct ibv_qp_init_attr attributes = {
        .send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_UD, .sq_sig_all = 1,
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    NEED(end->qp = ibv_create_qp(pd, &attributes));
    NEED(posix_memalign((void **)&end->memory, 4096, MEMORY) == 0);
    NEED(end->mr = ibv_reg_mr(pd, end->memory, MEMORY, IBV_ACCESS_LOCAL_WRITE));
    struct ibv_qp_attr state = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = key };
    NEED(ibv_modify_qp(end->qp, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    state.qp_state = IBV_QPS_RTR;
    NEED(ibv_modify_qp(end->qp, &state, IBV_QP_STATE) == 0);
    state.qp_state = IBV_QPS_RTS;
    NEED(ibv_modify_qp(end->qp, &state, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

/* A request for the first `length` octets of the memory of `from`. */
static inline int post_numbered(struct numbered *from, enum ibv_wr_opcode opcode, uint32_t length, uint64_t to, uint32_t rkey)
{
    struct ibv_sge sge = { .addr = (uintptr_t)from->memory, .length = length, .lkey = from->mr->lkey };
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = opcode, .wr.rdma = { .remote_addr = to, .rkey = rkey },
    }, *bad;
    return ibv_post_send(from->qp, &wr, &bad);
}

static inline int receive_numbered(struct numbered *end, uint32_t length)
{
    struct ibv_sge sge = { .addr = (uintptr_t)end->memory, .length = length, .lkey = end->mr->lkey };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
    return ibv_post_recv(end->qp, &wr, &bad);
}

/* Resident octets of this process. */
static inline long resident(void)
{
    FILE *file;
    long whole, pages;
    NEED(file = fopen("/proc/self/statm", "r"));
    NEED(fscanf(file, "%ld %ld", &whole, &pages) == 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Whole values through a pipe or a socket, to and from another process. */
static inline void tell(int fd, const void *value, size_t length)
{
    NEED(write(fd, value, length) == (ssize_t)length);
}

static inline void hear(int fd, void *value, size_t length)
{
    for (size_t got = 0; got < length;) {
        ssize_t some = read(fd, (char *)value + got, length - got);
        NEED(some > 0);
        got += some;
    }
}

#endif
