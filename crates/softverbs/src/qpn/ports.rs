//! The ports of a process, and the numbers of queue pairs that follow from them.
//!
//! A port is reserved with the first queue pair that gets a number of it, over TCP and over UDP. It listens from the first change to RTR on
//! that names a queue pair by a number, so that programs that use the connection manager alone open no port.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use iwarp_io::descriptors;
use iwarp_io::faults::FaultOwner;
use iwarp_io::limited;
use iwarp_io::log::targets;
use iwarp_io::progress::Edges;
use iwarp_io::progress::domain::{Source, Turn};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::setup::{
    Acceptor, AcceptorConfig, AcceptorOwner, ConnectionRequest, HalfOpenLimits, Incoming,
    PassiveSide, ReadLimits, ResponderConfig,
};
use iwarp_io::system_call::errno;
use iwarp_io::transport::Bound;
use iwarp_io::transport::both_ports::{BothPorts, ReservedUdp, bind_both};
use iwarp_io::transport::local_ports::BindError;
use parking_lot::Mutex;

use super::call::Call;
use crate::device::{Device, limits};
use crate::error::{Errno, Error, Result};
use crate::process::{FIRST_WITH_PORT, PER_PORT, Process};

/// The time limit of a peer from its connection to its whole Request, and from this side's Reply to its ready-to-receive message.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
const READY_WITHIN: Duration = Duration::from_secs(60);

/// The most Reads that the device allows.
pub(super) const READ_LIMITS: ReadLimits = ReadLimits {
    ird: limits::READS,
    ord: limits::READS,
};

/// The port that a number names.
pub(crate) fn port_of(number: u32) -> Option<u16> {
    u16::try_from(number / PER_PORT)
        .ok()
        .filter(|_| number >= FIRST_WITH_PORT)
}

/// A queue pair that peers call.
pub(super) trait Callee: Send + Sync {
    /// A peer calls the queue pair.
    fn called(&self, request: ConnectionRequest, call: &Call);
}

/// The ports of all devices.
#[derive(Default)]
pub(crate) struct Ports(Mutex<HashMap<usize, DevicePorts>>);

#[derive(Default)]
struct DevicePorts {
    /// Numbers that no queue pair has, those that were given back last at the end.
    free: VecDeque<u32>,
    ports: HashMap<u16, Arc<Port>>,
}

/// One port of a device.
pub(crate) struct Port {
    process: Weak<Process>,
    number: u16,
    state: Mutex<PortState>,
    callees: Mutex<HashMap<u32, Weak<dyn Callee>>>,
    udp: ReservedUdp,
    /// The sockets for datagrams, from the first queue pair on that has some.
    datagrams: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
}

enum PortState {
    /// Bound, and nobody can connect.
    Reserved(Vec<Bound>),
    Listening(Arc<Acceptor>),
    /// Listening has failed.
    Closed,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Ports {
    /// The ports of a process.
    pub(crate) fn of(process: &Process) -> Arc<Self> {
        let ports = process.ports.get_or_init(|| Arc::new(Self::default()));
        let ports = Arc::clone(ports).downcast();
        ports.expect("only this function puts a value there")
    }

    /// Takes a number for a queue pair of `device`, and the port that the number names.
    pub(crate) fn take(&self, process: &Process, device: &Device) -> Result<(u32, Arc<Port>)> {
        let mut devices = self.0.lock();
        let own = devices.entry(device.index()).or_default();
        if own.free.is_empty() {
            let addresses = &device.interface().addresses;
            let range = process.options().ports.as_ref();
            let reserved = bind_both(process.number_transport(), addresses, range);
            let BothPorts {
                port: number,
                bound,
                udp,
            } = reserved.map_err(|why| bind_error(&why))?;
            let port = Arc::new(Port {
                process: process.this.clone(),
                number,
                state: Mutex::new(PortState::Reserved(bound)),
                callees: Mutex::default(),
                udp,
                datagrams: Mutex::default(),
            });
            own.ports.insert(number, port);
            let first = u32::from(number) * PER_PORT;
            own.free.extend(first..first + PER_PORT);
        }
        let numbers = &mut own.free;
        let taken = numbers.pop_front().and_then(|number| {
            let port = own.ports.get(&port_of(number)?)?;
            Some((number, Arc::clone(port)))
        });
        taken.ok_or_else(|| Error::new(Errno::NOMEM, "there is no number for the queue pair"))
    }

    /// Gives a number back, which is used again as late as possible.
    pub(crate) fn give_back(&self, device: &Device, number: u32) {
        if let Some(own) = self.0.lock().get_mut(&device.index()) {
            if let Some(port) = port_of(number).and_then(|port| own.ports.get(&port)) {
                port.callees.lock().remove(&number);
            }
            own.free.push_back(number);
        }
    }
}

fn bind_error(why: &BindError) -> Error {
    match why {
        BindError::Refused(_, error) => {
            let errno = errno(error).unwrap_or(Errno::IO);
            Error::new(errno, format!("no port for queue pairs: {why}"))
        }
        BindError::Random(_) => Error::new(Errno::IO, why.to_string()),
        BindError::NoPort | BindError::RangeInUse(_) => {
            Error::new(Errno::ADDRINUSE, format!("no port for queue pairs: {why}"))
        }
    }
}

impl Port {
    /// Makes a queue pair the one that calls to its number reach.
    pub(super) fn add(&self, number: u32, callee: Weak<dyn Callee>) {
        self.callees.lock().insert(number, callee);
    }

