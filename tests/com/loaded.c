/*
 * A program that loads a provider by itself, with the header alone: it is linked with no library of NetworkDirect.
 *
 *     loaded LIBRARY            sends a message to itself through every group of objects
 *     loaded LIBRARY unmap      loads and unloads the library 1,000 times without an adapter; where libraries go, it is gone every time, and
 *                               handles and threads are as after the first
 *     loaded LIBRARY reopen     opens and closes an adapter 1,000 times; threads, handles and memory are as after the first
 *
 * It ends with status 0 and says nothing if all is well.
 */
#define _GNU_SOURCE

#include "system.h"

static const char *path;

typedef struct loaded {
    void *library;
    ND_DLL_GET_CLASS_OBJECT get_class_object;
    ND_DLL_CAN_UNLOAD_NOW can_unload_now;
} loaded;

static loaded load(void)
{
    loaded it;
    it.library = load_library(path);
    it.get_class_object = (ND_DLL_GET_CLASS_OBJECT)look_up(it.library, "DllGetClassObject");
    it.can_unload_now = (ND_DLL_CAN_UNLOAD_NOW)look_up(it.library, "DllCanUnloadNow");
    return it;
}

static IND2Provider *provider_of(const loaded *it)
{
    const CLSID any = {0};
    IND2Provider *direct = NULL, *made = NULL;
    IClassFactory *factory = NULL;
    CHECK(it->get_class_object(&any, &IID_IND2Listener, (void **)&direct) == E_NOINTERFACE && direct == NULL);
    CHECK(it->get_class_object(&any, &IID_IND2Provider, (void **)&direct) == S_OK);
    /* The other way to the same. */
    CHECK(it->get_class_object(&any, &IID_IClassFactory, (void **)&factory) == S_OK);
    CHECK(IClassFactory_CreateInstance(factory, NULL, &IID_IND2Provider, (void **)&made) == S_OK);
    CHECK(IND2Provider_Release(made) == 0);
    CHECK(IClassFactory_Release(factory) == 0);
    CHECK(it->can_unload_now() == S_FALSE);
    return direct;
}

