//! The admission of peers by servers: each connection is greeted in its own thread, while others come in.
//!
//! Until a peer has sent its first message, it is unknown. An unknown peer has a time limit for the first message. A peer that is
//! admitted keeps its place until the server takes it.
//!
//! When all places are taken, a newcomer gets the place of the youngest peer of the address that has the most, if the newcomer's
//! address has fewer. Otherwise the oldest unknown peer of the newcomer's own address is dropped, so that silent connections cost the
//! next client only the time to accept them. There are never more threads than places: a newcomer whose place is free waits for the
//! thread of the peer that was dropped. A server whose greetings serve the peers themselves can have known peers give way too
//! ([`Bounds::known_give_way`]).

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use netdirect::{Listener, Status};
use socket2::SockRef;

use crate::errors::{Failure, Result};
use crate::provider::{PeerNetwork, PeerTable};
use crate::session::{self, Deadline, Endpoint, Request, Session};
use crate::stderr::Remarks;

/// How long an unknown peer may take for its first message.
pub(crate) const FIRST_MESSAGE: Duration = Duration::from_secs(5);

/// The pause between two attempts to accept when the system has no descriptors or memory left.
const PAUSE: Duration = Duration::from_millis(50);

/// The admission of a server: admits the peers that have sent their first message.
#[derive(Debug)]
pub(crate) struct Admission<T: Send + 'static> {
    pending_peers: Arc<PendingPeers<T>>,
    source: ConnectionSource,
    acceptor: Option<JoinHandle<()>>,
}

/// Limits for the peers of an [`Admission`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most peers that are greeted, or wait until the server takes them.
    pub(crate) most: usize,
    /// How long each may take for its first message.
    pub(crate) first_message: Duration,
    /// Peers that have sent a message give way too, when all places are taken: the one that has been silent longest, of the
    /// address with the most.
    pub(crate) known_give_way: bool,
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
    pub(crate) fn within(limit: Duration) -> Self {
        Self {
            first_message: FIRST_MESSAGE.min(limit),
            ..Self::default()
        }
    }
}

/// The source of connections, with what is needed to stop it.
#[derive(Debug)]
enum ConnectionSource {
    Tcp(Arc<TcpListener>),
    Requests(Arc<dyn Listener>),
}

