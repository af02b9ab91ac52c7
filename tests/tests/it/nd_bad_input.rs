//! How `nd` reacts to bad input: one line that says what was wrong, an exit status, and no incomplete file under the final
//! name.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use softnd_tests::nd::{self, Nd};
use softnd_tests::proxy::{Middle, Proxy, noise};
use softnd_tests::side_by_side::side_by_side;
use softnd_tests::{args, tool};

const WAYS: [&str; 3] = ["send", "write", "read"];

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// A folder with a file `original` of this many octets.
    fn with_file(length: usize) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::write(place.original(), noise(length)).unwrap();
        place
    }

    fn original(&self) -> PathBuf {
        self.folder.path().join("original")
    }

    fn copy(&self) -> PathBuf {
        self.folder.path().join("out").join("copy")
    }

    /// Starts a receiver that writes into its own folder.
    fn receiver(&self, options: &[&str]) -> Nd {
        self.receiver_after(":", options)
    }

    fn receiver_after(&self, preparation: &str, options: &[&str]) -> Nd {
        fs::create_dir_all(self.copy().parent().unwrap()).unwrap();
        let recv = args![
            "cat",
            "recv",
            "--listen",
            "127.0.0.1:0",
            "--out",
            self.copy()
        ];
        nd::start_after(
            preparation,
            recv.into_iter().chain(options.iter().map(Into::into)),
        )
    }

    fn sender(&self, address: SocketAddr, options: &[&str]) -> Nd {
        let send = args!["cat", "send", self.original(), address.to_string()];
        nd::start(send.into_iter().chain(options.iter().map(Into::into)))
    }

    /// A new pipe, and what opens it for writing when a reader has opened it.
    fn pipe(&self) -> (PathBuf, impl FnOnce() -> fs::File + use<>) {
        let pipe = self.folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let _ = fs::remove_file(&pipe);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let path = pipe.clone();
        (pipe, move || {
            fs::OpenOptions::new().write(true).open(path).unwrap()
        })
    }

    /// Checks that there is no file, neither under the final name nor under another one.
    #[track_caller]
    fn assert_nothing_written(&self) {
        let left: Vec<_> = fs::read_dir(self.copy().parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(left, <[PathBuf; 0]>::default());
    }
}

/// An address that refuses every connection as long as the value lives, because the port is bound and has no listener.
struct Nobody {
    _socket: rustix::fd::OwnedFd,
    address: SocketAddr,
}

impl Nobody {
    fn new() -> Self {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = rustix::net::getsockname(&socket)
            .unwrap()
            .try_into()
            .unwrap();
        Self {
            _socket: socket,
            address,
        }
    }
}

/// A server that reads a little, answers with these octets, and closes.
fn answering(octets: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        // Twice, for a client that makes a second attempt.
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 16]);
            let _ = stream.write_all(&octets);
        }
    });
    address
}

const HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn a_file_that_does_not_exist() {
    let nobody = Nobody::new();
    let sent = nd::run(args![
        "cat",
        "send",
        "/no/such/file",
        nobody.address.to_string()
    ]);
    sent.assert_failure("/no/such/file");
}

#[test]
fn a_folder_in_place_of_a_file() {
    let nobody = Nobody::new();
    let folder = tempfile::tempdir().unwrap();
    nd::run(args![
        "cat",
        "send",
        folder.path(),
        nobody.address.to_string()
    ])
    .assert_failure("cannot");
    nd::run(args![
        "cat",
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--out",
        folder.path()
    ])
    .assert_failure("cannot");
}

#[test]
fn a_place_that_does_not_exist() {
    let place = "/no/such/folder/copy";
    nd::run(args![
        "cat",
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--out",
        place
    ])
    .assert_failure("cannot write /no/such/folder/copy: /no/such/folder does not exist");
    nd::run(args![
        "cat",
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--out",
        "x",
        "--capture",
        place
    ])
    .assert_failure(place);
}

#[test]
fn a_capture_in_the_place_of_the_file() {
    let place = Place::with_file(10);
    let nobody = Nobody::new();
    let original = place.original();
    let capture = place.folder.path().join(".").join("original");
    let address = nobody.address.to_string();
    let send = args!["cat", "send", &original, address, "--capture", capture];
    nd::run(send).assert_failure("are the same");
    assert_eq!(fs::read(&original).unwrap(), noise(10));

    let new = place.folder.path().join("new");
    let recv = args![
        "cat",
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--out",
        &new,
        "--capture",
        &new
    ];
    nd::run(recv).assert_failure("are the same");
    assert!(!new.exists());
}

