//! A provider that breaks one rule: each object is that of another provider, with one thing wrong.

mod connection;
mod data;
mod file;
mod memory;
mod pool;
pub(crate) mod rule;

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use netdirect::{
    Adapter, AdapterExtensions, AdapterId, AdapterInfo, Affinity, Capabilities, CompletionQueue,
    Connector, Counters, Error, Fault, Listener, MemoryRegion, MemoryWindow, Overlapped,
    OverlappedFile, OverlappedObject, Provider, ProviderExtensions, QueuePair, QueuePairOptions,
    Result, SharedReceiveQueue, SharedReceiveQueueOptions, Started, Status,
};

use self::connection::{BrokenConnector, BrokenListener};
use self::data::{BrokenCq, BrokenQueuePair, Introductions};
use self::file::BrokenFile;
use self::memory::{BrokenRegion, BrokenWindow};
use self::pool::BrokenPool;
use self::rule::PoolDeed;
pub(crate) use self::rule::{Break, Method};

/// A provider that breaks a rule.
#[derive(Debug)]
pub(crate) struct Broken {
    inner: Arc<dyn Provider>,
    rule: Break,
    introductions: Arc<Introductions>,
}

impl Broken {
    pub(crate) fn new(inner: Arc<dyn Provider>, rule: Break) -> Self {
        Self {
            inner,
            rule,
            introductions: Arc::default(),
        }
    }
}

impl Provider for Broken {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        let mut list = self.inner.query_address_list()?;
        if self.rule == Break::ListWithPorts {
            list.iter_mut().for_each(|address| address.set_port(1));
        }
        Ok(list)
    }

    fn resolve_address(&self, address: SocketAddr) -> Result<AdapterId> {
        if self.rule == Break::PortCounts && address.port() != 0 {
            return Err(Error::new(Status::INVALID_ADDRESS, "not this port"));
        }
        let resolved = self.inner.resolve_address(address);
        match self.rule {
            Break::AnyAddress if says(&resolved, Status::INVALID_ADDRESS) => Ok(AdapterId(0)),
            rule => rule.call(Method::Resolve, resolved),
        }
    }

    fn open_adapter(&self, id: AdapterId) -> Result<Arc<dyn Adapter>> {
        let mut opened = self.inner.open_adapter(id);
        if self.rule == Break::AnyNumber && says(&opened, Status::INVALID_PARAMETER) {
            let first = self.inner.query_address_list()?[0];
            opened = self.inner.open_adapter(self.inner.resolve_address(first)?);
        }
        let inner = self.rule.call(Method::Open, opened)?;
        Ok(Arc::new(BrokenAdapter {
            info: inner.query()?,
            inner,
            rule: self.rule,
            introductions: Arc::clone(&self.introductions),
            made: AtomicUsize::new(0),
            queues: Arc::default(),
            large: AtomicUsize::new(0),
        }))
    }

    fn extensions(&self) -> Option<&dyn ProviderExtensions> {
        self.inner.extensions()
    }
}

#[derive(Debug)]
struct BrokenAdapter {
    inner: Arc<dyn Adapter>,
    rule: Break,
    introductions: Arc<Introductions>,
    /// The result of Query when the adapter was opened.
    info: AdapterInfo,
    /// How many objects were made.
    made: AtomicUsize,
    /// The completion queues.
    queues: Arc<Mutex<Vec<Weak<BrokenCq>>>>,
    /// How many completion queues of the largest depth were made.
    large: AtomicUsize,
}

/// Returns true if a call was refused with this status.
fn says<T>(result: &Result<T>, status: Status) -> bool {
    matches!(result, Err(error) if error.status() == status)
}

/// Returns the object inside a wrapper, or the object itself if it is no wrapper.
fn inner<W: Any, T: ?Sized>(
    object: &dyn Any,
    plain: &Arc<T>,
    inner_of: impl Fn(&W) -> &Arc<T>,
) -> Arc<T> {
    Arc::clone(object.downcast_ref::<W>().map_or(plain, inner_of))
}

fn inner_file(file: &Arc<dyn OverlappedFile>) -> Arc<dyn OverlappedFile> {
    inner(&**file, file, |broken: &BrokenFile| &broken.inner)
}

fn inner_cq(cq: &Arc<dyn CompletionQueue>) -> Arc<dyn CompletionQueue> {
    inner(&**cq, cq, |broken: &BrokenCq| &broken.inner)
}

fn inner_qp(qp: &Arc<dyn QueuePair>) -> Arc<dyn QueuePair> {
    inner(&**qp, qp, |broken: &BrokenQueuePair| &broken.inner)
}

fn inner_connector(connector: &Arc<dyn Connector>) -> Arc<dyn Connector> {
    inner(&**connector, connector, |broken: &BrokenConnector| {
        &broken.inner
    })
}

fn inner_pool(srq: &Arc<dyn SharedReceiveQueue>) -> Arc<dyn SharedReceiveQueue> {
    inner(&**srq, srq, |broken: &BrokenPool| &broken.inner)
}

fn inner_region(region: &Arc<dyn MemoryRegion>) -> Arc<dyn MemoryRegion> {
    inner(&**region, region, |broken: &BrokenRegion| &broken.inner)
}

