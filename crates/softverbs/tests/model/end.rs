//! One end of a connection, and the model of its outstanding requests.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rdma_buffer::Buffer;
use softverbs::{
    AccessFlags, CompletionQueue, Errno, MemoryRegion, ProtectionDomain, QpCaps, QpOptions,
    QueuePair, RemotePlace, SendData, SendOperation, SendRequest, Service, Sge, SharedReceiveQueue,
    WcOpcode, WcStatus, WorkCompletion,
};

use crate::random::Random;
use crate::seen::Seen;

/// The parts of an end's memory: the source of its messages, and the targets of Receives, of the peer's Writes, and of the answers to
/// Reads.
const SOURCE: u64 = 0;
const RECEIVES: u64 = 16 << 10;
const TARGETS: u64 = 48 << 10;
const SINKS: u64 = 56 << 10;
/// Words for the peer's Atomics, and the places of the answers to this end's.
const WORDS: u64 = 64 << 10;
const ANSWERS: u64 = WORDS + 256;
const SIZE: u64 = 66 << 10;
const SLOT: u64 = 2 << 10;
pub(crate) const RECEIVE_SLOTS: usize = 16;
const SLOTS: usize = 4;
/// The most requests that an end has outstanding.
pub(crate) const REQUESTS: u32 = 24;
/// The depth of a shared receive queue, and the number of its Receives in memory: more, because the model does not know which Receives a
/// destroyed queue pair had taken.
pub(crate) const SHARED_DEPTH: usize = 16;
const SHARED_SLOTS: usize = 128;

/// The numbers of words, and of Atomics that an end has outstanding.
const COUNT_OF_WORDS: usize = 3;
const ANSWER_SLOTS: usize = 8;

/// A stretch of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    offset: u64,
    length: u32,
}

/// A message that takes a Receive of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    stretch: Stretch,
    /// The number that comes with it.
    number: Option<[u8; 4]>,
    /// A Write, whose octets are placed elsewhere.
    is_write: bool,
}

/// Who may have ended a connection, if anybody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Anybody: an adapter of iWARP flushes Receives in any case.
    Iwarp,
    /// This side, or anybody.
    Own,
    /// The peer or the network. Receives stay posted, unless a request of this side fails.
    Peer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send,
    /// To a slot of the peer's targets.
    Write(usize, Stretch),
    /// To a slot of this end's sinks.
    Read(usize, Stretch),
    /// To a word of the peer, with the place of the answer, and the word before and behind it.
    Atomic {
        word: usize,
        answer: usize,
        before: u64,
        behind: u64,
        opcode: WcOpcode,
    },
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    wr_id: u64,
    kind: Kind,
    signaled: bool,
    /// The contents of the peer's targets at that time: the last Write of each that was posted before, this one included.
    before: [Option<u64>; SLOTS],
}

/// One end. The model of its memory outlives its queue pair, because the peer's checks read it.
pub(crate) struct End {
    /// `None` once the queue pair is destroyed.
    pub(crate) qp: Option<Arc<QueuePair>>,
    pub(crate) number: u32,
    region: Option<Arc<MemoryRegion>>,
    /// The places of the completion queues of requests and of Receives in [`Run`](crate::run::Run).
    pub(crate) queues: [usize; 2],
    /// The queue pair takes shared Receives.
    pub(crate) is_sharing: bool,
    /// The queue pair has a completion queue of its device.
    pub(crate) shares_queues: bool,
    buffer: Buffer,
    first: u64,
    key: u32,
    seed: u64,
    next: u64,
    outstanding: VecDeque<Outstanding>,
    /// Receives of the queue pair's own queue, in their order, and the slot of each.
    receives: VecDeque<(u64, usize)>,
    /// The last shared Receive that the queue pair has taken.
    last_shared: u64,
    free_receives: Vec<usize>,
    free_sinks: Vec<usize>,
    free_answers: Vec<usize>,
    /// The peer's words once all Atomics of this end that were posted are carried out. They never fall.
    words: [u64; COUNT_OF_WORDS],
    /// The number of the last Write to each target of the peer, and the octets written.
    written: [Option<(u64, Stretch)>; SLOTS],
    /// Messages sent and not yet received by the peer.
    pub(crate) sent: VecDeque<Message>,
    has_failed: [bool; 2],
    /// A request succeeds when all Writes before it are placed.
    pub(crate) confirms_writes: bool,
    /// A Send with a number was posted.
    pub(crate) has_announced: bool,
}

