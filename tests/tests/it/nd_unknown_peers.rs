//! The servers of `nd` with peers that connect and stay silent: other peers are served, and the silent ones are dropped.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netdirect::{
    Adapter, Affinity, CompletionQueue, Connector, Overlapped, OverlappedFile, QueuePair,
    QueuePairOptions, RemoteAddress, Started, Status, ext,
};
use rustix::net::{AddressFamily, SocketType};
use serde_json::{Value, json};
use softnd_tests::nd::{self, Finished, Nd};
use softnd_tests::{args, proxy};

/// More than a listener's backlog of 128 holds.
const IDLE: usize = 130;

/// A limit only to end a hang.
const HANG: Duration = Duration::from_secs(60);

/// Connections without an octet.
fn idle(address: SocketAddr) -> Vec<TcpStream> {
    let connect = |_| TcpStream::connect_timeout(&address, HANG).expect("accepted by the system");
    (0..IDLE).map(connect).collect()
}

/// Checks that the server closes each of them, after whatever it sends.
fn assert_dropped(idle: Vec<TcpStream>) {
    for mut stream in idle {
        stream.set_read_timeout(Some(HANG)).expect("set");
        match stream.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("still there: {error}"),
        }
    }
}

/// A peer that speaks iWARP and then stays silent.
struct Silent {
    _adapter: Arc<dyn Adapter>,
    _file: Arc<dyn OverlappedFile>,
    _cq: Arc<dyn CompletionQueue>,
    _qp: Arc<dyn QueuePair>,
    connector: Arc<dyn Connector>,
}

impl Silent {
    /// A peer that has the server's Reply, and sends nothing more, not even the ready-to-receive message.
    fn half_connected(to: SocketAddr, private_data: &[u8]) -> Self {
        let options = softnd::Options::default().timeouts(|limits| limits.hold_ready = None);
        let adapter = softnd::open("softnd+tcp://127.0.0.1", options).expect("an adapter");
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
        let local = "127.0.0.1:0".parse().expect("an address");
        connector.bind(local).expect("bound");
        let overlapped = Overlapped::new();
        let started = connector.connect(&qp, to, 1, 1, private_data, &overlapped);
        ext::wait(started, &overlapped).expect("answered");
        Self {
            _adapter: adapter,
            _file: file,
            _cq: cq,
            _qp: qp,
            connector,
        }
    }

    /// A peer that is connected.
    fn connected(to: SocketAddr) -> Self {
        Self::connected_with(to, &[])
    }

    /// Connects with private data in the request.
    fn connected_with(to: SocketAddr, private_data: &[u8]) -> Self {
        let silent = Self::half_connected(to, private_data);
        let overlapped = Overlapped::new();
        let started = silent.connector.complete_connect(&overlapped);
        ext::wait(started, &overlapped).expect("connected");
        silent
    }

    /// Checks that the server ends the connection.
    fn assert_dropped(self) {
        let ended = Overlapped::new();
        let status = match self.connector.notify_disconnect(&ended) {
            Ok(Started::Pending) => ended.wait_timeout(HANG),
            Ok(Started::Done) => Some(Status::SUCCESS),
            Err(error) => Some(error.status()),
        };
        assert!(status.is_some(), "still connected");
    }
}

fn listening(line: &[&str]) -> (Nd, SocketAddr) {
    listening_at(nd::start(line))
}

fn listening_at(mut server: Nd) -> (Nd, SocketAddr) {
    let address = server.address();
    (server, address)
}

fn silent_on(address: SocketAddr) -> Vec<Silent> {
    (0..3).map(|_| Silent::connected(address)).collect()
}

/// A client of `nd perf serve` that says what the test says, and makes no other connection.
struct RawClient(BufReader<TcpStream>);

