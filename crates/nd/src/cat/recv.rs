//! `nd cat recv`: the side that gets the file.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netdirect::{Listener, MrFlags, OpFlags, ReadLimits};

use super::args::{RecvArgs, Via};
use super::connection::{self, Connection, Event, violation};
use super::place;
use super::protocol::{Answer, Block, Message, NO_RING, Offer, Refusal, Shape, Whole};
use super::sink::{Sink, Writing};
use super::{Progress, hex, summary};
use crate::admission::{Admission, Bounds, PendingPeer};
use crate::errors::{Failure, Result};
use crate::output;
use crate::peer;
use crate::session::{self, Region, Request, Session, Setup};
use crate::stderr;

/// Waits for a sender and receives its file.
pub(crate) fn recv(args: &RecvArgs) -> Result<()> {
    let capture = args.common.adapter.capture.as_deref();
    place::check_capture(capture, &args.out)?;
    let sink = Sink::new(&args.out)?;
    let addresses = session::resolve(&args.listen)?;
    let setup = args.common.setup()?;
    // If the file goes to standard output, text goes to standard error.
    let aside = sink.is_stdout();
    let name = args.out.to_string_lossy();
    let done = receive(&setup, &addresses, sink, &name, |address| {
        let text = setup.listening(address);
        if aside {
            text.lines().for_each(stderr::note);
            return Ok(());
        }
        output::line(text)
    });
    let recorded = setup.finish();
    let done = done?;
    recorded?;
    let way = format!("from {}", done.peer);
    let received = format!("received {}", summary(done.size, &way, done.via, done.time));
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
    via: Via,
    size: u64,
    time: Duration,
    digest: super::protocol::Digest,
}

pub(super) fn receive(
    setup: &Setup,
    addresses: &[SocketAddr],
    sink: Sink,
    name: &str,
    announce: impl FnOnce(SocketAddr) -> Result<()>,
) -> Result<Done> {
    let (session, listener, address) = peer::listen(setup, addresses)?;
    announce(address)?;
    let accepted = accept_one(&Arc::new(session), listener, setup.limit())?;
    let peer = accepted.peer;
    let doing = format!("receive {name} from {peer}");
    let (via, size) = (accepted.offer.via, accepted.offer.size);
    let progress = Progress::new(size, "receiving");
    let writing = sink.begin();
    let mut receiver = Receiver {
        accepted,
        progress,
        blocks: 0,
        consumed: 0,
    };
    let digest = writing.and_then(|writing| receiver.run(writing, &doing));
    let connection = &mut receiver.accepted.connection;
    match &digest {
        Ok(_) => {
            // The sender disconnects when it has the verdict. Until then this side must keep the connection.
            connection.drain(Duration::from_secs(5));
            connection.endpoint.wait_for_end(Duration::from_secs(5));
            drop(connection.endpoint.disconnect());
        }
        Err(failure) => connection.abandon(failure),
    }
    Ok(Done {
        peer,
        via,
        size: receiver.progress.moved(),
        time: receiver.progress.finish(),
        digest: digest?,
    })
}

/// A sender that was accepted.
#[derive(Debug)]
struct Accepted {
    connection: Connection,
    peer: SocketAddr,
    offer: Offer,
    shape: Shape,
    /// The memory that the sender writes to in mode write, and the sink in mode read.
    ring: Option<Region>,
}

