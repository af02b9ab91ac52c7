//! Results that a fault plan holds back.

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::Instant;

use iwarp_io::faults::{Effect, QueueFaults, Verdict};
use iwarp_io::progress::timers::{Timed, TimerKey};
use parking_lot::Mutex;

use super::{Cq, Entry, Firing};
use crate::fault_names;

/// What a plan does to one queue.
#[derive(Debug)]
pub(super) struct HeldResults {
    faults: QueueFaults,
    state: Mutex<State>,
    cq: Weak<Cq>,
}

#[derive(Debug, Default)]
struct State {
    /// In their order, each with the time when it is placed; `None` is never.
    results: VecDeque<(Option<Instant>, Entry)>,
    /// A deadline is set for the first of them.
    timed: bool,
}

impl HeldResults {
    pub(super) fn new(faults: QueueFaults, cq: Weak<Cq>) -> Self {
        Self {
            faults,
            state: Mutex::default(),
            cq,
        }
    }

    /// Places results, or keeps them: one that is held keeps those behind it.
    pub(super) fn place(&self, cq: &Cq, entries: impl Iterator<Item = Entry>) -> Option<Firing> {
        let state = &mut *self.state.lock();
        let mut firing = None;
        for entry in entries {
            let before = state.results.back().map(|(until, _)| *until);
            let until = match self.faults.completion() {
                None | Some(Verdict::Refuse) => before,
                Some(Verdict::Hold(time)) => {
                    let end = time.and_then(|time| cq.core.now().checked_add(time));
                    let before = before.unwrap_or(end);
                    Some(end.and_then(|end| before.map(|before| before.max(end))))
                }
                Some(Verdict::Effect(Effect::BreakQueue(status))) => {
                    if let Some(status) = fault_names::status(&status) {
                        cq.core.break_soon(self.cq.clone(), status);
                    }
                    Some(None)
                }
                Some(Verdict::Effect(Effect::RemoveDevice)) => {
                    cq.core.device.remove_by_plan();
                    before
                }
            };
            match until {
                None => firing = both(firing, cq.put(std::iter::once(entry))),
                Some(until) => state.results.push_back((until, entry)),
            }
        }
        self.keep_time(cq, state);
        firing
    }

    fn keep_time(&self, cq: &Cq, state: &mut State) {
        if let Some((Some(until), _)) = state.results.front()
            && !state.timed
        {
            state.timed = true;
            cq.core.set_timer(*until, self.cq.clone());
        }
    }

    /// Places what is not held any longer.
    fn release(&self, cq: &Cq, now: Instant) -> Option<Firing> {
        let state = &mut *self.state.lock();
        state.timed = false;
        let due = |(until, _): &&(Option<Instant>, Entry)| until.is_some_and(|until| until <= now);
        let count = state.results.iter().take_while(due).count();
        let entries: Vec<_> = state
            .results
            .drain(..count)
            .map(|(_, entry)| entry)
            .collect();
        let firing = cq.put(entries.into_iter());
        self.keep_time(cq, state);
        firing
    }
}

fn both(one: Option<Firing>, other: Option<Firing>) -> Option<Firing> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}

impl Timed for Cq {
    fn expired(&self, _: TimerKey, now: Instant) {
        if let Some(held) = &self.held
            && let Some(firing) = held.release(self, now)
        {
            self.deliver(firing);
        }
    }
}
