//! Commands of `nd` to which the system refuses calls, as sandboxes, old kernels and policies do. A command works without the call, or
//! says which call was refused, in the system's words, with a remedy that fits. It never blames another host.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::thread;

use netdirect::{Affinity, Overlapped, QueuePairOptions, Started, Status};
use softnd::Options;
use softnd_tests::nd::{self, Finished, Nd};
use softnd_tests::refusals::{Refusal, refuse};

/// The side of a transfer to which calls are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Sender,
    Receiver,
}

/// The consequence of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The file arrives.
    Works,
    /// The command ends and names the call in these words.
    Fails(&'static str),
    /// The receiver names the call in these words, and goes on listening.
    Waits(&'static str),
}

use Outcome::{Fails, Waits, Works};

/// A program that has the kernel refuse a call to the program behind it.
fn refusing(refusal: &Refusal) -> [OsString; 3] {
    let program = env!("CARGO_BIN_EXE_refuse_calls").into();
    [program, refusal.to_string().into(), "--".into()]
}

/// The system's words for an error, and the remedy for it.
fn words_of(errno: &str) -> (&'static str, &'static str) {
    match errno {
        "EPERM" => ("Operation not permitted", "a rule of this machine"),
        "EACCES" => ("permission denied", "a rule of this machine"),
        "ENOSYS" => ("Function not implemented", "run it on a newer system"),
        "ENOPROTOOPT" => ("Protocol not available", "run it on a newer system"),
        "EMSGSIZE" => ("Message too long", "raise the MTU"),
        "EMFILE" => ("Too many open files", "raise the limits"),
        _ => panic!("no words for {errno}"),
    }
}

/// Asserts that the command has failed by this refusal, and says so.
#[track_caller]
fn assert_names(finished: &Finished, call: &str, errno: &str) {
    finished.assert_failure(call);
    let (words, remedy) = words_of(errno);
    let said = finished.stderr.to_lowercase();
    for wanted in [words, remedy] {
        assert!(
            said.contains(&wanted.to_lowercase()),
            "{wanted}: {finished}"
        );
    }
}

/// Moves a file while the system refuses a call to one side.
#[track_caller]
fn check(side: Side, protocol: &[&str], refusal: &Refusal, outcome: Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("file");
    let listen = ["cat", "recv", "--listen", "127.0.0.1:0", "--out"].map(OsString::from);
    let protocol = protocol.iter().map(OsString::from);
    let receive = listen
        .into_iter()
        .chain([out.into()])
        .chain(protocol.clone());
    let by = refusing(refusal);
    let receiver = match side {
        Side::Receiver => nd::start_by(&by, receive),
        Side::Sender => nd::start(receive),
    };
    let Some((receiver, address)) = listening(receiver, side, refusal, outcome) else {
        return;
    };
    let (mut receiver, pin) = match protocol.len() {
        0 => (receiver, None),
        _ => pinned(receiver),
    };
    let send = ["cat", "send", "/proc/version", &address].map(OsString::from);
    let send = send
        .into_iter()
        .chain(protocol)
        .chain(pin.into_iter().flatten());
    let sender = match side {
        Side::Sender => nd::start_by(&by, send),
        Side::Receiver => nd::start(send),
    };
    match (outcome, side) {
        (Works, _) => {
            sender.finish().assert_success();
            receiver.finish().assert_success();
        }
        (Fails(call), Side::Sender) => assert_names(&sender.finish(), call, &refusal.errno),
        (Fails(call), Side::Receiver) => assert_names(&receiver.finish(), call, &refusal.errno),
        (Waits(call), _) => {
            let (words, _) = words_of(&refusal.errno);
            receiver.wait_for(|line| (line.contains(call) && line.contains(words)).then_some(()));
        }
    }
}

/// The address that the receiver listens on. `None` if the receiver has ended because of the refusal, as it should.
#[track_caller]
fn listening(
    mut receiver: Nd,
    side: Side,
    refusal: &Refusal,
    outcome: Outcome,
) -> Option<(Nd, String)> {
    let address = receiver.wait_if_it_lives(|line| {
        let address = line.strip_prefix("listening on ")?;
        Some(address.trim().to_owned())
    });
    match (address, outcome, side) {
        (Some(address), _, _) => Some((receiver, address)),
        (None, Fails(call), Side::Receiver) => {
            assert_names(&receiver.finish(), call, &refusal.errno);
            None
        }
        (None, _, _) => panic!("{refusal}: {}", receiver.finish()),
    }
}

fn pinned(mut receiver: Nd) -> (Nd, Option<[OsString; 2]>) {
    let pin = receiver.wait_for(|line| Some(line.split_once("--pin ")?.1.trim().to_owned()));
    (receiver, Some(["--pin".into(), pin.into()]))
}

/// Refusals that users have met, and what became of them.
#[test]
fn a_refused_call_is_named_and_an_optional_one_is_done_without() {
    use Side::{Receiver, Sender};
    let udp: &[&str] = &["--udp"];
    let table: &[(Side, &[&str], &str, Outcome)] = &[
        // TCP_KEEPIDLE, TCP_NODELAY, SO_KEEPALIVE, SO_REUSEADDR
        (Sender, &[], "setsockopt:ENOPROTOOPT:1=6,2=4", Works),
        (Receiver, &[], "setsockopt:ENOPROTOOPT:1=6,2=4", Works),
        (Sender, &[], "setsockopt:EPERM:1=6,2=1", Works),
        (Sender, &[], "setsockopt:EPERM:1=1,2=9", Works),
        (Receiver, &[], "setsockopt:EPERM:1=1,2=2", Works),
        (Sender, &[], "prlimit64:EPERM", Works),
        (Sender, &[], "epoll_create1:EPERM", Fails("epoll_create1")),
        (
            Sender,
            &[],
            "epoll_create1:EMFILE",
            Fails("Too many open files"),
        ),
        (Receiver, &[], "epoll_ctl:EPERM", Fails("epoll_ctl")),
        (Sender, &[], "epoll_pwait:ENOSYS", Fails("epoll_pwait")),
        (Sender, &[], "eventfd2:ENOSYS", Fails("eventfd2")),
        (Receiver, &[], "listen:EPERM", Fails("listen")),
        (Receiver, &[], "accept4:EPERM", Waits("accept")),
        (Sender, &[], "getpeername:EPERM", Fails("getpeername")),
        (Receiver, &[], "getpeername:EPERM", Waits("getpeername")),
        (Sender, &[], "getsockopt:EPERM:1=1,2=4", Fails("SO_ERROR")),
        (Sender, &[], "connect:EACCES", Fails("connect")),
        (Sender, &[], "sendto:EPERM", Fails("sendto")),
        (Receiver, &[], "sendto:EPERM", Waits("sendto")),
        // IP_PKTINFO
        (Sender, udp, "setsockopt:EPERM:1=0,2=8", Fails("IP_PKTINFO")),
        (
            Receiver,
            udp,
            "setsockopt:ENOPROTOOPT:1=0,2=8",
            Fails("IP_PKTINFO"),
        ),
        // Netlink sockets
        (Sender, &[], "socket:EAFNOSUPPORT:0=16", Works),
        (Receiver, &[], "socket:EAFNOSUPPORT:0=16", Works),
        (Receiver, udp, "socket:EAFNOSUPPORT:0=16", Works),
        // A path that is too narrow for QUIC, a firewall's rule for what leaves.
        (Sender, udp, "sendmsg:EMSGSIZE", Fails("sendmsg")),
        (Sender, udp, "sendmsg:EPERM", Fails("sendmsg")),
        (Receiver, udp, "sendmsg:EPERM", Waits("sendmsg")),
        (Sender, udp, "recvmmsg:ENOSYS", Fails("recvmmsg")),
        (Receiver, udp, "recvmmsg:EPERM", Waits("recvmmsg")),
    ];
    for (side, protocol, refusal, outcome) in table {
        check(*side, protocol, &refusal.parse().unwrap(), *outcome);
    }
}

/// `nd` looks for the route first, so that `connect` fails there. Other programs get the reason with the status.
#[test]
fn a_connect_that_the_system_refuses_tells_its_client_why() {
    let ended = thread::spawn(|| {
        refuse(&["connect:EACCES".parse().unwrap()]).unwrap();
        let provider = softnd::provider(Options::default());
        let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let adapter = provider
            .open_adapter(provider.resolve_address(local).unwrap())
            .unwrap();
        let file = adapter.create_overlapped_file().unwrap();
        let cq = adapter
            .create_completion_queue(&file, 2, Affinity::default())
            .unwrap();
        let qp = adapter
            .create_queue_pair(&cq, &cq, QueuePairOptions::default())
            .unwrap();
        let connector = adapter.create_connector(&file).unwrap();
        let overlapped = Overlapped::new();
        let peer = "127.0.0.1:4791".parse().unwrap();
        let started = connector.connect(&qp, peer, 0, 0, &[], &overlapped);
        assert_eq!(started, Ok(Started::Pending));
        overlapped.wait();
        overlapped.result()
    })
    .join()
    .unwrap()
    .unwrap_err();
    assert_eq!(ended.status(), Status::HOST_UNREACHABLE);
    let why = ended.what();
    assert!(why.contains("the system refuses connect: "), "{why}");
}

/// The third argument is the length of an IPv4 address, so that bind(2) of other sockets is let through.
#[test]
fn a_port_that_may_not_be_used_has_its_own_remedy() {
    let refusal: Refusal = "bind:EACCES:2=16".parse().unwrap();
    let line = [
        "cat",
        "recv",
        "--listen",
        "127.0.0.1:1023",
        "--out",
        "/dev/null",
    ];
    let receiver = nd::start_by(&refusing(&refusal), line).finish();
    receiver.assert_failure("the system refuses bind: Permission denied");
    assert!(receiver.stderr.contains("a port above 1023"), "{receiver}");
}

/// Hardened services and Android refuse netlink sockets, from which the list of network interfaces comes.
#[test]
fn without_a_list_of_interfaces_an_address_has_to_be_named() {
    let by = refusing(&"socket:EAFNOSUPPORT:0=16".parse().unwrap());
    for line in [
        &["info"][..],
        &["cat", "recv", "--listen", "0.0.0.0:0", "--out", "/dev/null"],
    ] {
        let finished = nd::start_by(&by, line).finish();
        finished.assert_failure("the system does not list the network interfaces");
        finished.assert_failure("name the address to use");
    }
    let line = [
        "cat",
        "recv",
        "--listen",
        "192.0.2.7:0",
        "--out",
        "/dev/null",
    ];
    let finished = nd::start_by(&by, line).finish();
    finished.assert_failure("cannot bind to 192.0.2.7: ");
    nd::start_by(&by, ["info", "softnd+tcp://127.0.0.1"])
        .finish()
        .assert_success();
}
