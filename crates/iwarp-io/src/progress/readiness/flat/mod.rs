//! Sets in user space, over one call of the system for each adapter.
//!
//! The system is asked for single sources alone: sets, levels and wakers, and what is nested and muted, are kept here. So the sets need no
//! system in which one set can be a source of another one. All sets of an adapter come from one ([`another`](Readiness::another)), and
//! share a `Poll` of mio.
//!
//! - **A report disarms.** A stream is reported once for an edge, and again only after it was [armed](Readiness::arm).
//! - **One thread sleeps in the system's call**, on behalf of all sets, and hands out what it finds; the others sleep on condition
//!   variables. A thread that leaves the call calls one of them there. On Windows the sets have a thread of their own for it (`polling_thread`).
//! - **A source leaves its sets before its descriptor is closed**: the number may be given to another source.

#[cfg(any(windows, test))]
#[cfg_attr(
    not(windows),
    allow(dead_code, reason = "other systems end waits on time")
)]
mod alarm;
mod polling_thread;
mod registered;
mod set_table;
mod shared;

use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Condvar;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};

use super::{Edges, Readiness, Ready, Wake, Watch};
use polling_thread::PollingThread;
use set_table::{Batch, Key, ReportMode, SetTable};
use shared::Shared;

thread_local! {
    /// On which a thread sleeps that is not in the system's call.
    static WOKEN: Arc<Condvar> = Arc::default();
}

/// The sets of one adapter.
#[derive(Debug)]
struct Hub {
    shared: Arc<Shared>,
    /// The thread that makes the system's call, where the sets have one.
    _polling_thread: Option<PollingThread>,
}

impl Deref for Hub {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// A set of sources.
#[derive(Debug)]
pub struct Flat {
    hub: Arc<Hub>,
    number: u64,
}

/// Makes sets ready from another thread.
#[derive(Debug)]
pub struct FlatWaker {
    hub: Arc<Hub>,
    number: u64,
}

/// The value by which a set identifies a source.
#[derive(Clone, Copy, Debug)]
pub enum FlatId<'a> {
    /// A descriptor of the system.
    Descriptor(BorrowedFd<'a>),
    /// A set.
    Set(&'a Flat),
    /// A waker.
    Waker(&'a FlatWaker),
}

/// A set identifies everything that has a descriptor by this descriptor.
impl<T: AsFd> Watch<Flat> for T {
    fn id(&self) -> FlatId<'_> {
        FlatId::Descriptor(self.as_fd())
    }
}

impl Watch<Flat> for FlatId<'_> {
    fn id(&self) -> FlatId<'_> {
        *self
    }
}

impl Watch<Self> for Flat {
    fn id(&self) -> FlatId<'_> {
        FlatId::Set(self)
    }
}

impl Watch<Flat> for FlatWaker {
    fn id(&self) -> FlatId<'_> {
        FlatId::Waker(self)
    }
}

impl Hub {
    fn new(has_thread: bool) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(has_thread)?);
        let polling_thread = has_thread
            .then(|| PollingThread::start(&shared))
            .transpose()?;
        Ok(Self {
            shared,
            _polling_thread: polling_thread,
        })
    }
}

impl Flat {
    /// An empty set of an adapter that has none.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors or memory left.
    pub fn new() -> io::Result<Self> {
        Self::in_hub(polling_thread::is_needed())
    }

    fn in_hub(has_thread: bool) -> io::Result<Self> {
        Ok(Self::of(&Arc::new(Hub::new(has_thread)?)))
    }

    /// An empty set whose system's call is made by a thread of its own, as on Windows.
    #[cfg(test)]
    pub fn with_a_thread() -> io::Result<Self> {
        Self::in_hub(true)
    }

    /// A set whose thread has ended because the system refused its call, after `before` has used the set.
    #[cfg(test)]
    pub fn with_a_lost_thread(before: impl FnOnce(&Self)) -> io::Result<Self> {
        let set = Self::of(&Arc::new(Hub {
            shared: Arc::new(Shared::new(true)?),
            _polling_thread: None,
        }));
        before(&set);
        set.hub.table.lock().lose_the_thread();
        Ok(set)
    }

    /// The edges of a descriptor that will be reported; `None` if it is in no set.
    #[cfg(test)]
    pub fn armed(&self, source: BorrowedFd<'_>) -> Option<Edges> {
        self.hub.table.lock().armed(source.as_raw_fd())
    }

    fn of(hub: &Arc<Hub>) -> Self {
        let number = hub.table.lock().make_set();
        Self {
            hub: Arc::clone(hub),
            number,
        }
    }

