use std::net::SocketAddr;

use proptest::prelude::*;

use super::common::EPHEMERAL;
use super::*;
use crate::simulation::conditions::Chance;

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

/// Two ends of one stream.
fn pair(seed: u64, conditions: Conditions) -> (Network, EndId, EndId) {
    let mut network = Network::new(seed, conditions);
    let server = network.bind(address(2, 7000)).unwrap();
    let listener = network.listen(server, 1);
    let client = network.bind(address(1, 0)).unwrap();
    let active = network.connect(client, server).unwrap();
    run(&mut network);
    network.connected(active).unwrap();
    let passive = network.accept(listener).unwrap();
    assert_eq!(network.addresses(passive), (server, client));
    while network.take_notice().is_some() {}
    (network, active, passive)
}

/// Advances until no event is left.
fn run(network: &mut Network) {
    while let Some(at) = network.next_event() {
        network.advance(at);
    }
}

fn read_all(network: &mut Network, end: EndId) -> Vec<u8> {
    let mut found = Vec::new();
    while let Ok(1..) = network.read(end, usize::MAX, |octets| found.extend_from_slice(octets)) {}
    found
}

fn errno(error: io::Error) -> Option<Errno> {
    Errno::from_io_error(&error)
}

#[test]
fn what_was_written_before_the_end_arrives_before_the_end() {
    let (mut network, a, b) = pair(1, Conditions::default());
    let text: Vec<u8> = (0..10_000u32).flat_map(u32::to_be_bytes).collect();
    assert_eq!(network.write(a, &text).unwrap(), text.len());
    network.close_write(a);
    assert_eq!(errno(network.write(a, b"late").unwrap_err()), Some(EPIPE));
    run(&mut network);
    assert_eq!(read_all(&mut network, b), text);
    assert_eq!(network.read(b, 1, |_| {}).unwrap(), 0);
    // The other direction continues.
    network.write(b, b"still here").unwrap();
    network.close(b);
    run(&mut network);
    assert_eq!(read_all(&mut network, a), b"still here");
    network.close(a);
    run(&mut network);
    assert_eq!(network.count(), 0);
}

#[test]
fn a_writer_is_held_back_by_what_its_reader_has_not_read() {
    let conditions = Conditions {
        buffer: 1000,
        ..Conditions::default()
    };
    let (mut network, a, b) = pair(2, conditions);
    let mut written = 0;
    loop {
        match network.write(a, &[7; 600]) {
            Ok(count) => written += count,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                break;
            }
        }
        run(&mut network);
    }
    assert_eq!(written, 2000, "one buffer at each end");
    while network.take_notice().is_some() {}
    assert_eq!(network.read(b, 1, |_| {}).unwrap(), 1);
    assert_eq!(network.take_notice(), Some(Notice::Writable(a)));
    assert_eq!(network.write(a, &[7; 600]).unwrap(), 1);
}

