//! Wires over shared memory, beyond the contract of all transports.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use iwarp_mem::ring::Ring;

use crate::transport::local_ports::bind;
use crate::transport::purpose::Purpose;
use crate::transport::same_host::SameHost;
use crate::transport::tcp::{Tcp, TcpOptions};
use crate::transport::{Listener, Paired, Transport, Wire};

const ANY: &str = "127.0.0.1:0";
/// Only to end a hang.
pub(in crate::transport) const LONG: Duration = Duration::from_secs(60);

/// An adapter with the option, and its option.
pub(in crate::transport) fn adapter() -> (Transport, SameHost) {
    adapter_with(|_| {})
}

pub(in crate::transport) fn adapter_with(
    change: impl FnOnce(&mut SameHost),
) -> (Transport, SameHost) {
    let mut same_host = SameHost::if_possible().unwrap();
    same_host.wait_for(Duration::from_secs(5));
    change(&mut same_host);
    let options = TcpOptions {
        same_host: Some(same_host.clone()),
        ..TcpOptions::default()
    };
    (Transport::Tcp(Tcp::new(options)), same_host)
}

pub(in crate::transport) fn counted(same_host: &SameHost) -> Vec<(&'static str, u64)> {
    let mut all = same_host.counters();
    all.retain(|(_, count)| *count > 0);
    all
}

pub(in crate::transport) fn listen(transport: &Transport, at: &str) -> (Listener, SocketAddr) {
    let bound = bind(transport, at.parse().unwrap(), Purpose::Listening).unwrap();
    let at = bound.local().unwrap();
    (bound.listen().unwrap(), at)
}

