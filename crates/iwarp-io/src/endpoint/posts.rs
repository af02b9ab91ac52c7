//! Requests of the client.

use iwarp::{InitiatorWqe, PostError, Sge};

use super::gather::Leaves;
use super::owner::{Owner, WorkQueue};
use super::state::{Phase, State};
use super::{Endpoint, Locked, Refused, stream_io};
use crate::progress::Edges;

impl<O: Owner> Endpoint<O> {
    /// Posts an initiator request. The first posts after a poll are sent at once, in this thread. Posts that follow in a row are gathered.
    /// They are sent by the next poll, by the post that completes a batch worth a call, or by the background thread.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    #[inline(always)]
    pub fn post(&self, wqe: InitiatorWqe<'_>) -> Result<(), Refused> {
        let polls = self.fixed.owner.domain(WorkQueue::Initiator).polls();
        let octets = wqe.operation.octets();
        let mut state = self.lock();
        if self.take(&mut state, wqe)? {
            self.leave(state, polls, (1, octets));
        }
        Ok(())
    }

    /// Posts several initiator requests one after the other, and keeps the endpoint locked meanwhile. They are sent together, as a single
    /// request would be that is [posted](Self::post): a list that follows a poll is sent at once, and in one call.
    pub fn posts(&self) -> Posts<'_, O> {
        let polls = self.fixed.owner.domain(WorkQueue::Initiator).polls();
        Posts {
            state: Some(self.lock()),
            polls,
            requests: 0,
            octets: 0,
        }
    }

    /// Returns true if the request waits to be sent.
    #[inline(always)]
    fn take(&self, state: &mut Locked<'_, O>, wqe: InitiatorWqe<'_>) -> Result<bool, Refused> {
        match state.phase {
            Phase::Open => {}
            Phase::Ended if state.connection.is_disconnected() => {
                state.make_room(&self.fixed.owner);
                state.connection.post_flushed(wqe)?;
                state.work(Edges::KICK);
                return Ok(false);
            }
            Phase::Ended => {}
            Phase::Unheard => {
                let local = wqe.operation.is_local();
                self.speak_first(state, local)?;
            }
            Phase::Shut => return Err(Refused::Shut),
            // A Responder's requests wait in the engine for the peer's first FPDU.
            Phase::Starting if self.fixed.early_posts => {}
            Phase::Idle if self.fixed.early_posts => {
                state.make_room(&self.fixed.owner);
                state.connection.post_early(wqe)?;
                self.fixed.owner.waits_for_stream(&mut state.owner);
                return Ok(false);
            }
            Phase::Idle if state.is_unreliable() => {
                state.make_room(&self.fixed.owner);
                state.connection.post_early(wqe)?;
                state.connection.abandon();
                state.work(Edges::KICK);
                return Ok(false);
            }
            Phase::Idle | Phase::Starting | Phase::Disconnected => {
                return Err(PostError::NotConnected.into());
            }
        }
        let State {
            connection, owner, ..
        } = &mut **state;
        let taken = || self.fixed.owner.taken(owner, WorkQueue::Initiator);
        connection.post_initiator_taking(wqe, taken)?;
        Ok(true)
    }

    /// Sends requests that were posted together, or leaves them for later.
    #[inline(always)]
    fn leave(&self, mut state: Locked<'_, O>, polls: u32, (requests, octets): (u32, u64)) {
        let most = stream_io::batch_octets(&state.connection) as u64;
        let clock = || self.fixed.driver.now();
        match state.gather.add(polls, requests, (octets, most), clock) {
            Leaves::Now => {
                state.send();
                state.gather.sent(clock);
            }
            Leaves::Later { first: false } => {}
            Leaves::Later { first: true } => {
                drop(state);
                self.defer(WorkQueue::Initiator);
            }
        }
    }

    /// Checks the first post of a Responder, unless the peer cannot notice the post.
    #[cold]
    fn speak_first(&self, state: &mut State<O>, local: bool) -> Result<(), Refused> {
        if local {
            return Ok(());
        }
        let first = state.connection.would_speak_first();
        if first && !self.fixed.owner.may_speak_first(&state.span) {
            return Err(Refused::SpeaksFirst);
        }
        state.phase = Phase::Open;
        Ok(())
    }

    /// Posts a Receive, connected or not.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn post_receive(&self, context: u64, sges: &[Sge]) -> Result<(), Refused> {
        let mut state = self.lock();
        let flushed = match state.phase {
            Phase::Shut => return Err(Refused::Shut),
            Phase::Ended | Phase::Disconnected => true,
            Phase::Idle => false,
            // After the peer's end in good order the engine flushes the Receive.
            Phase::Starting | Phase::Unheard | Phase::Open => !state.connection.is_running(),
        };
        let stalled = state.connection.is_stalled();
        let State {
            connection, owner, ..
        } = &mut *state;
        let taken = || self.fixed.owner.taken(owner, WorkQueue::Receive);
        connection.post_receive_taking(context, sges, taken)?;
        if stalled || flushed {
            state.work(Edges::KICK);
        }
        Ok(())
    }

    /// All requests come back flushed. A connection that is in use fails.
    pub fn flush(&self) {
        let mut state = self.lock();
        state.connection.flush();
        if matches!(state.phase, Phase::Unheard | Phase::Open) {
            state.phase = Phase::Ended;
            self.fixed.owner.draws_no_more(&mut state.owner);
        }
        state.work(Edges::KICK);
    }
}

/// A list of requests that are posted together. They are sent when it is dropped, at the latest.
pub struct Posts<'a, O: Owner> {
    /// Taken only in the drop.
    state: Option<Locked<'a, O>>,
    polls: u32,
    /// Requests and octets of the list that wait to be sent.
    requests: u32,
    octets: u64,
}

impl<O: Owner> std::fmt::Debug for Posts<'_, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Posts")
            .field("requests", &self.requests)
            .field("octets", &self.octets)
            .finish_non_exhaustive()
    }
}

impl<O: Owner> Posts<'_, O> {
    /// Posts one more request. Those before it stay posted if this one is refused.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    #[inline(always)]
    pub fn post(&mut self, wqe: InitiatorWqe<'_>) -> Result<(), Refused> {
        let Some(state) = &mut self.state else {
            return Err(Refused::Shut); // not before the drop
        };
        let octets = wqe.operation.octets();
        if state.endpoint.take(state, wqe)? {
            self.requests += 1;
            self.octets += octets;
            if self.octets >= stream_io::batch_octets(&state.connection) as u64 {
                state.send();
                (self.requests, self.octets) = (0, 0);
            }
        }
        Ok(())
    }
}

impl<O: Owner> Drop for Posts<'_, O> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take()
            && self.requests > 0
        {
            let endpoint = state.endpoint;
            endpoint.leave(state, self.polls, (self.requests, self.octets));
        }
    }
}
