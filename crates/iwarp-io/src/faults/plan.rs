//! The types that a plan consists of.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::error::{LoadError, PlanError};
use crate::bounded_file;

/// Selects things of one kind, counted from 1 in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Which {
    /// `2nd`: this one.
    Nth(u64),
    /// `every 3rd`: the 3rd, the 6th, the 9th. `every other` is `every 2nd`.
    Every(u64),
    /// `from 5th on`: this one and all after it.
    From(u64),
    /// `each`.
    Each,
    /// `last`: the FPDU of a message that has the L bit.
    Last,
}

impl Which {
    /// Returns true if the thing with this number is selected. `last` is true for the last one.
    pub(super) fn selects(self, number: u64, last: bool) -> bool {
        match self {
            Self::Nth(n) => number == n,
            Self::Every(n) => n > 0 && number.is_multiple_of(n),
            Self::From(n) => number >= n,
            Self::Each => true,
            Self::Last => last,
        }
    }
}

/// The messages that a plan can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The Initiator's start-up frame, RFC 5044 §7.1.
    MpaRequest,
    /// The Responder's start-up frame.
    MpaReply,
    /// The ready-to-receive message of RFC 6581 §9: the Write, Read or Send of no octets that the two sides have agreed on.
    /// It does not count as one of the messages below, and neither does the Read Response to it.
    Ready,
    /// RDMA Write.
    Write,
    /// RDMA Read Request.
    ReadRequest,
    /// RDMA Read Response.
    ReadResponse,
    /// Any of the four Send types.
    Send,
    /// Immediate Data, with and without Solicited Event (RFC 7306 §6).
    Immediate,
    /// Atomic Request (RFC 7306 §5).
    AtomicRequest,
    /// Atomic Response.
    AtomicResponse,
    /// Terminate.
    Terminate,
    /// Any RDMAP message except the ready-to-receive message.
    Any,
}

impl Kind {
    pub(super) const ALL: [Self; 12] = [
        Self::MpaRequest,
        Self::MpaReply,
        Self::Ready,
        Self::Write,
        Self::ReadRequest,
        Self::ReadResponse,
        Self::Send,
        Self::Immediate,
        Self::AtomicRequest,
        Self::AtomicResponse,
        Self::Terminate,
        Self::Any,
    ];

    /// The name in a plan.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MpaRequest => "MPA Request",
            Self::MpaReply => "MPA Reply",
            Self::Ready => "RTR",
            Self::Write => "Write",
            Self::ReadRequest => "Read Request",
            Self::ReadResponse => "Read Response",
            Self::Send => "Send",
            Self::Immediate => "Immediate Data",
            Self::AtomicRequest => "Atomic Request",
            Self::AtomicResponse => "Atomic Response",
            Self::Terminate => "Terminate",
            Self::Any => "message",
        }
    }

    /// Returns true for the two start-up frames.
    pub(super) const fn is_startup(self) -> bool {
        matches!(self, Self::MpaRequest | Self::MpaReply)
    }

    /// Returns true if a message of the kind `other` is of this kind. `other` is not `Any`.
    pub(super) fn covers(self, other: Self) -> bool {
        self == other || self == Self::Any && !other.is_startup() && other != Self::Ready
    }
}

/// The direction of octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the peer.
    Sent,
    /// From the peer.
    Received,
}

/// A unit that passes on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// FPDUs of any message.
    Fpdu(Which),
    /// Whole messages.
    Message(Which, Kind),
    /// FPDUs, counted within messages.
    FpduOf {
        /// The FPDUs of the message.
        fpdu: Which,
        /// The messages.
        message: Which,
        /// The kind of these messages.
        kind: Kind,
    },
}

/// An event at which a fault happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// Octets pass on a stream.
    Passing(Unit, Direction),
    /// A datagram passes on a socket that carries streams.
    Datagram(Which, Direction),
    /// A connection to a peer is about to be opened.
    Connect(Which),
    /// A peer has opened a connection, which a listener is about to take.
    Accept(Which),
    /// A result is about to be placed in a completion queue.
    Completion(Which),
    /// The owner's client makes a call of this name.
    Call(Which, String),
}

/// The range over which events are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// On each stream, socket or queue from 1.
    #[default]
    Each,
    /// Only on the stream, socket or queue with this number, in the order in which they were made, from 1.
    One(u64),
    /// Over all streams, sockets or queues together.
    All,
}

/// The peers whose events count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// All peers with this address.
    Address(IpAddr),
    /// The peer with this address and port.
    Port(SocketAddr),
}

impl Peer {
    /// Returns true if this address is meant.
    pub(super) fn matches(&self, peer: SocketAddr) -> bool {
        match self {
            Self::Address(address) => address.to_canonical() == peer.ip().to_canonical(),
            Self::Port(address) => {
                address.port() == peer.port()
                    && address.ip().to_canonical() == peer.ip().to_canonical()
            }
        }
    }
}

