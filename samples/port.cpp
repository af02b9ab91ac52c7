/*
 * Many connections, one thread, one completion port. The client opens several connections to the server at once and sends a message on
 * each; the server sends each message back.
 *
 * Every request is an object that derives from OVERLAPPED. The port returns its address when the request ends, and the program calls it.
 */
#include "sample.h"

#include <functional>
#include <memory>
#include <vector>

namespace {

constexpr unsigned CONNECTIONS = 8;
constexpr ULONG OCTETS = 64;

/* A reference to an object of ND2, given back at the end. */
template <typename T> class Ref {
  public:
    Ref() = default;
    Ref(const Ref &) = delete;
    Ref &operator=(const Ref &) = delete;
    ~Ref() { reset(); }
    void reset()
    {
        if (object)
            object->Release();
        object = nullptr;
    }
    T *operator->() const { return object; }
    T *get() const { return object; }
    /* For functions that return an object. */
    void **out() { return reinterpret_cast<void **>(&object); }

  private:
    T *object = nullptr;
};

/* A request in flight, and what to do at its end. */
struct Request : OVERLAPPED {
    std::function<void(HRESULT)> then;
};

class Port {
  public:
    Port() : handle(CreateIoCompletionPort(INVALID_HANDLE_VALUE, nullptr, 0, 0))
    {
        if (!handle)
            fail("CreateIoCompletionPort");
    }
    ~Port() { CloseHandle(handle); }

    void add(HANDLE file)
    {
        if (!CreateIoCompletionPort(file, handle, 0, 0))
            fail("CreateIoCompletionPort");
    }

    /* Starts a request by `call`, and has `then` called with its status. */
    template <typename Call> void start(Call call, std::function<void(HRESULT)> then)
    {
        auto request = std::make_unique<Request>();
        memset(static_cast<OVERLAPPED *>(request.get()), 0, sizeof(OVERLAPPED));
        request->then = std::move(then);
        OVERLAPPED *overlapped = request.get();
        HRESULT status = call(overlapped);
        ++pending;
        if (status != ND_PENDING) {
            /* Nothing will be reported, so the program does it. */
            overlapped->Internal = static_cast<ULONG_PTR>(static_cast<ULONG>(status));
            if (!PostQueuedCompletionStatus(handle, 0, 0, overlapped))
                fail("PostQueuedCompletionStatus");
        }
        request.release();
    }

    /* Until no request is in flight. */
    void run()
    {
        while (pending > 0) {
            OVERLAPPED_ENTRY entries[16];
            ULONG count = 0;
            if (!GetQueuedCompletionStatusEx(handle, entries, 16, &count, INFINITE, FALSE))
                fail("GetQueuedCompletionStatusEx");
            for (ULONG i = 0; i < count; ++i) {
                std::unique_ptr<Request> request(static_cast<Request *>(entries[i].lpOverlapped));
                --pending;
                request->then(static_cast<HRESULT>(static_cast<ULONG>(request->Internal)));
            }
        }
    }

  private:
    HANDLE handle;
    size_t pending = 0;
};

/* What all connections share. */
struct Side {
    Port port;
    HANDLE file = nullptr;
    Ref<IND2Adapter> adapter;
    Ref<IND2CompletionQueue> cq;
    Ref<IND2MemoryRegion> region;
    std::vector<char> memory = std::vector<char>(CONNECTIONS * OCTETS);
    unsigned open = 0;

    explicit Side(address &local)
    {
        check(NdOpenAdapter(IID_IND2Adapter, generic(&local), local.length, adapter.out()), "NdOpenAdapter");
        check(adapter->CreateOverlappedFile(&file), "CreateOverlappedFile");
        port.add(file);
        check(adapter->CreateCompletionQueue(IID_IND2CompletionQueue, file, 2 * CONNECTIONS, 0, 0, cq.out()), "CreateCompletionQueue");
        check(adapter->CreateMemoryRegion(IID_IND2MemoryRegion, file, region.out()), "CreateMemoryRegion");
        port.start(
            [&](OVERLAPPED *o) { return region->Register(memory.data(), memory.size(), ND_MR_FLAG_ALLOW_LOCAL_WRITE, o); },
            [](HRESULT status) { check(status, "Register"); });
        port.run();
    }
    ~Side() { CloseHandle(file); }

    void watch_results();
};

struct Connection {
    Side &side;
    Ref<IND2QueuePair> qp;
    Ref<IND2Connector> connector;
    char *buffer;
    /* What to do with a message. */
    std::function<void(Connection &)> received;

    Connection(Side &s, unsigned number) : side(s), buffer(s.memory.data() + number * OCTETS)
    {
        check(side.adapter->CreateQueuePair(IID_IND2QueuePair, side.cq.get(), side.cq.get(), this, 1, 1, 1, 1, 0, qp.out()),
              "CreateQueuePair");
        check(side.adapter->CreateConnector(IID_IND2Connector, side.file, connector.out()), "CreateConnector");
        ++side.open;
    }

