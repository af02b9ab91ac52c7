//! One engine with its memory and its transport, driven by a fuzzer's decisions. `checks` has all checks that are possible
//! from outside.

mod checks;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use iwarp::mpa::fpdu;
use iwarp::{
    AtomicOp, Confirmations, Connection, CopiedPayload, Delivery, InitiatorWqe, Markers,
    Memory as _, Operation, OwnQueue, Payload, Pd, PieceRef, QueueSizes, ReadLimits, Ready,
    ReceivedImmediate, Recognition, RemoteAddress, RemoteRights, RequestKind, Role, STag, Scope,
    Sge, StreamConfig, StreamEnd, StreamId, TxBatch, TxLimit, WindowBind, WindowId,
};

use crate::input::Input;
use crate::memory::{Rights, VecMemory};
use crate::receives::Receives;
use crate::wire::Wire;

/// The source of Sends, Writes and Reads, which is never written.
pub(crate) const SOURCE: STag = STag(0x0100_01aa);
/// Written by the peer's Writes only.
pub(crate) const TARGET: STag = STag(0x0200_02bb);
/// Written only by inbound Sends. Each Receive has its own piece.
pub(crate) const RECEIVE: STag = STag(0x0300_03cc);
/// Written only by our own Reads. Each Read has its own piece.
pub(crate) const SINK: STag = STag(0x0400_04dd);
/// Without any right.
pub(crate) const PRIVATE: STag = STag(0x0500_05ee);
/// Accessible to everybody, but in another protection domain.
pub(crate) const FOREIGN: STag = STag(0x0600_06ff);
/// Changed by the peer's Atomics only.
pub(crate) const COUNTER: STag = STag(0x0900_0911);
/// STags of the window, one for each time it is bound.
pub(crate) const WINDOW: u32 = 0x0700_0700;
/// An STag that names nothing.
pub(crate) const NOTHING: STag = STag(0x0800_0800);

/// Where each region begins.
pub(crate) const BASE: u64 = 0x1_0000;
pub(crate) const SMALL: usize = 4096;
const LARGE: usize = 16384;

pub(crate) const SIZES: QueueSizes = QueueSizes {
    initiator_depth: 8,
    receive_depth: 8,
    initiator_sges: 2,
    receive_sges: 2,
    read_sges: 2,
    inline: 64,
    max_transfer: 6000,
};

const PD: Pd = Pd(1);

/// The content of every `SOURCE`.
fn pattern(at: usize) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 8)).to_le_bytes()[0]
}

/// A posted initiator request that has not completed yet.
#[derive(Debug)]
struct Posted {
    context: u64,
    kind: RequestKind,
    length: u32,
    silent: bool,
}

/// A Send as the receiver has to see it.
#[derive(Debug)]
pub(crate) struct Sent {
    data: Vec<u8>,
    solicited: bool,
    invalidate: Option<STag>,
    immediate: Option<ReceivedImmediate>,
    /// Octets of the last Write between the Immediate Data before and this one, which the completion of its Receive counts.
    written: u32,
    /// The ready-to-receive Write, of no octets, may be the last one.
    ready_between: bool,
}

/// The flags of one operation.
#[derive(Clone, Copy, Debug)]
struct Flags {
    silent: bool,
    fence: bool,
    inline: bool,
    solicited: bool,
    split: bool,
    /// Immediate Data instead of a Send, an Atomic instead of a Read.
    extension: bool,
}

/// Two bits of the set-up say in which directions markers stand.
pub(crate) fn markers(role: Role, flags: u8) -> Markers {
    let by = [flags & 0x10 != 0, flags & 0x20 != 0];
    let [sent, received] = match role {
        Role::Initiator => by,
        Role::Responder => [by[1], by[0]],
    };
    Markers { sent, received }
}

