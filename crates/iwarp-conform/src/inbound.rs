//! Examines what the target sends, octet by octet. Each broken rule becomes a fault with its row.

use std::collections::BTreeMap;

use crate::wire::{Markers, Segment, Terminate, crc32c, hex, opcode, queue};

/// A rule that the target broke while it was doing something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The row.
    pub row: &'static str,
    /// The behaviour that the row asks for.
    pub expected: String,
    /// The octets or the event seen instead.
    pub seen: String,
}

#[derive(Clone, Copy, Debug)]
struct Untagged {
    opcode: u8,
    msn: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Tagged {
    opcode: u8,
    stag: u32,
    next: u64,
}

/// State of the target's half of the stream.
#[derive(Clone, Debug, Default)]
pub struct Inbound {
    /// All faults.
    pub faults: Vec<Fault>,
    /// Segments so far.
    pub segments: u32,
    /// Markers so far.
    pub markers: u32,
    /// Markers that were neither at the start of an FPDU nor of the stream.
    pub inner_markers: u32,
    /// Octets of the longest ULPDU.
    pub longest: usize,
    msn: BTreeMap<u32, u32>,
    untagged: BTreeMap<u32, Untagged>,
    tagged: Option<Tagged>,
    terminated: bool,
}

impl Inbound {
    fn fault(&mut self, row: &'static str, expected: impl Into<String>, seen: impl Into<String>) {
        self.faults.push(Fault {
            row,
            expected: expected.into(),
            seen: seen.into(),
        });
    }

    /// Takes the octets of one FPDU with its markers, and returns the ULPDU.
    pub(crate) fn fpdu(
        &mut self,
        octets: &[u8],
        length: usize,
        crc: bool,
        markers: Option<&mut Markers>,
    ) -> Vec<u8> {
        let mut body = Vec::with_capacity(octets.len());
        match markers {
            None => body.extend(octets),
            Some(markers) => {
                let mut start = None;
                for word in octets.chunks(4) {
                    if markers.due() {
                        self.marker(word, start, markers.position);
                    } else {
                        start.get_or_insert(markers.position);
                        body.extend(word);
                    }
                    markers.position = markers.position.wrapping_add(4);
                }
            }
        }
        let (covered, field) = octets.split_at(octets.len() - 4);
        let good = crc32c(covered).to_le_bytes();
        if crc && field != good {
            self.fault(
                "MPA-055",
                format!("CRC field {}", hex(&good, 4)),
                format!("{} in {}", hex(field, 4), hex(octets, 64)),
            );
        }
        let pad = &body[2 + length..body.len() - 4];
        if pad.iter().any(|octet| *octet != 0) {
            self.fault("MPA-053", "PAD of zeros", hex(pad, 4));
        }
        if length > 64_768 {
            self.fault(
                "MPA-083",
                "a ULPDU of at most 64768 octets",
                format!("{length}"),
            );
        }
        self.longest = self.longest.max(length);
        body.truncate(2 + length);
        body.split_off(2)
    }

    fn marker(&mut self, word: &[u8], start: Option<u32>, at: u32) {
        self.markers += 1;
        let &[a, b, c, d] = word else { return };
        if [a, b] != [0, 0] {
            self.fault("MPA-067", "Reserved of a marker is 0", hex(word, 4));
        }
        let pointer = u16::from_be_bytes([c, d]);
        if pointer & 3 != 0 {
            self.fault("MPA-066", "the low bits of FPDUPTR are 0", hex(word, 4));
        }
        match start {
            None if pointer & !3 != 0 => {
                self.fault(
                    "MPA-065",
                    "FPDUPTR 0 between FPDUs",
                    format!("{pointer:#x}"),
                );
            }
            Some(start) => {
                self.inner_markers += 1;
                let distance = at.wrapping_sub(start);
                if u32::from(pointer & !3) != distance {
                    self.fault(
                        "MPA-064",
                        format!("FPDUPTR {distance:#x}"),
                        format!("{pointer:#x}"),
                    );
                }
            }
            None => {}
        }
    }

    /// One segment, in the order of the stream.
    pub(crate) fn segment(&mut self, segment: &Segment, initiator: bool) {
        let text = segment.describe();
        if self.terminated {
            self.fault("RDMAP-071", "nothing after a Terminate", text.clone());
        }
        let first = initiator && self.segments == 0;
        self.segments += 1;
        let control = |name: &str, value: u8| format!("{name} {value} in {text}");
        if segment.ddp_reserved != 0 {
            self.fault(
                "DDP-023",
                "DDP reserved bits 0",
                control("bits", segment.ddp_reserved),
            );
        }
        if segment.ddp_version != 1 {
            self.fault("DDP-024", "DV 1", control("DV", segment.ddp_version));
        }
        if segment.rdmap_version != 1 {
            let extension = (opcode::IMMEDIATE..=opcode::ATOMIC_RESPONSE).contains(&segment.opcode);
            let row = if extension { "RDMAPX-003" } else { "RDMAP-001" };
            self.fault(row, "RV 1", control("RV", segment.rdmap_version));
        }
        if segment.rdmap_reserved != 0 {
            self.fault(
                "RDMAP-002",
                "RDMAP reserved bits 0",
                control("bits", segment.rdmap_reserved),
            );
        }
        let tagged = matches!(segment.opcode, opcode::WRITE | opcode::READ_RESPONSE);
        if segment.opcode > opcode::ATOMIC_RESPONSE {
            self.fault(
                "RDMAP-003",
                "an assigned opcode",
                format!("{:#x}", segment.opcode),
            );
        } else if segment.tagged != tagged {
            self.fault("RDMAP-004", format!("T {}", u8::from(tagged)), text);
            return;
        }
        if segment.tagged {
            self.tagged(segment);
        } else {
            self.untagged(segment, first);
        }
    }

