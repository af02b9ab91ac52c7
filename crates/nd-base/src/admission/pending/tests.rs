use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicUsize;

use socket2::{Domain, Socket, Type};

use super::super::*;
use super::*;

/// A limit only to end a hang.
const HANG: Duration = Duration::from_secs(60);

/// Admits each peer that sends an octet, after an answer.
fn admission(most: usize, first_message: Duration) -> (Admission<u8>, SocketAddr) {
    let (admission, address, _) = counted(most, first_message);
    (admission, address)
}

/// An admission, its address, and the largest number of greetings that ran at once.
fn counted(most: usize, first_message: Duration) -> (Admission<u8>, SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let bounds = Bounds {
        most,
        first_message,
        known_give_way: false,
    };
    let (now, peak) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let highest = Arc::clone(&peak);
    let admission = Admission::of_tcp(listener, bounds, move |stream, pending| {
        highest.fetch_max(1 + now.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
        let greeted = greet(stream, pending);
        now.fetch_sub(1, Ordering::SeqCst);
        greeted
    });
    (admission.expect("a thread"), address, peak)
}

fn greet(mut stream: TcpStream, pending: &PendingPeer<u8>) -> Result<()> {
    let mut word = [0];
    let explain = |error| Failure::io("hear", &error);
    stream
        .set_read_timeout(Some(pending.deadline.left().max(Duration::from_millis(1))))
        .map_err(explain)?;
    stream.read_exact(&mut word).map_err(explain)?;
    if word == *b"x" {
        // The greeting serves the peer until it leaves.
        pending.has_spoken();
        stream.write_all(&word).map_err(explain)?;
        stream.set_read_timeout(None).map_err(explain)?;
        let _ = stream.read(&mut word);
        return Ok(());
    }
    pending.admit(word[0]);
    stream.write_all(&word).map_err(explain)
}

fn connect(to: SocketAddr) -> TcpStream {
    connect_from(1, to)
}

/// Connects from 127.0.0.`host`.
fn connect_from(host: u8, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from = SocketAddr::from(([127, 0, 0, host], 0));
    socket.bind(&from.into()).expect("a loopback address");
    socket.connect(&to.into()).expect("accepted by the system");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(HANG)).expect("set");
    stream
}

