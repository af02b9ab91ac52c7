/*
 * Calls that block are cancellation points: a thread that is cancelled before the call, or in it, ends. The event for which it has waited
 * is there for another thread, and no lock stays taken. A thread that is cancelled when its event arrives either has the event or leaves it.
 */
#define _GNU_SOURCE
#include "common.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

/* A thread that does not end in this time hangs. */
enum { HANG = 100 };
/* How often a thread is cancelled just when its event arrives. */
enum { ROUNDS = 300 };
enum { THREADS = 5 };

static const char *step = "";

static void hangs(int number)
{
    (void)number;
    if (write(STDOUT_FILENO, step, strlen(step)) < 0 || write(STDOUT_FILENO, " hangs\n", 7) < 0)
        _exit(3);
    _exit(2);
}

/* A call that blocks. */
struct call {
    const char *name;
    /* Returns 0 if it has got an event, which it acknowledges. */
    int (*get)(void *of);
    void *of;
};

struct waiting {
    struct call call;
    int is_disabled;
    sem_t may_call;
    atomic_int thread, has_got, has_cleaned;
    pthread_t is;
};

static int get_cm_event(void *of)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(of, &event) != 0)
        return -1;
    return rdma_ack_cm_event(event);
}

static int get_cq_event(void *of)
{
    struct ibv_cq *cq;
    void *context;
    if (ibv_get_cq_event(of, &cq, &context) != 0)
        return -1;
    ibv_ack_cq_events(cq, 1);
    return 0;
}

static int get_async_event(void *of)
{
    struct ibv_async_event event;
    if (ibv_get_async_event(of, &event) != 0)
        return -1;
    ibv_ack_async_event(&event);
    return 0;
}

static int get_request(void *of)
{
    struct rdma_cm_id *id;
    if (rdma_get_request(of, &id) != 0)
        return -1;
    return rdma_destroy_id(id);
}

static void cleans(void *argument)
{
    ((struct waiting *)argument)->has_cleaned = 1;
}

static void *waits(void *argument)
{
    struct waiting *waiting = argument;
    if (waiting->is_disabled)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_push(cleans, argument);
    /* No cancellation point, unlike sem_wait. */
    while (sem_trywait(&waiting->may_call) != 0)
        sched_yield();
    waiting->thread = syscall(SYS_gettid);
    if (waiting->call.get(waiting->call.of) == 0)
        waiting->has_got = 1;
    pthread_cleanup_pop(0);
    return NULL;
}

static struct waiting *start(struct call call, int is_disabled)
{
    struct waiting *waiting = calloc(1, sizeof *waiting);
    waiting->call = call;
    waiting->is_disabled = is_disabled;
    sem_init(&waiting->may_call, 0, 0);
    NEED(pthread_create(&waiting->is, NULL, waits, waiting) == 0);
    return waiting;
}

/* Until the thread sleeps in the system. */
static void until_blocked(struct waiting *waiting)
{
    char path[64], text[256] = "";
    while (waiting->thread == 0)
        sched_yield();
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", waiting->thread);
    for (int sleeping = 0; sleeping < 20;) {
        FILE *file = fopen(path, "r");
        NEED(file);
        NEED(fgets(text, sizeof text, file));
        fclose(file);
        char *state = strrchr(text, ')');
        sleeping = state && state[2] == 'S' ? sleeping + 1 : 0;
        sched_yield();
    }
}

/* Joins the thread. Returns true if it was cancelled, and has run its cleanup handler. */
static int was_cancelled(struct waiting *waiting, int *has_got)
{
    void *result;
    step = waiting->call.name;
    alarm(HANG);
    NEED(pthread_join(waiting->is, &result) == 0);
    alarm(0);
    if (has_got)
        *has_got = waiting->has_got;
    int cancelled = result == PTHREAD_CANCELED;
    CHECK(cancelled == waiting->has_cleaned);
    free(waiting);
    return cancelled;
}

static void cancel_before(struct call call)
{
    struct waiting *waiting = start(call, 0);
    NEED(pthread_cancel(waiting->is) == 0);
    sem_post(&waiting->may_call);
    int has_got;
    CHECK(was_cancelled(waiting, &has_got) && !has_got);
}

/* Several threads at once: they sleep in different ways. */
static void cancel_during(struct call call)
{
    struct waiting *all[THREADS];
    for (int index = 0; index < THREADS; index++) {
        all[index] = start(call, 0);
        sem_post(&all[index]->may_call);
        until_blocked(all[index]);
    }
    for (int index = 0; index < THREADS; index++)
        NEED(pthread_cancel(all[index]->is) == 0);
    for (int index = 0; index < THREADS; index++) {
        int has_got;
        CHECK(was_cancelled(all[index], &has_got) && !has_got);
    }
}

/* Cancels a thread of several. The others get the events. */
static void cancel_one_of(struct call call, void (*make_event)(void))
{
    struct waiting *all[THREADS];
    for (int index = 0; index < THREADS; index++) {
        all[index] = start(call, 0);
        sem_post(&all[index]->may_call);
        until_blocked(all[index]);
    }
    NEED(pthread_cancel(all[0]->is) == 0);
    CHECK(was_cancelled(all[0], NULL));
    for (int index = 1; index < THREADS; index++) {
        make_event();
        step = call.name;
        alarm(HANG);
        for (int got = 0; got < index; sched_yield()) {
            got = 0;
            for (int other = 1; other < THREADS; other++)
                got += all[other]->has_got;
        }
        alarm(0);
    }
    for (int index = 1; index < THREADS; index++)
        CHECK(!was_cancelled(all[index], NULL));
}

