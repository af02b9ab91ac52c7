//! Commands of `nd` that a signal ends: the other side learns of it at once, over TCP and over UDP.
//!
//! Each test runs twice, also with the commands that get a signal as process 1 of a namespace. The system throws signals away whose
//! default action would end process 1, those that it sends to itself as well.

use crossbeam_channel::{Receiver, unbounded};
use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use softnd_tests::args;
use softnd_tests::nd::{self, Finished, Nd, Place};
use softnd_tests::tool;

macro_rules! anywhere_and_as_process_1 {
    ($($test:ident),+ $(,)?) => {
        mod anywhere {
            $(#[test]
            fn $test() {
                super::$test(super::Place::Anywhere);
            })+
        }

        mod as_process_1 {
            $(#[test]
            fn $test() {
                if super::Place::Process1.exists() {
                    super::$test(super::Place::Process1);
                }
            })+
        }
    };
}

anywhere_and_as_process_1!(
    both_sides_of_a_transfer_learn_at_once_that_the_other_was_interrupted,
    a_server_that_was_interrupted_ends_the_pings,
    pings_that_are_interrupted_end_in_good_order,
    the_second_signal_ends_a_command_that_has_taken_the_first_as_a_request,
    a_command_that_was_started_to_outlive_its_terminal_does,
    an_interrupted_conformance_run_reports_what_it_has_found,
    an_interrupted_wire_conformance_run_reports_what_it_has_found,
    an_interrupted_measurement_shows_the_turns_that_were_made,
    a_signal_ends_each_server,
    a_signal_that_asks_for_a_core_dump_ends_a_server
);

/// Options of a side that listens, which a peer over UDP need not add to.
const PROTOCOLS: [&[&str]; 2] = [&[], &["--udp"]];

/// No limit of `nd` ends a wait: only the end of the connection does.
const FOR_EVER: [&str; 2] = ["--timeout", "86400"];

/// The line of the log about a QUIC connection that the peer has closed. Another end, such as the idle timeout, has other words.
const CLOSED_BY_PEER: &str = "a QUIC connection has ended";

/// The signal that has ended the program, as a shell sees it.
fn ended_by(finished: &Finished, place: Place) -> Option<i32> {
    match place {
        Place::Anywhere => finished.status.signal(),
        // The system lets no signal end process 1.
        Place::Process1 => finished.status.code()?.checked_sub(128),
    }
}

/// Asserts that a signal has ended the program, which has said nothing of it.
#[track_caller]
fn assert_ended_by(finished: &Finished, signal: Signal, place: Place) {
    let ended_by = ended_by(finished, place);
    assert_eq!(ended_by, Some(signal.as_raw()), "{finished}");
    assert!(!finished.stderr.contains("error: "), "{finished}");
}

/// Asserts that a peer has reported the end of the connection to this side, and this side to its user.
#[track_caller]
fn assert_reported(survivor: &Finished, is_udp: bool, words: &str) {
    assert!(survivor.stderr.contains(words), "{survivor}");
    let mut log = survivor.stderr.lines();
    let closed = log.any(|line| line.contains(CLOSED_BY_PEER) && line.contains("closed by peer"));
    assert_eq!(closed, is_udp, "{survivor}");
}

/// A listening side, with the options that lead to it.
struct Server {
    process: Nd,
    address: String,
    trust: Vec<String>,
}

impl Server {
    fn start(place: Place, line: &[&str], protocol: &[&str]) -> Self {
        let mut process = place.start(["-vv"].iter().chain(line).chain(protocol));
        let address = process.address().to_string();
        let mut trust = Vec::new();
        if protocol.contains(&"--udp") {
            let pin = |line: &str| Some(line.split_once("--pin ")?.1.trim().to_owned());
            trust = vec![
                "--udp".to_owned(),
                "--pin".to_owned(),
                process.wait_for(pin),
            ];
        }
        Self {
            process,
            address,
            trust,
        }
    }
}

/// Writes into a pipe until it has no reader any more. Sends a message when it has written more than a sender reads before its transfer is
/// under way.
fn feed(pipe: &Path) -> Receiver<()> {
    const MUCH: usize = 32 << 20;
    mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (sender, fed) = unbounded();
    let pipe = pipe.to_owned();
    thread::spawn(move || {
        let mut pipe = OpenOptions::new().write(true).open(pipe).unwrap();
        let (octets, mut written) = ([7; 64 << 10], 0);
        while pipe.write_all(&octets).is_ok() {
            written += octets.len();
            if written == MUCH {
                let _ = sender.send(());
            }
        }
    });
    fed
}

