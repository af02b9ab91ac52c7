/*
 * Events, waits, completion ports and the thread pool of libnetdirect by their Windows names, and a provider's files with them. The provider
 * is found by NetworkDirect's helper functions.
 *
 *     ND_PROVIDER=LIBRARY handles
 *
 * It ends with status 0 and says nothing if all is well.
 */
#include <netdirect.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(is) \
    do { \
        if (!(is)) { \
            fprintf(stderr, "%s:%d: %s does not hold, last error %u\n", __FILE__, __LINE__, #is, (unsigned)GetLastError()); \
            exit(1); \
        } \
    } while (0)

static pthread_t start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    return thread;
}

static void join(pthread_t thread)
{
    CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- Events ------------------------------------------------------------------------------------------------------------------------- */

enum { THREADS = 4 };

typedef struct turns {
    HANDLE turn;
    HANDLE taken;
    HANDLE gate;
} turns;

/* Waits for the gate and for a turn. */
static void *take_turn(void *argument)
{
    const turns *of = argument;
    HANDLE both[2] = {of->gate, of->turn};
    CHECK(WaitForMultipleObjects(2, both, TRUE, INFINITE) == WAIT_OBJECT_0);
    CHECK(SetEvent(of->taken));
    return NULL;
}

static void events(void)
{
    turns all = {CreateEvent(NULL, FALSE, FALSE, NULL), CreateEvent(NULL, FALSE, FALSE, NULL), CreateEvent(NULL, TRUE, FALSE, NULL)};
    HANDLE any[2] = {all.turn, all.taken};
    pthread_t threads[THREADS];
    CHECK(all.turn && all.taken && all.gate);
    for (int i = 0; i < THREADS; ++i)
        threads[i] = start(take_turn, &all);
    CHECK(SetEvent(all.gate));
    for (int i = 0; i < THREADS; ++i) {
        CHECK(SetEvent(all.turn));
        CHECK(WaitForSingleObject(all.taken, INFINITE) == WAIT_OBJECT_0);
    }
    for (int i = 0; i < THREADS; ++i)
        join(threads[i]);
    /* Each turn was taken once. */
    CHECK(WaitForMultipleObjects(2, any, FALSE, 0) == WAIT_TIMEOUT);
    CHECK(SetEvent(all.taken));
    CHECK(WaitForMultipleObjects(2, any, FALSE, INFINITE) == WAIT_OBJECT_0 + 1);
    CHECK(CloseHandle(all.turn) && CloseHandle(all.taken) && CloseHandle(all.gate));
    CHECK(!SetEvent(NULL) && GetLastError() == ERROR_INVALID_HANDLE);
}

/* ---- Completion ports --------------------------------------------------------------------------------------------------------------- */

static void *take_until_closed(void *argument)
{
    DWORD octets;
    ULONG_PTR key;
    OVERLAPPED *overlapped;
    ULONG_PTR sum = 0;
    while (GetQueuedCompletionStatus(argument, &octets, &key, &overlapped, INFINITE) && key != 0)
        sum += key;
    return (void *)sum;
}

static void ports(void)
{
    OVERLAPPED_ENTRY entries[8];
    ULONG removed = 0;
    ULONG_PTR sum = 0;
    pthread_t threads[THREADS];
    HANDLE port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 0);
    CHECK(port != NULL);
    for (ULONG_PTR key = 1; key <= 5; ++key)
        CHECK(PostQueuedCompletionStatus(port, 9, key, NULL));
    CHECK(GetQueuedCompletionStatusEx(port, entries, 8, &removed, INFINITE, FALSE) && removed == 5);
    for (ULONG i = 0; i < removed; ++i)
        CHECK(entries[i].lpCompletionKey == i + 1 && entries[i].dwNumberOfBytesTransferred == 9 && entries[i].lpOverlapped == NULL);
    CHECK(!GetQueuedCompletionStatusEx(port, entries, 8, &removed, 0, FALSE) && removed == 0 && GetLastError() == WAIT_TIMEOUT);

    for (int i = 0; i < THREADS; ++i)
        threads[i] = start(take_until_closed, port);
    for (ULONG_PTR key = 1; key <= 1000; ++key)
        CHECK(PostQueuedCompletionStatus(port, 0, key, NULL));
    for (int i = 0; i < THREADS; ++i)
        CHECK(PostQueuedCompletionStatus(port, 0, 0, NULL));
    for (int i = 0; i < THREADS; ++i) {
        void *part;
        CHECK(pthread_join(threads[i], &part) == 0);
        sum += (ULONG_PTR)part;
    }
    CHECK(sum == 500500);
    CHECK(CloseHandle(port));
}

