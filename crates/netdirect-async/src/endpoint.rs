//! Queue pairs whose requests are futures.

use std::ops::RangeBounds;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use netdirect::{
    Adapter, Affinity, CompletionQueue, Error, MemoryWindow, OpFlags, OverlappedFile, QueuePair,
    QueuePairOptions, RemoteAddress, Result, Sge, SharedReceiveQueue, Status,
};

use crate::memory::{BufferPart, RegisteredBuffer};
use crate::requests::{PairRequests, Request, Requests};

/// A completion queue for the results of many endpoints, from [`AsyncAdapter::request_queue`](crate::AsyncAdapter::request_queue).
/// A clone is the same queue.
#[derive(Clone, Debug)]
pub struct RequestQueue {
    cq: Arc<dyn CompletionQueue>,
    requests: Arc<Requests>,
}

impl RequestQueue {
    pub(crate) fn new(
        cq: Arc<dyn CompletionQueue>,
        file: &Arc<dyn OverlappedFile>,
        depth: u32,
    ) -> Self {
        Self {
            requests: Requests::new(cq.clone(), file, depth),
            cq,
        }
    }
}

/// The parts that an [`Endpoint`] shares with others. A server of many clients may want one completion queue for all of them, and one pool
/// of Receives.
///
/// ```
/// # use netdirect::{QueuePairOptions, SharedReceiveQueueOptions};
/// # use netdirect_async::{AsyncAdapter, CompletionStream, EndpointOptions};
/// # fn demo(adapter: &AsyncAdapter) -> netdirect::Result<()> {
/// let requests = adapter.request_queue(1024)?;
/// let srq = adapter.shared_receive_queue(SharedReceiveQueueOptions::default())?;
/// let received = adapter.completion_queue(1024)?;
/// for client in 0..100 {
///     // The context says from which client a message is.
///     let options = EndpointOptions::from(QueuePairOptions::default().context(client))
///         .requests(&requests)
///         .shared_receives(&srq, &received);
///     let endpoint = adapter.endpoint(options)?;
/// }
/// let messages = CompletionStream::new(&received);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct EndpointOptions {
    queue_pair: QueuePairOptions,
    requests: Option<RequestQueue>,
    receives: Option<(Arc<dyn SharedReceiveQueue>, Arc<dyn CompletionQueue>)>,
}

impl From<QueuePairOptions> for EndpointOptions {
    fn from(queue_pair: QueuePairOptions) -> Self {
        Self {
            queue_pair,
            ..Self::default()
        }
    }
}

impl EndpointOptions {
    /// The results of the endpoint's requests come to this queue, which other endpoints use too. As many requests of all these endpoints
    /// can be outstanding as the queue holds; one more fails with [`NO_MORE_ENTRIES`](Status::NO_MORE_ENTRIES). Default: its own queue.
    #[must_use]
    pub fn requests(mut self, queue: &RequestQueue) -> Self {
        self.requests = Some(queue.clone());
        self
    }

    /// Messages of the peer take their Receives from `srq`, to which the application posts them itself, and the results of these Receives
    /// come to `results`, for a [`CompletionStream`](crate::CompletionStream). They are not futures, because it is not known which
    /// connection will take a Receive. [`Endpoint::receive`] is refused then. `results` must not be the queue of futures. Default: Receives
    /// of its own.
    #[must_use]
    pub fn shared_receives(
        mut self,
        srq: &Arc<dyn SharedReceiveQueue>,
        results: &Arc<dyn CompletionQueue>,
    ) -> Self {
        self.receives = Some((srq.clone(), results.clone()));
        self
    }
}

/// A queue pair whose requests are futures, from [`AsyncAdapter::endpoint`](crate::AsyncAdapter::endpoint). It has its own completion
/// queue, which holds the results of all requests that can be outstanding.
///
/// Each method posts a request before it returns, and returns the future of the result. Methods take the memory of a request as
/// [parts](RegisteredBuffer::part) of registered buffers, which stay registered until the request has ended.
///
/// A clone is the same endpoint. Dropping the last one, and the last reference to the queue pair, disconnects. Requests then
/// end with [`CANCELED`](Status::CANCELED).
///
/// ```
/// # use netdirect::{Buffer, MrFlags, OpFlags, QueuePairOptions};
/// # use netdirect_async::AsyncAdapter;
/// # async fn demo(adapter: AsyncAdapter, server: std::net::SocketAddr) -> netdirect::Result<()> {
/// let endpoint = adapter.endpoint(QueuePairOptions::default())?;
/// let memory = adapter.register(&Buffer::new(4096), MrFlags::ALLOW_LOCAL_WRITE).await?;
/// let answer = endpoint.receive([memory.part(2048..)]); // before the peer can send
/// let connection = adapter.connect(endpoint.queue_pair(), server).await?;
///
/// memory.write(0, b"a question");
/// endpoint.send([memory.part(..10)], OpFlags::empty()).await?;
/// let length = answer.await?.bytes_transferred as usize;
/// println!("{:?}", memory.slice(2048..2048 + length).to_vec());
/// # connection.disconnect().await
/// # }
/// ```
///
/// The errors of the requests are those of the method of [`QueuePair`] with the same name, and the statuses of its results.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Before the requests, so that it is dropped first.
    qp: Arc<dyn QueuePair>,
    requests: Arc<PairRequests>,
}

