//! Who drives a UDP socket: the threads in whose sets it is, the control domain while it is in none, and the background thread at its deadlines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::{Socket, SocketDrivers};
use crate::log::targets;
use crate::progress::domain::Source;
use crate::progress::set::SourceId;
use crate::progress::shared_descriptor::{CarriedSource, Carrier, CarrierId};
use crate::progress::timers::{Timed, TimerKey};
use crate::progress::{Edges, Set, Watch};

/// No deadline, in nanoseconds.
const NEVER: u64 = u64::MAX;

/// See the [module](self). `C` has the socket.
pub(crate) struct Driving<C> {
    carrier: Weak<C>,
    home: Mutex<Home>,
    /// The timer of the background thread.
    timer: Mutex<Option<TimerKey>>,
    /// The time at which it is due, in nanoseconds after `beginning`, or [`NEVER`] without one.
    timer_due: AtomicU64,
    /// The time of the next deadline, in nanoseconds after `beginning`, or [`NEVER`].
    due: AtomicU64,
    beginning: Instant,
}

/// While no set holds a source of the socket, the control domain drives it.
struct Home {
    source: Arc<CarriedSource>,
    token: Option<u64>,
    /// Sources that sets hold.
    held: usize,
    closed: bool,
}

/// Sets identify a source of the socket by the source itself.
pub(crate) struct CarriedWatch<'a>(pub(crate) &'a Arc<CarriedSource>);

impl Watch<Set> for CarriedWatch<'_> {
    fn id(&self) -> SourceId<'_> {
        SourceId::Carried(self.0)
    }
}

impl<C: Carrier + Source + Timed + 'static> Driving<C> {
    /// The socket has no driver before [`settle`](Self::settle).
    pub(crate) fn new(carrier: Weak<C>, beginning: Instant) -> Self {
        Self {
            home: Mutex::new(Home {
                source: CarriedSource::silent(carrier.clone()),
                token: None,
                held: 0,
                closed: false,
            }),
            carrier,
            timer: Mutex::new(None),
            timer_due: AtomicU64::new(NEVER),
            due: AtomicU64::new(NEVER),
            beginning,
        }
    }

    /// A source for a set.
    pub(crate) fn source(&self) -> Arc<CarriedSource> {
        CarriedSource::new(self.carrier.clone())
    }

    /// A source for a set of a thread that drives the socket itself.
    pub(crate) fn silent_source(&self) -> Arc<CarriedSource> {
        CarriedSource::silent(self.carrier.clone())
    }

    /// Makes the control domain drive the socket exactly while no set holds a source of it.
    pub(crate) fn settle(&self, drivers: Option<&SocketDrivers>) {
        self.settle_home(drivers, &mut self.home.lock());
    }

    fn settle_home(&self, drivers: Option<&SocketDrivers>, home: &mut Home) {
        let Some(drivers) = drivers else {
            return;
        };
        let source = Arc::clone(&home.source);
        let watch = CarriedWatch(&source);
        match home.token {
            None if home.held == 0 && !home.closed => {
                let at_home: Weak<dyn Source> = self.carrier.clone();
                match drivers.control.add(&watch, at_home, Edges::READ) {
                    Ok(token) => home.token = Some(token),
                    Err(error) => {
                        limited!(error, target: targets::UDP, %error, "a UDP socket cannot be watched; it is driven by its time limits only");
                    }
                }
            }
            Some(token) if home.held > 0 || home.closed => {
                drivers.control.remove(&watch, token);
                home.token = None;
            }
            _ => {}
        }
    }

    /// Handles [`Carrier::held`].
    pub(crate) fn held(&self, drivers: Option<&SocketDrivers>, held: bool) {
        let mut home = self.home.lock();
        if held {
            home.held += 1;
        } else {
            home.held -= 1;
        }
        self.settle_home(drivers, &mut home);
    }

    /// The control domain no longer drives the socket.
    pub(crate) fn close(&self, drivers: Option<&SocketDrivers>) {
        let mut home = self.home.lock();
        home.closed = true;
        self.settle_home(drivers, &mut home);
    }

    /// Sets the time of the next deadline, for [`is_due`](Self::is_due).
    pub(crate) fn set_due(&self, due: Option<Instant>) {
        let due = due.map_or(NEVER, |at| self.nanoseconds(at));
        self.due.store(due, Ordering::Relaxed);
    }

    /// The deadline has passed, whatever the time is.
    pub(crate) fn set_overdue(&self) {
        self.due.store(0, Ordering::Relaxed);
    }

    /// Returns true if the next deadline has passed. Reads the time only if there is a deadline.
    pub(crate) fn is_due(&self, now: impl FnOnce() -> Instant) -> bool {
        let due = self.due.load(Ordering::Relaxed);
        due != NEVER && self.nanoseconds(now()) >= due
    }

    /// Makes the background thread call [`Timed::expired`] at this time at the latest.
    pub(crate) fn set_timer(&self, drivers: Option<&SocketDrivers>, next: Option<Instant>) {
        let (Some(drivers), Some(next)) = (drivers, next) else {
            return;
        };
        let due = self.nanoseconds(next);
        // The thread wakes early, and then sets the time anew. It announces this before it looks at the state, so a thread that finds it
        // about to wake has changed the state before.
        if self.timer_due.load(Ordering::Relaxed) <= due {
            return;
        }
        let mut timer = self.timer.lock();
        if self.timer_due.load(Ordering::Relaxed) <= due {
            return;
        }
        if let Some(key) = timer.take() {
            drivers.background.cancel_timer(key);
        }
        let target: Weak<dyn Timed> = self.carrier.clone();
        *timer = Some(drivers.background.set_timer(next, target));
        self.timer_due.store(due, Ordering::Relaxed);
    }

    /// Handles the beginning of [`Timed::expired`].
    pub(crate) fn timer_expired(&self, key: TimerKey) {
        let mut timer = self.timer.lock();
        if timer.take_if(|own| *own == key).is_some() {
            self.timer_due.store(NEVER, Ordering::Relaxed);
        }
    }

    /// Makes the sets report the next datagram. A call has found fewer datagrams than it has room for.
    pub(crate) fn arm(&self, drivers: Option<&SocketDrivers>, socket: &Socket) {
        if let Some(drivers) = drivers
            && let CarrierId::Descriptor(socket) = socket.id()
        {
            drivers.control.arm(&socket, Edges::READ);
        }
    }

    /// Converts a time to nanoseconds after `beginning`.
    fn nanoseconds(&self, at: Instant) -> u64 {
        let time = at.saturating_duration_since(self.beginning);
        u64::try_from(time.as_nanos()).unwrap_or(NEVER)
    }
}
