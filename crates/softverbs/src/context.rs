//! Opened devices, and their asynchronous events.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};

use iwarp_io::living::Living;
use parking_lot::Mutex;

use crate::device::Device;
use crate::error::{Errno, Result, fail};
use crate::events::{Event, EventQueue};
use crate::process::{Engine, FatalWitness, Process};
use crate::users::{Acknowledgements, Subject, Tag, Users};

/// The kind of an asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEventKind {
    /// A completion queue has lost completions (`IBV_EVENT_CQ_ERR`).
    CompletionQueueError,
    /// A queue pair is in error, for a reason that no completion shows (`IBV_EVENT_QP_FATAL`).
    QueuePairFatal,
    /// A queue pair that draws Receives from a shared receive queue draws no more (`IBV_EVENT_QP_LAST_WQE_REACHED`).
    LastReceiveReached,
    /// A shared receive queue has fewer Receives than its limit (`IBV_EVENT_SRQ_LIMIT_REACHED`).
    SharedReceiveLimit,
    /// The device cannot be used any more (`IBV_EVENT_DEVICE_FATAL`).
    DeviceFatal,
}

/// An asynchronous event. The program [acknowledges](Self::acknowledge) each.
#[must_use = "an object is not destroyed before its events are acknowledged"]
pub struct AsyncEvent {
    kind: AsyncEventKind,
    subject: Option<Arc<Subject>>,
}

impl fmt::Debug for AsyncEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncEvent")
            .field("kind", &self.kind)
            .field("subject", &self.tag())
            .finish()
    }
}

impl Event for AsyncEvent {
    fn counter(&self) -> Option<&Acknowledgements> {
        let subject = self.subject.as_ref()?;
        Some(&subject.acknowledgements)
    }
}

impl AsyncEvent {
    /// The kind of the event.
    pub fn kind(&self) -> AsyncEventKind {
        self.kind
    }

    /// The [tag](Tag) of the object that the event is about; `None` for events of the device.
    pub fn tag(&self) -> Option<u64> {
        self.subject.as_ref().map(|subject| subject.tag.get())
    }

    /// The program has acted on the event.
    pub fn acknowledge(self) {
        if let Some(counter) = self.counter() {
            counter.acknowledge(1);
        }
    }
}

/// An opened device.
pub struct Context {
    process: Arc<Process>,
    device: Arc<Device>,
    events: EventQueue<AsyncEvent>,
    pub(crate) users: Users,
    /// The connections that end with the context.
    connections: Mutex<Living<dyn ContextConnection>>,
    tag: Tag,
}

/// A connection of an opened device.
pub(crate) trait ContextConnection: Send + Sync {
    /// The program has closed the device.
    fn context_closed(&self);
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.device.name())
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn open(process: &Arc<Process>, device: &Arc<Device>) -> Result<Arc<Self>> {
        let context = Arc::new(Self {
            process: Arc::clone(process),
            device: Arc::clone(device),
            events: EventQueue::new(&process.environment())?,
            users: Users::default(),
            connections: Mutex::default(),
            tag: Tag::default(),
        });
        let witness: Weak<dyn FatalWitness> = Arc::<Self>::downgrade(&context);
        process.witness(witness);
        Ok(context)
    }

    /// The process.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The caller's number.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The descriptor that is readable while an asynchronous event waits; `None` in a simulation.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.events.descriptor()
    }

    /// Returns true while an asynchronous event waits.
    pub fn has_event(&self) -> bool {
        self.events.is_ready()
    }

    /// The next asynchronous event. Waits for it unless the descriptor has `O_NONBLOCK`.
    ///
    /// # Errors
    ///
    /// EAGAIN if the call must not wait.
    pub fn get_async_event(&self) -> Result<AsyncEvent> {
        self.events.get(|| self.engine())
    }

    /// Closes the device: queue pairs that the program has left go to ERR, and their connections end. The kernel does so when the file of an
    /// adapter is closed.
    pub fn close(&self) {
        let connections = self.connections.lock().take();
        connections.for_each(|connection| connection.context_closed());
    }

    /// Returns true while objects of the context exist.
    pub fn has_objects(&self) -> bool {
        self.users.any()
    }

    /// Makes [`close`](Self::close) end a connection.
    pub(crate) fn ends(&self, connection: Weak<dyn ContextConnection>) {
        self.connections.lock().add(connection);
    }

    pub(crate) fn engine(&self) -> Result<Arc<Engine>> {
        self.process.engine()
    }

    /// Leaves an event of the device or of a subject, unless the subject has [ended](Self::end_subject).
    pub(crate) fn raise(&self, kind: AsyncEventKind, subject: Option<&Arc<Subject>>) {
        let subject = subject.cloned();
        drop(self.events.push(AsyncEvent { kind, subject }));
    }

    /// An object is about to be destroyed: drops its events that the program has not received, and waits for the acknowledgements of the
    /// others. No event comes after them.
    pub(crate) fn end_subject(&self, subject: &Subject) -> Result<()> {
        let acknowledgements = &subject.acknowledgements;
        drop(self.events.end(acknowledgements));
        acknowledgements.wait(self.process.environment().world().is_some())
    }
}

impl FatalWitness for Context {
    fn device_broke(&self) {
        self.raise(AsyncEventKind::DeviceFatal, None);
    }
}

/// Returns EINVAL unless `port` is the one port that devices have.
pub fn check_port(port: u8) -> Result<()> {
    match port {
        1 => Ok(()),
        _ => fail(
            Errno::INVAL,
            format!("there is no port {port}: devices have port 1"),
        ),
    }
}
