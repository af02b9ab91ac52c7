/*
 * netdirect.h: NetworkDirect version 2 (ND2) for C99 and C++11, and later.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * ND2 is RDMA by tables of functions. A program gets an IND2Adapter, has it create completion queues, queue pairs, memory regions,
 * connectors and listeners, and calls their functions. The library that implements them is a provider. It is an ordinary shared library
 * with the two functions DllGetClassObject and DllCanUnloadNow (section 8).
 *
 *     1. Types of Win32              what Windows' headers have; here for other systems
 *     2. Handles                     events, completion ports and overlapped files on other systems
 *     3. What a HANDLE points to     for those who write providers, on other systems
 *     4. Statuses
 *     5. Flags and structures of ND2
 *     6. Identifiers of interfaces
 *     7. Interfaces
 *     8. What a provider exports
 *     9. Helper functions            NdStartup to NdOpenAdapter
 *    10. Interfaces of softnd's own  capabilities, counters, faults, Atomics, Immediate Data
 *
 * In C an interface is a structure whose first member points to the table: adapter->lpVtbl->Query(adapter, &info, &size), or for short
 * IND2Adapter_Query(adapter, &info, &size). In C++ it is a class with pure virtual functions: adapter->Query(&info, &size).
 *
 * On Windows this header includes the system's headers and has sections 4 to 10 only. Include it before <windows.h>. It takes the place of
 * ndspi.h, nddef.h, ndstatus.h and ndsupport.h; do not include those beside it.
 *
 * The functions of section 9, and on other systems than Windows those of section 2, are in the library netdirect (-lnetdirect). A program
 * that loads a provider by itself and waits by polling needs no library. ULONG, LONG, DWORD, BOOL and HRESULT have 32 bits on every system.
 */
#ifndef NETDIRECT_H
#define NETDIRECT_H

#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32

/* This header defines no macro min or max, and lets <windows.h> define none. */
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>
#include <unknwn.h>

#else

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#endif

/* Helpers of this header; the end of the header undefines them. */
#ifdef __cplusplus
#define ND_BEGIN_C_ extern "C" {
#define ND_END_C_ }
#define ND_EXTERN_C_ extern "C"
#define ND_UNDERLYING_INT_ : int
#else
#define ND_BEGIN_C_
#define ND_END_C_
#define ND_EXTERN_C_
#define ND_UNDERLYING_INT_
#endif

/* ---- 1. Types of Win32 ------------------------------------------------------------------------------------------------------------- */

#ifndef _WIN32

typedef void VOID;
typedef char CHAR;
typedef uint8_t BYTE;
typedef uint8_t UCHAR;
typedef uint16_t WORD;
typedef uint16_t USHORT;
typedef uint16_t UINT16;
typedef int32_t INT;
typedef int32_t LONG;
typedef int32_t BOOL;
typedef int32_t HRESULT;
typedef uint32_t UINT;
typedef uint32_t UINT32;
typedef uint32_t ULONG;
typedef uint32_t DWORD;
typedef int64_t INT64;
typedef uint64_t UINT64;
typedef size_t SIZE_T;
typedef uintptr_t ULONG_PTR;
typedef uintptr_t KAFFINITY;
/* Names of objects. They are not supported; pass NULL. */
typedef wchar_t WCHAR;

typedef void *PVOID;
typedef void *LPVOID;
typedef void *HANDLE;
typedef HANDLE *PHANDLE;
typedef ULONG *PULONG;
typedef DWORD *LPDWORD;
typedef ULONG_PTR *PULONG_PTR;
typedef const CHAR *LPCSTR;
typedef const WCHAR *LPCWSTR;
/* Security of objects. It is not supported; pass NULL. */
typedef struct _SECURITY_ATTRIBUTES *LPSECURITY_ATTRIBUTES;

#ifndef FALSE
#define FALSE 0
#endif
#ifndef TRUE
#define TRUE 1
#endif

/* Calling conventions: Windows' functions and methods have C's convention here. */
#ifndef WINAPI
#define WINAPI
#endif
#ifndef CALLBACK
#define CALLBACK
#endif
#ifndef STDMETHODCALLTYPE
#define STDMETHODCALLTYPE
#endif

/* The structure of which a field has this address, such as the structure around an OVERLAPPED. */
#ifndef CONTAINING_RECORD
#define CONTAINING_RECORD(address, type, field) ((type *)((CHAR *)(address) - offsetof(type, field)))
#endif
#ifndef ZeroMemory
#define ZeroMemory(Destination, Length) memset((Destination), 0, (Length))
#endif

#define SUCCEEDED(hr) ((HRESULT)(hr) >= 0)
#define FAILED(hr) ((HRESULT)(hr) < 0)

#define S_OK ((HRESULT)0x00000000)
#define S_FALSE ((HRESULT)0x00000001)
#define E_NOTIMPL ((HRESULT)0x80004001)
#define E_NOINTERFACE ((HRESULT)0x80004002)
#define E_POINTER ((HRESULT)0x80004003)
#define E_FAIL ((HRESULT)0x80004005)
#define E_UNEXPECTED ((HRESULT)0x8000FFFF)
#define E_OUTOFMEMORY ((HRESULT)0x8007000E)
#define E_INVALIDARG ((HRESULT)0x80070057)
#define CLASS_E_NOAGGREGATION ((HRESULT)0x80040110)
#define CLASS_E_CLASSNOTAVAILABLE ((HRESULT)0x80040111)

typedef struct _GUID {
    uint32_t Data1;
    uint16_t Data2;
    uint16_t Data3;
    uint8_t Data4[8];
} GUID;

typedef GUID IID;
typedef GUID CLSID;

#ifdef __cplusplus
#define REFGUID const GUID &
#define REFIID const IID &
#define REFCLSID const CLSID &
inline bool IsEqualGUID(REFGUID a, REFGUID b) { return memcmp(&a, &b, sizeof(GUID)) == 0; }
inline bool operator==(REFGUID a, REFGUID b) { return IsEqualGUID(a, b); }
inline bool operator!=(REFGUID a, REFGUID b) { return !IsEqualGUID(a, b); }
#else
#define REFGUID const GUID *
#define REFIID const IID *
#define REFCLSID const CLSID *
#define IsEqualGUID(a, b) (memcmp((a), (b), sizeof(GUID)) == 0)
#endif
#define IsEqualIID(a, b) IsEqualGUID(a, b)
#define IsEqualCLSID(a, b) IsEqualGUID(a, b)

typedef struct sockaddr SOCKADDR;
typedef struct sockaddr *LPSOCKADDR;

typedef struct _SOCKET_ADDRESS {
    LPSOCKADDR lpSockaddr;
    INT iSockaddrLength;
} SOCKET_ADDRESS, *PSOCKET_ADDRESS, *LPSOCKET_ADDRESS;

/* The list has iAddressCount entries. The addresses that they point to follow in the same buffer. */
typedef struct _SOCKET_ADDRESS_LIST {
    INT iAddressCount;
    SOCKET_ADDRESS Address[1];
} SOCKET_ADDRESS_LIST, *PSOCKET_ADDRESS_LIST, *LPSOCKET_ADDRESS_LIST;

#if defined(__GNUC__) || defined(__clang__)
#define ND_UNNAMED_ __extension__
#else
#define ND_UNNAMED_
#endif

/*
 * The memory of one request. Fill it with zeros, set hEvent if an event is to be set at the end, and leave it alone until the request has
 * ended. Internal is the status: ND_PENDING while the request is in flight.
 */
typedef struct _OVERLAPPED {
    ULONG_PTR Internal;
    ULONG_PTR InternalHigh;
    ND_UNNAMED_ union {
        ND_UNNAMED_ struct {
            DWORD Offset;
            DWORD OffsetHigh;
        };
        PVOID Pointer;
    };
    /* NULL or an event. Its lowest bit set keeps the end of the request out of the completion port. */
    HANDLE hEvent;
} OVERLAPPED, *LPOVERLAPPED;

/* A packet of a completion port. */
typedef struct _OVERLAPPED_ENTRY {
    ULONG_PTR lpCompletionKey;
    LPOVERLAPPED lpOverlapped;
    /* The status of the request. */
    ULONG_PTR Internal;
    DWORD dwNumberOfBytesTransferred;
} OVERLAPPED_ENTRY, *LPOVERLAPPED_ENTRY;

#undef ND_UNNAMED_

#endif /* !_WIN32 */

/* ---- 2. Handles -------------------------------------------------------------------------------------------------------------------- */

#ifndef _WIN32

/*
 * A HANDLE is an event, a completion port, or an overlapped file of an adapter. It is a pointer (section 3): a closed HANDLE is a dangling
 * one, whose use is undefined. A closed event or port lives on while a request in flight or a file needs it.
 *
 * Functions that return FALSE, NULL or WAIT_FAILED leave the reason in GetLastError, which is per thread.
 */

#define INVALID_HANDLE_VALUE ((HANDLE)(intptr_t)-1)
#define INFINITE ((DWORD)0xFFFFFFFF)

/* What waits return. */
#define WAIT_OBJECT_0 ((DWORD)0)
#define WAIT_TIMEOUT ((DWORD)258)
#define WAIT_FAILED ((DWORD)0xFFFFFFFF)
#define MAXIMUM_WAIT_OBJECTS 64

