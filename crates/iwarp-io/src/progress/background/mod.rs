//! The background thread of an adapter: serves the domains that no other thread attends, and the deadlines.
//!
//! The thread holds every domain in its own set. If a domain is attended, by polls or by a parked thread, the background thread leaves an
//! event on the domain to that thread. It then takes the domain out of its set and looks at the domain in ticks of 1 ms. The ticks double
//! to 16 ms while the domain stays attended, to 4 ms while requests are held back for the next poll. When a tick finds that no thread
//! attends the domain any more, the background thread takes over: after two ticks, at most 32 ms.
//!
//! After a poll that has found what it looked for, another poll may not follow: the polling thread may now look at the memory into which
//! its peer writes. An event or a tick after such a poll is followed by another look in 0.1 ms. If there was no other poll until then, the
//! next event after a poll that finds something is served at once, until a look finds that the thread makes polls that find nothing.
//!
//! So a domain is always in the set, or watched in ticks, or both. If a domain cannot be put back into the set, because memory or the
//! system's allowance for such entries is short, the domain stays watched, is served in every tick, and is put back as soon as that works.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use rdma_buffer::{signals, time_slice};

use super::cpu_placement::{self, CpuPlacement, Moving, ThreadId};
use super::domain::Domain;
use super::timers::Timers;
use super::tokens::{RESERVED, Tokens};
use super::{Readiness, Set, Wake};
use crate::environment::Environment;
use crate::log::targets;
use crate::simulation::World;
use crate::simulation::world::{Task, Wishes};
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::system_call::named;
use crate::vain_polls::Looks;

const WAKE: u64 = RESERVED;
const FIRST_TICK: Duration = Duration::from_millis(1);
const LAST_TICK: Duration = Duration::from_millis(16);
/// The longest tick while there are requests that wait for a poll, or streams that only ticks find.
const HELD_TICK: Duration = Duration::from_millis(4);
/// The time that unfinished work of a domain may wait if no thread polls. A thread that polls again within this time has not stopped
/// polling.
const GRACE: Duration = Duration::from_micros(100);

/// The data that the background thread and its adapter share.
pub struct Background<S: Readiness = Set> {
    set: S,
    waker: S::Waker,
    domains: Mutex<Tokens<Weak<Domain<S>>>>,
    /// Domains with work that no edge will report. The thread that found the work may not poll the domain again.
    noticed: Mutex<Vec<u64>>,
    /// Domains whose polling thread now sleeps to wait for another event.
    handed_over: Mutex<Vec<u64>>,
    /// The deadlines that the thread looks after.
    pub timers: Timers,
    stop: AtomicBool,
    /// The ID of the thread, once the thread runs.
    thread: OnceLock<ThreadId>,
    moving: Moving,
    owner: OnceLock<Weak<dyn DriverOwner>>,
}

impl<S: Readiness> std::fmt::Debug for Background<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Background")
            .field("timers", &self.timers)
            .finish_non_exhaustive()
    }
}

/// The owner of a driver, which has to know when connections on which no thread polls or waits are no longer driven.
pub trait DriverOwner: Send + Sync {
    /// The background thread has panicked and ends. Called in that thread, with no lock held.
    fn driver_panicked(&self);

    /// A thread of the client has panicked in a call that drove connections, whose work may remain undone. Called in that thread, which may
    /// hold locks of the client.
    fn call_panicked(&self) {
        self.driver_panicked();
    }
}

impl Background {
    /// Starts the thread, which waits on `set` and ends after [`stop`](Self::stop). In a simulated world the thread is a task of the world,
    /// which runs the task between two waits.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors or threads left.
    pub fn start(set: Set, environment: &Environment) -> io::Result<Arc<Self>> {
        let this = Self::new(set)?;
        let shared = Arc::clone(&this);
        if let (Some(world), Some(set)) = (environment.world(), this.set.simulated()) {
            this.timers.in_simulation();
            let thread = Mutex::new(Thread::new(shared));
            world.add_task(Arc::new(Simulated(world.clone(), thread)), set);
            return Ok(this);
        }
        let run = move || {
            time_slice::shorten();
            // No other code sets the ID.
            let _ = shared.thread.set(cpu_placement::this_thread());
            let thread = Thread::new(Arc::clone(&shared));
            // Work that the panic has left half done is given up together with the connections.
            if catch_unwind(AssertUnwindSafe(|| thread.run())).is_err() {
                shared.panicked();
            }
        };
        let thread = std::thread::Builder::new().name("softnd".into());
        signals::blocked(|| thread.spawn(run)).map_err(named("another thread"))?;
        Ok(this)
    }

