//! The background thread of an adapter: serves the domains that nobody attends, and the deadlines.
//!
//! It holds every domain in its own set. An event on a domain that is attended, by polls or by a parked thread, is left
//! to those; the domain is then taken out of the set and looked at in ticks of 1 ms, doubling to 16 ms while they go on, to
//! 4 ms where requests are held back for the next poll. When a tick finds nobody any more, the thread takes over: after
//! two ticks, at most 32 ms.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use slab::Slab;

use super::domain::Domain;
use super::nearness::Nearness;
use super::timers::Timers;
use super::{Readiness, Set, Waker};

const WAKE: u64 = u64::MAX;
const FIRST_TICK: Duration = Duration::from_millis(1);
const LAST_TICK: Duration = Duration::from_millis(16);
/// The longest tick while there are requests that wait for a poll.
const HELD_TICK: Duration = Duration::from_millis(4);
/// How long work may wait that was left where nobody polls.
const GRACE: Duration = Duration::from_micros(100);

/// What the background thread and its adapter share.
#[derive(Debug)]
pub(crate) struct Background {
    set: Set,
    waker: Waker,
    domains: Mutex<Slab<Weak<Domain>>>,
    /// Domains with work that no edge will report, found by somebody who may not come back.
    noticed: Mutex<Vec<usize>>,
    /// Domains whose poller has gone to sleep over something else.
    handed_over: Mutex<Vec<usize>>,
    pub(crate) timers: Timers,
    stop: AtomicBool,
}

impl Background {
    /// Starts the thread; it ends after [`stop`](Self::stop).
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let this = Self::new()?;
        let shared = Arc::clone(&this);
        std::thread::Builder::new()
            .name("softnd".into())
            .spawn(move || Thread::new(shared).run())?;
        Ok(this)
    }

    fn new() -> io::Result<Arc<Self>> {
        let (set, waker) = (Set::new()?, Waker::new()?);
        set.add_level(&waker, WAKE)?;
        Ok(Arc::new(Self {
            set,
            waker,
            domains: Mutex::default(),
            noticed: Mutex::new(Vec::with_capacity(16)),
            handed_over: Mutex::default(),
            timers: Timers::default(),
            stop: AtomicBool::new(false),
        }))
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Adds a domain, to be served whenever nobody else does.
    pub(crate) fn add(&self, domain: &Arc<Domain>) -> io::Result<usize> {
        let token = self.domains.lock().insert(Arc::downgrade(domain));
        self.set
            .add_set(&**domain, token as u64)
            .inspect_err(|_| drop(self.domains.lock().remove(token)))?;
        Ok(token)
    }

    pub(crate) fn remove(&self, domain: &Domain, token: usize) {
        let _ = self.set.remove(domain);
        self.domains.lock().try_remove(token);
    }

    /// Makes sure that unfinished work of a domain is taken up even if its driver never comes back.
    pub(crate) fn notice(&self, domain: &Domain, token: usize) {
        if !domain.set_watched(true) {
            self.noticed.lock().push(token);
            self.waker.wake();
        }
    }

    /// Takes over a domain that was polled till now, without waiting for a tick to find out.
    pub(crate) fn hand_over(&self, domain: &Domain, token: usize) {
        if domain.polls_end() {
            self.handed_over.lock().push(token);
            self.waker.wake();
        }
    }

    /// Sets a deadline.
    pub(crate) fn set_timer(
        &self,
        at: Instant,
        target: Weak<dyn super::timers::Timed>,
    ) -> super::timers::TimerKey {
        let (key, wake) = self.timers.add(at, target);
        if wake {
            self.waker.wake();
        }
        key
    }

    fn domain(&self, token: usize) -> Option<Arc<Domain>> {
        self.domains.lock().get(token)?.upgrade()
    }
}

/// The thread's own side.
struct Thread {
    shared: Arc<Background>,
    /// Domains that others attend.
    watched: Vec<Watched>,
    tick: Duration,
    next_tick: Option<Instant>,
    /// Emptied notices, to be swapped with the full ones.
    notices: Vec<usize>,
    nearness: Nearness,
}

/// A domain that others attend, as it was at the last look.
struct Watched {
    token: usize,
    /// See [`Domain::unfinished_counts`].
    counts: (u32, u32),
}

impl Thread {
    fn new(shared: Arc<Background>) -> Self {
        Self {
            shared,
            watched: Vec::new(),
            tick: FIRST_TICK,
            next_tick: None,
            notices: Vec::with_capacity(16),
            nearness: Nearness::new(),
        }
    }

    fn run(mut self) {
        let mut ready = Vec::new();
        while !self.shared.stop.load(Ordering::SeqCst) {
            let now = Instant::now();
            let until = [self.shared.timers.plan(now), self.next_tick]
                .into_iter()
                .flatten()
                .min();
            let limit = until.map(|until| until.saturating_duration_since(now));
            ready.clear();
            if let Err(error) = self
                .shared
                .set
                .wait(limit, |source| ready.push(source.token))
            {
                tracing::error!(%error, "the background thread cannot wait; unattended queues stand still");
                return;
            }
            for &token in &ready {
                self.reported(token);
            }
            self.take_handed_over();
            let now = Instant::now();
            self.take_notice(now);
            self.shared.timers.run(now);
            self.tick(now);
        }
    }