/// Receives that ends of one device share.
pub(crate) struct SharedReceives {
    pub(crate) srq: Arc<SharedReceiveQueue>,
    pub(crate) region: Arc<MemoryRegion>,
    buffer: Buffer,
    posted: HashMap<u64, usize>,
    free: Vec<usize>,
    next: u64,
    /// The most Receives that have vanished with destroyed queue pairs.
    vanished: usize,
}

impl SharedReceives {
    pub(crate) fn new(pd: &Arc<ProtectionDomain>, srq: Arc<SharedReceiveQueue>) -> Self {
        let buffer = Buffer::new(SHARED_SLOTS * usize::try_from(SLOT).unwrap());
        Self {
            srq,
            region: region(pd, &buffer),
            buffer,
            posted: HashMap::new(),
            free: (0..SHARED_SLOTS).collect(),
            next: 1 << 40,
            vanished: 0,
        }
    }

    /// Posts a Receive. Returns true if the queue had room.
    pub(crate) fn post(&mut self, seen: &mut Seen) -> bool {
        let Some(slot) = self.free.pop() else {
            return false; // the model does not know any more which memory is in use
        };
        self.next += 1;
        let sge = Sge {
            addr: self.region.first() + slot as u64 * SLOT,
            length: 2048,
            lkey: self.region.key(),
        };
        // A slot is used until the completion of its Receive was taken.
        let must = self.posted.len() < SHARED_DEPTH;
        let may = self.posted.len() < SHARED_DEPTH + self.vanished;
        match self.srq.post_receive(self.next, &[sge]) {
            Ok(()) => {
                assert!(may, "more Receives than the shared queue holds");
                assert_eq!(self.posted.insert(self.next, slot), None);
                true
            }
            Err(error) => {
                assert_eq!(error.errno(), Errno::NOMEM);
                assert!(!must, "a shared queue that is not full refuses");
                seen.met("refused: post_receive to a full shared queue");
                self.free.push(slot);
                false
            }
        }
    }

    /// No queue pair is left: fills the queue, which has to have the room of the Receives that were taken.
    pub(crate) fn check_room(&mut self, seen: &mut Seen) {
        while self.post(seen) {}
    }

    /// A queue pair was destroyed that may have taken as many Receives.
    pub(crate) fn vanish(&mut self, most: usize) {
        self.vanished += most;
    }
}

/// Returns true for the completion of a Receive. The kind of a failed one is the general one.
fn is_receive(completion: &WorkCompletion) -> bool {
    let kinds = [WcOpcode::Receive, WcOpcode::ReceiveImmediate];
    kinds.contains(&completion.opcode)
}

fn send_of_nothing() -> SendRequest<'static> {
    SendRequest {
        wr_id: 0,
        operation: SendOperation::Send,
        data: SendData::Inline(&[]),
        signaled: true,
        solicited: false,
        fence: false,
        to: None,
    }
}

fn region(pd: &Arc<ProtectionDomain>, buffer: &Buffer) -> Arc<MemoryRegion> {
    let access = AccessFlags::LOCAL_WRITE
        | AccessFlags::REMOTE_WRITE
        | AccessFlags::REMOTE_READ
        | AccessFlags::REMOTE_ATOMIC;
    MemoryRegion::register(pd, buffer, buffer.address(), access.bits()).unwrap()
}

