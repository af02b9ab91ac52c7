/*
 * Two processes move data by Send, Read and Write, and sleep on an event while they wait.
 *
 * The server sends the address and token of its memory. The client reads a text there, writes another one, and says by an empty message
 * that it has.
 */
#include "sample.h"

enum { MESSAGE = 0, TEXT = 64, ANSWER = 256, LENGTH = 4096 };

/* What the server sends. The remote token is in network byte order already; the rest is in that of little-endian processors. */
typedef struct offer {
    UINT64 address;
    UINT32 token;
    UINT32 length;
} offer;

static HANDLE event;
static IND2Adapter *adapter;
static IND2CompletionQueue *cq;
static IND2QueuePair *qp;
static IND2MemoryRegion *region;
static IND2Connector *connector;
static char *memory;
static HANDLE file;

/* Waits for the end of a request. A call that returns something other than ND_PENDING has ended already. */
static HRESULT finish(void *object, HRESULT status, OVERLAPPED *overlapped)
{
    IND2Overlapped *o = (IND2Overlapped *)object;
    while (status == ND_PENDING) {
        if (WaitForSingleObject(event, INFINITE) != WAIT_OBJECT_0)
            fail("WaitForSingleObject");
        status = IND2Overlapped_GetOverlappedResult(o, overlapped, FALSE);
    }
    return status;
}

/* The result of the next request. */
static ND2_RESULT next_result(const char *what)
{
    ND2_RESULT result;
    while (IND2CompletionQueue_GetResults(cq, &result, 1) == 0) {
        OVERLAPPED overlapped = {.hEvent = event};
        HRESULT status = IND2CompletionQueue_Notify(cq, ND_CQ_NOTIFY_ANY, &overlapped);
        check(finish(cq, status, &overlapped), "Notify");
    }
    check(result.Status, what);
    return result;
}

/* A piece of the registered memory. */
static ND2_SGE piece(SIZE_T offset, ULONG length)
{
    ND2_SGE sge = {memory + offset, length, IND2MemoryRegion_GetLocalToken(region)};
    return sge;
}

static void open_adapter(address *local)
{
    OVERLAPPED overlapped = {0};
    const ULONG rights = ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ | ND_MR_FLAG_ALLOW_REMOTE_WRITE |
                         ND_MR_FLAG_RDMA_READ_SINK;
    check(NdOpenAdapter(&IID_IND2Adapter, generic(local), local->length, (void **)&adapter), "NdOpenAdapter");
    check(IND2Adapter_CreateOverlappedFile(adapter, &file), "CreateOverlappedFile");
    check(IND2Adapter_CreateCompletionQueue(adapter, &IID_IND2CompletionQueue, file, 8, 0, 0, (void **)&cq), "CreateCompletionQueue");
    check(IND2Adapter_CreateQueuePair(adapter, &IID_IND2QueuePair, (IUnknown *)cq, (IUnknown *)cq, NULL, 4, 4, 1, 1, 0, (void **)&qp),
          "CreateQueuePair");
    check(IND2Adapter_CreateConnector(adapter, &IID_IND2Connector, file, (void **)&connector), "CreateConnector");
    check(IND2Adapter_CreateMemoryRegion(adapter, &IID_IND2MemoryRegion, file, (void **)&region), "CreateMemoryRegion");
    overlapped.hEvent = event;
    check(finish(region, IND2MemoryRegion_Register(region, memory, LENGTH, rights, &overlapped), &overlapped), "Register");
    /* A Receive has to be there before the peer sends. */
    ND2_SGE message = piece(MESSAGE, sizeof(offer));
    check(IND2QueuePair_Receive(qp, NULL, &message, 1), "Receive");
}

