//! The heaps of the C library's allocator.

/// Makes all threads of this process use one heap if the process has a limit of its addresses (`RLIMIT_AS`). For programs alone: a library
/// leaves the allocator as it is.
///
/// glibc reserves 64 MiB of addresses for the heap of a thread, without using them. Where addresses are limited, two such heaps can leave
/// nothing for what the threads need. A system that refuses to tell the limit is taken to have none.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn share_one_if_limited() {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the place is valid for the call, which leaves it as it is or fills it.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    if limit.rlim_cur != libc::RLIM_INFINITY {
        // SAFETY: the function changes a number of the allocator, and takes the allocator's lock for that.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// The allocators of other systems have no such heaps.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn share_one_if_limited() {}
