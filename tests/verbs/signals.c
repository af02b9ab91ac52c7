/* A signal ends a blocked call with EINTR, unless every handler that the process has installed has SA_RESTART. Threads of the libraries take no
 * signal: one that the program's threads block waits for the program. */
#include "common.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t signals;
static sem_t enough;

static void on_alarm(int number)
{
    (void)number;
    if (++signals == 5)
        sem_post(&enough);
}

/* An alarm every 10 ms: one that comes before the call blocks is followed by others. */
static void alarms(int flags)
{
    struct sigaction action = { .sa_handler = on_alarm, .sa_flags = flags };
    struct itimerval often = { { 0, flags < 0 ? 0 : 10000 }, { 0, flags < 0 ? 0 : 10000 } };
    if (flags >= 0)
        NEED(sigaction(SIGALRM, &action, NULL) == 0);
    signals = 0;
    NEED(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

static void *sends_after_signals(void *end)
{
    while (sem_wait(&enough) != 0)
        ;
    NEED(post_send(end, 1, 0, 100, IBV_SEND_SIGNALED) == 0);
    return NULL;
}

/* The default action of this signal would end the process. */
static void takes_blocked_signals(void)
{
    sigset_t waits;
    sigemptyset(&waits);
    sigaddset(&waits, SIGUSR2);
    NEED(sigprocmask(SIG_BLOCK, &waits, NULL) == 0);
    NEED(kill(getpid(), SIGUSR2) == 0);
    int taken = 0;
    CHECK(sigwait(&waits, &taken) == 0 && taken == SIGUSR2);
}

int main(void)
{
    struct pair pair;
    struct ibv_cq *cq;
    void *context;
    struct ibv_async_event event;
    struct rdma_cm_event *connected;
    make_pair(&pair);
    takes_blocked_signals();
    sem_init(&enough, 0, 0);

    alarms(0);
    CHECK(ibv_get_cq_event(pair.server.channel, &cq, &context) == -1 && errno == EINTR);
    CHECK(rdma_get_cm_event(pair.server.events, &connected) == -1 && errno == EINTR);
    CHECK(ibv_get_async_event(pair.server.id->verbs, &event) == -1 && errno == EINTR);
    alarms(-1);
    while (sem_trywait(&enough) == 0)
        ;

    alarms(SA_RESTART);
    NEED(post_receive(&pair.server, 1, 0, 100) == 0);
    NEED(ibv_req_notify_cq(pair.server.cq, 0) == 0);
    pthread_t thread;
    sigset_t alarm, before;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    /* The signals come to this thread. */
    pthread_sigmask(SIG_BLOCK, &alarm, &before);
    NEED(pthread_create(&thread, NULL, sends_after_signals, &pair.client) == 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(ibv_get_cq_event(pair.server.channel, &cq, &context) == 0 && signals >= 5);
    alarms(-1);
    ibv_ack_cq_events(cq, 1);
    pthread_join(thread, NULL);
    CHECK(completes(pair.server.cq, 1, IBV_WC_SUCCESS));
    CHECK(completes(pair.client.cq, 1, IBV_WC_SUCCESS));
    break_pair(&pair);
    return done();
}
