use proptest::prelude::*;

use super::*;
use crate::simulation::conditions::{Chance, Conditions};
use crate::simulation::network::common::EPHEMERAL;
use crate::simulation::network::{Disturbances, Network};

const TENTH: Chance = Chance::per_million(100_000);

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

/// Two sockets of one network, and the address of the second one.
fn pair(seed: u64) -> (Network, [DatagramSocketId; 2], SocketAddr) {
    let mut network = Network::new(seed, Conditions::default());
    let one = network.datagrams().bind(address(1, 0)).unwrap();
    let other = network.datagrams().bind(address(2, 7000)).unwrap();
    (network, [one, other], address(2, 7000))
}

/// Advances until no event is left.
fn run(network: &mut Network) {
    while let Some(at) = network.next_event() {
        network.advance(at);
    }
}

fn take_all(network: &mut Network, socket: DatagramSocketId) -> Vec<Datagram> {
    std::iter::from_fn(|| network.datagrams().take(socket)).collect()
}

fn errno(error: io::Error) -> Option<Errno> {
    Errno::from_io_error(&error)
}

#[test]
fn datagrams_have_addresses_apart_from_those_of_streams() {
    let (mut network, [one, other], to) = pair(1);
    let taken = network.datagrams().bind(to).unwrap_err();
    assert_eq!(errno(taken), Some(Errno::ADDRINUSE));
    network.bind(to).unwrap();
    let local = network.datagrams().local(one);
    assert!(EPHEMERAL.contains(&local.port()));
    network.datagrams().close(other);
    network.datagrams().bind(to).unwrap();
    // Each port of a host is picked once.
    for _ in 1..EPHEMERAL.len() {
        network.datagrams().bind(address(1, 0)).unwrap();
    }
    let full = network.datagrams().bind(address(1, 0)).unwrap_err();
    assert_eq!(errno(full), Some(Errno::ADDRINUSE));
}

#[test]
fn datagrams_arrive_in_the_order_in_which_they_were_sent() {
    let (mut network, [one, other], to) = pair(2);
    for number in 0..200 {
        network.datagrams().send(one, to, 0, &[number]).unwrap();
    }
    run(&mut network);
    let received = take_all(&mut network, other);
    let numbers: Vec<u8> = received.iter().map(|datagram| datagram.octets[0]).collect();
    assert_eq!(numbers, (0..200).collect::<Vec<u8>>());
}

#[test]
fn addresses_without_a_route_and_hosts_that_cannot_be_reached_are_told_at_once() {
    let (mut network, [one, _], to) = pair(3);
    let send = |network: &mut Network, to: SocketAddr| {
        let sent = network.datagrams().send(one, to, 0, b"x");
        sent.map_err(|error| errno(error).unwrap())
    };
    let loopback = SocketAddr::from(([127, 0, 0, 1], 7000));
    let v6 = SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 7000));
    assert_eq!(send(&mut network, loopback), Err(Errno::NETUNREACH));
    assert_eq!(send(&mut network, v6), Err(Errno::NETUNREACH));
    assert_eq!(send(&mut network, to), Ok(()));
    network.conditions_mut().unreachable = [to.ip()].into();
    assert_eq!(send(&mut network, to), Err(Errno::HOSTUNREACH));
}

#[test]
fn a_socket_sends_no_faster_than_the_bandwidth() {
    let (mut network, [one, other], to) = pair(4);
    network.conditions_mut().bandwidth = 1000;
    for _ in 0..4 {
        network.datagrams().send(one, to, 0, &[1; 500]).unwrap();
    }
    network.advance(Duration::from_millis(1_500));
    assert_eq!(take_all(&mut network, other).len(), 2);
    run(&mut network);
    assert_eq!(take_all(&mut network, other).len(), 2);
    assert!(network.now() >= Duration::from_secs(2));
}