/* Values of GetLastError. Most stand for the status of a request, as on Windows. */
#define ERROR_SUCCESS ((DWORD)0)
#define ERROR_INVALID_FUNCTION ((DWORD)1)
#define ERROR_INVALID_HANDLE ((DWORD)6)
#define ERROR_NOT_ENOUGH_MEMORY ((DWORD)8)
#define ERROR_NOT_READY ((DWORD)21)
#define ERROR_BAD_COMMAND ((DWORD)22)
#define ERROR_CRC ((DWORD)23)
#define ERROR_GEN_FAILURE ((DWORD)31)
#define ERROR_SHARING_VIOLATION ((DWORD)32)
#define ERROR_NOT_SUPPORTED ((DWORD)50)
#define ERROR_REM_NOT_LIST ((DWORD)51)
#define ERROR_DUP_NAME ((DWORD)52)
#define ERROR_UNEXP_NET_ERR ((DWORD)59)
#define ERROR_NETNAME_DELETED ((DWORD)64)
#define ERROR_BAD_NET_NAME ((DWORD)67)
#define ERROR_TOO_MANY_NAMES ((DWORD)68)
#define ERROR_INVALID_PARAMETER ((DWORD)87)
#define ERROR_SEM_TIMEOUT ((DWORD)121)
#define ERROR_BUSY ((DWORD)170)
#define ERROR_MORE_DATA ((DWORD)234)
#define ERROR_NO_MORE_ITEMS ((DWORD)259)
#define ERROR_MR_MID_NOT_FOUND ((DWORD)317)
#define ERROR_ABANDONED_WAIT_0 ((DWORD)735)
#define ERROR_OPERATION_ABORTED ((DWORD)995)
#define ERROR_IO_INCOMPLETE ((DWORD)996)
#define ERROR_IO_PENDING ((DWORD)997)
#define ERROR_NOACCESS ((DWORD)998)
#define ERROR_IO_DEVICE ((DWORD)1117)
#define ERROR_POSSIBLE_DEADLOCK ((DWORD)1131)
#define ERROR_CONNECTION_REFUSED ((DWORD)1225)
#define ERROR_ADDRESS_ALREADY_ASSOCIATED ((DWORD)1227)
#define ERROR_CONNECTION_INVALID ((DWORD)1229)
#define ERROR_CONNECTION_ACTIVE ((DWORD)1230)
#define ERROR_NETWORK_UNREACHABLE ((DWORD)1231)
#define ERROR_HOST_UNREACHABLE ((DWORD)1232)
#define ERROR_CONNECTION_ABORTED ((DWORD)1236)
#define ERROR_INTERNAL_ERROR ((DWORD)1359)
#define ERROR_NO_SYSTEM_RESOURCES ((DWORD)1450)
#define ERROR_TIMEOUT ((DWORD)1460)
#define ERROR_DEVICE_REMOVED ((DWORD)1617)
#define ERROR_INVALID_USER_BUFFER ((DWORD)1784)

ND_BEGIN_C_

/* An event, with manual or automatic reset, set or not. lpEventAttributes and lpName have to be NULL. */
HANDLE WINAPI CreateEventA(LPSECURITY_ATTRIBUTES lpEventAttributes, BOOL bManualReset, BOOL bInitialState, LPCSTR lpName);
HANDLE WINAPI CreateEventW(LPSECURITY_ATTRIBUTES lpEventAttributes, BOOL bManualReset, BOOL bInitialState, LPCWSTR lpName);
#ifndef CreateEvent
#define CreateEvent CreateEventA
#endif
BOOL WINAPI SetEvent(HANDLE hEvent);
BOOL WINAPI ResetEvent(HANDLE hEvent);

/* Wait until events are set, up to dwMilliseconds. */
DWORD WINAPI WaitForSingleObject(HANDLE hHandle, DWORD dwMilliseconds);
DWORD WINAPI WaitForMultipleObjects(DWORD nCount, const HANDLE *lpHandles, BOOL bWaitAll, DWORD dwMilliseconds);

/*
 * A new port (FileHandle INVALID_HANDLE_VALUE, ExistingCompletionPort NULL), the same with a file that reports to it, or a file for an
 * existing port. The number of threads is not limited. A file has one port for its whole life.
 */
HANDLE WINAPI CreateIoCompletionPort(HANDLE FileHandle, HANDLE ExistingCompletionPort, ULONG_PTR CompletionKey,
                                     DWORD NumberOfConcurrentThreads);
/* FALSE with *lpOverlapped not NULL: the packet of a request that has failed. FALSE with NULL: there was no packet in time. */
BOOL WINAPI GetQueuedCompletionStatus(HANDLE CompletionPort, LPDWORD lpNumberOfBytesTransferred, PULONG_PTR lpCompletionKey,
                                      LPOVERLAPPED *lpOverlapped, DWORD dwMilliseconds);
BOOL WINAPI GetQueuedCompletionStatusEx(HANDLE CompletionPort, LPOVERLAPPED_ENTRY lpCompletionPortEntries, ULONG ulCount,
                                        PULONG ulNumEntriesRemoved, DWORD dwMilliseconds, BOOL fAlertable);
BOOL WINAPI PostQueuedCompletionStatus(HANDLE CompletionPort, DWORD dwNumberOfBytesTransferred, ULONG_PTR dwCompletionKey,
                                       LPOVERLAPPED lpOverlapped);

/* A thread of the library calls Function at the end of each request. dwErrorCode is the status of the request. */
typedef VOID(CALLBACK *LPOVERLAPPED_COMPLETION_ROUTINE)(DWORD dwErrorCode, DWORD dwNumberOfBytesTransfered, LPOVERLAPPED lpOverlapped);
BOOL WINAPI BindIoCompletionCallback(HANDLE FileHandle, LPOVERLAPPED_COMPLETION_ROUTINE Function, ULONG Flags);

/* Win32's function of this name. The method of IND2Overlapped says more: it returns the status. */
BOOL WINAPI GetOverlappedResult(HANDLE hFile, LPOVERLAPPED lpOverlapped, LPDWORD lpNumberOfBytesTransferred, BOOL bWait);

BOOL WINAPI CloseHandle(HANDLE hObject);
DWORD WINAPI GetLastError(void);
VOID WINAPI SetLastError(DWORD dwErrCode);

ND_END_C_

/* TRUE if the request has ended: its status is no longer ND_PENDING. The provider's writes before the end are visible then. */
static inline BOOL HasOverlappedIoCompleted(const OVERLAPPED *lpOverlapped)
{
#if defined(__GNUC__) || defined(__clang__)
    return __atomic_load_n(&lpOverlapped->Internal, __ATOMIC_ACQUIRE) != 0x103;
#else
    return *(const volatile ULONG_PTR *)&lpOverlapped->Internal != 0x103;
#endif
}

#endif /* !_WIN32 */

/* ---- 3. What a HANDLE points to ---------------------------------------------------------------------------------------------------- */

#ifndef _WIN32

/*
 * A HANDLE points to an object whose first word points to a table of functions. So a program, the libraries that it is linked with and
 * those that it loads use each other's events, ports and files: each calls the functions in the table of the object. A provider needs
 * no library for this, and a program needs no section 3.
 *
 * Every object counts its references. Close gives back the one that the creator got. To keep a HANDLE beyond a call, take a reference.
 * Size lets later versions append functions: look at it before you call a function that this version does not have.
 *
 * The rest of the object is private to its maker. It begins with a pointer to its table: ND_HANDLE_TABLE_OF(handle).
 */

#define ND_HANDLE_KIND_EVENT ((ULONG)0x4E440001)
#define ND_HANDLE_KIND_PORT ((ULONG)0x4E440002)
#define ND_HANDLE_KIND_FILE ((ULONG)0x4E440003)

/* The bit of OVERLAPPED.hEvent that keeps the end of a request out of the completion port. It is not part of the HANDLE. */
#define ND_HANDLE_NO_PACKET_BIT ((ULONG_PTR)1)

typedef struct ND_HANDLE_TABLE {
    /* Octets of the whole table, and what kind of object it is. */
    ULONG Size;
    ULONG Kind;
    VOID(STDMETHODCALLTYPE *AddRef)(HANDLE handle);
    /* Gives a reference back. The last one frees the object. */
    VOID(STDMETHODCALLTYPE *Release)(HANDLE handle);
    /* CloseHandle: gives back the reference of the creator. A port lets the threads that wait in it go. */
    VOID(STDMETHODCALLTYPE *Close)(HANDLE handle);
} ND_HANDLE_TABLE;

#define ND_HANDLE_TABLE_OF(handle) (*(const ND_HANDLE_TABLE *const *)(handle))

/* Waits for events, or for the ends of a file's requests. It lives until Unwatch has returned. */
typedef struct ND_WATCHER ND_WATCHER;
struct ND_WATCHER {
    /*
     * The event was set, or a request has ended. Any thread calls this, with a lock of the event or file held: call no function of either.
     * TRUE takes the signal of an event, which ends the wait; a file ignores the answer.
     */
    BOOL(STDMETHODCALLTYPE *Wake)(const ND_WATCHER *watcher);
};

typedef struct ND_EVENT_TABLE {
    ND_HANDLE_TABLE Handle;
    /*
     * Sets the event and calls its watchers, the oldest first. When one answers TRUE, an event with automatic reset is reset at once, and
     * no other watcher is called.
     */
    VOID(STDMETHODCALLTYPE *Set)(HANDLE event);
    VOID(STDMETHODCALLTYPE *Reset)(HANDLE event);
    /* TRUE if the event is set. An event with automatic reset is reset, so that one caller gets TRUE. */
    BOOL(STDMETHODCALLTYPE *Take)(HANDLE event);
    /* Has the watcher called whenever the event is set, until Unwatch. If the event is set already, calls it before this returns. */
    VOID(STDMETHODCALLTYPE *Watch)(HANDLE event, const ND_WATCHER *watcher);
    /* When this returns, no thread calls the watcher any more. */
    VOID(STDMETHODCALLTYPE *Unwatch)(HANDLE event, const ND_WATCHER *watcher);
    /*
     * Hold keeps the event as it is until LetGo, and returns TRUE if it is set. A wait for all of several events holds them in the order
     * of their addresses, and calls nothing but Hold and LetGo in between. LetGo(event, TRUE) resets an event with automatic reset.
     */
    BOOL(STDMETHODCALLTYPE *Hold)(HANDLE event);
    VOID(STDMETHODCALLTYPE *LetGo)(HANDLE event, BOOL take);
} ND_EVENT_TABLE;

/* What Take of a closed port returns. */
#define ND_PORT_CLOSED ((ULONG)0xFFFFFFFF)

typedef struct ND_PORT_TABLE {
    ND_HANDLE_TABLE Handle;
    /* Appends a packet. A closed port drops it. */
    VOID(STDMETHODCALLTYPE *Post)(HANDLE port, const OVERLAPPED_ENTRY *packet);
    /*
     * Takes up to count packets, the oldest first, and returns how many. Waits up to milliseconds for the first one; INFINITE is for ever.
     * Returns 0 when this time has passed, and ND_PORT_CLOSED when the port was closed before or meanwhile.
     */
    ULONG(STDMETHODCALLTYPE *Take)(HANDLE port, OVERLAPPED_ENTRY *packets, ULONG count, ULONG milliseconds);
} ND_PORT_TABLE;

