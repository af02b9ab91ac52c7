/*
 * Threads that poll where the process has one processor: a poll that finds nothing yields to the threads that it waits for. Counts the polls
 * that find nothing until an answer is there. Without yields there are hundreds, or less where other programs preempt the thread early.
 *
 * "one_processor THREADS" binds the process. "one_processor THREADS several" binds the threads that poll alone: they do not yield.
 */
#define _GNU_SOURCE
#include "common.h"

#include <pthread.h>
#include <sched.h>

/* Threads that do not yield play up to GAMES times, until one of them has polled MANY times in a round trip. */
enum { PAIRS = 4, ROUNDS = 200, ROUNDS_WITHOUT_YIELDS = 20, MANY = 100, GAMES = 100 };

static struct pair pairs[PAIRS];
static unsigned vain[2 * PAIRS * ROUNDS];
static int rounds = ROUNDS, is_bound_alone;
static pthread_barrier_t begin;
static cpu_set_t first;

static void *plays(void *argument)
{
    struct end *end = argument;
    int number = 0;
    while (end != &pairs[number / 2].client && end != &pairs[number / 2].server)
        number += 2;
    int is_client = end == &pairs[number / 2].client;
    unsigned *counts = vain + (number + is_client) * rounds;
    if (is_bound_alone)
        NEED(sched_setaffinity(0, sizeof first, &first) == 0);
    pthread_barrier_wait(&begin);
    for (int round = 0; round < rounds; round++) {
        struct ibv_wc wc;
        int got;
        if (is_client)
            NEED(post_send(end, 2, 64, 8, 0) == 0);
        for (counts[round] = 0; (got = ibv_poll_cq(end->cq, 1, &wc)) == 0; counts[round]++)
            ;
        NEED(got == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
        NEED(post_receive(end, 1, 0, 64) == 0);
        if (!is_client)
            NEED(post_send(end, 2, 64, 8, 0) == 0);
    }
    return NULL;
}

static int by_number(const void *one, const void *other)
{
    unsigned a = *(const unsigned *)one, b = *(const unsigned *)other;
    return (a > b) - (a < b);
}

/* Sorts the numbers of polls that find nothing. */
static void play(int threads)
{
    pthread_t all[2 * PAIRS];
    for (int index = 0; index < threads; index++) {
        struct pair *pair = &pairs[index / 2];
        NEED(pthread_create(&all[index], NULL, plays, index % 2 ? &pair->client : &pair->server) == 0);
    }
    for (int index = 0; index < threads; index++)
        pthread_join(all[index], NULL);
    qsort(vain, threads * rounds, sizeof *vain, by_number);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    cpu_set_t allowed;
    NEED(threads >= 2 && threads <= 2 * PAIRS);
    NEED(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed))
        cpu++;
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    if (argc > 2) {
        is_bound_alone = 1;
        rounds = ROUNDS_WITHOUT_YIELDS;
    } else {
        NEED(sched_setaffinity(0, sizeof first, &first) == 0);
    }
    pthread_barrier_init(&begin, NULL, threads);
    for (int index = 0; index < threads / 2; index++) {
        make_pair(&pairs[index]);
        NEED(post_receive(&pairs[index].client, 1, 0, 64) == 0);
        NEED(post_receive(&pairs[index].server, 1, 0, 64) == 0);
    }
    int games = 0;
    if (is_bound_alone) {
        do
            play(threads);
        while (vain[threads * rounds - 1] < MANY && ++games < GAMES);
        CHECK(games < GAMES);
    } else {
        play(threads);
        unsigned median = vain[threads * rounds / 2];
        if (median >= MANY) {
            printf("%u polls find nothing in the median\n", median);
            failures++;
        }
    }
    for (int index = 0; index < threads / 2; index++)
        break_pair(&pairs[index]);
    return done();
}
