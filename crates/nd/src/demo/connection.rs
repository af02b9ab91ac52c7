//! Operations of both sides of the demo on a connection: send a message, receive one, wait for a request of a kind.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use netdirect::{
    Buffer, CompletionResult, Connector, MrFlags, OpFlags, RemoteAddress, RequestType, Status,
};

use super::script::{CLIENT_LIMITS, blocks};
use crate::errors::{Failure, Result, one_line};
use crate::session::{Depths, Endpoint, Region, Session};

/// Octets of the longest message by which the two sides synchronize. It is long enough for the Sends of step 2.
pub(super) const MESSAGE: usize = 4096;

/// Receives that every connection keeps posted for messages.
const RECEIVES: u32 = 4;

/// A connection with room for messages.
#[derive(Debug)]
pub(super) struct DemoConnection {
    pub(super) endpoint: Endpoint,
    inbox: Region,
    outbox: Region,
    /// Completions of another kind than the current wait is for.
    aside: VecDeque<CompletionResult>,
}

impl DemoConnection {
    /// A queue pair for `connector` that can hold this many further Receives and requests. `first` Receives are posted in front of those
    /// for messages. The contexts of those for messages differ from all others.
    pub(super) fn new(
        session: &Session,
        connector: Arc<dyn Connector>,
        more: u32,
        first: impl FnOnce(&Endpoint) -> Result<()>,
    ) -> Result<Self> {
        let depths = Depths {
            receives: RECEIVES + more,
            initiator: RECEIVES + more,
            initiator_sges: 1,
        };
        let endpoint = session.endpoint(depths, connector)?;
        first(&endpoint)?;
        let connection = Self {
            endpoint,
            inbox: session.register(MESSAGE * RECEIVES as usize, MrFlags::ALLOW_LOCAL_WRITE)?,
            outbox: session.register(MESSAGE, MrFlags::empty())?,
            aside: VecDeque::new(),
        };
        (0..RECEIVES).try_for_each(|slot| connection.receive(slot))?;
        Ok(connection)
    }

    fn part(slot: u32) -> Range<usize> {
        let at = MESSAGE * slot as usize;
        at..at + MESSAGE
    }

    fn receive(&self, slot: u32) -> Result<()> {
        posted(
            self.endpoint
                .qp
                .receive(MAIL | u64::from(slot), &[self.inbox.sge(Self::part(slot))]),
        )
    }

    /// Sends a message and waits for its completion.
    pub(super) fn say(&mut self, message: &[u8]) -> Result<Status> {
        self.outbox.buffer.write(0, message);
        posted(
            self.endpoint
                .qp
                .send(0, &[self.outbox.sge(0..message.len())], OpFlags::empty()),
        )?;
        Ok(self.wait(RequestType::Send)?.status)
    }

    /// Sends a message like `say`, but anything except success is an error.
    pub(super) fn tell(&mut self, message: &[u8]) -> Result<()> {
        expect("send to the other side", self.say(message)?)
    }

    /// Waits for a message.
    pub(super) fn hear(&mut self) -> Result<Vec<u8>> {
        let result = self.wait(RequestType::Receive)?;
        expect("hear from the other side", result.status)?;
        let [.., slot] = result.request_context.to_be_bytes();
        let mut message = vec![0; (result.bytes_transferred as usize).min(MESSAGE)];
        self.inbox
            .buffer
            .read(Self::part(slot.into()).start, &mut message);
        self.receive(slot.into())?;
        Ok(message)
    }

    /// Waits for a message with the address of memory.
    pub(super) fn hear_address(&mut self) -> Result<RemoteAddress> {
        let message = self.hear()?;
        let octets = message.try_into().map_err(|_| out_of_step())?;
        Ok(RemoteAddress::from_bytes(octets))
    }

    /// Waits for one message without content.
    pub(super) fn hear_mark(&mut self) -> Result<()> {
        if self.hear()?.is_empty() {
            Ok(())
        } else {
            Err(out_of_step())
        }
    }