impl Endpoint {
    pub(crate) fn new(
        adapter: &Arc<dyn Adapter>,
        file: &Arc<dyn OverlappedFile>,
        options: EndpointOptions,
    ) -> Result<Self> {
        let EndpointOptions {
            queue_pair,
            requests,
            receives,
        } = options;
        let queue = match requests {
            Some(queue) => queue,
            None => {
                let most = adapter.query()?.max_completion_queue_depth;
                let depth = queue_pair
                    .receive_queue_depth
                    .saturating_add(queue_pair.initiator_queue_depth)
                    .clamp(1, most.max(1));
                let cq = adapter.create_completion_queue(file, depth, Affinity::default())?;
                RequestQueue::new(cq, file, depth)
            }
        };
        let RequestQueue { cq, requests } = queue;
        let qp = match &receives {
            None => adapter.create_queue_pair(&cq, &cq, queue_pair)?,
            Some((srq, results)) => {
                adapter.create_queue_pair_with_srq(results, &cq, srq, queue_pair)?
            }
        };
        let requests = PairRequests::new(requests, &qp);
        Ok(Self { qp, requests })
    }

    /// The queue pair, `IND2QueuePair`, for [`connect`](crate::AsyncAdapter::connect) and
    /// [`accept`](crate::ConnectionRequest::accept). Requests that are posted on it directly have no futures. Requests of kinds
    /// that have no method here can be made by [`post`](Self::post).
    pub fn queue_pair(&self) -> &Arc<dyn QueuePair> {
        &self.qp
    }

    /// Makes a request of any kind. `call` gets the queue pair, the context that it has to pass on, and the entries of the
    /// parts. It posts one request, whose success is not [silent](OpFlags::SILENT_SUCCESS), or returns an error.
    ///
    /// ```
    /// # use netdirect::{AtomicOp, OpFlags, RemoteAddress, Status};
    /// # use netdirect_async::{Endpoint, RegisteredBuffer};
    /// # async fn demo(endpoint: Endpoint, memory: RegisteredBuffer, counter: RemoteAddress) -> netdirect::Result<()> {
    /// let added = endpoint.post([memory.part(..8)], |qp, context, sges| {
    ///     let extensions = qp.extensions().ok_or(Status::NOT_SUPPORTED)?;
    ///     extensions.atomic(context, AtomicOp::add(1), &sges[0], counter, OpFlags::empty())
    /// });
    /// added.await?;
    /// # Ok(()) }
    /// ```
    pub fn post(
        &self,
        parts: impl IntoIterator<Item = BufferPart>,
        call: impl Fn(&dyn QueuePair, u64, &[Sge]) -> Result<()>,
    ) -> Request {
        let (sges, kept): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .map(|part| (part.sge(), part.buffer().clone()))
            .unzip();
        self.requests
            .post(kept, |context| call(&*self.qp, context, &sges))
    }

    /// As [`post`](Self::post), for a request with flags, which are the argument of this number in ND2's method.
    fn post_with(
        &self,
        flags: OpFlags,
        argument: u32,
        parts: impl IntoIterator<Item = BufferPart>,
        call: impl Fn(&dyn QueuePair, u64, &[Sge]) -> Result<()>,
    ) -> Request {
        if flags.contains(OpFlags::SILENT_SUCCESS) {
            let status = Status::invalid_parameter(argument);
            let what = "a request whose success is silent has no result to wait for";
            return Request::refused(&self.requests, Error::new(status, what));
        }
        self.post(parts, call)
    }

    /// `Send`: sends a message, which uses one of the peer's Receives.
    pub fn send(&self, parts: impl IntoIterator<Item = BufferPart>, flags: OpFlags) -> Request {
        self.post_with(flags, 4, parts, |qp, context, sges| {
            qp.send(context, sges, flags)
        })
    }