    void receive()
    {
        ND2_SGE sge = {buffer, OCTETS, side.region->GetLocalToken()};
        check(qp->Receive(this, &sge, 1), "Receive");
    }
    void send()
    {
        ND2_SGE sge = {buffer, OCTETS, side.region->GetLocalToken()};
        check(qp->Send(this, &sge, 1, 0), "Send");
    }
    void accept()
    {
        side.port.start([this](OVERLAPPED *o) { return connector->Accept(qp.get(), 0, 0, nullptr, 0, o); },
                        [this](HRESULT status) {
                            check(status, "Accept");
                            follow();
                        });
    }
    /* Disconnects when the peer does. */
    void follow()
    {
        side.port.start([this](OVERLAPPED *o) { return connector->NotifyDisconnect(o); }, [this](HRESULT) { disconnect(); });
    }
    void disconnect()
    {
        side.port.start([this](OVERLAPPED *o) { return connector->Disconnect(o); },
                        [this](HRESULT) {
                            /* No result of this connection comes any more: the queue of results may be left alone. */
                            if (--side.open == 0)
                                check(side.cq->CancelOverlappedRequests(), "CancelOverlappedRequests");
                        });
    }
};

/* Takes the results that are there, and asks to be told of the next one. */
void Side::watch_results()
{
    port.start([this](OVERLAPPED *o) { return cq->Notify(ND_CQ_NOTIFY_ANY, o); },
               [this](HRESULT status) {
                   if (status == ND_CANCELED)
                       return;
                   check(status, "Notify");
                   ND2_RESULT results[16];
                   while (ULONG count = cq->GetResults(results, 16)) {
                       for (ULONG i = 0; i < count; ++i) {
                           auto *connection = static_cast<Connection *>(results[i].RequestContext);
                           if (results[i].Status == ND_CANCELED)
                               continue;
                           check(results[i].Status, "result");
                           if (results[i].RequestType == Nd2RequestTypeReceive)
                               connection->received(*connection);
                       }
                   }
                   watch_results();
               });
}

void serve(address &local)
{
    Side side(local);
    Ref<IND2Listener> listener;
    check(side.adapter->CreateListener(IID_IND2Listener, side.file, listener.out()), "CreateListener");
    check(listener->Bind(generic(&local), local.length), "Bind");
    check(listener->Listen(CONNECTIONS), "Listen");
    std::vector<std::unique_ptr<Connection>> all;
    unsigned answered = 0;
    for (unsigned i = 0; i < CONNECTIONS; ++i) {
        all.push_back(std::make_unique<Connection>(side, i));
        Connection &one = *all.back();
        one.received = [&answered](Connection &connection) {
            ++answered;
            connection.send();
        };
        side.port.start([&](OVERLAPPED *o) { return listener->GetConnectionRequest(one.connector.get(), o); },
                        [&one](HRESULT status) {
                            check(status, "GetConnectionRequest");
                            one.receive();
                            one.accept();
                        });
    }
    announce(listener.get());
    side.watch_results();
    side.port.run();
    printf("%u connections, %u messages sent back\n", CONNECTIONS, answered);
}

void use(address &remote, address &local)
{
    Side side(local);
    std::vector<std::unique_ptr<Connection>> all;
    unsigned answered = 0;
    for (unsigned i = 0; i < CONNECTIONS; ++i) {
        all.push_back(std::make_unique<Connection>(side, i));
        Connection &one = *all.back();
        one.received = [&answered](Connection &connection) {
            printf("%s\n", connection.buffer);
            ++answered;
            connection.disconnect();
        };
        check(one.connector->Bind(generic(&local), local.length), "Bind");
        side.port.start(
            [&](OVERLAPPED *o) {
                return one.connector->Connect(one.qp.get(), generic(&remote), remote.length, 0, 0, nullptr, 0, o);
            },
            [&side, &one, i](HRESULT status) {
                check(status, "Connect");
                one.receive();
                side.port.start([&one](OVERLAPPED *o) { return one.connector->CompleteConnect(o); },
                                [&one, i](HRESULT completed) {
                                    check(completed, "CompleteConnect");
                                    snprintf(one.buffer, OCTETS, "message on connection %u", i);
                                    one.send();
                                });
            });
    }
    side.watch_results();
    side.port.run();
    printf("%u connections, %u answers\n", CONNECTIONS, answered);
}

} // namespace

int main(int argc, char **argv)
{
    BOOL server = is_server(argc, argv);
    address named = parse(argv[2], argv[3]);
    check(NdStartup(), "NdStartup");
    if (server) {
        serve(named);
    } else {
        address local = local_for(&named);
        use(named, local);
    }
    check(NdCleanup(), "NdCleanup");
    return 0;
}
