//! Completion queues and queue pairs.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use netdirect::{
    Affinity, CompletionQueue, CompletionResult, Error, MemoryRegion, MemoryWindow, NotifyType,
    OpFlags, Overlapped, OverlappedFile, OverlappedObject, QueuePair, QueuePairExtensions,
    RemoteAddress, RequestType, Result, Sge, Started, Status,
};

use super::memory::{BrokenRegion, BrokenWindow};
use super::pool::PoolBook;
use super::rule::{Break, Method, PoolDeed};
use super::{inner_region, inner_window, overlapped_result, start};

#[derive(Debug)]
pub(super) struct BrokenCq {
    pub(super) inner: Arc<dyn CompletionQueue>,
    file: Arc<dyn OverlappedFile>,
    /// The file as the client has it.
    pub(super) client_file: Weak<dyn OverlappedFile>,
    pub(super) depth: AtomicU32,
    pub(super) wish: Affinity,
    /// All completion queues of the adapter.
    pub(super) others: CompletionQueues,
    /// Results that were taken out of the queue inside, for which no Notify ends any more.
    taken: Mutex<VecDeque<CompletionResult>>,
    /// The client has got results since its last Notify.
    looked: AtomicBool,
    asked: Mutex<Vec<(NotifyType, Overlapped)>>,
    /// The shared receive queues whose Receives end here.
    pools: Mutex<Vec<Arc<PoolBook>>>,
    rule: Break,
}

impl BrokenCq {
    pub(super) fn new(
        inner: Arc<dyn CompletionQueue>,
        file: &Arc<dyn OverlappedFile>,
        rule: Break,
    ) -> Self {
        Self {
            inner,
            file: file.clone(),
            client_file: Arc::downgrade(file),
            depth: AtomicU32::new(0),
            wish: Affinity::default(),
            others: Arc::default(),
            taken: Mutex::default(),
            looked: AtomicBool::new(false),
            asked: Mutex::new(Vec::new()),
            pools: Mutex::default(),
            rule,
        }
    }

    /// Receives of this shared receive queue end here.
    pub(super) fn receives_from(&self, pool: &Arc<PoolBook>) {
        self.pools.lock().unwrap().push(Arc::clone(pool));
    }

    /// Takes all results out of the queue inside. Returns how many the client has not got.
    fn drain(&self) -> usize {
        let mut taken = self.taken.lock().unwrap();
        let mut batch = [CompletionResult::default(); 16];
        loop {
            let count = self.inner.get_results(&mut batch);
            taken.extend(&batch[..count]);
            if count == 0 {
                return taken.len();
            }
        }
    }

    /// Results in the order in which they came.
    fn results(&self, results: &mut [CompletionResult]) -> usize {
        let mut taken = self.taken.lock().unwrap();
        let early = taken.len().min(results.len());
        for (place, result) in results.iter_mut().zip(taken.drain(..early)) {
            *place = result;
        }
        early + self.inner.get_results(&mut results[early..])
    }

    /// Another queue of the adapter has many results.
    fn is_held_up(&self) -> bool {
        let queues = self.others.lock().unwrap();
        let mut others = queues.iter().filter_map(Weak::upgrade);
        others.any(|other| !std::ptr::eq(&*other, self) && other.drain() >= 32)
    }
}

impl OverlappedObject for BrokenCq {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.inner.cancel_overlapped_requests()
    }

    fn get_overlapped_result(&self, overlapped: &Overlapped, wait: bool) -> Status {
        let status = overlapped_result(self.rule, &*self.inner, overlapped, wait);
        match (self.rule, status) {
            (Break::FailureIsSuccess, Status::CANCELED)
            | (Break::PendingIsSuccess, Status::PENDING) => Status::SUCCESS,
            (_, status) => status,
        }
    }
}

