//! The interop cases of softnd and siw: the guest's result of each case, what the wire has to show, and the report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use iwarp_conform::Deviations;

use crate::alignment::Alignment;
use crate::dissect::{Packet, Severity};

/// Pings per case of `siw_peer`, as in the guest's script.
const FEW_PINGS: usize = 10;

/// Pings per case of `nd rping`, and messages per case of `nd perftest`.
const MESSAGES: usize = 100;

/// How the names of the suite's cases begin.
pub const CONFORMANCE: &str = "wire-conform/";

/// How the names of the cases of unmodified programs begin, one end of which runs by `nd run`.
pub const PROGRAMS: &str = "programs-";

/// RDMAP opcodes.
const WRITE: u8 = 0;
const READ: u8 = 1;
const RESPONSE: u8 = 2;
const SEND: u8 = 3;

/// One line of the output of the guest's script.
#[derive(Debug)]
pub struct Case {
    /// Whether both programs ended as they should.
    pub passed: bool,
    /// The port of the case, and of no other.
    pub port: u16,
    /// The name of the case.
    pub name: String,
    /// The figure of the other program, if it measures.
    pub figure: String,
    crc: bool,
    /// Whether the passive side sends the Terminate, and the layer and error type that Wireshark sees in it.
    refusal: Option<(bool, u8, u8)>,
}

impl Case {
    /// The case of a line, if the line is about one.
    pub fn parse(line: &str) -> Option<Self> {
        let (verdict, rest) = line.split_once(' ')?;
        let passed = match verdict {
            "PASS" => true,
            "FAIL" => false,
            _ => return None,
        };
        let mut words = rest.splitn(5, ' ');
        let port = words.next()?.parse().ok()?;
        let crc = words.next()? == "on";
        let refusal = words.next()?;
        let name = words.next()?.to_owned();
        let figure = words.next().unwrap_or_default().to_owned();
        // siw sends the two halves of this octet in the wrong order (PEER-084), so that a refused Read, layer 0 type 1, is
        // shown as layer 1 type 0.
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
            name,
            figure,
            crc,
            refusal,
        })
    }

    /// Checks that the wire shows what the case is about. `packets` are those of the case's port.
    ///
    /// # Panics
    /// If it does not.
    pub fn check(&self, packets: &[&Packet]) {
        let name = &self.name;
        self.check_startup(packets);
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
            .filter_map(|packet| Some((self.by_server(packet), packet.terminate?)))
            .map(|(by_server, (layer, kind, _))| (by_server, layer, kind))
            .collect();
        assert_eq!(
            faults,
            Vec::from_iter(self.refusal),
            "{name}: Terminate messages"
        );
        self.count(packets);
    }

    /// Returns true if nothing of the case's RDMA was captured: `qperf` chooses its ports by itself.
    pub fn is_elsewhere(&self) -> bool {
        self.is_of(PROGRAMS) && self.name.contains("/qperf/")
    }

    /// Where the segments begin that softnd sends (MPA-085).
    pub fn alignment(&self, packets: &[&Packet]) -> Alignment {
        let softnd_listens = self.is_of("siw-connects") || self.name.contains("-server/");
        let sent = packets.iter().copied();
        Alignment::from_packets(sent.filter(|packet| self.by_server(packet) == softnd_listens))
    }

    fn by_server(&self, packet: &Packet) -> bool {
        packet.ports.0 == self.port
    }

    /// Checks that each connection begins with a Request and a Reply, and that there are as many connections as the
    /// programs make.
    fn check_startup(&self, packets: &[&Packet]) {
        let name = &self.name;
        let mut streams: BTreeMap<u32, Vec<&Packet>> = BTreeMap::new();
        for packet in packets.iter().filter(|packet| packet.is_iwarp()) {
            streams.entry(packet.stream).or_default().push(packet);
        }
        if self.is_of(PROGRAMS) {
            assert!(!streams.is_empty(), "{name}: no connection");
        } else {
            let wanted = if self.is_of("nd-perftest") { 2 } else { 1 };
            assert_eq!(streams.len(), wanted, "{name}: connections");
        }
        for packets in streams.values() {
            for (i, (what, passive)) in [("Request", false), ("Reply", true)]
                .into_iter()
                .enumerate()
            {
                let packet = packets.get(i);
                let found = packet.is_some_and(|packet| {
                    let startup = packet.startup.as_ref();
                    startup.is_some_and(|startup| startup.request != passive)
                        && self.by_server(packet) == passive
                });
                assert!(found, "{name}: a {what} is missing: {packet:?}");
            }
        }
    }

    fn is_of(&self, program: &str) -> bool {
        self.name.starts_with(program)
    }

    /// Checks that there are as many messages as the case needs.
    fn count(&self, packets: &[&Packet]) {
        let name = &self.name;
        let count = |passive: bool, opcode: u8| {
            packets
                .iter()
                .filter(|packet| self.by_server(packet) == passive)
                .flat_map(|packet| &packet.opcodes)
                .filter(|found| **found == opcode)
                .count()
        };
        let pings = match () {
            () if name.contains("/ping/") => FEW_PINGS,
            () if self.is_of("nd-rping") => MESSAGES,
            () => 0,
        };
        if pings > 0 {
            assert_eq!(count(false, SEND), 2 * pings, "{name}: adverts");
            assert_eq!(count(true, SEND), 2 * pings, "{name}: answers");
            assert_eq!(count(true, READ), pings, "{name}: Reads");
            assert!(count(true, WRITE) >= pings, "{name}: Writes");
            assert!(count(false, RESPONSE) >= pings, "{name}: Read Responses");
        }
        if name.contains("/reject/") {
            let sent: usize = packets.iter().map(|packet| packet.fpdus).sum();
            assert_eq!(sent, 0, "{name}: nothing follows a rejection");
        }
        if self.is_of("nd-perftest") {
            self.count_perftest(count);
        }
    }

    /// Messages that fit in one segment are counted one by one. Of longer messages there are at least as many segments.
    fn count_perftest(&self, count: impl Fn(bool, u8) -> usize) {
        let name = &self.name;
        let test = name.split('/').nth(1).unwrap_or_default();
        // The records before the test, and after a bandwidth test of Writes or Reads five figures more.
        let records = match test {
            "ib_write_lat" => 10,
            "ib_write_bw" | "ib_read_bw" => 16,
            _ => 11,
        };
        let (client, server) = (count(false, SEND), count(true, SEND));
        match test {
            "ib_send_bw" => {
                assert!(client >= records + MESSAGES, "{name}: Sends");
                assert_eq!(server, records, "{name}: the server's records");
                // Credits, for a third of the Receives each, and for all of them.
                assert_eq!(count(true, WRITE), 4, "{name}: credits");
                return;
            }
            "ib_send_lat" => {
                let both = (records + MESSAGES, records + MESSAGES);
                assert_eq!((client, server), both, "{name}: Sends");
                return;
            }
            _ => assert_eq!((client, server), (records, records), "{name}: records"),
        }
        match test {
            "ib_write_bw" => assert!(count(false, WRITE) >= MESSAGES, "{name}: Writes"),
            "ib_write_lat" => {
                assert!(
                    count(false, WRITE) >= MESSAGES,
                    "{name}: the client's Writes"
                );
                assert!(
                    count(true, WRITE) >= MESSAGES,
                    "{name}: the server's Writes"
                );
            }
            "ib_read_bw" | "ib_read_lat" => {
                assert_eq!(count(false, READ), MESSAGES, "{name}: Reads");
                assert!(count(true, RESPONSE) >= MESSAGES, "{name}: Responses");
            }
            other => panic!("{name}: no such test: {other}"),
        }
    }
}

