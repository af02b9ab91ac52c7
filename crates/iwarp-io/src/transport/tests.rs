//! The contract of every transport.

use std::io::{BufRead, BufReader, Lines, Write as _};
use std::net::IpAddr;
use std::ops::Deref;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use parking_lot::Mutex;

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

/// The wires once it is known whether they are over shared memory. Waits for the other end.
fn paired<const N: usize>(ends: [Wire; N]) -> [Wire; N] {
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

/// A transport, and the process in which the passive end of a connection is.
#[derive(Debug)]
struct Place {
    transport: Transport,
    is_elsewhere: bool,
    /// A set of the driver, if the transport needs one.
    of_driver: Option<Set>,
}

impl Place {
    const fn here(transport: Transport) -> Self {
        Self {
            transport,
            is_elsewhere: false,
            of_driver: None,
        }
    }

    /// An empty set for wires of the transport.
    fn set(&self) -> Set {
        match &self.of_driver {
            Some(set) => set.another().unwrap(),
            None => Set::in_environment(&self.environment()).unwrap(),
        }
    }
}

impl Deref for Place {
    type Target = Transport;

    fn deref(&self) -> &Transport {
        &self.transport
    }
}

/// Calls `test` for every transport, with a driver for the one that needs it, and for rings between two processes.
fn with_transports(test: impl Fn(&Place)) {
    for transport in transports() {
        test(&Place::here(transport));
    }
    if let Some(transport) = over_rings() {
        test(&Place {
            transport,
            is_elsewhere: true,
            of_driver: None,
        });
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
        let of_driver = Some(driver.control.set().another().unwrap());
        test(&Place {
            of_driver,
            ..Place::here(transport)
        });
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

/// The passive end of a connection.
enum Passive {
    Here(Wire),
    Elsewhere(Elsewhere),
}

impl Passive {
    fn write(&self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Here(wire) => wire.write(octets),
            Self::Elsewhere(wire) => {
                let words = octets.iter().map(|octet| format!(" {octet}"));
                Ok(wire.call(&format!("write{}", words.collect::<String>())))
            }
        }
    }

    fn close_write(&self) -> io::Result<()> {
        match self {
            Self::Here(wire) => wire.close_write(),
            Self::Elsewhere(wire) => {
                wire.call("close");
                Ok(())
            }
        }
    }

    fn reset(self) {
        match self {
            Self::Here(wire) => wire.reset(),
            Self::Elsewhere(wire) => drop(wire.call("reset")),
        }
    }

    /// Reads this many octets. Calls `meanwhile` as long as none are there.
    fn drain(&self, place: &Place, octets: usize, meanwhile: impl Fn()) {
        match self {
            Self::Here(wire) => drain(wire, &place.set(), octets, meanwhile),
            Self::Elsewhere(wire) => assert_eq!(wire.call(&format!("drain {octets}")), octets),
        }
    }
}

fn drain(wire: &Wire, set: &Set, octets: usize, meanwhile: impl Fn()) {
    set.add_stream(wire, 4, Edges::READ).unwrap();
    let mut read = 0;
    while read < octets {
        match wire.read(&mut [0; 65536]) {
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                meanwhile();
                set.arm(wire, Edges::READ);
                set.wait(Some(SHORT), |_| {}).unwrap();
            }
            Err(error) => panic!("{wire:?}: {error}"),
        }
    }
}

/// The passive end, in a separate process that carries out the commands it reads.
struct Elsewhere {
    process: Child,
    input: ChildStdin,
    output: Mutex<Lines<BufReader<ChildStdout>>>,
}

/// Set in such a process.
const ELSEWHERE: &str = "SOFTND_TEST_PASSIVE_END";

impl Elsewhere {
    fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "transport::tests::a_passive_end_in_its_own_process",
            ])
            .args(["--ignored", "--nocapture"])
            .env(ELSEWHERE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take());
        Self {
            input: input.unwrap(),
            output: Mutex::new(BufReader::new(output.unwrap()).lines()),
            process,
        }
    }

    /// What the process says after this word.
    fn said(&self, word: &str) -> String {
        let mut lines = self.output.lock();
        let said = lines.find_map(|line| Some(line.unwrap().strip_prefix(word)?.to_owned()));
        said.expect("the process has not failed")
    }

    /// Has the process make a call, and returns its number.
    fn call(&self, line: &str) -> usize {
        writeln!(&self.input, "{line}").unwrap();
        self.said("done ").parse().unwrap()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
#[ignore = "a process of the other tests"]
fn a_passive_end_in_its_own_process() {
    let (Some(_), Some(transport)) = (std::env::var_os(ELSEWHERE), over_rings()) else {
        return;
    };
    let bound = bind(&transport, SocketAddr::new(HERE, 0), Purpose::Listening).unwrap();
    let at = bound.local().unwrap();
    let listening = bound.listen().unwrap();
    println!("\nat {at}");
    let accepted = loop {
        match listening.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            accepted => break accepted.unwrap(),
        }
    };
    let [wire] = paired([accepted]);
    assert_eq!(wire.transport_name(), "shm");
    println!("\nfrom {}", wire.addresses().1);
    let mut wire = Some(wire);
    for line in io::stdin().lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let open = || wire.as_ref().unwrap();
        let done = match words.next().unwrap() {
            "write" => {
                let octets: Vec<u8> = words.map(|word| word.parse().unwrap()).collect();
                open().write(&octets).unwrap()
            }
            "drain" => {
                let octets = words.next().unwrap().parse().unwrap();
                let set = Set::in_environment(&transport.environment()).unwrap();
                drain(open(), &set, octets, || {});
                octets
            }
            "close" => {
                open().close_write().unwrap();
                0
            }
            "reset" => {
                wire.take().unwrap().reset();
                0
            }
            _ => unreachable!("{line}"),
        };
        println!("\ndone {done}");
    }
}

