//! Queue pairs of the reliable connected service. A queue pair is an endpoint of the driver, with the states of verbs around it.
//!
//! The connection manager gives a queue pair its stream. Either it moves the queue pair itself, which the program made for an identifier
//! (`rdma_create_qp`), or the program moves the queue pair: the number of the peer's queue pair is then the number of the connection,
//! which `rdma_init_qp_attr` names.

mod connected;
mod options;
mod owner;
mod post;
mod request;
mod state;
#[cfg(test)]
mod tests;
mod ud;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

pub(crate) use connected::Connected;
pub use options::{QpCaps, QpOptions, Service};
use owner::QpEndpoint;
pub(crate) use owner::{ConnectionOwner, QpDeferredWork, QpFlushGuard, Signals};
pub use post::SendList;
pub use request::{Destination, RemotePlace, SendData, SendOperation, SendRequest};
use state::check_transition;
pub use state::{QpAttributes, QpMask, QpState};
use ud::DatagramPair;
pub use ud::{DatagramHeader, HeaderError};

use crate::device::DeviceKind;
use crate::error::{Errno, Result, fail};
use crate::mr::AccessFlags;
use crate::pd::ProtectionDomain;
use crate::process::FIRST_QUEUE_PAIR;
use crate::users::{Subject, Tag, User};

/// A queue pair. Dropping it ends its connection.
pub struct QueuePair {
    pd: Arc<ProtectionDomain>,
    carrier: Carrier,
    options: QpOptions,
    attributes: Mutex<QpAttributes>,
    is_destroyed: AtomicBool,
    /// The queue pair counts as a user of its protection domain and its queues.
    users: Vec<User>,
}

