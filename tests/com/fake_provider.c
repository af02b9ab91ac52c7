/*
 * A provider of one address, for tests of the helper functions. Compiled with
 *
 *     ADDRESS     the IPv4 address, a number
 *     REFUSES     ResolveAddress fails
 *     NO_LIST     QueryAddressList succeeds without a list
 */
#include <netdirect.h>

#include <string.h>

#ifndef REFUSES
#define REFUSES 0
#endif
#ifndef NO_LIST
#define NO_LIST 0
#endif

static ULONG objects;

/* ---- The adapter, which has the methods of IUnknown alone --------------------------------------------------------------------------- */

static HRESULT adapter_query_interface(IND2Adapter *adapter, REFIID iid, VOID **object)
{
    (void)adapter;
    (void)iid;
    *object = NULL;
    return E_NOINTERFACE;
}

static ULONG adapter_add_ref(IND2Adapter *adapter)
{
    (void)adapter;
    return ++objects;
}

static ULONG adapter_release(IND2Adapter *adapter)
{
    (void)adapter;
    return --objects;
}

static const IND2AdapterVtbl adapter_table = {
    .QueryInterface = adapter_query_interface,
    .AddRef = adapter_add_ref,
    .Release = adapter_release,
};
static IND2Adapter adapter = {.lpVtbl = &adapter_table};

/* ---- The provider ------------------------------------------------------------------------------------------------------------------- */

static HRESULT query_interface(IND2Provider *provider, REFIID iid, VOID **object)
{
    (void)provider;
    (void)iid;
    *object = NULL;
    return E_NOINTERFACE;
}

static ULONG add_ref(IND2Provider *provider)
{
    (void)provider;
    return ++objects;
}

static ULONG release(IND2Provider *provider)
{
    (void)provider;
    return --objects;
}

typedef struct addresses {
    INT count;
    SOCKET_ADDRESS entries[3];
    struct sockaddr_in good;
    struct sockaddr_in other_family;
} addresses;

/* The address, the same with too short a length, and one of another family: the last two are dropped by whoever reads the list. */
static HRESULT query_address_list(IND2Provider *provider, SOCKET_ADDRESS_LIST *list, ULONG *size)
{
    addresses *all = (addresses *)(void *)list;
    (void)provider;
    if (NO_LIST)
        return ND_SUCCESS;
    if (*size < sizeof(*all)) {
        *size = sizeof(*all);
        return ND_BUFFER_OVERFLOW;
    }
    memset(all, 0, sizeof(*all));
    all->good.sin_family = AF_INET;
    all->good.sin_addr.s_addr = htonl(ADDRESS);
    all->other_family.sin_family = AF_UNIX;
    all->count = 3;
    all->entries[0].lpSockaddr = (struct sockaddr *)&all->good;
    all->entries[0].iSockaddrLength = 15;
    all->entries[1].lpSockaddr = (struct sockaddr *)&all->other_family;
    all->entries[1].iSockaddrLength = 16;
    all->entries[2].lpSockaddr = (struct sockaddr *)&all->good;
    all->entries[2].iSockaddrLength = 16;
    return ND_SUCCESS;
}

static HRESULT resolve_address(IND2Provider *provider, const struct sockaddr *address, ULONG size, UINT64 *id)
{
    struct sockaddr_in v4;
    (void)provider;
    if (REFUSES)
        return ND_ACCESS_VIOLATION;
    if (size != sizeof(v4))
        return ND_INVALID_PARAMETER_2;
    memcpy(&v4, address, sizeof(v4));
    if (v4.sin_addr.s_addr != htonl(ADDRESS))
        return ND_INVALID_ADDRESS;
    *id = ADDRESS;
    return ND_SUCCESS;
}

static HRESULT open_adapter(IND2Provider *provider, REFIID iid, UINT64 id, VOID **object)
{
    (void)provider;
    *object = NULL;
    if (!IsEqualIID(iid, &IID_IND2Adapter))
        return E_NOINTERFACE;
    if (id != ADDRESS)
        return ND_INVALID_PARAMETER_2;
    ++objects;
    *object = &adapter;
    return ND_SUCCESS;
}

static const IND2ProviderVtbl table = {
    .QueryInterface = query_interface,
    .AddRef = add_ref,
    .Release = release,
    .QueryAddressList = query_address_list,
    .ResolveAddress = resolve_address,
    .OpenAdapter = open_adapter,
};
static IND2Provider provider = {.lpVtbl = &table};

HRESULT DllGetClassObject(REFCLSID class_id, REFIID iid, VOID **object)
{
    (void)class_id;
    *object = NULL;
    if (!IsEqualIID(iid, &IID_IND2Provider))
        return CLASS_E_CLASSNOTAVAILABLE;
    ++objects;
    *object = &provider;
    return S_OK;
}

HRESULT DllCanUnloadNow(void)
{
    return objects == 0 ? S_OK : S_FALSE;
}
