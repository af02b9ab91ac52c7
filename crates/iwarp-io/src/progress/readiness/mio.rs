//! The readiness interface over mio, which works on every Unix: over kqueue on macOS and the BSDs, over epoll on Linux.
//!
//! mio reports only edges, cannot mute a source, and lets one thread at a time wait in a `Poll`. Therefore:
//!
//! - A level is registered again inside the wait, after its report. The system then examines the source anew. So the source is reported
//!   again for as long as it is ready, and sets around this set become ready as well.
//! - A muted source is deregistered, and registered again when it is unmuted.
//! - A thread that finds another one asleep in the set leaves its reports to that thread, which looks once more when it wakes. If the other
//!   thread does not sleep, it waits for that thread.
//! - The set keeps a list of its sources, because kqueue does not report if a source was registered.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::event::Event;
use mio::unix::{SourceFd, pipe};
use mio::{Events, Interest, Poll, Registry, Token};
use parking_lot::{Mutex, MutexGuard};

use super::super::interrupts;
use super::{BATCH, Edges, Readiness, Ready, Wake, Watch};

/// A set of sources, mio's `Poll`. It takes two descriptors.
#[derive(Debug)]
pub struct Mio {
    /// The waiting thread holds the lock.
    poll: Mutex<(Poll, Events)>,
    /// The thread that holds the lock sleeps, or has not taken its reports yet.
    asleep: AtomicBool,
    /// Since that thread began to wait, another one was refused the lock.
    refused: AtomicBool,
    /// For all other calls, which other threads make while one waits. Other sets identify this set by the registry's descriptor.
    registry: Registry,
    sources: Mutex<Sources>,
    /// The set has had a level. If so, each wait checks if it has reported one.
    any_level: AtomicBool,
}

/// The time in which a thread that does not sleep takes its reports, in nearly all cases.
const SHORT: Duration = Duration::from_micros(100);

/// The right to wait on a set.
type PollLock<'a> = MutexGuard<'a, (Poll, Events)>;

/// The sources of a set.
#[derive(Debug, Default)]
struct Sources {
    registered: HashMap<RawFd, Registered>,
    levels: Vec<(Token, RawFd)>,
}

/// The registration of a source.
#[derive(Clone, Copy, Debug)]
struct Registered {
    token: u64,
    interest: Interest,
    /// The source is a level: it is reported for as long as it is ready.
    level: bool,
    /// The source is not registered with the system for now.
    muted: bool,
}

/// Converts a token to mio's type.
fn system_token(token: u64) -> io::Result<Token> {
    let cut = |_| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            "sets of mio need a 64-bit system",
        )
    };
    usize::try_from(token).map(Token).map_err(cut)
}

impl AsFd for Mio {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.registry.as_fd()
    }
}

