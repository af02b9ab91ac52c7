//! The stream of an endpoint: from the socket into the engine and back. `kept` has the octets that are read past a Send.

pub(super) mod kept;

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Weak};

use iwarp::{Connection, DirectPlacement, StreamEnd, TxBatch, TxLimit};
use iwarp_mem::{Received, Sent};
use rdma_buffer::prefers_strings;

use super::mulpdu::Mulpdu;
use super::owner::ReceivesAhead;
use super::tx_buffers::{BATCH_FPDUS, TxBuffers};
use crate::buffers::{Buffers, COPIED};
use crate::progress::Edges;
use crate::progress::domain::{Domain, Source};
use crate::progress::memberships::Memberships;
use crate::socket_buffer::SocketBuffer;
use crate::thread_value::with_value;
use crate::transport::stream::Stream;
use kept::{KeptAccount, KeptOctets};

/// The largest read, and the most octets that a visit may leave with the connection.
const STAGING: usize = 256 * 1024;
/// The most octets that one visit reads or sends, so that one stream cannot keep a driver from other streams.
const BUDGET: usize = 512 * 1024;
/// The most FPDUs that one visit handles, because even the shortest FPDU takes as much time as many octets: [`FPDU`].
const FPDUS: usize = 1024;
/// The number of octets that cost about as much time as one FPDU, however short the FPDU is.
const FPDU: usize = BUDGET / FPDUS;
/// The most octets of a batch whose payload is sent from its region: as many as one system call accepts.
const IN_PLACE: usize = 2112 * 1024;

thread_local! {
    /// Belongs to the driving thread and not to the connection, so that idle connections cost no memory.
    static STAGED: RefCell<Option<SocketBuffer>> = const { RefCell::new(None) };
}

/// Inlined, because every poll that drives a stream comes here.
#[inline(always)]
fn with_staging<T>(act: impl FnOnce(&mut [u8]) -> T) -> T {
    with_value(&STAGED, |staging| {
        let staging = staging.get_or_insert_with(|| SocketBuffer::zeroed(STAGING));
        act(staging.octets_mut())
    })
}

/// FPDUs of at least this length are worth a read that ends where an FPDU ends.
const LONG: usize = 8 * 1024;

/// FPDUs of at least this length are placed while they arrive, where there are no CRCs (`StreamConfig::early`).
pub const EARLY: usize = LONG;

/// Payload of at least [`DIRECT`] octets is read straight to its place, for the first [`SHORT_STREAM`] octets after the stream was quiet.
/// That saves a copy, which matters while one message is transferred at a time. On a long stream, further octets arrive during the copy.
/// There the copy is saved as well if the kernel's copy to memory that is in no cache is as fast as ours.
const DIRECT: usize = 16 * 1024;
const SHORT_STREAM: usize = 512 * 1024;

/// The receive window of a long stream whose payload is read straight to its place: the size of a sender's socket buffer on Linux unless
/// its administrator has changed it (`tcp_wmem`). Linux widens a window by what is read within a round trip. On a loopback that is little
/// more than one read, and a read that ends with its FPDU can leave the window so narrow that the sender waits for it a third of the time.
/// Reads into the staging buffer are longer and do not have this problem; a wider window makes them slower.
const WINDOW: i32 = 4 << 20;

/// Octets read behind such payload into the staging buffer: the header of the next FPDU, so that its place is known, and short
/// FPDUs.
const BEHIND: usize = 16 * 1024;

/// Like [`BEHIND`], in long streams and where a read costs little: the end of the FPDU and the header of the next one, whose payload then
/// also goes straight to its place.
const HEADER: usize = 64;

/// The most octets that a batch holds. This many octets are worth a call, however many requests they belong to.
pub(super) const fn batch_octets(connection: &Connection) -> usize {
    if connection.copies() {
        COPIED
    } else {
        IN_PLACE
    }
}

/// Returns the number of octets to read behind `have` octets of an FPDU of `wanted` octets: as many as there is room for. If the next FPDUs
/// are as long as this one, or as the last long one, the read ends where an FPDU ends, because the octets of a cut FPDU have to be copied
/// to the front.
fn worth_reading(have: usize, wanted: usize, usual: usize, room: usize) -> usize {
    let whole = if have > 0 { wanted } else { usual };
    if whole > have && whole <= room {
        room / whole * whole - have
    } else {
        room - have
    }
}

