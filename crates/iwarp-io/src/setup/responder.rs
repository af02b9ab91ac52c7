//! The Responder: from an accepted stream to a connection or a refusal, RFC 5044 section 7.1 and RFC 6581.

use std::fmt;
use std::time::{Duration, Instant};

use iwarp::mpa::startup::{
    self, Acceptance, Agreed, Frame, FrameKind, FrameReader, StartupError, peer_limits,
};
use iwarp::{ReadLimits, StreamEnd};

use super::exchange::{Machine, deadline};

/// The configuration that all connections of a listener share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponderConfig {
    /// The read limits of the adapter.
    pub most: ReadLimits,
    /// The limit in each direction if the Request states none.
    pub unstated: u32,
    /// The time from the accepted stream to the whole Request (MPA-023, MPA-024).
    pub request_within: Option<Duration>,
    /// The time from the Reply to the ready-to-receive message.
    pub ready_within: Option<Duration>,
    /// The user has not chosen whether to use CRCs. This side then asks for none over shared memory, where octets cannot be damaged.
    pub spares_crc: bool,
}

/// An event of a [`Responder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponderOutcome {
    /// The whole Request has arrived. The application has to [accept](Responder::accept) or [reject](Responder::reject), without a time
    /// limit.
    Requested,
    /// The ready-to-receive message has arrived: this side may send.
    Connected,
    /// There will be no connection.
    Failed(ResponderFailure),
}

/// The reason why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponderFailure {
    /// The received octets are no Request (MPA-021).
    Malformed(StartupError),
    /// The peer did not wait for the Reply: there are octets behind its Request (MPA-015).
    SentTooEarly,
    /// The peer has ended the stream.
    Ended(StreamEnd),
    /// The Request, or the ready-to-receive message, did not arrive in time.
    TimedOut,
}

impl fmt::Display for ResponderFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::SentTooEarly => f.write_str("the peer sent octets behind its Request"),
            Self::Ended(StreamEnd::Fin) => f.write_str("the peer closed the stream"),
            Self::Ended(StreamEnd::Reset) => f.write_str("the stream broke"),
            Self::TimedOut => f.write_str("the peer was silent for too long"),
        }
    }
}

/// The Reply that accepts, and the parameters that hold from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The frame, which has to be sent in one write.
    pub reply: Vec<u8>,
    /// The parameters of the stream. Without a ready-to-receive message the connection is established when the Reply was sent.
    pub agreed: Agreed,
}

/// The machine of the side that accepts a connection.
#[derive(Clone, Debug)]
pub struct Responder {
    config: ResponderConfig,
    state: ResponderState,
}

#[derive(Clone, Debug)]
enum ResponderState {
    /// The Request has not arrived completely.
    AwaitsRequest {
        reader: FrameReader,
        deadline: Option<Instant>,
    },
    /// The application decides.
    Requested(Box<Frame>),
    /// The Reply was sent.
    AwaitsReady { deadline: Option<Instant> },
    /// Connected, refused or failed.
    Over,
}

impl Responder {
    /// Makes the Responder of a stream that was accepted now. It sends nothing until it has a whole Request (MPA-002).
    #[must_use]
    pub fn new(now: Instant, config: ResponderConfig) -> Self {
        let state = ResponderState::AwaitsRequest {
            reader: FrameReader::new(FrameKind::Request),
            deadline: deadline(now, config.request_within),
        };
        Self { config, state }
    }

    /// See [`ResponderConfig::spares_crc`].
    #[must_use]
    pub fn spares_crc(&self) -> bool {
        self.config.spares_crc
    }

    /// The Request that waits for the application's answer.
    #[must_use]
    pub fn request(&self) -> Option<&Frame> {
        match &self.state {
            ResponderState::Requested(request) => Some(request),
            _ => None,
        }
    }

    /// The read limits that the Request offers, seen from this side and cut to the adapter's.
    #[must_use]
    pub fn offered(&self) -> Option<ReadLimits> {
        let ResponderConfig { most, unstated, .. } = self.config;
        let (ird, ord) = peer_limits(self.request()?);
        Some(ReadLimits {
            ird: ird.unwrap_or(unstated).min(most.ird),
            ord: ord.unwrap_or(unstated).min(most.ord),
        })
    }

