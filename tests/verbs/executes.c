/* Executes a program by every function of glibc. The argument is the program: this one, which was compiled a second time perhaps. It fails
 * unless it gets all words, and the variable. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define WORDS "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"

static int failures;

static void ended(const char *name, pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("%s failed\n", name);
        failures++;
    }
}

#define IN_CHILD(fork, call) \
    do { \
        fflush(stdout); \
        pid_t child = fork(); \
        if (child == 0) { \
            call; \
            _exit(99); \
        } \
        ended(#call, child); \
    } while (0)

int main(int count, char **arguments)
{
    if (count == 11) {
        const char *words[] = { WORDS };
        for (int index = 0; index < 9; index++)
            if (strcmp(arguments[index + 2], words[index]) != 0)
                return 1;
        const char *variable = getenv("MARK");
        return !variable || strcmp(variable, "kept") != 0;
    }
    char *path = arguments[1], *file = strrchr(path, '/') + 1;
    char folders[4096];
    char *list[] = { file, file, WORDS, NULL };
    setenv("MARK", "kept", 1);
    snprintf(folders, sizeof folders, "/no/such/folder:%.*s", (int)(file - path), path);
    setenv("PATH", folders, 1);
    pid_t child;
    IN_CHILD(fork, execl(path, file, file, WORDS, (char *)NULL));
    IN_CHILD(fork, execlp(file, file, file, WORDS, (char *)NULL));
    IN_CHILD(fork, execle(path, file, file, WORDS, (char *)NULL, environ));
    IN_CHILD(fork, execv(path, list));
    IN_CHILD(fork, execvp(file, list));
    IN_CHILD(fork, execve(path, list, environ));
    IN_CHILD(fork, execvpe(file, list, environ));
    IN_CHILD(fork, fexecve(open(path, O_RDONLY), list, environ));
    IN_CHILD(vfork, execve(path, list, environ));
    IN_CHILD(vfork, execlp(file, file, file, WORDS, (char *)NULL));
    ended("posix_spawn", posix_spawn(&child, path, NULL, NULL, list, environ) == 0 ? child : -1);
    ended("posix_spawnp", posix_spawnp(&child, file, NULL, NULL, list, environ) == 0 ? child : -1);
    if (execl("/no/such/program", "a", (char *)NULL) != -1 || errno != ENOENT)
        failures++;
    if (execvp("no-such-program", list) != -1 || errno != ENOENT)
        failures++;
    printf("%d failures\n", failures);
    return failures > 0;
}