/// A copy of the program in the folder, where other users may reach it. Another process makes the copy. If this process had
/// the file open for writing, processes that other tests start meanwhile would have it open as well, and it could not be
/// run.
fn program_for_all(folder: &Path) -> PathBuf {
    let program = folder.join("nd");
    let copied = Command::new("cp").args([nd::binary(), &program]).status();
    assert!(copied.unwrap().success());
    program
}

/// The superuser may do everything, so the tests first give up these rights if they have them.
#[test]
fn no_permission() {
    let place = Place::with_file(10);
    let program = program_for_all(place.folder.path());
    let open = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap()
    };
    open(place.folder.path(), 0o555);
    open(&place.original(), 0o000);

    let mut prefix = String::new();
    if rustix::process::geteuid().is_root() {
        if tool::find("setpriv").is_none() {
            return;
        }
        prefix = "setpriv --reuid=65534 --regid=65534 --clear-groups".into();
    }
    let nobody = Nobody::new();
    // A temporary folder may have spaces in its name.
    let command = format!("exec {prefix} '{}'", program.display());
    let sent = nd::shell(&format!(
        "{command} cat send '{}' {}",
        place.original().display(),
        nobody.address
    ))
    .finish();
    sent.assert_failure("ermission");
    let copy = place.folder.path().join("copy");
    let received = nd::shell(&format!(
        "{command} cat recv --listen 127.0.0.1:0 --out '{}'",
        copy.display()
    ))
    .finish();
    received.assert_failure("ermission");
    assert!(!copy.exists());
    open(place.folder.path(), 0o755);
}

/// A substitute for a full disk: the system refuses to let files grow beyond 500 KiB, and sends a signal that would end the
/// process.
const FULL: &str = "ulimit -f 1000";

#[test]
fn a_full_disk() {
    for via in WAYS {
        let place = Place::with_file(3 << 20);
        let mut recv = place.receiver_after(FULL, &[]);
        let sent = place.sender(recv.address(), &["--via", via]).finish();
        recv.finish().assert_failure("ulimit -f");
        sent.assert_failure("");
        place.assert_nothing_written();
    }
}

#[test]
fn a_full_disk_for_the_capture() {
    let nobody = Nobody::new();
    let place = Place::with_file(3 << 20);
    place
        .sender(nobody.address, &["--capture", "/dev/full"])
        .finish()
        .assert_failure("/dev/full");

    // In the middle of the transfer: the file arrives nevertheless, and an error reports the incomplete capture.
    let capture = place.folder.path().join("capture.pcapng");
    let mut recv = place.receiver(&[]);
    let address = recv.address().to_string();
    let send = args![
        "cat",
        "send",
        place.original(),
        address,
        "--capture",
        &capture
    ];
    nd::start_after(FULL, send)
        .finish()
        .assert_failure("capture.pcapng");
    // The file holds whole blocks only. A block begins with its kind and its length.
    let captured = fs::read(&capture).unwrap();
    let mut at = 0;
    while let Some(length) = captured.get(at + 4..at + 8) {
        at += u32::from_le_bytes(length.try_into().unwrap()) as usize;
    }
    assert!(captured.len() > 400 << 10);
    assert_eq!(at, captured.len());
    recv.finish().assert_success();
    assert!(fs::read(place.copy()).unwrap() == noise(3 << 20));
}

