//! The environment of the process says by which interface of the system adapters learn what is ready. It is asked once in
//! a process, so that each test runs in processes of its own.

use std::fs;
use std::process::{Command, Output};

use netdirect::Status;
use softnd::Options;

const VARIABLE: &str = "SOFTND_READINESS";
const CHILD: &str = "SOFTND_TEST_CHILD";

/// Runs a test once more, in a process with this interface.
fn run(test: &str, interface: &str) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]);
    child.env(CHILD, "1").env(VARIABLE, interface);
    child.output().unwrap()
}

fn passes(test: &str, interface: &str) {
    let done = run(test, interface);
    let said = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (stdout, stderr) = (said(&done.stdout), said(&done.stderr));
    let passed = done.status.success() && stdout.contains("1 passed");
    assert!(passed, "{interface}: {}\n{stdout}\n{stderr}", done.status);
}

#[test]
fn an_unknown_interface_opens_no_adapter_and_is_told_which_there_are() {
    if std::env::var_os(CHILD).is_none() {
        return passes(
            "an_unknown_interface_opens_no_adapter_and_is_told_which_there_are",
            "poll",
        );
    }
    for _ in 0..2 {
        let error = softnd::open("softnd+tcp://127.0.0.1", Options::default()).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_PARAMETER);
        let text = error.to_string();
        for word in [VARIABLE, "\"poll\"", "epoll, mio, kqueue-rules"] {
            assert!(text.contains(word), "{text}");
        }
    }
}

/// How many descriptors of a kind the process has.
fn descriptors(kind: &str) -> usize {
    let all = fs::read_dir("/proc/self/fd").unwrap();
    let all = all.filter_map(|one| fs::read_link(one.unwrap().path()).ok());
    all.filter(|target| target.to_string_lossy().starts_with(kind))
        .count()
}

#[test]
fn an_adapter_uses_the_interface_that_is_named() {
    let Some(interface) = std::env::var_os(VARIABLE).filter(|_| std::env::var_os(CHILD).is_some())
    else {
        for interface in ["epoll", "mio", "kqueue-rules", ""] {
            passes("an_adapter_uses_the_interface_that_is_named", interface);
        }
        return;
    };
    let wakers = || (descriptors("anon_inode:[eventfd]"), descriptors("pipe:"));
    let (eventfds, pipes) = wakers();
    let adapter = softnd::open("softnd+tcp://127.0.0.1", Options::default()).unwrap();
    let file = adapter.create_overlapped_file().unwrap();
    // The thread of the adapter has one waker, and the file has two.
    let expected = if interface.is_empty() || interface == "epoll" {
        (eventfds + 3, pipes)
    } else {
        (eventfds, pipes + 6)
    };
    assert_eq!(wakers(), expected, "{interface:?}");
    drop((file, adapter));
}
