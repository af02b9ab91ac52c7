//! The side that listens, Reads the client's buffer, and Writes what it has read into the other one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netdirect::{Listener, MrFlags, OpFlags, ReadLimits, RequestType};

use super::args::{RpingArgs, SERVER_SIZE};
use super::exchange::{Advert, MESSAGE, READS, pattern};
use super::pings::Pings;
use crate::admission::{Admission, Bounds, PendingPeer};
use crate::errors::{Failure, Result};
use crate::mailbox::{Mailbox, lost};
use crate::memory;
use crate::output;
use crate::peer;
use crate::session::{Region, Request, Session, Setup};

/// How long the client may take to disconnect after the last ping that this side was to serve.
const PARTING: Duration = Duration::from_secs(5);

/// The connection, and the buffer that pings pass through.
#[derive(Debug)]
struct Server {
    mailbox: Mailbox,
    buffer: Region,
    size: u32,
    validate: bool,
    peer: SocketAddr,
}

/// Takes the first client that speaks rping's exchange, and serves it until it disconnects or `-C` pings are done.
pub(super) fn run(
    args: &RpingArgs,
    setup: &Setup,
    addresses: &[SocketAddr],
    pings: &mut Pings,
) -> Result<()> {
    let (session, listener, address) = peer::listen(setup, addresses)?;
    let session = Arc::new(session);
    output::line(setup.listening(address))?;
    let Client {
        mailbox,
        peer,
        advert,
    } = first_client(&session, listener, args.peer.timeout)?;
    let size = args.size.unwrap_or(SERVER_SIZE);
    let flags = MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK;
    let mut server = Server {
        mailbox,
        buffer: session.register(size as usize, flags)?,
        size,
        validate: args.validate,
        peer,
    };
    pings.begin();
    let mut first = Some(advert);
    while pings.more() {
        if !server.serve(pings, first.take())? {
            return Ok(());
        }
    }
    server.mailbox.endpoint.wait_for_end(PARTING);
    // All pings are done, so an error of the disconnect makes no difference.
    drop(server.mailbox.endpoint.disconnect());
    Ok(())
}

/// A client that has described its first buffer.
struct Client {
    mailbox: Mailbox,
    peer: SocketAddr,
    advert: Advert,
}

/// Waits for the first client that is admitted. All others are then turned away at once.
fn first_client(
    session: &Arc<Session>,
    listener: Arc<dyn Listener>,
    limit: Duration,
) -> Result<Client> {
    let greeter = Arc::clone(session);
    let greet = move |request: Request, pending: &PendingPeer<Client>| {
        let mut mailbox = Mailbox::new(&greeter, Arc::clone(&request.connector))?;
        if request.limits.outbound == 0 {
            // A failure to inform the client is no new failure.
            let _ = request.connector.reject(&[]);
            return Err(Failure::new(
                "it does not allow Reads",
                "check that rping or `nd rping` runs there",
            ));
        }
        let limits = ReadLimits {
            inbound: READS,
            outbound: READS,
        };
        pending.accept(&mut mailbox.endpoint, limits, &[])?;
        let doing = "hear of the first ping";
        let message = mailbox.receive(doing)?.ok_or_else(|| lost(doing))?;
        mailbox.endpoint.set_deadline(None);
        pending.admit(Client {
            mailbox,
            peer: pending.peer,
            advert: Advert::decode(&message)?,
        });
        Ok(())
    };
    Admission::of_requests(session, &listener, Bounds::within(limit), greet)?.first()
}

impl Server {
    /// One ping, whose first message may have arrived already. False if the client has disconnected instead.
    fn serve(&mut self, pings: &mut Pings, source: Option<Advert>) -> Result<bool> {
        let doing = format!("serve ping {} of {}", pings.done, self.peer);
        let source = match source {
            Some(source) => source,
            None => match self.mailbox.receive(&doing)? {
                Some(message) => Advert::decode(&message)?,
                None => return Ok(false),
            },
        };
        let data = self.read(source, pings.done, &doing)?;
        self.mailbox.send(&[0; MESSAGE], &doing)?;

        let message = self.mailbox.receive(&doing)?.ok_or_else(|| lost(&doing))?;
        let sink = Advert::decode(&message)?;
        if sink.size < source.size {
            return Err(misfit(
                sink.size,
                "less than it had read from it",
                source.size,
            ));
        }
        let part = [self.buffer.sge(0..data.len())];
        let qp = &self.mailbox.endpoint.qp;
        let posted = qp.write(0, &part, sink.at, OpFlags::empty());
        self.mailbox.done(posted, RequestType::Write, &doing)?;
        self.mailbox.send(&[0; MESSAGE], &doing)?;
        pings.count("server ping data", &data)?;
        Ok(true)
    }

    /// Reads the buffer that the client describes.
    fn read(&mut self, source: Advert, ping: u64, doing: &str) -> Result<Vec<u8>> {
        if source.size > self.size {
            return Err(misfit(source.size, "more than this side takes", self.size));
        }
        let mut data = memory::zeroed(source.size as usize)?;
        let part = [self.buffer.sge(0..data.len())];
        let qp = &self.mailbox.endpoint.qp;
        let posted = qp.read(0, &part, source.at, OpFlags::empty());
        self.mailbox.done(posted, RequestType::Read, doing)?;
        self.buffer.buffer.read(0, &mut data);
        if self.validate && data != pattern(ping, source.size) {
            return Err(Failure::new(
                format!("what was read for ping {ping} is not rping's pattern"),
                "check the client, or leave out -V",
            ));
        }
        Ok(data)
    }
}

fn misfit(size: u32, why: &str, limit: u32) -> Failure {
    Failure::new(
        format!("the client describes a buffer of {size} octets, {why}: {limit}"),
        "give both sides the same -S",
    )
}
