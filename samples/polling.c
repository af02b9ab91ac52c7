/*
 * Two processes play ping-pong with 8 octets, and poll for results: the shortest way, at the price of a busy processor. No event and no
 * port is needed.
 */
#include "sample.h"

#include <time.h>

enum { ROUNDS = 1000, OCTETS = 8 };

static IND2Adapter *adapter;
static HANDLE file;
static IND2CompletionQueue *cq;
static IND2QueuePair *qp;
static IND2MemoryRegion *region;
static IND2Connector *connector;
static char memory[2 * OCTETS];

/* Asks for the status of a request until it is no longer ND_PENDING. */
static HRESULT finish(void *object, HRESULT status, OVERLAPPED *overlapped)
{
    while (status == ND_PENDING)
        status = IND2Overlapped_GetOverlappedResult((IND2Overlapped *)object, overlapped, FALSE);
    return status;
}

/* A clock. */
static double seconds(void)
{
#ifdef _WIN32
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    return (double)ticks.QuadPart / (double)per_second.QuadPart;
#else
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
#endif
}

static void open_adapter(address *local)
{
    OVERLAPPED overlapped = {0};
    check(NdOpenAdapter(&IID_IND2Adapter, generic(local), local->length, (void **)&adapter), "NdOpenAdapter");
    check(IND2Adapter_CreateOverlappedFile(adapter, &file), "CreateOverlappedFile");
    check(IND2Adapter_CreateCompletionQueue(adapter, &IID_IND2CompletionQueue, file, 4, 0, 0, (void **)&cq), "CreateCompletionQueue");
    check(IND2Adapter_CreateQueuePair(adapter, &IID_IND2QueuePair, (IUnknown *)cq, (IUnknown *)cq, NULL, 2, 2, 1, 1, 0, (void **)&qp),
          "CreateQueuePair");
    check(IND2Adapter_CreateConnector(adapter, &IID_IND2Connector, file, (void **)&connector), "CreateConnector");
    check(IND2Adapter_CreateMemoryRegion(adapter, &IID_IND2MemoryRegion, file, (void **)&region), "CreateMemoryRegion");
    HRESULT status = IND2MemoryRegion_Register(region, memory, sizeof(memory), ND_MR_FLAG_ALLOW_LOCAL_WRITE, &overlapped);
    check(finish(region, status, &overlapped), "Register");
}

static void receive(void)
{
    ND2_SGE sge = {memory, OCTETS, IND2MemoryRegion_GetLocalToken(region)};
    check(IND2QueuePair_Receive(qp, memory, &sge, 1), "Receive");
}

static void answer(void)
{
    ND2_SGE sge = {memory + OCTETS, OCTETS, IND2MemoryRegion_GetLocalToken(region)};
    check(IND2QueuePair_Send(qp, NULL, &sge, 1, 0), "Send");
}

/* Spins until a message has come. Results of Sends are taken on the way. */
static void await(void)
{
    for (;;) {
        ND2_RESULT result;
        if (IND2CompletionQueue_GetResults(cq, &result, 1) == 0)
            continue;
        check(result.Status, "result");
        if (result.RequestType == Nd2RequestTypeReceive)
            return;
    }
}

static void serve(address *local)
{
    OVERLAPPED overlapped = {0};
    IND2Listener *listener;
    check(IND2Adapter_CreateListener(adapter, &IID_IND2Listener, file, (void **)&listener), "CreateListener");
    check(IND2Listener_Bind(listener, generic(local), local->length), "Bind");
    check(IND2Listener_Listen(listener, 1), "Listen");
    announce(listener);
    HRESULT status = IND2Listener_GetConnectionRequest(listener, (IUnknown *)connector, &overlapped);
    check(finish(listener, status, &overlapped), "GetConnectionRequest");
    status = IND2Connector_Accept(connector, (IUnknown *)qp, 0, 0, NULL, 0, &overlapped);
    check(finish(connector, status, &overlapped), "Accept");
    IND2Listener_Release(listener);
    for (int round = 0; round < ROUNDS; ++round) {
        await();
        memcpy(memory + OCTETS, memory, OCTETS);
        receive();
        answer();
    }
    /* Ends when the client has disconnected. */
    check(finish(connector, IND2Connector_NotifyDisconnect(connector, &overlapped), &overlapped), "NotifyDisconnect");
    printf("%d messages answered\n", ROUNDS);
}

static void use(address *remote, address *local)
{
    OVERLAPPED overlapped = {0};
    check(IND2Connector_Bind(connector, generic(local), local->length), "Bind");
    HRESULT status =
        IND2Connector_Connect(connector, (IUnknown *)qp, generic(remote), remote->length, 0, 0, NULL, 0, &overlapped);
    check(finish(connector, status, &overlapped), "Connect");
    check(finish(connector, IND2Connector_CompleteConnect(connector, &overlapped), &overlapped), "CompleteConnect");
    double begin = seconds();
    for (int round = 0; round < ROUNDS; ++round) {
        memcpy(memory + OCTETS, &round, sizeof(round));
        answer();
        await();
        if (memcmp(memory, memory + OCTETS, OCTETS) != 0) {
            fprintf(stderr, "message %d came back changed\n", round);
            exit(1);
        }
        receive();
    }
    printf("%d round trips, %.1f us each\n", ROUNDS, (seconds() - begin) * 1e6 / ROUNDS);
}

int main(int argc, char **argv)
{
    BOOL server = is_server(argc, argv);
    address named = parse(argv[2], argv[3]);
    OVERLAPPED overlapped = {0};
    check(NdStartup(), "NdStartup");
    address local = server ? named : local_for(&named);
    open_adapter(&local);
    receive();
    if (server)
        serve(&local);
    else
        use(&named, &local);
    finish(connector, IND2Connector_Disconnect(connector, &overlapped), &overlapped);
    finish(region, IND2MemoryRegion_Deregister(region, &overlapped), &overlapped);
    IND2Connector_Release(connector);
    IND2QueuePair_Release(qp);
    IND2MemoryRegion_Release(region);
    IND2CompletionQueue_Release(cq);
    CloseHandle(file);
    IND2Adapter_Release(adapter);
    check(NdCleanup(), "NdCleanup");
    return 0;
}
