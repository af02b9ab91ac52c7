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

mod pending;

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netdirect::{Listener, Status};
use socket2::SockRef;

pub use self::pending::{Bounds, FIRST_MESSAGE, PendingPeer};
use self::pending::{PendingPeers, start};
use crate::errors::{Failure, Result};
use crate::session::{self, Request, Session};

/// The admission of a server: admits the peers that have sent their first message.
#[derive(Debug)]
pub struct Admission<T: Send + 'static> {
    pending_peers: Arc<PendingPeers<T>>,
    source: ConnectionSource,
    acceptor: Option<JoinHandle<()>>,
}

/// The source of connections, with what is needed to stop it.
#[derive(Debug)]
enum ConnectionSource {
    Tcp(Arc<TcpListener>),
    Requests(Arc<dyn Listener>),
}

impl<T: Send + 'static> Admission<T> {
    /// Accepts TCP connections. `greet` receives the first message of each, and admits the connection.
    pub fn of_tcp<G>(listener: TcpListener, bounds: Bounds, greet: G) -> Result<Self>
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
    pub fn of_requests<G>(
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
    pub fn first(self) -> Result<T> {
        self.wait()
    }

    /// The next admitted peer, however long that takes.
    pub fn wait(&self) -> Result<T> {
        loop {
            if let Some(next) = self.next(None)? {
                return Ok(next);
            }
        }
    }

    /// The next admitted peer. Waits for ever unless there is a limit. `None` if the limit has passed.
    pub fn next(&self, limit: Option<Duration>) -> Result<Option<T>> {
        self.pending_peers.take(limit)
    }

    /// The next admitted peer, if one of those who are here now or come meanwhile is admitted. `None` when no peer is left.
    pub fn next_of_present(&self) -> Option<T> {
        self.pending_peers.take_of_present()
    }

    /// Stops accepting, turns away peers that have not been admitted, and returns those that are admitted and were not taken.
    pub fn close(mut self) -> Vec<T> {
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
                pending_peers.receive(peer, turn_away, move |pending| {
                    #[cfg(windows)]
                    wait_until_heard(&stream, pending)?;
                    greet(stream, pending)
                });
            }
            Err(error) if is_lasting(&error) || forbidden == FORBIDDEN => {
                return Err(Failure::socket("accept connections", &error));
            }
            Err(error) if error.kind() == ErrorKind::ConnectionAborted || forbidden > 1 => {}
            Err(error) => pending_peers.make_room(&Failure::socket("accept a connection", &error)),
        }
    }
}

/// Waits for the peer's first octet, until the peer is turned away, or until its time is over. Under wine a read that waits already goes on when
/// its connection is shut down (`tests/wine/shutdown.c`), so a silent peer would keep its thread.
#[cfg(windows)]
fn wait_until_heard<T: Send + 'static>(stream: &TcpStream, pending: &PendingPeer<T>) -> Result<()> {
    /// The time after which this looks whether the peer is still wanted.
    const STEP: Duration = Duration::from_millis(50);
    let explain = |error| Failure::socket("wait for a client's first message", &error);
    stream.set_read_timeout(Some(STEP)).map_err(explain)?;
    while pending.is_present() && !pending.deadline.left().is_zero() {
        match stream.peek(&mut [0]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            // The greeting finds errors and the end.
            _ => break,
        }
    }
    stream.set_read_timeout(None).map_err(explain)
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
