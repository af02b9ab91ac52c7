//! Responses that pass a Send which waits for a Receive.
//!
//! Two programs may each wait for a Read of the other, before they post the Receives that the other's Sends wait for. InfiniBand lets the
//! Responses pass, because an adapter takes a message without a Receive for not sent. Here the octets behind the Send are in the same stream.
//! So the caller may read on, keep those octets, and show them to the connection ([`Connection::handle_ahead`]). Whole Read Responses and Atomic
//! Responses among them are handled at once. When a Receive is there, all octets are handled in their order
//! ([`Connection::handle_kept`]), but Responses that were handled before are only counted.
//!
//! The connection remembers the position in the stream at which its look ahead ended, and the state of an unfinished Response there. A malformed
//! FPDU ends the look ahead, and is judged when its turn comes.

use super::config::StreamEnd;
use super::connection::Connection;
use super::fault::Fault;
use super::phase::Phase;
use super::receives::ReceiveSource;
use super::rx::{Ahead, Handled};
use crate::ddp::Segment;
use crate::memory::Memory;
use crate::mpa::fpdu::{self, Fpdu};
use crate::mpa::marker;
use crate::rdmap::Opcode;

impl Connection {
    /// Handles the Read Responses and Atomic Responses in `input` that are behind a Send which [waits](Self::is_stalled) for a Receive. `input`
    /// is what [`handle_bytes`](Self::handle_bytes) has left, and what came after it. No octet is consumed: keep them, and pass them to
    /// [`handle_kept`](Self::handle_kept) once there is a Receive. Does nothing if no Send waits.
    pub fn handle_ahead(&mut self, input: &[u8], mem: &impl Memory) {
        if !self.is_stalled() {
            return;
        }
        let mut unmarked = core::mem::take(&mut self.rx.unmarked);
        let mut ahead = match self.rx.ahead {
            Some(ahead) => ahead,
            None => Ahead {
                until: self.counters.received.octets,
                tagged: (self.rx.tagged)
                    .filter(|under_way| under_way.opcode == Opcode::ReadResponse),
                is_over: false,
            },
        };
        while !ahead.is_over && self.phase == Phase::Running {
            let at = self.kept_before(ahead.until);
            let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            match self.parse_at(ahead.until, rest, self.config.crc, &mut unmarked) {
                Ok(Fpdu::Incomplete { .. }) => break,
                Ok(Fpdu::Complete { ulpdu, consumed }) => {
                    // The first FPDU is the Send that waits.
                    let handled = at == 0 || self.response_ahead(&mut ahead, ulpdu, mem).is_ok();
                    if handled {
                        ahead.until += consumed as u64;
                    }
                    ahead.is_over = !handled;
                }
                Err(_) => ahead.is_over = true,
            }
        }
        self.rx.unmarked = unmarked;
        self.rx.ahead = (self.phase == Phase::Running).then_some(ahead);
        self.settle();
    }

    /// Returns how many octets, of those that [`handle_ahead`](Self::handle_ahead) was shown, belong to FPDUs that it has looked at, the Send
    /// that waits among them. `None` if it is of no use to show it more.
    pub fn looked_ahead(&self) -> Option<usize> {
        let ahead = self.rx.ahead?;
        (!ahead.is_over).then(|| self.kept_before(ahead.until))
    }

