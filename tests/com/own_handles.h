/* Events and completion ports made by a program itself, by section 3 of netdirect.h alone. */
#ifndef OWN_HANDLES_H
#define OWN_HANDLES_H

#include <netdirect.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

/* What an event and a port have in common. T has `Table`, the kind's table, and KIND. */
template <typename T, typename Table, ULONG KIND> struct OwnHandle {
    const Table *table = &T::TABLE;
    std::atomic<ULONG> references{1};
    std::mutex lock;
    std::condition_variable changed;
    bool closed = false;

    HANDLE handle() { return static_cast<T *>(this); }
    static T &of(HANDLE handle) { return *static_cast<T *>(handle); }

    static VOID STDMETHODCALLTYPE add_ref(HANDLE handle) { ++of(handle).references; }
    static VOID STDMETHODCALLTYPE release(HANDLE handle)
    {
        if (--of(handle).references == 0)
            delete &of(handle);
    }
    static VOID STDMETHODCALLTYPE close(HANDLE handle)
    {
        {
            std::lock_guard<std::mutex> guard(of(handle).lock);
            of(handle).closed = true;
            of(handle).changed.notify_all();
        }
        release(handle);
    }
    static constexpr ND_HANDLE_TABLE head() { return {sizeof(Table), KIND, add_ref, release, close}; }
};

struct OwnEvent : OwnHandle<OwnEvent, ND_EVENT_TABLE, ND_HANDLE_KIND_EVENT> {
    static const ND_EVENT_TABLE TABLE;
    const bool manual;
    bool is_set = false;
    std::vector<const ND_WATCHER *> watchers;

    explicit OwnEvent(bool m) : manual(m) {}

    bool take_locked()
    {
        const bool was = is_set;
        if (!manual)
            is_set = false;
        return was;
    }
    static VOID STDMETHODCALLTYPE set(HANDLE handle)
    {
        OwnEvent &event = of(handle);
        std::lock_guard<std::mutex> guard(event.lock);
        event.is_set = true;
        for (const ND_WATCHER *watcher : event.watchers)
            if (watcher->Wake(watcher) && event.take_locked() && !event.manual)
                break;
        event.changed.notify_all();
    }
    static VOID STDMETHODCALLTYPE reset(HANDLE handle)
    {
        std::lock_guard<std::mutex> guard(of(handle).lock);
        of(handle).is_set = false;
    }
    static BOOL STDMETHODCALLTYPE take(HANDLE handle)
    {
        std::lock_guard<std::mutex> guard(of(handle).lock);
        return of(handle).take_locked();
    }
    static VOID STDMETHODCALLTYPE watch(HANDLE handle, const ND_WATCHER *watcher)
    {
        OwnEvent &event = of(handle);
        std::lock_guard<std::mutex> guard(event.lock);
        event.watchers.push_back(watcher);
        if (event.is_set && watcher->Wake(watcher))
            event.take_locked();
    }
    static VOID STDMETHODCALLTYPE unwatch(HANDLE handle, const ND_WATCHER *watcher)
    {
        OwnEvent &event = of(handle);
        std::lock_guard<std::mutex> guard(event.lock);
        event.watchers.erase(std::remove(event.watchers.begin(), event.watchers.end(), watcher), event.watchers.end());
    }
    static BOOL STDMETHODCALLTYPE hold(HANDLE handle)
    {
        of(handle).lock.lock();
        return of(handle).is_set;
    }
    static VOID STDMETHODCALLTYPE let_go(HANDLE handle, BOOL take)
    {
        if (take)
            of(handle).take_locked();
        of(handle).lock.unlock();
    }
    /* Sleeps until the event is set. */
    void wait()
    {
        std::unique_lock<std::mutex> guard(lock);
        changed.wait(guard, [&] { return take_locked(); });
    }
};

inline const ND_EVENT_TABLE OwnEvent::TABLE = {OwnEvent::head(), set, reset, take, watch, unwatch, hold, let_go};

struct OwnPort : OwnHandle<OwnPort, ND_PORT_TABLE, ND_HANDLE_KIND_PORT> {
    static const ND_PORT_TABLE TABLE;
    std::deque<OVERLAPPED_ENTRY> packets;

    static VOID STDMETHODCALLTYPE post(HANDLE handle, const OVERLAPPED_ENTRY *packet)
    {
        OwnPort &port = of(handle);
        std::lock_guard<std::mutex> guard(port.lock);
        if (!port.closed)
            port.packets.push_back(*packet);
        port.changed.notify_one();
    }
    static ULONG STDMETHODCALLTYPE take(HANDLE handle, OVERLAPPED_ENTRY *packets, ULONG count, ULONG milliseconds)
    {
        OwnPort &port = of(handle);
        std::unique_lock<std::mutex> guard(port.lock);
        auto ready = [&] { return port.closed || !port.packets.empty(); };
        if (milliseconds == INFINITE)
            port.changed.wait(guard, ready);
        else
            port.changed.wait_for(guard, std::chrono::milliseconds(milliseconds), ready);
        if (port.closed)
            return ND_PORT_CLOSED;
        ULONG taken = 0;
        for (; taken < count && !port.packets.empty(); ++taken) {
            packets[taken] = port.packets.front();
            port.packets.pop_front();
        }
        return taken;
    }
};

inline const ND_PORT_TABLE OwnPort::TABLE = {OwnPort::head(), post, take};

#endif