/// Sends 1,000 datagrams, which begin with their numbers, under these conditions. Returns the datagrams that have arrived, and the
/// disturbances.
fn thousand(change: impl FnOnce(&mut Conditions)) -> (Vec<Datagram>, Disturbances) {
    let (mut network, [one, other], to) = pair(5);
    change(network.conditions_mut());
    for number in 0..1000 {
        let octets = numbered(number);
        network.datagrams().send(one, to, 0b01, &octets).unwrap();
        network.advance(network.now() + Duration::from_micros(10));
    }
    run(&mut network);
    let received = take_all(&mut network, other);
    let one = network.datagrams().local(one);
    let header = |datagram: &Datagram| (datagram.from, datagram.ecn) == (one, 0b01);
    assert!(received.iter().all(header));
    (received, network.disturbances())
}

/// The octets of a datagram: its number, and that many octets more, so that each datagram has a different length.
fn numbered(number: u32) -> Vec<u8> {
    let mut octets = number.to_be_bytes().to_vec();
    octets.resize(4 + number as usize, 0xAA);
    octets
}

fn number(datagram: &Datagram) -> u32 {
    u32::from_be_bytes(datagram.octets[..4].try_into().unwrap())
}

fn numbers(received: &[Datagram]) -> Vec<u32> {
    received.iter().map(number).collect()
}

#[test]
fn nothing_happens_to_datagrams_without_a_chance() {
    let (received, disturbances) = thousand(|_| {});
    assert_eq!(numbers(&received), (0..1000).collect::<Vec<_>>());
    let whole = |datagram: &Datagram| datagram.octets == numbered(number(datagram));
    assert!(received.iter().all(whole));
    assert_eq!(disturbances, Disturbances::default());
}

#[test]
fn a_datagram_draws_its_latency_and_nothing_else_without_a_chance() {
    let (mut network, [one, _], to) = pair(5);
    for number in 0..100 {
        let octets = numbered(number);
        network.datagrams().send(one, to, 0, &octets).unwrap();
    }
    run(&mut network);
    let mut alone = Network::new(5, Conditions::default());
    for _ in 0..101 {
        alone.random(); // the port of the first socket, and each latency
    }
    assert_eq!(network.random(), alone.random());
}

#[test]
fn datagrams_are_lost() {
    let (received, disturbances) = thousand(|conditions| conditions.loss = TENTH);
    assert!((50..200).contains(&disturbances.losses), "{disturbances:?}");
    assert_eq!(received.len() as u64 + disturbances.losses, 1000);
    assert!(numbers(&received).is_sorted_by(|one, next| one < next));
    let (received, disturbances) = thousand(|conditions| conditions.loss = Chance::ALWAYS);
    assert_eq!((received.len(), disturbances.losses), (0, 1000));
}

#[test]
fn datagrams_arrive_twice() {
    let (received, disturbances) = thousand(|conditions| conditions.duplication = TENTH);
    let twice = disturbances.duplications;
    assert!((50..200).contains(&twice), "{disturbances:?}");
    assert_eq!(received.len() as u64, 1000 + twice);
    let mut found = numbers(&received);
    assert!(found.is_sorted());
    found.dedup();
    assert_eq!(found, (0..1000).collect::<Vec<_>>());
}

#[test]
fn late_datagrams_are_overtaken_and_the_others_keep_their_order() {
    let late = Duration::from_millis(3);
    let (received, disturbances) = thousand(|conditions| {
        conditions.reordering = TENTH;
        conditions.reordering_time = late..=late;
    });
    let count = disturbances.reorderings;
    assert!((50..200).contains(&count), "{disturbances:?}");
    // Counts the datagrams that a higher number has overtaken. The last ones may be late without being overtaken.
    let mut highest = 0;
    let (mut overtaken, mut kept) = (0, Vec::new());
    for number in numbers(&received) {
        if number < highest {
            overtaken += 1;
        } else {
            kept.push(number);
        }
        highest = highest.max(number);
    }
    assert!(
        (count / 2..=count).contains(&overtaken),
        "{overtaken} of {count}"
    );
    assert_eq!(kept.len() as u64, 1000 - overtaken);
    let mut all = numbers(&received);
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
}