/// Two ends of a connection, and a set that reports the first one.
fn connected(place: &Place) -> (Wire, Passive, Set) {
    if place.is_elsewhere {
        let passive = Elsewhere::start();
        let at = passive.said("at ").parse().unwrap();
        let set = place.set();
        let from = bind(place, SocketAddr::new(HERE, 0), Purpose::Connecting).unwrap();
        let local = from.local().unwrap();
        let dialer = from.connect(at).unwrap();
        set.add_stream(&dialer, 2, Edges::READ | Edges::WRITE)
            .unwrap();
        while !dialer.is_connected(Edges::WRITE).unwrap() {
            wait(&set);
        }
        set.remove(&dialer).unwrap();
        let [active] = paired([dialer.into_wire().unwrap()]);
        assert_eq!(active.transport_name(), "shm");
        assert_eq!(passive.said("from "), local.to_string());
        set.add_stream(&active, 3, Edges::READ).unwrap();
        return (active, Passive::Elsewhere(passive), set);
    }
    let (active, passive, set) = connected_here(place);
    (active, Passive::Here(passive), set)
}

fn connected_here(transport: &Place) -> (Wire, Wire, Set) {
    let set = transport.set();
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
    let transport = Place::here(transport);
    let ends = connected_here(&transport);
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
fn a_port_that_connecting_chooses_is_known_at_once() {
    let transport = Transport::Tcp(Tcp::default());
    let listening = transport.bind(SocketAddr::new(HERE, 0), Purpose::Listening);
    let listening = listening.unwrap();
    let at = listening.local().unwrap();
    let _listening = listening.listen().unwrap();
    let dialer = transport.bind_any_port(HERE).unwrap().connect(at).unwrap();
    let local = dialer.local().unwrap();
    assert_eq!(local.ip(), HERE);
    assert_ne!(local.port(), 0);
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
        // A peek at the other end makes it send its octets, for the transport that sends in the program itself.
        passive.drain(transport, sent, || would_block(active.peek()));
        wait(&set);
        assert!(active.write(&[7]).is_ok());
    });
}

/// Only Linux has the limit.
#[cfg(target_os = "linux")]
#[test]
fn a_peer_that_has_no_room_for_long_ends_the_connection() {
    let (active, passive, set) = connected_here(&Place::here(Transport::Tcp(Tcp::default())));
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
        let is_pipe = matches!(**transport, Transport::Pipe(_));
        assert_eq!(end.is_ok_and(|count| count == 0), is_pipe, "{transport:?}");

        let address = std::net::SocketAddr::new(HERE, 0);
        let nobody = bind(transport, address, Purpose::Listening).unwrap();
        let at = nobody.local().unwrap();
        drop(nobody);
        let dialed = bind(transport, address, Purpose::Connecting);
        let dialed = dialed.unwrap().connect(at);
        let refused = dialed.and_then(|dialer| {
            let dials = transport.set();
            dials.add_stream(&dialer, 2, Edges::READ | Edges::WRITE)?;
            wait(&dials);
            dialer.is_connected(Edges::WRITE | Edges::HANGUP)
        });
        assert!(refused.is_err(), "{transport:?}: {refused:?}");
    });
}
