/*
 * What the libraries do at the word of their user's environment.
 *
 *     privileged FOLDER
 *
 * FOLDER has copies of the libraries. Variables of the environment name another one of its libraries as provider of NetworkDirect, and a
 * folder with devices. Prints one line for each of the things that the environment changes; the first says if this program has more rights
 * than its user.
 */
#define _GNU_SOURCE

#include <netdirect.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static const char *folder;

static const char *in_folder(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* A function of a library, which stays loaded. */
static void (*look_up(const char *library, const char *name))(void)
{
    void *loaded = dlopen(in_folder(library), RTLD_NOW | RTLD_LOCAL);
    void *symbol = loaded != NULL ? dlsym(loaded, name) : NULL;
    void (*function)(void);
    if (symbol == NULL) {
        printf("%s\n", dlerror());
        exit(1);
    }
    memcpy(&function, &symbol, sizeof(function));
    return function;
}

static struct sockaddr_in here(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return address;
}

/* The library that ND_PROVIDER names opens an adapter. */
static int loads_provider(void)
{
    HRESULT (*start)(void) = (HRESULT (*)(void))look_up("libnetdirect.so", "NdStartup");
    HRESULT (*open_adapter)(REFIID, const struct sockaddr *, SIZE_T, void **) =
        (HRESULT (*)(REFIID, const struct sockaddr *, SIZE_T, void **))look_up("libnetdirect.so", "NdOpenAdapter");
    struct sockaddr_in address = here();
    void *adapter = NULL;
    return start() == ND_SUCCESS &&
           open_adapter(&IID_IND2Adapter, (struct sockaddr *)&address, sizeof(address), &adapter) == ND_SUCCESS;
}

/* SOFTND_FAULTS, SOFTND_READINESS, SOFTND_CONGESTION and SOFTND_COM_* with words that mean nothing refuse adapters. */
static int opens_adapter(void)
{
    ND_DLL_GET_CLASS_OBJECT get = (ND_DLL_GET_CLASS_OBJECT)look_up("libsoftnd.so", "DllGetClassObject");
    const CLSID any = {0};
    IND2Provider *provider = NULL;
    IND2Adapter *adapter = NULL;
    struct sockaddr_in address = here();
    UINT64 id = 0;
    if (get(&any, &IID_IND2Provider, (void **)&provider) != S_OK)
        return 0;
    return IND2Provider_ResolveAddress(provider, (struct sockaddr *)&address, sizeof(address), &id) == ND_SUCCESS &&
           IND2Provider_OpenAdapter(provider, &IID_IND2Adapter, id, (void **)&adapter) == ND_SUCCESS;
}

/* SOFTND_VERBS_INTERFACE names the one that has a device, and SOFTND_VERBS_CAPTURE and SOFTND_VERBS_COUNTERS folders for a file of each process. */
static int opens_device(void)
{
    void **(*list)(int *) = (void **(*)(int *))look_up("libibverbs.so", "ibv_get_device_list");
    void *(*open_device)(void *) = (void *(*)(void *))look_up("libibverbs.so", "ibv_open_device");
    void *(*create_cq)(void *, int, void *, void *, int) =
        (void *(*)(void *, int, void *, void *, int))look_up("libibverbs.so", "ibv_create_cq");
    int count = 0;
    void **devices = list(&count), *device = NULL;
    if (devices != NULL && count > 0)
        device = open_device(devices[0]);
    return device != NULL && create_cq(device, 1, NULL, NULL, 0) != NULL;
}

/* SOFTND_VERBS_PATHS names the folder whose files are shown in place of those of the system. */
static int finds_path(void)
{
    int (*shown)(const char *, int, ...) = (int (*)(const char *, int, ...))look_up("libnd_paths.so", "open");
    return shown("/dev/infiniband/of_the_test", O_RDONLY) >= 0;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    folder = argv[1];
    printf("secure: %lu\n", getauxval(AT_SECURE));
    printf("provider: %d\n", loads_provider());
    printf("adapter: %d\n", opens_adapter());
    printf("device: %d\n", opens_device());
    printf("path: %d\n", finds_path());
    return 0;
}