#[test]
fn corruption_flips_one_to_eight_bits() {
    let (received, disturbances) = thousand(|conditions| conditions.corruption = TENTH);
    let mut counts = BTreeSet::new();
    for (number, datagram) in (0..).zip(&received) {
        let sent = numbered(number);
        assert_eq!(datagram.octets.len(), sent.len());
        let flipped = sent.iter().zip(&datagram.octets);
        counts.insert((
            flipped
                .map(|(one, other)| (one ^ other).count_ones())
                .sum::<u32>(),
            number,
        ));
    }
    let changed = counts.iter().filter(|(flipped, _)| *flipped > 0);
    assert_eq!(changed.count() as u64, disturbances.corruptions);
    assert!((50..200).contains(&disturbances.corruptions));
    let counts: BTreeSet<_> = counts.into_iter().map(|(flipped, _)| flipped).collect();
    assert_eq!(counts, (0..=8).collect());
    // An empty datagram has no bits.
    let (mut network, [one, other], to) = pair(6);
    network.conditions_mut().corruption = Chance::ALWAYS;
    network.datagrams().send(one, to, 0, b"").unwrap();
    run(&mut network);
    assert_eq!(take_all(&mut network, other).len(), 1);
    assert_eq!(network.disturbances().corruptions, 0);
}

#[test]
fn what_has_no_room_in_the_buffer_is_lost() {
    let (mut network, [one, other], to) = pair(7);
    network.conditions_mut().datagram_buffer = 1000;
    let send = |network: &mut Network, len: usize| {
        network.datagrams().send(one, to, 0, &vec![1; len]).unwrap();
        run(network);
        network.disturbances().overflows
    };
    assert_eq!(send(&mut network, 600), 0);
    assert_eq!(send(&mut network, 401), 1);
    assert_eq!(
        send(&mut network, 400),
        1,
        "the buffer is full to the last octet"
    );
    while network.take_notice().is_some() {}
    assert_eq!(send(&mut network, 1), 2);
    assert_eq!(network.take_notice(), None, "what is lost is not reported");
    let lengths = |network: &mut Network| {
        let received = take_all(network, other);
        let lengths = received.iter().map(|datagram| datagram.octets.len());
        lengths.collect::<Vec<_>>()
    };
    assert_eq!(lengths(&mut network), [600, 400]);
    assert_eq!(send(&mut network, 1000), 2, "there is room again");
    assert_eq!(lengths(&mut network), [1000]);
}

#[test]
fn a_datagram_that_is_too_large_is_refused() {
    let (mut network, [one, other], to) = pair(8);
    let large = network.datagrams().send(one, to, 0, &[0; 65_508]);
    assert_eq!(errno(large.unwrap_err()), Some(Errno::MSGSIZE));
    network.conditions_mut().largest_datagram = 1200;
    let large = network.datagrams().send(one, to, 0, &[0; 1201]);
    assert_eq!(errno(large.unwrap_err()), Some(Errno::MSGSIZE));
    network.datagrams().send(one, to, 0, &[0; 1200]).unwrap();
    run(&mut network);
    assert_eq!(take_all(&mut network, other).len(), 1);
    assert_eq!(network.disturbances().oversizes, 2);
}

/// The number of answers of addresses without a socket that arrive until then.
fn answers(network: &Network, until: Duration) -> u64 {
    let events = network.common.events.iter();
    let due = events.filter(|((at, _), _)| *at <= until);
    let answers = due.filter(|(_, event)| matches!(event, NetworkEvent::Refused { .. }));
    answers.count() as u64
}

