//! Overlapped requests, the files of the objects they are made on, and the ports at which their ends arrive.
//!
//! These types hold each other: an [`Overlapped`] in flight holds its file, the file's [`Association`] holds a port, and a packet in the
//! port holds the `Overlapped`. So they are in this file together. What they do is in the modules below, each of which uses this file and
//! the modules before it: `port`, `association`, `request`, `future`.

mod association;
mod future;
mod port;
mod request;

pub use future::{Finished, SimulatedWait};
pub use request::PendingOverlapped;

use std::any::Any;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Debug;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Instant;

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex};
use crate::{Event, Result, SimulatedTime, Status};

/// The caller's handle of an overlapped request (`OVERLAPPED`): the state of the request, and how the caller learns that it has
/// ended.
///
/// A caller creates an `Overlapped` and passes it to an overlapped method. There are several ways to learn the end of the
/// request, and they can be combined:
///
/// - Wait with [`wait`](Self::wait) or [`wait_timeout`](Self::wait_timeout), with or without an event (AMB-068). The waiting
///   thread runs the provider.
/// - Ask with [`status`](Self::status) or [`poll`](Self::poll) from time to time.
/// - Use `.await`, with any executor.
/// - Wait for an [`Event`] that is set at the end: [`with_event`](Self::with_event).
/// - Take a packet from the [`CompletionPort`](crate::CompletionPort) with which the overlapped file is associated, unless the
///   `Overlapped` is [`without_port`](Self::without_port) (OVL-021).
/// - Have a [`CompletionSink`] called at the end: [`with_sink`](Self::with_sink).
///
/// ```
/// use netdirect::{Overlapped, Result, Started, Status};
/// # fn connect(_: &Overlapped) -> Result<Started> { Ok(Started::Done) }
/// # fn demo() -> Result<()> {
/// let overlapped = Overlapped::new();
/// match connect(&overlapped)? {
///     Started::Done => {}                          // has succeeded; no notification follows (GEN-008)
///     Started::Pending => overlapped.wait().ok()?, // the request's own status
/// }
/// assert_eq!(overlapped.status(), Status::SUCCESS);
/// # Ok(()) }
/// # demo().unwrap();
/// ```
///
/// A wait is correct after both outcomes, so `let _ = connect(&overlapped)?; overlapped.wait().ok()?` does the same, and so
/// does [`ext::wait`](crate::ext::wait). With `.await`:
///
/// ```
/// # use netdirect::{Overlapped, Result, Started};
/// # fn connect(_: &Overlapped) -> Result<Started> { Ok(Started::Done) }
/// # async fn demo() -> Result<()> {
/// let overlapped = Overlapped::new();
/// let _ = connect(&overlapped)?;
/// (&overlapped).await.ok()?;
/// # Ok(()) }
/// ```
///
/// An `Overlapped` serves one request at a time. Starting another request with it while one is in flight fails with
/// [`Status::INVALID_PARAMETER_MIX`]. After the end of a request, it can be used again on any object (OVL-022). An
/// `Overlapped` that was never used has the status [`Status::SUCCESS`] (TST-005). A clone is the same `Overlapped`. A request
/// in flight keeps a clone, so the caller may drop its own.
#[derive(Clone, Default)]
pub struct Overlapped(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Bits of the status; written under the lock of `state`, read without it.
    status: AtomicU32,
    user: AtomicU64,
    event: Option<Event>,
    sink: Option<Arc<dyn CompletionSink>>,
    port_off: AtomicBool,
    state: Mutex<State>,
}

/// Code that is called when a request of an [`Overlapped`] ends, see [`Overlapped::with_sink`].
///
/// A sink is for code that has to learn the end of every request, no matter how the caller waits: a binding that exports these
/// traits as another interface, or a provider that wraps another provider. A closure is a sink:
///
/// ```
/// # use std::sync::Arc;
/// # use netdirect::{Overlapped, Status};
/// let overlapped = Overlapped::with_sink(Arc::new(|status: Status| println!("ended with {status}")));
/// # let _ = overlapped;
/// ```
pub trait CompletionSink: Send + Sync {
    /// A request has ended with this status. The thread that ended the request makes this call. It may be any thread, including
    /// the provider's own, so return soon and do not wait for another request here.
    fn completed(&self, status: Status);
}

impl<F: Fn(Status) + Send + Sync> CompletionSink for F {
    fn completed(&self, status: Status) {
        self(status);
    }
}