impl<T: Send + 'static> Admission<T> {
    /// Accepts TCP connections. `greet` receives the first message of each, and admits the connection.
    pub(crate) fn of_tcp<G>(listener: TcpListener, bounds: Bounds, greet: G) -> Result<Self>
    where
        G: Fn(TcpStream, &PendingPeer<T>) -> Result<()> + Send + Sync + 'static,
    {
        let listener = Arc::new(listener);
        let pending_peers = Arc::new(PendingPeers::new(bounds));
        let greet = Arc::new(greet);
        let (source, accepting) = (Arc::clone(&listener), Arc::clone(&pending_peers));
        let acceptor = start("accept", move || {
            accepting.stop(accept_tcp(&source, &accepting, &greet));
        })?;
        Ok(Self {
            pending_peers,
            source: ConnectionSource::Tcp(listener),
            acceptor: Some(acceptor),
        })
    }

    /// Takes connection requests. `greet` accepts each or rejects it, receives its first message, and admits the
    /// connection.
    pub(crate) fn of_requests<G>(
        session: &Arc<Session>,
        listener: &Arc<dyn Listener>,
        bounds: Bounds,
        greet: G,
    ) -> Result<Self>
    where
        G: Fn(Request, &PendingPeer<T>) -> Result<()> + Send + Sync + 'static,
    {
        let pending_peers = Arc::new(PendingPeers::new(bounds));
        let greet = Arc::new(greet);
        let (session, source) = (Arc::clone(session), Arc::clone(listener));
        let accepting = Arc::clone(&pending_peers);
        let acceptor = start("accept", move || {
            accepting.stop(accept_requests(
                &session,
                source.as_ref(),
                &accepting,
                &greet,
            ));
        })?;
        Ok(Self {
            pending_peers,
            source: ConnectionSource::Requests(Arc::clone(listener)),
            acceptor: Some(acceptor),
        })
    }

    /// Waits for the first peer that is admitted, and admits no other.
    pub(crate) fn first(self) -> Result<T> {
        self.wait()
    }

    /// The next admitted peer, however long that takes.
    pub(crate) fn wait(&self) -> Result<T> {
        loop {
            if let Some(next) = self.next(None)? {
                return Ok(next);
            }
        }
    }

    /// The next admitted peer. Waits for ever unless there is a limit. `None` if the limit has passed.
    pub(crate) fn next(&self, limit: Option<Duration>) -> Result<Option<T>> {
        self.pending_peers.take(limit)
    }

    /// The next admitted peer, if one of those who are here now or come meanwhile is admitted. `None` when no peer is left.
    pub(crate) fn next_of_present(&self) -> Option<T> {
        self.pending_peers.take_of_present()
    }

    /// Stops accepting, turns away peers that have not been admitted, and returns those that are admitted and were not taken.
    pub(crate) fn close(mut self) -> Vec<T> {
        self.stop()
    }

    fn stop(&mut self) -> Vec<T> {
        let mut untaken = self.pending_peers.close();
        let Some(acceptor) = self.acceptor.take() else {
            return untaken;
        };
        while !acceptor.is_finished() {
            match &self.source {
                ConnectionSource::Tcp(listener) => end_accept(listener),
                ConnectionSource::Requests(listener) => {
                    let _ = listener.cancel_overlapped_requests();
                }
            }
            // The accepting thread may have been about to wait once more.
            thread::sleep(Duration::from_millis(1));
        }
        let _ = acceptor.join();
        // One more may have arrived meanwhile.
        untaken.append(&mut self.pending_peers.close());
        untaken
    }
}

impl<T: Send + 'static> Drop for Admission<T> {
    /// Stops accepting, and turns away all peers.
    fn drop(&mut self) {
        drop(self.stop());
    }
}

/// Ends a waiting accept. Where the system does not shut listeners down, a connection of our own ends it.
fn end_accept(listener: &TcpListener) {
    if SockRef::from(listener).shutdown(Shutdown::Both).is_ok() {
        return;
    }
    let Ok(mut address) = listener.local_addr() else {
        return;
    };
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| Failure::start("a thread", &error))
}

/// Accepts until the admission closes, or until accepting fails for good.
fn accept_tcp<T, G>(
    listener: &TcpListener,
    pending_peers: &Arc<PendingPeers<T>>,
    greet: &Arc<G>,
) -> Result<()>
where
    T: Send + 'static,
    G: Fn(TcpStream, &PendingPeer<T>) -> Result<()> + Send + Sync + 'static,
{
    /// After this many refusals in a row, the rule counts as one that forbids the call and not single connections.
    const FORBIDDEN: usize = 8;
    let mut forbidden = 0;
    loop {
        let accepted = listener.accept();
        if pending_peers.is_closed() {
            return Ok(());
        }
        match &accepted {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => forbidden += 1,
            _ => forbidden = 0,
        }
        // A second handle, to end the first one's waiting.
        let accepted = accepted.and_then(|(stream, peer)| Ok((stream.try_clone()?, stream, peer)));
        match accepted {
            Ok((handle, stream, peer)) => {
                let greet = Arc::clone(greet);
                let turn_away = move || drop(handle.shutdown(Shutdown::Both));
                pending_peers.receive(peer, turn_away, move |pending| greet(stream, pending));
            }
            Err(error) if is_lasting(&error) || forbidden == FORBIDDEN => {
                return Err(Failure::socket("accept connections", &error));
            }
            Err(error) if error.kind() == ErrorKind::ConnectionAborted || forbidden > 1 => {}
            Err(error) => pending_peers.make_room(&Failure::socket("accept a connection", &error)),
        }
    }
}

