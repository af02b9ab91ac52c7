/* Two threads change a number, between calls of the libraries: the mistake of a program that ThreadSanitizer has to report, and no other
   tool. */
#include "common.h"

static int shared;

static void *change(void *unused)
{
    shared++;
    return unused;
}

int main(void)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    CHECK(list && count > 0);
    struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;
    CHECK(context != NULL);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, change, NULL) == 0);
    shared++;
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(ibv_close_device(context) == 0);
    ibv_free_device_list(list);
    printf("%d failures\n", failures);
    return failures > 0;
}
