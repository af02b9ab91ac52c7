//! The Initiator: from a connected transport to an agreement of both sides, RFC 5044 section 7.1 and RFC 6581.

use std::fmt;
use std::time::{Duration, Instant};

use iwarp::mpa::startup::{
    Agreed, ConcludeError, Frame, FrameKind, FrameReader, Offer, StartupError, peer_limits,
};
use iwarp::{ReadLimits, StreamEnd, TerminateCode, terminate_frame};

use super::exchange::{Machine, deadline};

/// A Responder that ends the stream within this time of a Request of revision 2, without an octet, may speak revision 1 only.
const FALLBACK_WITHIN: Duration = Duration::from_secs(5);

/// The offer of an [`Initiator`], and its limits for the Reply.
#[derive(Clone, Debug)]
pub struct InitiatorConfig {
    /// The contents of the Request.
    pub offer: Offer,
    /// The user has not chosen whether to use CRCs. This side then asks for none over shared memory, where octets cannot be damaged.
    pub spares_crc: bool,
    /// The read limits of the adapter. A Reply that demands more inbound Reads is answered with a Terminate (MPA2-016).
    pub most: ReadLimits,
    /// The limit in each direction if the Reply states none.
    pub unstated: u32,
    /// A Reply whose A differs from the Request's is answered with a Terminate (MPA2-022). If false, the Reply's A decides.
    pub strict_peer_to_peer: bool,
    /// Asks for revision 1 when the peer ends the stream instead of answering a Request of revision 2 (MPA2-010).
    pub revision_1_fallback: bool,
    /// The time from the Request to the whole Reply, in which the peer's application decides. Without a limit this side waits for the
    /// peer's application for ever (CONN-031).
    pub reply_within: Option<Duration>,
    /// The time from the first octet of the Reply to the whole Reply (MPA-024).
    pub reply_frame_within: Option<Duration>,
    /// The time for which the ready-to-receive message waits for the application to [complete](Initiator::complete).
    pub hold_ready: Option<Duration>,
}

/// An event of an [`Initiator`].
#[derive(Debug, PartialEq, Eq)]
pub enum InitiatorOutcome {
    /// The Reply agrees. No octet behind it was read.
    Agreed(Box<Agreement>),
    /// The application has not completed in time: the ready-to-receive message has to be sent without it.
    SendReady,
    /// The peer may speak revision 1 only. The stream has to be closed, and the transport has to connect once more.
    FallBack,
    /// There will be no connection.
    Failed(InitiatorFailure),
}

/// The parameters that the two sides have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The parameters of the stream. Inbound Reads beyond those that the Reply stated are served, up to the Request's limit.
    pub agreed: Agreed,
    /// The read limits that the application gets.
    pub limits: ReadLimits,
    /// The application's Private Data in the Reply.
    pub private_data: Vec<u8>,
    /// The Reply's A differs from the Request's (MPA2-022).
    pub changes_peer_to_peer: bool,
}

/// The reason why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitiatorFailure {
    /// The Reply rejects the connection.
    Rejected {
        /// The application's Private Data in the Reply.
        private_data: Vec<u8>,
    },
    /// The received octets are no Reply to this Request.
    Malformed(StartupError),
    /// The Reply demands something that this side does not do.
    Unacceptable {
        /// The demand.
        why: ConcludeError,
        /// The last FPDU, with the Terminate that reports this (MPA2-016, MPA2-029).
        terminate: Vec<u8>,
    },
    /// The peer has ended the stream before the whole Reply arrived.
    Ended(StreamEnd),
    /// The Reply did not arrive in time.
    TimedOut,
}

impl InitiatorFailure {
    /// The way in which this side has to end the stream.
    #[must_use]
    pub fn ending(&self) -> StreamEnd {
        match self {
            Self::Rejected { .. } | Self::Unacceptable { .. } => StreamEnd::Fin,
            Self::Malformed(_) | Self::Ended(_) | Self::TimedOut => StreamEnd::Reset,
        }
    }
}