    /// The processors on which the thread may run: one bit for each of the first 64. `None` if unknown.
    pub fn processors(&self) -> Option<u64> {
        match self.set.simulated() {
            Some(_) => None,
            None => cpu_placement::allowed(*self.thread.wait(), &self.moving),
        }
    }

    /// Sets the owner, which is notified of a panic of the thread. In a simulated world the thread that waits panics itself.
    pub fn owned_by(&self, owner: Weak<dyn DriverOwner>) {
        // An adapter has one driver.
        let _ = self.owner.set(owner);
    }

    /// Notifies the owner of a panic in a thread of the client.
    #[cold]
    pub(crate) fn call_panicked(&self) {
        if let Some(owner) = self.owner.get().and_then(Weak::upgrade) {
            owner.call_panicked();
        }
    }

    #[cold]
    fn panicked(&self) {
        tracing::error!(target: targets::PROGRESS, "the background thread of an adapter has panicked, and the adapter ends");
        if let Some(owner) = self.owner.get().and_then(Weak::upgrade) {
            owner.driver_panicked();
        }
    }

    /// Makes the thread end.
    pub fn stop(&self) {
        self.end();
        if let Some(set) = self.set.simulated() {
            set.world().remove_task(set);
        }
    }
}

/// The background thread of an adapter in a simulated world.
struct Simulated(World, Mutex<Thread<Set>>);

impl Task for Simulated {
    fn run(&self) -> Wishes {
        // If this fails, the task itself has made the call that waits here and drives the world.
        let Some(mut thread) = self.1.try_lock() else {
            return Wishes::default();
        };
        if let Err(error) = thread.work(Some(Duration::ZERO), || self.0.now()) {
            limited!(error, target: targets::PROGRESS, %error, "the background task of a simulated adapter failed");
        }
        let now = self.0.now();
        let again = (!thread.busy.is_empty()).then_some(now);
        let timers = &thread.shared.timers;
        let (deadline, upkeep) = match (timers.plan(now), timers.are_upkeep()) {
            (planned, true) => (None, planned),
            (planned, false) => (planned, None),
        };
        Wishes {
            deadline: [deadline, again].into_iter().flatten().min(),
            upkeep,
            look: thread.next_tick,
        }
    }
}

impl<S: Readiness> Background<S> {
    pub(super) fn new(set: S) -> io::Result<Arc<Self>> {
        let waker = set.waker()?;
        set.add_level(&waker, WAKE)?;
        Ok(Arc::new(Self {
            set,
            waker,
            domains: Mutex::default(),
            noticed: Mutex::new(Vec::with_capacity(16)),
            handed_over: Mutex::default(),
            timers: Timers::default(),
            stop: AtomicBool::new(false),
            thread: OnceLock::new(),
            moving: Moving::default(),
            owner: OnceLock::new(),
        }))
    }

