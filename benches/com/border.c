/*
 * The other half of `cargo run --release -p softnd-benches --bin border`: what a program in C gets of a provider's library.
 *
 *     border LIBRARY polled|event|port|register ROUNDS
 *     border LIBRARY writes ROUNDS OCTETS DEPTH
 *
 * Prints nanoseconds: the median of a round trip of 8 octets between two threads, each with an adapter of its own, or of Register and
 * Deregister of 4 KiB; with `writes`, the time for each of ROUNDS Writes of OCTETS octets, of which DEPTH are outstanding.
 */
#define _GNU_SOURCE

#include <netdirect.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LENGTH = 8, WARM_UP = 200, PAGE = 4096, DEPTH = 128, RESULTS = 16 };
/* Where memory begins in a page, as Buffer::PAGE_OFFSET: other offsets can be slow. */
enum { PAGE_OFFSET = 1024 };

typedef enum { POLLED, EVENT, PORT } way;

typedef struct end {
    way way;
    IND2Adapter *adapter;
    HANDLE file, event, port;
    IND2CompletionQueue *cq;
    IND2MemoryRegion *region;
    IND2QueuePair *qp;
    IND2Connector *connector;
    ND2_SGE in, out;
    char memory[2 * LENGTH];
    OVERLAPPED overlapped;
} end;

static ND_DLL_GET_CLASS_OBJECT get_class_object;
static int rounds;
/* For `writes`; 0 otherwise. */
static size_t octets;
static int depth;

static void check(HRESULT status, const char *what)
{
    if (status != ND_SUCCESS) {
        fprintf(stderr, "%s: status 0x%08X\n", what, (unsigned)status);
        exit(1);
    }
}

/* Sleeps until the request with the end's OVERLAPPED has ended. */
static void await(end *e, void *object, HRESULT status, const char *what)
{
    DWORD octets;
    ULONG_PTR key;
    OVERLAPPED *ended;
    if (status != ND_PENDING) {
        check(status, what);
        return;
    }
    if (e->way == EVENT && WaitForSingleObject(e->event, INFINITE) != WAIT_OBJECT_0)
        exit(1);
    if (e->way == PORT && (!GetQueuedCompletionStatus(e->port, &octets, &key, &ended, INFINITE) || ended != &e->overlapped))
        exit(1);
    check(IND2Overlapped_GetOverlappedResult((IND2Overlapped *)object, &e->overlapped, TRUE), what);
}

static OVERLAPPED *request(end *e)
{
    memset(&e->overlapped, 0, sizeof(e->overlapped));
    e->overlapped.hEvent = e->way == EVENT ? e->event : NULL;
    return &e->overlapped;
}