fn inner_window(window: &Arc<dyn MemoryWindow>) -> Arc<dyn MemoryWindow> {
    inner(&**window, window, |broken: &BrokenWindow| &broken.inner)
}

/// GetOverlappedResult of every object.
fn overlapped_result(
    rule: Break,
    object: &(impl OverlappedObject + ?Sized),
    overlapped: &Overlapped,
    wait: bool,
) -> Status {
    let wait = wait && rule != Break::WaitForgotten;
    object.get_overlapped_result(overlapped, wait)
}

/// Starts a request. Where its final status may be wrong, the caller's Overlapped is that of a request of the wrapper's own.
fn start(
    rule: Break,
    method: Method,
    file: &Arc<dyn OverlappedFile>,
    overlapped: &Overlapped,
    call: impl FnOnce(&Overlapped) -> Result<Started>,
) -> Result<Started> {
    if !rule.is_about(method) {
        return call(overlapped);
    }
    let pending = Arc::new(Mutex::new(Some(overlapped.begin(file)?)));
    let outer = Arc::clone(&pending);
    let sink = move |status| {
        let pending = outer.lock().unwrap().take();
        if let Some(pending) = pending {
            pending.complete(rule.status(method, status));
        }
    };
    let own = Overlapped::with_sink(Arc::new(sink)).without_port();
    let started = rule.call(method, call(&own));
    let done = match &started {
        Ok(Started::Pending) => return started,
        Ok(Started::Done) => Status::SUCCESS,
        Err(error) => error.status(),
    };
    if let Some(pending) = pending.lock().unwrap().take() {
        pending.abandon(done);
    }
    started
}

impl BrokenAdapter {
    fn made(&self) {
        self.made.fetch_add(1, Ordering::SeqCst);
    }
}

impl Adapter for BrokenAdapter {
    fn create_overlapped_file(&self) -> Result<Arc<dyn OverlappedFile>> {
        let made = self.inner.create_overlapped_file();
        let inner = self.rule.call(Method::File, made)?;
        Ok(match self.rule {
            Break::FileGivenUp => Arc::new(BrokenFile { inner }),
            _ => inner,
        })
    }

    fn query(&self) -> Result<AdapterInfo> {
        let mut info = self.inner.query()?;
        match self.rule {
            Break::LimitsFollowLoad if self.made.load(Ordering::SeqCst) > 0 => {
                info.max_completion_queue_depth -= 1;
            }
            Break::WrongAdapterId => info.adapter_id = AdapterId(info.adapter_id.0 ^ 1),
            Break::ReadEntriesAboveAll => info.max_read_sge = info.max_initiator_sge + 1,
            Break::NoWindowSize => info.max_window_size = 0,
            Break::NoCalleeData => info.max_callee_data = 0,
            Break::ThresholdAboveInline => {
                info.inline_request_threshold = info.max_inline_data_size + 1;
            }
            _ => {}
        }
        Ok(info)
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        let mut list = self.inner.query_address_list()?;
        match self.rule {
            Break::ForeignAddress => list.push(SocketAddr::from(([192, 0, 2, 1], 0))),
            Break::AddressMissing => list.clear(),
            _ => {}
        }
        Ok(list)
    }

    fn create_completion_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Arc<dyn CompletionQueue>> {
        let largest = self.info.max_completion_queue_depth;
        if self.rule == Break::LargestDepthRefused && depth == largest {
            return Err(Error::new(Status::INVALID_PARAMETER_3, "too deep"));
        }
        if self.rule == Break::AffinityRefused && affinity.group > 0 {
            return Err(Error::new(Status::INVALID_PARAMETER, "no such group"));
        }
        if self.rule == Break::OneLargeQueue
            && depth == largest
            && self.large.fetch_add(1, Ordering::SeqCst) > 0
        {
            return Err(Error::new(Status::INSUFFICIENT_RESOURCES, "one only"));
        }
        let real = inner_file(file);
        let made = self.inner.create_completion_queue(&real, depth, affinity);
        let inner = self.rule.call(Method::Cq, made)?;
        self.made();
        let mut cq = BrokenCq::new(inner, &real, self.rule);
        cq.depth = depth.into();
        cq.wish = affinity;
        cq.client_file = Arc::downgrade(file);
        cq.others = self.queues.clone();
        let cq = Arc::new(cq);
        self.queues.lock().unwrap().push(Arc::downgrade(&cq));
        Ok(cq)
    }

    fn create_memory_region(
        &self,
        file: &Arc<dyn OverlappedFile>,
    ) -> Result<Arc<dyn MemoryRegion>> {
        let made = self.inner.create_memory_region(&inner_file(file));
        let inner = self.rule.call(Method::Region, made)?;
        self.made();
        Ok(Arc::new(BrokenRegion::new(
            inner,
            &inner_file(file),
            self.rule,
        )))
    }