impl RawClient {
    /// Greets the server as it has greeted.
    fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&to, HANG).expect("accepted by the system");
        stream.set_read_timeout(Some(HANG)).expect("set");
        let mut client = Self(BufReader::new(stream));
        let greeting = client.hear_line();
        client.say(&greeting);
        client
    }

    fn say(&mut self, line: &str) {
        writeln!(self.0.get_mut(), "{line}").expect("said");
    }

    /// Asks for a row.
    fn ask(&mut self, words: &str, timeout: u64) {
        let mut spec = json!({
            "mode": "event", "crc": false, "segment": null, "boundaries": "outside-crcs", "placement": "free", "receives": "own",
            "transport": "tcp", "page_offset": null,
        });
        for word in words.split(' ') {
            let (key, value) = word.split_once('=').expect("key=value");
            spec[key] = match value.parse::<u64>() {
                Ok(number) => json!(number),
                Err(_) => json!(value),
            };
        }
        let row = json!({"row": {"spec": spec, "timeout_ms": timeout}});
        self.say(&row.to_string());
    }

    /// Makes the connection that the server's answer to a row names, and begins a turn in which nothing comes.
    fn join(&mut self, answer: &Value) -> Silent {
        let offer = &answer["ok"];
        let key = offer["key"].as_array().expect("a key").iter();
        let mut private_data: Vec<_> = key
            .map(|octet| u8::try_from(octet.as_u64().expect("a number")).expect("an octet"))
            .collect();
        private_data.extend([0; RemoteAddress::LEN]); // a ring that is not used
        let mut to = self.0.get_ref().peer_addr().expect("connected");
        let port = offer["rdma"].as_u64().and_then(|port| port.try_into().ok());
        to.set_port(port.expect("a port"));
        self.say(r#""join""#);
        let silent = Silent::connected_with(to, &private_data);
        assert_eq!(self.hear(), json!({"ok": null}));
        self.say(r#"{"turn":{"count":1000,"over":"tested"}}"#);
        assert_eq!(self.hear(), json!("go"));
        silent
    }

    /// The next answer. On a busy machine the client may get the message that it has to wait first.
    fn hear(&mut self) -> Value {
        loop {
            let line = self.hear_line();
            let answer: Value = serde_json::from_str(&line).expect(&line);
            if answer.get("waiting").is_none() {
                return answer;
            }
        }
    }

    /// Why the server gives up.
    fn hear_why(&mut self) -> String {
        let answer = self.hear();
        let why = answer["failed"].as_str();
        why.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn hear_line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("heard");
        line.trim_end().to_owned()
    }
}

/// A short measurement with the server at this address.
fn run_perf(address: SocketAddr) -> Finished {
    let choices =
        "--turns 3 --duration 0.006 --op send --test rate --size 8 --mode event --crc off";
    let address = address.to_string();
    let command = ["perf", "run", &address].into_iter();
    nd::run(command.chain(choices.split(' ')))
}

#[test]
fn perf_serves_beside_idle_connections() {
    let (mut server, address) = listening(&["perf", "serve"]);
    let idle = idle(address);
    for _ in 0..2 {
        run_perf(address).assert_success();
    }
    assert_dropped(idle);
    // Not a line for each of them.
    server.wait_for(|line| line.contains("1 rows").then_some(()));
    server.signal(rustix::process::Signal::KILL);
    let said = server.finish();
    assert!(said.stderr.lines().count() <= 20, "{said}");
}

#[test]
fn perf_serves_when_descriptors_run_out() {
    let mut server = nd::start_after("ulimit -n 40", ["perf", "serve"]);
    let address = server.address();
    let idle = idle(address);
    assert_dropped(idle);
    run_perf(address).assert_success();
}

#[test]
fn perf_gives_a_client_no_more_memory_than_it_may_have() {
    const MOST: u64 = 64 << 10; // KiB
    let (server, address) = listening(&["perf", "serve", "--memory", "64M"]);
    let before = server.status("VmHWM");
    for (words, asked) in [
        (
            "op=send test=latency size=1048576 depth=4096 connections=0",
            "8.0 GiB",
        ),
        (
            "op=write test=bandwidth size=1048576 depth=4000 connections=0",
            "3.9 GiB",
        ),
        (
            "op=read test=bandwidth size=1048576 depth=57 connections=0",
            "75.1 MiB",
        ),
        (
            "op=send test=rate size=4294967295 depth=4294967295 connections=0",
            "PiB",
        ),
        (
            "op=send test=rate size=8 depth=1000000 connections=0",
            "GiB",
        ),
        (
            "op=send test=scale size=8 depth=1 connections=4294967295",
            "TiB",
        ),
        ("op=send test=setup size=8 depth=1 connections=4000", "MiB"),
        (
            "op=send test=scale size=4194304 depth=7 connections=1",
            "MiB",
        ),
    ] {
        let mut client = RawClient::connect(address);
        client.ask(words, 2000);
        let said = client.hear_why();
        let refused = "this side gives a client at most 64 MiB of memory, and ";
        assert!(said.starts_with(refused), "{words}: {said}");
        assert!(
            said.contains(asked) && said.contains("--memory"),
            "{words}: {said}"
        );
    }
    // The bare connections count as well as the rings of the row.
    let words = "--op write --test bandwidth --size 1M --depth 16 --mode event --crc off";
    let to = address.to_string();
    let line = ["perf", "run", &to, "--baseline", "tcp"].into_iter();
    nd::run(line.chain(words.split(' '))).assert_failure("--memory");
    run_perf(address).assert_success();
    let grown = server.status("VmHWM") - before;
    assert!(grown < MOST, "{grown} KiB more than before");
}

#[test]
fn perf_answers_a_line_of_another_version_with_a_sentence() {
    let (_server, address) = listening(&["perf", "serve"]);
    let deep = "[".repeat(4000);
    for line in [
        "row op=send test=rate",
        r#"{"row":{"more":1}}"#,
        &deep,
        "\u{1}",
    ] {
        let mut client = RawClient::connect(address);
        client.say(line);
        let said = client.hear_why();
        assert!(said.contains("is no request of nd perf version "), "{said}");
        assert!(
            said.ends_with("; run the same version of nd on both sides"),
            "{said}"
        );
    }
    let mut client = RawClient::connect(address);
    // Longer than any line may be.
    let _ = client.0.get_mut().write_all(&[b'x'; 1 << 16]);
    let end = std::io::copy(&mut client.0, &mut std::io::sink());
    assert!(end.is_err() || end.is_ok_and(|octets| octets < 4096));
    run_perf(address).assert_success();
}

#[test]
fn perf_serves_beside_clients_that_want_to_be_silent_for_ever() {
    let (_server, address) = listening(&["perf", "serve", "--silence", "5"]);
    let mut silent = RawClient::connect(address);
    silent.ask("op=send test=rate size=64 depth=16 connections=0", u64::MAX);
    let offer = silent.hear();
    assert!(offer["ok"].is_object(), "{offer}");
    let said = silent.hear_why();
    run_perf(address).assert_success();
    assert_eq!(
        said,
        "cannot go on with the test: nothing has completed for 5.00 s; \
         the server allows no more: let it serve with a longer --silence"
    );
}

/// With the usual limits, a client that is silent in its turn loses it as soon as another one waits.
#[test]
fn perf_takes_the_turn_from_a_silent_client_when_another_one_waits() {
    let steps = ["before it connects", "when it should connect", "in a turn"];
    let silent = steps.map(|step| {
        let (server, address) = listening(&["perf", "serve", "--silence", "3600"]);
        let mut client = RawClient::connect(address);
        let words = "op=send test=rate size=64 depth=16 connections=0";
        client.ask(words, 3_600_000);
        let answer = client.hear();
        assert!(answer["ok"].is_object(), "{answer}");
        let connection = match step {
            "in a turn" => Some(client.join(&answer)),
            "when it should connect" => {
                client.say(r#""join""#);
                None
            }
            _ => None,
        };
        (step, server, address, client, connection)
    });
    for (step, _server, address, mut client, _connection) in silent {
        let honest = run_perf(address);
        honest.assert_success();
        assert_eq!(
            client.hear_why(),
            "this client was silent for 3.00 s while another one waited for its turn; \
             run again when the other test has ended",
            "{step}"
        );
    }
}

#[test]
fn cat_receives_beside_a_sender_that_does_not_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    std::fs::write(&original, proxy::noise(100_000)).expect("written");
    let recv = args!["cat", "recv", "--listen", "127.0.0.1:0", "--out", &copy];
    // However long a transfer may pause, the receiver does not wait for a sender without a transfer.
    let recv = recv.into_iter().chain(args!["--timeout", "3600"]);
    let mut recv = nd::start(recv);
    let address = recv.address();
    let idle = idle(address);
    let silent = Silent::half_connected(address, &offer());
    nd::run(args!["cat", "send", &original, address.to_string()]).assert_success();
    recv.finish().assert_success();
    assert_eq!(std::fs::read(copy).expect("there"), proxy::noise(100_000));
    drop((idle, silent));
}

/// The file of a test, and a receiver of it.
fn receiver(folder: &Path, octets: usize) -> (Nd, SocketAddr) {
    std::fs::write(folder.join("original"), proxy::noise(octets)).expect("written");
    let copy = folder.join("copy");
    let recv = nd::start(args![
        "cat",
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--out",
        copy,
        "--timeout",
        "3600"
    ]);
    listening_at(recv)
}

#[test]
fn cat_receives_beside_senders_that_were_accepted_and_stay_silent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (recv, address) = receiver(folder.path(), 100_000);
    let silent = [0; 3].map(|_| Silent::connected_with(address, &offer()));
    let original = folder.path().join("original");
    nd::run(args!["cat", "send", original, address.to_string()]).assert_success();
    recv.finish().assert_success();
    let copy = std::fs::read(folder.path().join("copy")).expect("there");
    assert_eq!(copy, proxy::noise(100_000));
    silent.into_iter().for_each(Silent::assert_dropped);
}

