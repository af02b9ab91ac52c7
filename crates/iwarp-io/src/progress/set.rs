//! The sets that an adapter waits on: sets of the system's descriptors, or of a simulated world's sources.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::fd::{AsFd, BorrowedFd};

#[cfg(target_os = "linux")]
use super::readiness::epoll::{Epoll, EventFd};
use super::readiness::flat::{self, Flat, FlatWaker};
use super::readiness::interface::Interface;
use super::readiness::{BATCH, Edges, Readiness, Ready, Wake, Watch};
#[cfg(unix)]
use super::readiness::{
    kqueue_rules::KqueueRules,
    mio::{Mio, Pipe},
};
use super::shared_descriptor::{CarriedSource, CarriedSources, CarrierId};
use super::tokens::RESERVED;
use crate::environment::Environment;
use crate::simulation::World;
use crate::simulation::world::{Mode, SimSet, SimSource, SimWaker};

/// The token of the waker of a set's [carried sources](super::shared_descriptor). The tokens of their carriers follow it.
const CARRIED: u64 = RESERVED + (1 << 16);

/// A set of sources.
#[derive(Debug)]
pub struct Set {
    base: Base,
    /// Set once the set has held a carried source.
    carried: OnceLock<Arc<CarriedSources<Self>>>,
}

/// The implementation of a set.
#[derive(Debug)]
enum Base {
    /// Descriptors, over epoll.
    #[cfg(target_os = "linux")]
    Epoll(Epoll),
    /// Descriptors, over mio.
    #[cfg(unix)]
    Mio(Mio),
    /// Descriptors, over mio with a rule of kqueue.
    #[cfg(unix)]
    KqueueRules(KqueueRules),
    /// Sets in user space.
    Flat(Flat),
    /// A set of a simulated world.
    Sim(SimSet),
}

/// The implementation of a waker of a [`Set`].
#[derive(Debug)]
pub enum Waker {
    /// An eventfd.
    #[cfg(target_os = "linux")]
    Epoll(EventFd),
    /// A pipe.
    #[cfg(unix)]
    Mio(Pipe),
    /// A waker of sets in user space.
    Flat(FlatWaker),
    /// A waker of a simulated world.
    Sim(SimWaker),
}

/// The value by which a [`Set`] identifies a source.
#[derive(Clone, Copy, Debug)]
pub enum SourceId<'a> {
    /// A descriptor of the system; on Windows a socket.
    Descriptor(BorrowedFd<'a>),
    /// A set of descriptors with a rule of kqueue.
    #[cfg(unix)]
    KqueueRules(&'a KqueueRules),
    /// A set or a waker in user space.
    Flat(flat::FlatId<'a>),
    /// A source of a simulated world.
    Sim(SimSource),
    /// A source that another one carries.
    Carried(&'a Arc<CarriedSource>),
}

impl<'a> From<CarrierId<'a>> for SourceId<'a> {
    fn from(id: CarrierId<'a>) -> Self {
        match id {
            CarrierId::Descriptor(descriptor) => Self::Descriptor(descriptor),
            CarrierId::Sim(source) => Self::Sim(source),
        }
    }
}

impl From<Base> for Set {
    fn from(base: Base) -> Self {
        Self {
            base,
            carried: OnceLock::new(),
        }
    }
}

impl Set {
    /// An empty set of the system's descriptors, over the interface that the process's environment asks for.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, if the environment names an interface that does not exist; those of the system, when it has no descriptors or memory
    /// left.
    pub fn of_system() -> io::Result<Self> {
        Ok(Self::from(match Interface::chosen()? {
            #[cfg(target_os = "linux")]
            Interface::Epoll => Base::Epoll(Epoll::new()?),
            #[cfg(unix)]
            Interface::Mio => Base::Mio(Mio::new()?),
            #[cfg(unix)]
            Interface::KqueueRules => Base::KqueueRules(KqueueRules::new()?),
            Interface::Flat => Base::Flat(Flat::new()?),
        }))
    }

    /// An empty set in user space, whatever the environment asks for.
    #[cfg(test)]
    pub fn in_user_space() -> io::Result<Self> {
        Ok(Self::from(Base::Flat(Flat::new()?)))
    }

    /// The edges of a stream that a set in user space will report; `None` if the stream is not there.
    #[cfg(test)]
    pub fn armed(&self, source: &impl Watch<Self>) -> Option<Edges> {
        match (&self.base, source.id()) {
            (Base::Flat(set), SourceId::Descriptor(source)) => set.armed(source),
            _ => None,
        }
    }

    /// An empty set of a simulated world.
    pub fn of_world(world: &World) -> Self {
        Self::from(Base::Sim(SimSet::new(world)))
    }

    /// An empty set of the environment's sources.
    ///
    /// # Errors
    ///
    /// Those of [`of_system`](Self::of_system), and those of the system when it has no descriptors or memory left.
    pub fn in_environment(environment: &Environment) -> io::Result<Self> {
        match environment {
            Environment::System => Self::of_system(),
            Environment::Sim(world) => Ok(Self::of_world(world)),
        }
    }

    /// The set of a simulated world, if this is one.
    pub fn simulated(&self) -> Option<&SimSet> {
        match &self.base {
            Base::Sim(set) => Some(set),
            _ => None,
        }
    }

    /// The sources that others carry. The first call makes their waker.
    fn carried(&self) -> io::Result<&Arc<CarriedSources<Self>>> {
        if let Some(carried) = self.carried.get() {
            return Ok(carried);
        }
        let waker = self.waker()?;
        let carried = self.carried.get_or_init(|| CarriedSources::new(waker));
        match self.base.add_level(carried.waker().id(), CARRIED) {
            // Another thread may have made it.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(carried),
        }
    }

    fn forget(&self, carrier: CarrierId<'_>) {
        // If the system has closed the carrier's descriptor, it is in no set any more.
        let _ = self.base.remove(carrier.into());
    }

    /// The descriptor by which others can watch the set; a set of a simulated world and one in user space have none.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.base {
            #[cfg(target_os = "linux")]
            Base::Epoll(set) => Some(set.as_fd()),
            #[cfg(unix)]
            Base::Mio(set) => Some(set.as_fd()),
            #[cfg(unix)]
            Base::KqueueRules(set) => Some(set.descriptor()),
            Base::Flat(_) => None,
            Base::Sim(_) => None,
        }
    }
}

