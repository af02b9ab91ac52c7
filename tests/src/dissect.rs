//! Captures as tshark dissects them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A capture as tshark reads it.
#[derive(Debug)]
pub struct Dissection {
    /// The packets in the order of the file.
    pub packets: Vec<Packet>,
}

/// One captured packet.
#[derive(Debug, Default)]
pub struct Packet {
    /// Wireshark's number of the packet, from 1.
    pub number: u32,
    /// Wireshark's number of the TCP connection.
    pub stream: u32,
    /// True when the capturing side sent it.
    pub outbound: bool,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Where the TCP payload begins in the stream: 1 for the first octet.
    pub sequence: u32,
    /// Octets of TCP payload.
    pub payload: u32,
    /// Part of an FPDU that tshark dissects with another packet, because the other packet comes later, or was captured in
    /// the wrong order. Also octets that were sent before.
    pub partial: bool,
    /// The protocols found, outermost first, such as `eth:ethertype:ip:tcp:iwarp_mpa`.
    pub protocols: String,
    /// An MPA Request or Reply, and its private data as tshark shows it: with the Rev 2 words in front (PEER-081).
    pub startup: Option<Startup>,
    /// The lengths of ULPDUs, one per FPDU.
    pub ulpdus: Vec<u16>,
    /// RDMAP opcodes, one per FPDU.
    pub opcodes: Vec<u8>,
    /// Layer, error type and error code of a Terminate message; [`UNKNOWN`] where tshark shows none, as in one that no
    /// standard knows, or several.
    pub terminate: Option<(u8, u8, u8)>,
    /// FPDUs found.
    pub fpdus: usize,
    /// FPDUs whose CRC was found good.
    pub good_crcs: usize,
    /// The remarks of Wireshark's expert system, with their severity.
    pub remarks: Vec<(Severity, String)>,
    /// IP and TCP checksums that were checked and are wrong.
    pub bad_checksums: usize,
}

/// Means that a layer, an error type or an error code is unknown.
pub const UNKNOWN: u8 = u8::MAX;

/// A start-up frame of RFC 5044 §7.1.
#[derive(Debug, PartialEq, Eq)]
pub struct Startup {
    /// Whether this is a Request. Otherwise it is a Reply.
    pub request: bool,
    /// The private data in hexadecimal.
    pub private_data: String,
}

/// The severity of a remark, in Wireshark's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "Wireshark's words")]
pub enum Severity {
    Comment,
    Chat,
    Note,
    Warning,
    Error,
}

impl Severity {
    fn parse(number: &str) -> Self {
        match number {
            "1048576" => Self::Comment,
            "2097152" => Self::Chat,
            "4194304" => Self::Note,
            "6291456" => Self::Warning,
            "8388608" => Self::Error,
            other => panic!("tshark knows a severity {other:?}"),
        }
    }
}

/// The fields that tshark prints, in the order in which `packet` takes them.
const FIELDS: [&str; 29] = [
    "frame.number",
    "tcp.stream",
    "frame.p2p_dir",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq",
    "tcp.len",
    "tcp.reassembled_in",
    "tcp.analysis.retransmission",
    "tcp.analysis.spurious_retransmission",
    "tcp.analysis.out_of_order",
    "frame.protocols",
    "iwarp_mpa.key.req",
    "iwarp_mpa.key.rep",
    "iwarp_mpa.privatedata",
    "iwarp_mpa.ulpdulength",
    "iwarp_rdma.opcode",
    "iwarp_rdma.term_layer",
    "iwarp_rdma.term_etype_rdma",
    "iwarp_rdma.term_etype_ddp",
    "iwarp_rdma.term_etype_llp",
    "iwarp_rdma.term_errcode_rdma",
    "iwarp_rdma.term_errcode_ddp_tagged",
    "iwarp_rdma.term_errcode_ddp_untagged",
    "iwarp_rdma.term_errcode_llp",
    // The code for an error type without separate codes.
    "iwarp_rdma.term_errcode",
    "_ws.expert.severity",
    "_ws.expert.message",
    "checksums",
];

impl Dissection {
    /// Runs tshark over the file.
    ///
    /// # Panics
    /// If tshark fails, or prints something unknown.
    pub fn new(tshark: &Path, capture: &Path) -> Self {
        Self::with(tshark, capture, true)
    }

