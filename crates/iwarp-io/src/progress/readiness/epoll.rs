//! The readiness interface over Linux's epoll and eventfd.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use super::super::interrupts;
use super::{BATCH, Edges, Readiness, Ready, Wake, Watch};
use crate::system_call::named;

/// A set of sources, an epoll instance.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A set identifies everything that has a descriptor by this descriptor.
impl<T: AsFd> Watch<Epoll> for T {
    fn id(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// Those of `epoll_create(2)`.
    pub fn new() -> io::Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC).map_err(named("epoll_create1"))?;
        Ok(Self(set))
    }
}

const STREAM: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);
const SET: EventFlags = EventFlags::IN.union(EventFlags::ET);

impl Readiness for Epoll {
    type Id<'a> = BorrowedFd<'a>;
    type Waker = EventFd;

    fn another(&self) -> io::Result<Self> {
        Self::new()
    }

    fn waker(&self) -> io::Result<EventFd> {
        EventFd::new()
    }

    fn reports_untaken(&self) -> bool {
        true
    }

    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        let data = EventData::new_u64(token);
        epoll::add(&self.0, source.id(), data, stream_flags(edges)).map_err(named("epoll_ctl"))
    }

    fn change_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        let data = EventData::new_u64(token);
        epoll::modify(&self.0, source.id(), data, stream_flags(edges)).map_err(named("epoll_ctl"))
    }

    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        epoll::add(
            &self.0,
            source.id(),
            EventData::new_u64(token),
            EventFlags::IN,
        )
        .map_err(named("epoll_ctl"))
    }

    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        epoll::add(&self.0, source.id(), EventData::new_u64(token), SET).map_err(named("epoll_ctl"))
    }

    fn mute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        let nothing = EventFlags::empty();
        epoll::modify(&self.0, source.id(), EventData::new_u64(token), nothing)
            .map_err(named("epoll_ctl"))
    }

    fn unmute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        epoll::modify(&self.0, source.id(), EventData::new_u64(token), SET)
            .map_err(named("epoll_ctl"))
    }

    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()> {
        epoll::delete(&self.0, source.id()).map_err(named("epoll_ctl"))
    }

    #[inline]
    fn wait(&self, limit: Option<Duration>, mut each: impl FnMut(Ready)) -> io::Result<usize> {
        let sleeps = limit != Some(Duration::ZERO);
        let limit = match sleeps && interrupts::sleep(Some(self.0.as_raw_fd()), limit) {
            true => Some(Duration::ZERO),
            false => limit,
        };
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); BATCH];
        let (ready, _) = match epoll::wait(&self.0, &mut events[..], limit.as_ref()) {
            // A signal counts as nothing ready, because every caller looks again by itself.
            Err(rustix::io::Errno::INTR) => {
                interrupts::note();
                return Ok(0);
            }
            other => other.map_err(named("epoll_pwait"))?,
        };
        for event in ready.iter() {
            let (data, flags) = (event.data, event.flags);
            each(Ready {
                token: data.u64(),
                edges: edges(flags),
            });
        }
        Ok(ready.len())
    }
}

fn stream_flags(edges: Edges) -> EventFlags {
    if edges.contains(Edges::WRITE) {
        STREAM | EventFlags::OUT
    } else {
        STREAM
    }
}

fn edges(flags: EventFlags) -> Edges {
    let mut edges = Edges::empty();
    if flags.contains(EventFlags::IN) {
        edges |= Edges::READ;
    }
    if flags.contains(EventFlags::OUT) {
        edges |= Edges::WRITE;
    }
    if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
        edges |= Edges::HANGUP | Edges::READ | Edges::WRITE;
    }
    edges
}

/// Makes a set ready from another thread, an eventfd.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags).map_err(named("eventfd2"))?))
    }
}

impl Wake<Epoll> for EventFd {
    fn wake(&self) {
        // The only failure is a full counter, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        let mut count = [0; 8];
        // If there is nothing to read, the counter was clear.
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
