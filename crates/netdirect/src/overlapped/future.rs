//! Awaiting the end of a request.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{Overlapped, OverlappedFile};
use crate::Status;

/// The future of an [`Overlapped`]: it resolves to the final status when no request is in flight.
///
/// The end of the request wakes the task, once. The future does not run the provider, because requests end without calls
/// ([rules for providers](crate#for-providers)). An application that wants requests to end in its own thread calls
/// [`OverlappedFile::progress`]. In a [`Simulation`](crate::Simulation), where requests end only during calls, each poll of
/// the future moves the simulation and wakes the task again. Dropping the future does not cancel the request.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Finished {
    overlapped: Overlapped,
    /// Which of the wakers is ours.
    waker: Option<u64>,
    /// Polls in a row that found a simulation in which nothing was left to happen.
    stuck: u32,
}

/// So many polls in a row that find nothing left to happen in a simulation end the wait: other tasks of the same executor have
/// had their turns meanwhile, and have begun what they are going to begin.
const STUCK: u32 = 1000;

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
        if let Some(file) = state
            .file
            .clone()
            .filter(|file| file.simulation().is_some())
        {
            drop(state);
            return self.poll_simulated(&file, &waker);
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
        drop(state);
        drop(old); // may run the executor's code, so not under the lock
        Poll::Pending
    }
}

impl Finished {
    /// A poll in a simulation, which nobody else moves.
    fn poll_simulated(&mut self, file: &Arc<dyn OverlappedFile>, waker: &Waker) -> Poll<Status> {
        file.progress();
        let stepped = file.simulation().map_or(Ok(()), |simulation| {
            if self.overlapped.is_pending() {
                simulation.step(None)
            } else {
                Ok(())
            }
        });
        self.stuck = if stepped.is_ok() { 0 } else { self.stuck + 1 };
        match stepped {
            _ if !self.overlapped.is_pending() => Poll::Ready(self.overlapped.status()),
            Err(error) if self.stuck >= STUCK => Poll::Ready(error.status()),
            _ => {
                waker.wake_by_ref();
                Poll::Pending
            }
        }
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
            stuck: 0,
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
            stuck: 0,
        }
    }
}
