/* Calls every function of glibc that takes a path, for files below /sys/class/infiniband and /dev/infiniband and for others. */
#define _GNU_SOURCE
#define _LARGEFILE64_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define FOLDER "/sys/class/infiniband"
#define DEVICE FOLDER "/softnd0"
#define TYPE DEVICE "/node_type"
/* Where the links of the classes lead. */
#define VIRTUAL "/sys/devices/virtual"
#define REAL VIRTUAL "/infiniband/softnd0"
#define NODE "/dev/infiniband/uverbs0"
#define LINK "/sys/class/infiniband_verbs/uverbs0/device"
/* What no header declares. */
int __open_2(const char *, int), __open64_2(const char *, int);
int __openat_2(int, const char *, int), __openat64_2(int, const char *, int);
int __open(const char *, int, ...), __open64(const char *, int, ...);
int __xstat(int, const char *, struct stat *), __xstat64(int, const char *, struct stat64 *);
int __lxstat(int, const char *, struct stat *), __lxstat64(int, const char *, struct stat64 *);
int __fxstatat(int, int, const char *, struct stat *, int), __fxstatat64(int, int, const char *, struct stat64 *, int);
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
ssize_t __readlinkat_chk(int, const char *, char *, size_t, size_t);
char *__realpath_chk(const char *, char *, size_t);
FILE *_IO_fopen(const char *, const char *);

static int failures;