/// A set identifies everything that has a descriptor by this descriptor.
impl<T: AsFd> Watch<Set> for T {
    fn id(&self) -> SourceId<'_> {
        SourceId::Descriptor(self.as_fd())
    }
}

impl Watch<Self> for Set {
    fn id(&self) -> SourceId<'_> {
        match &self.base {
            #[cfg(target_os = "linux")]
            Base::Epoll(set) => SourceId::Descriptor(set.as_fd()),
            #[cfg(unix)]
            Base::Mio(set) => SourceId::Descriptor(set.as_fd()),
            #[cfg(unix)]
            Base::KqueueRules(set) => SourceId::KqueueRules(set),
            Base::Flat(set) => SourceId::Flat(flat::FlatId::Set(set)),
            Base::Sim(set) => SourceId::Sim(set.source()),
        }
    }
}

impl Watch<Set> for Waker {
    fn id(&self) -> SourceId<'_> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(waker) => SourceId::Descriptor(waker.as_fd()),
            #[cfg(unix)]
            Self::Mio(waker) => SourceId::Descriptor(waker.as_fd()),
            Self::Flat(waker) => SourceId::Flat(flat::FlatId::Waker(waker)),
            Self::Sim(waker) => SourceId::Sim(waker.source()),
        }
    }
}

