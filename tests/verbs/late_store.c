/* Breaks the rules, to see that the sanitizer finds it: with "short" and "long", the peer writes to a buffer that the program has freed;
 * with "leak", the program loses a protection domain. */
#include "common.h"

static void store(struct pair *pair, int offset, int len)
{
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    char *buffer = malloc(MEMORY);
    struct ibv_mr *mr = ibv_reg_mr(pair->server.pd, buffer, MEMORY, access);
    NEED(mr);
    uint64_t address = (uintptr_t)buffer;
    free(buffer);
    NEED(post_write(&pair->client, 1, 0, len, address + offset, mr->rkey) == 0);
    CHECK(completes(pair->client.cq, 1, IBV_WC_SUCCESS));
    NEED(post_receive(&pair->server, 2, 0, 100) == 0);
    NEED(post_send(&pair->client, 3, 0, 1, IBV_SEND_SIGNALED) == 0);
    CHECK(completes(pair->client.cq, 3, IBV_WC_SUCCESS) && completes(pair->server.cq, 2, IBV_WC_SUCCESS));
    NEED(ibv_dereg_mr(mr) == 0);
}

int main(int count, char **arguments)
{
    struct pair pair;
    make_pair(&pair);
    const char *what = count > 1 ? arguments[1] : "";
    if (strcmp(what, "short") == 0)
        store(&pair, 8, 64);
    if (strcmp(what, "long") == 0)
        store(&pair, 0, MEMORY / 2);
    if (strcmp(what, "leak") == 0)
        NEED(ibv_alloc_pd(pair.client.id->verbs));
    break_pair(&pair);
    return done();
}
