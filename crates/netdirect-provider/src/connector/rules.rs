//! The rules that all connectors share: the effect of events on the locked state.

use std::ops::{Deref, DerefMut};

use netdirect::{Error, Status};
use parking_lot::MutexGuard;

use super::line::{ConnectorLine, ConnectorRules, ConnectorState};
use super::machine::{Act, End, Event, Refusal, State, Step, step};
use crate::error::request_ends;

/// Details of an event.
#[derive(Clone, Copy)]
struct About<'a> {
    error: &'a Error,
    private_data: &'a [u8],
}

#[derive(Clone, Copy)]
enum Which {
    StateChange,
    All,
}

impl<L: ConnectorLine> ConnectorState<L> {
    fn end(&mut self, requests: Which, end: End, error: &Error) {
        let requests = match requests {
            Which::StateChange => self.requests.take_state_change(),
            Which::All => self.requests.take_all(),
        };
        match end {
            End::Success => self.done.end(requests, Status::SUCCESS),
            End::Canceled => self.done.end(requests, request_ends(Status::CANCELED)),
            End::Removed => self
                .done
                .end(requests, request_ends(Status::DEVICE_REMOVED)),
            End::Told => self.done.end(requests, error.clone()),
        }
    }
}

impl Refusal {
    pub(super) fn error(self) -> Error {
        Error::new(self.status, self.what)
    }
}

impl<L: ConnectorLine> ConnectorRules<L> {
    /// Locks the connector.
    pub fn lock<'a>(&'a self, line: &'a L) -> LockedConnector<'a, L> {
        LockedConnector {
            line,
            state: Some(self.state.lock()),
        }
    }

    /// Calls `act` with the state, and does the work that follows, if no other thread has the lock. Returns false otherwise. The line is
    /// not notified that the connector was [unlocked](ConnectorLine::unlocked): this is for lines that call from there.
    pub fn try_with(&self, act: impl FnOnce(&mut ConnectorState<L>)) -> bool {
        let Some(mut state) = self.state.try_lock() else {
            return false;
        };
        act(&mut state);
        let done = std::mem::take(&mut state.done);
        drop(state);
        done.run();
        true
    }

    /// Returns the result of `read` for the state. `None` if another thread has the lock.
    pub fn try_read<T>(&self, read: impl FnOnce(&ConnectorState<L>) -> T) -> Option<T> {
        self.state.try_lock().map(|state| read(&state))
    }

    /// Returns the state of a connector that no other thread has.
    pub fn get_mut(&mut self) -> &mut ConnectorState<L> {
        self.state.get_mut()
    }

    /// Reports an event that is not a call of the client.
    pub fn happens(line: &L, state: &mut ConnectorState<L>, event: Event) {
        Self::event(line, state, event, Status::SUCCESS);
    }

    /// Connect, CompleteConnect or Accept has failed, and ends with this error. The line has already ended its side.
    pub fn fails(line: &L, state: &mut ConnectorState<L>, event: Event, error: impl Into<Error>) {
        if matches!(event, Event::AttemptFails) && state.state == State::Connecting {
            state.failed = true;
        }
        Self::event(line, state, event, error);
    }

    fn event(line: &L, state: &mut ConnectorState<L>, event: Event, error: impl Into<Error>) {
        if let Ok(step) = step(state.state, event) {
            let error = &error.into();
            let about = About {
                error,
                private_data: &[],
            };
            // Only Reject reports a peer that had disconnected.
            drop(Self::enter(line, state, step, about));
        }
    }

    /// Checks that a call is allowed now. If it is, [`called`](Self::called) follows, unless the call fails for another reason.
    pub(super) fn check(state: &mut ConnectorState<L>, call: Event) -> netdirect::Result<Step> {
        step(state.state, call).map_err(|refusal| {
            state.state = refusal.next;
            refusal.error()
        })
    }

    /// Takes the step of a call.
    pub(super) fn called(line: &L, state: &mut ConnectorState<L>, step: Step) {
        drop(Self::called_with(line, state, step, &[]));
    }

    /// Takes the step of a call with private data.
    pub(super) fn called_with(
        line: &L,
        state: &mut ConnectorState<L>,
        step: Step,
        private_data: &[u8],
    ) -> netdirect::Result<()> {
        let about = About {
            error: &Status::SUCCESS.into(),
            private_data,
        };
        Self::enter(line, state, step, about)
    }

    fn enter(
        line: &L,
        state: &mut ConnectorState<L>,
        step: Step,
        about: About<'_>,
    ) -> netdirect::Result<()> {
        let from = std::mem::replace(&mut state.state, step.next);
        let mut result = Ok(());
        for act in step.acts {
            let done = Self::act(line, state, *act, from, about);
            result = result.and(done);
        }
        if !matches!(step.next, State::Waiting | State::Offered | State::Gone) {
            state.listener = None;
        }
        if from != step.next {
            line.entered(state);
        }
        result
    }

    fn act(
        line: &L,
        state: &mut ConnectorState<L>,
        act: Act,
        from: State,
        about: About<'_>,
    ) -> netdirect::Result<()> {
        match act {
            Act::EndNotifications => {
                line.notifications_end(state);
                let notifications = state.requests.take_notifications();
                state.done.end(notifications, Status::SUCCESS);
            }
            Act::EndStateChange(end) => state.end(Which::StateChange, end, about.error),
            Act::EndAll(end) => {
                line.notifications_end(state);
                state.end(Which::All, end, about.error);
            }
            Act::MarkEnded => state.ended = true,
            Act::GiveUp => line.give_up(state, from),
            Act::RejectAnswer => line.reject_answer(state),
            Act::RefuseRequest => return line.refuse_request(state, about.private_data),
            Act::DropRequest => line.drop_request(state),
            Act::PeerHasLeft => line.peer_has_left(state, from),
            Act::EndFlushed => line.end_flushed(state),
            Act::EndReleased => line.end_released(state),
            Act::LeaveDisconnect => line.leave_disconnect(state),
            Act::FinishDisconnect => {
                line.notifications_end(state);
                line.finish_disconnect(state);
            }
            Act::ForgetAll => {
                line.forget_all(state, from);
                state.bound = None;
                state.forget_peer();
            }
        }
        Ok(())
    }
}

/// The locked state of a connector. When it is dropped, the connector is unlocked, then the work that follows is done, then the line is
/// notified.
#[must_use]
pub struct LockedConnector<'a, L: ConnectorLine> {
    line: &'a L,
    /// Taken only in the drop.
    state: Option<MutexGuard<'a, ConnectorState<L>>>,
}

impl<L: ConnectorLine> Deref for LockedConnector<'_, L> {
    type Target = ConnectorState<L>;

    fn deref(&self) -> &ConnectorState<L> {
        self.state.as_ref().expect("taken only in the drop")
    }
}

impl<L: ConnectorLine> DerefMut for LockedConnector<'_, L> {
    fn deref_mut(&mut self) -> &mut ConnectorState<L> {
        self.state.as_mut().expect("taken only in the drop")
    }
}

impl<L: ConnectorLine> Drop for LockedConnector<'_, L> {
    fn drop(&mut self) {
        let done = std::mem::take(&mut self.done);
        drop(self.state.take());
        done.run();
        self.line.unlocked();
    }
}
