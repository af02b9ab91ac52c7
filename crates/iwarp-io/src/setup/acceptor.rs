//! Accepting connections, however many there are, and even if there are no descriptors for them.
//!
//! A listening socket is reported once for all connections since the last look, so the thread that gets the report accepts until none is
//! left. Many peers could occupy a driver for ever in that way: after [`TURN`] connections there is a pause. During the pause the socket is
//! not reported at all, and the adapter's own thread ends the pause when its other work is done.
//!
//! Without a descriptor no connection can be accepted. Then half-open connections give theirs up, one for each peer that waits (SEC-031),
//! or those that the owner names. If there are none, the pause lasts until a connection of this crate ends, or for [`RETRY`], because other parts of the process may close
//! descriptors without a notice.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::half_open::{HalfOpen, HalfOpenLimits, give_way, make_room};
use super::incoming::{Incoming, IncomingOwner};
use super::mpa_startup::ConnectionRequest;
use super::responder::ResponderConfig;
use crate::descriptors::{self, Starved};
use crate::driver::Driver;
use crate::faults::{FaultOwner, Faults, Verdict};
use crate::log::{span_between, targets};
use crate::peer_network::PeerNetwork;
use crate::progress::Edges;
use crate::progress::domain::{Source, Turn};
use crate::progress::timers::{Timed, TimerKey};
use crate::system_call::{errno, is_refusal};
use crate::transport::{self, Bound, Wire};

/// The most connections that are accepted in one turn. If more wait, the driver's other work comes first.
const TURN: usize = 64;
/// The time after which accepting is tried again that failed for want of descriptors. It is tried sooner if a connection of this process
/// ends.
const RETRY: Duration = Duration::from_millis(50);

/// The calls of an [`Acceptor`] to its owner, a listener. Called with no lock of the acceptor held, if not said otherwise.
pub trait AcceptorOwner: Send + Sync {
    /// A peer's Request has arrived completely. The owner keeps the connection until a client asks for one, or refuses it.
    fn requested(&self, incoming: Arc<Incoming>);

    /// A connection with a whole Request has ended by itself.
    fn ended(&self, key: u64);

    /// A peer waits, and neither a descriptor nor a half-open connection is left. The owner frees the descriptor of a connection that is not
    /// established, and returns true if it had one. Called while the acceptor is locked, so the owner must not call it.
    fn one_gives_way(&self) -> bool {
        false
    }
}

/// The configuration of an acceptor.
#[derive(Clone, Debug)]
pub struct AcceptorConfig {
    /// The configuration of all responders.
    pub responder: ResponderConfig,
    /// The fault plan.
    pub faults: Option<Arc<Faults>>,
    /// The object that removes the device when the plan says so.
    pub fault_owner: Arc<dyn FaultOwner>,
}

/// Accepts connections and reads their MPA Requests.
pub struct Acceptor {
    driver: Arc<Driver>,
    config: AcceptorConfig,
    owner: Weak<dyn AcceptorOwner>,
    /// Locked before `state`, if both are.
    sockets: Mutex<Sockets>,
    state: Mutex<AcceptorState>,
    this: Weak<Self>,
}

/// The sockets that connections come from.
#[derive(Default)]
struct Sockets {
    /// Each with its token in the control domain, where it is reported; without a token during a pause.
    listening: Vec<(transport::Listener, Option<u64>)>,
    /// The end of a pause in accepting.
    pause: Option<TimerKey>,
    /// When what peers have announced and not done is forgotten.
    forgets: Option<TimerKey>,
    /// The address that messages name.
    address: Option<SocketAddr>,
}

#[derive(Default)]
struct AcceptorState {
    limits: HalfOpenLimits,
    /// Peers whose Request is not complete yet.
    half_open: HalfOpen<Arc<Incoming>>,
    /// Peers whose Request was found to be complete when they were to give way. The owner is notified when the sockets are unlocked.
    requested: Vec<Arc<Incoming>>,
    /// Connections that a fault plan holds back, until a deadline or for ever.
    held: Vec<(Wire, Option<TimerKey>)>,
    /// The key of the latest arrival.
    arrivals: u64,
}

impl AcceptorState {
    fn next_key(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

impl Acceptor {
    /// An acceptor that does not listen yet.
    pub fn new(
        driver: &Arc<Driver>,
        config: AcceptorConfig,
        owner: Weak<dyn AcceptorOwner>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            driver: Arc::clone(driver),
            config,
            owner,
            sockets: Mutex::default(),
            state: Mutex::default(),
            this: this.clone(),
        })
    }

