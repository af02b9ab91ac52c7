//! Completion channels.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use iwarp_io::progress::waiters::Waiters;

use crate::context::Context;
use crate::error::Result;
use crate::events::{Event, EventQueue};
use crate::process::Engine;
use crate::users::{Acknowledgements, Subject, Tag, User, Users};

/// A completion channel: armed completion queues leave events here.
pub struct CompletionChannel {
    context: Arc<Context>,
    engine: Arc<Engine>,
    pub(crate) waiters: Arc<Waiters>,
    events: EventQueue<CompletionEvent>,
    pub(crate) users: Users,
    tag: Tag,
    user: User,
}

/// An event of a completion queue. The program acknowledges it at the completion queue
/// ([`acknowledge_events`](crate::CompletionQueue::acknowledge_events)).
pub struct CompletionEvent(Arc<Subject>);

impl Event for CompletionEvent {
    fn counter(&self) -> Option<&Acknowledgements> {
        Some(&self.0.acknowledgements)
    }
}

impl CompletionEvent {
    /// The [tag](Tag) of the completion queue.
    pub fn tag(&self) -> u64 {
        self.0.tag.get()
    }
}

impl fmt::Debug for CompletionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompletionEvent").field(&self.tag()).finish()
    }
}

impl fmt::Debug for CompletionChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionChannel")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl CompletionChannel {
    /// Makes a channel.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn create(context: &Arc<Context>) -> Result<Arc<Self>> {
        let engine = context.engine()?;
        let events = EventQueue::new(&engine.driver.environment)?;
        let waiters = engine.waiters()?;
        events.wait_in(&waiters);
        Ok(Arc::new(Self {
            user: context.users.add(),
            context: Arc::clone(context),
            engine,
            waiters,
            events,
            users: Users::default(),
            tag: Tag::default(),
        }))
    }

    /// The context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The caller's number.
    pub fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The descriptor that is readable while an event waits; `None` in a simulation.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.events.descriptor()
    }

    /// Returns true while an event waits.
    pub fn has_event(&self) -> bool {
        self.events.is_ready()
    }

    /// The next event. Waits for it, and drives the connections meanwhile, unless the descriptor has `O_NONBLOCK`.
    ///
    /// # Errors
    ///
    /// EAGAIN if the call must not wait. In a simulation EDEADLK when no event is left that could lead to one here.
    pub fn get_event(&self) -> Result<CompletionEvent> {
        self.events.get(|| Ok(Arc::clone(&self.engine)))
    }

    /// Prepares to release the channel.
    ///
    /// # Errors
    ///
    /// EBUSY while completion queues use the channel.
    pub fn destroy(&self) -> Result<()> {
        self.users
            .check_none("the completion channel", "completion queues")?;
        self.user.release();
        Ok(())
    }

    /// Returns true if the program waits for events in [`get_event`](Self::get_event).
    pub(crate) fn is_waited_for_here(&self) -> bool {
        self.events.is_waited_for_here()
    }

    /// Leaves an event, unless the completion queue has [ended](Self::end_subject).
    pub(crate) fn push(&self, subject: &Arc<Subject>) {
        drop(self.events.push(CompletionEvent(Arc::clone(subject))));
    }

    /// A completion queue is about to be destroyed: drops its events that the program has not received. None comes after them.
    pub(crate) fn end_subject(&self, subject: &Subject) {
        drop(self.events.end(&subject.acknowledgements));
    }
}
