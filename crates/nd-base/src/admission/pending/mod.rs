//! The peers that have arrived and were not taken yet: who has a place, who gives way, and which greeting begins next.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use netdirect::Status;

use crate::errors::{Failure, Result};
use crate::provider::{PeerNetwork, PeerTable};
use crate::session::{Deadline, Endpoint};
use crate::stderr::Remarks;

/// How long an unknown peer may take for its first message.
pub const FIRST_MESSAGE: Duration = Duration::from_secs(5);

/// The pause between two attempts to accept when the system has no descriptors or memory left.
const PAUSE: Duration = Duration::from_millis(50);

/// Limits for the peers of an `Admission`.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most peers that are greeted, or wait until the server takes them.
    pub most: usize,
    /// How long each may take for its first message.
    pub first_message: Duration,
    /// Peers that have sent a message give way too, when all places are taken: the one that has been silent longest, of the
    /// address with the most.
    pub known_give_way: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            most: 64,
            first_message: FIRST_MESSAGE,
            known_give_way: false,
        }
    }
}

impl Bounds {
    /// The usual limits, for a server that never waits longer than this.
    pub fn within(limit: Duration) -> Self {
        Self {
            first_message: FIRST_MESSAGE.min(limit),
            ..Self::default()
        }
    }
}

/// A connection that has arrived and is not admitted yet, as its greeting sees it.
#[derive(Debug)]
pub struct PendingPeer<T> {
    /// The address of the peer.
    pub peer: SocketAddr,
    /// Until when the first message has to arrive.
    pub deadline: Deadline,
    id: u64,
    pending_peers: Arc<PendingPeers<T>>,
}

impl<T: Send + 'static> PendingPeer<T> {
    /// The peer has sent a message, and its greeting serves it. From now on the connection is not dropped for others, unless
    /// [`Bounds::known_give_way`] says so.
    pub fn has_spoken(&self) {
        let list = &mut *self.pending_peers.list();
        let now = list.tick();
        if self.pending_peers.bounds.known_give_way {
            if let Some(one) = list.waiting.get_mut(self.id) {
                one.stage = Stage::Known;
                one.spoke = now;
            }
        } else if let Some(one) = list.waiting.remove(self.id) {
            list.known.insert(self.id, one);
        }
    }

    /// Passes the connection to the server, unless it was dropped already.
    pub fn admit(&self, peer: T) {
        self.pending_peers.admit(self.id, peer);
    }

    /// Passes the connection to the server, and waits until the server takes it. Calls `tell` if that has not happened `soon`, and
    /// returns the connection if it has not happened within the limit.
    pub fn admit_for(
        &self,
        peer: T,
        (soon, limit): (Duration, Duration),
        tell: impl FnOnce(&mut T),
    ) -> Option<T> {
        self.pending_peers.admit(self.id, peer);
        let mut peer = self.pending_peers.take_back_after(self.id, soon)?;
        tell(&mut peer);
        // It has its old place among those that wait.
        self.pending_peers.admit(self.id, peer);
        self.pending_peers.give_up_after(self.id, limit)
    }

    /// Returns true until the connection is dropped.
    pub(super) fn is_present(&self) -> bool {
        self.pending_peers.list().has(self.id)
    }

    /// Accepts the peer's request, within the time limit for the first message.
    pub fn accept(
        &self,
        endpoint: &mut Endpoint,
        limits: netdirect::ReadLimits,
        private_data: &[u8],
    ) -> Result<()> {
        endpoint.set_deadline(Some(self.deadline));
        let is_present = || self.is_present();
        let accepted = if is_present() {
            Some(endpoint.accept_if(limits, private_data, is_present)?)
        } else {
            None
        };
        match accepted {
            Some(Status::SUCCESS) => Ok(()),
            Some(status) if is_present() => Err(endpoint.failure("accept the connection", status)),
            Some(_) | None => Err(Failure::peer(
                "too many other connections were waiting",
                "try again",
            )),
        }
    }
}

/// All connections that have arrived and were not taken yet.
#[derive(Debug)]
pub(super) struct PendingPeers<T> {
    bounds: Bounds,
    list: Mutex<List<T>>,
    /// A peer was admitted or taken, or accepting has ended.
    changed: Condvar,
    remarks: Remarks,
    closed: AtomicBool,
}

