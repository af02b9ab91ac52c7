/* Threads call the wrappers of `nd run` at the same time, each for the first time in the process: all see the devices.

       opens             as above, and starts `true`
       opens PROGRAM     starts this program in place of `true`: itself, where others cannot load the libraries
       opens end         ends */
#define _GNU_SOURCE
#include "common.h"

#include <dirent.h>
#include <glob.h>
#include <pthread.h>
#include <sys/stat.h>

enum { THREADS = 6, ROUNDS = 20 };

static pthread_barrier_t begins;
static int failed[THREADS];
static const char *started = "true";

/* CHECK counts in a variable that threads may not share. */
#define SEES(what) (*wrong += !(what))

static void looks(int *wrong)
{
    char text[4096];
    struct stat known;
    int descriptor = open("/sys/class/infiniband/softnd0/node_type", O_RDONLY);
    SEES(descriptor >= 0 && read(descriptor, text, sizeof text) > 0 && close(descriptor) == 0);
    descriptor = openat(AT_FDCWD, "/dev/infiniband/rdma_cm", O_RDWR);
    SEES(descriptor >= 0 && close(descriptor) == 0);
    FILE *file = fopen("/sys/class/infiniband/softnd0/node_guid", "r");
    SEES(file && fgets(text, sizeof text, file) && fclose(file) == 0);
    SEES(stat("/sys/class/infiniband", &known) == 0);
    SEES(lstat("/sys/class/infiniband/softnd0", &known) == 0 && S_ISLNK(known.st_mode));
    SEES(access("/dev/infiniband/uverbs0", R_OK) == 0);
    SEES(readlink("/sys/class/infiniband/softnd0", text, sizeof text) > 0);
    SEES(realpath("/sys/class/infiniband/softnd0", text));
    DIR *folder = opendir("/sys/class/infiniband");
    SEES(folder && readdir(folder) && closedir(folder) == 0);
    glob_t found;
    SEES(glob("/sys/class/infiniband/softnd*", 0, NULL, &found) == 0 && found.gl_pathc > 0);
    globfree(&found);
}

static void executes(int *wrong)
{
    char *arguments[] = { (char *)started, "end", NULL };
    int status;
    pid_t child;
    SEES(posix_spawnp(&child, started, NULL, NULL, arguments, environ) == 0 && waitpid(child, &status, 0) == child && status == 0);
    child = fork();
    if (child == 0) {
        execvp(started, arguments);
        _exit(1);
    }
    SEES(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void *runs(void *argument)
{
    pthread_barrier_wait(&begins);
    for (int round = 0; round < ROUNDS; round++)
        looks(argument);
    executes(argument);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "end") == 0)
        return 0;
    if (argc == 2)
        started = argv[1];
    pthread_t threads[THREADS];
    NEED(pthread_barrier_init(&begins, NULL, THREADS) == 0);
    for (int index = 0; index < THREADS; index++)
        NEED(pthread_create(&threads[index], NULL, runs, &failed[index]) == 0);
    for (int index = 0; index < THREADS; index++) {
        NEED(pthread_join(threads[index], NULL) == 0);
        CHECK(failed[index] == 0);
    }
    return done();
}
