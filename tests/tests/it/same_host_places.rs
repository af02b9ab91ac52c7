//! Connections within one machine between processes of two users or in two namespaces, of processes to which the system refuses calls, and of
//! programs in C over `libsoftnd.so`.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use softnd_tests::nd::{self, Finished, Nd};
use softnd_tests::own_network::{inside, ip};
use softnd_tests::tool;
use tempfile::TempDir;

use crate::same_host::{SHARED_WAY, Way, over_tcp};

const NO_NAME: &str = "no listener of this machine that has the option is at the address";
const NO_OFFER: &str = "the peer has made no offer";
const NO_ANSWER: &str = "the listener has not answered in time";
const OTHER_USER: &str = "the other end belongs to another user";
const SYSTEM: &str = "the system refuses a call";

/// A folder that all users can enter, with a file, and what has to be said to start `nd`.
struct Transfer {
    folder: TempDir,
    nd: PathBuf,
}

impl Transfer {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let octets: Vec<u8> = (0..=250).cycle().take(1_000_000).collect();
        fs::write(folder.path().join("from"), octets).unwrap();
        Self {
            folder,
            nd: nd::binary().to_owned(),
        }
    }

    /// Starts `nd cat` behind other words.
    fn start(&self, by: &[String], words: &[&str]) -> Nd {
        let mut line = by.join(" ");
        let nd = self.nd.to_str().unwrap();
        for word in [nd, "-vv", "--log-format", "json", "cat"]
            .iter()
            .chain(words)
        {
            line += &format!(" '{word}'");
        }
        nd::shell(&format!("exec {line} --same-host"))
    }

    /// Sends the file to this address from one process to another, each started by other words. Returns both, and compares the copy, which is
    /// in a folder of this name.
    fn cat(&self, by: [&[String]; 2], listen: &str, into: &str) -> [Finished; 2] {
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        let (from, to) = (path("from"), path(&format!("{into}/to")));
        let mut receiver = self.start(by[0], &["recv", "--listen", listen, "--out", &to]);
        let address = receiver.address().to_string();
        let sender = self.start(by[1], &["send", &from, &address]).finish();
        // Without it the receiver would wait for another one.
        sender.assert_success();
        let receiver = receiver.finish();
        assert!(
            fs::read(&to).ok() == fs::read(&from).ok(),
            "{receiver}{sender}"
        );
        [receiver, sender]
    }
}

fn ways(ends: &[Finished; 2]) -> [Way; 2] {
    [Way::of(&ends[0]), Way::of(&ends[1])]
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Returns true if this machine runs a program behind these words. If not, prints a message that names the skipped test.
fn is_possible(by: &[String]) -> bool {
    if tool::find(&by[0]).is_none() {
        return false;
    }
    let tried = Command::new(&by[0])
        .args(&by[1..])
        .arg("true")
        .output()
        .unwrap();
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        tool::skip_here(&format!("{}: {}", by.join(" "), why.trim()));
    }
    tried.status.success()
}

#[test]
fn two_users_are_on_tcp() {
    const OTHER: u32 = 54_324;
    let other = words(&format!(
        "setpriv --reuid={OTHER} --regid={OTHER} --clear-groups"
    ));
    if !is_possible(&other) {
        return;
    }
    let mut transfer = Transfer::new();
    // The other user may not enter the folder with the program.
    let copy = transfer.folder.path().join("nd");
    fs::hard_link(&transfer.nd, &copy).unwrap_or_else(|_| {
        let copied = Command::new("cp").args([&transfer.nd, &copy]).status();
        assert!(copied.unwrap().success());
    });
    transfer.nd = copy;
    for (name, owner) in [("own", None), ("other", Some(OTHER))] {
        let folder = transfer.folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        chown(&folder, owner, owner).unwrap();
    }
    let expected = [over_tcp(Some(NO_OFFER)), over_tcp(Some(OTHER_USER))];
    let sent = transfer.cat([&[], &other], "127.0.0.1:0", "own");
    assert_eq!(ways(&sent), expected);
    let received = transfer.cat([&other, &[]], "127.0.0.1:0", "other");
    assert_eq!(ways(&received), expected);
    let among_others = transfer.cat([&other, &other], "127.0.0.1:0", "other");
    assert_eq!(ways(&among_others), [SHARED_WAY, SHARED_WAY]);
}

/// As containers do that share the network of their machine or pod.
#[test]
fn processes_in_other_namespaces_on_one_network_share_memory() {
    let apart = words("unshare --user --map-root-user --mount --pid --fork --kill-child");
    if !is_possible(&apart) {
        return;
    }
    let transfer = Transfer::new();
    for by in [[&[][..], &apart], [&apart, &[]], [&apart, &apart]] {
        let ends = transfer.cat(by, "127.0.0.1:0", ".");
        assert_eq!(ways(&ends), [SHARED_WAY, SHARED_WAY], "{by:?}");
    }
}

