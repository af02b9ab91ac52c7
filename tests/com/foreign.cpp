/*
 * A second copy of a library, loaded beside the first: its objects are those of another provider. Objects of another adapter, of another
 * kind, of the program's own, and none at all get the same statuses.
 *
 *     foreign LIBRARY COPY
 *
 * It ends with status 0 and says nothing if all is well.
 */
#include "habits.hpp"

namespace {

/* One object of each kind. */
struct Objects {
    IND2Adapter *adapter;
    Side side;
    IND2MemoryWindow *window = nullptr;
    IND2SharedReceiveQueue *srq = nullptr;
    IND2Listener *listener = nullptr;

    explicit Objects(const Library &library, const sockaddr_in &address) : adapter(library.open(address)), side(adapter)
    {
        CHECK_STATUS(adapter->CreateMemoryWindow(IID_IND2MemoryWindow, out(&window)), ND_SUCCESS);
        CHECK_STATUS(adapter->CreateSharedReceiveQueue(IID_IND2SharedReceiveQueue, side.file, 4, 1, 0, 0, 0, out(&srq)), ND_SUCCESS);
        CHECK_STATUS(adapter->CreateListener(IID_IND2Listener, side.file, out(&listener)), ND_SUCCESS);
        CHECK_STATUS(listener->Bind(generic(address), sizeof(address)), ND_SUCCESS);
        CHECK_STATUS(listener->Listen(0), ND_SUCCESS);
    }
    /* Nobody has kept a reference to any of them. */
    void release()
    {
        CHECK(listener->Release() == 0 && window->Release() == 0 && srq->Release() == 0);
        side.release();
        CHECK(adapter->Release() == 0);
    }
};

/* A file of another library. */
void files(const Objects &own, HANDLE file)
{
    void *made = &made;
    CHECK_STATUS(own.adapter->CreateCompletionQueue(IID_IND2CompletionQueue, file, 4, 0, 0, &made), ND_INVALID_HANDLE);
    CHECK(made == nullptr);
    CHECK_STATUS(own.adapter->CreateMemoryRegion(IID_IND2MemoryRegion, file, &made), ND_INVALID_HANDLE);
    CHECK_STATUS(own.adapter->CreateSharedReceiveQueue(IID_IND2SharedReceiveQueue, file, 4, 1, 0, 0, 0, &made), ND_INVALID_HANDLE);
    CHECK_STATUS(own.adapter->CreateConnector(IID_IND2Connector, file, &made), ND_INVALID_HANDLE);
    CHECK_STATUS(own.adapter->CreateListener(IID_IND2Listener, file, &made), ND_INVALID_HANDLE);
    CHECK(made == nullptr);
}

/* Objects that are not of the library, in each place where a method takes one. */
void arguments(const Objects &own, IUnknown *cq, IUnknown *srq, IUnknown *qp, IUnknown *region, IUnknown *window, IUnknown *connector)
{
    IND2CompletionQueue *own_cq = own.side.cq;
    void *made = &made;
    CHECK_STATUS(own.adapter->CreateQueuePair(IID_IND2QueuePair, cq, own_cq, nullptr, 4, 4, 1, 1, 0, &made), ND_INVALID_PARAMETER_2);
    CHECK(made == nullptr);
    CHECK_STATUS(own.adapter->CreateQueuePair(IID_IND2QueuePair, own_cq, cq, nullptr, 4, 4, 1, 1, 0, &made), ND_INVALID_PARAMETER_3);
    auto with_srq = [&](IUnknown *receive, IUnknown *initiator, IUnknown *receives) {
        return own.adapter->CreateQueuePairWithSrq(IID_IND2QueuePair, receive, initiator, receives, nullptr, 4, 1, 0, &made);
    };
    CHECK_STATUS(with_srq(cq, own_cq, own.srq), ND_INVALID_PARAMETER_2);
    CHECK_STATUS(with_srq(own_cq, cq, own.srq), ND_INVALID_PARAMETER_3);
    CHECK_STATUS(with_srq(own_cq, own_cq, srq), ND_INVALID_PARAMETER_4);
    CHECK(made == nullptr);

    char *memory = own.side.memory;
    CHECK_STATUS(own.side.qp->Bind(nullptr, region, own.window, memory, 64, ND_OP_FLAG_ALLOW_READ), ND_INVALID_PARAMETER_2);
    CHECK_STATUS(own.side.qp->Bind(nullptr, own.side.region, window, memory, 64, ND_OP_FLAG_ALLOW_READ), ND_INVALID_PARAMETER_3);
    CHECK_STATUS(own.side.qp->Invalidate(nullptr, window, 0), ND_INVALID_PARAMETER_2);

    /* Nothing is in flight afterwards. */
    OVERLAPPED overlapped = {};
    sockaddr_in peer = {};
    ULONG size = sizeof(peer);
    CHECK_STATUS(own.listener->GetLocalAddress(reinterpret_cast<sockaddr *>(&peer), &size), ND_SUCCESS);
    IND2Connector *own_connector = own.side.connector;
    CHECK_STATUS(own_connector->Connect(qp, generic(peer), sizeof(peer), 0, 0, nullptr, 0, &overlapped), ND_INVALID_PARAMETER_1);
    CHECK_STATUS(own_connector->Accept(qp, 0, 0, nullptr, 0, &overlapped), ND_INVALID_PARAMETER_1);
    CHECK_STATUS(own.listener->GetConnectionRequest(connector, &overlapped), ND_INVALID_PARAMETER_1);
    CHECK(HasOverlappedIoCompleted(&overlapped));

    INDXListener *more = nullptr;
    CHECK_STATUS(own.listener->QueryInterface(IID_INDXListener, out(&more)), S_OK);
    CHECK_STATUS(more->Withdraw(connector), ND_INVALID_PARAMETER_1);
    CHECK(more->Release() == 1);
}

/* An object of the program's own. */
struct Own : IND2Overlapped {
    ULONG references = 1;