#[test]
fn nobody_listens_the_backlog_is_full_and_addresses_are_taken() {
    let mut network = Network::new(3, Conditions::default());
    let server = network.bind(address(2, 7000)).unwrap();
    assert_eq!(
        errno(network.bind(server).unwrap_err()),
        Some(Errno::ADDRINUSE)
    );
    let connect = |network: &mut Network| {
        let local = network.bind(address(1, 0)).unwrap();
        assert!(EPHEMERAL.contains(&local.port()));
        let end = network.connect(local, server).unwrap();
        assert_eq!(
            network.connected(end).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        run(network);
        (local, end)
    };
    let (_, refused) = connect(&mut network);
    let refusal = |network: &Network, end| errno(network.connected(end).unwrap_err());
    assert_eq!(refusal(&network, refused), Some(Errno::CONNREFUSED));
    let listener = network.listen(server, 1);
    let (local, first) = connect(&mut network);
    network.connected(first).unwrap();
    let (_, second) = connect(&mut network);
    assert_eq!(refusal(&network, second), Some(Errno::CONNREFUSED));
    let again = network.connect(local, server).unwrap_err();
    assert_eq!(errno(again), Some(Errno::ADDRNOTAVAIL));
    // A listener that closes resets the peers that it has not accepted.
    network.close_listener(listener);
    run(&mut network);
    assert_eq!(
        errno(network.read(first, 1, |_| {}).unwrap_err()),
        Some(Errno::CONNRESET)
    );
    network.bind(server).unwrap();
}

#[test]
fn iw_054_the_address_of_a_closing_end_can_be_bound_and_connected_to_others() {
    let (mut network, active, passive) = pair(4, Conditions::default());
    let (client, server) = network.addresses(active);
    let taken = |network: &mut Network| errno(network.bind(client).unwrap_err());
    assert_eq!(taken(&mut network), Some(Errno::ADDRINUSE));
    // The peer has closed its direction, and the program still holds the address.
    network.close_write(passive);
    run(&mut network);
    assert_eq!(taken(&mut network), Some(Errno::ADDRINUSE));
    network.close_write(active);
    network.bind(client).unwrap();
    let again = network.connect(client, server).unwrap_err();
    assert_eq!(errno(again), Some(Errno::ADDRNOTAVAIL));
    let elsewhere = network.bind(address(3, 7000)).unwrap();
    let listener = network.listen(elsewhere, 1);
    let other = network.connect(client, elsewhere).unwrap();
    // The first end is removed, and the address stays that of the other.
    network.close(active);
    network.close(passive);
    run(&mut network);
    network.connected(other).unwrap();
    assert!(network.accept(listener).is_some());
    assert_eq!(taken(&mut network), Some(Errno::ADDRINUSE));
    network.abort(other);
    network.bind(client).unwrap();
}

#[test]
fn conn_022_hosts_that_cannot_be_reached_are_told_from_those_that_refuse() {
    let mut network = Network::new(5, Conditions::default());
    let server = network.bind(address(2, 7000)).unwrap();
    network.listen(server, 1);
    let mut fails = |to: SocketAddr| {
        let client = network.bind(address(1, 0)).unwrap();
        network.conditions_mut().unreachable = [address(2, 0).ip()].into();
        let end = network.connect(client, to).unwrap();
        run(&mut network);
        errno(network.connected(end).unwrap_err())
    };
    assert_eq!(fails(server), Some(Errno::HOSTUNREACH));
    assert_eq!(fails(address(3, 7000)), Some(Errno::CONNREFUSED));
}

#[test]
fn unread_octets_make_a_close_a_reset_behind_what_was_sent() {
    let (mut network, a, b) = pair(4, Conditions::default());
    network.write(a, b"unread").unwrap();
    run(&mut network);
    network.write(b, b"answer").unwrap();
    network.close(b);
    run(&mut network);
    assert_eq!(read_all(&mut network, a), b"answer");
    assert_eq!(
        errno(network.read(a, 1, |_| {}).unwrap_err()),
        Some(Errno::CONNRESET)
    );
    assert_eq!(errno(network.write(a, b"x").unwrap_err()), Some(EPIPE));
}

#[test]
fn octets_for_an_end_that_was_let_go_of_are_answered_by_a_reset() {
    let (mut network, a, b) = pair(5, Conditions::default());
    network.close(b);
    run(&mut network);
    assert_eq!(network.read(a, 1, |_| {}).unwrap(), 0);
    network.write(a, b"anybody?").unwrap();
    run(&mut network);
    assert_eq!(errno(network.write(a, b"x").unwrap_err()), Some(EPIPE));
}

#[test]
fn each_disturbance_happens_and_none_without_its_chance() {
    let always = |change: fn(&mut Conditions)| {
        let mut conditions = Conditions::default();
        change(&mut conditions);
        conditions
    };
    let attempt = |conditions| {
        let mut network = Network::new(6, conditions);
        let server = network.bind(address(2, 7000)).unwrap();
        network.listen(server, 8);
        let local = network.bind(address(1, 0)).unwrap();
        let end = network.connect(local, server).unwrap();
        run(&mut network);
        network
            .connected(end)
            .map_err(|error| (error.kind(), errno(error)))
    };
    assert_eq!(attempt(Conditions::default()), Ok(()));
    let refused = attempt(always(|c| c.refusal = Chance::ALWAYS));
    assert_eq!(refused.unwrap_err().1, Some(Errno::CONNREFUSED));
    let silent = attempt(always(|c| c.silence = Chance::ALWAYS));
    assert_eq!(silent.unwrap_err().0, io::ErrorKind::WouldBlock);

    let (mut network, a, b) = pair(7, Conditions::default());
    network.conditions_mut().half_close = Chance::ALWAYS;
    network.write(a, b"dropped").unwrap();
    run(&mut network);
    assert_eq!(network.read(b, 9, |_| {}).unwrap(), 0);

    let (mut network, a, b) = pair(8, Conditions::default());
    network.conditions_mut().reset = Chance::ALWAYS;
    network.write(a, b"dropped").unwrap();
    run(&mut network);
    for end in [a, b] {
        assert_eq!(
            errno(network.read(end, 9, |_| {}).unwrap_err()),
            Some(Errno::CONNRESET)
        );
    }

    let (mut network, a, b) = pair(9, Conditions::default());
    let late = Duration::from_secs(3);
    network.conditions_mut().stall = Chance::ALWAYS;
    network.conditions_mut().stall_time = late..=late;
    let before = network.now();
    network.write(a, b"late").unwrap();
    network.advance(before + late);
    assert!(network.readable(b).is_err());
    run(&mut network);
    assert_eq!(read_all(&mut network, b), b"late");

    // The end that was connected to replies late, and afterwards without delay; or never, although the other direction continues.
    let replies = |conditions| {
        let (mut network, a, b) = pair(11, conditions);
        let before = network.now();
        network.write(b, b"hello").unwrap();
        network.advance(before + late - Duration::from_millis(1));
        assert!(network.readable(a).is_err());
        run(&mut network);
        network.write(a, b"hello").unwrap();
        run(&mut network);
        assert_eq!(read_all(&mut network, b), b"hello");
        network.readable(a)
    };
    let mut conditions = always(|c| c.late_reply = Chance::ALWAYS);
    conditions.late_reply_time = late..=late;
    assert_eq!(replies(conditions).unwrap(), 5);
    let mute = replies(always(|c| c.no_reply = Chance::ALWAYS));
    assert_eq!(mute.unwrap_err().kind(), io::ErrorKind::WouldBlock);

    let (mut network, a, b) = pair(10, Conditions::default());
    network.conditions_mut().bandwidth = 1000;
    let before = network.now();
    network.write(a, &[1; 2000]).unwrap();
    run(&mut network);
    assert!(network.now() - before >= Duration::from_secs(2));
    assert_eq!(read_all(&mut network, b).len(), 2000);
}

/// Runs streams in a network with most disturbances of streams. Returns the time at their end, and the generator's next number.
fn streams_alone(network: &mut Network) -> (u128, u64) {
    let conditions = network.conditions_mut();
    conditions.bandwidth = 1_000_000;
    conditions.buffer = 4096;
    conditions.stall = Chance::per_million(50_000);
    conditions.reset = Chance::per_million(2_000);
    conditions.half_close = Chance::per_million(2_000);
    conditions.refusal = Chance::per_million(100_000);
    conditions.silence = Chance::per_million(100_000);
    let server = network.bind(address(2, 7000)).unwrap();
    let listener = network.listen(server, 8);
    for _ in 0..20 {
        let client = network.bind(address(1, 0)).unwrap();
        let active = network.connect(client, server).unwrap();
        run(network);
        let Some(passive) = network.accept(listener) else {
            continue;
        };
        for round in 0..40 {
            let (from, to) = if round % 2 == 0 {
                (active, passive)
            } else {
                (passive, active)
            };
            let _ = network.write(from, &[round; 3000]);
            run(network);
            read_all(network, to);
        }
        network.close(active);
        network.close(passive);
    }
    run(network);
    (network.now().as_nanos(), network.random())
}

#[test]
fn equal_seeds_draw_the_same_numbers_for_streams_in_every_version() {
    let expected = (6_664_892_399, 15_287_962_870_434_012_177);
    let mut network = Network::new(11, Conditions::default());
    assert_eq!(streams_alone(&mut network), expected);
    // Sockets that send no datagrams do not draw numbers either, whatever the conditions for datagrams.
    let mut network = Network::new(
        11,
        Conditions {
            loss: Chance::per_million(500_000),
            duplication: Chance::per_million(500_000),
            reordering: Chance::per_million(500_000),
            corruption: Chance::per_million(500_000),
            datagram_buffer: 1,
            largest_datagram: 1,
            ..Conditions::default()
        },
    );
    for host in [1, 2] {
        network.datagrams().bind(address(host, 7000)).unwrap();
    }
    let one_second = Duration::from_secs(1);
    network
        .datagrams()
        .cut(address(1, 0).ip(), address(2, 0).ip(), one_second);
    assert_eq!(streams_alone(&mut network), expected);
}

#[derive(Clone, Debug)]
enum Act {
    Write(bool, usize),
    Read(bool, usize),
    Wait(u64),
    CloseWrite(bool),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (any::<bool>(), 1..3000usize).prop_map(|(at, len)| Act::Write(at, len)),
        4 => (any::<bool>(), 1..3000usize).prop_map(|(at, len)| Act::Read(at, len)),
        4 => (0..200_000u64).prop_map(Act::Wait),
        1 => any::<bool>().prop_map(Act::CloseWrite),
    ]
}