    /// `Send` with inline data, at most [`inline_data_size`](QueuePairOptions::inline_data_size) octets, which need not be in
    /// registered memory.
    pub fn send_inline(&self, data: &[&[u8]], flags: OpFlags) -> Request {
        self.post_with(flags, 4, [], |qp, context, _| {
            qp.send_inline(context, data, flags)
        })
    }

    /// `Receive`: provides memory for one message of the peer. The result says how long the message is
    /// ([`bytes_transferred`](netdirect::CompletionResult::bytes_transferred)).
    pub fn receive(&self, parts: impl IntoIterator<Item = BufferPart>) -> Request {
        self.post(parts, |qp, context, sges| qp.receive(context, sges))
    }

    /// `Read`: reads from the peer's memory as many octets as the parts hold.
    pub fn read(
        &self,
        parts: impl IntoIterator<Item = BufferPart>,
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Request {
        self.post_with(flags, 6, parts, |qp, context, sges| {
            qp.read(context, sges, remote, flags)
        })
    }

    /// `Write`: writes the octets of the parts into the peer's memory.
    pub fn write(
        &self,
        parts: impl IntoIterator<Item = BufferPart>,
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Request {
        self.post_with(flags, 6, parts, |qp, context, sges| {
            qp.write(context, sges, remote, flags)
        })
    }

    /// `Write` with inline data, at most [`inline_data_size`](QueuePairOptions::inline_data_size) octets, which need not be in
    /// registered memory.
    pub fn write_inline(&self, data: &[&[u8]], remote: RemoteAddress, flags: OpFlags) -> Request {
        self.post_with(flags, 6, [], |qp, context, _| {
            qp.write_inline(context, data, remote, flags)
        })
    }

    /// `Bind`: gives the peer access, through a [window](crate::AsyncAdapter::memory_window), to a range of registered memory. The
    /// result is what the peer needs: the address of the first octet with the window's token. The memory stays registered until the
    /// request has ended; the caller keeps it, and the window, as long as the peer is to have access.
    ///
    /// ```
    /// # use netdirect::OpFlags;
    /// # use netdirect_async::{AsyncAdapter, Endpoint, RegisteredBuffer};
    /// # async fn demo(adapter: AsyncAdapter, endpoint: Endpoint, memory: RegisteredBuffer) -> netdirect::Result<()> {
    /// let window = adapter.memory_window()?;
    /// let remote = endpoint.bind(&memory, 1000..2000, &window, OpFlags::ALLOW_READ).await?;
    /// endpoint.send_inline(&[&remote.to_bytes()], OpFlags::empty()).await?; // the peer may read these octets from now on
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// If the range lies outside the buffer.
    pub fn bind(
        &self,
        memory: &RegisteredBuffer,
        range: impl RangeBounds<usize>,
        window: &Arc<dyn MemoryWindow>,
        flags: OpFlags,
    ) -> Bind {
        let bound = memory.slice(range);
        let (address, length) = (bound.address(), bound.len() as u64);
        let request = self.post_with(flags, 6, [memory.part(..0)], |qp, context, _| {
            qp.bind(context, memory.region(), window, address, length, flags)
        });
        // Each Bind makes a new token, which is known when Bind has returned (MW-008).
        let token = window.get_remote_token();
        Bind {
            request,
            remote: RemoteAddress { address, token },
        }
    }

    /// `Invalidate`: ends the peer's access through a window.
    pub fn invalidate(&self, window: &Arc<dyn MemoryWindow>, flags: OpFlags) -> Request {
        self.post_with(flags, 3, [], |qp, context, _| {
            qp.invalidate(context, window, flags)
        })
    }

    /// `Flush`: ends all outstanding requests with [`CANCELED`](Status::CANCELED). On a connected queue pair this ends the
    /// connection with some providers, softnd among them.
    ///
    /// # Errors
    ///
    /// Those of [`QueuePair::flush`].
    pub fn flush(&self) -> Result<()> {
        self.qp.flush()
    }
}

/// A Bind, from [`Endpoint::bind`]: the future of the address by which the peer reaches the window. It is a [`Request`] in all other
/// respects.
#[must_use = "the request runs, and whoever drops this does not learn how it ends"]
#[derive(Debug)]
pub struct Bind {
    request: Request,
    remote: RemoteAddress,
}

impl Future for Bind {
    type Output = Result<RemoteAddress>;

    /// # Panics
    ///
    /// If the future has ended already.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = Pin::new(&mut self.request).poll(cx);
        ended.map(|ended| ended.map(|_| self.remote))
    }
}