/// A user without a number is no user: others may have none either.
#[test]
fn users_without_a_number_in_their_namespace_are_on_tcp() {
    let unmapped = words("unshare --user");
    if !is_possible(&unmapped) {
        return;
    }
    let transfer = Transfer::new();
    // A connector from outside sees its own user at the name, and the listener no user at all.
    for (by, reason) in [
        ([&[][..], &unmapped], OTHER_USER),
        ([&unmapped, &[]], NO_ANSWER),
        ([&unmapped, &unmapped], OTHER_USER),
    ] {
        let ends = transfer.cat(by, "127.0.0.1:0", ".");
        let expected = [over_tcp(Some(NO_OFFER)), over_tcp(Some(reason))];
        assert_eq!(ways(&ends), expected, "{by:?}");
    }
}

/// A network namespace, which lasts as long as its process.
struct Network {
    process: Child,
    _input: ChildStdin,
}

impl Network {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo made; exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut made = [0; 5];
        process
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut made)
            .unwrap();
        let input = process.stdin.take().unwrap();
        Self {
            process,
            _input: input,
        }
    }

    /// The words that run a program in it.
    fn by(&self) -> Vec<String> {
        words(&format!("nsenter --target={} --net", self.process.id()))
    }

    fn ip(&self, line: &str) {
        let by = self.by();
        let status = Command::new(&by[0])
            .args(&by[1..])
            .arg("ip")
            .args(line.split(' '))
            .status();
        assert!(status.unwrap().success(), "ip {line}");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn processes_on_two_networks_are_on_tcp() {
    let test = "same_host_places::processes_on_two_networks_are_on_tcp";
    let network = "ip link set lo up; ip link add here type veth peer name there; \
                   ip addr add 10.91.0.1/24 dev here; ip link set here up";
    inside(test, network, || {
        if tool::find("nsenter").is_none() {
            return;
        }
        let other = Network::new();
        ip(&format!("link set there netns {}", other.process.id()));
        other.ip("addr add 10.91.0.2/24 dev there");
        other.ip("link set there up");
        let transfer = Transfer::new();
        let ends = transfer.cat([&[], &other.by()], "10.91.0.1:0", ".");
        assert_eq!(
            ways(&ends),
            [over_tcp(Some(NO_OFFER)), over_tcp(Some(NO_NAME))]
        );
        // The same address and both processes on one of them.
        let ends = transfer.cat([&[], &[]], "10.91.0.1:0", ".");
        assert_eq!(ways(&ends), [SHARED_WAY, SHARED_WAY]);
    });
}

/// The lines of the log that say at level warn what the system refuses.
fn warnings(side: &Finished) -> usize {
    let lines = side.stderr.lines();
    lines
        .filter(|line| line.contains("\"WARN\"") && line.contains("shared memory"))
        .count()
}

/// The two ends, with the refused call at one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Receiver,
    Sender,
}
use At::{Receiver, Sender};

