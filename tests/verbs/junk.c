/* A queue pair waits for its peer, and one for datagrams waits for messages, while others send junk to their port. The program says

       PORT NUMBER PEER'S-NUMBER NUMBER-FOR-DATAGRAMS Q_KEY ADDRESS

   and reads a line once the junk is over. Then the peer is there: nothing was placed, the process has no more memory than before, the two
   queue pairs connect, and a datagram of this program arrives. */
#include "numbered.h"

enum { GROWTH = 8 << 20, KEY = 0x12345678, GRH = 40 };

static void has_only(const struct numbered *end, char octet)
{
    for (int index = 0; index < MEMORY; index++)
        CHECK(end->memory[index] == octet);
}

static void datagram_arrives(struct ibv_pd *pd, struct numbered *from, struct numbered *to)
{
    struct ibv_ah_attr address = { .is_global = 1, .port_num = 1 };
    struct ibv_ah *handle;
    NEED(ibv_query_gid(pd->context, 1, 0, &address.grh.dgid) == 0 && (handle = ibv_create_ah(pd, &address)));
    struct ibv_sge sge = { .addr = (uintptr_t)from->memory, .length = 100, .lkey = from->mr->lkey };
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
        .wr.ud = { .ah = handle, .remote_qpn = to->qp->qp_num, .remote_qkey = KEY },
    }, *bad;
    NEED(ibv_post_send(from->qp, &wr, &bad) == 0);
    CHECK(completion(from->cq).status == IBV_WC_SUCCESS);
    struct ibv_wc received = completion(to->cq);
    CHECK(received.status == IBV_WC_SUCCESS && received.byte_len == GRH + 100 && received.src_qp == from->qp->qp_num);
    CHECK(to->memory[GRH] == 0x44 && to->memory[GRH + 99] == 0x44 && to->memory[GRH + 100] == 0x5a);
    NEED(ibv_destroy_ah(handle) == 0);
}

int main(void)
{
    struct ibv_pd *pd;
    struct numbered one, other, datagrams, sender;
    union ibv_gid gid;
    char line[16], address[INET_ADDRSTRLEN];
    NEED(pd = ibv_alloc_pd(open_first()));
    make_numbered(&one, pd);
    make_numbered(&other, pd);
    to_init(one.qp);
    NEED(receive_numbered(&one, MEMORY) == 0);
    /* The memory is there before the junk comes, and has other octets than zeros. */
    memset(one.memory, 0x5a, MEMORY);
    to_rtr(one.qp, 0, other.qp->qp_num, 0);
    to_rts(one.qp);

    NEED(ibv_query_gid(pd->context, 1, 0, &gid) == 0 && inet_ntop(AF_INET, gid.raw + 12, address, sizeof address));
    make_datagrams(&datagrams, pd, KEY);
    make_datagrams(&sender, pd, KEY);
    memset(datagrams.memory, 0x5a, MEMORY);
    memset(sender.memory, 0x44, MEMORY);
    for (int index = 0; index < 4; index++)
        NEED(receive_numbered(&datagrams, MEMORY) == 0);
    CHECK(datagrams.qp->qp_num / 256 == one.qp->qp_num / 256);
    printf("%u %u %u %u %u %s\n", one.qp->qp_num / 256, one.qp->qp_num, other.qp->qp_num, datagrams.qp->qp_num, KEY, address);
    fflush(stdout);
    NEED(fgets(line, sizeof line, stdin));
    long before = resident();
    NEED(fgets(line, sizeof line, stdin));
    CHECK(resident() - before < GROWTH);
    has_only(&one, 0x5a);
    has_only(&datagrams, 0x5a);

    connect_qp(other.qp, 0, one.qp->qp_num, 0);
    memset(other.memory, 0x33, 100);
    NEED(post_numbered(&other, IBV_WR_SEND, 100, 0, 0) == 0);
    CHECK(completion(other.cq).status == IBV_WC_SUCCESS);
    struct ibv_wc received = completion(one.cq);
    CHECK(received.status == IBV_WC_SUCCESS && received.byte_len == 100);
    CHECK(one.memory[0] == 0x33 && one.memory[99] == 0x33 && one.memory[100] == 0x5a);
    datagram_arrives(pd, &sender, &datagrams);
    return done();
}