typedef struct ND_FILE_TABLE {
    ND_HANDLE_TABLE Handle;
    /*
     * From now on the end of every pending request of the file's objects appends a packet with this key to the port. ND_INVALID_PARAMETER
     * if the file has a port already.
     */
    HRESULT(STDMETHODCALLTYPE *Associate)(HANDLE file, HANDLE port, ULONG_PTR key);
    /* Has the watcher called at the end of each request of the file's objects, after OVERLAPPED.Internal was written, until Unwatch. */
    VOID(STDMETHODCALLTYPE *Watch)(HANDLE file, const ND_WATCHER *watcher);
    /* When this returns, no thread calls the watcher any more. */
    VOID(STDMETHODCALLTYPE *Unwatch)(HANDLE file, const ND_WATCHER *watcher);
    /* TRUE in the child of a fork if the parent has made the file: no request of its objects ends in the child. */
    BOOL(STDMETHODCALLTYPE *IsOfParent)(HANDLE file);
} ND_FILE_TABLE;

#endif /* !_WIN32 */

/* ---- 4. Statuses ------------------------------------------------------------------------------------------------------------------- */

/*
 * What calls return and requests end with. SUCCEEDED holds for ND_SUCCESS, ND_PENDING and ND_TIMEOUT alone; warnings (0x8...) are
 * failures.
 */
#define ND_SUCCESS ((HRESULT)0x00000000)                 /* done */
#define ND_TIMEOUT ((HRESULT)0x00000102)                 /* version 1: not done in time */
#define ND_PENDING ((HRESULT)0x00000103)                 /* in flight; the result comes later */
#define ND_BUFFER_OVERFLOW ((HRESULT)0x80000005)         /* a buffer is too small, a message too long, or a queue has overflowed */
#define ND_DEVICE_BUSY ((HRESULT)0x80000011)             /* windows are bound to the region */
#define ND_NO_MORE_ENTRIES ((HRESULT)0x8000001A)         /* the request queue is full */
#define ND_UNSUCCESSFUL ((HRESULT)0xC0000001)            /* failed, without a status of its own */
#define ND_ACCESS_VIOLATION ((HRESULT)0xC0000005)        /* memory that is not valid, or lacks the right */
#define ND_INVALID_HANDLE ((HRESULT)0xC0000008)          /* not a HANDLE of the kind that is needed, or of this adapter */
#define ND_INVALID_PARAMETER ((HRESULT)0xC000000D)       /* an argument is out of range */
#define ND_INVALID_DEVICE_REQUEST ((HRESULT)0xC0000010)  /* malformed, or not possible now */
#define ND_NO_MEMORY ((HRESULT)0xC0000017)               /* the host has no memory left */
#define ND_INVALID_PARAMETER_MIX ((HRESULT)0xC0000030)   /* arguments contradict each other */
#define ND_DATA_OVERRUN ((HRESULT)0xC000003C)            /* too many entries, or more data than can be sent */
#define ND_SHARING_VIOLATION ((HRESULT)0xC0000043)       /* the local address and port are in use */
#define ND_INSUFFICIENT_RESOURCES ((HRESULT)0xC000009A)  /* the adapter has nothing left of what is needed */
#define ND_DEVICE_NOT_READY ((HRESULT)0xC00000A3)        /* NdStartup was not called, or the provider cannot be loaded */
#define ND_IO_TIMEOUT ((HRESULT)0xC00000B5)              /* the peer has not answered in time */
#define ND_NOT_SUPPORTED ((HRESULT)0xC00000BB)           /* the adapter cannot do it */
#define ND_INTERNAL_ERROR ((HRESULT)0xC00000E5)          /* a queue has broken down */
#define ND_INVALID_PARAMETER_1 ((HRESULT)0xC00000EF)     /* the first argument is not valid, and so on */
#define ND_INVALID_PARAMETER_2 ((HRESULT)0xC00000F0)
#define ND_INVALID_PARAMETER_3 ((HRESULT)0xC00000F1)
#define ND_INVALID_PARAMETER_4 ((HRESULT)0xC00000F2)
#define ND_INVALID_PARAMETER_5 ((HRESULT)0xC00000F3)
#define ND_INVALID_PARAMETER_6 ((HRESULT)0xC00000F4)
#define ND_INVALID_PARAMETER_7 ((HRESULT)0xC00000F5)
#define ND_INVALID_PARAMETER_8 ((HRESULT)0xC00000F6)
#define ND_INVALID_PARAMETER_9 ((HRESULT)0xC00000F7)
#define ND_INVALID_PARAMETER_10 ((HRESULT)0xC00000F8)
#define ND_CANCELED ((HRESULT)0xC0000120)                /* cancelled, or flushed from a queue */
#define ND_REMOTE_ERROR ((HRESULT)0xC000013D)            /* failed at the peer's queue pair */
#define ND_INVALID_ADDRESS ((HRESULT)0xC0000141)         /* no adapter has the address, or it cannot be used */
#define ND_INVALID_DEVICE_STATE ((HRESULT)0xC0000184)    /* the object is in another state */
#define ND_INVALID_BUFFER_SIZE ((HRESULT)0xC0000206)     /* private data too long, or an empty region */
#define ND_TOO_MANY_ADDRESSES ((HRESULT)0xC0000209)      /* no port is free */
#define ND_ADDRESS_ALREADY_EXISTS ((HRESULT)0xC000020A)  /* there is a connection with these addresses and ports */
#define ND_CONNECTION_REFUSED ((HRESULT)0xC0000236)      /* no listener, the backlog is full, or the peer has rejected */
#define ND_CONNECTION_INVALID ((HRESULT)0xC000023A)      /* there is no connection */
#define ND_CONNECTION_ACTIVE ((HRESULT)0xC000023B)       /* the queue pair has a connection, or gets one */
#define ND_NETWORK_UNREACHABLE ((HRESULT)0xC000023C)     /* there is no route */
#define ND_HOST_UNREACHABLE ((HRESULT)0xC000023D)        /* the host does not answer */
#define ND_CONNECTION_ABORTED ((HRESULT)0xC0000241)      /* the peer has given up before the connection was up */
#define ND_DEVICE_REMOVED ((HRESULT)0xC00002B6)          /* the adapter is gone */

/* Names of version 1. */
#define ND_LOCAL_LENGTH ND_DATA_OVERRUN
#define ND_INVALIDATION_ERROR ND_INVALID_DEVICE_REQUEST

/* Statuses without a name in ND2 that its calls return nevertheless. Windows' headers have some of them. */
#ifndef STATUS_PENDING
#define STATUS_PENDING ((DWORD)0x00000103)
#endif
#ifndef STATUS_DATA_ERROR
#define STATUS_DATA_ERROR ((HRESULT)0xC000003E) /* the peer's Receive was too short (InfiniBand) */
#endif
#ifndef STATUS_BAD_NETWORK_NAME
#define STATUS_BAD_NETWORK_NAME ((HRESULT)0xC00000CC) /* Connect to the unspecified address */
#endif
#ifndef STATUS_CONNECTION_DISCONNECTED
#define STATUS_CONNECTION_DISCONNECTED ((HRESULT)0xC000020C) /* the end of NotifyDisconnect, with some providers */
#endif
#ifndef STATUS_ADDRESS_ALREADY_ASSOCIATED
#define STATUS_ADDRESS_ALREADY_ASSOCIATED ((HRESULT)0xC0000238) /* bound already */
#endif

/* ---- 5. Flags and structures of ND2 ------------------------------------------------------------------------------------------------ */

#define ND_VERSION_1 0x1
#define ND_VERSION_2 0x20000
#ifndef NDVER
#define NDVER ND_VERSION_2
#endif

/* ND2_ADAPTER_INFO.AdapterFlags */
#define ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED 0x00000001 /* data becomes visible in the order of addresses */
#define ND_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED 0x00000004
#define ND_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED 0x00000008
#define ND_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED 0x00000100
#define ND_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED 0x00010000

/* IND2CompletionQueue::Notify: which results end the request. */
#define ND_CQ_NOTIFY_ERRORS 0
#define ND_CQ_NOTIFY_ANY 1
#define ND_CQ_NOTIFY_SOLICITED 2

/* IND2MemoryRegion::Register */
#define ND_MR_FLAG_ALLOW_LOCAL_WRITE 0x00000001
#define ND_MR_FLAG_ALLOW_REMOTE_READ 0x00000002
#define ND_MR_FLAG_ALLOW_REMOTE_WRITE 0x00000005 /* includes the local right */
#define ND_MR_FLAG_RDMA_READ_SINK 0x00000008
#define ND_MR_FLAG_DO_NOT_SECURE_VM 0x80000000

/* Requests of IND2QueuePair */
#define ND_OP_FLAG_SILENT_SUCCESS 0x00000001 /* no result unless the request fails */
#define ND_OP_FLAG_READ_FENCE 0x00000002     /* after all Reads before it */
#define ND_OP_FLAG_SEND_AND_SOLICIT_EVENT 0x00000004
#define ND_OP_FLAG_ALLOW_READ 0x00000008  /* Bind */
#define ND_OP_FLAG_ALLOW_WRITE 0x00000010 /* Bind */
#define ND_OP_FLAG_INLINE 0x00000020      /* Send and Write copy the data, which needs no region */

typedef struct _ND2_ADAPTER_INFO {
    /* ND_VERSION_2. Set it before the call of Query. */
    ULONG InfoVersion;
    UINT16 VendorId;
    UINT16 DeviceId;
    UINT64 AdapterId;
    SIZE_T MaxRegistrationSize;
    SIZE_T MaxWindowSize;
    ULONG MaxInitiatorSge;
    ULONG MaxReceiveSge;
    ULONG MaxReadSge;
    ULONG MaxTransferLength;
    ULONG MaxInlineDataSize;
    ULONG MaxInboundReadLimit;
    ULONG MaxOutboundReadLimit;
    ULONG MaxReceiveQueueDepth;
    ULONG MaxInitiatorQueueDepth;
    ULONG MaxSharedReceiveQueueDepth;
    ULONG MaxCompletionQueueDepth;
    /* Sends up to this length are faster inline. */
    ULONG InlineRequestThreshold;
    /* Above this length Reads and Writes are better than Sends. */
    ULONG LargeRequestThreshold;
    /* Private data of Connect, and of Accept and Reject. */
    ULONG MaxCallerData;
    ULONG MaxCalleeData;
    ULONG AdapterFlags;
} ND2_ADAPTER_INFO;

