/*
 * What clients of NetworkDirect in the field do, one function each. The last ones break a rule, so that AddressSanitizer has something to
 * find.
 *
 *     clients           names all: "kept NAME", or what the sanitizer finds, and NAME
 *     clients NAME...   runs these; ends with status 0 and says nothing if all is well
 */
#include "client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include <unistd.h>

namespace {

/* Everything is released in some order, with requests in flight. The file is closed somewhere in between. */
void release_in_every_order()
{
    std::mt19937 random(1);
    for (int round = 0; round < 60; ++round) {
        Device device;
        device.register_memory();
        Pair pair(device);
        OVERLAPPED notify = {}, watch_active = {}, watch_passive = {}, request = {};
        Ref<IND2Connector> waiting;
        CHECK_STATUS(device.adapter->CreateConnector(IID_IND2Connector, device.file, waiting.out()), ND_SUCCESS);
        ND2_SGE sge = device.piece(0, 64);
        CHECK_STATUS(pair.active.qp->Receive(nullptr, &sge, 1), ND_SUCCESS);
        CHECK_STATUS(device.cq->Notify(ND_CQ_NOTIFY_ANY, &notify), ND_PENDING);
        CHECK_STATUS(pair.active.connector->NotifyDisconnect(&watch_active), ND_PENDING);
        CHECK_STATUS(pair.passive.connector->NotifyDisconnect(&watch_passive), ND_PENDING);
        CHECK_STATUS(pair.listener->GetConnectionRequest(waiting.get(), &request), ND_PENDING);
        std::vector<std::function<ULONG()>> releases = {
            [&] { return device.adapter.release(); },
            [&] { return device.cq.release(); },
            [&] { return device.region.release(); },
            [&] { return pair.listener.release(); },
            [&] { return pair.active.qp.release(); },
            [&] { return pair.active.connector.release(); },
            [&] { return pair.passive.qp.release(); },
            [&] { return pair.passive.connector.release(); },
            [&] { return waiting.release(); },
            [&] {
                CloseHandle(device.file);
                device.file = nullptr;
                return ULONG{0};
            },
        };
        std::shuffle(releases.begin(), releases.end(), random);
        for (auto &release : releases)
            CHECK(release() == 0);
        for (OVERLAPPED *ended : {&notify, &watch_active, &watch_passive, &request})
            CHECK(HasOverlappedIoCompleted(ended));
    }
}

/* Returns when a thread of this process sleeps. */
void until_asleep(pid_t thread)
{
    const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
    for (;;) {
        std::ifstream file(path);
        std::string line;
        CHECK(std::getline(file, line));
        /* The state follows the name, which ends with the last parenthesis. */
        if (line[line.rfind(')') + 2] == 'S')
            return;
        std::this_thread::yield();
    }
}

/* A thread sleeps in GetOverlappedResult of a queue whose last reference another thread gives back. */
void release_under_a_waiting_thread()
{
    for (int round = 0; round < 50; ++round) {
        Device device;
        OVERLAPPED notify = {};
        std::atomic<pid_t> waiting{0};
        IND2CompletionQueue *cq = device.cq.get();
        CHECK_STATUS(cq->Notify(ND_CQ_NOTIFY_ANY, &notify), ND_PENDING);
        std::thread thread([&] {
            waiting = gettid();
            CHECK_STATUS(cq->GetOverlappedResult(&notify, TRUE), ND_CANCELED);
        });
        while (waiting == 0)
            std::this_thread::yield();
        until_asleep(waiting);
        CHECK(device.cq.release() == 0);
        thread.join();
    }
}

/* Disconnect and Deregister have one OVERLAPPED, whose end nobody awaits; it is freed after the last Release. */
void one_overlapped_twice()
{
    for (int round = 0; round < 50; ++round) {
        auto overlapped = std::make_unique<OVERLAPPED>();
        memset(overlapped.get(), 0, sizeof(OVERLAPPED));
        {
            auto device = std::make_unique<Device>();
            device->register_memory();
            Pair pair(*device);
            pair.active.connector->Disconnect(overlapped.get());
            device->region->Deregister(overlapped.get());
        }
        memset(overlapped.get(), 0xEE, sizeof(OVERLAPPED));
    }
}

/* The fields of an OVERLAPPED were never set, but for the event. */
void uninitialised_memory()
{
    Device device;
    for (int round = 0; round < 50; ++round) {
        OVERLAPPED overlapped;
        memset(&overlapped, 0xA5, sizeof(overlapped));
        overlapped.hEvent = nullptr;
        device.region->Register(device.memory.data(), device.memory.size(), ND_MR_FLAG_ALLOW_LOCAL_WRITE, &overlapped);
        CHECK_STATUS(device.region->GetOverlappedResult(&overlapped, TRUE), ND_SUCCESS);
        memset(&overlapped, 0x5A, sizeof(overlapped));
        overlapped.hEvent = nullptr;
        device.region->Deregister(&overlapped);
        CHECK_STATUS(device.region->GetOverlappedResult(&overlapped, TRUE), ND_SUCCESS);
    }
}

/* Each Notify has an OVERLAPPED of its own, which is overwritten and freed when its packet comes. */
void fields_overwritten_when_the_packet_comes()
{
    Device device;
    device.register_memory();
    HANDLE port = CreateIoCompletionPort(device.file, nullptr, 7, 0);
    CHECK(port != nullptr);
    Pair pair(device);
    /* Its Connect, Accept and so on were reported too. */
    auto take = [&](DWORD milliseconds) -> OVERLAPPED * {
        DWORD octets = 0;
        ULONG_PTR key = 0;
        OVERLAPPED *packet = nullptr;
        GetQueuedCompletionStatus(port, &octets, &key, &packet, milliseconds);
        CHECK(packet == nullptr || key == 7);
        return packet;
    };
    while (take(0) != nullptr)
        ;
    for (int round = 0; round < 100; ++round) {
        auto *notify = static_cast<OVERLAPPED *>(calloc(1, sizeof(OVERLAPPED)));
        const HRESULT status = device.cq->Notify(ND_CQ_NOTIFY_ANY, notify);
        CHECK(status == ND_PENDING || status == ND_SUCCESS);
        CHECK_STATUS(pair.passive.qp->Receive(nullptr, nullptr, 0), ND_SUCCESS);
        CHECK_STATUS(pair.active.qp->Send(nullptr, nullptr, 0, 0), ND_SUCCESS);
        if (status == ND_PENDING)
            CHECK(take(INFINITE) == notify);
        memset(static_cast<void *>(notify), 0xFF, sizeof(OVERLAPPED));
        free(notify);
        for (int results = 0; results < 2; ++results)
            CHECK_STATUS(device.next_result().Status, ND_SUCCESS);
    }
    CloseHandle(port);
}

/* The result of a request is asked of another object of the same file. */
void result_asked_of_another_region()
{
    Device device;
    Ref<IND2MemoryRegion> other;
    CHECK_STATUS(device.adapter->CreateMemoryRegion(IID_IND2MemoryRegion, device.file, other.out()), ND_SUCCESS);
    OVERLAPPED overlapped = {};
    device.region->Register(device.memory.data(), device.memory.size(), ND_MR_FLAG_ALLOW_LOCAL_WRITE, &overlapped);
    CHECK_STATUS(other->GetOverlappedResult(&overlapped, TRUE), ND_SUCCESS);
    CHECK_STATUS(device.cq->GetOverlappedResult(&overlapped, TRUE), ND_SUCCESS);
}

/* A Write is awaited by looking at its last octet, without a call of the provider. */
void spinning_on_the_last_octet()
{
    Device device;
    device.register_memory();
    ND2_ADAPTER_INFO info = {};
    ULONG size = sizeof(info);
    info.InfoVersion = ND_VERSION_2;
    CHECK_STATUS(device.adapter->Query(&info, &size), ND_SUCCESS);
    CHECK(info.AdapterFlags & ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED);
    Pair pair(device);
    volatile char *last = device.memory.data() + 2047;
    for (char round = 1; round < 50; ++round) {
        memset(device.memory.data(), round, 1024);
        ND2_SGE sge = device.piece(0, 1024);
        CHECK_STATUS(pair.active.qp->Write(nullptr, &sge, 1, reinterpret_cast<uintptr_t>(device.memory.data() + 1024),
                                           device.region->GetRemoteToken(), 0),
                     ND_SUCCESS);
        while (*last != round)
            ;
        CHECK(memcmp(device.memory.data(), device.memory.data() + 1024, 1024) == 0);
        CHECK_STATUS(device.next_result().Status, ND_SUCCESS);
    }
}

std::mutex callback_lock;
std::condition_variable callback_ran;
unsigned canceled = 0;

VOID CALLBACK on_end(DWORD status, DWORD, LPOVERLAPPED overlapped)
{
    std::lock_guard<std::mutex> guard(callback_lock);
    if (static_cast<HRESULT>(status) == ND_CANCELED)
        ++canceled;
    free(overlapped);
    callback_ran.notify_all();
}

/* The thread pool is bound before there is a queue. Cancel is called with the lock held that the callback takes; the file is closed before
 * the queue is released, and the callback frees the OVERLAPPED. */
void cancel_with_the_lock_of_the_callback()
{
    for (unsigned round = 1; round <= 50; ++round) {
        Device device;
        HANDLE file = nullptr;
        Ref<IND2CompletionQueue> cq;
        CHECK_STATUS(device.adapter->CreateOverlappedFile(&file), ND_SUCCESS);
        CHECK(BindIoCompletionCallback(file, on_end, 0));
        CHECK_STATUS(device.adapter->CreateCompletionQueue(IID_IND2CompletionQueue, file, 4, 0, 0, cq.out()), ND_SUCCESS);
        auto *notify = static_cast<OVERLAPPED *>(calloc(1, sizeof(OVERLAPPED)));
        CHECK_STATUS(cq->Notify(ND_CQ_NOTIFY_ANY, notify), ND_PENDING);
        std::unique_lock<std::mutex> guard(callback_lock);
        CHECK_STATUS(cq->CancelOverlappedRequests(), ND_SUCCESS);
        callback_ran.wait(guard, [&] { return canceled == round; });
        guard.unlock();
        CloseHandle(file);
        CHECK(cq.release() == 0);
    }
}

/* The overlapped file is never closed. */
void file_never_closed()
{
    for (int round = 0; round < 20; ++round) {
        Device device;
        device.register_memory();
        Pair pair(device);
        device.file = nullptr;
    }
}

/* Breaks the rule that an OVERLAPPED lives until its request has ended. */
void overlapped_freed_early()
{
    Device device;
    auto *notify = static_cast<OVERLAPPED *>(calloc(1, sizeof(OVERLAPPED)));
    CHECK_STATUS(device.cq->Notify(ND_CQ_NOTIFY_ANY, notify), ND_PENDING);
    free(notify);
    device.cq->CancelOverlappedRequests();
}

/* Breaks the rule that memory lives as long as it is registered. */
void buffer_freed_early()
{
    Device device;
    device.register_memory();
    Pair pair(device);
    Ref<IND2MemoryRegion> region;
    CHECK_STATUS(device.adapter->CreateMemoryRegion(IID_IND2MemoryRegion, device.file, region.out()), ND_SUCCESS);
    char *buffer = static_cast<char *>(malloc(4096));
    OVERLAPPED overlapped = {};
    CHECK_STATUS(finish(region.get(), region->Register(buffer, 4096, ND_MR_FLAG_ALLOW_LOCAL_WRITE, &overlapped), &overlapped), ND_SUCCESS);
    ND2_SGE sge = {buffer, 4096, region->GetLocalToken()};
    CHECK_STATUS(pair.passive.qp->Receive(nullptr, &sge, 1), ND_SUCCESS);
    free(buffer);
    ND2_SGE message = device.piece(0, 64);
    CHECK_STATUS(pair.active.qp->Send(nullptr, &message, 1, 0), ND_SUCCESS);
    device.next_result();
    device.next_result();
}

/* Breaks the rule that every reference is given back: the queue of an adapter is forgotten. */
void reference_forgotten()
{
    Device device;
    device.cq->AddRef();
}

const struct {
    /* "kept" if the client keeps all rules; otherwise what AddressSanitizer calls the breach. */
    const char *kind;
    const char *name;
    void (*run)();
} CLIENTS[] = {
    {"kept", "release_in_every_order", release_in_every_order},
    {"kept", "release_under_a_waiting_thread", release_under_a_waiting_thread},
    {"kept", "one_overlapped_twice", one_overlapped_twice},
    {"kept", "uninitialised_memory", uninitialised_memory},
    {"kept", "fields_overwritten_when_the_packet_comes", fields_overwritten_when_the_packet_comes},
    {"kept", "result_asked_of_another_region", result_asked_of_another_region},
    {"kept", "spinning_on_the_last_octet", spinning_on_the_last_octet},
    {"kept", "cancel_with_the_lock_of_the_callback", cancel_with_the_lock_of_the_callback},
    {"kept", "file_never_closed", file_never_closed},
    {"heap-use-after-free", "overlapped_freed_early", overlapped_freed_early},
    {"heap-use-after-free", "buffer_freed_early", buffer_freed_early},
    {"leaks", "reference_forgotten", reference_forgotten},
};

} // namespace

int main(int argc, char **argv)
{
    if (argc == 1) {
        for (const auto &client : CLIENTS)
            printf("%s %s\n", client.kind, client.name);
        return 0;
    }
    CHECK_STATUS(NdStartup(), ND_SUCCESS);
    for (int i = 1; i < argc; ++i) {
        const auto *client = std::find_if(std::begin(CLIENTS), std::end(CLIENTS), [&](auto &c) { return strcmp(c.name, argv[i]) == 0; });
        if (client == std::end(CLIENTS)) {
            fprintf(stderr, "there is no client %s\n", argv[i]);
            return 2;
        }
        client->run();
    }
    CHECK_STATUS(NdCleanup(), ND_SUCCESS);
    return 0;
}
