//! Processes of the program `nd`.

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::tool;

/// A limit that only ends a hang. Everything here takes far less time.
const HANG: Duration = Duration::from_secs(120);

/// The path of the program: `CARGO_BIN_EXE_nd`, or the program that cargo builds into the target directory of this test.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match env::var_os("CARGO_BIN_EXE_nd") {
        Some(path) => path.into(),
        None => build(),
    })
}

/// Set for processes of this test that find everything built.
const BUILT_BEFORE: &str = "SOFTND_TESTS_BUILT";

/// Builds the program and the libraries, and has another process of this test use them.
pub fn built_for(test: &mut Command) {
    build_libraries();
    test.env("CARGO_BIN_EXE_nd", binary());
    test.env(BUILT_BEFORE, "1");
}

/// An optimized build, built as `cargo run --release` builds it, for tests in which a debug build would be too
/// slow.
pub fn optimized() -> PathBuf {
    let (_, target) = target();
    cargo_build(&target, &["--release"]);
    program(&target.join("release"))
}

/// The programs `compare` and `promises`, optimized. They run the `nd` of [`optimized`] in their folder.
pub fn of_benches() -> [PathBuf; 2] {
    let (_, target) = target();
    let options = "--release -p softnd-benches --bin compare --bin promises";
    cargo_build(&target, &options.split(' ').collect::<Vec<_>>());
    ["compare", "promises"].map(|name| target.join("release").join(name))
}

fn build() -> PathBuf {
    let (profile, target) = target();
    // With the features of the whole workspace, as `cargo test --workspace` has built it. A program of tests is named as well, so that
    // cargo counts the dependencies of tests too: without them some libraries have fewer features, and half of the workspace
    // would be built a second time.
    let mut options = vec!["--workspace", "--bin", "nd", "--test", "book"];
    if profile.file_name() == Some(OsStr::new("release")) {
        options.push("--release");
    }
    cargo_build(&target, &options);
    program(&profile)
}

/// Builds the libraries for verbs programs into the program's folder, once.
pub fn build_libraries() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| build_with("--lib"));
}

/// Builds the examples into the folder `examples` beside the program, once.
pub fn build_examples() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| build_with("--examples"));
}

/// Builds `kind` of the whole workspace, with the features of [`build`]. Does nothing in a process that finds everything built.
fn build_with(kind: &str) {
    if env::var_os(BUILT_BEFORE).is_some() {
        return;
    }
    let (profile, target) = target();
    let mut options = vec!["--workspace", kind, "--bin", "nd", "--test", "book"];
    if profile.file_name() == Some(OsStr::new("release")) {
        options.push("--release");
    }
    cargo_build(&target, &options);
}

/// The folder of this test's profile, and the target directory that it lies in.
fn target() -> (PathBuf, PathBuf) {
    let test = env::current_exe().expect("a test knows its own path");
    // target/<profile>/deps/<test>
    let profile = test
        .ancestors()
        .nth(2)
        .expect("tests lie two folders below");
    let target = profile
        .parent()
        .expect("a profile lies in the target directory");
    (profile.to_owned(), target.to_owned())
}

fn program(profile: &Path) -> PathBuf {
    profile.join(format!("nd{}", env::consts::EXE_SUFFIX))
}

fn cargo_build(target: &Path, options: &[&str]) {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet"]).args(options);
    command
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
    command.arg("--target-dir").arg(target);
    // With the variables of this test's package, the build scripts would build everything anew.
    for (name, _) in env::vars_os() {
        let shown = name.to_string_lossy();
        if shown.starts_with("CARGO_PKG_") || shown.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    let status = command.status().expect("cargo starts");
    assert!(status.success(), "cargo build {options:?}: {status}");
}

/// As which process `nd` runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// As any process.
    Anywhere,
    /// As process 1 of its own namespace, like the program of a container.
    Process1,
}

/// Runs a program as process 1 of its own namespace. It ends when `unshare` is killed.
const AS_PROCESS_1: [&str; 5] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--pid",
    "--kill-child",
];

