//! Makes the FPDUs of short messages that are posted in a row.
//!
//! A client that sends small messages posts many Sends or Writes of one SGE each, and each fits into one FPDU. While FPDUs are made of
//! such requests, nothing else can become due. So what is to be sent next is decided once for the row, and not for each message. A
//! request that is different in any way, or that fails, ends the row, and is left to `send`.

use super::batch::TxBatch;
use super::connection::Connection;
use super::frame::{self, Budget};
use super::initiator::Request;
use super::work::Operation;
use crate::ddp::{Qn, TaggedHeader, UntaggedHeader};
use crate::memory::{Memory, Revoked};
use crate::rdmap::{Opcode, control};

impl Connection {
    /// Makes the FPDUs of as many of the next requests as are short messages. Returns whether there was one. Called when the next
    /// FPDU comes from the client's requests.
    #[inline]
    pub(super) fn send_row(
        &mut self,
        mem: &impl Memory,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> bool {
        let most = self.config.copied_below;
        let is_short = |request: &Request| request.length < most;
        self.initiator.upcoming().is_some_and(is_short) && self.send_short_ones(mem, budget, out)
    }

    /// Not inlined, to keep the code for long messages short.
    #[inline(never)]
    fn send_short_ones(
        &mut self,
        mem: &impl Memory,
        budget: &mut Budget,
        out: &mut TxBatch,
    ) -> bool {
        // Requests behind an open confirmation are as others. One that is due ends the row.
        let alone = match self.initiator.confirms_on_demand() {
            true => self.tx.responses_are_made() && self.tx.ready.is_none(),
            false => self.tx.has_only_requests(),
        };
        if !alone
            || self.tx.current.is_some()
            || self.waits()
            || self.config.markers.sent
            || self.is_fenced()
        {
            return false;
        }
        let before = budget.fpdus();
        let longest = self.longest_row();
        while self.tx.unconfirmed < longest && self.send_short(mem, budget, out) {}
        budget.fpdus() > before
    }

    /// Makes the FPDU of the next request, if it is a short message. False if it is not, or if there is no room or no request.
    #[inline(always)]
    fn send_short(&mut self, mem: &impl Memory, budget: &mut Budget, out: &mut TxBatch) -> bool {
        let Some(request) = self.initiator.upcoming() else {
            return false;
        };
        let (tagged, untagged);
        let header: &[u8] = match request.operation {
            Operation::Send {
                solicited,
                invalidate,
                ..
            } => {
                let ulp = control(Opcode::send(solicited, invalidate.is_some()));
                let word = invalidate.map_or(0, |stag| stag.0);
                untagged = UntaggedHeader::new(true, ulp, word, Qn::SEND, self.tx.send_msn, 0);
                untagged.as_bytes()
            }
            Operation::Write { remote, .. } => {
                tagged = TaggedHeader::new(true, control(Opcode::Write), remote.stag, remote.to);
                tagged.as_bytes()
            }
            _ => return false,
        };
        let length = request.length;
        let differs = request.inline || request.fence || request.confirmed;
        if differs
            || length >= self.config.copied_below
            || !budget.holds_whole(header.len(), length)
        {
            return false;
        }
        let [sge] = *self.initiator.sges(self.initiator.next) else {
            return false;
        };
        if length == 0
            || !budget.admits(header.len(), length)
            || !frame::fits(out, budget, header.len(), length, None)
        {
            return false;
        }
        let pd = self.scope.pd;
        let made = frame::put_copied(out, self.framing(), header, length, |buffer, sum| {
            mem.fetch_local(sge, pd, buffer, sum).map_err(|_| Revoked)
        });
        let Ok(octets) = made else {
            return false;
        };
        self.made(budget, octets, length);
        self.finish_message(header.len() == TaggedHeader::LEN);
        true
    }
}
