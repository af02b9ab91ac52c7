//! One end of a connection: its adapter, its memory, and the few steps that client and server share.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netdirect::{
    Adapter, Affinity, Buffer, CompletionResult, Connector, Error, MemoryRegion, MrFlags, OpFlags,
    Overlapped, OverlappedFile, QueuePair, QueuePairOptions, ReadLimits, RemoteAddress,
    RequestType, Sge, Started, Status, ext,
};

use crate::exchange::{Advert, MESSAGE};

/// A failure is one line of a log.
pub(crate) type Outcome<T> = Result<T, String>;

/// Longer than any step takes in a slow guest, and shorter than the guest's own limit.
const LIMIT: Duration = Duration::from_secs(20);

/// rping asks for one Read at a time in each direction.
pub(crate) const LIMITS: ReadLimits = ReadLimits {
    inbound: 1,
    outbound: 1,
};

/// Puts the name of a step in front of its error.
pub(crate) fn doing(step: &str) -> impl Fn(netdirect::Error) -> String {
    move |error| format!("{step}: {error}")
}

/// The final status of an overlapped request, within the limit.
pub(crate) fn settle(
    step: &str,
    overlapped: &Overlapped,
    started: netdirect::Result<Started>,
) -> Outcome<Status> {
    match started.map_err(doing(step))? {
        Started::Done => Ok(Status::SUCCESS),
        Started::Pending => overlapped
            .wait_timeout(LIMIT)
            .ok_or_else(|| format!("{step}: nothing for {} s", LIMIT.as_secs())),
    }
}

/// The request ended with this status and no other.
pub(crate) fn expect(step: &str, found: Status, wanted: &[Status]) -> Outcome<()> {
    if wanted.contains(&found) {
        return Ok(());
    }
    let wanted: Vec<_> = wanted.iter().map(ToString::to_string).collect();
    Err(format!(
        "{step}: {found} instead of {}",
        wanted.join(" or ")
    ))
}

/// Registered memory with the buffer behind it.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) buffer: Buffer,
    pub(crate) size: u32,
    region: Arc<dyn MemoryRegion>,
}

impl Region {
    pub(crate) fn sge(&self, length: u32) -> Sge {
        Sge::new(
            &self.buffer,
            ..length as usize,
            self.region.get_local_token(),
        )
    }

    /// The correct description of the region, for the peer.
    pub(crate) fn advert(&self) -> Advert {
        Advert {
            at: RemoteAddress {
                address: self.buffer.address(),
                token: self.region.get_remote_token(),
            },
            size: self.size,
        }
    }
}

/// One end.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) adapter: Arc<dyn Adapter>,
    pub(crate) file: Arc<dyn OverlappedFile>,
    pub(crate) qp: Arc<dyn QueuePair>,
    pub(crate) connector: Arc<dyn Connector>,
    results: ext::Results,
    taken: Vec<CompletionResult>,
    inbox: Region,
    outbox: Region,
    ended: Overlapped,
}

impl Side {
    /// At the adapter of a local address, not yet connected, with one Receive posted.
    pub(crate) fn new(local: IpAddr, crc: bool) -> Outcome<Self> {
        let url = match local {
            IpAddr::V4(address) => format!("softnd+tcp://{address}"),
            IpAddr::V6(address) => format!("softnd+tcp://[{address}]"),
        };
        let options = softnd::Options::default().crc(crc);
        let adapter = softnd::open(&url, options).map_err(doing("open the adapter"))?;
        let file = adapter
            .create_overlapped_file()
            .map_err(doing("open its file"))?;
        let cq = adapter
            .create_completion_queue(&file, 16, Affinity::default())
            .map_err(doing("create a completion queue"))?;
        let options = QueuePairOptions::default()
            .receive_queue_depth(2)
            .initiator_queue_depth(4);
        let qp = adapter
            .create_queue_pair(&cq, &cq, options)
            .map_err(doing("create a queue pair"))?;
        let connector = adapter
            .create_connector(&file)
            .map_err(doing("create a connector"))?;
        let length = u32::try_from(MESSAGE).expect("16 fits");
        let inbox = register(&adapter, &file, length, MrFlags::ALLOW_LOCAL_WRITE)?;
        let outbox = register(&adapter, &file, length, MrFlags::empty())?;
        let side = Self {
            results: ext::Results::new(&cq),
            taken: Vec::new(),
            adapter,
            file,
            qp,
            connector,
            inbox,
            outbox,
            ended: Overlapped::new(),
        };
        side.post_receive()?;
        Ok(side)
    }

    pub(crate) fn register(&self, size: u32, flags: MrFlags) -> Outcome<Region> {
        register(&self.adapter, &self.file, size, flags)
    }

    fn post_receive(&self) -> Outcome<()> {
        let sge = self.inbox.sge(self.inbox.size);
        self.qp.receive(0, &[sge]).map_err(doing("post a Receive"))
    }

    /// Asks to be notified of the connection's end.
    pub(crate) fn watch(&self) -> Outcome<()> {
        let started = self.connector.notify_disconnect(&self.ended);
        started.map(drop).map_err(doing("watch the connection"))
    }

    /// Posts a Send of an advert.
    pub(crate) fn post_send(&self, octets: &[u8]) -> Outcome<()> {
        self.outbox.buffer.write(0, octets);
        let length = u32::try_from(octets.len()).expect("at most 16");
        let sge = self.outbox.sge(length);
        self.qp
            .send(0, &[sge], OpFlags::empty())
            .map_err(doing("post a Send"))
    }

