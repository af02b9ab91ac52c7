//! Accepting TCP connections, however many there are, and whether or not there are descriptors for them.
//!
//! A listening socket is reported once for what has come since the last look, so that whoever is told accepts until
//! nobody is left. A crowd could hold a driver for ever in that way: after [`TURN`] connections there is a pause, in which
//! the socket is not reported at all, and which the adapter's own thread ends when it has done whatever else is due.
//!
//! Without a descriptor nobody can be accepted. Then half-open connections give theirs up, one for each peer that waits
//! (SEC-031). If there are none, the pause lasts until a connection of this process ends, or for [`RETRY`], as other
//! parts of the process do not tell when they close something.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Listener;
use crate::cm::incoming::Incoming;
use crate::core::UNSTATED_READ_LIMIT;
use crate::status::is_shortage;
use iwarp_io::descriptors::{self, Starved};
use iwarp_io::faults::Verdict;
use iwarp_io::limited;
use iwarp_io::progress::Edges;
use iwarp_io::progress::domain::{Source, Turn};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::setup::{ResponderConfig, Role};
use iwarp_io::transport::{self, Wire};

/// Connections that are accepted in one turn. Where more wait, whatever else the driver has to do comes first.
const TURN: usize = 64;
/// How soon accepting is tried again that failed for want of descriptors. Sooner, when a connection of ours ends.
const RETRY: Duration = Duration::from_millis(50);

/// What connections come from.
#[derive(Default)]
pub(super) struct Sockets {
    /// Each with its token in the control domain, where it is reported; without one during a pause.
    pub(super) listening: Vec<(transport::Listener, Option<u64>)>,
    /// Accepting pauses until then.
    pause: Option<TimerKey>,
}

impl Listener {
    /// Has connections to a socket reported, those that wait already as well.
    pub(super) fn report(&self, socket: &transport::Listener) -> io::Result<u64> {
        let control = &self.core.driver.control;
        control.add(socket, self.this.clone(), Edges::READ)
    }

    /// Accepts TCP connections: at most [`TURN`] of each socket, then there is a pause if more may wait.
    fn admit(&self, sockets: &mut Sockets) {
        let pauses = sockets.listening.iter();
        let pause = pauses
            .filter_map(|(socket, _)| self.admit_from(socket))
            .min();
        let pause = pause.or_else(|| self.report_all(sockets));
        let Some(pause) = pause else {
            return;
        };
        // Nobody is woken for what comes meanwhile.
        for (socket, token) in &mut sockets.listening {
            if let Some(token) = token.take() {
                self.core.driver.control.remove(socket, token);
            }
        }
        let end = self.core.driver.now() + pause;
        sockets.pause = Some(self.core.driver.set_timer(end, self.this.clone()));
    }

    /// After a pause, has new connections reported again; how long to pause if that fails.
    fn report_all(&self, sockets: &mut Sockets) -> Option<Duration> {
        for (socket, token) in &mut sockets.listening {
            if token.is_none() {
                match self.report(socket) {
                    Ok(new) => *token = Some(new),
                    Err(error) => {
                        limited!(error, %error, "cannot watch a listener; it is looked at now and then");
                        return Some(RETRY);
                    }
                }
            }
        }
        None
    }

