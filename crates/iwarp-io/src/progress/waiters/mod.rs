//! The threads that wait for requests with one overlapped file, and make progress meanwhile.
//!
//! The waiters' set nests the adapter's control set and, once a Notify was armed, the sets of the completion queues made with the file. One
//! thread sleeps in that set and drives; the others sleep as described at `places`. A set reports an event to one thread only. So a thread
//! that stops waiting with work undone passes the work on to the threads that still sleep, because the background thread leaves the sources
//! of these threads alone.
//!
//! A thread that would be alone asks its hot streams for some microseconds before it sleeps, if they are over shared memory and its last waits
//! were short (`asking`). Meanwhile it counts as a thread that polls: streams may stay out of the set.

mod asking;
mod places;

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::background::Background;
use super::domain::Domain;
use super::interrupts;
use super::tokens::{RESERVED, Tokens};
use super::{BATCH, Readiness, Set, Wake};
use crate::environment::Environment;
use crate::log::targets;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, spin_loop, thread_local, yield_now};
use crate::system_call::is_refusal;
use crate::vain_polls;
use asking::Asking;
pub use places::ANYTHING;
use places::{CALLED, INSIDE, OwnSet, Places, SleepingPlace, Wanted};

const CONTROL: u64 = RESERVED;

/// A longer sleep is cut to an hour. A thread with a later deadline then sleeps again.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// The threads that wait for requests with one overlapped file, see the [module](self).
pub struct Waiters<S: Readiness = Set> {
    set: S,
    places: Places<S>,
    /// Threads parked here.
    parked: Arc<AtomicUsize>,
    /// Threads parked in any waiters of the adapter.
    parked_anywhere: Arc<AtomicUsize>,
    /// A thread that stopped waiting has left work undone.
    passed_on: AtomicBool,
    asking: Asking,
    /// A queue that a thread has waited for has had streams over shared memory.
    shares_memory: AtomicBool,
    outside: OutsideWaiters<S>,
    queues: Mutex<Tokens<Queue<S>>>,
    control: Arc<Domain<S>>,
    background: Arc<Background<S>>,
    environment: Environment,
}

/// Wakes threads that wait outside of [`Waiters::park`]. They wait on a separate set around the waiters' set, because in the waiters' set a
/// parked thread could take their wake-up away.
struct OutsideWaiters<S: Readiness> {
    set: S,
    waker: S::Waker,
    /// The set was handed out.
    exposed: AtomicBool,
}

/// A completion queue made with the file.
struct Queue<S: Readiness> {
    domain: Weak<Domain<S>>,
    membership: SetMembership,
}

/// The state of a queue in the waiters' set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SetMembership {
    /// No Notify was armed yet, so the queue is not in the set.
    Absent,
    Reported,
    /// The queue became ready while no Notify was armed.
    Muted,
}

impl<S: Readiness> std::fmt::Debug for Waiters<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiters")
            .field("parked", &self.parked.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// The waits that the thread is in: more than one if it was called back while it drove.
    #[allow(
        clippy::missing_const_for_thread_local,
        reason = "the models' macro has no such form"
    )]
    static WAITS: Cell<usize> = Cell::new(0);
}

/// A thread is in a wait while this exists.
struct Within(usize);

impl Within {
    fn enter() -> Self {
        Self(WAITS.with(|waits| waits.replace(waits.get() + 1)))
    }

    const fn is_nested(&self) -> bool {
        self.0 > 0
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        WAITS.with(|waits| waits.set(self.0));
    }
}

