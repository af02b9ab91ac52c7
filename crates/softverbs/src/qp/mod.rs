//! Queue pairs of the reliable connected service. A queue pair is an endpoint of the driver, with the states of verbs around it.
//!
//! The connection manager gives a queue pair its stream. Either it moves the queue pair itself, which the program made for an identifier
//! (`rdma_create_qp`), or the program moves the queue pair: the number of the peer's queue pair is then the number of the connection,
//! which `rdma_init_qp_attr` names.

mod owner;
mod post;
mod state;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use iwarp_io::endpoint::lingering::AnyEndpoint;
use iwarp_io::endpoint::queue_pair::{PairQueues, PairState};
use iwarp_io::endpoint::{
    ConnectionEnd, EndpointOptions, Phase, QueueSizes, RemoteRights, Scope, Start, StreamConfig,
};
use iwarp_io::planted;
use iwarp_io::transport::Transport;
use iwarp_io::transport::stream::Stream;
use parking_lot::Mutex;

pub(crate) use owner::{ConnectionOwner, QpDeferredWork, QpFlushGuard, Signals};
use owner::{QpEndpoint, QpOwner};
pub use post::{RemotePlace, SendData, SendList, SendOperation, SendRequest};
use state::check_transition;
pub use state::{QpAttributes, QpMask, QpState};

use crate::context::ContextConnection;
use crate::cq::CompletionQueue;
use crate::device::{DeviceKind, limits};
use crate::error::{Errno, Error, Result, fail};
use crate::mr::AccessFlags;
use crate::pd::ProtectionDomain;
use crate::process::FIRST_QUEUE_PAIR;
use crate::qpn::{Deferred, Line, Patience, Ports, StreamTaker};
use crate::srq::SharedReceiveQueue;
use crate::users::{Tag, User};

/// The time for which the peer may take to end its direction after this side has ended the connection.
const END_WITHIN: Duration = Duration::from_secs(10);

/// The octets of an SGE in the queues of most devices.
const SGE_OCTETS: u32 = 16;

/// The properties of a new queue pair, as in `struct ibv_qp_init_attr`.
#[derive(Clone, Debug)]
pub struct QpOptions {
    /// The completion queue of requests of the send queue.
    pub send_cq: Arc<CompletionQueue>,
    /// The completion queue of Receives.
    pub receive_cq: Arc<CompletionQueue>,
    /// The queue that Receives come from, if not the queue pair's own queue.
    pub srq: Option<Arc<SharedReceiveQueue>>,
    /// The sizes.
    pub caps: QpCaps,
    /// Every request of the send queue yields a completion (`sq_sig_all`).
    pub signal_all: bool,
}

/// The sizes of a queue pair, as in `struct ibv_qp_cap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCaps {
    /// Requests in the send queue.
    pub max_send_wr: u32,
    /// Receives.
    pub max_recv_wr: u32,
    /// SGEs of a request in the send queue.
    pub max_send_sge: u32,
    /// SGEs of a Receive.
    pub max_recv_sge: u32,
    /// Octets of inline data. A queue pair is granted at least 16 for each SGE of a request, up to the device's limit.
    pub max_inline_data: u32,
}

impl QpCaps {
    /// Grants the inline data for which drivers find room in the SGEs of a request: programs send as much without having asked for it.
    fn grant_inline(&mut self) {
        let room = self.max_send_sge * SGE_OCTETS;
        self.max_inline_data = self.max_inline_data.max(room.min(limits::INLINE));
    }

    fn check(self) -> Result<()> {
        let limits = [
            ("max_send_wr", self.max_send_wr, limits::REQUESTS),
            ("max_recv_wr", self.max_recv_wr, limits::REQUESTS),
            ("max_send_sge", self.max_send_sge, limits::SGES),
            ("max_recv_sge", self.max_recv_sge, limits::SGES),
            ("max_inline_data", self.max_inline_data, limits::INLINE),
        ];
        for (name, wanted, most) in limits {
            if wanted > most {
                return fail(
                    Errno::INVAL,
                    format!("{name} is {wanted}; the device allows {most}"),
                );
            }
        }
        Ok(())
    }
}

/// A queue pair. Dropping it ends its connection.
pub struct QueuePair {
    pd: Arc<ProtectionDomain>,
    endpoint: Arc<QpEndpoint>,
    options: QpOptions,
    attributes: Mutex<QpAttributes>,
    is_destroyed: AtomicBool,
    /// The way to a stream, if the number names a port.
    line: Option<Arc<Line>>,
    /// The queue pair counts as a user of its protection domain and its queues.
    users: Vec<User>,
}

