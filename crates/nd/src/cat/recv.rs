//! `nd cat recv`: the side that gets the file.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netdirect::{Listener, MrFlags, OpFlags, ReadLimits};
use sha2::{Digest as _, Sha256};

use super::args::{RecvArgs, Via};
use super::connection::{self, Connection, Event, violation};
use super::place;
use super::protocol::{Answer, Block, Digest, Message, NO_RING, Offer, Refusal, Shape, Whole};
use super::sink::{Sink, Writing};
use super::{Carrier, Progress, hex, summary};
use crate::admission::{Admission, Bounds, FIRST_MESSAGE, PendingPeer};
use crate::errors::{Failure, Result};
use crate::output;
use crate::peer;
use crate::session::{self, Deadline, Region, Request, Session, Setup};
use crate::stderr::{self, Remarks};

/// Waits for a sender and receives its file.
pub(crate) fn recv(args: &RecvArgs) -> Result<()> {
    place::check_capture(&args.common.adapter, &args.out)?;
    let sink = Sink::new(&args.out)?;
    let addresses = session::resolve(&args.listen)?;
    let setup = args.common.setup()?;
    // If the file goes to standard output, text goes to standard error.
    let aside = sink.is_stdout();
    let name = args.out.to_string_lossy();
    let say = |text: String| {
        if aside {
            text.lines().for_each(stderr::note);
            return Ok(());
        }
        output::line(text)
    };
    let done = receive(&setup, &addresses, sink, args.max_size, &name, |progress| {
        say(match progress {
            ReceiverProgress::Listening(address) => setup.listening(address),
            ReceiverProgress::Receiving { peer, via } => format!("receiving from {peer} by {via}"),
        })
    });
    let recorded = setup.finish();
    let done = done?;
    recorded?;
    let way = format!("from {}", done.peer);
    let received = format!(
        "received {}",
        summary(done.size, &way, done.carrier, done.time)
    );
    let digest = format!("sha256 {}", hex(&done.digest));
    if aside {
        stderr::note(received);
        stderr::note(digest);
        return Ok(());
    }
    output::afterword(received)?;
    output::afterword(digest)
}

/// The summary of a file that has arrived.
pub(super) struct Done {
    peer: SocketAddr,
    carrier: Carrier,
    size: u64,
    time: Duration,
    digest: Digest,
}

/// The progress of the receiver.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReceiverProgress {
    Listening(SocketAddr),
    /// The first block of this sender is here.
    Receiving {
        peer: SocketAddr,
        via: Via,
    },
}

/// Receives one file of at most `max_size` octets. A sender that fails is followed by the next one that is connected, unless the
/// octets of the first one are in a pipe or a device already.
pub(super) fn receive(
    setup: &Setup,
    addresses: &[SocketAddr],
    mut sink: Sink,
    max_size: Option<u64>,
    name: &str,
    tell: impl Fn(ReceiverProgress) -> Result<()>,
) -> Result<Done> {
    let (session, listener, address) = peer::listen(setup, addresses)?;
    tell(ReceiverProgress::Listening(address))?;
    let senders = await_senders(&Arc::new(session), &listener, setup.limit(), max_size)?;
    let remarks = Remarks::default();
    let mut transfer = senders.wait()?;
    loop {
        let (peer, via) = (transfer.sender.peer, transfer.sender.offer.via);
        tell(ReceiverProgress::Receiving { peer, via })?;
        let progress = Progress::new(transfer.sender.offer.size, "receiving");
        let mut writing = sink.begin()?;
        let failure = match transfer.run(
            &mut writing,
            progress,
            &format!("receive {name} from {peer}"),
        ) {
            Ok(done) => return finish(transfer, writing, done, senders),
            Err(TransferError::Here(failure)) => {
                transfer.connection().abandon(&failure);
                return Err(failure);
            }
            Err(TransferError::Sender(failure)) => failure,
        };
        transfer.connection().abandon(&failure);
        let next = writing
            .abandon()
            .and_then(|again| Some((again, senders.next_of_present()?)));
        let Some((again, next)) = next else {
            return Err(failure);
        };
        remarks.remark(format_args!("turned away {peer}: {failure}"));
        (sink, transfer) = (again, next);
    }
}

