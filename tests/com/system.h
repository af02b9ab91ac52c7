/* What the programs need of the system beyond netdirect.h, with one side for Windows and one for Linux: libraries, pages, threads, processes
 * and handles. A call that fails ends the program with a line that says where. */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <netdirect.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef CHECK
/* Ends the program with a line that says where. */
#define CHECK(is)                                                                  \
    do {                                                                           \
        if (!(is)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #is); \
            exit(1);                                                               \
        }                                                                          \
    } while (0)
#endif

/* A function of unknown type. */
typedef void (*symbol)(void);

enum { PAGE = 4096 };

/* The rights of pages. */
enum rights { NO_RIGHTS, MAY_READ, MAY_WRITE };

#ifdef _WIN32

#include <tlhelp32.h>

/* Section 3 of netdirect.h has it for other systems. */
#define ND_HANDLE_NO_PACKET_BIT ((ULONG_PTR)1)

/* A library that has given out an object stays until the process ends: Windows does not get back its thread-local storage. */
enum { LIBRARIES_STAY = 1 };

/* A file that the program has does not count for DllCanUnloadNow: no library learns that it is closed. */
enum { FILES_COUNT = 0 };

/* The status that a callback of BindIoCompletionCallback gets. wine passes an error of Win32 (tests/wine/bound_callback.c). */
static inline HRESULT status_of_callback(DWORD status)
{
    const int is_wine = GetProcAddress(GetModuleHandleA("ntdll.dll"), "wine_get_version") != NULL;
    return is_wine && status == ERROR_OPERATION_ABORTED ? ND_CANCELED : (HRESULT)status;
}

/* Numbers that no handle of a small program has. */
static const uintptr_t NO_HANDLES[] = {0xFFF8, 0x3FFF0, 0x3FFF1};

static inline void *load_library(const char *path)
{
    HMODULE library = LoadLibraryA(path);
    if (library == NULL) {
        fprintf(stderr, "%s: error %lu\n", path, GetLastError());
        exit(1);
    }
    return (void *)library;
}

static inline symbol look_up(void *library, const char *name)
{
    FARPROC found = GetProcAddress((HMODULE)library, name);
    symbol function;
    CHECK(found != NULL);
    memcpy(&function, &found, sizeof(function));
    return function;
}

static inline void unload_library(void *library) { CHECK(FreeLibrary((HMODULE)library)); }

/* Whether the process has the library. */
static inline int is_loaded(const char *path) { return GetModuleHandleA(path) != NULL; }

/* CloseHandle, for programs with and without libnetdirect. */
static inline void close_file(HANDLE file) { CHECK(CloseHandle(file)); }

static inline int is_file(HANDLE handle) { return GetFileType(handle) == FILE_TYPE_PIPE; }

static inline DWORD protection(enum rights rights)
{
    return rights == NO_RIGHTS ? PAGE_NOACCESS : rights == MAY_READ ? PAGE_READONLY : PAGE_READWRITE;
}

/* New pages with these rights. */
static inline void *new_pages(size_t count, enum rights rights)
{
    void *pages = VirtualAlloc(NULL, count * PAGE, MEM_RESERVE | MEM_COMMIT, protection(rights));
    CHECK(pages != NULL);
    return pages;
}

static inline void protect_page(void *page, enum rights rights)
{
    DWORD old;
    CHECK(VirtualProtect(page, PAGE, protection(rights), &old));
}

static inline void free_pages(void *pages, size_t count)
{
    (void)count;
    CHECK(VirtualFree(pages, 0, MEM_RELEASE));
}

/* The handles of this process: every small number is looked at. */
static inline unsigned count_of_handles(void)
{
    unsigned count = 0;
    for (uintptr_t number = 4; number < 0x4000; number += 4) {
        DWORD flags;
        count += GetHandleInformation((HANDLE)number, &flags) != 0;
    }
    return count;
}

static inline unsigned count_of_threads(void)
{
    unsigned count = 0;
    THREADENTRY32 entry;
    HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
    CHECK(all != INVALID_HANDLE_VALUE);
    entry.dwSize = sizeof(entry);
    for (BOOL more = Thread32First(all, &entry); more; more = Thread32Next(all, &entry))
        count += entry.th32OwnerProcessID == GetCurrentProcessId();
    CHECK(CloseHandle(all));
    return count;
}

