/* Sends with a number by librpma, from both ends, each right behind the event of the connection. */
#include "common.h"

#include <librpma.h>
#include <pthread.h>

enum { LENGTH = 64, CONNECTIONS = 100 };

static const char *address = "127.0.0.1";
static char port[16];
static pthread_barrier_t is_listening;

struct side {
    struct rpma_peer *peer;
    struct rpma_mr_local *mr;
    char *memory;
};

static void make_side(struct side *side, enum rpma_util_ibv_context_type type)
{
    struct ibv_context *context;
    NEED(rpma_utils_get_ibv_context(address, type, &context) == 0);
    NEED(rpma_peer_new(context, &side->peer) == 0);
    NEED(posix_memalign((void **)&side->memory, 4096, 4096) == 0);
    NEED(rpma_mr_reg(side->peer, side->memory, 4096, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &side->mr) == 0);
}

static struct ibv_wc next(struct rpma_conn *conn)
{
    struct rpma_cq *cq;
    struct ibv_wc wc;
    NEED(rpma_conn_get_cq(conn, &cq) == 0);
    NEED(rpma_cq_wait(cq) == 0 && rpma_cq_get_wc(cq, 1, &wc, NULL) == 0);
    return wc;
}

/* Sends one message with this number, and gets one with the other. */
static void exchange_numbers(struct side *side, struct rpma_conn *conn, uint32_t own, uint32_t other)
{
    memset(side->memory, (char)own, LENGTH);
    CHECK(rpma_send_with_imm(conn, side->mr, 0, LENGTH, RPMA_F_COMPLETION_ALWAYS, own, NULL) == 0);
    for (int count = 0; count < 2; count++) {
        struct ibv_wc wc = next(conn);
        CHECK(wc.status == IBV_WC_SUCCESS);
        if (wc.opcode != IBV_WC_RECV)
            continue;
        CHECK(wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == htonl(other) && wc.byte_len == LENGTH);
        CHECK(side->memory[1024] == (char)other && side->memory[1024 + LENGTH - 1] == (char)other);
    }
}

static struct rpma_conn *established(struct side *side, struct rpma_conn_req *request)
{
    enum rpma_conn_event event;
    struct rpma_conn *conn;
    NEED(rpma_conn_req_recv(request, side->mr, 1024, LENGTH, NULL) == 0);
    NEED(rpma_conn_req_connect(&request, NULL, &conn) == 0);
    NEED(rpma_conn_next_event(conn, &event) == 0 && event == RPMA_CONN_ESTABLISHED);
    return conn;
}

static void *serve(void *unused)
{
    struct side side;
    struct rpma_ep *endpoint;
    enum rpma_conn_event event;
    make_side(&side, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    NEED(rpma_ep_listen(side.peer, address, port, &endpoint) == 0);
    pthread_barrier_wait(&is_listening);
    for (int round = 0; round < CONNECTIONS; round++) {
        struct rpma_conn_req *request;
        NEED(rpma_ep_next_conn_req(endpoint, NULL, &request) == 0);
        struct rpma_conn *conn = established(&side, request);
        exchange_numbers(&side, conn, 2000 + round, 1000 + round);
        NEED(rpma_conn_next_event(conn, &event) == 0 && event == RPMA_CONN_CLOSED);
        NEED(rpma_conn_disconnect(conn) == 0 && rpma_conn_delete(&conn) == 0);
    }
    NEED(rpma_ep_shutdown(&endpoint) == 0 && rpma_mr_dereg(&side.mr) == 0 && rpma_peer_delete(&side.peer) == 0);
    return unused;
}

int main(int argc, char **argv)
{
    struct side side;
    pthread_t server;
    enum rpma_conn_event event;
    NEED(argc == 2);
    snprintf(port, sizeof port, "%s", argv[1]);
    NEED(pthread_barrier_init(&is_listening, NULL, 2) == 0);
    NEED(pthread_create(&server, NULL, serve, NULL) == 0);
    pthread_barrier_wait(&is_listening);
    make_side(&side, RPMA_UTIL_IBV_CONTEXT_REMOTE);
    for (int round = 0; round < CONNECTIONS; round++) {
        struct rpma_conn_req *request;
        NEED(rpma_conn_req_new(side.peer, address, port, NULL, &request) == 0);
        struct rpma_conn *conn = established(&side, request);
        exchange_numbers(&side, conn, 1000 + round, 2000 + round);
        NEED(rpma_conn_disconnect(conn) == 0);
        NEED(rpma_conn_next_event(conn, &event) == 0 && event == RPMA_CONN_CLOSED);
        NEED(rpma_conn_delete(&conn) == 0);
    }
    NEED(pthread_join(server, NULL) == 0);
    NEED(rpma_mr_dereg(&side.mr) == 0 && rpma_peer_delete(&side.peer) == 0);
    return done();
}
