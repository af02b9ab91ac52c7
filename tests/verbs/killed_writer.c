/* A peer is killed while its Writes are under way. Our Receives stay posted, our queue pair stays in RTS, and a request of ours fails. After
   RESET the queue pair connects to the next peer. */
#include "numbered.h"

#include <signal.h>

enum { ROUNDS = 20, LENGTH = 1 << 18 };

/* What the two processes tell each other: a queue pair and its memory. */
struct about {
    uint32_t number, rkey;
    uint64_t memory;
};

static struct about about(struct numbered *end)
{
    return (struct about){ end->qp->qp_num, end->mr->rkey, (uintptr_t)end->memory };
}

/* Writes until it is killed. */
static int writer(int fd)
{
    struct ibv_pd *pd;
    struct numbered end;
    struct about peer;
    NEED(pd = ibv_alloc_pd(open_first()));
    make_numbered(&end, pd);
    struct about own = about(&end);
    tell(fd, &own, sizeof own);
    hear(fd, &peer, sizeof peer);
    connect_qp(end.qp, 0, peer.number, 0);
    for (int posted = 0, octet = 1;;) {
        for (; posted < DEPTH; posted++) {
            end.memory[0] = end.memory[LENGTH - 1] = octet++;
            NEED(post_numbered(&end, IBV_WR_RDMA_WRITE, LENGTH, peer.memory, peer.rkey) == 0);
        }
        NEED(completion(end.cq).status == IBV_WC_SUCCESS);
        posted--;
    }
}

static void survive(struct numbered *end)
{
    int fds[2];
    struct about peer, own = about(end);
    NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    pid_t child = start_self("writer", fds[1]);
    close(fds[1]);
    hear(fds[0], &peer, sizeof peer);
    memset(end->memory, 0, MEMORY);
    connect_qp(end->qp, 0, peer.number, 0);
    CHECK(receive_numbered(end, 8) == 0);
    tell(fds[0], &own, sizeof own);

    /* The program polls nothing, and looks at its memory alone. */
    volatile char *first = end->memory;
    while (!*first)
        ;
    NEED(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    close(fds[0]);

    CHECK(post_numbered(end, IBV_WR_RDMA_READ, 8, peer.memory, peer.rkey) == 0);
    /* The Read fails first, and only then the Receive is flushed. */
    struct ibv_wc failed = completion(end->cq);
    CHECK(failed.status == IBV_WC_RETRY_EXC_ERR && failed.opcode != IBV_WC_RECV);
    CHECK(completion(end->cq).status == IBV_WC_WR_FLUSH_ERR);
    struct ibv_qp_attr found, reset = { .qp_state = IBV_QPS_RESET };
    struct ibv_qp_init_attr made;
    CHECK(ibv_query_qp(end->qp, &found, IBV_QP_STATE, &made) == 0 && found.qp_state == IBV_QPS_ERR);
    NEED(ibv_modify_qp(end->qp, &reset, IBV_QP_STATE) == 0);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return writer(atoi(argv[2]));
    struct ibv_pd *pd;
    static struct numbered end;
    NEED(pd = ibv_alloc_pd(open_first()));
    make_numbered(&end, pd);
    for (int round = 0; round < ROUNDS; round++)
        survive(&end);
    return done();
}
