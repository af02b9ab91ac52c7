//! The driver of all connections of one adapter: transport, clock, deadlines, and the threads that make progress.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::capture::{Capture, FlowRole};
use crate::endpoint::buffers::Buffers;
use crate::environment::Environment;
use crate::faults::{FaultOwner, Faults};
use crate::progress::background::Background;
use crate::progress::domain::Domain;
use crate::progress::parking::Parking;
use crate::progress::polling;
use crate::progress::timers::{Timed, TimerKey};
use crate::sync::AtomicUsize;
use crate::transport::stream::Stream;
use crate::transport::{Transport, Wire};

/// What all connections of one adapter share. Its background thread ends when it is dropped.
pub struct Driver {
    /// Where connections are made.
    pub transport: Transport,
    /// The clock, the sets and the random numbers.
    pub environment: Environment,
    /// Connection set-up and tear-down, which every thread drives that waits in a [`Parking`].
    pub control: Arc<Domain>,
    /// What connections send from and receive into.
    pub buffers: Buffers,
    capture: Option<Capture>,
    /// Threads parked in any [`Parking`] of the adapter.
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
    /// Starts the background thread. What streams carry is recorded, if that is asked for.
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
        let control = Arc::new(Domain::new(environment.set()?, Arc::clone(&parked)));
        control.add_interest(); // every parked thread drives it
        control.set_armed(true); // no parking is without it
        let background = Background::start(&environment)?;
        let driver = Self {
            transport,
            environment,
            control,
            buffers,
            capture,
            parked,
            background,
        };
        driver.background.add(&driver.control)?;
        Ok(driver)
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Instant {
        self.environment.now()
    }

    /// Has `target` called at a time, by the background thread.
    pub fn set_timer(&self, at: Instant, target: Weak<dyn Timed>) -> TimerKey {
        self.background.set_timer(at, target)
    }

    /// Takes a deadline back; one that has passed or was cancelled before is no error.
    pub fn cancel_timer(&self, key: TimerKey) {
        self.background.timers.cancel(key);
    }

    /// A new domain, which the background thread serves while nobody else does. It is driven by threads that wait in
    /// `parking`.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn domain(&self, parking: &Parking) -> io::Result<Arc<Domain>> {
        let domain = Arc::new(Domain::new(self.environment.set()?, parking.parked()));
        self.background.add(&domain)?;
        Ok(domain)
    }

    /// A domain is not used any more.
    pub fn remove_domain(&self, domain: &Domain) {
        self.background.remove(domain);
    }

    /// Counts a poll of a domain by this thread.
    pub fn polled(&self, domain: &Arc<Domain>) {
        polling::polled(domain, &self.background);
    }

    /// Makes sure that unfinished work of a domain is taken up even if whoever drove it never comes back.
    pub fn notice(&self, domain: &Domain) {
        self.background.notice(domain);
    }

    /// A place for threads to wait in.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn parking(&self) -> io::Result<Parking> {
        let environment = self.environment.clone();
        Parking::new(&self.control, &self.background, &self.parked, environment)
    }

    /// The processors on which the background thread may run: one bit for each of the first 64. `None` where that is not
    /// known.
    pub fn processors(&self) -> Option<u64> {
        self.background.processors()
    }

    /// The stream of a connection that was just established, as one of the two ends. A fault plan that is about this stream
    /// goes by `faults`, and removes the device by `owner`.
    pub fn stream(
        &self,
        wire: Wire,
        role: iwarp::Role,
        faults: Option<&Arc<Faults>>,
        owner: Arc<dyn FaultOwner>,
    ) -> Stream {
        let flow_role = match role {
            iwarp::Role::Initiator => FlowRole::Active,
            iwarp::Role::Responder => FlowRole::Passive,
        };
        let stream = Stream::new(wire, flow_role, self.capture.as_ref());
        match faults.and_then(|faults| faults.stream(role, stream.peer())) {
            None => stream,
            Some(faults) => stream.with_faults(faults, self.environment.clone(), owner),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.background.stop();
    }
}