    fn tagged(&mut self, segment: &Segment) {
        if let Some(under_way) = self.tagged {
            if under_way.opcode != segment.opcode {
                self.fault(
                    "DDP-025",
                    "one opcode for all segments of a message",
                    segment.describe(),
                );
            }
            if under_way.stag != segment.stag {
                self.fault(
                    "DDP-027",
                    "one STag for all segments of a message",
                    segment.describe(),
                );
            }
            if under_way.next != segment.to {
                self.fault(
                    "DDP-029",
                    format!("TO {:#x}", under_way.next),
                    segment.describe(),
                );
            }
        }
        self.tagged = (!segment.last).then_some(Tagged {
            opcode: segment.opcode,
            stag: segment.stag,
            next: segment.to.wrapping_add(segment.payload.len() as u64),
        });
    }

    fn untagged(&mut self, segment: &Segment, first: bool) {
        let text = segment.describe();
        if !self.queue(segment, &text) {
            return; // its number belongs to another queue
        }
        let invalidates = matches!(
            segment.opcode,
            opcode::SEND_INVALIDATE | opcode::SEND_SOLICITED_INVALIDATE
        );
        if !invalidates && segment.stag != 0 {
            let extension = segment.opcode >= opcode::IMMEDIATE;
            self.fault(
                if extension { "RDMAPX-003" } else { "RDMAP-008" },
                "Invalidate STag 0",
                format!("{:#x} in {text}", segment.stag),
            );
        }
        let under_way = self.untagged.get(&segment.qn).copied();
        let mut next = 0;
        if let Some(under_way) = under_way {
            next = under_way.next;
            if under_way.opcode != segment.opcode {
                self.fault(
                    "DDP-025",
                    "one opcode for all segments of a message",
                    text.clone(),
                );
            }
            if under_way.msn != segment.msn {
                self.fault("DDP-034", format!("MSN {}", under_way.msn), text.clone());
            }
        } else {
            let expected = self
                .msn
                .get(&segment.qn)
                .map_or(1, |msn| msn.wrapping_add(1));
            if expected != segment.msn {
                let row = if segment.opcode == opcode::TERMINATE {
                    "RDMAP-070"
                } else if segment.opcode == opcode::ATOMIC_RESPONSE {
                    "RDMAPX-014"
                } else if expected == 1 {
                    "DDP-031"
                } else {
                    "DDP-032"
                };
                self.fault(row, format!("MSN {expected}"), text.clone());
            }
            self.msn.insert(segment.qn, segment.msn);
        }
        if segment.mo != next {
            self.fault("DDP-035", format!("MO {next}"), text.clone());
        }
        if segment.last {
            self.untagged.remove(&segment.qn);
        } else {
            let len = u32::try_from(segment.payload.len()).unwrap_or(u32::MAX);
            let under_way = Untagged {
                opcode: segment.opcode,
                msn: segment.msn,
                next: next.wrapping_add(len),
            };
            self.untagged.insert(segment.qn, under_way);
        }
        match segment.opcode {
            opcode::TERMINATE => self.terminate(segment, first),
            opcode::READ_REQUEST if segment.payload.len() != 28 || !segment.last => {
                self.fault("RDMAP-032", "one segment of 28 octets", text);
            }
            _ => {}
        }
    }

    /// Returns true if the queue is the right one.
    fn queue(&mut self, segment: &Segment, text: &str) -> bool {
        let (row, qn) = match segment.opcode {
            opcode::READ_REQUEST => ("RDMAP-006", queue::REQUEST),
            opcode::TERMINATE => ("RDMAP-007", queue::TERMINATE),
            opcode::ATOMIC_REQUEST => ("RDMAPX-004", queue::REQUEST),
            opcode::ATOMIC_RESPONSE => ("RDMAPX-005", queue::ATOMIC_RESPONSE),
            opcode::IMMEDIATE | opcode::IMMEDIATE_SOLICITED => ("RDMAPX-022", queue::SEND),
            _ => ("RDMAP-005", queue::SEND),
        };
        if segment.qn != qn {
            self.fault(row, format!("QN {qn}"), text);
        }
        segment.qn == qn
    }

    fn terminate(&mut self, segment: &Segment, first: bool) {
        self.terminated = true;
        if !segment.last {
            self.fault("RDMAP-070", "L 1 in a Terminate", segment.describe());
        }
        let Some(terminate) = Terminate::parse(&segment.payload, first) else {
            self.fault("RDMAP-077", "a Terminate header", hex(&segment.payload, 32));
            return;
        };
        let shown = hex(&segment.payload, 80);
        if terminate.swapped {
            self.fault(
                "PEER-084",
                "Layer in the high half of the first octet; M, D, R in the high bits of the third",
                shown.clone(),
            );
        }
        if terminate.reserved != 0 {
            self.fault("RDMAP-080", "reserved bits 0", shown.clone());
        }
        if !terminate.whole && terminate.header.is_none() {
            self.fault("RDMAP-077", "with D, the DDP header", shown.clone());
        } else if !terminate.whole {
            self.fault(
                "RDMAP-078",
                "with R, the Read Request header",
                shown.clone(),
            );
        }
    }
}