static inline void yield_processor(void) { SwitchToThread(); }

/* The time for which the threads of this process have had a processor. */
static inline double processor_seconds(void)
{
    FILETIME created, ended, of_system, of_program;
    CHECK(GetProcessTimes(GetCurrentProcess(), &created, &ended, &of_system, &of_program));
    /* In units of 100 ns. */
    return (of_system.dwLowDateTime + of_program.dwLowDateTime + 4294967296.0 * (of_system.dwHighDateTime + of_program.dwHighDateTime)) / 1e7;
}

/* Windows says neither. */
static inline size_t heap_in_use(void) { return 0; }
static inline size_t address_space(void) { return 0; }
static inline void without_cached_memory(char **arguments) { (void)arguments; }

/* A thread, as others see it. */
typedef HANDLE thread_seen;

static inline thread_seen this_thread(void)
{
    HANDLE thread;
    CHECK(DuplicateHandle(GetCurrentProcess(), GetCurrentThread(), GetCurrentProcess(), &thread, 0, FALSE, DUPLICATE_SAME_ACCESS));
    return thread;
}

/* Whether the thread is in a call of the system. It came there from a call of the provider if that is all that it calls. */
static inline int is_asleep(thread_seen thread)
{
    CONTEXT context;
    MEMORY_BASIC_INFORMATION code;
    BOOL is_read;
    memset(&context, 0, sizeof(context));
    context.ContextFlags = CONTEXT_CONTROL;
    CHECK(SuspendThread(thread) != (DWORD)-1);
    is_read = GetThreadContext(thread, &context);
    CHECK(ResumeThread(thread) != (DWORD)-1);
    return is_read && VirtualQuery((void *)context.Rip, &code, sizeof(code)) == sizeof(code) &&
           code.AllocationBase == (void *)GetModuleHandleA("ntdll.dll");
}

static inline void forget_thread(thread_seen thread) { CHECK(CloseHandle(thread)); }

/* Runs this program with two arguments, and returns its status. */
static inline int run_self(const char *first, const char *second)
{
    char self[MAX_PATH], line[3 * MAX_PATH];
    STARTUPINFOA start;
    PROCESS_INFORMATION process;
    DWORD status;
    memset(&start, 0, sizeof(start));
    start.cb = sizeof(start);
    CHECK(GetModuleFileNameA(NULL, self, sizeof(self)) < sizeof(self));
    snprintf(line, sizeof(line), "\"%s\" \"%s\" \"%s\"", self, first, second);
    CHECK(CreateProcessA(self, line, NULL, NULL, FALSE, 0, NULL, NULL, &start, &process));
    CHECK(WaitForSingleObject(process.hProcess, INFINITE) == WAIT_OBJECT_0);
    CHECK(GetExitCodeProcess(process.hProcess, &status));
    CHECK(CloseHandle(process.hThread) && CloseHandle(process.hProcess));
    return (int)status;
}

#else

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIBRARIES_STAY = 0 };

/* A file that the program has is something of the library's for DllCanUnloadNow. */
enum { FILES_COUNT = 1 };

/* The status that a callback of BindIoCompletionCallback gets. */
static inline HRESULT status_of_callback(DWORD status) { return (HRESULT)status; }

/* Handles of Windows, which are numbers. */
static const uintptr_t NO_HANDLES[] = {4, 8, 9, 16, 0x1F4, 0xFFF8};

static inline void *load_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return library;
}

static inline symbol look_up(void *library, const char *name)
{
    void *found = dlsym(library, name);
    symbol function;
    CHECK(found != NULL && sizeof(function) == sizeof(found));
    memcpy(&function, &found, sizeof(function));
    return function;
}

static inline void unload_library(void *library) { CHECK(dlclose(library) == 0); }

/* Whether the process has the library, by the dynamic linker and by the list of mappings. */
static inline int is_loaded(const char *path)
{
    char line[4096], whole[4096];
    int found = 0;
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL && realpath(path, whole) != NULL);
    while (fgets(line, sizeof(line), maps) != NULL)
        found |= strstr(line, whole) != NULL;
    fclose(maps);
    CHECK(found == (library != NULL));
    if (library != NULL)
        dlclose(library);
    return found;
}

