//! Work requests and their completions.

use core::fmt;

use crate::memory::WindowBind;
use crate::rdmap::AtomicOp;
use crate::types::{RemoteAddress, STag, Sge, WindowId};

/// The octets of a request: what a Send or Write sends, or where the response to a Read or Atomic goes.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Registered memory, which is checked when the request's turn comes.
    Sges(&'a [Sge]),
    /// Inline data, copied at once, the pieces one behind the other. Only for Sends and Writes; other requests may have 0
    /// octets of inline data.
    Inline(&'a [&'a [u8]]),
}

impl Payload<'_> {
    /// Returns the number of octets.
    #[inline(always)]
    pub fn octets(&self) -> u64 {
        match self {
            Self::Sges(sges) => sges.iter().map(|sge| u64::from(sge.length)).sum(),
            Self::Inline(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
        }
    }
}

/// The operation of an initiator request. The same value is used from the post to the headers on the wire.
///
/// `D` is the type of the octets. A post names them ([`Payload`]). The queue copies them to the request's slot, and keeps
/// the operation without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<D = ()> {
    /// Send, RFC 5040 section 5.3.
    Send {
        /// The message.
        data: D,
        /// Raise an event at the peer: Send with Solicited Event, RFC 5040 section 5.3.
        solicited: bool,
        /// The peer's STag to invalidate on delivery.
        invalidate: Option<STag>,
    },
    /// Send with four octets that the peer's completion contains. Immediate Data in front of the Send carries them, and takes no Receive.
    /// No standard has this, so the peer has to be [recognized](super::Connection::recognized).
    SendImmediate {
        /// The message.
        data: D,
        /// The four octets.
        number: [u8; 4],
        /// Raise an event at the peer.
        solicited: bool,
    },
    /// RDMA Write, RFC 5040 section 5.1.
    Write {
        /// The data.
        data: D,
        /// Where the data goes.
        remote: RemoteAddress,
    },
    /// RDMA Write with Immediate Data behind it, as one request (RFC 7306 section 6). A Write of no octets is sent too, so that the peer
    /// does not take the Write of an earlier request for that of this one.
    WriteImmediate {
        /// The data.
        data: D,
        /// Where the data goes.
        remote: RemoteAddress,
        /// The octets of the Immediate Data in their order on the wire.
        immediate: [u8; 8],
        /// Raise an event at the peer.
        solicited: bool,
    },
    /// RDMA Read, RFC 5040 section 5.2. Each SGE becomes its own Read on the wire, because a Read Request names one sink (RDMAP-053).
    Read {
        /// Where the data goes, in order.
        sink: D,
        /// Where the data is.
        remote: RemoteAddress,
    },
    /// Eight octets that the peer's client finds in the result of a Receive, RFC 7306 section 6. If the last four are 0, 0, 0, 1, the peer
    /// would take them for the announcement of a Send, unless this side [never](super::Recognition::Never) takes part in announcing: the
    /// request fails with [`WqeStatus::InvalidRequest`], and so does a Write with such octets.
    Immediate {
        /// The octets in their order on the wire.
        data: [u8; 8],
        /// Raise an event at the peer.
        solicited: bool,
    },
    /// An operation on a word of the peer's memory, RFC 7306 section 5. It counts as a Read against the outbound limit
    /// (RDMAPX-006) and for fences.
    Atomic {
        /// The operation on the word.
        op: AtomicOp,
        /// Where the word's old value goes, as this side's processor reads it: one SGE of 8 octets of a Read sink.
        sink: D,
        /// The address of the word, which is aligned to 8 octets in the peer's memory.
        remote: RemoteAddress,
    },
    /// Binds a window. This is local: the wire has no message for a Bind.
    Bind(WindowBind),
    /// Unbinds a window. This is local: the wire has no message for an Invalidate.
    Invalidate(WindowId),
}

