/*
 * Two threads change a number, between calls of the libraries: the mistake of a program that ThreadSanitizer has to report, although it is
 * silent about what the libraries do.
 */
#include "client.h"

#include <thread>

int main()
{
    CHECK_STATUS(NdStartup(), ND_SUCCESS);
    {
        Device device;
        device.register_memory();
        int shared = 0;
        std::thread other([&] { ++shared; });
        ++shared;
        other.join();
        OVERLAPPED overlapped = {};
        CHECK_STATUS(finish(device.region.get(), device.region->Deregister(&overlapped), &overlapped), ND_SUCCESS);
    }
    CHECK_STATUS(NdCleanup(), ND_SUCCESS);
}
