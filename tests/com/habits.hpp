/* What the clients with unusual habits share beyond client.h: a provider that they load by themselves, connected sides whose parts are released
 * one by one, and the list of their habits. */
#ifndef HABITS_HPP
#define HABITS_HPP

#include "client.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>

template <typename T> void **out(T **object) { return reinterpret_cast<void **>(object); }

inline const sockaddr *generic(const sockaddr_in &address) { return reinterpret_cast<const sockaddr *>(&address); }

inline HRESULT status_of(const OVERLAPPED &overlapped) { return static_cast<HRESULT>(overlapped.Internal); }

/* A loaded library. */
struct Library {
    ND_DLL_GET_CLASS_OBJECT get_class_object;
    ND_DLL_CAN_UNLOAD_NOW can_unload_now;

    explicit Library(const char *path)
    {
        void *library = load_library(path);
        get_class_object = reinterpret_cast<ND_DLL_GET_CLASS_OBJECT>(look_up(library, "DllGetClassObject"));
        can_unload_now = reinterpret_cast<ND_DLL_CAN_UNLOAD_NOW>(look_up(library, "DllCanUnloadNow"));
    }

    IND2Provider *provider() const
    {
        IND2Provider *provider = nullptr;
        CHECK_STATUS(get_class_object(CLSID{}, IID_IND2Provider, out(&provider)), S_OK);
        return provider;
    }

    /* The adapter with this address. */
    IND2Adapter *open(const sockaddr_in &address) const
    {
        IND2Provider *all = provider();
        UINT64 id = 0;
        IND2Adapter *adapter = nullptr;
        CHECK_STATUS(all->ResolveAddress(generic(address), sizeof(address), &id), ND_SUCCESS);
        CHECK_STATUS(all->OpenAdapter(IID_IND2Adapter, id, out(&adapter)), ND_SUCCESS);
        CHECK(all->Release() == 0);
        return adapter;
    }
};

/* The IPv4 addresses of a provider or an adapter, in the order of its list. */
template <typename T> std::vector<sockaddr_in> addresses_of(T *object)
{
    ULONG size = 0;
    CHECK_STATUS(object->QueryAddressList(nullptr, &size), ND_BUFFER_OVERFLOW);
    std::vector<UINT64> buffer(size / sizeof(UINT64) + 1);
    auto *list = reinterpret_cast<SOCKET_ADDRESS_LIST *>(buffer.data());
    CHECK_STATUS(object->QueryAddressList(list, &size), ND_SUCCESS);
    std::vector<sockaddr_in> found;
    for (INT i = 0; i < list->iAddressCount; ++i) {
        if (list->Address[i].lpSockaddr->sa_family != AF_INET)
            continue;
        found.emplace_back();
        memcpy(&found.back(), list->Address[i].lpSockaddr, sizeof(found.back()));
    }
    return found;
}

inline bool is_loopback(const sockaddr_in &address) { return ntohl(address.sin_addr.s_addr) >> 24 == 127; }

/* The first address of the library's list. */
inline sockaddr_in first_address(const Library &library)
{
    IND2Provider *provider = library.provider();
    const std::vector<sockaddr_in> all = addresses_of(provider);
    CHECK(!all.empty());
    CHECK(provider->Release() == 0);
    return all.front();
}

/* One side of a connection: a file, a queue, a queue pair, a connector, and registered memory. */
struct Side {
    static constexpr ULONG OCTETS = 4096;
    static constexpr ULONG DEPTH = 8;

    HANDLE file = nullptr;
    IND2CompletionQueue *cq = nullptr;
    IND2MemoryRegion *region = nullptr;
    IND2QueuePair *qp = nullptr;
    IND2Connector *connector = nullptr;
    char *memory = new char[OCTETS]();

    explicit Side(IND2Adapter *adapter, const std::function<void(HANDLE)> &with_file = nullptr)
    {
        CHECK_STATUS(adapter->CreateOverlappedFile(&file), ND_SUCCESS);
        if (with_file)
            with_file(file);
        CHECK_STATUS(adapter->CreateCompletionQueue(IID_IND2CompletionQueue, file, 2 * DEPTH, 0, 0, out(&cq)), ND_SUCCESS);
        CHECK_STATUS(adapter->CreateMemoryRegion(IID_IND2MemoryRegion, file, out(&region)), ND_SUCCESS);
        CHECK_STATUS(adapter->CreateQueuePair(IID_IND2QueuePair, cq, cq, this, DEPTH, DEPTH, 1, 1, 0, out(&qp)), ND_SUCCESS);
        CHECK_STATUS(adapter->CreateConnector(IID_IND2Connector, file, out(&connector)), ND_SUCCESS);
        OVERLAPPED overlapped = {};
        overlapped.hEvent = reinterpret_cast<HANDLE>(ND_HANDLE_NO_PACKET_BIT);
        const ULONG rights = ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_WRITE;
        CHECK_STATUS(finish(region, region->Register(memory, OCTETS, rights, &overlapped), &overlapped), ND_SUCCESS);
    }

    ND2_SGE piece(ULONG offset, ULONG length) const { return {memory + offset, length, region->GetLocalToken()}; }

