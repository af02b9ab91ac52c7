//! The queue of initiator requests: a ring whose slots, SGEs and inline octets are allocated once.

use super::config::{Confirmations, QueueSizes};
use super::ring::{OutOfMemory, filled, slot_of, slots_for, zeros};
use super::work::{Completion, Operation, Payload, PostError, RequestKind, WqeStatus};
use crate::types::{RemoteAddress, Sge, WindowId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Open,
    Done(WqeStatus),
}

/// One initiator request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) context: u64,
    pub(super) operation: Operation,
    /// Octets of the message.
    pub(super) length: u32,
    /// SGEs in the slab.
    sges: u32,
    pub(super) silent: bool,
    pub(super) fence: bool,
    pub(super) inline: bool,
    /// The request completes when the peer has confirmed the Writes before it, and the request itself if it is a Write
    /// ([`StreamConfig::confirmations`](super::StreamConfig::confirmations)).
    pub(super) confirmed: bool,
    progress: Progress,
    /// Stream offset behind the last FPDU, once that FPDU was made.
    pub(super) end: u64,
}

const EMPTY: Request = Request {
    context: 0,
    operation: Operation::Invalidate(WindowId(0)),
    length: 0,
    sges: 0,
    silent: false,
    fence: false,
    inline: false,
    confirmed: false,
    progress: Progress::Done(WqeStatus::Flushed),
    end: 0,
};

/// Initiator requests. Positions count from the first request ever posted:
/// `freed <= head <= done <= tail`, `head <= unsent <= next <= tail`.
#[derive(Debug)]
pub(super) struct InitiatorQueue {
    depth: u64,
    /// The number of slots that are free again. A slot counts as used until the client has taken the completion of its request, or until a
    /// silent request has succeeded.
    freed: u64,
    slots: Box<[Request]>,
    sges: Box<[Sge]>,
    sges_each: usize,
    inline: Box<[u8]>,
    inline_each: usize,
    /// Oldest request whose completion has not been fetched.
    head: u64,
    /// Oldest request that is not done; everything before it may be fetched.
    pub(super) done: u64,
    /// Oldest request that may still wait for the transport to take its last octet.
    unsent: u64,
    /// The next request to be started, or the current one.
    pub(super) next: u64,
    pub(super) tail: u64,
    /// Reads started and not done.
    pub(super) open_reads: u32,
    /// The requests that wait for Writes to be placed.
    confirmations: Confirmations,
    /// The peer has placed all Writes before this position.
    placed: u64,
    /// The position behind the last Write that was made, if confirmations are on demand.
    written: u64,
}

impl InitiatorQueue {
    pub(super) fn new(sizes: &QueueSizes) -> Result<Self, OutOfMemory> {
        let slots = slots_for(sizes.initiator_depth);
        let sges_each = sizes.initiator_sges.max(sizes.read_sges) as usize;
        let inline_each = sizes.inline as usize;
        Ok(Self {
            depth: sizes.initiator_depth.into(),
            freed: 0,
            slots: filled(EMPTY, slots, 1)?,
            sges: filled(Sge::default(), slots, sges_each)?,
            sges_each,
            inline: zeros(slots, inline_each)?,
            inline_each,
            head: 0,
            done: 0,
            unsent: 0,
            next: 0,
            tail: 0,
            open_reads: 0,
            confirmations: Confirmations::Off,
            placed: 0,
            written: 0,
        })
    }

    /// Sets which of the requests that are posted or made from now on wait for Writes to be placed.
    pub(super) const fn set_confirmations(&mut self, confirmations: Confirmations) {
        self.confirmations = confirmations;
    }

    /// The requests that wait for Writes to be placed.
    pub(super) const fn confirmations(&self) -> Confirmations {
        self.confirmations
    }

    /// Returns true if each request that is not silent waits for the Writes before it.
    pub(super) const fn confirms_on_demand(&self) -> bool {
        matches!(self.confirmations, Confirmations::OnDemand { .. })
    }

    fn index(&self, at: u64) -> usize {
        slot_of(at, self.slots.len())
    }

    pub(super) fn get(&self, at: u64) -> &Request {
        &self.slots[self.index(at)]
    }