fn both_sides_of_a_transfer_learn_at_once_that_the_other_was_interrupted(place: Place) {
    for (protocol, via, interrupt_sender) in PROTOCOLS.into_iter().flat_map(|protocol| {
        let ways = [
            ("send", true),
            ("write", true),
            ("read", true),
            ("write", false),
        ];
        ways.map(|(via, interrupt_sender)| (protocol, via, interrupt_sender))
    }) {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let fed = feed(&pipe);
        let line = [
            "cat",
            "recv",
            "--listen",
            "127.0.0.1:0",
            "--out",
            "/dev/null",
        ];
        let receiver = Server::start(place, &[&line[..], &FOR_EVER].concat(), protocol);
        let Server {
            process: receiver,
            address,
            trust,
        } = receiver;
        let send = args!["-vv", "cat", "send", &pipe, &address, "--via", via].into_iter();
        let send = send.chain(trust.iter().map(Into::into));
        let sender = place.start(send.chain(FOR_EVER.map(Into::into)));
        fed.recv().expect("the sender reads");
        let (interrupted, survivor) = if interrupt_sender {
            (sender, receiver)
        } else {
            (receiver, sender)
        };
        interrupted.signal(Signal::INT);
        assert_ended_by(&interrupted.finish(), Signal::INT, place);
        let survivor = survivor.finish();
        assert_eq!(survivor.status.code(), Some(1), "{survivor}");
        let words = "the other side ended the connection before the file was complete";
        assert_reported(&survivor, !protocol.is_empty(), words);
    }
}

/// A client of `nd rping` that pings until it is stopped, after this many pings.
fn pinging(place: Place, server: &Server, pings: u32, options: &[&str]) -> Nd {
    let port = port_of(&server.address);
    let line = ["-vvv", "rping", "-c", "-a", "127.0.0.1", "-p", port];
    let trust = server.trust.iter().map(String::as_str);
    let mut client = place.start(line.into_iter().chain(trust).chain(options.iter().copied()));
    let seen = Cell::new(0);
    client.wait_for(|line| {
        seen.set(seen.get() + u32::from(line.contains("ping data")));
        (seen.get() == pings).then_some(())
    });
    client
}

fn port_of(address: &str) -> &str {
    address.rsplit_once(':').expect("an address").1
}

const RPING: [&str; 6] = ["rping", "-s", "-a", "127.0.0.1", "-p", "0"];

fn a_server_that_was_interrupted_ends_the_pings(place: Place) {
    for protocol in PROTOCOLS {
        let server = Server::start(place, &RPING, protocol);
        let client = pinging(place, &server, 3, &FOR_EVER);
        server.process.signal(Signal::TERM);
        assert_ended_by(&server.process.finish(), Signal::TERM, place);
        let client = client.finish();
        // A client without a count pings until the server ends. That the server ends between two pings is then no error.
        let words = "the other side has ended the connection";
        assert!(
            client.status.success() || client.stderr.contains(words),
            "{client}"
        );
        let mut log = client.stderr.lines();
        let closed =
            log.any(|line| line.contains(CLOSED_BY_PEER) && line.contains("closed by peer"));
        assert_eq!(closed, !protocol.is_empty(), "{client}");
    }
}

fn pings_that_are_interrupted_end_in_good_order(place: Place) {
    for protocol in PROTOCOLS {
        let server = Server::start(place, &RPING, protocol);
        let client = pinging(place, &server, 3, &FOR_EVER);
        client.signal(Signal::INT);
        let client = client.finish();
        client.assert_success();
        assert!(client.stdout.contains(" pings, "), "{client}");
        server.process.finish().assert_success();
    }
}

/// The server, which sends twice for each ping, is silent in the 20th one, so that the client could wait for ever.
fn the_second_signal_ends_a_command_that_has_taken_the_first_as_a_request(place: Place) {
    let silent = ["--fault", "when 40th Send sent: hold"];
    let server = Server::start(place, &[&RPING[..], &silent].concat(), &[]);
    let client = pinging(place, &server, 19, &FOR_EVER);
    client.signal(Signal::INT);
    client.signal(Signal::TERM);
    let client = client.finish();
    // Two signals that come together may be seen in either order.
    let (first, second) = (Signal::INT.as_raw(), Signal::TERM.as_raw());
    let ended_by = ended_by(&client, place);
    assert!([first, second].map(Some).contains(&ended_by), "{client}");
}

fn a_command_that_was_started_to_outlive_its_terminal_does(place: Place) {
    let listen = [
        "cat",
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--out",
        "/dev/null",
    ];
    let mut receiver = place.start_after("trap '' HUP", listen);
    let address = receiver.address().to_string();
    receiver.signal(Signal::HUP);
    nd::run(["cat", "send", "/proc/version", &address]).assert_success();
    receiver.finish().assert_success();
}

