//! The states of a connector, and the effect of each event in each of them.
//!
//! [`step`] is the table. It is data: an event goes in, the next state and a list of [`Act`]s come out, or the [`Refusal`] of a call.
//!
#![doc = include_str!("../table.md")]

use netdirect::Status;

/// The state of a connector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Made, bound or not, or back here after an attempt that may be repeated.
    #[default]
    Idle,
    /// Waits at a listener for a peer's request.
    Waiting,
    /// Has a peer's request.
    Offered,
    /// The peer of the request has given up before the client decided.
    Gone,
    /// A Connect is under way.
    Connecting,
    /// The peer has accepted, and the client has not completed.
    Answered,
    /// The peer has the answer, and has not completed.
    Accepting,
    /// Connected.
    Connected,
    /// A Disconnect is under way.
    Disconnecting,
    /// Disconnected.
    Disconnected,
    /// Rejected, cancelled, or failed without a possible repetition.
    Dead,
}

impl State {
    /// All states.
    pub const ALL: [Self; 11] = [
        Self::Idle,
        Self::Waiting,
        Self::Offered,
        Self::Gone,
        Self::Connecting,
        Self::Answered,
        Self::Accepting,
        Self::Connected,
        Self::Disconnecting,
        Self::Disconnected,
        Self::Dead,
    ];

    /// Returns true if the connector cannot be used again. It has no peer and no local address any more.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Disconnected | Self::Dead)
    }
}

/// An event at a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    // ---- calls of the client ----
    /// Bind of a connector without an address, or whose last attempt has failed.
    Bind,
    /// Bind of a connector that has an address.
    BindAgain,
    /// GetConnectionRequest with this connector.
    GetConnectionRequest,
    /// Connect.
    Connect,
    /// CompleteConnect. [`Completed`](Self::Completed) or [`CompletionFails`](Self::CompletionFails) follows in the same call.
    CompleteConnect,
    /// Accept.
    Accept,
    /// Reject.
    Reject,
    /// NotifyDisconnect.
    NotifyDisconnect,
    /// Disconnect.
    Disconnect,
    /// CancelOverlappedRequests.
    Cancel,
    /// The client has released its last reference.
    Release,

    // ---- from the listener ----
    /// The wait at the listener has ended without a request.
    WaitEnds,
    /// The listener passes a peer's request to the connector.
    Offer,
    /// Withdraw: the listener takes the request back.
    TakeBack,

    // ---- from the queue pair ----
    /// The client has released the queue pair.
    QueuePairReleased,
    /// The client has flushed the queue pair.
    QueuePairFlushed,
    /// Requests of the queue pair fail, and no end of the connection has explained this yet.
    RequestsFail,

    // ---- from the line ----
    /// The peer has accepted this side's Connect.
    PeerAccepts,
    /// The attempt to connect has failed, with the status of the event.
    AttemptFails,
    /// The client's side of the connection is complete.
    Completed,
    /// CompleteConnect fails, with the status of the event.
    CompletionFails,
    /// The peer has completed the connection, or does not need to.
    PeerCompletes,
    /// Accept fails, with the status of the event.
    AcceptFails,
    /// The peer has ended the connection or has disconnected, or the connection has failed.
    PeerLeaves,
    /// The connection has ended in both directions.
    ConnectionEnds,

    // ---- from the device ----
    /// The device was removed.
    DeviceRemoved,
}

impl Event {
    /// All events.
    pub const ALL: [Self; 26] = [
        Self::Bind,
        Self::BindAgain,
        Self::GetConnectionRequest,
        Self::Connect,
        Self::CompleteConnect,
        Self::Accept,
        Self::Reject,
        Self::NotifyDisconnect,
        Self::Disconnect,
        Self::Cancel,
        Self::Release,
        Self::WaitEnds,
        Self::Offer,
        Self::TakeBack,
        Self::QueuePairReleased,
        Self::QueuePairFlushed,
        Self::RequestsFail,
        Self::PeerAccepts,
        Self::AttemptFails,
        Self::Completed,
        Self::CompletionFails,
        Self::PeerCompletes,
        Self::AcceptFails,
        Self::PeerLeaves,
        Self::ConnectionEnds,
        Self::DeviceRemoved,
    ];
}

/// The status with which a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With ND_SUCCESS.
    Success,
    /// With ND_CANCELED.
    Canceled,
    /// With ND_DEVICE_REMOVED.
    Removed,
    /// With the status of the event.
    Told,
}