impl fmt::Display for InitiatorFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { .. } => ConcludeError::Rejected.fmt(f),
            Self::Malformed(error) => error.fmt(f),
            Self::Unacceptable { why, .. } => why.fmt(f),
            Self::Ended(StreamEnd::Fin) => f.write_str("the peer closed without a whole Reply"),
            Self::Ended(StreamEnd::Reset) => {
                f.write_str("the stream broke before the whole Reply was here")
            }
            Self::TimedOut => f.write_str("the peer did not send a whole Reply in time"),
        }
    }
}

/// The machine of the side that connects.
#[derive(Clone, Debug)]
pub struct Initiator {
    config: InitiatorConfig,
    state: InitiatorState,
}

#[derive(Clone, Debug)]
enum InitiatorState {
    /// The transport is connecting.
    Idle,
    /// The Request was sent.
    AwaitsReply {
        reader: FrameReader,
        sent: Instant,
        /// The time of the first octet of the Reply.
        began: Option<Instant>,
    },
    /// The ready-to-receive message is held back for the application.
    Holds { until: Option<Instant> },
    /// The ready-to-receive message was sent, and the application has not completed.
    ReadySent,
    /// Connected, or failed.
    Over,
}

impl Initiator {
    /// An Initiator whose transport has not connected.
    #[must_use]
    pub fn new(config: InitiatorConfig) -> Self {
        Self {
            config,
            state: InitiatorState::Idle,
        }
    }

    /// The contents of the Request; its revision is 1 after a fall-back.
    #[must_use]
    pub fn offer(&self) -> &Offer {
        &self.config.offer
    }

    /// The connection uses shared memory: asks for no CRCs, unless the user has chosen them.
    pub fn handle_shared(&mut self) {
        self.config.offer.crc &= !self.config.spares_crc;
    }

    /// The transport has connected. Returns the Request, which has to be sent in one write (MPA-001); `None` when none is due.
    ///
    /// # Panics
    ///
    /// If the Private Data exceeds [`Frame::max_private_data`].
    pub fn handle_connected(&mut self, now: Instant) -> Option<Vec<u8>> {
        if !matches!(self.state, InitiatorState::Idle) {
            return None;
        }
        let reader = FrameReader::new(FrameKind::Reply);
        self.state = InitiatorState::AwaitsReply {
            reader,
            sent: now,
            began: None,
        };
        let mut request = Vec::new();
        self.config.offer.request().encode(&mut request);
        Some(request)
    }

    /// The application completes the connection. Returns true when the ready-to-receive message has to be sent now, false when it was sent
    /// before, or when there is no agreement.
    pub fn complete(&mut self) -> bool {
        let due = matches!(self.state, InitiatorState::Holds { .. });
        if due || matches!(self.state, InitiatorState::ReadySent) {
            self.state = InitiatorState::Over;
        }
        due
    }

    fn fail(&mut self, failure: InitiatorFailure) -> Option<InitiatorOutcome> {
        self.state = InitiatorState::Over;
        Some(InitiatorOutcome::Failed(failure))
    }

    /// A whole Reply has arrived. It is validated before anything else is sent (MPA-030).
    fn conclude(&mut self, now: Instant, reply: Frame) -> Option<InitiatorOutcome> {
        let InitiatorConfig { offer, most, .. } = &self.config;
        let concluded = offer.conclude(&reply, *most);
        let asked = offer.asks_peer_to_peer();
        let changes = |agreed: &Agreed| agreed.peer_to_peer != asked;
        match concluded {
            Ok(agreed) if self.config.strict_peer_to_peer && changes(&agreed) => {
                self.refuse(ConcludeError::NoReady, reply)
            }
            Ok(agreed) => {
                let hold = deadline(now, self.config.hold_ready);
                self.state = InitiatorState::Holds { until: hold };
                let agreement = self.agreement(agreed, reply, changes(&agreed));
                Some(InitiatorOutcome::Agreed(Box::new(agreement)))
            }
            Err(why) => self.refuse(why, reply),
        }
    }

