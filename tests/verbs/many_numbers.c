/* Two processes connect many pairs of queue pairs by their numbers, and then leave them idle:

       many_numbers PAIRS SECONDS          each pair exchanges one message
       many_numbers PAIRS SECONDS armed    no peer is there, so each queue pair goes on to try, less and less often in the first SECONDS

   It prints how long that took after the last change to RTR, the memory of each queue pair, and the share of a processor that a process uses
   in the SECONDS in which nothing happens. */
#include "numbered.h"

#include <sys/resource.h>
#include <sys/socket.h>

enum { DEEP_ENOUGH = 4 };

static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void barrier(int fd)
{
    char octet = 0;
    tell(fd, &octet, 1);
    hear(fd, &octet, 1);
}

int main(int argc, char **argv)
{
    NEED(argc >= 3);
    int pairs = atoi(argv[1]), seconds = atoi(argv[2]), armed = argc > 3, fds[2];
    NEED(pairs > 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    pid_t child = fork();
    NEED(child >= 0);
    int fd = fds[child == 0];
    close(fds[child != 0]);

    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    static char memory[4096];
    NEED(pd = ibv_alloc_pd(open_first()));
    NEED(cq = ibv_create_cq(pd->context, 2 * pairs + 16, NULL, NULL, 0));
    NEED(mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE));
    struct ibv_qp **qps = calloc(pairs, sizeof *qps);
    uint32_t *own = calloc(pairs, sizeof *own), *others = calloc(pairs, sizeof *others);
    long before = resident();
    for (int index = 0; index < pairs; index++) {
        qps[index] = make_numbered_qp(pd, cq, DEEP_ENOUGH);
        own[index] = qps[index]->qp_num;
    }
    /* One tells while the other hears, so that no socket's room matters. */
    if (child == 0) {
        tell(fd, own, pairs * sizeof *own);
        hear(fd, others, pairs * sizeof *others);
    } else {
        hear(fd, others, pairs * sizeof *others);
        tell(fd, own, pairs * sizeof *own);
    }
    int is_peer = child == 0 && armed;
    for (int index = 0; index < pairs; index++) {
        struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey };
        struct ibv_recv_wr receive = { .wr_id = index, .sg_list = &sge, .num_sge = 1 }, *bad;
        to_init(qps[index]);
        NEED(ibv_post_recv(qps[index], &receive, &bad) == 0);
        if (is_peer)
            continue;
        to_rtr(qps[index], 0, others[index], 0);
        /* A time that all of them have. */
        to_rts_within(qps[index], 20);
    }
    barrier(fd);
    double start = now();
    if (!armed) {
        for (int index = 0; index < pairs; index++) {
            struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey };
            struct ibv_send_wr send = { .wr_id = index, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
            NEED(ibv_post_send(qps[index], &send, &bad) == 0);
        }
        for (int left = 2 * pairs; left > 0; left--) {
            struct ibv_wc wc = completion(cq);
            if (wc.status != IBV_WC_SUCCESS) {
                printf("%s at pair %lu\n", ibv_wc_status_str(wc.status), (unsigned long)wc.wr_id);
                fflush(stdout);
                _exit(2);
            }
        }
    }
    double connected = now() - start;
    if (armed)
        sleep(seconds);
    barrier(fd);
    double used = processor_seconds(), memory_of_each = (double)(resident() - before) / pairs;
    sleep(seconds);
    used = processor_seconds() - used;
    barrier(fd);
    if (!is_peer)
        printf("%d queue pairs %s %.2f s; each has %.1f KiB; idle they use %.2f %% of a processor\n", pairs,
            armed ? "without a peer after" : "connected within", connected, memory_of_each / 1024, seconds ? 100 * used / seconds : 0);
    fflush(stdout);
    barrier(fd);
    if (child == 0)
        _exit(0);
    int status;
    NEED(waitpid(child, &status, 0) == child && status == 0);
    return done();
}