/// A part of an FPDU or of a start-up frame. Datagrams have only [`Payload`](Self::Payload), which is all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// `ULPDU_Length`, or the `PD_Length` of a start-up frame.
    Length,
    /// The DDP header with RDMAP's control octet, 14 or 18 octets, or the 20 octets before the Private Data.
    Header,
    /// What follows the header, or the Private Data.
    Payload,
    /// The CRC field. Start-up frames have none.
    Crc,
}

impl Field {
    pub(super) const ALL: [Self; 4] = [Self::Length, Self::Header, Self::Payload, Self::Crc];

    /// The name in a plan.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Header => "header",
            Self::Payload => "payload",
            Self::Crc => "CRC",
        }
    }
}

/// The octet of the passing unit at which an action is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Place {
    /// Behind the last octet.
    #[default]
    End,
    /// Behind this many octets; 0 is before the first octet. If the unit is shorter, the action is not done.
    Octet(u64),
}

/// How late a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lateness {
    /// By this time.
    Time(Duration),
    /// This many datagrams that come after it pass before it.
    Datagrams(u64),
}

/// The action when an event happens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// The connection is reset.
    Reset(Place),
    /// The direction ends there, and the octets behind are thrown away.
    Close(Place),
    /// Nothing more happens for this time, or for ever. The action holds a direction of a stream, an attempt to connect, a
    /// peer that waits to be accepted, or the results of a queue.
    Hold(Option<Duration>, Place),
    /// A bit is inverted. Bit 0 is the most significant bit of the first octet. In a message the bit is one of its first
    /// FPDU.
    Flip {
        /// The number of the bit.
        bit: u32,
        /// The field that has the bit.
        field: Field,
        /// The CRC is changed as well, so that the receiver finds it correct.
        good_crc: bool,
    },
    /// The datagram is lost.
    Drop,
    /// The datagram passes twice.
    Duplicate,
    /// The datagram passes later. Others overtake it.
    Delay(Lateness),
    /// The peers see the socket at another port from now on, as behind a NAT that has forgotten it. Only for sockets from
    /// which the owner connects.
    Rebind,
    /// The connection is refused.
    Refuse,
    /// A call fails with the status of this name.
    Fail(String),
    /// A completion queue breaks down with the status of this name: the queue of the event, or the queues that the stream
    /// feeds.
    BreakQueue(String, Place),
    /// The device is removed.
    RemoveDevice(Place),
}

impl Action {
    /// [`Reset`](Self::Reset) behind the last octet.
    #[must_use]
    pub const fn reset() -> Self {
        Self::Reset(Place::End)
    }

    /// [`Close`](Self::Close) behind the last octet.
    #[must_use]
    pub const fn close() -> Self {
        Self::Close(Place::End)
    }

    /// [`Hold`](Self::Hold) for ever.
    #[must_use]
    pub const fn hold() -> Self {
        Self::Hold(None, Place::End)
    }

    /// [`Hold`](Self::Hold) for a time.
    #[must_use]
    pub const fn hold_for(time: Duration) -> Self {
        Self::Hold(Some(time), Place::End)
    }

    /// [`Flip`](Self::Flip), which leaves the CRC wrong.
    #[must_use]
    pub const fn flip(bit: u32, field: Field) -> Self {
        Self::Flip {
            bit,
            field,
            good_crc: false,
        }
    }

    /// Returns the same action at another place. Actions without a place are unchanged.
    #[must_use]
    pub fn after_octet(mut self, octets: u64) -> Self {
        if let Some(place) = self.place_mut() {
            *place = Place::Octet(octets);
        }
        self
    }

    fn place_mut(&mut self) -> Option<&mut Place> {
        match self {
            Self::Reset(place)
            | Self::Close(place)
            | Self::Hold(_, place)
            | Self::BreakQueue(_, place)
            | Self::RemoveDevice(place) => Some(place),
            _ => None,
        }
    }

    /// The place of the action. Actions without a place have `End`.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            Self::Reset(place)
            | Self::Close(place)
            | Self::Hold(_, place)
            | Self::BreakQueue(_, place)
            | Self::RemoveDevice(place) => *place,
            _ => Place::End,
        }
    }
}

/// One rule of a plan: an event, and the action that is done when it happens.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The event.
    pub(super) event: Event,
    /// The range over which the event is counted.
    pub(super) scope: Scope,
    /// The peer that the event has to concern, if any.
    pub(super) peer: Option<Peer>,
    /// The action.
    pub(super) action: Action,
    /// The place where the rule was read. This is not part of the rule's meaning.
    pub(super) origin: Origin,
}

