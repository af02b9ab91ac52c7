/* Fails again and again, as programs do that poll: `--explain` says each thing a few times a second. */
#include "common.h"

enum { TIMES = 20000 };

int main(void)
{
    struct rdma_event_channel *events = rdma_create_event_channel();
    NEED(events && fcntl(events->fd, F_SETFL, fcntl(events->fd, F_GETFL) | O_NONBLOCK) == 0);
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;
    NEED(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0);
    for (int time = 0; time < TIMES; time++) {
        CHECK(rdma_get_cm_event(events, &event) == -1 && errno == EAGAIN);
        CHECK(rdma_disconnect(id) != 0);
    }
    NEED(rdma_destroy_id(id) == 0);
    rdma_destroy_event_channel(events);
    return done();
}
