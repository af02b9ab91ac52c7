/* Ends in one way or another, with devices whose counters are not 0. */
#define _GNU_SOURCE
#include "common.h"

#include <sched.h>
#include <signal.h>

/* A connection whose passive side sends first, which is counted. */
static void passive_first(void)
{
    static struct pair pair;
    make_pair(&pair);
    exchange(&pair.server, &pair.client, 'x');
    break_pair(&pair);
}

/* The file with the counters of this process. */
static const char *file(void)
{
    static char name[4096];
    snprintf(name, sizeof name, "%s/counted-%d.json", getenv("SOFTND_VERBS_COUNTERS"), getpid());
    return name;
}

/* A signal has the file written, with this number of such connections. */
static void signal_writes(int connections)
{
    char expected[64], text[4096];
    snprintf(expected, sizeof expected, "\"lenient.passive_first\": %d,", connections);
    NEED(raise(SIGUSR1) == 0);
    for (;;) {
        FILE *whole = fopen(file(), "r");
        if (whole) {
            text[fread(text, 1, sizeof text - 1, whole)] = 0;
            fclose(whole);
            NEED(text[strlen(text) - 1] == '\n');
            if (strstr(text, expected))
                return;
        }
        sched_yield();
    }
}

static volatile sig_atomic_t signals;

static void own_handler(int number)
{
    (void)number;
    signals++;
}

/* A child that opens no devices ends by the signal, as without the library. */
static void child_is_killed(void)
{
    pid_t child = fork();
    if (child == 0) {
        raise(SIGUSR1);
        _exit(0);
    }
    CHECK(exit_of(child) == 1000 + SIGUSR1);
}

/* Children that share the memory of this process write nothing for it. */
static void children_of_vfork(void)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(0);
    CHECK(exit_of(child) == 0);
    child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", NULL);
        _exit(1);
    }
    CHECK(exit_of(child) == 0);
    CHECK(access(file(), F_OK) == -1 && errno == ENOENT);
}

static void child_has_its_own(void)
{
    pid_t child = fork();
    if (child == 0) {
        passive_first();
        passive_first();
        exit(failures);
    }
    CHECK(exit_of(child) == 0);
    CHECK(access(file(), F_OK) == -1 && errno == ENOENT);
}

int main(int count, char **arguments)
{
    const char *role = count > 1 ? arguments[1] : "";
    char *variables[] = { NULL };
    struct sigaction action;
    if (strcmp(role, "handles-before") == 0)
        NEED(signal(SIGUSR1, own_handler) != SIG_ERR);
    if (strcmp(role, "ignores") == 0)
        NEED(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    if (strcmp(role, "lists") == 0) {
        ibv_free_device_list(ibv_get_device_list(NULL));
        return done();
    }
    passive_first();
    if (strcmp(role, "handles-after") == 0)
        NEED(signal(SIGUSR1, own_handler) != SIG_ERR);
    if (strncmp(role, "handles", 7) == 0) {
        NEED(raise(SIGUSR1) == 0);
        CHECK(signals == 1);
    } else if (strcmp(role, "ignores") == 0) {
        NEED(sigaction(SIGUSR1, NULL, &action) == 0);
        CHECK(action.sa_handler == SIG_IGN);
    } else if (strcmp(role, "signalled") == 0) {
        signal_writes(1);
        passive_first();
        signal_writes(2);
        passive_first();
    } else if (strcmp(role, "forks") == 0) {
        child_is_killed();
        child_has_its_own();
    } else if (strcmp(role, "vforks") == 0) {
        children_of_vfork();
    }
    int failed = done();
    fflush(stdout);
    if (strcmp(role, "quits") == 0)
        _exit(failed);
    if (strcmp(role, "quits-as-iso-c") == 0)
        _Exit(failed);
    if (strcmp(role, "executes") == 0)
        execl("/bin/true", "true", NULL);
    if (strcmp(role, "executes-without-variables") == 0)
        execve("/bin/true", arguments, variables);
    if (strcmp(role, "executes-by-path") == 0)
        execvp("true", arguments);
    if (strcmp(role, "executes-descriptor") == 0)
        fexecve(open("/bin/true", O_RDONLY | O_CLOEXEC), arguments, variables);
    if (strcmp(role, "fails-to-execute") == 0) {
        NEED(execl("/bin/there is none", "none", NULL) == -1 && errno == ENOENT);
        passive_first();
    }
    if (strcmp(role, "killed") == 0 || strncmp(role, "handles", 7) == 0 || strcmp(role, "signalled") == 0)
        raise(SIGKILL);
    return failed;
}