    void receive(ULONG offset = 0, ULONG length = 64)
    {
        const ND2_SGE to = piece(offset, length);
        CHECK_STATUS(qp->Receive(this, &to, 1), ND_SUCCESS);
    }
    void send(ULONG offset = 0, ULONG length = 64, ULONG flags = 0)
    {
        const ND2_SGE from = piece(offset, length);
        CHECK_STATUS(qp->Send(this, &from, 1, flags), ND_SUCCESS);
    }
    /* The next result, by polling. */
    HRESULT next()
    {
        ND2_RESULT result;
        while (cq->GetResults(&result, 1) == 0)
            std::this_thread::yield();
        return result.Status;
    }
    void release()
    {
        CHECK(connector->Release() == 0 && qp->Release() == 0 && region->Release() == 0 && cq->Release() == 0);
        close_file(file);
        delete[] memory;
    }
};

/* A listener of an adapter. */
struct Listening {
    HANDLE file = nullptr;
    IND2Listener *listener = nullptr;
    sockaddr_in at = {};

    Listening(IND2Adapter *adapter, const sockaddr_in &address)
    {
        CHECK_STATUS(adapter->CreateOverlappedFile(&file), ND_SUCCESS);
        CHECK_STATUS(adapter->CreateListener(IID_IND2Listener, file, out(&listener)), ND_SUCCESS);
        CHECK_STATUS(listener->Bind(generic(address), sizeof(address)), ND_SUCCESS);
        CHECK_STATUS(listener->Listen(0), ND_SUCCESS);
        ULONG size = sizeof(at);
        CHECK_STATUS(listener->GetLocalAddress(reinterpret_cast<sockaddr *>(&at), &size), ND_SUCCESS);
    }
    void release()
    {
        CHECK(listener->Release() == 0);
        close_file(file);
    }
    void connect(Side &active, Side &passive) const
    {
        OVERLAPPED asked = {}, connecting = {}, accepting = {}, completing = {};
        for (OVERLAPPED *each : {&asked, &connecting, &accepting, &completing})
            each->hEvent = reinterpret_cast<HANDLE>(ND_HANDLE_NO_PACKET_BIT);
        const HRESULT asking = listener->GetConnectionRequest(passive.connector, &asked);
        const HRESULT connect =
            active.connector->Connect(active.qp, generic(at), sizeof(at), 1, 1, nullptr, 0, &connecting);
        CHECK_STATUS(finish(listener, asking, &asked), ND_SUCCESS);
        const HRESULT accept = passive.connector->Accept(passive.qp, 1, 1, nullptr, 0, &accepting);
        CHECK_STATUS(finish(active.connector, connect, &connecting), ND_SUCCESS);
        CHECK_STATUS(finish(active.connector, active.connector->CompleteConnect(&completing), &completing), ND_SUCCESS);
        CHECK_STATUS(finish(passive.connector, accept, &accepting), ND_SUCCESS);
    }
};

/* A thread whose sleep others can see. */
class Sleeper {
  public:
    /* `body` calls its argument directly before it sleeps in a call. */
    explicit Sleeper(std::function<void(const std::function<void()> &)> body)
        : thread([this, body] {
              body([this] {
                  seen = this_thread();
                  is_ready = true;
              });
          })
    {
    }
    void until_asleep() const
    {
        while (!is_ready || !is_asleep(seen))
            std::this_thread::yield();
    }
    void join()
    {
        thread.join();
        forget_thread(seen);
    }

  private:
    std::atomic<bool> is_ready{false};
    thread_seen seen{};
    std::thread thread;
};

/* With which others a habit runs in one process. */
enum class When {
    WITH_OTHERS,
    /* In a process of its own, because it leaves something open. */
    ALONE,
    /* As ALONE, and only when it is asked for, because it takes long. */
    ASKED_FOR,
};

/* A habit of clients, by its name. */
struct Habit {
    const char *name;
    void (*run)(const Library &library);
    When when = When::WITH_OTHERS;
};

/* Runs one habit in a process of its own. */
inline void run_alone(const char *path, const char *name)
{
    const int status = run_self(path, name);
    if (status != 0) {
        fprintf(stderr, "%s: status %d\n", name, status);
        exit(1);
    }
}

/* PROGRAM LIBRARY [HABIT]: runs one habit, or all. */
inline int run_habits(int count, char **arguments, const std::vector<Habit> &habits)
{
    if (count != 2 && count != 3)
        return 2;
    const bool all = count == 2;
    const Library library(arguments[1]);
    bool is_known = false;
    for (const Habit &habit : habits) {
        if (all ? habit.when == When::ASKED_FOR : strcmp(arguments[2], habit.name) != 0)
            continue;
        is_known = true;
        if (all && habit.when == When::ALONE) {
            run_alone(arguments[1], habit.name);
            continue;
        }
        habit.run(library);
        if (habit.when != When::ALONE && library.can_unload_now() != S_OK) {
            fprintf(stderr, "%s: objects are left\n", habit.name);
            return 1;
        }
    }
    return is_known ? 0 : 2;
}

#endif
