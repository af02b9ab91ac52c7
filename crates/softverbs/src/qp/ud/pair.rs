//! A queue pair for datagrams.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use iwarp_io::cq::QueueUser;
use iwarp_io::endpoint::queue_pair::{PairNotices, PairOwner, PairQueues, PairState};
use iwarp_io::endpoint::shared_receives::{TakenReceive, Waiter};
use iwarp_io::endpoint::{Completion, Owner, RequestKind, Rules, Sge as EngineSge, WorkQueue};
use iwarp_io::memory::{Memory as _, Pd, Table};
use parking_lot::{Mutex, MutexGuard};

use super::super::options::QpOptions;
use super::super::owner::ConnectionOwner;
use super::super::request::{Destination, SendData, SendOperation, SendRequest};
use super::super::state::QpState;
use super::header::DatagramHeader;
use super::sockets::{Addressee, Deferred, UdSockets, Watched};
use crate::ah::GlobalRoute;
use crate::context::{AsyncEventKind, Context, ContextConnection};
use crate::cq::{Armed, CompletionQueue, CqEntry, WcOpcode, WcStatus, WorkCompletion};
use crate::device::{Gid, limits};
use crate::dropped_datagrams::Dropped;
use crate::error::{Errno, Result, fail};
use crate::pd::ProtectionDomain;
use crate::process::Process;
use crate::qpn::{Port, Ports, port_of};
use crate::sge::Sge;
use crate::srq::{SharedReceiveQueue, SrqAttributes};
use crate::users::Subject;

/// The octets of the global routing header (GRH) in front of each message in its Receive.
const GRH: usize = 40;

/// The most SGEs of a Receive.
const SGES: usize = limits::SGES as usize;

/// See the [module](self).
pub(crate) struct DatagramPair {
    this: Weak<Self>,
    process: Arc<Process>,
    context: Arc<Context>,
    table: Arc<Table>,
    number: u32,
    pd: Pd,
    queues: PairQueues<Self>,
    /// The queue pair's own Receives, unless it uses a shared receive queue of the program.
    own_receives: Option<Arc<SharedReceiveQueue>>,
    /// The protection domain of the memory that Receives name.
    receive_pd: Pd,
    sockets: Arc<UdSockets>,
    #[expect(dead_code, reason = "the port exists as long as its queue pairs")]
    port: Arc<Port>,
    /// A [`QpState`].
    state: AtomicU8,
    key: AtomicU32,
    is_muted: AtomicBool,
    subject: Arc<Subject>,
    /// Requests of the send queue, SGEs of each, and octets of a message: the most.
    depth: u32,
    sges: usize,
    inline: usize,
    mtu: usize,
    signal_all: bool,
    locked: Mutex<Locked>,
    watched: Mutex<Option<Watched>>,
}

struct Locked {
    pair: PairState<DatagramPair>,
    /// Requests of the send queue that have their slots.
    used: u64,
    /// Requests for which the socket had no room, in order.
    waiting: VecDeque<Waiting>,
    /// The last datagram that was put together.
    octets: Vec<u8>,
}

/// A request that the socket has not taken.
struct Waiting {
    from: IpAddr,
    to: SocketAddr,
    octets: Vec<u8>,
    wr_id: u64,
    signaled: bool,
}

/// What has to be done once the queue pair is unlocked. Dropping it does it.
struct PairNotes {
    pair: Arc<DatagramPair>,
    notices: Option<PairNotices<DatagramPair>>,
}

impl Drop for PairNotes {
    fn drop(&mut self) {
        if let Some(notices) = self.notices.take() {
            self.pair.deliver(notices);
        }
    }
}

