/* Each process sends to the next one and receives from the one before, by messages from 1 octet to 1 MiB; then each writes into the memory of the
 * next one (MPI_Put with a flush), and all add to a counter of the first one (MPI_Fetch_and_op). All contents are compared.
 *
 *     mpiexec -np 4 ./ring
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 1 << 20, ADDS = 100 };

static int rank, ranks;

static void check(int holds, const char *what, long at)
{
	if (!holds) {
		fprintf(stderr, "rank %d: %s is wrong (%ld)\n", rank, what, at);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

/* An octet that depends on the sender, the length of the message and the place in it. */
static unsigned char octet(int from, int length, int at)
{
	return (unsigned char)(from * 31 + length * 7 + at * 13 + (at >> 8));
}

static void messages(unsigned char *out, unsigned char *in)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;

	for (int length = 1; length <= LONGEST; length *= 4) {
		for (int at = 0; at < length; at++)
			out[at] = octet(rank, length, at);
		MPI_Sendrecv(out, length, MPI_UNSIGNED_CHAR, next, length & 0x7FFF, in, length, MPI_UNSIGNED_CHAR, before, length & 0x7FFF,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int at = 0; at < length; at++)
			check(in[at] == octet(before, length, at), "a message", length);
	}
}

static void puts_into_the_next(unsigned char *out)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	unsigned char *window_memory;
	MPI_Win window;

	MPI_Win_allocate(LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_memory, &window);
	for (int at = 0; at < LONGEST; at++)
		out[at] = octet(rank, 3, at);
	MPI_Win_lock_all(0, window);
	MPI_Put(out, LONGEST, MPI_UNSIGNED_CHAR, next, 0, LONGEST, MPI_UNSIGNED_CHAR, window);
	MPI_Win_flush(next, window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_sync(window);
	for (int at = 0; at < LONGEST; at++)
		check(window_memory[at] == octet(before, 3, at), "memory that was put", at);
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
}

static void adds(void)
{
	long *counter, one = 1, was;
	MPI_Win window;

	MPI_Win_allocate(sizeof(*counter), sizeof(*counter), MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &window);
	*counter = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < ADDS; i++) {
		MPI_Fetch_and_op(&one, &was, MPI_LONG, 0, 0, MPI_SUM, window);
		MPI_Win_flush(0, window);
		check(was >= 0 && was < (long)ADDS * ranks, "a sum", was);
	}
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
		check(*counter == (long)ADDS * ranks, "the last sum", *counter);
		MPI_Win_unlock(0, window);
	}
	MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
	unsigned char *out = malloc(LONGEST), *in = malloc(LONGEST);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	messages(out, in);
	puts_into_the_next(out);
	adds();
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d processes: all contents are right\n", ranks);
	MPI_Finalize();
	free(out);
	free(in);
	return 0;
}