#[test]
fn a_capture_that_is_full_says_so_once() {
    for files in [1, 4] {
        let place = Place::with_file(3 << 20);
        let at = |name: &str| place.folder.path().join(name);
        let mut recv = place.receiver(&[]);
        let address = recv.address().to_string();
        let sent = nd::run(args![
            "cat",
            "send",
            place.original(),
            address,
            "--capture",
            at("c.pcapng"),
            "--capture-limit",
            "1M",
            "--capture-files",
            files.to_string()
        ]);
        sent.assert_success();
        recv.finish().assert_success();
        assert!(fs::read(place.copy()).unwrap() == noise(3 << 20));
        let said = sent
            .stderr
            .matches("the capture has reached its limit of 1048576 octets");
        assert_eq!(said.count(), usize::from(files == 1), "{}", sent.stderr);
        let names: Vec<_> = match files {
            1 => vec![at("c.pcapng")],
            _ => (1..=files).map(|n| at(&format!("c-{n}.pcapng"))).collect(),
        };
        let lengths = names.iter().map(|name| fs::metadata(name).unwrap().len());
        let all: u64 = lengths.sum();
        assert!(((600 << 10)..=(1 << 20)).contains(&all), "{all}");
    }
    let nobody = Nobody::new();
    let place = Place::with_file(10);
    for (options, words) in [
        (
            &["--capture", "/dev/null", "--capture-limit", "1k"][..],
            "256 KiB for each file",
        ),
        (
            &["--capture", "/dev/null", "--capture-files", "2"],
            "it is no file",
        ),
        (&["--capture", "c", "--capture-files", "0"], "1..=64"),
        (&["--capture-limit", "1M"], "--capture <FILE>"),
    ] {
        let sent = place.sender(nobody.address, options).finish();
        sent.assert_failure(words);
    }
}

/// A link could have been put there by another user, to have `nd` overwrite a file of its user's.
#[test]
fn a_capture_by_a_link() {
    let nobody = Nobody::new();
    let place = Place::with_file(10);
    let link = place.folder.path().join("link.pcapng");
    let target = place.folder.path().join("target");
    fs::write(&target, "content").unwrap();
    symlink(&target, &link).unwrap();
    let refused = place
        .sender(nobody.address, &["--capture", link.to_str().unwrap()])
        .finish();
    refused.assert_failure("create the capture");
    refused.assert_failure("it is a link to a file");
    assert_eq!(fs::read(&target).unwrap(), b"content");
}

#[test]
fn a_capture_through_a_pipe() {
    let place = Place::with_file(10);
    let mut recv = place.receiver(&[]);
    let sent = nd::shell(&format!(
        "{} cat send {} {} --capture /dev/stdout | (od -An -tx1 -N4; cat > /dev/null)",
        nd::binary().display(),
        place.original().display(),
        recv.address(),
    ))
    .finish();
    sent.assert_success();
    assert_eq!(sent.stdout.trim(), "0a 0d 0d 0a");
    recv.finish().assert_success();
}

/// Keys that others could read, or that cannot be written, end `nd` before it connects.
#[test]
fn a_key_log_that_cannot_be_used() {
    let place = Place::with_file(10);
    let keys = place.folder.path().join("keys");
    let send = |keys: &Path| {
        let line = args!["cat", "send", place.original(), "127.0.0.1:9", "--udp"];
        let preparation = format!("export SSLKEYLOGFILE='{}'", keys.display());
        nd::start_after(&preparation, line).finish()
    };
    fs::write(&keys, "").unwrap();
    fs::set_permissions(&keys, Permissions::from_mode(0o644)).unwrap();
    let refused = send(&keys);
    refused.assert_failure("cannot use what SSLKEYLOGFILE gives: ");
    refused.assert_failure("others may read it (its mode is 0644, and must be 0600)");

    fs::set_permissions(&keys, Permissions::from_mode(0o600)).unwrap();
    let link = place.folder.path().join("link");
    symlink(&keys, &link).unwrap();
    send(&link).assert_failure("it is a link to a file");

    let missing = place.folder.path().join("missing").join("keys");
    send(&missing).assert_failure("No such file");
    assert_eq!(fs::read(&keys).unwrap(), b"");
}

#[test]
fn an_address_in_use() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("copy");
    nd::run(args!["cat", "recv", "--listen", &address, "--out", &out]).assert_failure(&address);
    assert!(!out.exists());
}

#[test]
fn an_address_of_another_machine() {
    // TEST-NET-1, RFC 5737: an unused address.
    nd::run(args![
        "cat",
        "recv",
        "--listen",
        "192.0.2.1:0",
        "--out",
        "x"
    ])
    .assert_failure("192.0.2.1");
}

#[test]
fn a_name_that_cannot_be_resolved() {
    let place = Place::with_file(10);
    // RFC 6761 keeps this one unresolvable.
    let sent = nd::run(args![
        "cat",
        "send",
        place.original(),
        "no-such-host.invalid:7174"
    ]);
    sent.assert_failure("no-such-host.invalid");
    nd::run(args!["cat", "send", place.original(), "127.0.0.1"]).assert_failure("127.0.0.1");
    nd::run(args!["cat", "send", place.original(), "127.0.0.1:70000"]).assert_failure("70000");
}

