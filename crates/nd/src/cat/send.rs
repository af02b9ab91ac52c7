//! `nd cat send`: the side that has the file.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;

use netdirect::{MrFlags, OpFlags, ReadLimits, Status};

use super::args::{SendArgs, Via};
use super::connection::{self, Connection, Event, violation};
use super::place;
use super::protocol::{Answer, Block, HEADER, Message, NO_RING, Offer, Refusal, Shape, Whole};
use super::source::Source;
use super::{Progress, hex, summary};
use crate::errors::{Failure, Result, one_line};
use crate::output;
use crate::session::{self, Region, Setup};

/// Sends a file to a waiting receiver.
pub(crate) fn send(args: &SendArgs) -> Result<()> {
    place::check_capture(&args.common.adapter, Source::place(&args.file))?;
    let Source {
        mut file,
        size,
        name,
    } = Source::open(&args.file)?;
    let addresses = session::resolve(&args.address)?;
    let setup = args.common.setup()?;
    let sent = connect_to_any(&setup, &addresses, args.via, size).and_then(|mut sender| {
        let doing = format!("send {name} to {}", sender.peer);
        let mut progress = Progress::new(size, "sending");
        let sent = sender.run(&mut file, &doing, &mut progress);
        match &sent {
            // Both sides know that the file has arrived, so an error of the disconnect makes no difference.
            Ok(()) => drop(sender.connection.endpoint.disconnect()),
            Err(failure) => sender.abandon(failure),
        }
        let carrier = (args.via, sender.connection.endpoint.connector.transport());
        sent.map(|()| (sender.peer, carrier, progress))
    });
    let recorded = setup.finish();
    let (peer, carrier, progress) = sent?;
    let time = progress.finish();
    recorded?;
    let sent = summary(progress.moved(), &format!("to {peer}"), carrier, time);
    output::afterword(format_args!("sent {sent}"))?;
    output::afterword(format_args!("sha256 {}", hex(&progress.digest())))
}

/// Connects to the first of the addresses where a receiver takes the file.
pub(super) fn connect_to_any(
    setup: &Setup,
    addresses: &[SocketAddr],
    via: Via,
    size: Option<u64>,
) -> Result<Sender> {
    let mut last = Failure::new("there is no address to connect to", "name one");
    for address in addresses {
        match connect(setup, *address, via, size) {
            Err(failure) if failure.nd_status().is_some_and(tries_on) => last = failure,
            other => return other,
        }
    }
    Err(last)
}

/// Returns true if another address of the same name may work.
fn tries_on(status: Status) -> bool {
    matches!(
        status,
        Status::CONNECTION_REFUSED
            | Status::NETWORK_UNREACHABLE
            | Status::HOST_UNREACHABLE
            | Status::IO_TIMEOUT
            | Status::INVALID_ADDRESS
    )
}

fn connect(setup: &Setup, address: SocketAddr, via: Via, size: Option<u64>) -> Result<Sender> {
    let doing = format!("connect to {address}");
    let (session, local) = setup.towards(address)?;
    let shape = connection::shape(session.info());
    let octets = shape.block as usize * shape.blocks as usize;
    let flags = if via == Via::Read {
        MrFlags::ALLOW_REMOTE_READ
    } else {
        MrFlags::empty()
    };
    let ring = session.register(octets, flags)?;
    let headers = session.register(HEADER * shape.blocks as usize, MrFlags::empty())?;
    let connection = Connection::new(&session, session.connector()?, shape, false)?;
    let offer = Offer {
        via,
        shape,
        size,
        ring: if via == Via::Read {
            ring.remote()
        } else {
            NO_RING
        },
    };
    let limits = ReadLimits {
        inbound: shape.blocks,
        outbound: shape.blocks,
    };
    let status = connection
        .endpoint
        .connect(local, address, limits, &offer.encode())?;
    if status != Status::SUCCESS {
        return Err(refused(&connection, &doing, status));
    }
    let private_data = connection.endpoint.connector.get_private_data();
    let private_data = private_data.map_err(|error| Failure::nd(&doing, &error))?;
    let answer = Answer::decode(&private_data, &offer).map_err(|reason| {
        // The answer is refused. A failure to inform the peer is no new failure.
        let _ = connection.endpoint.connector.reject(&[]);
        Failure::peer(
            format!("cannot {doing}: {reason}"),
            "check that `nd cat recv` of the same version listens there",
        )
    })?;
    match connection.endpoint.complete_connect()? {
        Status::SUCCESS => {
            let uses = vec![Use::default(); answer.shape.blocks as usize];
            Ok(Sender {
                connection,
                peer: address,
                offer,
                answer,
                ring,
                headers,
                uses,
                next: 0,
            })
        }
        status => Err(connection.endpoint.failure(doing, status)),
    }
}

/// Why the connection was not made: the receiver's own text, if it sent one.
fn refused(connection: &Connection, doing: &str, status: Status) -> Failure {
    if status == Status::CONNECTION_REFUSED {
        let words = connection.endpoint.connector.get_private_data();
        let is_rejection = words.is_ok();
        let words = words.unwrap_or_default();
        if let Some(refusal) = Refusal::decode(&words) {
            let what = format!(
                "cannot {doing}: the receiver refused: {}",
                one_line(&refusal.reason)
            );
            return Failure::peer(what, "correct that and try again");
        }
        if is_rejection {
            let what = format!(
                "cannot {doing}: a program other than `nd cat recv` rejected the connection"
            );
            return Failure::peer(what, "check the address and the port");
        }
    }
    connection.endpoint.failure(doing, status)
}

