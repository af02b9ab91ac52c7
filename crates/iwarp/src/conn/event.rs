//! The events that a connection reports to its owner, and their order.

use super::Fault;
use super::work::Completion;
use crate::rdmap::Terminate;

/// An event of a connection, from [`Connection::poll_event`](super::Connection::poll_event).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request ended.
    Completed(Completion),
    /// The first good FPDU has arrived at a Responder, which may send from now on (RFC 5044 section 7.1.2). This event comes
    /// before a completion that the FPDU causes.
    Ready,
    /// The peer's FIN has arrived behind a whole FPDU (DDP-009). This event comes after the completions of what the peer
    /// sent before, and before the completions that the FIN causes.
    PeerClosed,
    /// This side found an error. The Terminate is queued, and the requests are flushed. What the batch holds, such as
    /// answers to earlier Reads, still has to be sent before the Terminate.
    Fault(Fault),
    /// The peer found an error.
    Terminated(Terminate),
    /// The peer has closed its direction after an error or a disconnect, or the stream was reset. No event follows.
    Ended,
    /// The peer had ended the stream, and now a request of this side has failed because of that. All others come back flushed, Receives
    /// too. Only on connections whose Receives [stay](super::Connection::keep_receives) when the peer ends the stream.
    GaveUp,
    /// An inbound Send has found no Receive and waits for one. [`poll_timeout`](super::Connection::poll_timeout) says until
    /// when. [`is_stalled`](super::Connection::is_stalled) says whether the Send still waits.
    Stalled,
}

/// Connection events by name. Each happens at most once, except for [`Notice::Stalled`], of which at most one is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    Ready,
    PeerClosed,
    Failed,
    Ended,
    Stalled,
    GaveUp,
}

/// A connection event and its place among the completions. Completions before the marks are fetched first.
#[derive(Clone, Copy, Debug)]
struct Pending {
    notice: Notice,
    initiator: u64,
    receive: u64,
}

/// Connection events not yet fetched, at most one of each kind.
#[derive(Debug, Default)]
pub(super) struct Notices {
    list: [Option<Pending>; 6],
    raised: [bool; 6],
}

impl Notices {
    /// Raises `notice` behind the completions before the marks, unless it was raised before.
    pub(super) fn raise(&mut self, notice: Notice, initiator: u64, receive: u64) {
        let raised = &mut self.raised[notice as usize];
        if core::mem::replace(raised, true) {
            return;
        }
        if let Some(free) = self.list.iter_mut().find(|pending| pending.is_none()) {
            *free = Some(Pending {
                notice,
                initiator,
                receive,
            });
        }
    }

    /// The next event, once completions up to its marks have been fetched.
    #[inline]
    pub(super) fn take(&mut self, initiator: u64, receive: u64) -> Option<Notice> {
        let first = self.list[0]?;
        if first.initiator > initiator || first.receive > receive {
            return None;
        }
        self.list[0] = None;
        self.list.rotate_left(1);
        if first.notice == Notice::Stalled {
            self.raised[Notice::Stalled as usize] = false;
        }
        Some(first.notice)
    }
}