#define CHECK(what) \
    do { \
        errno = 0; \
        if (!(what)) { \
            printf("line %d: %s: errno %d\n", __LINE__, #what, errno); \
            failures++; \
        } \
    } while (0)

/* The descriptor is open, and its file begins as node_type does. */
static int reads(int fd)
{
    char text[16] = "";
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    return got > 0 && strcmp(text, "1: CA\n") == 0;
}

static int streams(FILE *stream)
{
    char text[16] = "";
    if (!stream)
        return 0;
    char *got = fgets(text, sizeof text, stream);
    fclose(stream);
    return got && strcmp(text, "1: CA\n") == 0;
}

static int is(char *path, const char *expected)
{
    int same = path && strcmp(path, expected) == 0;
    if (!same)
        printf("  %s\n", path ? path : "NULL");
    free(path);
    return same;
}

static void opens(void)
{
    int root = open("/", O_RDONLY | O_DIRECTORY), class = open("/sys/class", O_RDONLY | O_DIRECTORY);
    int folder = open(FOLDER, O_RDONLY | O_DIRECTORY);
    CHECK(folder >= 0);
    CHECK(reads(open(TYPE, O_RDONLY)));
    CHECK(reads(open64(TYPE, O_RDONLY)));
    CHECK(reads(__open(TYPE, O_RDONLY)));
    CHECK(reads(__open64(TYPE, O_RDONLY)));
    CHECK(reads(__open_2(TYPE, O_RDONLY)));
    CHECK(reads(__open64_2(TYPE, O_RDONLY)));
    CHECK(reads(openat(AT_FDCWD, TYPE, O_RDONLY)));
    CHECK(reads(openat64(root, TYPE, O_RDONLY)));
    CHECK(reads(openat(root, TYPE + 1, O_RDONLY)));
    CHECK(reads(openat(class, "infiniband/softnd0/node_type", O_RDONLY)));
    CHECK(reads(openat(folder, "softnd0/node_type", O_RDONLY)));
    CHECK(reads(__openat_2(root, TYPE + 1, O_RDONLY)));
    CHECK(reads(__openat64_2(root, TYPE + 1, O_RDONLY)));
    CHECK(reads(open("//sys/./class/infiniband/../infiniband//softnd0/node_type", O_RDONLY)));
    CHECK(openat(folder, "infiniband/softnd0", O_RDONLY) == -1 && errno == ENOENT);
    CHECK(openat(-1, TYPE + 1, O_RDONLY) == -1 && errno == EBADF);
    CHECK(open(DEVICE "/none", O_RDONLY) == -1 && errno == ENOENT);
    CHECK(creat(DEVICE "/none/none", 0600) == -1 && errno == ENOENT);
    CHECK(creat64(DEVICE "/none/none", 0600) == -1 && errno == ENOENT);
    CHECK(open(NULL, O_RDONLY) == -1 && errno == EFAULT);
    CHECK(streams(fopen(TYPE, "r")));
    CHECK(streams(fopen64(TYPE, "r")));
    CHECK(streams(_IO_fopen(TYPE, "r")));
    CHECK(streams(freopen(TYPE, "r", fopen("/dev/null", "r"))));
    CHECK(streams(freopen64(TYPE, "r", fopen("/dev/null", "r"))));
    /* Devices are character devices that can be read and written. */
    int node = open(NODE, O_RDWR | O_CLOEXEC);
    CHECK(node >= 0 && write(node, "x", 1) == 1);
    close(node), close(root), close(class), close(folder);
}

static void stats(void)
{
    struct stat s;
    struct stat64 s64;
    struct statx x;
    struct statfs f;
    struct statfs64 f64;
    struct statvfs v;
    struct statvfs64 v64;
    CHECK(stat(TYPE, &s) == 0 && S_ISREG(s.st_mode) && s.st_size == 6);
    CHECK(stat64(TYPE, &s64) == 0 && s64.st_size == 6);
    CHECK(lstat(LINK, &s) == 0 && S_ISLNK(s.st_mode));
    CHECK(lstat64(LINK, &s64) == 0 && S_ISLNK(s64.st_mode));
    CHECK(stat(LINK, &s) == 0 && S_ISDIR(s.st_mode));
    CHECK(stat(NODE, &s) == 0 && S_ISCHR(s.st_mode));
    CHECK(fstatat(AT_FDCWD, TYPE, &s, 0) == 0 && s.st_size == 6);
    CHECK(fstatat64(AT_FDCWD, TYPE, &s64, AT_SYMLINK_NOFOLLOW) == 0 && s64.st_size == 6);
    CHECK(__xstat(1, TYPE, &s) == 0 && s.st_size == 6);
    CHECK(__xstat64(1, TYPE, &s64) == 0 && s64.st_size == 6);
    CHECK(__lxstat(1, LINK, &s) == 0 && S_ISLNK(s.st_mode));
    CHECK(__lxstat64(1, LINK, &s64) == 0 && S_ISLNK(s64.st_mode));
    CHECK(__fxstatat(1, AT_FDCWD, TYPE, &s, 0) == 0 && s.st_size == 6);
    CHECK(__fxstatat64(1, AT_FDCWD, TYPE, &s64, 0) == 0 && s64.st_size == 6);
    CHECK(statx(AT_FDCWD, TYPE, 0, STATX_SIZE, &x) == 0 && x.stx_size == 6);
    CHECK(statfs(TYPE, &f) == 0 && statfs64(TYPE, &f64) == 0);
    CHECK(statvfs(TYPE, &v) == 0 && statvfs64(TYPE, &v64) == 0);
    CHECK(access(NODE, R_OK | W_OK) == 0);
    CHECK(access(DEVICE "/none", F_OK) == -1 && errno == ENOENT);
    CHECK(faccessat(AT_FDCWD, TYPE, R_OK, 0) == 0);
    CHECK(euidaccess(TYPE, R_OK) == 0 && eaccess(TYPE, R_OK) == 0);
    CHECK(getxattr(TYPE, "user.none", NULL, 0) == -1 && errno != ENOENT);
    CHECK(lgetxattr(TYPE, "user.none", NULL, 0) == -1 && errno != ENOENT);
    CHECK(listxattr(TYPE, NULL, 0) >= 0 || errno == ENOTSUP);
    CHECK(llistxattr(TYPE, NULL, 0) >= 0 || errno == ENOTSUP);
    int watch = inotify_init();
    CHECK(inotify_add_watch(watch, FOLDER, IN_CREATE) >= 0);
    close(watch);
}

static void links(void)
{
    const char *text = "../../infiniband/softnd0/device";
    char to[PATH_MAX] = "";
    size_t len = strlen(text);
    CHECK((size_t)readlink(LINK, to, sizeof to) == len && strncmp(to, text, len) == 0);
    CHECK((size_t)readlinkat(AT_FDCWD, LINK, to, sizeof to) == len);
    CHECK((size_t)__readlink_chk(LINK, to, sizeof to, sizeof to) == len);
    CHECK((size_t)__readlinkat_chk(AT_FDCWD, LINK, to, sizeof to, sizeof to) == len);
    CHECK(is(realpath(LINK, NULL), REAL "/device"));
    CHECK(realpath(LINK, to) == to && strcmp(to, REAL "/device") == 0);
    CHECK(__realpath_chk(LINK, to, sizeof to) == to && strcmp(to, REAL "/device") == 0);
    CHECK(is(canonicalize_file_name(NODE), "/dev/null"));
    CHECK(is(realpath("/usr/..", NULL), "/"));
    CHECK(realpath(DEVICE "/none", NULL) == NULL && errno == ENOENT);
}

static int first_is(struct dirent **list, int count, const char *name)
{
    int same = count >= 1 && strcmp(list[0]->d_name, name) == 0;
    for (int i = 0; i < count; i++)
        free(list[i]);
    if (count >= 0)
        free(list);
    return same;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int walked, walked_wrong;
static const char *walked_from;

static int on_path(const char *path, const struct stat *s, int kind, struct FTW *position)
{
    (void)s, (void)kind;
    walked++;
    const char *name = strrchr(path, '/') + 1;
    walked_wrong += strncmp(path, walked_from, strlen(walked_from)) != 0 || name != path + position->base;
    return 0;
}

static int on_old_path(const char *path, const struct stat *s, int kind)
{
    (void)s, (void)kind;
    walked++;
    walked_wrong += strncmp(path, walked_from, strlen(walked_from)) != 0;
    return 0;
}

static void folders(void)
{
    struct dirent **list = NULL;
    DIR *folder = opendir("/sys/class/infiniband_verbs/");
    CHECK(folder != NULL);
    if (folder)
        closedir(folder);
    int count = scandir("/sys/class/infiniband_verbs/uverbs0", &list, is_visible, alphasort);
    CHECK(first_is(list, count, "abi_version"));
    count = scandir64("/sys/class/infiniband_verbs/uverbs0", (struct dirent64 ***)&list, NULL, NULL);
    CHECK(count >= 7);
    first_is(list, count, "");
    int root = open("/", O_RDONLY | O_DIRECTORY);
    count = scandirat(root, "dev/infiniband", &list, is_visible, alphasort);
    CHECK(first_is(list, count, "rdma_cm"));
    count = scandirat64(root, "dev/infiniband", (struct dirent64 ***)&list, NULL, NULL);
    CHECK(count >= 4);
    first_is(list, count, "");
    close(root);
    walked_from = REAL;
    CHECK(nftw(REAL, on_path, 8, FTW_PHYS) == 0 && walked > 30 && !walked_wrong);
    walked = 0;
    CHECK(nftw64(REAL, (__nftw64_func_t)on_path, 8, FTW_PHYS) == 0 && walked > 30 && !walked_wrong);
    walked = 0;
    walked_from = DEVICE "/ports";
    CHECK(ftw(DEVICE "/ports", on_old_path, 8) == 0 && walked > 30 && !walked_wrong);
    walked = 0;
    CHECK(ftw64(DEVICE "/ports", (__ftw64_func_t)on_old_path, 8) == 0 && walked > 30 && !walked_wrong);
    glob_t found;
    CHECK(glob(FOLDER "/softnd0/node_*", 0, NULL, &found) == 0 && found.gl_pathc == 3);
    CHECK(strcmp(found.gl_pathv[2], TYPE) == 0);
    globfree(&found);
    glob64_t found64;
    CHECK(glob64(FOLDER "/*/ports/1/state", 0, NULL, &found64) == 0 && found64.gl_pathc >= 1);
    globfree64(&found64);
    CHECK(glob("/etc/host*", 0, NULL, &found) == 0 && strncmp(found.gl_pathv[0], "/etc/", 5) == 0);
    globfree(&found);
    CHECK(chdir("/sys/class") == 0 && reads(open("infiniband/softnd0/node_type", O_RDONLY)));
    CHECK(chdir(FOLDER) == 0 && reads(open("softnd0/node_type", O_RDONLY)));
    CHECK(is(realpath(".", NULL), FOLDER));
    CHECK(chdir("/") == 0);
}

/* Two paths lead to the same folder, by every function that tells where. */
static int same(const char *path, const char *expected)
{
    struct stat a, b, c;
    char text[PATH_MAX];
    int descriptor = open(path, O_RDONLY | O_DIRECTORY);
    DIR *folder = opendir(path);
    int good = stat(path, &a) == 0 && stat(expected, &b) == 0 && descriptor >= 0 && fstat(descriptor, &c) == 0 && folder;
    good = good && a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_ino == c.st_ino && a.st_dev == c.st_dev;
    good = good && realpath(path, text) && strcmp(text, expected) == 0;
    good = good && access(path, R_OK) == 0 && readlink(path, text, sizeof text) == -1 && errno == EINVAL;
    if (folder)
        closedir(folder);
    if (descriptor >= 0)
        close(descriptor);
    if (!good)
        printf("  %s is not %s\n", path, expected);
    return good;
}

/* Above an entry is what the kernel has there: entries are links to devices without a bus. */
static void above(void)
{
    struct stat s;
    char text[PATH_MAX] = "";
    const char *to = "../../devices/virtual/infiniband/softnd0";
    CHECK(lstat(DEVICE, &s) == 0 && S_ISLNK(s.st_mode) && (size_t)s.st_size == strlen(to));
    CHECK(readlink(DEVICE, text, sizeof text) == s.st_size && strcmp(text, to) == 0);
    CHECK(is(realpath(DEVICE, NULL), REAL));
    CHECK(same(DEVICE "/..", VIRTUAL "/infiniband"));
    CHECK(same(DEVICE "/../..", VIRTUAL));
    CHECK(same(DEVICE "//.././../../virtual/", VIRTUAL));
    CHECK(same(DEVICE "/../../..", "/sys/devices"));
    CHECK(same(DEVICE "/../../../../class/infiniband", FOLDER));
    CHECK(same("/sys/class/infiniband_verbs/uverbs0/../..", VIRTUAL));
    CHECK(same(LINK "/..", REAL));
    CHECK(same(LINK "/../ports/1/../../../../net/lo", VIRTUAL "/net/lo"));
    CHECK(same(REAL "/subsystem/.", FOLDER));
    CHECK(same(FOLDER "/..", "/sys/class"));
    CHECK(same(FOLDER "/../../devices", "/sys/devices"));
    CHECK(open(DEVICE "/none/..", O_RDONLY) == -1 && errno == ENOENT);
    CHECK(open(TYPE "/..", O_RDONLY) == -1 && errno == ENOTDIR);
    CHECK(stat("/dev/infiniband/uverbs0/..", &s) == -1 && errno == ENOTDIR);
    /* Relative to a folder. */
    int class = open("/sys/class", O_RDONLY | O_DIRECTORY), port = open(DEVICE "/ports/1", O_RDONLY | O_DIRECTORY);
    CHECK(reads(openat(class, "infiniband/softnd0/../softnd0/node_type", O_RDONLY)));
    CHECK(reads(openat(port, "../../node_type", O_RDONLY)));
    CHECK(reads(openat(port, "../../../../../../class/infiniband/softnd0/node_type", O_RDONLY)));
    CHECK(fstatat(port, "../../../../../../../etc", &s, 0) == 0 && S_ISDIR(s.st_mode));
    CHECK(openat(port, "../../../../nothing", O_RDONLY) == -1 && errno == ENOENT);
    close(class), close(port);
    /* In a folder of the tree, whose name the program learns. */
    CHECK(chdir(DEVICE) == 0 && getcwd(text, sizeof text) == text && strcmp(text, REAL) == 0);
    CHECK(is(get_current_dir_name(), REAL) && is(getcwd(NULL, 0), REAL));
    CHECK(same(".", REAL) && same("..", VIRTUAL "/infiniband") && same("../..", VIRTUAL));
    CHECK(same("ports/../../../../../class", "/sys/class"));
    CHECK(chdir("..") == 0 && same(".", VIRTUAL "/infiniband"));
    CHECK(chdir("..") == 0 && same(".", VIRTUAL));
    CHECK(chdir("/") == 0);
    /* As long as a path may be. */
    char longest[PATH_MAX] = DEVICE;
    while (strlen(longest) + strlen("/../softnd0") < sizeof longest)
        strcat(longest, "/../softnd0");
    CHECK(same(longest, REAL));
}

/* Files that are none of ours, modes included. */
static void others(const char *folder)
{
    char path[PATH_MAX];
    struct stat s;
    umask(0);
    snprintf(path, sizeof path, "%s/made", folder);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0640);
    CHECK(fd >= 0 && fstat(fd, &s) == 0 && (s.st_mode & 0777) == 0640);
    close(fd), unlink(path);
    fd = openat(AT_FDCWD, path, O_CREAT | O_EXCL | O_WRONLY, 0604);
    CHECK(fd >= 0 && fstat(fd, &s) == 0 && (s.st_mode & 0777) == 0604);
    close(fd), unlink(path);
    fd = open64(folder, O_TMPFILE | O_RDWR, 0600);
    CHECK((fd >= 0 && fstat(fd, &s) == 0 && (s.st_mode & 0777) == 0600) || errno == EOPNOTSUPP);
    close(fd);
    CHECK(creat(path, 0611) >= 0 && stat(path, &s) == 0 && (s.st_mode & 0777) == 0611);
    unlink(path);
    errno = 7;
    CHECK(stat("/sys/class/infiniband_mad", &s) == -1 && errno == ENOENT);
    errno = 7;
    fd = open(TYPE, O_RDONLY);
    if (fd < 0 || errno != 7) {
        printf("errno is not kept\n");
        failures++;
    }
    close(fd);
    char *longer = malloc(5000);
    memset(longer, 'a', 5000);
    memcpy(longer, DEVICE "/", strlen(DEVICE) + 1);
    longer[4090] = 0;
    CHECK(open(longer, O_RDONLY) == -1 && errno == ENAMETOOLONG);
    free(longer);
}

static void *cancelled(void *path)
{
    open(path, O_RDONLY);
    return NULL;
}

static void on_signal(int number)
{
    (void)number;
    int fd = open(TYPE, O_RDONLY);
    if (fd >= 0)
        close(fd);
    else
        failures++;
}

/* A child of vfork, a signal handler, and a thread that is cancelled while it opens a pipe. */
static void elsewhere(const char *folder)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(access(TYPE, R_OK) == 0 ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    char pipe[PATH_MAX];
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    CHECK(mkfifo(pipe, 0600) == 0);
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, cancelled, pipe) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    unlink(pipe);
}