/// An action that follows from an event, in order. Requests end when the connector is unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The requests of NotifyDisconnect end with ND_SUCCESS.
    EndNotifications,
    /// The Connect, CompleteConnect, Accept or Disconnect ends.
    EndStateChange(End),
    /// All requests end, in the order in which they were made (OVL-001).
    EndAll(End),
    /// From now on NotifyDisconnect ends at once.
    MarkEnded,
    /// The line gives up the Connect or Accept that is under way.
    GiveUp,
    /// The line rejects a peer that has accepted.
    RejectAnswer,
    /// The line refuses the peer of the request. For Reject, the private data of the call goes with it.
    RefuseRequest,
    /// The line drops the request, whose peer has disconnected.
    DropRequest,
    /// The line is notified that the connection was ended by the peer or by an error.
    PeerHasLeft,
    /// The line ends the connection because the client has flushed its queue pair.
    EndFlushed,
    /// The line ends a connection whose queue pair is released.
    EndReleased,
    /// The Disconnect under way continues, and no client waits for its end.
    LeaveDisconnect,
    /// The client's Disconnect is done: the requests of NotifyDisconnect end with ND_SUCCESS, and then Disconnect does (AMB-033).
    FinishDisconnect,
    /// The line drops everything, because the device was removed.
    ForgetAll,
}

/// The effect of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The next state.
    pub next: State,
    /// The actions that follow.
    pub acts: &'static [Act],
    /// The rows of the requirement catalogue.
    pub row: &'static str,
}

/// The reason why a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the call.
    pub status: Status,
    /// The problem, and the remedy.
    pub what: &'static str,
    /// The next state, which is the old one unless the connector cannot be used any more.
    pub next: State,
    /// The rows of the requirement catalogue.
    pub row: &'static str,
}

const USED: (Status, &str) = (
    Status::INVALID_DEVICE_STATE,
    "the connector was used before; create a new one",
);
const BOUND: (Status, &str) = (
    Status::ADDRESS_ALREADY_ASSOCIATED,
    "the connector is bound already",
);
const IN_USE: (Status, &str) = (Status::CONNECTION_ACTIVE, "the connector is in use");
const ACTIVE: (Status, &str) = (
    Status::CONNECTION_ACTIVE,
    "the connector is connected or connecting",
);
const NO_ANSWER: (Status, &str) = (Status::CONNECTION_INVALID, "no Connect has succeeded here");
const NO_REQUEST: (Status, &str) = (Status::CONNECTION_INVALID, "no request has arrived here");
const NOT_OFFERED: (Status, &str) = (
    Status::CONNECTION_INVALID,
    "the connector neither waits for nor holds a request of this listener",
);
const NOTHING_TO_REJECT: (Status, &str) =
    (Status::CONNECTION_INVALID, "there is nothing to reject");
const NEVER_CONNECTED: (Status, &str) = (
    Status::CONNECTION_INVALID,
    "the connector never was connected",
);
const NOT_CONNECTED: (Status, &str) =
    (Status::CONNECTION_INVALID, "the connector is not connected");
const PEER_GONE: (Status, &str) = (Status::CONNECTION_ABORTED, "the peer has given up");