/// What carries the messages of a queue pair.
enum Carrier {
    /// A stream, for the services that are connected.
    Connected(Connected),
    /// Datagrams.
    Datagrams(Arc<DatagramPair>),
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
        let carrier = match options.service {
            Service::Unreliable | Service::Datagram
                if context.device().kind() == DeviceKind::Iwarp =>
            {
                return fail(
                    Errno::OPNOTSUPP,
                    "devices for iWARP have queue pairs of the reliable connected service (IBV_QPT_RC) alone",
                );
            }
            Service::Reliable | Service::Unreliable => {
                Carrier::Connected(Connected::new(pd, &options, is_numbered)?)
            }
            Service::Datagram => Carrier::Datagrams(DatagramPair::create(pd, &options)?),
        };
        let mut users = vec![
            pd.users.add(),
            options.send_cq.users.add(),
            options.receive_cq.users.add(),
        ];
        users.extend(options.srq.as_ref().map(|srq| srq.users.add()));
        let queue_pair = Arc::new(Self {
            users,
            pd: Arc::clone(pd),
            carrier,
            options,
            attributes: Mutex::default(),
            is_destroyed: AtomicBool::new(false),
        });
        let named: Weak<dyn Any + Send + Sync> = Arc::<Self>::downgrade(&queue_pair);
        let process = context.process();
        process.numbers.set(queue_pair.number(), named);
        Ok(queue_pair)
    }

    /// The number of the queue pair: 24 bits, at least 0x10000.
    pub fn number(&self) -> u32 {
        match &self.carrier {
            Carrier::Connected(connected) => connected.endpoint.owner().number,
            Carrier::Datagrams(pair) => pair.number(),
        }
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
        &self.subject().tag
    }

    fn subject(&self) -> &Arc<Subject> {
        match &self.carrier {
            Carrier::Connected(connected) => &connected.endpoint.owner().subject,
            Carrier::Datagrams(pair) => pair.subject(),
        }
    }

    /// The state.
    pub fn state(&self) -> QpState {
        match &self.carrier {
            Carrier::Connected(connected) => connected.endpoint.owner().state(),
            Carrier::Datagrams(pair) => pair.state(),
        }
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
        check_transition(self.options.service, from, to, mask, is_iwarp)?;
        attributes.check(mask, self.pd.context().device())?;
        match &self.carrier {
            Carrier::Connected(connected) => {
                self.modify_connected(connected, (from, to), attributes, mask)
            }
            Carrier::Datagrams(pair) => self.modify_datagrams(pair, (from, to), attributes, mask),
        }
    }

    fn modify_connected(
        self: &Arc<Self>,
        connected: &Connected,
        (from, to): (QpState, QpState),
        attributes: &QpAttributes,
        mask: QpMask,
    ) -> Result<()> {
        match to {
            QpState::Reset => connected.reset()?,
            QpState::Err => connected.fail(),
            QpState::Rtr if from == QpState::Init => {
                self.make_ready(connected, attributes, mask)?;
            }
            to => connected.endpoint.owner().set_state(to),
        }
        if mask.contains(QpMask::ACCESS_FLAGS) {
            connected.set_rights(AccessFlags::from_bits_truncate(attributes.access));
        }
        self.keep(to, attributes, mask);
        if (from, to) == (QpState::Rtr, QpState::Rts) {
            connected.is_ready_to_send(attributes);
        }
        if to == QpState::Rts {
            let known = *self.attributes.lock();
            connected.limit_silence(&known);
        }
        Ok(())
    }

    /// The change to RTR.
    fn make_ready(
        self: &Arc<Self>,
        connected: &Connected,
        attributes: &QpAttributes,
        mask: QpMask,
    ) -> Result<()> {
        let number = attributes.dest_qp_num;
        let is_named = mask.contains(QpMask::DEST_QPN) && number < FIRST_QUEUE_PAIR;
        if connected.has_line() && !is_named {
            let route = attributes.address.check(self.pd.context().device())?;
            return connected.arm(number, route);
        }
        let process = self.pd.context().process();
        let connection = match is_named {
            true => process.numbers.find::<ConnectionNumber>(number),
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
        let owner = connected.endpoint.owner();
        owner.set_state(QpState::Rtr);
        let attached = connection.attach(self);
        attached.inspect_err(|_| owner.set_state(QpState::Init))
    }

    fn modify_datagrams(
        &self,
        pair: &DatagramPair,
        (from, to): (QpState, QpState),
        attributes: &QpAttributes,
        mask: QpMask,
    ) -> Result<()> {
        if mask.contains(QpMask::QKEY) {
            pair.set_key(attributes.qkey);
        }
        match to {
            QpState::Reset => pair.reset(),
            QpState::Err => pair.fail(),
            QpState::Rtr if from == QpState::Init => pair.make_ready()?,
            to => pair.set_state(to),
        }
        self.keep(to, attributes, mask);
        Ok(())
    }

    /// Keeps attributes for the program.
    fn keep(&self, to: QpState, attributes: &QpAttributes, mask: QpMask) {
        let mut known = self.attributes.lock();
        if to == QpState::Reset {
            *known = QpAttributes::default();
        }
        known.take(attributes, mask);
    }

    pub(crate) fn kind(&self) -> DeviceKind {
        self.pd.context().device().kind()
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
        self.pd.context().end_subject(self.subject())
    }

    fn release(&self) {
        match &self.carrier {
            Carrier::Connected(connected) => connected.release(),
            Carrier::Datagrams(pair) => pair.release(),
        }
    }

    // ---- called by the connection manager ----

    /// The connected part of the queue pair; an error for one of datagrams, which no connection has.
    pub(crate) fn connected(&self) -> Result<&Connected> {
        match &self.carrier {
            Carrier::Connected(connected) => Ok(connected),
            Carrier::Datagrams(_) => fail(
                Errno::INVAL,
                "a queue pair for datagrams (IBV_QPT_UD) has no connection",
            ),
        }
    }

    /// The endpoint of a connected queue pair.
    pub(crate) fn endpoint(&self) -> Option<&Arc<QpEndpoint>> {
        match &self.carrier {
            Carrier::Connected(connected) => Some(&connected.endpoint),
            Carrier::Datagrams(_) => None,
        }
    }

    /// Moves the queue pair to ERR, and leaves the deferred work to the caller. Returns true if the stream was gone before.
    pub(crate) fn end(&self) -> (bool, Option<QpDeferredWork>) {
        match &self.carrier {
            Carrier::Connected(connected) => {
                let (gone, deferred) = connected.end();
                (gone, Some(deferred))
            }
            Carrier::Datagrams(pair) => {
                pair.fail();
                (true, None)
            }
        }
    }

    /// From INIT on, to a state of a connected queue pair, with these attributes.
    pub(crate) fn advance(
        &self,
        to: QpState,
        attributes: impl Iterator<Item = (QpAttributes, QpMask)>,
    ) {
        let Carrier::Connected(connected) = &self.carrier else {
            return;
        };
        let owner = connected.endpoint.owner();
        if matches!(owner.state(), QpState::Init | QpState::Rtr) {
            let mut known = self.attributes.lock();
            for (attributes, mask) in attributes {
                known.take(&attributes, mask);
            }
            let known = *known;
            owner.set_state(to);
            if to == QpState::Rts {
                connected.limit_silence(&known);
            }
        }
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.release();
    }
}
