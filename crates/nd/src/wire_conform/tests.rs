//! The suite against this workspace's own provider, over loopback, in both roles.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use iwarp_conform::{Bench, Limits, Outcome, Run, Selection, Wants, run};

use super::target::{Target, connect, serve};
use crate::session::Session;

const URL: &str = "softnd+tcp://127.0.0.1";

fn target(crc: bool, markers: bool) -> Arc<Target> {
    target_at(URL, crc, markers)
}

fn target_at(url: &str, crc: bool, markers: bool) -> Arc<Target> {
    let options = softnd::Options::default()
        .security(softnd::security::Security::default().insecure())
        .crc(crc)
        .markers(markers)
        .revision_1_fallback(false)
        .timeouts(|limits| {
            limits.request = Some(Duration::from_secs(2));
            limits.reply = Some(Duration::from_secs(3));
        });
    let adapter = softnd::open(url, options).unwrap();
    let session = Session::new(adapter, Duration::from_secs(60)).unwrap();
    Arc::new(Target::new(session).unwrap())
}

fn wants(crc: bool, markers: bool) -> Wants {
    Wants {
        crc,
        markers,
        limits: Limits {
            answer: Duration::from_secs(60),
            quiet: Duration::from_millis(50),
            startup: Duration::from_secs(30),
        },
        ..Wants::default()
    }
}

fn verify(found: &Run) {
    let wrong: Vec<_> = found
        .entries
        .iter()
        .filter(|entry| matches!(entry.outcome, Outcome::Fail(_)))
        .map(|entry| format!("{}: {:#?}", entry.check.name, entry.outcome))
        .collect();
    assert!(
        wrong.is_empty() && found.lost.is_none(),
        "{wrong:#?} {:?}",
        found.lost
    );
    let facts = &found.facts;
    assert!(facts.service && facts.enhanced && facts.peer_to_peer);
    assert!(facts.atomics && facts.immediate);
    let passed = found.count(|outcome| matches!(outcome, Outcome::Pass | Outcome::Weak(_)));
    assert!(
        passed * 4 > found.entries.len() * 3,
        "{passed} of {}",
        found.entries.len()
    );
}

fn listening(crc: bool, markers: bool) {
    let target = target(crc, markers);
    let (listener, address) = target
        .session
        .listen(SocketAddr::from(([127, 0, 0, 1], 0)))
        .unwrap();
    // It serves as long as the test process lives.
    std::thread::spawn(move || serve(&target, &listener));
    let bench = Bench::active(address, wants(crc, markers));
    check_all(bench, crc, markers);
}

/// Runs every check, with CRCs and markers as wanted.
fn check_all(mut bench: Bench, crc: bool, markers: bool) {
    let found = run(
        &mut bench,
        "softnd".to_owned(),
        &Selection::default(),
        |_| {},
    )
    .unwrap();
    let facts = &found.facts;
    assert_eq!(
        (facts.crc, facts.markers_in, facts.markers_out),
        (crc, markers, markers)
    );
    verify(&found);
}

fn connecting(crc: bool, markers: bool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let suite = listener.local_addr().unwrap();
    let bench = Bench::passive(listener, wants(crc, markers)).unwrap();
    let target = target(crc, markers);
    std::thread::spawn(move || connect(&target, suite));
    check_all(bench, crc, markers);
}

#[test]
fn softnd_listens_with_crcs() {
    listening(true, false);
}

#[test]
fn softnd_listens_without_crcs() {
    listening(false, false);
}

#[test]
fn softnd_connects_with_crcs() {
    connecting(true, false);
}

#[test]
fn softnd_connects_without_crcs() {
    connecting(false, false);
}

#[test]
fn softnd_listens_with_markers() {
    listening(true, true);
}

#[test]
fn softnd_connects_with_markers_and_without_crcs() {
    connecting(false, true);
}

/// Over QUIC, which makes CRCs and markers superfluous. The suite may ask for them nevertheless.
#[cfg(feature = "ring")]
mod over_udp {
    use iwarp_conform::Quic;

    use super::*;

    const URL: &str = "softnd+udp://127.0.0.1";

    fn listening(crc: bool, markers: bool) {
        let target = target_at(URL, crc, markers);
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let (listener, address) = target.session.listen(local).unwrap();
        // It serves as long as the test process lives.
        std::thread::spawn(move || serve(&target, &listener));
        let quic = Quic::connecting(address, Arc::new(|_: &[u8]| true)).unwrap();
        let mut bench = Bench::active_over(quic, address, wants(crc, markers));
        let found = run(
            &mut bench,
            "softnd".to_owned(),
            &Selection::default(),
            |_| {},
        );
        verify(&found.unwrap());
    }

    #[test]
    fn softnd_listens() {
        listening(false, false);
    }

    #[test]
    fn softnd_connects() {
        let quic = Quic::listening(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let suite = quic.address().unwrap();
        let mut bench = Bench::passive_over(quic, wants(false, false));
        let target = target_at(URL, false, false);
        std::thread::spawn(move || connect(&target, suite));
        let found = run(
            &mut bench,
            "softnd".to_owned(),
            &Selection::default(),
            |_| {},
        );
        verify(&found.unwrap());
    }
}