/* ---- A provider's files ------------------------------------------------------------------------------------------------------------- */

static IND2Adapter *adapter;

static HANDLE overlapped_file(void)
{
    HANDLE file = NULL;
    CHECK(IND2Adapter_CreateOverlappedFile(adapter, &file) == ND_SUCCESS && file != NULL);
    return file;
}

static IND2CompletionQueue *completion_queue(HANDLE file)
{
    IND2CompletionQueue *cq = NULL;
    CHECK(IND2Adapter_CreateCompletionQueue(adapter, &IID_IND2CompletionQueue, file, 8, 0, 0, (void **)&cq) == ND_SUCCESS);
    return cq;
}

static void *release(void *argument)
{
    IND2CompletionQueue *cq = argument;
    CHECK(IND2CompletionQueue_Release(cq) == 0);
    return NULL;
}

/* A request that ends while a thread waits for its event, and one without an event. */
static void by_event(void)
{
    HANDLE file = overlapped_file();
    IND2CompletionQueue *cq = completion_queue(file);
    OVERLAPPED with = {0}, without = {0};
    DWORD octets = 0;
    pthread_t thread;
    with.hEvent = CreateEvent(NULL, TRUE, TRUE, NULL);
    CHECK(IND2CompletionQueue_Notify(cq, ND_CQ_NOTIFY_ANY, &with) == ND_PENDING);
    CHECK(IND2CompletionQueue_Notify(cq, ND_CQ_NOTIFY_ANY, &without) == ND_PENDING);
    CHECK(!HasOverlappedIoCompleted(&with) && !HasOverlappedIoCompleted(&without));
    CHECK(WaitForSingleObject(with.hEvent, 0) == WAIT_TIMEOUT);
    CHECK(!GetOverlappedResult(file, &with, &octets, FALSE) && GetLastError() == ERROR_IO_INCOMPLETE);
    thread = start(release, cq);
    CHECK(!GetOverlappedResult(file, &without, &octets, TRUE) && GetLastError() == ERROR_OPERATION_ABORTED);
    CHECK(WaitForSingleObject(with.hEvent, INFINITE) == WAIT_OBJECT_0);
    CHECK(!GetOverlappedResult(file, &with, &octets, TRUE) && GetLastError() == ERROR_OPERATION_ABORTED);
    CHECK((HRESULT)with.Internal == ND_CANCELED && HasOverlappedIoCompleted(&with));
    join(thread);
    CHECK(CloseHandle(with.hEvent) && CloseHandle(file));
}

