/* A queue pair waits for its peer while others send junk to its port. It says

       PORT NUMBER PEER'S-NUMBER ADDRESS

   and reads a line once the junk is over. Then the peer is there: nothing was placed, the process has no more memory than before, and the two
   queue pairs connect. */
#include "numbered.h"

enum { GROWTH = 8 << 20 };

int main(void)
{
    struct ibv_pd *pd;
    struct numbered one, other;
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
    printf("%u %u %u %s\n", one.qp->qp_num / 256, one.qp->qp_num, other.qp->qp_num, address);
    fflush(stdout);
    NEED(fgets(line, sizeof line, stdin));
    long before = resident();
    NEED(fgets(line, sizeof line, stdin));
    CHECK(resident() - before < GROWTH);
    for (int index = 0; index < MEMORY; index++)
        CHECK(one.memory[index] == 0x5a);

    connect_qp(other.qp, 0, one.qp->qp_num, 0);
    memset(other.memory, 0x33, 100);
    NEED(post_numbered(&other, IBV_WR_SEND, 100, 0, 0) == 0);
    CHECK(completion(other.cq).status == IBV_WC_SUCCESS);
    struct ibv_wc received = completion(one.cq);
    CHECK(received.status == IBV_WC_SUCCESS && received.byte_len == 100);
    CHECK(one.memory[0] == 0x33 && one.memory[99] == 0x33 && one.memory[100] == 0x5a);
    return done();
}