/// The result of a wait. An error that need not end the wait is only logged, because the waiting thread looks again.
fn bearable(waited: io::Result<usize>) -> io::Result<()> {
    match waited {
        Err(error) if is_final(&error) => Err(error),
        Err(error) => {
            limited!(error, target: targets::PROGRESS, %error, "a thread cannot wait for its requests");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Returns true if waiting again would end with the same error: a simulated world that is stuck, or a system that refuses the call.
fn is_final(error: &io::Error) -> bool {
    let is_simulated = matches!(
        error.kind(),
        io::ErrorKind::Deadlock | io::ErrorKind::PermissionDenied
    );
    is_simulated || is_refusal(error)
}

impl<S: Readiness> Waiters<S> {
    /// Makes a group of threads that wait for reports of `control`, and of the queues that are added later. `parked_anywhere` counts the
    /// threads that wait in any waiters of the adapter.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors or memory left.
    pub fn new(
        control: &Arc<Domain<S>>,
        background: &Arc<Background<S>>,
        parked_anywhere: &Arc<AtomicUsize>,
        environment: Environment,
    ) -> io::Result<Self> {
        let set = control.set().another()?;
        let places = Places::new(&set, environment.world().is_some())?;
        set.add_level(control.set(), CONTROL)?;
        let outside = OutsideWaiters {
            set: set.another()?,
            waker: set.waker()?,
            exposed: AtomicBool::new(false),
        };
        outside.set.add_level(&outside.waker, CALLED)?;
        Ok(Self {
            set,
            places,
            parked: Arc::new(AtomicUsize::new(0)),
            parked_anywhere: Arc::clone(parked_anywhere),
            passed_on: AtomicBool::new(false),
            asking: Asking::new(),
            shares_memory: AtomicBool::new(false),
            outside,
            queues: Mutex::default(),
            control: Arc::clone(control),
            background: Arc::clone(background),
            environment,
        })
    }

    /// Returns the counter of the threads parked here.
    pub fn parked(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.parked)
    }

    /// Adds a completion queue's domain. The waiters' set does not report the domain until [`arm`](Self::arm), so that a
    /// queue that is only polled causes no cost here.
    pub fn add_queue(&self, domain: &Arc<Domain<S>>) -> u64 {
        self.queues.lock().insert(Queue {
            domain: Arc::downgrade(domain),
            membership: SetMembership::Absent,
        })
    }

    /// Takes a completion queue out.
    pub fn remove_queue(&self, domain: &Domain<S>, token: u64) {
        let mut queues = self.queues.lock();
        let _ = self.set.remove(domain.set());
        queues.remove(token);
    }

    /// A request waits for a queue: from now on, events of the queue's domain wake the threads that park here. The caller has added the
    /// interest to the domain before. If the set cannot report the domain, the background thread continues to serve the queue.
    pub fn arm(&self, domain: &Domain<S>, token: u64) {
        // A thread that asks before it sleeps puts the streams back if it does sleep.
        if !self.asks_before_sleep() {
            domain.recall();
        }
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(token) else {
            return;
        };
        let membership = match queue.membership {
            SetMembership::Reported => return,
            SetMembership::Absent => self.set.add_set(domain.set(), token),
            SetMembership::Muted => self.set.unmute(domain.set(), token),
        };
        match membership {
            Ok(()) => {
                queue.membership = SetMembership::Reported;
                domain.set_armed(true);
            }
            Err(error) => {
                domain.set_armed(false);
                limited!(error, target: targets::PROGRESS, %error, "events of a completion queue cannot wake waiting threads");
            }
        }
    }

    /// The set has reported a queue. A queue that no request waits for is muted, so that the set does not report it again.
    fn reported(&self, token: u64) -> Option<Arc<Domain<S>>> {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(token)?;
        let domain = queue.domain.upgrade()?;
        if domain.has_interest() {
            return Some(domain);
        }
        if self.set.mute(domain.set(), token).is_ok() {
            queue.membership = SetMembership::Muted;
        }
        None
    }

    /// Returns the next queue, from a position on, that a request waits for.
    fn awaited(&self, from: usize) -> Option<(usize, Arc<Domain<S>>)> {
        let queues = self.queues.lock();
        let mut rest = queues.iter().skip_while(|(place, _)| *place < from);
        rest.find_map(|(place, queue)| {
            let domain = queue.domain.upgrade()?;
            domain.has_interest().then_some((place, domain))
        })
    }

    /// Calls `each` for every queue that a request waits for, with no lock held.
    fn each_awaited(&self, mut each: impl FnMut(&Domain<S>)) {
        let mut from = 0;
        while let Some((place, domain)) = self.awaited(from) {
            each(&domain);
            from = place + 1;
        }
    }

    /// Notifies the background thread of unfinished work of a domain, in case this thread does not return to the domain sooner.
    fn notice(&self, domain: &Domain<S>) {
        if domain.has_unfinished() {
            self.background.notice(domain);
        }
    }

    /// Sleeps in the waiters' set, or in `own` around it, until a source is ready, or another thread has completed a request.
    fn sleep(
        &self,
        own: Option<&OwnSet<S>>,
        done: &dyn Fn() -> bool,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        let sleeper = self.places.sleeper(own);
        sleeper.asleep.store(true, Ordering::SeqCst);
        // From here on the thread is awake. Requests that it completes itself must not wake it.
        let wake_up = || self.places.wake_up(sleeper);
        if done() || self.passed_on.load(Ordering::SeqCst) {
            wake_up();
            return Ok(());
        }
        let now = || self.environment.now();
        let limit = deadline.map(|deadline| deadline.saturating_duration_since(now()));
        let limit = limit.map(|limit| limit.min(LONGEST_SLEEP));
        match own {
            Some(own) => {
                let waited = own.set.wait(limit, |_| {});
                wake_up();
                bearable(waited)
            }
            None => self.look(true, limit, wake_up),
        }
    }

    /// Waits for reports of the waiters' set, calls `then`, and drives the reported queues. `in_front` is true for the thread in front.
    fn look(&self, in_front: bool, limit: Option<Duration>, then: impl FnOnce()) -> io::Result<()> {
        let mut queues = [0; BATCH];
        let mut count = 0;
        let (mut control, mut called) = (false, false);
        let waited = self.set.wait(limit, |ready| match ready.token {
            CONTROL => control = true,
            CALLED => called = true,
            token => {
                queues[count] = token;
                count += 1;
            }
        });
        then();
        bearable(waited)?;
        for token in &queues[..count] {
            if let Some(domain) = self.reported(*token) {
                domain.woken();
                self.notice(&domain);
            }
        }
        if control {
            self.control.progress();
            self.notice(&self.control);
        }
        if called && !in_front {
            // The thread in front was woken and has not run yet. Until it runs, every other thread is woken as well.
            yield_now();
        }
        Ok(())
    }

    /// Drives everything that a thread waiting here has to drive.
    fn drive(&self) -> io::Result<()> {
        self.look(false, Some(Duration::ZERO), || {})?;
        self.each_awaited(|domain| {
            domain.recall();
            domain.progress();
            self.notice(domain);
        });
        Ok(())
    }

    /// Drives the ready sources, for a thread that waits outside.
    pub fn progress(&self) {
        let exposed = self.outside.exposed.load(Ordering::SeqCst);
        if exposed {
            self.outside.waker.clear();
        }
        let mut driven = self.drive();
        if exposed && !self.outside.set.reports_untaken() {
            // A thread that waits from outside never waits on the set itself.
            let waited = self.outside.set.wait(Some(Duration::ZERO), |_| {});
            driven = driven.and(waited.map(drop));
        }
        if let Err(error) = driven {
            limited!(error, target: targets::PROGRESS, %error, "a thread cannot drive its requests");
        }
        self.go();
    }

    /// Returns true if a thread that begins to wait asks hot streams first. A thread that sleeps already needs the streams in the set, and so
    /// does a program that watches the set from outside.
    fn asks_before_sleep(&self) -> bool {
        self.asking.limit().is_some()
            && self.parked.load(Ordering::SeqCst) == 0
            && !self.is_watched_outside()
            && vain_polls::may_spin()
    }

    /// Makes threads ask for this long before they sleep.
    #[cfg(all(test, any(loom, target_os = "linux")))]
    pub(super) fn ask_for(&self, limit: Duration) {
        self.asking.ask_for(limit);
    }

    /// Asks the hot streams for as long as that may pay. Returns true once `done` does.
    fn ask(&self, done: &dyn Fn() -> bool, deadline: Option<Instant>) -> bool {
        let Some(limit) = self.asking.limit() else {
            return false;
        };
        let begun = self.environment.now();
        let until = deadline.map_or(begun + limit, |deadline| deadline.min(begun + limit));
        let others_sleep = || self.parked.load(Ordering::SeqCst) > 0 || self.is_watched_outside();
        let mut rounds = 0;
        while self.asks_before_sleep() && !self.passed_on.load(Ordering::SeqCst) {
            let mut shares_memory = false;
            self.each_awaited(|domain| {
                domain.polled();
                let (left, asked) = domain.ask(&others_sleep);
                shares_memory |= asked;
                if left {
                    self.background.notice(domain);
                }
            });
            if done() {
                self.asking.answered();
                return true;
            }
            if !shares_memory {
                return false;
            }
            rounds += 1;
            if self.environment.now() >= until || cfg!(loom) && rounds == 2 {
                if deadline.is_none_or(|deadline| deadline > until) {
                    self.asking.missed(limit);
                }
                return false;
            }
            spin_loop();
        }
        false
    }

    /// Progresses until `done` returns true or the deadline has passed, and sleeps in between; calls `begin` when the thread counts as
    /// parked. `awaited` identifies the awaited object, for [`wake_for`](Self::wake_for).
    ///
    /// # Errors
    ///
    /// In a simulated world, if no event is left that could end the wait, or if the waiting thread is not the world's own.
    pub fn park(
        &self,
        awaited: usize,
        done: &dyn Fn() -> bool,
        deadline: Option<Instant>,
        begin: impl FnOnce(),
    ) -> io::Result<()> {
        if done() || self.ask(done, deadline) {
            return Ok(());
        }
        // No clock in models.
        let begun = !cfg!(loom) && self.shares_memory.load(Ordering::Relaxed);
        let begun = begun.then(|| self.environment.now());
        let within = Within::enter();
        let mut place = match self.places.take(awaited, within.is_nested(), &self.set) {
            Ok(place) => place,
            Err(error) => {
                limited!(error, target: targets::PROGRESS, %error, "a thread cannot sleep in a wait within a wait, and polls instead");
                self.drive()?;
                yield_now();
                return Ok(());
            }
        };
        self.parked.fetch_add(1, Ordering::SeqCst);
        self.parked_anywhere.fetch_add(1, Ordering::SeqCst);
        begin();
        // The clock is read only if the thread was woken by something that it does not wait for.
        let too_late = || deadline.is_some_and(|deadline| self.environment.now() >= deadline);
        let mut outcome = Ok(());
        while !done() {
            place = match place {
                SleepingPlace::Following(follower) => {
                    let until = self.follows_until(deadline);
                    self.places.sleep(follower, done, until)
                }
                place => {
                    outcome = self.drive_or_sleep(&place, done, deadline);
                    self.places.moved(place)
                }
            };
            if done() {
                outcome = Ok(()); // also if the last wait has failed
                if let Some(begun) = begun.filter(|_| self.asking.limit().is_none()) {
                    self.asking.slept(self.environment.now() - begun);
                }
                break;
            }
            if outcome.is_err() || too_late() {
                break;
            }
        }
        self.parked_anywhere.fetch_sub(1, Ordering::SeqCst);
        self.parked.fetch_sub(1, Ordering::SeqCst);
        self.places.leave(place);
        self.go();
        outcome
    }

    /// A follower sleeps on no descriptor. So a client that sleeps in its own way is asked again and again.
    fn follows_until(&self, deadline: Option<Instant>) -> Option<Instant> {
        if !interrupts::sleep(None, Some(Duration::ZERO)) {
            return deadline;
        }
        let soon = self.environment.now() + interrupts::LOOKS_AFTER;
        Some(deadline.map_or(soon, |deadline| deadline.min(soon)))
    }

    /// Drives if there is work, otherwise sleeps until there is some.
    fn drive_or_sleep(
        &self,
        place: &SleepingPlace<S>,
        done: &dyn Fn() -> bool,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        if self.passed_on.load(Ordering::SeqCst) {
            // Cleared before the queues are looked at, so that work passed on later is seen before the next sleep.
            self.passed_on.store(false, Ordering::SeqCst);
        }
        let mut behind = false;
        self.each_awaited(|domain| {
            if domain.has_bells() {
                self.shares_memory.store(true, Ordering::Relaxed);
            }
            domain.recall();
            domain.catch_up();
            self.notice(domain);
            behind |= domain.is_behind();
        });
        if done() {
            return Ok(());
        }
        if behind {
            // A busy queue does not keep the others and the control set waiting.
            return self.look(place.is_front(), Some(Duration::ZERO), || {});
        }
        let SleepingPlace::Own(own) = place else {
            return self.sleep(None, done, deadline);
        };
        self.sleep(Some(own), done, deadline)?;
        if done() {
            return Ok(());
        }
        self.drive()
    }

    /// This thread stops waiting. If others are parked, they take over the work that it has left undone.
    fn go(&self) {
        if self.parked.load(Ordering::SeqCst) > 0 {
            let mut behind = false;
            self.each_awaited(|domain| behind |= domain.is_behind());
            if behind {
                self.pass_on();
            }
        }
    }

    /// Makes one of the parked threads look for undone work.
    fn pass_on(&self) {
        // A thread that is about to sleep sees this.
        self.passed_on.store(true, Ordering::SeqCst);
        self.places.wake_driver();
    }

    /// Wakes all threads that are parked here, and those that wait outside.
    pub fn wake(&self) {
        self.wake_those(Wanted::All);
    }

    /// Like [`wake`](Self::wake), but wakes only those parked threads for whose awaited object `has_happened` is true, or that wait for
    /// [`ANYTHING`].
    pub fn wake_for(&self, has_happened: &dyn Fn(usize) -> bool) {
        self.wake_those(Wanted::For(has_happened));
    }

    fn wake_those(&self, wanted: Wanted<'_>) {
        if self.parked.load(Ordering::SeqCst) > 0 {
            self.places.wake(wanted);
        }
        self.wake_outside();
    }

    fn wake_outside(&self) {
        if self.outside.exposed.load(Ordering::SeqCst) {
            self.outside.waker.wake();
        }
    }

    /// There is unfinished work that no set reports: wakes a thread that drives, if threads are parked here, and those that wait outside.
    pub fn call_driver(&self) {
        if self.parked.load(Ordering::SeqCst) > 0 {
            self.pass_on();
        }
        self.wake_outside();
    }

    /// Returns true if [`outside`](Self::outside) was called before.
    pub fn is_watched_outside(&self) -> bool {
        self.outside.exposed.load(Ordering::SeqCst)
    }

    /// The set to be watched from outside. When it is ready, the watching thread has to call [`progress`](Self::progress).
    pub fn outside(&self) -> &S {
        if !self.outside.exposed.swap(true, Ordering::SeqCst)
            && let Err(error) = self.outside.set.add_level(&self.set, INSIDE)
        {
            // The descriptor still reports completed requests, and the background thread then makes the progress.
            limited!(error, target: targets::PROGRESS, %error, "the descriptor of an overlapped file does not report readiness");
        }
        self.each_awaited(Domain::recall);
        &self.outside.set
    }
}

#[cfg(all(test, not(loom), target_os = "linux"))]
mod tests;