/// Interrupts the command when it has said such a line. Returns what it has said, before and after.
fn interrupted_at(place: Place, line: &[&str], sign: &str) -> Finished {
    let mut command = place.start(line);
    command.wait_for(|said| said.contains(sign).then_some(()));
    command.signal(Signal::INT);
    let finished = command.finish();
    assert_ended_by(&finished, Signal::INT, place);
    finished
}

fn an_interrupted_conformance_run_reports_what_it_has_found(place: Place) {
    for url in ["softnd+tcp://127.0.0.1", "softnd+udp://127.0.0.1"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        let output = ["--output", file.to_str().unwrap()];
        for form in [&[][..], &["--format", "json", output[0], output[1]]] {
            let line = [&["conform", url], form].concat();
            let found = interrupted_at(place, &line, "pass ").stdout;
            assert!(found.contains("the run was interrupted; "), "{found}");
            assert!(found.contains("checks failed of those that were made"));
        }
        let report = std::fs::read_to_string(&file).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["succeeded"], false);
        let (made, not_made) = (&report["checks"], &report["interrupted"]);
        assert!(!made.as_array().unwrap().is_empty());
        assert!(not_made.as_u64().unwrap() > 0, "{not_made}");
    }
}

fn an_interrupted_wire_conformance_run_reports_what_it_has_found(place: Place) {
    let listen = ["--listen", "127.0.0.1:0"];
    let target = ["wire-conform", "target", "softnd+tcp://127.0.0.1"];
    let mut target = place.start(target.into_iter().chain(listen));
    let address = target.address().to_string();
    let found = interrupted_at(place, &["wire-conform", &address], "pass ").stdout;
    assert!(found.contains("the run was interrupted; "), "{found}");
    assert!(found.contains("checks failed of those that were made"));
}

fn an_interrupted_measurement_shows_the_turns_that_were_made(place: Place) {
    let mut serve = place.start(["-vv", "perf", "serve"]);
    let address = serve.address().to_string();
    let what = "--op write --test bandwidth --size 4k --mode event --crc off --duration 600";
    let words = ["perf", "run", &address].into_iter();
    let run = place.start(words.chain(what.split_whitespace()));
    // More than checks and warms up.
    let begun = Cell::new(0);
    serve.wait_for(|line| {
        begun.set(begun.get() + u32::from(line.contains(": turn ")));
        (begun.get() > 40).then_some(())
    });
    run.signal(Signal::INT);
    let run = run.finish();
    assert_ended_by(&run, Signal::INT, place);
    assert!(run.stdout.contains("RDMA Write bandwidth"), "{run}");
    assert!(run.stdout.contains("incomplete: "), "{run}");
    // The server goes on, and knows why the client is gone.
    serve.wait_for(|line| line.contains("its user has interrupted it").then_some(()));
}

/// Commands that run until a signal comes.
const SERVERS: [&str; 9] = [
    "cat recv --out /dev/null --listen 127.0.0.1:0",
    "cat recv --out /dev/null --listen 127.0.0.1:0 --udp",
    "perf serve",
    "perftest send_lat --listen 127.0.0.1 -p 0",
    "perftest send_lat --listen 127.0.0.1 -p 0 --udp",
    "wire-conform target softnd+tcp://127.0.0.1 --listen 127.0.0.1:0",
    "wire-conform target softnd+udp://127.0.0.1 --listen 127.0.0.1:0",
    "rping -s -a 127.0.0.1 -p 0",
    "rping -s -a 127.0.0.1 -p 0 --udp",
];

/// Sends a signal to a server when it listens.
fn signalled(place: Place, line: &str, signal: Signal) -> Finished {
    let mut server = place.start_after("ulimit -c 0", line.split(' '));
    server.address();
    server.signal(signal);
    server.finish()
}

fn a_signal_ends_each_server(place: Place) {
    for line in SERVERS {
        for signal in [Signal::INT, Signal::TERM] {
            assert_ended_by(&signalled(place, line, signal), signal, place);
        }
    }
}

fn a_signal_that_asks_for_a_core_dump_ends_a_server(place: Place) {
    for signal in [Signal::QUIT, Signal::ABORT] {
        // A shell without job control starts what runs in its background with SIGQUIT ignored, and every program inherits that.
        if signal == Signal::QUIT && is_quit_ignored() {
            tool::skip_here("SIGQUIT is ignored here");
            continue;
        }
        assert_ended_by(&signalled(place, SERVERS[0], signal), signal, place);
    }
}

fn is_quit_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    ignored >> (Signal::QUIT.as_raw() - 1) & 1 == 1
}
