/*
 * Clients with unusual ways to use an OVERLAPPED, to ask for results, and to wait.
 *
 *     habits_requests LIBRARY [HABIT]
 *
 * It ends with status 0 and says nothing if all is well.
 */
#include "habits.hpp"

#include <algorithm>
#include <mutex>

namespace {

constexpr int FILLED = 0xA5;

bool is_filled(const void *memory, size_t size, int octet)
{
    const auto *octets = static_cast<const unsigned char *>(memory);
    return std::all_of(octets, octets + size, [octet](unsigned char found) { return found == octet; });
}

/* An OVERLAPPED of which the client has set hEvent alone. */
OVERLAPPED *fresh(HANDLE event = nullptr)
{
    void *memory = malloc(sizeof(OVERLAPPED));
    memset(memory, FILLED, sizeof(OVERLAPPED));
    auto *overlapped = static_cast<OVERLAPPED *>(memory);
    overlapped->hEvent = event;
    return overlapped;
}

/* Two sides, and what they are made of. */
struct Connected {
    sockaddr_in address;
    IND2Adapter *adapter;
    Listening listening;
    Side active, passive;

    explicit Connected(const Library &library, const std::function<void(HANDLE)> &with_file = nullptr)
        : address(first_address(library)), adapter(library.open(address)), listening(adapter, address), active(adapter),
          passive(adapter, with_file)
    {
        listening.connect(active, passive);
    }
    ~Connected()
    {
        active.release();
        passive.release();
        listening.release();
        CHECK(adapter->Release() == 0);
    }
    /* Sends a message. */
    void message()
    {
        active.send();
        CHECK_STATUS(active.next(), ND_SUCCESS);
    }
};

/* What the client has not written is not read, and what a method is to write is written. */
void uninitialised_memory(const Library &library)
{
    Connected both(library);
    Side &active = both.active, &passive = both.passive;
    OVERLAPPED *request = fresh();
    CHECK_STATUS(passive.cq->Notify(ND_CQ_NOTIFY_ANY, request), ND_PENDING);
    CHECK(!HasOverlappedIoCompleted(request));
    CHECK_STATUS(passive.cq->GetOverlappedResult(request, FALSE), ND_PENDING);
    passive.receive();
    active.send();
    CHECK_STATUS(passive.cq->GetOverlappedResult(request, TRUE), ND_SUCCESS);
    CHECK(status_of(*request) == ND_SUCCESS);
    free(request);

    ND2_RESULT results[2];
    memset(results, FILLED, sizeof(results));
    CHECK(passive.cq->GetResults(results, 2) == 1);
    CHECK(results[0].Status == ND_SUCCESS && results[0].BytesTransferred == 64);
    CHECK(results[0].QueuePairContext == &passive && results[0].RequestContext == &passive);
    CHECK(results[0].RequestType == Nd2RequestTypeReceive && is_filled(&results[1], sizeof(results[1]), FILLED));
    CHECK_STATUS(active.next(), ND_SUCCESS);

    /* A call that ends at once writes the status, too. An OVERLAPPED that was never used has the status that it happens to have. */
    request = fresh();
    const HRESULT at_once = active.connector->CompleteConnect(request);
    CHECK(FAILED(at_once) && status_of(*request) == at_once);
    request->Internal = static_cast<ULONG>(ND_IO_TIMEOUT);
    CHECK_STATUS(active.cq->GetOverlappedResult(request, TRUE), ND_IO_TIMEOUT);
    free(request);

    /* Out-pointers are null after a failure. */
    void *object;
    memset(&object, FILLED, sizeof(object));
    CHECK_STATUS(both.adapter->CreateMemoryRegion(IID_IND2Listener, active.file, &object), E_NOINTERFACE);
    CHECK(object == nullptr);
    memset(&object, FILLED, sizeof(object));
    CHECK_STATUS(both.adapter->CreateMemoryRegion(IID_IND2MemoryRegion, nullptr, &object), ND_INVALID_HANDLE);
    CHECK(object == nullptr);
    ND2_ADAPTER_INFO info;
    memset(&info, FILLED, sizeof(info));
    info.InfoVersion = ND_VERSION_2;
    ULONG size = sizeof(info);
    CHECK_STATUS(both.adapter->Query(&info, &size), ND_SUCCESS);
    CHECK(size == sizeof(info) && info.MaxTransferLength >= Side::OCTETS && !is_filled(&info.AdapterFlags, 4, FILLED));
}

/* A fresh OVERLAPPED for each Notify, whose end is seen by its packet. `with_packet` gets it then: it is the client's again. */
void by_packet(const Library &library, const std::function<void(OVERLAPPED *)> &with_packet)
{
    HANDLE port = nullptr;
    {
        Connected both(library, [&port](HANDLE file) {
            port = CreateIoCompletionPort(file, nullptr, 5, 0);
            CHECK(port != nullptr);
        });
        Side &passive = both.passive;
        for (int round = 0; round < 200; ++round) {
            HANDLE event = round % 2 == 0 ? nullptr : CreateEvent(nullptr, TRUE, FALSE, nullptr);
            OVERLAPPED *request = fresh(event);
            CHECK_STATUS(passive.cq->Notify(ND_CQ_NOTIFY_ANY, request), ND_PENDING);
            const bool is_cancelled = round % 3 == 0;
            if (is_cancelled) {
                CHECK_STATUS(passive.cq->CancelOverlappedRequests(), ND_SUCCESS);
            } else {
                passive.receive();
                both.message();
            }
            OVERLAPPED_ENTRY packet;
            ULONG count = 0;
            CHECK(GetQueuedCompletionStatusEx(port, &packet, 1, &count, INFINITE, FALSE) && count == 1);
            CHECK(packet.lpOverlapped == request && packet.lpCompletionKey == 5);
            CHECK(static_cast<HRESULT>(packet.Internal) == (is_cancelled ? ND_CANCELED : ND_SUCCESS));
            with_packet(request);
            /* The packet comes before the event is set. The provider has a reference to the event until then. */
            if (event != nullptr)
                CHECK(CloseHandle(event));
            if (!is_cancelled)
                CHECK_STATUS(passive.next(), ND_SUCCESS);
        }
    }
    CHECK(CloseHandle(port));
}

/* A framework keeps something of its own in the OVERLAPPED of a request that has ended. */
void overwritten_when_the_packet_comes(const Library &library)
{
    std::vector<OVERLAPPED *> used;
    by_packet(library, [&used](OVERLAPPED *request) {
        memset(request, 0xEE, sizeof(*request));
        used.push_back(request);
    });
    for (OVERLAPPED *request : used) {
        CHECK(is_filled(request, sizeof(*request), 0xEE));
        free(request);
    }
}

void freed_when_the_packet_comes(const Library &library) { by_packet(library, free); }

/* The result of a request is asked of another object, of the same kind or not. */
void asked_of_another_region(const Library &library)
{
    Connected both(library);
    Side &active = both.active, &passive = both.passive;
    OVERLAPPED *request = fresh();
    HRESULT status = active.region->Deregister(request);
    CHECK_STATUS(finish(passive.region, status, request), ND_SUCCESS);
    status = active.region->Register(active.memory, Side::OCTETS, ND_MR_FLAG_ALLOW_LOCAL_WRITE, request);
    CHECK_STATUS(finish(both.listening.listener, status, request), ND_SUCCESS);

    CHECK_STATUS(active.cq->Notify(ND_CQ_NOTIFY_ANY, request), ND_PENDING);
    IND2MemoryRegion *other = nullptr;
    CHECK_STATUS(both.adapter->CreateMemoryRegion(IID_IND2MemoryRegion, passive.file, out(&other)), ND_SUCCESS);
    CHECK_STATUS(other->GetOverlappedResult(request, FALSE), ND_PENDING);
    /* Neither the cancel nor the release of the other one ends it. */
    CHECK_STATUS(other->CancelOverlappedRequests(), ND_SUCCESS);
    CHECK_STATUS(other->GetOverlappedResult(request, FALSE), ND_PENDING);
    CHECK(other->Release() == 0);
    /* While it is in flight, not even the client's own hand in `Internal` does. */
    request->Internal = 0;
    CHECK_STATUS(passive.region->GetOverlappedResult(request, FALSE), ND_PENDING);
    CHECK_STATUS(active.cq->CancelOverlappedRequests(), ND_SUCCESS);
    CHECK_STATUS(passive.region->GetOverlappedResult(request, TRUE), ND_CANCELED);
    free(request);
}

/* Both sides in turn write, and wait for the last octet without any call. */
void spinning_on_the_last_octet(const Library &library)
{
    Connected both(library);
    ND2_ADAPTER_INFO info = {};
    ULONG size = sizeof(info);
    info.InfoVersion = ND_VERSION_2;
    CHECK_STATUS(both.adapter->Query(&info, &size), ND_SUCCESS);
    CHECK(info.AdapterFlags & ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED);
    Side *from = &both.active, *to = &both.passive;
    constexpr ULONG LENGTH = 1000;
    for (int round = 1; round <= 100; ++round, std::swap(from, to)) {
        /* The lower half is sent from, the upper half written to. */
        memset(from->memory, round, LENGTH);
        const ND2_SGE source = from->piece(0, LENGTH);
        char *const sink = to->memory + Side::OCTETS / 2;
        CHECK_STATUS(from->qp->Write(from, &source, 1, reinterpret_cast<UINT64>(sink), to->region->GetRemoteToken(), 0), ND_SUCCESS);
        while (__atomic_load_n(sink + LENGTH - 1, __ATOMIC_ACQUIRE) != static_cast<char>(round))
            ;
        CHECK(is_filled(sink, LENGTH, round));
        CHECK_STATUS(from->next(), ND_SUCCESS);
    }
}

std::mutex callback_lock;
std::vector<HRESULT> callback_ends;

VOID CALLBACK takes_the_lock(DWORD status, DWORD, LPOVERLAPPED overlapped)
{
    std::lock_guard<std::mutex> guard(callback_lock);
    callback_ends.push_back(status_of_callback(status));
    free(overlapped);
}

/* The thread pool's callback takes a lock that the client holds while it calls Cancel, and the last Release. */
void callback_takes_the_lock_held_over_cancel(const Library &library)
{
    const sockaddr_in address = first_address(library);
    IND2Adapter *adapter = library.open(address);
    for (size_t round = 1; round <= 100; ++round) {
        Side side(adapter, [](HANDLE file) { CHECK(BindIoCompletionCallback(file, takes_the_lock, 0)); });
        {
            std::lock_guard<std::mutex> guard(callback_lock);
            CHECK_STATUS(side.cq->Notify(ND_CQ_NOTIFY_ANY, fresh()), ND_PENDING);
            CHECK_STATUS(side.cq->CancelOverlappedRequests(), ND_SUCCESS);
            CHECK_STATUS(side.cq->Notify(ND_CQ_NOTIFY_ANY, fresh()), ND_PENDING);
            side.release();
        }
        bool both_have_run = false;
        while (!both_have_run) {
            std::lock_guard<std::mutex> guard(callback_lock);
            both_have_run = callback_ends.size() == 2 * round;
        }
    }
    CHECK(adapter->Release() == 0);
    for (HRESULT end : callback_ends)
        CHECK_STATUS(end, ND_CANCELED);
}

} // namespace

int main(int count, char **arguments)
{
    return run_habits(count, arguments,
                      {
                          {"uninitialised_memory", uninitialised_memory},
                          {"overwritten_when_the_packet_comes", overwritten_when_the_packet_comes},
                          {"freed_when_the_packet_comes", freed_when_the_packet_comes},
                          {"asked_of_another_region", asked_of_another_region},
                          {"spinning_on_the_last_octet", spinning_on_the_last_octet},
                          {"callback_takes_the_lock_held_over_cancel", callback_takes_the_lock_held_over_cancel},
                      });
}