/// Gives the file its name, and informs the senders.
fn finish(
    mut transfer: Transfer,
    writing: Writing,
    done: Done,
    senders: Admission<Transfer>,
) -> Result<Done> {
    let connection = transfer.connection();
    if let Err(failure) = writing.finish() {
        connection.abandon(&failure);
        return Err(failure);
    }
    // The file is whole and has its name. A failure to inform the sender does not change this.
    let whole = Whole {
        length: done.size,
        digest: done.digest,
    };
    let _ = connection.send(&Message::Verdict(whole));
    // The sender disconnects when it has the verdict. Until then this side must keep the connection.
    connection.drain(Duration::from_secs(5));
    connection.endpoint.wait_for_end(Duration::from_secs(5));
    drop(connection.endpoint.disconnect());
    let taken = Failure::new(
        "the receiver has got its file from another sender",
        "start another receiver",
    );
    let deadline = Deadline::after(connection::PATIENCE);
    for mut other in senders.close() {
        other.connection().abandon_by(&taken, deadline);
    }
    Ok(done)
}

/// A sender that was accepted.
#[derive(Debug)]
struct AcceptedSender {
    connection: Connection,
    peer: SocketAddr,
    offer: Offer,
    shape: Shape,
    /// The memory that the sender writes to in mode write, and the sink in mode read.
    ring: Option<Region>,
}

impl AcceptedSender {
    /// The name of the connection's transport, if the adapter can tell.
    fn transport(&self) -> Option<&'static str> {
        self.connection.endpoint.connector.transport()
    }
}

/// Accepts senders whose offer this side can take, and admits each of them when its first block is here. Other senders are refused
/// with the reason, and noted.
fn await_senders(
    session: &Arc<Session>,
    listener: &Arc<dyn Listener>,
    limit: Duration,
    max_size: Option<u64>,
) -> Result<Admission<Transfer>> {
    /// Each sender uses memory for blocks.
    const SENDERS: usize = 16;
    let greeter = Arc::clone(session);
    let greet = move |request: Request, pending: &PendingPeer<Transfer>| {
        let prepared = Offer::decode(&request.private_data)
            .and_then(|offer| check_size(offer, max_size))
            .and_then(|offer| {
                prepare(&greeter, &request, offer).map_err(|failure| failure.what()) // its words are for the sender as well
            });
        match prepared {
            Ok(mut sender) => {
                accept(&mut sender, &request, pending)?;
                let mut transfer = Transfer::new(sender, max_size);
                // The first block may come as late as every other one, and need not come sooner than the first message of any peer.
                let patience = limit.max(FIRST_MESSAGE);
                transfer
                    .connection()
                    .endpoint
                    .set_deadline(Some(Deadline::after(patience)));
                let begun = transfer.begin(&format!("receive a first block from {}", request.peer));
                transfer.connection().endpoint.set_deadline(None);
                match begun {
                    Ok(()) => pending.admit(transfer),
                    Err(failure) => {
                        transfer.connection().abandon(&failure);
                        return Err(failure);
                    }
                }
                Ok(())
            }
            Err(reason) => {
                let refusal = Refusal { reason };
                // The sender may be gone already, so an error changes nothing.
                let _ = request.connector.reject(&refusal.encode());
                Err(Failure::peer(refusal.reason, "look at what it says"))
            }
        }
    };
    let bounds = Bounds {
        most: SENDERS,
        ..Bounds::within(limit)
    };
    Admission::of_requests(session, listener, bounds, greet)
}

/// Checks the size that the sender states.
fn check_size(offer: Offer, max_size: Option<u64>) -> std::result::Result<Offer, String> {
    match (offer.size, max_size) {
        (Some(size), Some(most)) if size > most => Err(format!(
            "the file has {size} bytes, and this side takes at most {most} (--max-size)"
        )),
        _ => Ok(offer),
    }
}