static void by_port(void)
{
    HANDLE file = overlapped_file();
    HANDLE port = CreateIoCompletionPort(file, NULL, 77, 0);
    HANDLE other = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 0);
    IND2CompletionQueue *cq = completion_queue(file);
    OVERLAPPED request = {0}, silent = {0}, *overlapped;
    DWORD octets;
    ULONG_PTR key;
    CHECK(port != NULL && other != NULL);
    /* A file has one port. */
    CHECK(CreateIoCompletionPort(file, other, 1, 0) == NULL && GetLastError() == ERROR_INVALID_PARAMETER);
    silent.hEvent = (HANDLE)((ULONG_PTR)CreateEvent(NULL, FALSE, FALSE, NULL) | ND_HANDLE_NO_PACKET_BIT);
    CHECK(IND2CompletionQueue_Notify(cq, ND_CQ_NOTIFY_ANY, &silent) == ND_PENDING);
    CHECK(IND2CompletionQueue_Notify(cq, ND_CQ_NOTIFY_ANY, &request) == ND_PENDING);
    /* The file lives on in its objects. */
    CHECK(CloseHandle(file));
    CHECK(IND2CompletionQueue_CancelOverlappedRequests(cq) == ND_SUCCESS);
    CHECK(!GetQueuedCompletionStatus(port, &octets, &key, &overlapped, INFINITE) && GetLastError() == ERROR_OPERATION_ABORTED);
    CHECK(overlapped == &request && key == 77);
    CHECK(WaitForSingleObject((HANDLE)((ULONG_PTR)silent.hEvent & ~ND_HANDLE_NO_PACKET_BIT), INFINITE) == WAIT_OBJECT_0);
    CHECK(!GetQueuedCompletionStatus(port, &octets, &key, &overlapped, 0) && overlapped == NULL && GetLastError() == WAIT_TIMEOUT);
    CHECK(IND2CompletionQueue_Release(cq) == 0);
    CHECK(CloseHandle((HANDLE)((ULONG_PTR)silent.hEvent & ~ND_HANDLE_NO_PACKET_BIT)) && CloseHandle(port) && CloseHandle(other));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HANDLE called;
static unsigned calls;
/* Volatile, so that leak checkers find it. */
static HANDLE volatile never_closed;

static VOID CALLBACK callback(DWORD status, DWORD octets, OVERLAPPED *overlapped)
{
    CHECK((HRESULT)status == ND_CANCELED && octets == 0);
    CHECK((HRESULT)overlapped->Internal == ND_CANCELED);
    /* The request is the callback's, and its fields anybody's. */
    memset(overlapped, 0xA5, sizeof(*overlapped));
    free(overlapped);
    CHECK(pthread_mutex_lock(&lock) == 0);
    ++calls;
    CHECK(pthread_mutex_unlock(&lock) == 0);
    CHECK(SetEvent(called));
}

/* The pool is bound before there is a queue; Cancel is called while the lock is held that the callback takes; the file is never closed. */
static void by_pool(void)
{
    enum { REQUESTS = 8 };
    HANDLE file = never_closed = overlapped_file();
    IND2CompletionQueue *cq;
    unsigned seen = 0;
    called = CreateEvent(NULL, FALSE, FALSE, NULL);
    CHECK(!BindIoCompletionCallback(called, callback, 0) && GetLastError() == ERROR_INVALID_HANDLE);
    CHECK(!BindIoCompletionCallback(file, callback, 1) && GetLastError() == ERROR_INVALID_PARAMETER);
    CHECK(BindIoCompletionCallback(file, callback, 0));
    CHECK(!BindIoCompletionCallback(file, callback, 0) && GetLastError() == ERROR_INVALID_PARAMETER);
    cq = completion_queue(file);
    for (int i = 0; i < REQUESTS; ++i) {
        OVERLAPPED *overlapped = calloc(1, sizeof(*overlapped));
        CHECK(overlapped != NULL && IND2CompletionQueue_Notify(cq, ND_CQ_NOTIFY_ANY, overlapped) == ND_PENDING);
    }
    CHECK(pthread_mutex_lock(&lock) == 0);
    CHECK(IND2CompletionQueue_CancelOverlappedRequests(cq) == ND_SUCCESS);
    CHECK(calls == 0);
    CHECK(pthread_mutex_unlock(&lock) == 0);
    while (seen < REQUESTS) {
        CHECK(WaitForSingleObject(called, INFINITE) == WAIT_OBJECT_0);
        CHECK(pthread_mutex_lock(&lock) == 0);
        seen = calls;
        CHECK(pthread_mutex_unlock(&lock) == 0);
    }
    CHECK(IND2CompletionQueue_Release(cq) == 0);
}