impl Place {
    /// Returns true if this machine can run `nd` there. If not, prints a message on standard error that names the skipped test.
    pub fn exists(self) -> bool {
        if self == Self::Anywhere {
            return true;
        }
        let Some(unshare) = tool::find(AS_PROCESS_1[0]) else {
            return false;
        };
        let tried = Command::new(unshare)
            .args(&AS_PROCESS_1[1..])
            .arg("true")
            .output()
            .expect("unshare starts");
        if !tried.status.success() {
            let why = String::from_utf8_lossy(&tried.stderr);
            tool::skip_here(&format!("this machine has no process 1: {}", why.trim()));
        }
        tried.status.success()
    }

    /// Starts `nd` with these arguments.
    pub fn start<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Nd {
        self.start_after(":", args)
    }

    /// Starts `nd` from a shell that first runs `preparation`, such as a `ulimit`.
    pub fn start_after<A: AsRef<OsStr>>(
        self,
        preparation: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Nd {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("{preparation}; exec \"$@\""))
            .arg("sh");
        if self == Self::Process1 {
            command.args(AS_PROCESS_1);
        }
        command.arg(binary()).args(args);
        let mut nd = Nd::spawn(command);
        nd.place = self;
        nd
    }
}

/// A process of `nd` that has not been waited for; killed when dropped.
#[derive(Debug)]
pub struct Nd {
    what: String,
    child: Child,
    place: Place,
    lines: Receiver<Line>,
    seen: [String; 2],
    open: usize,
}

#[derive(Debug)]
enum Line {
    Text(usize, String),
    End,
}

/// The exit status and the output of a process.
#[derive(Debug)]
pub struct Finished {
    /// Its command line.
    pub what: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Starts `nd` with these arguments.
pub fn start<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Nd {
    let mut command = Command::new(binary());
    command.args(args);
    Nd::spawn(command)
}

/// Starts `nd` from a shell that first runs `preparation`, such as a `ulimit`.
pub fn start_after<A: AsRef<OsStr>>(preparation: &str, args: impl IntoIterator<Item = A>) -> Nd {
    Place::Anywhere.start_after(preparation, args)
}

/// Starts `nd` by another program, whose words come first.
pub fn start_by<A: AsRef<OsStr>>(program: &[OsString], args: impl IntoIterator<Item = A>) -> Nd {
    let (program, words) = program.split_first().expect("a program");
    let mut command = Command::new(program);
    command.args(words).arg(binary()).args(args);
    Nd::spawn(command)
}

/// Starts a command line of the shell, which has to contain the path of `nd`.
pub fn shell(line: &str) -> Nd {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    Nd::spawn(command)
}

/// Runs `nd` with these arguments to its end.
pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Finished {
    start(args).finish()
}

/// Arguments of different types in one list.
#[macro_export]
macro_rules! args {
    ($($arg:expr),* $(,)?) => { [$(::std::ffi::OsString::from($arg)),*] };
}

impl Nd {
    fn spawn(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
            .env_remove("RUST_LOG")
            .env("NO_COLOR", "1")
            .env("RUST_BACKTRACE", "0");
        let words: Vec<OsString> = command.get_args().map(OsStr::to_owned).collect();
        let mut child = command.spawn().expect("nd starts");
        let (sender, lines) = unbounded();
        read_lines(0, child.stdout.take().expect("piped"), sender.clone());
        read_lines(1, child.stderr.take().expect("piped"), sender);
        Self {
            what: format!("nd {words:?}"),
            child,
            place: Place::Anywhere,
            lines,
            seen: Default::default(),
            open: 2,
        }
    }

    /// Waits for a line, on either output, for which `wanted` has an answer.
    ///
    /// # Panics
    /// If the process ends without such a line, or hangs.
    #[track_caller]
    pub fn wait_for<T>(&mut self, wanted: impl Fn(&str) -> Option<T>) -> T {
        if let Some(found) = self.wait_if_it_lives(wanted) {
            return found;
        }
        panic!(
            "{} ended before it said what was waited for:\n{}\n{}",
            self.what, self.seen[0], self.seen[1]
        );
    }

    /// As [`wait_for`](Self::wait_for), but `None` if the process ends without such a line.
    ///
    /// # Panics
    /// If the process hangs.
    #[track_caller]
    pub fn wait_if_it_lives<T>(&mut self, wanted: impl Fn(&str) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + HANG;
        while let Some((_, text)) = self.next_line(deadline) {
            if let Some(found) = wanted(&text) {
                return Some(found);
            }
        }
        None
    }

    /// The address that `nd cat recv` says it listens on.
    #[track_caller]
    pub fn address(&mut self) -> SocketAddr {
        self.wait_for(|line| {
            line.split_whitespace()
                .find_map(|word| word.trim_end_matches(['.', ',', ';']).parse().ok())
        })
    }