pub(in crate::transport) fn accept(listener: &Listener) -> Wire {
    loop {
        match listener.accept() {
            Ok(wire) => return wire,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        std::thread::yield_now();
    }
}

pub(in crate::transport) fn connect(transport: &Transport, to: SocketAddr) -> Wire {
    let from = bind(transport, ANY.parse().unwrap(), Purpose::Connecting).unwrap();
    let dialer = from.connect(to).unwrap();
    while !dialer.is_connected(crate::progress::Edges::WRITE).unwrap() {
        std::thread::yield_now();
    }
    dialer.into_wire().unwrap()
}

/// Decides until that is done.
pub(in crate::transport) fn decided(mut wire: Wire) -> std::io::Result<Wire> {
    let begun = Instant::now();
    loop {
        let (next, paired) = wire.pair(Instant::now());
        match paired? {
            Paired::Decided => return Ok(next),
            _ => wire = next,
        }
        assert!(begun.elapsed() < LONG, "nothing is decided");
        std::thread::yield_now();
    }
}

pub(in crate::transport) fn both(active: Wire, passive: Wire) -> [Wire; 2] {
    std::thread::scope(|scope| {
        let active = scope.spawn(|| decided(active).unwrap());
        let passive = decided(passive).unwrap();
        [active.join().unwrap(), passive]
    })
}

pub(in crate::transport) fn shared() -> [Wire; 2] {
    let (transport, _) = adapter();
    let (listener, at) = listen(&transport, ANY);
    let active = connect(&transport, at);
    let ends = both(active, accept(&listener));
    assert!(ends.iter().all(Wire::has_bells));
    ends
}

/// A read that takes the bell for room reports the room itself, because no set will.
fn reads_the_bell_for_room() -> bool {
    let [active, passive] = shared();
    while active.write(&[7; 4096]).is_ok() {}
    let mut octets = vec![0; 1 << 20];
    let read = passive.read(&mut octets).unwrap();
    assert!(read > 0);
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        assert_eq!(
            active.read(&mut [0]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        if active.take_room_report() {
            assert!(!active.take_room_report());
            return active.write(&[7]).is_ok();
        }
        if iwarp::planted!(BellSwallowed) && active.peek().is_err() {
            return false;
        }
        std::thread::yield_now();
    }
    false
}

#[cfg(not(planted_bugs))]
#[test]
fn a_bell_for_room_that_a_read_takes_is_kept() {
    assert!(reads_the_bell_for_room());
}

#[cfg(planted_bugs)]
#[test]
fn a_swallowed_bell_is_found() {
    iwarp::planted::plant(Some(iwarp::planted::Bug::BellSwallowed));
    assert!(!reads_the_bell_for_room());
}

#[test]
fn names_of_wildcards_are_found_too() {
    for at in ["0.0.0.0:0", ANY] {
        let (transport, same_host) = adapter();
        let (listener, at) = listen(&transport, at);
        let to = SocketAddr::new(ANY.parse::<SocketAddr>().unwrap().ip(), at.port());
        let active = connect(&transport, to);
        let _ends = both(active, accept(&listener));
        assert_eq!(counted(&same_host), [("same_host.connections", 2)], "{at}");
    }
}

/// A peer that takes no octets for the time that the program allows ends the connection; one that takes some goes on.
#[test]
fn a_peer_that_has_no_room_for_long_ends_the_connection() {
    let [active, passive] = shared();
    let Wire::Shared(wire) = &active else {
        unreachable!("over shared memory");
    };
    assert!(wire.gives_up_at().is_none());
    wire.give_up_after(Duration::ZERO);
    let full = loop {
        if let Err(error) = active.write(&[7; 4096]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    assert!(wire.gives_up_at().is_some());
    let mut octets = vec![0; 1 << 20];
    assert!(passive.read(&mut octets).unwrap() > 0);
    assert!(active.write(&[7; 4096]).is_ok());
    assert!(wire.gives_up_at().is_none());
    let end = loop {
        match active.write(&[7; 4096]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => break error,
            Ok(_) => {}
        }
    };
    assert_eq!(end.kind(), ErrorKind::TimedOut, "{end}");
}

/// The time of a peer begins anew whenever the ring becomes full, and whenever the peer takes some octets, also too few to write more.
#[test]
fn the_time_of_a_peer_begins_when_it_takes_nothing_more() {
    let [active, passive] = shared();
    let Wire::Shared(wire) = &active else {
        unreachable!("over shared memory");
    };
    wire.give_up_after(LONG);
    let fill = || {
        while active.write(&[7; 4096]).is_ok() {}
        wire.gives_up_at().unwrap()
    };
    let first = fill();
    assert_eq!(fill(), first, "nothing was taken");
    let mut octets = vec![0; 1 << 20];
    assert!(passive.read(&mut octets).unwrap() > 0);
    // A set learns that there is room, before anything is written.
    let _ = wire.joins_set();
    assert!(wire.gives_up_at().is_none());
    let second = fill();
    assert!(second > first);
    // Not half of the ring, for which a bell would be rung, and not what the next FPDU takes.
    assert_eq!(passive.read(&mut octets[..1]).unwrap(), 1);
    let _ = wire.joins_set();
    assert_eq!(wire.gives_up_at(), Some(second));
    wire.after_full(false).unwrap();
    assert!(wire.gives_up_at().unwrap() > second);
}

/// Connections beyond the memory of either side are over TCP. A connection that has ended gives its memory back.
#[test]
fn beyond_the_memory_connections_are_over_tcp() {
    // Room for one connection of which both ends are here.
    let limit = 2 * Ring::of_words();
    let (transport, same_host) = adapter_with(|same_host| same_host.limit_memory(limit));
    let (listener, at) = listen(&transport, ANY);
    let connect = || both(connect(&transport, at), accept(&listener));
    let first = connect();
    assert!(first.iter().all(Wire::has_bells));
    assert!(!connect().iter().any(Wire::has_bells));
    assert!(refusals(&same_host) > 0);
    drop(first);
    assert!(connect().iter().all(Wire::has_bells));
}

fn refusals(same_host: &SameHost) -> u64 {
    let mut all = same_host.counters().into_iter();
    let found = all.find(|(name, _)| *name == "same_host.refused.memory");
    found.unwrap().1
}

/// Moves `len` octets, whose values count up from `first`, and compares them.
fn transfer(from: &Wire, to: &Wire, len: usize, first: u8) {
    let octets: Vec<u8> = (0..len)
        .map(|at| first.wrapping_add(at.to_le_bytes()[0]))
        .collect();
    let (mut sent, mut found) = (0, Vec::new());
    let mut space = vec![0; 1 << 16];
    while found.len() < len {
        if let Ok(count) = from.write(&octets[sent..]) {
            sent += count;
        }
        if let Ok(count) = to.read(&mut space) {
            found.extend_from_slice(&space[..count]);
        }
    }
    assert!(found == octets, "other octets have arrived");
}

/// The next look at a wire.
fn look(wire: &Wire) {
    wire.look(wire.looks_at().unwrap());
}

/// What was written counts against the memory until the connection has been quiet for some time. Then the memory is given back, and the
/// connection goes on.
#[test]
fn a_quiet_connection_gives_its_memory_back() {
    let limit = 4 * Ring::of_words() + (1 << 16);
    let (transport, same_host) = adapter_with(|same_host| same_host.limit_memory(limit));
    let (listener, at) = listen(&transport, ANY);
    let connect = || both(connect(&transport, at), accept(&listener));
    let [active, passive] = connect();
    assert_eq!((active.looks_at(), passive.looks_at()), (None, None));
    // Less than the limit, then more: rings that are there grow beyond it.
    for (len, is_shared) in [(1 << 15, true), (1 << 20, false)] {
        transfer(&active, &passive, len, 1);
        let others = connect();
        assert!(others.iter().all(|wire| wire.has_bells() == is_shared));
    }
    let refused = refusals(&same_host);
    assert!(refused > 0);

    // The memory stays while the peer has not read everything.
    look(&active);
    active.write(&[9; 100]).unwrap();
    look(&active);
    look(&active);
    assert!(active.looks_at().is_some());
    assert_eq!(passive.read(&mut [0; 200]).unwrap(), 100);
    // An empty ring gives it back, and needs no further look.
    look(&active);
    assert_eq!((active.looks_at(), passive.looks_at()), (None, None));
    assert!(connect().iter().all(Wire::has_bells));
    assert_eq!(refusals(&same_host), refused);

    transfer(&active, &passive, 1 << 20, 7);
    transfer(&passive, &active, 1 << 20, 8);
    assert!(active.looks_at().is_some() && passive.looks_at().is_some());
    assert!(!connect().iter().all(Wire::has_bells));
}

/// A look that comes too early does nothing.
#[test]
fn memory_is_not_given_back_before_its_time() {
    let [active, passive] = shared();
    transfer(&active, &passive, 1000, 1);
    let at = active.looks_at().unwrap();
    for _ in 0..3 {
        active.look(at.checked_sub(Duration::from_nanos(1)).unwrap());
        assert_eq!(active.looks_at(), Some(at));
    }
    active.look(at);
    assert_eq!(active.looks_at(), None);
}

/// A listener without the option, or of another program, says nothing.
#[test]
fn without_a_name_a_connection_is_over_tcp_at_once() {
    let (transport, same_host) = adapter();
    let listener = TcpListener::bind(ANY).unwrap();
    let active = connect(&transport, listener.local_addr().unwrap());
    let active = decided(active).unwrap();
    assert!(!active.has_bells());
    assert_eq!(counted(&same_host), [("same_host.refused.no_name", 1)]);
}

/// A connector without the option, whose first octets are a frame of MPA.
#[test]
fn without_an_offer_a_connection_is_over_tcp() {
    let (transport, same_host) = adapter();
    let (listener, at) = listen(&transport, ANY);
    let mut peer = TcpStream::connect(at).unwrap();
    peer.write_all(b"MPA").unwrap();
    let passive = decided(accept(&listener)).unwrap();
    assert!(!passive.has_bells());
    assert_eq!(counted(&same_host), [("same_host.refused.no_offer", 1)]);
}

/// A listener that does not answer in time: the connection goes on over TCP, and a later token is skipped.
#[test]
fn a_listener_that_answers_late_has_a_connection_over_tcp() {
    let (mut transport, _) = adapter();
    let (listener, at) = listen(&transport, ANY);
    let mut hasty = SameHost::if_possible().unwrap();
    hasty.wait_for(Duration::ZERO);
    if let Transport::Tcp(tcp) = &mut transport {
        *tcp = Tcp::new(TcpOptions {
            same_host: Some(hasty.clone()),
            ..TcpOptions::default()
        });
    }
    let active = connect(&transport, at);
    let (active, paired) = active.pair(Instant::now());
    assert!(matches!(
        paired.unwrap(),
        Paired::Not { .. } | Paired::MayWrite
    ));
    let (active, paired) = active.pair(Instant::now() + LONG);
    assert_eq!(paired.unwrap(), Paired::MayWrite);
    assert_eq!(active.write(b"MPA Request").unwrap(), 11);
    let passive = decided(accept(&listener)).unwrap();
    assert!(!passive.has_bells());
    let mut octets = [0; 32];
    while passive.peek().is_err() {}
    assert_eq!(passive.read(&mut octets).unwrap(), 11);
    assert_eq!(passive.write(b"MPA Reply").unwrap(), 9);
    let active = decided(active).unwrap();
    while active.peek().is_err() {}
    assert_eq!(active.read(&mut octets).unwrap(), 9);
    assert_eq!(&octets[..9], b"MPA Reply");
    assert_eq!(counted(&hasty), [("same_host.refused.no_answer", 1)]);
}

/// A connector that answers with another token is reset.
#[test]
fn a_wrong_token_is_a_reset() {
    let (transport, same_host) = adapter();
    let (listener, at) = listen(&transport, ANY);
    let from = bind(&transport, ANY.parse().unwrap(), Purpose::Connecting).unwrap();
    let local = from.local().unwrap();
    // The offer for the connection, whose maker then does not know its token.
    let _offered = same_host.offer(local, at).unwrap();
    drop(from);
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&local.into()).unwrap();
    socket.connect(&at.into()).unwrap();
    let mut peer = TcpStream::from(socket);
    let passive = accept(&listener);
    let mut first = [1; 16];
    peer.read_exact(&mut first).unwrap();
    assert_eq!(first[0], 0, "the listener's token");
    peer.write_all(&[0; 16]).unwrap();
    let error = decided(passive).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

#[cfg(planted_bugs)]
#[test]
fn planted_bugs_are_found() {
    let bug = iwarp::planted::Bug::TokenUnchecked;
    assert!(iwarp::planted::is_found_by(bug, a_wrong_token_is_a_reset));
}

/// A peer is killed: what it had sent arrives, then the end, and nothing more can be sent.
#[test]
fn what_a_peer_that_dies_has_sent_arrives() {
    let [active, passive] = shared();
    assert_eq!(passive.write(b"last words").unwrap(), 10);
    // As the system closes the socket of a killed process.
    drop(passive);
    let mut octets = [0; 32];
    while active.peek().is_err() {}
    assert_eq!(active.read(&mut octets).unwrap(), 10);
    let end = loop {
        match active.read(&mut octets) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            end => break end,
        }
    };
    assert_eq!(end.unwrap(), 0);
    assert_eq!(
        active.write(b"?").unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
}

#[test]
fn a_peer_that_rings_without_end_is_reset() {
    let [active, passive] = shared();
    let Wire::Shared(bells) = &passive else {
        unreachable!("over shared memory");
    };
    let mut rung = 0;
    let error = loop {
        for _ in 0..64 {
            bells.ring_for_nothing();
            rung += 1;
        }
        match active.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(rung > 1024, "{rung}");
}

/// Each bell of a sender that only waits for room is followed by octets that the other side has read.
#[test]
fn bells_between_which_something_moves_are_no_fault() {
    let [active, passive] = shared();
    let mut octets = vec![0; 1 << 20];
    for _ in 0..2048 {
        while active.write(&[7; 65536]).is_ok() {}
        while passive.read(&mut octets).is_ok() {}
        match active.read(&mut [0]) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            Ok(count) => panic!("{count} octets"),
        }
    }
}

/// The count of forks is that of the whole process.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn after_a_fork() {
    let [active, _passive] = shared();
    rdma_buffer::forks::count_one();
    let error = active.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted, "{error}");
    assert!(active.write(b"x").is_err() && active.peek().is_err());
    assert!(active.close_write().is_err() && active.check().is_err());
}

#[test]
fn the_child_of_a_fork_gets_an_error_of_the_connection() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--ignored", "shared_memory::tests::after_a_fork"]);
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}
