//! Awaiting the end of a request.

use std::cell::Cell;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{Overlapped, OverlappedFile};
use crate::{Result, SimulatedTime, Status};

/// The future of an [`Overlapped`]: it resolves to the final status when no request is in flight.
///
/// The end of the request wakes the task, once. The future does not run the provider, because requests end without calls
/// ([rules for providers](crate#for-providers)). An application that wants requests to end in its own thread calls
/// [`OverlappedFile::progress`]. In a [simulation](crate::SimulatedTime), where requests end only during calls, each poll of
/// the future moves the simulation and wakes the task again. Dropping the future does not cancel the request.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Finished {
    overlapped: Overlapped,
    /// Which of the wakers is ours.
    waker: Option<u64>,
    simulated: SimulatedWait,
}

/// Moves a [simulation](crate::SimulatedTime) for a future that waits there. [`Finished`] uses it, and so do futures that wait
/// for something else than the end of one request.
///
/// Where many tasks wait, each poll of each of them could move the simulation on, and time limits would end before a task whose
/// request has ended gets its turn. So a poll moves the simulation only if no request has ended since the last poll of the same
/// future. And only after many such polls a poll moves the simulation to an event that is further away than 100 µs, such as a time
/// limit: in between, an executor has polled every task that was woken.
#[derive(Debug, Default)]
pub struct SimulatedWait {
    /// How many requests had ended in this thread at the last poll.
    seen: u64,
    /// Polls in a row before which no request had ended.
    quiet: u32,
    /// Polls in a row that found a simulation in which nothing was left to happen.
    stuck: u32,
}

/// So many polls in a row that find nothing left to happen in a simulation end the wait: other tasks of the same executor have
/// had their turns meanwhile, and have begun what they are going to begin.
const STUCK: u32 = 1000;

/// So many polls of a future in a row, before which no request has ended, move the simulation by no more than [`NEAR`] each.
/// Executors may poll one task a hundred times before they poll another one that was woken.
const PATIENCE: u32 = 1000;
const NEAR: Duration = Duration::from_micros(100);

thread_local! {
    /// How many requests have ended in this thread. A simulation has one thread.
    static ENDED: Cell<u64> = const { Cell::new(0) };
}

/// A request has ended.
pub(super) fn count_end() {
    ENDED.set(ENDED.get().wrapping_add(1));
}

impl SimulatedWait {
    /// A wait that begins.
    pub fn new() -> Self {
        Self::default()
    }

    /// One poll of a future that waits until `done` returns true: runs the file's provider once and, if `done` still returns false and no
    /// other task has to get its turn, moves the simulation to its next event. While the wait goes on, `poll` wakes the task again, because
    /// no other thread moves the simulation.
    ///
    /// # Errors
    ///
    /// [`POSSIBLE_DEADLOCK`](Status::POSSIBLE_DEADLOCK) if many polls in a row have found no event left, or another status if
    /// the calling thread may not move the simulation. What the future waits for is then still in flight.
    pub fn poll(
        &mut self,
        file: &dyn OverlappedFile,
        simulation: &dyn SimulatedTime,
        waker: &Waker,
        done: impl Fn() -> bool,
    ) -> Poll<Result<()>> {
        file.progress();
        self.poll_time(simulation, waker, done)
    }

    /// As [`poll`](Self::poll), for a future that waits for no file.
    pub(crate) fn poll_time(
        &mut self,
        simulation: &dyn SimulatedTime,
        waker: &Waker,
        done: impl Fn() -> bool,
    ) -> Poll<Result<()>> {
        let others_first = self.seen != ENDED.get();
        self.quiet = match others_first {
            true => 0,
            false => self.quiet.saturating_add(1),
        };
        let until = (self.quiet <= PATIENCE).then(|| simulation.now() + NEAR);
        let stepped = match others_first || done() {
            true => Ok(()),
            false => simulation.step(until),
        };
        self.seen = ENDED.get();
        self.stuck = if stepped.is_ok() { 0 } else { self.stuck + 1 };
        match stepped {
            _ if done() => Poll::Ready(Ok(())),
            Err(error) if self.stuck >= STUCK => Poll::Ready(Err(error)),
            _ => {
                waker.wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl Future for Finished {
    type Output = Status;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Status> {
        let waker = cx.waker().clone();
        let shared = self.overlapped.0.clone();
        let mut state = shared.state.lock();
        if state.file.is_none() {
            self.waker = None;
            return Poll::Ready(self.overlapped.status());
        }
        let file = state.file.clone();
        if let Some((file, simulation)) =
            file.and_then(|file| file.simulation().map(|it| (file, it)))
        {
            drop(state);
            let overlapped = &self.overlapped.clone();
            let waited = self
                .simulated
                .poll(&*file, &*simulation, &waker, || !overlapped.is_pending());
            return waited.map(|waited| match waited {
                Ok(()) => overlapped.status(),
                Err(error) => overlapped.cannot_wait(error),
            });
        }
        let own = self
            .waker
            .and_then(|id| state.wakers.iter_mut().find(|(other, _)| *other == id));
        let old = match own {
            Some((_, old)) => Some(std::mem::replace(old, waker)),
            None => {
                let id = state.next_waker;
                state.next_waker += 1;
                state.wakers.push((id, waker));
                self.waker = Some(id);
                None
            }
        };
        let file = state.file.clone();
        drop(state);
        drop(old); // may run the executor's code, so not under the lock
        if let Some(file) = file {
            file.hand_over();
            file.polled_in_vain();
        }
        Poll::Pending
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        let Some(id) = self.waker else { return };
        let mut state = self.overlapped.0.state.lock();
        let own = state.wakers.iter().position(|(other, _)| *other == id);
        let waker = own.map(|at| state.wakers.swap_remove(at));
        drop(state);
        drop(waker);
    }
}

impl IntoFuture for &Overlapped {
    type Output = Status;
    type IntoFuture = Finished;

    fn into_future(self) -> Finished {
        Finished {
            overlapped: self.clone(),
            waker: None,
            simulated: SimulatedWait::new(),
        }
    }
}

impl IntoFuture for Overlapped {
    type Output = Status;
    type IntoFuture = Finished;

    fn into_future(self) -> Finished {
        Finished {
            overlapped: self,
            waker: None,
            simulated: SimulatedWait::new(),
        }
    }
}