/// Makes all objects that the transfer needs, within the limits of this adapter.
fn prepare(session: &Session, request: &Request, offer: Offer) -> Result<AcceptedSender> {
    let mine = connection::shape(session.info());
    let shape = match offer.via {
        Via::Read => offer.shape, // the sender's ring stands
        Via::Send | Via::Write => offer.shape.min(mine),
    };
    let octets = shape.block as usize * shape.blocks as usize;
    let ring = match offer.via {
        Via::Send => None,
        Via::Write => Some(session.register(octets, MrFlags::ALLOW_REMOTE_WRITE)?),
        Via::Read => {
            Some(session.register(octets, MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK)?)
        }
    };
    let connection = Connection::new(
        session,
        Arc::clone(&request.connector),
        shape,
        offer.via == Via::Send,
    )?;
    Ok(AcceptedSender {
        connection,
        peer: request.peer,
        offer,
        shape,
        ring,
    })
}

fn accept(
    sender: &mut AcceptedSender,
    request: &Request,
    pending: &PendingPeer<Transfer>,
) -> Result<()> {
    let AcceptedSender {
        connection,
        offer,
        shape,
        ring,
        ..
    } = sender;
    let advertised = match ring {
        Some(ring) if offer.via == Via::Write => ring.remote(),
        _ => NO_RING,
    };
    let answer = Answer {
        via: offer.via,
        shape: *shape,
        ring: advertised,
    };
    let limits = ReadLimits {
        inbound: request.limits.inbound,
        outbound: shape.blocks,
    };
    pending.accept(&mut connection.endpoint, limits, &answer.encode())
}

/// The next step: a block that is here with all its octets, or the end of the file.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The block, and the Receive that it is in if it came by a Send.
    Block(Block, Option<u32>),
    End(Whole),
}

/// The side that caused the end of a transfer.
#[derive(Debug)]
enum TransferError {
    /// The sender or the connection: another sender may do better.
    Sender(Failure),
    /// This side, which cannot write the file.
    Here(Failure),
}

impl From<Failure> for TransferError {
    fn from(failure: Failure) -> Self {
        Self::Sender(failure)
    }
}

/// A file that comes from a sender.
#[derive(Debug)]
struct Transfer {
    sender: AcceptedSender,
    max_size: Option<u64>,
    /// The first block or the end, from the time when it came.
    first: Option<Step>,
    /// Blocks that the sender has announced, and blocks that are written to the file.
    blocks: u64,
    consumed: u64,
    /// Octets of all blocks that the sender has announced.
    announced: u64,
    /// Blocks that are being read. Reads end in the order in which they were posted.
    reads: VecDeque<Block>,
}

impl Transfer {
    fn new(sender: AcceptedSender, max_size: Option<u64>) -> Self {
        Self {
            sender,
            max_size,
            first: None,
            blocks: 0,
            consumed: 0,
            announced: 0,
            reads: VecDeque::new(),
        }
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.sender.connection
    }

    /// Waits until the first block is here, or the end of an empty file.
    fn begin(&mut self, doing: &str) -> Result<()> {
        let first = self.next(doing)?;
        if let Step::End(whole) = first {
            self.check(whole, 0, Sha256::digest([]).into())?;
        }
        self.first = Some(first);
        Ok(())
    }

    /// Receives the whole file, which has not got its name yet then.
    fn run(
        &mut self,
        out: &mut Writing,
        mut progress: Progress,
        doing: &str,
    ) -> std::result::Result<Done, TransferError> {
        let mut scratch = vec![0; self.sender.shape.block as usize];
        loop {
            let step = match self.first.take() {
                Some(first) => first,
                None => self.next(doing)?,
            };
            match step {
                Step::Block(block, receive) => {
                    let data = &mut scratch[..block.length as usize];
                    self.fetch(block, receive, data)?;
                    progress.add(data);
                    out.write(data).map_err(TransferError::Here)?;
                    self.consumed += 1;
                    self.connection().send(&Message::Free(block.slot))?;
                }
                Step::End(whole) => {
                    self.check(whole, progress.moved(), progress.digest())?;
                    return Ok(Done {
                        peer: self.sender.peer,
                        carrier: (self.sender.offer.via, self.sender.transport()),
                        size: whole.length,
                        time: progress.finish(),
                        digest: whole.digest,
                    });
                }
            }
        }
    }