impl<D> Operation<D> {
    /// Returns the kind of this request.
    pub const fn kind(&self) -> RequestKind {
        match self {
            Self::Send { .. } | Self::SendImmediate { .. } => RequestKind::Send,
            Self::Write { .. } | Self::WriteImmediate { .. } => RequestKind::Write,
            Self::Read { .. } => RequestKind::Read,
            Self::Immediate { .. } => RequestKind::Immediate,
            Self::Atomic { op, .. } => match op {
                AtomicOp::FetchAdd { .. } => RequestKind::FetchAdd,
                AtomicOp::CompareSwap { .. } => RequestKind::CompareSwap,
            },
            Self::Bind(_) => RequestKind::Bind,
            Self::Invalidate(_) => RequestKind::Invalidate,
        }
    }

    /// Returns true if the request puts nothing on the wire.
    pub const fn is_local(&self) -> bool {
        matches!(self, Self::Bind(_) | Self::Invalidate(_))
    }

    /// Returns true if a response of the peer ends the request. Such a request counts against the outbound limit (RDMAPX-006).
    pub(super) const fn is_answered(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Atomic { .. })
    }

    /// Returns true for a Write, with or without Immediate Data.
    pub(super) const fn is_write(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::WriteImmediate { .. })
    }

    /// Returns true if the request's octets are in the stream. Such a request completes when the transport has taken them (RDMAP-093), or
    /// when it is confirmed ([`StreamConfig::confirmations`](super::StreamConfig::confirmations)).
    pub(super) const fn is_sent(&self) -> bool {
        matches!(
            self,
            Self::Send { .. }
                | Self::SendImmediate { .. }
                | Self::Write { .. }
                | Self::WriteImmediate { .. }
                | Self::Immediate { .. }
        )
    }

    /// Puts the operation into `slot`, and returns its octets separately. Each kind is written by separate code, so that only its own
    /// fields are copied.
    #[inline(always)]
    pub(super) fn store(self, slot: &mut Operation) -> Option<D> {
        match self {
            Self::Send {
                data,
                solicited,
                invalidate,
            } => {
                *slot = Operation::Send {
                    data: (),
                    solicited,
                    invalidate,
                };
                Some(data)
            }
            Self::SendImmediate {
                data,
                number,
                solicited,
            } => {
                *slot = Operation::SendImmediate {
                    data: (),
                    number,
                    solicited,
                };
                Some(data)
            }
            Self::Write { data, remote } => {
                *slot = Operation::Write { data: (), remote };
                Some(data)
            }
            Self::WriteImmediate {
                data,
                remote,
                immediate,
                solicited,
            } => {
                *slot = Operation::WriteImmediate {
                    data: (),
                    remote,
                    immediate,
                    solicited,
                };
                Some(data)
            }
            Self::Read { sink, remote } => {
                *slot = Operation::Read { sink: (), remote };
                Some(sink)
            }
            Self::Atomic { op, sink, remote } => {
                *slot = Operation::Atomic {
                    op,
                    sink: (),
                    remote,
                };
                Some(sink)
            }
            Self::Immediate { data, solicited } => {
                *slot = Operation::Immediate { data, solicited };
                None
            }
            Self::Bind(bind) => {
                *slot = Operation::Bind(bind);
                None
            }
            Self::Invalidate(window) => {
                *slot = Operation::Invalidate(window);
                None
            }
        }
    }
}

impl Operation<Payload<'_>> {
    /// Octets that leave this side when the request is carried out: the payload, or 0 for a Read, an Atomic or a local
    /// request.
    #[inline(always)]
    pub fn octets(&self) -> u64 {
        match *self {
            Self::Send { data, .. } | Self::Write { data, .. } => data.octets(),
            Self::SendImmediate { data, .. } => data.octets() + IMMEDIATE_LEN as u64,
            Self::WriteImmediate {
                data, immediate, ..
            } => data.octets() + immediate.len() as u64,
            Self::Immediate { data, .. } => data.len() as u64,
            Self::Read { .. } | Self::Atomic { .. } | Self::Bind(_) | Self::Invalidate(_) => 0,
        }
    }
}

/// Octets of Immediate Data.
pub(super) const IMMEDIATE_LEN: usize = 8;

/// Immediate Data that comes with a Receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceivedImmediate {
    /// Immediate Data has taken the Receive, and nothing was placed. Its eight octets.
    Alone([u8; 8]),
    /// The Send that has taken the Receive was announced with these four octets ([`Operation::SendImmediate`]).
    OfSend([u8; 4]),
}