/* The address of this machine itself. */
static struct sockaddr_in here(void)
{
    struct sockaddr_in address;
    memset(&address, 0, sizeof(address));
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static IND2Adapter *open_adapter(IND2Provider *provider)
{
    struct sockaddr_in address = here();
    UINT64 id = 0;
    IND2Adapter *adapter = NULL;
    ND2_ADAPTER_INFO info = {.InfoVersion = ND_VERSION_2};
    ULONG size = sizeof(info);
    CHECK(IND2Provider_ResolveAddress(provider, (struct sockaddr *)&address, sizeof(address), &id) == ND_SUCCESS);
    CHECK(IND2Provider_OpenAdapter(provider, &IID_IND2Adapter, id, (void **)&adapter) == ND_SUCCESS);
    CHECK(IND2Adapter_Query(adapter, &info, &size) == ND_SUCCESS && size == sizeof(info));
    CHECK(info.InfoVersion == ND_VERSION_2 && info.AdapterId == id && info.MaxRegistrationSize > 0);
    return adapter;
}

static HRESULT finish(void *object, HRESULT status, OVERLAPPED *overlapped)
{
    return status == ND_PENDING ? IND2Overlapped_GetOverlappedResult((IND2Overlapped *)object, overlapped, TRUE) : status;
}

static ND2_RESULT next_result(IND2CompletionQueue *cq)
{
    ND2_RESULT result;
    while (IND2CompletionQueue_GetResults(cq, &result, 1) == 0)
        ;
    return result;
}

/* The end of the connection of a connector or a queue pair, as the sentence says it too. */
static HRESULT end_of(void *object, NDX_CONNECTION_END *end, const char *sentence)
{
    INDXConnectionEnd *more;
    char text[256];
    ULONG size = 0, room;
    HRESULT status;
    CHECK(IUnknown_QueryInterface((IUnknown *)object, &IID_INDXConnectionEnd, (void **)&more) == S_OK);
    status = INDXConnectionEnd_GetConnectionEnd(more, end, NULL, &size);
    if (status == ND_BUFFER_OVERFLOW) {
        room = size;
        CHECK(size == strlen(sentence) && size < sizeof(text));
        status = INDXConnectionEnd_GetConnectionEnd(more, end, text, &size);
        CHECK(size == room && memcmp(text, sentence, size) == 0);
    }
    CHECK(INDXConnectionEnd_Release(more) == 1);
    return status;
}

static void exchange(IND2Adapter *adapter)
{
    struct sockaddr_in address = here(), at;
    ULONG size = sizeof(at);
    HANDLE file;
    IND2CompletionQueue *cq;
    IND2MemoryRegion *region;
    IND2QueuePair *active_qp, *passive_qp;
    IND2Connector *active, *passive;
    IND2Listener *listener;
    IUnknown *identity, *same;
    OVERLAPPED asked = {0}, connecting = {0}, accepting = {0}, one = {0};
    HRESULT asking, connect, accept;
    char memory[128] = "a message of this program to itself";

    CHECK(IND2Adapter_CreateOverlappedFile(adapter, &file) == ND_SUCCESS);
    CHECK(is_file(file));
    CHECK(IND2Adapter_CreateCompletionQueue(adapter, &IID_IND2CompletionQueue, file, 8, 0, 0, (void **)&cq) == ND_SUCCESS);
    CHECK(IND2Adapter_CreateMemoryRegion(adapter, &IID_IND2MemoryRegion, file, (void **)&region) == ND_SUCCESS);
    CHECK(IND2Adapter_CreateQueuePair(adapter, &IID_IND2QueuePair, (IUnknown *)cq, (IUnknown *)cq, &active_qp, 2, 2, 1, 1, 0,
                                      (void **)&active_qp) == ND_SUCCESS);
    CHECK(IND2Adapter_CreateQueuePair(adapter, &IID_IND2QueuePair, (IUnknown *)cq, (IUnknown *)cq, &passive_qp, 2, 2, 1, 1, 0,
                                      (void **)&passive_qp) == ND_SUCCESS);
    CHECK(IND2Adapter_CreateConnector(adapter, &IID_IND2Connector, file, (void **)&active) == ND_SUCCESS);
    CHECK(IND2Adapter_CreateConnector(adapter, &IID_IND2Connector, file, (void **)&passive) == ND_SUCCESS);
    CHECK(IND2Adapter_CreateListener(adapter, &IID_IND2Listener, file, (void **)&listener) == ND_SUCCESS);

    /* One object has one identity, and no interface of another. */
    CHECK(IND2CompletionQueue_QueryInterface(cq, &IID_IUnknown, (void **)&identity) == S_OK);
    CHECK(IUnknown_QueryInterface(identity, &IID_IND2Overlapped, (void **)&same) == S_OK);
    CHECK(IUnknown_Release(same) == 2 && IUnknown_Release(identity) == 1);
    CHECK(IND2CompletionQueue_QueryInterface(cq, &IID_IND2QueuePair, (void **)&same) == E_NOINTERFACE && same == NULL);

    CHECK(finish(region, IND2MemoryRegion_Register(region, memory, sizeof(memory), ND_MR_FLAG_ALLOW_LOCAL_WRITE, &one), &one) == ND_SUCCESS);
    CHECK(IND2Listener_Bind(listener, (struct sockaddr *)&address, sizeof(address)) == ND_SUCCESS);
    CHECK(IND2Listener_Listen(listener, 0) == ND_SUCCESS);
    CHECK(IND2Listener_GetLocalAddress(listener, (struct sockaddr *)&at, &size) == ND_SUCCESS && size == sizeof(at));
    asking = IND2Listener_GetConnectionRequest(listener, (IUnknown *)passive, &asked);
    connect = IND2Connector_Connect(active, (IUnknown *)active_qp, (struct sockaddr *)&at, sizeof(at), 0, 0, "hello", 5, &connecting);
    CHECK(finish(listener, asking, &asked) == ND_SUCCESS);
    char hello[16];
    size = sizeof(hello);
    CHECK(IND2Connector_GetPrivateData(passive, hello, &size) == ND_SUCCESS && memcmp(hello, "hello", 5) == 0);
    accept = IND2Connector_Accept(passive, (IUnknown *)passive_qp, 0, 0, NULL, 0, &accepting);
    CHECK(finish(active, connect, &connecting) == ND_SUCCESS);
    CHECK(finish(active, IND2Connector_CompleteConnect(active, &one), &one) == ND_SUCCESS);
    CHECK(finish(passive, accept, &accepting) == ND_SUCCESS);

    ND2_SGE to = {memory + 64, 64, IND2MemoryRegion_GetLocalToken(region)};
    ND2_SGE from = {memory, 64, IND2MemoryRegion_GetLocalToken(region)};
    CHECK(IND2QueuePair_Receive(passive_qp, &to, &to, 1) == ND_SUCCESS);
    CHECK(IND2QueuePair_Send(active_qp, &from, &from, 1, 0) == ND_SUCCESS);
    for (int i = 0; i < 2; ++i) {
        ND2_RESULT result = next_result(cq);
        CHECK(result.Status == ND_SUCCESS);
        if (result.RequestType == Nd2RequestTypeReceive)
            CHECK(result.RequestContext == &to && result.QueuePairContext == &passive_qp && result.BytesTransferred == 64);
        else
            CHECK(result.RequestContext == &from && result.QueuePairContext == &active_qp && result.RequestType == Nd2RequestTypeSend);
    }
    CHECK(memcmp(memory, memory + 64, 64) == 0);

    NDX_CONNECTION_END end;
    CHECK(end_of(active, &end, "") == ND_CONNECTION_INVALID && end_of(active_qp, &end, "") == ND_CONNECTION_INVALID);
    CHECK(finish(active, IND2Connector_Disconnect(active, &one), &one) == ND_SUCCESS);
    CHECK(end_of(active, &end, "this side disconnected") == ND_SUCCESS);
    CHECK(end.EndedBy == NdxEndedByThisSide && end.Reason == NdxEndDisconnect && !end.HasTerminate);
    CHECK(finish(passive, IND2Connector_NotifyDisconnect(passive, &one), &one) == ND_SUCCESS);
    CHECK(end_of(passive_qp, &end, "the peer disconnected") == ND_SUCCESS);
    CHECK(end.EndedBy == NdxEndedByPeer && end.Reason == NdxEndDisconnect && !end.HasTerminate);
    CHECK(IND2Listener_Release(listener) == 0 && IND2Connector_Release(active) == 0 && IND2Connector_Release(passive) == 0);
    CHECK(IND2QueuePair_Release(active_qp) == 0 && IND2QueuePair_Release(passive_qp) == 0);
    CHECK(finish(region, IND2MemoryRegion_Deregister(region, &one), &one) == ND_SUCCESS);
    CHECK(IND2MemoryRegion_Release(region) == 0 && IND2CompletionQueue_Release(cq) == 0);
    close_file(file);
}

/* What softnd has beyond ND2. */
static void extensions(IND2Adapter *adapter)
{
    INDXAdapter *more;
    HANDLE file;
    char text[4096];
    ULONG size = 0;
    NDX_FAULT fault = {.Kind = NDX_FAULT_CALL, .Call = NdxCallCreateOverlappedFile, .Nth = 1, .Status = ND_NO_MEMORY};
    CHECK(IND2Adapter_QueryInterface(adapter, &IID_INDXAdapter, (void **)&more) == S_OK);
    CHECK(INDXAdapter_GetCapabilities(more) & NDX_CAPABILITY_MEMORY_WINDOWS);
    CHECK(INDXAdapter_GetCounters(more, NULL, &size) == ND_BUFFER_OVERFLOW && size > 0 && size <= sizeof(text));
    CHECK(INDXAdapter_GetCounters(more, text, &size) == ND_SUCCESS && memchr(text, ' ', size) != NULL);
    CHECK(INDXAdapter_Inject(more, &fault) == ND_SUCCESS);
    CHECK(IND2Adapter_CreateOverlappedFile(adapter, &file) == ND_NO_MEMORY);
    CHECK(IND2Adapter_CreateOverlappedFile(adapter, &file) == ND_SUCCESS);
    close_file(file);
    CHECK(INDXAdapter_Release(more) == 1);
}

static void send_a_message(void)
{
    loaded it = load();
    IND2Provider *provider = provider_of(&it);
    IND2Adapter *adapter = open_adapter(provider);
    CHECK(IND2Provider_Release(provider) == 0);
    exchange(adapter);
    extensions(adapter);
    CHECK(it.can_unload_now() == S_FALSE);
    CHECK(IND2Adapter_Release(adapter) == 0);
    CHECK(it.can_unload_now() == S_OK);
    unload_library(it.library);
}

static void unmap(void)
{
    unsigned handles = 0, threads = 0;
    for (int round = 0; round < 1000; ++round) {
        loaded it = load();
        IND2Provider *provider = provider_of(&it);
        ULONG size = 0;
        CHECK(is_loaded(path));
        CHECK(IND2Provider_QueryAddressList(provider, NULL, &size) == ND_BUFFER_OVERFLOW && size > 0);
        CHECK(IND2Provider_Release(provider) == 0);
        CHECK(it.can_unload_now() == S_OK);
        unload_library(it.library);
        CHECK(is_loaded(path) == LIBRARIES_STAY);
        /* The first round loads what the library needs of the system. */
        if (round == 0) {
            handles = count_of_handles();
            threads = count_of_threads();
        } else if (round % 100 == 99) {
            CHECK(count_of_handles() == handles && count_of_threads() == threads);
        }
    }
}

/* The threads of a closed adapter end soon after. */
static void until_threads_are(unsigned count)
{
    while (count_of_threads() > count)
        yield_processor();
}

static void reopen(void)
{
    unsigned handles = 0;
    size_t used = 0, space = 0;
    const unsigned threads = count_of_threads();
    for (int round = 0; round < 1000; ++round) {
        loaded it = load();
        IND2Provider *provider = provider_of(&it);
        IND2Adapter *adapter = open_adapter(provider);
        CHECK(IND2Adapter_Release(adapter) == 0 && IND2Provider_Release(provider) == 0);
        CHECK(it.can_unload_now() == S_OK);
        unload_library(it.library);
        until_threads_are(threads);
        const size_t used_now = heap_in_use();
        if (round == 0) {
            handles = count_of_handles();
            used = used_now;
        }
        /* The system keeps stacks of ended threads for the next ones. */
        if (round == 10)
            space = address_space();
        CHECK(is_loaded(path));
        CHECK(round % 100 != 99 || count_of_handles() == handles);
        CHECK(used_now == used);
        CHECK(round < 10 || address_space() == space);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    path = argv[1];
    if (argc == 2)
        send_a_message();
    else if (strcmp(argv[2], "unmap") == 0)
        unmap();
    else if (strcmp(argv[2], "reopen") == 0) {
        without_cached_memory(argv);
        reopen();
    } else
        return 2;
    return 0;
}
