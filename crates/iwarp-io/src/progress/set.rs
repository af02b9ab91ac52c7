//! The sets that an adapter waits on: of the system's descriptors, or of a simulated world's sources.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::readiness::epoll::{Epoll, EventFd};
use super::readiness::{BATCH, Edges, Readiness, Ready, Wake, Watch};
use crate::transport::sim::world::{Mode, SimSet, SimWaker, Source};

/// A set of sources.
#[derive(Debug)]
pub enum Set {
    /// Of descriptors, by epoll.
    Epoll(Epoll),
    /// Of a simulated world.
    Sim(SimSet),
}

/// What makes a [`Set`] ready from elsewhere.
#[derive(Debug)]
pub enum Waker {
    /// A descriptor.
    Epoll(EventFd),
    /// Of a simulated world.
    Sim(SimWaker),
}

/// What a [`Set`] knows a source by.
#[derive(Clone, Copy, Debug)]
pub enum SourceId<'a> {
    /// A descriptor of the system.
    Descriptor(BorrowedFd<'a>),
    /// A source of a simulated world.
    Sim(Source),
}

impl Set {
    /// The descriptor by which others can watch the set; a set of a simulated world has none.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Epoll(set) => Some(set.as_fd()),
            Self::Sim(_) => None,
        }
    }
}

/// Whatever has a descriptor is known by it.
impl<T: AsFd> Watch<Set> for T {
    fn id(&self) -> SourceId<'_> {
        SourceId::Descriptor(self.as_fd())
    }
}

impl Watch<Self> for Set {
    fn id(&self) -> SourceId<'_> {
        match self {
            Self::Epoll(set) => SourceId::Descriptor(set.as_fd()),
            Self::Sim(set) => SourceId::Sim(set.source()),
        }
    }
}

impl Watch<Set> for Waker {
    fn id(&self) -> SourceId<'_> {
        match self {
            Self::Epoll(waker) => SourceId::Descriptor(waker.as_fd()),
            Self::Sim(waker) => SourceId::Sim(waker.source()),
        }
    }
}

/// Calls the set of the kind that the source is of.
macro_rules! of_kind {
    ($set:expr, $source:expr, $call:ident $(, $argument:expr)*) => {
        match ($set, $source.id()) {
            (Set::Epoll(set), SourceId::Descriptor(source)) => set.$call(&source $(, $argument)*),
            (Set::Sim(set), SourceId::Sim(source)) => set.$call(&source $(, $argument)*),
            _ => Err(of_another_world()),
        }
    };
}

#[cold]
fn of_another_world() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "a source of the system and a simulated one cannot be waited for together",
    )
}

impl Readiness for Set {
    type Id<'a> = SourceId<'a>;
    type Waker = Waker;

    fn another(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Epoll(set) => Self::Epoll(set.another()?),
            Self::Sim(set) => Self::Sim(set.another()?),
        })
    }

    fn waker(&self) -> io::Result<Waker> {
        Ok(match self {
            Self::Epoll(set) => Waker::Epoll(set.waker()?),
            Self::Sim(set) => Waker::Sim(set.waker()?),
        })
    }

    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        of_kind!(self, source, add_stream, token, edges)
    }

    fn change_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        of_kind!(self, source, change_stream, token, edges)
    }

    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        of_kind!(self, source, add_level, token)
    }

    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        of_kind!(self, source, add_set, token)
    }

    fn mute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        of_kind!(self, source, mute, token)
    }

    fn unmute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        of_kind!(self, source, unmute, token)
    }

    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()> {
        match (self, source.id()) {
            (Self::Epoll(set), SourceId::Descriptor(source)) => set.remove(&source),
            (Self::Sim(set), SourceId::Sim(source)) => set.remove(source),
            _ => Err(of_another_world()),
        }
    }

    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize> {
        match self {
            Self::Epoll(set) => set.wait(limit, each),
            Self::Sim(set) => Readiness::wait(set, limit, each),
        }
    }
}

impl Wake<Set> for Waker {
    fn wake(&self) {
        match self {
            Self::Epoll(waker) => waker.wake(),
            Self::Sim(waker) => waker.wake(),
        }
    }

    fn clear(&self) {
        match self {
            Self::Epoll(waker) => waker.clear(),
            Self::Sim(waker) => waker.clear(),
        }
    }
}

impl Watch<SimSet> for Source {
    fn id(&self) -> Self {
        *self
    }
}

impl Watch<Self> for SimSet {
    fn id(&self) -> Source {
        self.source()
    }
}

impl Watch<SimSet> for SimWaker {
    fn id(&self) -> Source {
        self.source()
    }
}

impl Readiness for SimSet {
    type Id<'a> = Source;
    type Waker = SimWaker;

    fn another(&self) -> io::Result<Self> {
        Ok(Self::new(self.world()))
    }

    fn waker(&self) -> io::Result<SimWaker> {
        Ok(SimWaker::new(self.world()))
    }

    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        self.add(source.id(), token, Mode::Edge(edges))
    }

    fn change_stream(&self, source: &impl Watch<Self>, _: u64, edges: Edges) -> io::Result<()> {
        self.change(source.id(), Mode::Edge(edges), false)
    }

    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.add(source.id(), token, Mode::Level)
    }

    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.add(source.id(), token, Mode::Edge(Edges::READ))
    }

    fn mute(&self, source: &impl Watch<Self>, _: u64) -> io::Result<()> {
        self.change(source.id(), Mode::Edge(Edges::READ), true)
    }

    fn unmute(&self, source: &impl Watch<Self>, _: u64) -> io::Result<()> {
        self.change(source.id(), Mode::Edge(Edges::READ), false)
    }

    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()> {
        Self::remove(self, source.id())
    }

    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize> {
        Self::wait(self, limit, BATCH, each)
    }
}

impl Wake<SimSet> for SimWaker {
    fn wake(&self) {
        Self::wake(self);
    }

    fn clear(&self) {
        Self::clear(self);
    }
}