    /// Listens at these addresses, which messages call `address`.
    ///
    /// # Errors
    ///
    /// Those of the transport; the addresses are given up then.
    pub fn listen(
        &self,
        bound: Vec<Bound>,
        address: Option<SocketAddr>,
        limits: HalfOpenLimits,
    ) -> io::Result<()> {
        let mut sockets = self.sockets.lock();
        self.state.lock().limits = limits;
        sockets.address = address;
        for bound in bound {
            let listening = bound.listen().and_then(|listener| {
                let token = self.report(&listener)?;
                Ok((listener, Some(token)))
            });
            match listening {
                Ok(listening) => sockets.listening.push(listening),
                Err(error) => {
                    self.stop(std::mem::take(&mut sockets));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Watches a peer whose Request has arrived already, until a client asks for it.
    ///
    /// # Errors
    ///
    /// Those of the system, when it cannot watch one stream more.
    pub fn watch(&self, request: ConnectionRequest) -> io::Result<Arc<Incoming>> {
        let key = self.state.lock().next_key();
        Incoming::requested(&self.driver, self.this.clone(), key, request)
    }

    /// Stops accepting connections, and refuses half-open ones.
    pub fn close(&self) {
        let sockets = std::mem::take(&mut *self.sockets.lock());
        self.stop(sockets);
        let (half_open, requested, held) = {
            let mut state = self.state.lock();
            let held = std::mem::take(&mut state.held);
            (
                state.half_open.take(),
                std::mem::take(&mut state.requested),
                held,
            )
        };
        drop(held);
        for incoming in half_open.iter().chain(&requested) {
            incoming.refuse();
        }
    }

    fn stop(&self, sockets: Sockets) {
        for key in [sockets.pause, sockets.forgets].into_iter().flatten() {
            self.driver.cancel_timer(key);
        }
        for (socket, token) in &sockets.listening {
            if let Some(token) = token {
                self.driver.control.remove(socket, *token);
            }
        }
    }

    /// Makes the domain report connections to a socket, including those that wait already.
    fn report(&self, socket: &transport::Listener) -> io::Result<u64> {
        let control = &self.driver.control;
        control.add(socket, self.this.clone(), Edges::READ)
    }

    /// Accepts connections: at most [`TURN`] of each socket, then there is a pause if more may wait.
    fn admit(&self, sockets: &mut Sockets) {
        let address = sockets.address;
        let pauses = sockets.listening.iter();
        let pause = pauses
            .filter_map(|(socket, _)| self.admit_from(socket, address))
            .min();
        let pause = pause.or_else(|| self.report_all(sockets));
        self.forget_old(sockets);
        let Some(pause) = pause else {
            return;
        };
        // No thread is woken for connections that arrive meanwhile.
        for (socket, token) in &mut sockets.listening {
            if let Some(token) = token.take() {
                self.driver.control.remove(socket, token);
            }
        }
        let end = self.driver.now() + pause;
        sockets.pause = Some(self.driver.set_timer(end, self.this.clone()));
    }

    /// Forgets what peers have announced and not done, and sets a deadline for what is left.
    fn forget_old(&self, sockets: &mut Sockets) {
        let now = self.driver.now();
        let left = sockets.listening.iter();
        let left = left.filter_map(|(socket, _)| socket.forget_old(now)).min();
        if let Some(left) = left
            && sockets.forgets.is_none()
        {
            sockets.forgets = Some(self.driver.set_timer(now + left, self.this.clone()));
        }
    }

    /// After a pause, makes the domain report new connections again. Returns the length of the next pause if that fails.
    fn report_all(&self, sockets: &mut Sockets) -> Option<Duration> {
        for (socket, token) in &mut sockets.listening {
            if token.is_none() {
                match self.report(socket) {
                    Ok(new) => *token = Some(new),
                    Err(error) => {
                        limited!(error, target: targets::CONNECT, %error, "cannot watch a listener; it is looked at now and then");
                        return Some(RETRY);
                    }
                }
            }
        }
        None
    }

    /// Accepts from one socket. Returns the length of the pause after it, if more may wait.
    fn admit_from(
        &self,
        socket: &transport::Listener,
        address: Option<SocketAddr>,
    ) -> Option<Duration> {
        let mut listed = false;
        for _ in 0..TURN {
            let error = match socket.accept() {
                Ok(connection) => {
                    self.take(connection);
                    listed = false;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.driver.control.arm(socket, Edges::READ);
                    return None;
                }
                // This peer has already disconnected; the next one may still be there.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => error,
            };
            if descriptors::is_shortage(&error) {
                // The system takes a descriptor before it checks if a peer waits.
                if !socket.is_somebody_there() {
                    self.driver.control.arm(socket, Edges::READ);
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
            complain(&error, address);
            return Some(RETRY);
        }
        Some(Duration::ZERO)
    }

    /// Accepts a peer, unless the peer has guessed STags, or a fault plan refuses or holds it.
    fn take(&self, connection: Wire) {
        let (local, peer) = connection.addresses();
        let guesses = &self.driver.protection_faults;
        if guesses.refuses(peer.ip(), self.driver.now()) {
            limited!(warn, target: targets::CONNECT, parent: &span_between(local, peer), %peer, "a peer with many protection faults is refused for a time");
            return connection.reset();
        }
        let faults = self.config.faults.as_ref();
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
                self.config.fault_owner.remove_device();
                None
            }
        };
        let end = time.and_then(|time| self.driver.now().checked_add(time));
        let held = &mut self.state.lock().held;
        let timer = end.map(|end| self.driver.set_timer(end, self.this.clone()));
        held.push((connection, timer));
    }

    /// Accepts a peer, which is half-open from now on.
    fn let_in(&self, connection: Wire) {
        let AcceptorConfig {
            responder,
            faults,
            fault_owner,
        } = &self.config;
        let role = iwarp::Role::Responder;
        let owner = Arc::clone(fault_owner);
        let stream = self
            .driver
            .stream(connection, role, faults.as_ref(), owner, None);
        let peer = PeerNetwork::from_address(stream.peer().ip());
        let span = stream.span().clone();
        let older = {
            let state = &mut *self.state.lock();
            let older = make_room(&mut state.half_open, peer, state.limits);
            let key = state.next_key();
            // Under the lock, so that the connection is in the table before its Request can be read.
            match Incoming::accepted(&self.driver, self.this.clone(), key, stream, *responder) {
                Ok(incoming) => drop(state.half_open.insert(key, peer, incoming)),
                Err(error) => {
                    limited!(error, target: targets::CONNECT, parent: &span, %error, "cannot watch a peer that has connected")
                }
            }
            older
        };
        if let Some(older) = older {
            self.make_way(older);
        }
    }

    /// Ends a connection that was taken out for another one, unless its Request has arrived. Returns true when it has ended.
    fn make_way(&self, incoming: Arc<Incoming>) -> bool {
        if incoming.is_requested_after_all() {
            self.state.lock().requested.push(incoming);
            return false;
        }
        limited!(warn, target: targets::CONNECT, parent: incoming.span(), "a silent peer gives way to a newcomer");
        incoming.reset();
        true
    }

    /// Frees the descriptor of a peer that has sent no Request yet, or of one that the owner gives up, if there is one.
    fn one_gives_way(&self) -> bool {
        loop {
            let oldest = give_way(&mut self.state.lock().half_open);
            let Some(oldest) = oldest else {
                let owner = self.owner.upgrade();
                return owner.is_some_and(|owner| owner.one_gives_way());
            };
            if self.make_way(oldest) {
                return true;
            }
        }
    }

    /// Reports peers whose Request was found to be complete. Called without a lock.
    fn tell_requested(&self) {
        let requested = std::mem::take(&mut self.state.lock().requested);
        for incoming in requested {
            self.tell(incoming);
        }
    }

    fn tell(&self, incoming: Arc<Incoming>) {
        match self.owner.upgrade() {
            Some(owner) => owner.requested(incoming),
            None => incoming.refuse(),
        }
    }
}

/// Logs for the operator why peers wait.
fn complain(error: &io::Error, address: Option<SocketAddr>) {
    let at = address.map(tracing::field::display);
    if errno(error) == Some(Errno::MFILE) {
        limited!(
            error, target: targets::CONNECT, at, %error,
            "cannot accept connections: peers wait until a descriptor is free; raise the limit (ulimit -n)"
        );
    } else if is_refusal(error) {
        limited!(
            error, target: targets::CONNECT, at, %error,
            "cannot accept connections: peers wait; look for a rule of this machine that forbids the call (seccomp, SELinux, a firewall)"
        );
    } else {
        limited!(error, target: targets::CONNECT, at, %error, "cannot accept connections: peers wait, it is tried again");
    }
}

impl IncomingOwner for Acceptor {
    fn requested(&self, key: u64) {
        // The caller that took it out has handled it: it has made room, or the acceptor has closed.
        let incoming = self.state.lock().half_open.remove(key);
        if let Some(incoming) = incoming {
            self.tell(incoming);
        }
    }

    fn ended(&self, key: u64) {
        let half_open = self.state.lock().half_open.remove(key);
        if half_open.is_none()
            && let Some(owner) = self.owner.upgrade()
        {
            owner.ended(key);
        }
    }
}

impl Source for Acceptor {
    fn ready(&self, _: Edges) -> Turn {
        let mut sockets = self.sockets.lock();
        // The report may have been on its way when the pause began.
        if sockets.pause.is_none() {
            self.admit(&mut sockets);
        }
        drop(sockets);
        self.tell_requested();
        Turn::default()
    }
}

impl Timed for Acceptor {
    fn expired(&self, key: TimerKey, _: Instant) {
        let mut state = self.state.lock();
        let held = state.held.iter().position(|(_, timer)| *timer == Some(key));
        let held = held.map(|at| state.held.swap_remove(at));
        drop(state);
        if let Some((connection, _)) = held {
            self.let_in(connection);
            return self.tell_requested();
        }
        // The pause ends in time, or early because a descriptor is free.
        let mut sockets = self.sockets.lock();
        if sockets.forgets.take_if(|own| *own == key).is_some() {
            return self.forget_old(&mut sockets);
        }
        if let Some(key) = sockets.pause.take() {
            self.driver.cancel_timer(key);
        }
        self.admit(&mut sockets);
        drop(sockets);
        self.tell_requested();
    }
}

impl Starved for Acceptor {
    fn descriptor_freed(&self) {
        self.driver.set_timer(self.driver.now(), self.this.clone());
    }
}