/// A connection that waits for the queue pair that carries it.
pub(crate) trait PendingConnection: Send + Sync {
    /// The program has named the connection in its change of a queue pair to RTR.
    fn attach(&self, queue_pair: &Arc<QueuePair>) -> Result<()>;
}

/// The connection that a number names.
pub(crate) struct ConnectionNumber(pub(crate) Weak<dyn PendingConnection>);

impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair")
            .field("number", &self.number())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl QueuePair {
    /// Makes a queue pair in RESET. On devices for RoCE its number names a port, at which peers find it.
    ///
    /// # Errors
    ///
    /// EINVAL above the device's limits, and for queues of another context or protection domain; ENOMEM; EADDRINUSE if no port is free.
    pub fn create(pd: &Arc<ProtectionDomain>, options: QpOptions) -> Result<Arc<Self>> {
        let is_numbered = pd.context().device().kind() == DeviceKind::Roce;
        Self::make(pd, options, is_numbered)
    }

    /// Makes a queue pair for the connection manager, whose number names no port.
    pub(crate) fn create_without_port(
        pd: &Arc<ProtectionDomain>,
        options: QpOptions,
    ) -> Result<Arc<Self>> {
        Self::make(pd, options, false)
    }

    fn make(
        pd: &Arc<ProtectionDomain>,
        mut options: QpOptions,
        is_numbered: bool,
    ) -> Result<Arc<Self>> {
        if options.srq.is_some() {
            // The queue pair's own queue is not used.
            options.caps.max_recv_wr = 0;
        }
        options.caps.check()?;
        options.caps.grant_inline();
        let context = pd.context();
        for cq in [&options.send_cq, &options.receive_cq] {
            if !Arc::ptr_eq(cq.context(), context) {
                return fail(Errno::INVAL, "the completion queue is of another context");
            }
        }
        let process = context.process();
        let engine = process.engine()?;
        let device = context.device();
        let line = match is_numbered {
            true => Some(Ports::of(process).take(process, device)?),
            false => None,
        };
        let number = match &line {
            Some((number, _)) => *number,
            None => process.numbers.take_queue_pair()?,
        };
        let line = line.map(|number| Line::new(process, device, number));
        let stream = process.next_stream();
        let srq = options.srq.clone();
        let owner = |this: &Weak<QpEndpoint>| QpOwner {
            process: Arc::clone(process),
            context: Arc::clone(context),
            number,
            stream: AtomicU32::new(stream.0),
            queues: PairQueues::new(
                Arc::clone(&options.send_cq),
                Arc::clone(&options.receive_cq),
                srq.as_ref().map(|srq| (Arc::clone(srq), &srq.receives)),
                this.clone(),
            ),
            state: AtomicU8::new(QpState::Reset as u8),
            subject: Arc::default(),
            is_muted: AtomicBool::new(false),
            line: line.as_ref().map(Arc::downgrade),
        };
        let endpoint_options = EndpointOptions {
            sizes: sizes(&options),
            scope: Scope {
                pd: pd.number(),
                stream,
            },
            receive_pd: srq.as_ref().map_or(pd, |srq| srq.pd()).number(),
            end_within: Some(END_WITHIN),
            early_posts: true,
            // A peer that is gone tells an adapter of InfiniBand nothing; one of iWARP sees the end of the stream.
            keeps_receives: context.device().kind() == DeviceKind::Roce,
        };
        let driver = Arc::clone(&engine.driver);
        let made = QpEndpoint::new(driver, endpoint_options, owner, PairState::default());
        let endpoint = made.map_err(|_| {
            process.numbers.release(number);
            Error::new(Errno::NOMEM, "there is no memory for the queue pair")
        })?;
        endpoint.owner().queues.attach(Arc::downgrade(&endpoint));
        if let Some(line) = &line {
            let taker: Weak<dyn StreamTaker> = Arc::<QpEndpoint>::downgrade(&endpoint);
            line.serve(taker);
        }
        let ending: Weak<dyn AnyEndpoint> = Arc::<QpEndpoint>::downgrade(&endpoint);
        process.ends(ending);
        let closing: Weak<dyn ContextConnection> = Arc::<QpEndpoint>::downgrade(&endpoint);
        context.ends(closing);
        let mut users = vec![
            pd.users.add(),
            options.send_cq.users.add(),
            options.receive_cq.users.add(),
        ];
        users.extend(srq.map(|srq| srq.users.add()));
        let queue_pair = Arc::new(Self {
            users,
            pd: Arc::clone(pd),
            endpoint,
            options,
            attributes: Mutex::default(),
            is_destroyed: AtomicBool::new(false),
            line,
        });
        let named: Weak<dyn Any + Send + Sync> = Arc::<Self>::downgrade(&queue_pair);
        process.numbers.set(number, named);
        Ok(queue_pair)
    }

    /// The number of the queue pair: 24 bits, at least 0x10000.
    pub fn number(&self) -> u32 {
        self.endpoint.owner().number
    }

    /// The protection domain.
    pub fn pd(&self) -> &Arc<ProtectionDomain> {
        &self.pd
    }

    /// Returns the options that the queue pair was made with. The sizes are those that were granted.
    pub fn options(&self) -> &QpOptions {
        &self.options
    }

    /// The caller's number.
    pub fn tag(&self) -> &Tag {
        &self.endpoint.owner().subject.tag
    }

    /// The state.
    pub fn state(&self) -> QpState {
        self.endpoint.owner().state()
    }

    /// The attributes, with the present state. Drivers of RNICs know no RESET: a fresh queue pair is in INIT there.
    pub fn query(&self) -> QpAttributes {
        let state = match self.state() {
            QpState::Reset if self.kind() == DeviceKind::Iwarp => QpState::Init,
            state => state,
        };
        QpAttributes {
            state,
            cur_state: state,
            ..*self.attributes.lock()
        }
    }

    /// Changes attributes and the state.
    ///
    /// A change to RTR names a connection of the connection manager as `dest_qp_num`, which then uses this queue pair, or the peer's queue pair
    /// by its number and GID. In the second case the call returns at once, and the connection follows.
    ///
    /// # Errors
    ///
    /// EINVAL for a change that is not allowed, for missing attributes, and for values that do not exist; EOPNOTSUPP if `dest_qp_num` names
    /// no connection, and this queue pair has no port.
    pub fn modify(self: &Arc<Self>, attributes: &QpAttributes, mask: QpMask) -> Result<()> {
        let from = self.state();
        if mask.contains(QpMask::CUR_STATE) && attributes.cur_state != from {
            return fail(
                Errno::INVAL,
                format!(
                    "the queue pair is in {from:?}, not in {:?}",
                    attributes.cur_state
                ),
            );
        }
        let to = match mask.contains(QpMask::STATE) {
            true => attributes.state,
            false => from,
        };
        let is_iwarp = self.kind() == DeviceKind::Iwarp;
        check_transition(from, to, mask, is_iwarp)?;
        attributes.check(mask, self.pd.context().device())?;
        match to {
            QpState::Reset => self.reset()?,
            QpState::Err => self.fail(),
            QpState::Rtr if from == QpState::Init => self.make_ready(attributes, mask)?,
            to => self.endpoint.owner().set_state(to),
        }
        if mask.contains(QpMask::ACCESS_FLAGS) {
            let access = AccessFlags::from_bits_truncate(attributes.access);
            self.endpoint.set_remote_rights(RemoteRights {
                read: access.contains(AccessFlags::REMOTE_READ),
                write: access.contains(AccessFlags::REMOTE_WRITE),
                atomic: access.contains(AccessFlags::REMOTE_ATOMIC),
            });
        }
        self.attributes.lock().take(attributes, mask);
        if let Some(line) = &self.line
            && (from, to) == (QpState::Rtr, QpState::Rts)
        {
            let QpAttributes {
                timeout,
                retry_cnt,
                max_rd_atomic,
                ..
            } = *attributes;
            line.set_patience(Patience::new(timeout, retry_cnt, max_rd_atomic));
        }
        if to == QpState::Rts {
            self.limit_silence();
        }
        Ok(())
    }

    /// Lets requests fail whose peer's host is gone, after the time that follows from the attributes.
    fn limit_silence(&self) {
        // Only TCP says what a peer's host has acknowledged.
        let process = &self.endpoint.owner().process;
        let is_over_tcp = matches!(process.transport(), Transport::Tcp(_));
        if self.kind() == DeviceKind::Roce && is_over_tcp {
            let known = *self.attributes.lock();
            let patience = Patience::new(known.timeout, known.retry_cnt, known.max_rd_atomic);
            self.endpoint.set_patience(patience.limit);
        }
    }

    pub(crate) fn kind(&self) -> DeviceKind {
        self.pd.context().device().kind()
    }

    /// The change to RTR.
    fn make_ready(self: &Arc<Self>, attributes: &QpAttributes, mask: QpMask) -> Result<()> {
        let owner = self.endpoint.owner();
        let number = attributes.dest_qp_num;
        let is_named = mask.contains(QpMask::DEST_QPN) && number < FIRST_QUEUE_PAIR;
        if let Some(line) = self.line.as_ref().filter(|_| !is_named) {
            let route = attributes.address.check(self.pd.context().device())?;
            // A call that was held may start the stream at once.
            owner.set_state(QpState::Rtr);
            let armed = line.arm(number, route);
            return armed.inspect_err(|_| owner.set_state(QpState::Init));
        }
        let connection = match is_named {
            true => owner.process.numbers.find::<ConnectionNumber>(number),
            false => None,
        };
        let connection = connection.and_then(|connection| connection.0.upgrade());
        let Some(connection) = connection else {
            return fail(
                Errno::OPNOTSUPP,
                format!(
                    "queue pair {number:#x} is no connection of rdma_cm here: this queue pair is connected with rdma_connect and rdma_accept"
                ),
            );
        };
        owner.set_state(QpState::Rtr);
        let attached = connection.attach(self);
        attached.inspect_err(|_| owner.set_state(QpState::Init))
    }

    /// Back to RESET: the connection ends, and requests and completions vanish.
    fn reset(&self) -> Result<()> {
        let owner = self.endpoint.owner();
        owner.is_muted.store(true, Ordering::SeqCst);
        if let Some(line) = &self.line {
            line.reset();
        }
        if self.kind() == DeviceKind::Roce {
            self.detach()?;
        }
        drop(self.endpoint.abort(ConnectionEnd::Disconnected));
        let stream = owner.process.next_stream();
        self.remove_completions();
        let is_new = self.endpoint.renew(stream);
        owner.is_muted.store(false, Ordering::SeqCst);
        if !is_new {
            return fail(
                Errno::BUSY,
                "the last connection of the queue pair is about to end: try again",
            );
        }
        owner.stream.store(stream.0, Ordering::Relaxed);
        self.endpoint.with(|_, state| {
            state.connection = None;
            state.forget_untaken();
        });
        owner.set_state(QpState::Reset);
        *self.attributes.lock() = QpAttributes::default();
        Ok(())
    }

    /// Moves the connection to an endpoint that ends it in order, while this queue pair begins anew.
    fn detach(&self) -> Result<()> {
        let owner = self.endpoint.owner();
        let stream = owner.stream();
        let (send_cq, receive_cq) = (&owner.queues.initiator, &owner.queues.receive);
        let ending = |this: &Weak<QpEndpoint>| QpOwner {
            process: Arc::clone(&owner.process),
            context: Arc::clone(&owner.context),
            number: owner.number,
            stream: AtomicU32::new(stream.0),
            queues: PairQueues::new(send_cq.clone(), receive_cq.clone(), None, this.clone()),
            state: AtomicU8::new(QpState::Err as u8),
            subject: Arc::default(),
            is_muted: AtomicBool::new(true),
            line: None,
        };
        let state = |own: &mut PairState<QpOwner>| {
            let mut ending = PairState::default();
            ending.connection = own.connection.take();
            ending
        };
        let detached = self.endpoint.detach(ending, state);
        let (ending, deferred) = detached
            .map_err(|_| Error::new(Errno::NOMEM, "there is no memory for the queue pair"))?;
        drop(deferred);
        if let Some(ending) = ending {
            let any: Weak<dyn AnyEndpoint> = Arc::<QpEndpoint>::downgrade(&ending);
            owner.process.ends(any);
            owner.process.lingering.keep(stream, &ending);
        }
        Ok(())
    }

    /// To ERR: the connection ends, and requests come back flushed.
    fn fail(&self) {
        self.endpoint.owner().set_state(QpState::Err);
        if let Some(line) = &self.line {
            line.end();
        }
        drop(self.endpoint.end().1);
    }

    /// Prepares to release the queue pair: ends its connection, drops its requests and the completions that were not taken, and waits until its
    /// events are acknowledged.
    ///
    /// # Errors
    ///
    /// EINVAL if the queue pair was destroyed before.
    pub fn destroy(&self) -> Result<()> {
        if self.is_destroyed.swap(true, Ordering::SeqCst) {
            return fail(Errno::INVAL, "the queue pair was destroyed before");
        }
        self.release();
        self.users.iter().for_each(User::release);
        let owner = self.endpoint.owner();
        owner.context.end_subject(&owner.subject)
    }

    fn release(&self) {
        let owner = self.endpoint.owner();
        if owner.is_muted.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Some(line) = &self.line {
            line.end();
        }
        let process = &owner.process;
        process.lingering.release(owner.stream(), &self.endpoint);
        self.remove_completions();
        process.numbers.release(owner.number);
    }

    /// Drops the completions that the program has not taken. The queue pair is muted, and the endpoint was locked since.
    fn remove_completions(&self) {
        let owner = self.endpoint.owner();
        let queues = &owner.queues;
        let removed = queues.receive.remove(owner.number);
        if let Some((_, membership)) = &queues.shared {
            membership.removed(&removed);
        }
        if !queues.is_one() {
            queues.initiator.remove(owner.number);
        }
    }

    // ---- called by the connection manager ----

    /// Makes the queue pair ready for a connection, which `owner` sets up and ends.
    pub(crate) fn claim(&self, owner: Weak<dyn ConnectionOwner>) -> Result<()> {
        self.endpoint.with(|_, state| {
            let before = state.connection.as_ref();
            let is_other = before.is_some_and(|before| {
                before.strong_count() > 0 && !std::ptr::addr_eq(before.as_ptr(), owner.as_ptr())
            });
            if is_other {
                return fail(Errno::INVAL, "the queue pair belongs to another connection");
            }
            state.connection = Some(owner);
            Ok(())
        })
    }

    /// Takes back a [`claim`](Self::claim): the connection was not set up.
    pub(crate) fn disclaim(&self, owner: &Weak<dyn ConnectionOwner>) {
        self.endpoint.with(|_, state| {
            let is_own = |own: &mut Weak<dyn ConnectionOwner>| {
                std::ptr::addr_eq(own.as_ptr(), owner.as_ptr())
            };
            drop(state.connection.take_if(is_own));
        });
    }

    /// Returns true if `owner` was the last to [claim](Self::claim) the queue pair, and the queue pair is not in RESET since.
    pub(crate) fn is_claimed_by<T>(&self, owner: &Weak<T>) -> bool {
        self.endpoint.with(|_, state| {
            let connection = state.connection.as_ref();
            connection.is_some_and(|own| std::ptr::addr_eq(own.as_ptr(), owner.as_ptr()))
        })
    }

    /// From INIT on, to a state of a connected queue pair, with these attributes.
    pub(crate) fn advance(
        &self,
        to: QpState,
        attributes: impl Iterator<Item = (QpAttributes, QpMask)>,
    ) {
        let owner = self.endpoint.owner();
        if matches!(owner.state(), QpState::Init | QpState::Rtr) {
            let mut known = self.attributes.lock();
            for (attributes, mask) in attributes {
                known.take(&attributes, mask);
            }
            drop(known);
            owner.set_state(to);
            if to == QpState::Rts {
                self.limit_silence();
            }
        }
    }

    /// The connection's part of a queue pair.
    pub(crate) fn endpoint(&self) -> &Arc<QpEndpoint> {
        &self.endpoint
    }

    /// Moves the queue pair to ERR, and leaves the deferred work to the caller. Returns true if the stream was gone before.
    pub(crate) fn end(&self) -> (bool, QpDeferredWork) {
        self.endpoint.owner().set_state(QpState::Err);
        self.endpoint.end()
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.release();
    }
}

