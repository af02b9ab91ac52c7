//! The system's call for all sets of an adapter, and their table.

use std::io;
use std::time::Duration;

use mio::{Events, Poll, Token};
use parking_lot::{Mutex, MutexGuard};

use super::super::super::interrupts;
use super::super::BATCH;
use super::set_table::SetTable;

/// The token of mio's own waker. No source has it.
const CALL: Token = Token(usize::MAX);

/// What the sets of one adapter share with the thread that makes the system's call.
#[derive(Debug)]
pub(super) struct Shared {
    /// Locked by the thread in the system's call, and before `table`.
    poll: Mutex<(Poll, Events)>,
    pub(super) table: Mutex<SetTable>,
}

impl Shared {
    pub(super) fn new(has_thread: bool) -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let call = mio::Waker::new(&registry, CALL)?;
        Ok(Self {
            poll: Mutex::new((poll, Events::with_capacity(BATCH))),
            table: Mutex::new(SetTable::new(registry, call, has_thread)),
        })
    }

    /// Waits in the system's call for at most `limit`, and enters its reports into the table. The caller leads.
    pub(super) fn poll(&self, limit: Option<Duration>) -> io::Result<MutexGuard<'_, SetTable>> {
        let (poll, events) = &mut *self.poll.lock();
        let polled = poll.poll(events, limit);
        let mut table = self.table.lock();
        table.led();
        match polled {
            // A signal counts as nothing ready, because every caller looks again by itself.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => interrupts::note(),
            Err(error) => {
                table.call_a_leader();
                return Err(error);
            }
            Ok(()) => events.iter().for_each(|event| table.reported(event)),
        }
        Ok(table)
    }
}