#[test]
fn hosts_that_are_cut_off_do_not_reach_each_other_for_that_time() {
    let (mut network, [one, other], to) = pair(9);
    let third = network.datagrams().bind(address(3, 7000)).unwrap();
    let back = network.datagrams().local(one);
    let second = Duration::from_secs(1);
    let send = |network: &mut Network, from, to| {
        network.datagrams().send(from, to, 0, b"x").unwrap();
    };
    let found = |network: &mut Network| {
        network.advance(network.now() + Duration::from_millis(1));
        [one, other, third].map(|socket| take_all(network, socket).len())
    };
    send(&mut network, one, to); // on its way when the cut begins
    send(&mut network, one, address(2, 9)); // there is no socket
    network.datagrams().cut(to.ip(), back.ip(), second);
    send(&mut network, one, to);
    send(&mut network, other, back);
    send(&mut network, one, address(3, 7000));
    assert_eq!(found(&mut network), [0, 0, 1]);
    assert_eq!(network.disturbances().cuts, 4);
    assert_eq!(network.datagrams().take_refused(one), None);
    // A datagram that is sent during the cut is lost although it would arrive after the cut's end.
    network.advance(second - Duration::from_nanos(1));
    send(&mut network, one, to);
    network.advance(second);
    assert_eq!(found(&mut network), [0, 0, 0]);
    send(&mut network, one, to);
    send(&mut network, other, back);
    assert_eq!(found(&mut network), [1, 1, 0]);
    // There is no limit to the length of a cut, and a cut of no time ends it.
    network.datagrams().cut(back.ip(), to.ip(), Duration::MAX);
    network.advance(second * 1_000_000);
    send(&mut network, one, to);
    assert_eq!(found(&mut network), [0, 0, 0]);
    network.datagrams().cut(to.ip(), back.ip(), Duration::ZERO);
    send(&mut network, one, to);
    assert_eq!(found(&mut network), [0, 1, 0]);
    // The answer that there is no socket at the address is cut off too.
    send(&mut network, one, address(2, 9));
    while answers(&network, Duration::MAX) == 0 {
        network.advance(network.next_event().unwrap());
    }
    network.datagrams().cut(to.ip(), back.ip(), second);
    run(&mut network);
    assert_eq!(network.datagrams().take_refused(one), None);
}

#[test]
fn a_rebound_socket_is_seen_at_another_port_and_its_old_address_loses_datagrams() {
    let (mut network, [one, other], to) = pair(10);
    let old = network.datagrams().local(one);
    let send = |network: &mut Network, from, to, text: &[u8]| {
        network.datagrams().send(from, to, 0, text).unwrap();
    };
    // A datagram sent before arrives, from the old address. One sent to the old address before is lost on its way.
    send(&mut network, one, to, b"before");
    send(&mut network, other, old, b"on its way");
    send(&mut network, one, address(3, 9), b"to nobody");
    let new = network.datagrams().rebind(one).unwrap();
    assert_eq!((new.ip(), network.datagrams().local(one)), (old.ip(), old));
    assert_ne!(new.port(), old.port());
    assert!(EPHEMERAL.contains(&new.port()));
    send(&mut network, one, to, b"after");
    send(&mut network, other, new, b"to the new address");
    run(&mut network);
    send(&mut network, other, old, b"to the old address");
    run(&mut network);
    let contents = |received: Vec<Datagram>| {
        let tell = |it: Datagram| (it.from, String::from_utf8(it.octets).unwrap());
        received.into_iter().map(tell).collect::<Vec<_>>()
    };
    let received = contents(take_all(&mut network, other));
    assert_eq!(received, [(old, "before".into()), (new, "after".into())]);
    let received = contents(take_all(&mut network, one));
    assert_eq!(received, [(to, "to the new address".into())]);
    let Disturbances {
        rebinds, strays, ..
    } = network.disturbances();
    assert_eq!((rebinds, strays), (1, 2));
    // No answer reports that the old address is gone, and none comes to the old address.
    assert_eq!(network.datagrams().take_refused(other), None);
    assert_eq!(network.datagrams().take_refused(one), None);
    // No other socket gets any of the addresses while the socket lives.
    let again = network.datagrams().rebind(one).unwrap();
    for address in [old, new, again] {
        let taken = network.datagrams().bind(address).unwrap_err();
        assert_eq!(errno(taken), Some(Errno::ADDRINUSE));
    }
    network.datagrams().close(one);
    for address in [old, new, again] {
        network.datagrams().bind(address).unwrap();
    }
}