#[test]
fn nobody_listens() {
    let place = Place::with_file(10);
    let nobody = Nobody::new();
    place
        .sender(nobody.address, &[])
        .finish()
        .assert_failure(&nobody.address.to_string());
}

#[test]
fn a_server_that_is_no_iwarp_peer() {
    for answer in [
        HTTP.to_vec(),
        noise(5000),
        Vec::new(),
        b"MPA ID Rep Frame".to_vec(),
    ] {
        let place = Place::with_file(10);
        place
            .sender(answering(answer), &[])
            .finish()
            .assert_failure("cannot");
    }
}

#[test]
fn a_server_that_says_nothing() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let place = Place::with_file(10);
    let sent = place
        .sender(silent.local_addr().unwrap(), &["--timeout", "0.5"])
        .finish();
    sent.assert_failure("cannot");
}

/// A client that does not speak iWARP is turned away, and the receiver goes on waiting.
#[test]
fn clients_that_are_no_iwarp_peers() {
    let place = Place::with_file(1000);
    let mut recv = place.receiver(&[]);
    let address = recv.address();
    for octets in [
        &b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"[..],
        &noise(5000),
        b"",
        b"MPA ID Req Frame",
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        // The receiver may close before it has taken all of this.
        let _ = stream.write_all(octets);
    }
    place.sender(address, &[]).finish().assert_success();
    recv.finish().assert_success();
    assert_eq!(fs::read(place.copy()).unwrap(), noise(1000));
}

/// Each peer that speaks no iWARP is a line, at the servers whose peers speak it from the first octet.
#[test]
fn servers_tell_of_peers_that_speak_no_iwarp() {
    let place = Place::with_file(1);
    // A Request of revision 9 (RFC 5044 section 7.1.1).
    let revision: [&[u8]; 2] = [b"MPA ID Req Frame", &[0x40, 9, 0, 0]];
    for mut server in [
        place.receiver(&[]),
        nd::start(["rping", "-s", "-a", "127.0.0.1", "-p", "0"]),
        nd::start(["perftest", "send_bw", "--listen", "127.0.0.1", "-p", "0"]),
    ] {
        let address = server.address();
        for (octets, why) in [
            (
                &b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"[..],
                "not an MPA start-up frame",
            ),
            (&revision.concat(), "MPA revision 9 is not supported"),
            (b"", "closed the stream"),
            (b"MPA ID Req", "closed the stream"),
        ] {
            let mut stream = TcpStream::connect(address).unwrap();
            let peer = stream.local_addr().unwrap();
            stream.write_all(octets).unwrap();
            // The server may have ended the connection by now.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let line = format!("nd: turned away {peer}, which asked for no connection: ");
            let said = server.wait_for(|said| said.strip_prefix(&line).map(str::to_owned));
            assert!(said.contains(why), "{said}");
        }
    }
}

/// A program that accepts connections and rejects this one is another thing than none.
#[test]
fn a_rejection_is_told_as_one() {
    let place = Place::with_file(1);
    let mut recv = place.receiver(&[]);
    let address = recv.address();
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let ping = nd::run(["rping", "-c", "-a", &host, "-p", &port]);
    ping.assert_failure("the program that listens there has rejected the connection");
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    if !Path::new("/dev/full").exists() {
        return tool::skip_here("this system has no /dev/full");
    }
    let nd = nd::binary().display();
    for help in ["--help", "--version", "cat recv --help"] {
        let run = nd::shell(&format!("exec {nd} {help} >/dev/full")).finish();
        run.assert_failure("cannot write to standard output");
    }
}

#[test]
fn a_directory_that_was_removed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "cd {0} && rmdir {0} && exec {1} cat recv --listen 127.0.0.1:0 --out copy",
        folder.path().display(),
        nd::binary().display()
    );
    nd::shell(&line)
        .finish()
        .assert_failure("cannot write copy: . was removed; ");
}