impl CompletionQueue for BrokenCq {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        let affinity = self.inner.get_notify_affinity();
        if self.rule == Break::AffinityEchoed && self.wish.mask != 0 {
            return Ok(self.wish);
        }
        self.rule.call(Method::Affinity, affinity)
    }

    fn resize(&self, depth: u32) -> Result<()> {
        let resized = self.inner.resize(depth);
        if self.rule == Break::ResizeLoses && resized.is_ok() {
            self.inner.get_results(&mut [CompletionResult::default()]);
        }
        if self.rule == Break::ResizeForgotten {
            resized?;
            return self.inner.resize(self.depth.load(Ordering::SeqCst));
        }
        self.rule.call(Method::Resize, resized)
    }

    fn notify(&self, kind: NotifyType, overlapped: &Overlapped) -> Result<Started> {
        match self.rule {
            Break::FileGivenUp if self.client_file.strong_count() == 0 => {
                return Err(Error::new(Status::INVALID_HANDLE, "the file is gone"));
            }
            Break::NotifyForNewOnly => drop(self.drain()),
            Break::LookIsNotify if self.looked.swap(false, Ordering::SeqCst) => {
                self.drain();
            }
            _ => {}
        }
        let kind = match (self.rule, kind) {
            (Break::ErrorsMeanAny, NotifyType::Errors)
            | (Break::SolicitedMeansAny, NotifyType::Solicited) => NotifyType::Any,
            (Break::AnyMeansSolicited, NotifyType::Any) => NotifyType::Solicited,
            (Break::SolicitedMeansErrors, NotifyType::Solicited) => NotifyType::Errors,
            (_, kind) => kind,
        };
        let older = self.asked.lock().unwrap().clone();
        let is_older =
            |(requested, own): &(NotifyType, Overlapped)| *requested == kind && own.is_pending();
        if self.rule == Break::NewerCancels && older.iter().any(is_older) {
            self.inner.cancel_overlapped_requests()?;
        }
        let method = match kind {
            NotifyType::Solicited if self.rule.is_about(Method::NotifySolicited) => {
                Method::NotifySolicited
            }
            _ => Method::Notify,
        };
        let started = start(self.rule, method, &self.file, overlapped, |own| {
            self.inner.notify(kind, own)
        })?;
        self.asked.lock().unwrap().push((kind, overlapped.clone()));
        Ok(started)
    }

    fn get_results(&self, results: &mut [CompletionResult]) -> usize {
        let room = results.len();
        if self.rule == Break::OneEngine && self.is_held_up() {
            return 0;
        }
        let mut count = self.results(results);
        for pool in &*self.pools.lock().unwrap() {
            count = pool.results(self.rule, &mut results[..count]);
        }
        if count > 0 {
            self.looked.store(true, Ordering::SeqCst);
        }
        let got = &mut results[..count];
        match self.rule {
            Break::NoQueuePairContext => {
                got.iter_mut()
                    .for_each(|result| result.queue_pair_context = 0);
            }
            Break::ContextCut => {
                got.iter_mut()
                    .for_each(|result| result.request_context &= !(1 << 63));
            }
            Break::NewestFirst
                if got
                    .iter()
                    .all(|result| result.request_type != RequestType::Receive) =>
            {
                got.reverse();
            }
            Break::CountsTooMany if got.is_empty() && room == 0 => return 1,
            Break::CountCut => got
                .iter_mut()
                .for_each(|result| result.bytes_transferred &= 0xFFFF),
            Break::ShortIsSuccess => replace(got, Status::BUFFER_OVERFLOW, Status::SUCCESS),
            _ => {}
        }
        count
    }
}

/// Results with one status have another.
fn replace(results: &mut [CompletionResult], from: Status, to: Status) {
    let wrong = results.iter_mut().filter(|result| result.status == from);
    wrong.for_each(|result| result.status = to);
}

/// Records which queue pairs of a provider are connected to each other.
#[derive(Debug, Default)]
pub(crate) struct Introductions {
    /// The one for which Connect was called last.
    connecting: Mutex<Weak<Acquaintance>>,
}

impl Introductions {
    /// Connect was called for a queue pair.
    pub(super) fn connects(&self, qp: &Arc<dyn QueuePair>) {
        if let Some(own) = acquaintance(qp) {
            *self.connecting.lock().unwrap() = Arc::downgrade(&own);
        }
    }

