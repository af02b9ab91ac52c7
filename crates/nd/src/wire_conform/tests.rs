//! The suite against this workspace's own provider, over loopback, in both roles.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use iwarp_conform::{Bench, Entry, Facts, Limits, Outcome, Run, Selection, Wants, checks, run};

use super::target::{CONNECTIONS, Target, connect, serve};
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
            limits.reply = Some(Duration::from_secs(5));
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

/// How many parts of the suite run side by side, each against its own target: most of a run is waiting.
const PARTS: usize = 4;

/// Runs every check, in parts. Nothing fails, and most checks pass. `bench` makes a bench with its own target. Returns what each part found
/// out about its target.
fn check_all(bench: impl Fn() -> Bench + Sync) -> Vec<Facts> {
    let one = |part| {
        let mut bench = bench();
        let initiator = bench.target_is_initiator();
        let all = checks().filter(|check| check.is_about(initiator));
        let names: Vec<_> = all.map(|check| check.name).collect();
        let of_part = names.iter().skip(part).step_by(PARTS);
        let selection = Selection {
            only: of_part.map(|name| (*name).to_owned()).collect(),
            ..Selection::default()
        };
        let found = run(&mut bench, "softnd".to_owned(), &selection, |_| {}).unwrap();
        // A target that connects goes on doing so. Where nothing listens any more, it would try again and again without a pause.
        std::mem::forget(bench);
        (names, found)
    };
    let parts = thread::scope(|threads| {
        let one = &one;
        let parts: Vec<_> = (0..PARTS)
            .map(|part| threads.spawn(move || one(part)))
            .collect();
        parts
            .into_iter()
            .map(|part| part.join().unwrap())
            .collect::<Vec<_>>()
    });
    let (mut all, mut made, mut passed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (names, found) in &parts {
        all.extend(names);
        for entry in verify(found) {
            made.insert(entry.check.name);
            if matches!(entry.outcome, Outcome::Pass | Outcome::Weak(_)) {
                passed.insert(entry.check.name);
            }
        }
    }
    assert_eq!(made, all);
    assert!(
        passed.len() * 4 > made.len() * 3,
        "{} of {}",
        passed.len(),
        made.len()
    );
    parts.into_iter().map(|(_, found)| found.facts).collect()
}

/// The checks of a part, none of which has failed.
fn verify(found: &Run) -> &[Entry] {
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
    &found.entries
}

/// Runs every check, with CRCs and markers as wanted.
fn check_framed(crc: bool, markers: bool, bench: impl Fn() -> Bench + Sync) {
    for facts in check_all(bench) {
        assert_eq!(
            (facts.crc, facts.markers_in, facts.markers_out),
            (crc, markers, markers)
        );
    }
}

fn listening(crc: bool, markers: bool) {
    check_framed(crc, markers, || {
        Bench::active(listening_target(target(crc, markers)), wants(crc, markers))
    });
}

/// The address at which a target serves as long as the test process lives.
fn listening_target(target: Arc<Target>) -> SocketAddr {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let (listener, address) = target.session.listen(local).unwrap();
    thread::spawn(move || serve(&target, &listener));
    address
}

fn connecting(crc: bool, markers: bool) {
    check_framed(crc, markers, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let suite = listener.local_addr().unwrap();
        let target = target(crc, markers);
        thread::spawn(move || connect(&target, suite));
        Bench::passive(listener, wants(crc, markers)).unwrap()
    });
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

/// Peers that say Hello once and then nothing do not keep all places: the one that has been silent longest gives way.
#[test]
fn who_has_been_silent_longest_gives_way() {
    let address = listening_target(target(true, false));
    let mut bench = Bench::active(address, wants(true, false));
    // To know the target.
    let selection = Selection {
        only: vec!["RDMAP-061.length".to_owned()],
        ..Selection::default()
    };
    run(&mut bench, "softnd".to_owned(), &selection, |_| {}).unwrap();
    let mut silent: Vec<_> = (0..CONNECTIONS).map(|_| bench.open().unwrap()).collect();
    // The first one speaks, so that the second has been silent longest now.
    silent[0].echo(b"here").unwrap();
    let mut honest = bench.open().unwrap();
    honest.echo(b"and here").unwrap();
    silent[1].echo(b"gone").unwrap_err();
    for at in [0, 2, CONNECTIONS - 1] {
        silent[at].echo(b"still here").unwrap();
    }
}

/// Over QUIC, which makes CRCs and markers superfluous. The suite may ask for them nevertheless.
#[cfg(feature = "udp")]
mod over_udp {
    use iwarp_conform::Quic;

    use super::*;

    const URL: &str = "softnd+udp://127.0.0.1";

    #[test]
    fn softnd_listens() {
        check_all(|| {
            let address = listening_target(target_at(URL, false, false));
            let quic = Quic::connecting(address, Arc::new(|_: &[u8]| true)).unwrap();
            Bench::active_over(quic, address, wants(false, false))
        });
    }

    #[test]
    fn softnd_connects() {
        check_all(|| {
            let quic = Quic::listening(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let suite = quic.address().unwrap();
            let target = target_at(URL, false, false);
            thread::spawn(move || connect(&target, suite));
            Bench::passive_over(quic, wants(false, false))
        });
    }
}