/// Returns the number of octets to read for this many FPDUs, if their mean length is known: not many more, because octets that a visit
/// leaves are copied twice.
const fn worth_handling(fpdus: usize, mean: usize) -> usize {
    let octets = fpdus.saturating_mul(mean);
    match octets {
        0 => STAGING,
        1..BEHIND => BEHIND,
        octets => octets,
    }
}

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// There is nothing left to do before the next edge.
    Finished,
    /// The budget ended the visit.
    Unfinished,
}

impl Visit {
    /// Returns `Unfinished` if one of the two is.
    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        if self == Self::Unfinished {
            self
        } else {
            other
        }
    }
}

/// The activity on a stream since the last call of [`take_activity`](StreamIo::take_activity).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Activity {
    /// Octets received, and [`FPDU`] for each FPDU that was handled.
    pub(super) work: usize,
    /// Octets or FPDUs were received, handled or sent.
    pub(super) any: bool,
}

impl Activity {
    fn received(&mut self, octets: usize) {
        self.work += octets;
        self.any = true;
    }

    fn handled(&mut self, fpdus: usize) {
        if fpdus > 0 {
            self.work += fpdus * FPDU;
            self.any = true;
        }
    }
}

/// A stream in use by one connection.
pub(super) struct StreamIo {
    stream: Stream,
    domains: Memberships,
    /// The edges that the domains report. `WRITE` is added when the socket is full for the first time.
    reported: Edges,
    mulpdu: Mulpdu,
    /// FPDUs that the socket has not accepted yet.
    batch: Option<TxBatch>,
    tx_buffers: TxBuffers,
    /// The length of the last FPDU that a read has cut, if it was a long one.
    usual: usize,
    /// The last octets were read straight to their place.
    directly: bool,
    /// Octets received since the stream was quiet between two FPDUs.
    since_quiet: usize,
    /// The receive window was opened to [`WINDOW`].
    window_is_open: bool,
    /// The mean length of the FPDUs of the last visit, if their number has ended the visit. Otherwise 0.
    mean: usize,
    /// Octets that the engine has not consumed: a cut FPDU, octets behind a Send that waits for a Receive, or FPDUs that were too many for
    /// one visit.
    held: Option<SocketBuffer>,
    /// The number of these octets that the engine has consumed since.
    held_from: usize,
    /// There may be whole FPDUs among them, so the engine can continue without a read.
    held_is_whole: bool,
    /// From where the memory comes for octets that are read past a Send which waits for a Receive. `None`: the stream is not read then.
    past: Option<&'static KeptAccount>,
    /// The octets behind such a Send, and the Send itself, once more was read. Then no octets are `held`.
    kept: Option<Box<KeptOctets>>,
    readable: bool,
    writable: bool,
    /// The sets report an edge once, until the stream is armed again.
    is_armed_by_hand: bool,
    hangup: bool,
    read_ended: bool,
    write_closed: bool,
    activity: Activity,
    /// False: the stream is not read.
    pub(super) reading: bool,
}

impl StreamIo {
    /// Takes over a stream, which no domain drives yet. Without `reading` the stream is not read.
    pub(super) fn new(stream: Stream, reading: bool, buffers: &Buffers) -> Self {
        buffers.provide_spare();
        Self {
            mulpdu: Mulpdu::from_stream(&stream),
            stream,
            domains: Memberships::new(),
            reported: Edges::READ,
            batch: None,
            tx_buffers: TxBuffers::new(Arc::clone(&buffers.waiting)),
            usual: 0,
            directly: false,
            since_quiet: 0,
            mean: 0,
            window_is_open: false,
            held: None,
            held_from: 0,
            held_is_whole: false,
            past: None,
            kept: None,
            readable: true,
            writable: true,
            is_armed_by_hand: false,
            hangup: false,
            read_ended: false,
            write_closed: false,
            activity: Activity::default(),
            reading,
        }
    }

    /// From now on the stream is read past a Send that waits for a Receive, so that Responses behind the Send are handled.
    pub(super) fn pass_responses(&mut self) {
        self.past = Some(&kept::OF_PROCESS);
    }

