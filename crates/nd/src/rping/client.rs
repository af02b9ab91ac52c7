//! The side that connects, describes its buffers, and compares what comes back.

use std::net::SocketAddr;

use netdirect::{MrFlags, ReadLimits, Status};

use super::args::RpingArgs;
use super::exchange::{self, Advert, READS, pattern};
use super::pings::{Pings, early};
use crate::errors::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::mailbox::Mailbox;
use crate::peer;
use crate::session::{Region, Session, Setup};

/// The connection, and the two buffers that the server reads and writes.
#[derive(Debug)]
struct Client {
    mailbox: Mailbox,
    source: Region,
    sink: Region,
    size: u32,
}

/// Connects to the first address where a server answers, and pings it.
pub(super) fn run(
    args: &RpingArgs,
    setup: &Setup,
    addresses: &[SocketAddr],
    pings: &mut Pings,
) -> Result<()> {
    let size = args.size.unwrap_or(exchange::SIZE);
    let mut found = Err(peer::nowhere());
    for address in addresses {
        let (session, local) = setup.towards(*address)?;
        found = Client::connect(&session, local, *address, size);
        let refused = |failure: &Failure| failure.nd_status() == Some(Status::CONNECTION_REFUSED);
        if !found.as_ref().is_err_and(refused) {
            break;
        }
    }
    let mut client = found?;
    let interrupt = Interrupt::watch();
    pings.begin();
    while pings.more() && !interrupt.came() {
        if !client.ping(pings)? {
            return if pings.wanted == 0 {
                Ok(())
            } else {
                Err(early(pings))
            };
        }
    }
    // All pings were answered, so an error of the disconnect makes no difference.
    drop(client.mailbox.endpoint.disconnect());
    Ok(())
}

impl Client {
    fn connect(
        session: &Session,
        local: SocketAddr,
        server: SocketAddr,
        size: u32,
    ) -> Result<Self> {
        let length = size as usize;
        let client = Self {
            mailbox: Mailbox::new(session, session.connector()?)?,
            source: session.register(length, MrFlags::ALLOW_REMOTE_READ)?,
            sink: session.register(length, MrFlags::ALLOW_REMOTE_WRITE)?,
            size,
        };
        let limits = ReadLimits {
            inbound: READS,
            outbound: READS,
        };
        peer::connect(&client.mailbox.endpoint, local, server, limits)?;
        Ok(client)
    }

    /// One ping. False when the server has ended the connection instead.
    fn ping(&mut self, pings: &mut Pings) -> Result<bool> {
        let data = pattern(pings.done, self.size);
        self.source.buffer.write(0, &data);
        self.sink.buffer.fill(0);
        let doing = format!("ping, for the {}. time", pings.done + 1);
        for region in [&self.source, &self.sink] {
            let advert = Advert {
                at: region.remote(),
                size: self.size,
            };
            if self.mailbox.endpoint.has_ended() {
                return Ok(false);
            }
            self.mailbox.send(&advert.encode(), &doing)?;
            match self.mailbox.receive(&doing)? {
                Some(answer) => exchange::check_answer(&answer)?,
                None => return Ok(false),
            }
        }
        let back = self.sink.buffer.to_vec();
        if let Some(at) = data.iter().zip(&back).position(|(sent, came)| sent != came) {
            return Err(Failure::new(
                format!(
                    "what came back from ping {} differs from what was sent, from octet {at} of {} on",
                    pings.done, self.size
                ),
                "the server has not written what it read: check it",
            ));
        }
        pings.count("ping data", &data)?;
        Ok(true)
    }
}