/// The events that have to happen before a slot of the ring is free.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// The Send about the slot has not completed.
    sending: bool,
    /// The receiver has not freed the slot.
    held: bool,
}

#[derive(Debug)]
pub(super) struct Sender {
    connection: Connection,
    peer: SocketAddr,
    offer: Offer,
    answer: Answer,
    /// The blocks, and the header of the message about each.
    ring: Region,
    headers: Region,
    uses: Vec<Use>,
    /// The slot of the next block.
    next: u32,
}

impl Sender {
    /// Sends the file to its end, and returns when the receiver has confirmed that it has arrived.
    pub(super) fn run(
        &mut self,
        file: &mut File,
        doing: &str,
        progress: &mut Progress,
    ) -> Result<()> {
        let Shape { block, .. } = self.answer.shape;
        let mut scratch = vec![0; block as usize];
        loop {
            while self.is_busy() {
                self.wait(doing)?;
            }
            let read = self.read(file, &mut scratch, progress.moved(), doing)?;
            if read == 0 {
                break;
            }
            let data = &scratch[..read];
            progress.add(data);
            self.post(data)?;
            self.next = (self.next + 1) % self.answer.shape.blocks;
        }
        while self.uses.iter().any(|slot| slot.sending || slot.held) {
            self.wait(doing)?;
        }
        let whole = Whole {
            length: progress.moved(),
            digest: progress.digest(),
        };
        self.connection.send(&Message::End(whole))?;
        match self.connection.event(doing)? {
            Event::Message(Message::Verdict(theirs), _) if theirs == whole => Ok(()),
            Event::Message(Message::Verdict(_), _) => {
                Err(violation("has received something else than was sent"))
            }
            _ => Err(violation(
                "did not answer the end of the file with its verdict",
            )),
        }
    }

    /// Reads the next octets of the file, `moved` octets behind its beginning. Returns 0 at the end: of the size that was stated, or
    /// else of the file.
    fn read(&self, file: &mut File, into: &mut [u8], moved: u64, doing: &str) -> Result<usize> {
        let Some(size) = self.offer.size else {
            return read(file, into, doing);
        };
        let left = usize::try_from(size.saturating_sub(moved)).unwrap_or(usize::MAX);
        let room = left.min(into.len());
        let came = read(file, &mut into[..room], doing)?;
        if came == 0 && room > 0 {
            return Err(Failure::new(
                format!(
                    "cannot {doing}: the file has shrunk from {size} to {moved} bytes meanwhile"
                ),
                "send it again when no program changes it",
            ));
        }
        Ok(came)
    }

    /// Sends the receiver the reason why this side gives up, and disconnects.
    pub(super) fn abandon(&mut self, failure: &Failure) {
        self.connection.abandon(failure);
    }

    fn is_busy(&self) -> bool {
        let slot = self.uses[self.next as usize];
        slot.sending || slot.held
    }

    /// Sends a block in the next slot.
    fn post(&mut self, data: &[u8]) -> Result<()> {
        let block = Block {
            slot: self.next,
            length: u32::try_from(data.len()).unwrap_or(u32::MAX),
        };
        let slot = block.slot as usize;
        let at = slot * self.answer.shape.block as usize;
        self.ring.buffer.write(at, data);
        let payload = self.ring.sge(at..at + data.len());
        let message = match self.offer.via {
            Via::Send => Message::Data(block),
            Via::Write => Message::Written(block),
            Via::Read => Message::Ready(block),
        };
        let head = slot * HEADER;
        self.headers.buffer.write(head, &message.encode());
        let header = self.headers.sge(head..head + HEADER);
        self.uses[slot] = Use {
            sending: true,
            held: true,
        };
        match self.offer.via {
            Via::Send => self.connection.send_block(block.slot, &[header, payload]),
            Via::Read => self.connection.send_block(block.slot, &[header]),
            Via::Write => {
                // The completion of the message behind the Write counts for both, because the stream keeps their order.
                let there = self.answer.ring.offset(at as u64);
                let qp = &self.connection.endpoint.qp;
                qp.write(
                    block.slot.into(),
                    &[payload],
                    there,
                    OpFlags::SILENT_SUCCESS,
                )
                .map_err(|error| Failure::nd("write to the other side", &error))?;
                self.connection.send_block(block.slot, &[header])
            }
        }
    }

    /// Waits until a request about a block completes, or the receiver frees a block.
    fn wait(&mut self, doing: &str) -> Result<()> {
        match self.connection.event(doing)? {
            Event::Sent(slot) => self.slot(slot)?.sending = false,
            Event::Message(Message::Free(slot), _) => {
                let slot = self.slot(slot)?;
                if !std::mem::take(&mut slot.held) {
                    return Err(violation("freed a block twice"));
                }
            }
            _ => return Err(violation("sent a message that is out of place")),
        }
        Ok(())
    }

    fn slot(&mut self, slot: u32) -> Result<&mut Use> {
        self.uses
            .get_mut(slot as usize)
            .ok_or_else(|| violation("named a block that does not exist"))
    }
}

/// Reads the next octets of the file. Returns 0 at its end.
fn read(file: &mut File, into: &mut [u8], doing: &str) -> Result<usize> {
    loop {
        match file.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.map_err(|error| Failure::io(doing, &error)),
        }
    }
}