/// A set identifies everything that has a descriptor by this descriptor.
impl<T: AsFd> Watch<Mio> for T {
    fn id(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Mio {
    /// An empty set.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors or memory left.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        Ok(Self {
            poll: Mutex::new((poll, Events::with_capacity(BATCH))),
            asleep: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            registry,
            sources: Mutex::default(),
            any_level: AtomicBool::new(false),
        })
    }

    fn add(&self, source: BorrowedFd<'_>, new: Registered) -> io::Result<()> {
        let descriptor = source.as_raw_fd();
        let token = system_token(new.token)?;
        let mut sources = self.sources.lock();
        // An entry under another token belongs to a source that was closed without being taken out. The system has forgotten that source,
        // and has given its number to the new one.
        let old = sources.registered.get(&descriptor);
        if old.is_some_and(|old| old.token == new.token) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if new.level {
            // Set before a wait can report the source. That wait then needs the lock to register the source again.
            self.any_level.store(true, Ordering::SeqCst);
        }
        self.registry
            .register(&mut SourceFd(&descriptor), token, new.interest)?;
        sources.forget(descriptor);
        sources.registered.insert(descriptor, new);
        if new.level {
            sources.levels.push((token, descriptor));
        }
        Ok(())
    }

    /// Makes the system examine a source anew; the source may be muted.
    fn look_anew(&self, source: BorrowedFd<'_>, now: Registered) -> io::Result<()> {
        let descriptor = source.as_raw_fd();
        let token = system_token(now.token)?;
        let mut sources = self.sources.lock();
        let known = sources
            .registered
            .get_mut(&descriptor)
            .ok_or(io::ErrorKind::NotFound)?;
        let source = &mut SourceFd(&descriptor);
        if known.muted {
            self.registry.register(source, token, now.interest)?;
        } else {
            self.registry.reregister(source, token, now.interest)?;
        }
        *known = now;
        Ok(())
    }

    /// Registers a reported source again, if it is a level, so that the system examines the source anew.
    fn rearm(&self, token: Token) -> io::Result<()> {
        let sources = self.sources.lock();
        let level = sources.levels.iter().find(|(level, _)| *level == token);
        match level {
            Some((_, descriptor)) => {
                self.registry
                    .reregister(&mut SourceFd(descriptor), token, Interest::READABLE)
            }
            None => Ok(()),
        }
    }

    /// Takes the right to wait. Returns `None` if another thread sleeps with it for longer than `limit`.
    fn turn(&self, limit: Option<Duration>) -> Option<PollLock<'_>> {
        let turn = match limit {
            None => Some(self.poll.lock()),
            Some(Duration::ZERO) => self.poll.try_lock(),
            Some(limit) => self.poll.try_lock_for(limit),
        };
        turn.or_else(|| {
            self.refused.store(true, Ordering::SeqCst);
            // A thread that wakes up checks `refused` afterwards. A thread that does not sleep may have taken its reports too early for
            // this one, which therefore waits until that thread is done.
            while !self.asleep.load(Ordering::SeqCst) {
                if let Some(turn) = self.poll.try_lock_for(SHORT) {
                    return Some(turn);
                }
            }
            None
        })
    }

    /// Like [`wait`](Readiness::wait), but returns `None` if another thread sleeps here; that thread then gets the reports.
    pub(super) fn wait_alone(
        &self,
        limit: Option<Duration>,
        mut each: impl FnMut(Ready),
    ) -> io::Result<Option<usize>> {
        let Some(mut turn) = self.turn(limit) else {
            return Ok(None);
        };
        let (poll, events) = &mut *turn;
        self.refused.store(false, Ordering::SeqCst);
        self.asleep
            .store(limit != Some(Duration::ZERO), Ordering::SeqCst);
        let taken = take(poll, events, limit, &mut each);
        self.asleep.store(false, Ordering::SeqCst);
        let count = taken?;
        let mut later = Events::with_capacity(0);
        let mut taken_later = Ok(0);
        // After BATCH reports the caller asks again by itself.
        if self.refused.load(Ordering::SeqCst) && count < BATCH {
            later = Events::with_capacity(BATCH - count);
            taken_later = take(poll, &mut later, Some(Duration::ZERO), &mut each);
        }
        if self.any_level.load(Ordering::SeqCst) {
            // After both looks, so that a wait reports a level once.
            for event in events.iter().chain(&later) {
                self.rearm(event.token())?;
            }
        }
        Ok(Some(count + taken_later?))
    }
}

/// Waits for at most `limit`, calls `each` for as many reports as `events` holds, and returns their number.
fn take(
    poll: &mut Poll,
    events: &mut Events,
    limit: Option<Duration>,
    each: &mut impl FnMut(Ready),
) -> io::Result<usize> {
    match poll.poll(events, limit) {
        // A signal counts as nothing ready, because every caller looks again by itself.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            interrupts::note();
            events.clear();
        }
        other => other?,
    }
    let mut count = 0;
    for event in &*events {
        count += 1;
        each(Ready {
            token: event.token().0 as u64,
            edges: edges(event),
        });
    }
    Ok(count)
}

