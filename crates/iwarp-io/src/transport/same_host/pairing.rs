//! The two tokens by which the ends of a TCP connection agree to use shared memory. No end writes into a ring before the other end of *this*
//! connection has proved that it has the offer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Span;

use crate::log::{span_between, targets};

use super::counts::{Counts, TcpReason};
use super::first_octets::FirstOctets;
use super::meeting::{Offered, SharedRing};
use super::offer::Token;
use super::pairing_step::PairingStep;

/// A connection whose way is not decided.
#[derive(Debug)]
pub struct Pairing {
    ring: Option<SharedRing>,
    /// The token that this end waits for, and the one that it answers with.
    awaited: Token,
    answer: Option<Token>,
    /// How long the connector waits; the listener waits for as long as it waits for the peer's first octets.
    limit: Option<Duration>,
    until: Option<Instant>,
    /// The connector no longer waits: a token that comes now is skipped.
    is_late: bool,
    counts: Arc<Counts>,
    /// The local address and the peer's.
    addresses: (SocketAddr, SocketAddr),
}

/// What the first octets of the socket are.
enum Front {
    Nothing,
    /// The beginning of the token, which is not there as a whole.
    Part,
    Token,
    /// A token of another offer.
    OtherToken,
    Other,
}

impl Pairing {
    /// The connector's side: waits for the listener's token, at most `limit`.
    pub(super) fn of_connector(
        offered: Offered,
        addresses: (SocketAddr, SocketAddr),
        limit: Duration,
        counts: &Arc<Counts>,
    ) -> Self {
        Self {
            ring: Some(offered.ring),
            awaited: offered.first,
            answer: Some(offered.second),
            limit: Some(limit),
            until: None,
            is_late: false,
            counts: Arc::clone(counts),
            addresses,
        }
    }

    /// The listener's side, which has sent the first token.
    pub(super) fn of_listener(
        taken: Offered,
        addresses: (SocketAddr, SocketAddr),
        counts: &Arc<Counts>,
    ) -> Self {
        Self {
            ring: Some(taken.ring),
            awaited: taken.second,
            answer: None,
            limit: None,
            until: None,
            is_late: false,
            counts: Arc::clone(counts),
            addresses,
        }
    }

    /// The time at which the connector gives up, once it has begun to wait.
    pub(in crate::transport) fn until(&self) -> Option<Instant> {
        self.until.filter(|_| !self.is_late)
    }

    /// Returns true if the connector has given up, and goes on over TCP. A token may still come.
    pub(in crate::transport) fn is_late(&self) -> bool {
        self.is_late
    }

    /// Looks at what has arrived.
    ///
    /// # Errors
    ///
    /// Those of the connection; `ConnectionReset` if the connector has sent another token than that of its offer.
    pub(in crate::transport) fn step(
        &mut self,
        tcp: &impl FirstOctets,
        now: Instant,
    ) -> io::Result<PairingStep<SharedRing>> {
        match self.front(tcp) {
            Front::Token if self.is_late => {
                self.skip(tcp)?;
                Ok(PairingStep::Plain)
            }
            Front::Token => self.share(tcp),
            // The listener has taken the offer of another process for this one. The peer's first frame follows the token.
            Front::OtherToken => {
                self.skip(tcp)?;
                if self.is_late {
                    return Ok(PairingStep::Plain);
                }
                Ok(self.refused(TcpReason::NoAnswer))
            }
            Front::Other if self.limit.is_none() && !is_mpa(tcp) => {
                Err(io::ErrorKind::ConnectionReset.into())
            }
            Front::Other if self.is_late => Ok(PairingStep::Plain),
            Front::Other => Ok(self.refused(TcpReason::NoAnswer)),
            Front::Nothing | Front::Part if self.is_late => Ok(PairingStep::Undecided),
            Front::Nothing | Front::Part => Ok(self.wait(now)),
        }
    }

    fn wait(&mut self, now: Instant) -> PairingStep<SharedRing> {
        if let Some(limit) = self.limit {
            let until = *self.until.get_or_insert(now + limit);
            if until <= now {
                // The memory goes. The token may still come.
                self.is_late = true;
                drop(self.refused(TcpReason::NoAnswer));
            }
        }
        PairingStep::Undecided
    }

    /// The span of its events. The connection has no stream yet.
    fn span(&self) -> Span {
        span_between(self.addresses.0, self.addresses.1)
    }

    fn refused(&mut self, refusal: TcpReason) -> PairingStep<SharedRing> {
        self.ring = None;
        self.counts.refused(refusal);
        tracing::debug!(
            target: targets::CONNECT,
            parent: &self.span(),
            reason = refusal.words(),
            "a connection within this machine is over TCP"
        );
        PairingStep::Plain
    }

    fn share(&mut self, tcp: &impl FirstOctets) -> io::Result<PairingStep<SharedRing>> {
        self.skip(tcp)?;
        if let Some(answer) = self.answer {
            // The send buffer of a new connection has room.
            if tcp.send(&answer.0)? < Token::LEN {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        let Some(ring) = self.ring.take() else {
            return Ok(PairingStep::Plain);
        };
        self.counts.connected();
        tracing::debug!(target: targets::CONNECT, parent: &self.span(), "a connection within this machine is over shared memory");
        Ok(PairingStep::Shared(ring))
    }

    /// Takes the token, which is there.
    fn skip(&self, tcp: &impl FirstOctets) -> io::Result<()> {
        let mut token = [0; Token::LEN];
        let count = tcp.take(&mut token)?;
        if count == Token::LEN {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn front(&self, tcp: &impl FirstOctets) -> Front {
        let mut octets = [0; Token::LEN];
        let count = match tcp.peek_at(&mut octets) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Front::Nothing,
            Err(_) => return Front::Other,
        };
        let is_awaited = octets[..count] == self.awaited.0[..count];
        // A listener's token may be of another offer for this connection. A connector has one token alone.
        let is_token = is_awaited || self.limit.is_some() && octets[0] == 0;
        match count {
            // The next read reports the end of the connection.
            0 => Front::Other,
            Token::LEN if is_awaited || iwarp::planted!(TokenUnchecked) => Front::Token,
            Token::LEN if is_token => Front::OtherToken,
            _ if is_token => Front::Part,
            _ => Front::Other,
        }
    }
}

/// Returns true if the first octet is none of a token, or there is none.
fn is_mpa(tcp: &impl FirstOctets) -> bool {
    let mut first = [0];
    !matches!(tcp.peek_at(&mut first), Ok(1) if first == [0])
}