    /// Accept was called for a queue pair: its peer is the one that connects.
    pub(super) fn accepts(&self, qp: &Arc<dyn QueuePair>) {
        let connecting = self.connecting.lock().unwrap().upgrade();
        if let (Some(own), Some(peer)) = (acquaintance(qp), connecting) {
            *own.peer.lock().unwrap() = Arc::downgrade(&peer);
            *peer.peer.lock().unwrap() = Arc::downgrade(&own);
        }
    }
}

fn acquaintance(qp: &Arc<dyn QueuePair>) -> Option<Arc<Acquaintance>> {
    let qp: &dyn Any = &**qp;
    let qp = qp.downcast_ref::<BrokenQueuePair>()?;
    Some(Arc::clone(&qp.own))
}

/// The state of the peers that queue pairs use.
#[derive(Debug)]
struct Acquaintance {
    inner: Arc<dyn QueuePair>,
    pool: Option<Arc<PoolBook>>,
    peer: Mutex<Weak<Self>>,
}

#[derive(Debug)]
pub(super) struct BrokenQueuePair {
    pub(super) inner: Arc<dyn QueuePair>,
    own: Arc<Acquaintance>,
    /// All completion queues of the adapter.
    pub(super) queues: CompletionQueues,
    rule: Break,
}

/// All completion queues of an adapter.
pub(super) type CompletionQueues = Arc<Mutex<Vec<Weak<BrokenCq>>>>;

/// Takes all results of an adapter out of the queues inside, which frees the slots of their requests.
pub(super) fn drain_all(queues: &CompletionQueues) {
    let queues = queues.lock().unwrap().clone();
    for queue in queues.iter().filter_map(Weak::upgrade) {
        queue.drain();
    }
}

impl BrokenQueuePair {
    pub(super) fn new(inner: Arc<dyn QueuePair>, rule: Break) -> Self {
        let own = Acquaintance {
            inner: Arc::clone(&inner),
            pool: None,
            peer: Mutex::default(),
        };
        Self {
            inner,
            own: Arc::new(own),
            queues: Arc::default(),
            rule,
        }
    }

    /// A request is about to be posted.
    fn posts(&self) {
        if self.rule == Break::SlotFreeEarly {
            drain_all(&self.queues);
        }
    }

    /// Its Receives are those of a shared receive queue.
    pub(super) fn with_pool(mut self, pool: &Arc<PoolBook>) -> Self {
        pool.joined(&self.inner);
        self.own = Arc::new(Acquaintance {
            inner: Arc::clone(&self.inner),
            pool: Some(Arc::clone(pool)),
            peer: Mutex::default(),
        });
        self
    }

    /// A message was sent to the peer.
    fn sent(&self) -> Result<()> {
        let peer = self.own.peer.lock().unwrap().upgrade();
        if let Some(peer) = peer
            && let Some(pool) = &peer.pool
            && !pool.is_ready_for_message()
            && self.rule == Break::Pool(PoolDeed::EmptyEndsConnection)
        {
            return peer.inner.flush();
        }
        Ok(())
    }

    fn flags(&self, flags: OpFlags) -> OpFlags {
        match self.rule {
            Break::NotSilent => flags - OpFlags::SILENT_SUCCESS,
            Break::FenceForgotten => flags - OpFlags::READ_FENCE,
            Break::SolicitForgotten => flags - OpFlags::SEND_AND_SOLICIT_EVENT,
            _ => flags,
        }
    }

    fn pieces(&self, data: &[&[u8]]) -> Result<()> {
        if self.rule == Break::InlineInOnePiece && data.len() > 1 {
            return Err(Error::new(Status::DATA_OVERRUN, "too many pieces"));
        }
        Ok(())
    }

    fn not_empty(&self, rule: Break, sges: &[Sge]) -> Result<()> {
        if self.rule == rule && sges.is_empty() {
            return Err(Error::new(Status::INVALID_PARAMETER, "nothing"));
        }
        Ok(())
    }
}

impl QueuePair for BrokenQueuePair {
    fn flush(&self) -> Result<()> {
        match self.rule {
            Break::FlushPanics => panic!("not implemented yet"),
            Break::FlushHangs => loop {
                std::thread::park();
            },
            Break::FlushForgotten => Ok(()),
            _ => self.inner.flush(),
        }
    }

