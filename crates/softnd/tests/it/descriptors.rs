//! A process that has no descriptors left: the log, and the peer that is served when a descriptor is free again.
//!
//! The limit holds for the whole process, so each test runs in a separate process.

use crossbeam_channel::unbounded;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Instant;

use crate::common::{self, LONG, Side, child, run};
use netdirect::{OpFlags, Overlapped, Status};
use rustix::process::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use softnd::Options;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// The limit of descriptors: enough for a test, and quickly used up.
const DESCRIPTORS: u64 = 256;

/// The lines that were logged as warnings and errors.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Log;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The log lines that contain this text.
fn lines_about(what: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap();
    let about = lines.iter().filter(|line| line.contains(what));
    about.cloned().collect()
}

/// Runs a test in a separate process, where it is the only one that opens files and writes to the log.
fn alone(name: &str, test: fn()) {
    if child::is_alone() {
        tracing::subscriber::set_global_default(Log).unwrap();
        return test();
    }
    child::passes(&format!("descriptors::{name}"), |_| {});
}

/// Holds all descriptors that the process may still open. Dropping it frees them.
struct Hoard(Vec<File>);

impl Hoard {
    fn new() -> Self {
        limit(DESCRIPTORS);
        let mut files = vec![File::open("/dev/null").unwrap()];
        while let Ok(next) = files[0].try_clone() {
            files.push(next);
        }
        Self(files)
    }
}

impl Hoard {
    /// Another part of the process closes a file.
    fn give_one(&mut self) {
        self.0.pop().expect("some are left");
    }
}

impl Drop for Hoard {
    fn drop(&mut self) {
        limit(u64::MAX);
    }
}

/// Allows the process this many descriptors, or as many as it may have.
fn limit(descriptors: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    limit.current = Some(descriptors.min(most));
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Waits until a thread sleeps, according to its file in `/proc`.
fn asleep(thread: &mut File) {
    let mut line = String::new();
    while !line.contains(") S ") {
        std::thread::yield_now();
        line.clear();
        thread.rewind().unwrap();
        thread.read_to_string(&mut line).unwrap();
    }
}

#[test]
fn threads_that_wait_need_no_descriptors() {
    alone("threads_that_wait_need_no_descriptors", || {
        let side = Side::new();
        let (listener, _) = side.listener(0);
        let requests: Vec<_> = (0..10)
            .map(|_| {
                let (connector, arrives) = (side.connector(), Overlapped::new());
                let asked = listener.get_connection_request(&connector, &arrives);
                let _ = asked.unwrap();
                (connector, arrives)
            })
            .collect();
        std::thread::scope(|threads| {
            let waiting: Vec<_> = requests
                .iter()
                .map(|(_, arrives)| {
                    let (sender, receiver) = unbounded();
                    let (let_go, go) = unbounded::<()>();
                    let waits = threads.spawn(move || {
                        sender
                            .send(File::open("/proc/thread-self/stat").unwrap())
                            .unwrap();
                        let _ = go.recv();
                        arrives.wait_timeout(LONG)
                    });
                    (waits, receiver.recv().unwrap(), let_go)
                })
                .collect();
            let hoard = Hoard::new();
            let waiting: Vec<_> = waiting
                .into_iter()
                .map(|(waits, mut thread, let_go)| {
                    asleep(&mut thread);
                    drop(let_go);
                    asleep(&mut thread);
                    waits
                })
                .collect();
            for _ in 0..1000 {
                side.file.park(&|| false, Some(Instant::now())).unwrap();
            }
            listener.cancel_overlapped_requests().unwrap();
            for waits in waiting {
                assert_eq!(waits.join().unwrap(), Some(Status::CANCELED));
            }
            drop(hoard);
        });
        assert_eq!(lines_about(""), [""; 0]);
    });
}

/// A socket to connect with when there are no descriptors any more.
fn socket() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()
}

