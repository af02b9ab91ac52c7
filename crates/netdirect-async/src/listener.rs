//! Listeners.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker, ready};

use futures_core::Stream;
use netdirect::{
    Adapter, Connector, Error, Listener, Overlapped, OverlappedFile, QueuePair, ReadLimits, Result,
    SimulatedWait, Started, Status, ext,
};

use crate::completions::explained;
use crate::connect::Accept;

/// How an [`AsyncListener`] listens.
///
/// ```
/// let options = netdirect_async::ListenerOptions::default().backlog(16).pending(8);
/// assert_eq!((options.backlog, options.pending), (16, 8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerOptions {
    /// The backlog of [`Listener::listen`]: how many peers wait beyond those of [`pending`](Self::pending). The provider refuses
    /// further peers. The default, 0, sets no limit.
    pub backlog: u32,
    /// The number of GetConnectionRequests that the listener keeps in flight, each with its own connector; at least 1. Peers that have
    /// connected and were not taken yet count too. The default is 4.
    pub pending: usize,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            backlog: 0,
            pending: 4,
        }
    }
}

impl ListenerOptions {
    /// Sets [`backlog`](Self#structfield.backlog).
    #[must_use]
    pub const fn backlog(mut self, backlog: u32) -> Self {
        self.backlog = backlog;
        self
    }

    /// Sets [`pending`](Self#structfield.pending).
    #[must_use]
    pub const fn pending(mut self, pending: usize) -> Self {
        self.pending = pending;
        self
    }
}

/// A listener that owns its connectors and its requests, from [`AsyncAdapter::listen`](crate::AsyncAdapter::listen).
///
/// Any number of tasks may wait for peers, by [`get_connection_request`](Self::get_connection_request) and by
/// [`incoming`](Self::incoming). Each peer goes to one of them. A future that is dropped loses no peer, because the peer then
/// goes to the next one who waits, or stays with the listener until a task asks for it.
///
/// A clone is the same listener. Dropping the last clone, and the last stream of the listener, refuses the peers that nobody has
/// taken, and those that come later.
///
/// ```
/// # use netdirect_async::{AsyncAdapter, ListenerOptions};
/// # async fn demo(adapter: AsyncAdapter, queue_pair: impl Fn() -> std::sync::Arc<dyn netdirect::QueuePair>)
/// #     -> Result<(), Box<dyn std::error::Error>> {
/// let listener = adapter.listen("192.0.2.7:7174".parse()?, ListenerOptions::default())?;
/// loop {
///     let request = listener.get_connection_request().await?;
///     if request.private_data() == b"version 3" {
///         let connection = request.accept(&queue_pair()).await?;
///         // ... a task of its own for the connection
///     } else {
///         request.reject(b"this is version 3")?;
///     }
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AsyncListener(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    /// How many connectors wait for a peer or hold one, at most.
    most: usize,
    /// Before the listener, so that it is dropped first: the connectors give back their peers, which the listener refuses.
    state: Mutex<State>,
    listener: Arc<dyn Listener>,
    this: Weak<Self>,
}

#[derive(Debug, Default)]
struct State {
    /// Connectors that wait for a peer, by number, with their requests.
    pending: Vec<(u64, Arc<dyn Connector>, Overlapped)>,
    /// Connectors with a peer that was not taken yet, oldest first.
    ready: VecDeque<Arc<dyn Connector>>,
    waiters: Vec<Waiter>,
    next: u64,
    /// The error of a failed request. [`DEVICE_REMOVED`](Status::DEVICE_REMOVED) stays, because no more peers come; any other error goes to
    /// one of those who wait.
    error: Option<Error>,
}

/// Tasks that wait for a peer, oldest first.
#[derive(Debug)]
struct Waiter {
    id: u64,
    /// Taken when it is woken.
    waker: Option<Waker>,
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The waker of the one who waits longest and was not woken yet.
    fn next_waker(&mut self) -> Option<Waker> {
        self.waiters
            .iter_mut()
            .find_map(|waiter| waiter.waker.take())
    }

    fn all_wakers(&mut self) -> Vec<Waker> {
        let waiters = self.waiters.iter_mut();
        waiters.filter_map(|waiter| waiter.waker.take()).collect()
    }

    fn take_error(&mut self) -> Option<Error> {
        let is_final = |error: &Error| error.status() == Status::DEVICE_REMOVED;
        match &self.error {
            Some(error) if is_final(error) => Some(error.clone()),
            _ => self.error.take(),
        }
    }

    fn forget(&mut self, id: u64) -> Option<Waiter> {
        let at = self.waiters.iter().position(|waiter| waiter.id == id)?;
        Some(self.waiters.remove(at))
    }
}

impl AsyncListener {
    pub(crate) fn new(
        adapter: &Arc<dyn Adapter>,
        file: &Arc<dyn OverlappedFile>,
        address: SocketAddr,
        options: ListenerOptions,
    ) -> Result<Self> {
        let listener = adapter.create_listener(file)?;
        listener.bind(address)?;
        listener.listen(options.backlog)?;
        let shared = Arc::new_cyclic(|this| Shared {
            adapter: adapter.clone(),
            file: file.clone(),
            most: options.pending.max(1),
            state: Mutex::default(),
            listener,
            this: this.clone(),
        });
        Ok(Self(shared))
    }