#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) conn: Connection,
    pub(crate) mem: VecMemory,
    pub(crate) now: Instant,
    role: Role,
    pub(crate) delivery: Delivery,
    /// Responses pass a Send that waits.
    pub(crate) passes: bool,
    batch: TxBatch,
    /// Octets the transport has taken and not yet delivered.
    pub(crate) out: Vec<u8>,
    /// Octets delivered and not yet consumed.
    pub(crate) inbox: Vec<u8>,
    pub(crate) wire: Wire,
    /// The octets that the peer has sent and the engine has consumed. Only if the peer is an engine too.
    pub(crate) inbound: Option<Wire>,
    /// Largest ULPDU ever allowed.
    mulpdu: usize,
    next_context: u64,
    posted: VecDeque<Posted>,
    receives: VecDeque<(u64, usize, u32)>,
    /// Receives are posted here instead of to the connection.
    shared: Option<Receives>,
    reads: HashMap<u64, (usize, usize, usize)>,
    /// Atomics: where the old value goes, and what it has to be.
    atomics: HashMap<u64, (usize, u64)>,
    /// The value of the peer's counter when all posted Atomics are done, and the values that it may have before.
    pub(crate) total: u64,
    totals: HashSet<u64>,
    /// Octets of `RECEIVE` and `SINK` in use.
    receive_used: usize,
    sink_used: usize,
    /// Writes in the order they were posted: offset in the peer's `TARGET`, data.
    pub(crate) writes: Vec<(usize, Vec<u8>)>,
    /// A request was posted that has to fail. Nothing behind it may reach the peer's memory.
    doomed: bool,
    /// The peer may take Immediate Data with certain octets for the announcement of a Send.
    announces: bool,
    pub(crate) sends: VecDeque<Sent>,
    /// Octets of the last Write that was posted after the last Immediate Data.
    written: u32,
    /// A ready-to-receive Write was asked for after the last Immediate Data.
    ready_between: bool,
    window: WindowId,
    window_binds: u32,
    ready_is_write: bool,
    pub(crate) ready_sent: bool,
    /// Sends and Writes that succeeded.
    succeeded: u64,
    /// Connection events seen.
    pub(crate) failed: bool,
    peer_closed: bool,
    pub(crate) ended: bool,
    ready_seen: bool,
    /// The transport is closed in our direction.
    pub(crate) fin_sent: bool,
    pub(crate) fin_received: bool,
    /// The transport is gone in both directions.
    broken: bool,
}

/// Memory with regions of every kind under the names that both ends know.
fn registered() -> VecMemory {
    let mem = VecMemory::default();
    let none = Rights::default();
    let local = Rights {
        local_write: true,
        ..none
    };
    let everything = Rights {
        local_write: true,
        remote_read: true,
        remote_write: true,
        remote_atomic: true,
    };
    let source: Vec<u8> = (0..SMALL).map(pattern).collect();
    mem.register(
        SOURCE,
        BASE,
        source,
        PD,
        Rights {
            remote_read: true,
            ..none
        },
    );
    mem.register(
        TARGET,
        BASE,
        vec![0; SMALL],
        PD,
        Rights {
            remote_write: true,
            ..local
        },
    );
    mem.register(RECEIVE, BASE, vec![0; LARGE], PD, local);
    mem.register(SINK, BASE, vec![0; LARGE], PD, local);
    mem.register(PRIVATE, BASE, vec![0; SMALL], PD, none);
    mem.register(COUNTER, BASE, vec![0; 64], PD, everything);
    mem.register(FOREIGN, BASE, vec![0; SMALL], Pd(2), everything);
    mem
}

/// The results of the start-up. Both ends share everything but the role.
fn agreed(role: Role, [flags, limits, wait, room]: [u8; 4]) -> StreamConfig {
    StreamConfig {
        role,
        crc: flags & 1 != 0,
        markers: markers(role, flags),
        limits: ReadLimits {
            // One Read that confirms may come on top.
            ird: u32::from(limits >> 4) + u32::from(limits & 3 == 3),
            ord: u32::from(limits >> 4),
        },
        ready: match flags >> 1 & 3 {
            0 => None,
            1 => Some(Ready::Write),
            2 => Some(Ready::Read),
            _ => Some(Ready::Send),
        },
        receive_wait: Duration::from_millis(u64::from(wait) * 10),
        copied: if flags & 8 == 0 {
            CopiedPayload::None
        } else {
            CopiedPayload::All
        },
        copied_below: if wait & 2 == 0 { 4096 } else { 16 },
        confirmations: match (flags & 0x40 != 0, limits & 3) {
            (false, _) => Confirmations::Off,
            (true, 0 | 1) => Confirmations::EachWrite,
            (true, kind) => Confirmations::OnDemand { apart: kind == 3 },
        },
        recognition: match (flags & 0x80 != 0, room & 0x80 != 0) {
            (false, _) => Recognition::Never,
            (true, false) => Recognition::ByWrites,
            (true, true) => Recognition::Agreed,
        },
        early: if wait & 1 == 0 { 32 } else { usize::MAX },
    }
}

