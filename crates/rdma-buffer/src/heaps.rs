//! The heaps of the C library's allocator.

/// Makes all threads of this process use one heap. For programs alone: a library leaves the allocator as it is.
///
/// glibc reserves 64 MiB of addresses for the heap of a thread, without using them. Where the address space of a process is limited, two such
/// heaps can leave nothing for what the threads need.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn share_one() {
    // SAFETY: the function changes a number of the allocator, and takes the allocator's lock for that.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// The allocators of other systems have no such heaps.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn share_one() {}
