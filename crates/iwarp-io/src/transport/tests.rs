//! The contract of every transport.

use std::net::IpAddr;
use std::time::Duration;

use super::local_ports::bind;
use super::*;
use crate::buffers::Buffers;
use crate::driver::Driver;
use crate::progress::readiness::Readiness;
use crate::simulation::{Conditions, World};
use crate::transport::quic::security::Security;
use crate::transport::tcp::{Tcp, TcpOptions};

fn transports() -> Vec<Transport> {
    let mut all = vec![
        Transport::Tcp(Tcp::default()),
        Transport::Sim(World::new(1, Conditions::default())),
        Transport::Pipe(pipe::Pipes::default()),
    ];
    all.extend(over_rings());
    all
}

/// TCP whose connections within this machine are over shared memory, however long the other end takes; on a system that has this.
fn over_rings() -> Option<Transport> {
    let mut same_host = same_host::SameHost::if_possible()?;
    same_host.wait_for(LONG);
    Some(Transport::Tcp(Tcp::new(TcpOptions {
        same_host: Some(same_host),
        ..TcpOptions::default()
    })))
}

/// The wire once it is known whether it is over shared memory. Waits for the other end.
fn paired(ends: [Wire; 2]) -> [Wire; 2] {
    let mut ends = ends.map(Some);
    loop {
        let mut undecided = false;
        for end in &mut ends {
            let (wire, paired) = end.take().unwrap().pair(Instant::now());
            undecided |= paired.unwrap() != Paired::Decided;
            *end = Some(wire);
        }
        if !undecided {
            return ends.map(Option::unwrap);
        }
        std::thread::yield_now();
    }
}

/// Calls `test` for every transport, with a driver for the one that needs it.
fn with_transports(test: impl Fn(&Transport)) {
    for transport in transports() {
        test(&transport);
    }
    if !cfg!(feature = "udp") {
        return;
    }
    let world = World::new(1, Conditions::default());
    for environment in [Environment::System, Environment::Sim(world)] {
        let quic = quic::Quic::new(environment, &Security::default()).unwrap();
        let transport = Transport::Quic(quic);
        let table = Arc::new(Table::new());
        let driver = Driver::start(transport.clone(), Buffers::new(table), None).unwrap();
        test(&transport);
        drop(driver);
    }
}

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
/// Only to end a hang.
const LONG: Duration = Duration::from_secs(60);

const SHORT: Duration = Duration::from_millis(1);

/// Waits until the set reports a source.
fn wait(set: &Set) {
    for _ in 0..1000 {
        // A wait may end early, without a report.
        if set.wait(Some(LONG), |_| {}).unwrap() > 0 {
            return;
        }
    }
    panic!("nothing was reported");
}