/// The private data of a sender of one octet by Send.
fn offer() -> Vec<u8> {
    let mut offer = b"ND cat\r\n".to_vec();
    offer.extend([0, 3, 1]); // version, offer
    offer.push(1); // by Send
    offer.extend(4096_u32.to_be_bytes()); // length of a block
    offer.extend(2_u32.to_be_bytes()); // blocks
    offer.extend(1_u64.to_be_bytes()); // size
    offer.extend([0; 12]); // no ring
    offer
}

#[test]
fn rping_serves_beside_clients_that_say_nothing() {
    let (server, address) = listening(&["rping", "-s", "-a", "127.0.0.1", "-p", "0"]);
    let (idle, silent) = (idle(address), silent_on(address));
    let port = address.port().to_string();
    nd::run(["rping", "-c", "-a", "127.0.0.1", "-p", &port, "-C", "3"]).assert_success();
    server.finish().assert_success();
    silent.into_iter().for_each(Silent::assert_dropped);
    drop(idle);
}

#[test]
fn perftest_serves_beside_clients_that_say_nothing() {
    let line = ["perftest", "send_bw", "--listen", "127.0.0.1", "-p", "0"];
    let (server, address) = listening(&line);
    let (idle, silent) = (idle(address), silent_on(address));
    let port = address.port().to_string();
    nd::run(["perftest", "send_bw", "127.0.0.1", "-p", &port]).assert_success();
    server.finish().assert_success();
    silent.into_iter().for_each(Silent::assert_dropped);
    drop(idle);
}