    /// The application accepts; its read limits are cut to the offer and the adapter's. `None` when there is no Request to answer.
    ///
    /// # Panics
    ///
    /// If the Private Data exceeds [`Frame::max_private_data`].
    pub fn accept(&mut self, now: Instant, mut with: Acceptance) -> Option<Accepted> {
        let offered = self.offered()?;
        let request = self.request()?;
        // A Request that states no ORD leaves the Responder's own IRD as it is (MPA2-017).
        with.limits.ird = with.limits.ird.min(match peer_limits(request) {
            (Some(_), _) => offered.ird,
            (None, _) => self.config.most.ird,
        });
        with.limits.ord = with.limits.ord.min(offered.ord);
        let (frame, agreed) = startup::accept(request, &with);
        self.state = match agreed.ready {
            Some(_) => ResponderState::AwaitsReady {
                deadline: deadline(now, self.config.ready_within),
            },
            None => ResponderState::Over,
        };
        let reply = encoded(&frame);
        Some(Accepted { reply, agreed })
    }

    /// The application rejects, because of the Private Data or for another reason (MPA-019). Returns the Reply, after which the stream has
    /// to be closed in good order: some Initiators take a reset for a sign to try revision 1 (PEER-034). `None` when there is no Request to
    /// answer: then the stream has to be reset (MPA-002).
    ///
    /// # Panics
    ///
    /// If the Private Data exceeds [`Frame::max_private_data`].
    pub fn reject(&mut self, private_data: &[u8]) -> Option<Vec<u8>> {
        let ResponderState::Requested(request) =
            std::mem::replace(&mut self.state, ResponderState::Over)
        else {
            return None;
        };
        let frame = startup::reject(&request, self.config.most, private_data);
        Some(encoded(&frame))
    }

    /// The peer's first FPDU has arrived and is valid.
    pub fn handle_ready(&mut self) -> Option<ResponderOutcome> {
        if !matches!(self.state, ResponderState::AwaitsReady { .. }) {
            return None;
        }
        self.state = ResponderState::Over;
        Some(ResponderOutcome::Connected)
    }

    fn fail(&mut self, failure: ResponderFailure) -> Option<ResponderOutcome> {
        if matches!(self.state, ResponderState::Over) {
            return None;
        }
        self.state = ResponderState::Over;
        Some(ResponderOutcome::Failed(failure))
    }
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut octets = Vec::new();
    frame.encode(&mut octets);
    octets
}

impl Machine for Responder {
    type Outcome = ResponderOutcome;

    fn wanted(&self) -> usize {
        match &self.state {
            ResponderState::AwaitsRequest { reader, .. } => reader.wanted(),
            _ => 0,
        }
    }

    fn handle_bytes(&mut self, _: Instant, octets: &[u8]) -> Option<ResponderOutcome> {
        let ResponderState::AwaitsRequest { reader, .. } = &mut self.state else {
            return None;
        };
        match reader.push(octets) {
            Ok(None) => None,
            Ok(Some(request)) => {
                self.state = ResponderState::Requested(Box::new(request));
                Some(ResponderOutcome::Requested)
            }
            Err(error) => self.fail(ResponderFailure::Malformed(error)),
        }
    }

    /// While the application decides (MPA-015).
    fn expects_silence(&self) -> bool {
        matches!(self.state, ResponderState::Requested(_))
    }

    fn handle_unwanted(&mut self) -> Option<ResponderOutcome> {
        match self.state {
            ResponderState::Requested(_) => self.fail(ResponderFailure::SentTooEarly),
            _ => None,
        }
    }

    fn handle_end(&mut self, _: Instant, end: StreamEnd) -> Option<ResponderOutcome> {
        self.fail(ResponderFailure::Ended(end)) // MPA-027
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            ResponderState::AwaitsRequest { deadline, .. }
            | ResponderState::AwaitsReady { deadline } => *deadline,
            ResponderState::Requested(_) | ResponderState::Over => None,
        }
    }

    fn handle_timeout(&mut self, now: Instant) -> Option<ResponderOutcome> {
        if self.poll_timeout().is_none_or(|at| now < at) {
            return None;
        }
        self.fail(ResponderFailure::TimedOut)
    }
}
