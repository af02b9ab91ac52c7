//! The connection between the two sides: sends and receives messages, and reports blocks that are done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netdirect::{
    AdapterInfo, CompletionResult, Connector, MrFlags, OpFlags, RequestType, Sge, Status,
};

use super::protocol::{HEADER, MAX_BLOCK, MAX_MESSAGE, MAX_RING, Message, Shape};
use crate::errors::{Failure, Result, one_line};
use crate::session::{Deadline, Depths, Endpoint, Region, Session};

/// Receives posted beyond one per slot: for `End` or `Verdict`, and for `Abort`.
const SPARE: u32 = 2;

/// Messages without a block that may be on their way at once, beyond one per slot.
const CONTROL_MESSAGES: u32 = 4;

/// Octets for the header in front of a block, more than it needs.
const ROOM: u32 = 256;

/// How long a peer may take to hear why this side gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Marks the context of a Send that concerns a block.
const BLOCK: u64 = 1 << 32;

/// An event on the connection.
#[derive(Debug)]
pub(super) enum Event {
    /// A message has arrived, in this Receive. If the message carries data, the Receive has to be posted again with [`Connection::again`].
    /// Otherwise it was posted again already.
    Message(Message, u32),
    /// The Send about the block in this slot has succeeded.
    Sent(u32),
    /// The Read into this slot has succeeded.
    Read(u32),
}

/// One side's end of the connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) endpoint: Endpoint,
    /// Receives, each of `stride` octets.
    receives: Region,
    stride: usize,
    /// Messages without a block.
    control: Region,
    idle: Vec<u32>,
    /// Completions that were taken during a wait for a free slot in `control`.
    stash: VecDeque<CompletionResult>,
}

/// The largest shape that this adapter can serve and that this program wants.
pub(super) fn shape(info: &AdapterInfo) -> Shape {
    let block = info
        .max_transfer_length
        .saturating_sub(ROOM)
        .clamp(1, 256 << 10)
        .min(MAX_BLOCK);
    // Per slot: a Write and a Send, a Receive, and an entry of the completion queue for each of them.
    let queues = [
        info.max_receive_queue_depth.saturating_sub(SPARE),
        info.max_initiator_queue_depth
            .saturating_sub(CONTROL_MESSAGES)
            / 2,
        info.max_completion_queue_depth
            .saturating_sub(SPARE + CONTROL_MESSAGES)
            / 3,
    ];
    let room = u32::try_from(MAX_RING / u64::from(block)).unwrap_or(u32::MAX);
    let blocks = queues.into_iter().fold(room.min(16), u32::min).max(1);
    Shape { block, blocks }
}

impl Connection {
    /// The objects of a connection whose peer uses `shape.blocks` slots, with the Receives posted. With `data`, messages
    /// carry data.
    pub(super) fn new(
        session: &Session,
        connector: Arc<dyn Connector>,
        shape: Shape,
        data: bool,
    ) -> Result<Self> {
        let receives = shape.blocks + SPARE;
        let outgoing = shape.blocks + CONTROL_MESSAGES;
        let depths = Depths {
            receives,
            initiator: outgoing + shape.blocks,
            initiator_sges: 2,
        };
        let endpoint = session.endpoint(depths, connector)?;
        let stride = if data {
            (HEADER + shape.block as usize).max(MAX_MESSAGE)
        } else {
            MAX_MESSAGE
        };
        let connection = Self {
            endpoint,
            receives: session.register(stride * receives as usize, MrFlags::ALLOW_LOCAL_WRITE)?,
            stride,
            control: session.register(MAX_MESSAGE * outgoing as usize, MrFlags::empty())?,
            idle: (0..outgoing).collect(),
            stash: VecDeque::new(),
        };
        for receive in 0..receives {
            connection.again(receive)?;
        }
        Ok(connection)
    }

    /// Posts a Receive once more.
    pub(super) fn again(&self, receive: u32) -> Result<()> {
        let from = self.stride * receive as usize;
        self.endpoint
            .qp
            .receive(
                receive.into(),
                &[self.receives.sge(from..from + self.stride)],
            )
            .map_err(|error| Failure::nd("post a Receive", &error))
    }

    /// Copies the block of a data message out of its Receive.
    pub(super) fn read_block(&self, receive: u32, into: &mut [u8]) {
        self.receives
            .buffer
            .read(self.stride * receive as usize + HEADER, into);
    }

    /// Sends a message that concerns no block of this side.
    pub(super) fn send(&mut self, message: &Message) -> Result<()> {
        let slot = self.control_slot()?;
        let octets = message.encode();
        let at = MAX_MESSAGE * slot as usize;
        self.control.buffer.write(at, &octets);
        self.post_send(slot.into(), &[self.control.sge(at..at + octets.len())])
    }

    /// Sends `parts`, about the block in `slot`. [`Event::Sent`] reports when `parts` can be used again.
    pub(super) fn send_block(&self, slot: u32, parts: &[Sge]) -> Result<()> {
        self.post_send(BLOCK | u64::from(slot), parts)
    }

    fn post_send(&self, context: u64, parts: &[Sge]) -> Result<()> {
        self.endpoint
            .qp
            .send(context, parts, OpFlags::empty())
            .map_err(|error| Failure::nd("send to the other side", &error))
    }