    /// Sends and waits for the completion.
    pub(crate) fn send(&mut self, octets: &[u8]) -> Outcome<()> {
        self.post_send(octets)?;
        self.done(RequestType::Send, "Send")
    }

    /// The peer's next Send; another Receive is posted at once.
    pub(crate) fn receive(&mut self) -> Outcome<[u8; MESSAGE]> {
        let result = self.completion(RequestType::Receive, "wait for a Send")?;
        expect("Receive", result.status, &[Status::SUCCESS])?;
        if result.bytes_transferred as usize != MESSAGE {
            let octets = result.bytes_transferred;
            return Err(format!("Receive: {octets} octets instead of {MESSAGE}"));
        }
        let mut octets = [0; MESSAGE];
        self.inbox.buffer.read(0, &mut octets);
        self.post_receive()?;
        Ok(octets)
    }

    /// Reads what the peer described, `length` octets of it, into the start of the region.
    pub(crate) fn read(
        &mut self,
        into: &Region,
        from: RemoteAddress,
        length: u32,
    ) -> Outcome<Status> {
        self.qp
            .read(0, &[into.sge(length)], from, OpFlags::empty())
            .map_err(doing("post a Read"))?;
        Ok(self.completion(RequestType::Read, "Read")?.status)
    }

    /// Writes the first `length` octets of the region to the peer.
    pub(crate) fn write(
        &mut self,
        from: &Region,
        to: RemoteAddress,
        length: u32,
    ) -> Outcome<Status> {
        self.qp
            .write(0, &[from.sge(length)], to, OpFlags::empty())
            .map_err(doing("post a Write"))?;
        Ok(self.completion(RequestType::Write, "Write")?.status)
    }

    fn done(&mut self, kind: RequestType, step: &str) -> Outcome<()> {
        let status = self.completion(kind, step)?.status;
        expect(step, status, &[Status::SUCCESS])
    }

    /// The next completion of this kind: Sends and Receives complete in either order.
    fn completion(&mut self, kind: RequestType, step: &str) -> Outcome<CompletionResult> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let found = self
                .taken
                .iter()
                .position(|result| result.request_type == kind);
            if let Some(found) = found {
                return Ok(self.taken.remove(found));
            }
            let mut batch = [CompletionResult::default(); 4];
            let left = deadline.saturating_duration_since(Instant::now());
            let count = self
                .results
                .get_timeout(&mut batch, left)
                .map_err(doing(step))?;
            if count == 0 {
                return Err(format!("{step}: nothing for {} s", LIMIT.as_secs()));
            }
            self.taken.extend_from_slice(&batch[..count]);
        }
    }

    /// Disconnects, which brings the Receive back (CONN-113).
    pub(crate) fn disconnect(mut self) -> Outcome<()> {
        self.leave()?;
        self.drained()
    }

    /// The peer ends the connection, or has ended it. NotifyDisconnect completes (CONN-107), the Receive comes back
    /// (AMB-001), and Disconnect still succeeds (TST-043).
    pub(crate) fn ended(mut self) -> Outcome<()> {
        let Some(status) = self.ended.wait_timeout(LIMIT) else {
            return Err(format!(
                "NotifyDisconnect: nothing for {} s",
                LIMIT.as_secs()
            ));
        };
        expect("NotifyDisconnect", status, &[Status::SUCCESS])?;
        self.drained()?;
        self.leave()
    }

    fn leave(&self) -> Outcome<()> {
        let overlapped = Overlapped::new();
        let started = self.connector.disconnect(&overlapped);
        let status = settle("Disconnect", &overlapped, started)?;
        expect("Disconnect", status, &[Status::SUCCESS])
    }

    /// The one posted Receive comes back, cancelled, and nothing else does.
    fn drained(&mut self) -> Outcome<()> {
        let result = self.completion(RequestType::Receive, "the posted Receive")?;
        expect("the posted Receive", result.status, &[Status::CANCELED])?;
        match self.taken.first() {
            None => Ok(()),
            Some(left) => Err(format!("one completion too many: {left:?}")),
        }
    }
}

fn register(
    adapter: &Arc<dyn Adapter>,
    file: &Arc<dyn OverlappedFile>,
    size: u32,
    flags: MrFlags,
) -> Outcome<Region> {
    let region = adapter
        .create_memory_region(file)
        .map_err(doing("create a memory region"))?;
    let buffer = Buffer::try_new(size as usize)
        .map_err(Error::from)
        .map_err(doing("get memory"))?;
    let overlapped = Overlapped::new();
    let started = region.register(&buffer, flags, &overlapped);
    let status = settle("register memory", &overlapped, started)?;
    expect("register memory", status, &[Status::SUCCESS])?;
    Ok(Region {
        buffer,
        size,
        region,
    })
}

/// A request that the peer has to refuse.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    Read,
    Write,
}

impl Side {
    /// Makes the peer refuse an access, which ends the connection. The status is that of AMB-002: a Write may have
    /// completed before the peer has checked it, a Read cannot.
    pub(crate) fn be_refused(
        mut self,
        by: Refusal,
        region: &Region,
        at: RemoteAddress,
        length: u32,
    ) -> Outcome<String> {
        let status = match by {
            Refusal::Read => {
                let status = self.read(region, at, length)?;
                expect("the refused Read", status, &[Status::ACCESS_VIOLATION])?;
                status
            }
            Refusal::Write => {
                let status = self.write(region, at, length)?;
                let wanted = [Status::SUCCESS, Status::ACCESS_VIOLATION];
                expect("the refused Write", status, &wanted)?;
                status
            }
        };
        self.ended()?;
        Ok(format!("refused: {status}"))
    }
}