/// Notes and remarks about TCP's own flow are harmless, because on a slow machine packets are captured late and in another
/// order. The numbers of messages show that none was lost.
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

/// The report of a run of all cases.
#[derive(Debug)]
pub struct Report<'a> {
    /// Programs, and their versions.
    pub versions: Vec<(&'a str, String)>,
    /// All cases.
    pub cases: &'a [Case],
    /// Per case, FPDUs that tshark found.
    pub fpdus: BTreeMap<u16, usize>,
    /// Where the segments begin that softnd sends, in all cases but those of the conformance suite.
    pub alignment: Alignment,
    /// How long the guest took for all cases.
    pub time: Duration,
    /// The known deviations of siw.
    pub deviations: &'a Deviations,
}

impl Report<'_> {
    /// The page `docs/reports/interop.md`.
    pub fn page(&self) -> String {
        let mut page = String::from(INTRODUCTION);
        page.push_str("| | version |\n|---|---|\n");
        for (program, version) in &self.versions {
            let _ = writeln!(page, "| {program} | {version} |");
        }
        let passed = self.cases.iter().filter(|case| case.passed).count();
        let fpdus: usize = self.fpdus.values().sum();
        let _ = writeln!(
            page,
            "\n{passed} of {} cases passed, in {} s, the start of the guest included. tshark dissected their {fpdus} FPDUs \
             without a fault.",
            self.cases.len(),
            self.time.as_secs()
        );
        let Alignment {
            segments,
            inside,
            cut_crcs,
        } = self.alignment;
        let _ = writeln!(
            page,
            "Of softnd's {segments} TCP segments in the cases without the conformance suite, {inside} begin inside an FPDU, and \
             {cut_crcs} inside a CRC field or its padding (MPA-085)."
        );
        for section in &SECTIONS {
            self.section(&mut page, section);
        }
        page.push_str("\n| check | what siw does |\n|---|---|\n");
        for deviation in &self.deviations.deviation {
            let mut notes = String::new();
            match deviation.when.get("crc").and_then(|crc| crc.as_str()) {
                Some("on") => notes.push_str("; with CRC only"),
                Some("off") => notes.push_str("; without CRC only"),
                _ => {}
            }
            if let Some(why) = &deviation.intermittent {
                let _ = write!(notes, "; not in every run, because {why}");
            }
            let _ = writeln!(
                page,
                "| `{}` | {}{notes} |",
                deviation.check, deviation.reason
            );
        }
        page
    }

    fn section(&self, page: &mut String, section: &Section) {
        let _ = write!(page, "\n## {}\n\n{}\n\n", section.title, section.text);
        let figure = section.figure;
        let _ = writeln!(page, "| case | result | FPDUs |{figure}");
        let rule = if figure.is_empty() { "" } else { "--:|" };
        let _ = writeln!(page, "|---|---|--:|{rule}");
        let of_section = |case: &&Case| section.prefixes.iter().any(|prefix| case.is_of(prefix));
        for case in self.cases.iter().filter(of_section) {
            let result = if case.passed { "passed" } else { "FAILED" };
            let fpdus = self.fpdus.get(&case.port).copied().unwrap_or_default();
            let _ = write!(page, "| {} | {result} | {fpdus} |", case.name);
            if !figure.is_empty() {
                let _ = write!(page, " {} |", case.figure);
            }
            page.push('\n');
        }
    }

    /// The cases of no section, which the page would not show.
    pub fn left_out(&self) -> BTreeSet<&str> {
        let shown = |case: &&Case| {
            let mut prefixes = SECTIONS.iter().flat_map(|section| section.prefixes);
            !prefixes.any(|prefix| case.is_of(prefix))
        };
        self.cases
            .iter()
            .filter(shown)
            .map(|case| case.name.as_str())
            .collect()
    }
}

