//! The faults that a plan has for a completion queue.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::{CompletedNotifies, Entry, Queue, Reason};
use crate::driver::Driver;
use crate::faults::{Effect, FaultOwner, Faults, QueueFaults, Verdict};
use crate::progress::timers::Timed;

/// Holds results back from a completion queue, and breaks the queue down, as a fault plan demands.
#[derive(Debug)]
pub struct PlannedFaults<E> {
    /// The faults of results, if the plan has rules for this queue.
    rules: Option<QueueFaults>,
    held: Mutex<HeldResults<E>>,
    /// The queue breaks down with this reason when its timer expires.
    breakdown: Mutex<Option<Reason>>,
    owner: Arc<dyn FaultOwner>,
    driver: Arc<Driver>,
    /// The queue.
    timed: Weak<dyn Timed>,
}

/// Results that are held back.
#[derive(Debug)]
struct HeldResults<E> {
    /// The number that the next result gets in its queue, because all results go through here, in order.
    next: u64,
    /// The held results in order, each with the time when it is placed. `None`: never.
    results: VecDeque<(Option<Instant>, E)>,
    /// A timer is set for the first result.
    timed: bool,
}

impl<E: Entry> PlannedFaults<E> {
    /// The faults of one more queue of the plan's `owner`. When a timer of `queue` expires, the queue looks at
    /// [`due_breakdown`](Self::due_breakdown), and calls [`release`](Self::release).
    pub fn new(
        plan: Option<&Arc<Faults>>,
        owner: Arc<dyn FaultOwner>,
        driver: &Arc<Driver>,
        queue: Weak<dyn Timed>,
    ) -> Self {
        Self {
            rules: plan.and_then(|plan| plan.queue()),
            held: Mutex::new(HeldResults {
                next: 0,
                results: VecDeque::new(),
                timed: false,
            }),
            breakdown: Mutex::default(),
            owner,
            driver: Arc::clone(driver),
            timed: queue,
        }
    }

    /// Breaks the queue down with the status of this name, at a time when no lock is held.
    pub fn break_soon(&self, status: &str) {
        if let Some(reason) = E::reason(status) {
            *self.breakdown.lock() = Some(reason);
            self.set_timer(Some(self.driver.now()));
        }
    }

    /// The reason with which the queue breaks down now, because its timer has expired.
    pub fn due_breakdown(&self) -> Option<Reason> {
        self.breakdown.lock().take()
    }

    /// As [`Queue::place`], except for results that the plan holds back. A held result also holds the results behind it.
    #[inline]
    pub fn place<R>(
        &self,
        queue: &Queue<E, R>,
        entries: impl Iterator<Item = E> + Clone,
        numbered: impl FnOnce(u64, usize),
        interest: impl Fn(bool),
    ) -> Option<CompletedNotifies<R>> {
        match &self.rules {
            None => queue.place(entries, numbered, interest),
            Some(rules) => self.place_or_hold(rules, queue, entries, numbered, interest),
        }
    }

    /// All results of the queue go through here. So their numbers are known before they are placed.
    #[cold]
    fn place_or_hold<R>(
        &self,
        rules: &QueueFaults,
        queue: &Queue<E, R>,
        entries: impl Iterator<Item = E> + Clone,
        numbered: impl FnOnce(u64, usize),
        interest: impl Fn(bool),
    ) -> Option<CompletedNotifies<R>> {
        let mut notifies = None;
        let mut held = self.held.lock();
        let count = entries.clone().count();
        numbered(held.next, count);
        held.next += count as u64;
        for entry in entries {
            let before = held.results.back().map(|(until, _)| *until);
            let until = match rules.completion() {
                None | Some(Verdict::Refuse) => before,
                Some(Verdict::Hold(time)) => {
                    let end = time.and_then(|time| self.driver.now().checked_add(time));
                    let before = before.unwrap_or(end);
                    Some(end.and_then(|end| before.map(|before| before.max(end))))
                }
                Some(Verdict::Effect(Effect::BreakQueue(status))) => {
                    self.break_soon(&status);
                    Some(None)
                }
                Some(Verdict::Effect(Effect::RemoveDevice)) => {
                    self.owner.remove_device();
                    before
                }
            };
            match until {
                None => put(queue, entry, &interest, &mut notifies),
                Some(until) => held.results.push_back((until, entry)),
            }
        }
        self.set_timer(held.deadline());
        notifies
    }

    /// Places the held results that are due at this time; without a time all of them.
    pub fn release<R>(
        &self,
        now: Option<Instant>,
        queue: &Queue<E, R>,
        interest: impl Fn(bool),
    ) -> Option<CompletedNotifies<R>> {
        let mut notifies = None;
        let mut held = self.held.lock();
        held.timed = false;
        while let Some((until, _)) = held.results.front()
            && now.is_none_or(|now| until.is_some_and(|until| until <= now))
            && let Some((_, entry)) = held.results.pop_front()
        {
            put(queue, entry, &interest, &mut notifies);
        }
        self.set_timer(held.deadline());
        notifies
    }

    fn set_timer(&self, at: Option<Instant>) {
        if let Some(at) = at {
            self.driver.set_timer(at, self.timed.clone());
        }
    }
}

/// Places a result whose number is known.
fn put<E: Entry, R>(
    queue: &Queue<E, R>,
    entry: E,
    interest: impl Fn(bool),
    notifies: &mut Option<CompletedNotifies<R>>,
) {
    let more = queue.place(std::iter::once(entry), |_, _| {}, interest);
    CompletedNotifies::add(notifies, more);
}

impl<E> HeldResults<E> {
    /// Returns the time of the first result, unless a timer is set for it.
    fn deadline(&mut self) -> Option<Instant> {
        if self.timed {
            return None;
        }
        let (until, _) = self.results.front()?;
        self.timed = until.is_some();
        *until
    }
}
