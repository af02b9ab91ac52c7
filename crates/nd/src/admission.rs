//! How servers admit peers: each connection is greeted in a thread of its own, while others come in.
//!
//! Until a peer has sent its first message, it is unknown. An unknown peer has a time limit for the first message, and the
//! oldest unknown peer is dropped when there are too many. So silent connections cost the next client only the time to
//! accept them. A peer that is admitted keeps its place until the server takes it. A server whose greetings serve the peers
//! themselves can have known peers give way too ([`Bounds::known_give_way`]).

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use netdirect::{Listener, Status};
use socket2::SockRef;

use crate::errors::{Failure, Result};
use crate::provider::PeerNetwork;
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

    /// The next admitted peer, if one of those who are here now or come meanwhile is admitted. `None` when nobody is left.
    pub(crate) fn next_of_present(&self) -> Option<T> {
        self.pending_peers.take_of_present()
    }

    /// Stops accepting, turns away peers that have not been admitted, and returns those that are admitted and were not taken.
    pub(crate) fn close(mut self) -> Vec<T> {
        self.stop()
    }

    fn stop(&mut self) -> Vec<T> {
        let untaken = self.pending_peers.close();
        let Some(acceptor) = self.acceptor.take() else {
            return untaken;
        };
        while !acceptor.is_finished() {
            match &self.source {
                // Ends a waiting accept.
                ConnectionSource::Tcp(listener) => {
                    let _ = SockRef::from(listener.as_ref()).shutdown(Shutdown::Both);
                }
                ConnectionSource::Requests(listener) => {
                    let _ = listener.cancel_overlapped_requests();
                }
            }
            // The accepting thread may have been about to wait once more.
            thread::sleep(Duration::from_millis(1));
        }
        let _ = acceptor.join();
        untaken
    }
}

impl<T: Send + 'static> Drop for Admission<T> {
    /// Stops accepting, and turns away all peers.
    fn drop(&mut self) {
        drop(self.stop());
    }
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
    loop {
        let accepted = listener.accept();
        if pending_peers.is_closed() {
            return Ok(());
        }
        // A second handle, to end the first one's waiting.
        let accepted = accepted.and_then(|(stream, peer)| Ok((stream.try_clone()?, stream, peer)));
        match accepted {
            Ok((handle, stream, peer)) => {
                let greet = Arc::clone(greet);
                let turn_away = move || drop(handle.shutdown(Shutdown::Both));
                pending_peers.receive(peer, turn_away, move |pending| greet(stream, pending));
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                // This error does not come from a connection, so it will not go away.
                return Err(Failure::socket("accept connections", &error));
            }
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => pending_peers.make_room(&Failure::socket("accept a connection", &error)),
        }
    }
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

/// A connection that has come in and is not admitted yet, as its greeting sees it.
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
        let mut list = self.pending_peers.list();
        let now = list.tick();
        if let Some(one) = list.find(self.id) {
            one.stage = Stage::Known;
            one.spoke = now;
        }
    }

    /// Passes the connection to the server, unless it was dropped already.
    pub(crate) fn admit(&self, peer: T) {
        self.pending_peers.admit(self.id, peer);
    }

    /// Passes the connection to the server, and waits until the server takes it. Returns the connection if that has not happened
    /// within the limit.
    pub(crate) fn admit_for(&self, peer: T, limit: Duration) -> Option<T> {
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
        self.check_present()?;
        match endpoint.accept(limits, private_data)? {
            // The connection may have been turned away before there was an Accept to end.
            Status::SUCCESS => self.check_present(),
            status => Err(Failure::status("accept the connection", status)),
        }
    }

    fn check_present(&self) -> Result<()> {
        if self.pending_peers.list().find(self.id).is_some() {
            return Ok(());
        }
        Err(Failure::peer(
            "too many other connections were waiting",
            "try again",
        ))
    }
}

/// All connections that have come in and were not taken yet.
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
    /// The oldest first.
    present: VecDeque<Present<T>>,
    /// Why accepting has ended, once it has.
    stopped: Option<Result<()>>,
}

struct Present<T> {
    id: u64,
    network: PeerNetwork,
    /// When the last message came, or the connection.
    spoke: u64,
    stage: Stage<T>,
    /// Ends the greeting from outside.
    turn_away: Box<dyn FnOnce() + Send>,
}

