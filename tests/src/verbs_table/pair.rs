//! Runs a pair.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::net::{Ipv4Addr, TcpListener};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::rows::Row;
use crate::dissect::Dissection;
use crate::nd;
use crate::verbs_programs::free_port;

/// A limit for each command, in seconds. It only ends a hang.
const LIMIT: &str = "300";
/// A server may still be at work on the end of its client's connection. The number only ends a hang.
const FINISH_ATTEMPTS: usize = 10_000;
/// As much of a capture is dissected; tshark takes a minute for 10 MB.
const DISSECTED: usize = 1 << 20;

/// The folders of the captures of each role.
const SERVER: &str = "server";
const CLIENT: &str = "client";

/// The result of a row: `None` for a role that the row does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The server's end.
    pub server: Option<Result<(), String>>,
    /// The end of the client, or of all clients.
    pub client: Result<(), String>,
    /// The result of tshark for the client's capture.
    pub capture: Option<Result<(), String>>,
}

impl Outcome {
    /// Returns the failures.
    pub fn failures(&self) -> Vec<&str> {
        let all = [
            self.server.as_ref(),
            Some(&self.client),
            self.capture.as_ref(),
        ];
        let failed = all.into_iter().flatten();
        failed
            .filter_map(|one| one.as_ref().err().map(String::as_str))
            .collect()
    }
}

/// Runs a row, and once more with capture.
///
/// # Panics
/// If a command cannot be started.
pub fn run(row: &Row, tshark: &Path) -> Outcome {
    let mut outcome = run_once(row, "", None);
    if let Some(few) = row.captured
        && outcome.failures().is_empty()
    {
        let folder = tempfile::tempdir().expect("a folder for the captures");
        let captured = run_once(row, few, Some(folder.path()));
        let dissected = match captured.failures().first() {
            Some(failure) => Err(format!("with capture: {failure}")),
            None => dissect(folder.path(), row, tshark),
        };
        outcome.capture = Some(dissected);
    }
    outcome
}

fn run_once(row: &Row, more: &str, captures: Option<&Path>) -> Outcome {
    let port = match row.port {
        Some(port) => port.to_owned(),
        None if row.low_port => free_low_port(),
        None => free_port(),
    };
    let (other, folder) = (
        free_port(),
        tempfile::tempdir().expect("a folder for the pair"),
    );
    if let Some((name, text)) = row.file {
        fs::write(folder.path().join(name), text).expect("a file can be made");
    }
    let folder = folder.path().to_str().expect("a path of the tests");
    let filled = |text: &str| {
        let text = text.replace("PORT", &port).replace("OTHER", &other);
        text.replace("FOLDER", folder)
    };
    let start = |text: &str, role: &str| {
        let text = filled(&format!("{text} {more}"));
        let captures = captures.map(|folder| folder.join(role));
        Running::start(row, &text, captures.as_deref())
    };
    let mut server = (!row.server.is_empty()).then(|| start(row.server, SERVER));
    if let Some(server) = &mut server {
        let ready = server.listens(&port);
        if let Err(why) = ready.and_then(|()| commands(row.prepare, 1, filled)) {
            server.stop();
            return Outcome {
                server: Some(Err(why)),
                client: Err("its server was not ready".to_owned()),
                capture: None,
            };
        }
    }
    let mut clients: Vec<_> = Vec::new();
    for index in 0..row.clients {
        let mut client = start(row.client, CLIENT);
        if row.clients > 1 {
            client.connects(&port, index + 1);
        }
        clients.push(client);
    }
    // A client prints this about a whole run, but not about the short run for a capture.
    let says = if captures.is_some() { "" } else { row.says };
    let ends = clients.into_iter().map(|client| client.ends(says));
    let client = ends.fold(Ok(()), Result::and);
    let server = server.map(|mut server| {
        if !row.server_ends {
            return server.is_stopped();
        }
        let finished = commands(row.finish, FINISH_ATTEMPTS, filled);
        if client.is_err() || finished.is_err() {
            server.stop();
        }
        server.ends("")
    });
    Outcome {
        server,
        client,
        capture: None,
    }
}

/// A port below 32,768 that was free a moment ago. Each call begins behind the port of the one before.
fn free_low_port() -> String {
    static LAST: AtomicU16 = AtomicU16::new(20_000);
    loop {
        let port = LAST.fetch_add(1, Ordering::Relaxed);
        assert!(port < 32_768, "no port is free");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port.to_string();
        }
    }
}

/// Runs commands one after the other, up to the first that fails `attempts` times.
fn commands(all: &[&str], attempts: usize, filled: impl Fn(&str) -> String) -> Result<(), String> {
    for text in all {
        let text = filled(text);
        let mut attempt = 1;
        loop {
            let mut command = Command::new("timeout");
            command.arg("30").args(text.split_whitespace());
            let output = command.stdin(Stdio::null()).output();
            let output = output.expect("timeout starts");
            if output.status.success() {
                break;
            }
            if attempt == attempts {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{text}: {}: {}", output.status, said.trim()));
            }
            attempt += 1;
        }
    }
    Ok(())
}

