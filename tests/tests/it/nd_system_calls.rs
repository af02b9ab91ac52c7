//! The system calls of every command of `nd`. `strace` finds out which calls a command makes. Each has to have a row in [`CALLS`], which
//! says what a refusal of it leads to, so that a call that is new gets its own answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use softnd_tests::nd::{self, Finished, Nd};
use softnd_tests::{args, tool};

/// The consequence of a call's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Every program needs it, before its first line or in the runtime of its language: memory, threads, files, signals, its end.
    EndsEveryProgram,
    /// The command does without it, or fails by a file of its user, which it names.
    IsDoneWithout,
    /// A command that makes it says that the system refuses the call, or does without it.
    IsNamed,
}

use Effect::{EndsEveryProgram, IsDoneWithout, IsNamed};

/// By effect, the calls of Linux on the architectures that tests run on.
const CALLS: [(Effect, &str); 3] = [
    (
        EndsEveryProgram,
        "access arch_prctl brk clone clone3 close dup dup2 dup3 execve exit exit_group faccessat faccessat2 fcntl fstat futex \
         getegid geteuid getgid getpid getrandom getuid ioctl lseek lstat mmap mprotect mremap munmap newfstatat open openat pipe2 poll ppoll \
         pread64 prctl read restart_syscall rseq rt_sigaction rt_sigprocmask rt_sigreturn set_robust_list set_tid_address sigaltstack \
         socketpair stat statx uname wait4 waitid write writev recvfrom",
    ),
    (
        IsDoneWithout,
        "clock_getres clock_gettime clock_nanosleep copy_file_range fadvise64 fallocate fchmod fsync ftruncate getcpu getcwd getdents64 \
         getppid getrusage gettid gettimeofday kill link linkat madvise mkdir nanosleep prlimit64 readlink readlinkat rename renameat \
         renameat2 sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_setaffinity sched_setattr sched_yield sendfile \
         splice sysinfo tgkill times umask unlink unlinkat getsockopt setsockopt shutdown",
    ),
    (
        IsNamed,
        "accept4 bind connect epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd2 getpeername getsockname listen \
         memfd_create recvmmsg recvmsg sendmsg sendto socket",
    ),
];

fn effect(call: &str) -> Option<Effect> {
    let is_in = |row: &&(Effect, &str)| row.1.split_whitespace().any(|known| known == call);
    CALLS.iter().find(is_in).map(|(effect, _)| *effect)
}

/// The path of `strace`, if this machine lets programs be traced.
fn strace() -> Option<PathBuf> {
    let strace = tool::find("strace")?;
    let tried = Command::new(&strace)
        .args(["-f", "-qq", "-o", "/dev/null", "true"])
        .output()
        .expect("strace starts");
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        tool::skip_here(&format!("programs cannot be traced: {}", why.trim()));
        return None;
    }
    Some(strace)
}

/// `strace`, which writes what a command does into this file.
fn tracing(strace: &Path, file: &Path) -> Vec<OsString> {
    args![strace, "-f", "-qq", "-o", file].to_vec()
}

/// Ends a command that `strace` runs. If its tracer were killed, it would go on.
fn end_traced(server: Nd, file: &Path) {
    let text = std::fs::read_to_string(file).expect("strace has written the file");
    let traced = text.split_whitespace().next().map(str::parse);
    let traced = traced.and_then(Result::ok).and_then(Pid::from_raw);
    // Fails if it has ended by itself.
    let _ = kill_process(traced.expect("lines begin with a process"), Signal::KILL);
    let _ = server.finish();
}

