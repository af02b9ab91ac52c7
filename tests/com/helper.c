/*
 * NetworkDirect's helper functions over several providers (fake_provider.c).
 *
 *     ND_PROVIDER=EMPTY:REFUSES:GOOD:OTHER helper GOOD OTHER        with ; instead of : on Windows
 *
 * EMPTY has no list, REFUSES and GOOD have the address 192.0.2.1, OTHER has 192.0.2.2. It ends with status 0 and says nothing if all is well.
 */
#define _GNU_SOURCE

#include "system.h"

/* 192.0.2.LAST, with a port, which no comparison looks at. */
static struct sockaddr_in address(unsigned last)
{
    struct sockaddr_in v4;
    memset(&v4, 0, sizeof(v4));
    v4.sin_family = AF_INET;
    v4.sin_port = htons(5445);
    v4.sin_addr.s_addr = htonl(0xC0000200 + last);
    return v4;
}

static HRESULT check(unsigned last)
{
    struct sockaddr_in v4 = address(last);
    return NdCheckAddress((struct sockaddr *)&v4, sizeof(v4));
}

static HRESULT open_at(unsigned last, const IID *iid, void **object)
{
    struct sockaddr_in v4 = address(last);
    return NdOpenAdapter(iid, (struct sockaddr *)&v4, sizeof(v4), object);
}

static void lists(void)
{
    union {
        SOCKET_ADDRESS_LIST list;
        char octets[256];
    } room;
    const SOCKET_ADDRESS *entries = room.list.Address;
    SIZE_T size = 0, exact;
    CHECK(NdQueryAddressList(0, NULL, &size) == ND_BUFFER_OVERFLOW);
    /* Three addresses: the entries that are too short or of another family are left out. */
    CHECK(size == sizeof(room.list) + 2 * sizeof(SOCKET_ADDRESS) + 3 * sizeof(struct sockaddr_in));
    exact = size--;
    CHECK(NdQueryAddressList(0, &room.list, &size) == ND_BUFFER_OVERFLOW && size == exact);
    CHECK(NdQueryAddressList(ND_QUERY_EXCLUDE_EMULATOR_ADDRESSES | ND_QUERY_EXCLUDE_NDv1_ADDRESSES, &room.list, &size) == ND_SUCCESS);
    CHECK(room.list.iAddressCount == 3);
    for (int i = 0; i < 3; ++i) {
        const SOCKET_ADDRESS *entry = &entries[i];
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)entry->lpSockaddr;
        CHECK(entry->iSockaddrLength == sizeof(*v4) && v4->sin_family == AF_INET);
        CHECK((const char *)(v4 + 1) <= room.octets + exact && (const char *)v4 >= (const char *)(entries + 3));
        CHECK(v4->sin_addr.s_addr == htonl(i < 2 ? 0xC0000201 : 0xC0000202));
    }
    CHECK(NdQueryAddressList(ND_QUERY_EXCLUDE_NDv2_ADDRESSES, &room.list, &size) == ND_SUCCESS && size == 0);
    CHECK(NdQueryAddressList(0, &room.list, NULL) == ND_INVALID_PARAMETER_3);
}

static void bad_addresses(void)
{
    struct sockaddr_in6 v6;
    void *object = &v6;
    memset(&v6, 0, sizeof(v6));
    v6.sin6_family = AF_INET6;
    CHECK(NdCheckAddress(NULL, 16) == ND_INVALID_PARAMETER_1);
    CHECK(NdCheckAddress((struct sockaddr *)&v6, 0) == ND_INVALID_PARAMETER_2);
    CHECK(NdCheckAddress((struct sockaddr *)&v6, sizeof(v6) - 1) == ND_INVALID_PARAMETER_2);
    CHECK(NdCheckAddress((struct sockaddr *)&v6, sizeof(v6)) == ND_INVALID_ADDRESS);
    v6.sin6_family = AF_UNIX;
    CHECK(NdCheckAddress((struct sockaddr *)&v6, sizeof(v6)) == ND_INVALID_ADDRESS);
    CHECK(NdOpenAdapter(&IID_IND2Adapter, (struct sockaddr *)&v6, sizeof(v6), &object) == ND_INVALID_ADDRESS && object == NULL);
    CHECK(NdOpenAdapter(&IID_IND2Adapter, NULL, sizeof(v6), &object) == ND_INVALID_PARAMETER_2);
    CHECK(NdOpenAdapter(NULL, (struct sockaddr *)&v6, sizeof(v6), &object) == ND_INVALID_PARAMETER_1);
    CHECK(NdOpenAdapter(&IID_IND2Adapter, (struct sockaddr *)&v6, sizeof(v6), NULL) == ND_INVALID_PARAMETER_4);
}

int main(int argc, char **argv)
{
    const char *good, *other;
    IND2Adapter *adapter = NULL;
    void *object = NULL;
    if (argc != 3)
        return 2;
    good = argv[1];
    other = argv[2];
    CHECK(NdStartup() == ND_SUCCESS && NdStartup() == ND_SUCCESS);
    lists();
    bad_addresses();
    CHECK(check(1) == ND_SUCCESS && check(2) == ND_SUCCESS && check(3) == ND_INVALID_ADDRESS);
    CHECK(!is_loaded(good) && !is_loaded(other));

    /* The first provider with the address refuses, the next one opens. */
    CHECK(open_at(1, &IID_IND2Adapter, (void **)&adapter) == ND_SUCCESS && adapter != NULL);
    CHECK(open_at(3, &IID_IND2Adapter, &object) == ND_INVALID_ADDRESS && object == NULL);
    CHECK(open_at(2, &IID_IND2Listener, &object) == E_NOINTERFACE && object == NULL);
    CHECK(is_loaded(good) && !is_loaded(other));
    NdFlushProviders();
    CHECK(is_loaded(good));
    CHECK(IND2Adapter_Release(adapter) == 0);
    CHECK(is_loaded(good));
    NdFlushProviders();
    CHECK(!is_loaded(good));

    /* An adapter that is alive at the end keeps its library. */
    CHECK(open_at(2, &IID_IND2Adapter, (void **)&adapter) == ND_SUCCESS);
    CHECK(NdCleanup() == ND_SUCCESS && check(2) == ND_SUCCESS);
    CHECK(NdCleanup() == ND_SUCCESS && check(2) == ND_DEVICE_NOT_READY);
    CHECK(NdCleanup() == ND_DEVICE_NOT_READY);
    CHECK(open_at(2, &IID_IND2Adapter, &object) == ND_DEVICE_NOT_READY);
    CHECK(is_loaded(other));
    CHECK(IND2Adapter_Release(adapter) == 0);
    return 0;
}
