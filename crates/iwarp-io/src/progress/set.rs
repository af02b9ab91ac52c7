//! The sets that an adapter waits on: sets of the system's descriptors, or of a simulated world's sources.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

#[cfg(target_os = "linux")]
use super::readiness::epoll::{Epoll, EventFd};
use super::readiness::interface::Interface;
use super::readiness::kqueue_rules::KqueueRules;
use super::readiness::mio::{Mio, Pipe};
use super::readiness::{BATCH, Edges, Readiness, Ready, Wake, Watch};
use crate::transport::sim::world::{Mode, SimSet, SimSource, SimWaker};

/// A set of sources.
#[derive(Debug)]
pub enum Set {
    /// Descriptors, over epoll.
    #[cfg(target_os = "linux")]
    Epoll(Epoll),
    /// Descriptors, over mio.
    Mio(Mio),
    /// Descriptors, over mio with a rule of kqueue.
    KqueueRules(KqueueRules),
    /// One of a simulated world.
    Sim(SimSet),
}

/// What makes a [`Set`] ready from elsewhere.
#[derive(Debug)]
pub enum Waker {
    /// An eventfd.
    #[cfg(target_os = "linux")]
    Epoll(EventFd),
    /// A pipe.
    Mio(Pipe),
    /// One of a simulated world.
    Sim(SimWaker),
}

/// What a [`Set`] knows a source by.
#[derive(Clone, Copy, Debug)]
pub enum SourceId<'a> {
    /// A descriptor of the system.
    Descriptor(BorrowedFd<'a>),
    /// A set of descriptors with a rule of kqueue.
    KqueueRules(&'a KqueueRules),
    /// A source of a simulated world.
    Sim(SimSource),
}

impl Set {
    /// An empty set of the system's descriptors, over the interface that the process's environment asks for.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, if it asks for an interface that does not exist; those of the system, when it has no descriptors or
    /// memory left.
    pub fn of_system() -> io::Result<Self> {
        Ok(match Interface::chosen()? {
            #[cfg(target_os = "linux")]
            Interface::Epoll => Self::Epoll(Epoll::new()?),
            Interface::Mio => Self::Mio(Mio::new()?),
            Interface::KqueueRules => Self::KqueueRules(KqueueRules::new()?),
        })
    }

    /// The descriptor by which others can watch the set; a set of a simulated world has none.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(set) => Some(set.as_fd()),
            Self::Mio(set) => Some(set.as_fd()),
            Self::KqueueRules(set) => Some(set.descriptor()),
            Self::Sim(_) => None,
        }
    }
}

/// The set knows everything that has a descriptor by this descriptor.
impl<T: AsFd> Watch<Set> for T {
    fn id(&self) -> SourceId<'_> {
        SourceId::Descriptor(self.as_fd())
    }
}

impl Watch<Self> for Set {
    fn id(&self) -> SourceId<'_> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(set) => SourceId::Descriptor(set.as_fd()),
            Self::Mio(set) => SourceId::Descriptor(set.as_fd()),
            Self::KqueueRules(set) => SourceId::KqueueRules(set),
            Self::Sim(set) => SourceId::Sim(set.source()),
        }
    }
}

impl Watch<Set> for Waker {
    fn id(&self) -> SourceId<'_> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(waker) => SourceId::Descriptor(waker.as_fd()),
            Self::Mio(waker) => SourceId::Descriptor(waker.as_fd()),
            Self::Sim(waker) => SourceId::Sim(waker.source()),
        }
    }
}

/// Calls the set of the kind that the source is of.
macro_rules! of_kind {
    ($set:expr, $source:expr, $call:ident $(, $argument:expr)*) => {
        match ($set, $source.id()) {
            #[cfg(target_os = "linux")]
            (Set::Epoll(set), SourceId::Descriptor(source)) => set.$call(&source $(, $argument)*),
            (Set::Mio(set), SourceId::Descriptor(source)) => set.$call(&source $(, $argument)*),
            (Set::KqueueRules(set), SourceId::Descriptor(source)) => {
                set.$call(&source $(, $argument)*)
            }
            (Set::KqueueRules(set), SourceId::KqueueRules(source)) => {
                set.$call(source $(, $argument)*)
            }
            (Set::Sim(set), SourceId::Sim(source)) => {
                Readiness::$call(set, &source $(, $argument)*)
            }
            _ => Err(of_another_world()),
        }
    };
}

#[cold]
fn of_another_world() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "one set cannot wait for a source of the system and a simulated one",
    )
}

impl Readiness for Set {
    type Id<'a> = SourceId<'a>;
    type Waker = Waker;

    fn another(&self) -> io::Result<Self> {
        Ok(match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(set) => Self::Epoll(set.another()?),
            Self::Mio(set) => Self::Mio(set.another()?),
            Self::KqueueRules(set) => Self::KqueueRules(set.another()?),
            Self::Sim(set) => Self::Sim(set.another()?),
        })
    }

    fn waker(&self) -> io::Result<Waker> {
        Ok(match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(set) => Waker::Epoll(set.waker()?),
            Self::Mio(set) => Waker::Mio(set.waker()?),
            Self::KqueueRules(set) => Waker::Mio(set.waker()?),
            Self::Sim(set) => Waker::Sim(set.waker()?),
        })
    }

    fn reports_untaken(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(set) => set.reports_untaken(),
            Self::Mio(set) => set.reports_untaken(),
            Self::KqueueRules(set) => set.reports_untaken(),
            Self::Sim(set) => set.reports_untaken(),
        }
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
        of_kind!(self, source, remove)
    }

    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(set) => set.wait(limit, each),
            Self::Mio(set) => set.wait(limit, each),
            Self::KqueueRules(set) => set.wait(limit, each),
            Self::Sim(set) => Readiness::wait(set, limit, each),
        }
    }
}

impl Wake<Set> for Waker {
    fn wake(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(waker) => waker.wake(),
            Self::Mio(waker) => waker.wake(),
            Self::Sim(waker) => waker.wake(),
        }
    }

    fn clear(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(waker) => waker.clear(),
            Self::Mio(waker) => waker.clear(),
            Self::Sim(waker) => waker.clear(),
        }
    }
}

impl Watch<SimSet> for SimSource {
    fn id(&self) -> Self {
        *self
    }
}

impl Watch<Self> for SimSet {
    fn id(&self) -> SimSource {
        self.source()
    }
}

impl Watch<SimSet> for SimWaker {
    fn id(&self) -> SimSource {
        self.source()
    }
}

impl Readiness for SimSet {
    type Id<'a> = SimSource;
    type Waker = SimWaker;

    fn another(&self) -> io::Result<Self> {
        Ok(Self::new(self.world()))
    }

    fn waker(&self) -> io::Result<SimWaker> {
        Ok(SimWaker::new(self.world()))
    }

    fn reports_untaken(&self) -> bool {
        true
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
