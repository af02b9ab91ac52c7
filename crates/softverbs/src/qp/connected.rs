//! The part of a queue pair that is connected: an endpoint of the driver, and the way to its stream.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use iwarp_io::endpoint::lingering::AnyEndpoint;
use iwarp_io::endpoint::queue_pair::{PairQueues, PairState};
use iwarp_io::endpoint::{
    ConnectionEnd, Delivery, EndpointOptions, Phase, QueueSizes, RemoteRights, Scope, Start,
    StreamConfig,
};
use iwarp_io::planted;
use iwarp_io::transport::Transport;
use iwarp_io::transport::stream::Stream;

use super::options::{QpOptions, Service};
use super::owner::{ConnectionOwner, QpDeferredWork, QpEndpoint, QpOwner};
use super::state::{QpAttributes, QpState};
use crate::ah::GlobalRoute;
use crate::context::ContextConnection;
use crate::device::{DeviceKind, limits};
use crate::error::{Errno, Error, Result, fail as fail_with};
use crate::mr::AccessFlags;
use crate::pd::ProtectionDomain;
use crate::qpn::{Deferred, Line, Patience, Ports, StreamTaker};

/// The time for which the peer may take to end its direction after this side has ended the connection.
const END_WITHIN: Duration = Duration::from_secs(10);

/// See the [module](self).
pub(crate) struct Connected {
    pub(super) endpoint: Arc<QpEndpoint>,
    /// The way to a stream, if the number names a port.
    line: Option<Arc<Line>>,
    is_unreliable: bool,
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected").finish_non_exhaustive()
    }
}

impl Connected {
    /// Makes the endpoint of a queue pair with these options, whose sizes are granted.
    pub(super) fn new(
        pd: &Arc<ProtectionDomain>,
        options: &QpOptions,
        is_numbered: bool,
    ) -> Result<Self> {
        let context = pd.context();
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
        let is_unreliable = options.service == Service::Unreliable;
        let line = line.map(|number| Line::new(process, device, number, is_unreliable));
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
            sizes: sizes(options),
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
        if is_unreliable {
            endpoint.set_delivery(Delivery::Unreliable);
        }
        endpoint.pass_responses();
        endpoint.owner().queues.attach(Arc::downgrade(&endpoint));
        if let Some(line) = &line {
            let taker: Weak<dyn StreamTaker> = Arc::<QpEndpoint>::downgrade(&endpoint);
            line.serve(taker);
        }
        let ending: Weak<dyn AnyEndpoint> = Arc::<QpEndpoint>::downgrade(&endpoint);
        process.ends(ending);
        let closing: Weak<dyn ContextConnection> = Arc::<QpEndpoint>::downgrade(&endpoint);
        context.ends(closing);
        Ok(Self {
            endpoint,
            line,
            is_unreliable,
        })
    }

    /// Lets requests fail whose peer's host is gone, after the time that follows from the attributes.
    pub(super) fn limit_silence(&self, known: &QpAttributes) {
        // Only TCP says what a peer's host has acknowledged.
        let process = &self.endpoint.owner().process;
        let is_over_tcp = matches!(process.transport(), Transport::Tcp(_));
        if self.kind() == DeviceKind::Roce && is_over_tcp {
            let patience = Patience::new(known.timeout, known.retry_cnt, known.max_rd_atomic);
            self.endpoint.set_patience(patience.limit);
        }
    }

    /// Sets the rights of the peer.
    pub(super) fn set_rights(&self, access: AccessFlags) {
        self.endpoint.set_remote_rights(RemoteRights {
            read: access.contains(AccessFlags::REMOTE_READ),
            write: access.contains(AccessFlags::REMOTE_WRITE),
            atomic: access.contains(AccessFlags::REMOTE_ATOMIC),
        });
    }

    /// The program has moved the queue pair from RTR to RTS.
    pub(super) fn is_ready_to_send(&self, attributes: &QpAttributes) {
        let Some(line) = &self.line else {
            return;
        };
        let QpAttributes {
            timeout,
            retry_cnt,
            max_rd_atomic,
            ..
        } = *attributes;
        line.set_patience(match self.is_unreliable {
            false => Patience::new(timeout, retry_cnt, max_rd_atomic),
            true => Patience::UNRELIABLE,
        });
    }

    fn kind(&self) -> DeviceKind {
        self.endpoint.owner().context.device().kind()
    }

    /// Returns true if the number names a port.
    pub(super) fn has_line(&self) -> bool {
        self.line.is_some()
    }

    /// The change to RTR, towards the queue pair of this number.
    pub(super) fn arm(&self, number: u32, route: GlobalRoute) -> Result<()> {
        let owner = self.endpoint.owner();
        // A call that was held may start the stream at once.
        owner.set_state(QpState::Rtr);
        let armed = self
            .line
            .as_ref()
            .map_or(Ok(()), |line| line.arm(number, route));
        armed.inspect_err(|_| owner.set_state(QpState::Init))
    }

    /// Back to RESET: the connection ends, and requests and completions vanish.
    pub(super) fn reset(&self) -> Result<()> {
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
            return fail_with(
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
    pub(super) fn fail(&self) {
        self.endpoint.owner().set_state(QpState::Err);
        if let Some(line) = &self.line {
            line.end();
        }
        drop(self.endpoint.end().1);
    }

    pub(super) fn release(&self) {
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
                return fail_with(Errno::INVAL, "the queue pair belongs to another connection");
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

    /// Moves the queue pair to ERR, and leaves the deferred work to the caller. Returns true if the stream was gone before.
    pub(crate) fn end(&self) -> (bool, QpDeferredWork) {
        self.endpoint.owner().set_state(QpState::Err);
        self.endpoint.end()
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
