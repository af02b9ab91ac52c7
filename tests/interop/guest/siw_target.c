// A target of `nd wire-conform` by verbs, over siw or any other iWARP device that librdmacm knows.
//
//     siw_target --listen ADDRESS PORT      accepts for ever
//     siw_target --connect ADDRESS PORT     connects again and again, until nobody has listened for a while
//
// It speaks the Send protocol of docs/check/iwarp-stack.md. Each connection has a thread of its own, and nothing that
// happens to it ends the others. It also has a protection domain of its own: siw has no memory windows, lets a Send
// with Invalidate revoke any region of the protection domain, and lets every connection of that domain use all of it.
// So the memory that is offered is shared, but its STags are those of one connection; and what stands in for a window
// is a region.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

enum {
    RECEIVES = 16,         // kept posted
    RECEIVE = 4096,        // octets of each, and of the longest answer
    REQUESTS = 32,         // of the target's own, outstanding
    OWN = RECEIVES,        // the work request identifier of these: those of Receives are below
    READS = 16,            // served and issued
    LONGEST = 256 * 1024,  // octets of a message, Write or Read on command
    CONNECTIONS = 128,     // at once; the suite leaves a hundred of them hanging
    HEADER = 8,            // octets before the body of a message
    PEEK = 512,            // octets of the longest answer to Peek
    CM_TIMEOUT = 5000,     // milliseconds to resolve an address
    CONNECT_TIMEOUT = 12000, // the same for a connection: siw gives a Reply 10 s, and does not always tell of its end
    PATIENCE = 30,         // seconds of connecting in vain
};

// Commands, answers and wishes of the Send protocol.
enum { HELLO = 1, ECHO, EMIT, WRITE, READ, FILL, PEEK_AT, REPORT, HOLD, CLOSE, EMIT_AND_CLOSE };
enum { OFFER = 0x81, DONE = 0x84, OCTETS = 0x87, REPORTED = 0x88 };
enum { WISH_REJECT = 0x41, WISH_SPEAK_FIRST = 0x42 };
static const char rejection[] = "iWcf rejected as asked";

// Memory as one connection sees it.
struct region {
    uint8_t *octets;
    size_t length;
    struct ibv_mr *mr;
};

// What is offered, by its index: what a peer may do with it, and of what kind it is.
static const struct {
    size_t length;
    int access;
    uint8_t kind, rights;
} offered[] = {
    {128 * 1024, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 1, 2},
    {256 * 1024, IBV_ACCESS_REMOTE_READ, 1, 1},
    {4096, IBV_ACCESS_LOCAL_WRITE, 1, 0},
    {8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, 1, 3},
    {4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, 2, 3},
};
enum { REGIONS = sizeof offered / sizeof *offered, SHARED = REGIONS - 1 };

// Memory that all connections share.
static uint8_t *shared[SHARED], *source, *sink;
static int connections;

// One connection.
struct talk {
    struct rdma_cm_id *id;
    struct rdma_event_channel *events;
    struct ibv_pd *pd;
    struct ibv_comp_channel *wakes;
    struct ibv_cq *cq;
    struct region inbox, outbox, source, sink, regions[REGIONS];
    uint8_t private_data[256];
    size_t private_length;
    uint16_t ird, ord;
    bool established, ended, holding;
    uint32_t messages, last_length, last_crc;
    // Receives that ended while something else was waited for.
    struct ibv_wc heard[RECEIVES];
    unsigned heard_first, heard_count;
};

