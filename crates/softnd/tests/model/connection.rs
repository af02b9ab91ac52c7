//! The model of one connection: the requests in flight at each end, and the ways in which they may end.

use std::collections::VecDeque;
use std::sync::Arc;

use netdirect::{
    Buffer, CompletionResult, Connector, MemoryWindow, QueuePair, RequestType, Status,
};

use super::memory::{Target, Word};

/// A message that one end has sent, or is going to.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) data: Vec<u8>,
    pub(crate) immediate: Option<[u8; 8]>,
    /// The number of the last Write that was posted before it, to either of the peer's targets.
    pub(crate) behind: u64,
}

/// An initiator request in flight.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) context: u64,
    pub(crate) kind: RequestType,
    pub(crate) silent: bool,
    /// Octets of a Write.
    pub(crate) len: usize,
    pub(crate) effect: Effect,
}

/// The state after a request has ended with success.
#[derive(Debug)]
pub(crate) enum Effect {
    None,
    /// The sink at this place holds these octets.
    Read(usize, Vec<u8>),
    /// The request cannot end with success.
    Refused,
    /// The sink at this place holds the value before Atomic `.2` on the peer's word `.1`.
    Atomic(usize, usize, usize),
    /// The window is bound.
    Bind,
    /// The window is not bound any more.
    Invalidate,
}

/// A Receive in flight.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) context: u64,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// A window over the end's shelf.
pub(crate) struct Shelf {
    pub(crate) window: Arc<dyn MemoryWindow>,
    pub(crate) state: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    No,
    /// The Bind was posted, or the Invalidate.
    Changing,
    Yes,
    /// Bound once, and no longer.
    Stale,
}

/// The requests of a queue that have ended badly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Failed {
    #[default]
    No,
    /// Only those that wait for an answer of the peer.
    Answers,
    All,
}

/// Returns true if the request brings data back.
fn is_answered(kind: RequestType) -> bool {
    [RequestType::Read, RequestType::Atomic].contains(&kind)
}

/// Returns true if the request ends without the peer.
fn is_local(kind: RequestType) -> bool {
    [RequestType::Bind, RequestType::Invalidate].contains(&kind)
}

impl End {
    /// Returns true if its requests show that the connection has ended, and false if they show that it has not; `None` if no request shows
    /// either. A Receive is not left in flight when the connection has ended.
    pub(crate) fn knows_of_loss(&self) -> Option<bool> {
        match self.failed.contains(&Failed::All) {
            true => Some(true),
            false => (self.open && !self.receives.is_empty()).then_some(false),
        }
    }

    /// Returns true if the request ends with an answer of the peer.
    fn waits_for_peer(&self, result: &CompletionResult) -> bool {
        let context = result.request_context;
        let mut requests = self.requests.iter();
        let request = requests.find(|request| request.context == context);
        request.is_some_and(|request| match request.kind {
            RequestType::Write => self.confirms && request.len > 0,
            kind => [RequestType::Read, RequestType::Atomic].contains(&kind),
        })
    }
}

/// One end of a connection.
pub(crate) struct End {
    pub(crate) host: usize,
    pub(crate) qp: Option<Arc<dyn QueuePair>>,
    pub(crate) connector: Option<Arc<dyn Connector>>,
    /// Its completion queues, by their numbers at the host: for initiator requests and for Receives.
    pub(crate) queues: [usize; 2],
    /// The shared receive queue of its queue pair, by its place at the host.
    pub(crate) shared: Option<usize>,
    /// The context of the last shared Receive that completed at this end.
    pub(crate) drawn: u64,
    /// This end has ended the connection, if there was one. Flush alone does not: Disconnect has to follow.
    pub(crate) left: bool,
    /// Requests may be posted.
    pub(crate) open: bool,
    pub(crate) requests: VecDeque<Request>,
    pub(crate) receives: VecDeque<Receive>,
    pub(crate) receives_posted: usize,
    pub(crate) said: Vec<Message>,
    /// Messages of the peer that were received well.
    pub(crate) heard: usize,
    /// Writes that this end has posted.
    pub(crate) writes: u64,
    /// The memory that the peer writes to, by the region's token and by the window's.
    pub(crate) targets: [Target; 2],
    pub(crate) words: [Word; 2],
    pub(crate) shelf: Option<Shelf>,
    /// Initiator requests, and Receives, have ended badly: those that follow are flushed.
    pub(crate) failed: [Failed; 2],
    /// Its Writes end when the peer has placed them.
    pub(crate) confirms: bool,
    /// The request of NotifyDisconnect among the run's controls, that was posted last.
    pub(crate) notification: Option<usize>,
    /// A call at this end has ended requests: Disconnect, Flush, a cancel, a release, or the removal of its device.
    pub(crate) acted: bool,
}

pub(crate) struct Connection {
    /// The active end and the passive one.
    pub(crate) ends: [End; 2],
    /// The reason why requests may end badly, once there was a call or an event with that effect.
    pub(crate) disturbed: Option<&'static str>,
    /// Something else than the network may have ended the connection.
    pub(crate) called: bool,
}

/// The reason for requests that end badly because of the network.
pub(crate) const NETWORK: &str = "the network";

impl Connection {
    pub(crate) fn disturb(&mut self, why: &'static str) {
        self.disturbed.get_or_insert(why);
        self.called |= why != NETWORK;
    }