typedef enum _ND2_REQUEST_TYPE ND_UNDERLYING_INT_ {
    Nd2RequestTypeReceive = 0,
    Nd2RequestTypeSend = 1,
    Nd2RequestTypeBind = 2,
    Nd2RequestTypeInvalidate = 3,
    Nd2RequestTypeRead = 4,
    Nd2RequestTypeWrite = 5
} ND2_REQUEST_TYPE;

/* How a request on a queue pair has ended. */
typedef struct _ND2_RESULT {
    HRESULT Status;
    /* Octets of a Receive. */
    ULONG BytesTransferred;
    VOID *QueuePairContext;
    VOID *RequestContext;
    ND2_REQUEST_TYPE RequestType;
} ND2_RESULT;

/* A piece of the memory of a request. */
typedef struct _ND2_SGE {
    VOID *Buffer;
    ULONG BufferLength;
    /* GetLocalToken of the region that holds the buffer. */
    UINT32 MemoryRegionToken;
} ND2_SGE;

/* ---- 6. Identifiers of interfaces -------------------------------------------------------------------------------------------------- */

/* Every source file that includes this header defines them, and the linker keeps one of each: there is no library to link with for them. */
#ifdef _WIN32
#define ND_ONCE_ __declspec(selectany)
#else
#define ND_ONCE_ __attribute__((weak, visibility("hidden")))
#endif
#define ND_IID_(name, d1, d2, d3, a, b, c, d, e, f, g, h) \
    ND_EXTERN_C_ ND_ONCE_ const IID name = {0x##d1, 0x##d2, 0x##d3, {0x##a, 0x##b, 0x##c, 0x##d, 0x##e, 0x##f, 0x##g, 0x##h}};

#ifndef _WIN32
ND_IID_(IID_IUnknown, 00000000, 0000, 0000, C0, 00, 00, 00, 00, 00, 00, 46)
ND_IID_(IID_IClassFactory, 00000001, 0000, 0000, C0, 00, 00, 00, 00, 00, 00, 46)
#endif
ND_IID_(IID_IND2Provider, 49EAE6C1, 76C4, 46D0, 80, 03, 5C, 2E, AA, 2C, 9A, 8E)
ND_IID_(IID_IND2Overlapped, ABF72719, B016, 4A40, A6, F7, 62, 27, 91, A7, 04, 4C)
ND_IID_(IID_IND2Adapter, D89C798C, 4823, 4D69, 84, 6C, DF, DC, CF, F9, E5, F3)
ND_IID_(IID_IND2CompletionQueue, 20CC445E, 64A0, 4CBB, AA, 75, F6, A7, 25, 1F, DA, 9E)
ND_IID_(IID_IND2MemoryRegion, 55DFEA2F, BC56, 4982, 8A, 45, 03, 01, BE, 46, C4, 13)
ND_IID_(IID_IND2MemoryWindow, 070FE1F5, 0AB5, 4361, 88, DB, 97, 4B, A7, 04, D4, B9)
ND_IID_(IID_IND2SharedReceiveQueue, AABD67DC, 459A, 4DB1, 82, 6B, 56, CF, CC, 27, 88, 83)
ND_IID_(IID_IND2QueuePair, EEF2F332, B75D, 4063, BC, E3, 3A, 0B, AD, 2D, 02, CE)
ND_IID_(IID_IND2Connector, 7DD615C4, 6B4C, 4866, 95, 0C, F3, B1, D2, 5A, 53, 02)
ND_IID_(IID_IND2Listener, 65D23D83, 3A57, 4E02, 86, A4, 35, 01, 65, C2, D1, 30)

/* ---- 7. Interfaces ----------------------------------------------------------------------------------------------------------------- */

/*
 * The same text declares each interface for both languages. ND_THIS_ is the pointer to the object that functions of C get first. In C++ an
 * interface has the methods of its base by inheritance; in C its table repeats them.
 *
 * A method with an OVERLAPPED that returns ND_PENDING reports the end of its request: by the event in hEvent, by a packet of the port that
 * the overlapped file belongs to, and by GetOverlappedResult of the object. After any other return value nothing is reported.
 *
 * Sizes in and out: ND_BUFFER_OVERFLOW and the size that is needed if the buffer is too small (NULL with size 0 asks for it), otherwise
 * ND_SUCCESS and the size that was used.
 *
 * Out-pointers of type VOID** get the interface that iid names, with a reference that the caller gives back by Release.
 */
#ifdef __cplusplus
#if defined(__GNUC__) || defined(__clang__)
/* The tables of COM have no destructors. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
#endif
#define ND_INTERFACE_(name, base) struct name : public base {
#define ND_METHOD_(type, name) virtual type STDMETHODCALLTYPE name
#define ND_THIS_
#define ND_THIS_AND_
#define ND_PURE_ = 0
#define ND_UNKNOWN_METHODS_
#define ND_OVERLAPPED_METHODS_
#else
#define ND_INTERFACE_(name, base) \
    typedef struct name##Vtbl name##Vtbl; \
    typedef struct name { \
        const name##Vtbl *lpVtbl; \
    } name; \
    struct name##Vtbl {
#define ND_METHOD_(type, name) type(STDMETHODCALLTYPE *name)
#define ND_THIS_ ND_INTERFACE_NAME_ *This
#define ND_THIS_AND_ ND_INTERFACE_NAME_ *This,
#define ND_PURE_
#define ND_UNKNOWN_METHODS_ \
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(ND_INTERFACE_NAME_ * This, REFIID riid, VOID **ppvObject); \
    ULONG(STDMETHODCALLTYPE *AddRef)(ND_INTERFACE_NAME_ * This); \
    ULONG(STDMETHODCALLTYPE *Release)(ND_INTERFACE_NAME_ * This);
#define ND_OVERLAPPED_METHODS_ \
    ND_UNKNOWN_METHODS_ \
    HRESULT(STDMETHODCALLTYPE *CancelOverlappedRequests)(ND_INTERFACE_NAME_ * This); \
    HRESULT(STDMETHODCALLTYPE *GetOverlappedResult)(ND_INTERFACE_NAME_ * This, OVERLAPPED * pOverlapped, BOOL wait);
#endif
#define ND_END_INTERFACE_ };

#ifndef _WIN32

#ifdef __cplusplus
struct IUnknown {
    virtual HRESULT STDMETHODCALLTYPE QueryInterface(REFIID riid, VOID **ppvObject) = 0;
    virtual ULONG STDMETHODCALLTYPE AddRef() = 0;
    virtual ULONG STDMETHODCALLTYPE Release() = 0;
};
#else
#define ND_INTERFACE_NAME_ IUnknown
ND_INTERFACE_(IUnknown, )
    ND_UNKNOWN_METHODS_
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_
#endif

#define ND_INTERFACE_NAME_ IClassFactory
ND_INTERFACE_(IClassFactory, IUnknown)
    ND_UNKNOWN_METHODS_
    ND_METHOD_(HRESULT, CreateInstance)(ND_THIS_AND_ IUnknown *pUnkOuter, REFIID riid, VOID **ppvObject) ND_PURE_;
    ND_METHOD_(HRESULT, LockServer)(ND_THIS_AND_ BOOL fLock) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#endif /* !_WIN32 */

/* What a provider's library hands out: the addresses that it serves, and adapters. */
#define ND_INTERFACE_NAME_ IND2Provider
ND_INTERFACE_(IND2Provider, IUnknown)
    ND_UNKNOWN_METHODS_
    ND_METHOD_(HRESULT, QueryAddressList)(ND_THIS_AND_ SOCKET_ADDRESS_LIST *pAddressList, ULONG *pcbAddressList) ND_PURE_;
    ND_METHOD_(HRESULT, ResolveAddress)(ND_THIS_AND_ const struct sockaddr *pAddress, ULONG cbAddress, UINT64 *pAdapterId) ND_PURE_;
    ND_METHOD_(HRESULT, OpenAdapter)(ND_THIS_AND_ REFIID iid, UINT64 adapterId, VOID **ppAdapter) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

/* The base of everything that has requests in flight. */
#define ND_INTERFACE_NAME_ IND2Overlapped
ND_INTERFACE_(IND2Overlapped, IUnknown)
    ND_UNKNOWN_METHODS_
    /* Ends the requests of the object with ND_CANCELED. */
    ND_METHOD_(HRESULT, CancelOverlappedRequests)(ND_THIS_) ND_PURE_;
    /* The status of a request: of this object, or of any other with the same overlapped file. */
    ND_METHOD_(HRESULT, GetOverlappedResult)(ND_THIS_AND_ OVERLAPPED *pOverlapped, BOOL wait) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ IND2Adapter
ND_INTERFACE_(IND2Adapter, IUnknown)
    ND_UNKNOWN_METHODS_
    /* The file ties objects to a completion port or to a callback. The caller closes it. */
    ND_METHOD_(HRESULT, CreateOverlappedFile)(ND_THIS_AND_ HANDLE *phOverlappedFile) ND_PURE_;
    ND_METHOD_(HRESULT, Query)(ND_THIS_AND_ ND2_ADAPTER_INFO *pInfo, ULONG *pcbInfo) ND_PURE_;
    ND_METHOD_(HRESULT, QueryAddressList)(ND_THIS_AND_ SOCKET_ADDRESS_LIST *pAddressList, ULONG *pcbAddressList) ND_PURE_;
    ND_METHOD_(HRESULT, CreateCompletionQueue)(ND_THIS_AND_ REFIID iid, HANDLE hOverlappedFile, ULONG queueDepth, USHORT group,
                                               KAFFINITY affinity, VOID **ppCompletionQueue) ND_PURE_;
    ND_METHOD_(HRESULT, CreateMemoryRegion)(ND_THIS_AND_ REFIID iid, HANDLE hOverlappedFile, VOID **ppMemoryRegion) ND_PURE_;
    ND_METHOD_(HRESULT, CreateMemoryWindow)(ND_THIS_AND_ REFIID iid, VOID **ppMemoryWindow) ND_PURE_;
    ND_METHOD_(HRESULT, CreateSharedReceiveQueue)(ND_THIS_AND_ REFIID iid, HANDLE hOverlappedFile, ULONG queueDepth, ULONG maxRequestSge,
                                                  ULONG notifyThreshold, USHORT group, KAFFINITY affinity,
                                                  VOID **ppSharedReceiveQueue) ND_PURE_;
    ND_METHOD_(HRESULT, CreateQueuePair)(ND_THIS_AND_ REFIID iid, IUnknown *pReceiveCompletionQueue, IUnknown *pInitiatorCompletionQueue,
                                         VOID *context, ULONG receiveQueueDepth, ULONG initiatorQueueDepth, ULONG maxReceiveRequestSge,
                                         ULONG maxInitiatorRequestSge, ULONG inlineDataSize, VOID **ppQueuePair) ND_PURE_;
    ND_METHOD_(HRESULT, CreateQueuePairWithSrq)(ND_THIS_AND_ REFIID iid, IUnknown *pReceiveCompletionQueue,
                                                IUnknown *pInitiatorCompletionQueue, IUnknown *pSharedReceiveQueue, VOID *context,
                                                ULONG initiatorQueueDepth, ULONG maxInitiatorRequestSge, ULONG inlineDataSize,
                                                VOID **ppQueuePair) ND_PURE_;
    ND_METHOD_(HRESULT, CreateConnector)(ND_THIS_AND_ REFIID iid, HANDLE hOverlappedFile, VOID **ppConnector) ND_PURE_;
    ND_METHOD_(HRESULT, CreateListener)(ND_THIS_AND_ REFIID iid, HANDLE hOverlappedFile, VOID **ppListener) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ IND2CompletionQueue
ND_INTERFACE_(IND2CompletionQueue, IND2Overlapped)
    ND_OVERLAPPED_METHODS_
    ND_METHOD_(HRESULT, GetNotifyAffinity)(ND_THIS_AND_ USHORT *pGroup, KAFFINITY *pAffinity) ND_PURE_;
    ND_METHOD_(HRESULT, Resize)(ND_THIS_AND_ ULONG queueDepth) ND_PURE_;
    /*
     * Ends at a result that type asks for (ND_CQ_NOTIFY_...) and that has ended no Notify before, also one that is queued already. Take
     * results until there are none, call Notify, and take results again when it has ended.
     */
    ND_METHOD_(HRESULT, Notify)(ND_THIS_AND_ ULONG type, OVERLAPPED *pOverlapped) ND_PURE_;
    /* Takes up to nResults results, and returns how many. */
    ND_METHOD_(ULONG, GetResults)(ND_THIS_AND_ ND2_RESULT results[], ULONG nResults) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ IND2MemoryRegion
ND_INTERFACE_(IND2MemoryRegion, IND2Overlapped)
    ND_OVERLAPPED_METHODS_
    ND_METHOD_(HRESULT, Register)(ND_THIS_AND_ const VOID *pBuffer, SIZE_T cbBuffer, ULONG flags, OVERLAPPED *pOverlapped) ND_PURE_;
    ND_METHOD_(HRESULT, Deregister)(ND_THIS_AND_ OVERLAPPED *pOverlapped) ND_PURE_;
    /* For entries of the local side's requests. */
    ND_METHOD_(UINT32, GetLocalToken)(ND_THIS_) ND_PURE_;
    /* For Reads and Writes of peers, in the order of octets that Read and Write take. */
    ND_METHOD_(UINT32, GetRemoteToken)(ND_THIS_) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ IND2MemoryWindow
ND_INTERFACE_(IND2MemoryWindow, IUnknown)
    ND_UNKNOWN_METHODS_
    ND_METHOD_(UINT32, GetRemoteToken)(ND_THIS_) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ IND2SharedReceiveQueue
ND_INTERFACE_(IND2SharedReceiveQueue, IND2Overlapped)
    ND_OVERLAPPED_METHODS_
    ND_METHOD_(HRESULT, GetNotifyAffinity)(ND_THIS_AND_ USHORT *pGroup, KAFFINITY *pAffinity) ND_PURE_;
    ND_METHOD_(HRESULT, Modify)(ND_THIS_AND_ ULONG queueDepth, ULONG notifyThreshold) ND_PURE_;
    /* Ends when fewer Receives are left than the threshold. */
    ND_METHOD_(HRESULT, Notify)(ND_THIS_AND_ OVERLAPPED *pOverlapped) ND_PURE_;
    ND_METHOD_(HRESULT, Receive)(ND_THIS_AND_ VOID *requestContext, const ND2_SGE sge[], ULONG nSge) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

/* Requests end with an ND2_RESULT in a completion queue. requestContext comes back in it. */
#define ND_INTERFACE_NAME_ IND2QueuePair
ND_INTERFACE_(IND2QueuePair, IUnknown)
    ND_UNKNOWN_METHODS_
    /* Ends all requests with ND_CANCELED. */
    ND_METHOD_(HRESULT, Flush)(ND_THIS_) ND_PURE_;
    ND_METHOD_(HRESULT, Send)(ND_THIS_AND_ VOID *requestContext, const ND2_SGE sge[], ULONG nSge, ULONG flags) ND_PURE_;
    ND_METHOD_(HRESULT, Receive)(ND_THIS_AND_ VOID *requestContext, const ND2_SGE sge[], ULONG nSge) ND_PURE_;
    ND_METHOD_(HRESULT, Bind)(ND_THIS_AND_ VOID *requestContext, IUnknown *pMemoryRegion, IUnknown *pMemoryWindow, const VOID *pBuffer,
                              SIZE_T cbBuffer, ULONG flags) ND_PURE_;
    ND_METHOD_(HRESULT, Invalidate)(ND_THIS_AND_ VOID *requestContext, IUnknown *pMemoryWindow, ULONG flags) ND_PURE_;
    ND_METHOD_(HRESULT, Read)(ND_THIS_AND_ VOID *requestContext, const ND2_SGE sge[], ULONG nSge, UINT64 remoteAddress,
                              UINT32 remoteToken, ULONG flags) ND_PURE_;
    ND_METHOD_(HRESULT, Write)(ND_THIS_AND_ VOID *requestContext, const ND2_SGE sge[], ULONG nSge, UINT64 remoteAddress,
                               UINT32 remoteToken, ULONG flags) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

/*
 * Active side: Bind, Connect, and when Connect has ended CompleteConnect. Passive side: a listener's GetConnectionRequest fills the
 * connector, then Accept or Reject.
 */
#define ND_INTERFACE_NAME_ IND2Connector
ND_INTERFACE_(IND2Connector, IND2Overlapped)
    ND_OVERLAPPED_METHODS_
    ND_METHOD_(HRESULT, Bind)(ND_THIS_AND_ const struct sockaddr *pAddress, ULONG cbAddress) ND_PURE_;
    ND_METHOD_(HRESULT, Connect)(ND_THIS_AND_ IUnknown *pQueuePair, const struct sockaddr *pDestAddress, ULONG cbDestAddress,
                                 ULONG inboundReadLimit, ULONG outboundReadLimit, const VOID *pPrivateData, ULONG cbPrivateData,
                                 OVERLAPPED *pOverlapped) ND_PURE_;
    ND_METHOD_(HRESULT, CompleteConnect)(ND_THIS_AND_ OVERLAPPED *pOverlapped) ND_PURE_;
    ND_METHOD_(HRESULT, Accept)(ND_THIS_AND_ IUnknown *pQueuePair, ULONG inboundReadLimit, ULONG outboundReadLimit,
                                const VOID *pPrivateData, ULONG cbPrivateData, OVERLAPPED *pOverlapped) ND_PURE_;
    ND_METHOD_(HRESULT, Reject)(ND_THIS_AND_ const VOID *pPrivateData, ULONG cbPrivateData) ND_PURE_;
    ND_METHOD_(HRESULT, GetReadLimits)(ND_THIS_AND_ ULONG *pInboundReadLimit, ULONG *pOutboundReadLimit) ND_PURE_;
    ND_METHOD_(HRESULT, GetPrivateData)(ND_THIS_AND_ VOID *pPrivateData, ULONG *pcbPrivateData) ND_PURE_;
    ND_METHOD_(HRESULT, GetLocalAddress)(ND_THIS_AND_ struct sockaddr *pAddress, ULONG *pcbAddress) ND_PURE_;
    ND_METHOD_(HRESULT, GetPeerAddress)(ND_THIS_AND_ struct sockaddr *pAddress, ULONG *pcbAddress) ND_PURE_;
    /* Ends when the connection does. */
    ND_METHOD_(HRESULT, NotifyDisconnect)(ND_THIS_AND_ OVERLAPPED *pOverlapped) ND_PURE_;
    ND_METHOD_(HRESULT, Disconnect)(ND_THIS_AND_ OVERLAPPED *pOverlapped) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ IND2Listener
ND_INTERFACE_(IND2Listener, IND2Overlapped)
    ND_OVERLAPPED_METHODS_
    ND_METHOD_(HRESULT, Bind)(ND_THIS_AND_ const struct sockaddr *pAddress, ULONG cbAddress) ND_PURE_;
    /* Up to backlog connections wait for GetConnectionRequest; 0 sets no limit. */
    ND_METHOD_(HRESULT, Listen)(ND_THIS_AND_ ULONG backlog) ND_PURE_;
    ND_METHOD_(HRESULT, GetLocalAddress)(ND_THIS_AND_ struct sockaddr *pAddress, ULONG *pcbAddress) ND_PURE_;
    ND_METHOD_(HRESULT, GetConnectionRequest)(ND_THIS_AND_ IUnknown *pConnector, OVERLAPPED *pOverlapped) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#ifndef __cplusplus

/* Short forms for C. They name `This` twice. */

#ifndef IUnknown_Release
#define IUnknown_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IUnknown_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IUnknown_Release(This) ((This)->lpVtbl->Release(This))
#endif

#ifndef IClassFactory_Release
#define IClassFactory_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IClassFactory_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IClassFactory_Release(This) ((This)->lpVtbl->Release(This))
#define IClassFactory_CreateInstance(This, pUnkOuter, riid, ppvObject) ((This)->lpVtbl->CreateInstance(This, pUnkOuter, riid, ppvObject))
#define IClassFactory_LockServer(This, fLock) ((This)->lpVtbl->LockServer(This, fLock))
#endif

#define IND2Provider_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IND2Provider_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IND2Provider_Release(This) ((This)->lpVtbl->Release(This))
#define IND2Provider_QueryAddressList(This, pAddressList, pcbAddressList) \
    ((This)->lpVtbl->QueryAddressList(This, pAddressList, pcbAddressList))
#define IND2Provider_ResolveAddress(This, pAddress, cbAddress, pAdapterId) \
    ((This)->lpVtbl->ResolveAddress(This, pAddress, cbAddress, pAdapterId))
#define IND2Provider_OpenAdapter(This, iid, adapterId, ppAdapter) ((This)->lpVtbl->OpenAdapter(This, iid, adapterId, ppAdapter))

#define IND2Overlapped_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IND2Overlapped_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IND2Overlapped_Release(This) ((This)->lpVtbl->Release(This))
#define IND2Overlapped_CancelOverlappedRequests(This) ((This)->lpVtbl->CancelOverlappedRequests(This))
#define IND2Overlapped_GetOverlappedResult(This, pOverlapped, wait) ((This)->lpVtbl->GetOverlappedResult(This, pOverlapped, wait))

#define IND2Adapter_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IND2Adapter_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IND2Adapter_Release(This) ((This)->lpVtbl->Release(This))
#define IND2Adapter_CreateOverlappedFile(This, phOverlappedFile) ((This)->lpVtbl->CreateOverlappedFile(This, phOverlappedFile))
#define IND2Adapter_Query(This, pInfo, pcbInfo) ((This)->lpVtbl->Query(This, pInfo, pcbInfo))
#define IND2Adapter_QueryAddressList(This, pAddressList, pcbAddressList) \
    ((This)->lpVtbl->QueryAddressList(This, pAddressList, pcbAddressList))
#define IND2Adapter_CreateCompletionQueue(This, iid, hOverlappedFile, queueDepth, group, affinity, ppCompletionQueue) \
    ((This)->lpVtbl->CreateCompletionQueue(This, iid, hOverlappedFile, queueDepth, group, affinity, ppCompletionQueue))
#define IND2Adapter_CreateMemoryRegion(This, iid, hOverlappedFile, ppMemoryRegion) \
    ((This)->lpVtbl->CreateMemoryRegion(This, iid, hOverlappedFile, ppMemoryRegion))
#define IND2Adapter_CreateMemoryWindow(This, iid, ppMemoryWindow) ((This)->lpVtbl->CreateMemoryWindow(This, iid, ppMemoryWindow))
#define IND2Adapter_CreateSharedReceiveQueue(This, iid, hOverlappedFile, queueDepth, maxRequestSge, notifyThreshold, group, affinity, \
        ppSharedReceiveQueue) \
    ((This)->lpVtbl->CreateSharedReceiveQueue(This, iid, hOverlappedFile, queueDepth, maxRequestSge, notifyThreshold, group, affinity, \
        ppSharedReceiveQueue))
