//! Overlapped files: where requests of the control path are driven and waited for.

use std::any::Any;
use std::fmt::Debug;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use crate::sync::Mutex;
use crate::{CompletionPort, Error, Result, Simulation, Status};

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

    /// Ties the file to a completion port (`CreateIoCompletionPort`): the end of every request of its objects that returned
    /// pending is queued there, as a [`Packet`](crate::Packet) with this key.
    ///
    /// Only requests that end from now on; only once in the life of a file.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID_DEVICE_STATE`]: the file is tied to a port already, or was closed.
    pub fn associate(self: &Arc<Self>, port: &CompletionPort, key: u64) -> Result<()> {
        self.association().set(port, key)?;
        port.attach(self);
        Ok(())
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

impl Association {
    /// Not tied to any port.
    pub fn new() -> Self {
        Self::default()
    }

    /// The port and the key, once [`associate`](trait.OverlappedFile.html#method.associate) was called.
    pub fn port(&self) -> Option<(CompletionPort, u64)> {
        match &*self.0.lock() {
            Tie::Port(port, key) => Some((port.clone(), *key)),
            Tie::None | Tie::Closed => None,
        }
    }

    /// Lets go of the port for good: requests that end later are not queued to it, and no other port can be tied. Events,
    /// waits and futures go on working. For providers whose files can be closed while objects still use them.
    pub fn close(&self) {
        let tie = std::mem::replace(&mut *self.0.lock(), Tie::Closed);
        drop(tie); // outside the lock: this may be the last reference to the port
    }

    fn set(&self, port: &CompletionPort, key: u64) -> Result<()> {
        let mut tie = self.0.lock();
        match *tie {
            Tie::None => *tie = Tie::Port(port.clone(), key),
            Tie::Port(..) => {
                return Err(Error::new(
                    Status::INVALID_DEVICE_STATE,
                    "the file is tied to a completion port already",
                ));
            }
            Tie::Closed => {
                return Err(Error::new(
                    Status::INVALID_DEVICE_STATE,
                    "the file was closed",
                ));
            }
        }
        Ok(())
    }
}
