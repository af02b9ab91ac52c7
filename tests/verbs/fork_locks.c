/* A fork while other threads of the program are within the library: the child finds no lock that these threads hold. */
#include "common.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 2, FORKS = 200 };

static atomic_int is_over;

static void lists(void)
{
    int count = 0;
    struct ibv_device **devices = ibv_get_device_list(&count);
    CHECK(devices && count >= 1);
    if (devices)
        ibv_free_device_list(devices);
}

static void *list_again_and_again(void *unused)
{
    while (!atomic_load(&is_over))
        lists();
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    lists();
    for (int at = 0; at < THREADS; at++)
        NEED(pthread_create(&threads[at], NULL, list_again_and_again, NULL) == 0);
    for (int at = 0; at < FORKS && failures == 0; at++) {
        pid_t child = fork();
        NEED(child >= 0);
        if (child == 0) {
            /* Ends a child that waits for ever. */
            alarm(30);
            lists();
            _exit(failures);
        }
        CHECK(exit_of(child) == 0);
    }
    atomic_store(&is_over, 1);
    for (int at = 0; at < THREADS; at++)
        NEED(pthread_join(threads[at], NULL) == 0);
    return done();
}
