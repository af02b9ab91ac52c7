//! The places where threads sleep that wait in one group of [waiters](super), and the choice of the thread that is woken.
//!
//! One thread is *in front*: it sleeps in the waiters' set, and drives everything that the set reports. If one more thread waits, that
//! thread sleeps in a separate set around the waiters' set, so that it drives its sources by itself. From the third thread on, all but the
//! one in front *follow*: they sleep until their awaited event has happened, or until the thread in front leaves and calls the one to the
//! front that has waited longest. A thread that follows needs no descriptor, and an event in the set wakes only the thread in front. Nested
//! sets for all threads would wake all of them, and Linux allows a descriptor to be in about 100 nested sets.
//!
//! A thread that waits within a wait, because it was called back while it drove, does not follow: it may be the one in front.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::log::targets;
use crate::progress::tokens::RESERVED;
use crate::progress::{Readiness, Wake};
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering};

/// The token of a thread's own waker in its set.
pub(super) const CALLED: u64 = RESERVED + 1;
/// The token of the waiters' set in a thread's own set.
pub(super) const INSIDE: u64 = RESERVED + 2;

/// The awaited object of a thread that every call of [`Waiters::wake_for`](super::Waiters::wake_for) wakes.
pub const ANYTHING: usize = 0;

/// The threads to wake.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    All,
    /// The threads for whose awaited object this is true, or that wait for [`ANYTHING`].
    For(&'a dyn Fn(usize) -> bool),
}

impl Wanted<'_> {
    fn includes(self, awaited: usize) -> bool {
        match self {
            Self::All => true,
            Self::For(is_so) => awaited == ANYTHING || is_so(awaited),
        }
    }
}

/// Wakes one thread that sleeps in a set.
pub(super) struct SleeperWaker<S: Readiness> {
    pub(super) waker: S::Waker,
    /// The thread that sets this to false, with `others` locked, has to wake the sleeper.
    pub(super) asleep: AtomicBool,
    /// The awaited object of the sleeper. Stored before `asleep`.
    awaited: AtomicUsize,
}

impl<S: Readiness> SleeperWaker<S> {
    fn new(set: &S) -> io::Result<Self> {
        Ok(Self {
            waker: set.waker()?,
            asleep: AtomicBool::new(false),
            awaited: AtomicUsize::new(ANYTHING),
        })
    }

    /// Wakes the sleeper, if it sleeps and is wanted. Called with `others` locked.
    fn wake(&self, wanted: Wanted<'_>) -> bool {
        let is_woken = self.asleep.load(Ordering::SeqCst)
            && wanted.includes(self.awaited.load(Ordering::Relaxed))
            && self.asleep.swap(false, Ordering::SeqCst);
        if is_woken {
            self.waker.wake();
        }
        is_woken
    }
}

/// A separate set in which one thread sleeps.
pub(super) struct OwnSet<S: Readiness> {
    pub(super) set: S,
    pub(super) sleeper: SleeperWaker<S>,
    /// The thread has to follow.
    is_displaced: AtomicBool,
    /// The thread waits within a wait.
    is_nested: AtomicBool,
}

/// The place of a thread that follows. The flags change with `others` locked.
pub(super) struct Follower {
    /// The thread is in front from now on, and is no longer among the followers.
    leads: AtomicBool,
    /// The awaited event of the thread may have happened.
    called: AtomicBool,
    woken: Condvar,
}

/// The place of a thread that waits.
pub(super) enum SleepingPlace<S: Readiness> {
    Front,
    Own(Arc<OwnSet<S>>),
    Following(Arc<Follower>),
}

impl<S: Readiness> SleepingPlace<S> {
    pub(super) fn is_front(&self) -> bool {
        matches!(self, Self::Front)
    }
}

/// The places of one group of waiters.
pub(super) struct Places<S: Readiness> {
    /// A thread is in front, or was called there.
    front_taken: AtomicBool,
    front: SleeperWaker<S>,
    /// The number of followers, to be read without the lock.
    following: AtomicUsize,
    others: Mutex<Others<S>>,
    /// Every thread but the first one has a separate set, because all of them are really one thread: that of a simulated world.
    all_own: bool,
}