    HRESULT STDMETHODCALLTYPE QueryInterface(REFIID iid, VOID **object) override
    {
        const bool is_known = iid == IID_IUnknown || iid == IID_IND2Overlapped || iid == IID_IND2CompletionQueue;
        *object = is_known ? this : nullptr;
        references += is_known;
        return is_known ? S_OK : E_NOINTERFACE;
    }
    ULONG STDMETHODCALLTYPE AddRef() override { return ++references; }
    ULONG STDMETHODCALLTYPE Release() override { return --references; }
    HRESULT STDMETHODCALLTYPE CancelOverlappedRequests() override { return ND_SUCCESS; }
    HRESULT STDMETHODCALLTYPE GetOverlappedResult(OVERLAPPED *, BOOL) override { return ND_SUCCESS; }
};

} // namespace

int main(int count, char **paths)
{
    if (count != 3)
        return 2;
    const Library one(paths[1]), two(paths[2]);
    CHECK(one.get_class_object != two.get_class_object);
    const sockaddr_in address = first_address(one);
    /* Another adapter of the same library is as foreign. */
    Objects first(one, address), second(two, address), third(one, address);
    for (auto [own, other] : {std::pair{&first, &second}, std::pair{&second, &first}, std::pair{&first, &third}}) {
        files(*own, other->side.file);
        arguments(*own, other->side.cq, other->srq, other->side.qp, other->side.region, other->window, other->side.connector);
        /* Objects of the library, of another kind each. */
        arguments(*own, own->srq, own->side.cq, own->window, own->side.qp, own->side.region, own->listener);
        Own mine;
        arguments(*own, &mine, &mine, &mine, &mine, &mine, &mine);
        CHECK(mine.references == 1);
        /* None at all. */
        arguments(*own, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    }
    third.release();
    first.release();
    CHECK_STATUS(one.can_unload_now(), S_OK);
    CHECK_STATUS(two.can_unload_now(), S_FALSE);
    second.release();
    CHECK_STATUS(two.can_unload_now(), S_OK);
    return 0;
}