/// Waits for a sender whose offer this side can take. Other senders are refused with the reason, and noted. Later senders
/// are refused at once, and need not wait.
fn accept_one(
    session: &Arc<Session>,
    listener: Arc<dyn Listener>,
    limit: Duration,
) -> Result<Accepted> {
    /// Each sender uses memory for blocks.
    const SENDERS: usize = 16;
    let greeter = Arc::clone(session);
    let greet = move |request: Request, pending: &PendingPeer<Accepted>| {
        let prepared = Offer::decode(&request.private_data).and_then(|offer| {
            prepare(&greeter, &request, offer).map_err(|failure| failure.what()) // its words are for the sender as well
        });
        match prepared {
            Ok(mut accepted) => {
                accept(&mut accepted, &request, pending)?;
                pending.admit(accepted);
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
    Admission::of_requests(session, &listener, bounds, greet)?.first()
}

/// Makes all objects that the transfer needs, within the limits of this adapter.
fn prepare(session: &Session, request: &Request, offer: Offer) -> Result<Accepted> {
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
    Ok(Accepted {
        connection,
        peer: request.peer,
        offer,
        shape,
        ring,
    })
}

fn accept(
    accepted: &mut Accepted,
    request: &Request,
    pending: &PendingPeer<Accepted>,
) -> Result<()> {
    let Accepted {
        connection,
        offer,
        shape,
        ring,
        ..
    } = accepted;
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
    pending.accept(&mut connection.endpoint, limits, &answer.encode())?;
    connection.endpoint.set_deadline(None);
    Ok(())
}

struct Receiver {
    accepted: Accepted,
    progress: Progress,
    /// Blocks that the sender has announced, and blocks that are written to the file.
    blocks: u64,
    consumed: u64,
}

impl Receiver {
    /// Receives the file and gives it its name. Returns its digest.
    fn run(&mut self, mut out: Writing, doing: &str) -> Result<super::protocol::Digest> {
        let mut scratch = vec![0; self.accepted.shape.block as usize];
        // Reads end in the order in which they were posted.
        let mut reads = std::collections::VecDeque::new();
        loop {
            match self.accepted.connection.event(doing)? {
                Event::Message(Message::Data(block), receive)
                    if self.accepted.offer.via == Via::Send =>
                {
                    let data = &mut scratch[..self.announce(block)?];
                    self.accepted.connection.read_block(receive, data);
                    self.accepted.connection.again(receive)?;
                    self.consume(block, data, &mut out)?;
                }
                Event::Message(Message::Written(block), _)
                    if self.accepted.offer.via == Via::Write =>
                {
                    let data = &mut scratch[..self.announce(block)?];
                    self.fetch(block, data);
                    self.consume(block, data, &mut out)?;
                }
                Event::Message(Message::Ready(block), _)
                    if self.accepted.offer.via == Via::Read =>
                {
                    self.announce(block)?;
                    self.read(block)?;
                    reads.push_back(block);
                }
                Event::Read(slot) => {
                    let block = reads.pop_front().filter(|block| block.slot == slot);
                    let block = block.ok_or_else(|| violation("answered Reads out of order"))?;
                    let data = &mut scratch[..block.length as usize];
                    self.fetch(block, data);
                    self.consume(block, data, &mut out)?;
                }
                Event::Message(Message::End(whole), _) => return self.end(whole, out),
                _ => return Err(violation("sent a message that is out of place")),
            }
        }
    }

    /// Checks that a block is the next one, has a legal length, and is in a free slot. Returns its length.
    fn announce(&mut self, block: Block) -> Result<usize> {
        let Shape {
            block: longest,
            blocks,
        } = self.accepted.shape;
        let next = self.blocks % u64::from(blocks);
        if u64::from(block.slot) != next || !(1..=longest).contains(&block.length) {
            return Err(violation("sent a block that is not the next one"));
        }
        if self.blocks - self.consumed >= u64::from(blocks) {
            return Err(violation("used a block that was not free"));
        }
        self.blocks += 1;
        Ok(block.length as usize)
    }

    fn at(&self, block: Block) -> usize {
        block.slot as usize * self.accepted.shape.block as usize
    }

    fn fetch(&self, block: Block, into: &mut [u8]) {
        if let Some(ring) = &self.accepted.ring {
            ring.buffer.read(self.at(block), into);
        }
    }

    fn read(&self, block: Block) -> Result<()> {
        let Some(ring) = &self.accepted.ring else {
            return Ok(());
        };
        let at = self.at(block);
        let sink = ring.sge(at..at + block.length as usize);
        let there = self.accepted.offer.ring.offset(at as u64);
        let qp = &self.accepted.connection.endpoint.qp;
        qp.read(block.slot.into(), &[sink], there, OpFlags::empty())
            .map_err(|error| Failure::nd("read from the other side", &error))
    }

    fn consume(&mut self, block: Block, data: &[u8], out: &mut Writing) -> Result<()> {
        self.progress.add(data);
        out.write(data)?;
        self.consumed += 1;
        self.accepted.connection.send(&Message::Free(block.slot))
    }

    fn end(&mut self, whole: Whole, out: Writing) -> Result<super::protocol::Digest> {
        let mine = Whole {
            length: self.progress.moved(),
            digest: self.progress.digest(),
        };
        if whole.length != mine.length {
            return Err(violation("ended the file too soon"));
        }
        if whole.digest != mine.digest {
            let what = format!(
                "the file arrived damaged: its SHA-256 is {}, the sender's {}",
                hex(&mine.digest),
                hex(&whole.digest)
            );
            return Err(Failure::new(
                what,
                "send it again; if it happens again, look for a defective machine",
            ));
        }
        out.finish()?;
        // The file is whole and has its name. If the sender cannot be told any more, that does not change this.
        let _ = self.accepted.connection.send(&Message::Verdict(mine));
        Ok(mine.digest)
    }
}
