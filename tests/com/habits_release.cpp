/*
 * Clients that release objects in unusual ways.
 *
 *     habits_release LIBRARY [HABIT]
 *
 * It ends with status 0 and says nothing if all is well.
 */
#include "habits.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <random>

namespace {

/* A request that is freed at the last Release of its object, which has to end it. */
struct Request {
    std::unique_ptr<OVERLAPPED> overlapped = std::make_unique<OVERLAPPED>();

    void is_pending(HRESULT status) { CHECK_STATUS(status, ND_PENDING); }
    void free()
    {
        CHECK(HasOverlappedIoCompleted(overlapped.get()));
        overlapped.reset();
    }
};

/* Adapter, file, completion queue, region, queue pair and connector are released in one order, while requests are in flight and the peer
 * sends. What belongs to an object is freed right after its release. */
void release_in_order(const Library &library, const Listening &listening, IND2Adapter *of_peer, const std::array<int, 6> &order)
{
    IND2Adapter *adapter = library.open(listening.at);
    Side side(adapter), peer(of_peer);
    listening.connect(side, peer);
    Request notified, ended, of_the_peer;
    side.receive();
    notified.is_pending(side.cq->Notify(ND_CQ_NOTIFY_ANY, notified.overlapped.get()));
    ended.is_pending(side.connector->NotifyDisconnect(ended.overlapped.get()));
    of_the_peer.is_pending(peer.connector->NotifyDisconnect(of_the_peer.overlapped.get()));

    const std::function<void()> releases[] = {
        [&] { CHECK(adapter->Release() == 0); },
        [&] { close_file(side.file); },
        [&] {
            CHECK(side.cq->Release() == 0);
            notified.free();
        },
        [&] {
            CHECK(side.region->Release() == 0);
            delete[] side.memory;
        },
        [&] { CHECK(side.qp->Release() == 0); },
        [&] {
            CHECK(side.connector->Release() == 0);
            ended.free();
        },
    };
    for (size_t i = 0; i < order.size(); ++i) {
        releases[order[i]]();
        if (i == 2) {
            /* It may find memory that is gone, or no connection. */
            const ND2_SGE from = peer.piece(0, 64);
            peer.qp->Send(nullptr, &from, 1, ND_OP_FLAG_SILENT_SUCCESS);
        }
    }
    /* The connection has ended for the peer, too. */
    CHECK_STATUS(peer.connector->GetOverlappedResult(of_the_peer.overlapped.get(), TRUE), ND_SUCCESS);
    peer.release();
}

void every_order(const Library &library, size_t step)
{
    const sockaddr_in address = first_address(library);
    IND2Adapter *adapter = library.open(address);
    Listening listening(adapter, address);
    std::array<int, 6> order = {0, 1, 2, 3, 4, 5};
    size_t number = 0;
    do {
        if (number++ % step == 0)
            release_in_order(library, listening, adapter, order);
    } while (std::next_permutation(order.begin(), order.end()));
    listening.release();
    CHECK(adapter->Release() == 0);
}

/* All 720 orders. */
void in_every_order(const Library &library) { every_order(library, 1); }

/* Some of them: 19 is prime to 720, so every object comes in every place. */
void in_many_orders(const Library &library) { every_order(library, 19); }

/* All objects of both sides in one order, with a request in flight on each object that has requests, a window that is bound, and a shared
 * receive queue. */
void release_everything(const Library &library, const sockaddr_in &address, std::mt19937 &random)
{
    IND2Adapter *adapter = library.open(address);
    Listening listening(adapter, address);
    Side active(adapter), passive(adapter), waits(adapter);
    listening.connect(active, passive);
    IND2MemoryWindow *window = nullptr;
    IND2SharedReceiveQueue *srq = nullptr;
    IND2QueuePair *sharing = nullptr;
    CHECK_STATUS(adapter->CreateMemoryWindow(IID_IND2MemoryWindow, out(&window)), ND_SUCCESS);
    CHECK_STATUS(active.qp->Bind(nullptr, active.region, window, active.memory, 64, ND_OP_FLAG_ALLOW_READ), ND_SUCCESS);
    CHECK_STATUS(active.next(), ND_SUCCESS);
    CHECK_STATUS(adapter->CreateSharedReceiveQueue(IID_IND2SharedReceiveQueue, active.file, 4, 1, 0, 0, 0, out(&srq)), ND_SUCCESS);
    CHECK_STATUS(adapter->CreateQueuePairWithSrq(IID_IND2QueuePair, active.cq, active.cq, srq, nullptr, 4, 1, 0, out(&sharing)), ND_SUCCESS);
    const ND2_SGE shared = active.piece(0, 64);
    CHECK_STATUS(srq->Receive(nullptr, &shared, 1), ND_SUCCESS);
    active.receive();
    passive.receive();
    Request notified, notified_passive, ended, ended_passive, asked;
    notified.is_pending(active.cq->Notify(ND_CQ_NOTIFY_ANY, notified.overlapped.get()));
    notified_passive.is_pending(passive.cq->Notify(ND_CQ_NOTIFY_SOLICITED, notified_passive.overlapped.get()));
    ended.is_pending(active.connector->NotifyDisconnect(ended.overlapped.get()));
    ended_passive.is_pending(passive.connector->NotifyDisconnect(ended_passive.overlapped.get()));
    asked.is_pending(listening.listener->GetConnectionRequest(waits.connector, asked.overlapped.get()));

    auto released = [](IUnknown *object) { CHECK(object->Release() == 0); };
    auto with = [](IUnknown *object, Request &request) {
        CHECK(object->Release() == 0);
        request.free();
    };
    auto region_of = [](Side &side) {
        CHECK(side.region->Release() == 0);
        delete[] side.memory;
    };
    std::vector<std::function<void()>> releases = {
        [&] { released(adapter); },
        [&] { released(window); },
        [&] { released(srq); },
        [&] { released(sharing); },
        [&] { released(active.qp); },
        [&] { released(passive.qp); },
        [&] { released(waits.qp); },
        [&] { released(waits.cq); },
        [&] { released(waits.connector); },
        [&] { with(active.cq, notified); },
        [&] { with(passive.cq, notified_passive); },
        [&] { with(active.connector, ended); },
        [&] { with(passive.connector, ended_passive); },
        [&] { with(listening.listener, asked); },
        [&] { region_of(active); },
        [&] { region_of(passive); },
        [&] { region_of(waits); },
        [&] { close_file(active.file); },
        [&] { close_file(passive.file); },
        [&] { close_file(waits.file); },
        [&] { close_file(listening.file); },
    };
    std::shuffle(releases.begin(), releases.end(), random);
    for (const auto &release : releases)
        release();
}

/* The orders are the same in every run. */
void everything_in_shuffled_orders(const Library &library)
{
    const sockaddr_in address = first_address(library);
    std::mt19937 random(34);
    for (int round = 0; round < 60; ++round)
        release_everything(library, address, random);
}

/* The last Release while another thread waits in GetOverlappedResult of the object. The thread learns that the request was cancelled. */
template <typename T> void release_below_a_wait(T *object, OVERLAPPED *overlapped)
{
    HRESULT status = ND_PENDING;
    Sleeper waiter([&](const std::function<void()> &before) {
        before();
        status = object->GetOverlappedResult(overlapped, TRUE);
    });
    waiter.until_asleep();
    CHECK(object->Release() == 0);
    CHECK(status_of(*overlapped) == ND_CANCELED);
    delete overlapped;
    waiter.join();
    CHECK_STATUS(status, ND_CANCELED);
}

void below_a_waiting_thread(const Library &library)
{
    const sockaddr_in address = first_address(library);
    IND2Adapter *adapter = library.open(address);
    for (int round = 0; round < 30; ++round) {
        Listening listening(adapter, address);
        Side active(adapter), passive(adapter), waits(adapter);
        listening.connect(active, passive);
        auto *notified = new OVERLAPPED(), *ended = new OVERLAPPED(), *asked = new OVERLAPPED();
        CHECK_STATUS(active.cq->Notify(ND_CQ_NOTIFY_ANY, notified), ND_PENDING);
        CHECK_STATUS(active.connector->NotifyDisconnect(ended), ND_PENDING);
        CHECK_STATUS(listening.listener->GetConnectionRequest(waits.connector, asked), ND_PENDING);
        /* The queue of a queue pair, too: it lives on below. */
        release_below_a_wait(active.cq, notified);
        release_below_a_wait(active.connector, ended);
        release_below_a_wait(listening.listener, asked);
        CHECK(active.qp->Release() == 0 && active.region->Release() == 0);
        close_file(active.file);
        delete[] active.memory;
        close_file(listening.file);
        passive.release();
        waits.release();
    }
    CHECK(adapter->Release() == 0);
}

/* One OVERLAPPED for all requests, whose results nobody waits for. It and the memory are freed right after the last Release. */
void one_overlapped_twice(const Library &library)
{
    const sockaddr_in address = first_address(library);
    IND2Adapter *adapter = library.open(address);
    Listening listening(adapter, address);
    for (int round = 0; round < 50; ++round) {
        Side active(adapter), passive(adapter);
        listening.connect(active, passive);
        auto *all = new OVERLAPPED();
        CHECK_STATUS(active.cq->Notify(ND_CQ_NOTIFY_ANY, all), ND_PENDING);
        CHECK_STATUS(active.cq->Notify(ND_CQ_NOTIFY_ERRORS, all), ND_PENDING);
        CHECK(SUCCEEDED(active.connector->NotifyDisconnect(all)));
        CHECK(SUCCEEDED(active.connector->Disconnect(all)));
        CHECK(SUCCEEDED(active.region->Deregister(all)));
        CHECK(active.region->Release() == 0 && active.cq->Release() == 0 && active.qp->Release() == 0);
        CHECK(active.connector->Release() == 0);
        CHECK(HasOverlappedIoCompleted(all));
        delete all;
        delete[] active.memory;
        close_file(active.file);
        passive.release();
    }
    listening.release();
    CHECK(adapter->Release() == 0);
}

/* The handles are kept, as in programs that have them in a global object. */
HANDLE volatile left_open[8];

void file_never_closed(const Library &library)
{
    const sockaddr_in address = first_address(library);
    IND2Adapter *adapter = library.open(address);
    Listening listening(adapter, address);
    for (size_t i = 0; i < std::size(left_open); i += 2) {
        Side active(adapter), passive(adapter);
        listening.connect(active, passive);
        left_open[i] = active.file;
        left_open[i + 1] = passive.file;
        passive.receive();
        active.send();
        CHECK_STATUS(active.next(), ND_SUCCESS);
        CHECK_STATUS(passive.next(), ND_SUCCESS);
        for (Side *side : {&active, &passive}) {
            CHECK(side->cq->Release() == 0 && side->qp->Release() == 0);
            CHECK(side->region->Release() == 0 && side->connector->Release() == 0);
            delete[] side->memory;
        }
    }
    listening.release();
    CHECK(adapter->Release() == 0);
    CHECK_STATUS(library.can_unload_now(), FILES_COUNT ? S_FALSE : S_OK);
}

/* The program ends while everything is open, requests are in flight and a thread waits. */
void nothing_released(const Library &library)
{
    static const sockaddr_in address = first_address(library);
    static IND2Adapter *adapter = library.open(address);
    static Listening listening(adapter, address);
    static Side active(adapter), passive(adapter);
    static OVERLAPPED notified, ended;
    listening.connect(active, passive);
    passive.receive();
    active.send();
    CHECK_STATUS(active.connector->NotifyDisconnect(&ended), ND_PENDING);
    CHECK_STATUS(passive.next(), ND_SUCCESS);
    CHECK_STATUS(passive.cq->Notify(ND_CQ_NOTIFY_ANY, &notified), ND_PENDING);
    auto *waiter = new Sleeper([&](const std::function<void()> &before) {
        before();
        passive.cq->GetOverlappedResult(&notified, TRUE);
    });
    waiter->until_asleep();
    exit(0);
}

} // namespace

int main(int count, char **arguments)
{
    return run_habits(count, arguments,
                      {
                          {"in_many_orders", in_many_orders},
                          {"everything_in_shuffled_orders", everything_in_shuffled_orders},
                          {"in_every_order", in_every_order, When::ASKED_FOR},
                          {"below_a_waiting_thread", below_a_waiting_thread},
                          {"one_overlapped_twice", one_overlapped_twice},
                          {"file_never_closed", file_never_closed, When::ALONE},
                          {"nothing_released", nothing_released, When::ALONE},
                      });
}