#define IND2Adapter_CreateQueuePair(This, iid, pReceiveCompletionQueue, pInitiatorCompletionQueue, context, receiveQueueDepth, \
        initiatorQueueDepth, maxReceiveRequestSge, maxInitiatorRequestSge, inlineDataSize, ppQueuePair) \
    ((This)->lpVtbl->CreateQueuePair(This, iid, pReceiveCompletionQueue, pInitiatorCompletionQueue, context, receiveQueueDepth, \
        initiatorQueueDepth, maxReceiveRequestSge, maxInitiatorRequestSge, inlineDataSize, ppQueuePair))
#define IND2Adapter_CreateQueuePairWithSrq(This, iid, pReceiveCompletionQueue, pInitiatorCompletionQueue, pSharedReceiveQueue, context, \
        initiatorQueueDepth, maxInitiatorRequestSge, inlineDataSize, ppQueuePair) \
    ((This)->lpVtbl->CreateQueuePairWithSrq(This, iid, pReceiveCompletionQueue, pInitiatorCompletionQueue, pSharedReceiveQueue, \
        context, initiatorQueueDepth, maxInitiatorRequestSge, inlineDataSize, ppQueuePair))
#define IND2Adapter_CreateConnector(This, iid, hOverlappedFile, ppConnector) \
    ((This)->lpVtbl->CreateConnector(This, iid, hOverlappedFile, ppConnector))