#[test]
fn a_client_that_says_nothing_is_dropped_while_the_server_waits_for_others() {
    let (server, address) = listening(&["rping", "-s", "-a", "127.0.0.1", "-p", "0"]);
    silent_on(address)
        .into_iter()
        .for_each(Silent::assert_dropped);
    let port = address.port().to_string();
    nd::run(["rping", "-c", "-a", "127.0.0.1", "-p", &port, "-C", "3"]).assert_success();
    server.finish().assert_success();
}

#[test]
fn the_target_of_the_suite_has_room_beside_silent_connections() {
    let line = [
        "wire-conform",
        "target",
        "softnd+tcp://127.0.0.1",
        "--listen",
        "127.0.0.1:0",
    ];
    let (_target, address) = listening(&line);
    // As many as it serves at once.
    let silent: Vec<_> = (0..64).map(|_| Silent::connected(address)).collect();
    let address = address.to_string();
    nd::run(["wire-conform", &address, "--only", "MPA-053,RDMAP-033"]).assert_success();
    drop(silent);
}

/// Connects from 127.0.0.2 as fast as it can, each time with a whole connection request, until the flood is dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<u64>>,
}

impl Flood {
    fn start(to: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..2).map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                /// So many connections stay open at this end.
                const KEPT: usize = 256;
                let (mut kept, mut sent) = (VecDeque::new(), 0);
                while !stop.load(Ordering::Relaxed) {
                    let Ok(mut peer) = connect_from([127, 0, 0, 2], to) else {
                        continue;
                    };
                    sent += u64::from(peer.write_all(b"MPA ID Req Frame\0\x01\0\0").is_ok());
                    kept.push_back(peer);
                    if kept.len() > KEPT {
                        kept.pop_front();
                    }
                }
                sent
            })
        });
        let threads = threads.collect();
        Self { stop, threads }
    }

    /// Ends the flood. Returns how many requests it had.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.into_iter();
        threads.map(|thread| thread.join().expect("no panic")).sum()
    }
}

fn connect_from(from: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::bind(&socket, &SocketAddr::from((from, 0)))?;
    rustix::net::connect(&socket, &to)?;
    Ok(socket.into())
}

/// Nine servers, each in a flood, and one honest client of each.
#[test]
#[ignore = "takes all cores for half a minute: cargo make flood"]
fn rping_serves_in_a_flood_of_requests_from_another_address() {
    for _ in 0..9 {
        let (server, address) = listening(&["rping", "-s", "-a", "127.0.0.1", "-p", "0"]);
        let (flood, begun) = (Flood::start(address), Instant::now());
        let port = address.port().to_string();
        // The flood has taken all places before the client comes.
        let (mut threads, mut descriptors, mut memory) = (0, 0, 0);
        while begun.elapsed() < Duration::from_secs(2) {
            threads = threads.max(server.status("Threads"));
            descriptors = descriptors.max(server.descriptors());
            memory = memory.max(server.status("VmHWM"));
            thread::yield_now();
        }
        nd::run(["rping", "-c", "-a", "127.0.0.1", "-p", &port, "-C", "3"]).assert_success();
        server.finish().assert_success();
        let (time, sent) = (begun.elapsed(), flood.end());
        println!(
            "{sent} requests in {time:.1?}; the server had at most {threads} threads, {descriptors} descriptors, {memory} KiB"
        );
        // 64 places, those that accept, drive the adapter and wait for signals, and threads that the system still counts after they
        // have left their place.
        assert!(threads < 2 * 64, "{threads} threads");
    }
}