#[derive(Debug)]
struct List<T> {
    /// Counts connections and messages: identifiers, and which of two came later.
    ticks: u64,
    /// Those that give way to others: unknown peers, admitted ones that the server has not taken yet, and known ones if they do.
    waiting: PeerTable<Present<T>>,
    /// Those that do not give way, because their greeting serves them.
    known: HashMap<u64, Present<T>>,
    /// Connections whose greeting has not begun, in their order. Some of them may have left.
    ungreeted: VecDeque<u64>,
    /// Threads that greet.
    threads: usize,
    /// The peers that the server has taken last, the latest one at the end.
    taken: VecDeque<PeerNetwork>,
    /// Why accepting has ended, once it has.
    stopped: Option<Result<()>>,
}

struct Present<T> {
    peer: SocketAddr,
    /// When the last message came, or the connection.
    spoke: u64,
    stage: Stage<T>,
    /// The greeting of the connection, until a thread runs it.
    greet: Option<Greeting<T>>,
    /// Ends the greeting from outside.
    turn_away: Box<dyn FnOnce() + Send>,
}

/// The progress of a connection.
#[derive(Debug)]
enum Stage<T> {
    /// The first message has not come.
    Unknown,
    /// Its greeting serves it.
    Known,
    /// The server has not taken it yet.
    Admitted(T),
}

type Greeting<T> = Box<dyn FnOnce(&PendingPeer<T>) -> Result<()> + Send>;

impl<T> std::fmt::Debug for Present<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Present")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl<T> Present<T> {
    /// Turns the connection away, and drops it. Called with the list unlocked.
    fn end(self) {
        (self.turn_away)();
    }

    fn is_unknown(&self) -> bool {
        matches!(self.stage, Stage::Unknown)
    }

    fn is_admitted(&self) -> bool {
        matches!(self.stage, Stage::Admitted(_))
    }

    /// The connection, if it is admitted.
    fn admitted(self) -> Option<T> {
        match self.stage {
            Stage::Admitted(peer) => Some(peer),
            Stage::Unknown | Stage::Known => None,
        }
    }
}

impl<T> List<T> {
    pub(super) fn new() -> Self {
        Self {
            ticks: 0,
            waiting: PeerTable::default(),
            known: HashMap::new(),
            ungreeted: VecDeque::new(),
            threads: 0,
            taken: VecDeque::new(),
            stopped: None,
        }
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn len(&self) -> usize {
        self.waiting.len() + self.known.len()
    }

    fn has(&mut self, id: u64) -> bool {
        self.waiting.get_mut(id).is_some() || self.known.contains_key(&id)
    }

    fn remove(&mut self, id: u64) -> Option<Present<T>> {
        let waiting = self.waiting.remove(id);
        waiting.or_else(|| self.known.remove(&id))
    }

    /// Takes out the peer that gives way to a newcomer from this address.
    fn give_way_to(&mut self, address: PeerNetwork) -> Option<Present<T>> {
        if let Some((_, youngest)) = self.waiting.give_way_to(address) {
            return Some(youngest);
        }
        let is_unknown = |(_, one): &(u64, &Present<T>)| one.is_unknown();
        let (oldest, _) = self.waiting.entries_of(address).find(is_unknown)?;
        self.waiting.remove(oldest)
    }

    /// Of the address with the most connections that are not admitted, removes the one that has been silent longest.
    fn remove_silent(&mut self) -> Option<Present<T>> {
        let mut networks: HashMap<PeerNetwork, (usize, u64, u64)> = HashMap::new();
        for (id, network, one) in self.waiting.iter().filter(|(.., one)| !one.is_admitted()) {
            let (count, silent_since, silent) =
                networks.entry(network).or_insert((0, u64::MAX, id));
            *count += 1;
            if one.spoke < *silent_since {
                (*silent_since, *silent) = (one.spoke, id);
            }
        }
        // Of two addresses with equally many, that of the connection which has been silent longer.
        let most = networks
            .into_values()
            .max_by_key(|(count, silent_since, _)| (*count, Reverse(*silent_since)));
        let (.., silent) = most?;
        self.waiting.remove(silent)
    }

    /// Takes out the peer that gives way when the system has no room for one more: the oldest unknown peer of the address that has the
    /// most, or else of all.
    fn give_way(&mut self) -> Option<Present<T>> {
        let most = self.waiting.most()?;
        let is_unknown = |(_, one): &(u64, &Present<T>)| one.is_unknown();
        let of_most = self.waiting.entries_of(most).find(is_unknown);
        let of_all = || {
            let mut all = self.waiting.iter().map(|(id, _, one)| (id, one));
            all.find(is_unknown)
        };
        let (oldest, _) = of_most.or_else(of_all)?;
        self.waiting.remove(oldest)
    }

    fn has_admitted(&self) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|(.., one)| one.is_admitted())
    }

    /// Takes an admitted peer out. The peers take turns, each of them with the oldest of its connections.
    fn remove_admitted(&mut self, most: usize) -> Option<T> {
        let admitted = self.waiting.iter().filter(|(.., one)| one.is_admitted());
        let last = |peer: &PeerNetwork| self.taken.iter().position(|taken| taken == peer);
        let (id, peer, _) =
            admitted.min_by_key(|(id, peer, _)| (last(peer).map(|at| at + 1), *id))?;
        self.taken.retain(|taken| *taken != peer);
        self.taken.push_back(peer);
        if self.taken.len() > most {
            self.taken.pop_front();
        }
        self.waiting.remove(id)?.admitted()
    }

    /// Forgets connections that have left before they were greeted, if more than this many are remembered.
    fn forget_left(&mut self, most: usize) {
        if self.ungreeted.len() > most {
            let waiting = &mut self.waiting;
            self.ungreeted.retain(|id| waiting.get_mut(*id).is_some());
        }
    }

    /// The connection whose greeting begins next.
    fn next_ungreeted(&mut self) -> Option<(u64, SocketAddr, Greeting<T>)> {
        while let Some(id) = self.ungreeted.pop_front() {
            if let Some(one) = self.waiting.get_mut(id)
                && let Some(greet) = one.greet.take()
            {
                return Some((id, one.peer, greet));
            }
        }
        None
    }
}

