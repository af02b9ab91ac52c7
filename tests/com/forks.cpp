/*
 * Forks: objects of the parent are refused in the child at once, the child opens adapters of its own, and what the parent releases has ended,
 * although the child has descriptors of it. Says nothing and ends with status 0 if all is well.
 */
#include "client.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void ends_well(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* In the child. */
static void uses(Device &device, Pair &pair)
{
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

int main()
{
    CHECK_STATUS(NdStartup(), ND_SUCCESS);
    Device device;
    device.register_memory();
    Pair pair(device);
    pid_t child = fork();
    if (child == 0) {
        uses(device, pair);
        _exit(0);
    }
    send(device, pair);
    ends_well(child);
    send(device, pair);

    int pipes[2];
    CHECK(pipe(pipes) == 0);
    child = fork();
    if (child == 0) {
        char octet;
        close(pipes[1]);
        _exit(read(pipes[0], &octet, 1) != 0);
    }
    sockaddr_in at = {};
    ULONG size = sizeof(at);
    CHECK_STATUS(pair.listener->GetLocalAddress(reinterpret_cast<sockaddr *>(&at), &size), ND_SUCCESS);
    pair.listener.release();
    CHECK(is_refused(at));
    Ref<IND2Listener> again;
    CHECK_STATUS(device.adapter->CreateListener(IID_IND2Listener, device.file, again.out()), ND_SUCCESS);
    CHECK_STATUS(again->Bind(reinterpret_cast<const sockaddr *>(&at), sizeof(at)), ND_SUCCESS);
    CHECK_STATUS(again->Listen(0), ND_SUCCESS);
    close(pipes[1]);
    ends_well(child);
    return 0;
}
