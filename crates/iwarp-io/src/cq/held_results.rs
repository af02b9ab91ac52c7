//! Results that a fault plan holds back from their queue.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::Mutex;

use crate::faults::{Effect, QueueFaults, Verdict};

/// The faults of a plan for one queue, with results of type `E`.
#[derive(Debug)]
pub struct HeldResults<E> {
    faults: QueueFaults,
    state: Mutex<State<E>>,
}

#[derive(Debug)]
struct State<E> {
    /// The number that the next result gets in its queue, because all results go through here, in order.
    next: u64,
    /// The held results in order, each with the time when it is placed. `None`: never.
    results: VecDeque<(Option<Instant>, E)>,
    /// A deadline is set for the first result.
    timed: bool,
}

impl<E> HeldResults<E> {
    /// Makes a holder that holds no results.
    pub fn new(faults: QueueFaults) -> Self {
        let results = VecDeque::new();
        Self {
            faults,
            state: Mutex::new(State {
                next: 0,
                results,
                timed: false,
            }),
        }
    }

    /// Places results by `put`, or holds them. A held result also holds the results behind it. Returns the time at which
    /// [`release`](Self::release) has to be called, unless it was returned before.
    ///
    /// All results of the queue go through here. So their numbers are known before they are placed: `numbered` gets the first one and how many
    /// there are.
    pub fn place(
        &self,
        entries: impl Iterator<Item = E> + Clone,
        numbered: impl FnOnce(u64, usize),
        now: impl Fn() -> Instant,
        mut put: impl FnMut(E),
        mut effect: impl FnMut(Effect),
    ) -> Option<Instant> {
        let mut state = self.state.lock();
        let count = entries.clone().count();
        numbered(state.next, count);
        state.next += count as u64;
        for entry in entries {
            let before = state.results.back().map(|(until, _)| *until);
            let until = match self.faults.completion() {
                None | Some(Verdict::Refuse) => before,
                Some(Verdict::Hold(time)) => {
                    let end = time.and_then(|time| now().checked_add(time));
                    let before = before.unwrap_or(end);
                    Some(end.and_then(|end| before.map(|before| before.max(end))))
                }
                Some(Verdict::Effect(broken @ Effect::BreakQueue(_))) => {
                    effect(broken);
                    Some(None)
                }
                Some(Verdict::Effect(removed @ Effect::RemoveDevice)) => {
                    effect(removed);
                    before
                }
            };
            match until {
                None => put(entry),
                Some(until) => state.results.push_back((until, entry)),
            }
        }
        state.deadline()
    }

    /// Places by `put` the results that are due. Returns the time of the next call.
    pub fn release(&self, now: Instant, mut put: impl FnMut(E)) -> Option<Instant> {
        let mut state = self.state.lock();
        state.timed = false;
        while let Some((Some(until), _)) = state.results.front()
            && *until <= now
            && let Some((_, entry)) = state.results.pop_front()
        {
            put(entry);
        }
        state.deadline()
    }

    /// Places by `put` all results that are held.
    pub fn release_all(&self, mut put: impl FnMut(E)) {
        let mut state = self.state.lock();
        while let Some((_, entry)) = state.results.pop_front() {
            put(entry);
        }
    }
}

impl<E> State<E> {
    /// Returns the time of the first result, unless it was returned before.
    fn deadline(&mut self) -> Option<Instant> {
        if self.timed {
            return None;
        }
        let (until, _) = self.results.front()?;
        self.timed = until.is_some();
        *until
    }
}
