//! The passive side of a connection, from a whole Request to the peer's ready-to-receive message.

use std::io;
use std::sync::{Arc, Weak};

use iwarp::StreamEnd;
use iwarp::mpa::startup::{Acceptance, Agreed};

use super::mpa_startup::{ConnectionRequest, MpaStartup, StartupOwner};
use super::responder::{Responder, ResponderFailure, ResponderOutcome};
use crate::driver::Driver;
use crate::endpoint::Signals;
use crate::log::targets;
use crate::progress::timers::TimerKey;
use crate::transport::stream::Stream;

/// An event of a passive side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassiveOutcome {
    /// The peer's ready-to-receive message has arrived.
    Connected,
    /// There will be no connection: before the answer because the peer has given up, afterwards for this reason.
    Failed(ResponderFailure),
}

/// The passive side of a connection that is being set up, as a value in its owner's locked state: a Request that the application decides
/// about, and after its acceptance the wait for the peer's ready-to-receive message.
#[derive(Debug)]
pub struct PassiveSide(MpaStartup<Responder>);

impl PassiveSide {
    /// Watches the peer of a Request for its end while the application decides. `None` if the system cannot watch one more stream; the peer
    /// then sees a reset.
    pub fn watch(
        request: ConnectionRequest,
        driver: &Arc<Driver>,
        owner: Weak<dyn StartupOwner>,
    ) -> Option<Self> {
        let span = request.span().clone();
        match request.watch(driver, owner) {
            Ok(startup) => Some(Self(startup)),
            Err(error) => {
                limited!(warn, target: targets::CONNECT, parent: &span, %error, "cannot watch a peer that asks for a connection");
                None
            }
        }
    }

    /// Looks whether the peer has given up. Until the Reply is sent, anything from the peer is its end or a violation (MPA-015).
    pub fn has_ended(&mut self) -> bool {
        matches!(self.0.ready(), Some(ResponderOutcome::Failed(_)))
    }

    /// Accepts: sends the Reply. Returns the stream, the agreed parameters, and the result of sending the Reply; `None` if the peer has given
    /// up.
    pub fn accept(&mut self, with: Acceptance) -> Option<(Stream, Agreed, io::Result<()>)> {
        self.0.accept(with)
    }

    /// Rejects the Request, or drops it if the peer has given up.
    pub fn reject(self, private_data: &[u8]) {
        self.0.reject(private_data);
    }

    /// Gives a Request back that was not answered; `None` if the peer has given up.
    pub fn into_request(self) -> Option<ConnectionRequest> {
        self.0.into_request()
    }

    /// The endpoint of an accepted connection has signalled.
    pub fn signalled(&mut self, signals: Signals) -> Option<PassiveOutcome> {
        let outcome = if signals.contains(Signals::READY) {
            self.0.handle_ready()
        } else if signals.intersects(Signals::PEER_CLOSED | Signals::TERMINATED) {
            self.0.handle_end(StreamEnd::Fin)
        } else if signals.intersects(Signals::RESET | Signals::FAILED | Signals::GONE) {
            self.0.handle_end(StreamEnd::Reset)
        } else {
            None
        };
        came_to(outcome)
    }

    /// A deadline of the owner has passed.
    pub fn expired(&mut self, key: TimerKey) -> Option<PassiveOutcome> {
        came_to(self.0.expired(key))
    }
}

fn came_to(outcome: Option<ResponderOutcome>) -> Option<PassiveOutcome> {
    match outcome? {
        ResponderOutcome::Requested => None, // before the owner had the Request
        ResponderOutcome::Connected => Some(PassiveOutcome::Connected),
        ResponderOutcome::Failed(failure) => Some(PassiveOutcome::Failed(failure)),
    }
}
