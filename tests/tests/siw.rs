//! softnd against the soft-iWARP driver of the Linux kernel, in a guest: what it says, and what is on the wire.
//!
//! The guest's folder (`SOFTND_SIW_VM`, or `../shared/siw-vm` beside the repository) is no part of the repository: where
//! it is missing the test is skipped, in CI too.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use softnd_tests::dissect::{Dissection, Packet, Severity};
use softnd_tests::tool;

/// For all cases, in seconds: what the guest's script allows them, and the start of the guest.
const TIMEOUT: &str = "180";

/// Pings per case, as in the guest's script.
const PINGS: usize = 10;

/// One line of what the guest's script says.
#[derive(Debug)]
struct Case {
    passed: bool,
    port: u16,
    crc: bool,
    /// Whether the passive side sends the Terminate, and the layer and error type that Wireshark sees in it.
    refusal: Option<(bool, u8, u8)>,
    name: String,
}

impl Case {
    fn parse(line: &str) -> Option<Self> {
        let (verdict, rest) = line.split_once(' ')?;
        let passed = match verdict {
            "PASS" => true,
            "FAIL" => false,
            _ => return None,
        };
        let mut words = rest.splitn(4, ' ');
        let port = words.next()?.parse().ok()?;
        let crc = words.next()? == "on";
        let refusal = words.next()?;
        let name = words.next()?.to_owned();
        // siw sends the two halves of that octet in the wrong order (PEER-084), so that a refused Read, layer 0 type 1,
        // shows as layer 1 type 0.
        let softnd_listens = name.starts_with("siw-connects");
        let refusal = match refusal {
            "siw:read" => Some((!softnd_listens, 1, 0)),
            "siw:write" => Some((!softnd_listens, 1, 1)),
            "softnd:read" => Some((softnd_listens, 0, 1)),
            "softnd:write" => Some((softnd_listens, 1, 1)),
            _ => None,
        };
        Some(Self {
            passed,
            port,
            crc,
            refusal,
            name,
        })
    }

    /// What is on the wire is what the case is about.
    fn check(&self, packets: &[&Packet]) {
        let name = &self.name;
        let by_server = |packet: &Packet| packet.ports.0 == self.port;
        let mut data = packets.iter().filter(|packet| packet.is_iwarp());
        for (what, passive) in [("Request", false), ("Reply", true)] {
            let packet = data.next().unwrap_or_else(|| panic!("{name}: no {what}"));
            let startup = packet.startup.as_ref();
            assert!(
                startup.is_some_and(|startup| startup.request != passive)
                    && by_server(packet) == passive,
                "{name}: a {what} is missing: {packet:?}"
            );
        }

        for packet in packets {
            assert!(
                packet.payload == 0 || packet.is_iwarp() || packet.partial,
                "{name}: not dissected as iWARP: {packet:?}"
            );
            let wanted = if self.crc { packet.fpdus } else { 0 };
            assert_eq!(packet.good_crcs, wanted, "{name}: CRCs of {packet:?}");
            let fault = packet.remarks.iter().find(|remark| !is_harmless(remark));
            assert_eq!(fault, None, "{name}: {packet:?}");
        }

        let faults: Vec<_> = packets
            .iter()
            .filter_map(|packet| Some((by_server(packet), packet.terminate?)))
            .map(|(by_server, (layer, kind, _))| (by_server, layer, kind))
            .collect();
        assert_eq!(
            faults,
            Vec::from_iter(self.refusal),
            "{name}: Terminate messages"
        );
        self.count(packets);
    }

    /// As many messages as the pings need.
    fn count(&self, packets: &[&Packet]) {
        let name = &self.name;
        let count = |passive: bool, opcode: u8| {
            packets
                .iter()
                .filter(|packet| (packet.ports.0 == self.port) == passive)
                .flat_map(|packet| &packet.opcodes)
                .filter(|found| **found == opcode)
                .count()
        };
        const WRITE: u8 = 0;
        const READ: u8 = 1;
        const RESPONSE: u8 = 2;
        const SEND: u8 = 3;
        if name.contains("/ping/") {
            assert_eq!(count(false, SEND), 2 * PINGS, "{name}: adverts");
            assert_eq!(count(true, SEND), 2 * PINGS, "{name}: answers");
            assert_eq!(count(true, READ), PINGS, "{name}: Reads");
            assert!(count(true, WRITE) >= PINGS, "{name}: Writes");
            assert!(count(false, RESPONSE) >= PINGS, "{name}: Read Responses");
        }
        if name.contains("/reject/") {
            let sent: usize = packets.iter().map(|packet| packet.fpdus).sum();
            assert_eq!(sent, 0, "{name}: nothing follows a rejection");
        }
    }
}

/// Notes, and what is said of TCP's own flow: on a slow machine packets are seen late and in another order.
/// That none was lost, the numbers of messages show.
fn is_harmless((severity, text): &(Severity, String)) -> bool {
    const HARMLESS: [&str; 7] = [
        "Connection reset",
        "D-SACK Sequence",
        "TCP window specified by the receiver is now completely full",
        "TCP Zero Window segment",
        "This frame is a (suspected) out-of-order segment",
        "Previous segment(s) not captured",
        "ACKed segment that wasn't captured",
    ];
    *severity <= Severity::Note || HARMLESS.iter().any(|known| text.starts_with(known))
}

/// The folder with the guest, if it is there.
fn guest() -> Option<PathBuf> {
    let folder = env::var_os("SOFTND_SIW_VM").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/siw-vm"),
        PathBuf::from,
    );
    if !folder.join("run").is_file() {
        tool::skip_here(&format!("no guest with siw in {}", folder.display()));
        return None;
    }
    Some(folder)
}

/// Runs all cases in the guest; what the script says.
fn run(guest: &Path, share: &Path) -> Vec<Case> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/guest.sh");
    fs::copy(script, share.join("guest.sh")).expect("the guest's script is copied");
    fs::copy(env!("CARGO_BIN_EXE_siw_peer"), share.join("siw_peer")).expect("siw_peer is copied");
    let output = Command::new(guest.join("run"))
        .args(["--timeout", TIMEOUT, "--share"])
        .arg(share)
        .args(["--", "bash", "guest.sh"])
        .output()
        .expect("the guest is started");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let cases: Vec<_> = said.lines().filter_map(Case::parse).collect();
    let all = cases.iter().all(|case| case.passed);
    assert!(
        output.status.success() && all,
        "guest: {}\n{said}\n{errors}",
        output.status
    );
    cases
}

#[test]
fn kernel_siw_and_softnd_understand_each_other() {
    let Some(guest) = guest() else { return };
    let (Some(_), Some(tshark)) = (tool::find("qemu-system-x86_64"), tool::find("tshark")) else {
        return;
    };
    let share = tempfile::tempdir().expect("a folder to share");
    let cases = run(&guest, share.path());
    for side in ["softnd-connects", "siw-connects"] {
        let pings = format!("{side}/ping/");
        let found = cases.iter().any(|case| case.name.starts_with(&pings));
        assert!(found, "no case of {side}: {cases:?}");
    }

    let found = Dissection::without_checksums(&tshark, &share.path().join("siw.pcap"));
    let mut ports: HashMap<_, Vec<_>> = HashMap::new();
    for packet in &found.packets {
        // The one of the two that is a case's.
        let (from, to) = packet.ports;
        let known = |port| cases.iter().any(|case| case.port == port);
        let port = if known(from) { from } else { to };
        ports.entry(port).or_default().push(packet);
    }
    for case in &cases {
        case.check(ports.get(&case.port).map_or(&[], Vec::as_slice));
    }
}