    /// Makes the thread end, unless it is a task of a simulated world.
    pub(super) fn end(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Adds a domain, which the thread serves whenever no other thread does.
    pub fn add(&self, domain: &Arc<Domain<S>>) -> io::Result<()> {
        let token = self.domains.lock().insert(Arc::downgrade(domain));
        self.set
            .add_set(domain.set(), token)
            .inspect_err(|_| drop(self.domains.lock().remove(token)))?;
        domain.set_background_token(token);
        Ok(())
    }

    /// Takes a domain out. If the thread is putting the domain back at this moment, the domain stays in the set until it is dropped, and
    /// reports of it find no domain.
    pub fn remove(&self, domain: &Domain<S>) {
        if let Some(token) = domain.background_token() {
            let _ = self.set.remove(domain.set());
            self.domains.lock().remove(token);
        }
    }

    /// Makes sure that unfinished work of a domain is taken up even if its driver does not poll again.
    pub fn notice(&self, domain: &Domain<S>) {
        if let Some(token) = domain.background_token()
            && !domain.set_watched(true)
        {
            self.noticed.lock().push(token);
            self.waker.wake();
        }
    }

    /// Takes over a domain whose polls have ended, without waiting until a tick finds this.
    pub fn hand_over(&self, domain: &Domain<S>) {
        if let Some(token) = domain.background_token()
            && domain.polls_end()
        {
            self.handed_over.lock().push(token);
            self.waker.wake();
        }
    }

    /// Sets a deadline.
    pub fn set_timer(
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

    /// Cancels a deadline. It is no error if the deadline has passed or was cancelled before.
    pub fn cancel_timer(&self, key: super::timers::TimerKey) {
        if self.timers.cancel(key) {
            self.waker.wake();
        }
    }

    /// Returns one of the other domains, the next one in each turn. `None` if there are more than `most` domains in all, or while another
    /// thread has locked the list.
    pub(super) fn another(
        &self,
        without: [&Domain<S>; 2],
        most: usize,
        turn: usize,
    ) -> Option<Arc<Domain<S>>> {
        let domains = self.domains.try_lock()?;
        let count = domains.len();
        if count > most {
            return None;
        }
        let is_other = |domain: &Weak<Domain<S>>| {
            let domain = domain.as_ptr();
            !without.iter().any(|one| std::ptr::eq(*one, domain))
        };
        let all = domains.iter().map(|(_, domain)| domain);
        let mut others = all.filter(|domain| is_other(domain));
        let turn = turn % count.saturating_sub(without.len()).max(1);
        others.nth(turn)?.upgrade()
    }

    fn domain(&self, token: u64) -> Option<Arc<Domain<S>>> {
        self.domains.lock().get(token)?.upgrade()
    }
}

/// The state that only the background thread uses.
pub(super) struct Thread<S: Readiness> {
    shared: Arc<Background<S>>,
    /// The domains that are looked at in every tick: those that other threads attend, and those that the set cannot report.
    watched: BTreeMap<u64, WatchedDomain>,
    /// Domains with more work than fits in one turn. Each gets one turn in every round, so that an endless stream keeps this thread neither
    /// from the other domains nor from the deadlines.
    busy: Vec<u64>,
    tick: Duration,
    next_tick: Option<Instant>,
    /// The last poll of a watched domain has found what it looked for. The next look, in [`GRACE`], finds out if another poll follows.
    in_doubt: bool,
    /// The tokens that the set has reported, and an empty list of notices to be swapped with the full list.
    ready: Vec<u64>,
    notices: Vec<u64>,
    cpu_placement: CpuPlacement,
}

/// A domain that is looked at in every tick, in its state at the last look.
#[derive(Clone, Copy)]
struct WatchedDomain {
    /// See [`Domain::unfinished_counts`].
    counts: (u32, u32),
    /// The domain is in the set as well.
    reported: bool,
    /// At the last look the last poll had found what it looked for, and the next look follows in [`GRACE`].
    doubted: bool,
}

impl<S: Readiness> Thread<S> {
    pub(super) fn new(shared: Arc<Background<S>>) -> Self {
        Self {
            shared,
            watched: BTreeMap::new(),
            busy: Vec::new(),
            tick: FIRST_TICK,
            next_tick: None,
            in_doubt: false,
            ready: Vec::new(),
            notices: Vec::with_capacity(16),
            cpu_placement: CpuPlacement::new(),
        }
    }

    fn run(mut self) {
        let mut looks = Looks::default();
        while !self.is_stopped() {
            match self.round(Instant::now) {
                Ok(now) => looks.at(now),
                Err(error) => {
                    tracing::error!(target: targets::PROGRESS, %error, "the background thread cannot wait; queues that no thread polls make no progress");
                    return;
                }
            }
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::SeqCst)
    }

    /// Waits for events, deadlines or the next tick, and serves them. Returns the time after the wait.
    pub(super) fn round(&mut self, clock: impl Fn() -> Instant) -> io::Result<Instant> {
        let now = clock();
        let until = [
            self.shared.timers.plan(now),
            self.next_tick,
            (!self.busy.is_empty()).then_some(now),
        ];
        let until = until.into_iter().flatten().min();
        let limit = until.map(|until| until.saturating_duration_since(now));
        self.work(limit, clock)
    }

    /// Waits at most `limit`, then serves events and deadlines. Returns the time after the wait.
    fn work(
        &mut self,
        limit: Option<Duration>,
        clock: impl Fn() -> Instant,
    ) -> io::Result<Instant> {
        let busy = std::mem::take(&mut self.busy);
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        self.shared
            .set
            .wait(limit, |source| ready.push(source.token))?;
        for &token in &ready {
            self.reported(token);
        }
        self.ready = ready;
        for token in busy {
            self.go_on(token);
        }
        let now = clock();
        self.take_notice(now);
        self.take_handed_over();
        self.shared.timers.run(now);
        self.tick(now);
        Ok(now)
    }

    /// Takes the notices of work left by threads that may not poll again.
    fn take_notice(&mut self, now: Instant) {
        // Swapped, not taken, so that a thread that adds a notice does not have to allocate.
        std::mem::swap(&mut self.notices, &mut *self.shared.noticed.lock());
        let mut notices = std::mem::take(&mut self.notices);
        for token in notices.drain(..) {
            if let Some(domain) = self.shared.domain(token) {
                self.entry(token, &domain);
                // The polling thread returns from its call and polls again, so there is no hurry.
                let wait = if domain.seems_attended() {
                    FIRST_TICK
                } else {
                    GRACE
                };
                let soon = now + wait;
                self.next_tick = Some(self.next_tick.map_or(soon, |tick| tick.min(soon)));
            }
        }
        self.notices = notices;
    }

    fn take_handed_over(&mut self) {
        let tokens = std::mem::take(&mut *self.shared.handed_over.lock());
        for token in tokens {
            // A domain that is not watched is reported by the set, or was just noticed and has its tick soon.
            if let Some(domain) = self.shared.domain(token)
                && self.watched.contains_key(&token)
                && !domain.is_attended()
                && let Some(watched) = self.watched.remove(&token)
            {
                self.take_over(token, &domain, watched);
            }
        }
    }

    fn reported(&mut self, token: u64) {
        if token == WAKE {
            self.shared.waker.clear();
            return;
        }
        self.go_on(token);
    }

    /// The entry of a watched domain. The domain is watched from here on.
    fn entry(&mut self, token: u64, domain: &Domain<S>) -> &mut WatchedDomain {
        self.watched.entry(token).or_insert_with(|| WatchedDomain {
            counts: domain.unfinished_counts(),
            reported: true,
            doubted: false,
        })
    }

    /// Leaves a domain to the threads that attend it, and takes the domain out of the set meanwhile. Otherwise each event on the domain
    /// would also cost its receivers a visit of this set, even while the entry is not armed.
    fn watch(&mut self, token: u64, domain: &Domain<S>) {
        domain.set_watched(true);
        let entry = self.entry(token, domain);
        if std::mem::take(&mut entry.reported) {
            let _ = self.shared.set.remove(domain.set());
        }
    }

    /// Drives a domain for one turn.
    fn serve(&mut self, token: u64, domain: &Domain<S>) {
        if domain.progress() && !self.busy.contains(&token) {
            self.busy.push(token);
        }
        let moving = &self.shared.moving;
        self.cpu_placement.served(|| domain.incoming_core(), moving);
    }

    /// A domain has work. If another thread attends the domain, the work is left to that thread.
    fn go_on(&mut self, token: u64) {
        let Some(domain) = self.shared.domain(token) else {
            return;
        };
        let looks_elsewhere = domain.looks_elsewhere();
        if !domain.is_attended() || looks_elsewhere && domain.has_found() {
            self.serve(token, &domain);
            return;
        }
        self.watch(token, &domain);
        // The thread that polled hands a domain over only if it sees that the domain is watched.
        if !domain.stays_attended()
            && let Some(watched) = self.watched.remove(&token)
        {
            self.take_over(token, &domain, watched);
        } else if looks_elsewhere || domain.has_found() {
            self.entry(token, &domain).doubted = true;
            self.in_doubt = true;
        }
    }

    /// Takes over a domain that no thread attends any more. The domain goes back into the set before it is driven, so that no event is lost
    /// in between.
    fn take_over(&mut self, token: u64, domain: &Domain<S>, watched: WatchedDomain) {
        domain.set_watched(false);
        let back = watched.reported || self.put_back(token, domain);
        domain.recall();
        self.serve(token, domain);
        if !back {
            // The streams of the domain are driven nevertheless, but only in ticks.
            domain.set_watched(true);
            self.entry(token, domain).reported = false;
        } else if domain.is_apart() {
            // A stream of the domain is not in the set: only polls find what it receives.
            let _ = domain.poll();
            domain.set_watched(true);
            self.entry(token, domain);
        }
    }

    fn put_back(&self, token: u64, domain: &Domain<S>) -> bool {
        let put = self.shared.set.add_set(domain.set(), token);
        if let Err(error) = &put {
            limited!(
                error,
                target: targets::PROGRESS,
                %error,
                "the readiness set cannot take a completion queue; the background thread checks the queue every few milliseconds"
            );
        }
        put.is_ok()
    }

    fn tick(&mut self, now: Instant) {
        if self.watched.is_empty() {
            self.next_tick = None;
            self.in_doubt = false;
            self.tick = FIRST_TICK;
            return;
        }
        match self.next_tick {
            Some(at) if now < at => {
                if std::mem::take(&mut self.in_doubt) {
                    self.next_tick = Some(at.min(now + GRACE));
                }
                return;
            }
            Some(_) => self.look(),
            None => self.tick = FIRST_TICK,
        }
        let wait = if std::mem::take(&mut self.in_doubt) {
            GRACE
        } else {
            self.tick
        };
        self.next_tick = (!self.watched.is_empty()).then(|| now + wait);
    }

    /// Looks at the domains that other threads attend, and takes over those that no thread attends any more. It leaves the other domains
    /// alone, because a polling thread takes up unfinished work itself. If this thread drove such a domain, the poller could find a queue
    /// pair locked by this thread while this thread waits for the core on which the poller spins.
    fn look(&mut self) {
        let mut most = LAST_TICK;
        let mut in_doubt = false;
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain(|token, watched| {
            let Some(domain) = self.shared.domain(*token) else {
                return false;
            };
            if !domain.is_attended() {
                domain.set_looks_elsewhere(watched.doubted && domain.has_found());
                self.take_over(*token, &domain, *watched);
                return false;
            }
            let has_found = domain.has_found();
            if !has_found {
                domain.set_looks_elsewhere(false);
            }
            watched.doubted = has_found && !watched.doubted;
            in_doubt |= watched.doubted;
            let counts = domain.unfinished_counts();
            let left = counts.0 != watched.counts.0;
            let resumed = counts.1 != watched.counts.1;
            // If requests are held back for the next poll, either this poll comes soon or this thread takes over.
            most = most.min(if domain.has_unfinished() && !resumed {
                FIRST_TICK
            } else if left {
                HELD_TICK
            } else {
                LAST_TICK
            });
            watched.counts = counts;
            true
        });
        if !self.watched.is_empty() {
            // The domain was taken over a moment ago, and is neither reported by the set nor attended again.
            most = most.min(HELD_TICK);
        }
        watched.append(&mut self.watched);
        self.watched = watched;
        self.tick = (self.tick * 2).min(most);
        self.in_doubt = in_doubt;
    }
}

#[cfg(all(test, unix, not(loom)))]
mod tests;