    fn with_key<T>(
        &self,
        source: &impl Watch<Self>,
        act: impl FnOnce(&mut SetTable, Key) -> io::Result<T>,
    ) -> io::Result<T> {
        let (key, hub) = match source.id() {
            FlatId::Descriptor(descriptor) => (Key::Socket(descriptor.as_raw_fd()), &self.hub),
            FlatId::Set(set) => (Key::Set(set.number), &set.hub),
            FlatId::Waker(waker) => (Key::Waker(waker.number), &waker.hub),
        };
        if !Arc::ptr_eq(hub, &self.hub) {
            let text = "a set cannot wait for a set or a waker of another adapter";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        act(&mut self.hub.table.lock(), key)
    }

    fn add(&self, source: &impl Watch<Self>, token: u64, mode: ReportMode) -> io::Result<()> {
        if let FlatId::Descriptor(descriptor) = source.id() {
            let mut table = self.hub.table.lock();
            return table.add_socket(self.number, descriptor, token, mode);
        }
        self.with_key(source, |table, key| {
            table.add(self.number, key, token, mode)
        })
    }

    /// Lets a wait until `end` end on time, as long as the result is held.
    #[cfg(windows)]
    fn alarm(&self, end: Option<Instant>) -> Option<Arc<Waiting>> {
        let end = end.filter(|end| *end < Instant::now() + alarm::LONGEST)?;
        let waiting = Arc::new(Waiting {
            hub: Arc::clone(&self.hub),
            set: self.number,
        });
        alarm::set(end, &waiting);
        Some(waiting)
    }

    /// What a wait without a limit of zero finds.
    fn sleep(&self, limit: Option<Duration>, found: &mut Batch) -> io::Result<()> {
        let hub = &**self.hub;
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        #[cfg(windows)]
        let _alarm = self.alarm(end);
        let mut table = hub.table.lock();
        loop {
            table.take(self.number, found);
            if !found.ready().is_empty() {
                break;
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            if table.is_led {
                // A thread that ends has none any more.
                let woken = WOKEN.try_with(Arc::clone).unwrap_or_default();
                table.sleeps(self.number, &woken);
                match end {
                    Some(end) => drop(woken.wait_until(&mut table, end)),
                    None => woken.wait(&mut table),
                }
                table.woke_up(&woken);
            } else {
                table.lead(Some(self.number));
                drop(table);
                table = hub.poll(left)?;
                table.take(self.number, found);
                break; // nothing may mean a signal, which the caller has to learn of
            }
        }
        table.call_a_leader();
        Ok(())
    }

    /// What a wait with a limit of zero finds. If a thread is in the system's call, that thread hands out what the system has to report.
    fn look(&self, found: &mut Batch) -> io::Result<()> {
        let hub = &**self.hub;
        let mut table = hub.table.lock();
        if !table.is_led {
            table.lead(None);
            drop(table);
            table = hub.poll(Some(Duration::ZERO))?;
            table.call_a_leader();
        }
        table.take(self.number, found);
        Ok(())
    }
}

/// A wait that ends on time.
#[cfg(windows)]
struct Waiting {
    hub: Arc<Hub>,
    set: u64,
}

#[cfg(windows)]
impl alarm::Wakes for Waiting {
    fn wake(&self) {
        self.hub.table.lock().wake(self.set);
    }
}

impl Drop for Flat {
    fn drop(&mut self) {
        self.hub.table.lock().drop_set(self.number);
    }
}

impl Readiness for Flat {
    type Id<'a> = FlatId<'a>;
    type Waker = FlatWaker;

    fn another(&self) -> io::Result<Self> {
        Ok(Self::of(&self.hub))
    }

    fn waker(&self) -> io::Result<FlatWaker> {
        let number = self.hub.table.lock().make_waker();
        Ok(FlatWaker {
            hub: Arc::clone(&self.hub),
            number,
        })
    }

    fn reports_untaken(&self) -> bool {
        true
    }

    fn reports_once(&self) -> bool {
        true
    }

    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        self.add(source, token, ReportMode::Edge(edges))
    }

    fn change_stream(&self, source: &impl Watch<Self>, _: u64, edges: Edges) -> io::Result<()> {
        self.with_key(source, |table, key| {
            table.change(self.number, key, Some(ReportMode::Edge(edges)), false)
        })
    }

    fn arm(&self, source: &impl Watch<Self>, edges: Edges) {
        if let FlatId::Descriptor(descriptor) = source.id() {
            self.hub.table.lock().arm(descriptor.as_raw_fd(), edges);
        }
    }

    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.add(source, token, ReportMode::Level)
    }

    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.add(source, token, ReportMode::Edge(Edges::READ))
    }

    fn mute(&self, source: &impl Watch<Self>, _: u64) -> io::Result<()> {
        self.with_key(source, |table, key| {
            table.change(self.number, key, None, true)
        })
    }

    fn unmute(&self, source: &impl Watch<Self>, _: u64) -> io::Result<()> {
        self.with_key(source, |table, key| {
            table.change(self.number, key, None, false)
        })
    }

    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()> {
        self.with_key(source, |table, key| table.remove(self.number, key))
    }

    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize> {
        let mut found = Batch::new();
        if limit == Some(Duration::ZERO) {
            self.look(&mut found)?;
        } else {
            self.sleep(limit, &mut found)?;
        }
        let found = found.ready();
        found.iter().copied().for_each(each);
        Ok(found.len())
    }
}

impl Wake<Flat> for FlatWaker {
    fn wake(&self) {
        self.hub.table.lock().set_awake(self.number, true);
    }

    fn clear(&self) {
        self.hub.table.lock().set_awake(self.number, false);
    }
}

impl Drop for FlatWaker {
    fn drop(&mut self) {
        self.hub.table.lock().drop_waker(self.number);
    }
}