    /// A line of what the system says of the process, such as `VmHWM` (the most memory that was resident, in KiB) or `Threads`.
    ///
    /// # Panics
    /// If the process has ended, or on a system without `/proc`.
    pub fn status(&self, line: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("a process that lives");
        let found = status
            .lines()
            .find_map(|one| one.strip_prefix(line)?.strip_prefix(':'));
        let number = found.and_then(|found| found.split_whitespace().next()?.parse().ok());
        number.unwrap_or_else(|| panic!("no {line} in {status}"))
    }

    /// Returns how many descriptors the process has open.
    ///
    /// # Panics
    /// If the process has ended, or on a system without `/proc`.
    pub fn descriptors(&self) -> usize {
        let path = format!("/proc/{}/fd", self.child.id());
        std::fs::read_dir(path)
            .expect("a process that lives")
            .count()
    }

    /// The number of the process, as this process sees it. Process 1 must have written something.
    fn id(&self) -> u32 {
        let child = self.child.id();
        match self.place {
            Place::Anywhere => child,
            Place::Process1 => {
                let children =
                    std::fs::read_to_string(format!("/proc/{child}/task/{child}/children"));
                let children = children.expect("unshare lives as long as its child");
                children.trim().parse().expect("unshare has one child")
            }
        }
    }

    /// Sends a signal. Process 1 must have written something before.
    ///
    /// # Panics
    /// If the signal cannot be sent.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a process number");
        kill_process(id, signal).expect("our own process takes signals");
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// If the process hangs.
    #[track_caller]
    pub fn finish(mut self) -> Finished {
        let deadline = Instant::now() + HANG;
        while self.next_line(deadline).is_some() {}
        let status = self.child.wait().expect("a child can be waited for");
        let [stdout, stderr] = std::mem::take(&mut self.seen);
        Finished {
            what: std::mem::take(&mut self.what),
            status,
            stdout,
            stderr,
        }
    }

    #[track_caller]
    fn next_line(&mut self, deadline: Instant) -> Option<(usize, String)> {
        while self.open > 0 {
            match self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(Line::Text(output, text)) => {
                    self.seen[output].push_str(&text);
                    return Some((output, text));
                }
                Ok(Line::End) => self.open -= 1,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "{} hangs after:\n{}\n{}",
                        self.what, self.seen[0], self.seen[1]
                    )
                }
            }
        }
        None
    }
}

impl Drop for Nd {
    fn drop(&mut self) {
        // Both fail if the process has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(output: usize, pipe: impl Read + Send + 'static, sender: Sender<Line>) {
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        // A progress bar that is not on a terminal writes nothing. Invalid UTF-8 is replaced.
        while pipe
            .read_until(b'\n', &mut line)
            .is_ok_and(|length| length > 0)
        {
            let text = String::from_utf8_lossy(&line).into_owned();
            line.clear();
            if sender.send(Line::Text(output, text)).is_err() {
                return;
            }
        }
        let _ = sender.send(Line::End);
    });
}

impl Finished {
    /// Checks that the process succeeded, without a panic.
    ///
    /// # Panics
    /// When it is not so.
    #[track_caller]
    pub fn assert_success(&self) {
        assert!(self.status.success() && !self.panicked(), "{self}");
    }

    /// Checks that the process failed as a program should: with its own exit status (not a signal's), with only one line on
    /// standard error, which names `what`, and without a panic.
    ///
    /// # Panics
    /// When it is not so.
    #[track_caller]
    pub fn assert_failure(&self, what: &str) {
        assert!(
            self.status.code().is_some_and(|code| code != 0),
            "no exit status of its own: {self}"
        );
        assert!(!self.panicked(), "{self}");
        let errors: Vec<_> = self.stderr.lines().collect();
        assert_eq!(errors.len(), 1, "one line says what was wrong: {self}");
        assert!(errors[0].contains("error: "), "{self}");
        assert!(errors[0].contains(what), "{what:?} is not named: {self}");
    }

    fn panicked(&self) -> bool {
        self.status.code() == Some(101) || self.stderr.contains("panicked at")
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {}\n-- stdout\n{}\n-- stderr\n{}",
            self.what, self.status, self.stdout, self.stderr
        )
    }
}