impl Readiness for Mio {
    type Id<'a> = BorrowedFd<'a>;
    type Waker = Pipe;

    fn another(&self) -> io::Result<Self> {
        Self::new()
    }

    fn waker(&self) -> io::Result<Pipe> {
        Pipe::new()
    }

    fn reports_untaken(&self) -> bool {
        // kqueue does not. On a system that does, one more wait does no harm.
        cfg!(target_os = "linux")
    }

    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        self.add(source.id(), Registered::stream(token, edges))
    }

    fn change_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        self.look_anew(source.id(), Registered::stream(token, edges))
    }

    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        let level = Registered {
            level: true,
            ..Registered::set(token)
        };
        self.add(source.id(), level)
    }

    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.add(source.id(), Registered::set(token))
    }

    fn mute(&self, source: &impl Watch<Self>, _: u64) -> io::Result<()> {
        let descriptor = source.id().as_raw_fd();
        let mut sources = self.sources.lock();
        let known = sources
            .registered
            .get_mut(&descriptor)
            .ok_or(io::ErrorKind::NotFound)?;
        if !known.muted {
            self.registry.deregister(&mut SourceFd(&descriptor))?;
            known.muted = true;
        }
        Ok(())
    }

    fn unmute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.look_anew(source.id(), Registered::set(token))
    }

    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()> {
        let descriptor = source.id().as_raw_fd();
        let mut sources = self.sources.lock();
        let known = sources.forget(descriptor).ok_or(io::ErrorKind::NotFound)?;
        if known.muted {
            return Ok(());
        }
        self.registry.deregister(&mut SourceFd(&descriptor))
    }

    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize> {
        Ok(self.wait_alone(limit, each)?.unwrap_or(0))
    }
}

impl Sources {
    fn forget(&mut self, descriptor: RawFd) -> Option<Registered> {
        let known = self.registered.remove(&descriptor)?;
        if known.level {
            self.levels.retain(|(_, level)| *level != descriptor);
        }
        Some(known)
    }
}

impl Registered {
    fn stream(token: u64, edges: Edges) -> Self {
        let mut interest = Interest::READABLE;
        if edges.contains(Edges::WRITE) {
            interest |= Interest::WRITABLE;
        }
        Self {
            interest,
            ..Self::set(token)
        }
    }

    fn set(token: u64) -> Self {
        Self {
            token,
            interest: Interest::READABLE,
            level: false,
            muted: false,
        }
    }
}

fn edges(event: &Event) -> Edges {
    let mut edges = Edges::empty();
    if event.is_readable() {
        edges |= Edges::READ;
    }
    if event.is_writable() {
        edges |= Edges::WRITE;
    }
    if event.is_read_closed() || event.is_write_closed() || event.is_error() {
        edges |= Edges::HANGUP | Edges::READ | Edges::WRITE;
    }
    edges
}

/// A pipe that makes a set ready from another thread. mio's own `Waker` cannot be used, because each `Poll` can have only one, other sets
/// cannot report it, and it is reported once for each wake.
#[derive(Debug)]
pub struct Pipe {
    sender: pipe::Sender,
    receiver: pipe::Receiver,
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (sender, receiver) = pipe::new()?; // neither end blocks
        Ok(Self { sender, receiver })
    }

    /// Makes the pipe ready.
    pub fn wake(&self) {
        // The only failure is a full pipe, which is ready already.
        let _ = (&self.sender).write(&[1]);
    }

    /// Makes the pipe unready again.
    pub fn clear(&self) {
        let mut wakes = [0; 64];
        // A short read has emptied the pipe. If there is nothing to read, the pipe was clear.
        while (&self.receiver)
            .read(&mut wakes)
            .is_ok_and(|count| count == wakes.len())
        {}
    }
}

impl Wake<Mio> for Pipe {
    fn wake(&self) {
        self.wake();
    }

    fn clear(&self) {
        self.clear();
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
