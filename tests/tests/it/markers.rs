//! A connection with markers in both directions, as Wireshark's dissector sees it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, CompletionResult, MemoryRegion, MrFlags, OpFlags,
    Overlapped, OverlappedFile, QueuePair, QueuePairOptions, ReadLimits, RemoteAddress, Result,
    Sge, ext,
};
use softnd::Options;
use softnd::capture::Capture;
use softnd_tests::dissect::Dissection;
use softnd_tests::tool;

const ALL: MrFlags = MrFlags::ALLOW_LOCAL_WRITE
    .union(MrFlags::ALLOW_REMOTE_READ)
    .union(MrFlags::ALLOW_REMOTE_WRITE)
    .union(MrFlags::RDMA_READ_SINK);

/// One side with a registered buffer.
struct End {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    cq: Arc<dyn CompletionQueue>,
    qp: Arc<dyn QueuePair>,
    buffer: Buffer,
    region: Arc<dyn MemoryRegion>,
}

impl End {
    fn new(options: Options) -> Result<Self> {
        let adapter = softnd::open("127.0.0.1", options)?;
        let file = adapter.create_overlapped_file()?;
        let cq = adapter.create_completion_queue(&file, 64, Affinity::default())?;
        let qp = adapter.create_queue_pair(&cq, &cq, QueuePairOptions::default())?;
        let buffer = Buffer::new(8192);
        let region = adapter.create_memory_region(&file)?;
        let overlapped = Overlapped::new();
        ext::wait(region.register(&buffer, ALL, &overlapped), &overlapped)?;
        Ok(Self {
            adapter,
            file,
            cq,
            qp,
            buffer,
            region,
        })
    }

    fn sge(&self, len: usize) -> Sge {
        Sge::new(&self.buffer, ..len, self.region.get_local_token())
    }

    fn results(&self, count: usize) -> Result<()> {
        for _ in 0..count {
            let mut results = [CompletionResult::default(); 1];
            ext::Results::new(&self.cq).get(&mut results)?;
            results[0].status.ok()?;
        }
        Ok(())
    }
}

/// Sends, Writes and Reads of `len` octets over a captured connection, in FPDUs of about a kilobyte.
fn talk(capture: Capture, len: usize) -> Result<()> {
    let markers = || Options::default().markers(true).segment(1200);
    let active = End::new(markers().capture(capture))?;
    let passive = End::new(markers())?;
    let listener = passive.adapter.create_listener(&passive.file)?;
    listener.bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0))?;
    listener.listen(0)?;
    let address = listener.get_local_address()?;
    let there = passive.adapter.create_connector(&passive.file)?;
    let here = active.adapter.create_connector(&active.file)?;
    let limits = ReadLimits {
        inbound: 1,
        outbound: 1,
    };
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            ext::get_connection_request(&listener, &there)?;
            passive.qp.receive(1, &[passive.sge(len)])?;
            ext::accept(&there, &passive.qp, limits, &[])
        });
        ext::connect(&here, &active.qp, address, limits, &[])?;
        accepting.join().expect("no panic")
    })?;
    let target = RemoteAddress {
        address: passive.buffer.address(),
        token: passive.region.get_remote_token(),
    };
    let (source, none) = (active.sge(len), OpFlags::empty());
    active.qp.write(2, &[source], target, none)?;
    active.qp.read(3, &[source], target, none)?;
    active.qp.send(4, &[source], none)?;
    active.results(3)?;
    passive.results(1)?;
    ext::disconnect(&here)
}

/// MPA-057 to MPA-064: another program dissects the markers. One of its known false alarms could appear: it reports a bad
/// CRC for an FPDU right behind a marker (PEER-082), unless the FPDU is the stream's first.
#[test]
fn a_connection_with_markers_is_dissected_with_good_crcs() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("markers.pcapng");
    let capture = Capture::create(&path).unwrap();
    talk(capture.clone(), 4003).unwrap();
    capture.flush().unwrap();
    let file = std::fs::read(&path).unwrap();
    for key in [b"MPA ID Req Frame", b"MPA ID Rep Frame"] {
        let at = file.windows(key.len()).position(|octets| octets == key);
        let flags = file[at.expect("a start-up frame") + key.len()];
        assert_eq!(flags & 0x80, 0x80, "M");
    }
    let found = Dissection::new(&tshark, &path);
    found.assert_clean();
    let fpdus: usize = found.packets.iter().map(|packet| packet.fpdus).sum();
    let opcodes: Vec<u8> = found
        .packets
        .iter()
        .flat_map(|packet| packet.opcodes.iter().copied())
        .collect();
    assert_eq!(opcodes.len(), fpdus);
    for (opcode, least) in [(0, 5), (1, 1), (2, 4), (3, 4)] {
        let count = opcodes.iter().filter(|seen| **seen == opcode).count();
        assert!(count >= least, "{count} FPDUs of opcode {opcode}");
    }
}
