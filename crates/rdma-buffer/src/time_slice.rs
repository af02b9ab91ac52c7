//! The time slice of a thread: how long the system's scheduler lets it run before others have their turn. A thread that wakes up preempts one
//! with a longer slice at once, and waits for the end of the slice otherwise.

/// Makes the slice of the calling thread the shortest that Linux has, 0.1 ms. For a thread that works for a few microseconds each time it is
/// woken: where all processors are busy it has its turn at once, and its share of the time stays what it was.
///
/// Linux has had slices of threads since 6.12, and needs no privilege for them. Earlier ones do not look at the value. A thread with
/// another policy than the ordinary one, or that the system refuses, stays as it is.
#[cfg(target_os = "linux")]
pub fn shorten() {
    if let Some(attributes) = system::of_this_thread()
        && attributes.sched_policy == system::ORDINARY
    {
        system::set(&libc::sched_attr {
            sched_runtime: system::SHORTEST,
            ..attributes
        });
    }
}

/// Other systems have no slices that a thread can choose.
#[cfg(not(target_os = "linux"))]
pub fn shorten() {}

#[cfg(target_os = "linux")]
mod system {
    use std::mem::MaybeUninit;

    /// Nanoseconds.
    pub(super) const SHORTEST: u64 = 100_000;

    /// `SCHED_OTHER`, in the type of the structure.
    pub(super) const ORDINARY: u32 = 0;

    const THIS_THREAD: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;

    /// The attributes of the calling thread. `None` if the system refuses to tell.
    pub(super) fn of_this_thread() -> Option<libc::sched_attr> {
        let mut attributes = MaybeUninit::<libc::sched_attr>::zeroed();
        let place = attributes.as_mut_ptr();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the size of a small structure"
        )]
        let size = size_of::<libc::sched_attr>() as libc::c_uint;
        // SAFETY: the place is valid for `size` octets, and the call writes no more.
        let told =
            unsafe { libc::syscall(libc::SYS_sched_getattr, THIS_THREAD, place, size, NO_FLAGS) };
        // SAFETY: all fields are integers, which are valid as zeros and as whatever the call has written.
        (told == 0).then(|| unsafe { attributes.assume_init() })
    }

    /// A refusal leaves the thread as it is.
    pub(super) fn set(attributes: &libc::sched_attr) {
        // SAFETY: the call reads the structure, which has its own size in its first field, as `of_this_thread` has put it there.
        unsafe { libc::syscall(libc::SYS_sched_setattr, THIS_THREAD, attributes, NO_FLAGS) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_thread_has_the_shortest_slice_and_keeps_its_priority() {
        std::thread::spawn(|| {
            let before = system::of_this_thread();
            shorten();
            let after = system::of_this_thread();
            assert_eq!(before.is_some(), after.is_some());
            if let Some((before, after)) = before.zip(after) {
                let tells = before.sched_runtime != 0;
                assert_eq!(
                    after.sched_runtime,
                    if tells { system::SHORTEST } else { 0 }
                );
                assert_eq!(
                    (after.sched_policy, after.sched_nice, after.sched_flags),
                    (before.sched_policy, before.sched_nice, before.sched_flags)
                );
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_with_another_policy_stays_as_it_is() {
        std::thread::spawn(|| {
            let Some(ordinary) = system::of_this_thread() else {
                return;
            };
            let batch = libc::SCHED_BATCH as u32;
            system::set(&libc::sched_attr {
                sched_policy: batch,
                ..ordinary
            });
            shorten();
            let after = system::of_this_thread().unwrap();
            assert_eq!(after.sched_policy, batch);
            assert_eq!(after.sched_runtime, ordinary.sched_runtime);
        })
        .join()
        .unwrap();
    }
}