    /// The number of the port.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The reservation of the port over UDP.
    pub(crate) fn udp(&self) -> &ReservedUdp {
        &self.udp
    }

    /// The sockets for datagrams, which `open` opens if no queue pair has any.
    pub(crate) fn shared<T: Any + Send + Sync>(
        &self,
        open: impl FnOnce() -> Result<Arc<T>>,
    ) -> Result<Arc<T>> {
        let mut sockets = self.datagrams.lock();
        let known = sockets.as_ref().and_then(Weak::upgrade);
        if let Some(known) = known.and_then(|known| known.downcast().ok()) {
            return Ok(known);
        }
        let opened = open()?;
        let weak: Weak<dyn Any + Send + Sync> = Arc::<T>::downgrade(&opened);
        *sockets = Some(weak);
        Ok(opened)
    }

    /// Listens from now on.
    pub(crate) fn listen(self: &Arc<Self>) -> Result<()> {
        let mut state = self.state.lock();
        let PortState::Reserved(bound) = &mut *state else {
            return match *state {
                PortState::Listening(_) => Ok(()),
                _ => Err(Error::new(
                    Errno::IO,
                    "the port of the queue pair is closed",
                )),
            };
        };
        let bound = std::mem::take(bound);
        *state = PortState::Closed;
        let process = self
            .process
            .upgrade()
            .ok_or_else(|| Error::new(Errno::IO, "the process has ended"))?;
        let owner: Weak<dyn AcceptorOwner> = Arc::<Self>::downgrade(self);
        let config = AcceptorConfig {
            responder: ResponderConfig {
                most: READ_LIMITS,
                unstated: limits::READS,
                request_within: Some(REQUEST_WITHIN),
                ready_within: Some(READY_WITHIN),
                spares_crc: process.spares_crcs(),
            },
            faults: process.faults.clone(),
            fault_owner: fault_owner(&process),
        };
        let engine = process.engine()?;
        let acceptor = Acceptor::new(&engine.driver, config, owner);
        let half_open = HalfOpenLimits::for_process(None, None, descriptors::limit());
        acceptor
            .listen(bound, None, half_open)
            .map_err(|error| Error::of_system(&error, "cannot listen for queue pairs"))?;
        *state = PortState::Listening(acceptor);
        Ok(())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if let PortState::Listening(acceptor) = self.state.get_mut() {
            acceptor.close();
        }
    }
}

impl AcceptorOwner for Port {
    fn requested(&self, incoming: Arc<Incoming>) {
        let Some(request) = incoming.take() else {
            return;
        };
        let Some(process) = self.process.upgrade() else {
            return;
        };
        let called = Call::parse(request.private_data());
        let line = match &called {
            Ok(call) => self.callees.lock().get(&call.to).and_then(Weak::upgrade),
            Err(_) => None,
        };
        match (called, line) {
            (Ok(call), Some(line)) => line.called(request, &call),
            (Ok(call), None) => {
                tracing::debug!(target: targets::CONNECT, parent: request.span(), number = call.to, "a peer calls a queue pair that is not here");
                refuse(request, &process);
            }
            (Err(error), _) => {
                limited!(warn, target: targets::CONNECT, parent: request.span(), %error, "a peer calls no queue pair");
                refuse(request, &process);
            }
        }
    }

    /// Requests are taken at once, so there is none here that could end.
    fn ended(&self, _: u64) {}
}

/// The owner of a set-up that ends at once.
struct Nobody;

impl Source for Nobody {
    fn ready(&self, _: Edges) -> Turn {
        Turn::default()
    }
}

impl Timed for Nobody {
    fn expired(&self, _: TimerKey, _: Instant) {}
}

/// Answers a Request with a rejection.
pub(super) fn refuse(request: ConnectionRequest, process: &Process) {
    let Ok(engine) = process.engine() else {
        return; // the drop resets the stream
    };
    let nobody = Weak::<Nobody>::new();
    if let Some(passive) = PassiveSide::watch(request, &engine.driver, nobody) {
        passive.reject(&[]);
    }
}

/// Removes the devices if a fault plan says so. It does not keep the process.
#[derive(Debug)]
struct Remover(Weak<Process>);

impl FaultOwner for Remover {
    fn remove_device(&self) {
        if let Some(process) = self.0.upgrade() {
            FaultOwner::remove_device(&*process);
        }
    }
}

/// The owner of faults, which does not keep the process.
pub(super) fn fault_owner(process: &Process) -> Arc<dyn FaultOwner> {
    Arc::new(Remover(process.this.clone()))
}
