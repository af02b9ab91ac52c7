//! An accepted stream, over TCP, QUIC or a simulated network, until a connector takes its MPA Request.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use tracing::Span;

use super::mpa_startup::{ConnectionRequest, MpaStartup, StartupOwner};
use super::responder::{Responder, ResponderConfig, ResponderOutcome};
use crate::driver::Driver;
use crate::log::targets;
use crate::progress::Edges;
use crate::progress::domain::{Source, Turn};
use crate::progress::timers::{Timed, TimerKey};
use crate::transport::stream::Stream;

/// The object that has accepted a connection. Called with no lock of the connection held.
pub(super) trait IncomingOwner: Send + Sync {
    /// The whole Request of the connection with this key has arrived.
    fn requested(&self, key: u64);

    /// The connection with this key has ended.
    fn ended(&self, key: u64);
}

/// A connection that a peer has opened and that no client has asked for yet.
pub struct Incoming {
    key: u64,
    peer: SocketAddr,
    span: Span,
    owner: Weak<dyn IncomingOwner>,
    /// `None` when it has ended, or was taken.
    startup: Mutex<Option<MpaStartup<Responder>>>,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Incoming {
    /// Begins to wait for the Request on a stream that was just accepted.
    pub(super) fn accepted(
        driver: &Arc<Driver>,
        owner: Weak<dyn IncomingOwner>,
        key: u64,
        stream: Stream,
        config: ResponderConfig,
    ) -> io::Result<Arc<Self>> {
        Self::new(owner, key, stream.peer(), stream.span().clone(), |this| {
            MpaStartup::accepted(stream, config, driver, this)
        })
    }

    /// Watches a peer whose Request has arrived already, until a client asks for it.
    pub(super) fn requested(
        driver: &Arc<Driver>,
        owner: Weak<dyn IncomingOwner>,
        key: u64,
        request: ConnectionRequest,
    ) -> io::Result<Arc<Self>> {
        Self::new(owner, key, request.peer(), request.span().clone(), |this| {
            request.watch(driver, this)
        })
    }

    fn new(
        owner: Weak<dyn IncomingOwner>,
        key: u64,
        peer: SocketAddr,
        span: Span,
        begin: impl FnOnce(Weak<dyn StartupOwner>) -> io::Result<MpaStartup<Responder>>,
    ) -> io::Result<Arc<Self>> {
        let this = Arc::new(Self {
            key,
            peer,
            span,
            owner,
            startup: Mutex::default(),
        });
        let weak = Arc::downgrade(&this);
        // Locked, because another thread may get a report of the stream before this one has stored the set-up.
        let mut startup = this.startup.lock();
        *startup = Some(begin(weak)?);
        drop(startup);
        Ok(this)
    }

    /// The number of the connection among those of its acceptor.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The span of the connection, as the parent of events about it.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Returns true if the whole Request has arrived, after a last look: octets that have arrived and were not read yet count.
    pub(super) fn is_requested_after_all(&self) -> bool {
        self.startup.lock().as_mut().is_some_and(|startup| {
            startup.request().is_some() || startup.ready() == Some(ResponderOutcome::Requested)
        })
    }

    /// Hands the request on; `None` when the connection has ended, or its Request is not complete.
    pub fn take(&self) -> Option<ConnectionRequest> {
        let mut startup = self.startup.lock();
        startup.as_ref()?.request()?;
        startup.take()?.into_request()
    }

    /// Refuses the connection: with a Reply if there is a Request to answer, otherwise by a reset.
    pub fn refuse(&self) {
        if let Some(startup) = self.startup.lock().take() {
            startup.reject(&[]);
        }
    }

    /// Returns true if the connection has ended, or was taken.
    pub fn has_ended(&self) -> bool {
        self.startup.lock().is_none()
    }

    /// Resets the connection.
    pub(super) fn reset(&self) {
        if let Some(startup) = self.startup.lock().take() {
            startup.reset();
        }
    }

    fn act_on(&self, outcome: Option<ResponderOutcome>) {
        match (outcome, self.owner.upgrade()) {
            (None | Some(ResponderOutcome::Connected), _) => {}
            (Some(ResponderOutcome::Requested), Some(owner)) => owner.requested(self.key),
            (Some(ResponderOutcome::Requested), None) => self.refuse(),
            (Some(ResponderOutcome::Failed(failure)), owner) => {
                let startup = self.startup.lock().take();
                match startup.and_then(|mut startup| startup.take_refusal()) {
                    Some(error) => {
                        limited!(error, target: targets::CONNECT, parent: &self.span, %error, "a peer that connects cannot be served")
                    }
                    None => {
                        tracing::info!(target: targets::UNKNOWN_PEERS, parent: &self.span, peer = %self.peer, %failure, "a peer asked for no connection");
                    }
                }
                if let Some(owner) = owner {
                    owner.ended(self.key);
                }
            }
        }
    }
}

impl Source for Incoming {
    fn ready(&self, _: Edges) -> Turn {
        let outcome = self
            .startup
            .lock()
            .as_mut()
            .and_then(MpaStartup::<Responder>::ready);
        self.act_on(outcome);
        Turn::default()
    }
}

impl Timed for Incoming {
    fn expired(&self, key: TimerKey, _: Instant) {
        let mut startup = self.startup.lock();
        let outcome = startup.as_mut().and_then(|startup| startup.expired(key));
        drop(startup);
        self.act_on(outcome);
    }
}