    /// Work was left behind by somebody who may not come back.
    fn take_notice(&mut self, now: Instant) {
        // Swapped, not taken: whoever notices something does not have to allocate.
        std::mem::swap(&mut self.notices, &mut *self.shared.noticed.lock());
        for token in self.notices.drain(..) {
            if let Some(domain) = self.shared.domain(token) {
                self.watched.push(Watched {
                    token,
                    counts: domain.unfinished_counts(),
                });
                // Whoever has polled till now comes back from the call that it is in: there is no hurry.
                let wait = if domain.is_attended() {
                    FIRST_TICK
                } else {
                    GRACE
                };
                let soon = now + wait;
                self.next_tick = Some(self.next_tick.map_or(soon, |tick| tick.min(soon)));
            }
        }
    }

    fn take_handed_over(&mut self) {
        let tokens = std::mem::take(&mut *self.shared.handed_over.lock());
        for token in tokens {
            if let Some(domain) = self.shared.domain(token)
                && !domain.is_attended()
            {
                self.take_over(token, &domain);
            }
        }
    }

    fn reported(&mut self, token: u64) {
        if token == WAKE {
            self.shared.waker.clear();
            return;
        }
        let Some((token, domain)) = usize::try_from(token)
            .ok()
            .and_then(|token| Some((token, self.shared.domain(token)?)))
        else {
            return;
        };
        if domain.is_attended() {
            self.watch(token, &domain);
        } else {
            self.serve(token, &domain);
        }
    }

    /// Leaves a domain to those who attend it. It is taken out of the set meanwhile: an event on it would cost its
    /// receivers a look here even while it is not armed.
    fn watch(&mut self, token: usize, domain: &Domain) {
        let _ = self.shared.set.remove(domain);
        if !domain.set_watched(true) {
            let counts = domain.unfinished_counts();
            self.watched.push(Watched { token, counts });
        }
    }

    /// Drives a domain until nothing is ready or somebody else turns up.
    fn serve(&mut self, token: usize, domain: &Domain) {
        while domain.progress() {
            if domain.is_attended() {
                return self.watch(token, domain);
            }
        }
        self.nearness.served(|| domain.incoming_core());
    }

    /// Nobody attends a domain any more: it is back in the set before it is driven, so that nothing is lost between.
    fn take_over(&mut self, token: usize, domain: &Domain) {
        domain.set_watched(false);
        // It is there still when it was noticed without an event.
        let _ = self.shared.set.add_set(domain, token as u64);
        domain.recall();
        self.serve(token, domain);
    }

    fn tick(&mut self, now: Instant) {
        if self.watched.is_empty() {
            self.next_tick = None;
            self.tick = FIRST_TICK;
            return;
        }
        match self.next_tick {
            Some(at) if now < at => return,
            Some(_) => self.look(),
            None => self.tick = FIRST_TICK,
        }
        self.next_tick = (!self.watched.is_empty()).then(|| now + self.tick);
    }

    /// Looks at the domains that others attend, and takes over those that nobody attends any more. The others it leaves
    /// alone: who polls takes up what is unfinished, and would find the queue pair locked by a thread that perhaps waits for
    /// the core which the poller spins on.
    fn look(&mut self) {
        let mut most = LAST_TICK;
        for mut watched in std::mem::take(&mut self.watched) {
            let Some(domain) = self.shared.domain(watched.token) else {
                continue;
            };
            if !domain.is_attended() {
                self.take_over(watched.token, &domain);
                continue;
            }
            let counts = domain.unfinished_counts();
            let left = counts.0 != watched.counts.0;
            let resumed = counts.1 != watched.counts.1;
            // Where requests are held back for the next poll, that has to come soon, or this thread does.
            most = most.min(if domain.has_unfinished() && !resumed {
                FIRST_TICK
            } else if left {
                HELD_TICK
            } else {
                LAST_TICK
            });
            watched.counts = counts;
            self.watched.push(watched);
        }
        self.tick = (self.tick * 2).min(most);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::progress::Edges;
    use crate::progress::domain::{Source, Turn};

    /// Counts how often it was driven.
    #[derive(Default)]
    struct Driven(AtomicUsize);

    impl Source for Driven {
        fn ready(&self, _: Edges) -> Turn {
            self.0.fetch_add(1, Ordering::Relaxed);
            Turn::default()
        }
    }

    #[test]
    fn what_is_polled_is_left_alone_and_taken_over_when_the_polls_end() {
        let shared = Background::new().unwrap();
        let domain = Arc::new(Domain::new(Arc::default()).unwrap());
        let token = shared.add(&domain).unwrap();
        let source = Arc::new(Driven::default());
        let driven = || source.0.load(Ordering::Relaxed);
        let weak: Weak<dyn Source> = Arc::downgrade(&(Arc::clone(&source) as Arc<dyn Source>));
        let mut thread = Thread::new(Arc::clone(&shared));

        domain.polled();
        thread.watch(token, &domain);
        for _ in 0..4 {
            domain.polled();
            thread.look();
        }
        assert_eq!(thread.tick, LAST_TICK);
        // Work that nobody has taken up yet is looked at again soon, but it is the poller's.
        domain.defer(weak.clone());
        for _ in 0..3 {
            domain.polled();
            thread.look();
        }
        assert_eq!((driven(), thread.tick), (0, FIRST_TICK));
        // Work that comes and is taken up has a poll to wait for.
        for _ in 0..3 {
            assert!(!domain.poll());
            domain.defer(weak.clone());
            domain.polled();
            thread.look();
        }
        assert_eq!((driven(), thread.tick), (3, HELD_TICK));
        // Nobody polls any more.
        thread.look();
        assert_eq!(driven(), 4);
        assert!(thread.watched.is_empty());
    }
}
