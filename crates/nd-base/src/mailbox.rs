//! A connection on which both sides exchange small Sends, one at a time and in turns.

use std::sync::Arc;
use std::time::Duration;

use netdirect::{CompletionResult, Connector, MrFlags, OpFlags, RequestType, Status};

use crate::errors::{Failure, Result};
use crate::session::{Depths, Endpoint, Region, Session};

/// Receives that are posted. There are several because the peer's next message may come before this side has handled the
/// last one.
const RECEIVES: u32 = 4;

/// Room for a message. It is larger than any expected message, so that an error can name the length of an unexpected one.
const ROOM: usize = 1024;

/// One end of such a connection.
#[derive(Debug)]
pub struct Mailbox {
    /// The connection.
    pub endpoint: Endpoint,
    inbox: Region,
    outbox: Region,
    taken: Vec<CompletionResult>,
}

impl Mailbox {
    /// The objects of a connection, with the Receives posted. Besides Sends, one more request may be outstanding.
    pub fn new(session: &Session, connector: Arc<dyn Connector>) -> Result<Self> {
        let depths = Depths {
            receives: RECEIVES,
            initiator: 2,
            initiator_sges: 1,
        };
        let mailbox = Self {
            endpoint: session.endpoint(depths, connector)?,
            inbox: session.register(ROOM * RECEIVES as usize, MrFlags::ALLOW_LOCAL_WRITE)?,
            outbox: session.register(ROOM, MrFlags::empty())?,
            taken: Vec::new(),
        };
        (0..RECEIVES).try_for_each(|slot| mailbox.post(slot.into()))?;
        Ok(mailbox)
    }

    fn post(&self, slot: u64) -> Result<()> {
        let from = place(slot);
        let posted = self
            .endpoint
            .qp
            .receive(slot, &[self.inbox.sge(from..from + ROOM)]);
        posted.map_err(|error| match error.status() {
            Status::CONNECTION_INVALID => self.lost("wait for the other side"),
            _ => Failure::nd("post a Receive", &error),
        })
    }

    /// Sends a message, and waits until it was sent.
    pub fn send(&mut self, message: &[u8], doing: &str) -> Result<()> {
        self.outbox.buffer.write(0, message);
        let part = [self.outbox.sge(0..message.len())];
        let posted = self.endpoint.qp.send(0, &part, OpFlags::empty());
        self.done(posted, RequestType::Send, doing)
    }

    /// Waits until the only outstanding request of its kind succeeds.
    pub fn done(
        &mut self,
        posted: netdirect::Result<()>,
        kind: RequestType,
        doing: &str,
    ) -> Result<()> {
        posted.map_err(|error| match error.status() {
            Status::CONNECTION_INVALID => self.lost(doing),
            _ => Failure::nd(doing, &error),
        })?;
        match self.next(kind, doing)?.status {
            Status::SUCCESS => Ok(()),
            Status::CANCELED => Err(self.lost(doing)),
            status => Err(self.endpoint.failure(doing, status)),
        }
    }

    /// The peer's next message, or `None` if the peer has ended the connection instead.
    pub fn receive(&mut self, doing: &str) -> Result<Option<Vec<u8>>> {
        let result = self.next(RequestType::Receive, doing)?;
        self.take(result, doing)
    }

    /// Receives as before, but silence is not a failure as long as `goes_on` returns no error. `goes_on` is called from time to time.
    pub fn receive_while(
        &mut self,
        doing: &str,
        mut goes_on: impl FnMut() -> Result<()>,
    ) -> Result<Option<Vec<u8>>> {
        const NOW_AND_THEN: Duration = Duration::from_millis(100);
        loop {
            if self.holds_receive() {
                return self.receive(doing);
            }
            match self.endpoint.next_within(NOW_AND_THEN)? {
                Some(result) => self.taken.push(result),
                None => match goes_on() {
                    Ok(()) => {}
                    // The peer's last message may have arrived meanwhile.
                    Err(_) if self.has_word() => {}
                    Err(failure) => return Err(failure),
                },
            }
        }
    }

    /// Returns true if a message of the peer has arrived that was not handled yet.
    pub fn has_word(&mut self) -> bool {
        while let Some(result) = self.endpoint.poll() {
            self.taken.push(result);
        }
        let mut taken = self.taken.iter();
        taken.any(|taken| {
            taken.request_type == RequestType::Receive && taken.status == Status::SUCCESS
        })
    }

    /// The failure of a call or request after the end of the connection.
    fn lost(&self, doing: &str) -> Failure {
        self.endpoint.cut_off(doing, || lost(doing))
    }

    fn holds_receive(&self) -> bool {
        let mut taken = self.taken.iter();
        taken.any(|taken| taken.request_type == RequestType::Receive)
    }

    fn take(&self, result: CompletionResult, doing: &str) -> Result<Option<Vec<u8>>> {
        match result.status {
            Status::SUCCESS => {}
            Status::CANCELED => return Ok(None),
            status => return Err(self.endpoint.failure(doing, status)),
        }
        let mut message = vec![0; result.bytes_transferred as usize];
        self.inbox
            .buffer
            .read(place(result.request_context), &mut message);
        self.post(result.request_context)?;
        Ok(Some(message))
    }

    /// The next completion of the kind. Completions of Sends and Receives come in either order.
    fn next(&mut self, kind: RequestType, doing: &str) -> Result<CompletionResult> {
        let of_kind = |result: &CompletionResult| result.request_type == kind;
        if let Some(found) = self.taken.iter().position(of_kind) {
            return Ok(self.taken.remove(found));
        }
        loop {
            let result = self.endpoint.next(doing)?;
            if of_kind(&result) {
                return Ok(result);
            }
            self.taken.push(result);
        }
    }
}

/// The offset of the slot's message.
fn place(slot: u64) -> usize {
    usize::try_from(slot).unwrap_or_default() * ROOM
}

/// The peer is gone.
pub fn lost(doing: &str) -> Failure {
    Failure::peer(
        format!("cannot {doing}: the other side has ended the connection"),
        "look at what it says",
    )
}