impl Side {
    /// Four octets of decisions: role apart, both ends of a pair read the same.
    pub(crate) fn new(role: Role, setup: [u8; 4], now: Instant) -> Self {
        Self::with(Delivery::Reliable, role, setup, now)
    }

    /// As [`new`](Self::new), with a delivery.
    pub(crate) fn with(delivery: Delivery, role: Role, setup: [u8; 4], now: Instant) -> Self {
        let [_, limits, _, room] = setup;
        let config = agreed(role, setup);
        let mem = registered();
        let window = mem.create_window();
        let mut conn = Connection::new(
            SIZES,
            Scope {
                pd: PD,
                stream: StreamId(7),
            },
        )
        .expect("memory for small queues");
        conn.set_delivery(delivery);
        conn.start(config);
        Self {
            conn,
            mem,
            now,
            role,
            delivery,
            passes: limits & 4 != 0,
            batch: TxBatch::with_capacity(512 + 64 * usize::from(room), 1 + usize::from(room & 15)),
            out: Vec::new(),
            inbox: Vec::new(),
            wire: Wire::new(config.crc, config.markers.sent),
            inbound: None,
            mulpdu: 0,
            next_context: 1,
            posted: VecDeque::new(),
            receives: VecDeque::new(),
            shared: (setup[2] & 4 != 0).then(Receives::default),
            reads: HashMap::new(),
            atomics: HashMap::new(),
            total: 0,
            totals: HashSet::from([0]),
            receive_used: 0,
            sink_used: 0,
            writes: Vec::new(),
            doomed: false,
            announces: config.recognition != Recognition::Never,
            sends: VecDeque::new(),
            written: 0,
            ready_between: false,
            window,
            window_binds: 0,
            ready_is_write: matches!(config.ready, None | Some(Ready::Write)),
            ready_sent: false,
            succeeded: 0,
            failed: false,
            peer_closed: false,
            ended: false,
            ready_seen: false,
            fin_sent: false,
            fin_received: false,
            broken: false,
        }
    }

    /// One decision of the client or of the clock. The lowest four bits of `op` choose.
    pub(crate) fn local(&mut self, op: u8, input: &mut Input<'_>) {
        match op & 15 {
            0 => self.post_send(input),
            1 => self.post_write(input),
            2 => self.post_read(input),
            3 => self.post_receive(input),
            4 => self.post_bind(input),
            5 => {
                let work = Operation::Invalidate(self.window);
                self.post(RequestKind::Invalidate, work, 0, flags(input));
            }
            6 => self.post_doomed(input),
            7 => self.send_ready(),
            8 => self.transmit(input),
            9 => {
                let octets = usize::from(input.word16());
                self.write(octets);
            }
            10 => self.now += Duration::from_millis(u64::from(input.octet()) * 20),
            11 => self.conn.handle_timeout(self.now),
            12 => self.deregister(input),
            13 => self.drop_unsent(),
            14 => match input.octet() & 7 {
                0 => self.conn.flush(),
                1 => self.conn.disconnect(),
                _ => {}
            },
            _ => {
                let _ = self.conn.poll_timeout(self.now);
            }
        }
    }