/// A transfer of 8 MiB that stops after the first MiB: receiver, sender, and the relay in between.
fn stuck(place: &Place, via: &str) -> (Nd, Nd, Middle) {
    let mut recv = place.receiver(&[]);
    let proxy = Proxy::start(recv.address(), 1 << 20);
    let send = place.sender(proxy.address(), &["--via", via]);
    let middle = proxy.middle().expect("more is sent than is relayed");
    // A receiver that has no block yet would go on waiting for another sender.
    wait_for_first_block(&mut recv);
    (recv, send, middle)
}

fn wait_for_first_block(recv: &mut Nd) {
    recv.wait_for(|line| line.starts_with("receiving from ").then_some(()));
}

#[test]
fn a_peer_that_dies_in_the_middle() {
    side_by_side(WAYS, |via| {
        let place = Place::with_file(8 << 20);
        let (recv, send, middle) = stuck(&place, via);
        send.signal(Signal::KILL);
        middle.close();
        recv.finish().assert_failure("");
        place.assert_nothing_written();

        let (recv, send, middle) = stuck(&place, via);
        recv.signal(Signal::KILL);
        middle.close();
        send.finish().assert_failure("");
        assert!(
            !place.copy().exists(),
            "not even a process that is killed leaves a file under the final name"
        );
        drop(recv);
    });
}

#[test]
fn a_connection_that_ends_in_the_middle() {
    side_by_side(WAYS, |via| {
        let place = Place::with_file(8 << 20);
        let (recv, send, middle) = stuck(&place, via);
        middle.close();
        recv.finish().assert_failure("");
        send.finish().assert_failure("");
        place.assert_nothing_written();
    });
}

#[test]
fn a_stream_that_goes_bad_in_the_middle() {
    side_by_side(WAYS, |via| {
        let place = Place::with_file(8 << 20);
        let (recv, send, mut middle) = stuck(&place, via);
        middle.garble();
        recv.finish().assert_failure("");
        send.finish().assert_failure("");
        place.assert_nothing_written();
    });
}

#[test]
fn a_peer_that_stops_reading() {
    side_by_side(WAYS, |via| {
        let place = Place::with_file(8 << 20);
        // Nothing passes any more in the direction of the file, so both sides see a silent peer. On a busy machine this may
        // happen before the middle; both sides then fail in the same way. The first block has passed, because the sender, which
        // reads from a pipe, waits for more until the receiver has it.
        let impatient = ["--via", via, "--timeout", "0.5"];
        let mut recv = place.receiver(&impatient[2..]);
        let proxy = Proxy::start(recv.address(), 1 << 20);
        let (pipe, feed) = place.pipe();
        let send = nd::shell(&format!(
            "cat '{}' | '{}' cat send /dev/stdin {} {}",
            pipe.display(),
            nd::binary().display(),
            proxy.address(),
            impatient.join(" ")
        ));
        let fed = thread::spawn(move || {
            let mut pipe = feed();
            pipe.write_all(&noise(1000)).map(|()| pipe)
        });
        wait_for_first_block(&mut recv);
        let mut pipe = fed.join().unwrap().unwrap();
        let fed = thread::spawn(move || {
            // The sender has ended before it has read all of this.
            let _ = pipe.write_all(&noise(8 << 20));
        });
        let middle = proxy.middle();
        send.finish().assert_failure("");
        recv.finish().assert_failure("");
        fed.join().unwrap();
        place.assert_nothing_written();
        drop(middle);

        // A peer that really stops, with the connection intact.
        let mut recv = place.receiver(&[]);
        let proxy = Proxy::start(recv.address(), 1 << 20);
        let send = place.sender(proxy.address(), &impatient);
        let middle = proxy.middle();
        recv.signal(Signal::STOP);
        send.finish().assert_failure("");
        assert!(!place.copy().exists());
        drop(middle);
    });
}

#[test]
fn private_data_that_is_too_long() {
    nd::run(args!["demo", "--private-data", "x".repeat(600)]).assert_failure("private data");
}

#[test]
fn an_adapter_that_does_not_exist() {
    for url in [
        "nonsense",
        "verbs+foo://x",
        "softnd+tcp://192.0.2.1",
        "softnd+tcp://nonsense",
    ] {
        nd::run(args!["info", url]).assert_failure(url);
    }
}

