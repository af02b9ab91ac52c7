/*
 * Whole clients with the habits of programs in the field: each moves messages between two sides.
 *
 *     field LIBRARY [CLIENT]
 *
 * It ends with status 0 and says nothing if all is well.
 */
#include "habits.hpp"

#include <algorithm>
#include <mutex>

namespace {

constexpr int MESSAGES = 200;

void send_all(Side &side, int messages)
{
    for (int i = 0; i < messages; ++i) {
        side.send();
        CHECK_STATUS(side.next(), ND_SUCCESS);
    }
}

/* A thread of its own waits for the queue in GetOverlappedResult. At the end the queue is released while the thread may be there, and the
 * overlapped file is never closed. */
HANDLE volatile never_closed;

void releases_the_queue_of_its_waiting_thread(const Library &library)
{
    const sockaddr_in address = first_address(library);
    IND2Adapter *adapter = library.open(address);
    Listening listening(adapter, address);
    Side active(adapter), passive(adapter);
    listening.connect(active, passive);
    never_closed = passive.file;
    /* A Receive for each message that may be on its way. */
    for (ULONG i = 0; i < Side::DEPTH; ++i)
        passive.receive(64 * i);
    std::atomic<int> received{0};
    OVERLAPPED overlapped = {};
    std::atomic<bool> is_in_the_wait{false};
    HRESULT last = ND_PENDING;
    Sleeper waiter([&](const std::function<void()> &before) {
        while (last != ND_CANCELED) {
            CHECK_STATUS(passive.cq->Notify(ND_CQ_NOTIFY_ANY, &overlapped), ND_PENDING);
            ND2_RESULT results[4];
            ULONG count = 0;
            while ((count = passive.cq->GetResults(results, 4)) > 0) {
                for (ULONG i = 0; i < count; ++i) {
                    CHECK_STATUS(results[i].Status, ND_SUCCESS);
                    passive.receive();
                }
                received += static_cast<int>(count);
            }
            before();
            is_in_the_wait = true;
            last = passive.cq->GetOverlappedResult(&overlapped, TRUE);
            is_in_the_wait = false;
        }
    });
    for (int sent = 0; sent < MESSAGES; sent += Side::DEPTH) {
        send_all(active, Side::DEPTH);
        while (received != sent + static_cast<int>(Side::DEPTH))
            std::this_thread::yield();
    }
    /* No message is on its way: a thread that waits for a pending request goes on waiting. */
    while (!is_in_the_wait || HasOverlappedIoCompleted(&overlapped))
        std::this_thread::yield();
    waiter.until_asleep();
    CHECK(passive.cq->Release() == 0);
    waiter.join();
    CHECK(passive.qp->Release() == 0 && passive.region->Release() == 0 && passive.connector->Release() == 0);
    delete[] passive.memory;
    active.release();
    listening.release();
    CHECK(adapter->Release() == 0);
}

/* An operation of a framework is an OVERLAPPED. When its packet comes, the framework keeps its own results in the fields, calls the
 * client, and frees it. */
struct Operation : OVERLAPPED {
    std::function<void(HRESULT)> completed;

    explicit Operation(std::function<void(HRESULT)> then) : OVERLAPPED(), completed(std::move(then)) {}
    static VOID CALLBACK dispatch(DWORD status, DWORD octets, LPOVERLAPPED overlapped)
    {
        auto *operation = static_cast<Operation *>(overlapped);
        operation->Internal = 0;
        operation->InternalHigh = ~ULONG_PTR(0);
        operation->Offset = status;
        operation->OffsetHigh = octets;
        operation->completed(status_of_callback(operation->Offset));
        delete operation;
    }
};

/* The next Notify is made in the callback of the one before. */
struct Receiver {
    Side *side = nullptr;
    std::atomic<int> received{0};
    std::atomic<bool> is_cancelled{false};

    void arm()
    {
        CHECK_STATUS(side->cq->Notify(ND_CQ_NOTIFY_ANY, new Operation([this](HRESULT end) { ready(end); })), ND_PENDING);
    }
    void ready(HRESULT end)
    {
        if (end == ND_CANCELED) {
            is_cancelled = true;
            return;
        }
        CHECK_STATUS(end, ND_SUCCESS);
        ND2_RESULT results[3];
        while (const ULONG count = side->cq->GetResults(results, 3)) {
            for (ULONG i = 0; i < count; ++i) {
                CHECK_STATUS(results[i].Status, ND_SUCCESS);
                side->receive();
            }
            received += static_cast<int>(count);
        }
        arm();
    }
};

void keeps_its_own_in_a_fresh_overlapped(const Library &library)
{
    const sockaddr_in address = first_address(library);
    IND2Adapter *adapter = library.open(address);
    Listening listening(adapter, address);
    Receiver receiver;
    Side active(adapter), passive(adapter, [](HANDLE file) { CHECK(BindIoCompletionCallback(file, Operation::dispatch, 0)); });
    receiver.side = &passive;
    listening.connect(active, passive);
    for (ULONG i = 0; i < Side::DEPTH; ++i)
        passive.receive(64 * i);
    receiver.arm();
    for (int sent = 0; sent < MESSAGES; sent += Side::DEPTH) {
        send_all(active, Side::DEPTH);
        while (receiver.received != sent + static_cast<int>(Side::DEPTH))
            std::this_thread::yield();
    }
    while (!receiver.is_cancelled)
        CHECK_STATUS(passive.cq->CancelOverlappedRequests(), ND_SUCCESS);
    active.release();
    passive.release();
    listening.release();
    CHECK(adapter->Release() == 0);
}

/* A queue of a transport, whose lock its callback takes. */
struct Locked {
    std::mutex lock;
    IND2CompletionQueue *cq = nullptr;
    bool is_armed = false, is_ended = false;
    int received = 0;
    OVERLAPPED overlapped = {};
    Side *side = nullptr;

