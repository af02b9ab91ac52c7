//! Channels of the connection manager and their events. Both are generic over the identifiers `I`, which in turn have a channel.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::event::{CmEventKind, ConnParameters};
use super::pending::PendingPlace;
use crate::error::{Error, Result};
use crate::events::{Event, EventQueue};
use crate::process::{Engine, Process};
use crate::users::{Acknowledgements, Tag, User, Users};

/// A channel of the connection manager's events.
pub struct ChannelOf<I> {
    pub(super) process: Arc<Process>,
    pub(super) engine: Arc<Engine>,
    pub(super) events: EventQueue<EventOf<I>>,
    users: Users,
    tag: Tag,
}

impl<I> fmt::Debug for ChannelOf<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelOf").finish_non_exhaustive()
    }
}

impl<I> ChannelOf<I> {
    /// Makes a channel.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn create(process: &Arc<Process>) -> Result<Arc<Self>> {
        let engine = process.engine()?;
        let events = EventQueue::new(&engine.driver.environment)?;
        events.wait_in(&engine.waiters()?);
        Ok(Arc::new(Self {
            process: Arc::clone(process),
            engine,
            events,
            users: Users::default(),
            tag: Tag::default(),
        }))
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
    pub fn get_event(&self) -> Result<EventOf<I>> {
        let mut event = self.events.get(|| Ok(Arc::clone(&self.engine)))?;
        event.place = None;
        Ok(event)
    }

    /// Prepares to release the channel.
    ///
    /// # Errors
    ///
    /// EBUSY while identifiers use the channel.
    pub fn destroy(&self) -> Result<()> {
        self.users.check_none("the event channel", "identifiers")
    }
}

/// An event of the connection manager. The program [acknowledges](Self::acknowledge) each.
#[must_use = "an identifier is not destroyed before its events are acknowledged"]
pub struct EventOf<I> {
    pub(super) kind: CmEventKind,
    pub(super) id: Arc<I>,
    pub(super) listener: Option<Arc<I>>,
    pub(super) status: i32,
    pub(super) parameters: ConnParameters,
    /// The number of an event that the program has written.
    pub(super) argument: u64,
    /// The failure that the event reports, in words.
    pub(super) cause: Option<Error>,
    /// The object at which the event counts until it is acknowledged: the identifier, or for a request the listener.
    pub(super) counter: Arc<Acknowledgements>,
    /// The place of a request among those that wait in the channel of its listener.
    pub(super) place: Option<PendingPlace<I>>,
}

impl<I: fmt::Debug> fmt::Debug for EventOf<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventOf")
            .field("kind", &self.kind)
            .field("id", &self.id)
            .field("status", &self.status)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

impl<I> Event for EventOf<I> {
    fn counter(&self) -> Option<&Acknowledgements> {
        Some(&self.counter)
    }
}

impl<I> EventOf<I> {
    /// The kind of the event.
    pub fn kind(&self) -> CmEventKind {
        self.kind
    }

    /// The identifier; with [`CmEventKind::ConnectRequest`] a new one.
    pub fn id(&self) -> &Arc<I> {
        &self.id
    }

    /// The identifier at which the peer has asked for a connection.
    pub fn listener(&self) -> Option<&Arc<I>> {
        self.listener.as_ref()
    }

    /// 0, a negative errno, or a reason for which a peer rejects.
    pub fn status(&self) -> i32 {
        self.status
    }

    /// The parameters. The private data has the length that the peer has sent.
    pub fn parameters(&self) -> &ConnParameters {
        &self.parameters
    }

    /// The number of an event that the program has [written](super::CmId::write_event); otherwise 0.
    pub fn argument(&self) -> u64 {
        self.argument
    }

    /// The failure that the event reports, in words, where more is known than kind and status say.
    pub fn cause(&self) -> Option<&Error> {
        self.cause.as_ref()
    }

    /// The program has acted on the event.
    pub fn acknowledge(self) {
        self.counter.acknowledge(1);
    }
}

/// The channel of an identifier, which counts as one of its users.
pub(super) struct Attachment<I> {
    channel: Arc<ChannelOf<I>>,
    /// The identifier has the channel for itself: its calls wait for their events.
    is_own: bool,
    #[expect(dead_code, reason = "counted until it is dropped")]
    user: User,
}

impl<I> Attachment<I> {
    pub(super) fn to(channel: &Arc<ChannelOf<I>>) -> Self {
        Self {
            user: channel.users.add(),
            channel: Arc::clone(channel),
            is_own: false,
        }
    }

    /// To a channel that no other identifier has.
    pub(super) fn own(process: &Arc<Process>) -> Result<Self> {
        let attachment = Self::to(&ChannelOf::create(process)?);
        Ok(Self {
            is_own: true,
            ..attachment
        })
    }

    pub(super) fn channel(&self) -> &Arc<ChannelOf<I>> {
        &self.channel
    }

    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }
}