/* An event and a port that a provider is given, and that are none. */
static void kinds(void)
{
    HANDLE file = overlapped_file();
    HANDLE port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 0);
    IND2CompletionQueue *cq = completion_queue(file);
    OVERLAPPED request = {0};
    request.hEvent = port;
    CHECK(IND2CompletionQueue_Notify(cq, ND_CQ_NOTIFY_ANY, &request) == ND_INVALID_HANDLE);
    request.hEvent = file;
    CHECK(IND2CompletionQueue_Notify(cq, ND_CQ_NOTIFY_ANY, &request) == ND_INVALID_HANDLE);
    CHECK(CreateIoCompletionPort(port, NULL, 0, 0) == NULL && GetLastError() == ERROR_INVALID_HANDLE);
    CHECK(WaitForSingleObject(file, 0) == WAIT_FAILED && GetLastError() == ERROR_INVALID_HANDLE);
    CHECK(IND2CompletionQueue_Release(cq) == 0);
    CHECK(CloseHandle(port) && CloseHandle(file));
}

/* ---- Helper functions --------------------------------------------------------------------------------------------------------------- */

static void with_an_adapter(void (*use)(void))
{
    SIZE_T size = 0;
    SOCKET_ADDRESS_LIST *list;
    struct sockaddr_storage local;
    SIZE_T length;
    CHECK(NdQueryAddressList(0, NULL, &size) == ND_BUFFER_OVERFLOW && size > sizeof(*list));
    list = malloc(size);
    CHECK(list != NULL && NdQueryAddressList(0, list, &size) == ND_SUCCESS && list->iAddressCount > 0);
    CHECK(NdQueryAddressList(ND_QUERY_EXCLUDE_NDv2_ADDRESSES, NULL, &size) == ND_SUCCESS && size == 0);
    for (INT i = 0; i < list->iAddressCount; ++i) {
        const SOCKET_ADDRESS *address = &list->Address[i];
        CHECK(NdCheckAddress(address->lpSockaddr, address->iSockaddrLength) == ND_SUCCESS);
        CHECK(NdCheckAddress(address->lpSockaddr, address->iSockaddrLength - 1) == ND_INVALID_PARAMETER_2);
    }
    length = 1;
    CHECK(NdResolveAddress(list->Address[0].lpSockaddr, list->Address[0].iSockaddrLength, (struct sockaddr *)&local, &length) ==
          ND_BUFFER_OVERFLOW);
    length = sizeof(local);
    CHECK(NdResolveAddress(list->Address[0].lpSockaddr, list->Address[0].iSockaddrLength, (struct sockaddr *)&local, &length) ==
          ND_SUCCESS);
    CHECK(NdOpenAdapter(&IID_IND2Listener, (struct sockaddr *)&local, length, (void **)&adapter) == E_NOINTERFACE && adapter == NULL);
    CHECK(NdOpenAdapter(&IID_IND2Adapter, (struct sockaddr *)&local, length, (void **)&adapter) == ND_SUCCESS && adapter != NULL);
    /* The provider stays loaded, because it has an adapter. */
    NdFlushProviders();
    use();
    CHECK(IND2Adapter_Release(adapter) == 0);
    free(list);
}

static void files(void)
{
    by_event();
    by_port();
    by_pool();
    kinds();
}

int main(void)
{
    struct sockaddr_in nobody;
    memset(&nobody, 0, sizeof(nobody));
    nobody.sin_family = AF_INET;
    nobody.sin_addr.s_addr = htonl(0xC0000207);
    events();
    ports();
    CHECK(NdCleanup() == ND_DEVICE_NOT_READY);
    CHECK(NdCheckAddress((struct sockaddr *)&nobody, sizeof(nobody)) == ND_DEVICE_NOT_READY);
    CHECK(NdStartup() == ND_SUCCESS);
    with_an_adapter(files);
    CHECK(NdCheckAddress((struct sockaddr *)&nobody, sizeof(nobody)) == ND_INVALID_ADDRESS);
    CHECK(NdOpenAdapter(&IID_IND2Adapter, (struct sockaddr *)&nobody, sizeof(nobody), (void **)&adapter) == ND_INVALID_ADDRESS);
    CHECK(NdCleanup() == ND_SUCCESS);
    CHECK(NdCheckAddress((struct sockaddr *)&nobody, sizeof(nobody)) == ND_DEVICE_NOT_READY);
    return 0;
}