#define IND2Adapter_CreateListener(This, iid, hOverlappedFile, ppListener) \
    ((This)->lpVtbl->CreateListener(This, iid, hOverlappedFile, ppListener))

#define IND2CompletionQueue_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IND2CompletionQueue_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IND2CompletionQueue_Release(This) ((This)->lpVtbl->Release(This))
#define IND2CompletionQueue_CancelOverlappedRequests(This) ((This)->lpVtbl->CancelOverlappedRequests(This))
#define IND2CompletionQueue_GetOverlappedResult(This, pOverlapped, wait) ((This)->lpVtbl->GetOverlappedResult(This, pOverlapped, wait))
#define IND2CompletionQueue_GetNotifyAffinity(This, pGroup, pAffinity) ((This)->lpVtbl->GetNotifyAffinity(This, pGroup, pAffinity))
#define IND2CompletionQueue_Resize(This, queueDepth) ((This)->lpVtbl->Resize(This, queueDepth))
#define IND2CompletionQueue_Notify(This, type, pOverlapped) ((This)->lpVtbl->Notify(This, type, pOverlapped))
#define IND2CompletionQueue_GetResults(This, results, nResults) ((This)->lpVtbl->GetResults(This, results, nResults))

#define IND2MemoryRegion_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IND2MemoryRegion_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IND2MemoryRegion_Release(This) ((This)->lpVtbl->Release(This))
#define IND2MemoryRegion_CancelOverlappedRequests(This) ((This)->lpVtbl->CancelOverlappedRequests(This))
#define IND2MemoryRegion_GetOverlappedResult(This, pOverlapped, wait) ((This)->lpVtbl->GetOverlappedResult(This, pOverlapped, wait))
#define IND2MemoryRegion_Register(This, pBuffer, cbBuffer, flags, pOverlapped) \
    ((This)->lpVtbl->Register(This, pBuffer, cbBuffer, flags, pOverlapped))
#define IND2MemoryRegion_Deregister(This, pOverlapped) ((This)->lpVtbl->Deregister(This, pOverlapped))
#define IND2MemoryRegion_GetLocalToken(This) ((This)->lpVtbl->GetLocalToken(This))
#define IND2MemoryRegion_GetRemoteToken(This) ((This)->lpVtbl->GetRemoteToken(This))

#define IND2MemoryWindow_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IND2MemoryWindow_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IND2MemoryWindow_Release(This) ((This)->lpVtbl->Release(This))
#define IND2MemoryWindow_GetRemoteToken(This) ((This)->lpVtbl->GetRemoteToken(This))

#define IND2SharedReceiveQueue_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IND2SharedReceiveQueue_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IND2SharedReceiveQueue_Release(This) ((This)->lpVtbl->Release(This))
#define IND2SharedReceiveQueue_CancelOverlappedRequests(This) ((This)->lpVtbl->CancelOverlappedRequests(This))
#define IND2SharedReceiveQueue_GetOverlappedResult(This, pOverlapped, wait) ((This)->lpVtbl->GetOverlappedResult(This, pOverlapped, wait))
#define IND2SharedReceiveQueue_GetNotifyAffinity(This, pGroup, pAffinity) ((This)->lpVtbl->GetNotifyAffinity(This, pGroup, pAffinity))
#define IND2SharedReceiveQueue_Modify(This, queueDepth, notifyThreshold) ((This)->lpVtbl->Modify(This, queueDepth, notifyThreshold))
#define IND2SharedReceiveQueue_Notify(This, pOverlapped) ((This)->lpVtbl->Notify(This, pOverlapped))
#define IND2SharedReceiveQueue_Receive(This, requestContext, sge, nSge) ((This)->lpVtbl->Receive(This, requestContext, sge, nSge))

#define IND2QueuePair_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IND2QueuePair_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IND2QueuePair_Release(This) ((This)->lpVtbl->Release(This))
#define IND2QueuePair_Flush(This) ((This)->lpVtbl->Flush(This))
#define IND2QueuePair_Send(This, requestContext, sge, nSge, flags) ((This)->lpVtbl->Send(This, requestContext, sge, nSge, flags))
#define IND2QueuePair_Receive(This, requestContext, sge, nSge) ((This)->lpVtbl->Receive(This, requestContext, sge, nSge))
#define IND2QueuePair_Bind(This, requestContext, pMemoryRegion, pMemoryWindow, pBuffer, cbBuffer, flags) \
    ((This)->lpVtbl->Bind(This, requestContext, pMemoryRegion, pMemoryWindow, pBuffer, cbBuffer, flags))
#define IND2QueuePair_Invalidate(This, requestContext, pMemoryWindow, flags) \
    ((This)->lpVtbl->Invalidate(This, requestContext, pMemoryWindow, flags))
#define IND2QueuePair_Read(This, requestContext, sge, nSge, remoteAddress, remoteToken, flags) \
    ((This)->lpVtbl->Read(This, requestContext, sge, nSge, remoteAddress, remoteToken, flags))
#define IND2QueuePair_Write(This, requestContext, sge, nSge, remoteAddress, remoteToken, flags) \
    ((This)->lpVtbl->Write(This, requestContext, sge, nSge, remoteAddress, remoteToken, flags))

#define IND2Connector_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IND2Connector_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IND2Connector_Release(This) ((This)->lpVtbl->Release(This))
#define IND2Connector_CancelOverlappedRequests(This) ((This)->lpVtbl->CancelOverlappedRequests(This))
#define IND2Connector_GetOverlappedResult(This, pOverlapped, wait) ((This)->lpVtbl->GetOverlappedResult(This, pOverlapped, wait))
#define IND2Connector_Bind(This, pAddress, cbAddress) ((This)->lpVtbl->Bind(This, pAddress, cbAddress))
#define IND2Connector_Connect(This, pQueuePair, pDestAddress, cbDestAddress, inboundReadLimit, outboundReadLimit, pPrivateData, \
        cbPrivateData, pOverlapped) \
    ((This)->lpVtbl->Connect(This, pQueuePair, pDestAddress, cbDestAddress, inboundReadLimit, outboundReadLimit, pPrivateData, \
        cbPrivateData, pOverlapped))