    fn agreement(&self, mut agreed: Agreed, reply: Frame, changed: bool) -> Agreement {
        let (ird, ord) = peer_limits(&reply);
        let cut = |limit: u32, stated: Option<u32>| match stated {
            Some(_) => limit,
            None => limit.min(self.config.unstated),
        };
        // If the Reply states no limit for the peer's Reads, our Request's limit holds (MPA2-019), so only the limit that the application
        // gets is cut.
        agreed.limits.ord = cut(agreed.limits.ord, ord);
        Agreement {
            limits: ReadLimits {
                ird: cut(agreed.limits.ird, ird),
                ord: agreed.limits.ord,
            },
            agreed,
            private_data: reply.private_data,
            changes_peer_to_peer: changed,
        }
    }

    fn refuse(&mut self, why: ConcludeError, reply: Frame) -> Option<InitiatorOutcome> {
        let failure = match (why, why.terminate()) {
            (ConcludeError::Malformed(error), _) => InitiatorFailure::Malformed(error),
            (why, Some(error)) => {
                let code = TerminateCode::new(2, 0, error.code());
                let crc = self.config.offer.crc || reply.crc;
                InitiatorFailure::Unacceptable {
                    why,
                    terminate: terminate_frame(code, crc, reply.markers), // MPA2-037
                }
            }
            (_, None) => InitiatorFailure::Rejected {
                private_data: reply.private_data,
            },
        };
        self.fail(failure)
    }
}

impl Machine for Initiator {
    type Outcome = InitiatorOutcome;

    fn wanted(&self) -> usize {
        match &self.state {
            InitiatorState::AwaitsReply { reader, .. } => reader.wanted(),
            _ => 0,
        }
    }

    fn handle_bytes(&mut self, now: Instant, octets: &[u8]) -> Option<InitiatorOutcome> {
        let InitiatorState::AwaitsReply { reader, began, .. } = &mut self.state else {
            return None;
        };
        if !octets.is_empty() {
            began.get_or_insert(now);
        }
        match reader.push(octets) {
            Ok(None) => None,
            Ok(Some(reply)) => self.conclude(now, reply),
            Err(error) => self.fail(InitiatorFailure::Malformed(error)), // MPA-005, MPA-022
        }
    }

    fn expects_silence(&self) -> bool {
        false
    }

    /// Octets behind the Reply wait in the transport for the application (MPA-017).
    fn handle_unwanted(&mut self) -> Option<InitiatorOutcome> {
        None
    }

    fn handle_end(&mut self, now: Instant, end: StreamEnd) -> Option<InitiatorOutcome> {
        let InitiatorState::AwaitsReply { reader, sent, .. } = &self.state else {
            return None;
        };
        let soon = now.saturating_duration_since(*sent) < FALLBACK_WITHIN;
        let config = &mut self.config;
        // PEER-034, PEER-062: other Initiators do so as well, so a refusal is never a mere end of the stream.
        if config.revision_1_fallback && config.offer.revision == 2 && !reader.started() && soon {
            config.offer.revision = 1;
            self.state = InitiatorState::Idle;
            return Some(InitiatorOutcome::FallBack);
        }
        self.fail(InitiatorFailure::Ended(end)) // MPA-027
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            InitiatorState::AwaitsReply { sent, began, .. } => {
                let whole = deadline(*sent, self.config.reply_within);
                let frame = began.and_then(|at| deadline(at, self.config.reply_frame_within));
                whole.into_iter().chain(frame).min()
            }
            InitiatorState::Holds { until } => *until,
            InitiatorState::Idle | InitiatorState::ReadySent | InitiatorState::Over => None,
        }
    }

    fn handle_timeout(&mut self, now: Instant) -> Option<InitiatorOutcome> {
        if self.poll_timeout().is_none_or(|at| now < at) {
            return None;
        }
        if let InitiatorState::Holds { .. } = self.state {
            self.state = InitiatorState::ReadySent;
            return Some(InitiatorOutcome::SendReady);
        }
        self.fail(InitiatorFailure::TimedOut)
    }
}
