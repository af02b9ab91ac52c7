//! The overlapped file. Threads wait here for requests, and drive connections while they wait.

#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use netdirect::{Association, Awaited, OverlappedFile, Result, SimulatedTime};

use crate::core::{Core, NetworkHold};
use iwarp_io::progress::parking::{ANYTHING, Parking};
use iwarp_io::progress::polling;

/// An overlapped file, ND2's `IND2Adapter::CreateOverlappedFile`. Only the handles that clients have keep it, and their requests in
/// flight: what connections keep beyond them, such as the queues, keeps no more than the [`Parking`].
#[derive(Debug)]
pub(crate) struct File {
    core: Arc<Core>,
    association: Association,
    pub(crate) parking: Arc<Parking>,
    #[expect(dead_code, reason = "kept until it is dropped")]
    hold: NetworkHold,
}

impl File {
    pub(crate) fn new(core: Arc<Core>, hold: NetworkHold) -> std::io::Result<Self> {
        let parking = Arc::new(core.driver.parking()?);
        Ok(Self {
            core,
            association: Association::default(),
            parking,
            hold,
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Parks a thread that waits for what has this number.
    fn park_number(
        &self,
        awaited: usize,
        done: &dyn Fn() -> bool,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let park = || (self.parking).park(awaited, done, deadline, polling::stop);
        let parked = self.core.driving(park);
        parked.map_err(|error| self.core.cannot_wait(&error))
    }
}

impl OverlappedFile for File {
    fn association(&self) -> &Association {
        &self.association
    }

    fn progress(&self) {
        self.core.driving(|| self.parking.progress());
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
        self.parking.wake();
    }

    fn wake_for(&self, awaited: &[Awaited]) {
        let has_happened = |number| awaited.iter().any(|one| one.number() == number);
        self.parking.wake_for(&has_happened);
    }

    /// The background thread takes over what this thread has polled, unless the program drives the file itself: it has asked for the
    /// descriptor, which serves no other purpose. Otherwise each event would wake both threads.
    fn hand_over(&self) {
        if !self.parking.is_watched_outside() {
            polling::stop();
        }
    }

    #[cfg(unix)]
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.parking.outside().descriptor()
    }

    fn simulation(&self) -> Option<Arc<dyn SimulatedTime>> {
        let core = self.core.clone();
        core.driver.environment.world().is_some().then_some(core)
    }
}
