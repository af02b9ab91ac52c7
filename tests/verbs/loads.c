/* Loads the libraries for verbs by all their names: those without a version, and paths of the system's files. The arguments are those paths.
 *
 * Compiled with -DOUTER and with -DINNER it is two libraries, the first of which finds the second one by its RUNPATH alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#if defined(INNER)
int inner(void)
{
    return 47;
}
#elif defined(OUTER)
void *load(const char *name)
{
    return dlopen(name, RTLD_NOW);
}
#else
#include <infiniband/verbs.h>

static int failures;

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s: %s\n", __LINE__, #what, dlerror()); \
            failures++; \
        } \
    } while (0)

/* The library that was loaded by this name has devices, or makes a channel of rdma_cm. */
static int is_ours(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 0;
    struct ibv_device **(*list)(int *) = dlsym(library, "ibv_get_device_list");
    void (*free_list)(struct ibv_device **) = dlsym(library, "ibv_free_device_list");
    void *(*channel)(void) = dlsym(library, "rdma_create_event_channel");
    int found = 0;
    if (strstr(name, "librdmacm")) {
        void *made = channel ? channel() : NULL;
        void (*destroy)(void *) = dlsym(library, "rdma_destroy_event_channel");
        if (made && destroy)
            destroy(made);
        return made != NULL && channel == dlsym(RTLD_DEFAULT, "rdma_create_event_channel");
    }
    struct ibv_device **all = list ? list(&found) : NULL;
    int ours = all && found > 0 && strncmp(all[0]->name, "softnd", 6) == 0;
    if (all)
        free_list(all);
    return ours && list == dlsym(RTLD_DEFAULT, "ibv_get_device_list");
}

#ifndef __SANITIZE_ADDRESS__
/* A library of the program's folder, which loads another one that only its RUNPATH leads to. */
static void by_run_path(const char *outer)
{
    CHECK(dlopen("libinner.so", RTLD_NOW) == NULL);
    void *library = dlopen(outer, RTLD_NOW);
    CHECK(library != NULL);
    void *(*load)(const char *) = library ? dlsym(library, "load") : NULL;
    void *other = load ? load("libinner.so") : NULL;
    CHECK(other != NULL);
    int (*inner)(void) = other ? dlsym(other, "inner") : NULL;
    CHECK(inner && inner() == 47);
}
#endif

int main(int count, char **arguments)
{
    const char *names[] = { "libibverbs.so", "libibverbs.so.1", "librdmacm.so", "librdmacm.so.1" };
    for (int index = 0; index < 4; index++)
        CHECK(is_ours(names[index]));
    for (int index = 2; index < count; index++)
        if (!is_ours(arguments[index])) {
            printf("%s: %s\n", arguments[index], dlerror());
            failures++;
        }
    /* AddressSanitizer's own dlopen is in the program, whose RUNPATH counts then. */
#ifndef __SANITIZE_ADDRESS__
    by_run_path(arguments[1]);
#endif
    /* What is not there does not load, and the reason names it. */
    CHECK(dlopen("/no/such/folder/libibverbs.so.1", RTLD_NOW) == NULL);
    const char *why = dlerror();
    CHECK(why && strstr(why, "/no/such/folder/libibverbs.so.1"));
    CHECK(dlopen("libibverbs.so.2", RTLD_NOW) == NULL);
    /* The program itself, and a library of the system with its flags. */
    CHECK(dlopen(NULL, RTLD_NOW) != NULL);
    CHECK(dlopen("libnsl.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL);
    CHECK(dlopen("libm.so.6", RTLD_NOW) != NULL);
    errno = 7;
    void *self = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    CHECK(self != NULL && errno == 7);
    printf("%d failures\n", failures);
    return failures > 0;
}
#endif
