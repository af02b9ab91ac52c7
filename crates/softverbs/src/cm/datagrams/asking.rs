//! The side that asks a listener for a queue pair, and repeats its request until it is answered.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use iwarp_io::driver::Driver;
use iwarp_io::faults::Faults;
use iwarp_io::transport::both_ports::ReservedUdp;
use iwarp_io::transport::datagrams::{DatagramOwner, DatagramPort};

use super::message::{CmMessage, MessageKind};

/// The time after which a request is repeated for the first time, which doubles each time, and its limit.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(4);
/// The number of times that a request is sent: without an answer it is given up after 14.3 s.
const ATTEMPTS: u32 = 8;

/// The identifier that asks.
pub(in crate::cm) trait AnswerTaker: Send + Sync + 'static {
    /// A datagram has arrived that may be the answer.
    fn answered(&self, answer: CmMessage);
}

/// Passes what arrives to the identifier.
struct Ear<I>(Weak<I>);

impl<I: AnswerTaker> DatagramOwner for Ear<I> {
    type Deferred = ();

    fn received(&self, _: SocketAddr, _: SocketAddr, octets: &[u8]) -> Option<()> {
        let answer = CmMessage::parse(octets).ok()?;
        self.0.upgrade()?.answered(answer);
        None
    }

    /// The request is repeated anyway.
    fn has_room(&self) {}
}

/// A request that was not answered.
pub(in crate::cm) struct Asking<I: AnswerTaker> {
    port: Arc<DatagramPort<Ear<I>>>,
    #[expect(dead_code, reason = "the port has a weak reference")]
    ear: Arc<Ear<I>>,
    to: SocketAddr,
    nonce: u64,
    octets: Vec<u8>,
    attempts: u32,
}

impl<I: AnswerTaker> Asking<I> {
    /// Prepares a request from a local address to a listener.
    pub(in crate::cm) fn new(
        driver: &Driver,
        (reserved, local): (&ReservedUdp, SocketAddr),
        faults: Option<&Arc<Faults>>,
        to: SocketAddr,
        request: &CmMessage,
        id: Weak<I>,
    ) -> io::Result<Self> {
        let ear = Arc::new(Ear(id));
        let port = DatagramPort::open(
            &driver.environment,
            driver.socket_drivers(),
            reserved,
            local,
            faults,
            Arc::downgrade(&ear),
        )?;
        Ok(Self {
            port,
            ear,
            to,
            nonce: request.nonce,
            octets: request.encode(),
            attempts: 0,
        })
    }

    /// The local address.
    pub(in crate::cm) fn local(&self) -> SocketAddr {
        self.port.local()
    }

    /// Sends the request, again if it was sent before. Returns the time until it has to be repeated; `None` once it was sent often enough.
    ///
    /// # Errors
    ///
    /// The system refuses to send it, because there is no route for example.
    pub(in crate::cm) fn ask(&mut self) -> io::Result<Option<Duration>> {
        if self.attempts == ATTEMPTS {
            return Ok(None);
        }
        match self.port.send(self.to, &self.octets) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let after = FIRST * (1 << self.attempts);
        self.attempts += 1;
        Ok(Some(after.min(LONGEST)))
    }

    /// Returns true if a message is the answer to this request.
    pub(in crate::cm) fn is_answer(&self, message: &CmMessage) -> bool {
        message.nonce == self.nonce && message.kind != MessageKind::Request
    }
}

impl<I: AnswerTaker> Drop for Asking<I> {
    fn drop(&mut self) {
        self.port.close();
    }
}
