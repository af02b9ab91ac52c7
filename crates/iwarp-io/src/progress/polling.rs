//! Remembers the domains that a thread polls, so that the background thread drives them when the thread goes to sleep.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use super::background::Background;
use super::domain::Domain;
use crate::thread_value::with_value;

/// A domain that a thread polls.
struct Polled {
    address: usize,
    domain: Weak<Domain>,
    /// The thread that serves the domain when no other thread attends it.
    background: Weak<Background>,
    /// The thread has polled the domain since the thread slept last.
    lately: bool,
}

thread_local! {
    static POLLED: RefCell<Vec<Polled>> = const { RefCell::new(Vec::new()) };
}

/// The most domains that are remembered for one thread. If a thread polls more, the background thread's ticks find the oldest.
const REMEMBERED: usize = 8;

/// Remembers that this thread polls a domain.
#[inline]
pub fn polled(domain: &Arc<Domain>, background: &Arc<Background>) {
    domain.polled();
    let address = Arc::as_ptr(domain).addr();
    with_value(&POLLED, |polled| {
        match polled.iter_mut().find(|known| known.address == address) {
            Some(known) => known.lately = true,
            None => remember(polled, domain, background),
        }
    });
}

#[cold]
fn remember(polled: &mut Vec<Polled>, domain: &Arc<Domain>, background: &Arc<Background>) {
    // The address of a domain is not used again as long as the domain is remembered.
    polled.retain(|known| known.domain.strong_count() > 0);
    if polled.len() == REMEMBERED {
        polled.remove(0);
    }
    polled.push(Polled {
        address: Arc::as_ptr(domain).addr(),
        domain: Arc::downgrade(domain),
        background: Arc::downgrade(background),
        lately: true,
    });
}

/// Called when this thread goes to sleep, or its task waits. The background thread takes over the domains that this thread has polled,
/// unless `Waiters` in which a thread sleeps drive them. Otherwise a client that holds both ends of a connection in one thread would wait
/// for ticks.
pub fn stop() {
    // The list is taken out because the last reference to a domain may be dropped here.
    let mut polled = with_value(&POLLED, std::mem::take);
    for known in polled.iter_mut().filter(|known| known.lately) {
        known.lately = false;
        if let (Some(domain), Some(background)) =
            (known.domain.upgrade(), known.background.upgrade())
            && !domain.is_waited_for()
        {
            background.hand_over(&domain);
        }
    }
    with_value(&POLLED, |known| *known = polled);
}
