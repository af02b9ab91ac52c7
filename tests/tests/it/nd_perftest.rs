//! `nd perftest` against itself, and against peers that speak something else.

use std::net::SocketAddr;

use netdirect::{
    Affinity, Buffer, MrFlags, OpFlags, Overlapped, QueuePair, QueuePairOptions, ReadLimits, Sge,
    ext,
};
use softnd_tests::dissect::Dissection;
use softnd_tests::nd::{Finished, Nd};
use softnd_tests::side_by_side::side_by_side;
use softnd_tests::{args, nd, tool};

const TESTS: [&str; 6] = [
    "send_bw",
    "write_bw",
    "read_bw",
    "send_lat",
    "write_lat",
    "read_lat",
];

fn server(test: &str, more: &[&str]) -> (Nd, SocketAddr) {
    let mut line = vec!["perftest", test, "--listen", "127.0.0.1", "-p", "0"];
    line.extend(more);
    let mut server = nd::start(line);
    let address = server.address();
    (server, address)
}

fn both(test: &str, of_server: &[&str], of_client: &[&str]) -> (Finished, Finished) {
    let (server, address) = server(test, of_server);
    let port = address.port().to_string();
    let mut line = vec!["perftest", test, "127.0.0.1", "-p", &port];
    line.extend(of_client);
    let client = nd::run(line);
    (server.finish(), client)
}

/// The row under the heads: size, messages, and the figures.
fn figures(side: &Finished) -> Option<Vec<f64>> {
    let row = side
        .stdout
        .lines()
        .find(|line| line.starts_with("  ") && line.contains(" 3000 "))?;
    Some(
        row.split_whitespace()
            .map(|word| word.parse().expect("a number"))
            .collect(),
    )
}

#[test]
fn every_test_moves_data_and_says_how_fast() {
    for test in TESTS {
        for way in [
            &["-n", "600", "-s", "3000"][..],
            &["-n", "600", "-s", "3000", "-e"],
        ] {
            let (server, client) = both(test, way, way);
            for side in [&server, &client] {
                side.assert_success();
                assert!(side.stdout.contains("one queue pair"), "{side}");
                assert!(side.stderr.is_empty(), "{side}");
            }
            assert!(client.stdout.contains("moved 1.7 MiB"), "{client}");
            // The server does not learn of Reads that are timed one by one.
            let reports_size = server.stdout.contains("moved 1.7 MiB");
            assert_eq!(reports_size, test != "read_lat", "{server}");
            let measured = figures(&client).unwrap_or_else(|| panic!("no figures: {client}"));
            assert_eq!(measured[..2], [3000.0, 600.0], "{client}");
            assert!(measured[2] > 0.0 && measured[3] > 0.0, "{client}");
            // The server knows nothing of Reads that are timed one by one. It learns of Writes and Reads in a row.
            match test {
                "read_lat" => assert_eq!(figures(&server), None, "{server}"),
                "write_bw" | "read_bw" => assert_eq!(figures(&server), Some(measured), "{server}"),
                _ => assert!(figures(&server).is_some_and(|row| row[2] > 0.0), "{server}"),
            }
        }
    }
}

#[test]
fn small_depths_and_odd_sizes_work() {
    let line = ["-n", "50", "-s", "1", "-t", "1", "-r", "3"];
    for test in TESTS {
        let (server, client) = both(test, &line, &line);
        server.assert_success();
        client.assert_success();
    }
}

#[test]
fn the_wire_carries_perftests_records_and_credits() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("perftest.pcapng");
    let (server, address) = server("send_bw", &["-n", "40", "-s", "500"]);
    let port = address.port().to_string();
    let line = args![
        "perftest",
        "send_bw",
        "127.0.0.1",
        "-p",
        &port,
        "-n",
        "40",
        "-s",
        "500",
        "--capture",
        &path
    ];
    nd::run(line).assert_success();
    server.finish().assert_success();

    let found = Dissection::new(&tshark, &path);
    found.assert_clean();
    let streams: std::collections::BTreeSet<_> =
        found.packets.iter().map(|packet| packet.stream).collect();
    assert_eq!(streams.len(), 2, "two connections");
    // The client captures. Four records about the two sides, seven with places of memory; and the messages.
    assert_eq!(found.count(3), (11 + 40, 11), "Sends");
    // Each connection begins with the client's ready-to-receive message. Credits for 13, 26, 39 and 40 messages.
    assert_eq!(found.count(0), (2, 4), "Writes");
}

