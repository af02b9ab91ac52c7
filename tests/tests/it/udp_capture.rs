//! Captures of a connection over UDP: the adapter's own, and the packets of the network with the log of their keys.

use std::env;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, CompletionResult, MemoryRegion, MrFlags, OpFlags,
    Overlapped, OverlappedFile, QueuePair, QueuePairOptions, ReadLimits, RemoteAddress,
    RemoteToken, Result, Sge, ext,
};
use softnd::capture::Capture;
use softnd::security::{KeyLog, Security};
use softnd_tests::dissect::Dissection;
use softnd_tests::tool;

/// Where the exchange writes its captures.
const FOLDER: &str = "SOFTND_EXCHANGE_FOLDER";

const WRITTEN: &[u8] = b"hello, RDMA over UDP";
const SENT: &[u8] = b"a Send behind it";

/// One end of the exchange.
struct End {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    cq: Arc<dyn CompletionQueue>,
    qp: Arc<dyn QueuePair>,
    buffer: Buffer,
    region: Arc<dyn MemoryRegion>,
}

impl End {
    fn new(options: softnd::Options) -> Result<Self> {
        let adapter = softnd::open("softnd+udp://127.0.0.1", options)?;
        let file = adapter.create_overlapped_file()?;
        let cq = adapter.create_completion_queue(&file, 16, Affinity::default())?;
        let qp = adapter.create_queue_pair(&cq, &cq, QueuePairOptions::default())?;
        let buffer = Buffer::new(4096);
        let region = adapter.create_memory_region(&file)?;
        let rights = MrFlags::ALLOW_LOCAL_WRITE | MrFlags::ALLOW_REMOTE_WRITE;
        let overlapped = Overlapped::new();
        ext::wait(region.register(&buffer, rights, &overlapped), &overlapped)?;
        Ok(Self {
            adapter,
            file,
            cq,
            qp,
            buffer,
            region,
        })
    }

    fn sge(&self, range: std::ops::Range<usize>) -> Sge {
        Sge::new(&self.buffer, range, self.region.get_local_token())
    }

    fn complete(&self, count: usize) -> Result<()> {
        let results = ext::Results::new(&self.cq);
        let mut batch = vec![CompletionResult::default(); count];
        let mut seen = 0;
        while seen < count {
            let got = results.get(&mut batch[seen..])?;
            let got = &batch[seen..seen + got];
            got.iter().try_for_each(|result| result.status.ok())?;
            seen += got.len();
        }
        Ok(())
    }
}

fn server(address: &crossbeam_channel::Sender<SocketAddr>) -> Result<()> {
    let end = End::new(softnd::Options::default())?;
    let listener = end.adapter.create_listener(&end.file)?;
    listener.bind(([127, 0, 0, 1], 0).into())?;
    listener.listen(0)?;
    let _ = address.send(listener.get_local_address()?);
    let connector = end.adapter.create_connector(&end.file)?;
    ext::get_connection_request(&listener, &connector)?;
    end.qp.receive(1, &[end.sge(2048..4096)])?;
    let mut answer = end.buffer.address().to_be_bytes().to_vec();
    answer.extend_from_slice(&end.region.get_remote_token().to_bytes());
    ext::accept(&connector, &end.qp, ReadLimits::default(), &answer)?;
    end.complete(1)?;
    let octets = end.buffer.to_vec();
    assert!(octets.starts_with(WRITTEN) && octets[2048..].starts_with(SENT));
    ext::disconnect(&connector)
}

