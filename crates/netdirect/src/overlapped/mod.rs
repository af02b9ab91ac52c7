//! Overlapped requests, the files of the objects they are made on, and the ports at which their ends arrive.
//!
//! These types hold each other: an [`Overlapped`] in flight holds its file, the file's [`Association`] holds a port, and a
//! packet in the port holds the `Overlapped`. So they stand in this file together. What they do stands in the modules below,
//! each of which uses this file and the modules before it: `port`, `association`, `request`, `future`.

mod association;
mod future;
mod port;
mod request;

pub use future::Finished;
pub use request::PendingOverlapped;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Debug;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Instant;

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex};
use crate::{Event, Result, Simulation, Status};

/// The caller's record of an overlapped request (`OVERLAPPED`): in which state it is, and how its end is told.
///
/// A caller makes one, lends it to an overlapped method, and learns the end of the request in any of these ways, alone or
/// together:
///
/// - [`wait`](Self::wait) or [`wait_timeout`](Self::wait_timeout), with or without an event (AMB-068). These are progress
///   calls: the waiting thread does the provider's work.
/// - [`status`](Self::status) or [`poll`](Self::poll), now and again.
/// - `.await`, under any executor.
/// - an [`Event`], set at the end: [`with_event`](Self::with_event).
/// - a packet in the [`CompletionPort`](crate::CompletionPort) that the overlapped file is tied to, unless
///   [`without_port`](Self::without_port) (OVL-021).
/// - a [`CompletionSink`], called at the end: [`with_sink`](Self::with_sink).
///
/// ```
/// use netdirect::{Overlapped, Result, Started, Status};
/// # fn connect(_: &Overlapped) -> Result<Started> { Ok(Started::Done) }
/// # fn demo() -> Result<()> {
/// let overlapped = Overlapped::new();
/// match connect(&overlapped)? {
///     Started::Done => {}                          // finished well; nothing will be notified (GEN-008)
///     Started::Pending => overlapped.wait().ok()?, // the request's own status
/// }
/// assert_eq!(overlapped.status(), Status::SUCCESS);
/// # Ok(()) }
/// # demo().unwrap();
/// ```
///
/// Waiting is right after both outcomes, which shortens this to `started?; overlapped.wait().ok()?`, and to
/// [`ext::wait`](crate::ext::wait); awaiting is the same:
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
/// One at a time: a request that is in flight occupies the `Overlapped`; starting another with it fails with
/// [`Status::INVALID_PARAMETER_MIX`]. After its end it may be used again, on any object (OVL-022). An `Overlapped` that was
/// never used is a success (TST-005). Clones are the same `Overlapped`, and each request keeps one: nothing breaks when the
/// caller lets go of it.
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

/// Who is called when a request of an [`Overlapped`] ends, see [`Overlapped::with_sink`].
///
/// A sink is for what has to know every end, whichever way the caller waits: another interface that this one is exported
/// through, or a provider that wraps another provider. Closures are sinks:
///
/// ```
/// # use std::sync::Arc;
/// # use netdirect::{Overlapped, Status};
/// let overlapped = Overlapped::with_sink(Arc::new(|status: Status| println!("ended with {status}")));
/// # let _ = overlapped;
/// ```
pub trait CompletionSink: Send + Sync {
    /// A request has ended with this status. Called in the thread that ended the request, which may be any, the provider's own
    /// included: return soon, and do not wait for another request here.
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
}

