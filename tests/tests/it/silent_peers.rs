//! Hosts that vanish: nothing of the peer arrives any more, and no packet says so. TCP notices by itself, by keep-alives where the connection
//! is idle, and by missing acknowledgements where data is on its way.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::thread;

use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, ConnectionEnd, Connector, EndReason, EndedBy,
    MrFlags, OpFlags, Overlapped, QueuePair, QueuePairOptions, ReadLimits, Sge, Status, ext,
};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use softnd_tests::own_network::{inside, ip};
use softnd_tests::tool;

/// A network with two hosts' addresses. What these send each other goes through the loopback interface.
const NETWORK: &str = "ip link set lo up; ip link add a0 type veth peer name a0-peer; ip link set a0-peer up; ip link set a0 up; \
    ip addr add 10.9.0.1/24 dev a0; ip addr add 10.9.0.2/24 dev a0";

/// One end of a connection.
struct End {
    cq: Arc<dyn CompletionQueue>,
    qp: Arc<dyn QueuePair>,
    connector: Arc<dyn Connector>,
    sge: Sge,
    _registered: Box<dyn std::any::Any>,
}

fn address(ip: &str) -> SocketAddr {
    format!("{ip}:0").parse().expect("an address")
}

/// Both ends of a connection over TCP.
fn connected() -> [End; 2] {
    let provider = softnd::provider(softnd::Options::default());
    let id = provider.resolve_address(address("10.9.0.1")).unwrap();
    let adapter: Arc<dyn Adapter> = provider.open_adapter(id).unwrap();
    let file = adapter.create_overlapped_file().unwrap();
    let end = || {
        let cq = adapter
            .create_completion_queue(&file, 8, Affinity::default())
            .unwrap();
        let options = QueuePairOptions::default();
        let qp = adapter.create_queue_pair(&cq, &cq, options).unwrap();
        let (buffer, overlapped) = (Buffer::new(8), Overlapped::new());
        let region = adapter.create_memory_region(&file).unwrap();
        let registered = region.register(&buffer, MrFlags::ALLOW_LOCAL_WRITE, &overlapped);
        ext::wait(registered, &overlapped).unwrap();
        End {
            cq,
            qp,
            connector: adapter.create_connector(&file).unwrap(),
            sge: Sge::new(&buffer, .., region.get_local_token()),
            _registered: Box::new((buffer, region)),
        }
    };
    let [active, passive] = [end(), end()];
    active.connector.bind(address("10.9.0.1")).unwrap();
    let listener = adapter.create_listener(&file).unwrap();
    listener.bind(address("10.9.0.2")).unwrap();
    listener.listen(0).unwrap();
    let there = listener.get_local_address().unwrap();
    let limits = ReadLimits::default();
    thread::scope(|scope| {
        scope.spawn(|| ext::connect(&active.connector, &active.qp, there, limits, &[]).unwrap());
        ext::get_connection_request(&listener, &passive.connector).unwrap();
        ext::accept(&passive.connector, &passive.qp, limits, &[]).unwrap();
    });
    [active, passive]
}

/// Returns true for a socket that connects the two hosts.
fn is_between_the_hosts(socket: &OwnedFd) -> bool {
    let peer = rustix::net::getpeername(socket).ok().flatten();
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    peer.is_some_and(|peer| peer.ip().to_string().starts_with("10.9.0."))
}

/// The descriptors of this process that connect the two hosts; one socket may have several. `None` where a process may not take a second
/// descriptor of its own socket.
fn streams() -> Option<Vec<OwnedFd>> {
    let this = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
    let mut streams = Vec::new();
    let numbers: Vec<RawFd> = fs::read_dir("/proc/self/fd")
        .expect("a list")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers {
        match pidfd_getfd(&this, number, PidfdGetfdFlags::empty()) {
            Ok(socket) => streams.extend(Some(socket).filter(is_between_the_hosts)),
            // The descriptor of the list itself.
            Err(Errno::BADF) => {}
            Err(_) => return None,
        }
    }
    Some(streams)
}

/// Makes the connection of `ends` notice within seconds what it notices within minutes otherwise. Returns false if this process may not.
fn is_hurried(set: impl Fn(&OwnedFd)) -> bool {
    let Some(streams) = streams() else {
        tool::skip_here("a process may not take a second descriptor of its own socket");
        return false;
    };
    assert!(streams.len() >= 2, "both ends of one connection");
    for stream in &streams {
        assert!(
            sockopt::socket_keepalive(stream).unwrap(),
            "softnd asks for keep-alives"
        );
        set(stream);
    }
    true
}

/// Waits until the connections of this network have nothing on its way: a connection that waits for an acknowledgement sends no keep-alives.
fn settle() {
    let is_busy = |line: &str| {
        let queues = line.split_whitespace().nth(4);
        queues.is_some_and(|queues| queues != "00000000:00000000")
    };
    let sockets = || fs::read_to_string("/proc/self/net/tcp").expect("a list");
    while sockets().lines().skip(1).any(is_busy) {
        thread::yield_now();
    }
}

/// The end's reason, when its connection has ended.
fn ended(end: &End) -> ConnectionEnd {
    let overlapped = Overlapped::new();
    let notified = end.connector.notify_disconnect(&overlapped);
    ext::wait(notified, &overlapped).unwrap();
    end.connector.connection_end().expect("a reason")
}

/// The peer was silent.
fn is_silence(end: &End) {
    let reason = ended(end);
    assert_eq!(
        (reason.by(), reason.reason()),
        (EndedBy::Neither, EndReason::Silence),
        "{reason}"
    );
    assert_eq!(reason.what(), "the peer has not answered in time");
    assert!(
        reason.hint().contains("the other host is up"),
        "{}",
        reason.hint()
    );
    assert_eq!(end.qp.connection_end().as_ref(), Some(&reason));
    let mut results = [netdirect::CompletionResult::default()];
    assert_eq!(ext::Results::new(&end.cq).get(&mut results), Ok(1));
    assert_eq!(results[0].status, Status::CANCELED);
    let error = end.qp.explain(&results[0]);
    assert!(error.what().ends_with(reason.what()), "{error}");
}

#[test]
fn keep_alives_find_a_host_that_has_vanished() {
    let test = "silent_peers::keep_alives_find_a_host_that_has_vanished";
    inside(test, NETWORK, || {
        let ends = connected();
        for end in &ends {
            end.qp.receive(1, &[end.sge]).unwrap();
        }
        let second = std::time::Duration::from_secs(1);
        if !is_hurried(|stream| {
            sockopt::set_tcp_keepidle(stream, second).unwrap();
            sockopt::set_tcp_keepintvl(stream, second).unwrap();
            sockopt::set_tcp_keepcnt(stream, 1).unwrap();
        }) {
            return;
        }
        settle();
        ip("link set lo down");
        for end in &ends {
            is_silence(end);
        }
    });
}

#[test]
fn data_that_nobody_acknowledges_finds_a_host_that_has_vanished() {
    let test = "silent_peers::data_that_nobody_acknowledges_finds_a_host_that_has_vanished";
    inside(test, NETWORK, || {
        let [active, passive] = connected();
        if !is_hurried(|stream| sockopt::set_tcp_user_timeout(stream, 500).unwrap()) {
            return;
        }
        ip("link set lo down");
        active.qp.receive(1, &[active.sge]).unwrap();
        active
            .qp
            .send(2, &[active.sge], OpFlags::SILENT_SUCCESS)
            .unwrap();
        is_silence(&active);
        // Its keep-alives would find this out within minutes.
        assert_eq!(passive.connector.connection_end(), None);
    });
}