    fn send(&self, context: u64, sges: &[Sge], flags: OpFlags) -> Result<()> {
        let posted = self.inner.send(context, sges, self.flags(flags));
        self.rule.call(Method::Send, posted)?;
        self.sent()
    }

    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        self.posts();
        let posted = self.inner.receive(context, sges);
        self.rule.call(Method::Receive, posted)
    }

    fn bind(
        &self,
        context: u64,
        region: &Arc<dyn MemoryRegion>,
        window: &Arc<dyn MemoryWindow>,
        mut address: u64,
        mut length: u64,
        mut flags: OpFlags,
    ) -> Result<()> {
        let rights = OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
        match self.rule {
            Break::WindowWritable => flags |= OpFlags::ALLOW_WRITE,
            Break::WindowSmall if length > 512 << 10 => {
                return Err(Error::new(Status::ACCESS_VIOLATION, "too large"));
            }
            Break::WindowReadable if flags.contains(OpFlags::ALLOW_WRITE) => {
                flags |= OpFlags::ALLOW_READ;
            }
            Break::BindNeedsRights if !flags.intersects(rights) => {
                return Err(Error::new(Status::INVALID_PARAMETER_6, "no rights"));
            }
            Break::WindowIsRegion => {
                let any: &dyn Any = &**region;
                let own = any.downcast_ref::<BrokenRegion>();
                let buffer = own.and_then(|own| own.buffer.lock().unwrap().clone());
                if let Some(buffer) = buffer {
                    (address, length) = (buffer.address(), buffer.len() as u64);
                }
            }
            _ => {}
        }
        let (inner, before) = (inner_window(window), window.get_remote_token());
        let posted = self.inner.bind(
            context,
            &inner_region(region),
            &inner,
            address,
            length,
            flags,
        );
        self.rule.call(Method::Bind, posted)?;
        let any: &dyn Any = &**window;
        if self.rule == Break::LateToken
            && let Some(window) = any.downcast_ref::<BrokenWindow>()
        {
            *window.reported.lock().unwrap() = Some(before);
        }
        Ok(())
    }

    fn invalidate(
        &self,
        context: u64,
        window: &Arc<dyn MemoryWindow>,
        flags: OpFlags,
    ) -> Result<()> {
        let posted = self.inner.invalidate(context, &inner_window(window), flags);
        self.rule.call(Method::Invalidate, posted)
    }

    fn read(
        &self,
        context: u64,
        sges: &[Sge],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        self.not_empty(Break::NoEmptyRead, sges)?;
        let flags = match self.rule {
            Break::ReadFlagsIgnored => flags & (OpFlags::SILENT_SUCCESS | OpFlags::READ_FENCE),
            _ => flags,
        };
        let posted = self.inner.read(context, sges, remote, flags);
        self.rule.call(Method::Read, posted)
    }

    fn write(
        &self,
        context: u64,
        sges: &[Sge],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        self.posts();
        let posted = self.inner.write(context, sges, remote, flags);
        self.rule.call(Method::Write, posted)
    }

    fn send_inline(&self, context: u64, data: &[&[u8]], flags: OpFlags) -> Result<()> {
        self.pieces(data)?;
        let posted = self.inner.send_inline(context, data, flags);
        self.rule.call(Method::SendInline, posted)?;
        self.sent()
    }

    fn write_inline(
        &self,
        context: u64,
        data: &[&[u8]],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        self.pieces(data)?;
        let posted = self.inner.write_inline(context, data, remote, flags);
        self.rule.call(Method::WriteInline, posted)
    }

    fn extensions(&self) -> Option<&dyn QueuePairExtensions> {
        self.inner.extensions()
    }
}

impl Drop for BrokenQueuePair {
    fn drop(&mut self) {
        if self.rule == Break::Pool(PoolDeed::ReceivesLostAtRelease)
            && let Some(pool) = &self.own.pool
        {
            pool.lose_receives();
        }
        if self.rule == Break::ReleasedPairStays {
            std::mem::forget(self.inner.clone());
        }
    }
}
