//! `nd rping` against itself: the pings arrive, the wire carries rping's exchange, and bad input gets an error message.

use rustix::process::Signal;
use softnd_tests::dissect::Dissection;
use softnd_tests::nd::{Finished, Nd};
use softnd_tests::{args, nd, tool};

/// A server on any port of the loopback address, and its port.
fn server(more: &[&str]) -> (Nd, String) {
    let mut line = vec!["rping", "-s", "-a", "127.0.0.1", "-p", "0"];
    line.extend(more);
    let mut server = nd::start(line);
    let port = server.address().port().to_string();
    (server, port)
}

fn client(port: &str, more: &[&str]) -> Nd {
    let mut line = vec!["rping", "-c", "-a", "127.0.0.1", "-p", port];
    line.extend(more);
    nd::start(line)
}

fn both(of_server: &[&str], of_client: &[&str]) -> (Finished, Finished) {
    let (server, port) = server(of_server);
    let client = client(&port, of_client).finish();
    (server.finish(), client)
}

#[test]
fn pings_of_all_sizes_come_back_whole() {
    for size in ["1", "23", "64", "4096", "65535", "65536"] {
        let (server, client) = both(&["-V"], &["-C", "20", "-S", size]);
        for side in [server, client] {
            side.assert_success();
            assert!(side.stdout.contains("20 pings, "), "{side}");
            assert!(side.stderr.is_empty(), "{side}");
        }
    }
}

#[test]
fn verbose_sides_show_the_data_as_rping_does() {
    let (server, client) = both(&["-v"], &["-v", "-C", "2", "-S", "23"]);
    let data = |ping: u8, text: &str| format!("ping data: rdma-ping-{ping}: {text}\n");
    for (ping, text) in [(0, "ABCDEFGHI"), (1, "BCDEFGHIJ")] {
        assert!(client.stdout.contains(&data(ping, text)), "{client}");
        let shown = format!("server {}", data(ping, text));
        assert!(server.stdout.contains(&shown), "{server}");
    }
}

#[test]
fn ipv6_and_an_adapter_by_url_serve_as_well() {
    if !tool::has_ipv6() {
        return;
    }
    let line = [
        "rping",
        "-s",
        "-a",
        "::1",
        "-p",
        "0",
        "--url",
        "softnd+tcp://[::1]",
    ];
    let mut server = nd::start(line);
    let port = server.address().port().to_string();
    let line = ["rping", "-c", "-a", "::1", "-p", &port, "-C", "3", "--url"];
    let client = nd::run(line.into_iter().chain(["softnd+tcp://[::1]"]));
    client.assert_success();
    server.finish().assert_success();
}

#[test]
fn the_wire_carries_rpings_exchange() {
    const PINGS: usize = 7;
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rping.pcapng");
    let (server, port) = server(&["-V"]);
    let line = args![
        "rping",
        "-c",
        "-a",
        "127.0.0.1",
        "-p",
        &port,
        "-C",
        "7",
        "-S",
        "100",
        "--capture",
        &path
    ];
    nd::run(line).assert_success();
    server.finish().assert_success();

    let found = Dissection::new(&tshark, &path);
    found.assert_clean();
    // The client captures: its counts first, then the server's.
    let [write, request, response, send] = [0, 1, 2, 3].map(|opcode| found.count(opcode));
    assert_eq!(
        send,
        (2 * PINGS, 2 * PINGS),
        "two adverts and two answers each"
    );
    assert_eq!((request, response), ((0, PINGS), (PINGS, 0)), "Reads");
    // One more from the client: its ready-to-receive message.
    assert_eq!(write, (1, PINGS), "Writes");
}

#[test]
fn the_first_control_c_ends_the_client_well() {
    let (server, port) = server(&[]);
    let mut client = client(&port, &["-v"]);
    client.wait_for(|line| line.contains("rdma-ping-5:").then_some(()));
    client.signal(Signal::INT);
    for side in [client.finish(), server.finish()] {
        side.assert_success();
        assert!(side.stdout.contains(" pings, "), "{side}");
    }
}

#[test]
fn a_side_that_ends_early_is_named_by_the_other() {
    let (server, client) = both(&["-C", "3"], &["-C", "5"]);
    server.assert_success();
    client.assert_failure("after 3 of 5 pings");
    assert!(client.stdout.contains("3 pings, "), "{client}");

    let (server, client) = both(&["-C", "5"], &["-C", "3"]);
    client.assert_success();
    server.assert_success(); // that is how every client of rping ends
    assert!(server.stdout.contains("3 pings, "), "{server}");
}

#[test]
fn a_server_refuses_more_than_it_takes() {
    let (server, client) = both(&["-S", "64"], &["-C", "1", "-S", "65"]);
    server.assert_failure("a buffer of 65 octets");
    client.assert_failure("the other side ended the connection");
}

#[test]
fn bad_input_is_named() {
    nd::run(["rping", "-c", "-a", "127.0.0.1", "-p", "1"]).assert_failure("127.0.0.1:1");
    nd::run(["rping", "-s", "-a", "0.0.0.0"]).assert_failure("0.0.0.0");
    nd::run(["rping", "-c", "-a", "127.0.0.1", "--url", "bogus"]).assert_failure("bogus");
    for line in [
        ["rping", "-s", "-a", "127.0.0.1", "-S", "0"].as_slice(),
        &["rping", "-s", "-c", "-a", "127.0.0.1"],
        &["rping", "-a", "127.0.0.1"],
        &["rping", "-c"],
    ] {
        assert_eq!(nd::run(line).status.code(), Some(2), "{line:?}");
    }
}

#[test]
fn perftest_instead_of_rping_is_named() {
    // perftest's first connection allows no Reads.
    let (mut server, port) = server(&[]);
    nd::run(["perftest", "send_bw", "127.0.0.1", "-p", &port]).assert_failure("connect to");
    server.wait_for(|line| line.contains("it does not allow Reads").then_some(()));
    client(&port, &["-C", "1"]).finish().assert_success();
    server.finish().assert_success();
}