    /// The local address and port, `GetLocalAddress`.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::get_local_address`].
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.0.listener.get_local_address()
    }

    /// `GetConnectionRequest`: waits for a peer that wants to connect.
    ///
    /// # Errors
    ///
    /// Those of [`Adapter::create_connector`] and [`Listener::get_connection_request`], including final statuses. After
    /// [`DEVICE_REMOVED`](Status::DEVICE_REMOVED) no more peers come; after other errors the next call may succeed.
    pub fn get_connection_request(&self) -> NextRequest<'_> {
        NextRequest {
            listener: &self.0,
            wait: Wait::default(),
        }
    }

    /// The peers that want to connect, as a stream. Its errors are those of [`get_connection_request`](Self::get_connection_request). The
    /// stream ends after an error with [`DEVICE_REMOVED`](Status::DEVICE_REMOVED), and with
    /// [`POSSIBLE_DEADLOCK`](Status::POSSIBLE_DEADLOCK) in a simulation in which nothing else is left to happen. It goes on after other
    /// errors.
    pub fn incoming(&self) -> Incoming {
        Incoming {
            listener: self.0.clone(),
            wait: Wait::default(),
            ended: false,
        }
    }
}

/// One wait for a peer.
#[derive(Debug, Default)]
struct Wait {
    /// The number of the [`Waiter`].
    id: Option<u64>,
    simulated: SimulatedWait,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps as many requests in flight as wished. Called without the lock, because the provider may end a request within the
    /// call.
    fn fill_up(&self) -> Result<()> {
        loop {
            let id = {
                let mut state = self.lock();
                if state.error.is_some() || state.pending.len() + state.ready.len() >= self.most {
                    return Ok(());
                }
                state.number()
            };
            let connector = self.adapter.create_connector(&self.file)?;
            let this = self.this.clone();
            let overlapped = Overlapped::with_sink(Arc::new(move |status| {
                if let Some(this) = Weak::upgrade(&this) {
                    this.request_ended(id, status);
                }
            }))
            .without_port();
            let waits = (id, connector.clone(), overlapped.clone());
            self.lock().pending.push(waits);
            let started = self
                .listener
                .get_connection_request(&connector, &overlapped);
            match started {
                Ok(Started::Pending) => {}
                Ok(Started::Done) => self.request_ended(id, Status::SUCCESS),
                Err(error) => {
                    self.lock().pending.retain(|(other, ..)| *other != id);
                    return Err(error);
                }
            }
        }
    }

    fn request_ended(&self, id: u64, status: Status) {
        let mut state = self.lock();
        let at = state.pending.iter().position(|(other, ..)| *other == id);
        let Some((_, connector, overlapped)) = at.map(|at| state.pending.swap_remove(at)) else {
            return;
        };
        let (mut unused, mut wakers) = (None, Vec::new());
        if status == Status::SUCCESS {
            state.ready.push_back(connector);
            wakers.extend(state.next_waker());
        } else {
            unused = Some(connector);
            // After a cancellation those who wait start anew.
            if status != Status::CANCELED {
                state.error = Some(explained(status, &overlapped));
            }
            wakers = state.all_wakers();
        }
        drop(state);
        drop(unused); // outside of the lock: this calls the provider
        wakers.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, wait: &mut Wait, cx: &Context<'_>) -> Poll<Result<ConnectionRequest>> {
        let polled = self.poll_ready(wait, cx);
        if polled.is_pending()
            && let Some(simulation) = self.file.simulation()
        {
            let done = || {
                let state = self.lock();
                !state.ready.is_empty() || state.error.is_some()
            };
            let moved = wait
                .simulated
                .poll(&*self.file, &*simulation, cx.waker(), done);
            if let Err(error) = ready!(moved) {
                return Poll::Ready(Err(error));
            }
            return self.poll_ready(wait, cx);
        }
        polled
    }

    fn poll_ready(&self, wait: &mut Wait, cx: &Context<'_>) -> Poll<Result<ConnectionRequest>> {
        loop {
            if let Some(connector) = self.take(wait) {
                if self.fill_up().is_err() {
                    // Maybe nothing is in flight now: those who wait try for themselves, and get the error.
                    let wakers = self.lock().all_wakers();
                    wakers.into_iter().for_each(Waker::wake);
                }
                match ext::Peer::from_connector(&connector) {
                    Ok(peer) => return Poll::Ready(Ok(ConnectionRequest { connector, peer })),
                    Err(_) => continue, // the peer has gone meanwhile
                }
            }
            let filled = self.fill_up();
            let (polled, wakers) = self.wait(wait, cx, filled);
            wakers.into_iter().for_each(Waker::wake);
            match polled {
                Some(polled) => return polled,
                None => continue,
            }
        }
    }