    fn create_memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        let made = self.inner.create_memory_window();
        let inner = self.rule.call(Method::Window, made)?;
        Ok(Arc::new(BrokenWindow::new(inner, self.rule)))
    }

    fn create_shared_receive_queue(
        &self,
        file: &Arc<dyn OverlappedFile>,
        options: SharedReceiveQueueOptions,
    ) -> Result<Arc<dyn SharedReceiveQueue>> {
        let file = inner_file(file);
        let deepest = self.info.max_shared_receive_queue_depth;
        let options = pool::options(self.rule, options, deepest);
        let inner = self.inner.create_shared_receive_queue(&file, options)?;
        let mut pool = BrokenPool::new(inner, &file, self.rule);
        pool.queues = self.queues.clone();
        Ok(Arc::new(pool))
    }

    fn create_queue_pair(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        mut options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        let info = self.info;
        match self.rule {
            Break::LargestQueuePairRefused
                if options.initiator_queue_depth == info.max_initiator_queue_depth =>
            {
                return Err(Error::new(Status::INVALID_PARAMETER_6, "too many"));
            }
            Break::TwoEntriesRefused
                if options.max_receive_request_sge == 2
                    && options.max_initiator_request_sge == 2 =>
            {
                return Err(Error::new(Status::INVALID_PARAMETER_7, "one only"));
            }
            Break::ShallowInitiator if (4..=10).contains(&options.initiator_queue_depth) => {
                options.initiator_queue_depth = 2;
            }
            Break::ShallowReceives if (4..=10).contains(&options.receive_queue_depth) => {
                options.receive_queue_depth = 2;
            }
            _ => {}
        }
        let (receives, initiator) = (inner_cq(receive_cq), inner_cq(initiator_cq));
        let made = self.inner.create_queue_pair(&receives, &initiator, options);
        let inner = self.rule.call(Method::QueuePair, made)?;
        let mut qp = BrokenQueuePair::new(inner, self.rule);
        qp.queues = self.queues.clone();
        Ok(Arc::new(qp))
    }

    fn create_queue_pair_with_srq(
        &self,
        receive_cq: &Arc<dyn CompletionQueue>,
        initiator_cq: &Arc<dyn CompletionQueue>,
        srq: &Arc<dyn SharedReceiveQueue>,
        options: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        let (receives, initiator) = (inner_cq(receive_cq), inner_cq(initiator_cq));
        let made =
            self.inner
                .create_queue_pair_with_srq(&receives, &initiator, &inner_pool(srq), options);
        let inner = self.rule.call(Method::SharedQueuePair, made)?;
        let qp = BrokenQueuePair::new(inner, self.rule);
        let (queue, pool): (&dyn Any, &dyn Any) = (&**receive_cq, &**srq);
        let queue = queue.downcast_ref::<BrokenCq>();
        let Some(pool) = pool.downcast_ref::<BrokenPool>() else {
            return Ok(Arc::new(qp));
        };
        queue.inspect(|queue| queue.receives_from(&pool.book));
        Ok(Arc::new(qp.with_pool(&pool.book)))
    }

    fn create_connector(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Connector>> {
        let made = self.inner.create_connector(&inner_file(file));
        let inner = self.rule.call(Method::Connector, made)?;
        let own = self.inner.query_address_list()?;
        let own: Vec<IpAddr> = own.iter().map(SocketAddr::ip).collect();
        let introductions = Arc::clone(&self.introductions);
        Ok(Arc::new(BrokenConnector::new(
            inner,
            &inner_file(file),
            own,
            introductions,
            self.rule,
        )))
    }

    fn create_listener(&self, file: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Listener>> {
        let made = self.inner.create_listener(&inner_file(file));
        let inner = self.rule.call(Method::Listener, made)?;
        Ok(Arc::new(BrokenListener::new(
            inner,
            &inner_file(file),
            self.rule,
        )))
    }

    fn extensions(&self) -> Option<&dyn AdapterExtensions> {
        Some(self)
    }
}

impl AdapterExtensions for BrokenAdapter {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn counters(&self) -> Counters {
        let extensions = self.inner.extensions();
        let counters = extensions.map_or_else(Counters::new, |extensions| extensions.counters());
        if self.rule == Break::LenienceUncounted {
            let names = counters.iter().map(|(name, _)| (name.to_owned(), 0));
            return names.collect();
        }
        counters
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        let fault = match fault {
            Fault::BreakCompletionQueue { queue, status } => Fault::BreakCompletionQueue {
                queue: inner_cq(&queue),
                status,
            },
            Fault::BreakSharedReceiveQueue { .. }
                if self.rule == Break::Pool(PoolDeed::BreakdownUntold) =>
            {
                return Ok(());
            }
            Fault::BreakSharedReceiveQueue { queue, .. }
                if self.rule == Break::Pool(PoolDeed::BreakdownSparesPairs) =>
            {
                let pool: &dyn Any = &*queue;
                let pool = pool.downcast_ref::<BrokenPool>();
                return pool.map_or(Ok(()), BrokenPool::tell_of_breakdown);
            }
            Fault::BreakSharedReceiveQueue { queue, status } => Fault::BreakSharedReceiveQueue {
                queue: inner_pool(&queue),
                status,
            },
            fault => fault,
        };
        let extensions = self.inner.extensions();
        extensions.expect("softnd injects faults").inject(fault)
    }
}