static struct sockaddr_in here(void)
{
    struct sockaddr_in address;
    memset(&address, 0, sizeof(address));
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void open_end(end *e, way way)
{
    const CLSID any = {0};
    struct sockaddr_in address = here();
    IND2Provider *provider;
    UINT64 id;
    e->way = way;
    check(get_class_object(&any, &IID_IND2Provider, (void **)&provider), "DllGetClassObject");
    check(IND2Provider_ResolveAddress(provider, (struct sockaddr *)&address, sizeof(address), &id), "ResolveAddress");
    check(IND2Provider_OpenAdapter(provider, &IID_IND2Adapter, id, (void **)&e->adapter), "OpenAdapter");
    IND2Provider_Release(provider);
    check(IND2Adapter_CreateOverlappedFile(e->adapter, &e->file), "CreateOverlappedFile");
    e->event = CreateEvent(NULL, FALSE, FALSE, NULL);
    if (way == PORT)
        e->port = CreateIoCompletionPort(e->file, NULL, 0, 0);
    check(IND2Adapter_CreateCompletionQueue(e->adapter, &IID_IND2CompletionQueue, e->file, 2 * DEPTH, 0, 0, (void **)&e->cq), "CQ");
    check(IND2Adapter_CreateMemoryRegion(e->adapter, &IID_IND2MemoryRegion, e->file, (void **)&e->region), "region");
    check(IND2Adapter_CreateQueuePair(e->adapter, &IID_IND2QueuePair, (IUnknown *)e->cq, (IUnknown *)e->cq, NULL, 16, DEPTH, 1, 1, 0,
                                      (void **)&e->qp),
          "queue pair");
    check(IND2Adapter_CreateConnector(e->adapter, &IID_IND2Connector, e->file, (void **)&e->connector), "connector");
    await(e, e->region,
          IND2MemoryRegion_Register(e->region, e->memory, sizeof(e->memory), ND_MR_FLAG_ALLOW_LOCAL_WRITE, request(e)), "Register");
    e->in.Buffer = e->memory;
    e->out.Buffer = e->memory + LENGTH;
    e->in.BufferLength = e->out.BufferLength = LENGTH;
    e->in.MemoryRegionToken = e->out.MemoryRegionToken = IND2MemoryRegion_GetLocalToken(e->region);
}

static void receive(end *e) { check(IND2QueuePair_Receive(e->qp, NULL, &e->in, 1), "Receive"); }

static void send_one(end *e) { check(IND2QueuePair_Send(e->qp, NULL, &e->out, 1, ND_OP_FLAG_SILENT_SUCCESS), "Send"); }

static void received(end *e)
{
    ND2_RESULT result;
    for (;;) {
        if (IND2CompletionQueue_GetResults(e->cq, &result, 1) == 1) {
            check(result.Status, "a result");
            return;
        }
        if (e->way != POLLED)
            await(e, e->cq, IND2CompletionQueue_Notify(e->cq, ND_CQ_NOTIFY_ANY, request(e)), "Notify");
    }
}

/* The memory of one end for `writes`. */
static ND2_SGE written(end *e, ULONG flags)
{
    ND2_SGE sge;
    IND2MemoryRegion *region;
    char *pages = aligned_alloc(PAGE, (octets / PAGE + 2) * PAGE);
    if (pages == NULL)
        exit(1);
    sge.Buffer = pages + PAGE_OFFSET;
    memset(sge.Buffer, 1, octets);
    check(IND2Adapter_CreateMemoryRegion(e->adapter, &IID_IND2MemoryRegion, e->file, (void **)&region), "region");
    await(e, region, IND2MemoryRegion_Register(region, sge.Buffer, octets, flags, request(e)), "Register");
    sge.BufferLength = (ULONG)octets;
    sge.MemoryRegionToken = flags == ND_MR_FLAG_ALLOW_REMOTE_WRITE ? IND2MemoryRegion_GetRemoteToken(region)
                                                                  : IND2MemoryRegion_GetLocalToken(region);
    return sge;
}

static struct sockaddr_in listening;
static ND2_SGE target;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static way chosen;

static void *serve(void *nothing)
{
    static end e;
    struct sockaddr_in address = here();
    ULONG size = sizeof(address);
    IND2Listener *listener;
    open_end(&e, chosen);
    check(IND2Adapter_CreateListener(e.adapter, &IID_IND2Listener, e.file, (void **)&listener), "CreateListener");
    check(IND2Listener_Bind(listener, (struct sockaddr *)&address, sizeof(address)), "Bind");
    check(IND2Listener_Listen(listener, 1), "Listen");
    check(IND2Listener_GetLocalAddress(listener, (struct sockaddr *)&address, &size), "GetLocalAddress");
    receive(&e);
    if (octets > 0)
        target = written(&e, ND_MR_FLAG_ALLOW_REMOTE_WRITE);
    pthread_mutex_lock(&lock);
    listening = address;
    pthread_cond_signal(&told);
    pthread_mutex_unlock(&lock);
    await(&e, listener, IND2Listener_GetConnectionRequest(listener, (IUnknown *)e.connector, request(&e)), "GetConnectionRequest");
    await(&e, e.connector, IND2Connector_Accept(e.connector, (IUnknown *)e.qp, 0, 0, NULL, 0, request(&e)), "Accept");
    for (int i = 0; i < (octets > 0 ? 2 : rounds + WARM_UP); i++) {
        received(&e);
        receive(&e);
        send_one(&e);
    }
    return nothing;
}

static long long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}

static long long median(long long *times, int count)
{
    qsort(times, (size_t)count, sizeof(*times), compare);
    return times[count / 2];
}

