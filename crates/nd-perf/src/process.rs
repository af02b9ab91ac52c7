//! Runs other programs for a limited time, on their own core, and a server before its client.

use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

use crate::cores;

/// The failure of a program, in one sentence.
#[derive(Debug)]
pub struct ProgramFailure(String);

impl ProgramFailure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for ProgramFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProgramFailure {}

/// How long one run may take. Turns are far shorter, except on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(10);

/// The pause between two checks of a running process.
const LOOK: Duration = Duration::from_millis(1);

/// The pause between two clients of one server.
const AGAIN: Duration = Duration::from_millis(50);

/// The path of a program, if it is installed.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// A process that does not outlive this value.
#[derive(Debug)]
struct Running {
    child: Child,
    name: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(mut command: Command) -> Result<Self, ProgramFailure> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| ProgramFailure::new(format!("{name} does not start: {error}")))?;
        Ok(Self { child, name })
    }

    /// Returns the output of the process, once it has ended with success.
    fn finish(mut self, limit: Duration) -> Result<String, ProgramFailure> {
        let name = self.name.clone();
        let mut outputs = [
            self.child.stdout.take().map(Box::new).map(reader),
            self.child.stderr.take().map(Box::new).map(reader),
        ];
        let status = self.wait(limit)?;
        let mut text = outputs.each_mut().map(|output| {
            let output = output.take().and_then(|thread| thread.join().ok());
            output.unwrap_or_default()
        });
        if !status.success() {
            let said = text[1].lines().chain(text[0].lines()).next_back();
            let said = said.unwrap_or("without a word");
            return Err(ProgramFailure::new(format!(
                "{name} ended with {status}: {said}"
            )));
        }
        Ok(std::mem::take(&mut text[0]))
    }

    /// Waits for the end of a server that has served its client. If it does not end by itself, it is killed later, because the
    /// figures come from the client.
    fn has_served(&mut self) {
        let _ = self.wait(START);
    }

    fn wait(&mut self, limit: Duration) -> Result<ExitStatus, ProgramFailure> {
        let name = &self.name;
        match wait(&mut self.child, limit) {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(ProgramFailure::new(format!(
                "{name} has not ended in {limit:?}"
            ))),
            Err(error) => Err(ProgramFailure::new(format!("{name}: {error}"))),
        }
    }
}

/// Waits for the end of a process, no longer than `limit`. `None` if it still runs.
///
/// # Errors
///
/// Those of the system.
pub fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        thread::sleep(LOOK);
    }
}

/// Reads to the end in a thread, so that a pipe never fills up.
fn reader(mut from: Box<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut octets = Vec::new();
        // The text that was read before an error is still shown.
        let _ = from.read_to_end(&mut octets);
        String::from_utf8_lossy(&octets).into_owned()
    })
}

/// Runs a program to its end and returns what it printed.
///
/// # Errors
///
/// When it does not start, fails, or takes too long.
pub fn run(command: Command) -> Result<String, ProgramFailure> {
    Running::start(command)?.finish(LIMIT)
}

/// Runs a server until it listens on `port`, then a client to its end, and returns what the client printed.
///
/// # Errors
///
/// When one of them does not start, fails, or takes too long.
pub fn run_pair(server: Command, client: Command, port: u16) -> Result<String, ProgramFailure> {
    let mut server = Running::start(server)?;
    let deadline = Instant::now() + START;
    while !listens(server.child.id(), port) {
        if let Ok(Some(status)) = server.child.try_wait() {
            let name = &server.name;
            return Err(ProgramFailure::new(format!(
                "{name} ended with {status} before it listened"
            )));
        }
        if Instant::now() > deadline {
            let name = &server.name;
            return Err(ProgramFailure::new(format!(
                "{name} does not listen on port {port}"
            )));
        }
        thread::sleep(LOOK);
    }
    let printed = Running::start(client)?.finish(LIMIT)?;
    server.has_served();
    Ok(printed)
}

/// Runs a server, and clients until one of them ends well, and returns what that one printed. For servers whose listening cannot be seen,
/// as on a device.
///
/// # Errors
///
/// When the server does not start or ends, or no client ends well in time.
pub fn run_pair_by_trial(
    server: Command,
    client: impl Fn() -> Command,
) -> Result<String, ProgramFailure> {
    let mut server = Running::start(server)?;
    let deadline = Instant::now() + START;
    loop {
        let failure = match Running::start(client())?.finish(LIMIT) {
            Ok(printed) => {
                server.has_served();
                return Ok(printed);
            }
            Err(failure) => failure,
        };
        if let Ok(Some(status)) = server.child.try_wait()
            && !status.success()
        {
            return Err(server.finish(LIMIT).err().unwrap_or(failure));
        }
        if Instant::now() > deadline {
            return Err(failure);
        }
        thread::sleep(AGAIN);
    }
}

/// A port that is free at the moment.
///
/// # Errors
///
/// When there is none.
pub fn free_port() -> Result<u16, ProgramFailure> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| ProgramFailure::new(format!("there is no free port: {error}")))
}

