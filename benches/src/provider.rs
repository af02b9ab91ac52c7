//! Two softnd adapters in one process, with one connection between them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, CompletionResult, Connector, MemoryRegion, MrFlags,
    NotifyType, OpFlags, Overlapped, OverlappedFile, QueuePair, QueuePairOptions, ReadLimits,
    Result, Sge, SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status, ext,
};
use softnd::Options;

/// Requests of a kind that may be outstanding.
pub const DEPTH: u32 = 64;

const LIMITS: ReadLimits = ReadLimits {
    inbound: 16,
    outbound: 16,
};

/// Where a queue pair has its Receives from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receives {
    /// Its own queue.
    Own,
    /// A shared receive queue.
    Shared,
}

/// One end.
#[derive(Debug)]
pub struct Side {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    cq: Arc<dyn CompletionQueue>,
    notify: Overlapped,
    qp: Arc<dyn QueuePair>,
    /// Where the queue pair has its Receives from, if they are not its own.
    srq: Option<Arc<dyn SharedReceiveQueue>>,
    connector: Arc<dyn Connector>,
    buffer: Buffer,
    region: Arc<dyn MemoryRegion>,
}

impl Side {
    fn new(crc: bool, length: usize, receives: Receives) -> Result<Self> {
        let adapter = softnd::open("softnd+tcp://127.0.0.1", Options::default().crc(crc))?;
        let file = adapter.create_overlapped_file()?;
        let cq = adapter.create_completion_queue(&file, 4 * DEPTH, Affinity::default())?;
        let options = QueuePairOptions::default()
            .receive_queue_depth(DEPTH)
            .initiator_queue_depth(DEPTH);
        let (qp, srq) = match receives {
            Receives::Own => (adapter.create_queue_pair(&cq, &cq, options)?, None),
            Receives::Shared => {
                let sizes = SharedReceiveQueueOptions::default().queue_depth(DEPTH);
                let srq = adapter.create_shared_receive_queue(&file, sizes)?;
                let qp = adapter.create_queue_pair_with_srq(&cq, &cq, &srq, options)?;
                (qp, Some(srq))
            }
        };
        let connector = adapter.create_connector(&file)?;
        let buffer = Buffer::new(length);
        let region = adapter.create_memory_region(&file)?;
        let overlapped = Overlapped::new();
        let flags = MrFlags::ALLOW_LOCAL_WRITE | MrFlags::ALLOW_REMOTE_WRITE;
        ext::wait(region.register(&buffer, flags, &overlapped), &overlapped)?;
        Ok(Self {
            adapter,
            file,
            cq,
            notify: Overlapped::new(),
            qp,
            srq,
            connector,
            buffer,
            region,
        })
    }

    fn sge(&self) -> Sge {
        Sge::new(&self.buffer, .., self.region.get_local_token())
    }

    /// Sends the whole buffer.
    ///
    /// # Errors
    ///
    /// Those of [`QueuePair::send`].
    pub fn send(&self) -> Result<()> {
        self.qp.send(0, &[self.sge()], OpFlags::empty())
    }

    /// Is ready for one Send.
    ///
    /// # Errors
    ///
    /// Those of [`QueuePair::receive`] or [`SharedReceiveQueue::receive`].
    pub fn receive(&self) -> Result<()> {
        match &self.srq {
            None => self.qp.receive(0, &[self.sge()]),
            Some(srq) => srq.receive(0, &[self.sge()]),
        }
    }

    /// Sleeps until there is a result, and polls once.
    ///
    /// # Errors
    ///
    /// Those of [`CompletionQueue::notify`], and the status of a request that failed.
    pub fn wait(&self) -> Result<usize> {
        if self.cq.notify(NotifyType::Any, &self.notify)? == Started::Pending {
            // A limit, as most programs have one.
            let ended = self.notify.wait_timeout(Duration::from_secs(60));
            ended.unwrap_or(Status::IO_TIMEOUT).ok()?;
        }
        self.poll()
    }

    /// Polls once.
    ///
    /// # Errors
    ///
    /// The status of a request that failed.
    pub fn poll(&self) -> Result<usize> {
        let mut results = [CompletionResult::default(); 16];
        let count = self.cq.get_results(&mut results);
        for result in &results[..count] {
            result.status.ok()?;
        }
        Ok(count)
    }

    /// Polls until this many results have arrived.
    ///
    /// # Errors
    ///
    /// The status of a request that failed.
    pub fn take(&self, mut results: usize) -> Result<()> {
        while results > 0 {
            results = results.saturating_sub(self.poll()?);
        }
        Ok(())
    }
}

/// Two connected ends.
#[derive(Debug)]
pub struct Pair {
    /// The end that connected.
    pub active: Side,
    /// The end that listened.
    pub passive: Side,
}

impl Pair {
    /// Connects two new adapters over the loopback interface, each with a registered buffer of `length` octets.
    ///
    /// # Errors
    ///
    /// Those of any step.
    ///
    /// # Panics
    ///
    /// When the thread that accepts does.
    pub fn new(crc: bool, length: usize, receives: Receives) -> Result<Self> {
        let side = || Side::new(crc, length, receives);
        let (active, passive) = (side()?, side()?);
        let listener = passive.adapter.create_listener(&passive.file)?;
        listener.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        listener.listen(1)?;
        let address = listener.get_local_address()?;
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| {
                ext::get_connection_request(&listener, &passive.connector)?;
                ext::accept(&passive.connector, &passive.qp, LIMITS, b"")
            });
            let connected = ext::connect(&active.connector, &active.qp, address, LIMITS, b"");
            if connected.is_err() {
                // Nothing else ends the other thread's wait. It does not matter if this thread no longer waits.
                let _ = listener.cancel_overlapped_requests();
                let _ = passive.connector.cancel_overlapped_requests();
            }
            let accepted = accepted.join().expect("accepting does not panic");
            connected.and(accepted)
        })?;
        Ok(Self { active, passive })
    }

    /// Polls both ends until this many results have arrived at both together.
    ///
    /// # Errors
    ///
    /// The status of a request that failed.
    pub fn drain(&self, mut results: usize) -> Result<()> {
        while results > 0 {
            for side in [&self.active, &self.passive] {
                results = results.saturating_sub(side.poll()?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_arrive() {
        for receives in [Receives::Own, Receives::Shared] {
            let pair = Pair::new(true, 64, receives).unwrap();
            for _ in 0..10 {
                pair.passive.receive().unwrap();
                pair.active.send().unwrap();
                pair.drain(2).unwrap();
            }
        }
    }
}
