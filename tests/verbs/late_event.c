/*
 * A completion queue is destroyed while the library's thread delivers its event: ibv_destroy_cq returns, and no event of the queue comes
 * afterwards.
 *
 * "late_event ROUNDS": one round is one connection. Everything runs on one processor, and the library's thread as the system's idle class.
 * So the timer that ends the nap of the main thread interrupts the library's thread anywhere, also between a completion and its event.
 */
#define _GNU_SOURCE
#include "common.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

/* A round that takes longer hangs, on the slowest machine. */
enum { HANG = 100 };
/* Receives that the end of the connection flushes: more than are placed at a time. */
enum { RECEIVES = 43 };
/* The nap: about as long as the library takes until it places the first completion. In nanoseconds. */
enum { NAP = 30000, NAP_RANGE = 30000 };
/* The peer leaves first, and keeps the address for a minute. Several listeners have several times as many addresses. */
enum { LISTENERS = 4 };

static struct rdma_cm_id *listeners[LISTENERS];
static sem_t leave, left_alone;
static long rounds;

static void hangs(int number)
{
    static const char what[] = "a call never returns, of a round that ends with ibv_destroy_cq\n";
    (void)number;
    _exit(write(STDOUT_FILENO, what, sizeof what - 1) < 0 ? 3 : 2);
}

/* Keeps this process on the first processor that it may use. */
static void bind_to_one(void)
{
    cpu_set_t allowed, first;
    NEED(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed))
        cpu++;
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    NEED(sched_setaffinity(0, sizeof first, &first) == 0);
}

/* The library's thread runs when no other wants to. */
static void make_library_idle(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int found = 0;
    NEED(tasks);
    while ((task = readdir(tasks))) {
        char path[300], name[20] = "";
        struct sched_param none = { 0 };
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        if (fgets(name, sizeof name, file) && strncmp(name, "softnd", 6) == 0) {
            NEED(sched_setscheduler(atoi(task->d_name), SCHED_IDLE, &none) == 0);
            found = 1;
        }
        fclose(file);
    }
    closedir(tasks);
    NEED(found);
}

static void make_queue_pair(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attributes = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 4, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    NEED(rdma_create_qp(id, pd, &attributes) == 0);
}

/* Accepts one connection after the other, and leaves each when it is told to. */
static void *accepts(void *nothing)
{
    for (long round = 0; round < rounds; round++) {
        struct rdma_cm_id *id;
        struct ibv_cq *cq;
        NEED(rdma_get_request(listeners[round % LISTENERS], &id) == 0);
        NEED(cq = ibv_create_cq(id->verbs, DEPTH, NULL, NULL, 0));
        make_queue_pair(id, id->pd, cq);
        NEED(rdma_accept(id, NULL) == 0);
        sem_wait(&leave);
        rdma_disconnect(id);
        sem_wait(&left_alone);
        rdma_destroy_qp(id);
        NEED(ibv_destroy_cq(cq) == 0);
        NEED(rdma_destroy_id(id) == 0);
    }
    return nothing;
}

/* Takes all completions, then the event if it is there, and destroys the queue. */
static void end_queue(struct rdma_cm_id *id, struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
    struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
    struct ibv_wc wc[16];
    struct ibv_cq *of;
    void *context;
    unsigned events = 0;
    ibv_modify_qp(id->qp, &error, IBV_QP_STATE);
    for (int taken = 0, polls = 0; taken < RECEIVES && polls < 4096; polls++)
        taken += ibv_poll_cq(cq, 16, wc);
    rdma_destroy_qp(id);
    while (ibv_get_cq_event(channel, &of, &context) == 0) {
        CHECK(of == cq && context == id);
        events++;
    }
    if (events > 0)
        ibv_ack_cq_events(cq, events);
    CHECK(ibv_destroy_cq(cq) == 0);
    usleep(300);
    CHECK(!is_readable(channel->fd, 0));
    CHECK(ibv_get_cq_event(channel, &of, &context) == -1 && errno == EAGAIN);
}

static void play(int round, unsigned *seed)
{
    struct sockaddr_in address = loopback(ntohs(rdma_get_src_port(listeners[round % LISTENERS])));
    static char memory[64];
    struct rdma_cm_id *id;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_wc wc;
    NEED(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
    NEED(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 2000) == 0);
    NEED(rdma_resolve_route(id, 2000) == 0);
    NEED(channel = ibv_create_comp_channel(id->verbs));
    NEED(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
    NEED(cq = ibv_create_cq(id->verbs, DEPTH, id, channel, 0));
    NEED(mr = ibv_reg_mr(id->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE));
    make_queue_pair(id, id->pd, cq);
    struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 4, .lkey = mr->lkey };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
    for (int receive = 0; receive < RECEIVES; receive++)
        NEED(ibv_post_recv(id->qp, &wr, &bad) == 0);
    NEED(rdma_connect(id, NULL) == 0);
    NEED(ibv_req_notify_cq(cq, 0) == 0);
    NEED(ibv_poll_cq(cq, 1, &wc) == 0);
    if (round == 0)
        make_library_idle();

    struct timespec nap = { .tv_nsec = NAP + rand_r(seed) % NAP_RANGE };
    sem_post(&leave);
    nanosleep(&nap, NULL);
    end_queue(id, channel, cq);

    NEED(ibv_dereg_mr(mr) == 0);
    CHECK(ibv_destroy_comp_channel(channel) == 0);
    sem_post(&left_alone);
    rdma_disconnect(id);
    NEED(rdma_destroy_id(id) == 0);
}

int main(int argc, char **argv)
{
    pthread_t server;
    unsigned seed = 1;
    rounds = argc > 1 ? atol(argv[1]) : 100;
    setvbuf(stdout, NULL, _IOLBF, 0);
    bind_to_one();
    signal(SIGALRM, hangs);
    prctl(PR_SET_TIMERSLACK, 1UL);
    sem_init(&leave, 0, 0);
    sem_init(&left_alone, 0, 0);
    for (int index = 0; index < LISTENERS; index++) {
        struct sockaddr_in address = loopback(0);
        NEED(rdma_create_id(NULL, &listeners[index], NULL, RDMA_PS_TCP) == 0);
        NEED(rdma_bind_addr(listeners[index], (struct sockaddr *)&address) == 0);
        NEED(rdma_listen(listeners[index], 8) == 0);
    }
    NEED(pthread_create(&server, NULL, accepts, NULL) == 0);
    for (long round = 0; round < rounds; round++) {
        alarm(HANG);
        play(round, &seed);
    }
    pthread_join(server, NULL);
    alarm(0);
    for (int index = 0; index < LISTENERS; index++)
        NEED(rdma_destroy_id(listeners[index]) == 0);
    return done();
}