#[test]
fn a_command_line_that_makes_no_sense() {
    for (line, what) in [
        (
            &["cat", "recv"][..],
            "--listen <ADDR>, --out <FILE>; see `nd cat recv --help`",
        ),
        (
            &["cat", "send", "x", "y", "--via", "z"],
            "[possible values: send, write, read]",
        ),
        (&["inof"], "unrecognized subcommand 'inof'"),
        (&["info", "--bogus\n"], "'--bogus\\n'"),
        (&["conform"], "see `nd conform --help`"),
        (&["wire-conform"], "see `nd wire-conform --help`"),
        (&["perf", "run"], "see `nd perf run --help`"),
    ] {
        let run = nd::run(line);
        run.assert_failure(what);
        assert_eq!(run.status.code(), Some(2), "{run}");
        assert!(run.stdout.is_empty(), "{run}");
    }
    // Help is no error. A command line without a command is an error with more than one line.
    for (line, status) in [
        (&["--help"][..], 0),
        (&["cat", "send", "--help"], 0),
        (&[], 2),
    ] {
        let run = nd::run(line);
        assert_eq!(run.status.code(), Some(status), "{run}");
        let help = if status == 0 {
            &run.stdout
        } else {
            &run.stderr
        };
        assert!(help.contains("Usage: nd"), "{run}");
    }
}

#[test]
fn a_broadcast_address() {
    let place = Place::with_file(10);
    let sent = place
        .sender(SocketAddr::from((Ipv4Addr::BROADCAST, 7)), &[])
        .finish();
    sent.assert_failure("255.255.255.255:7");
    assert!(!sent.stderr.contains("permissions of the file"), "{sent}");
}

/// Whatever the limit is, the program ends by itself, with one line that says what to do.
#[test]
fn too_little_memory() {
    let commands = [
        &["info"][..],
        &["demo"],
        &[
            "perf",
            "local",
            "--op",
            "write",
            "--test",
            "bandwidth",
            "--size",
            "16M",
            "--depth",
            "2",
        ],
    ];
    for limit in [
        "ulimit -v 40000",
        "ulimit -v 60000",
        "ulimit -v 80000",
        // Room for one heap of a thread, and hardly any for other things.
        "ulimit -v 108000",
        "ulimit -v 110000",
        "ulimit -d 20000",
        "ulimit -d 70000",
    ] {
        for command in commands {
            let tiny = [
                "--turns",
                "3",
                "--duration",
                "0.006",
                "--mode",
                "event",
                "--crc",
                "off",
            ];
            let more = if command[0] == "perf" { &tiny[..] } else { &[] };
            let run = nd::start_after(limit, [command, more].concat()).finish();
            if run.status.success() {
                continue;
            }
            run.assert_failure("memory");
            assert!(run.stderr.contains("ulimit -"), "{run}");
        }
    }
}

#[test]
fn no_threads_left() {
    // The superuser may have as many as he likes.
    let mut prefix = String::from("prlimit --nproc=1:1");
    if tool::find("prlimit").is_none() {
        return;
    }
    if rustix::process::geteuid().is_root() {
        if tool::find("setpriv").is_none() {
            return;
        }
        prefix.insert_str(0, "setpriv --reuid=65534 --regid=65534 --clear-groups ");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = program_for_all(folder.path());
    fs::set_permissions(
        folder.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    nd::shell(&format!("exec {prefix} {} info", program.display()))
        .finish()
        .assert_failure("ulimit -u");
}

#[test]
fn a_wrong_environment_is_told_with_what_to_do() {
    let said = |variable: &str, value: &str, line: &str| {
        let mut command = Command::new(nd::binary());
        let command = command.args(line.split(' ')).env(variable, value);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{variable} {line}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(variable), "{line}: {said}");
        said
    };
    for line in [
        "info",
        "info 127.0.0.1",
        "rping -c -a 127.0.0.1 -p 1",
        "perf local --size 8",
    ] {
        let readiness = said("SOFTND_READINESS", "poll", line);
        let advice = "names no readiness interface of this system); \
                      set it to one of epoll, mio, kqueue-rules, flat, or unset it\n";
        assert!(readiness.ends_with(advice), "{line}: {readiness}");
        let congestion = said("SOFTND_CONGESTION", "bogus", line);
        assert!(
            congestion.contains("does not permit the congestion control \"bogus\""),
            "{line}: {congestion}"
        );
        let plan = said("SOFTND_FAULTS", "when each Write; sent", line);
        let advice = "; correct the environment variable, or unset it\n  when each Write; sent\n";
        assert!(plan.contains(advice), "{line}: {plan}");
    }
}