/// Returns true for errors that do not come from one connection, so that a further call would fail as well.
fn is_lasting(error: &io::Error) -> bool {
    [ErrorKind::InvalidInput, ErrorKind::Unsupported].contains(&error.kind())
}

/// Takes requests until the admission closes, or until that fails for good.
fn accept_requests<T, G>(
    session: &Session,
    listener: &dyn Listener,
    pending_peers: &Arc<PendingPeers<T>>,
    greet: &Arc<G>,
) -> Result<()>
where
    T: Send + 'static,
    G: Fn(Request, &PendingPeer<T>) -> Result<()> + Send + Sync + 'static,
{
    loop {
        let request = session::next_request(session, listener, None);
        if pending_peers.is_closed() {
            return Ok(());
        }
        match request {
            Ok(request) => {
                let greet = Arc::clone(greet);
                let connector = Arc::clone(&request.connector);
                let turn_away = move || {
                    // Ends an Accept. A connection that has been accepted ends with its objects, which are dropped when the
                    // greeting fails.
                    let _ = connector.cancel_overlapped_requests();
                    let _ = connector.disconnect(&netdirect::Overlapped::new());
                };
                let peer = request.peer;
                pending_peers.receive(peer, turn_away, move |pending| greet(request, pending));
            }
            Err(failure) if failure.nd_status() == Some(Status::INSUFFICIENT_RESOURCES) => {
                pending_peers.make_room(&failure);
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// A connection that has arrived and is not admitted yet, as its greeting sees it.
#[derive(Debug)]
pub(crate) struct PendingPeer<T> {
    pub(crate) peer: SocketAddr,
    /// Until when the first message has to arrive.
    pub(crate) deadline: Deadline,
    id: u64,
    pending_peers: Arc<PendingPeers<T>>,
}

impl<T: Send + 'static> PendingPeer<T> {
    /// The peer has sent a message, and its greeting serves it. From now on the connection is not dropped for others, unless
    /// [`Bounds::known_give_way`] says so.
    pub(crate) fn has_spoken(&self) {
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
    pub(crate) fn admit(&self, peer: T) {
        self.pending_peers.admit(self.id, peer);
    }

    /// Passes the connection to the server, and waits until the server takes it. Calls `tell` if that has not happened `soon`, and
    /// returns the connection if it has not happened within the limit.
    pub(crate) fn admit_for(
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

    /// Accepts the peer's request, within the time limit for the first message.
    pub(crate) fn accept(
        &self,
        endpoint: &mut Endpoint,
        limits: netdirect::ReadLimits,
        private_data: &[u8],
    ) -> Result<()> {
        endpoint.set_deadline(Some(self.deadline));
        let is_present = || self.pending_peers.list().has(self.id);
        let accepted = if is_present() {
            Some(endpoint.accept_if(limits, private_data, is_present)?)
        } else {
            None
        };
        match accepted {
            Some(Status::SUCCESS) => Ok(()),
            Some(status) if is_present() => Err(Failure::status("accept the connection", status)),
            Some(_) | None => Err(Failure::peer(
                "too many other connections were waiting",
                "try again",
            )),
        }
    }
}

/// All connections that have arrived and were not taken yet.
#[derive(Debug)]
struct PendingPeers<T> {
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
    fn new() -> Self {
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
    fn new(bounds: Bounds) -> Self {
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

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Turns all away but those that are admitted, and returns these.
    fn close(&self) -> Vec<T> {
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
    fn stop(&self, why: Result<()>) {
        self.list().stopped = Some(why);
        self.changed.notify_all();
    }

    /// Greets one more connection in its own thread, if there is a place for it.
    fn receive(
        self: &Arc<Self>,
        peer: SocketAddr,
        turn_away: impl FnOnce() + Send + 'static,
        greet: impl FnOnce(&PendingPeer<T>) -> Result<()> + Send + 'static,
    ) {
        let mut list = self.list();
        let network = PeerNetwork::of(peer.ip());
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
    fn take(&self, limit: Option<Duration>) -> Result<Option<T>> {
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
    fn take_of_present(&self) -> Option<T> {
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
    fn make_room(&self, why: &Failure) {
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicUsize;

    use socket2::{Domain, Socket, Type};

    use super::*;

    /// A limit only to end a hang.
    const HANG: Duration = Duration::from_secs(60);

    /// Admits each peer that sends an octet, after an answer.
    fn admission(most: usize, first_message: Duration) -> (Admission<u8>, SocketAddr) {
        let (admission, address, _) = counted(most, first_message);
        (admission, address)
    }

    /// An admission, its address, and the largest number of greetings that ran at once.
    fn counted(
        most: usize,
        first_message: Duration,
    ) -> (Admission<u8>, SocketAddr, Arc<AtomicUsize>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let bounds = Bounds {
            most,
            first_message,
            known_give_way: false,
        };
        let (now, peak) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let highest = Arc::clone(&peak);
        let admission = Admission::of_tcp(listener, bounds, move |stream, pending| {
            highest.fetch_max(1 + now.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
            let greeted = greet(stream, pending);
            now.fetch_sub(1, Ordering::SeqCst);
            greeted
        });
        (admission.expect("a thread"), address, peak)
    }

    fn greet(mut stream: TcpStream, pending: &PendingPeer<u8>) -> Result<()> {
        let mut word = [0];
        let explain = |error| Failure::io("hear", &error);
        stream
            .set_read_timeout(Some(pending.deadline.left().max(Duration::from_millis(1))))
            .map_err(explain)?;
        stream.read_exact(&mut word).map_err(explain)?;
        if word == *b"x" {
            // The greeting serves the peer until it leaves.
            pending.has_spoken();
            stream.write_all(&word).map_err(explain)?;
            stream.set_read_timeout(None).map_err(explain)?;
            let _ = stream.read(&mut word);
            return Ok(());
        }
        pending.admit(word[0]);
        stream.write_all(&word).map_err(explain)
    }

    fn connect(to: SocketAddr) -> TcpStream {
        connect_from(1, to)
    }

    /// Connects from 127.0.0.`host`.
    fn connect_from(host: u8, to: SocketAddr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let from = SocketAddr::from(([127, 0, 0, host], 0));
        socket.bind(&from.into()).expect("a loopback address");
        socket.connect(&to.into()).expect("accepted by the system");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(HANG)).expect("set");
        stream
    }

    fn is_dropped(mut stream: TcpStream) -> bool {
        let mut octet = [0];
        match stream.read(&mut octet) {
            Ok(n) => n == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// An address floods the server before and after honest clients of two others come.
    #[cfg(target_os = "linux")] // where all of 127.0.0.0/8 is this machine
    #[test]
    fn a_flood_of_one_address_takes_no_place_of_another_one() {
        const PLACES: usize = 8;
        let (admission, address, peak) = counted(PLACES, HANG);
        let mut flood: Vec<_> = (0..100).map(|_| connect_from(2, address)).collect();
        let mut honest = [3, 4, 3].map(|host| connect_from(host, address));
        flood.extend((0..100).map(|_| connect_from(2, address)));
        // Those that are left are the youngest, so that all have been accepted by then.
        let left = flood.split_off(flood.len() - (PLACES - honest.len()));
        assert!(flood.into_iter().all(is_dropped));
        for (word, client) in (b'a'..).zip(&mut honest) {
            client.write_all(&[word]).expect("sent");
            client.read_exact(&mut [0]).expect("greeted");
        }
        let admitted = [(); 3].map(|()| admission.next(Some(HANG)).expect("open"));
        let mut words = admitted.map(|word| word.expect("admitted"));
        words.sort_unstable();
        assert_eq!(words, *b"abc");
        assert!(peak.load(Ordering::SeqCst) <= PLACES);
        drop(left);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_queue_of_one_address_takes_no_place_of_another_one_and_no_turn() {
        const PLACES: usize = 8;
        let (admission, address) = admission(PLACES, HANG);
        let ask = |host, word| {
            let mut client = connect_from(host, address);
            client.write_all(&[word]).expect("sent");
            client.read_exact(&mut [0]).expect("greeted");
            client
        };
        let queue: Vec<_> = (0..PLACES).map(|_| ask(2, b'a')).collect();
        // All places are taken by peers that are admitted, and by none that is unknown.
        assert!(is_dropped(connect_from(2, address)));
        let other = ask(3, b'b');
        let next = || admission.next(Some(HANG)).expect("open").expect("admitted");
        let order: Vec<_> = (0..PLACES).map(|_| next()).collect();
        assert_eq!(order, *b"abaaaaaa");
        drop((queue, other));
    }

    #[test]
    fn the_oldest_stranger_gives_way() {
        let (admission, address) = admission(2, HANG);
        let [first, second, mut third] = [(); 3].map(|()| connect(address));
        assert!(is_dropped(first));
        third.write_all(b"3").expect("sent");
        assert_eq!(admission.next(Some(HANG)).expect("open"), Some(b'3'));
        drop(admission);
        assert!(is_dropped(second));
    }

    #[test]
    fn who_says_nothing_is_dropped() {
        let (_admission, address) = admission(8, Duration::from_millis(50));
        assert!(is_dropped(connect(address)));
    }

    #[test]
    fn who_is_served_gives_way_to_nobody() {
        let (admission, address) = admission(1, HANG);
        let mut first = connect(address);
        first.write_all(b"x").expect("sent");
        first.read_exact(&mut [0]).expect("known");
        assert!(is_dropped(connect(address)));
        drop(admission);
        assert!(is_dropped(first));
    }

    /// Returns the connections that give way, one after the other. Each has an identifier and an address, and the identifiers in `spoke`
    /// have sent messages, in this order.
    fn give_way(present: &[(u64, &str)], spoke: &[u64], admitted: &[u64]) -> Vec<u64> {
        let mut list = List::new();
        for &(id, address) in present {
            let silent_since = spoke.iter().position(|one| *one == id);
            let address = address.parse().expect("an address");
            let one = Present {
                peer: SocketAddr::new(address, u16::try_from(id).expect("a small number")),
                spoke: silent_since.map_or(id, |at| 100 + at as u64),
                stage: match (silent_since, admitted.contains(&id)) {
                    (_, true) => Stage::Admitted(()),
                    (Some(_), false) => Stage::Known,
                    (None, false) => Stage::Unknown,
                },
                greet: None,
                turn_away: Box::new(|| ()),
            };
            list.waiting.insert(id, PeerNetwork::of(address), one);
        }
        std::iter::from_fn(|| list.remove_silent())
            .map(|one| one.peer.port().into())
            .collect()
    }

    #[test]
    fn the_longest_silent_of_the_address_with_the_most_gives_way() {
        let [a, b, c] = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
        let known = [(1, a), (2, b), (3, a), (4, a), (5, b)];
        assert_eq!(give_way(&known, &[1, 2, 3, 4, 5], &[]), [1, 2, 3, 4, 5]);
        assert_eq!(give_way(&known, &[2, 5, 3, 4, 1], &[]), [3, 2, 4, 5, 1]);
        // An unknown peer has been silent since it came.
        assert_eq!(give_way(&known, &[1, 2, 5], &[]), [3, 4, 2, 1, 5]);
        // One host may have a whole network of 64 bits.
        let network = [(1, b), (2, c), (3, "2001:db8::2")];
        assert_eq!(give_way(&network, &[], &[]), [2, 1, 3]);
        assert_eq!(give_way(&known, &[], &[1, 3, 4]), [2, 5]);
        assert!(give_way(&known, &[], &[1, 2, 3, 4, 5]).is_empty());
    }

    #[test]
    fn a_closed_door_refuses() {
        let (admission, address) = admission(8, HANG);
        drop(admission);
        let refused = TcpStream::connect(address).expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}