fn would_block<T: std::fmt::Debug>(result: io::Result<T>) {
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

/// Two ends of a connection, and a set that reports the first one.
fn connected(transport: &Transport) -> (Wire, Wire, Set) {
    let set = Set::in_environment(&transport.environment()).unwrap();
    let address = std::net::SocketAddr::new(HERE, 0);
    let bound = bind(transport, address, Purpose::Listening).unwrap();
    let at = bound.local().unwrap();
    let listening = bound.listen().unwrap();
    set.add_stream(&listening, 1, Edges::READ).unwrap();
    assert!(!listening.is_somebody_there());
    would_block(listening.accept());

    let from = bind(transport, address, Purpose::Connecting).unwrap();
    let local = from.local().unwrap();
    let dialer = from.connect(at).unwrap();
    set.add_stream(&dialer, 2, Edges::READ | Edges::WRITE)
        .unwrap();
    while !(dialer.is_connected(Edges::WRITE).unwrap() && listening.is_somebody_there()) {
        wait(&set);
    }
    let passive = listening.accept().unwrap();
    set.remove(&dialer).unwrap();
    let [active, passive] = paired([dialer.into_wire().unwrap(), passive]);
    assert_eq!(active.addresses(), (local, at));
    assert_eq!(passive.addresses(), (at, local));
    // `.ci/same-host` counts such lines.
    println!("connections over {}: 1", active.transport_name());
    set.remove(&listening).unwrap();
    set.add_stream(&active, 3, Edges::READ).unwrap();
    (active, passive, set)
}

/// The other tests of this file are about rings where a system has them.
#[test]
fn connections_with_the_option_are_over_shared_memory() {
    let Some(transport) = over_rings() else {
        return;
    };
    let ends = connected(&transport);
    assert_eq!(ends.0.transport_name(), "shm");
    assert_eq!(ends.1.transport_name(), "shm");
    let counted: Vec<_> = transport
        .counters()
        .filter(|(_, count)| *count > 0)
        .collect();
    // Both ends count.
    assert_eq!(counted, [("same_host.connections", 2)]);
}

#[test]
fn octets_arrive_in_order_and_then_the_end() {
    with_transports(|transport| {
        let (active, passive, set) = connected(transport);
        would_block(active.peek());
        would_block(active.read(&mut [0; 8]));
        assert_eq!(passive.write(b"hello, ").unwrap(), 7);
        assert_eq!(passive.write(b"world").unwrap(), 5);
        passive.close_write().unwrap();
        let mut read = Vec::new();
        loop {
            let mut octets = [0; 5];
            match active.read(&mut octets) {
                Ok(0) => break,
                Ok(count) => read.extend_from_slice(&octets[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&set),
                Err(error) => panic!("{transport:?}: {error}"),
            }
        }
        assert_eq!(read, b"hello, world");
        assert_eq!(active.peek().unwrap(), 0);
        // The other direction continues.
        assert_eq!(active.write(b"bye").unwrap(), 3);
    });
}

/// The window of TCP on Linux is as wide as asked for, or half of what the system allows; one octet is reported as before.
#[test]
fn an_open_window_takes_more_and_reports_each_octet() {
    const OCTETS: i32 = 3 << 20;
    with_transports(|transport| {
        let (active, passive, set) = connected(transport);
        active.open_window(OCTETS);
        #[cfg(target_os = "linux")]
        if let Wire::Tcp(wire) = &active {
            let limits = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap();
            let most: usize = limits.split_whitespace().last().unwrap().parse().unwrap();
            let holds = wire.receive_buffer().unwrap();
            let wanted = usize::try_from(OCTETS).unwrap().min(most / 2);
            assert!(holds >= wanted, "{holds} of {wanted}");
        }
        assert_eq!(passive.write(b"1").unwrap(), 1);
        let mut octets = [0; 2];
        loop {
            wait(&set);
            match active.read(&mut octets) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => break assert_eq!(read.unwrap(), 1),
            }
        }
        assert_eq!(octets[0], b'1');
    });
}

#[test]
fn a_full_wire_takes_no_more_until_it_is_read() {
    with_transports(|transport| {
        let (active, passive, set) = connected(transport);
        let mut sent = 0;
        while let Ok(count) = active.write(&[7; 4096]) {
            sent += count;
        }
        would_block(active.write(&[7]));
        set.change_stream(&active, 3, Edges::READ | Edges::WRITE)
            .unwrap();
        let reads = Set::in_environment(&transport.environment()).unwrap();
        reads.add_stream(&passive, 4, Edges::READ).unwrap();
        let mut read = 0;
        while read < sent {
            match passive.read(&mut [0; 65536]) {
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // A peek at the other end makes it send its octets, for the transport that sends in the program itself.
                    would_block(active.peek());
                    reads.wait(Some(SHORT), |_| {}).unwrap();
                }
                Err(error) => panic!("{transport:?}: {error}"),
            }
        }
        wait(&set);
        assert!(active.write(&[7]).is_ok());
    });
}

/// Only Linux has the limit.
#[cfg(target_os = "linux")]
#[test]
fn a_peer_that_has_no_room_for_long_ends_the_connection() {
    let (active, passive, set) = connected(&Transport::Tcp(Tcp::default()));
    active.give_up_after(Duration::ZERO);
    while active.write(&[7; 4096]).is_ok() {}
    let error = loop {
        wait(&set);
        match active.check() {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    drop(passive);
}

#[test]
fn a_reset_is_found_behind_octets_that_nobody_has_read() {
    with_transports(|transport| {
        let (active, passive, set) = connected(transport);
        assert_eq!(passive.write(b"unread").unwrap(), 6);
        while active.peek().is_err() {
            wait(&set);
        }
        active.check().unwrap();
        // A pipe has a reset only if its program has left octets unread.
        assert_eq!(active.write(b"unread").unwrap(), 6);
        passive.reset();
        while active.check().is_ok() {
            wait(&set);
        }

        let (active, passive, set) = connected(transport);
        assert_eq!(passive.write(b"unread").unwrap(), 6);
        passive.close_write().unwrap();
        let mut octets = [0; 6];
        let mut read = 0;
        while read < octets.len() {
            match active.read(&mut octets[read..]) {
                Ok(count) => read += count,
                Err(_) => wait(&set),
            }
            active.check().unwrap();
        }
        while active.peek().is_err() {
            wait(&set);
        }
        active.check().unwrap(); // the orderly end of the stream
    });
}

#[test]
fn whoever_is_reset_or_refused_learns_it() {
    with_transports(|transport| {
        let (active, passive, set) = connected(transport);
        passive.reset();
        let end = loop {
            match active.read(&mut [0; 8]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&set),
                other => break other,
            }
        };
        // A pipe has no resets: this looks like the orderly end of the stream.
        let is_pipe = matches!(transport, Transport::Pipe(_));
        assert_eq!(end.is_ok_and(|count| count == 0), is_pipe, "{transport:?}");

        let address = std::net::SocketAddr::new(HERE, 0);
        let nobody = bind(transport, address, Purpose::Listening).unwrap();
        let at = nobody.local().unwrap();
        drop(nobody);
        let dialed = bind(transport, address, Purpose::Connecting);
        let dialed = dialed.unwrap().connect(at);
        let refused = dialed.and_then(|dialer| {
            let dials = Set::in_environment(&transport.environment())?;
            dials.add_stream(&dialer, 2, Edges::READ | Edges::WRITE)?;
            wait(&dials);
            dialer.is_connected(Edges::WRITE | Edges::HANGUP)
        });
        assert!(refused.is_err(), "{transport:?}: {refused:?}");
    });
}
