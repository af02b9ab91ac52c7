/* What the clients share: references, checks, and two connected sides in one process. */
#ifndef CLIENT_H
#define CLIENT_H

#include "system.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

/* As CHECK, for a status. */
#define CHECK_STATUS(call, wanted)                                                                            \
    do {                                                                                                      \
        const HRESULT status_ = (call);                                                                       \
        if (status_ != (wanted)) {                                                                            \
            fprintf(stderr, "%s:%d: %s: 0x%08X and not %s\n", __FILE__, __LINE__, #call, (unsigned)status_, #wanted); \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)

/* An object of ND2 with one reference of the client. */
template <typename T> class Ref {
  public:
    Ref() = default;
    Ref(Ref &&other) noexcept : object(other.object) { other.object = nullptr; }
    Ref(const Ref &) = delete;
    Ref &operator=(const Ref &) = delete;
    ~Ref() { release(); }
    /* What Release returns. */
    ULONG release()
    {
        T *last = object;
        object = nullptr;
        return last ? last->Release() : 0;
    }
    T *operator->() const { return object; }
    T *get() const { return object; }
    void **out() { return reinterpret_cast<void **>(&object); }

  private:
    T *object = nullptr;
};

/* The end of a request, by a thread that sleeps in the provider. */
inline HRESULT finish(IND2Overlapped *object, HRESULT status, OVERLAPPED *overlapped)
{
    return status == ND_PENDING ? object->GetOverlappedResult(overlapped, TRUE) : status;
}

/* The first IPv4 address of the providers that is not the machine's own, as clients in the field choose it; otherwise 127.0.0.1. */
inline sockaddr_in first_address()
{
    SIZE_T size = 0;
    CHECK_STATUS(NdQueryAddressList(0, nullptr, &size), ND_BUFFER_OVERFLOW);
    std::vector<unsigned char> buffer(size);
    auto *list = reinterpret_cast<SOCKET_ADDRESS_LIST *>(buffer.data());
    CHECK_STATUS(NdQueryAddressList(0, list, &size), ND_SUCCESS);
    sockaddr_in found = {};
    found.sin_family = AF_INET;
    found.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (INT i = 0; i < list->iAddressCount; ++i) {
        sockaddr_in address;
        if (list->Address[i].lpSockaddr->sa_family != AF_INET)
            continue;
        memcpy(&address, list->Address[i].lpSockaddr, sizeof(address));
        if ((ntohl(address.sin_addr.s_addr) >> 24) == 127)
            continue;
        found.sin_addr = address.sin_addr;
        break;
    }
    return found;
}

/* An adapter, a file, a completion queue and registered memory. */
struct Device {
    sockaddr_in address = first_address();
    Ref<IND2Adapter> adapter;
    HANDLE file = nullptr;
    Ref<IND2CompletionQueue> cq;
    Ref<IND2MemoryRegion> region;
    std::vector<char> memory = std::vector<char>(4096);

    Device()
    {
        CHECK_STATUS(NdOpenAdapter(IID_IND2Adapter, generic(), sizeof(address), adapter.out()), ND_SUCCESS);
        CHECK_STATUS(adapter->CreateOverlappedFile(&file), ND_SUCCESS);
        CHECK_STATUS(adapter->CreateCompletionQueue(IID_IND2CompletionQueue, file, 64, 0, 0, cq.out()), ND_SUCCESS);
        CHECK_STATUS(adapter->CreateMemoryRegion(IID_IND2MemoryRegion, file, region.out()), ND_SUCCESS);
    }
    ~Device()
    {
        if (file)
            CloseHandle(file);
    }
    const sockaddr *generic() const { return reinterpret_cast<const sockaddr *>(&address); }

    void register_memory()
    {
        OVERLAPPED overlapped = {};
        const ULONG rights = ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ | ND_MR_FLAG_ALLOW_REMOTE_WRITE |
                             ND_MR_FLAG_RDMA_READ_SINK;
        CHECK_STATUS(finish(region.get(), region->Register(memory.data(), memory.size(), rights, &overlapped), &overlapped), ND_SUCCESS);
    }
    ND2_SGE piece(size_t offset, ULONG length) { return {memory.data() + offset, length, region->GetLocalToken()}; }
    /* The next result, by polling. */
    ND2_RESULT next_result()
    {
        ND2_RESULT result;
        while (cq->GetResults(&result, 1) == 0)
            ;
        return result;
    }
};

/* One end of a connection. */
struct End {
    Ref<IND2QueuePair> qp;
    Ref<IND2Connector> connector;

    explicit End(Device &device)
    {
        CHECK_STATUS(device.adapter->CreateQueuePair(IID_IND2QueuePair, device.cq.get(), device.cq.get(), this, 4, 4, 1, 1, 0, qp.out()),
                     ND_SUCCESS);
        CHECK_STATUS(device.adapter->CreateConnector(IID_IND2Connector, device.file, connector.out()), ND_SUCCESS);
    }
};

/* Both ends of a connection in this process. */
struct Pair {
    Device &device;
    Ref<IND2Listener> listener;
    End active;
    End passive;

    explicit Pair(Device &d) : device(d), active(d), passive(d)
    {
        OVERLAPPED request = {}, connect = {}, accept = {}, complete = {};
        CHECK_STATUS(device.adapter->CreateListener(IID_IND2Listener, device.file, listener.out()), ND_SUCCESS);
        CHECK_STATUS(listener->Bind(device.generic(), sizeof(device.address)), ND_SUCCESS);
        CHECK_STATUS(listener->Listen(0), ND_SUCCESS);
        sockaddr_in at = {};
        ULONG size = sizeof(at);
        CHECK_STATUS(listener->GetLocalAddress(reinterpret_cast<sockaddr *>(&at), &size), ND_SUCCESS);
        const HRESULT asked = listener->GetConnectionRequest(passive.connector.get(), &request);
        CHECK_STATUS(active.connector->Bind(device.generic(), sizeof(device.address)), ND_SUCCESS);
        const HRESULT connecting = active.connector->Connect(active.qp.get(), reinterpret_cast<const sockaddr *>(&at), sizeof(at), 4, 4,
                                                             nullptr, 0, &connect);
        CHECK_STATUS(finish(listener.get(), asked, &request), ND_SUCCESS);
        const HRESULT accepting = passive.connector->Accept(passive.qp.get(), 4, 4, nullptr, 0, &accept);
        CHECK_STATUS(finish(active.connector.get(), connecting, &connect), ND_SUCCESS);
        CHECK_STATUS(finish(active.connector.get(), active.connector->CompleteConnect(&complete), &complete), ND_SUCCESS);
        CHECK_STATUS(finish(passive.connector.get(), accepting, &accept), ND_SUCCESS);
    }
};

#endif