/// The names of the calls in what `strace` has written.
fn names(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read(file).expect("strace has written the file");
    let text = String::from_utf8_lossy(&text);
    // `PID NAME(...`; lines about signals and ends have other signs there.
    let name = |line: &str| {
        let (name, _) = line.split_whitespace().nth(1)?.split_once('(')?;
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// Commands that are whole by themselves.
const ALONE: [&[&str]; 6] = [
    &[
        "conform",
        "softnd+tcp://127.0.0.1",
        "--only",
        "PROV-017.open",
    ],
    &["info", "softnd+tcp://127.0.0.1"],
    &["info", "softnd+udp://127.0.0.1"],
    &["demo"],
    &["demo", "--udp"],
    &[
        "perf",
        "local",
        "--mode",
        "event",
        "--test",
        "latency",
        "--op",
        "send",
        "--size",
        "64",
        "--duration",
        "0.1",
    ],
];

/// Commands whose server comes first and prints its address; the test replaces `PORT` and `ADDRESS` in the client's words by it.
const PAIRS: [[&[&str]; 2]; 5] = [
    [
        &[
            "cat",
            "recv",
            "--listen",
            "127.0.0.1:0",
            "--out",
            "/dev/null",
        ],
        &["cat", "send", "/proc/version", "ADDRESS"],
    ],
    [
        &[
            "cat",
            "recv",
            "--udp",
            "--listen",
            "127.0.0.1:0",
            "--out",
            "/dev/null",
        ],
        &["cat", "send", "/proc/version", "ADDRESS", "--udp"],
    ],
    [
        &["rping", "-s", "-a", "127.0.0.1", "-p", "0"],
        &["rping", "-c", "-a", "127.0.0.1", "-p", "PORT", "-C", "2"],
    ],
    [
        &[
            "perftest",
            "send_lat",
            "--listen",
            "127.0.0.1",
            "-p",
            "0",
            "-n",
            "5",
        ],
        &["perftest", "send_lat", "127.0.0.1", "-p", "PORT", "-n", "5"],
    ],
    [
        &[
            "wire-conform",
            "target",
            "softnd+tcp://127.0.0.1",
            "--listen",
            "127.0.0.1:0",
        ],
        &["wire-conform", "ADDRESS", "--only", "MPA-004.reply-key"],
    ],
];

/// Runs a pair of commands, each by a program in front of it, to the end of the client.
fn run_pair(pair: [&[&str]; 2], by: [&[OsString]; 2]) -> (Nd, Finished) {
    let mut server = nd::start_by(by[0], pair[0]);
    let address = server.address();
    let pin = pair[0]
        .contains(&"--udp")
        .then(|| server.wait_for(|line| Some(line.split_once("--pin ")?.1.trim().to_owned())));
    let mut line: Vec<String> = Vec::new();
    for word in pair[1] {
        line.push(match *word {
            "ADDRESS" => address.to_string(),
            "PORT" => address.port().to_string(),
            word => word.to_owned(),
        });
    }
    if let Some(pin) = pin {
        line.extend(["--pin".to_owned(), pin]);
    }
    let client = nd::start_by(by[1], &line).finish();
    (server, client)
}

#[test]
fn every_call_of_every_command_has_a_row() {
    let Some(strace) = strace() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut makers = BTreeMap::<String, BTreeSet<String>>::new();
    let mut note = |file: &Path, command: &[&str]| {
        for name in names(file) {
            makers
                .entry(name)
                .or_default()
                .insert(command[..2.min(command.len())].join(" "));
        }
    };
    for (number, command) in ALONE.iter().enumerate() {
        let file = folder.path().join(format!("alone{number}"));
        nd::start_by(&tracing(&strace, &file), *command)
            .finish()
            .assert_success();
        note(&file, command);
    }
    for (number, pair) in PAIRS.iter().enumerate() {
        let files = ["server", "client"].map(|side| folder.path().join(format!("{side}{number}")));
        let by = [tracing(&strace, &files[0]), tracing(&strace, &files[1])];
        let (server, client) = run_pair(*pair, [&by[0], &by[1]]);
        client.assert_success();
        end_traced(server, &files[0]);
        for (file, command) in files.iter().zip(pair) {
            note(file, command);
        }
    }
    let without: Vec<_> = makers
        .iter()
        .filter(|(call, _)| effect(call).is_none())
        .map(|(call, makers)| format!("{call}, made by {makers:?}"))
        .collect();
    assert!(
        without.is_empty(),
        "these calls have no row in CALLS; refuse them by refuse_calls, see what the commands say, and add the rows:\n{}",
        without.join("\n")
    );
    // The trace is one of these commands, and not of nothing.
    for call in ["accept4", "connect", "epoll_pwait", "recvmmsg", "sendmsg"] {
        assert!(makers.contains_key(call), "nobody makes {call}");
    }
}

/// These commands run both sides, so that either side may find the refusal first.
#[test]
fn a_command_to_which_a_call_is_refused_names_it_or_does_without() {
    let named = CALLS.iter().filter(|(effect, _)| *effect == IsNamed);
    let calls = named.flat_map(|(_, calls)| calls.split_whitespace());
    let calls = calls.filter(|call| !["epoll_wait", "epoll_pwait2"].contains(call));
    for call in calls {
        // Most of the time they wait.
        thread::scope(|threads| {
            for line in ALONE {
                threads.spawn(move || assert_names_or_works(call, line));
            }
        });
    }
}

#[track_caller]
fn assert_names_or_works(call: &str, line: &[&str]) {
    let program = env!("CARGO_BIN_EXE_refuse_calls");
    let by = args![program, format!("{call}:EPERM"), "--"];
    let finished = nd::start_by(&by, line).finish();
    if finished.status.success() {
        return;
    }
    let said = &finished.stderr;
    assert!(
        said.contains("Operation not permitted"),
        "{call}: {finished}"
    );
    assert!(said.contains("rule of this machine"), "{call}: {finished}");
    // Calls of the measurements and the reports themselves are named by their purpose.
    let wanted = ["the system refuses ", "cannot "].map(|words| said.contains(words));
    assert!(wanted.contains(&true), "{call}: {finished}");
}