/* With cancellation switched off, the call ends with its event alone. */
static void cancel_disabled(struct call call, void (*make_event)(void))
{
    struct waiting *waiting = start(call, 1);
    sem_post(&waiting->may_call);
    until_blocked(waiting);
    NEED(pthread_cancel(waiting->is) == 0);
    until_blocked(waiting);
    make_event();
    int has_got;
    CHECK(!was_cancelled(waiting, &has_got) && has_got);
}

/* The event and the cancellation come at the same time: each event is received once, by the thread or afterwards. */
static void cancel_beside(struct call call, void (*make_event)(void))
{
    int by_thread = 0, afterwards = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct waiting *waiting = start(call, 0);
        sem_post(&waiting->may_call);
        if (round % 4)
            until_blocked(waiting);
        if (round % 2)
            make_event();
        for (int pause = rand() % 2000; pause > 0; pause--)
            __asm__ volatile("" ::: "memory");
        NEED(pthread_cancel(waiting->is) == 0);
        if (round % 2 == 0)
            make_event();
        int has_got;
        was_cancelled(waiting, &has_got);
        by_thread += has_got;
        if (!has_got) {
            step = "an event is lost:";
            alarm(HANG);
            CHECK(call.get(call.of) == 0);
            alarm(0);
            afterwards++;
        }
    }
    CHECK(by_thread + afterwards == ROUNDS);
}

static struct pair pair;

/* The completion stays in its queue until the next one, because a completion that was polled before makes no event. */
static void complete(void)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(pair.server.cq, 1, &wc) == 1)
        CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(post_receive(&pair.server, 1, 0, 100) == 0);
    CHECK(ibv_req_notify_cq(pair.server.cq, 0) == 0);
    CHECK(post_send(&pair.client, 2, 0, 100, IBV_SEND_SIGNALED) == 0);
    CHECK(completes(pair.client.cq, 2, IBV_WC_SUCCESS));
}

static struct ibv_srq *srq;

/* A shared queue below its limit. */
static void fall_below(void)
{
    struct ibv_srq_attr attributes = { .srq_limit = 1 };
    CHECK(ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT) == 0);
}

static struct rdma_cm_id *resolving;

static void resolve_again(void)
{
    struct sockaddr_in address = loopback(1);
    if (resolving)
        CHECK(rdma_destroy_id(resolving) == 0);
    CHECK(rdma_create_id(pair.client.events, &resolving, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_resolve_addr(resolving, NULL, (struct sockaddr *)&address, 2000) == 0);
}

static struct rdma_cm_id *listener;

static struct end asking;

static void leave_asked(void)
{
    if (!asking.id)
        return;
    rdma_destroy_qp(asking.id);
    CHECK(rdma_destroy_id(asking.id) == 0);
    rdma_destroy_event_channel(asking.events);
    asking.id = NULL;
}

static void ask(void)
{
    struct rdma_conn_param with = parameters();
    struct ibv_qp_init_attr attributes = {
        .send_cq = pair.client.cq, .recv_cq = pair.client.cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    leave_asked();
    resolve(&asking, ntohs(rdma_get_src_port(listener)));
    NEED(rdma_create_qp(asking.id, pair.client.pd, &attributes) == 0);
    NEED(rdma_connect(asking.id, &with) == 0);
}

int main(void)
{
    signal(SIGALRM, hangs);
    make_pair(&pair);
    struct ibv_srq_init_attr attributes = { .attr = { .max_wr = 4, .max_sge = 1 } };
    NEED(srq = ibv_create_srq(pair.server.pd, &attributes));
    struct sockaddr_in address = loopback(0);
    NEED(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) == 0);
    NEED(rdma_bind_addr(listener, (struct sockaddr *)&address) == 0);
    NEED(rdma_listen(listener, 64) == 0);

    struct {
        struct call call;
        void (*make_event)(void);
    } calls[] = {
        { { "ibv_get_cq_event", get_cq_event, pair.server.channel }, complete },
        { { "ibv_get_async_event", get_async_event, srq->context }, fall_below },
        { { "rdma_get_cm_event", get_cm_event, pair.client.events }, resolve_again },
        { { "rdma_get_request", get_request, listener }, ask },
    };
    for (size_t index = 0; index < sizeof calls / sizeof *calls; index++) {
        cancel_before(calls[index].call);
        cancel_during(calls[index].call);
        cancel_one_of(calls[index].call, calls[index].make_event);
        cancel_disabled(calls[index].call, calls[index].make_event);
        cancel_beside(calls[index].call, calls[index].make_event);
    }
    CHECK(completes(pair.server.cq, 1, IBV_WC_SUCCESS));
    exchange(&pair.client, &pair.server, 'x');
    if (resolving)
        CHECK(rdma_destroy_id(resolving) == 0);
    leave_asked();
    CHECK(ibv_destroy_srq(srq) == 0);
    CHECK(rdma_destroy_id(listener) == 0);
    break_pair(&pair);
    return done();
}