/// Every call that shared memory needs beyond those of TCP: the file arrives, and one line of the log says why.
#[test]
fn whatever_call_the_system_refuses_the_connection_is_over_tcp() {
    let transfer = Transfer::new();
    // The length of an abstract name for this address and a port of five digits.
    let name = 2 + 1 + "softnd-1/127.0.0.1:54321".len();
    let at_sender = [
        "memfd_create:EPERM",
        "memfd_create:ENOSYS",
        "memfd_create:EMFILE",
        "memfd_create:ENOMEM",
        "ftruncate:EPERM",
        // F_ADD_SEALS
        "fcntl:EPERM:1=1033",
        // AF_UNIX
        "socket:EPERM:0=1",
        "socket:ENOSYS:0=1",
        "socket:EMFILE:0=1",
        "socket:EAFNOSUPPORT:0=1",
        // MAP_SHARED
        "mmap:ENOMEM:3=1",
        "mmap:EPERM:3=1",
        // SO_PEERCRED
        "getsockopt:ENOPROTOOPT:1=1,2=17",
        // MADV_DONTFORK
        "madvise:ENOSYS:2=10",
    ];
    let connect = format!("connect:EPERM:2={name}");
    let senders = at_sender.into_iter().chain([&*connect]);
    let senders = senders.map(|call| (Sender, call, [Some(NO_OFFER), Some(SYSTEM)]));
    let bind = format!("bind:EPERM:2={name}");
    let receivers = [
        // Without a name nobody offers anything.
        ("socket:EPERM:0=1", [None, Some(NO_NAME)]),
        ("socket:EMFILE:0=1", [None, Some(NO_NAME)]),
        (&bind, [None, Some(NO_NAME)]),
        ("mmap:ENOMEM:3=1", [Some(SYSTEM), Some(NO_ANSWER)]),
        ("mmap:EPERM:3=1", [Some(SYSTEM), Some(NO_ANSWER)]),
        // F_GET_SEALS
        ("fcntl:EPERM:1=1034", [Some(SYSTEM), Some(NO_ANSWER)]),
        (
            "getsockopt:EPERM:1=1,2=17",
            [Some(NO_OFFER), Some(NO_ANSWER)],
        ),
        ("fstatfs:ENOSYS", [Some(SYSTEM), Some(NO_ANSWER)]),
        ("madvise:EPERM:2=10", [Some(SYSTEM), Some(NO_ANSWER)]),
    ];
    let receivers = receivers
        .into_iter()
        .map(|(call, reasons)| (Receiver, call, reasons));
    for (at, call, reasons) in senders.chain(receivers) {
        let by = [env!("CARGO_BIN_EXE_refuse_calls"), call, "--"].map(str::to_owned);
        let ends = match at {
            Receiver => transfer.cat([&by, &[]], "127.0.0.1:0", "."),
            Sender => transfer.cat([&[], &by], "127.0.0.1:0", "."),
        };
        assert_eq!(ways(&ends), reasons.map(over_tcp), "{at:?} {call}");
        let expected = if at == Receiver { [1, 0] } else { [0, 1] };
        assert_eq!(ends.each_ref().map(warnings), expected, "{at:?} {call}");
    }
}

/// A sample in C, compiled as its readme says.
struct Sample {
    folder: TempDir,
}

impl Sample {
    /// `None` without a compiler, after a message that names the skipped test.
    fn compile(name: &str) -> Option<Self> {
        let compiler = tool::find("cc")?;
        nd::build_libraries();
        let libraries = nd::binary().parent().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let output = Command::new(compiler)
            .arg(root.join("samples").join(name))
            .arg("-I")
            .arg(root.join("include"))
            .arg("-o")
            .arg(folder.path().join("sample"))
            .arg("-L")
            .arg(libraries)
            .args(["-lnetdirect", "-pthread"])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        // The name that the dynamic linker looks for has the part of the version that has to be the same.
        let version = match env!("CARGO_PKG_VERSION_MAJOR") {
            "0" => concat!("0.", env!("CARGO_PKG_VERSION_MINOR")),
            major => major,
        };
        let library = folder.path().join(format!("libnetdirect.so.{version}"));
        std::os::unix::fs::symlink(libraries.join("libnetdirect.so"), library).unwrap();
        Some(Self { folder })
    }

    fn command(&self, arguments: &[&str], value: &str) -> Command {
        let mut command = Command::new(self.folder.path().join("sample"));
        command
            .args(arguments)
            .env("LD_LIBRARY_PATH", self.folder.path())
            .env("ND_PROVIDER", nd::binary().with_file_name("libsoftnd.so"))
            .env("SOFTND_COM_LOG", "debug")
            .env("SOFTND_SAME_HOST", value)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a server and its client, with this value of the variable.
    fn run(&self, value: &str) -> [Output; 2] {
        let mut server = self
            .command(&["-s", "127.0.0.1", "0"], value)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            Some(line.strip_prefix("listening on port ")?.to_owned())
        });
        let port = port.expect("the server has announced its port");
        let client = self
            .command(&["-c", "127.0.0.1", &port], value)
            .output()
            .unwrap();
        for line in lines {
            println!("{}", line.unwrap());
        }
        [server.wait_with_output().unwrap(), client]
    }
}

/// The number of connections over shared memory that the adapter of a program has counted. The log shows counters that are not 0 when the
/// program releases the adapter.
fn shared(output: &Output) -> u64 {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let lines = said
        .lines()
        .filter(|line| line.contains("the client has released the adapter"));
    let [line] = lines.collect::<Vec<_>>()[..] else {
        panic!("not one adapter: {said}");
    };
    let count = line.split_once("same_host.connections ");
    count.map_or(0, |(_, rest)| {
        let digits = rest.split(|char: char| !char.is_ascii_digit()).next();
        digits.unwrap().parse().unwrap()
    })
}

#[test]
fn programs_in_c_count_connections_over_shared_memory_by_a_variable() {
    for name in ["event.c", "polling.c"] {
        let Some(sample) = Sample::compile(name) else {
            return;
        };
        for (value, connections) in [("1", 1), ("0", 0)] {
            let ends = sample.run(value);
            assert_eq!(ends.each_ref().map(shared), [connections; 2], "{name}");
        }
    }
}