#[test]
fn different_sizes_are_named() {
    let (server, client) = both(
        "send_lat",
        &["-n", "5", "-s", "64"],
        &["-n", "5", "-s", "32"],
    );
    server.assert_failure("a message of 32 octets came, and -s says 64");
    client.assert_failure("the connection of the test has ended after 0 of 5 messages");
}

#[test]
fn a_client_with_more_messages_is_named() {
    for test in TESTS {
        let (server, client) = both(test, &["-n", "100"], &["-n", "200"]);
        match test {
            "send_bw" | "send_lat" => {
                server.assert_failure("the other side sends more than the 100 messages of -n");
                // By then it may have sent all of its messages.
                client.assert_failure("-s, -n and -r");
            }
            "write_bw" | "read_bw" => {
                // No figures of what was not asked for.
                server.assert_failure("has measured 200 messages, and -n says 100 here");
                assert!(!server.stdout.contains("moved"), "{server}");
                client.assert_success();
            }
            "write_lat" => {
                server.assert_success();
                client.assert_failure("has ended after 100 of 200 messages");
            }
            // The server's memory is read, and the server reports nothing.
            _ => {
                server.assert_success();
                client.assert_success();
            }
        }
    }
}

#[test]
fn a_client_with_fewer_messages_is_named() {
    // Servers and clients of some tests wait until their time limits are over.
    side_by_side(TESTS, |test| {
        // The client of write_lat stays for five seconds more, which its server waits for.
        let limit = if test == "write_lat" { "10" } else { "3" };
        let options = ["-n", "200", "--timeout", limit];
        let (server, client) = both(test, &options, &["-n", "100", "--timeout", limit]);
        match test {
            "send_bw" | "send_lat" => {
                server
                    .assert_failure("the other side has ended its test after 100 of 200 messages");
                client.assert_failure("-s, -n and -r");
            }
            "write_bw" | "read_bw" => {
                server.assert_failure("has measured 100 messages, and -n says 200 here");
                client.assert_success();
            }
            "write_lat" => {
                server.assert_failure("has ended after 100 of 200 messages");
                client.assert_success();
            }
            _ => {
                server.assert_success();
                client.assert_success();
            }
        }
    });
}

#[test]
fn other_receives_are_named() {
    let line = ["-n", "100", "--timeout", "3"];
    let fewer = ["-n", "100", "--timeout", "3", "-r", "3"];
    let (server, client) = both("send_bw", &line, &fewer);
    server.assert_failure("-s, -n and -r");
    client.assert_failure("-s, -n and -r");
}

#[test]
fn a_client_without_an_end_is_named() {
    let endless = ["-n", "4294967295", "-s", "1"];
    side_by_side(["write_bw", "read_bw", "read_lat"], |test| {
        let (server, address) = server(test, &["-n", "5", "-s", "1", "--timeout", "2"]);
        let port = address.port().to_string();
        let line = ["perftest", test, "127.0.0.1", "-p", &port];
        let client = nd::start(line.into_iter().chain(endless));
        let server = server.finish();
        assert_eq!(server.status.code(), Some(1), "{server}");
        assert!(
            server.stderr.contains("has not ended its test in"),
            "{server}"
        );
        client
            .finish()
            .assert_failure("the connection of the test has ended");
    });
}

#[test]
fn a_long_test_is_remarked_on_and_goes_on() {
    let (mut server, address) = server(
        "write_bw",
        &["-n", "4294967295", "-s", "1", "--timeout", "2"],
    );
    let port = address.port().to_string();
    let line = ["perftest", "write_bw", "127.0.0.1", "-p", &port];
    let _client = nd::start(line.into_iter().chain(["-n", "4294967295", "-s", "1"]));
    server.wait_for(|line| line.contains("the test goes on after 2.00 s").then_some(()));
}

#[test]
fn rping_instead_of_perftest_is_named() {
    // An advert has as many octets as the record with the version.
    let (mut server, address) = server("read_lat", &[]);
    let port = address.port().to_string();
    nd::run(["rping", "-c", "-a", "127.0.0.1", "-p", &port, "-C", "1"])
        .assert_failure("the other side ended the connection");
    turned_away(&mut server, "version '");
    serves(server, address, "read_lat");
}