    /// Dissects a capture from a network interface that leaves checksums to its hardware, as a loopback interface does. Checksums are not
    /// checked.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn without_checksums(tshark: &Path, capture: &Path) -> Self {
        Self::with(tshark, capture, false)
    }

    fn with(tshark: &Path, capture: &Path, checksums: bool) -> Self {
        let mut command = tshark_over(tshark, capture, checksums);
        // In two passes, so that the first packet of an FPDU knows the last one.
        command.args(["-2", "-T", "fields", "-E", "occurrence=a"]);
        command.args(["-E", "aggregator=|"]);
        for field in FIELDS {
            match field {
                "checksums" => {
                    command.args(["-e", "ip.checksum.status", "-e", "tcp.checksum.status"])
                }
                field => command.args(["-e", field]),
            };
        }
        let mut packets: Vec<_> = run(command).lines().map(packet).collect();
        if !checksums {
            packets
                .iter_mut()
                .for_each(|packet| packet.bad_checksums = 0);
        }
        add_crcs(&mut packets, &crcs(tshark, capture, checksums));
        Self { packets }
    }

    /// Checks that every segment with octets is dissected as iWARP, that every CRC and every checksum is good, and that no
    /// remark is worse than a note. A remark about a reset is no fault.
    ///
    /// No alarm is ignored here. The dissector has two known false alarms. The guesses of other dissectors (PEER-081) are
    /// switched off. The marker between two FPDUs (PEER-082) is avoided in streams with markers.
    ///
    /// # Panics
    /// If this does not hold.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(
            self.packets.iter().any(|packet| packet.fpdus > 0),
            "a capture without one FPDU proves nothing"
        );
        for packet in &self.packets {
            let number = packet.number;
            if packet.payload > 0 {
                assert!(
                    packet.is_iwarp(),
                    "packet {number} is not dissected as iWARP: {packet:?}"
                );
            }
            assert_eq!(
                packet.good_crcs, packet.fpdus,
                "CRCs of packet {number}: {packet:?}"
            );
            assert_eq!(
                packet.bad_checksums, 0,
                "checksums of packet {number}: {packet:?}"
            );
            let reset = |text: &str| text.starts_with("Connection reset");
            let fault = packet
                .remarks
                .iter()
                .find(|(worth, text)| *worth > Severity::Note && !reset(text));
            assert_eq!(fault, None, "packet {number}: {packet:?}");
        }
    }

    /// Packets that carry FPDUs or start-up frames, by connection.
    pub fn messages(&self) -> BTreeMap<u32, Vec<&Packet>> {
        let mut streams = BTreeMap::<_, Vec<_>>::new();
        for packet in self.packets.iter().filter(|packet| packet.is_iwarp()) {
            streams.entry(packet.stream).or_default().push(packet);
        }
        streams
    }

    /// Returns how many segments of this RDMAP opcode the capturing side sent and received.
    pub fn count(&self, opcode: u8) -> (usize, usize) {
        let count = |outbound| {
            let packets = self
                .packets
                .iter()
                .filter(|packet| packet.outbound == outbound);
            packets
                .flat_map(|packet| &packet.opcodes)
                .filter(|found| **found == opcode)
                .count()
        };
        (count(true), count(false))
    }
}

impl Packet {
    /// Returns true if the packet is dissected as MPA at least.
    pub fn is_iwarp(&self) -> bool {
        self.protocols
            .split(':')
            .any(|protocol| protocol == "iwarp_mpa")
    }
}

/// Runs tshark with the heuristic for MPA first, and without the dissectors that guess at the payload of Sends and report
/// malformed messages (PEER-081).
fn tshark_over(tshark: &Path, capture: &Path, checksums: bool) -> Command {
    let mut command = Command::new(tshark);
    command
        .arg("-r")
        .arg(capture)
        .args(["--enable-heuristic", "iwarp_mpa_tcp"])
        .args([
            "--disable-protocol",
            "rpcordma",
            "--disable-protocol",
            "smb_direct",
        ])
        // The ports are arbitrary, so a protocol that claims one of them must not win.
        .args(["-o", "tcp.try_heuristic_first:TRUE"]);
    for protocol in ["tcp", "ip"] {
        command.args(["-o", &format!("{protocol}.check_checksum:{checksums}")]);
    }
    // Packets from an interface may have been captured in another order than they were sent.
    command.args(["-o", "tcp.reassemble_out_of_order:TRUE"]);
    command
}