impl ContextConnection for QpEndpoint {
    fn context_closed(&self) {
        self.owner().set_state(QpState::Err);
        drop(self.end().1);
    }
}

impl StreamTaker for QpEndpoint {
    fn start_on(&self, stream: Stream, config: StreamConfig) -> (std::io::Result<()>, Deferred) {
        let another = [
            planted!(SecondConnectionTaken),
            planted!(ConnectionTakenAfterEnd),
        ];
        if another.contains(&true) && self.with(|phase, _| phase != Phase::Idle) {
            drop(self.abort(ConnectionEnd::Disconnected));
            self.renew(self.owner().process.next_stream());
        }
        let (started, deferred) = self.start(stream, config, Start::Open);
        (started, Box::new(deferred))
    }

    fn has_ended(&self) -> bool {
        self.connection_end().is_some()
    }

    fn abandon(&self) -> Deferred {
        Box::new(self.abandon())
    }

    fn limit_reads(&self, reads: u32) {
        self.limit_reads(reads);
    }
}

/// The sizes of the engine's queues.
fn sizes(options: &QpOptions) -> QueueSizes {
    let caps = options.caps;
    let (receive_depth, receive_sges) = match &options.srq {
        // The engine needs room for one drawn Receive.
        Some(srq) => (1, srq.max_sge()),
        None => (caps.max_recv_wr, caps.max_recv_sge.max(1)),
    };
    let initiator_sges = caps.max_send_sge.max(1);
    QueueSizes {
        initiator_depth: caps.max_send_wr,
        receive_depth,
        initiator_sges,
        receive_sges,
        read_sges: initiator_sges,
        inline: caps.max_inline_data,
        max_transfer: limits::MESSAGE,
    }
}
