/* Memory is registered if its rights cover the use, and a use that they do not cover any more ends that connection alone. */
#define _GNU_SOURCE
#include "common.h"

#include <signal.h>
#include <sys/mman.h>

enum { LEN = 256 << 10, LARGE = 8 << 20 };

static int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

static void *mapped(size_t len, int rights, int file)
{
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *memory = mmap(NULL, len, rights, flags, file, 0);
    NEED(memory != MAP_FAILED);
    return memory;
}

static int registers(struct ibv_pd *pd, void *memory, size_t len, int access)
{
    errno = 0;
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, len, access);
    if (!mr)
        return -errno;
    NEED(ibv_dereg_mr(mr) == 0);
    return 0;
}

/* Each right, over memory of each size that is looked at in its own way. */
static void registrations(struct ibv_pd *pd)
{
    size_t lens[] = { 4096, LEN, LARGE };
    for (int index = 0; index < 3; index++) {
        size_t len = lens[index];
        char *memory = mapped(len, PROT_READ, -1);
        CHECK(registers(pd, memory, len, 0) == 0);
        CHECK(registers(pd, memory, len, IBV_ACCESS_REMOTE_READ) == 0);
        CHECK(registers(pd, memory, len, IBV_ACCESS_LOCAL_WRITE) == -EFAULT);
        CHECK(registers(pd, memory, len, all) == -EFAULT);
        NEED(mprotect(memory, len, PROT_READ | PROT_WRITE) == 0);
        CHECK(registers(pd, memory, len, all) == 0);
        NEED(mprotect(memory + len - 4096, 4096, PROT_NONE) == 0);
        CHECK(registers(pd, memory, len, 0) == -EFAULT);
        CHECK(registers(pd, memory, len, all) == -EFAULT);
        NEED(munmap(memory, len) == 0);
        int file = memfd_create("short", 0);
        NEED(file >= 0 && ftruncate(file, len) == 0);
        memory = mapped(len + 4096, PROT_READ | PROT_WRITE, file);
        CHECK(registers(pd, memory, len, all) == 0);
        CHECK(registers(pd, memory, len + 4096, 0) == -EFAULT);
        CHECK(registers(pd, memory, len + 4096, all) == -EFAULT);
        NEED(munmap(memory, len + 4096) == 0 && close(file) == 0);
    }
}

/* How the rights change after the registration. */
enum { UNMAPPED, PROTECTED, TRUNCATED, WAYS };
static const char *const ways[] = { "unmapped", "protected", "truncated" };
/* What uses the memory afterwards. */
enum { SEND, RECEIVE, WRITE_FROM, WRITE_TO, READ_FROM, READ_TO, USES };
static const char *const uses[] = { "Send from", "Receive to", "Write from", "Write to", "Read from", "Read to" };

static void take_away(int way, char *memory, int file)
{
    switch (way) {
    case UNMAPPED: NEED(munmap(memory, LEN) == 0); break;
    case PROTECTED: NEED(mprotect(memory, LEN, PROT_NONE) == 0); break;
    case TRUNCATED: NEED(ftruncate(file, 0) == 0); break;
    }
}

/* One use of memory whose rights have changed. The connection ends, and another one goes on. */
static int use_after(int way, int which)
{
    struct pair pair, other;
    make_pair(&pair);
    make_pair(&other);
    struct end *client = &pair.client, *server = &pair.server;
    int is_local = which == SEND || which == WRITE_FROM || which == READ_TO;
    struct end *end = is_local ? client : server;
    int file = memfd_create("memory", 0);
    NEED(file >= 0 && ftruncate(file, LEN) == 0);
    /* At an address that the system chooses for nobody else when the memory is unmapped. */
    int flags = MAP_SHARED | MAP_FIXED_NOREPLACE;
    char *memory = mmap((void *)0x200000000000, LEN, PROT_READ | PROT_WRITE, flags, file, 0);
    NEED(memory != MAP_FAILED);
    struct ibv_mr *mr = ibv_reg_mr(end->pd, memory, LEN, all);
    NEED(mr);
    take_away(way, memory, file);
    struct ibv_sge gone = { .addr = (uintptr_t)memory, .length = LEN, .lkey = mr->lkey };
    struct ibv_sge here = { .addr = (uintptr_t)client->memory, .length = LEN, .lkey = client->mr->lkey };
    struct ibv_recv_wr receive = { .wr_id = 2, .sg_list = &gone, .num_sge = 1 }, *bad_receive;
    struct ibv_send_wr *bad, wr = {
        .wr_id = 1, .sg_list = is_local ? &gone : &here, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma.remote_addr = is_local ? (uintptr_t)server->memory : (uintptr_t)memory,
        .wr.rdma.rkey = is_local ? server->mr->rkey : mr->rkey,
    };
    wr.opcode = which < WRITE_FROM ? IBV_WR_SEND : which < READ_FROM ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    if (which == SEND)
        NEED(post_receive(server, 2, 0, LEN) == 0);
    if (which == RECEIVE)
        NEED(ibv_post_recv(server->id->qp, &receive, &bad_receive) == 0);
    NEED(ibv_post_send(client->id->qp, &wr, &bad) == 0);
    enum ibv_wc_status status = completion(client->cq).status;
    if (is_local)
        CHECK(status == IBV_WC_LOC_PROT_ERR);
    else if (which == READ_FROM)
        CHECK(status == IBV_WC_REM_ACCESS_ERR);
    else /* TCP may have taken all of it */
        CHECK(status == IBV_WC_SUCCESS || status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_REM_ACCESS_ERR);
    if (which < WRITE_FROM)
        CHECK(completion(server->cq).status != IBV_WC_SUCCESS);
    event_is(client->events, RDMA_CM_EVENT_DISCONNECTED);
    event_is(server->events, RDMA_CM_EVENT_DISCONNECTED);
    exchange(&other.client, &other.server, 'o');
    return done();
}

/* Where the kernel copies, the use gets a status. Where the library copies, the program may get the signal of any access instead. */
static void uses_after(int kernel_copies)
{
    for (int way = 0; way < WAYS; way++)
        for (int which = 0; which < USES; which++) {
            int is_source = which == SEND || which == WRITE_FROM || which == READ_FROM;
            int status = exit_of(start_self("use", way * 10 + which));
            int by_signal = status == 1000 + SIGSEGV || status == 1000 + SIGBUS;
            int is_good = status == 0 || (by_signal && !(kernel_copies && is_source));
            if (!is_good) {
                printf("%s %s memory: status %d\n", uses[which], ways[way], status);
                failures++;
            }
        }
}

/* With an argument, streams carry no CRCs, and the kernel copies what is sent. */
int main(int argc, char **argv)
{
    if (argc > 2) {
        NEED(freopen("/dev/null", "w", stdout));
        return use_after(atoi(argv[2]) / 10, atoi(argv[2]) % 10);
    }
    struct pair pair;
    make_pair(&pair);
    registrations(pair.client.pd);
    break_pair(&pair);
    uses_after(argc > 1);
    return done();
}
