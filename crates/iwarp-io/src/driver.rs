//! The driver of all connections of one adapter: transport, clock, deadlines, and the threads that make progress.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::buffers::Buffers;
use crate::capture::{Capture, FlowRole};
use crate::environment::Environment;
use crate::faults::{FaultOwner, Faults};
use crate::log::has_transport;
use crate::progress::Set;
use crate::progress::background::{Background, DriverOwner};
use crate::progress::domain::Domain;
use crate::progress::helping;
use crate::progress::polling;
use crate::progress::readiness::Readiness;
use crate::progress::timers::{Timed, TimerKey};
use crate::progress::waiters::Waiters;
use crate::protection_faults::ProtectionFaults;
use crate::revision_1_peers::Revision1Peers;
use crate::sync::AtomicUsize;
use crate::transport::datagrams::SocketDrivers;
use crate::transport::stream::Stream;
use crate::transport::{Transport, Wire};
use crate::vain_polls;

/// The state that all connections of one adapter share. Dropping the driver ends its background thread.
pub struct Driver {
    /// The transport that makes connections.
    pub transport: Transport,
    /// The clock, the sets and the random numbers.
    pub environment: Environment,
    /// Connection set-up and tear-down, driven by every thread that waits in a [`Waiters`].
    pub control: Arc<Domain>,
    /// The buffers from which connections send, and into which they receive.
    pub buffers: Buffers,
    /// Attempts of peers to use memory that they may not use.
    pub protection_faults: ProtectionFaults,
    pub(crate) revision_1_peers: Revision1Peers,
    capture: Option<Capture>,
    /// Threads parked in any [`Waiters`] of the adapter.
    parked: Arc<AtomicUsize>,
    background: Arc<Background>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// Starts the background thread. With a capture, the streams are recorded.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors or threads left.
    pub fn start(
        transport: Transport,
        buffers: Buffers,
        capture: Option<Capture>,
    ) -> io::Result<Self> {
        let parked = Arc::new(AtomicUsize::new(0));
        let environment = transport.environment();
        let set = Set::in_environment(&environment)?;
        if environment.world().is_none() {
            // If the system refuses the call that waits, opening the adapter fails, and the client gets the error.
            set.wait(Some(Duration::ZERO), |_| {})?;
            vain_polls::look();
        }
        let control = Arc::new(Domain::new(set, Arc::clone(&parked)));
        control.add_interest(); // every parked thread drives it
        control.set_armed(true); // every group of waiters has it
        let background = Background::start(control.set().another()?, &environment)?;
        let driver = Self {
            transport,
            environment,
            control,
            buffers,
            protection_faults: ProtectionFaults::default(),
            revision_1_peers: Revision1Peers::default(),
            capture,
            parked,
            background,
        };
        driver.background.add(&driver.control)?;
        driver
            .transport
            .driven_by(&driver.control, &driver.background);
        Ok(driver)
    }

    /// Sets the owner, which is notified when a thread panics that makes progress for connections.
    pub fn owned_by(&self, owner: Weak<dyn DriverOwner>) {
        self.background.owned_by(owner);
    }

    /// The drivers of sockets for datagrams.
    pub fn socket_drivers(&self) -> SocketDrivers {
        SocketDrivers {
            control: Arc::clone(&self.control),
            background: Arc::clone(&self.background),
        }
    }

    /// Returns the time.
    #[inline]
    pub fn now(&self) -> Instant {
        self.environment.now()
    }

    /// Makes the background thread call `target` at a time.
    pub fn set_timer(&self, at: Instant, target: Weak<dyn Timed>) -> TimerKey {
        self.background.set_timer(at, target)
    }

    /// Cancels a deadline. It is no error if the deadline has passed or was cancelled before.
    pub fn cancel_timer(&self, key: TimerKey) {
        self.background.cancel_timer(key);
    }

    /// Makes a new domain. Threads among these `waiters` drive it, and the background thread serves it while no other thread does.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn domain(&self, waiters: &Waiters) -> io::Result<Arc<Domain>> {
        let domain = Arc::new(Domain::new(self.control.set().another()?, waiters.parked()));
        self.background.add(&domain)?;
        Ok(domain)
    }

    /// Removes a domain that is not used any more.
    pub fn remove_domain(&self, domain: &Domain) {
        self.background.remove(domain);
    }

    /// Counts a poll of a domain by this thread.
    #[inline]
    pub fn polled(&self, domain: &Arc<Domain>) {
        polling::polled(domain, &self.background);
    }

    /// Reports that a poll of a domain by this thread found nothing. A thread that polls without a pause also polls the adapter's other
    /// domains, because it keeps the core busy that the background thread may need.
    pub fn help(&self, polled: &Domain) {
        helping::help(&self.background, polled, &self.control, || self.now());
    }

    /// Makes the background thread take over a domain at once, because this thread stops polling it.
    pub fn hand_over(&self, domain: &Domain) {
        self.background.hand_over(domain);
    }

    /// Makes sure that unfinished work of a domain is taken up even if its driver never polls again.
    pub fn notice(&self, domain: &Domain) {
        self.background.notice(domain);
    }

    /// Calls `drive`, which makes progress for connections in a thread of the client. If it panics, notifies the owner.
    #[inline]
    pub fn driving<T>(&self, drive: impl FnOnce() -> T) -> T {
        let guard = PanicGuard(&self.background);
        let done = drive();
        std::mem::forget(guard);
        done
    }

    /// Makes a group of waiters, in which threads can wait.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn waiters(&self) -> io::Result<Waiters> {
        let environment = self.environment.clone();
        Waiters::new(&self.control, &self.background, &self.parked, environment)
    }

    /// The processors on which the background thread may run: one bit for each of the first 64. `None` if unknown.
    pub fn processors(&self) -> Option<u64> {
        self.background.processors()
    }

    /// Makes the stream of a connection that was just established. `span` is the span of its events; without one the stream makes one. `faults`
    /// has the fault plan of the adapter, and `owner` removes the device if a rule for this stream demands it.
    pub fn stream(
        &self,
        wire: Wire,
        role: iwarp::Role,
        faults: Option<&Arc<Faults>>,
        owner: Arc<dyn FaultOwner>,
        span: Option<tracing::Span>,
    ) -> Stream {
        let flow_role = match role {
            iwarp::Role::Initiator => FlowRole::Active,
            iwarp::Role::Responder => FlowRole::Passive,
        };
        let capture = self.capture.as_ref();
        let stream = match span {
            None => Stream::new(wire, flow_role, capture),
            Some(span) => {
                if self.transport.name_of_all().is_none() && !wire.is_unpaired() {
                    has_transport(&span, wire.transport_name());
                }
                Stream::in_span(wire, flow_role, capture, span)
            }
        };
        match faults.and_then(|faults| faults.stream(role, stream.peer())) {
            None => stream,
            Some(faults) => stream.with_faults(faults, self.environment.clone(), owner),
        }
    }
}

/// Notifies the owner when it is dropped, which only a panic brings about.
struct PanicGuard<'a>(&'a Background);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        self.0.call_panicked();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.transport.end();
        self.background.stop();
    }
}