#[derive(Clone, Debug)]
enum Act {
    Send(usize, usize, usize),
    Take(usize),
    Wait(u64),
    Cut(usize, u64),
    Rebind(usize),
    Reopen(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (0..3usize, 0..4usize, 0..1500usize).prop_map(|(from, to, len)| Act::Send(from, to, len)),
        4 => (0..3usize).prop_map(Act::Take),
        4 => (0..100_000u64).prop_map(Act::Wait),
        1 => (0..3usize, 0..200_000u64).prop_map(|(at, nanos)| Act::Cut(at, nanos)),
        1 => (0..3usize).prop_map(Act::Rebind),
        1 => (0..3usize).prop_map(Act::Reopen),
    ]
}

/// A log of everything that three sockets see of a run under all conditions.
fn story(seed: u64, acts: &[Act]) -> Vec<String> {
    let mut network = Network::new(
        seed,
        Conditions {
            loss: TENTH,
            duplication: TENTH,
            reordering: TENTH,
            corruption: TENTH,
            datagram_buffer: 4000,
            largest_datagram: 1400,
            ..Conditions::default()
        },
    );
    let local = |at: usize| address(u8::try_from(at).unwrap(), 7000);
    let mut sockets: Vec<_> = (0..3)
        .map(|at| network.datagrams().bind(local(at)).unwrap())
        .collect();
    let mut story = Vec::new();
    let (mut sent, mut dropped, mut taken, mut refused) = (0, 0, 0, 0);
    for act in acts {
        match *act {
            // There is no socket at the fourth address.
            Act::Send(from, to, len) => {
                let octets = vec![7; len];
                let done = network
                    .datagrams()
                    .send(sockets[from], local(to), 0, &octets);
                assert_eq!(done.is_err(), len > 1400);
                sent += u64::from(done.is_ok());
            }
            Act::Take(at) => {
                while let Some(datagram) = network.datagrams().take(sockets[at]) {
                    taken += 1;
                    story.push(format!("{at} took {datagram:?}"));
                }
                while let Some(remote) = network.datagrams().take_refused(sockets[at]) {
                    story.push(format!("{at} is refused by {remote}"));
                }
            }
            Act::Wait(nanos) => {
                let end = network.now() + Duration::from_nanos(nanos);
                refused += advance(&mut network, end);
            }
            Act::Cut(at, nanos) => {
                let (one, other) = (local(at).ip(), local((at + 1) % 3).ip());
                let time = Duration::from_nanos(nanos);
                network.datagrams().cut(one, other, time);
            }
            Act::Rebind(at) => {
                let new = network.datagrams().rebind(sockets[at]).unwrap();
                story.push(format!("{at} is at {new}"));
            }
            Act::Reopen(at) => {
                dropped += take_all(&mut network, sockets[at]).len() as u64;
                network.datagrams().close(sockets[at]);
                sockets[at] = network.datagrams().bind(local(at)).unwrap();
            }
        }
        while let Some(notice) = network.take_notice() {
            story.push(format!("{:?} {notice:?}", network.now()));
        }
    }
    while let Some(at) = network.next_event() {
        refused += advance(&mut network, at);
    }
    for socket in sockets {
        taken += take_all(&mut network, socket).len() as u64;
    }
    let disturbances = network.disturbances();
    let Disturbances {
        losses,
        overflows,
        cuts,
        strays,
        duplications,
        ..
    } = disturbances;
    let ends = taken + dropped + refused + losses + overflows + cuts + strays;
    assert_eq!(sent + duplications, ends, "each datagram has one end");
    story.push(format!("{disturbances:?}"));
    story
}

/// Advances, and returns the number of datagrams that have arrived at an address without a socket.
fn advance(network: &mut Network, to: Duration) -> u64 {
    let mut found = 0;
    while network.next_event().is_some_and(|at| at <= to) {
        let at = network.next_event().unwrap();
        let (before, due) = (answers(network, Duration::MAX), answers(network, at));
        network.advance(at);
        found += answers(network, Duration::MAX) - (before - due);
    }
    network.advance(to);
    found
}

proptest! {
    #[test]
    fn each_datagram_has_one_end_and_equal_seeds_give_equal_runs(
        seed: u64,
        acts in prop::collection::vec(act(), 1..200),
    ) {
        prop_assert_eq!(story(seed, &acts), story(seed, &acts));
    }
}