/// How far a connection has come.
#[derive(Debug)]
enum Stage<T> {
    /// The first message has not come. The connection may be dropped for another one.
    Unknown,
    /// Its greeting serves it.
    Known,
    /// The server has not taken it yet.
    Admitted(T),
}

impl<T> std::fmt::Debug for Present<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Present")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl<T> Present<T> {
    /// Turns the connection away, and drops it. Called with the list unlocked.
    fn end(self) {
        (self.turn_away)();
    }
}

impl<T> List<T> {
    fn find(&mut self, id: u64) -> Option<&mut Present<T>> {
        self.present.iter_mut().find(|one| one.id == id)
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn remove_first(&mut self, is_it: impl FnMut(&Present<T>) -> bool) -> Option<Present<T>> {
        let at = self.present.iter().position(is_it)?;
        self.present.remove(at)
    }

    fn has_admitted(&self) -> bool {
        let mut present = self.present.iter();
        present.any(|one| matches!(one.stage, Stage::Admitted(_)))
    }

    /// Removes the admitted peer that came first.
    fn remove_admitted(&mut self) -> Option<T> {
        let first = self.remove_first(|one| matches!(one.stage, Stage::Admitted(_)))?;
        match first.stage {
            Stage::Admitted(peer) => Some(peer),
            Stage::Unknown | Stage::Known => None,
        }
    }

    fn remove_oldest_unknown(&mut self) -> Option<Present<T>> {
        self.remove_first(|one| matches!(one.stage, Stage::Unknown))
    }

    /// Of the address with the most connections that are not admitted, removes the one that has been silent longest.
    fn remove_silent(&mut self) -> Option<Present<T>> {
        let mut networks: HashMap<PeerNetwork, (usize, u64)> = HashMap::new();
        for one in &self.present {
            if !matches!(one.stage, Stage::Admitted(_)) {
                let (count, silent_since) = networks.entry(one.network).or_insert((0, u64::MAX));
                *count += 1;
                *silent_since = one.spoke.min(*silent_since);
            }
        }
        // Of two addresses with equally many, that of the connection which has been silent longer.
        let most = networks
            .into_values()
            .max_by_key(|(count, silent_since)| (*count, Reverse(*silent_since)));
        let (_, silent_since) = most?;
        self.remove_first(|one| one.spoke == silent_since)
    }
}

impl<T: Send + 'static> PendingPeers<T> {
    fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            list: Mutex::new(List {
                ticks: 0,
                present: VecDeque::new(),
                stopped: None,
            }),
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
        let all = std::mem::take(&mut self.list().present);
        self.changed.notify_all();
        let mut untaken = Vec::new();
        for one in all {
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

    /// Greets one more connection in a thread of its own.
    fn receive(
        self: &Arc<Self>,
        peer: SocketAddr,
        turn_away: impl FnOnce() + Send + 'static,
        greet: impl FnOnce(&PendingPeer<T>) -> Result<()> + Send + 'static,
    ) {
        let Some(id) = self.enter(peer.ip(), Box::new(turn_away)) else {
            self.remark(format_args!(
                "turned away {peer}: {} clients are here already",
                self.bounds.most
            ));
            return;
        };
        let pending = PendingPeer {
            peer,
            deadline: Deadline::after(self.bounds.first_message),
            id,
            pending_peers: Arc::clone(self),
        };
        let thread = start("greet", move || {
            let greeted = greet(&pending);
            pending.pending_peers.greeted(id);
            if let Err(failure) = greeted
                && !pending.pending_peers.is_closed()
            {
                pending
                    .pending_peers
                    .remark(format_args!("turned away {peer}: {failure}"));
            }
        });
        if let Err(failure) = thread {
            self.greeted(id);
            self.remark(format_args!("turned away {peer}: {failure}"));
        }
    }

    /// Adds one more connection to the list, in place of another one if necessary. `None` if there is none to drop.
    fn enter(&self, peer: IpAddr, turn_away: Box<dyn FnOnce() + Send>) -> Option<u64> {
        let mut list = self.list();
        let gives_way = if list.present.len() >= self.bounds.most {
            let gives_way = if self.bounds.known_give_way {
                list.remove_silent()
            } else {
                list.remove_oldest_unknown()
            };
            Some(gives_way?)
        } else {
            None
        };
        let id = list.tick();
        list.present.push_back(Present {
            id,
            network: PeerNetwork::of(peer),
            spoke: id,
            stage: Stage::Unknown,
            turn_away,
        });
        drop(list);
        if let Some(one) = gives_way {
            one.end();
        }
        Some(id)
    }

    fn admit(&self, id: u64, peer: T) {
        let mut list = self.list();
        if let Some(one) = list.find(id) {
            one.stage = Stage::Admitted(peer);
            self.changed.notify_all();
        } else {
            drop(list); // dropping a peer can take a while
        }
    }

    /// The greeting of a connection has ended: the connection leaves, unless it is admitted.
    fn greeted(&self, id: u64) {
        let mut list = self.list();
        let left =
            list.remove_first(|one| one.id == id && !matches!(one.stage, Stage::Admitted(_)));
        self.changed.notify_all();
        drop(list);
        drop(left);
    }

    /// Takes the admitted peer that came first.
    fn take(&self, limit: Option<Duration>) -> Result<Option<T>> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut list = self.list();
        loop {
            if let Some(peer) = list.remove_admitted() {
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

    /// Takes the admitted peer that came first, as long as somebody is here who may be admitted.
    fn take_of_present(&self) -> Option<T> {
        let is_open = |list: &mut List<T>| !list.present.is_empty() && !list.has_admitted();
        let waited = self.changed.wait_while(self.list(), is_open);
        let mut list = waited.unwrap_or_else(PoisonError::into_inner);
        let peer = list.remove_admitted();
        self.changed.notify_all();
        peer
    }

    /// Waits until an admitted peer is taken or dropped, and removes it when that takes too long.
    fn give_up_after(&self, id: u64, limit: Duration) -> Option<T> {
        let is_there = |list: &mut List<T>| list.find(id).is_some();
        let waited = self
            .changed
            .wait_timeout_while(self.list(), limit, is_there);
        let (mut list, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match list.remove_first(|one| one.id == id)?.stage {
            Stage::Admitted(peer) => Some(peer),
            Stage::Unknown | Stage::Known => None,
        }
    }

    /// The system has no resources left for one more connection. Drops the oldest unknown peer, and waits a little before
    /// the next attempt.
    fn make_room(&self, why: &Failure) {
        self.remark(why);
        let oldest = self.list().remove_oldest_unknown();
        if let Some(one) = oldest {
            one.end();
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

    use super::*;

    /// A limit only to end a hang.
    const HANG: Duration = Duration::from_secs(60);

    /// Admits each peer that sends an octet, after an answer.
    fn admission(most: usize, first_message: Duration) -> (Admission<u8>, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let bounds = Bounds {
            most,
            first_message,
            known_give_way: false,
        };
        let admission = Admission::of_tcp(listener, bounds, |mut stream, pending| {
            let mut word = [0];
            let explain = |error| Failure::io("hear", &error);
            stream
                .set_read_timeout(Some(pending.deadline.left().max(Duration::from_millis(1))))
                .map_err(explain)?;
            stream.read_exact(&mut word).map_err(explain)?;
            pending.has_spoken();
            stream.write_all(&word).map_err(explain)?;
            if word == *b"x" {
                // The greeting serves the peer until it leaves.
                stream.set_read_timeout(None).map_err(explain)?;
                let _ = stream.read(&mut word);
                return Ok(());
            }
            pending.admit(word[0]);
            Ok(())
        });
        (admission.expect("a thread"), address)
    }

    fn connect(to: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(to).expect("accepted by the system");
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

    /// Which of these connections give way, one after the other. Each has an identifier and an address, and the identifiers in
    /// `spoke` have sent messages, in this order.
    fn give_way(present: &[(u64, &str)], spoke: &[u64], admitted: &[u64]) -> Vec<u64> {
        let mut list = List {
            ticks: 100,
            present: VecDeque::new(),
            stopped: None,
        };
        for &(id, address) in present {
            let silent_since = spoke.iter().position(|one| *one == id);
            list.present.push_back(Present {
                id,
                network: PeerNetwork::of(address.parse().expect("an address")),
                spoke: silent_since.map_or(id, |at| 100 + at as u64),
                stage: match (silent_since, admitted.contains(&id)) {
                    (_, true) => Stage::Admitted(()),
                    (Some(_), false) => Stage::Known,
                    (None, false) => Stage::Unknown,
                },
                turn_away: Box::new(|| ()),
            });
        }
        std::iter::from_fn(|| list.remove_silent())
            .map(|one| one.id)
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