    /// Waits for the next block or the end.
    fn next(&mut self, doing: &str) -> Result<Step> {
        let via = self.sender.offer.via;
        loop {
            match self.connection().event(doing)? {
                Event::Message(Message::Data(block), receive) if via == Via::Send => {
                    self.announce(block)?;
                    return Ok(Step::Block(block, Some(receive)));
                }
                Event::Message(Message::Written(block), _) if via == Via::Write => {
                    self.announce(block)?;
                    return Ok(Step::Block(block, None));
                }
                Event::Message(Message::Ready(block), _) if via == Via::Read => {
                    self.announce(block)?;
                    self.read(block)?;
                    self.reads.push_back(block);
                }
                Event::Read(slot) => {
                    let block = self.reads.pop_front().filter(|block| block.slot == slot);
                    let block = block.ok_or_else(|| violation("answered Reads out of order"))?;
                    return Ok(Step::Block(block, None));
                }
                Event::Message(Message::End(whole), _) => return Ok(Step::End(whole)),
                _ => return Err(violation("sent a message that is out of place")),
            }
        }
    }

    /// Checks that a block is the next one, has a legal length, is in a free slot, and does not make the file longer than it may be.
    fn announce(&mut self, block: Block) -> Result<()> {
        let Shape {
            block: longest,
            blocks,
        } = self.sender.shape;
        let next = self.blocks % u64::from(blocks);
        if u64::from(block.slot) != next || !(1..=longest).contains(&block.length) {
            return Err(violation("sent a block that is not the next one"));
        }
        if self.blocks - self.consumed >= u64::from(blocks) {
            return Err(violation("used a block that was not free"));
        }
        self.blocks += 1;
        self.announced = self.announced.saturating_add(block.length.into());
        if let Some(stated) = self.sender.offer.size
            && self.announced > stated
        {
            return Err(violation(&format!(
                "sent more than the {stated} bytes that it had stated"
            )));
        }
        if let Some(most) = self.max_size
            && self.announced > most
        {
            let what = format!("the file is longer than the {most} bytes that the receiver takes");
            return Err(Failure::new(what, "allow more with --max-size"));
        }
        Ok(())
    }

    fn at(&self, block: Block) -> usize {
        block.slot as usize * self.sender.shape.block as usize
    }

    /// Copies a block that is here.
    fn fetch(&self, block: Block, receive: Option<u32>, into: &mut [u8]) -> Result<()> {
        let connection = &self.sender.connection;
        if let Some(receive) = receive {
            connection.read_block(receive, into);
            return connection.again(receive);
        }
        if let Some(ring) = &self.sender.ring {
            ring.buffer.read(self.at(block), into);
        }
        Ok(())
    }

    fn read(&self, block: Block) -> Result<()> {
        let Some(ring) = &self.sender.ring else {
            return Ok(());
        };
        let at = self.at(block);
        let sink = ring.sge(at..at + block.length as usize);
        let there = self.sender.offer.ring.offset(at as u64);
        let qp = &self.sender.connection.endpoint.qp;
        qp.read(block.slot.into(), &[sink], there, OpFlags::empty())
            .map_err(|error| Failure::nd("read from the other side", &error))
    }

    /// Checks that the octets that have arrived are the whole file.
    fn check(&self, whole: Whole, moved: u64, digest: Digest) -> Result<()> {
        let stated = self.sender.offer.size;
        if whole.length != moved || stated.is_some_and(|stated| stated != moved) {
            return Err(violation("ended the file too soon"));
        }
        if whole.digest != digest {
            let what = format!(
                "the file arrived damaged: its SHA-256 is {}, the sender's {}",
                hex(&digest),
                hex(&whole.digest)
            );
            return Err(Failure::new(
                what,
                "send it again; if it happens again, look for a defective machine",
            ));
        }
        Ok(())
    }
}
