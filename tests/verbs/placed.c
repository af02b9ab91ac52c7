/* A Write that is done is in the peer's memory: the writer tells the reader over TCP, and the reader finds the data at once. Over rdma_cm and with
 * numbers that the programs exchange, with a completion of the Write itself, of an empty Write behind it, and of a Send behind it. */
#include "common.h"

#include <sys/socket.h>

enum { LONGEST = 64 << 10, RECEIVES = 32 };

/* What the programs tell each other. */
struct greeting {
    uint32_t qp_num, rkey;
    uint64_t address;
    union ibv_gid gid;
};

static void say(int tcp, const void *octets, size_t count)
{
    NEED(send(tcp, octets, count, MSG_NOSIGNAL) == (ssize_t)count);
}

static void hear(int tcp, void *octets, size_t count)
{
    NEED(recv(tcp, octets, count, MSG_WAITALL) == (ssize_t)count);
}

/* The objects of an end whose program connects its queue pair by itself. */
static struct ibv_qp *make_numbered(struct end *end)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    NEED(devices && devices[0]);
    struct ibv_context *context = ibv_open_device(devices[0]);
    NEED(context);
    ibv_free_device_list(devices);
    NEED(end->pd = ibv_alloc_pd(context));
    NEED(end->cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0));
    NEED(posix_memalign((void **)&end->memory, 4096, MEMORY) == 0);
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    NEED(end->mr = ibv_reg_mr(end->pd, end->memory, MEMORY, access));
    struct ibv_qp_init_attr attributes = {
        .send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct ibv_qp *qp = ibv_create_qp(end->pd, &attributes);
    NEED(qp);
    return qp;
}

static void connect_numbered(struct ibv_qp *qp, const struct greeting *peer)
{
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    };
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .min_rnr_timer = 12,
        .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = peer->gid, .hop_limit = 1 } },
    };
    /* No Read: the confirmations need none. */
    struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 };
    NEED(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    NEED(ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC
        | IBV_QP_MIN_RNR_TIMER) == 0);
    NEED(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN
        | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* Exchanges greetings, and connects if the queue pairs are not connected by rdma_cm. */
static struct greeting greet(struct end *end, struct ibv_qp *qp, int is_numbered, int tcp)
{
    struct greeting own = { .qp_num = qp->qp_num, .rkey = end->mr->rkey, .address = (uintptr_t)end->memory }, peer;
    if (is_numbered)
        NEED(ibv_query_gid(qp->context, 1, 0, &own.gid) == 0);
    say(tcp, &own, sizeof own);
    hear(tcp, &peer, sizeof peer);
    if (is_numbered)
        connect_numbered(qp, &peer);
    return peer;
}

static void receive(struct ibv_qp *qp)
{
    struct ibv_recv_wr wr = { 0 }, *bad;
    NEED(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* What the Write of a round leaves. */
static int length_of(int round)
{
    static const int lengths[] = { 8, 1, 4096, LONGEST };
    return lengths[round / 3 % 4];
}

static char octet_of(int round)
{
    return (char)(round % 251 + 1);
}

/* Says of each round whether the data is there. */
static int reader(int is_numbered, int tcp)
{
    static struct end end;
    struct ibv_qp *qp;
    if (is_numbered) {
        qp = make_numbered(&end);
    } else {
        int port;
        hear(tcp, &port, sizeof port);
        connect_to(&end, port, NULL, 0);
        event_is(end.events, RDMA_CM_EVENT_ESTABLISHED);
        qp = end.id->qp;
    }
    greet(&end, qp, is_numbered, tcp);
    for (int index = 0; index < RECEIVES; index++)
        receive(qp);
    for (int round; hear(tcp, &round, sizeof round), round >= 0;) {
        char is_there = 1;
        for (int at = 0; at < length_of(round); at++)
            is_there &= end.memory[at] == octet_of(round);
        say(tcp, &is_there, 1);
        struct ibv_wc wc;
        while (ibv_poll_cq(end.cq, 1, &wc) == 1)
            receive(qp);
    }
    return 0;
}

static void post(struct ibv_qp *qp, const struct ibv_sge *sge, const struct greeting *peer, enum ibv_wr_opcode opcode, int flags)
{
    struct ibv_sge copy = sge ? *sge : (struct ibv_sge){ 0 };
    struct ibv_send_wr wr = {
        .wr_id = 1, .sg_list = &copy, .num_sge = sge != NULL, .opcode = opcode, .send_flags = flags,
        .wr.rdma = { .remote_addr = peer->address, .rkey = peer->rkey },
    }, *bad;
    NEED(ibv_post_send(qp, &wr, &bad) == 0);
}

/* Returns the number of rounds in which the reader did not find the data. */
static int rounds_missed(int is_numbered, int rounds)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *cm = listen_at(events);
    int port = ntohs(rdma_get_src_port(cm)), listener = socket(AF_INET, SOCK_STREAM, 0);
    NEED(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0);
    NEED(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pid_t child = start_self(is_numbered ? "numbers" : "cm", ntohs(address.sin_port));
    int tcp = accept(listener, NULL, NULL);
    NEED(tcp >= 0);
    static struct end ends[2];
    struct end *end = &ends[is_numbered];
    struct ibv_qp *qp;
    if (is_numbered) {
        qp = make_numbered(end);
    } else {
        say(tcp, &port, sizeof port);
        accept_from(end, events, NULL, 0);
        event_is(end->events, RDMA_CM_EVENT_ESTABLISHED);
        qp = end->id->qp;
    }
    struct greeting peer = greet(end, qp, is_numbered, tcp);
    int missed = 0;
    for (int round = 0; round < rounds; round++) {
        struct ibv_sge sge = { .addr = (uintptr_t)end->memory, .length = length_of(round), .lkey = end->mr->lkey };
        memset(end->memory, octet_of(round), sge.length);
        int kind = round % 3;
        post(qp, &sge, &peer, IBV_WR_RDMA_WRITE, kind == 0 ? IBV_SEND_SIGNALED : 0);
        if (kind > 0)
            post(qp, NULL, &peer, kind == 1 ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, IBV_SEND_SIGNALED);
        NEED(completes(end->cq, 1, IBV_WC_SUCCESS));
        char is_there;
        say(tcp, &round, sizeof round);
        hear(tcp, &is_there, 1);
        missed += !is_there;
    }
    int last = -1;
    say(tcp, &last, sizeof last);
    CHECK(exit_of(child) == 0);
    return missed;
}

int main(int count, char **arguments)
{
    if (count > 2) {
        struct sockaddr_in address = loopback(atoi(arguments[2]));
        int tcp = socket(AF_INET, SOCK_STREAM, 0);
        NEED(connect(tcp, (struct sockaddr *)&address, sizeof address) == 0);
        return reader(strcmp(arguments[1], "numbers") == 0, tcp);
    }
    int rounds = count > 1 ? atoi(arguments[1]) : 1000;
    for (int is_numbered = 0; is_numbered < 2; is_numbered++) {
        int missed = rounds_missed(is_numbered, rounds);
        if (missed) {
            printf("%s: in %d of %d rounds the reader did not find the data\n", is_numbered ? "numbers" : "rdma_cm", missed, rounds);
            failures++;
        }
    }
    return done();
}
