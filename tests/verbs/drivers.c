/* Loads the libraries of drivers that it is given, with every name that they need, over the libibverbs that was preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

static int count(struct dl_phdr_info *library, size_t size, void *libraries)
{
    (void)size;
    if (strstr(library->dlpi_name, "/libibverbs.so"))
        ++*(int *)libraries;
    return 0;
}

int main(int argc, char **argv)
{
    int failures = argc < 2, libraries = 0;
    for (int at = 1; at < argc; at++) {
        if (!dlopen(argv[at], RTLD_NOW)) {
            printf("%s\n", dlerror());
            failures++;
        }
    }
    dl_iterate_phdr(count, &libraries);
    if (libraries != 1) {
        printf("%d libraries are named libibverbs\n", libraries);
        failures++;
    }
    printf("%d failures\n", failures);
    return failures > 0;
}