struct Others<S: Readiness> {
    own: Vec<Arc<OwnSet<S>>>,
    /// The awaited objects and the places of the followers. The first one has waited longest.
    followers: VecDeque<(usize, Arc<Follower>)>,
    idle_sets: Vec<Arc<OwnSet<S>>>,
    idle_followers: Vec<Arc<Follower>>,
}

impl<S: Readiness> Places<S> {
    pub(super) fn new(set: &S, all_own: bool) -> io::Result<Self> {
        let front = SleeperWaker::new(set)?;
        set.add_level(&front.waker, CALLED)?;
        Ok(Self {
            front_taken: AtomicBool::new(false),
            front,
            following: AtomicUsize::new(0),
            others: Mutex::new(Others {
                own: Vec::new(),
                followers: VecDeque::new(),
                idle_sets: Vec::new(),
                idle_followers: Vec::new(),
            }),
            all_own,
        })
    }

    /// Takes a place for a thread that waits for `awaited`, possibly within another wait.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors or memory left for a wait within a wait.
    pub(super) fn take(
        &self,
        awaited: usize,
        is_nested: bool,
        set: &S,
    ) -> io::Result<SleepingPlace<S>> {
        if self.takes_front(awaited) {
            return Ok(SleepingPlace::Front);
        }
        match self.own_set(is_nested, set) {
            Ok(Some(own)) => {
                own.sleeper.awaited.store(awaited, Ordering::Relaxed);
                Ok(SleepingPlace::Own(own))
            }
            Ok(None) => Ok(self.follow(awaited)),
            Err(error) if is_nested => Err(error),
            Err(error) => {
                limited!(debug, target: targets::PROGRESS, %error, "a second thread that waits has no set of its own, and the first one wakes it");
                Ok(self.follow(awaited))
            }
        }
    }

    fn takes_front(&self, awaited: usize) -> bool {
        let takes = !self.front_taken.swap(true, Ordering::SeqCst);
        if takes {
            self.front.awaited.store(awaited, Ordering::Relaxed);
        }
        takes
    }

    /// Returns a separate set, for a thread that may have one.
    fn own_set(&self, is_nested: bool, set: &S) -> io::Result<Option<Arc<OwnSet<S>>>> {
        let mut others = self.others.lock();
        let is_second = others.own.is_empty() && others.followers.is_empty();
        let may = self.all_own || is_nested || is_second;
        if !may {
            return Ok(None);
        }
        let own = match others.idle_sets.pop() {
            Some(own) => own,
            None => {
                let own = OwnSet {
                    set: set.another()?,
                    sleeper: SleeperWaker::new(set)?,
                    is_displaced: AtomicBool::new(false),
                    is_nested: AtomicBool::new(false),
                };
                own.set.add_level(set, INSIDE)?;
                own.set.add_level(&own.sleeper.waker, CALLED)?;
                Arc::new(own)
            }
        };
        own.is_nested.store(is_nested, Ordering::Relaxed);
        others.own.push(Arc::clone(&own));
        Ok(Some(own))
    }

    fn follow(&self, awaited: usize) -> SleepingPlace<S> {
        let mut others = self.others.lock();
        let own = others.own.iter();
        for own in own.filter(|own| !own.is_nested.load(Ordering::Relaxed)) {
            // Otherwise each event would wake that thread as well as the one in front.
            own.is_displaced.store(true, Ordering::SeqCst);
            own.sleeper.wake(Wanted::All);
        }
        let follower = others.idle_followers.pop().unwrap_or_else(|| {
            Arc::new(Follower {
                leads: AtomicBool::new(false),
                called: AtomicBool::new(false),
                woken: Condvar::default(),
            })
        });
        others.followers.push_back((awaited, Arc::clone(&follower)));
        self.following.fetch_add(1, Ordering::SeqCst);
        // The thread in front may have left before it could see this one.
        self.call_to_front(&mut others);
        drop(others);
        SleepingPlace::Following(follower)
    }

