/*
 * What clients pass by mistake, and the statuses that the book's chapter about C and C++ promises for it.
 *
 *     bad_input COPY    with a copy of the provider's library, whose objects are foreign to those of ND_PROVIDER
 *
 * It ends with status 0 and says nothing if all is well.
 */
#include "client.h"

#include <initializer_list>

namespace {

/* A call with a null pointer for its result. */
void null_results(Device &device)
{
    const IID &cq = IID_IND2CompletionQueue, &region = IID_IND2MemoryRegion, &window = IID_IND2MemoryWindow;
    IND2Adapter *adapter = device.adapter.get();
    IUnknown *queue = device.cq.get();
    ULONG size = 0;
    CHECK_STATUS(adapter->CreateOverlappedFile(nullptr), ND_INVALID_PARAMETER_1);
    CHECK_STATUS(adapter->Query(nullptr, nullptr), ND_INVALID_PARAMETER_2);
    size = sizeof(ND2_ADAPTER_INFO);
    CHECK_STATUS(adapter->Query(nullptr, &size), ND_INVALID_PARAMETER_1);
    CHECK_STATUS(adapter->QueryAddressList(nullptr, nullptr), ND_INVALID_PARAMETER_2);
    CHECK_STATUS(adapter->CreateCompletionQueue(cq, device.file, 4, 0, 0, nullptr), ND_INVALID_PARAMETER_6);
    CHECK_STATUS(adapter->CreateMemoryRegion(region, device.file, nullptr), ND_INVALID_PARAMETER_3);
    CHECK_STATUS(adapter->CreateMemoryWindow(window, nullptr), ND_INVALID_PARAMETER_2);
    CHECK_STATUS(adapter->CreateQueuePair(IID_IND2QueuePair, queue, queue, nullptr, 1, 1, 1, 1, 0, nullptr), ND_INVALID_PARAMETER_10);
    CHECK_STATUS(adapter->CreateConnector(IID_IND2Connector, device.file, nullptr), ND_INVALID_PARAMETER_3);
    CHECK_STATUS(adapter->CreateListener(IID_IND2Listener, device.file, nullptr), ND_INVALID_PARAMETER_3);
    CHECK(device.cq->GetResults(nullptr, 4) == 0);
    CHECK(FAILED(adapter->QueryInterface(IID_IUnknown, nullptr)));
}

/* An identifier that the object does not have. */
void unknown_interfaces(Device &device)
{
    void *object = &device;
    CHECK_STATUS(device.cq->QueryInterface(IID_IND2Connector, &object), E_NOINTERFACE);
    CHECK(object == nullptr);
    object = &device;
    CHECK_STATUS(device.adapter->CreateCompletionQueue(IID_IND2QueuePair, device.file, 4, 0, 0, &object), E_NOINTERFACE);
    CHECK(object == nullptr);
}

/* An object with IUnknown that no library made. */
struct Stranger final : IUnknown {
    HRESULT STDMETHODCALLTYPE QueryInterface(REFIID, VOID **object) override
    {
        *object = nullptr;
        return E_NOINTERFACE;
    }
    ULONG STDMETHODCALLTYPE AddRef() override { return 2; }
    ULONG STDMETHODCALLTYPE Release() override { return 1; }
};

void wants_own_queues(Device &device, IUnknown *foreign)
{
    IUnknown *own = device.cq.get();
    void *qp = nullptr;
    CHECK_STATUS(device.adapter->CreateQueuePair(IID_IND2QueuePair, foreign, own, nullptr, 1, 1, 1, 1, 0, &qp), ND_INVALID_PARAMETER_2);
    CHECK_STATUS(device.adapter->CreateQueuePair(IID_IND2QueuePair, own, foreign, nullptr, 1, 1, 1, 1, 0, &qp), ND_INVALID_PARAMETER_3);
    CHECK(qp == nullptr);
}

/* Objects of nobody, of another adapter, of another class, and of another copy of the library. */
void foreign_objects(Device &device, const char *copy)
{
    Stranger stranger;
    wants_own_queues(device, nullptr);
    wants_own_queues(device, &stranger);
    wants_own_queues(device, device.region.get());
    {
        Device other;
        wants_own_queues(device, other.cq.get());
    }
    auto get = reinterpret_cast<ND_DLL_GET_CLASS_OBJECT>(look_up(load_library(copy), "DllGetClassObject"));
    Ref<IND2Provider> provider;
    Ref<IND2Adapter> adapter;
    Ref<IND2CompletionQueue> cq;
    HANDLE file = nullptr;
    UINT64 id = 0;
    CHECK_STATUS(get(CLSID{}, IID_IND2Provider, provider.out()), S_OK);
    CHECK_STATUS(provider->ResolveAddress(device.generic(), sizeof(device.address), &id), ND_SUCCESS);
    CHECK_STATUS(provider->OpenAdapter(IID_IND2Adapter, id, adapter.out()), ND_SUCCESS);
    CHECK_STATUS(adapter->CreateOverlappedFile(&file), ND_SUCCESS);
    CHECK_STATUS(adapter->CreateCompletionQueue(IID_IND2CompletionQueue, file, 4, 0, 0, cq.out()), ND_SUCCESS);
    wants_own_queues(device, cq.get());
    /* Nor is its file one of the adapter's. */
    void *region = nullptr;
    CHECK_STATUS(device.adapter->CreateMemoryRegion(IID_IND2MemoryRegion, file, &region), ND_INVALID_HANDLE);
    CloseHandle(file);
}

void files(Device &device)
{
    Device other;
    HANDLE event = CreateEvent(nullptr, FALSE, FALSE, nullptr);
    for (HANDLE wrong : {other.file, event, HANDLE(nullptr)}) {
        void *object = nullptr;
        CHECK_STATUS(device.adapter->CreateConnector(IID_IND2Connector, wrong, &object), ND_INVALID_HANDLE);
        CHECK(object == nullptr);
    }
    CloseHandle(event);
}

void addresses(Device &device)
{
    End end(device);
    OVERLAPPED overlapped = {};
    CHECK_STATUS(end.connector->Bind(device.generic(), sizeof(sockaddr_in) - 1), ND_INVALID_PARAMETER_2);
    CHECK_STATUS(end.connector->Bind(nullptr, sizeof(sockaddr_in)), ND_INVALID_PARAMETER_1);
    CHECK(FAILED(end.connector->Connect(end.qp.get(), device.generic(), 1, 0, 0, nullptr, 0, &overlapped)));
    CHECK(FAILED(end.connector->Connect(end.qp.get(), nullptr, sizeof(sockaddr_in), 0, 0, nullptr, 0, &overlapped)));
}

void entries(Device &device)
{
    Pair pair(device);
    IND2QueuePair *qp = pair.active.qp.get();
    CHECK_STATUS(qp->Send(nullptr, nullptr, 1, 0), ND_INVALID_PARAMETER_2);
    CHECK_STATUS(qp->Receive(nullptr, nullptr, 1), ND_INVALID_PARAMETER_2);
    CHECK_STATUS(qp->Read(nullptr, nullptr, 1, 0, 0, 0), ND_INVALID_PARAMETER_2);
    CHECK_STATUS(qp->Write(nullptr, nullptr, 1, 0, 0, 0), ND_INVALID_PARAMETER_2);
    /* A token that is none, and an address outside of the region. The connection ends, so this is the last. */
    ND2_SGE wrong = {device.memory.data(), 16, 0xDEADBEEF};
    const HRESULT status = qp->Send(nullptr, &wrong, 1, 0);
    CHECK(FAILED(status) || FAILED(device.next_result().Status));
}

/* Counts and lengths beyond the adapter's limits: nothing is read of what they count. */
void counts(Device &device)
{
    Pair pair(device);
    IND2QueuePair *qp = pair.active.qp.get();
    ND2_ADAPTER_INFO info = {};
    info.InfoVersion = ND_VERSION_2;
    ULONG size = sizeof(info);
    CHECK_STATUS(device.adapter->Query(&info, &size), ND_SUCCESS);
    Ref<IND2SharedReceiveQueue> srq;
    CHECK_STATUS(device.adapter->CreateSharedReceiveQueue(IID_IND2SharedReceiveQueue, device.file, 4, 1, 0, 0, 0, srq.out()), ND_SUCCESS);
    void *unreadable = new_pages(1, NO_RIGHTS);
    const ULONG most = info.MaxInitiatorSge > info.MaxReadSge ? info.MaxInitiatorSge : info.MaxReadSge;
    const ULONG inlined = info.MaxInlineDataSize;
    for (size_t offset : {0, 1}) {
        auto *list = reinterpret_cast<const ND2_SGE *>(static_cast<const char *>(unreadable) + offset);
        for (ULONG count : std::initializer_list<ULONG>{most + 1, 1000000U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
            CHECK_STATUS(qp->Send(nullptr, list, count, 0), ND_DATA_OVERRUN);
            CHECK_STATUS(qp->Read(nullptr, list, count, 0, 0, 0), ND_DATA_OVERRUN);
            CHECK_STATUS(qp->Write(nullptr, list, count, 0, 0, 0), ND_DATA_OVERRUN);
        }
        for (ULONG count : std::initializer_list<ULONG>{info.MaxReceiveSge + 1, 1000000U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
            CHECK_STATUS(qp->Receive(nullptr, list, count), ND_DATA_OVERRUN);
            CHECK_STATUS(srq->Receive(nullptr, list, count), ND_DATA_OVERRUN);
        }
        /* Inline data may have as many pieces as octets. */
        for (ULONG count : std::initializer_list<ULONG>{(inlined > most ? inlined : most) + 1, 1000000U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
            CHECK_STATUS(qp->Send(nullptr, list, count, ND_OP_FLAG_INLINE), ND_BUFFER_OVERFLOW);
            CHECK_STATUS(qp->Write(nullptr, list, count, 0, 0, ND_OP_FLAG_INLINE), ND_BUFFER_OVERFLOW);
        }
    }
    for (ULONG length : std::initializer_list<ULONG>{inlined + 1, 1U << 20, 1U << 30, 0xFFFFFFFFU}) {
        const ND2_SGE pieces[] = {{unreadable, length, 0}, {unreadable, length, 0}};
        for (ULONG count : {1U, 2U}) {
            CHECK_STATUS(qp->Send(nullptr, pieces, count, ND_OP_FLAG_INLINE), ND_BUFFER_OVERFLOW);
            CHECK_STATUS(qp->Write(nullptr, pieces, count, 0, 0, ND_OP_FLAG_INLINE), ND_BUFFER_OVERFLOW);
        }
    }
    free_pages(unreadable, 1);
}

/* Numbers in place of handles and of objects. */
void numbers(Device &device)
{
    for (uintptr_t number : NO_HANDLES) {
        HANDLE wrong = reinterpret_cast<HANDLE>(number);
        void *object = nullptr;
        OVERLAPPED overlapped = {};
        overlapped.hEvent = wrong;
        CHECK_STATUS(device.cq->Notify(ND_CQ_NOTIFY_ANY, &overlapped), ND_INVALID_HANDLE);
        CHECK(!SetEvent(wrong) && !ResetEvent(wrong) && !CloseHandle(wrong));
        CHECK_STATUS(device.adapter->CreateConnector(IID_IND2Connector, wrong, &object), ND_INVALID_HANDLE);
        CHECK(object == nullptr);
    }
    for (uintptr_t number : {8, 9, 16, 0xFFF8}) {
        CHECK_STATUS(device.cq->Notify(ND_CQ_NOTIFY_ANY, reinterpret_cast<OVERLAPPED *>(number)), ND_INVALID_PARAMETER_2);
        CHECK_STATUS(device.cq->GetOverlappedResult(reinterpret_cast<OVERLAPPED *>(number), FALSE), ND_INVALID_PARAMETER_1);
        wants_own_queues(device, reinterpret_cast<IUnknown *>(number));
    }
}

void memory(Device &device)
{
    const ULONG writes = ND_MR_FLAG_ALLOW_LOCAL_WRITE;
    const size_t page = PAGE;
    OVERLAPPED overlapped = {};
    Ref<IND2MemoryRegion> region;
    CHECK_STATUS(device.adapter->CreateMemoryRegion(IID_IND2MemoryRegion, device.file, region.out()), ND_SUCCESS);
    auto enrol = [&](const void *at, size_t size, ULONG flags) {
        return finish(region.get(), region->Register(at, size, flags, &overlapped), &overlapped);
    };
    auto *pages = static_cast<char *>(new_pages(3, MAY_WRITE));
    protect_page(pages + page, MAY_READ);
    protect_page(pages + 2 * page, NO_RIGHTS);
    CHECK_STATUS(enrol(nullptr, 0, writes), ND_INVALID_PARAMETER);
    CHECK_STATUS(enrol(pages, 0, writes), ND_INVALID_BUFFER_SIZE);
    CHECK_STATUS(enrol(pages + 2 * page, page, 0), ND_ACCESS_VIOLATION);
    CHECK_STATUS(enrol(pages, 3 * page, 0), ND_ACCESS_VIOLATION);
    CHECK_STATUS(enrol(pages + page, page, writes), ND_ACCESS_VIOLATION);
    CHECK_STATUS(enrol(pages, 2 * page, writes), ND_ACCESS_VIOLATION);
    /* Memory that can be read is enough for a region that nothing is written to. */
    CHECK_STATUS(enrol(pages, 2 * page, 0), ND_SUCCESS);
    CHECK_STATUS(finish(region.get(), region->Deregister(&overlapped), &overlapped), ND_SUCCESS);
    CHECK_STATUS(enrol(pages, page, writes), ND_SUCCESS);
    CHECK_STATUS(finish(region.get(), region->Deregister(&overlapped), &overlapped), ND_SUCCESS);
    free_pages(pages, 3);
}

/* An OVERLAPPED that is none, and one whose event is of another kind. */
void requests(Device &device)
{
    HANDLE port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, nullptr, 0, 0);
    for (HANDLE wrong : {port, device.file}) {
        OVERLAPPED overlapped = {};
        overlapped.hEvent = wrong;
        CHECK_STATUS(device.cq->Notify(ND_CQ_NOTIFY_ANY, &overlapped), ND_INVALID_HANDLE);
    }
    CloseHandle(port);
    CHECK(FAILED(device.cq->Notify(ND_CQ_NOTIFY_ANY, nullptr)));
    CHECK(FAILED(device.cq->GetOverlappedResult(nullptr, FALSE)));
    OVERLAPPED overlapped = {};
    CHECK_STATUS(device.cq->Notify(3, &overlapped), ND_INVALID_PARAMETER_1);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    CHECK_STATUS(NdStartup(), ND_SUCCESS);
    {
        Device device;
        null_results(device);
        unknown_interfaces(device);
        foreign_objects(device, argv[1]);
        files(device);
        addresses(device);
        memory(device);
        requests(device);
        numbers(device);
        device.register_memory();
        counts(device);
        entries(device);
    }
    CHECK_STATUS(NdCleanup(), ND_SUCCESS);
    return 0;
}
