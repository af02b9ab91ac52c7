/* What was posted before the end of a program arrives. */
#define _GNU_SOURCE
#include "common.h"

/* More than the sockets hold while the peer has no Receives. */
enum { COUNT = 60, LEN = 128 << 10, TOLD = 99 };

static struct pair late;

/* The program uses its connection and destroys its objects while it ends. */
static void at_end(void)
{
    struct ibv_wc wc;
    ibv_poll_cq(late.client.cq, 1, &wc);
    post_send(&late.client, 1, 0, 100, IBV_SEND_SIGNALED);
    break_pair(&late);
}

/* Posts, and ends without looking for completions: by a return from main, or by exit in another function. */
static int sender(const char *role, int port)
{
    static struct end end;
    connect_to(&end, port, NULL, 0);
    event_is(end.events, RDMA_CM_EVENT_ESTABLISHED);
    for (int index = 0; index < COUNT; index++) {
        int offset = index % 8 * LEN;
        memset(end.memory + offset, 'x', LEN);
        NEED(post_send(&end, index, offset, LEN, 0) == 0);
    }
    NEED(write(TOLD, "x", 1) == 1);
    if (strcmp(role, "quits") == 0)
        _exit(0);
    if (strcmp(role, "exits") == 0)
        exit(0);
    return 0;
}

static void with_sender(const char *role)
{
    struct end end = { 0 };
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *listener = listen_at(events);
    int told[2];
    char octet;
    NEED(pipe2(told, O_CLOEXEC) == 0 && dup2(told[1], TOLD) == TOLD);
    pid_t child = start_self(role, ntohs(rdma_get_src_port(listener)));
    accept_from(&end, events, NULL, 0);
    close(TOLD), close(told[1]);
    event_is(end.events, RDMA_CM_EVENT_ESTABLISHED);
    /* The sender is about to end. */
    NEED(read(told[0], &octet, 1) == 1);
    close(told[0]);
    for (int index = 0; index < COUNT; index++)
        NEED(post_receive(&end, index, index % 8 * LEN, LEN) == 0);
    for (int index = 0; index < COUNT; index++) {
        struct ibv_wc wc = completion(end.cq);
        CHECK(wc.wr_id == (unsigned)index && wc.status == IBV_WC_SUCCESS && wc.byte_len == LEN);
    }
    event_is(end.events, RDMA_CM_EVENT_DISCONNECTED);
    CHECK(exit_of(child) == 0);
    break_end(&end);
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(events);
}

int main(int count, char **arguments)
{
    if (count > 2)
        return sender(arguments[1], atoi(arguments[2]));
    if (count > 1) {
        /* To see that it can fail: nothing runs at the end of this sender. */
        with_sender("quits");
        return done();
    }
    atexit(at_end);
    make_pair(&late);
    with_sender("exits");
    with_sender("returns");
    return done();
}