/// The part of the chapter about verbs programs that these cases fill.
pub const PROGRAMS_PART: &str = "programs and siw";

/// The table of the cases of unmodified programs, for the chapter about them: a row for each program, CRC and MTU, by role.
pub fn programs_table(cases: &[Case]) -> String {
    let mut rows: BTreeMap<&str, [&Case; 2]> = BTreeMap::new();
    for case in cases {
        let Some(rest) = case.name.strip_prefix(PROGRAMS) else {
            continue;
        };
        if let Some((role, what)) = rest.split_once('/') {
            let row = rows.entry(what).or_insert([case; 2]);
            row[usize::from(role == "server")] = case;
        }
    }
    let mut table =
        "| program | over softnd as the client | over softnd as the server |\n|---|---|---|\n"
            .to_owned();
    for (what, row) in rows {
        let cells = row.map(|case| {
            let result = if case.passed { "works" } else { "FAILED" };
            let gap = if case.figure.is_empty() { "" } else { ", " };
            format!("{result}{gap}{}", case.figure)
        });
        let _ = writeln!(table, "| {what} | {} |", cells.join(" | "));
    }
    table
}

/// Cases that belong together.
struct Section {
    title: &'static str,
    text: &'static str,
    /// How the names of its cases begin.
    prefixes: &'static [&'static str],
    /// The head of a column with figures, or nothing.
    figure: &'static str,
}

const INTRODUCTION: &str = "\
# Interoperation with the kernel's siw

The test `siw` of the package `softnd-tests` writes this page. It boots a guest, in which softnd talks over TCP to the soft-iWARP
driver of the Linux kernel. On the side of the driver run unchanged programs of other projects. tshark captures and dissects all
traffic. A case passes only if

- each connection begins with an MPA Request and Reply,
- every FPDU can be dissected, and every CRC is good where CRC is on,
- there are as many messages as the case needs,
- there is a Terminate only where the case provokes one,
- no TCP segment of softnd begins inside a CRC field, because siw takes such a CRC field for a wrong one.

To repeat it, on Debian 12 as root:

```sh
tests/interop/guest/make        # once
cargo make interop              # SOFTND_REPORT=1 cargo make interop also rewrites this page
```

The speeds come from a machine with two emulated processors, which did other work at the same time. They show only that data moved
and that the other program could measure the speed. [Performance](performance.md) has the figures to compare.

";