    /// A result has arrived for one of the ends. `memory` is that of this end and of its peer.
    pub(crate) fn ended(&mut self, at: usize, result: &CompletionResult, memory: [&Buffer; 2]) {
        trace!("end {at} {result:?}");
        let kind = result.request_type;
        let status = result.status;
        assert!(kind.allows(status), "{kind} ended with {status}");
        assert!(
            status == Status::SUCCESS || self.disturbed.is_some(),
            "{kind} ended with {status} although nothing was done to its connection"
        );
        let receive = kind == RequestType::Receive;
        let end = &mut self.ends[at];
        let failed = end.failed[usize::from(receive)];
        let success = status == Status::SUCCESS;
        let fits = match failed {
            Failed::No => true,
            // Requests sent behind a Read have ended when their octets were sent, whatever the outcome of the Read. The peer may have
            // refused a later Write, and so have reported that it has placed those before it.
            Failed::Answers => !success || !is_answered(kind),
            // Local requests do not wait until the requests before them have been sent.
            Failed::All => status == Status::CANCELED || success && is_local(kind),
        };
        assert!(
            fits,
            "{kind} {} ended with {status} behind one that has failed; {:?}",
            result.request_context, self.disturbed
        );
        if !success {
            let answer = end.waits_for_peer(result);
            let failed = &mut end.failed[usize::from(receive)];
            *failed = if answer && *failed != Failed::All {
                Failed::Answers
            } else {
                Failed::All
            };
        }
        if receive {
            self.received(at, result, memory[at]);
        } else {
            self.carried_out(at, result, memory);
        }
    }

    fn received(&mut self, at: usize, result: &CompletionResult, memory: &Buffer) {
        let [active, passive] = &mut self.ends;
        let (end, peer) = if at == 0 {
            (active, passive)
        } else {
            (passive, active)
        };
        let receive = end.receives.pop_front();
        let receive = receive.expect("a result without a Receive");
        assert_eq!(
            result.request_context, receive.context,
            "Receives end in the order in which they were posted"
        );
        if result.status != Status::SUCCESS {
            return;
        }
        let message = peer.said.get(end.heard);
        let message = message.expect("a Receive has ended well that no message has come for");
        end.heard += 1;
        assert_eq!(
            result.immediate.and_then(netdirect::Immediate::eight),
            message.immediate
        );
        assert_eq!(result.bytes_transferred as usize, message.data.len());
        assert!(
            message.data.len() <= receive.len,
            "more than the Receive holds"
        );
        let mut found = vec![0; message.data.len()];
        memory.read(receive.at, &mut found);
        assert_eq!(found, message.data, "message {}", end.heard - 1);
        let behind = message.behind;
        for target in &mut end.targets {
            target.placed(behind, memory);
        }
    }

    fn carried_out(&mut self, at: usize, result: &CompletionResult, memory: [&Buffer; 2]) {
        loop {
            let request = self.ends[at].requests.pop_front();
            let request = request.expect("a result without a request");
            let own = request.context == result.request_context;
            assert!(
                own || request.silent,
                "{} {} has no result, the next one has",
                request.kind,
                request.context
            );
            if own {
                assert_eq!(result.request_type, request.kind);
                if result.status == Status::SUCCESS {
                    assert!(
                        !request.silent,
                        "a silent request has ended well, and aloud"
                    );
                    self.take_effect(at, &request.effect, memory);
                }
                return;
            }
            // Requests end in order, so that the result of a later request shows that this request succeeded.
            self.take_effect(at, &request.effect, memory);
        }
    }

    fn take_effect(&mut self, at: usize, effect: &Effect, memory: [&Buffer; 2]) {
        let own = memory[at];
        match effect {
            Effect::None => {}
            Effect::Refused => panic!("a Read through a window that is not bound has ended well"),
            Effect::Read(sink, octets) => {
                let mut found = vec![0; octets.len()];
                own.read(*sink, &mut found);
                assert_eq!(found, *octets, "what a Read has fetched");
            }
            Effect::Atomic(sink, word, number) => {
                let mut found = [0; 8];
                own.read(*sink, &mut found);
                let word = &mut self.ends[1 - at].words[*word];
                word.done(*number, u64::from_ne_bytes(found));
            }
            Effect::Bind => self.set_shelf(at, Bound::Yes),
            Effect::Invalidate => self.set_shelf(at, Bound::Stale),
        }
    }

    fn set_shelf(&mut self, at: usize, state: Bound) {
        if let Some(shelf) = &mut self.ends[at].shelf {
            shelf.state = state;
        }
    }

    /// Checks that nothing is in flight any more, and that nothing has disturbed the connection. An end that is starved has no Receives for
    /// all messages.
    pub(crate) fn check_quiet(&mut self, memory: [&Buffer; 2], starved: [bool; 2]) {
        if self.waits_for_good(starved) {
            return self.check_memory(memory);
        }
        for at in [0, 1] {
            let writes = self.ends[1 - at].writes;
            let said = self.ends[1 - at].said.len();
            let end = &mut self.ends[at];
            for request in &end.requests {
                assert!(
                    request.silent,
                    "{} {} has not ended",
                    request.kind, request.context
                );
            }
            assert_eq!(end.heard, said, "messages that have come");
            for target in &mut end.targets {
                target.placed(writes, memory[at]);
            }
        }
        self.check_memory(memory);
    }

    /// Returns true if messages wait for Receives that never come. Messages sent behind them wait as well.
    fn waits_for_good(&self, starved: [bool; 2]) -> bool {
        let [active, passive] = &self.ends;
        starved[0] && active.heard < passive.said.len()
            || starved[1] && passive.heard < active.said.len()
    }

    pub(crate) fn check_memory(&self, memory: [&Buffer; 2]) {
        for (end, memory) in self.ends.iter().zip(memory) {
            for target in &end.targets {
                target.check(memory);
            }
            for word in &end.words {
                word.check(memory);
            }
        }
    }
}
