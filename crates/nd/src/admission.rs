//! How servers admit peers: each connection is greeted in a thread of its own, while others come in.
//!
//! Until a peer has sent its first message, it is unknown. An unknown peer has a time limit for the first message, and the
//! oldest unknown peer is dropped when there are too many. So silent connections cost the next client only the time to
//! accept them.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netdirect::{Listener, Status};
use socket2::SockRef;

use crate::errors::{Failure, Result};
use crate::session::{self, Deadline, Endpoint, Request, Session};
use crate::stderr::Remarks;

/// How long an unknown peer may take for its first message.
pub(crate) const FIRST_MESSAGE: Duration = Duration::from_secs(5);

/// The pause between two attempts to accept when the system has no descriptors or memory left.
const PAUSE: Duration = Duration::from_millis(50);

/// The admission of a server: admits the peers that have sent their first message.
#[derive(Debug)]
pub(crate) struct Admission<T> {
    pending_peers: Arc<PendingPeers>,
    admitted: Receiver<Result<T>>,
    source: ConnectionSource,
    acceptor: Option<JoinHandle<()>>,
}

/// Limits for unknown peers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most connections that are not admitted yet.
    pub(crate) most: usize,
    /// How long each may take for its first message.
    pub(crate) first_message: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            most: 64,
            first_message: FIRST_MESSAGE,
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
        let (tell, admitted) = channel();
        let pending_peers = Arc::new(PendingPeers::new(bounds));
        let greet = Arc::new(greet);
        let (source, accepting) = (Arc::clone(&listener), Arc::clone(&pending_peers));
        let acceptor = start("accept", move || {
            accept_tcp(&source, &accepting, &tell, &greet);
        })?;
        Ok(Self {
            pending_peers,
            admitted,
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
        let (tell, admitted) = channel();
        let pending_peers = Arc::new(PendingPeers::new(bounds));
        let greet = Arc::new(greet);
        let (session, source) = (Arc::clone(session), Arc::clone(listener));
        let accepting = Arc::clone(&pending_peers);
        let acceptor = start("accept", move || {
            accept_requests(&session, source.as_ref(), &accepting, &tell, &greet);
        })?;
        Ok(Self {
            pending_peers,
            admitted,
            source: ConnectionSource::Requests(Arc::clone(listener)),
            acceptor: Some(acceptor),
        })
    }

    /// Waits for the first peer that is admitted, and admits no other.
    pub(crate) fn first(self) -> Result<T> {
        loop {
            if let Some(first) = self.next(None)? {
                return Ok(first);
            }
        }
    }

    /// The next admitted peer. Waits for ever unless there is a limit. `None` if the limit has passed.
    pub(crate) fn next(&self, limit: Option<Duration>) -> Result<Option<T>> {
        let next = match limit {
            None => self.admitted.recv().map_err(RecvTimeoutError::from),
            Some(limit) => self.admitted.recv_timeout(limit),
        };
        match next {
            Ok(admitted) => admitted.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            // The accepting thread reports the reason before it ends.
            Err(RecvTimeoutError::Disconnected) => Err(Failure::new(
                "the server has stopped accepting connections",
                "start the server again",
            )),
        }
    }
}