/// An initiator request with its context and options.
#[derive(Clone, Copy, Debug)]
pub struct InitiatorWqe<'a> {
    /// Comes back with the completion.
    pub context: u64,
    /// The operation of the request.
    pub operation: Operation<Payload<'a>>,
    /// Success yields no completion.
    pub silent: bool,
    /// Wait until all earlier Reads and Atomics are complete.
    pub fence: bool,
}

/// Why a request was not accepted; the connection is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PostError {
    /// Never started, or disconnected by this side.
    NotConnected,
    /// No free slot: as many requests as the queue has slots are open, or have completions that the client has not taken.
    QueueFull,
    /// More SGEs than the queue was created for.
    TooManySges,
    /// More octets than `max_transfer`, or than `inline` for inline data; or inline data as the place of a response.
    TooLong,
    /// The sink of an Atomic does not have 8 octets.
    WrongLength,
    /// The peer is known not to take [announced Sends](Operation::SendImmediate).
    NotRecognized,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotConnected => "not connected",
            Self::QueueFull => "the queue is full",
            Self::TooManySges => "too many SGEs",
            Self::TooLong => "too many octets",
            Self::WrongLength => "not 8 octets",
            Self::NotRecognized => "the peer does not take Sends with Immediate Data",
        })
    }
}

impl core::error::Error for PostError {}

/// The kind of the request that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// Receive.
    Receive,
    /// Send.
    Send,
    /// Bind.
    Bind,
    /// Invalidate.
    Invalidate,
    /// Read.
    Read,
    /// Write, with or without Immediate Data.
    Write,
    /// Immediate Data, at its sender.
    Immediate,
    /// Atomic that adds ([`AtomicOp::FetchAdd`]).
    FetchAdd,
    /// Atomic that compares and swaps ([`AtomicOp::CompareSwap`]).
    CompareSwap,
}

/// How a request ended. Everything but `Success` ends the connection (RFC 5040 section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WqeStatus {
    /// The request was carried out.
    Success,
    /// Given up because the connection ended or was flushed.
    Flushed,
    /// A local buffer is not registered, too small or lacks the right.
    LocalAccess,
    /// The peer refused access to its memory ([`Class::Protection`](crate::rdmap::Class::Protection)).
    RemoteAccess,
    /// The peer found another fault.
    RemoteError,
    /// The peer does not carry out this Atomic: the word is not aligned to 8 octets in its memory (RDMAPX-010), or the peer has no Atomics.
    RemoteInvalidRequest,
    /// The message was longer than the Receive (RFC 5041 section 7.1).
    ReceiveTooShort,
    /// The request cannot be carried out here: a Read or Atomic with outbound limit 0, a Bind or Invalidate that the
    /// memory refuses, or an announced Send whose peer does not take it.
    InvalidRequest,
    /// The peer had no Receive for the Send ([`Class::NoBuffer`](crate::rdmap::Class::NoBuffer)).
    NoReceive,
    /// The peer ended the stream first. Only on connections whose Receives
    /// [stay](super::Connection::keep_receives) then.
    PeerEnded,
    /// The engine was used against its contract.
    Internal,
}

/// The end of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    /// The request's context.
    pub context: u64,
    /// The kind of the request.
    pub kind: RequestKind,
    /// How the request ended.
    pub status: WqeStatus,
    /// Octets moved. 0 unless the request succeeded. For a Receive that Immediate Data has taken, into which nothing was placed: those
    /// of the Write in front of the Immediate Data. 0 if the peer has sent no Write since the Immediate Data before.
    pub octets: u32,
    /// For a Receive: the message asked for an event.
    pub solicited: bool,
    /// For a Receive: the message invalidated this STag of the receiving side.
    pub invalidated: Option<STag>,
    /// For a Receive that Immediate Data has taken, or an announced Send: the octets.
    pub immediate: Option<ReceivedImmediate>,
    /// For a Bind that did not take effect: the STag that was set aside for it.
    pub failed_bind: Option<STag>,
}
