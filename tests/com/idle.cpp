/*
 * 100 connections over TCP on which nothing happens need no processor time, while a thread sleeps until a completion. The provider is the one
 * that ND_PROVIDER names.
 *
 *     idle
 *
 * It ends with status 0 and says nothing if all is well. It takes 10 s to 30 s.
 */
#include "client.h"

#include <memory>

namespace {

enum { CONNECTIONS = 100, MILLISECONDS = 10000 };

/* Three hundredths of the time. A thread that never sleeps needs all of it. Over UDP packets keep connections alive, which may need more. */
const double MOST = MILLISECONDS / 1000.0 * 3 / 100;

void stay_idle()
{
    Device device;
    std::vector<std::unique_ptr<Pair>> pairs;
    for (int i = 0; i < CONNECTIONS; ++i)
        pairs.push_back(std::unique_ptr<Pair>(new Pair(device)));
    OVERLAPPED overlapped = {};
    overlapped.hEvent = CreateEventW(nullptr, TRUE, FALSE, nullptr);
    CHECK(overlapped.hEvent != nullptr);
    CHECK_STATUS(device.cq->Notify(ND_CQ_NOTIFY_ANY, &overlapped), ND_PENDING);

    /* On a busy machine threads still end what the set-up has begun: one of up to three times has to be quiet. */
    double used = MOST + 1;
    for (int tries = 0; tries < 3 && used > MOST; ++tries) {
        const double before = processor_seconds();
        CHECK(WaitForSingleObject(overlapped.hEvent, MILLISECONDS) == WAIT_TIMEOUT);
        used = processor_seconds() - before;
    }
    if (used > MOST) {
        fprintf(stderr, "%d idle connections took %.3f s of a processor in %.0f s\n", CONNECTIONS, used, MILLISECONDS / 1000.0);
        exit(1);
    }
    CHECK_STATUS(device.cq->CancelOverlappedRequests(), ND_SUCCESS);
    CHECK_STATUS(finish(device.cq.get(), ND_PENDING, &overlapped), ND_CANCELED);
    CHECK(CloseHandle(overlapped.hEvent));
}

} // namespace

int main()
{
    CHECK_STATUS(NdStartup(), ND_SUCCESS);
    stay_idle();
    CHECK_STATUS(NdCleanup(), ND_SUCCESS);
}
