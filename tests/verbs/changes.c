/* Tries to change what is below /sys/class/infiniband and /dev/infiniband in every way: each fails as in the kernel's /sys, and afterwards
 * everything is as it was. What the kernel lets root do there (modes, owners, times), it refuses too. The argument is a folder to write to. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#define VIRTUAL "/sys/devices/virtual/infiniband/softnd0"
#define NODE "/dev/infiniband/uverbs0"

static int failures, is_root;

#define CHECK(what) \
    do { \
        errno = 0; \
        if (!(what)) { \
            printf("line %d: %s: errno %s\n", __LINE__, #what, strerrorname_np(errno)); \
            failures++; \
        } \
    } while (0)

/* A call fails with one error for root, and with one for others. */
#define FAILS(call, for_root, for_others) \
    do { \
        errno = 0; \
        int done = (call) != -1, expected = is_root ? for_root : for_others; \
        if (done || errno != expected) { \
            printf("line %d: %s: %s in place of %s\n", __LINE__, #call, strerrorname_np(errno), strerrorname_np(expected)); \
            failures++; \
        } \
    } while (0)

#define NO_STREAM(stream, expected) CHECK((stream) == NULL && errno == (expected))

static unsigned long seen;

static int on_path(const char *path, const struct stat *s, int kind, struct FTW *position)
{
    (void)kind, (void)position;
    unsigned long here = 5381;
    for (; *path; path++)
        here = here * 33 + (unsigned char)*path;
    const unsigned long parts[] = { s->st_ino, s->st_mode, s->st_uid, s->st_nlink, s->st_size, s->st_mtim.tv_sec, s->st_mtim.tv_nsec };
    for (int index = 0; index < 7; index++)
        here = here * 33 + parts[index];
    seen += here;
    return 0;
}

static unsigned long all(void)
{
    const char *folders[] = { "/sys/class/infiniband", "/sys/class/infiniband_verbs", "/dev/infiniband",
        "/sys/devices/virtual/infiniband", "/sys/devices/virtual/infiniband_verbs" };
    seen = 0;
    for (int index = 0; index < 5; index++)
        CHECK(nftw(folders[index], on_path, 8, FTW_PHYS) == 0);
    return seen;
}

/* Files whose names a function makes, and sockets. */
static void made_from_patterns(const char *at)
{
    char p[PATH_MAX], whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%sXXXXXX", at);
    FAILS(mkstemp(strcpy(p, whole)), EACCES, EACCES);
    FAILS(mkstemp64(strcpy(p, whole)), EACCES, EACCES);
    FAILS(mkostemp(strcpy(p, whole), O_CLOEXEC), EACCES, EACCES);
    FAILS(mkostemp64(strcpy(p, whole), O_CLOEXEC), EACCES, EACCES);
    CHECK(mkdtemp(strcpy(p, whole)) == NULL && errno == (is_root ? EPERM : EACCES));
    strcat(whole, ".c");
    FAILS(mkstemps(strcpy(p, whole), 2), EACCES, EACCES);
    FAILS(mkstemps64(strcpy(p, whole), 2), EACCES, EACCES);
    FAILS(mkostemps(strcpy(p, whole), 2, O_CLOEXEC), EACCES, EACCES);
    FAILS(mkostemps64(strcpy(p, whole), 2, O_CLOEXEC), EACCES, EACCES);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%ssocket", at);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    FAILS(bind(fd, (struct sockaddr *)&address, sizeof address), EPERM, EACCES);
    FAILS(bind(fd, (struct sockaddr *)&address, offsetof(struct sockaddr_un, sun_path) + strlen(address.sun_path)), EPERM, EACCES);
    close(fd);
}

/* Paths below a folder, of which there are a file, a folder and a link. */
static void with_paths(const char *at, const char *file, const char *folder, const char *alias, const char *outside)
{
    char f[PATH_MAX], d[PATH_MAX], l[PATH_MAX], n[PATH_MAX], in_n[PATH_MAX];
    snprintf(f, sizeof f, "%s%s", at, file), snprintf(d, sizeof d, "%s%s", at, folder), snprintf(l, sizeof l, "%s%s", at, alias);
    snprintf(n, sizeof n, "%snew", at), snprintf(in_n, sizeof in_n, "%snew/x", at);
    struct timespec times[2] = { { 0, 0 }, { 0, 0 } };
    struct timeval old[2] = { { 0, 0 }, { 0, 0 } };
    /* New entries. */
    FAILS(open(n, O_WRONLY | O_CREAT, 0600), EACCES, EACCES);
    FAILS(open64(n, O_RDONLY | O_CREAT, 0600), EACCES, EACCES);
    FAILS(creat(n, 0600), EACCES, EACCES);
    FAILS(openat(AT_FDCWD, n, O_WRONLY | O_CREAT | O_EXCL, 0600), EACCES, EACCES);
    FAILS(open(d, O_RDWR | O_TMPFILE, 0600), EOPNOTSUPP, EACCES);
    FAILS(open(n, O_WRONLY), ENOENT, ENOENT);
    FAILS(open(in_n, O_WRONLY | O_CREAT, 0600), ENOENT, ENOENT);
    NO_STREAM(fopen(n, "w"), EACCES);
    NO_STREAM(fopen(n, "a+"), EACCES);
    NO_STREAM(fopen64(n, "wx"), EACCES);
    NO_STREAM(fopen(n, "r+"), ENOENT);
    FAILS(mkdir(n, 0700), EPERM, EACCES);
    FAILS(mkdir(d, 0700), EEXIST, EEXIST);
    FAILS(mkdir(f, 0700), EEXIST, EEXIST);
    FAILS(mkdir(in_n, 0700), ENOENT, ENOENT);
    FAILS(mkdirat(AT_FDCWD, n, 0700), EPERM, EACCES);
    FAILS(mkfifo(n, 0600), EPERM, EACCES);
    FAILS(mkfifoat(AT_FDCWD, n, 0600), EPERM, EACCES);
    FAILS(mknod(n, S_IFIFO | 0600, 0), EPERM, EACCES);
    FAILS(mknod(f, S_IFIFO | 0600, 0), EEXIST, EEXIST);
    FAILS(mknodat(AT_FDCWD, n, S_IFREG | 0600, 0), EPERM, EACCES);
    FAILS(symlink("x", n), EPERM, EACCES);
    FAILS(symlink("x", f), EEXIST, EEXIST);
    FAILS(symlinkat("x", AT_FDCWD, n), EPERM, EACCES);
    FAILS(link(f, n), EPERM, EPERM);
    FAILS(link(outside, n), EXDEV, EXDEV);
    FAILS(linkat(AT_FDCWD, f, AT_FDCWD, n, 0), EPERM, EPERM);
    FAILS(link(f, d), EEXIST, EEXIST);
    made_from_patterns(at);
    /* Files that are there. */
    FAILS(open(f, O_WRONLY), EACCES, EACCES);
    FAILS(open(f, O_RDWR), EACCES, EACCES);
    FAILS(open(f, O_WRONLY | O_CREAT | O_TRUNC, 0600), EACCES, EACCES);
    FAILS(open(f, O_WRONLY | O_APPEND), EACCES, EACCES);
    FAILS(open(f, O_RDONLY | O_TRUNC), EACCES, EACCES);
    FAILS(open(f, O_CREAT | O_EXCL | O_WRONLY, 0600), EEXIST, EEXIST);
    FAILS(open(d, O_WRONLY), EISDIR, EISDIR);
    FAILS(open(d, O_RDONLY | O_CREAT, 0600), EISDIR, EISDIR);
    NO_STREAM(fopen(f, "r+"), EACCES);
    NO_STREAM(fopen(f, "w"), EACCES);
    NO_STREAM(freopen(f, "a", fopen("/dev/null", "r")), EACCES);
    int file_fd = open(f, O_RDONLY | O_CREAT, 0600), folder_fd = open(d, O_RDONLY | O_DIRECTORY);
    CHECK(file_fd >= 0 && folder_fd >= 0);
    FAILS(truncate(f, 0), EACCES, EACCES);
    FAILS(truncate64(f, 100), EACCES, EACCES);
    FAILS(truncate(d, 0), EISDIR, EISDIR);
    FAILS(truncate(n, 0), ENOENT, ENOENT);
    FAILS(ftruncate(file_fd, 0), EINVAL, EINVAL);
    FAILS(write(file_fd, "x", 1), EBADF, EBADF);
    /* They stay, and keep their names. */
    FAILS(unlink(f), EPERM, EACCES);
    FAILS(unlink(l), EPERM, EACCES);
    FAILS(unlink(n), ENOENT, ENOENT);
    FAILS(unlinkat(AT_FDCWD, f, 0), EPERM, EACCES);
    FAILS(unlinkat(AT_FDCWD, d, AT_REMOVEDIR), EPERM, EACCES);
    FAILS(rmdir(d), EPERM, EACCES);
    FAILS(rmdir(n), ENOENT, ENOENT);
    FAILS(remove(f), EPERM, EACCES);
    FAILS(remove(l), EPERM, EACCES);
    FAILS(rename(f, n), EPERM, EACCES);
    FAILS(rename(d, n), EPERM, EACCES);
    FAILS(rename(l, n), EPERM, EACCES);
    FAILS(rename(n, f), ENOENT, ENOENT);
    FAILS(rename(f, outside), EXDEV, EXDEV);
    FAILS(rename(outside, n), EXDEV, EXDEV);
    FAILS(rename(outside, f), EXDEV, EXDEV);
    FAILS(renameat(AT_FDCWD, f, AT_FDCWD, n), EPERM, EACCES);
    FAILS(renameat2(AT_FDCWD, f, AT_FDCWD, l, RENAME_EXCHANGE), EPERM, EACCES);
    CHECK(rename(f, f) == 0);
    /* Modes, owners and times. */
    FAILS(chmod(f, 0666), EPERM, EPERM);
    FAILS(chmod(d, 0777), EPERM, EPERM);
    FAILS(chmod(n, 0666), ENOENT, ENOENT);
    FAILS(fchmodat(AT_FDCWD, f, 0666, 0), EPERM, EPERM);
    FAILS(fchmod(file_fd, 0666), EPERM, EPERM);
    FAILS(fchmod(folder_fd, 0777), EPERM, EPERM);
    FAILS(chown(f, 1, 1), EPERM, EPERM);
    FAILS(lchown(l, 1, 1), EPERM, EPERM);
    FAILS(fchown(file_fd, 1, 1), EPERM, EPERM);
    FAILS(fchownat(AT_FDCWD, l, 1, 1, AT_SYMLINK_NOFOLLOW), EPERM, EPERM);
    CHECK(chown(f, -1, -1) == 0 && fchown(file_fd, -1, -1) == 0);
    FAILS(utime(f, NULL), EPERM, EACCES);
    FAILS(utimes(f, old), EPERM, EACCES);
    FAILS(lutimes(l, old), EPERM, EACCES);
    FAILS(utimensat(AT_FDCWD, d, times, 0), EPERM, EACCES);
    FAILS(utimensat(AT_FDCWD, n, NULL, 0), ENOENT, ENOENT);
    FAILS(futimesat(AT_FDCWD, f, old), EPERM, EACCES);
    FAILS(futimens(file_fd, times), EPERM, EACCES);
    FAILS(futimes(folder_fd, old), EPERM, EACCES);
    FAILS(setxattr(f, "user.a", "b", 1, 0), EOPNOTSUPP, EACCES);
    FAILS(lsetxattr(f, "user.a", "b", 1, 0), EOPNOTSUPP, EACCES);
    FAILS(fsetxattr(file_fd, "user.a", "b", 1, 0), EOPNOTSUPP, EACCES);
    FAILS(removexattr(d, "user.a"), EOPNOTSUPP, EACCES);
    FAILS(lremovexattr(d, "user.a"), EOPNOTSUPP, EACCES);
    FAILS(fremovexattr(folder_fd, "user.a"), EOPNOTSUPP, EACCES);
    /* Rights are those that the modes show. */
    struct stat s;
    CHECK(stat(f, &s) == 0 && (s.st_mode & 07777) == 0444 && stat(d, &s) == 0 && (s.st_mode & 07777) == 0555);
    CHECK((access(f, W_OK) == 0) == is_root && (access(d, W_OK) == 0) == is_root && access(f, R_OK) == 0);
    /* Relative to an opened folder. */
    FAILS(openat(folder_fd, "new", O_WRONLY | O_CREAT, 0600), EACCES, EACCES);
    FAILS(mkdirat(folder_fd, "new", 0700), EPERM, EACCES);
    FAILS(symlinkat("x", folder_fd, "./new"), EPERM, EACCES);
    FAILS(mknodat(folder_fd, "new", S_IFIFO | 0600, 0), EPERM, EACCES);
    FAILS(linkat(AT_FDCWD, outside, folder_fd, "new", 0), EXDEV, EXDEV);
    FAILS(renameat(AT_FDCWD, outside, folder_fd, "new"), EXDEV, EXDEV);
    FAILS(unlinkat(folder_fd, "../node_type", 0), EPERM, EACCES);
    FAILS(fchmodat(folder_fd, "../node_type", 0666, 0), EPERM, EPERM);
    FAILS(fchmodat(folder_fd, ".", 0777, 0), EPERM, EPERM);
    FAILS(fchownat(folder_fd, "", 1, 1, AT_EMPTY_PATH), EPERM, EPERM);
    FAILS(utimensat(folder_fd, "../node_type", NULL, 0), EPERM, EACCES);
    close(file_fd), close(folder_fd);
}

/* The nodes below /dev, which may be written, and what lies behind them. */
static void nodes(void)
{
    struct stat before, after;
    CHECK(stat("/dev/null", &before) == 0);
    int node = open(NODE, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(node >= 0 && write(node, "x", 1) == 1);
    close(node);
    FILE *stream = fopen(NODE, "w");
    CHECK(stream && fputs("x", stream) >= 0);
    if (stream)
        fclose(stream);
    FAILS(open(NODE, O_WRONLY | O_CREAT | O_EXCL, 0600), EEXIST, EEXIST);
    FAILS(open(NODE, O_WRONLY | O_NOFOLLOW), ELOOP, ELOOP);
    FAILS(chmod(NODE, 0), EPERM, EPERM);
    FAILS(chown(NODE, 1, 1), EPERM, EPERM);
    FAILS(unlink(NODE), EPERM, EACCES);
    FAILS(rename(NODE, "/dev/infiniband/uverbs9"), EPERM, EACCES);
    FAILS(mknod("/dev/infiniband/uverbs9", S_IFCHR | 0666, makedev(1, 3)), EPERM, EACCES);
    FAILS(rmdir("/dev/infiniband"), EPERM, EACCES);
    FAILS(mkdir("/dev/infiniband", 0700), EEXIST, EEXIST);
    FAILS(rename("/sys/class/infiniband", "/sys/class/infiniband9"), EXDEV, EXDEV);
    CHECK(stat("/dev/null", &after) == 0 && after.st_mode == before.st_mode && after.st_uid == before.st_uid);
}

/* Files that are none of ours. */
static void others(const char *folder)
{
    struct stat s;
    int fd;
    CHECK(chdir(folder) == 0);
    CHECK(mkdir("made", 0700) == 0 && mkdirat(AT_FDCWD, "made/in", 0700) == 0 && rmdir("made/in") == 0);
    CHECK((fd = open("made/file", O_RDWR | O_CREAT | O_EXCL, 0640)) >= 0 && fchmod(fd, 0600) == 0 && futimens(fd, NULL) == 0);
    CHECK(chmod("made/file", 0604) == 0 && stat("made/file", &s) == 0 && (s.st_mode & 07777) == 0604);
    CHECK(truncate("made/file", 9) == 0 && fstat(fd, &s) == 0 && s.st_size == 9);
    CHECK(link("made/file", "made/second") == 0 && rename("made/second", "made/../third") == 0);
    CHECK(symlink("third", "link") == 0 && unlink("link") == 0 && remove("third") == 0);
    CHECK(utimensat(AT_FDCWD, "made/file", NULL, 0) == 0 && futimesat(fd, NULL, NULL) == 0 && utime("made/file", NULL) == 0);
    CHECK(mkfifo("made/pipe", 0600) == 0 && unlinkat(AT_FDCWD, "made/pipe", 0) == 0);
    CHECK(chown("made/file", getuid(), getgid()) == 0 && fchown(fd, getuid(), getgid()) == 0);
    FAILS(mkdir("made", 0700), EEXIST, EEXIST);
    FAILS(rename("none", "made/none"), ENOENT, ENOENT);
    FAILS(mkdir(NULL, 0700), EFAULT, EFAULT);
    FAILS(rename(NULL, "a"), EFAULT, EFAULT);
    FAILS(unlink((const char *)8), EFAULT, EFAULT);
    FAILS(mkdir("", 0700), ENOENT, ENOENT);
    close(fd);
    char pattern[] = "made/XXXXXX", ended[] = "made/XXXXXX.c", inner[] = "made/XXXXXX";
    CHECK((fd = mkstemp(pattern)) >= 0 && close(fd) == 0 && unlink(pattern) == 0);
    CHECK((fd = mkostemps(ended, 2, O_CLOEXEC)) >= 0 && close(fd) == 0 && unlink(ended) == 0);
    CHECK(mkdtemp(inner) == inner && rmdir(inner) == 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "made/socket" };
    CHECK((fd = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    close(fd);
    CHECK(unlink("made/socket") == 0);
    struct sockaddr_un unnamed = { .sun_family = AF_UNIX };
    CHECK((fd = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0 && bind(fd, (struct sockaddr *)&unnamed, sizeof unnamed.sun_family) == 0);
    close(fd);
    CHECK(unlink("made/file") == 0 && rmdir("made") == 0 && chdir("/") == 0);
}

int main(int count, char **arguments)
{
    (void)count;
    char outside[PATH_MAX];
    is_root = geteuid() == 0;
    snprintf(outside, sizeof outside, "%s/outside", arguments[1]);
    close(open(outside, O_WRONLY | O_CREAT, 0600));
    unsigned long before = all();
    with_paths("/sys/class/infiniband/softnd0/", "node_type", "ports", "subsystem", outside);
    with_paths(VIRTUAL "/", "ports/../node_type", "ports/../ports", "ports/../subsystem", outside);
    CHECK(chdir(VIRTUAL) == 0);
    with_paths("", "node_type", "ports", "subsystem", outside);
    CHECK(chdir("ports") == 0);
    with_paths("../", "node_type", "ports", "subsystem", outside);
    CHECK(chdir("/sys/class") == 0);
    with_paths("infiniband/softnd0/", "node_type", "ports", "subsystem", outside);
    CHECK(chdir("/") == 0);
    nodes();
    CHECK(all() == before);
    others(arguments[1]);
    printf("%d failures\n", failures);
    return failures > 0;
}