/* Starts the server, and connects to it. */
static pthread_t connected(end *e)
{
    pthread_t server;
    if (pthread_create(&server, NULL, serve, NULL) != 0)
        exit(1);
    open_end(e, chosen);
    pthread_mutex_lock(&lock);
    while (listening.sin_port == 0)
        pthread_cond_wait(&told, &lock);
    pthread_mutex_unlock(&lock);
    await(e, e->connector,
          IND2Connector_Connect(e->connector, (IUnknown *)e->qp, (struct sockaddr *)&listening, sizeof(listening), 0, 0, NULL, 0,
                                request(e)),
          "Connect");
    await(e, e->connector, IND2Connector_CompleteConnect(e->connector, request(e)), "CompleteConnect");
    return server;
}

/* A Send that the server answers: everything before it is placed then. */
static void exchange(end *e)
{
    receive(e);
    send_one(e);
    received(e);
}

static long long writes(void)
{
    static end e;
    pthread_t server = connected(&e);
    ND2_SGE from = written(&e, ND_MR_FLAG_ALLOW_LOCAL_WRITE);
    long long start;
    int posted = 0, done = 0;
    exchange(&e);
    start = now();
    while (done < rounds) {
        ND2_RESULT results[RESULTS];
        ULONG count;
        for (; posted < rounds && posted - done < depth; posted++)
            check(IND2QueuePair_Write(e.qp, NULL, &from, 1, (UINT64)(uintptr_t)target.Buffer, target.MemoryRegionToken, 0), "Write");
        count = IND2CompletionQueue_GetResults(e.cq, results, RESULTS);
        for (ULONG i = 0; i < count; i++)
            check(results[i].Status, "a Write");
        done += (int)count;
    }
    exchange(&e);
    start = (now() - start) / rounds;
    pthread_join(server, NULL);
    return start;
}

static long long round_trips(void)
{
    static end e;
    pthread_t server = connected(&e);
    long long *times = malloc(sizeof(*times) * (size_t)rounds);
    if (times == NULL)
        exit(1);
    for (int i = -WARM_UP; i < rounds; i++) {
        long long start;
        receive(&e);
        start = now();
        send_one(&e);
        received(&e);
        if (i >= 0)
            times[i] = now() - start;
    }
    pthread_join(server, NULL);
    return median(times, rounds);
}

static long long registrations(void)
{
    static end e;
    static char page[PAGE];
    long long *times = malloc(sizeof(*times) * (size_t)rounds);
    IND2MemoryRegion *region;
    if (times == NULL)
        exit(1);
    open_end(&e, POLLED);
    check(IND2Adapter_CreateMemoryRegion(e.adapter, &IID_IND2MemoryRegion, e.file, (void **)&region), "region");
    for (int i = -WARM_UP; i < rounds; i++) {
        long long start = now();
        await(&e, region, IND2MemoryRegion_Register(region, page, PAGE, ND_MR_FLAG_ALLOW_LOCAL_WRITE, request(&e)), "Register");
        await(&e, region, IND2MemoryRegion_Deregister(region, request(&e)), "Deregister");
        if (i >= 0)
            times[i] = now() - start;
    }
    return median(times, rounds);
}

int main(int argc, char **argv)
{
    void *library, *symbol;
    const int is_writes = argc == 6 && strcmp(argv[2], "writes") == 0;
    if ((argc != 4 && !is_writes) || (rounds = atoi(argv[3])) < 1) {
        fprintf(stderr, "usage: %s LIBRARY polled|event|port|register ROUNDS\n       %s LIBRARY writes ROUNDS OCTETS DEPTH\n", argv[0],
                argv[0]);
        return 2;
    }
    if (is_writes && ((octets = (size_t)atol(argv[4])) < 1 || (depth = atoi(argv[5])) < 1 || depth > DEPTH)) {
        fprintf(stderr, "at least one octet, and a depth of 1 to %d\n", DEPTH);
        return 2;
    }
    library = dlopen(argv[1], RTLD_NOW);
    if (library == NULL || (symbol = dlsym(library, "DllGetClassObject")) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    memcpy(&get_class_object, &symbol, sizeof(symbol));
    chosen = strcmp(argv[2], "event") == 0 ? EVENT : strcmp(argv[2], "port") == 0 ? PORT : POLLED;
    printf("%lld\n", is_writes ? writes() : strcmp(argv[2], "register") == 0 ? registrations() : round_trips());
    return 0;
}