/// Calls the set of the kind that the source belongs to.
macro_rules! of_kind {
    ($base:expr, $id:expr, $call:ident $(, $argument:expr)*) => {
        match ($base, $id) {
            #[cfg(target_os = "linux")]
            (Base::Epoll(set), SourceId::Descriptor(source)) => set.$call(&source $(, $argument)*),
            #[cfg(unix)]
            (Base::Mio(set), SourceId::Descriptor(source)) => set.$call(&source $(, $argument)*),
            #[cfg(unix)]
            (Base::KqueueRules(set), SourceId::Descriptor(source)) => {
                set.$call(&source $(, $argument)*)
            }
            #[cfg(unix)]
            (Base::KqueueRules(set), SourceId::KqueueRules(source)) => {
                set.$call(source $(, $argument)*)
            }
            (Base::Flat(set), SourceId::Descriptor(source)) => set.$call(&source $(, $argument)*),
            (Base::Flat(set), SourceId::Flat(source)) => set.$call(&source $(, $argument)*),
            (Base::Sim(set), SourceId::Sim(source)) => {
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

impl Base {
    fn add_level(&self, id: SourceId<'_>, token: u64) -> io::Result<()> {
        of_kind!(self, id, add_level, token)
    }

    fn remove(&self, id: SourceId<'_>) -> io::Result<()> {
        of_kind!(self, id, remove)
    }

    #[inline]
    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(set) => set.wait(limit, each),
            #[cfg(unix)]
            Self::Mio(set) => set.wait(limit, each),
            #[cfg(unix)]
            Self::KqueueRules(set) => set.wait(limit, each),
            Self::Flat(set) => set.wait(limit, each),
            Self::Sim(set) => Readiness::wait(set, limit, each),
        }
    }
}

impl Readiness for Set {
    type Id<'a> = SourceId<'a>;
    type Waker = Waker;

    fn another(&self) -> io::Result<Self> {
        Ok(Self::from(match &self.base {
            #[cfg(target_os = "linux")]
            Base::Epoll(set) => Base::Epoll(set.another()?),
            #[cfg(unix)]
            Base::Mio(set) => Base::Mio(set.another()?),
            #[cfg(unix)]
            Base::KqueueRules(set) => Base::KqueueRules(set.another()?),
            Base::Flat(set) => Base::Flat(set.another()?),
            Base::Sim(set) => Base::Sim(set.another()?),
        }))
    }

    fn waker(&self) -> io::Result<Waker> {
        Ok(match &self.base {
            #[cfg(target_os = "linux")]
            Base::Epoll(set) => Waker::Epoll(set.waker()?),
            #[cfg(unix)]
            Base::Mio(set) => Waker::Mio(set.waker()?),
            #[cfg(unix)]
            Base::KqueueRules(set) => Waker::Mio(set.waker()?),
            Base::Flat(set) => Waker::Flat(set.waker()?),
            Base::Sim(set) => Waker::Sim(set.waker()?),
        })
    }

    fn reports_untaken(&self) -> bool {
        if self.carried.get().is_some_and(|carried| carried.is_woken()) {
            // The waker is ready, and does not become so again before a thread has waited on the set.
            return false;
        }
        match &self.base {
            #[cfg(target_os = "linux")]
            Base::Epoll(set) => set.reports_untaken(),
            #[cfg(unix)]
            Base::Mio(set) => set.reports_untaken(),
            #[cfg(unix)]
            Base::KqueueRules(set) => set.reports_untaken(),
            Base::Flat(set) => set.reports_untaken(),
            Base::Sim(set) => set.reports_untaken(),
        }
    }

    #[inline]
    fn reports_once(&self) -> bool {
        match &self.base {
            Base::Flat(set) => set.reports_once(),
            _ => false,
        }
    }

    #[inline]
    fn arm(&self, source: &impl Watch<Self>, edges: Edges) {
        if let (Base::Flat(set), SourceId::Descriptor(source)) = (&self.base, source.id()) {
            set.arm(&source, edges);
        }
    }

    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        match source.id() {
            SourceId::Carried(source) => {
                let watch = |number: usize, carrier: CarrierId<'_>| {
                    let token = CARRIED + 1 + number as u64;
                    self.base.add_level(carrier.into(), token)
                };
                self.carried()?.add(source, token, edges, watch)
            }
            id => of_kind!(&self.base, id, add_stream, token, edges),
        }
    }

    fn change_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        match source.id() {
            SourceId::Carried(source) => self.carried()?.change(source, edges),
            id => of_kind!(&self.base, id, change_stream, token, edges),
        }
    }

    fn set_aside(&self, source: &impl Watch<Self>) -> io::Result<()> {
        match source.id() {
            SourceId::Carried(source) => {
                let carried = self.carried()?;
                carried.set_aside(source, |carrier| self.forget(carrier))
            }
            id => self.base.remove(id),
        }
    }

    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.base.add_level(source.id(), token)
    }

    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        of_kind!(&self.base, source.id(), add_set, token)
    }

    fn mute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        of_kind!(&self.base, source.id(), mute, token)
    }

    fn unmute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        of_kind!(&self.base, source.id(), unmute, token)
    }

    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()> {
        match source.id() {
            SourceId::Carried(source) => {
                let carried = self.carried()?;
                carried.remove(source, |carrier| self.forget(carrier))
            }
            id => self.base.remove(id),
        }
    }

    #[inline]
    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize> {
        match self.carried.get() {
            None => self.base.wait(limit, each),
            Some(carried) => self.wait_with_carried(carried, limit, each),
        }
    }
}

impl Set {
    /// Like [`wait`](Readiness::wait), for a set that holds carried sources: drives the carriers that are ready.
    fn wait_with_carried(
        &self,
        carried: &Arc<CarriedSources<Self>>,
        limit: Option<Duration>,
        mut each: impl FnMut(Ready),
    ) -> io::Result<usize> {
        let mut count = 0;
        let mut woken = false;
        let mut carriers = [0; BATCH];
        let mut ready_carriers = 0;
        let waited = self.base.wait(limit, |ready| match ready.token {
            CARRIED => woken = true,
            token if token > CARRIED => {
                carriers[ready_carriers] = usize::try_from(token - CARRIED - 1).unwrap_or(0);
                ready_carriers += 1;
            }
            _ => {
                count += 1;
                each(ready);
            }
        });
        if woken {
            carried.woken();
        }
        waited?;
        if ready_carriers > 0 {
            carried.drive(&carriers[..ready_carriers]);
        } else {
            carried.drive_due();
        }
        count += carried.report(BATCH - count, each);
        Ok(count)
    }
}

impl Wake<Set> for Waker {
    fn wake(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(waker) => waker.wake(),
            #[cfg(unix)]
            Self::Mio(waker) => waker.wake(),
            Self::Flat(waker) => waker.wake(),
            Self::Sim(waker) => waker.wake(),
        }
    }

    fn clear(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Epoll(waker) => waker.clear(),
            #[cfg(unix)]
            Self::Mio(waker) => waker.clear(),
            Self::Flat(waker) => waker.clear(),
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