static void fatal(const char *what) {
    fprintf(stderr, "siw_target: cannot %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t get(const uint8_t *at, unsigned octets) {
    uint64_t value = 0;
    while (octets--) value = value << 8 | *at++;
    return value;
}

static uint8_t *put(uint8_t *at, uint64_t value, unsigned octets) {
    for (unsigned i = octets; i--; value >>= 8) at[i] = (uint8_t)value;
    return at + octets;
}

static uint32_t crc32c(const uint8_t *at, size_t length) {
    uint32_t crc = ~0u;
    while (length--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
    }
    return ~crc;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

// --- memory

static uint8_t *memory(size_t length) {
    uint8_t *octets = aligned_alloc(4096, length);
    if (!octets) fatal("allocate memory");
    return memset(octets, 0, length);
}

static void allocate_shared(void) {
    for (int i = 0; i < SHARED; i++) shared[i] = memory(offered[i].length);
    source = memory(LONGEST);
    sink = memory(LONGEST);
    for (size_t i = 0; i < LONGEST; i++) source[i] = i % 251;
}

static bool join(struct talk *talk, struct region *region, uint8_t *octets, size_t length, int access) {
    region->octets = octets;
    region->length = length;
    region->mr = ibv_reg_mr(talk->pd, octets, length, access);
    return region->mr;
}

// Registers all memory of the connection.
static bool register_all(struct talk *talk) {
    const int local = IBV_ACCESS_LOCAL_WRITE;
    talk->pd = ibv_alloc_pd(talk->id->verbs);
    if (!talk->pd || !join(talk, &talk->inbox, memory(RECEIVES * RECEIVE), RECEIVES * RECEIVE, local) ||
        !join(talk, &talk->outbox, memory(RECEIVE), RECEIVE, 0) || !join(talk, &talk->source, source, LONGEST, 0) ||
        !join(talk, &talk->sink, sink, LONGEST, local))
        return false;
    for (int i = 0; i < REGIONS; i++) {
        uint8_t *octets = i < SHARED ? shared[i] : memory(offered[i].length);
        if (!join(talk, &talk->regions[i], octets, offered[i].length, offered[i].access)) return false;
    }
    return true;
}

static void forget(struct region *region) {
    if (region->mr) ibv_dereg_mr(region->mr);
}

static void forget_all(struct talk *talk) {
    for (int i = 0; i < REGIONS; i++) forget(&talk->regions[i]);
    forget(&talk->inbox);
    forget(&talk->outbox);
    forget(&talk->source);
    forget(&talk->sink);
    free(talk->inbox.octets);
    free(talk->outbox.octets);
    free(talk->regions[SHARED].octets);
    if (talk->pd) ibv_dealloc_pd(talk->pd);
}

// --- waiting

// What the connection manager says of the connection.
static void hear_manager(struct talk *talk) {
    struct rdma_cm_event *event;
    while (!rdma_get_cm_event(talk->events, &event)) {
        switch (event->event) {
        case RDMA_CM_EVENT_ESTABLISHED:
            if (event->param.conn.private_data_len) {
                talk->private_length = least(event->param.conn.private_data_len, sizeof talk->private_data);
                memcpy(talk->private_data, event->param.conn.private_data, talk->private_length);
            }
            talk->ird = event->param.conn.responder_resources ? event->param.conn.responder_resources : talk->ird;
            talk->ord = event->param.conn.initiator_depth ? event->param.conn.initiator_depth : talk->ord;
            talk->established = true;
            break;
        case RDMA_CM_EVENT_ADDR_RESOLVED:
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
            talk->established = true;
            break;
        default:
            talk->ended = true;
        }
        rdma_ack_cm_event(event);
    }
}

// Until something has happened, or a time is over: false then.
static bool wait_for(struct talk *talk, int milliseconds) {
    struct pollfd fds[] = {{.fd = talk->events->fd, .events = POLLIN},
                           {.fd = talk->wakes ? talk->wakes->fd : -1, .events = POLLIN}};
    if (poll(fds, 2, milliseconds) <= 0) return false;
    if (fds[0].revents) hear_manager(talk);
    if (fds[1].revents) {
        struct ibv_cq *cq;
        void *context;
        if (!ibv_get_cq_event(talk->wakes, &cq, &context)) ibv_ack_cq_events(cq, 1);
    }
    return true;
}

// Until the connection manager has said yes; false when it has said no, or nothing for a time.
static bool agreed(struct talk *talk, int milliseconds) {
    while (!talk->established && !talk->ended && wait_for(talk, milliseconds)) {
    }
    return talk->established && !talk->ended;
}

// The next completion; false when the connection has ended.
static bool next(struct talk *talk, struct ibv_wc *wc) {
    for (;;) {
        bool ended = talk->ended;
        int found = ibv_poll_cq(talk->cq, 1, wc);
        if (!found && !ended) {
            // What ended before this does not wake: look again.
            if (ibv_req_notify_cq(talk->cq, 0)) return false;
            found = ibv_poll_cq(talk->cq, 1, wc);
        }
        if (found || ended) return found > 0;
        wait_for(talk, 1000);
    }
}

static bool next_receive(struct talk *talk, struct ibv_wc *wc) {
    if (talk->heard_count) {
        *wc = talk->heard[talk->heard_first];
        talk->heard_first = (talk->heard_first + 1) % RECEIVES;
        talk->heard_count--;
        return true;
    }
    // What is not about a Receive has been waited for already, or has failed with the connection.
    do
        if (!next(talk, wc)) return false;
    while (wc->wr_id >= RECEIVES);
    return true;
}

// --- requests

// A request of the target's own, which is waited for.
static bool finish(struct talk *talk) {
    struct ibv_wc wc;
    while (next(talk, &wc)) {
        if (wc.wr_id >= RECEIVES) return wc.status == IBV_WC_SUCCESS;
        talk->heard[(talk->heard_first + talk->heard_count++) % RECEIVES] = wc;
    }
    return false;
}

static bool post(struct talk *talk, enum ibv_wr_opcode opcode, struct region *region, size_t length, int flags,
                 uint32_t rkey, uint64_t to) {
    struct ibv_sge part = {.addr = (uintptr_t)region->octets, .length = length, .lkey = region->mr->lkey};
    struct ibv_send_wr *bad, request = {.wr_id = OWN, .sg_list = &part, .num_sge = 1, .opcode = opcode,
                                        .send_flags = IBV_SEND_SIGNALED | flags};
    request.wr.rdma.remote_addr = to;
    request.wr.rdma.rkey = rkey;
    return !ibv_post_send(talk->id->qp, &request, &bad);
}

static bool receive(struct talk *talk, uint64_t slot) {
    struct ibv_sge part = {.addr = (uintptr_t)talk->inbox.octets + slot * RECEIVE, .length = RECEIVE,
                           .lkey = talk->inbox.mr->lkey};
    struct ibv_recv_wr *bad, request = {.wr_id = slot, .sg_list = &part, .num_sge = 1};
    return !ibv_post_recv(talk->id->qp, &request, &bad);
}

// Sends what stands in the outbox, up to `end`.
static bool say(struct talk *talk, const uint8_t *end) {
    return post(talk, IBV_WR_SEND, &talk->outbox, end - talk->outbox.octets, 0, 0, 0) && finish(talk);
}

// Begins an answer in the outbox; where its body goes.
static uint8_t *answer(struct talk *talk, uint8_t kind) {
    uint8_t *at = talk->outbox.octets;
    memcpy(at, "iWcf\1", 5);
    at[5] = kind;
    return put(at + 6, 0, 2);
}

static bool done(struct talk *talk, uint32_t value) { return say(talk, put(answer(talk, DONE), value, 4)); }

static bool offer(struct talk *talk) {
    uint8_t *at = answer(talk, OFFER);
    at = put(put(at, RECEIVES, 4), RECEIVE, 4);
    at = put(put(at, talk->private_length, 4), crc32c(talk->private_data, talk->private_length), 4);
    at = put(put(put(put(at, talk->ird, 2), talk->ord, 2), REGIONS, 2), 0, 2);
    for (int i = 0; i < REGIONS; i++) {
        const struct region *region = &talk->regions[i];
        at = put(put(put(at, offered[i].kind, 1), offered[i].rights, 1), 0, 2);
        at = put(put(put(at, region->mr->rkey, 4), (uintptr_t)region->octets, 8), region->length, 8);
    }
    return say(talk, at);
}

static bool emit(struct talk *talk, size_t length, bool solicited) {
    int flags = solicited ? IBV_SEND_SOLICITED : 0;
    return post(talk, IBV_WR_SEND, &talk->source, least(length, LONGEST), flags, 0, 0) && finish(talk);
}

static bool read_there(struct talk *talk, uint32_t rkey, uint64_t to, size_t length, unsigned count) {
    length = least(length, LONGEST);
    count = least(count, 8);
    for (unsigned i = 0; i < count; i++)
        if (!post(talk, IBV_WR_RDMA_READ, &talk->sink, length, 0, rkey, to)) return false;
    for (unsigned i = 0; i < count; i++)
        if (!finish(talk)) return false;
    return done(talk, crc32c(sink, length));
}

static bool peek(struct talk *talk, size_t index, uint64_t offset, size_t length) {
    uint8_t *at = answer(talk, OCTETS);
    if (index < REGIONS && offset < offered[index].length) {
        length = least(least(length, PEEK), offered[index].length - offset);
        at = mempcpy(at, talk->regions[index].octets + offset, length);
    }
    return say(talk, at);
}

// --- the protocol

// Whether the connection goes on after this command, of which `length` octets of body are there.
static bool carry_out(struct talk *talk, uint8_t kind, const uint8_t *body, size_t length) {
    switch (kind) {
    case HELLO:
        return offer(talk);
    case ECHO:
        return say(talk, mempcpy(talk->outbox.octets, body, length));
    case EMIT:
        return emit(talk, get(body, 4), body[4]);
    case WRITE:
        return post(talk, IBV_WR_RDMA_WRITE, &talk->source, least(get(body + 12, 4), LONGEST), 0, get(body, 4),
                    get(body + 4, 8)) && finish(talk) && done(talk, 0);
    case READ:
        return read_there(talk, get(body, 4), get(body + 4, 8), get(body + 12, 4), get(body + 16, 2));
    case FILL:
        if (get(body, 2) < REGIONS) {
            struct region *region = &talk->regions[get(body, 2)];
            memset(region->octets, body[2], region->length);
        }
        return done(talk, 0);
    case PEEK_AT:
        return peek(talk, get(body, 2), get(body + 2, 8), get(body + 10, 2));
    case REPORT:
        return say(talk, put(put(put(answer(talk, REPORTED), talk->messages, 4), talk->last_length, 4),
                             talk->last_crc, 4));
    case HOLD:
        return done(talk, 0);
    case EMIT_AND_CLOSE:
        emit(talk, get(body, 4), false);
        return false;
    default: // CLOSE
        return false;
    }
}

// The command of a message, or 0: test data, what is unknown or cut short.
static uint8_t command(const uint8_t *message, size_t length) {
    static const uint8_t bodies[] = {[EMIT] = 5, [WRITE] = 16, [READ] = 18, [FILL] = 3,
                                     [PEEK_AT] = 12, [EMIT_AND_CLOSE] = 4};
    if (length < HEADER || memcmp(message, "iWcf\1", 5) || message[5] < HELLO || message[5] > EMIT_AND_CLOSE) return 0;
    return length - HEADER < bodies[message[5]] ? 0 : message[5];
}

// Does what it is told until the connection ends, or is to be ended.
static void obey(struct talk *talk) {
    struct ibv_wc wc;
    while (next_receive(talk, &wc) && wc.status == IBV_WC_SUCCESS) {
        uint8_t message[RECEIVE];
        memcpy(message, talk->inbox.octets + wc.wr_id * RECEIVE, wc.byte_len);
        uint8_t kind = command(message, wc.byte_len);
        talk->holding |= kind == HOLD;
        if (!talk->holding && !receive(talk, wc.wr_id)) return;
        if (!kind) {
            talk->messages++;
            talk->last_length = wc.byte_len;
            talk->last_crc = crc32c(message, wc.byte_len);
        } else if (!carry_out(talk, kind, message + HEADER, wc.byte_len - HEADER)) {
            return;
        }
    }
}

// --- connections

// The connection's memory and queues, and all its Receives.
static bool equip(struct talk *talk) {
    if (!register_all(talk)) return false;
    talk->wakes = ibv_create_comp_channel(talk->id->verbs);
    if (!talk->wakes) return false;
    talk->cq = ibv_create_cq(talk->id->verbs, RECEIVES + REQUESTS, NULL, talk->wakes, 0);
    struct ibv_qp_init_attr attributes = {
        .send_cq = talk->cq,
        .recv_cq = talk->cq,
        .cap = {.max_send_wr = REQUESTS, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    if (!talk->cq || rdma_create_qp(talk->id, talk->pd, &attributes)) return false;
    for (int slot = 0; slot < RECEIVES; slot++)
        if (!receive(talk, slot)) return false;
    return true;
}

static void leave(struct talk *talk) {
    if (talk->id->qp) {
        // In good order; the suite ends most connections by error, and then there is nothing left to disconnect.
        rdma_disconnect(talk->id);
        while (!talk->ended && wait_for(talk, 2000)) {
        }
        rdma_destroy_qp(talk->id);
    }
    if (talk->cq) ibv_destroy_cq(talk->cq);
    if (talk->wakes) ibv_destroy_comp_channel(talk->wakes);
    forget_all(talk);
    rdma_destroy_id(talk->id);
    rdma_destroy_event_channel(talk->events);
    free(talk);
    __atomic_fetch_sub(&connections, 1, __ATOMIC_SEQ_CST);
}

// A channel whose events are taken without waiting.
static struct rdma_event_channel *channel(void) {
    struct rdma_event_channel *events = rdma_create_event_channel();
    if (events && fcntl(events->fd, F_SETFL, fcntl(events->fd, F_GETFL) | O_NONBLOCK)) fatal("set up a channel");
    return events;
}

// The wish that Private Data of the suite carries, or 0.
static uint8_t wish(const struct talk *talk) {
    return talk->private_length >= HEADER && !memcmp(talk->private_data, "iWcf\1", 5) ? talk->private_data[5] : 0;
}

static void *serve(void *context) {
    struct talk *talk = context;
    struct rdma_conn_param parameters = {.responder_resources = READS, .initiator_depth = READS};
    if (wish(talk) == WISH_REJECT) {
        rdma_reject(talk->id, rejection, sizeof rejection - 1);
    } else if (equip(talk) && !rdma_accept(talk->id, &parameters)) {
        // Who sends first has to wait until the connection is established, as long as that takes.
        bool silent = wish(talk) != WISH_SPEAK_FIRST;
        if (silent || (agreed(talk, -1) && offer(talk))) obey(talk);
    }
    leave(talk);
    return NULL;
}

// Takes a connection over from the listener, into a thread of its own.
static void take(struct rdma_cm_event *event) {
    struct talk *talk = calloc(1, sizeof *talk);
    pthread_t thread;
    if (!talk) fatal("allocate memory");
    talk->id = event->id;
    talk->private_length = least(event->param.conn.private_data_len, sizeof talk->private_data);
    if (talk->private_length) memcpy(talk->private_data, event->param.conn.private_data, talk->private_length);
    talk->ird = READS;
    talk->ord = least(READS, event->param.conn.initiator_depth);
    rdma_ack_cm_event(event);
    talk->events = channel();
    // What is refused is let go of.
    bool many = __atomic_add_fetch(&connections, 1, __ATOMIC_SEQ_CST) > CONNECTIONS;
    if (!talk->events) fatal("create a channel");
    if (rdma_migrate_id(talk->id, talk->events) || many) {
        leave(talk);
    } else if (pthread_create(&thread, NULL, serve, talk)) {
        leave(talk);
    } else {
        pthread_detach(thread);
    }
}

static void accept_for_ever(struct sockaddr *address) {
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *listener;
    if (!events || rdma_create_id(events, &listener, NULL, RDMA_PS_TCP)) fatal("create a listener");
    if (rdma_bind_addr(listener, address)) fatal("bind to the address");
    if (!listener->verbs) fatal("find a device with this address");
    if (rdma_listen(listener, 128)) fatal("listen");
    for (;;) {
        struct rdma_cm_event *event;
        if (rdma_get_cm_event(events, &event)) fatal("wait for connections");
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            take(event);
        } else {
            rdma_ack_cm_event(event);
        }
    }
}

// One connection, from its begin to its end; whether it came about.
static bool connect_once(struct sockaddr *address) {
    struct talk *talk = calloc(1, sizeof *talk);
    if (!talk || !(talk->events = channel()) || rdma_create_id(talk->events, &talk->id, NULL, RDMA_PS_TCP))
        fatal("create a connection");
    connections++;
    talk->ird = talk->ord = READS;
    struct rdma_conn_param parameters = {.responder_resources = READS, .initiator_depth = READS};
    bool established = false;
    if (!rdma_resolve_addr(talk->id, NULL, address, CM_TIMEOUT) && agreed(talk, CM_TIMEOUT)) {
        talk->established = false;
        if (!rdma_resolve_route(talk->id, CM_TIMEOUT) && agreed(talk, CM_TIMEOUT) && equip(talk)) {
            talk->established = false;
            established = !rdma_connect(talk->id, &parameters) && agreed(talk, CONNECT_TIMEOUT);
        }
    }
    if (established && offer(talk)) obey(talk);
    leave(talk);
    return established;
}

static int connect_again_and_again(struct sockaddr *address) {
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    time_t since = time(NULL);
    bool ever = false;
    while (time(NULL) - since < PATIENCE) {
        if (connect_once(address)) {
            ever = true;
            since = time(NULL);
        } else {
            nanosleep(&pause, NULL);
        }
    }
    return !ever;
}

int main(int count, char **arguments) {
    bool listens = count == 4 && !strcmp(arguments[1], "--listen");
    if (!listens && !(count == 4 && !strcmp(arguments[1], "--connect"))) {
        fprintf(stderr, "usage: siw_target --listen|--connect ADDRESS PORT\n");
        return 2;
    }
    struct addrinfo *found, hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(arguments[2], arguments[3], &hints, &found);
    if (error) {
        fprintf(stderr, "siw_target: %s %s: %s\n", arguments[2], arguments[3], gai_strerror(error));
        return 2;
    }
    allocate_shared();
    if (listens) accept_for_ever(found->ai_addr);
    return connect_again_and_again(found->ai_addr);
}