    /// Waits for the next completion of a kind, however it ended.
    pub(super) fn wait(&mut self, kind: RequestType) -> Result<CompletionResult> {
        if let Some(at) = self
            .aside
            .iter()
            .position(|result| result.request_type == kind)
            && let Some(result) = self.aside.remove(at)
        {
            return Ok(result);
        }
        loop {
            let result = self.endpoint.next(format_args!("finish a {kind}"))?;
            if result.request_type == kind {
                return Ok(result);
            }
            self.aside.push_back(result);
        }
    }

    /// Writes a part of a local region to the peer's memory, and waits.
    pub(super) fn write(
        &mut self,
        from: &Region,
        part: Range<usize>,
        to: RemoteAddress,
    ) -> Result<Status> {
        posted(
            self.endpoint
                .qp
                .write(0, &[from.sge(part)], to, OpFlags::empty()),
        )?;
        Ok(self.wait(RequestType::Write)?.status)
    }

    /// Reads from the peer's memory into a part of a local region, and waits.
    pub(super) fn read(
        &mut self,
        into: &Region,
        part: Range<usize>,
        from: RemoteAddress,
    ) -> Result<Status> {
        posted(
            self.endpoint
                .qp
                .read(0, &[into.sge(part)], from, OpFlags::empty()),
        )?;
        Ok(self.wait(RequestType::Read)?.status)
    }

    /// The status with which the next outstanding Receive ends, with the connection gone.
    pub(super) fn flushed(&mut self) -> Result<Status> {
        Ok(self.wait(RequestType::Receive)?.status)
    }

    /// Connects from `local` and completes the connection. Any other result is an error.
    pub(super) fn connect(
        &self,
        local: SocketAddr,
        server: SocketAddr,
        words: &[u8],
    ) -> Result<()> {
        let status = self.endpoint.connect(local, server, CLIENT_LIMITS, words)?;
        expect(&format!("connect to {server}"), status)?;
        expect("complete the connection", self.endpoint.complete_connect()?)
    }
}

/// Marks the contexts of the Receives for messages.
const MAIL: u64 = 1 << 32;

/// Returns an error unless the request was taken.
pub(super) fn posted(result: netdirect::Result<()>) -> Result<()> {
    result.map_err(|error| Failure::nd("post a request", &error))
}

/// Returns an error unless the status is success.
pub(super) fn expect(doing: &str, status: Status) -> Result<()> {
    if status == Status::SUCCESS {
        Ok(())
    } else {
        Err(Failure::status(doing, status))
    }
}

/// Compares a buffer with the pattern of a seed, as `verify` does.
pub(super) fn verify_pattern(what: &str, found: &Buffer, seed: u64) -> Result<u64> {
    blocks(seed, found, |at, expected| {
        let mut block = [0; 4096];
        let block = &mut block[..expected.len()];
        found.read(at, block);
        verify_at(what, at, block, expected)
    })?;
    Ok(found.len() as u64)
}

/// Compares two buffers. Returns the number of octets, or an error if they differ.
pub(super) fn verify(what: &str, found: &[u8], expected: &[u8]) -> Result<u64> {
    verify_at(what, 0, found, expected)?;
    Ok(found.len() as u64)
}

/// Verifies octets that begin at `start` of something longer.
fn verify_at(what: &str, start: usize, found: &[u8], expected: &[u8]) -> Result<()> {
    match found.iter().zip(expected).position(|(a, b)| a != b) {
        None if found.len() == expected.len() => Ok(()),
        None => Err(wrong(format!(
            "{what}: {} bytes instead of {}",
            found.len(),
            expected.len()
        ))),
        Some(at) => Err(wrong(format!(
            "{what}: byte {} is {:#04x} instead of {:#04x}",
            start + at,
            found[at],
            expected[at]
        ))),
    }
}

/// The error for a result that is not as the demo expects.
pub(super) fn wrong(what: impl Into<String>) -> Failure {
    Failure::new(
        what,
        "this is a defect of the adapter or of its driver: run again with -vv and report what it says",
    )
}

fn out_of_step() -> Failure {
    wrong("the two sides of the demo are out of step")
}

/// Private data as text for people.
pub(super) fn quoted(octets: &[u8]) -> String {
    format!(
        "private data \"{}\"",
        one_line(&String::from_utf8_lossy(octets))
    )
}