/// A command that runs, under a time limit. It is ended when the value is dropped.
struct Running {
    child: Child,
    what: String,
    /// Standard output and standard error.
    output: File,
}

impl Running {
    fn start(row: &Row, text: &str, captures: Option<&Path>) -> Self {
        let output = tempfile::tempfile().expect("a file for the output");
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", LIMIT]).arg(nd::binary());
        let words = text.split_whitespace();
        if let Some(own) = text.strip_prefix("nd ") {
            command.args(own.split_whitespace());
        } else {
            command.arg("run");
            if row.as_iwarp {
                command.args(["--as", "iwarp"]);
            }
            if let Some(folder) = captures {
                command.arg("--capture").arg(folder);
            }
            // In the table these words are quoted for a shell.
            command
                .arg("--")
                .args(words.map(|word| word.trim_matches('"')));
        }
        command.stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a second descriptor"));
        command.stderr(output.try_clone().expect("a second descriptor"));
        Self {
            child: command.spawn().expect("timeout starts"),
            what: text.trim().to_owned(),
            output,
        }
    }

    /// Waits until a socket of TCP listens at the port, or one of UDP is there.
    fn listens(&mut self, port: &str) -> Result<(), String> {
        let port: u16 = port.parse().expect("a port");
        while sockets(&TCP, port, |state| state == LISTEN) == 0
            && sockets(&UDP, port, |_| true) == 0
        {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return Err(self.failure(status));
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Waits until the port has had this many connections, those included that have just ended, or until the program has ended.
    fn connects(&mut self, port: &str, count: usize) {
        let port: u16 = port.parse().expect("a port");
        while sockets(&TCP, port, |state| state != LISTEN) < count
            && self.child.try_wait().expect("a child").is_none()
        {
            thread::yield_now();
        }
    }

    /// Waits for the end, which has to be a success.
    fn ends(mut self, says: &str) -> Result<(), String> {
        let status = self.child.wait().expect("a child");
        match status.success() && self.said().contains(says) {
            true => Ok(()),
            false => Err(self.failure(status)),
        }
    }

    /// Ends a server, which has to run until then.
    fn is_stopped(&mut self) -> Result<(), String> {
        if let Some(status) = self.child.try_wait().expect("a child") {
            return Err(self.failure(status));
        }
        self.stop();
        self.child.wait().expect("a child");
        Ok(())
    }

    /// `timeout` passes the signal on.
    fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::TERM);
    }

    fn said(&mut self) -> String {
        let mut said = Vec::new();
        self.output.rewind().expect("a file");
        self.output.read_to_end(&mut said).expect("a file");
        String::from_utf8_lossy(&said).into_owned()
    }

    fn failure(&mut self, status: ExitStatus) -> String {
        let said = self.said();
        let last: Vec<_> = said.lines().rev().take(3).collect();
        let last: Vec<_> = last.into_iter().rev().collect();
        format!("{}: {status}: {}", self.what, last.join(" / "))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.stop();
            let _ = self.child.wait();
        }
    }
}

/// The state of a TCP socket that listens, as the kernel writes it.
const LISTEN: &str = "0A";

/// The kernel's lists of sockets.
const TCP: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
const UDP: [&str; 2] = ["/proc/net/udp", "/proc/net/udp6"];

/// Returns how many sockets of this machine in these lists with this local port are in such a state.
fn sockets(lists: &[&str; 2], port: u16, is_such: impl Fn(&str) -> bool) -> usize {
    let local = format!(":{port:04X}");
    let tables = lists.map(fs::read_to_string);
    let lines = tables.iter().flatten().flat_map(|table| table.lines());
    lines
        .filter(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.len() > 3 && words[1].ends_with(&local) && is_such(words[3])
        })
        .count()
}

/// Dissects what the program captured that runs by `nd run`.
fn dissect(folder: &Path, row: &Row, tshark: &Path) -> Result<(), String> {
    let role = match row.client.starts_with("nd ") {
        true => SERVER,
        false => CLIENT,
    };
    let capture = captures_in(&folder.join(role));
    let [capture] = &*capture else {
        return Err(format!("{} captures of the {role}", capture.len()));
    };
    shorten(capture);
    let checked = catch_unwind(|| Dissection::new(tshark, capture).assert_clean());
    checked.map_err(|panic| {
        let text = panic.downcast_ref::<String>();
        text.map_or("tshark finds a fault", String::as_str)
            .to_owned()
    })
}

fn captures_in(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("the folder of the captures");
    files.map(|file| file.expect("a file").path()).collect()
}

/// Leaves the first blocks of a pcapng file.
fn shorten(capture: &Path) {
    let octets = fs::read(capture).expect("a capture");
    let mut end = 0;
    while end < octets.len().min(DISSECTED) {
        let length = octets[end + 4..end + 8].try_into().expect("four octets");
        end += u32::from_le_bytes(length) as usize;
    }
    fs::write(capture, &octets[..end]).expect("a capture");
}