fn is_dropped(mut stream: TcpStream) -> bool {
    let mut octet = [0];
    match stream.read(&mut octet) {
        Ok(n) => n == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// An address floods the server before and after honest clients of two others come.
#[cfg(target_os = "linux")] // where all of 127.0.0.0/8 is this machine
#[test]
fn a_flood_of_one_address_takes_no_place_of_another_one() {
    const PLACES: usize = 8;
    let (admission, address, peak) = counted(PLACES, HANG);
    let mut flood: Vec<_> = (0..100).map(|_| connect_from(2, address)).collect();
    let mut honest = [3, 4, 3].map(|host| connect_from(host, address));
    flood.extend((0..100).map(|_| connect_from(2, address)));
    // Those that are left are the youngest, so that all have been accepted by then.
    let left = flood.split_off(flood.len() - (PLACES - honest.len()));
    assert!(flood.into_iter().all(is_dropped));
    for (word, client) in (b'a'..).zip(&mut honest) {
        client.write_all(&[word]).expect("sent");
        client.read_exact(&mut [0]).expect("greeted");
    }
    let admitted = [(); 3].map(|()| admission.next(Some(HANG)).expect("open"));
    let mut words = admitted.map(|word| word.expect("admitted"));
    words.sort_unstable();
    assert_eq!(words, *b"abc");
    assert!(peak.load(Ordering::SeqCst) <= PLACES);
    drop(left);
}

#[cfg(target_os = "linux")]
#[test]
fn a_queue_of_one_address_takes_no_place_of_another_one_and_no_turn() {
    const PLACES: usize = 8;
    let (admission, address) = admission(PLACES, HANG);
    let ask = |host, word| {
        let mut client = connect_from(host, address);
        client.write_all(&[word]).expect("sent");
        client.read_exact(&mut [0]).expect("greeted");
        client
    };
    let queue: Vec<_> = (0..PLACES).map(|_| ask(2, b'a')).collect();
    // All places are taken by peers that are admitted, and by none that is unknown.
    assert!(is_dropped(connect_from(2, address)));
    let other = ask(3, b'b');
    let next = || admission.next(Some(HANG)).expect("open").expect("admitted");
    let order: Vec<_> = (0..PLACES).map(|_| next()).collect();
    assert_eq!(order, *b"abaaaaaa");
    drop((queue, other));
}

#[test]
fn the_oldest_stranger_gives_way() {
    let (admission, address) = admission(2, HANG);
    let [first, second, mut third] = [(); 3].map(|()| connect(address));
    // The peer that gives way does not close its end.
    let _open = first.try_clone().expect("a handle");
    assert!(is_dropped(first));
    third.write_all(b"3").expect("sent");
    assert_eq!(admission.next(Some(HANG)).expect("open"), Some(b'3'));
    drop(admission);
    assert!(is_dropped(second));
}

#[test]
fn who_says_nothing_is_dropped() {
    let (_admission, address) = admission(8, Duration::from_millis(50));
    assert!(is_dropped(connect(address)));
}

#[test]
fn who_is_served_gives_way_to_nobody() {
    let (admission, address) = admission(1, HANG);
    let mut first = connect(address);
    first.write_all(b"x").expect("sent");
    first.read_exact(&mut [0]).expect("known");
    assert!(is_dropped(connect(address)));
    drop(admission);
    assert!(is_dropped(first));
}

/// Returns the connections that give way, one after the other. Each has an identifier and an address, and the identifiers in `spoke`
/// have sent messages, in this order.
fn give_way(present: &[(u64, &str)], spoke: &[u64], admitted: &[u64]) -> Vec<u64> {
    let mut list = List::new();
    for &(id, address) in present {
        let silent_since = spoke.iter().position(|one| *one == id);
        let address = address.parse().expect("an address");
        let one = Present {
            peer: SocketAddr::new(address, u16::try_from(id).expect("a small number")),
            spoke: silent_since.map_or(id, |at| 100 + at as u64),
            stage: match (silent_since, admitted.contains(&id)) {
                (_, true) => Stage::Admitted(()),
                (Some(_), false) => Stage::Known,
                (None, false) => Stage::Unknown,
            },
            greet: None,
            turn_away: Box::new(|| ()),
        };
        list.waiting
            .insert(id, PeerNetwork::from_address(address), one);
    }
    std::iter::from_fn(|| list.remove_silent())
        .map(|one| one.peer.port().into())
        .collect()
}

#[test]
fn the_longest_silent_of_the_address_with_the_most_gives_way() {
    let [a, b, c] = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
    let known = [(1, a), (2, b), (3, a), (4, a), (5, b)];
    assert_eq!(give_way(&known, &[1, 2, 3, 4, 5], &[]), [1, 2, 3, 4, 5]);
    assert_eq!(give_way(&known, &[2, 5, 3, 4, 1], &[]), [3, 2, 4, 5, 1]);
    // An unknown peer has been silent since it came.
    assert_eq!(give_way(&known, &[1, 2, 5], &[]), [3, 4, 2, 1, 5]);
    // One host may have a whole network of 64 bits.
    let network = [(1, b), (2, c), (3, "2001:db8::2")];
    assert_eq!(give_way(&network, &[], &[]), [2, 1, 3]);
    assert_eq!(give_way(&known, &[], &[1, 3, 4]), [2, 5]);
    assert!(give_way(&known, &[], &[1, 2, 3, 4, 5]).is_empty());
}

#[test]
fn a_closed_door_refuses() {
    let (admission, address) = admission(8, HANG);
    drop(admission);
    let refused = TcpStream::connect(address).expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}