impl<T: Send + 'static> PendingPeers<T> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            list: Mutex::new(List::new()),
            changed: Condvar::new(),
            remarks: Remarks::default(),
            closed: AtomicBool::new(false),
        }
    }

    fn list(&self) -> MutexGuard<'_, List<T>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Turns all away but those that are admitted, and returns these.
    pub(super) fn close(&self) -> Vec<T> {
        self.closed.store(true, Ordering::Release);
        let (waiting, known) = {
            let mut list = self.list();
            (list.waiting.take(), std::mem::take(&mut list.known))
        };
        self.changed.notify_all();
        let mut untaken = Vec::new();
        for one in waiting.into_iter().chain(known.into_values()) {
            match one.stage {
                Stage::Admitted(peer) => untaken.push(peer),
                Stage::Unknown | Stage::Known => (one.turn_away)(),
            }
        }
        untaken
    }

    /// Accepting has ended.
    pub(super) fn stop(&self, why: Result<()>) {
        self.list().stopped = Some(why);
        self.changed.notify_all();
    }

    /// Greets one more connection in its own thread, if there is a place for it.
    pub(super) fn receive(
        self: &Arc<Self>,
        peer: SocketAddr,
        turn_away: impl FnOnce() + Send + 'static,
        greet: impl FnOnce(&PendingPeer<T>) -> Result<()> + Send + 'static,
    ) {
        let mut list = self.list();
        let network = PeerNetwork::from_address(peer.ip());
        let is_full = list.len() >= self.bounds.most;
        let gives_way = match (is_full, self.bounds.known_give_way) {
            (false, _) => None,
            (true, false) => list.give_way_to(network),
            (true, true) => list.remove_silent(),
        };
        if is_full && gives_way.is_none() {
            drop(list);
            turn_away();
            self.remark(format_args!(
                "turned away {peer}: {} clients are here already",
                self.bounds.most
            ));
            return;
        }
        let id = list.tick();
        let newcomer = Present {
            peer,
            spoke: id,
            stage: Stage::Unknown,
            greet: Some(Box::new(greet)),
            turn_away: Box::new(turn_away),
        };
        list.waiting.insert(id, network, newcomer);
        list.ungreeted.push_back(id);
        list.forget_left(2 * self.bounds.most);
        let one_more = list.threads < self.bounds.most;
        list.threads += usize::from(one_more);
        drop(list);
        if let Some(one) = gives_way {
            one.end();
            self.changed.notify_all();
        }
        if one_more {
            self.start_greeting();
        }
    }

    /// Starts a thread that greets, which is counted already.
    fn start_greeting(self: &Arc<Self>) {
        let greeting = Arc::clone(self);
        let started = start("greet", move || greeting.greet_all());
        if let Err(failure) = started {
            let mut list = self.list();
            list.threads -= 1;
            // The last thread greets the connections that are left. Without a thread they would stay ungreeted.
            let left = match list.threads {
                0 => list.next_ungreeted(),
                _ => None,
            };
            let left = left.and_then(|(id, ..)| list.remove(id));
            drop(list);
            if let Some(one) = left {
                self.remark(format_args!("turned away {}: {failure}", one.peer));
                one.end();
            }
        }
    }

    /// Greets connections until all were greeted.
    fn greet_all(self: &Arc<Self>) {
        loop {
            let next = {
                let mut list = self.list();
                let next = list.next_ungreeted();
                list.threads -= usize::from(next.is_none());
                next
            };
            let Some((id, peer, greet)) = next else {
                return;
            };
            let pending = PendingPeer {
                peer,
                deadline: Deadline::after(self.bounds.first_message),
                id,
                pending_peers: Arc::clone(self),
            };
            let greeted = greet(&pending);
            self.greeted(id);
            if let Err(failure) = greeted
                && !self.is_closed()
            {
                self.remark(format_args!("turned away {peer}: {failure}"));
            }
        }
    }

    fn admit(&self, id: u64, peer: T) {
        let mut list = self.list();
        if let Some(one) = list.waiting.get_mut(id) {
            one.stage = Stage::Admitted(peer);
            self.changed.notify_all();
        } else {
            drop(list); // dropping a peer can take a while
        }
    }

    /// The greeting of a connection has ended: the connection leaves, unless it is admitted.
    fn greeted(&self, id: u64) {
        let mut list = self.list();
        let one = list.waiting.get_mut(id);
        let is_admitted = one.is_some_and(|one| one.is_admitted());
        let left = if is_admitted { None } else { list.remove(id) };
        self.changed.notify_all();
        drop(list);
        drop(left);
    }

    /// Takes the next admitted peer.
    pub(super) fn take(&self, limit: Option<Duration>) -> Result<Option<T>> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut list = self.list();
        loop {
            if let Some(peer) = list.remove_admitted(self.bounds.most) {
                self.changed.notify_all();
                return Ok(Some(peer));
            }
            if let Some(stopped) = &mut list.stopped {
                return match std::mem::replace(stopped, Ok(())) {
                    Err(failure) => Err(failure),
                    Ok(()) => Err(Failure::new(
                        "the server has stopped accepting connections",
                        "start the server again",
                    )),
                };
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            list = match left {
                None => self.changed.wait(list),
                Some(Duration::ZERO) => return Ok(None),
                Some(left) => match self.changed.wait_timeout(list, left) {
                    Ok((list, _)) => Ok(list),
                    Err(poisoned) => Ok(poisoned.into_inner().0),
                },
            }
            .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes the next admitted peer, as long as a peer is here that may be admitted.
    pub(super) fn take_of_present(&self) -> Option<T> {
        let is_open = |list: &mut List<T>| list.len() > 0 && !list.has_admitted();
        let waited = self.changed.wait_while(self.list(), is_open);
        let mut list = waited.unwrap_or_else(PoisonError::into_inner);
        let peer = list.remove_admitted(self.bounds.most);
        self.changed.notify_all();
        peer
    }

    /// Waits until an admitted peer is taken or dropped, and removes it when that takes too long.
    fn give_up_after(&self, id: u64, limit: Duration) -> Option<T> {
        self.while_there(id, limit).remove(id)?.admitted()
    }

    /// Waits until an admitted peer is taken or dropped. When that takes too long, it is not admitted any more, but keeps its place.
    fn take_back_after(&self, id: u64, limit: Duration) -> Option<T> {
        let mut list = self.while_there(id, limit);
        let one = list.waiting.get_mut(id)?;
        match std::mem::replace(&mut one.stage, Stage::Known) {
            Stage::Admitted(peer) => Some(peer),
            Stage::Unknown | Stage::Known => None,
        }
    }

    /// Waits until a peer has left the list, but no longer than this.
    fn while_there(&self, id: u64, limit: Duration) -> MutexGuard<'_, List<T>> {
        let is_there = |list: &mut List<T>| list.has(id);
        let list = self.list();
        let waited = self.changed.wait_timeout_while(list, limit, is_there);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The system has no resources left for one more connection. Drops an unknown peer, and waits a little before the next attempt.
    pub(super) fn make_room(&self, why: &Failure) {
        self.remark(why);
        let one = self.list().give_way();
        if let Some(one) = one {
            one.end();
            self.changed.notify_all();
        }
        thread::sleep(PAUSE);
    }

    fn remark(&self, text: impl Display) {
        self.remarks.remark(text);
    }
}

/// Starts a thread.
pub(super) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| Failure::start("a thread", &error))
}