    /// A free slot in `control`. There are more slots than outstanding messages, but an adapter may report completions
    /// late.
    fn control_slot(&mut self) -> Result<u32> {
        loop {
            if let Some(slot) = self.idle.pop() {
                return Ok(slot);
            }
            let result = self.endpoint.next("send to the other side")?;
            if !self.reclaim(&result) {
                self.stash.push_back(result);
            }
        }
    }

    /// Frees the slot of a message without a block that was sent.
    fn reclaim(&mut self, result: &CompletionResult) -> bool {
        let done = result.request_type == RequestType::Send
            && result.status == Status::SUCCESS
            && result.request_context & BLOCK == 0;
        if done {
            self.idle.push(low(result.request_context));
        }
        done
    }

    /// Waits for the next event. `doing` goes into the error if none comes.
    pub(super) fn event(&mut self, doing: &str) -> Result<Event> {
        loop {
            let result = match self.stash.pop_front() {
                Some(result) => result,
                None => self.endpoint.next(doing)?,
            };
            if result.status != Status::SUCCESS {
                return Err(self.broken(&result, doing));
            }
            if self.reclaim(&result) {
                continue;
            }
            let slot = low(result.request_context);
            match result.request_type {
                RequestType::Receive => return self.message(&result),
                RequestType::Read => return Ok(Event::Read(slot)),
                RequestType::Send => return Ok(Event::Sent(slot)),
                _ => {}
            }
        }
    }

    fn message(&self, result: &CompletionResult) -> Result<Event> {
        let receive = low(result.request_context);
        let message = self
            .peek(result)
            .ok_or_else(|| violation("sent a message that is none"))?;
        match message {
            Message::Abort(text) => Err(gave_up(&text)),
            Message::Data(_) => Ok(Event::Message(message, receive)),
            _ => {
                self.again(receive)?;
                Ok(Event::Message(message, receive))
            }
        }
    }

    fn peek(&self, result: &CompletionResult) -> Option<Message> {
        let total = result.bytes_transferred;
        let mut octets = vec![0; (total as usize).min(MAX_MESSAGE).min(self.stride)];
        self.receives.buffer.read(
            self.stride * low(result.request_context) as usize,
            &mut octets,
        );
        Message::decode(&octets, total)
    }

    /// The reason of a failed request: the peer's abort if one has arrived, otherwise the end of the connection.
    fn broken(&mut self, failed: &CompletionResult, doing: &str) -> Failure {
        if let Some(text) = self.last_words(failed) {
            return gave_up(&text);
        }
        if failed.status == Status::CANCELED {
            return self.endpoint.cut_off(doing, || {
                let what = format!(
                    "cannot {doing}: the other side ended the connection before the file was complete"
                );
                Failure::peer(what, "look at what the other side says, and try again")
            });
        }
        if failed.request_type == RequestType::Receive && failed.status == Status::ACCESS_VIOLATION
        {
            return Failure::unexplained_receive(doing).by_peer();
        }
        self.endpoint.failure(doing, failed.status).by_peer()
    }

    /// The peer's abort, if it is among the completions before the first Receive that was flushed.
    fn last_words(&mut self, failed: &CompletionResult) -> Option<String> {
        const LINGER: Duration = Duration::from_millis(500);
        let deadline = Instant::now() + LINGER;
        let mut result = *failed;
        loop {
            if result.request_type == RequestType::Receive {
                if result.status != Status::SUCCESS {
                    return None;
                }
                if let Some(Message::Abort(text)) = self.peek(&result) {
                    return Some(text);
                }
            }
            result = match self.stash.pop_front() {
                Some(result) => result,
                None => self
                    .endpoint
                    .next_within(deadline.saturating_duration_since(Instant::now()))
                    .ok()??,
            };
        }
    }

    /// Sends the peer the reason why this side gives up, if that is still possible, and disconnects.
    pub(super) fn abandon(&mut self, failure: &Failure) {
        self.abandon_by(failure, Deadline::after(PATIENCE));
    }

    /// Abandons the connection like `abandon`, and gives up when the time is over.
    pub(super) fn abandon_by(&mut self, failure: &Failure, deadline: Deadline) {
        if failure.is_ours()
            && !self.idle.is_empty()
            && self.send(&Message::Abort(failure.what())).is_ok()
        {
            self.drain(deadline.left()); // or Disconnect would flush the message
        }
        // The connection may have ended already, so an error changes nothing.
        let _ = self.endpoint.disconnect_within(deadline.left());
    }

    /// Waits until every message without a block has been sent, but not longer than `limit`.
    pub(super) fn drain(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.idle.len() < self.control.buffer.len() / MAX_MESSAGE {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.endpoint.next_within(left) {
                Ok(Some(result)) if result.status == Status::SUCCESS => {
                    self.reclaim(&result);
                }
                _ => return,
            }
        }
    }
}

fn gave_up(text: &str) -> Failure {
    Failure::peer(
        format!("the other side gave up: {}", one_line(text)),
        "correct that on the other side and try again",
    )
}

/// The error for a peer that breaks the rules of the protocol.
pub(super) fn violation(what: &str) -> Failure {
    Failure::new(
        format!("the other side {what}"),
        "check that both sides run the same version of nd",
    )
}

/// The slot in a request's context.
fn low(context: u64) -> u32 {
    let [.., a, b, c, d] = context.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}