fn run(mut command: Command) -> String {
    let output = command.output().expect("tshark starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "tshark: {}: {errors}",
        output.status
    );
    String::from_utf8(output.stdout).expect("tshark writes UTF-8")
}

fn packet(line: &str) -> Packet {
    let mut fields = line.split('\t');
    let mut next = || fields.next().unwrap_or_default();
    let mut packet = Packet {
        number: next().parse().expect("a packet number"),
        stream: next().parse().expect("a packet of TCP"),
        outbound: next() == "0",
        ports: (
            next().parse().expect("a port"),
            next().parse().expect("a port"),
        ),
        sequence: next().parse().expect("a sequence number"),
        payload: next().parse().expect("a length"),
        partial: [next(), next(), next(), next()]
            .iter()
            .any(|text| !text.is_empty()),
        protocols: next().to_owned(),
        ..Packet::default()
    };
    let (request, reply, private_data) = (next(), next(), next());
    if !request.is_empty() || !reply.is_empty() {
        let private_data = private_data.replace(':', "");
        packet.startup = Some(Startup {
            request: !request.is_empty(),
            private_data,
        });
    }
    packet.ulpdus = several(next())
        .map(|text| text.parse().expect("the length of a ULPDU"))
        .collect();
    packet.opcodes = several(next()).map(number).collect();
    let layer = next();
    let etype = [next(), next(), next()].concat();
    let code = [next(), next(), next(), next(), next()].concat();
    if !layer.is_empty() {
        let [layer, etype, code] =
            [layer, &etype, &code].map(|text| small(text).unwrap_or(UNKNOWN));
        packet.terminate = Some((layer, etype, code));
    }
    let (severities, texts) = (next(), next());
    if !severities.is_empty() {
        let severities = severities.split('|').map(Severity::parse);
        packet.remarks = severities
            .zip(texts.split('|').map(str::to_owned))
            .collect();
    }
    // 1: good. Absent for the IPv4 header of an IPv6 packet.
    packet.bad_checksums = [next(), next()]
        .iter()
        .filter(|status| !matches!(**status, "" | "1"))
        .count();
    packet
}

/// The values of a field that a packet may have several times.
fn several(text: &str) -> impl Iterator<Item = &str> {
    text.split('|').filter(|text| !text.is_empty())
}

fn number(text: &str) -> u8 {
    small(text).unwrap_or_else(|| panic!("{text:?} is no small number"))
}

fn small(text: &str) -> Option<u8> {
    match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Per packet number: FPDUs, and good CRCs. Only the text that tshark shows says whether a CRC is good.
fn crcs(tshark: &Path, capture: &Path, checksums: bool) -> Vec<(u32, usize, usize)> {
    let mut command = tshark_over(tshark, capture, checksums);
    command.args([
        "-T",
        "pdml",
        "-J",
        "frame iwarp_mpa",
        "-Y",
        "iwarp_mpa.fpdu",
    ]);
    let pdml = run(command);
    pdml.split("<packet>")
        .skip(1)
        .map(|packet| {
            let number = attribute(packet, "frame.number")
                .parse()
                .expect("a packet number");
            let fpdus = packet.matches("name=\"iwarp_mpa.fpdu\"").count();
            (number, fpdus, packet.matches("(Good CRC32)").count())
        })
        .collect()
}

/// The `show` attribute of the first field of this name.
fn attribute<'a>(pdml: &'a str, name: &str) -> &'a str {
    let field = pdml
        .split(&format!("name=\"{name}\""))
        .nth(1)
        .expect("the field is there");
    field
        .split(" show=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("it shows a value")
}

fn add_crcs(packets: &mut [Packet], crcs: &[(u32, usize, usize)]) {
    for (number, fpdus, good) in crcs {
        let packet = packets.binary_search_by_key(number, |packet| packet.number);
        let packet = &mut packets[packet.expect("both runs of tshark see the same packets")];
        (packet.fpdus, packet.good_crcs) = (*fpdus, *good);
    }
}
