//! Targets whose time limit passes before the suite takes their connection, and that connect again.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use iwarp_conform::{Bench, Plan, Quic, Wants, wire::StartFrame};

/// Nothing here waits for a limit to pass.
fn patient() -> Wants {
    let mut wants = Wants::default();
    wants.limits.answer = Duration::from_secs(120);
    wants.limits.startup = Duration::from_secs(120);
    wants
}

fn passive() -> (Bench, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Bench::passive(listener, patient()).unwrap(), address)
}

/// Connects, and ends the connection in good order or by a reset.
fn give_up(suite: SocketAddr, resets: bool) {
    let stream = TcpStream::connect(suite).unwrap();
    if resets {
        let linger = Some(Duration::ZERO);
        socket2::SockRef::from(&stream).set_linger(linger).unwrap();
    }
}

fn request(bench: &Bench) -> StartFrame {
    Plan::request(&bench.plan())
}

#[test]
fn a_few_connections_without_a_request_are_passed_over() {
    let (mut bench, suite) = passive();
    for resets in [false, true, true] {
        give_up(suite, resets);
    }
    let wanted = request(&bench);
    let mut stream = TcpStream::connect(suite).unwrap();
    std::io::Write::write_all(&mut stream, &wanted.encode()).unwrap();
    let (_, seen) = bench.request().unwrap();
    assert_eq!(seen.encode(), wanted.encode());
}

#[test]
fn many_connections_without_a_request_are_a_failure() {
    let (mut bench, suite) = passive();
    for _ in 0..4 {
        give_up(suite, false);
    }
    let failure = format!("{:?}", bench.request().unwrap_err());
    assert!(failure.contains("an MPA Request"), "{failure}");
    assert!(failure.contains("(FIN)"), "{failure}");
}

/// Over QUIC, where a reset stream takes along what had arrived on it.
#[test]
fn streams_that_were_reset_are_passed_over() {
    let quic = Quic::listening(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let suite = quic.address().unwrap();
    let mut bench = Bench::passive_over(quic, patient());
    let wanted = request(&bench);
    let target = {
        let wanted = wanted.clone();
        thread::spawn(move || {
            let quic = Quic::connecting(suite, Arc::new(|_: &[u8]| true)).unwrap();
            let mut target = Bench::active_over(quic, suite, patient());
            for _ in 0..3 {
                target.dial().unwrap().reset();
            }
            let mut conn = target.dial().unwrap();
            conn.send_octets(&wanted.encode()).unwrap();
            // The suite has all of it when it ends the stream.
            conn.expect_end("the end", Duration::from_secs(120))
        })
    };
    let (conn, seen) = bench.request().unwrap();
    assert_eq!(seen.encode(), wanted.encode());
    drop(conn);
    target.join().unwrap().unwrap();
}
