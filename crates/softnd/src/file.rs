//! The overlapped file. Threads wait here for requests, and drive connections while they wait.

#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use netdirect::{Association, Awaited, OverlappedFile, Result, SimulatedTime};
use netdirect_provider::owned;

use crate::core::{Core, NetworkHold};
use iwarp_io::progress::polling;
use iwarp_io::progress::waiters::{ANYTHING, Waiters};
use iwarp_io::vain_polls;

/// An overlapped file, ND2's `IND2Adapter::CreateOverlappedFile`. Only the handles of clients, and their requests in flight, keep it: the
/// objects that connections keep beyond them, such as the queues, keep only the [`Waiters`].
#[derive(Debug)]
pub(crate) struct File {
    core: Arc<Core>,
    association: Association,
    pub(crate) waiters: Arc<Waiters>,
    #[expect(dead_code, reason = "kept until it is dropped")]
    hold: NetworkHold,
}

impl File {
    pub(crate) fn new(core: Arc<Core>, hold: NetworkHold) -> std::io::Result<Self> {
        let waiters = Arc::new(core.driver.waiters()?);
        Ok(Self {
            core,
            association: Association::default(),
            waiters,
            hold,
        })
    }

    /// Parks a thread that waits for the object with this number.
    fn park_number(
        &self,
        awaited: usize,
        done: &dyn Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let park = || (self.waiters).park(awaited, done, deadline, polling::stop);
        let parked = self.core.driver.driving(park);
        parked.map_err(|error| self.core.cannot_wait(&error))
    }
}

owned!(File of Core: |file| &file.core);

impl OverlappedFile for File {
    fn association(&self) -> &Association {
        &self.association
    }

    fn progress(&self) {
        self.core.driver.driving(|| self.waiters.progress());
    }

    fn park(&self, done: &dyn Fn() -> bool, deadline: Option<Instant>) -> Result<()> {
        self.park_number(ANYTHING, done, deadline)
    }

    fn park_for(
        &self,
        awaited: Awaited,
        done: &dyn Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Result<()> {
        self.park_number(awaited.number(), done, deadline)
    }

    fn wake(&self) {
        self.waiters.wake();
    }

    fn wake_for(&self, awaited: &[Awaited]) {
        let has_happened = |number| awaited.iter().any(|one| one.number() == number);
        self.waiters.wake_for(&has_happened);
    }

    /// The background thread takes over the domains that this thread has polled, unless the program drives the file itself: it has asked
    /// for the descriptor, which serves no other purpose. Otherwise each event would wake both threads.
    fn hand_over(&self) {
        if !self.waiters.is_watched_outside() {
            polling::stop();
        }
    }

    fn polled_in_vain(&self) {
        vain_polls::polled_in_vain(); // a future lets no time of a simulation pass here
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.waiters.outside().descriptor()
    }

    fn simulation(&self) -> Option<Arc<dyn SimulatedTime>> {
        let core = self.core.clone();
        core.driver.environment.world().is_some().then_some(core)
    }
}
