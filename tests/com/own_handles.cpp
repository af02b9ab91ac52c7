/*
 * A program with events and completion ports of its own (own_handles.h) uses a provider that it loads.
 *
 *     own_handles LIBRARY
 *
 * It ends with status 0 and says nothing if all is well.
 */
#include "habits.hpp"
#include "own_handles.h"

namespace {

/* A completion queue and its file. */
struct Queue {
    HANDLE file = nullptr;
    IND2CompletionQueue *cq = nullptr;

    explicit Queue(IND2Adapter *adapter)
    {
        CHECK(adapter->CreateOverlappedFile(&file) == ND_SUCCESS);
        CHECK(adapter->CreateCompletionQueue(IID_IND2CompletionQueue, file, 4, 0, 0, reinterpret_cast<void **>(&cq)) == ND_SUCCESS);
    }
    ~Queue()
    {
        CHECK(cq->Release() == 0);
        table().Handle.Close(file);
    }
    const ND_FILE_TABLE &table() const { return **static_cast<const ND_FILE_TABLE *const *>(file); }

    HRESULT notify(OVERLAPPED *overlapped) { return cq->Notify(ND_CQ_NOTIFY_ANY, overlapped); }
};

/* The end of a request sets the event. The provider takes a reference to the event while the request is in flight. */
void events(IND2Adapter *adapter)
{
    Queue queue(adapter);
    for (bool manual : {false, true}) {
        auto *event = new OwnEvent(manual);
        OVERLAPPED overlapped = {};
        overlapped.hEvent = event->handle();
        CHECK(queue.notify(&overlapped) == ND_PENDING);
        CHECK(event->references == 2 && !HasOverlappedIoCompleted(&overlapped));
        CHECK(queue.cq->CancelOverlappedRequests() == ND_SUCCESS);
        event->wait();
        CHECK(event->is_set == manual);
        CHECK(static_cast<HRESULT>(overlapped.Internal) == ND_CANCELED);
        CHECK(queue.cq->GetOverlappedResult(&overlapped, TRUE) == ND_CANCELED);
        CHECK(event->references == 1);

        /* Closed while a request is in flight, the event lives on until the end. */
        OwnEvent::add_ref(event->handle());
        CHECK(queue.notify(&overlapped) == ND_PENDING);
        OwnEvent::close(event->handle());
        CHECK(event->references == 2);
        CHECK(queue.cq->CancelOverlappedRequests() == ND_SUCCESS);
        CHECK(event->references == 1);
        OwnEvent::release(event->handle());
    }
}

/* A port of one library gets packets from the file of another, in the order of the ends. */
void ports(IND2Adapter *adapter)
{
    auto *port = new OwnPort;
    {
        Queue first(adapter), second(adapter);
        CHECK(first.table().Associate(first.file, port->handle(), 11) == ND_SUCCESS);
        CHECK(second.table().Associate(second.file, port->handle(), 22) == ND_SUCCESS);
        CHECK(first.table().Associate(first.file, port->handle(), 33) == ND_INVALID_PARAMETER);
        OVERLAPPED one = {}, two = {}, other = {};
        CHECK(first.notify(&one) == ND_PENDING && first.notify(&two) == ND_PENDING && second.notify(&other) == ND_PENDING);
        CHECK(second.cq->CancelOverlappedRequests() == ND_SUCCESS && first.cq->CancelOverlappedRequests() == ND_SUCCESS);
        OVERLAPPED_ENTRY packets[4];
        CHECK(OwnPort::take(port->handle(), packets, 4, 0) == 3);
        CHECK(packets[0].lpCompletionKey == 22 && packets[0].lpOverlapped == &other);
        CHECK(packets[1].lpCompletionKey == 11 && packets[1].lpOverlapped == &one);
        CHECK(packets[2].lpCompletionKey == 11 && packets[2].lpOverlapped == &two);
        for (const OVERLAPPED_ENTRY &packet : {packets[0], packets[1], packets[2]})
            CHECK(static_cast<HRESULT>(packet.Internal) == ND_CANCELED);

        /* With the lowest bit set the event is the only report. */
        auto *event = new OwnEvent(false);
        OVERLAPPED quiet = {};
        quiet.hEvent = reinterpret_cast<HANDLE>(reinterpret_cast<ULONG_PTR>(event->handle()) | ND_HANDLE_NO_PACKET_BIT);
        CHECK(first.notify(&quiet) == ND_PENDING);
        CHECK(first.cq->CancelOverlappedRequests() == ND_SUCCESS);
        event->wait();
        CHECK(OwnPort::take(port->handle(), packets, 4, 0) == 0);
        OwnEvent::close(event->handle());
    }
    CHECK(port->references == 1);
    OwnPort::close(port->handle());
}

/* A file's watchers are called at the end of each request. */
void watchers(IND2Adapter *adapter)
{
    struct Counter : ND_WATCHER {
        mutable std::atomic<unsigned> calls{0};
    };
    Counter counter;
    counter.Wake = [](const ND_WATCHER *watcher) -> BOOL {
        ++static_cast<const Counter *>(watcher)->calls;
        return FALSE;
    };
    Queue queue(adapter);
    queue.table().Watch(queue.file, &counter);
    OVERLAPPED overlapped = {};
    CHECK(queue.notify(&overlapped) == ND_PENDING);
    CHECK(counter.calls == 0);
    CHECK(queue.cq->CancelOverlappedRequests() == ND_SUCCESS);
    CHECK(counter.calls == 1);
    queue.table().Unwatch(queue.file, &counter);
    CHECK(queue.notify(&overlapped) == ND_PENDING);
    CHECK(queue.cq->CancelOverlappedRequests() == ND_SUCCESS);
    CHECK(counter.calls == 1);
}

/* A live object of another kind is refused, and nothing is submitted. */
void other_kinds(IND2Adapter *adapter)
{
    Queue queue(adapter);
    auto *port = new OwnPort;
    auto *event = new OwnEvent(false);
    for (HANDLE wrong : {port->handle(), queue.file}) {
        OVERLAPPED overlapped = {};
        overlapped.hEvent = wrong;
        CHECK(queue.notify(&overlapped) == ND_INVALID_HANDLE);
    }
    for (HANDLE wrong : {event->handle(), port->handle(), HANDLE(nullptr)}) {
        IND2MemoryRegion *region = nullptr;
        CHECK(adapter->CreateMemoryRegion(IID_IND2MemoryRegion, wrong, reinterpret_cast<void **>(&region)) == ND_INVALID_HANDLE);
        CHECK(region == nullptr);
    }
    CHECK(event->references == 1 && port->references == 1);
    OwnEvent::close(event->handle());
    OwnPort::close(port->handle());
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const Library library(argv[1]);
    IND2Adapter *adapter = library.open(first_address(library));
    events(adapter);
    ports(adapter);
    watchers(adapter);
    other_kinds(adapter);
    CHECK(adapter->Release() == 0);
    return 0;
}
