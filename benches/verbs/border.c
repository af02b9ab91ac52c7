/*
 * What a verbs program gets of softnd's libraries, for `cargo run --release -p softnd-benches --bin border`.
 *
 *     border ROUNDS
 *
 * Prints the median of a round trip of 8 octets between two threads in nanoseconds. Each thread has a completion queue of its own, which it
 * polls.
 */
#include "../../tests/verbs/common.h"

#include <pthread.h>
#include <time.h>

enum { LENGTH = 8, WARM_UP = 200, OUT = 4096 };

static int rounds;

static void receive(struct end *end) { NEED(post_receive(end, 0, 0, LENGTH) == 0); }

static void send_one(struct end *end) { NEED(post_send(end, 0, OUT, LENGTH, 0) == 0); }

static void received(struct end *end) { NEED(completion(end->cq).status == IBV_WC_SUCCESS); }

static void *serve(void *argument)
{
    struct end *end = argument;
    for (int round = 0; round < rounds; round++) {
        received(end);
        receive(end);
        send_one(end);
    }
    return NULL;
}

static int by_size(const void *left, const void *right)
{
    long a = *(const long *)left, b = *(const long *)right;
    return (a > b) - (a < b);
}

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

int main(int count, char **arguments)
{
    struct pair pair;
    pthread_t server;
    NEED(count == 2 && (rounds = atoi(arguments[1]) + WARM_UP) > WARM_UP);
    long *times = calloc(rounds, sizeof *times);
    make_pair(&pair);
    receive(&pair.server);
    NEED(pthread_create(&server, NULL, serve, &pair.server) == 0);
    for (int round = 0; round < rounds; round++) {
        receive(&pair.client);
        long start = now();
        send_one(&pair.client);
        received(&pair.client);
        times[round] = now() - start;
    }
    NEED(pthread_join(server, NULL) == 0);
    break_pair(&pair);
    qsort(times + WARM_UP, rounds - WARM_UP, sizeof *times, by_size);
    printf("%ld\n", times[WARM_UP + (rounds - WARM_UP) / 2]);
    return 0;
}
