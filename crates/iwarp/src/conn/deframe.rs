//! From the octets of a stream to ULPDUs: one deframer for streams without markers, and one for streams with markers.

use super::connection::Connection;
use super::event::Notice;
use super::fault::Fault;
use super::receives::ReceiveSource;
use super::rx::Handled;
use crate::ddp::{LAST, TAGGED};
use crate::memory::Memory;
use crate::mpa::fpdu::{self, Fpdu};
use crate::mpa::marker;
use crate::rdmap::Opcode;

impl Connection {
    /// Returns how many Receives the whole FPDUs in `input` need beyond those that the connection has, up to `most`, if the connection
    /// refuses none of these FPDUs. `input` is what [`handle_bytes`](Self::handle_bytes) is given next. A source that is shared by many
    /// connections can draw this many Receives at once. 0 for streams with markers.
    pub fn receives_needed(&self, input: &[u8], most: usize) -> usize {
        if self.config.markers.received || self.rx.early.is_some() || !self.is_receiving() {
            return 0;
        }
        let most = most + self.receive.posted();
        let (mut needed, mut rest) = (0, input);
        while needed < most
            && let Some([high, low, ddp, rdmap]) = rest.first_chunk()
        {
            let length = fpdu::fpdu_len(u16::from_be_bytes([*high, *low]).into());
            let Some(behind) = rest.get(length..) else {
                break;
            };
            rest = behind;
            let ends = ddp & (TAGGED | LAST) == LAST;
            let takes = Opcode::parse(*rdmap).is_ok_and(Opcode::takes_receive);
            needed += usize::from(ends && takes);
        }
        needed.saturating_sub(self.receive.posted())
    }

    /// Acts on the outcome of a segment. Returns false if the segment waits for a Receive, so that its FPDU is not consumed.
    #[inline]
    pub(super) fn advances(&mut self, handled: Result<Handled, Fault>, ulpdu: &[u8]) -> bool {
        match handled {
            Ok(Handled::Done) => {}
            Ok(Handled::Stalled) => {
                self.raise(Notice::Stalled);
                return false;
            }
            Err(fault) => self.segment_fails(fault, ulpdu),
        }
        true
    }

    /// Handles the whole FPDUs in `input`, and the front of a long FPDU that is placed while it arrives. Returns how many octets were
    /// consumed. Ends when the number of FPDUs of the stream has reached `last`.
    pub(super) fn take_frames(
        &mut self,
        last: u64,
        input: &[u8],
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> usize {
        let mut at = self.continue_early(input, mem);
        if self.rx.early.is_some() {
            return at;
        }
        while self.goes_on(at, input, last) {
            let crc = self.config.crc;
            match fpdu::parse(&input[at..], crc) {
                Ok(Fpdu::Incomplete { wanted }) => {
                    self.rx.wanted = wanted;
                    if !crc {
                        at += self.begin_early(&input[at..], wanted, mem, receives);
                    }
                    break;
                }
                Ok(Fpdu::Complete { ulpdu, consumed }) => {
                    let handled = self.handle_ulpdu(ulpdu, mem, receives);
                    if !self.advances(handled, ulpdu) {
                        break;
                    }
                    at += consumed;
                    self.count_frame(consumed);
                }
                Err(error) => self.fail(Fault::Mpa(error), None),
            }
        }
        at
    }

    /// As [`take_frames`](Self::take_frames), from a stream with markers (MPA-073).
    pub(super) fn take_marked_frames(
        &mut self,
        last: u64,
        input: &[u8],
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> usize {
        let mut at = 0;
        let mut unmarked = core::mem::take(&mut self.rx.unmarked);
        while self.goes_on(at, input, last) {
            let position = self.position();
            match marker::parse(&input[at..], self.config.crc, position, &mut unmarked) {
                Ok(Fpdu::Incomplete { wanted }) => {
                    self.rx.wanted = wanted;
                    break;
                }
                Ok(Fpdu::Complete { ulpdu, consumed }) => {
                    let handled = self.handle_apart(ulpdu, mem, receives);
                    if !self.advances(handled, ulpdu) {
                        break;
                    }
                    at += consumed;
                    self.count_frame(consumed);
                }
                Err(error) => self.fail(Fault::Mpa(error), None),
            }
        }
        self.rx.unmarked = unmarked;
        at
    }

    /// [`Connection::handle_ulpdu`] for streams with markers, and for FPDUs that were kept.
    #[inline(never)]
    pub(super) fn handle_apart(
        &mut self,
        ulpdu: &[u8],
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> Result<Handled, Fault> {
        self.handle_ulpdu(ulpdu, mem, receives)
    }

    /// Returns true if the FPDU at `at` is handled now.
    #[inline(always)]
    pub(super) fn goes_on(&self, at: usize, input: &[u8], last: u64) -> bool {
        at < input.len()
            && self.counters.received.fpdus < last
            && self.is_receiving()
            && !self.is_stalled()
    }

    /// Counts an FPDU of which all octets were consumed.
    #[inline(always)]
    pub(super) const fn count_frame(&mut self, octets: usize) {
        self.counters.received.fpdus += 1;
        self.counters.received.octets += octets as u64;
        self.rx.wanted = fpdu::MIN_LEN;
    }

    /// Where in the stream the next FPDU begins, as markers count it.
    const fn position(&self) -> u64 {
        self.rx.origin.wrapping_add(self.counters.received.octets)
    }

    /// Returns true if the octets left over at the end of the stream are a marker and nothing else. A sender may send the marker
    /// between two FPDUs before it has the second one.
    pub(super) const fn is_lone_marker(&self, unread: usize) -> bool {
        self.config.markers.received
            && unread == marker::LEN
            && self.position().is_multiple_of(marker::INTERVAL as u64)
    }
}
