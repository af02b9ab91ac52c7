//! Programs for verbs that run by `nd run`.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::nd;

/// A limit that only ends a hang.
const HANG: Duration = Duration::from_secs(120);

/// `nd run -- PROGRAM`, with the libraries in the folder of `nd`.
pub fn nd_run(program: &[&str]) -> Command {
    nd_run_with(&[], program)
}

/// `nd run OPTIONS -- PROGRAM`, as [`nd_run`].
pub fn nd_run_with(options: &[&str], program: &[&str]) -> Command {
    nd::build_libraries();
    let mut command = Command::new(nd::binary());
    command.arg("run").args(options).arg("--").args(program);
    command.stdin(Stdio::null());
    command
}

/// Has a folder removed with the trees in it that `nd run` has made, whose folders not even their owner may write to.
pub fn open_trees(folder: &Path) {
    let mut open = Command::new("chmod");
    let _ = open.args(["-R", "u+w"]).arg(folder).output();
}

/// A port that was free a moment ago.
pub fn free_port() -> String {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = socket.local_addr().expect("a bound socket has an address");
    address.port().to_string()
}

/// A server, which is killed when the value is dropped.
pub struct Server {
    child: Child,
    what: String,
}

impl Server {
    /// Starts a server.
    pub fn start(program: &[&str]) -> Self {
        Self::start_with(&[], program)
    }

    /// Starts a server with options of `nd run`.
    pub fn start_with(options: &[&str], program: &[&str]) -> Self {
        let mut command = nd_run_with(options, program);
        command.stdout(Stdio::null());
        let child = command.spawn().expect("nd starts");
        let what = program.join(" ");
        Self { child, what }
    }

    /// Waits until the server ends by itself.
    ///
    /// # Panics
    /// If it reports a failure, or hangs.
    pub fn ends_well(mut self) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("the server is a child") {
                break status;
            }
            assert!(start.elapsed() < HANG, "{} hangs", self.what);
            thread::yield_now();
        };
        assert!(status.success(), "{}: {status}", self.what);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a client until it succeeds, because its server may not listen yet, and returns what it prints.
///
/// # Panics
/// If it never does.
pub fn run(program: &[&str]) -> String {
    run_with(&[], program)
}

/// As [`run`], with options of `nd run`.
///
/// # Panics
/// If it never succeeds.
pub fn run_with(options: &[&str], program: &[&str]) -> String {
    let start = Instant::now();
    loop {
        let output = nd_run_with(options, program).output().expect("nd starts");
        if output.status.success() {
            return String::from_utf8_lossy(&output.stdout).into_owned();
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            start.elapsed() < HANG,
            "{program:?}: {}: {said}",
            output.status
        );
    }
}

/// Tries until something holds, and returns false if it never does.
pub fn holds_in_time(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if start.elapsed() >= HANG {
            return false;
        }
        thread::yield_now();
    }
}