/// Returns true if a process or one that it has started listens on a port: another program may have taken the port meanwhile. The function
/// does not connect, because the server would take the connection for its client.
fn listens(process: u32, port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let tables = tables
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok());
    let sockets: Vec<_> = tables
        .flat_map(|table| {
            let lines = table
                .lines()
                .filter_map(|line| listening_socket(line, port));
            lines.collect::<Vec<_>>()
        })
        .collect();
    !sockets.is_empty() && has_one(process, &sockets)
}

/// `  0: 0100007F:1F90 00000000:0000 0A … 4711 …`: local address, remote address, state, and after five more columns the number of the
/// socket. 0A listens. Returns the name by which a descriptor leads to the socket.
fn listening_socket(line: &str, port: u16) -> Option<String> {
    let mut words = line.split_whitespace().skip(1);
    let (local, _, state) = (words.next()?, words.next(), words.next());
    let (_, hex) = local.rsplit_once(':')?;
    let is_it = state == Some("0A") && u16::from_str_radix(hex, 16) == Ok(port);
    let number = words.nth(5).filter(|_| is_it)?;
    Some(format!("socket:[{number}]"))
}

/// Returns true if a process, or one that it has started, has one of these open.
fn has_one(process: u32, sockets: &[String]) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd"));
    let is_one = |path: PathBuf| sockets.iter().any(|socket| path.as_os_str() == &**socket);
    let mut targets = descriptors
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    if targets.any(is_one) {
        return true;
    }
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let children = children.unwrap_or_default();
    let mut children = children.split_whitespace().filter_map(|id| id.parse().ok());
    children.any(|child| has_one(child, sockets))
}

/// A command that runs on one core, if the system can do that: on this one of those that the process may use.
#[must_use]
pub fn on_core(core: usize, program: &PathBuf) -> Command {
    let core = cores::allowed().get(core);
    match find("taskset").zip(core) {
        Some((taskset, core)) => {
            let mut command = Command::new(taskset);
            command.arg("-c").arg(core.to_string()).arg(program);
            command
        }
        None => Command::new(program),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_ends_well_is_listened_to() {
        assert_eq!(run(shell("echo one; echo two >&2")).unwrap(), "one\n");
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let failure = run(shell("echo no such thing >&2; exit 3")).unwrap_err();
        let text = failure.to_string();
        assert!(
            text.contains("sh") && text.contains("no such thing"),
            "{text}"
        );
        let missing = run(Command::new("/no/such/program")).unwrap_err();
        assert!(missing.to_string().contains("/no/such/program"));
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let running = Running::start(shell("exec sleep 1000")).unwrap();
        let text = running.finish(Duration::ZERO).unwrap_err().to_string();
        assert!(text.contains("has not ended"), "{text}");
    }

    #[test]
    fn a_listening_socket_is_told_from_a_connected_one() {
        let line = |state| {
            format!(
                "   0: 0100007F:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000"
            )
        };
        let socket = Some("socket:[4711]".to_owned());
        assert_eq!(listening_socket(&line("0A"), 8080), socket);
        assert_eq!(listening_socket(&line("01"), 8080), None);
        assert_eq!(listening_socket(&line("0A"), 8081), None);
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        assert_eq!(listening_socket(head, 8080), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn who_listens_is_seen() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(std::process::id(), port));
        let other = Running::start(shell("exec sleep 1000")).unwrap();
        assert!(!listens(other.child.id(), port));
    }

    /// Another program listens at the port all the time.
    #[test]
    fn a_server_whose_port_was_taken_is_not_taken_for_listening() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let failure = run_pair(shell("exit 1"), shell("exit 0"), port).unwrap_err();
        assert!(
            failure.to_string().contains("before it listened"),
            "{failure}"
        );
    }

    #[test]
    fn a_server_that_ends_is_not_waited_for() {
        let port = free_port().unwrap();
        let failure = run_pair(shell("exit 1"), shell("exit 0"), port).unwrap_err();
        assert!(
            failure.to_string().contains("before it listened"),
            "{failure}"
        );
    }

    #[test]
    fn clients_are_tried_until_one_is_served() {
        let folder = tempfile::tempdir().expect("a folder");
        let served = folder.path().join("served");
        let served = served.display();
        // The first client comes before the server listens.
        let client = || {
            shell(&format!(
                "if mkdir {served} 2>/dev/null; then exit 1; else echo there; fi"
            ))
        };
        let printed = run_pair_by_trial(shell("exit 0"), client).expect("the second client");
        assert_eq!(printed, "there\n");
    }

    #[test]
    fn a_server_that_fails_is_quoted_and_its_clients_are_not() {
        let server = shell("echo no such device >&2; exit 1");
        let failure = run_pair_by_trial(server, || shell("exit 1")).expect_err("no server");
        assert!(failure.to_string().contains("no such device"), "{failure}");
    }
}
