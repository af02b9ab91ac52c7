//! A connection: the model of its two sides.

use std::sync::Arc;
use std::time::Duration;

use softverbs::{CmEventKind, CmId};

use crate::end::End;

/// The phase of an identifier as far as its program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    AddrResolved,
    RouteResolved,
    Connecting,
    /// The peer has accepted, and the program has not completed the connection.
    Answered,
    Offered,
    /// The program has accepted, and the connection is not established.
    Accepting,
    Connected,
    /// The program has learned that the peer has given up its request.
    Gone,
    /// Rejected or failed.
    Over,
}

/// One side of a connection.
pub(crate) struct Side {
    pub(crate) host: usize,
    pub(crate) device: usize,
    pub(crate) channel: usize,
    /// `None` before the identifier is made, and once it is destroyed.
    pub(crate) id: Option<Arc<CmId>>,
    pub(crate) is_destroyed: bool,
    pub(crate) phase: Phase,
    /// The event that answers the last call.
    pub(crate) awaits: Option<CmEventKind>,
    pub(crate) end: Option<End>,
    pub(crate) established: u32,
    pub(crate) ended: u32,
    pub(crate) failed: u32,
    pub(crate) timewaits: u32,
    /// The program has called `rdma_disconnect`.
    pub(crate) has_disconnected: bool,
    /// The time limit of an acknowledgement and the numbers of retries.
    pub(crate) ack_timeout: Option<u8>,
    pub(crate) retries: [u8; 2],
    pub(crate) last_receives: u32,
}

impl Side {
    pub(crate) fn new(host: usize, device: usize, channel: usize, phase: Phase) -> Self {
        Self {
            host,
            device,
            channel,
            id: None,
            is_destroyed: false,
            phase,
            awaits: None,
            end: None,
            established: 0,
            ended: 0,
            failed: 0,
            timewaits: 0,
            has_disconnected: false,
            ack_timeout: None,
            retries: [0; 2],
            last_receives: 0,
        }
    }

    /// The attempt has failed.
    pub(crate) fn fail(&mut self) {
        assert_eq!((self.established, self.failed), (0, 0), "one outcome");
        self.failed = 1;
        self.phase = Phase::Over;
    }

    /// The connection is established.
    pub(crate) fn establish(&mut self) {
        assert_eq!((self.established, self.failed), (0, 0), "one outcome");
        self.established = 1;
        self.phase = Phase::Connected;
    }
}

/// The answer of the server's program.
pub(crate) enum Answer {
    Accepted(Vec<u8>, Duration),
    Rejected(Vec<u8>),
}

/// A connection: the client's side, then the server's.
pub(crate) struct Connection {
    pub(crate) listener: usize,
    pub(crate) sides: [Side; 2],
    /// The private data of the request, and when it was sent.
    pub(crate) request: Option<(Vec<u8>, Duration)>,
    /// The server's program has received the request.
    pub(crate) has_arrived: bool,
    pub(crate) answer: Option<Answer>,
    /// The client's program never completes the connection that was accepted.
    pub(crate) withholds: bool,
    /// The attempt to connect may fail: a program has given up, or the network is disturbed.
    pub(crate) may_fail: bool,
    /// The network may end the connection.
    pub(crate) may_break: bool,
    /// A program has ended the connection.
    pub(crate) is_over: bool,
}

impl Connection {
    /// A program gives up its side, or the connection.
    pub(crate) fn give_up(&mut self) {
        self.may_fail = true;
        self.is_over = true;
    }

    /// Returns true if the client's request may take up a place in the backlog.
    pub(crate) fn may_wait(&self) -> bool {
        let is_refused = self.sides[0].failed > 0 && !self.may_fail;
        self.request.is_some() && !self.has_arrived && !is_refused
    }
}