#define IND2Connector_CompleteConnect(This, pOverlapped) ((This)->lpVtbl->CompleteConnect(This, pOverlapped))
#define IND2Connector_Accept(This, pQueuePair, inboundReadLimit, outboundReadLimit, pPrivateData, cbPrivateData, pOverlapped) \
    ((This)->lpVtbl->Accept(This, pQueuePair, inboundReadLimit, outboundReadLimit, pPrivateData, cbPrivateData, pOverlapped))
#define IND2Connector_Reject(This, pPrivateData, cbPrivateData) ((This)->lpVtbl->Reject(This, pPrivateData, cbPrivateData))
#define IND2Connector_GetReadLimits(This, pInboundReadLimit, pOutboundReadLimit) \
    ((This)->lpVtbl->GetReadLimits(This, pInboundReadLimit, pOutboundReadLimit))
#define IND2Connector_GetPrivateData(This, pPrivateData, pcbPrivateData) \
    ((This)->lpVtbl->GetPrivateData(This, pPrivateData, pcbPrivateData))
#define IND2Connector_GetLocalAddress(This, pAddress, pcbAddress) ((This)->lpVtbl->GetLocalAddress(This, pAddress, pcbAddress))
#define IND2Connector_GetPeerAddress(This, pAddress, pcbAddress) ((This)->lpVtbl->GetPeerAddress(This, pAddress, pcbAddress))
#define IND2Connector_NotifyDisconnect(This, pOverlapped) ((This)->lpVtbl->NotifyDisconnect(This, pOverlapped))
#define IND2Connector_Disconnect(This, pOverlapped) ((This)->lpVtbl->Disconnect(This, pOverlapped))

#define IND2Listener_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define IND2Listener_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define IND2Listener_Release(This) ((This)->lpVtbl->Release(This))
#define IND2Listener_CancelOverlappedRequests(This) ((This)->lpVtbl->CancelOverlappedRequests(This))
#define IND2Listener_GetOverlappedResult(This, pOverlapped, wait) ((This)->lpVtbl->GetOverlappedResult(This, pOverlapped, wait))
#define IND2Listener_Bind(This, pAddress, cbAddress) ((This)->lpVtbl->Bind(This, pAddress, cbAddress))
#define IND2Listener_Listen(This, backlog) ((This)->lpVtbl->Listen(This, backlog))
#define IND2Listener_GetLocalAddress(This, pAddress, pcbAddress) ((This)->lpVtbl->GetLocalAddress(This, pAddress, pcbAddress))
#define IND2Listener_GetConnectionRequest(This, pConnector, pOverlapped) \
    ((This)->lpVtbl->GetConnectionRequest(This, pConnector, pOverlapped))
#endif /* !__cplusplus */

/* ---- 8. What a provider exports ---------------------------------------------------------------------------------------------------- */

/*
 * Load the library, look up both functions, and call DllGetClassObject with IID_IND2Provider. The class identifier names the provider in
 * Windows' registration; softnd takes any.
 *
 * Before you unload the library, release every object and call DllCanUnloadNow: S_OK means that nothing needs it any more. A provider may
 * keep itself loaded in spite of that.
 */
typedef HRESULT(STDMETHODCALLTYPE *ND_DLL_GET_CLASS_OBJECT)(REFCLSID rclsid, REFIID riid, VOID **ppv);
typedef HRESULT(STDMETHODCALLTYPE *ND_DLL_CAN_UNLOAD_NOW)(void);

#ifndef _WIN32
ND_BEGIN_C_
HRESULT STDMETHODCALLTYPE DllGetClassObject(REFCLSID rclsid, REFIID riid, VOID **ppv);
HRESULT STDMETHODCALLTYPE DllCanUnloadNow(void);
ND_END_C_
#endif

/* ---- 9. Helper functions ----------------------------------------------------------------------------------------------------------- */

/*
 * They find providers, and ask all of them. The environment variable ND_PROVIDER names the providers' libraries. On Windows, without the
 * variable, the system's registration does.
 *
 * Every NdStartup needs an NdCleanup. Before the first and after the last one calls return ND_DEVICE_NOT_READY.
 */
#define ND_QUERY_EXCLUDE_EMULATOR_ADDRESSES 0x00000001 /* no effect */
#define ND_QUERY_EXCLUDE_NDv1_ADDRESSES 0x00000002
#define ND_QUERY_EXCLUDE_NDv2_ADDRESSES 0x00000004

struct INDAdapter;

#ifdef _WIN32
#define ND_HELPER_API __stdcall
#else
#define ND_HELPER_API
#endif

ND_BEGIN_C_

HRESULT ND_HELPER_API NdStartup(void);
HRESULT ND_HELPER_API NdCleanup(void);
/* Unloads the libraries that nothing needs. */
VOID ND_HELPER_API NdFlushProviders(void);

/* The addresses of all providers. Without one, ND_SUCCESS and size 0. */
HRESULT ND_HELPER_API NdQueryAddressList(DWORD flags, SOCKET_ADDRESS_LIST *pAddressList, SIZE_T *pcbAddressList);

/* The local address by which the system would reach a remote one, if a provider has it. */
HRESULT ND_HELPER_API NdResolveAddress(const struct sockaddr *pRemoteAddress, SIZE_T cbRemoteAddress, struct sockaddr *pLocalAddress,
                                       SIZE_T *pcbLocalAddress);

/* ND_SUCCESS if a provider has this local address, otherwise ND_INVALID_ADDRESS. */
HRESULT ND_HELPER_API NdCheckAddress(const struct sockaddr *pAddress, SIZE_T cbAddress);

/* The adapter of the provider that has this local address. iid is IID_IND2Adapter. */
HRESULT ND_HELPER_API NdOpenAdapter(REFIID iid, const struct sockaddr *pAddress, SIZE_T cbAddress, VOID **ppIAdapter);

/* The same for version 1, which no provider of softnd's has. */
HRESULT ND_HELPER_API NdOpenV1Adapter(const struct sockaddr *pAddress, SIZE_T cbAddress, struct INDAdapter **ppIAdapter);

ND_END_C_

/* ---- 10. Interfaces of softnd's own ------------------------------------------------------------------------------------------------ */

/*
 * What softnd has beyond ND2. QueryInterface of the object finds them: an IND2Adapter has INDXAdapter, and so on. Other providers answer
 * E_NOINTERFACE.
 */
ND_IID_(IID_INDXProvider, 2F6A91D4, 5B0E, 4C7B, 9A, 41, 30, C5, 77, E2, 1D, 01)
ND_IID_(IID_INDXAdapter, 2F6A91D4, 5B0E, 4C7B, 9A, 41, 30, C5, 77, E2, 1D, 02)
ND_IID_(IID_INDXCompletionQueue, 2F6A91D4, 5B0E, 4C7B, 9A, 41, 30, C5, 77, E2, 1D, 03)
ND_IID_(IID_INDXQueuePair, 2F6A91D4, 5B0E, 4C7B, 9A, 41, 30, C5, 77, E2, 1D, 04)
ND_IID_(IID_INDXListener, 2F6A91D4, 5B0E, 4C7B, 9A, 41, 30, C5, 77, E2, 1D, 05)
/* Of connectors and of queue pairs. */
ND_IID_(IID_INDXConnectionEnd, 2F6A91D4, 5B0E, 4C7B, 9A, 41, 30, C5, 77, E2, 1D, 06)
/* Of all objects that have IND2Overlapped. */
ND_IID_(IID_INDXOverlapped, 2F6A91D4, 5B0E, 4C7B, 9A, 41, 30, C5, 77, E2, 1D, 07)

/* INDXAdapter::GetCapabilities. The first two are what ND2 expects of every adapter. */
#define NDX_CAPABILITY_MEMORY_WINDOWS 0x00000001
#define NDX_CAPABILITY_SOLICITED_EVENTS 0x00000002
#define NDX_CAPABILITY_FETCH_ADD 0x00000004
#define NDX_CAPABILITY_FETCH_ADD_MASK 0x00000008
#define NDX_CAPABILITY_COMPARE_SWAP 0x00000010
#define NDX_CAPABILITY_COMPARE_SWAP_MASK 0x00000020
#define NDX_CAPABILITY_IMMEDIATE_4 0x00000040 /* Immediate Data of 4 octets */
#define NDX_CAPABILITY_IMMEDIATE_8 0x00000080 /* Immediate Data of 8 octets */

/* ND2_RESULT.RequestType of requests that ND2 does not have. */
#define NDX_REQUEST_TYPE_SEND_IMMEDIATE ((ND2_REQUEST_TYPE)0x1000)
#define NDX_REQUEST_TYPE_ATOMIC ((ND2_REQUEST_TYPE)0x1001)

/* NDX_FAULT.Kind */
#define NDX_FAULT_REMOVE_DEVICE 1
#define NDX_FAULT_CALL 2
#define NDX_FAULT_BREAK_COMPLETION_QUEUE 3
#define NDX_FAULT_BREAK_SHARED_RECEIVE_QUEUE 4
#define NDX_FAULT_UNREACHABLE_HOST 5

/* NDX_FAULT.Call */
typedef enum _NDX_CALL ND_UNDERLYING_INT_ {
    NdxCallAny = 0,
    NdxCallResolveAddress = 1,
    NdxCallOpenAdapter = 2,
    NdxCallCreateOverlappedFile = 3,
    NdxCallCreateCompletionQueue = 4,
    NdxCallCreateMemoryRegion = 5,
    NdxCallCreateMemoryWindow = 6,
    NdxCallCreateSharedReceiveQueue = 7,
    NdxCallCreateQueuePair = 8,
    NdxCallCreateQueuePairWithSrq = 9,
    NdxCallCreateConnector = 10,
    NdxCallCreateListener = 11,
    NdxCallResizeCompletionQueue = 12,
    NdxCallNotifyCompletionQueue = 13,
    NdxCallModifySharedReceiveQueue = 14,
    NdxCallNotifySharedReceiveQueue = 15,
    NdxCallRegister = 16,
    NdxCallBindListener = 17,
    NdxCallListen = 18,
    NdxCallBindConnector = 19
} NDX_CALL;

/* A fault that the provider is to have, for tests of programs. */
typedef struct _NDX_FAULT {
    ULONG Kind;
    /* NDX_FAULT_CALL: the kind of call (NDX_CALL), and which one of them fails, counted from 1. */
    ULONG Call;
    ULONG Nth;
    /* What the call or the queue fails with. */
    HRESULT Status;
    /* The queue that breaks down. */
    IUnknown *Object;
    /* The address of the host that cannot be reached. */
    const struct sockaddr *Address;
    ULONG AddressLength;
} NDX_FAULT;