/// The octet at a position of a stream.
fn octet(at: u64) -> u8 {
    at.to_le_bytes()[0]
}

/// A log of everything that the two ends see of a run.
fn story(seed: u64, buffer: usize, acts: &[Act]) -> Vec<String> {
    let conditions = Conditions {
        buffer,
        ..Conditions::default()
    };
    let (mut network, a, b) = pair(seed, conditions);
    let ends = [a, b];
    let mut story = Vec::new();
    let (mut written, mut read, mut closed) = ([0u64; 2], [0u64; 2], [false; 2]);
    for act in acts {
        match *act {
            Act::Write(at, len) => {
                let at = usize::from(at);
                let octets: Vec<u8> = (0..len as u64).map(|i| octet(written[at] + i)).collect();
                match network.write(ends[at], &octets) {
                    Ok(count) => written[at] += count as u64,
                    Err(error) if closed[at] => assert_eq!(errno(error), Some(EPIPE)),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            Act::Read(at, len) => {
                let (at, from) = (usize::from(at), usize::from(!at));
                let mut expected = read[at];
                let result = network.read(ends[at], len, |octets| {
                    for found in octets {
                        assert_eq!(*found, octet(expected), "octets arrive in order, each once");
                        expected += 1;
                    }
                });
                match result {
                    Ok(0) => assert!(closed[from] && read[at] == written[from]),
                    Ok(count) => read[at] += count as u64,
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
                story.push(format!("{:?} {at} read {}", network.now(), read[at]));
            }
            Act::Wait(nanos) => network.advance(network.now() + Duration::from_nanos(nanos)),
            Act::CloseWrite(at) => {
                network.close_write(ends[usize::from(at)]);
                closed[usize::from(at)] = true;
            }
        }
        while let Some(notice) = network.take_notice() {
            story.push(format!("{:?} {notice:?}", network.now()));
        }
    }
    loop {
        run(&mut network);
        let found = ends.map(|end| read_all(&mut network, end).len() as u64);
        read = [read[0] + found[0], read[1] + found[1]];
        if found == [0, 0] {
            break;
        }
    }
    assert_eq!(read, [written[1], written[0]], "everything written arrives");
    story
}

proptest! {
    #[test]
    fn streams_keep_every_octet_and_equal_seeds_give_equal_runs(
        seed: u64,
        buffer in 1..5000usize,
        acts in prop::collection::vec(act(), 1..60),
    ) {
        prop_assert_eq!(story(seed, buffer, &acts), story(seed, buffer, &acts));
    }
}