    fn get_mut(&mut self, at: u64) -> &mut Request {
        let index = self.index(at);
        &mut self.slots[index]
    }

    /// The SGEs of a request.
    #[inline]
    pub(super) fn sges(&self, at: u64) -> &[Sge] {
        let index = self.index(at);
        let start = index * self.sges_each;
        &self.sges[start..start + self.slots[index].sges as usize]
    }

    /// The inline data of a request.
    pub(super) fn inline(&self, at: u64) -> &[u8] {
        let index = self.index(at);
        let start = index * self.inline_each;
        &self.inline[start..start + self.slots[index].length as usize]
    }

    /// Frees the slots of silent successes at the front, which are never fetched.
    pub(super) fn retire_silent(&mut self) {
        while self.head < self.done && self.is_silent_success(self.head) {
            self.head += 1;
            self.freed += 1;
        }
    }

    /// Returns true if a request would find no slot.
    #[inline]
    pub(super) const fn is_full(&self) -> bool {
        self.tail - self.freed >= self.depth
    }

    /// Frees slots, also those of completions that the client has taken meanwhile.
    #[inline(never)]
    fn make_room(&mut self, taken: impl FnOnce() -> u64) -> Result<(), PostError> {
        self.free(taken());
        self.retire_silent();
        match self.is_full() {
            true => Err(PostError::QueueFull),
            false => Ok(()),
        }
    }

    /// The client has taken this many completions.
    pub(super) fn free(&mut self, completions: u64) {
        self.freed += completions;
        debug_assert!(
            self.freed <= self.head,
            "a completion was taken that was not fetched"
        );
    }

    fn is_silent_success(&self, at: u64) -> bool {
        let request = self.get(at);
        request.silent && request.progress == Progress::Done(WqeStatus::Success)
    }

