/*
 * A thread that goes on to use an event channel which another one has destroyed, as rping's does until the program ends, gets an error.
 */
#include "common.h"

enum { CHANNELS = 40 };

int main(void)
{
    struct rdma_event_channel *destroyed[CHANNELS];
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;
    int before = dup(0);
    for (int index = 0; index < CHANNELS; index++) {
        destroyed[index] = rdma_create_event_channel();
        NEED(destroyed[index] != NULL);
        rdma_destroy_event_channel(destroyed[index]);
        /* Memory that is free is used again, with other contents. */
        free(memset(malloc(64), 0xff, 64));
    }
    for (int index = 0; index < CHANNELS; index++)
        CHECK(rdma_create_id(destroyed[index], &id, NULL, RDMA_PS_TCP) == -1 && errno == EBADF);
    CHECK(rdma_get_cm_event(destroyed[0], &event) == -1 && errno == EBADF);
    struct rdma_event_channel *living = rdma_create_event_channel();
    NEED(rdma_create_id(living, &id, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_migrate_id(id, destroyed[0]) == -1 && errno == EBADF);
    CHECK(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(living);
    /* The descriptors are closed at once. */
    int after = dup(0);
    CHECK(after - before < CHANNELS);
    return done();
}
