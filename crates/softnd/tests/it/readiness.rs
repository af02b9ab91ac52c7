//! A variable of the environment names the interface of the system by which adapters learn of readiness. It is read once in a process, so
//! each test runs in separate processes.

use netdirect::Status;
use softnd::Options;

use crate::common::child;

const VARIABLE: &str = "SOFTND_READINESS";

/// Runs a test once more, in a process with this interface.
fn passes(test: &str, interface: &str) {
    child::passes(&format!("readiness::{test}"), |child| {
        child.env(VARIABLE, interface);
    });
}

#[test]
fn an_unknown_interface_opens_no_adapter_and_is_told_which_there_are() {
    if !child::is_alone() {
        return passes(
            "an_unknown_interface_opens_no_adapter_and_is_told_which_there_are",
            "poll",
        );
    }
    for _ in 0..2 {
        let error = softnd::open("softnd+tcp://127.0.0.1", Options::default()).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_PARAMETER);
        let text = error.to_string();
        let names = if cfg!(target_os = "linux") {
            "epoll, mio, kqueue-rules, flat"
        } else if cfg!(unix) {
            "mio, kqueue-rules, flat"
        } else {
            "one of flat,"
        };
        for word in [VARIABLE, "\"poll\"", names] {
            assert!(text.contains(word), "{text}");
        }
    }
}

/// The descriptors of the process are read from its folder in proc(5).
#[cfg(target_os = "linux")]
mod descriptors {
    use std::fs;

    use softnd::Options;

    use super::{VARIABLE, child, passes};

    /// The number of descriptors of a kind that the process has.
    fn descriptors(kind: &str) -> usize {
        let all = fs::read_dir("/proc/self/fd").unwrap();
        let all = all.filter_map(|one| fs::read_link(one.unwrap().path()).ok());
        all.filter(|target| target.to_string_lossy().starts_with(kind))
            .count()
    }

    #[test]
    fn an_adapter_uses_the_interface_that_is_named() {
        let Some(interface) = std::env::var_os(VARIABLE).filter(|_| child::is_alone()) else {
            for interface in ["epoll", "mio", "kqueue-rules", "flat", ""] {
                passes(
                    "descriptors::an_adapter_uses_the_interface_that_is_named",
                    interface,
                );
            }
            return;
        };
        let wakers = || (descriptors("anon_inode:[eventfd]"), descriptors("pipe:"));
        let (eventfds, pipes) = wakers();
        let adapter = softnd::open("softnd+tcp://127.0.0.1", Options::default()).unwrap();
        let file = adapter.create_overlapped_file().unwrap();
        // The thread of the adapter has one waker, and the file has two. In user space they need no descriptors; mio has one for its own.
        let expected = match interface.to_str() {
            Some("" | "epoll") => (eventfds + 3, pipes),
            Some("flat") => (eventfds + 1, pipes),
            _ => (eventfds, pipes + 6),
        };
        assert_eq!(wakers(), expected, "{interface:?}");
        drop((file, adapter));
    }
}