    #[inline(always)]
    pub(super) fn post(
        &mut self,
        context: u64,
        operation: Operation<Payload<'_>>,
        (silent, fence): (bool, bool),
        length: u32,
        taken: impl FnOnce() -> u64,
    ) -> Result<(), PostError> {
        if self.is_full() {
            self.make_room(taken)?;
        }
        // A Write of no octets places nothing that could be confirmed. On demand the decision falls when the request is made.
        let confirmed = self.confirmations == Confirmations::EachWrite
            && length > 0
            && matches!(operation, Operation::Write { .. });
        let index = self.index(self.tail);
        let slot = &mut self.slots[index];
        let data = operation.store(&mut slot.operation);
        slot.context = context;
        slot.length = length;
        slot.silent = silent;
        slot.fence = fence;
        slot.inline = matches!(data, Some(Payload::Inline(_)));
        slot.confirmed = confirmed;
        slot.progress = Progress::Open;
        slot.end = 0;
        let mut sges = 0;
        match data {
            None => {}
            Some(Payload::Sges(list)) => {
                let start = index * self.sges_each;
                if let [one] = list {
                    self.sges[start] = *one; // most requests, without a loop
                    sges = 1;
                } else {
                    for (slot, sge) in self.sges[start..].iter_mut().zip(list) {
                        *slot = *sge;
                        sges += 1;
                    }
                }
            }
            Some(Payload::Inline(pieces)) => {
                let mut at = index * self.inline_each;
                for piece in pieces {
                    self.inline[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
            }
        }
        self.slots[index].sges = sges;
        self.tail += 1;
        Ok(())
    }

    /// Returns true if no request is open.
    pub(super) const fn is_idle(&self) -> bool {
        self.done == self.tail
    }

    /// A request is done. Earlier requests may still be open, because results stay in posting order (RDMAP-099).
    pub(super) fn finish(&mut self, at: u64, status: WqeStatus) {
        self.get_mut(at).progress = Progress::Done(status);
        self.advance_done();
    }

    fn advance_done(&mut self) {
        while self.done < self.tail && self.get(self.done).progress != Progress::Open {
            self.done += 1;
        }
    }

    /// The peer has answered something that was sent behind all requests before this position, so it has placed their data.
    pub(super) fn confirm(&mut self, before: u64) {
        if self.confirmations == Confirmations::Off {
            return;
        }
        for at in self.placed.max(self.done)..before {
            let request = self.get_mut(at);
            if request.progress == Progress::Open && request.confirmed {
                request.progress = Progress::Done(WqeStatus::Success);
            }
        }
        self.placed = self.placed.max(before);
        self.advance_done();
    }

    /// A Read has got all its data, or an Atomic its response.
    pub(super) fn finish_read(&mut self, at: u64) {
        self.open_reads = self.open_reads.saturating_sub(1);
        self.finish(at, WqeStatus::Success);
    }

    /// Returns true if the oldest open request needs a response of the peer to complete.
    pub(super) fn oldest_is_answered(&self) -> bool {
        self.done < self.tail && {
            let request = self.get(self.done);
            request.operation.is_answered() || request.confirmed
        }
    }

    /// The oldest request of which not every FPDU is made. Messages are made in the order of their posts (DDP-045,
    /// RDMAP-022, RDMAP-098).
    pub(super) fn upcoming(&self) -> Option<&Request> {
        (self.next < self.tail).then(|| self.get(self.next))
    }

    /// The last FPDU of the current request ends at this stream offset. Returns true if the request asks for a confirmation on demand.
    #[inline]
    pub(super) fn handed_over(&mut self, end: u64) -> bool {
        let index = self.index(self.next);
        let request = &mut self.slots[index];
        request.end = end;
        self.next += 1;
        if !matches!(self.confirmations, Confirmations::OnDemand { .. }) {
            return false;
        }
        if request.operation.is_write() {
            self.written = self.next;
        }
        // The answer to a Read or an Atomic confirms what is before it.
        let waits = !request.silent && !request.operation.is_answered();
        request.confirmed = waits && self.written > self.placed && !planted!(DoneBeforePlaced);
        request.confirmed
    }

    /// The upcoming request is local and has been carried out; all FPDUs before it end at this stream offset. Returns true if the request
    /// asks for a confirmation on demand.
    pub(super) fn finish_local(&mut self, end: u64) -> bool {
        let asks = self.handed_over(end);
        if !asks {
            self.finish(self.next - 1, WqeStatus::Success);
        }
        asks
    }

    /// The oldest request that waits for a confirmation, among those that are [leaving](Self::leaving).
    pub(super) fn oldest_unconfirmed(&self, leaving: (u64, u64)) -> Option<u64> {
        let mut open = self.leaving(leaving);
        open.find_map(|(at, request)| request.confirmed.then_some(at))
    }

    /// The transport has taken everything before this stream offset, which completes Sends and Writes (RDMAP-093).
    pub(super) fn sent_up_to(&mut self, sent: u64) {
        // A local request is done although it was never sent, and another request may have its slot by now.
        self.unsent = self.unsent.max(self.done);
        while self.unsent < self.next {
            let request = self.get(self.unsent);
            match (request.progress, &request.operation) {
                (Progress::Open, operation) if operation.is_sent() => {
                    if request.end > sent {
                        return;
                    }
                    if !request.confirmed {
                        self.finish(self.unsent, WqeStatus::Success);
                    }
                }
                (Progress::Open | Progress::Done(_), _) => {}
            }
            self.unsent += 1;
        }
    }

    /// The request whose octets are at `sent`, the first octet that the transport has not taken.
    pub(super) fn owner_of(&self, sent: u64) -> Option<u64> {
        (self.unsent.max(self.done)..self.tail).find(|at| {
            let request = self.get(*at);
            let under_way = *at >= self.next || request.end > sent;
            request.progress == Progress::Open && request.operation.is_sent() && under_way
        })
    }

    /// The open requests before a position of which octets can have left, because all octets before them have left. The
    /// transport has taken the stream up to the offset `sent`.
    fn leaving(&self, (before, sent): (u64, u64)) -> impl Iterator<Item = (u64, &Request)> {
        let mut ends = 0;
        let begun = (self.done..self.tail.min(before)).map_while(move |at| {
            let request = self.get(at);
            let begun = ends < sent;
            if !request.operation.is_local() {
                ends = ends.max(request.end);
            }
            begun.then_some((at, request))
        });
        begun.filter(|(_, request)| request.progress == Progress::Open)
    }

    /// The oldest open request of a kind among those that are [leaving](Self::leaving).
    pub(super) fn oldest_open(&self, kind: RequestKind, leaving: (u64, u64)) -> Option<u64> {
        let mut open = self.leaving(leaving);
        let is_of_kind = |operation: &Operation| match operation {
            Operation::SendImmediate { .. } => {
                matches!(kind, RequestKind::Send | RequestKind::Immediate)
            }
            Operation::WriteImmediate { .. } => {
                matches!(kind, RequestKind::Write | RequestKind::Immediate)
            }
            operation => operation.kind() == kind,
        };
        let oldest = open.find(|(_, request)| is_of_kind(&request.operation));
        oldest.map(|(at, _)| at)
    }

    /// The peer has refused this Write. A peer handles a stream in order, so it has placed the Writes before this one, and has dropped the
    /// octets behind this one. Requests behind this Write whose success was not fetched yet become flushed.
    pub(super) fn refuse(&mut self, at: u64) {
        self.confirm(at);
        for behind in at + 1..self.next {
            let request = self.get_mut(behind);
            if request.progress == Progress::Done(WqeStatus::Success) && request.operation.is_sent()
            {
                request.progress = Progress::Done(WqeStatus::Flushed);
            }
        }
    }

    /// The oldest open Write that is [leaving](Self::leaving) and covers this many octets of the peer's memory, at least one.
    pub(super) fn open_write_to(
        &self,
        place: RemoteAddress,
        octets: u64,
        leaving: (u64, u64),
    ) -> Option<u64> {
        let mut open = self.leaving(leaving);
        let covering = open.find(|(_, request)| {
            let (Operation::Write { remote, .. } | Operation::WriteImmediate { remote, .. }) =
                request.operation
            else {
                return false;
            };
            let offset = place.to.wrapping_sub(remote.to);
            let end = offset.checked_add(octets.max(1));
            remote.stag == place.stag && end.is_some_and(|end| end <= request.length.into())
        });
        covering.map(|(at, _)| at)
    }

    /// Flushes all open requests, sent or not, except for one that fails with its own status (DDP-087, RDMAP-085).
    pub(super) fn flush(&mut self, failed: Option<(u64, WqeStatus)>) {
        for at in self.done..self.tail {
            if self.get(at).progress == Progress::Open {
                let status = match failed {
                    Some((failed, status)) if failed == at => status,
                    _ => WqeStatus::Flushed,
                };
                self.get_mut(at).progress = Progress::Done(status);
            }
        }
        self.done = self.tail;
        self.unsent = self.tail;
        self.next = self.tail;
        self.open_reads = 0;
    }

    /// Drops all open requests. Those that only send succeed, all others come back flushed. Returns how many succeed.
    #[cold]
    pub(super) fn drop_open(&mut self) -> u64 {
        let mut dropped = 0;
        for at in self.done..self.tail {
            let request = self.get_mut(at);
            if request.progress == Progress::Open && request.operation.is_sent() {
                request.progress = Progress::Done(WqeStatus::Success);
                dropped += 1;
            }
        }
        self.flush(None);
        dropped
    }

    pub(super) fn footprint(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.sges) + self.inline.len()
    }

    /// The position up to which completions were fetched.
    pub(super) const fn fetched(&self) -> u64 {
        self.head
    }

    /// The next completion. Silent successes have been retired before.
    pub(super) fn take_completion(&mut self) -> Option<Completion> {
        if self.head == self.done {
            return None;
        }
        let request = self.get(self.head);
        let Progress::Done(status) = request.progress else {
            return None;
        };
        let success = status == WqeStatus::Success;
        let completion = Completion {
            context: request.context,
            kind: request.operation.kind(),
            status,
            octets: if success { request.length } else { 0 },
            solicited: false,
            invalidated: None,
            immediate: None,
            failed_bind: match request.operation {
                Operation::Bind(bind) if !success => Some(bind.stag),
                _ => None,
            },
        };
        self.head += 1;
        Some(completion)
    }
}