/// Returns the effect of an event in a state.
///
/// # Errors
///
/// The event is a call that is not allowed in this state.
pub fn step(state: State, event: Event) -> Result<Step, Refusal> {
    use Act::*;
    use State::*;

    let go = |next, acts, row| Ok(Step { next, acts, row });
    let stay = |acts, row| go(state, acts, row);
    let refuse = |(status, what), next, row| {
        Err(Refusal {
            status,
            what,
            next,
            row,
        })
    };
    match (event, state) {
        // ---- calls of the client ----
        (Event::Bind, Idle) => stay(&[], "CONN-004, AMB-034"),
        (Event::Bind | Event::BindAgain, Disconnected | Dead) => refuse(USED, state, "CONN-014"),
        (Event::BindAgain, Idle) => refuse(BOUND, state, "CONN-011"),
        (
            Event::Bind | Event::BindAgain,
            Waiting | Offered | Gone | Connecting | Answered | Accepting | Connected
            | Disconnecting,
        ) => refuse(BOUND, state, "CONN-011"),

        (Event::GetConnectionRequest, Idle) => go(Waiting, &[], "LSTN-024"),
        (Event::GetConnectionRequest, Disconnected | Dead) => refuse(USED, state, "CONN-014"),
        (
            Event::GetConnectionRequest,
            Waiting | Offered | Gone | Connecting | Answered | Accepting | Connected
            | Disconnecting,
        ) => refuse(IN_USE, state, "LSTN-031"),

        (Event::Connect, Idle) => go(Connecting, &[], "CONN-016"),
        (Event::Connect, Disconnected | Dead) => refuse(USED, state, "CONN-014"),
        (
            Event::Connect,
            Waiting | Offered | Gone | Connecting | Answered | Accepting | Connected
            | Disconnecting,
        ) => refuse(ACTIVE, state, "CONN-020"),

        (Event::CompleteConnect, Answered) => stay(&[], "CONN-042"),
        (
            Event::CompleteConnect,
            Idle | Waiting | Offered | Gone | Connecting | Accepting | Connected | Disconnecting
            | Disconnected | Dead,
        ) => refuse(NO_ANSWER, state, "CONN-044"),

        (Event::Accept, Offered) => go(Accepting, &[], "CONN-051"),
        (Event::Accept | Event::Reject, Gone) => refuse(PEER_GONE, Dead, "CONN-055, CONN-071"),
        (Event::Accept, Connecting | Answered | Accepting | Connected) => {
            refuse(ACTIVE, state, "CONN-054")
        }
        (Event::Accept, Idle | Waiting | Disconnecting | Disconnected | Dead) => {
            refuse(NO_REQUEST, state, "CONN-060")
        }

        (Event::Reject, Offered) => go(Dead, &[RefuseRequest], "CONN-068"),
        (Event::Reject, Answered) => go(Dead, &[RejectAnswer], "CONN-074, IW-018"),
        (
            Event::Reject,
            Idle | Waiting | Connecting | Accepting | Connected | Disconnecting | Disconnected
            | Dead,
        ) => refuse(NOTHING_TO_REJECT, state, "CONN-076"),

        (Event::NotifyDisconnect, Connected | Disconnecting | Disconnected) => {
            stay(&[], "CONN-103, CONN-107")
        }
        (
            Event::NotifyDisconnect,
            Idle | Waiting | Offered | Gone | Connecting | Answered | Accepting | Dead,
        ) => refuse(NEVER_CONNECTED, state, "CONN-104"),

        (Event::Disconnect, Connected) => go(Disconnecting, &[], "CONN-109"),
        (
            Event::Disconnect,
            Idle | Waiting | Offered | Gone | Connecting | Answered | Accepting | Disconnecting
            | Disconnected | Dead,
        ) => refuse(NOT_CONNECTED, state, "CONN-112"),

        (Event::Cancel, Connecting | Accepting) => {
            go(Dead, &[GiveUp, EndAll(End::Canceled)], "CONN-052, TST-044")
        }
        (Event::Cancel, Disconnecting) => go(
            Disconnected,
            &[LeaveDisconnect, EndAll(End::Canceled)],
            "CONN-105, OVL-001",
        ),
        (
            Event::Cancel,
            Idle | Waiting | Offered | Gone | Answered | Connected | Disconnected | Dead,
        ) => stay(&[EndAll(End::Canceled)], "CONN-105"),

        (Event::Release, Connecting | Accepting) => {
            go(Dead, &[GiveUp, EndAll(End::Canceled)], "CONN-052")
        }
        (Event::Release, Answered) => go(Dead, &[RejectAnswer], "AMB-004, IW-017"),
        (Event::Release, Offered) => go(Dead, &[RefuseRequest], "MPA-019"),
        (Event::Release, Waiting) => go(Dead, &[], "LSTN-025"),
        (Event::Release, Disconnecting) => go(
            Disconnected,
            &[LeaveDisconnect, EndAll(End::Canceled)],
            "CONN-105",
        ),
        (Event::Release, Idle | Gone | Connected | Disconnected | Dead) => {
            stay(&[EndAll(End::Canceled)], "CONN-105")
        }

        // ---- from the listener ----
        (Event::WaitEnds, Waiting) => go(Idle, &[], "LSTN-025"),
        (Event::Offer, Waiting) => go(Offered, &[], "LSTN-027"),
        (
            Event::WaitEnds | Event::Offer,
            Idle | Offered | Gone | Connecting | Answered | Accepting | Connected | Disconnecting
            | Disconnected | Dead,
        ) => stay(&[], ""),
        (Event::TakeBack, Offered | Gone) => go(Idle, &[], "LSTN-025"),
        (
            Event::TakeBack,
            Idle | Waiting | Connecting | Answered | Accepting | Connected | Disconnecting
            | Disconnected | Dead,
        ) => refuse(NOT_OFFERED, state, "LSTN-025"),

        // ---- from the queue pair ----
        (Event::QueuePairReleased | Event::QueuePairFlushed, Connecting | Accepting) => {
            go(Dead, &[GiveUp, EndAll(End::Canceled)], "CONN-018, CONN-052")
        }
        (Event::QueuePairReleased, Answered) => go(Dead, &[RejectAnswer], "CONN-018"),
        (Event::QueuePairReleased, Connected | Disconnecting) => go(
            Disconnected,
            &[EndNotifications, EndStateChange(End::Canceled), EndReleased],
            "CONN-105, CONN-110, CONN-116",
        ),
        (Event::QueuePairFlushed, Connected) => {
            stay(&[MarkEnded, EndNotifications, EndFlushed], "QP-004")
        }
        (Event::RequestsFail, Connected | Disconnecting) => stay(&[EndNotifications], "CONN-106"),
        (Event::QueuePairReleased, Idle | Waiting | Offered | Gone | Disconnected | Dead)
        | (
            Event::QueuePairFlushed,
            Idle | Waiting | Offered | Gone | Answered | Disconnecting | Disconnected | Dead,
        )
        | (
            Event::RequestsFail,
            Idle | Waiting | Offered | Gone | Connecting | Answered | Accepting | Disconnected
            | Dead,
        ) => stay(&[], ""),

        // ---- from the line ----
        (Event::PeerAccepts, Connecting) => {
            go(Answered, &[EndStateChange(End::Success)], "CONN-065")
        }
        (Event::AttemptFails, Connecting) => go(
            Idle,
            &[EndStateChange(End::Told)],
            "CONN-021 to CONN-024, CONN-033",
        ),
        (Event::Completed, Answered) => go(Connected, &[EndStateChange(End::Success)], "CONN-042"),
        (Event::CompletionFails, Answered) => go(Dead, &[EndStateChange(End::Told)], "CONN-047"),
        (Event::PeerCompletes, Accepting) => {
            go(Connected, &[EndStateChange(End::Success)], "CONN-051")
        }
        (Event::AcceptFails, Accepting) => go(
            Dead,
            &[EndStateChange(End::Told)],
            "CONN-055, CONN-056, CONN-059, CONN-061",
        ),
        (
            Event::PeerAccepts | Event::AttemptFails,
            Idle | Waiting | Offered | Gone | Answered | Accepting | Connected | Disconnecting
            | Disconnected | Dead,
        )
        | (
            Event::Completed | Event::CompletionFails,
            Idle | Waiting | Offered | Gone | Connecting | Accepting | Connected | Disconnecting
            | Disconnected | Dead,
        )
        | (
            Event::PeerCompletes | Event::AcceptFails,
            Idle | Waiting | Offered | Gone | Connecting | Answered | Connected | Disconnecting
            | Disconnected | Dead,
        ) => stay(&[], ""),

        (Event::PeerLeaves | Event::ConnectionEnds, Offered) => {
            go(Gone, &[DropRequest], "CONN-055")
        }
        (Event::PeerLeaves | Event::ConnectionEnds, Answered | Connected) => stay(
            &[MarkEnded, EndNotifications, PeerHasLeft],
            "CONN-102, CONN-106",
        ),
        (Event::ConnectionEnds, Disconnecting) => {
            go(Disconnected, &[FinishDisconnect], "CONN-108, AMB-033")
        }
        (Event::PeerLeaves, Disconnecting) => stay(&[], ""),
        (
            Event::PeerLeaves | Event::ConnectionEnds,
            Idle | Waiting | Gone | Connecting | Accepting | Disconnected | Dead,
        ) => stay(&[], ""),

        // ---- from the device ----
        (
            Event::DeviceRemoved,
            Idle | Waiting | Offered | Gone | Connecting | Answered | Accepting | Connected
            | Disconnecting | Disconnected | Dead,
        ) => go(Dead, &[ForgetAll, EndAll(End::Removed)], "GEN-015"),
    }
}

#[cfg(test)]
mod tests;
