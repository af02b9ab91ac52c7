/* A program that only looks for devices, and then becomes the program that its arguments name. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    int devices = 0;
    struct ibv_device **list = ibv_get_device_list(&devices);
    if (list)
        ibv_free_device_list(list);
    printf("%d failures\n", devices < 1);
    fflush(stdout);
    if (count > 1)
        execvp(arguments[1], arguments + 1);
    return devices < 1 || count > 1;
}