#[derive(Default)]
struct State {
    /// The file of the request in flight: there is a request in flight exactly while this is there.
    file: Option<Arc<dyn OverlappedFile>>,
    /// Tasks that await the end; none is kept past it, so that each is woken once.
    wakers: Vec<(u64, Waker)>,
    next_waker: u64,
    /// Why the last request ended as it did, in words; mostly empty.
    reason: Cow<'static, str>,
}

/// The overlapped file of an adapter (the `HANDLE` that `IND2Adapter::CreateOverlappedFile` returns): the parent of every
/// object that has overlapped requests.
///
/// A file can be associated with one [`CompletionPort`] ([`associate`](#method.associate)). The port then receives packets for
/// the requests of all objects of this file (ADPT-007), whether these objects were created before or after the association
/// (ADPT-008). The file behaves as if `FILE_SKIP_COMPLETION_PORT_ON_SUCCESS` and `FILE_SKIP_SET_EVENT_ON_HANDLE` were set
/// (GEN-011): a request that ends within its call causes no notification.
///
/// Applications seldom call the methods of this trait; [`Overlapped::wait`](crate::Overlapped::wait) and
/// [`CompletionPort::get`] call them. Requests end even if no one calls them. The calls run the provider in the application's
/// own thread.
///
/// # In an event loop
///
/// On Unix, an application with an event loop watches `as_fd`, and calls [`progress`](Self::progress) when the descriptor is
/// readable.
///
/// On Windows there is no such descriptor, because an event loop learns which operations have ended, not which descriptors
/// are ready. There an application gives its requests a [`CompletionSink`](crate::CompletionSink) that posts a packet to the
/// loop's completion port (`PostQueuedCompletionStatus`), sets an event (`SetEvent`) or posts a message (`PostMessage`). The
/// provider's own thread then does the work. Sinks work on Unix too.
///
/// # For providers
///
/// - The file contains an [`Association`] and returns it.
/// - Each object keeps the file that it was created with, because a client may release the file before its objects (TST-026).
/// - `wake` and `progress` may be called by any thread. This crate holds no lock during these calls. When a request is
///   completed within `progress` or `park`, `wake` of the same file is called by the same thread. So complete no request
///   while you hold a lock that `wake` takes.
/// - A provider that overrides one of `park_for` and `wake_for` overrides the other one too.
/// - No wake-up may be lost: if `wake` starts after a change that makes `done` true, every `park` returns, whether it started before or
///   starts later. So `park` first registers itself with `wake`, then calls `done`, then sleeps. The `done` functions of this crate read
///   with sequential consistency and take no lock, so a provider may call them while it holds its own lock. Use either a lock that `wake`
///   takes too, or flags with sequential consistency.
pub trait OverlappedFile: Any + Debug + Send + Sync {
    /// The completion port with which the file is associated.
    fn association(&self) -> &Association;

    /// Does the work that is ready, and never blocks.
    fn progress(&self);

    /// Does the work that becomes ready, and blocks in between, until `done` returns true or the deadline has passed. It may
    /// return early, but an implementation that always returns early makes its callers spin. In a
    /// [simulation](Self::simulation) the deadline is a time of the simulation.
    ///
    /// # Errors
    ///
    /// Only a simulation returns errors: [`POSSIBLE_DEADLOCK`](Status::POSSIBLE_DEADLOCK) if nothing can make `done` true any
    /// more, or the reason why this thread cannot wait. Another call would end in the same way.
    fn park(&self, done: &dyn Fn() -> bool, deadline: Option<Instant>) -> Result<()>;

    /// A request was completed, perhaps through another file: all threads in `park` of this file call their `done` again.
    fn wake(&self);

    /// Parks like [`park`](Self::park) a thread whose `done` can become true only with what is `awaited`. A provider that knows this lets
    /// threads sleep that wait for something else. By default calls `park`.
    ///
    /// # Errors
    ///
    /// As [`park`](Self::park).
    fn park_for(
        &self,
        awaited: Awaited,
        done: &dyn Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let _ = awaited;
        self.park(done, deadline)
    }

    /// As [`wake`](Self::wake), but only for the threads in [`park_for`](Self::park_for) that wait for one of these, and for all
    /// threads in `park`. By default the same as `wake`.
    fn wake_for(&self, awaited: &[Awaited]) {
        let _ = awaited;
        self.wake();
    }