impl fmt::Debug for DatagramPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramPair")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl DatagramPair {
    /// Makes a queue pair in RESET, whose number names a port.
    pub(crate) fn create(pd: &Arc<ProtectionDomain>, options: &QpOptions) -> Result<Arc<Self>> {
        let context = pd.context();
        let process = context.process();
        let engine = process.engine()?;
        let device = context.device();
        let own_receives = match &options.srq {
            Some(_) => None,
            None => Some(SharedReceiveQueue::create(
                pd,
                SrqAttributes {
                    max_wr: options.caps.max_recv_wr.max(1),
                    max_sge: options.caps.max_recv_sge,
                    limit: 0,
                },
            )?),
        };
        let srq = own_receives.clone().or_else(|| options.srq.clone());
        let receives = srq.as_ref();
        let receives = receives.map(|srq| (Arc::clone(srq), &srq.receives));
        let receive_pd = options.srq.as_ref().map_or(pd, |srq| srq.pd()).number();
        let ports = Ports::of(process);
        let (number, port) = ports.take(process, device)?;
        let sockets = port.shared(|| UdSockets::open(process, device, port.udp(), port.number()));
        let sockets = sockets.inspect_err(|_| ports.give_back(device, number))?;
        let pair = Arc::new_cyclic(|this: &Weak<Self>| Self {
            this: this.clone(),
            process: Arc::clone(process),
            context: Arc::clone(context),
            table: Arc::clone(&engine.table),
            number,
            pd: pd.number(),
            queues: PairQueues::new(
                Arc::clone(&options.send_cq),
                Arc::clone(&options.receive_cq),
                receives,
                this.clone(),
            ),
            own_receives,
            receive_pd,
            sockets,
            port,
            state: AtomicU8::new(QpState::Reset as u8),
            key: AtomicU32::new(0),
            is_muted: AtomicBool::new(false),
            subject: Arc::default(),
            depth: options.caps.max_send_wr,
            sges: options.caps.max_send_sge.max(1) as usize,
            inline: options.caps.max_inline_data as usize,
            mtu: device.mtu() as usize,
            signal_all: options.signal_all,
            locked: Mutex::new(Locked {
                pair: PairState::default(),
                used: 0,
                waiting: VecDeque::new(),
                octets: Vec::new(),
            }),
            watched: Mutex::new(None),
        });
        pair.queues.attach(Arc::downgrade(&pair));
        let closing: Weak<dyn ContextConnection> = pair.this.clone();
        context.ends(closing);
        Ok(pair)
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn subject(&self) -> &Arc<Subject> {
        &self.subject
    }

    pub(crate) fn state(&self) -> QpState {
        QpState::from_bits(self.state.load(Ordering::Acquire))
    }

    pub(crate) fn set_state(&self, state: QpState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Sets the Q_Key.
    pub(crate) fn set_key(&self, key: u32) {
        self.key.store(key, Ordering::Relaxed);
    }

    /// The change to RTR: datagrams are received from now on.
    pub(crate) fn make_ready(&self) -> Result<()> {
        let watched = self.sockets.watch(self.domain(WorkQueue::Receive))?;
        *self.watched.lock() = Some(watched);
        self.set_state(QpState::Rtr);
        let addressee: Weak<dyn Addressee> = self.this.clone();
        self.sockets.add(self.number, addressee);
        Ok(())
    }

    /// Back to RESET: requests and completions vanish.
    pub(crate) fn reset(&self) {
        self.is_muted.store(true, Ordering::SeqCst);
        self.leave();
        let mut locked = self.locked.lock();
        locked.waiting.clear();
        locked.used = 0;
        self.give_up_receives(&mut locked, None);
        let notes = self.settle(locked);
        drop(notes);
        self.remove_completions();
        self.locked.lock().pair.forget_untaken();
        self.set_state(QpState::Reset);
        self.is_muted.store(false, Ordering::SeqCst);
    }

    /// To ERR: requests come back flushed.
    pub(crate) fn fail(&self) {
        let locked = self.locked.lock();
        drop(self.fail_locked(locked));
    }

    fn fail_locked(&self, mut locked: MutexGuard<'_, Locked>) -> Option<PairNotes> {
        let before = self.state();
        self.set_state(QpState::Err);
        for waiting in std::mem::take(&mut locked.waiting) {
            self.completed_send(&mut locked, waiting.wr_id, WcStatus::Flushed, true);
        }
        self.give_up_receives(&mut locked, Some(WcStatus::Flushed));
        let notes = self.settle(locked);
        if self.own_receives.is_none()
            && matches!(before, QpState::Rtr | QpState::Rts | QpState::Sqe)
        {
            let subject = Some(&self.subject);
            self.context
                .raise(AsyncEventKind::LastReceiveReached, subject);
        }
        notes
    }

    /// The program has destroyed the queue pair.
    pub(crate) fn release(&self) {
        if self.is_muted.swap(true, Ordering::SeqCst) {
            return;
        }
        self.leave();
        let mut locked = self.locked.lock();
        locked.waiting.clear();
        self.give_up_receives(&mut locked, None);
        let notes = self.settle(locked);
        drop(notes);
        self.remove_completions();
        // No event names the queue pair's own Receives, so nothing is waited for.
        let _ = self.own_receives.as_ref().map(|own| own.destroy());
        self.process.numbers.release(self.number);
        Ports::of(&self.process).give_back(self.context.device(), self.number);
    }

    /// No datagram is received any more.
    fn leave(&self) {
        self.sockets.remove(self.number);
        let watched = self.watched.lock().take();
        drop(watched);
    }

    /// Drops the completions that the program has not taken.
    fn remove_completions(&self) {
        let removed = self.queues.receive.remove(self.number);
        if let Some((_, membership)) = &self.queues.shared {
            membership.removed(&removed);
        }
        if !self.queues.is_one() {
            self.queues.initiator.remove(self.number);
        }
    }

    /// Ends the queue pair's own Receives with this status, or without completions.
    fn give_up_receives(&self, locked: &mut Locked, status: Option<WcStatus>) {
        let (Some(_), Some((_, membership))) = (&self.own_receives, &self.queues.shared) else {
            return;
        };
        while let TakenReceive::Taken(wr_id) = membership.take_for(0, |wr_id, _| wr_id) {
            match status {
                Some(status) => {
                    let entry = self.entry(wr_id, status, WcOpcode::Receive);
                    locked.pair.push(RequestKind::Receive, entry, &self.queues);
                }
                None => membership.vanished(),
            }
        }
    }

    fn entry(&self, wr_id: u64, status: WcStatus, opcode: WcOpcode) -> CqEntry {
        CqEntry {
            completion: WorkCompletion {
                wr_id,
                status,
                opcode,
                qp_num: self.number,
                ..WorkCompletion::default()
            },
            solicited: false,
        }
    }

    /// Places results, and unlocks the queue pair. Returns what has to be done then.
    fn settle(&self, mut locked: MutexGuard<'_, Locked>) -> Option<PairNotes> {
        let state = &mut locked.pair;
        Owner::place(self, state);
        if !Self::has_notices(state) {
            return None;
        }
        let notices = self.take_notices(state, Default::default());
        drop(locked);
        let pair = self.this.upgrade()?;
        Some(PairNotes {
            pair,
            notices: Some(notices),
        })
    }

    // ---- sending ----

    /// Posts a request to the send queue.
    pub(crate) fn post(&self, request: &SendRequest<'_>) -> Result<()> {
        let immediate = match request.operation {
            SendOperation::Send => None,
            SendOperation::SendImmediate(number) => Some(number),
            _ => {
                return fail(
                    Errno::INVAL,
                    "a queue pair for datagrams (IBV_QPT_UD) sends, and does nothing else",
                );
            }
        };
        let Some(to) = request.to else {
            return fail(
                Errno::INVAL,
                "a datagram needs an address handle (wr.ud.ah)",
            );
        };
        let length = self.length(request.data)?;
        let mut locked = self.locked.lock();
        let state = self.state();
        if (state as u8) < QpState::Rts as u8 {
            return fail(
                Errno::INVAL,
                "requests are posted to a queue pair in RTS: move the queue pair there first",
            );
        }
        self.take_slot(&mut locked)?;
        let signaled = request.signaled || self.signal_all;
        if matches!(state, QpState::Sqe | QpState::Err) {
            self.completed_send(&mut locked, request.wr_id, WcStatus::Flushed, true);
            drop(self.settle(locked));
            return Ok(());
        }
        let header = self.header(&to, immediate, request.solicited);
        let route = to.handle.route();
        if !self.gather(&mut locked.octets, &header, request.data, length) {
            self.set_state(QpState::Sqe);
            self.completed_send(&mut locked, request.wr_id, WcStatus::LocalProtection, true);
            drop(self.settle(locked));
            return Ok(());
        }
        self.send(&mut locked, route, to.number, request.wr_id, signaled);
        drop(self.settle(locked));
        Ok(())
    }

    fn header(
        &self,
        to: &Destination<'_>,
        immediate: Option<[u8; 4]>,
        solicited: bool,
    ) -> DatagramHeader {
        const OWN: u32 = 1 << 31;
        let key = match to.key & OWN {
            0 => to.key,
            _ => self.key.load(Ordering::Relaxed),
        };
        DatagramHeader {
            from: self.number,
            to: to.number,
            key,
            immediate,
            solicited,
        }
    }

    /// The octets of a message.
    fn length(&self, data: SendData<'_>) -> Result<usize> {
        let length = match data {
            SendData::Inline(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
            SendData::Sges(sges) if sges.len() > self.sges => {
                return fail(
                    Errno::INVAL,
                    format!("{} SGEs; a request has at most {}", sges.len(), self.sges),
                );
            }
            SendData::Sges(sges) => sges
                .iter()
                .fold(0_usize, |sum, sge| sum.saturating_add(sge.length as usize)),
        };
        if matches!(data, SendData::Inline(_)) && length > self.inline {
            return fail(
                Errno::INVAL,
                "more inline data than max_inline_data of the queue pair",
            );
        }
        if length > self.mtu {
            return fail(
                Errno::INVAL,
                format!(
                    "a datagram of {length} octets: it has at most those of the port's active_mtu, {}",
                    self.mtu
                ),
            );
        }
        Ok(length)
    }

    /// Takes a slot of the send queue for a request, which has it until the program has taken its completion.
    fn take_slot(&self, locked: &mut Locked) -> Result<()> {
        if locked.used >= u64::from(self.depth) {
            let taken = self.taken(&mut locked.pair, WorkQueue::Initiator);
            locked.used = locked.used.saturating_sub(taken);
            if locked.used >= u64::from(self.depth) {
                return fail(Errno::NOMEM, "the send queue is full: poll for completions");
            }
        }
        locked.used += 1;
        Ok(())
    }

    /// Puts a datagram together. Returns false if memory that it names is not there for the queue pair.
    fn gather(
        &self,
        octets: &mut Vec<u8>,
        header: &DatagramHeader,
        data: SendData<'_>,
        length: usize,
    ) -> bool {
        octets.clear();
        octets.extend_from_slice(&header.encode());
        match data {
            SendData::Inline(pieces) => {
                pieces
                    .iter()
                    .for_each(|piece| octets.extend_from_slice(piece));
                true
            }
            SendData::Sges(sges) => {
                octets.resize(DatagramHeader::LENGTH + length, 0);
                let mut rest = &mut octets[DatagramHeader::LENGTH..];
                sges.iter().all(|sge| {
                    let (piece, behind) =
                        std::mem::take(&mut rest).split_at_mut(sge.length as usize);
                    rest = behind;
                    piece.is_empty()
                        || self
                            .table
                            .fetch_local(sge.engine(), self.pd, piece, None)
                            .is_ok()
                })
            }
        }
    }

    /// Sends the datagram that was put together, or keeps it until the socket has room.
    fn send(
        &self,
        locked: &mut Locked,
        route: &GlobalRoute,
        number: u32,
        wr_id: u64,
        signaled: bool,
    ) {
        // A number without a port is that of a queue pair that receives no datagrams.
        let Some(port) = port_of(number) else {
            return self.completed_send(locked, wr_id, WcStatus::Success, signaled);
        };
        let (from, to) = (route.own(), SocketAddr::new(route.peer(), port));
        if locked.waiting.is_empty() {
            match self.sockets.send(from, to, &locked.octets) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => {
                    if sent.is_err() {
                        self.process.datagrams.count(Dropped::NotSent);
                    }
                    return self.completed_send(locked, wr_id, WcStatus::Success, signaled);
                }
            }
        }
        let octets = std::mem::take(&mut locked.octets);
        locked.waiting.push_back(Waiting {
            from,
            to,
            octets,
            wr_id,
            signaled,
        });
    }

    /// A request of the send queue is done. Without a completion its slot is free at once.
    fn completed_send(&self, locked: &mut Locked, wr_id: u64, status: WcStatus, signaled: bool) {
        if !signaled || self.is_muted.load(Ordering::Relaxed) {
            locked.used = locked.used.saturating_sub(1);
            return;
        }
        let entry = self.entry(wr_id, status, WcOpcode::Send);
        locked.pair.push(RequestKind::Send, entry, &self.queues);
    }

    // ---- receiving ----

    /// Posts a Receive.
    pub(crate) fn post_receive(&self, wr_id: u64, sges: &[Sge]) -> Result<()> {
        let Some(own) = &self.own_receives else {
            return fail(
                Errno::INVAL,
                "the queue pair uses a shared receive queue: post the Receive to that queue",
            );
        };
        if self.state() == QpState::Reset {
            return fail(
                Errno::INVAL,
                "Receives are posted to a queue pair in INIT or later",
            );
        }
        own.post_receive(wr_id, sges)?;
        if self.state() == QpState::Err {
            let mut locked = self.locked.lock();
            self.give_up_receives(&mut locked, Some(WcStatus::Flushed));
            drop(self.settle(locked));
        }
        Ok(())
    }

    /// Places these octets into the memory of a Receive, which is long enough, one behind the other. Returns false if memory is not there for
    /// the queue pair.
    fn place_all(&self, sges: &[EngineSge], pieces: [&[u8]; 2]) -> bool {
        let mut sges = sges.iter().copied().filter(|sge| sge.length > 0);
        let mut sge = EngineSge::default();
        for mut piece in pieces {
            while !piece.is_empty() {
                if sge.length == 0 {
                    match sges.next() {
                        Some(next) => sge = next,
                        None => return false,
                    }
                }
                let (now, rest) = piece.split_at(piece.len().min(sge.length as usize));
                if self.table.place_local(sge, self.receive_pd, now).is_err() {
                    return false;
                }
                #[expect(clippy::cast_possible_truncation, reason = "at most sge.length")]
                let placed = now.len() as u32;
                sge.address = sge.address.wrapping_add(u64::from(placed));
                sge.length -= placed;
                piece = rest;
            }
        }
        true
    }
}

impl Addressee for DatagramPair {
    fn has_room(&self) {
        let mut locked = self.locked.lock();
        while let Some(first) = locked.waiting.front() {
            match self.sockets.send(first.from, first.to, &first.octets) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                sent => {
                    if sent.is_err() {
                        self.process.datagrams.count(Dropped::NotSent);
                    }
                }
            }
            if let Some(sent) = locked.waiting.pop_front() {
                self.completed_send(&mut locked, sent.wr_id, WcStatus::Success, sent.signaled);
            }
        }
        drop(self.settle(locked));
    }

    fn received(
        &self,
        header: &DatagramHeader,
        gids: (Gid, Gid),
        octets: &[u8],
    ) -> std::result::Result<Option<Deferred>, Dropped> {
        let mut locked = self.locked.lock();
        let is_ready = matches!(self.state(), QpState::Rtr | QpState::Rts | QpState::Sqe);
        if !is_ready || self.is_muted.load(Ordering::Relaxed) {
            return Err(Dropped::UnknownNumber);
        }
        if header.key != self.key.load(Ordering::Relaxed) {
            return Err(Dropped::WrongKey);
        }
        let Some((_, membership)) = &self.queues.shared else {
            return Err(Dropped::NoReceive);
        };
        let length = u32::try_from(GRH + octets.len()).map_err(|_| Dropped::ReceiveTooShort)?;
        let taken = membership.take_for(length, |wr_id, sges| {
            let mut all = [EngineSge::default(); SGES];
            let count = sges.len().min(SGES);
            all[..count].copy_from_slice(&sges[..count]);
            (wr_id, all, count)
        });
        let (wr_id, sges, count) = match taken {
            TakenReceive::Taken(taken) => taken,
            TakenReceive::None => return Err(Dropped::NoReceive),
            TakenReceive::TooShort => return Err(Dropped::ReceiveTooShort),
        };
        let grh = global_routing_header(octets.len(), gids);
        if !self.place_all(&sges[..count], [&grh, octets]) {
            let entry = self.entry(wr_id, WcStatus::LocalProtection, WcOpcode::Receive);
            locked.pair.push(RequestKind::Receive, entry, &self.queues);
            return Ok(deferred(self.fail_locked(locked)));
        }
        let mut entry = self.entry(wr_id, WcStatus::Success, WcOpcode::Receive);
        entry.solicited = header.solicited;
        entry.completion.detail = length;
        entry.completion.immediate = header.immediate;
        entry.completion.source = Some(header.from);
        locked.pair.push(RequestKind::Receive, entry, &self.queues);
        Ok(deferred(self.settle(locked)))
    }
}

