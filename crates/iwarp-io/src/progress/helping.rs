//! A thread that polls one domain without a pause, and finds nothing, also polls the adapter's other domains.
//!
//! Such a thread keeps a core busy. The background thread serves the domains that no thread polls, and would need another core: if all are
//! busy, the two take turns on one. So a program that waits on one completion queue for a message of its peer, while the peer reads and
//! writes by the connections of another one, drives those connections as well. They count as polled meanwhile, and so the background thread
//! leaves them alone.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::background::Background;
use super::domain::Domain;
use super::polling;
use crate::thread_value::with_value;

/// The clock is read after this many polls that find nothing.
const ROUND: u32 = 64;
/// A thread that makes [`ROUND`] polls within this time does not pause.
const WITHOUT_PAUSE: Duration = Duration::from_micros(500);
/// With more domains than this a thread does not help, because each would wait long for its turn. `polling` remembers the same number of
/// domains for a thread, so that all of them are handed over when the thread goes to sleep.
const DOMAINS: usize = 8;

/// The polling of one thread.
struct Spin {
    /// The domain of the last poll, and its [`Domain::found_at`].
    last: (usize, u32),
    vain: u32,
    /// The start of the round.
    since: Option<Instant>,
    is_hard: bool,
    next: usize,
    number: u32,
}

thread_local! {
    static SPIN: RefCell<Spin> = RefCell::new(Spin::default());
}

impl Default for Spin {
    fn default() -> Self {
        static THREADS: AtomicU32 = AtomicU32::new(1);
        Self {
            last: (0, 0),
            vain: 0,
            since: None,
            is_hard: false,
            next: 0,
            number: THREADS.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Spin {
    /// A poll of `domain` has found nothing. Returns true if another domain is to be polled now.
    fn polled_in_vain(&mut self, domain: &Domain, clock: impl FnOnce() -> Instant) -> bool {
        let now = (std::ptr::from_ref(domain).addr(), domain.found_at());
        let before = std::mem::replace(&mut self.last, now);
        if before.0 == now.0 && before.1 != now.1 {
            // A poll has found something in between.
            (self.vain, self.since, self.is_hard) = (0, None, false);
        }
        self.vain += 1;
        if self.vain == ROUND {
            let now = clock();
            let since = self.since.replace(now);
            self.is_hard = since.is_some_and(|since| now - since < WITHOUT_PAUSE);
            self.vain = 0;
        }
        self.is_hard && self.vain.is_multiple_of(2)
    }
}

/// A poll of `polled` has found nothing: polls another domain of the adapter now and then, if the thread polls without a pause. `control`
/// is for connection set-up, and is left alone.
pub(crate) fn help(
    background: &Arc<Background>,
    polled: &Domain,
    control: &Domain,
    clock: impl FnOnce() -> Instant,
) {
    let turn = with_value(&SPIN, |spin| {
        spin.polled_in_vain(polled, clock).then(|| {
            spin.next = spin.next.wrapping_add(1);
            (spin.next, spin.number)
        })
    });
    let Some((turn, thread)) = turn else { return };
    let Some(other) = background.another([polled, control], DOMAINS, turn) else {
        return;
    };
    if other.may_be_helped_by(thread) {
        polling::polled(&other, background);
        other.helped_by(thread);
        if other.poll() {
            background.notice(&other);
        }
    }
}

#[cfg(all(test, unix, not(loom)))]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::progress::{Readiness, Set};

    fn domain() -> Arc<Domain> {
        let set = Set::in_environment(&Environment::System).unwrap();
        Arc::new(Domain::new(set, Arc::default()))
    }

    /// A driver's domains: that of control, and two more.
    fn three(background: &Arc<Background>, set: &Set) -> [Arc<Domain>; 3] {
        let domain = || Arc::new(Domain::new(set.another().unwrap(), Arc::default()));
        let all = [(); 3].map(|()| domain());
        for domain in &all {
            background.add(domain).unwrap();
        }
        all
    }

    fn spin(domain: &Domain, spin: &mut Spin, polls: u32, step: Duration) -> bool {
        let mut now = Instant::now();
        let mut helps = false;
        for _ in 0..polls {
            now += step;
            helps |= spin.polled_in_vain(domain, || now);
        }
        helps
    }

    #[test]
    fn a_thread_helps_that_polls_in_vain_without_a_pause() {
        let domain = domain();
        let (short, long) = (Duration::from_nanos(300), Duration::from_millis(1));
        assert!(!spin(&domain, &mut Spin::default(), ROUND, short));
        assert!(spin(&domain, &mut Spin::default(), 3 * ROUND, short));
        assert!(!spin(&domain, &mut Spin::default(), 3 * ROUND, long));
        // A poll that finds something restarts the count.
        let mut one = Spin::default();
        for _ in 0..10 {
            assert!(!spin(&domain, &mut one, ROUND + ROUND / 2, short));
            domain.polled();
            domain.found();
        }
    }

    #[test]
    fn what_nobody_else_polls_is_polled_in_passing() {
        let environment = Environment::System;
        let set = Set::in_environment(&environment).unwrap();
        let background = Background::start(set.another().unwrap(), &environment).unwrap();
        let [control, polled, other] = three(&background, &set);
        let polls = |domain: &Domain| domain.polls();
        let before = (polls(&control), polls(&other));
        let mut now = Instant::now();
        let mut vain = |count: u32| {
            for _ in 0..count {
                now += Duration::from_nanos(300);
                help(&background, &polled, &control, || now);
            }
        };
        vain(4 * ROUND);
        let after = polls(&other);
        assert!(after > before.1 + ROUND / 2);
        assert_eq!(polls(&control), before.0);
        // The domain's owner polls it now.
        other.polled();
        vain(2);
        let owned = polls(&other);
        assert!(owned <= after + 2);
        background.end();
    }
}