/// Connects, and sends an MPA Request with this private data.
fn ask(socket: Socket, to: SocketAddr, private_data: &[u8]) -> TcpStream {
    socket.connect(&to.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let mut request = b"MPA ID Req Frame\0\x01\0".to_vec();
    request.push(u8::try_from(private_data.len()).unwrap());
    request.extend(private_data);
    stream.write_all(&request).unwrap();
    stream
}

/// Waits until the listener has logged that it cannot accept, once more than before.
fn wait_for_complaint(side: &Side) {
    while lines_about("cannot accept").is_empty() {
        side.file.progress();
        std::thread::yield_now();
    }
}

/// Readiness is reported once: without another peer, nothing calls the listener when a descriptor is free again.
#[test]
fn a_peer_is_served_as_soon_as_another_part_of_the_process_frees_a_descriptor() {
    alone(
        "a_peer_is_served_as_soon_as_another_part_of_the_process_frees_a_descriptor",
        || {
            let side = Side::with(Options::default().timeouts(|limits| limits.request = None));
            let (listener, address) = side.listener(0);
            let (connector, arrives, peer) = (side.connector(), Overlapped::new(), socket());
            let _ = listener
                .get_connection_request(&connector, &arrives)
                .unwrap();
            let mut hoard = Hoard::new();
            let _peer = ask(peer, address, b"at last");
            wait_for_complaint(&side);
            hoard.give_one();
            assert_eq!(arrives.wait_timeout(LONG), Some(Status::SUCCESS));
            assert_eq!(connector.get_private_data().unwrap(), b"at last");
            assert_eq!(lines_about("cannot accept").len(), 1);
        },
    );
}

#[test]
fn a_peer_is_served_when_a_connection_of_ours_ends() {
    alone("a_peer_is_served_when_a_connection_of_ours_ends", || {
        let pair = common::pair();
        let side = &pair.passive;
        let (connector, arrives, peer) = (side.connector(), Overlapped::new(), socket());
        let _ = pair
            .listener
            .get_connection_request(&connector, &arrives)
            .unwrap();
        let hoard = Hoard::new();
        let address = pair.listener.get_local_address().unwrap();
        let _peer = ask(peer, address, b"the next");
        wait_for_complaint(side);
        // Established connections continue meanwhile.
        pair.passive_qp.receive(1, &[]).unwrap();
        pair.active_qp
            .send(2, &[], OpFlags::SILENT_SUCCESS)
            .unwrap();
        assert_eq!(side.result().request_context, 1);
        run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
        run(|overlapped| pair.passive_connector.disconnect(overlapped)).unwrap();
        assert_eq!(arrives.wait_timeout(LONG), Some(Status::SUCCESS));
        assert_eq!(connector.get_private_data().unwrap(), b"the next");
        drop(hoard);
    });
}

/// Silent peers cannot take all descriptors. The listener resets silent peers in favour of a peer that sends its Request.
#[test]
fn silent_peers_give_their_descriptors_up() {
    alone("silent_peers_give_their_descriptors_up", || {
        let options = Options::default()
            .timeouts(|limits| limits.request = None)
            .half_open_limit(1000);
        let side = Side::with(options);
        let (listener, address) = side.listener(0);
        let (connector, arrives, peer) = (side.connector(), Overlapped::new(), socket());
        let _ = listener
            .get_connection_request(&connector, &arrives)
            .unwrap();
        let silent: Vec<_> = std::iter::repeat_with(socket).take(20).collect();
        let mut hoard = Hoard::new();
        (0..5).for_each(|_| hoard.give_one());
        for socket in &silent {
            socket.connect(&address.into()).unwrap();
        }
        let _peer = ask(peer, address, b"not silent");
        assert_eq!(arrives.wait_timeout(LONG), Some(Status::SUCCESS));
        assert_eq!(connector.get_private_data().unwrap(), b"not silent");
        drop(hoard);
    });
}

/// Waits until all octets that were sent from `ports` have arrived, according to the system's table of sockets.
fn delivered(table: &mut File, ports: &[u16]) {
    loop {
        let mut rows = String::new();
        table.rewind().unwrap();
        table.read_to_string(&mut rows).unwrap();
        let waiting = rows.lines().skip(1).filter(|row| {
            // Number, local address, remote address, state, octets that wait to be sent and to be read.
            let mut fields = row.split_whitespace().skip(1);
            let local = fields.next().and_then(|local| local.rsplit(':').next());
            let port = local.and_then(|port| u16::from_str_radix(port, 16).ok());
            let unsent = fields
                .nth(2)
                .is_some_and(|octets| !octets.starts_with("00000000:"));
            unsent && port.is_some_and(|port| ports.contains(&port))
        });
        if waiting.count() == 0 {
            return;
        }
        std::thread::yield_now();
    }
}

/// SEC-031: a peer that has sent its Request is not reset in favour of later peers, however many are accepted at once.
#[test]
fn peers_that_have_spoken_do_not_give_way() {
    alone("peers_that_have_spoken_do_not_give_way", || {
        let side = Side::with(Options::default().half_open_limit(2));
        let (listener, address) = side.listener(0);
        let sockets: Vec<_> = std::iter::repeat_with(socket).take(40).collect();
        let mut table = File::open("/proc/net/tcp").unwrap();
        let hoard = Hoard::new();
        let peers: Vec<_> = sockets
            .into_iter()
            .map(|socket| ask(socket, address, b""))
            .collect();
        wait_for_complaint(&side);
        let ports = peers.iter().map(|peer| peer.local_addr().unwrap().port());
        delivered(&mut table, &ports.collect::<Vec<_>>());
        drop(hoard);
        for _ in &peers {
            let connector = side.connector();
            run(|overlapped| listener.get_connection_request(&connector, overlapped)).unwrap();
        }
    });
}

/// The system needs a descriptor even to report that no peer waits.
#[test]
fn nobody_gives_way_where_nobody_waits() {
    alone("nobody_gives_way_where_nobody_waits", || {
        let side = Side::with(Options::default().timeouts(|limits| limits.request = None));
        let (listener, address) = side.listener(0);
        let (silent, peer) = (socket(), socket());
        let still_there = || {
            let nothing = (&silent).read(&mut [0]).unwrap_err();
            assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
        };
        let mut hoard = Hoard::new();
        hoard.give_one();
        silent.connect(&address.into()).unwrap();
        silent.set_nonblocking(true).unwrap();
        for _ in 0..1000 {
            side.file.progress();
            still_there();
        }
        hoard.give_one();
        let _peer = ask(peer, address, b"");
        let connector = side.connector();
        run(|overlapped| listener.get_connection_request(&connector, overlapped)).unwrap();
        // Both peers have been accepted, in the order of their arrival.
        still_there();
        drop(hoard);
        assert_eq!(lines_about("cannot accept"), [""; 0]);
    });
}