/* CloseHandle, for programs with and without libnetdirect. */
static inline void close_file(HANDLE file) { ND_HANDLE_TABLE_OF(file)->Close(file); }

static inline int is_file(HANDLE handle)
{
    const ND_HANDLE_TABLE *table = ND_HANDLE_TABLE_OF(handle);
    return table->Kind == ND_HANDLE_KIND_FILE && table->Size >= sizeof(ND_FILE_TABLE);
}

static inline int protection(enum rights rights)
{
    return rights == NO_RIGHTS ? PROT_NONE : rights == MAY_READ ? PROT_READ : PROT_READ | PROT_WRITE;
}

/* New pages with these rights. */
static inline void *new_pages(size_t count, enum rights rights)
{
    void *pages = mmap(NULL, count * PAGE, protection(rights), MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    return pages;
}

static inline void protect_page(void *page, enum rights rights) { CHECK(mprotect(page, PAGE, protection(rights)) == 0); }

static inline void free_pages(void *pages, size_t count) { CHECK(munmap(pages, count * PAGE) == 0); }

static inline unsigned entries_of_folder(const char *folder)
{
    unsigned count = 0;
    DIR *all = opendir(folder);
    CHECK(all != NULL);
    for (struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all))
        count += entry->d_name[0] != '.';
    closedir(all);
    return count;
}

static inline unsigned count_of_handles(void) { return entries_of_folder("/proc/self/fd"); }

static inline unsigned count_of_threads(void) { return entries_of_folder("/proc/self/task"); }

static inline void yield_processor(void) { sched_yield(); }

/* The time for which the threads of this process have had a processor. */
static inline double processor_seconds(void)
{
    struct rusage used;
    CHECK(getrusage(RUSAGE_SELF, &used) == 0);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* Octets of the heap that are in use. */
static inline size_t heap_in_use(void)
{
    const struct mallinfo2 memory = mallinfo2();
    return memory.uordblks + memory.hblkhd;
}

/* Octets of the process's address space. */
static inline size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm != NULL && fscanf(statm, "%lu", &pages) == 1);
    fclose(statm);
    return pages * PAGE;
}

/* Freed memory that a thread keeps for its next calls counts as used, so this program starts itself anew without such memory. */
static inline void without_cached_memory(char **arguments)
{
    const char *const none = "glibc.malloc.tcache_count=0", *const tunables = getenv("GLIBC_TUNABLES");
    if (tunables != NULL && strcmp(tunables, none) == 0)
        return;
    CHECK(setenv("GLIBC_TUNABLES", none, 1) == 0);
    execv("/proc/self/exe", arguments);
    CHECK(!"started anew");
}

/* A thread, as others see it: its number. */
typedef long thread_seen;

static inline thread_seen this_thread(void)
{
    /* /proc/thread-self leads to PROCESS/task/THREAD. */
    char target[64] = {0};
    CHECK(readlink("/proc/thread-self", target, sizeof(target) - 1) > 0);
    return atol(strrchr(target, '/') + 1);
}

static inline int is_asleep(thread_seen thread)
{
    char path[64], line[512];
    const char *state;
    FILE *stat;
    snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", thread);
    stat = fopen(path, "r");
    CHECK(stat != NULL && fgets(line, sizeof(line), stat) != NULL);
    fclose(stat);
    state = strrchr(line, ')');
    CHECK(state != NULL);
    return state[2] == 'S';
}

static inline void forget_thread(thread_seen thread) { (void)thread; }

/* Runs this program with two arguments, and returns its status. */
static inline int run_self(const char *first, const char *second)
{
    extern char **environ;
    char self[] = "/proc/self/exe", one[4096], two[4096];
    char *arguments[] = {self, one, two, NULL};
    pid_t child = 0;
    int status = 0;
    snprintf(one, sizeof(one), "%s", first);
    snprintf(two, sizeof(two), "%s", second);
    CHECK(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

#endif

#endif
