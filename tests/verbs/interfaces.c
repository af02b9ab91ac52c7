/* Shows the devices with their GIDs, and has a connection from and to each address that is named: `DEVICE ADDRESS`. With `then` as the
 * first argument it waits for a line before each address, so that the network can change. */
#include "common.h"
#include <netdb.h>

static void show_devices(void)
{
    int count;
    struct ibv_device **devices = ibv_get_device_list(&count);
    NEED(devices);
    for (int i = 0; i < count; i++) {
        struct ibv_context *context = ibv_open_device(devices[i]);
        struct ibv_port_attr port;
        NEED(context && ibv_query_port(context, 1, &port) == 0);
        printf("%s:", ibv_get_device_name(devices[i]));
        for (int index = 0; index < port.gid_tbl_len; index++) {
            char text[INET6_ADDRSTRLEN];
            union ibv_gid gid;
            if (ibv_query_gid(context, 1, index, &gid) || !gid.global.interface_id)
                continue;
            int is_v4 = IN6_IS_ADDR_V4MAPPED((struct in6_addr *)gid.raw);
            NEED(inet_ntop(is_v4 ? AF_INET : AF_INET6, gid.raw + (is_v4 ? 12 : 0), text, sizeof text));
            printf(" %s", text);
        }
        printf("\n");
        NEED(ibv_close_device(context) == 0);
    }
    ibv_free_device_list(devices);
}

static void connect_at(const char *text)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *found;
    NEED(getaddrinfo(text, NULL, &hints, &found) == 0);
    struct rdma_event_channel *events;
    struct rdma_cm_id *listener;
    NEED(events = rdma_create_event_channel());
    NEED(rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) == 0);
    NEED(rdma_bind_addr(listener, found->ai_addr) == 0);
    NEED(rdma_listen(listener, 8) == 0);

    struct end client, server;
    NEED(client.events = rdma_create_event_channel());
    NEED(rdma_create_id(client.events, &client.id, NULL, RDMA_PS_TCP) == 0);
    NEED(rdma_resolve_addr(client.id, NULL, rdma_get_local_addr(listener), 2000) == 0);
    event_is(client.events, RDMA_CM_EVENT_ADDR_RESOLVED);
    NEED(rdma_resolve_route(client.id, 2000) == 0);
    event_is(client.events, RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_end(&client, NULL, 0);
    struct rdma_conn_param with = parameters();
    NEED(rdma_connect(client.id, &with) == 0);
    accept_from(&server, events, NULL, 0);
    event_is(server.events, RDMA_CM_EVENT_ESTABLISHED);
    event_is(client.events, RDMA_CM_EVENT_ESTABLISHED);
    exchange(&client, &server, 'x');
    CHECK(listener->verbs == NULL || listener->verbs->device == client.id->verbs->device);
    printf("%s %s\n", ibv_get_device_name(client.id->verbs->device), text);
    break_end(&client);
    break_end(&server);
    NEED(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(events);
    freeaddrinfo(found);
}

int main(int count, char **arguments)
{
    int waits = count > 1 && strcmp(arguments[1], "then") == 0;
    show_devices();
    for (int i = 1 + waits; i < count; i++) {
        char line[16];
        fflush(stdout);
        if (waits)
            NEED(fgets(line, sizeof line, stdin));
        connect_at(arguments[i]);
    }
    return done();
}