    /// As [`handle_fpdus`](Self::handle_fpdus), for octets that [`handle_ahead`](Self::handle_ahead) was shown. Octets that it has not seen
    /// may follow.
    pub fn handle_kept(
        &mut self,
        most: u64,
        input: &[u8],
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> usize {
        if self.is_stalled() {
            self.receive.current_or_drawn(receives, &self.sizes);
        }
        let last = self.counters.received.fpdus.saturating_add(most);
        let mut at = 0;
        let mut unmarked = core::mem::take(&mut self.rx.unmarked);
        while let Some(ahead) = self.rx.ahead
            && self.goes_on(at, input, last)
        {
            if self.counters.received.octets >= ahead.until {
                break;
            }
            // The CRC was checked before.
            let position = self.counters.received.octets;
            let parsed = self.parse_at(position, &input[at..], false, &mut unmarked);
            let Ok(Fpdu::Complete { ulpdu, consumed }) = parsed else {
                debug_assert!(false, "this FPDU was here before");
                self.rx.ahead = None;
                break;
            };
            let handled = self.handle_again(ulpdu, mem, receives);
            if !self.advances(handled, ulpdu) {
                break;
            }
            at += consumed;
            self.count_frame(consumed);
        }
        self.rx.unmarked = unmarked;
        let position = self.counters.received.octets;
        let is_behind = self.rx.ahead.is_some_and(|ahead| position >= ahead.until);
        if is_behind || !self.is_receiving() {
            self.rx.ahead = None; // what is left was not looked at, or is dropped
        }
        if self.rx.ahead.is_none() {
            let most = last - self.counters.received.fpdus;
            return at + self.handle_fpdus(most, &input[at..], mem, receives);
        }
        self.settle();
        if self.rx.end_waits && self.counters.received.fpdus < last {
            self.handle_stream_end(StreamEnd::Fin, input.len() - at);
        }
        at
    }

    /// How many of the octets that the caller keeps are before this position of the stream.
    fn kept_before(&self, position: u64) -> usize {
        let octets = position.saturating_sub(self.counters.received.octets);
        usize::try_from(octets).unwrap_or(usize::MAX)
    }

    /// The FPDU at a position of the stream, which is the front of `input`.
    fn parse_at<'a>(
        &self,
        position: u64,
        input: &'a [u8],
        crc: bool,
        unmarked: &'a mut Vec<u8>,
    ) -> Result<Fpdu<'a>, crate::mpa::Error> {
        if self.config.markers.received {
            let position = self.rx.origin.wrapping_add(position);
            marker::parse(input, crc, position, unmarked)
        } else {
            fpdu::parse(input, crc)
        }
    }

    /// Handles a segment behind the Send that waits, if it is of a Response.
    fn response_ahead(
        &mut self,
        ahead: &mut Ahead,
        ulpdu: &[u8],
        mem: &impl Memory,
    ) -> Result<(), Fault> {
        match response(ulpdu)? {
            Some(Segment::Tagged(segment)) => {
                // Messages of the peer that are not handled yet have their own order.
                let in_turn = core::mem::replace(&mut self.rx.tagged, ahead.tagged);
                let handled = self.receive_read_response(&segment, ulpdu, mem);
                ahead.tagged = core::mem::replace(&mut self.rx.tagged, in_turn);
                handled.map(drop)
            }
            Some(Segment::Untagged(segment)) => {
                let handled = self.receive_atomic_response(&segment, ulpdu, mem);
                handled.map(drop)
            }
            None => Ok(()),
        }
    }

    /// Handles a segment in its turn that was looked at before. Of a Response only the order of messages is checked, as it comes
    /// out now.
    fn handle_again(
        &mut self,
        ulpdu: &[u8],
        mem: &impl Memory,
        receives: impl ReceiveSource,
    ) -> Result<Handled, Fault> {
        match response(ulpdu)? {
            Some(Segment::Tagged(segment)) => {
                self.continue_tagged(Opcode::ReadResponse, &segment)?;
                self.advance_tagged(Opcode::ReadResponse, &segment);
            }
            Some(Segment::Untagged(segment)) => self.rx.check_single(&segment)?,
            None => return self.handle_apart(ulpdu, mem, receives),
        }
        Ok(Handled::Done)
    }
}

/// The segment of a Response, if this is one.
fn response(ulpdu: &[u8]) -> Result<Option<Segment<'_>>, Fault> {
    let segment = Segment::parse(ulpdu)?;
    Ok(match &segment {
        Segment::Tagged(tagged) if Opcode::parse(tagged.ulp)? == Opcode::ReadResponse => {
            Some(segment)
        }
        Segment::Untagged(untagged) if Opcode::parse(untagged.ulp)? == Opcode::AtomicResponse => {
            Some(segment)
        }
        Segment::Tagged(_) | Segment::Untagged(_) => None,
    })
}