impl<T> Drop for Admission<T> {
    /// Stops accepting, and turns away peers that have not been admitted.
    fn drop(&mut self) {
        self.pending_peers.close();
        let Some(acceptor) = self.acceptor.take() else {
            return;
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
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| Failure::start("a thread", &error))
}

fn accept_tcp<T, G>(
    listener: &TcpListener,
    pending_peers: &Arc<PendingPeers>,
    tell: &Sender<Result<T>>,
    greet: &Arc<G>,
) where
    T: Send + 'static,
    G: Fn(TcpStream, &PendingPeer<T>) -> Result<()> + Send + Sync + 'static,
{
    loop {
        let accepted = listener.accept();
        if pending_peers.is_closed() {
            return;
        }
        // A second handle, to end the first one's waiting.
        let accepted = accepted.and_then(|(stream, peer)| Ok((stream.try_clone()?, stream, peer)));
        match accepted {
            Ok((handle, stream, peer)) => {
                let greet = Arc::clone(greet);
                let turn_away = move || drop(handle.shutdown(Shutdown::Both));
                pending_peers.receive(peer, turn_away, tell, move |pending| greet(stream, pending));
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                // This error does not come from a connection, so it will not go away.
                let _ = tell.send(Err(Failure::socket("accept connections", &error)));
                return;
            }
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => pending_peers.make_room(&Failure::socket("accept a connection", &error)),
        }
    }
}

fn accept_requests<T, G>(
    session: &Session,
    listener: &dyn Listener,
    pending_peers: &Arc<PendingPeers>,
    tell: &Sender<Result<T>>,
    greet: &Arc<G>,
) where
    T: Send + 'static,
    G: Fn(Request, &PendingPeer<T>) -> Result<()> + Send + Sync + 'static,
{
    loop {
        let request = session::next_request(session, listener, None);
        if pending_peers.is_closed() {
            return;
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
                pending_peers.receive(peer, turn_away, tell, move |pending| {
                    greet(request, pending)
                });
            }
            Err(failure) if failure.nd_status() == Some(Status::INSUFFICIENT_RESOURCES) => {
                pending_peers.make_room(&failure);
            }
            Err(failure) => {
                let _ = tell.send(Err(failure));
                return;
            }
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
    pending_peers: Arc<PendingPeers>,
    tell: Sender<Result<T>>,
}

impl<T> PendingPeer<T> {
    /// The peer has sent its first message, and its greeting serves it. From now on the connection is not dropped for
    /// others.
    pub(crate) fn is_known(&self) {
        let mut list = self.pending_peers.list();
        let present = list.present.iter_mut().find(|one| one.id == self.id);
        if let Some(one) = present {
            one.known = true;
        }
    }

    /// Passes the connection to the server, unless it was dropped already.
    pub(crate) fn admit(&self, peer: T) {
        if self.pending_peers.leave(self.id) {
            // The server may have all the clients that it wants.
            let _ = self.tell.send(Ok(peer));
        }
    }

    /// Accepts the peer's request, within the time limit for the first message.
    pub(crate) fn accept(
        &self,
        endpoint: &mut Endpoint,
        limits: netdirect::ReadLimits,
        private_data: &[u8],
    ) -> Result<()> {
        endpoint.set_deadline(Some(self.deadline));
        if !self.pending_peers.has(self.id) {
            return Err(Failure::peer(
                "too many newer connections were waiting",
                "try again",
            ));
        }
        match endpoint.accept(limits, private_data)? {
            Status::SUCCESS => Ok(()),
            status => Err(Failure::status("accept the connection", status)),
        }
    }
}

/// All connections that have come in and are not admitted yet.
#[derive(Debug)]
struct PendingPeers {
    bounds: Bounds,
    list: Mutex<List>,
    remarks: Remarks,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    /// The oldest first.
    present: VecDeque<Present>,
}

struct Present {
    id: u64,
    known: bool,
    /// Ends the greeting from outside.
    turn_away: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Present {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Present")
            .field("id", &self.id)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl PendingPeers {
    fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            list: Mutex::default(),
            remarks: Remarks::default(),
            closed: AtomicBool::new(false),
        }
    }

    fn list(&self) -> std::sync::MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, id: u64) -> bool {
        self.list().present.iter().any(|one| one.id == id)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let all = std::mem::take(&mut self.list().present);
        for one in all {
            (one.turn_away)();
        }
    }

    /// Greets one more connection in a thread of its own.
    fn receive<T: Send + 'static>(
        self: &Arc<Self>,
        peer: SocketAddr,
        turn_away: impl FnOnce() + Send + 'static,
        tell: &Sender<Result<T>>,
        greet: impl FnOnce(&PendingPeer<T>) -> Result<()> + Send + 'static,
    ) {
        let Some(id) = self.enter(Box::new(turn_away)) else {
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
            tell: tell.clone(),
        };
        let thread = start("greet", move || {
            let greeted = greet(&pending);
            pending.pending_peers.leave(id);
            if let Err(failure) = greeted
                && !pending.pending_peers.is_closed()
            {
                pending
                    .pending_peers
                    .remark(format_args!("turned away {peer}: {failure}"));
            }
        });
        if let Err(failure) = thread {
            self.leave(id);
            self.remark(format_args!("turned away {peer}: {failure}"));
        }
    }

    /// Adds one more connection to the list, in place of the oldest unknown peer if necessary. `None` if there is none to
    /// drop.
    fn enter(&self, turn_away: Box<dyn FnOnce() + Send>) -> Option<u64> {
        let mut list = self.list();
        let mut gives_way = None;
        if list.present.len() >= self.bounds.most {
            let oldest = list.present.iter().position(|one| !one.known)?;
            gives_way = list.present.remove(oldest);
        }
        let id = list.next;
        list.next += 1;
        list.present.push_back(Present {
            id,
            known: false,
            turn_away,
        });
        drop(list);
        if let Some(one) = gives_way {
            (one.turn_away)();
        }
        Some(id)
    }

    /// Takes a connection off the list. Returns whether it was there.
    fn leave(&self, id: u64) -> bool {
        let present = &mut self.list().present;
        let before = present.len();
        present.retain(|one| one.id != id);
        present.len() < before
    }

    /// The system has no resources left for one more connection. Drops the oldest unknown peer, and waits a little before
    /// the next attempt.
    fn make_room(&self, why: &Failure) {
        self.remark(why);
        let oldest = {
            let mut list = self.list();
            let oldest = list.present.iter().position(|one| !one.known);
            oldest.and_then(|oldest| list.present.remove(oldest))
        };
        if let Some(one) = oldest {
            (one.turn_away)();
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
        };
        let admission = Admission::of_tcp(listener, bounds, |mut stream, pending| {
            let mut word = [0];
            let explain = |error| Failure::io("hear", &error);
            stream
                .set_read_timeout(Some(pending.deadline.left().max(Duration::from_millis(1))))
                .map_err(explain)?;
            stream.read_exact(&mut word).map_err(explain)?;
            pending.is_known();
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

    #[test]
    fn a_closed_door_refuses() {
        let (admission, address) = admission(8, HANG);
        drop(admission);
        let refused = TcpStream::connect(address).expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}
