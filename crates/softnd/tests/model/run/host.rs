//! One of the two hosts: its adapter, its queues, and its memory.

use super::*;

pub(super) struct Host {
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) file: Arc<dyn OverlappedFile>,
    pub(super) queues: Vec<Queue>,
    /// Shared receive queues, also those that are broken or released.
    pub(super) pools: Vec<Pool>,
    pub(super) region: Arc<dyn MemoryRegion>,
    pub(super) arena: Buffer,
    /// The number of octets of the arena that are in use.
    pub(super) used: usize,
    pub(super) removed: bool,
    /// Writes end when the peer has placed them.
    pub(super) confirms: bool,
    pub(super) listener: Arc<dyn Listener>,
    pub(super) address: SocketAddr,
}

pub(super) struct Queue {
    pub(super) cq: Arc<dyn CompletionQueue>,
    pub(super) broken: bool,
}

impl Host {
    pub(super) fn new(adapter: Arc<dyn Adapter>, arena: Buffer, confirms: bool) -> Self {
        let file = adapter.create_overlapped_file().unwrap();
        let region = adapter.create_memory_region(&file).unwrap();
        let overlapped = Overlapped::new();
        let flags = MrFlags::ALLOW_LOCAL_WRITE
            | MrFlags::ALLOW_REMOTE_READ
            | MrFlags::ALLOW_REMOTE_WRITE
            | MrFlags::RDMA_READ_SINK;
        let _ = region.register(&arena, flags, &overlapped).unwrap();
        overlapped.wait().ok().unwrap();
        let queues = [(); 2].map(|()| {
            let cq = adapter.create_completion_queue(&file, 1024, Affinity::default());
            Queue {
                cq: cq.unwrap(),
                broken: false,
            }
        });
        let listener = adapter.create_listener(&file).unwrap();
        let address = adapter.query_address_list().unwrap()[0];
        listener.bind(address).unwrap();
        listener.listen(0).unwrap();
        let address = listener.get_local_address().unwrap();
        Self {
            adapter,
            file,
            queues: queues.into(),
            pools: Vec::new(),
            region,
            arena,
            used: 0,
            removed: false,
            confirms,
            listener,
            address,
        }
    }

    pub(super) fn allot(&mut self, len: usize) -> Option<usize> {
        let at = self.used.next_multiple_of(8);
        let used = at.checked_add(len).filter(|used| *used <= ARENA)?;
        self.used = used;
        Some(at)
    }

    /// A range of the arena as one or two SGEs.
    pub(super) fn sges(&self, at: usize, len: usize, cut: usize) -> Vec<Sge> {
        let sge = |range: Range<usize>| Sge::new(&self.arena, range, self.region.get_local_token());
        if cut == 0 || cut >= len {
            return vec![sge(at..at + len)];
        }
        vec![sge(at..at + cut), sge(at + cut..at + len)]
    }

    pub(super) fn remote(&self, at: usize) -> RemoteAddress {
        RemoteAddress {
            address: self.arena.address() + at as u64,
            token: self.region.get_remote_token(),
        }
    }
}