/// The overlapped file of an adapter (`HANDLE hOverlappedFile` of `IND2Adapter::CreateOverlappedFile`): parent of every
/// object that has overlapped requests.
///
/// The file may be tied to one [`CompletionPort`] ([`associate`](#method.associate)); packets for requests of all its
/// objects arrive there (ADPT-007), whether it was tied before or after the objects were made (ADPT-008). It behaves as if
/// `FILE_SKIP_COMPLETION_PORT_ON_SUCCESS` and `FILE_SKIP_SET_EVENT_ON_HANDLE` were set (GEN-011): a request that ended in
/// its call notifies nobody.
///
/// Applications seldom call these methods: [`Overlapped::wait`](crate::Overlapped::wait) and [`CompletionPort::get`] do.
/// Requests end without any of these calls; they make it happen in the application's own thread.
///
/// # In an event loop
///
/// On Unix an application with an event loop of its own watches `as_fd` and calls [`progress`](Self::progress) when the
/// descriptor is readable.
///
/// Windows has no such descriptor, since its loops are not told what is ready but what is done. There an application gives
/// its requests a [`CompletionSink`](crate::CompletionSink) that posts a packet to the loop's own completion port
/// (`PostQueuedCompletionStatus`), sets an event (`SetEvent`) or posts a message (`PostMessage`). The provider's own thread
/// then does the work. This works on Unix too.
///
/// # For providers
///
/// - Embed an [`Association`] and return it.
/// - Objects keep the file they were made with: a client may let go of it before its objects (TST-026).
/// - `wake` and `progress` are called from any thread, with no lock of this crate held; `wake` also from within `progress`
///   and `park` of the same file, on the same thread, when a request is completed there. So hold no lock that `wake` takes
///   while completing requests.
/// - No wake-up may be lost: when `wake` begins after a state change that makes `done` true, every `park` that began before,
///   or begins later, returns. A `park` therefore makes itself known to `wake` first, then asks `done`, then sleeps. `done` of this
///   crate reads with sequential consistency and takes no lock, so it may be asked under a lock of the provider's; either a
///   lock that `wake` takes too, or sequentially consistent flags, will do.
pub trait OverlappedFile: Any + Debug + Send + Sync {
    /// Which completion port the file is tied to.
    fn association(&self) -> &Association;

    /// Progresses what is ready. Never blocks.
    fn progress(&self);

    /// Progresses until `done` returns true or the deadline has passed, and blocks in between. It may return early, but an
    /// implementation that always does turns waiting into spinning. The deadline is a time of the
    /// [simulation](Self::simulation), where there is one.
    ///
    /// # Errors
    ///
    /// Of a simulation alone: [`POSSIBLE_DEADLOCK`](Status::POSSIBLE_DEADLOCK) when nothing is left that could make `done`
    /// true, or the reason why this thread cannot wait at all. Waiting again would end in the same way.
    fn park(&self, done: &dyn Fn() -> bool, deadline: Option<Instant>) -> Result<()>;

    /// Something was completed, perhaps elsewhere: all threads parked here ask their `done` again.
    fn wake(&self);

    /// A descriptor for `poll`, `epoll`, `mio` and the like: when it is readable, call [`progress`](Self::progress). Valid
    /// as long as the file; its only use is to be watched. `None` in a simulation, which no event loop of the system can
    /// watch. Windows has [another way](#in-an-event-loop).
    #[cfg(unix)]
    fn as_fd(&self) -> Option<BorrowedFd<'_>>;

    /// The simulation that the provider lives in. `None`, the default, for all providers whose requests end in the system's
    /// time and without calls.
    fn simulation(&self) -> Option<Arc<dyn Simulation>> {
        None
    }
}

impl dyn OverlappedFile {
    /// The time that deadlines of [`park`](OverlappedFile::park) are told in.
    pub(crate) fn now(&self) -> Instant {
        self.simulation()
            .map_or_else(Instant::now, |simulation| simulation.now())
    }
}

/// To which port an overlapped file is tied; each implementation of [`OverlappedFile`] holds one.
#[derive(Debug, Default)]
pub struct Association(Mutex<Tie>);

#[derive(Debug, Default)]
enum Tie {
    #[default]
    None,
    Port(CompletionPort, u64),
    Closed,
}

/// A queue of completions for any number of threads: the I/O completion port of this surface.
///
/// An overlapped file is tied to a port by [`associate`](trait.OverlappedFile.html#method.associate). From then on the end
/// of each request that returned [`Pending`](crate::Started::Pending) is queued here as a [`Packet`], in the order in which
/// the requests ended (TST-031, TST-032), and before the call that ended them returns (TST-030). Applications may
/// [`post`](Self::post) packets of their own.
///
/// [`get`](Self::get) drives: while the queue is empty, the calling thread does the work of the files that are tied to the
/// port. Clones are the same port.
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
pub struct Packet {
    /// The key that the file was tied with, or that was posted.
    pub key: u64,
    /// The request that ended; `None` for packets from [`CompletionPort::post`].
    pub overlapped: Option<Overlapped>,
    /// How the request ended, exactly (AMB-069); [`Status::SUCCESS`] for posted packets. This is the status of the request
    /// that the packet belongs to, even if its `Overlapped` is in use again.
    pub status: Status,
    /// The [`user`](Overlapped::user) value of the request when it ended, or the value that was posted.
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