    static Locked *only;
    static VOID CALLBACK dispatch(DWORD, DWORD, LPOVERLAPPED) { only->callback(); }

    void arm_locked()
    {
        overlapped = {};
        is_armed = true;
        CHECK_STATUS(cq->Notify(ND_CQ_NOTIFY_ANY, &overlapped), ND_PENDING);
    }
    void callback()
    {
        std::lock_guard<std::mutex> guard(lock);
        is_armed = false;
        if (is_ended)
            return;
        ND2_RESULT result;
        while (cq->GetResults(&result, 1) == 1) {
            CHECK_STATUS(result.Status, ND_SUCCESS);
            ++received;
            side->receive();
        }
        arm_locked();
    }
};

Locked *Locked::only = nullptr;

/* Takes the first address that is not 127.x, binds the pool before it creates the queue, calls Cancel with the lock of its callback held,
 * and closes the file before it releases the queue. */
void cancels_with_the_lock_of_its_callback(const Library &library)
{
    IND2Provider *provider = library.provider();
    const std::vector<sockaddr_in> all = addresses_of(provider);
    CHECK(provider->Release() == 0);
    auto found = std::find_if_not(all.begin(), all.end(), is_loopback);
    /* A machine without a network. */
    if (found == all.end())
        found = all.begin();
    IND2Adapter *adapter = library.open(*found);
    Listening listening(adapter, *found);
    static Locked locked;
    Locked::only = &locked;
    Side active(adapter), passive(adapter, [](HANDLE file) { CHECK(BindIoCompletionCallback(file, Locked::dispatch, 0)); });
    locked.cq = passive.cq;
    locked.side = &passive;
    listening.connect(active, passive);
    for (ULONG i = 0; i < Side::DEPTH; ++i)
        passive.receive(64 * i);
    {
        std::lock_guard<std::mutex> guard(locked.lock);
        locked.arm_locked();
    }
    auto is = [](auto what) {
        std::lock_guard<std::mutex> guard(locked.lock);
        return what();
    };
    for (int sent = 0; sent < MESSAGES; sent += Side::DEPTH) {
        send_all(active, Side::DEPTH);
        while (!is([sent] { return locked.received == sent + static_cast<int>(Side::DEPTH); }))
            std::this_thread::yield();
    }
    {
        std::lock_guard<std::mutex> guard(locked.lock);
        locked.is_ended = true;
        CHECK_STATUS(passive.cq->CancelOverlappedRequests(), ND_SUCCESS);
    }
    while (is([] { return locked.is_armed; }))
        std::this_thread::yield();
    close_file(passive.file);
    CHECK(passive.cq->Release() == 0 && passive.qp->Release() == 0);
    CHECK(passive.region->Release() == 0 && passive.connector->Release() == 0);
    delete[] passive.memory;
    active.release();
    listening.release();
    CHECK(adapter->Release() == 0);
}

/* Opens any adapter that the provider has, binds a listener to the first IPv4 address of the adapter's own list, and connects to it. */
void connects_to_the_first_address(const Library &library)
{
    IND2Adapter *adapter = library.open(first_address(library));
    const std::vector<sockaddr_in> all = addresses_of(adapter);
    CHECK(!all.empty() && all.front().sin_port == 0);
    Listening listening(adapter, all.front());
    CHECK(listening.at.sin_port != 0 && listening.at.sin_addr.s_addr == all.front().sin_addr.s_addr);
    Side active(adapter), passive(adapter);
    listening.connect(active, passive);
    for (int i = 0; i < MESSAGES; ++i) {
        memset(active.memory, i, 64);
        passive.receive(1024);
        active.send();
        CHECK_STATUS(active.next(), ND_SUCCESS);
        CHECK_STATUS(passive.next(), ND_SUCCESS);
        CHECK(memcmp(active.memory, passive.memory + 1024, 64) == 0);
    }
    active.release();
    passive.release();
    listening.release();
    CHECK(adapter->Release() == 0);
}

} // namespace

int main(int count, char **arguments)
{
    return run_habits(count, arguments,
                      {
                          {"keeps_its_own_in_a_fresh_overlapped", keeps_its_own_in_a_fresh_overlapped},
                          {"connects_to_the_first_address", connects_to_the_first_address},
                          {"cancels_with_the_lock_of_its_callback", cancels_with_the_lock_of_its_callback},
                          {"releases_the_queue_of_its_waiting_thread", releases_the_queue_of_its_waiting_thread, When::ALONE},
                      });
}