#[test]
fn records_of_another_length_are_named() {
    let (mut server, address) = server("write_bw", &[]);
    send_one(address, 17);
    turned_away(
        &mut server,
        "the versions has 17 octets instead of the 16 of perftest 4.5+0.17",
    );
    serves(server, address, "write_bw");
}

#[test]
fn another_version_is_named() {
    let (mut server, address) = server("write_bw", &[]);
    // All zero: no version at all.
    send_one(address, 16);
    turned_away(&mut server, "version '' of perftest");
    serves(server, address, "write_bw");
}

#[test]
fn a_client_that_says_nothing_is_dropped() {
    let (mut server, address) = server("send_bw", &["--timeout", "0.2"]);
    connect_and(address, 1, |_, _| ());
    turned_away(
        &mut server,
        "exchange the versions: nothing has moved for 200 ms",
    );
}

/// The server says why it turned a client away.
#[track_caller]
fn turned_away(server: &mut Nd, why: &str) {
    server.wait_for(|line| (line.contains("turned away") && line.contains(why)).then_some(()));
}

/// The server still serves a client of its kind, no matter who came before.
#[track_caller]
fn serves(server: Nd, address: SocketAddr, test: &str) {
    let port = address.port().to_string();
    nd::run(["perftest", test, "127.0.0.1", "-p", &port]).assert_success();
    server.finish().assert_success();
}

/// Connects, sends one message of this many octets, and waits until the other side ends the connection.
fn send_one(to: SocketAddr, length: usize) {
    connect_and(to, length, |qp, sge| {
        qp.send(0, &[sge], OpFlags::empty()).expect("sent");
    });
}

/// Connects, does something with this much memory, and waits until the other side ends the connection.
fn connect_and(to: SocketAddr, length: usize, act: impl FnOnce(&dyn QueuePair, Sge)) {
    let adapter =
        softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default()).expect("an adapter");
    let file = adapter.create_overlapped_file().expect("a file");
    let cq = adapter
        .create_completion_queue(&file, 4, Affinity::default())
        .expect("a completion queue");
    let options = QueuePairOptions::default()
        .receive_queue_depth(2)
        .initiator_queue_depth(2);
    let qp = adapter
        .create_queue_pair(&cq, &cq, options)
        .expect("a queue pair");
    let connector = adapter.create_connector(&file).expect("a connector");
    let region = adapter.create_memory_region(&file).expect("a region");
    let buffer = Buffer::new(length);
    let overlapped = Overlapped::new();
    ext::wait(
        region.register(&buffer, MrFlags::empty(), &overlapped),
        &overlapped,
    )
    .expect("registered");
    connector
        .bind("127.0.0.1:0".parse().expect("an address"))
        .expect("bound");
    ext::connect(&connector, &qp, to, ReadLimits::default(), &[]).expect("connected");
    let ended = Overlapped::new();
    let watched = connector.notify_disconnect(&ended);
    let sge = Sge::new(&buffer, .., region.get_local_token());
    act(qp.as_ref(), sge);
    ext::wait(watched, &ended).expect("the other side disconnects");
}

#[test]
fn bad_input_is_named() {
    nd::run(["perftest", "send_bw", "127.0.0.1", "-p", "1"]).assert_failure("127.0.0.1:1");
    nd::run(["perftest", "send_bw", "--listen", "0.0.0.0"]).assert_failure("0.0.0.0");
    nd::run([
        "perftest",
        "read_bw",
        "--listen",
        "127.0.0.1",
        "-p",
        "0",
        "-s",
        "4294967295",
    ])
    .assert_failure("4294967295 octets");
    for line in [
        ["perftest", "send_bw"].as_slice(),
        &["perftest", "atomic_bw", "127.0.0.1"],
        &["perftest", "send_bw", "127.0.0.1", "-q", "2"],
        &["perftest", "send_bw", "127.0.0.1", "-n", "4"],
        &["perftest", "send_bw", "127.0.0.1", "--listen", "127.0.0.1"],
    ] {
        assert_eq!(nd::run(line).status.code(), Some(2), "{line:?}");
    }
}