fn client(server: SocketAddr, options: softnd::Options) -> Result<()> {
    let end = End::new(options)?;
    let connector = end.adapter.create_connector(&end.file)?;
    let limits = ReadLimits::default();
    let peer = ext::connect(&connector, &end.qp, server, limits, b"may I write?")?;
    let (address, token) = peer.private_data.split_at(8);
    let remote = RemoteAddress {
        address: u64::from_be_bytes(address.try_into().expect("eight octets")),
        token: RemoteToken::from_bytes(token.try_into().expect("four octets")),
    };
    end.buffer.write(0, WRITTEN);
    end.buffer.write(1024, SENT);
    let write = [end.sge(0..WRITTEN.len())];
    end.qp.write(2, &write, remote, OpFlags::empty())?;
    let send = [end.sge(1024..1024 + SENT.len())];
    end.qp.send(3, &send, OpFlags::empty())?;
    end.complete(2)?;
    ext::disconnect(&connector)
}

/// A datagram on the network, as an observer between the two ends sees it.
struct Datagram {
    time: u128,
    ends: [SocketAddr; 2],
    octets: Vec<u8>,
}

/// Passes the datagrams of one client on, and writes them down.
struct Relay {
    front: UdpSocket,
    back: UdpSocket,
    client: Mutex<Option<SocketAddr>>,
    seen: Mutex<Vec<Datagram>>,
}

impl Relay {
    fn to(server: SocketAddr) -> (SocketAddr, Arc<Self>) {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let relay = Arc::new(Self {
            front: bind(),
            back: bind(),
            client: Mutex::default(),
            seen: Mutex::default(),
        });
        relay.back.connect(server).unwrap();
        // The threads end with the process.
        let one = Arc::clone(&relay);
        thread::spawn(move || one.forth());
        let other = Arc::clone(&relay);
        thread::spawn(move || other.back());
        (relay.front.local_addr().unwrap(), relay)
    }

    fn note(&self, ends: [SocketAddr; 2], octets: &[u8]) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        self.seen.lock().unwrap().push(Datagram {
            time: time.as_micros(),
            ends,
            octets: octets.to_vec(),
        });
    }

    fn forth(&self) {
        let mut buffer = [0; 65_536];
        let front = self.front.local_addr().unwrap();
        while let Ok((len, from)) = self.front.recv_from(&mut buffer) {
            // One octet asks whether a reader is there.
            if len > 1 {
                *self.client.lock().unwrap() = Some(from);
                self.note([from, front], &buffer[..len]);
                let _ = self.back.send(&buffer[..len]);
            }
        }
    }

    fn back(&self) {
        let mut buffer = [0; 65_536];
        let front = self.front.local_addr().unwrap();
        loop {
            // An error says that the server is gone.
            let Ok(len) = self.back.recv(&mut buffer) else {
                return;
            };
            if let Some(client) = *self.client.lock().unwrap() {
                self.note([front, client], &buffer[..len]);
                let _ = self.front.send_to(&buffer[..len], client);
            }
        }
    }

    /// Writes what was seen in the format of pcap, as IP packets.
    fn write(&self, path: &Path) {
        const LINKTYPE_RAW: u32 = 101;
        let mut file = Vec::new();
        for word in [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, LINKTYPE_RAW] {
            file.extend(word.to_le_bytes());
        }
        for Datagram { time, ends, octets } in &*self.seen.lock().unwrap() {
            let udp = u16::try_from(8 + octets.len()).unwrap();
            let ip = 20 + udp;
            let (seconds, rest) = (time / 1_000_000, time % 1_000_000);
            for word in [seconds, rest, ip.into(), ip.into()] {
                file.extend(u32::try_from(word).unwrap().to_le_bytes());
            }
            file.extend([0x45, 0]);
            file.extend(ip.to_be_bytes());
            // No identification and no fragments, 64 hops, UDP, no checksum.
            file.extend([0, 0, 0, 0, 64, 17, 0, 0]);
            for end in ends {
                let SocketAddr::V4(end) = end else {
                    unreachable!("the relay has IPv4");
                };
                file.extend(end.ip().octets());
            }
            for end in ends {
                file.extend(end.port().to_be_bytes());
            }
            file.extend(udp.to_be_bytes());
            file.extend([0, 0]);
            file.extend(octets);
        }
        fs::write(path, file).unwrap();
    }
}

