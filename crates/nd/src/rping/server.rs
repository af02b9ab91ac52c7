//! The side that listens, Reads the client's buffer, and Writes what it has read into the other one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netdirect::{MrFlags, OpFlags, ReadLimits, RequestType, Status};

use super::exchange::{Advert, MESSAGE, READS, pattern};
use super::{Pings, RpingArgs, SERVER_SIZE};
use crate::errors::{Failure, Result};
use crate::mailbox::{Mailbox, lost};
use crate::output;
use crate::peer;
use crate::session::{self, Region, Request, Session, Setup};

/// How long the client may take to disconnect after the last ping of those that this side was to serve.
const PARTING: Duration = Duration::from_secs(5);

/// The connection, and the buffer that pings pass through.
#[derive(Debug)]
struct Server {
    mailbox: Mailbox,
    buffer: Region,
    size: u32,
    validate: bool,
}

/// Takes one client, and serves it until it disconnects or `-C` pings are done.
pub(super) fn run(
    args: &RpingArgs,
    setup: &Setup,
    addresses: &[SocketAddr],
    pings: &mut Pings,
) -> Result<()> {
    let (session, listener, address) = peer::listen(setup, addresses)?;
    output::line(format_args!("listening on {address}"))?;
    let request = session::next_request(&session, listener.as_ref(), None)?;
    drop(listener); // whoever comes now is refused, and need not wait
    let client = request.peer;
    let size = args.size.unwrap_or(SERVER_SIZE);
    let mut server = Server::accept(&session, &request, size, args.validate)?;
    pings.begin();
    while pings.more() {
        if !server.serve(pings, client)? {
            return Ok(());
        }
    }
    server.mailbox.endpoint.wait_for_end(PARTING);
    // All is done: how the connection ends makes no difference any more.
    drop(server.mailbox.endpoint.disconnect());
    Ok(())
}

impl Server {
    fn accept(session: &Session, request: &Request, size: u32, validate: bool) -> Result<Self> {
        if request.limits.outbound == 0 {
            // That it cannot be told so any more is no new failure.
            let _ = request.connector.reject(&[]);
            return Err(Failure::new(
                format!("{} lets nobody read from it", request.peer),
                "check that rping or `nd rping` runs there",
            ));
        }
        let flags = MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK;
        let server = Self {
            mailbox: Mailbox::new(session, Arc::clone(&request.connector))?,
            buffer: session.register(size as usize, flags)?,
            size,
            validate,
        };
        let limits = ReadLimits {
            inbound: READS,
            outbound: READS,
        };
        match server.mailbox.endpoint.accept(limits, &[])? {
            Status::SUCCESS => Ok(server),
            status => Err(Failure::status(
                format_args!("accept the connection from {}", request.peer),
                status,
            )),
        }
    }

    /// One ping. False when the client has disconnected instead.
    fn serve(&mut self, pings: &mut Pings, peer: SocketAddr) -> Result<bool> {
        let doing = format!("serve ping {} of {peer}", pings.done);
        let Some(message) = self.mailbox.receive(&doing)? else {
            return Ok(false);
        };
        let source = Advert::decode(&message)?;
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

    /// Reads what the client describes.
    fn read(&mut self, source: Advert, ping: u64, doing: &str) -> Result<Vec<u8>> {
        if source.size > self.size {
            return Err(misfit(source.size, "more than this side takes", self.size));
        }
        let mut data = vec![0; source.size as usize];
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