    /// The calling thread, or the task that it runs, is about to wait for a request of this file in a way that does not run the provider:
    /// on an [`Event`], as a future, or for the call of a [`CompletionSink`]. A provider that left work to this thread because the thread
    /// polled now does the work in its own thread at once. By default nothing happens.
    ///
    /// [`Event::wait`], the future of an `Overlapped` and [`Overlapped::begin`] make this call. `begin` may be called with locks
    /// of the provider held, so take none of them here.
    fn hand_over(&self) {}

    /// The calling thread, or the task that it runs, has asked if a request of this file has ended, and the request is still in flight. A
    /// program may ask in a loop, so a provider may let other threads run if they have no other processor. By default nothing happens.
    ///
    /// [`Overlapped::poll`], [`CompletionPort::get`] with a limit of zero, and futures make this call, with no lock held.
    fn polled_in_vain(&self) {}

    /// A descriptor to watch with `poll`, `epoll`, `mio` and the like; when it is readable, call
    /// [`progress`](Self::progress). The descriptor is valid as long as the file, and serves no other purpose. `None` in a
    /// simulation, because an event loop cannot watch simulated time. For Windows see [above](#in-an-event-loop).
    #[cfg(unix)]
    fn as_fd(&self) -> Option<BorrowedFd<'_>>;

    /// The simulation that the provider runs in. `None`, the default, for all other providers, whose requests end without
    /// calls and whose time is the system's.
    fn simulation(&self) -> Option<Arc<dyn SimulatedTime>> {
        None
    }
}

/// Names what a thread waits for: a request, or a packet in a completion port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Awaited(usize);

impl Awaited {
    fn new<T>(shared: &Arc<T>) -> Self {
        Self(Arc::as_ptr(shared).addr())
    }

    /// The name as a number, which is not 0.
    pub const fn number(self) -> usize {
        self.0
    }
}

impl dyn OverlappedFile {
    /// The current time on the clock of the deadlines of [`park`](OverlappedFile::park).
    pub(crate) fn now(&self) -> Instant {
        self.simulation()
            .map_or_else(Instant::now, |simulation| simulation.now())
    }
}

/// The completion port with which an overlapped file is associated. Each implementation of [`OverlappedFile`] contains one.
#[derive(Debug, Default)]
pub struct Association(Mutex<Tie>);

#[derive(Debug, Default)]
enum Tie {
    #[default]
    None,
    Port(CompletionPort, u64),
    Closed,
}

/// A queue of completions from which any number of threads can take: the I/O completion port of this crate.
///
/// [`associate`](trait.OverlappedFile.html#method.associate) connects an overlapped file with a port. From then on, each
/// request that returned [`Pending`](crate::Started::Pending) queues a [`Packet`] at its end. The packets are in the order in
/// which the requests ended (TST-031, TST-032), and each is queued before the call that ends its request returns (TST-030).
/// Applications can [`post`](Self::post) packets of their own.
///
/// While the queue is empty, [`get`](Self::get) runs the providers of the associated files in the calling thread. A clone is
/// the same port.
///
/// ```
/// use netdirect::CompletionPort;
///
/// let port = CompletionPort::new();
/// let worker = std::thread::spawn({
///     let port = port.clone();
///     move || port.get(None).expect("no time limit").user
/// });
/// port.post(0, 42); // for example: time to stop
/// assert_eq!(worker.join().unwrap(), 42);
/// ```
#[derive(Clone, Default)]
pub struct CompletionPort(Arc<Queue>);

/// One completion taken from a [`CompletionPort`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Packet {
    /// The key that was passed to `associate` or [`post`](CompletionPort::post).
    pub key: u64,
    /// The request that ended; `None` for packets from [`CompletionPort::post`].
    pub overlapped: Option<Overlapped>,
    /// The exact final status of the request (AMB-069), even if its `Overlapped` is in use for another request already;
    /// [`Status::SUCCESS`] for posted packets.
    pub status: Status,
    /// The [`user`](Overlapped::user) value at the end of the request, or the value that was posted.
    pub user: u64,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    /// Number of packets; changed under the lock, read without it by parked threads.
    queued: AtomicUsize,
    /// For threads that wait while no file is tied to the port.
    posted: Condvar,
}

#[derive(Default)]
struct QueueState {
    packets: VecDeque<Packet>,
    files: Vec<Tied>,
    /// Threads asleep on `posted`.
    idle: usize,
}

/// A file of this port. The file owns the port through its association, so the port must not own the file.
struct Tied {
    file: Weak<dyn OverlappedFile>,
    /// Threads in `get` parked on it.
    parked: usize,
}