    /// The stream.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Makes these domains drive the stream, and no others. If that fails, the previous domains continue.
    pub(super) fn move_to<'a>(
        &mut self,
        domains: impl Iterator<Item = &'a Arc<Domain>> + Clone,
        source: &Weak<dyn Source>,
    ) -> io::Result<()> {
        let reported = self.reported;
        self.domains
            .move_to(domains, &self.stream, source, reported)?;
        self.is_armed_by_hand = self.domains.report_once();
        Ok(())
    }

    /// Takes the stream out of a domain's set for a while. Returns false if the stream is not in the set.
    pub(super) fn leave_set(&mut self, domain: &Domain) -> bool {
        self.domains.leave(domain, &self.stream)
    }

    /// Puts the stream back after [`leave_set`](Self::leave_set). Returns false if that fails.
    pub(super) fn rejoin_set(&mut self, domain: &Domain) -> bool {
        self.domains.rejoin(domain, &self.stream, self.reported)
    }

    /// Returns true if octets wait for the socket, or may wait because of a fault plan.
    pub(super) fn is_sending(&self) -> bool {
        self.batch.is_some() || self.stream.is_faulted()
    }

    /// Returns true if octets wait for the socket, or may, and a set has to report when it accepts them.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_sending() && !self.stream.has_bells()
    }

    /// Takes out the activity since the last call.
    pub(super) fn take_activity(&mut self) -> Activity {
        std::mem::take(&mut self.activity)
    }

    /// A domain has reported these edges.
    pub(super) fn note(&mut self, mut edges: Edges) {
        if self.stream.has_bells() && edges.intersects(Edges::READ | Edges::WRITE) {
            edges |= Edges::READ | Edges::WRITE;
        }
        self.readable |= edges.contains(Edges::READ);
        self.writable |= edges.contains(Edges::WRITE);
        self.hangup |= edges.contains(Edges::HANGUP);
    }

    /// The socket accepts no more octets. From now on the domains report when it accepts octets again. They do not do so from the start,
    /// because most sockets are never full, and a socket with room would be reported at once to drivers that have nothing to do.
    ///
    /// If they begin to do so only now, the stream still counts as writable, so that the caller tries once more. There may have been room
    /// before the change, and then the change alone need not wake a thread: epoll reports a source in a nested set for a change only if no
    /// event of that source is left in the nested set.
    fn await_room(&mut self) {
        if self.stream.has_bells() {
            self.writable = self.is_armed_by_hand && self.take_bells();
            return; // the send has asked for the report
        }
        self.writable = !self.reported.contains(Edges::WRITE);
        if self.writable {
            self.reported |= Edges::WRITE;
            self.domains.report(&self.stream, self.reported);
        } else {
            self.arm(Edges::WRITE);
        }
    }

    /// Asks for the next bell, which may mean octets or room. Takes the bells that have come before: one that stayed would be reported again and
    /// again. Returns true if there was one. The caller then looks for octets and for room.
    #[cold]
    fn take_bells(&mut self) -> bool {
        match self.stream.take_bells() {
            Some(true) => {
                self.readable = true;
                true
            }
            Some(false) => {
                self.arm(Edges::READ);
                false
            }
            // The end waits to be read.
            None => {
                self.readable = true;
                false
            }
        }
    }

    /// This side has handled what the sets have reported.
    #[inline]
    fn arm(&self, edges: Edges) {
        if self.is_armed_by_hand && !self.stream.is_held(edges) {
            self.domains.arm(&self.stream, edges);
        }
    }

    /// All that has arrived was read.
    #[inline]
    fn await_octets(&mut self) {
        self.readable = false;
        self.arm(Edges::READ);
    }

    /// Sends until the engine has nothing more to send, the socket accepts no more, or the budget is spent.
    pub(super) fn transmit(
        &mut self,
        connection: &mut Connection,
        buffers: &Buffers,
    ) -> io::Result<Visit> {
        let visit = self.send_batches(connection, buffers);
        self.tx_buffers.keeps(self.batch.as_ref());
        visit
    }

    /// Sends octets that a fault plan has held back until now. Returns true if all of them were sent.
    #[cold]
    fn flush(&mut self) -> io::Result<bool> {
        if !self.writable && self.stream.is_backlogged() {
            return Ok(false);
        }
        while !self.stream.flush()? {
            self.await_room();
            if !self.writable {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn send_batches(
        &mut self,
        connection: &mut Connection,
        buffers: &Buffers,
    ) -> io::Result<Visit> {
        if self.stream.is_faulted() && !self.flush()? {
            return Ok(Visit::Finished);
        }
        let mut budget = BUDGET;
        loop {
            if let Some(empty) = self.batch.take_if(|batch| batch.is_empty()) {
                self.tx_buffers.give_back(empty);
            }
            if self.batch.is_none() && !connection.wants_transmit() {
                return Ok(Visit::Finished);
            }
            if budget == 0 && self.writable {
                return Ok(Visit::Unfinished);
            }
            if self.batch.is_none() {
                let mut batch = self.tx_buffers.take();
                let limit = TxLimit {
                    octets: batch_octets(connection),
                    fpdus: BATCH_FPDUS,
                    mulpdu: self.mulpdu.get(&self.stream),
                };
                connection.poll_transmit(&buffers.table().pinned(), limit, &mut batch);
                if batch.is_empty() {
                    self.tx_buffers.give_back(batch);
                    return Ok(Visit::Finished);
                }
                self.batch = Some(batch);
            }
            let Some(batch) = &mut self.batch else {
                return Ok(Visit::Finished);
            };
            if !self.writable || self.write_closed {
                return Ok(Visit::Finished);
            }
            let sent = self.stream.send(buffers.table(), batch);
            // If the stream broke in the middle of an FPDU whose memory is not mapped, the batch says so, and the request fails.
            connection.handle_transmitted(batch);
            let (octets, sent) = sent?;
            self.mulpdu.sent(octets);
            self.activity.any = true;
            match sent {
                // The rest did not fit into one call. The connection has failed the request whose memory is gone.
                Sent::All | Sent::Partly | Sent::Revoked => {}
                Sent::WouldBlock => self.await_room(),
            }
            budget = budget.saturating_sub(usize::try_from(octets).unwrap_or(usize::MAX));
        }
    }

    /// Reads, and passes octets to the engine until none are left, a Receive is missing, or the budget is spent. Receives that were not
    /// posted to the connection come from `receives`.
    #[inline]
    pub(super) fn receive(
        &mut self,
        connection: &mut Connection,
        buffers: &Buffers,
        receives: impl ReceivesAhead,
    ) -> io::Result<Visit> {
        if !self.reading || self.read_ended && self.kept.is_none() {
            return Ok(Visit::Finished);
        }
        if self.held_is_whole
            && let Some(visit) = self.handle_held(connection, buffers, receives)
        {
            return visit;
        }
        with_staging(|staging| {
            let mut have = self.unhold(staging, buffers);
            let visit = self.read_into(staging, &mut have, connection, buffers, receives);
            self.held_is_whole = matches!(visit, Ok(Visit::Unfinished)) || connection.is_stalled();
            self.hold(&staging[..have], buffers);
            if self.stream.take_room_report() && self.is_sending() {
                self.writable = true;
                return visit.map(|_| Visit::Unfinished);
            }
            visit
        })
    }

    /// Passes the held octets to the engine without moving them, because they may be a long row of short messages each of which waits for a
    /// Receive. Returns `None` if the engine waits only for further octets.
    fn handle_held(
        &mut self,
        connection: &mut Connection,
        buffers: &Buffers,
        receives: impl ReceivesAhead,
    ) -> Option<io::Result<Visit>> {
        if self.past.is_some() {
            return self.handle_kept(connection, buffers, receives);
        }
        let held = self.held.take()?;
        let mut fpdus = FPDUS;
        let input = &held.octets()[self.held_from..];
        let used = self.handle(input, &mut fpdus, connection, buffers, receives);
        let is_rest = used < input.len();
        self.held_from += used;
        self.held = Some(held);
        if is_rest && fpdus == 0 {
            self.mean = used / FPDUS;
            return Some(Ok(Visit::Unfinished));
        }
        if is_rest && connection.is_stalled() {
            let unread = if self.readable {
                self.check_unread()
            } else {
                Ok(())
            };
            return Some(unread.map(|()| Visit::Finished));
        }
        None
    }

    /// Returns true if a Send may wait that [`pass`](Self::pass) reads past.
    #[inline]
    pub(super) fn may_pass(&self) -> bool {
        self.held_is_whole && self.past.is_some()
    }

    /// Continues a visit that stopped at a Send without a Receive.
    pub(super) fn pass(
        &mut self,
        mut visit: Visit,
        connection: &mut Connection,
        buffers: &Buffers,
    ) -> io::Result<Visit> {
        if let Some(account) = self.past
            && connection.is_stalled()
        {
            visit = visit.and(self.read_past(account, connection, buffers)?);
            if self.stream.take_room_report() && self.is_sending() {
                self.writable = true;
                visit = Visit::Unfinished;
            }
        }
        Ok(visit)
    }

    /// Handles the Responses behind the Send that waits, and reads on until nothing is left, a limit is reached, or the budget is spent.
    fn read_past(
        &mut self,
        account: &'static KeptAccount,
        connection: &mut Connection,
        buffers: &Buffers,
    ) -> io::Result<Visit> {
        let mut budget = BUDGET;
        loop {
            connection.handle_ahead(self.kept_or_held(), &buffers.table().pinned());
            if !connection.is_stalled() {
                return Ok(Visit::Unfinished); // it has failed, and drops what is kept
            }
            if !self.readable {
                return Ok(Visit::Finished);
            }
            if budget == 0 {
                return Ok(Visit::Unfinished);
            }
            if self.read_ended
                || connection.looked_ahead().is_none()
                || !self.keeps(account, buffers)
            {
                self.check_unread()?;
                return Ok(Visit::Finished);
            }
            let Some(kept) = &mut self.kept else {
                return Ok(Visit::Finished);
            };
            let space = kept.space();
            if space.is_empty() {
                self.check_unread()?;
                return Ok(Visit::Finished);
            }
            let room = space.len();
            match self.stream.read(space) {
                Ok(0) => {
                    self.read_ended = true;
                    self.activity.any = true;
                    connection.handle_stream_end(StreamEnd::Fin, kept.octets().len());
                    return Ok(Visit::Finished);
                }
                Ok(count) => {
                    kept.filled(count);
                    self.activity.received(count);
                    budget = budget.saturating_sub(count);
                    if count < room && !self.hangup && self.stream.short_read_is_last() {
                        self.await_octets();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.await_octets(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves the held octets to memory of the account. Returns false if it has none.
    fn keeps(&mut self, account: &'static KeptAccount, buffers: &Buffers) -> bool {
        if self.kept.is_some() {
            return true;
        }
        self.kept = KeptOctets::new(self.kept_or_held(), account).map(Box::new);
        let is_kept = self.kept.is_some();
        if is_kept && let Some(held) = self.held.take() {
            self.held_from = 0;
            buffers.return_spare(held);
        }
        is_kept
    }

    /// The number of octets that are kept, and the size of their memory.
    #[cfg(test)]
    pub(super) fn kept_octets(&self) -> Option<(usize, usize)> {
        let kept = self.kept.as_ref()?;
        Some((kept.octets().len(), kept.size()))
    }

    /// The octets from the Send on that waits, or has waited.
    fn kept_or_held(&self) -> &[u8] {
        match (&self.kept, &self.held) {
            (Some(kept), _) => kept.octets(),
            (None, Some(held)) => &held.octets()[self.held_from..],
            (None, None) => &[],
        }
    }

    /// Passes these octets to the engine without moving them. Returns `None` if the engine waits only for further octets.
    #[cold]
    fn handle_kept(
        &mut self,
        connection: &mut Connection,
        buffers: &Buffers,
        receives: impl ReceivesAhead,
    ) -> Option<io::Result<Visit>> {
        let input = self.kept_or_held();
        let before = connection.counters().received.fpdus;
        let table = buffers.table().pinned();
        let used = connection.handle_kept(FPDUS as u64, input, &table, receives);
        drop(table);
        let is_rest = used < input.len();
        let handled = connection.counters().received.fpdus - before;
        let handled = usize::try_from(handled).unwrap_or(FPDUS);
        self.activity.handled(handled);
        match &mut self.kept {
            Some(kept) => kept.consume(used),
            None => self.held_from += used,
        }
        if is_rest && (handled >= FPDUS || connection.is_stalled()) {
            return Some(Ok(match connection.is_stalled() {
                true => Visit::Finished, // `pass` goes on
                false => Visit::Unfinished,
            }));
        }
        let kept = self.kept.take();
        if self.read_ended {
            self.activity.any = true;
            return Some(Ok(Visit::Finished));
        }
        if let Some(kept) = kept {
            self.hold(kept.octets(), buffers);
        }
        None
    }

    /// Moves the held octets to the front of the staging buffer. Returns their number.
    #[inline]
    fn unhold(&mut self, staging: &mut [u8], buffers: &Buffers) -> usize {
        let Some(held) = self.held.take() else {
            return 0;
        };
        let rest = &held.octets()[std::mem::take(&mut self.held_from)..];
        let have = rest.len();
        staging[..have].copy_from_slice(rest);
        buffers.return_spare(held);
        have
    }

    /// Keeps the octets that the engine has not consumed until more arrive.
    #[inline]
    fn hold(&mut self, rest: &[u8], buffers: &Buffers) {
        if rest.is_empty() {
            return;
        }
        let mut held = buffers.take_spare();
        held.set(rest);
        self.held = Some(held);
    }

    /// Passes octets to the engine, at most `fpdus` FPDUs. Returns the number of octets that the engine has consumed.
    #[inline]
    fn handle(
        &mut self,
        input: &[u8],
        fpdus: &mut usize,
        connection: &mut Connection,
        buffers: &Buffers,
        receives: impl ReceivesAhead,
    ) -> usize {
        let ahead = receives.draw_ahead(connection, input);
        let before = connection.counters().received.fpdus;
        let table = buffers.table().pinned();
        let used = connection.handle_fpdus(*fpdus as u64, input, &table, receives);
        drop(table);
        if ahead {
            receives.give_back();
        }
        let handled = connection.counters().received.fpdus - before;
        // The engine handles no more FPDUs than were asked for.
        let handled = usize::try_from(handled).unwrap_or(*fpdus);
        *fpdus = fpdus.saturating_sub(handled);
        self.activity.handled(handled);
        used
    }

    #[inline]
    fn read_into(
        &mut self,
        staging: &mut [u8],
        have: &mut usize,
        connection: &mut Connection,
        buffers: &Buffers,
        receives: impl ReceivesAhead,
    ) -> io::Result<Visit> {
        let mut budget = BUDGET;
        let mut fpdus = FPDUS;
        let mut consumed = 0;
        let mean = std::mem::take(&mut self.mean);
        loop {
            if *have > 0 {
                let input = &staging[..*have];
                let used = self.handle(input, &mut fpdus, connection, buffers, receives);
                staging.copy_within(used..*have, 0);
                *have -= used;
                consumed += used;
                if fpdus == 0 {
                    self.mean = consumed / FPDUS;
                    return Ok(Visit::Unfinished);
                }
            }
            if !self.readable {
                if *have == 0 && connection.next_place().is_none() {
                    self.since_quiet = 0;
                }
                return Ok(Visit::Finished);
            }
            if connection.is_stalled() {
                self.check_unread()?;
                return Ok(Visit::Finished);
            }
            if connection.has_terminated() && self.keeps_window_shut() {
                return Ok(if connection.write_side_done() {
                    Visit::Finished
                } else {
                    Visit::Unfinished
                });
            }
            if budget == 0 {
                return Ok(Visit::Unfinished);
            }
            let room = staging.len().min(*have + worth_handling(fpdus, mean));
            match self.read_some(&mut staging[..room], have, connection, buffers) {
                Ok((0, _)) => {
                    self.read_ended = true;
                    self.activity.any = true;
                    connection.handle_stream_end(StreamEnd::Fin, *have);
                    *have = 0;
                    return Ok(Visit::Finished);
                }
                Ok((count, space)) => {
                    self.activity.received(count);
                    self.since_quiet = self.since_quiet.saturating_add(count);
                    budget = budget.saturating_sub(count);
                    // A short read means that no more data is there; the end may have been reported by the same edge.
                    if count < space && !self.hangup && self.stream.short_read_is_last() {
                        self.await_octets();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.await_octets(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true while reading has to pause until the peer has acknowledged the Terminate. Reading would reopen the peer's flow-control
    /// window. If the peer learnt of the window first, it would send further messages and count them as sent, although they are dropped
    /// here. While the Terminate itself waits for room, the stream is read: both sides may have failed and wait for each other.
    #[cold]
    fn keeps_window_shut(&self) -> bool {
        if !self.stream.knows_arrival() || self.stream.check().is_err() {
            return false; // the error that broke the stream is read behind the octets that are here
        }
        if self.write_closed {
            self.stream.end_is_under_way()
        } else {
            self.writable
        }
    }

    /// Notices that the stream is broken, while a Send waits for a Receive and nothing is read. The orderly end of the stream
    /// waits behind that Send.
    fn check_unread(&self) -> io::Result<()> {
        let noticed = !crate::planted!(ResetBehindSendMissed);
        if noticed && (self.hangup || self.stream.is_faulted()) {
            self.stream.check()
        } else {
            Ok(())
        }
    }

    /// Reads once, to the place of the payload under way, or into the staging buffer behind its octets. Returns the number of octets read
    /// and the room there was.
    #[inline]
    fn read_some(
        &mut self,
        staging: &mut [u8],
        have: &mut usize,
        connection: &mut Connection,
        buffers: &Buffers,
    ) -> io::Result<(usize, usize)> {
        if let Some(direct) = self.direct_placement(*have, connection, buffers) {
            let (place, len) = (direct.place(), direct.place().len() as usize);
            self.directly = true;
            if self.is_long() && !self.window_is_open {
                self.window_is_open = true;
                self.stream.open_window(WINDOW);
            }
            let space = if self.stream.holds_octets() || self.is_long() {
                HEADER
            } else {
                BEHIND
            };
            let behind = &mut staging[..space];
            match self.stream.read_to_place(buffers.table(), place, behind)? {
                Received::Octets(count) => {
                    let placed = place.len().min(u32::try_from(count).unwrap_or(u32::MAX));
                    direct.placed(placed);
                    *have = count.saturating_sub(len);
                    return Ok((count, len + space));
                }
                // The engine detects this when it is given the octets.
                Received::Revoked => {}
                // The engine would detect this by a copy, which would end the process.
                Received::Unmapped => direct.refused(),
            }
        }
        let wanted = connection.wanted();
        if *have > 0 {
            self.usual = if wanted < LONG { 0 } else { wanted };
        }
        let space = worth_reading(*have, wanted, self.usual, staging.len());
        let count = self.stream.read(&mut staging[*have..*have + space])?;
        *have += count;
        self.directly = false;
        Ok((count, space))
    }

    /// Returns the place of the next octets, if it is known and a direct read is worth its cost.
    fn direct_placement<'a>(
        &self,
        have: usize,
        connection: &'a mut Connection,
        buffers: &Buffers,
    ) -> Option<DirectPlacement<'a>> {
        if have > 0 || self.stream.copies() {
            return None;
        }
        if self.stream.holds_octets() {
            return connection.direct_placement();
        }
        if self.is_long() && !prefers_strings() {
            return None;
        }
        let has_slow_places = connection.has_slow_places();
        let direct = connection.direct_placement()?;
        if has_slow_places
            && buffers
                .table()
                .is_slow_target(direct.place(), self.since_quiet)
        {
            return None;
        }
        (self.directly || direct.place().len() as usize >= DIRECT).then_some(direct)
    }

    /// Returns true if more octets are to be expected: many have arrived since the stream was quiet.
    fn is_long(&self) -> bool {
        self.since_quiet > SHORT_STREAM
    }

    /// Drops requests whose sending has not begun.
    pub(super) fn drop_unsent(&mut self, connection: &mut Connection) {
        if let Some(batch) = &mut self.batch {
            batch.keep_cut_only();
            connection.handle_transmitted(batch);
        }
    }

    /// Ends this side's direction, once everything handed out was sent.
    pub(super) fn close_write(&mut self) {
        let unsent = self.batch.as_ref().is_some_and(|batch| !batch.is_empty());
        if !unsent && !self.write_closed && !self.stream.is_backlogged() {
            self.stream.close_write();
            self.write_closed = true;
        }
    }

    /// Returns true if both directions have ended.
    pub(super) fn is_over(&self) -> bool {
        self.read_ended && self.write_closed
    }

    fn leave(&mut self) {
        self.domains.end(&self.stream);
    }

    /// Closes the stream in good order.
    pub(super) fn close(mut self) {
        self.leave();
    }

    /// Ends the stream with a reset.
    pub(super) fn reset(mut self) {
        self.leave();
        self.stream.reset();
    }
}

#[cfg(all(test, unix))]
mod tests;