/* Paths that the kernel refuses, as without the wrappers. */
#ifndef __SANITIZE_ADDRESS__
static void refused(void)
{
    enum { PAGE = 4096 };
    static char text[2 * PAGE];
    char room[16], *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + PAGE, PAGE, PROT_NONE) == 0);
    /* The path ends with the last octet that can be read, and without its zero. */
    char *whole = pages + PAGE - sizeof TYPE, *cut = whole + 1;
    memcpy(whole, TYPE, sizeof TYPE);
    CHECK(reads(open(whole, O_RDONLY)));
    memcpy(cut, TYPE, sizeof TYPE - 1);
    char *volatile paths[] = { NULL, (char *)8, (char *)-1, pages + PAGE, pages + PAGE + 1, cut };
    for (int index = 0; index < 6; index++) {
        char *path = paths[index];
        struct stat s;
        struct statfs f;
        CHECK(open(path, O_RDONLY) == -1 && errno == EFAULT);
        CHECK(openat(AT_FDCWD, path, O_RDONLY) == -1 && errno == EFAULT);
        CHECK(fopen(path, "r") == NULL && errno == EFAULT);
        CHECK(stat(path, &s) == -1 && errno == EFAULT);
        CHECK(lstat(path, &s) == -1 && errno == EFAULT);
        CHECK(statfs(path, &f) == -1 && errno == EFAULT);
        CHECK(access(path, R_OK) == -1 && errno == EFAULT);
        CHECK(readlink(path, room, sizeof room) == -1 && errno == EFAULT);
        CHECK(chdir(path) == -1 && errno == EFAULT);
        CHECK(getxattr(path, "user.x", room, sizeof room) == -1 && errno == EFAULT);
    }
    /* Longer than a path of a system call. */
    memset(text, '/', sizeof text - 1);
    memcpy(text + sizeof text - sizeof FOLDER, FOLDER, sizeof FOLDER);
    CHECK(open(text, O_RDONLY) == -1 && errno == ENAMETOOLONG);
    munmap(pages, 2 * PAGE);
}
#endif

int main(int count, char **arguments)
{
    (void)count;
    opens();
    stats();
    links();
    folders();
    above();
    others(arguments[1]);
    elsewhere(arguments[1]);
    /* AddressSanitizer's own wrappers read paths without asking. */
#ifndef __SANITIZE_ADDRESS__
    refused();
#endif
    /* The environment of a program is its own. */
    clearenv();
    CHECK(reads(open(TYPE, O_RDONLY)));
    printf("%d failures\n", failures);
    return failures > 0;
}

/* Before main, and before other libraries' constructors where the linker has it so. */
__attribute__((constructor(101))) static void early(void)
{
    CHECK(reads(open(TYPE, O_RDONLY)));
}
