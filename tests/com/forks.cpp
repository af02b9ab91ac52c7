/*
 * Forks: objects of the parent are refused in the child at once, the child opens adapters of its own, and what the parent releases has ended,
 * although the child has descriptors of it. Says nothing and ends with status 0 if all is well.
 */
#include "client.h"

#include <atomic>
#include <ctime>
#include <memory>
#include <sched.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void ends_well(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static std::atomic<bool> was_called{false};

static VOID CALLBACK on_end(DWORD, DWORD, LPOVERLAPPED)
{
    was_called = true;
}

/* A thread of the library calls back at the end of a request. */
static void calls_back()
{
    Device device;
    was_called = false;
    CHECK(BindIoCompletionCallback(device.file, on_end, 0));
    OVERLAPPED notify = {};
    CHECK_STATUS(device.cq->Notify(ND_CQ_NOTIFY_ANY, &notify), ND_PENDING);
    CHECK_STATUS(device.cq->CancelOverlappedRequests(), ND_SUCCESS);
    while (!was_called)
        sched_yield();
}

/* In the child. */
static void uses(Device &device, Pair &pair, OVERLAPPED &in_flight, OVERLAPPED &with_event)
{
    for (const BOOL wait : {FALSE, TRUE})
        CHECK_STATUS(device.cq->GetOverlappedResult(&in_flight, wait), ND_DEVICE_REMOVED);
    /* Win32's function, also for a request that has an event. */
    OVERLAPPED *requests[] = {&in_flight, &with_event};
    for (OVERLAPPED *request : requests) {
        for (const BOOL wait : {FALSE, TRUE}) {
            DWORD bytes;
            CHECK(!GetOverlappedResult(device.file, request, &bytes, wait) && GetLastError() == ERROR_DEVICE_REMOVED);
        }
    }
    calls_back();
    OVERLAPPED overlapped = {};
    Ref<IND2CompletionQueue> cq;
    ND2_RESULT result;
    CHECK_STATUS(device.adapter->CreateCompletionQueue(IID_IND2CompletionQueue, device.file, 64, 0, 0, cq.out()), ND_DEVICE_REMOVED);
    CHECK_STATUS(device.region->Deregister(&overlapped), ND_DEVICE_REMOVED);
    CHECK_STATUS(pair.listener->GetConnectionRequest(pair.passive.connector.get(), &overlapped), ND_DEVICE_REMOVED);
    CHECK_STATUS(pair.active.connector->Disconnect(&overlapped), ND_DEVICE_REMOVED);
    CHECK_STATUS(pair.active.connector->CancelOverlappedRequests(), ND_DEVICE_REMOVED);
    CHECK_STATUS(pair.active.qp->Send(nullptr, nullptr, 0, 0), ND_DEVICE_REMOVED);
    CHECK(device.cq->GetResults(&result, 1) == 0);
    CHECK(device.region->GetLocalToken() == 0);
    Device own;
    own.register_memory();
    Pair connected(own);
    /* An object of the parent's is no argument either. */
    Ref<IND2QueuePair> qp;
    CHECK_STATUS(own.adapter->CreateQueuePair(IID_IND2QueuePair, device.cq.get(), own.cq.get(), nullptr, 4, 4, 1, 1, 0, qp.out()),
                 ND_DEVICE_REMOVED);
    /* Released, they stay as they are. */
    pair.active.connector.release();
    pair.active.qp.release();
    pair.listener.release();
}

static void send(Device &device, Pair &pair)
{
    ND2_SGE to = device.piece(0, 100), from = device.piece(2048, 100);
    CHECK_STATUS(pair.passive.qp->Receive(nullptr, &to, 1), ND_SUCCESS);
    CHECK_STATUS(pair.active.qp->Send(nullptr, &from, 1, 0), ND_SUCCESS);
    for (int i = 0; i < 2; ++i)
        CHECK_STATUS(device.next_result().Status, ND_SUCCESS);
}

static bool is_refused(const sockaddr_in &at)
{
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    const bool refused = connect(client, reinterpret_cast<const sockaddr *>(&at), sizeof(at)) != 0;
    close(client);
    return refused;
}

/* A child that lives until the value is destroyed. */
class Child {
  public:
    Child()
    {
        CHECK(pipe(pipes) == 0);
        pid = fork();
        if (pid == 0) {
            char octet;
            close(pipes[1]);
            _exit(read(pipes[0], &octet, 1) != 0);
        }
        close(pipes[0]);
    }
    ~Child()
    {
        close(pipes[1]);
        ends_well(pid);
    }

  private:
    int pipes[2];
    pid_t pid;
};

static sockaddr_in address_of(Pair &pair)
{
    sockaddr_in at = {};
    ULONG size = sizeof(at);
    CHECK_STATUS(pair.listener->GetLocalAddress(reinterpret_cast<sockaddr *>(&at), &size), ND_SUCCESS);
    return at;
}

static bool is_free(const sockaddr_in &at)
{
    const int other = socket(AF_INET, SOCK_DGRAM, 0);
    const bool bound = bind(other, reinterpret_cast<const sockaddr *>(&at), sizeof(at)) == 0;
    close(other);
    return bound;
}

/* Over UDP the adapter has the port. The limit only ends a hang. */
static void frees_the_port()
{
    std::unique_ptr<Child> child;
    sockaddr_in at = {};
    {
        Device device;
        Pair pair(device);
        at = address_of(pair);
        CHECK(!is_free(at));
        child = std::make_unique<Child>();
    }
    const time_t start = time(nullptr);
    while (!is_free(at))
        CHECK(time(nullptr) - start < 60);
}

int main()
{
    CHECK_STATUS(NdStartup(), ND_SUCCESS);
    const char *protocol = getenv("SOFTND_COM_PROTOCOL");
    if (protocol != nullptr && std::string(protocol) == "udp") {
        frees_the_port();
        return 0;
    }
    calls_back();
    Device device;
    device.register_memory();
    Pair pair(device);
    OVERLAPPED in_flight = {};
    CHECK_STATUS(device.cq->Notify(ND_CQ_NOTIFY_ANY, &in_flight), ND_PENDING);
    OVERLAPPED with_event = {};
    with_event.hEvent = CreateEventW(nullptr, TRUE, FALSE, nullptr);
    CHECK_STATUS(device.cq->Notify(ND_CQ_NOTIFY_ANY, &with_event), ND_PENDING);
    const pid_t user = fork();
    if (user == 0) {
        uses(device, pair, in_flight, with_event);
        _exit(0);
    }
    send(device, pair);
    for (OVERLAPPED *request : {&in_flight, &with_event})
        CHECK_STATUS(device.cq->GetOverlappedResult(request, TRUE), ND_SUCCESS);
    CloseHandle(with_event.hEvent);
    ends_well(user);
    send(device, pair);

    Child child;
    const sockaddr_in at = address_of(pair);
    pair.listener.release();
    CHECK(is_refused(at));
    Ref<IND2Listener> again;
    CHECK_STATUS(device.adapter->CreateListener(IID_IND2Listener, device.file, again.out()), ND_SUCCESS);
    CHECK_STATUS(again->Bind(reinterpret_cast<const sockaddr *>(&at), sizeof(at)), ND_SUCCESS);
    CHECK_STATUS(again->Listen(0), ND_SUCCESS);
    return 0;
}