const SECTIONS: [Section; 5] = [
    Section {
        title: "rping",
        text: "\
`nd rping` runs as client and as server, with `rping` of rdma-core on siw as the other side. Each case has 100 pings, and both sides
compare every octet. `p2p` is siw's option `peer_to_peer`. `crc-on` is its option `mpa_crc_required` where siw is the client. The
largest size is that of rping, one octet below 64 KiB.",
        prefixes: &["nd-rping-client/", "nd-rping-server/"],
        figure: " time |",
    },
    Section {
        title: "perftest",
        text: "\
`nd perftest` runs as client and as server, with the six programs of perftest on siw as the other side. Each case has 100 messages.
The figure is perftest's: the average bandwidth or the typical latency. A server of `ib_read_lat` measures nothing, so there the
figure is nd's. There is no case with `ib_write_lat` as the client on siw without `peer_to_peer`, because its server writes first.
RFC 5044 section 7.1.2 forbids this before the client has sent something.",
        prefixes: &["nd-perftest-client/", "nd-perftest-server/"],
        figure: " figure |",
    },
    Section {
        title: "softnd connects, rping listens",
        text: "These cases also provoke what rping never does: accesses that the other side has to refuse.",
        prefixes: &["softnd-connects/"],
        figure: "",
    },
    Section {
        title: "rping connects, softnd listens",
        text: "These are the same cases in the other direction. Further cases have CRC asked for by one side only, rejections and early ends.",
        prefixes: &["siw-connects/"],
        figure: "",
    },
    Section {
        title: "The conformance suite, siw as the target",
        text: "\
`nd wire-conform` runs against siw as MPA Responder. The application on siw is a small verbs program that speaks the Send protocol
of [the suite](../check/iwarp-stack.md) (`tests/interop/guest/siw_target.c`). The checks that fail have to be exactly those that
`crates/iwarp-conform/deviations/siw-6.1.toml` lists for siw; the table below shows this list. The last case provokes the loss of the
target's listener, and passes when the listener is lost. tshark dissects the captures of the suite, but its remarks are not judged,
because most of what the suite sends is wrong on purpose. The suite ends connections as soon as it has the Reply. This kernel crashes
then if it has two processors (a `BUG` in `cm_work_handler`). The guest therefore has one processor, and the last case, which needs
two, runs in a guest of its own.",
        prefixes: &[CONFORMANCE],
        figure: " checks |",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_case() {
        let case = Case::parse("PASS 7601 on none nd-perftest-client/ib_send_bw/65536 4.50 MiB/s")
            .expect("a case");
        assert!(case.passed && case.crc && case.refusal.is_none());
        assert_eq!((case.port, case.figure.as_str()), (7601, "4.50 MiB/s"));
        let case = Case::parse("FAIL 7205 off siw:read siw-connects/read-bad-key why not")
            .expect("a case");
        assert!(!case.passed && !case.crc);
        assert_eq!(case.refusal, Some((false, 1, 0)));
        assert!(Case::parse("tcpdump: 3 packets").is_none());
    }

    #[test]
    fn programs_have_a_row_for_both_roles() {
        let lines = [
            "PASS 8201 on none programs-client/send_lat/crc-on/mtu-1500 12.00 us",
            "FAIL 8202 on none programs-server/send_lat/crc-on/mtu-1500 why",
            "PASS 8203 off none programs-client/qperf/crc-off/mtu-1500",
            "PASS 8204 off none programs-server/qperf/crc-off/mtu-1500",
        ];
        let cases: Vec<_> = lines.into_iter().filter_map(Case::parse).collect();
        assert!(cases[2].is_elsewhere() && !cases[0].is_elsewhere());
        let table = programs_table(&cases);
        for row in [
            "| send_lat/crc-on/mtu-1500 | works, 12.00 us | FAILED, why |",
            "| qperf/crc-off/mtu-1500 | works | works |",
        ] {
            assert!(table.contains(row), "{table}");
        }
    }

    #[test]
    fn the_report_has_a_row_for_each_case_and_no_case_is_left_out() {
        let lines = [
            "PASS 7601 on none nd-perftest-client/x 1 us",
            "FAIL 7401 on none nd-rping-server/y why",
        ];
        let cases: Vec<_> = lines.into_iter().filter_map(Case::parse).collect();
        let report = Report {
            versions: vec![("siw", "6.1".to_owned())],
            cases: &cases,
            fpdus: BTreeMap::from([(7601, 12)]),
            alignment: Alignment {
                segments: 9,
                ..Alignment::default()
            },
            time: Duration::from_secs(7),
            deviations: &Deviations::parse(
                "[[deviation]]\ncheck = 'MPA-060'\nreason = 'it'\nsource = 'y'\ncrc = 'on'\n",
            )
            .expect("deviations"),
        };
        let page = report.page();
        for row in [
            "| siw | 6.1 |",
            "| nd-perftest-client/x | passed | 12 | 1 us |",
            "| nd-rping-server/y | FAILED | 0 | why |",
            "1 of 2 cases passed, in 7 s",
            "Of softnd's 9 TCP segments in the cases without the conformance suite, 0 begin inside an FPDU, and 0 inside",
            "| `MPA-060` | it; with CRC only |",
        ] {
            assert!(page.contains(row), "{row} is missing:\n{page}");
        }
        assert_eq!(report.left_out(), BTreeSet::new());
    }
}