/// The place where a rule was read, for errors that are found later.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    pub(super) line: usize,
    /// The whole line, which may contain other rules as well.
    pub(super) text: String,
    /// The columns of the names that only the owner knows.
    pub(super) call: usize,
    pub(super) status: usize,
    /// The column of an event that not every owner has.
    pub(super) datagram: usize,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            event,
            scope,
            peer,
            action,
            origin: _,
        } = self;
        (event, scope, peer, action) == (&other.event, &other.scope, &other.peer, &other.action)
    }
}

impl Eq for Rule {}

impl Rule {
    /// Makes a rule that counts on each stream, socket or queue, for all peers.
    #[must_use]
    pub fn new(event: Event, action: Action) -> Self {
        Self {
            event,
            scope: Scope::Each,
            peer: None,
            action,
            origin: Origin::default(),
        }
    }

    /// Changes the range over which events are counted.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Restricts the rule to this peer.
    #[must_use]
    pub fn with_peer(mut self, peer: Peer) -> Self {
        self.peer = Some(peer);
        self
    }

    /// The line of the text, counted from 1. If the plan was not read from text, the number of the rule.
    #[must_use]
    pub fn line(&self) -> usize {
        self.origin.line
    }
}

/// A list of rules, made one by one or read from text.
///
/// ```
/// use iwarp_io::faults::{Action, Direction, Event, Kind, Plan, Rule, Unit, Which};
///
/// let unit = Unit::FpduOf { fpdu: Which::Nth(3), message: Which::Nth(2), kind: Kind::ReadResponse };
/// let rule = Rule::new(Event::Passing(unit, Direction::Sent), Action::reset());
/// let plan = Plan::new().with_rule(rule)?;
/// assert_eq!(plan.to_string(), "when 3rd FPDU of 2nd Read Response sent: reset\n");
/// assert_eq!(plan, plan.to_string().parse()?);
/// # Ok::<(), iwarp_io::faults::PlanError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub(super) rules: Vec<Rule>,
}

impl Plan {
    /// A plan without rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule behind the others.
    ///
    /// # Errors
    ///
    /// The errors of a text: the action does not fit the event, or a number or name is out of range. The error shows the
    /// rule as text.
    pub fn with_rule(mut self, rule: Rule) -> Result<Self, PlanError> {
        let text = rule.to_string();
        let checked: Self = text.parse()?;
        if checked.rules != [rule] {
            let problem = "expected a name of one word that is not a keyword of the language";
            return Err(PlanError::new((1, 1), problem, &text));
        }
        for mut rule in checked.rules {
            rule.origin.line = self.rules.len() + 1;
            self.rules.push(rule);
        }
        Ok(self)
    }

    /// Loads the plan that an environment variable or an argument gives: the text of the plan, or `@` and the name of a
    /// file with the text.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the text is not a plan.
    pub fn load(given: &str) -> Result<Self, LoadError> {
        let (text, path) = match given.strip_prefix('@') {
            None => (given.to_owned(), None),
            Some(path) => match bounded_file::read_text(path) {
                Ok(text) => (text, Some(path.to_owned())),
                Err(error) => {
                    let path = path.to_owned();
                    return Err(LoadError::File { path, error });
                }
            },
        };
        text.parse()
            .map_err(|error| LoadError::Text { path, error })
    }

    /// The rules in their order.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Returns true if the plan has no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Refuses rules about datagrams, for an owner that has none. `expected` names the events that the owner has.
    ///
    /// # Errors
    ///
    /// The first rule about datagrams.
    #[doc(hidden)]
    pub fn check_without_datagrams(&self, expected: &str) -> Result<(), PlanError> {
        let mut rules = self.rules.iter();
        let Some(rule) = rules.find(|rule| matches!(rule.event, Event::Datagram(..))) else {
            return Ok(());
        };
        let Origin {
            line,
            text,
            datagram,
            ..
        } = &rule.origin;
        let problem = format!("expected {expected}, found `datagram`");
        Err(PlanError::new((*line, *datagram), &problem, text))
    }

    /// Lets the owner check the names that only the owner knows: those of calls and of statuses.
    ///
    /// # Errors
    ///
    /// The first name that one of the two functions refuses. The functions return what they expected.
    #[doc(hidden)]
    pub fn check_names(
        &self,
        call: impl Fn(&str) -> Result<(), String>,
        status: impl Fn(&str) -> Result<(), String>,
    ) -> Result<(), PlanError> {
        for rule in &self.rules {
            let Origin { line, text, .. } = &rule.origin;
            let refused = |at, name: &str, expected: String| {
                let problem = format!("expected {expected}, found `{name}`");
                PlanError::new((*line, at), &problem, text)
            };
            if let Event::Call(_, name) = &rule.event {
                call(name).map_err(|expected| refused(rule.origin.call, name, expected))?;
            }
            if let Action::Fail(name) | Action::BreakQueue(name, _) = &rule.action {
                status(name).map_err(|expected| refused(rule.origin.status, name, expected))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    /// The text of the plan, one rule per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules.iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}