    pub(crate) fn send_ready(&mut self) {
        if self.role == Role::Initiator && !std::mem::replace(&mut self.ready_sent, true) {
            self.conn.send_ready();
            if self.ready_is_write {
                // It goes in front of all that was posted and is not sent yet.
                for sent in &mut self.sends {
                    sent.ready_between = true;
                }
                self.ready_between = true;
            }
        }
    }

    fn post(
        &mut self,
        kind: RequestKind,
        operation: Operation<Payload<'_>>,
        length: u32,
        flags: Flags,
    ) -> Option<u64> {
        let context = self.next_context;
        let wqe = InitiatorWqe {
            context,
            operation,
            silent: flags.silent,
            fence: flags.fence,
        };
        self.conn.post_initiator(wqe).ok()?;
        self.next_context += 1;
        self.posted.push_back(Posted {
            context,
            kind,
            length,
            silent: flags.silent,
        });
        Some(context)
    }

    /// A stretch of `SOURCE`, as one SGE, two, or inline octets.
    fn with_source<T>(
        &mut self,
        at: usize,
        len: usize,
        flags: Flags,
        post: impl FnOnce(&mut Self, Payload<'_>) -> T,
    ) -> T {
        let data: Vec<u8> = (at..at + len).map(pattern).collect();
        if flags.inline {
            let (head, tail) = data.split_at(len / 3);
            return post(self, Payload::Inline(&[head, tail]));
        }
        let sges = pieces(SOURCE, at, len, flags.split);
        post(self, Payload::Sges(&sges))
    }

    fn post_send(&mut self, input: &mut Input<'_>) {
        let flags = flags(input);
        let (at, len) = stretch(input);
        let kind = input.octet() & 7;
        let stag = match kind {
            0 => Some(STag(WINDOW + u32::from(input.octet() & 3))),
            1 => Some(TARGET),
            _ => None,
        };
        if flags.extension {
            return self.post_immediate(flags);
        }
        let number = length(at).to_be_bytes();
        let immediate = (kind == 2).then_some(ReceivedImmediate::OfSend(number));
        let posted = self.with_source(at, len, flags, |side, data| {
            let work = if immediate.is_some() {
                Operation::SendImmediate {
                    data,
                    number,
                    solicited: flags.solicited,
                }
            } else {
                Operation::Send {
                    data,
                    solicited: flags.solicited,
                    invalidate: stag,
                }
            };
            side.post(RequestKind::Send, work, length(len), flags)
        });
        if posted.is_some() && !self.doomed {
            self.sends.push_back(Sent {
                data: (at..at + len).map(pattern).collect(),
                solicited: flags.solicited,
                invalidate: stag,
                immediate,
                written: 0,
                ready_between: false,
            });
        }
    }

    fn post_immediate(&mut self, flags: Flags) {
        let data = self.next_context.to_be_bytes();
        let work = Operation::Immediate {
            data,
            solicited: flags.solicited,
        };
        let posted = self.post(RequestKind::Immediate, work, 0, flags).is_some();
        // It seems to announce a Send.
        self.doomed |= posted && self.announces && data[4..] == [0, 0, 0, 1];
        if posted && !self.doomed {
            self.sends.push_back(Sent {
                data: Vec::new(),
                solicited: flags.solicited,
                invalidate: None,
                immediate: Some(ReceivedImmediate::Alone(data)),
                written: std::mem::take(&mut self.written),
                ready_between: std::mem::take(&mut self.ready_between),
            });
        }
    }

    /// Always on the same word, so that each Atomic finds the result of the one before.
    fn post_atomic(&mut self, add: usize, flags: Flags) {
        if LARGE - self.sink_used < 8 {
            return;
        }
        let at = self.sink_used;
        let op = match add % 3 {
            0 => AtomicOp::compare_swap(self.total, add as u64),
            _ => AtomicOp::add(add as u64),
        };
        let sink = pieces(SINK, at, 8, false);
        let work = Operation::Atomic {
            op,
            sink: Payload::Sges(&sink),
            remote: RemoteAddress {
                stag: COUNTER,
                to: BASE,
            },
        };
        if let Some(context) = self.post(work.kind(), work, 8, flags) {
            self.sink_used += 8;
            self.atomics.insert(context, (at, self.total));
            if !self.doomed {
                self.total = op.apply(self.total);
                self.totals.insert(self.total);
            }
        }
    }

    /// The peer's word that this side's Atomics change.
    pub(crate) fn counted(&self, peer: &VecMemory) -> u64 {
        let octets = peer.read(COUNTER);
        u64::from_ne_bytes(octets[..8].try_into().expect("8 octets"))
    }

    /// Checks that the counter holds the result of some of this side's Atomics, and that nothing else has changed.
    pub(crate) fn assert_counted(&self, peer: &VecMemory) {
        assert!(self.totals.contains(&self.counted(peer)), "a sum of none");
        assert!(peer.read(COUNTER)[8..].iter().all(|octet| *octet == 0));
    }

    fn post_write(&mut self, input: &mut Input<'_>) {
        let flags = flags(input);
        let (at, len) = stretch(input);
        let (to, _) = stretch(input);
        let len = len.min(SMALL - to);
        let stag = match input.octet() & 3 {
            0 => STag(WINDOW + u32::from(input.octet() & 3)),
            _ => TARGET,
        };
        let remote = RemoteAddress {
            stag,
            to: BASE + to as u64,
        };
        let posted = self.with_source(at, len, flags, |side, data| {
            side.post(
                RequestKind::Write,
                Operation::Write { data, remote },
                length(len),
                flags,
            )
        });
        if posted.is_some() && !self.doomed {
            self.written = length(len);
            self.writes
                .push((to, (at..at + len).map(pattern).collect()));
        }
    }

    fn post_read(&mut self, input: &mut Input<'_>) {
        let flags = flags(input);
        let (from, len) = stretch(input);
        if flags.extension {
            return self.post_atomic(len, flags);
        }
        let len = len.min(LARGE - self.sink_used);
        let sink = self.sink_used;
        let sges = pieces(SINK, sink, len, flags.split);
        let remote = RemoteAddress {
            stag: SOURCE,
            to: BASE + from as u64,
        };
        let work = Operation::Read {
            sink: Payload::Sges(&sges),
            remote,
        };
        if let Some(context) = self.post(RequestKind::Read, work, length(len), flags) {
            self.sink_used += len;
            self.reads.insert(context, (sink, from, len));
        }
    }

    fn post_receive(&mut self, input: &mut Input<'_>) {
        let flags = flags(input);
        let (_, len) = stretch(input);
        let len = len.min(LARGE - self.receive_used);
        let at = self.receive_used;
        let context = self.next_context;
        let sges = pieces(RECEIVE, at, len, flags.split);
        let posted = match &self.shared {
            Some(shared) => {
                shared.post(context, &sges);
                true
            }
            None => self.conn.post_receive(context, &sges).is_ok(),
        };
        if posted {
            self.next_context += 1;
            self.receive_used += len;
            self.receives.push_back((context, at, length(len)));
        }
    }

    fn post_bind(&mut self, input: &mut Input<'_>) {
        let flags = flags(input);
        let (at, len) = stretch(input);
        let bind = WindowBind {
            window: self.window,
            stag: STag(WINDOW + (self.window_binds & 3)),
            region: TARGET,
            address: BASE + at as u64,
            length: len as u64,
            rights: RemoteRights::with_both(flags.solicited, !flags.inline),
        };
        if self
            .post(RequestKind::Bind, Operation::Bind(bind), 0, flags)
            .is_some()
        {
            self.window_binds += 1;
        }
    }

    /// Posts a request that has to fail, on this side or on the peer's.
    fn post_doomed(&mut self, input: &mut Input<'_>) {
        let flags = Flags {
            inline: false,
            ..flags(input)
        };
        let remote = |stag: STag, to: u64| RemoteAddress {
            stag,
            to: BASE.wrapping_add(to),
        };
        let end = SMALL as u64;
        let (local, remote) = match input.octet() % 8 {
            0 => (SOURCE, remote(NOTHING, 0)),
            1 => (SOURCE, remote(TARGET, end - 1)),
            2 => (SOURCE, remote(TARGET, u64::MAX - BASE)),
            3 => (SOURCE, remote(SOURCE, 0)),
            4 => (SOURCE, remote(FOREIGN, 0)),
            5 => (SOURCE, remote(PRIVATE, 0)),
            6 => (NOTHING, remote(TARGET, 0)),
            _ => (FOREIGN, remote(TARGET, 0)),
        };
        let sges = pieces(local, 0, 2, flags.split);
        let work = Operation::Write {
            data: Payload::Sges(&sges),
            remote,
        };
        self.doomed |= self.post(RequestKind::Write, work, 2, flags).is_some();
    }

    fn deregister(&self, input: &mut Input<'_>) {
        match input.octet() {
            1 => self.mem.deregister(SOURCE),
            2 => self.mem.deregister(TARGET),
            3 => self.mem.deregister(RECEIVE),
            4 => self.mem.deregister(SINK),
            _ => {}
        }
    }

    fn transmit(&mut self, input: &mut Input<'_>) {
        let limit = TxLimit {
            octets: usize::from(input.word16()),
            fpdus: usize::from(input.octet() & 15),
            mulpdu: u32::from(input.word16()),
        };
        self.transmit_within(limit);
    }

    pub(crate) fn transmit_within(&mut self, limit: TxLimit) {
        let wanted = self.conn.wants_transmit();
        let before = self.batch.remaining();
        let fpdus = self.conn.poll_transmit(&self.mem, limit, &mut self.batch);
        let made = self.batch.remaining() - before;
        assert!(fpdus <= limit.fpdus, "{fpdus} FPDUs");
        assert_eq!(fpdus == 0, made == 0);
        assert!(wanted || fpdus == 0, "not announced");
        assert!(
            fpdus < 2 || made <= limit.octets as u64,
            "{fpdus} FPDUs of {made} octets"
        );
        let mulpdu = limit
            .mulpdu
            .clamp(*fpdu::MULPDU_RANGE.start(), *fpdu::MULPDU_RANGE.end());
        self.mulpdu = self.mulpdu.max(mulpdu as usize);
        let pieces: u64 = self
            .batch
            .pieces()
            .map(|(piece, _)| piece_len(&piece))
            .sum();
        assert_eq!(pieces, self.batch.remaining());
    }

    /// The transport takes at most `most` octets, with one call.
    pub(crate) fn write(&mut self, most: usize) {
        if self.broken {
            return;
        }
        let Some(octets) = self.gather(most) else {
            // Only an FPDU of which nothing was sent can lose its memory, because a cut one has been made private.
            assert!(!self.batch.head_is_cut());
            self.batch.revoke();
            return self.conn.handle_transmitted(&mut self.batch);
        };
        self.batch.advance(octets.len() as u64);
        let mem = &self.mem;
        self.batch
            .make_head_private(|span, into| mem.fetch(span, into, None))
            .expect("nothing was revoked meanwhile");
        assert!(
            !self.fin_sent || octets.is_empty(),
            "octets behind our own end"
        );
        self.wire.sent(&octets);
        assert!(
            self.wire.seen.longest <= self.mulpdu,
            "a ULPDU longer than allowed"
        );
        self.out.extend_from_slice(&octets);
        self.conn.handle_transmitted(&mut self.batch);
    }

    /// What one vectored write would take. The memory of an FPDU is checked before its first octet is sent. `None` if the
    /// first FPDU lost its memory; a later one ends the call before it.
    fn gather(&self, most: usize) -> Option<Vec<u8>> {
        let mut octets = Vec::new();
        let mut whole = 0;
        for (piece, ends) in self.batch.pieces() {
            match piece {
                PieceRef::Bytes(bytes) => octets.extend_from_slice(bytes),
                PieceRef::Payload(span) => {
                    let start = octets.len();
                    octets.resize(start + span.len() as usize, 0);
                    if self.mem.fetch(span, &mut octets[start..], None).is_err() {
                        octets.truncate(whole);
                        if whole == 0 {
                            return None;
                        }
                        break;
                    }
                }
            }
            if ends {
                whole = octets.len();
                if whole >= most {
                    break;
                }
            }
        }
        octets.truncate(most);
        Some(octets)
    }

    /// Drops FPDUs of which nothing was sent, as an owner does when its stream is over.
    fn drop_unsent(&mut self) {
        if self.conn.has_failed() || self.conn.is_disconnected() {
            self.batch.keep_cut_only();
            self.conn.handle_transmitted(&mut self.batch);
        }
    }

    /// Whether our direction may be closed, because everything was sent and nothing will follow.
    pub(crate) fn may_close(&self) -> bool {
        self.conn.write_side_done() && self.batch.is_empty()
    }

    /// Whether nothing is on its way out of this side.
    pub(crate) fn is_drained(&self) -> bool {
        self.batch.is_empty() && self.out.is_empty()
    }

    /// The engine handles the octets that were delivered.
    pub(crate) fn receive(&mut self) {
        let consumed = self.handle_inbox();
        assert!(consumed <= self.inbox.len());
        let taken: Vec<u8> = self.inbox.drain(..consumed).collect();
        if self.passes {
            self.conn.handle_ahead(&self.inbox, &self.mem);
        }
        if let Some(inbound) = self.inbound.as_mut().filter(|_| self.conn.is_running()) {
            inbound.sent(&taken);
        }
        if self.conn.is_running() && !self.inbox.is_empty() {
            assert!(
                self.conn.is_stalled() || self.conn.wanted() > self.inbox.len(),
                "it could go on"
            );
            let shared = self.shared.as_ref().map(Receives::contexts);
            assert!(
                !self.conn.is_stalled() || shared.is_none_or(|left| left.is_empty()),
                "it waits although there are Receives"
            );
            assert_eq!(self.handle_inbox(), 0, "the same octets again");
        }
        if self.role == Role::Responder && self.conn.is_fenced() {
            // Only a faulty first FPDU may be answered.
            assert_eq!(
                self.wire.seen.fpdus, self.wire.seen.terminates,
                "the Responder has spoken first"
            );
        }
    }

    fn handle_inbox(&mut self) -> usize {
        let (conn, inbox, mem) = (&mut self.conn, &self.inbox, &self.mem);
        match &self.shared {
            Some(shared) if self.passes => conn.handle_kept(u64::MAX, inbox, mem, shared),
            None if self.passes => conn.handle_kept(u64::MAX, inbox, mem, OwnQueue),
            Some(shared) => conn.handle_bytes(inbox, mem, shared),
            None => conn.handle_bytes(inbox, mem, OwnQueue),
        }
    }

    pub(crate) fn end(&mut self, end: StreamEnd) {
        self.conn.handle_stream_end(end, self.inbox.len());
        self.fin_received = true;
        self.broken |= end == StreamEnd::Reset;
    }
}

/// The octet of flags in front of an operation's own parameters.
fn flags(input: &mut Input<'_>) -> Flags {
    let [silent, fence, inline, solicited, split, extension, ..] = input.flags();
    Flags {
        silent,
        fence,
        inline,
        solicited,
        split,
        extension,
    }
}

/// A stretch of a small region.
fn stretch(input: &mut Input<'_>) -> (usize, usize) {
    let at = usize::from(input.word16()) % SMALL;
    let len = usize::from(input.word16()) % (SMALL + 1);
    (at, len.min(SMALL - at))
}

fn length(len: usize) -> u32 {
    u32::try_from(len).expect("short messages")
}

/// A stretch of a region as one SGE or two.
fn pieces(token: STag, at: usize, len: usize, split: bool) -> Vec<Sge> {
    let sge = |at: usize, len: usize| Sge {
        token,
        address: BASE + at as u64,
        length: length(len),
    };
    if split {
        let first = len / 2;
        vec![sge(at, first), sge(at + first, len - first)]
    } else {
        vec![sge(at, len)]
    }
}

fn piece_len(piece: &PieceRef<'_>) -> u64 {
    match piece {
        PieceRef::Bytes(bytes) => bytes.len() as u64,
        PieceRef::Payload(span) => u64::from(span.len()),
    }
}