fn deferred(notes: Option<PairNotes>) -> Option<Deferred> {
    Some(Box::new(notes?))
}

/// The GRH of a message of this length from the first GID to the second one, in its form of IPv6.
fn global_routing_header(length: usize, (from, to): (Gid, Gid)) -> [u8; GRH] {
    const VERSION: u8 = 6;
    /// The next header is that of InfiniBand's transport.
    const NEXT: u8 = 0x1B;
    const HOPS: u8 = 64;
    let mut grh = [0; GRH];
    grh[0] = VERSION << 4;
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    grh[4..6].copy_from_slice(&length.to_be_bytes());
    (grh[6], grh[7]) = (NEXT, HOPS);
    grh[8..24].copy_from_slice(&from);
    grh[24..].copy_from_slice(&to);
    grh
}

impl Rules for DatagramPair {
    fn number(&self) -> Option<u32> {
        Some(self.number)
    }
}

impl PairOwner for DatagramPair {
    type Cq = CompletionQueue;
    type Srq = SharedReceiveQueue;
    type Entry = CqEntry;
    type Request = Armed;
    type Connection = dyn ConnectionOwner;
    type State = ();

    fn queues(&self) -> &PairQueues<Self> {
        &self.queues
    }

    /// No engine ends requests of this queue pair.
    fn ended(&self, state: &mut PairState<Self>, completion: Completion) {
        state.vanish(completion.kind, &self.queues);
    }

    fn gone(&self) {}
}

/// Datagrams do not wait for Receives.
impl Waiter for DatagramPair {
    fn receive_posted(&self) {}
}

impl QueueUser for DatagramPair {
    fn queue_broke(&self) {
        self.fail();
    }
}

impl ContextConnection for DatagramPair {
    fn context_closed(&self) {
        self.fail();
    }
}