#[test]
fn an_exchange_passes_a_relay() {
    let own = tempfile::tempdir().unwrap();
    let folder = env::var_os(FOLDER).map_or_else(|| own.path().to_owned(), PathBuf::from);
    let (sender, address) = crossbeam_channel::unbounded();
    let server = thread::spawn(move || server(&sender).unwrap());
    let (front, relay) = Relay::to(address.recv().expect("the server listens"));
    let capture = Capture::create(folder.join("inner.pcapng")).unwrap();
    let mut security = Security::default();
    if let Some(key_log) = KeyLog::from_environment().unwrap() {
        security = security.key_log(key_log);
    }
    let options = softnd::Options::default()
        .capture(capture.clone())
        .security(security);
    client(front, options).unwrap();
    server.join().unwrap();
    capture.flush().unwrap();
    relay.write(&folder.join("outer.pcap"));
}

/// The files of an exchange in a process with a key log.
fn exchange(folder: &Path) {
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "udp_capture::an_exchange_passes_a_relay",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .env("SSLKEYLOGFILE", folder.join("keys"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_capture_of_an_adapter_shows_the_stream_as_iwarp_over_tcp() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    exchange(folder.path());
    let found = Dissection::new(&tshark, &folder.path().join("inner.pcapng"));
    let messages = found.messages();
    assert_eq!(messages.len(), 1);
    let messages = messages.values().next().unwrap();
    let startup = |at: usize| messages[at].startup.as_ref().expect("a start-up frame");
    let words = |octets: &[u8]| -> String {
        let digits = octets.iter().map(|octet| format!("{octet:02x}"));
        digits.collect()
    };
    assert!(startup(0).request && startup(0).private_data.contains(&words(b"may I write?")));
    assert!(!startup(1).request);
    // Writes, one of them the ready-to-receive message of RFC 6581; and a Send.
    assert_eq!((found.count(0), found.count(3)), ((2, 0), (1, 0)));
    for packet in &found.packets {
        assert!(packet.payload == 0 || packet.is_iwarp(), "{packet:?}");
        assert_eq!(packet.bad_checksums, 0, "{packet:?}");
    }
}

/// The octets of all STREAM frames that tshark finds, in hexadecimal.
fn stream_data(tshark: &Path, folder: &Path, port: u16, keys: Option<&Path>) -> String {
    let mut command = Command::new(tshark);
    command.arg("-r").arg(folder.join("outer.pcap"));
    if let Some(keys) = keys {
        let option = format!("tls.keylog_file:{}", keys.display());
        command.args(["-o", &option]);
    }
    command.args(["-d", &format!("udp.port=={port},quic")]);
    command.args(["-Y", "quic.stream.stream_id", "-T", "fields"]);
    command.args(["-e", "quic.stream_data", "-E", "aggregator= "]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn with_the_key_log_the_packets_of_the_network_can_be_read() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    exchange(folder.path());
    let keys = folder.path().join("keys");
    let pcap = fs::read(folder.path().join("outer.pcap")).unwrap();
    // The first datagram goes to the relay.
    let at = 24 + 16 + 20 + 2;
    let port = u16::from_be_bytes([pcap[at], pcap[at + 1]]);
    let read = stream_data(&tshark, folder.path(), port, Some(&keys));
    for octets in [&b"MPA ID Req Frame"[..], b"MPA ID Rep Frame", WRITTEN, SENT] {
        let digits: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        assert!(read.contains(&digits), "{digits} in {read}");
    }
    let without = stream_data(&tshark, folder.path(), port, None);
    assert_eq!(without.trim(), "", "nobody reads it without the keys");
    let on_the_way = |octets: &[u8]| pcap.windows(octets.len()).any(|known| known == octets);
    assert!(!on_the_way(WRITTEN) && !on_the_way(b"MPA ID Req Frame"));
}