    /// Takes the oldest peer.
    fn take(&self, wait: &mut Wait) -> Option<Arc<dyn Connector>> {
        let mut state = self.lock();
        let connector = state.ready.pop_front()?;
        let waiter = wait.id.take().and_then(|id| state.forget(id));
        drop(state);
        drop(waiter);
        Some(connector)
    }

    /// Enters the list of waiting tasks; `None` if a peer has arrived. Also returns the wakers of tasks that have to look for themselves.
    fn wait(
        &self,
        wait: &mut Wait,
        cx: &Context<'_>,
        filled: Result<()>,
    ) -> (Option<Poll<Result<ConnectionRequest>>>, Vec<Waker>) {
        let new = cx.waker().clone();
        let mut state = self.lock();
        if !state.ready.is_empty() {
            return (None, Vec::new());
        }
        let error = state.take_error().or(match filled {
            Ok(()) => None,
            // A peer can end those that are in flight.
            Err(_) if !state.pending.is_empty() => None,
            Err(error) => Some(error),
        });
        if let Some(error) = error {
            let own = wait.id.take().and_then(|id| state.forget(id));
            let wakers = state.all_wakers();
            drop(state);
            drop(own);
            return (Some(Poll::Ready(Err(error))), wakers);
        }
        let id = match wait.id {
            Some(id) => id,
            None => *wait.id.insert(state.number()),
        };
        let own = state.waiters.iter_mut().find(|waiter| waiter.id == id);
        let old = match own {
            Some(own) => own.waker.replace(new),
            None => {
                let waker = Some(new);
                state.waiters.push(Waiter { id, waker });
                None
            }
        };
        drop(state);
        drop(old); // may run the executor's code, so not under the lock
        (Some(Poll::Pending), Vec::new())
    }

    /// A task no longer waits. If a peer was there for it, the next task is woken.
    fn leave(&self, wait: &mut Wait) {
        let Some(id) = wait.id.take() else { return };
        let mut state = self.lock();
        let own = state.forget(id);
        let was_woken = own.as_ref().is_some_and(|own| own.waker.is_none());
        let next = match was_woken && !state.ready.is_empty() {
            true => state.next_waker(),
            false => None,
        };
        drop(state);
        drop(own);
        if let Some(next) = next {
            next.wake();
        }
    }
}

/// The future of [`AsyncListener::get_connection_request`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct NextRequest<'a> {
    listener: &'a Shared,
    wait: Wait,
}

impl Future for NextRequest<'_> {
    type Output = Result<ConnectionRequest>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.listener.poll(&mut this.wait, cx)
    }
}

impl Drop for NextRequest<'_> {
    fn drop(&mut self) {
        self.listener.leave(&mut self.wait);
    }
}

/// The stream of [`AsyncListener::incoming`].
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct Incoming {
    listener: Arc<Shared>,
    wait: Wait,
    ended: bool,
}

impl Stream for Incoming {
    type Item = Result<ConnectionRequest>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        let polled = ready!(this.listener.poll(&mut this.wait, cx));
        let ends = [Status::DEVICE_REMOVED, Status::POSSIBLE_DEADLOCK];
        this.ended = matches!(&polled, Err(error) if ends.contains(&error.status()));
        Poll::Ready(Some(polled))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.listener.leave(&mut self.wait);
    }
}

/// A peer that wants to connect, in its own connector. Dropping it refuses the peer.
#[derive(Debug)]
#[must_use = "dropping it refuses the peer"]
pub struct ConnectionRequest {
    connector: Arc<dyn Connector>,
    peer: ext::Peer,
}

impl ConnectionRequest {
    /// The connector, `IND2Connector`.
    pub fn connector(&self) -> &Arc<dyn Connector> {
        &self.connector
    }

    /// The private data that the peer sent with Connect.
    pub fn private_data(&self) -> &[u8] {
        &self.peer.private_data
    }

    /// Returns how many Reads this side may serve and issue at a time: the peer's limits, cut to the adapter's.
    pub fn read_limits(&self) -> ReadLimits {
        self.peer.limits
    }

    /// The address and port of the peer, `GetPeerAddress`.
    ///
    /// # Errors
    ///
    /// Those of [`Connector::get_peer_address`].
    pub fn peer_address(&self) -> Result<SocketAddr> {
        self.connector.get_peer_address()
    }

    /// `Accept`: accepts the connection for a queue pair. The methods of [`Accept`] set what goes beyond that. A Receive for what
    /// the peer sends first should be posted before.
    pub fn accept(self, qp: &Arc<dyn QueuePair>) -> Accept {
        Accept::new(self.connector, qp, self.peer)
    }

    /// `Reject`: refuses the connection, and tells the peer why in private data, which the peer finds in its
    /// [`ConnectError`](crate::ConnectError).
    ///
    /// # Errors
    ///
    /// Those of [`Connector::reject`].
    pub fn reject(self, private_data: &[u8]) -> Result<()> {
        self.connector.reject(private_data)
    }
}