/* NDX_ATOMIC.Kind */
#define NDX_ATOMIC_FETCH_ADD 1
#define NDX_ATOMIC_COMPARE_SWAP 2

/* An operation on a word of 64 bits in the peer's memory (RFC 7306). */
typedef struct _NDX_ATOMIC {
    ULONG Kind;
    /* The number to add, or to swap in. */
    UINT64 Operand;
    /* FetchAdd: the highest bit of each field; 0 for one field. CompareSwap: the bits to swap. */
    UINT64 Mask;
    /* CompareSwap: the number to compare with, and the bits to compare. */
    UINT64 Compare;
    UINT64 CompareMask;
} NDX_ATOMIC;

/* A result with the Immediate Data that came with it. */
typedef struct _NDX_RESULT {
    ND2_RESULT Result;
    /* 0, 4 or 8 octets, in the order in which the peer passed them. */
    ULONG ImmediateLength;
    BYTE Immediate[8];
} NDX_RESULT;

/* NDX_CONNECTION_END.EndedBy */
typedef enum _NDX_ENDED_BY ND_UNDERLYING_INT_ {
    NdxEndedByThisSide = 1,
    NdxEndedByPeer = 2,
    NdxEndedByNeither = 3 /* the network or this system, or the peer was silent */
} NDX_ENDED_BY;

/* NDX_CONNECTION_END.Reason. Later versions may have more. */
typedef enum _NDX_END_REASON ND_UNDERLYING_INT_ {
    NdxEndDisconnect = 1, /* in good order */
    NdxEndTerminate = 2,  /* one side found an error */
    NdxEndReset = 3,      /* the connection was reset, without a reason */
    NdxEndNetwork = 4,    /* the network or this system ended it */
    NdxEndSilence = 5,    /* the peer has not answered for the time limit of the transport */
    NdxEndTimeLimit = 6,  /* a time limit of the set-up has passed */
    NdxEndQueueBroke = 7, /* a completion queue or the shared receive queue broke down */
    NdxEndRemoved = 8,    /* the adapter was removed */
    NdxEndRejected = 9,   /* the peer's program rejected the connection, or its backlog is full */
    NdxEndRefused = 10    /* nothing listens at the address */
} NDX_END_REASON;

/* The reason why a connection ended, or was not made. */
typedef struct _NDX_CONNECTION_END {
    /* The side that ended it (NDX_ENDED_BY), and by what (NDX_END_REASON). */
    ULONG EndedBy;
    ULONG Reason;
    /* 1 if that side sent a Terminate, whose code follows (RFC 5040, 4.8); otherwise these four are 0. */
    ULONG HasTerminate;
    ULONG TerminateLayer; /* 0 RDMAP, 1 DDP, 2 MPA */
    ULONG TerminateType;
    ULONG TerminateCode;
} NDX_CONNECTION_END;

#define ND_INTERFACE_NAME_ INDXProvider
ND_INTERFACE_(INDXProvider, IUnknown)
    ND_UNKNOWN_METHODS_
    /* Lines of softnd's configuration file, for adapters that this object opens from now on. */
    ND_METHOD_(HRESULT, Configure)(ND_THIS_AND_ const CHAR *pText, ULONG cbText) ND_PURE_;
    ND_METHOD_(HRESULT, Inject)(ND_THIS_AND_ const NDX_FAULT *pFault) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ INDXAdapter
ND_INTERFACE_(INDXAdapter, IUnknown)
    ND_UNKNOWN_METHODS_
    ND_METHOD_(UINT64, GetCapabilities)(ND_THIS_) ND_PURE_;
    /* A line for each counter: its name, a space and its number. */
    ND_METHOD_(HRESULT, GetCounters)(ND_THIS_AND_ CHAR *pText, ULONG *pcbText) ND_PURE_;
    ND_METHOD_(HRESULT, Inject)(ND_THIS_AND_ const NDX_FAULT *pFault) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ INDXCompletionQueue
ND_INTERFACE_(INDXCompletionQueue, IUnknown)
    ND_UNKNOWN_METHODS_
    ND_METHOD_(ULONG, GetResultsEx)(ND_THIS_AND_ NDX_RESULT results[], ULONG nResults) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ INDXQueuePair
ND_INTERFACE_(INDXQueuePair, IUnknown)
    ND_UNKNOWN_METHODS_
    /* 4 or 8 octets, which the peer finds in the result of a Receive. */
    ND_METHOD_(HRESULT, SendImmediate)(ND_THIS_AND_ VOID *requestContext, const VOID *pData, ULONG cbData, ULONG flags) ND_PURE_;
    /* The old value of the word comes into the 8 octets of the entry. */
    ND_METHOD_(HRESULT, Atomic)(ND_THIS_AND_ VOID *requestContext, const NDX_ATOMIC *pOperation, const ND2_SGE *pSge, UINT64 remoteAddress,
                                UINT32 remoteToken, ULONG flags) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ INDXListener
ND_INTERFACE_(INDXListener, IUnknown)
    ND_UNKNOWN_METHODS_
    /* Ends the GetConnectionRequest that waits with this connector, and no other. */
    ND_METHOD_(HRESULT, Withdraw)(ND_THIS_AND_ IUnknown *pConnector) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ INDXConnectionEnd
ND_INTERFACE_(INDXConnectionEnd, IUnknown)
    ND_UNKNOWN_METHODS_
    /*
     * The first reason why the connection ended, or why Connect or Accept failed, and a sentence in UTF-8 without a zero at its end. Before
     * that, and if the provider cannot tell: ND_CONNECTION_INVALID. *pcbText is the room at pText, and becomes the sentence's length;
     * ND_BUFFER_OVERFLOW if there is not enough room, where *pEnd is filled too.
     */
    ND_METHOD_(HRESULT, GetConnectionEnd)(ND_THIS_AND_ NDX_CONNECTION_END *pEnd, CHAR *pText, ULONG *pcbText) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#define ND_INTERFACE_NAME_ INDXOverlapped
ND_INTERFACE_(INDXOverlapped, IUnknown)
    ND_UNKNOWN_METHODS_
    /*
     * Why a request failed: a sentence in UTF-8 without a zero at its end, about the last request of this object with this OVERLAPPED, if the
     * request was pending and has failed; otherwise, and if the provider does not say why, no octets. *pcbText is the room at pText, and
     * becomes the sentence's length; ND_BUFFER_OVERFLOW if there is not enough room. An object keeps the sentences of its last 64 failures.
     */
    ND_METHOD_(HRESULT, GetExplanation)(ND_THIS_AND_ OVERLAPPED *pOverlapped, CHAR *pText, ULONG *pcbText) ND_PURE_;
ND_END_INTERFACE_
#undef ND_INTERFACE_NAME_

#ifndef __cplusplus

#define INDXProvider_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define INDXProvider_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define INDXProvider_Release(This) ((This)->lpVtbl->Release(This))
#define INDXProvider_Configure(This, pText, cbText) ((This)->lpVtbl->Configure(This, pText, cbText))
#define INDXProvider_Inject(This, pFault) ((This)->lpVtbl->Inject(This, pFault))

#define INDXAdapter_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define INDXAdapter_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define INDXAdapter_Release(This) ((This)->lpVtbl->Release(This))
#define INDXAdapter_GetCapabilities(This) ((This)->lpVtbl->GetCapabilities(This))
#define INDXAdapter_GetCounters(This, pText, pcbText) ((This)->lpVtbl->GetCounters(This, pText, pcbText))
#define INDXAdapter_Inject(This, pFault) ((This)->lpVtbl->Inject(This, pFault))

#define INDXCompletionQueue_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define INDXCompletionQueue_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define INDXCompletionQueue_Release(This) ((This)->lpVtbl->Release(This))
#define INDXCompletionQueue_GetResultsEx(This, results, nResults) ((This)->lpVtbl->GetResultsEx(This, results, nResults))

#define INDXQueuePair_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define INDXQueuePair_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define INDXQueuePair_Release(This) ((This)->lpVtbl->Release(This))
#define INDXQueuePair_SendImmediate(This, requestContext, pData, cbData, flags) \
    ((This)->lpVtbl->SendImmediate(This, requestContext, pData, cbData, flags))
#define INDXQueuePair_Atomic(This, requestContext, pOperation, pSge, remoteAddress, remoteToken, flags) \
    ((This)->lpVtbl->Atomic(This, requestContext, pOperation, pSge, remoteAddress, remoteToken, flags))

#define INDXListener_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define INDXListener_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define INDXListener_Release(This) ((This)->lpVtbl->Release(This))
#define INDXListener_Withdraw(This, pConnector) ((This)->lpVtbl->Withdraw(This, pConnector))

#define INDXConnectionEnd_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define INDXConnectionEnd_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define INDXConnectionEnd_Release(This) ((This)->lpVtbl->Release(This))
#define INDXConnectionEnd_GetConnectionEnd(This, pEnd, pText, pcbText) \
    ((This)->lpVtbl->GetConnectionEnd(This, pEnd, pText, pcbText))

#define INDXOverlapped_QueryInterface(This, riid, ppvObject) ((This)->lpVtbl->QueryInterface(This, riid, ppvObject))
#define INDXOverlapped_AddRef(This) ((This)->lpVtbl->AddRef(This))
#define INDXOverlapped_Release(This) ((This)->lpVtbl->Release(This))
#define INDXOverlapped_GetExplanation(This, pOverlapped, pText, pcbText) \
    ((This)->lpVtbl->GetExplanation(This, pOverlapped, pText, pcbText))

#endif /* !__cplusplus */

#if defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#pragma GCC diagnostic pop
#endif

#undef ND_BEGIN_C_
#undef ND_END_C_
#undef ND_EXTERN_C_
#undef ND_UNDERLYING_INT_
#undef ND_ONCE_
#undef ND_IID_
#undef ND_INTERFACE_
#undef ND_METHOD_
#undef ND_THIS_
#undef ND_THIS_AND_
#undef ND_PURE_
#undef ND_UNKNOWN_METHODS_
#undef ND_OVERLAPPED_METHODS_
#undef ND_END_INTERFACE_

#endif /* NETDIRECT_H */