    /// Accepts from one socket; how long to pause then, if more may wait.
    fn admit_from(&self, socket: &transport::Listener) -> Option<Duration> {
        let mut listed = false;
        for _ in 0..TURN {
            let error = match socket.accept() {
                Ok(connection) => {
                    self.take(connection);
                    listed = false;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // The peer has gone already: the next one may not.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => error,
            };
            if Errno::from_io_error(&error).is_some_and(is_shortage) {
                // The system takes a descriptor before it looks whether somebody is there.
                if !socket.is_somebody_there() {
                    return None;
                }
                if self.one_gives_way() {
                    continue;
                }
                // Tried once more after that: a connection may have ended just before.
                if !std::mem::replace(&mut listed, true) {
                    descriptors::wait(self.this.clone());
                    continue;
                }
            }
            self.complain(&error);
            return Some(RETRY);
        }
        Some(Duration::ZERO)
    }

    /// Tells the operator why peers wait.
    fn complain(&self, error: &io::Error) {
        let at = self.state.lock().address.map(tracing::field::display);
        if Errno::from_io_error(error) == Some(Errno::MFILE) {
            limited!(
                error, at, %error,
                "cannot accept connections: peers wait until a descriptor is free; raise the limit (ulimit -n)"
            );
        } else {
            limited!(error, at, %error, "cannot accept connections: peers wait, it is tried again");
        }
    }

    /// Lets a peer in, which is half-open from now on.
    fn take(&self, connection: Wire) {
        let (_, peer) = connection.addresses();
        let faults = self.core.device.faults();
        if let Some(verdict) = faults.and_then(|faults| faults.accept(peer)) {
            return self.take_with_fault(connection, &verdict);
        }
        self.let_in(connection);
    }

    #[cold]
    fn take_with_fault(&self, connection: Wire, verdict: &Verdict) {
        let time = match verdict {
            Verdict::Refuse => return connection.reset(),
            Verdict::Hold(time) => *time,
            Verdict::Effect(_) => {
                self.core.device.remove_by_plan();
                None
            }
        };
        let end = time.and_then(|time| self.core.driver.now().checked_add(time));
        let held = &mut self.state.lock().held;
        let timer = end.map(|end| self.core.driver.set_timer(end, self.this.clone()));
        held.push((connection, timer));
    }

    fn let_in(&self, connection: Wire) {
        let stream = self.core.stream(connection, Role::Responder);
        let peer = stream.peer().ip();
        let older = {
            let state = &mut *self.state.lock();
            let older = state.half_open.make_room(peer, state.limits);
            let key = state.next_key();
            // Under the lock, so that it is in the table before its Request can be read.
            let owner = self.this.clone();
            match Incoming::accepted(&self.core.driver, owner, key, stream, self.responder()) {
                Ok(incoming) => state.half_open.insert(key, peer, incoming),
                Err(error) => limited!(error, %error, "cannot watch a peer that has connected"),
            }
            older
        };
        if let Some(older) = older {
            self.make_way(older);
        }
    }

    /// What the adapter answers peers with.
    fn responder(&self) -> ResponderConfig {
        let timeouts = &self.core.options.timeouts;
        ResponderConfig {
            most: self.core.read_limits(),
            unstated: UNSTATED_READ_LIMIT,
            request_within: timeouts.request,
            ready_within: timeouts.ready,
        }
    }

    /// Ends an attempt that was taken out for another, unless its Request is here; true when it has ended.
    fn make_way(&self, incoming: Arc<Incoming>) -> bool {
        if incoming.is_requested_after_all() {
            // For `match_up` to see, once the sockets are no longer locked.
            self.state.lock().queue(incoming);
            return false;
        }
        limited!(warn, "a silent peer gives way to a newcomer");
        incoming.reset();
        true
    }

    /// Frees a descriptor of those that have sent no Request yet, if there is one.
    fn one_gives_way(&self) -> bool {
        loop {
            let oldest = self.state.lock().half_open.give_way();
            let Some(oldest) = oldest else {
                return false;
            };
            if self.make_way(oldest) {
                return true;
            }
        }
    }

    /// Nobody is let in any more.
    pub(super) fn stop_accepting(&self) {
        let sockets = std::mem::take(&mut *self.sockets.lock());
        drop(std::mem::take(&mut self.state.lock().held));
        if let Some(key) = sockets.pause {
            self.core.driver.cancel_timer(key);
        }
        for (socket, token) in &sockets.listening {
            if let Some(token) = token {
                self.core.driver.control.remove(socket, *token);
            }
        }
    }
}

impl Source for Listener {
    fn ready(&self, _: Edges) -> Turn {
        let mut sockets = self.sockets.lock();
        // The report may have been on its way when the pause began.
        if sockets.pause.is_none() {
            self.admit(&mut sockets);
        }
        drop(sockets);
        self.match_up();
        Turn::default()
    }
}

impl Timed for Listener {
    fn expired(&self, key: TimerKey, _: Instant) {
        let mut state = self.state.lock();
        let held = state.held.iter().position(|(_, timer)| *timer == Some(key));
        let held = held.map(|at| state.held.swap_remove(at));
        drop(state);
        if let Some((connection, _)) = held {
            self.let_in(connection);
            return self.match_up();
        }
        // The end of a pause, or before that, because a descriptor is free.
        let mut sockets = self.sockets.lock();
        if let Some(key) = sockets.pause.take() {
            self.core.driver.cancel_timer(key);
        }
        self.admit(&mut sockets);
        drop(sockets);
        self.match_up();
    }
}

impl Starved for Listener {
    fn descriptor_freed(&self) {
        self.core
            .driver
            .set_timer(self.core.driver.now(), self.this.clone());
    }
}