/// The octet of a source.
fn octet(seed: u64, at: u64) -> u8 {
    let mixed = (seed.wrapping_mul(31) ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed.to_be_bytes()[0]
}

fn holds(buffer: &Buffer, at: u64, seed: u64, stretch: Stretch) -> bool {
    let mut octets = vec![0; stretch.length as usize];
    buffer.read(usize::try_from(at).unwrap(), &mut octets);
    let expected = (stretch.offset..).map(|at| octet(seed, at));
    octets
        .into_iter()
        .zip(expected)
        .all(|(found, wanted)| found == wanted)
}

impl End {
    /// The options of the queue pair of an end.
    pub(crate) fn options(
        cqs: [&Arc<CompletionQueue>; 2],
        shared: Option<&SharedReceives>,
    ) -> QpOptions {
        let [send_cq, receive_cq] = cqs.map(Arc::clone);
        QpOptions {
            service: Service::Reliable,
            send_cq,
            receive_cq,
            srq: shared.map(|shared| shared.srq.clone()),
            caps: QpCaps {
                max_send_wr: REQUESTS,
                max_recv_wr: u32::try_from(RECEIVE_SLOTS).unwrap(),
                max_send_sge: 2,
                max_recv_sge: 1,
                max_inline_data: 128,
            },
            signal_all: false,
        }
    }

    pub(crate) fn new(
        pd: &Arc<ProtectionDomain>,
        qp: Arc<QueuePair>,
        queues: [usize; 2],
        seed: u64,
    ) -> Self {
        let buffer = Buffer::new(usize::try_from(SIZE).unwrap());
        let source: Vec<u8> = (SOURCE..RECEIVES).map(|at| octet(seed, at)).collect();
        buffer.write(0, &source);
        let region = region(pd, &buffer);
        Self {
            number: qp.number(),
            is_sharing: qp.options().srq.is_some(),
            qp: Some(qp),
            first: region.first(),
            key: region.key(),
            region: Some(region),
            queues,
            shares_queues: false,
            buffer,
            seed,
            next: 0,
            outstanding: VecDeque::new(),
            receives: VecDeque::new(),
            last_shared: 0,
            free_receives: (0..RECEIVE_SLOTS).collect(),
            free_sinks: (0..SLOTS).collect(),
            free_answers: (0..ANSWER_SLOTS).collect(),
            words: [0; COUNT_OF_WORDS],
            written: [None; SLOTS],
            sent: VecDeque::new(),
            has_failed: [false; 2],
            confirms_writes: false,
            has_announced: false,
        }
    }

    /// The queue pair is gone, and with it all that it had outstanding.
    pub(crate) fn forget_queue_pair(&mut self) -> Option<Arc<QueuePair>> {
        self.outstanding.clear();
        self.receives.clear();
        self.qp.take()
    }

    pub(crate) fn take_region(&mut self) -> Option<Arc<MemoryRegion>> {
        self.region.take()
    }

    /// Posts a Receive to the queue pair's own queue. Returns true if the queue had room.
    pub(crate) fn post_receive(&mut self, seen: &mut Seen) -> bool {
        let Some(qp) = self.qp.clone() else {
            return false;
        };
        let Some(slot) = self.free_receives.pop() else {
            let posted = qp.post_receive(0, &[]);
            assert_eq!(posted.unwrap_err().errno(), Errno::NOMEM);
            seen.met("refused: post_receive to a full queue");
            return false;
        };
        self.next += 1;
        let sge = self.sge(RECEIVES + slot as u64 * SLOT, 2048);
        qp.post_receive(self.next, &[sge]).unwrap();
        self.receives.push_back((self.next, slot));
        true
    }

    pub(crate) fn receives_posted(&self) -> usize {
        self.receives.len()
    }

    fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: self.first + offset,
            length,
            lkey: self.key,
        }
    }

    /// Posts a request of a random kind. Returns true if the queue had room.
    /// With `knows_its_peer` a Send with a number is not refused. With `all_signaled` the request yields a completion in any case.
    pub(crate) fn post(
        &mut self,
        random: &mut Random,
        peer: &Self,
        (knows_its_peer, all_signaled): (bool, bool),
        seen: &mut Seen,
    ) -> bool {
        let Some(qp) = self.qp.clone() else {
            return false;
        };
        if self.outstanding.len() >= REQUESTS as usize {
            // Silent requests give their slots back when they are done.
            if self.signaled_left() == REQUESTS as usize {
                let posted = qp.post_send(&send_of_nothing());
                assert_eq!(posted.unwrap_err().errno(), Errno::NOMEM);
                seen.met("refused: post_send to a full queue");
            }
            return false;
        }
        self.next += 1;
        let wr_id = self.next;
        let length = u32::try_from(match random.below(4) {
            0 => 0,
            1 => random.below(129),
            _ => random.below(2049),
        })
        .unwrap();
        let stretch = Stretch {
            offset: random.below(RECEIVES - u64::from(length) + 1),
            length,
        };
        let mut from = self.sge(stretch.offset, length);
        let at_peer = |offset: u64| RemotePlace {
            addr: peer.first + offset,
            rkey: peer.key,
        };
        let number = u32::try_from(wr_id).unwrap().to_le_bytes();
        let mut sent = None;
        let (kind, operation) = match random.below(8) {
            0 => {
                let slot = usize::try_from(random.below(SLOTS as u64)).unwrap();
                self.written[slot] = Some((wr_id, stretch));
                let place = at_peer(TARGETS + slot as u64 * SLOT);
                let operation = match random.once_in(2) {
                    true => SendOperation::Write(place),
                    false => {
                        sent = Some((Some(number), true));
                        SendOperation::WriteImmediate(place, number)
                    }
                };
                (Kind::Write(slot, stretch), operation)
            }
            1 => match self.free_sinks.pop() {
                Some(slot) => {
                    from = self.sge(SINKS + slot as u64 * SLOT, length);
                    let kind = Kind::Read(slot, stretch);
                    (kind, SendOperation::Read(at_peer(SOURCE + stretch.offset)))
                }
                None => return false,
            },
            2 => match self.free_answers.pop() {
                Some(answer) => {
                    from = self.sge(ANSWERS + answer as u64 * 8, 8);
                    self.atomic(random, answer, at_peer)
                }
                None => return false,
            },
            3 | 4 => {
                sent = Some((Some(number), false));
                (Kind::Send, SendOperation::SendImmediate(number))
            }
            _ => {
                sent = Some((None, false));
                (Kind::Send, SendOperation::Send)
            }
        };
        let is_answered = matches!(kind, Kind::Read(..) | Kind::Atomic { .. });
        let signaled = random.once_in(2) || all_signaled || is_answered;
        let is_inline = length <= 128 && !is_answered && random.once_in(2);
        let source: Vec<u8> = (stretch.offset..)
            .take(length as usize)
            .map(|at| octet(self.seed, at))
            .collect();
        let half = length / 2;
        let two = [
            Sge {
                length: half,
                ..from
            },
            Sge {
                addr: from.addr + u64::from(half),
                length: length - half,
                ..from
            },
        ];
        let pieces = [&source[..]];
        let one = [from];
        let sges = match random.once_in(3) && !matches!(kind, Kind::Atomic { .. }) {
            true => &two[..],
            false => &one[..],
        };
        let data = match is_inline {
            true => SendData::Inline(&pieces),
            false => SendData::Sges(sges),
        };
        let posted = qp.post_send(&SendRequest {
            wr_id,
            operation,
            data,
            signaled,
            solicited: random.once_in(4),
            fence: random.once_in(8),
            to: None,
        });
        if let (Err(error), SendOperation::SendImmediate(_)) = (&posted, operation) {
            assert_eq!((error.errno(), knows_its_peer), (Errno::OPNOTSUPP, false));
            seen.met("refused: a Send with a number");
            return false;
        }
        posted.unwrap();
        self.has_announced |= matches!(operation, SendOperation::SendImmediate(_));
        if let Some((number, is_write)) = sent {
            self.sent.push_back(Message {
                stretch,
                number,
                is_write,
            });
        }
        self.outstanding.push_back(Outstanding {
            wr_id,
            kind,
            signaled,
            before: self.written.map(|written| written.map(|(wr_id, _)| wr_id)),
        });
        true
    }

    /// An Atomic on a word of the peer: one that adds, or one that swaps, whose comparison holds or does not.
    fn atomic(
        &mut self,
        random: &mut Random,
        answer: usize,
        at_peer: impl Fn(u64) -> RemotePlace,
    ) -> (Kind, SendOperation) {
        let word = usize::try_from(random.below(COUNT_OF_WORDS as u64)).unwrap();
        let place = at_peer(WORDS + word as u64 * 8);
        let before = self.words[word];
        let number = 1 + random.below(1 << 40);
        let (behind, opcode, operation) = match random.below(3) {
            0 => {
                let swap = SendOperation::CompareSwap(place, before, before + number);
                (before + number, WcOpcode::CompareSwap, swap)
            }
            1 => {
                let other = before ^ (1 << random.below(64));
                let swap = SendOperation::CompareSwap(place, other, u64::MAX);
                (before, WcOpcode::CompareSwap, swap)
            }
            _ => {
                let add = SendOperation::FetchAdd(place, number);
                (before + number, WcOpcode::FetchAdd, add)
            }
        };
        self.words[word] = behind;
        let kind = Kind::Atomic {
            word,
            answer,
            before,
            behind,
            opcode,
        };
        (kind, operation)
    }

    /// Checks the word of the peer and the answer when an Atomic is complete: only later Atomics of this end may have changed the word since.
    fn check_atomic(&self, kind: Kind, completion: &WorkCompletion, peer: &PeerView<'_>) {
        let Kind::Atomic {
            word,
            answer,
            before,
            behind,
            opcode,
        } = kind
        else {
            return;
        };
        let number = |buffer: &Buffer, at: u64| {
            let mut octets = [0; 8];
            buffer.read(usize::try_from(at).unwrap(), &mut octets);
            u64::from_ne_bytes(octets)
        };
        assert_eq!((completion.opcode, completion.byte_len()), (opcode, 8));
        let answered = number(&self.buffer, ANSWERS + answer as u64 * 8);
        assert_eq!(answered, before, "the word before the Atomic");
        let now = number(peer.buffer, WORDS + word as u64 * 8);
        let possible = behind..=self.words[word];
        assert!(possible.contains(&now), "{now} is not in {possible:?}");
    }

    /// Checks a completion of the queue pair.
    pub(crate) fn check(
        &mut self,
        completion: &WorkCompletion,
        ends: Ends,
        peer: Option<PeerView<'_>>,
        shared: Option<&mut SharedReceives>,
        seen: &mut Seen,
    ) {
        assert!(
            self.qp.is_some(),
            "the queue pair is destroyed: {completion:?}"
        );
        let is_receive = is_receive(completion);
        // The results of the two queues may be in different completion queues.
        let may_have_failed = self.has_failed[0] || !self.outstanding.is_empty();
        let failed = &mut self.has_failed[usize::from(is_receive)];
        match completion.status {
            WcStatus::Flushed if is_receive && ends == Ends::Peer => {
                assert!(may_have_failed, "flushed by the peer's end: {completion:?}");
                *failed = true;
                seen.met("flushed because a request failed");
            }
            WcStatus::RetryExceeded if !is_receive && ends != Ends::Iwarp => {
                assert!(!*failed, "it fails once: {completion:?}");
                *failed = true;
                seen.met("failed: the peer had ended");
            }
            WcStatus::LocalQpOperation if !is_receive && ends != Ends::Iwarp => {
                assert!(!*failed, "it fails once: {completion:?}");
                *failed = true;
                seen.met("failed: a Send with a number, and a peer that is not known");
            }
            WcStatus::Success => assert!(!*failed, "success behind a failure: {completion:?}"),
            WcStatus::Flushed => {
                *failed = true;
                seen.met("flushed");
            }
            _ => panic!("{completion:?}"),
        }
        match is_receive {
            true => self.received_one(completion, peer, shared, seen),
            false => self.completed_one(completion, peer, seen),
        }
    }

    fn received_one(
        &mut self,
        completion: &WorkCompletion,
        peer: Option<PeerView<'_>>,
        shared: Option<&mut SharedReceives>,
        seen: &mut Seen,
    ) {
        let (buffer, at) = match shared.filter(|_| self.is_sharing) {
            Some(shared) => {
                let slot = shared.posted.remove(&completion.wr_id);
                let slot = slot.expect("a Receive that was posted, once");
                shared.free.push(slot);
                assert!(
                    completion.wr_id > self.last_shared,
                    "a queue pair takes shared Receives in their order"
                );
                self.last_shared = completion.wr_id;
                (&shared.buffer, slot as u64 * SLOT)
            }
            None => {
                let (wr_id, slot) = self.receives.pop_front().expect("a Receive");
                assert_eq!(wr_id, completion.wr_id, "Receives complete in their order");
                self.free_receives.push(slot);
                (&self.buffer, RECEIVES + slot as u64 * SLOT)
            }
        };
        if completion.status == WcStatus::Success {
            let peer = peer.expect("a peer with a queue pair");
            let message = peer.sent.pop_front().expect("a message that was sent");
            assert_eq!(completion.byte_len(), message.stretch.length);
            assert_eq!(completion.immediate, message.number);
            let opcode = match message.is_write {
                true => WcOpcode::ReceiveImmediate,
                false => WcOpcode::Receive,
            };
            assert_eq!(completion.opcode, opcode);
            assert!(
                message.is_write || holds(buffer, at, peer.seed, message.stretch),
                "the message's octets"
            );
            seen.met(match (message.is_write, message.number, self.is_sharing) {
                (true, ..) => "received: a Write with a number",
                (false, Some(_), true) => "received from a shared queue: a Send with a number",
                (false, Some(_), false) => "received: a Send with a number",
                (false, None, true) => "received from a shared queue",
                (false, None, false) => "received",
            });
        }
    }

    fn completed_one(
        &mut self,
        completion: &WorkCompletion,
        peer: Option<PeerView<'_>>,
        seen: &mut Seen,
    ) {
        let request = loop {
            let request = self.outstanding.pop_front();
            let request = request.expect("a request that is outstanding");
            if request.wr_id == completion.wr_id {
                break request;
            }
            assert!(!request.signaled, "{request:?} before {completion:?}");
            self.done(&request);
        };
        if completion.status == WcStatus::Success {
            assert!(request.signaled, "{completion:?}");
            seen.met("completed");
            let peer = peer.expect("a peer with a queue pair");
            if let Kind::Atomic { .. } = request.kind {
                self.check_atomic(request.kind, completion, &peer);
                seen.met("Atomic");
            }
            if let Kind::Read(slot, stretch) = request.kind {
                let at = SINKS + slot as u64 * SLOT;
                assert!(
                    holds(&self.buffer, at, peer.seed, stretch),
                    "the Read's octets"
                );
                assert_eq!(completion.byte_len(), stretch.length);
            }
            if self.confirms_writes || matches!(request.kind, Kind::Read(..)) {
                self.check_writes(request.before, &peer);
                seen.met("Writes before a request: placed");
            }
        }
        self.done(&request);
    }

    fn done(&mut self, request: &Outstanding) {
        match request.kind {
            Kind::Read(slot, ..) => self.free_sinks.push(slot),
            Kind::Atomic { answer, .. } => self.free_answers.push(answer),
            Kind::Send | Kind::Write(..) => {}
        }
    }

    /// The success of a request proves that the Writes before it were placed, of a Read in any case. Writes that a later one has replaced
    /// meanwhile are not checked.
    fn check_writes(&self, before: [Option<u64>; SLOTS], peer: &PeerView<'_>) {
        for (slot, (last, then)) in self.written.iter().zip(before).enumerate() {
            if let (Some((wr_id, stretch)), Some(then)) = (last, then)
                && *wr_id == then
            {
                let at = TARGETS + slot as u64 * SLOT;
                assert!(
                    holds(peer.buffer, at, self.seed, *stretch),
                    "a Write's octets"
                );
            }
        }
    }

    /// The requests that have not ended, without those that end silently.
    pub(crate) fn signaled_left(&self) -> usize {
        self.outstanding.iter().filter(|one| one.signaled).count()
    }

    /// Returns the parts that the other end's checks use.
    pub(crate) fn view(&mut self) -> PeerView<'_> {
        PeerView {
            seed: self.seed,
            buffer: &self.buffer,
            sent: &mut self.sent,
        }
    }
}

/// The state of the other end that an end's checks use.
pub(crate) struct PeerView<'a> {
    seed: u64,
    buffer: &'a Buffer,
    sent: &'a mut VecDeque<Message>,
}