static void serve(address *local)
{
    OVERLAPPED overlapped = {.hEvent = event};
    IND2Listener *listener;
    check(IND2Adapter_CreateListener(adapter, &IID_IND2Listener, file, (void **)&listener), "CreateListener");
    check(IND2Listener_Bind(listener, generic(local), local->length), "Bind");
    check(IND2Listener_Listen(listener, 1), "Listen");
    announce(listener);
    HRESULT status = IND2Listener_GetConnectionRequest(listener, (IUnknown *)connector, &overlapped);
    check(finish(listener, status, &overlapped), "GetConnectionRequest");
    status = IND2Connector_Accept(connector, (IUnknown *)qp, 1, 1, NULL, 0, &overlapped);
    check(finish(connector, status, &overlapped), "Accept");
    IND2Listener_Release(listener);

    strcpy(memory + TEXT, "a text in the server's memory");
    offer mine = {(UINT64)(uintptr_t)memory, IND2MemoryRegion_GetRemoteToken(region), LENGTH};
    memcpy(memory + MESSAGE, &mine, sizeof(mine));
    ND2_SGE message = piece(MESSAGE, sizeof(mine));
    check(IND2QueuePair_Send(qp, NULL, &message, 1, 0), "Send");
    next_result("result of Send");
    next_result("result of Receive");
    printf("the client has written: %s\n", memory + ANSWER);
}

static void use(address *remote, address *local)
{
    OVERLAPPED overlapped = {.hEvent = event};
    check(IND2Connector_Bind(connector, generic(local), local->length), "Bind");
    HRESULT status =
        IND2Connector_Connect(connector, (IUnknown *)qp, generic(remote), remote->length, 1, 1, NULL, 0, &overlapped);
    check(finish(connector, status, &overlapped), "Connect");
    check(finish(connector, IND2Connector_CompleteConnect(connector, &overlapped), &overlapped), "CompleteConnect");

    offer theirs;
    next_result("result of Receive");
    memcpy(&theirs, memory + MESSAGE, sizeof(theirs));
    ND2_SGE sge = piece(TEXT, ANSWER - TEXT);
    check(IND2QueuePair_Read(qp, NULL, &sge, 1, theirs.address + TEXT, theirs.token, 0), "Read");
    next_result("result of Read");
    printf("read: %s\n", memory + TEXT);

    strcpy(memory + ANSWER, "an answer from the client");
    sge = piece(ANSWER, (ULONG)strlen(memory + ANSWER) + 1);
    check(IND2QueuePair_Write(qp, NULL, &sge, 1, theirs.address + ANSWER, theirs.token, 0), "Write");
    check(IND2QueuePair_Send(qp, NULL, NULL, 0, 0), "Send");
    next_result("result of Write");
    next_result("result of Send");
    /* Ends when the server has disconnected. */
    check(finish(connector, IND2Connector_NotifyDisconnect(connector, &overlapped), &overlapped), "NotifyDisconnect");
}

int main(int argc, char **argv)
{
    BOOL server = is_server(argc, argv);
    address named = parse(argv[2], argv[3]);
    OVERLAPPED overlapped = {0};
    check(NdStartup(), "NdStartup");
    memory = (char *)calloc(1, LENGTH);
    event = CreateEvent(NULL, FALSE, FALSE, NULL);
    if (memory == NULL || event == NULL)
        fail("CreateEvent");
    address local = server ? named : local_for(&named);
    open_adapter(&local);
    if (server)
        serve(&local);
    else
        use(&named, &local);

    overlapped.hEvent = event;
    finish(connector, IND2Connector_Disconnect(connector, &overlapped), &overlapped);
    finish(region, IND2MemoryRegion_Deregister(region, &overlapped), &overlapped);
    IND2Connector_Release(connector);
    IND2QueuePair_Release(qp);
    IND2MemoryRegion_Release(region);
    IND2CompletionQueue_Release(cq);
    CloseHandle(file);
    IND2Adapter_Release(adapter);
    CloseHandle(event);
    free(memory);
    check(NdCleanup(), "NdCleanup");
    return 0;
}