    /// If no thread is in front, calls the thread there that has followed longest.
    fn call_to_front(&self, others: &mut Others<S>) {
        if let Some((awaited, follower)) = others.followers.front()
            && self.takes_front(*awaited)
        {
            follower.leads.store(true, Ordering::SeqCst);
            follower.woken.notify_one();
            others.followers.pop_front();
            self.following.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns the new place of a thread that has a separate set, after other threads have arrived.
    pub(super) fn moved(&self, place: SleepingPlace<S>) -> SleepingPlace<S> {
        let SleepingPlace::Own(own) = &place else {
            return place;
        };
        if !own.is_displaced.load(Ordering::SeqCst) {
            return place;
        }
        let awaited = own.sleeper.awaited.load(Ordering::Relaxed);
        self.leave(place);
        if self.takes_front(awaited) {
            return SleepingPlace::Front;
        }
        self.follow(awaited)
    }

    /// Sleeps until the awaited event of this thread may have happened, until the deadline, or until the thread is called to the front. In
    /// the last case returns the place in front.
    pub(super) fn sleep(
        &self,
        follower: Arc<Follower>,
        done: &dyn Fn() -> bool,
        deadline: Option<Instant>,
    ) -> SleepingPlace<S> {
        let mut others = self.others.lock();
        let is_called = || {
            follower.leads.load(Ordering::SeqCst) || follower.called.swap(false, Ordering::SeqCst)
        };
        if !is_called() && !done() {
            others = follower.woken.wait(others, deadline);
        }
        follower.called.store(false, Ordering::SeqCst);
        if follower.leads.swap(false, Ordering::SeqCst) {
            others.idle_followers.push(follower);
            return SleepingPlace::Front;
        }
        SleepingPlace::Following(follower)
    }

    /// The thread no longer waits. If it was in front, a follower comes to the front.
    pub(super) fn leave(&self, place: SleepingPlace<S>) {
        match place {
            SleepingPlace::Front => self.leave_front(),
            SleepingPlace::Own(own) => {
                let mut others = self.others.lock();
                others.own.retain(|other| !Arc::ptr_eq(other, &own));
                own.is_displaced.store(false, Ordering::SeqCst);
                others.idle_sets.push(own);
            }
            SleepingPlace::Following(follower) => {
                let mut others = self.others.lock();
                let leads = follower.leads.swap(false, Ordering::SeqCst);
                if !leads {
                    let mut followers = others.followers.iter();
                    let at = followers.position(|(_, other)| Arc::ptr_eq(other, &follower));
                    if let Some(at) = at {
                        others.followers.remove(at);
                        self.following.fetch_sub(1, Ordering::SeqCst);
                    }
                }
                follower.called.store(false, Ordering::SeqCst);
                others.idle_followers.push(follower);
                drop(others);
                if leads {
                    self.leave_front();
                }
            }
        }
    }

    fn leave_front(&self) {
        self.front_taken.store(false, Ordering::SeqCst);
        if self.following.load(Ordering::SeqCst) > 0 {
            self.call_to_front(&mut self.others.lock());
        }
    }

    /// Returns the waker of a thread in this place that sleeps in a set.
    pub(super) fn sleeper<'a>(&'a self, own: Option<&'a OwnSet<S>>) -> &'a SleeperWaker<S> {
        own.map_or(&self.front, |own| &own.sleeper)
    }

    /// Called by a thread that slept in a set: from here on it is awake, and no thread wakes it.
    pub(super) fn wake_up(&self, sleeper: &SleeperWaker<S>) {
        if !sleeper.asleep.swap(false, Ordering::SeqCst) {
            // The thread that woke this one holds the lock until the waker is ready, so that the waker does not become
            // ready later.
            drop(self.others.lock());
            sleeper.waker.clear();
        }
    }

    /// Wakes the threads that are wanted.
    pub(super) fn wake(&self, wanted: Wanted<'_>) {
        let others = self.others.lock();
        self.front.wake(wanted);
        for own in &others.own {
            own.sleeper.wake(wanted);
        }
        for (awaited, follower) in &others.followers {
            if wanted.includes(*awaited) {
                follower.called.store(true, Ordering::SeqCst);
                follower.woken.notify_one();
            }
        }
    }

    /// Wakes one thread that drives, if all of them sleep.
    pub(super) fn wake_driver(&self) {
        let others = self.others.lock();
        if !self.front.wake(Wanted::All) {
            let mut own = others.own.iter();
            let _ = own.any(|own| own.sleeper.wake(Wanted::All));
        }
    }
}
