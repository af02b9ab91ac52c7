//! Providers that behave otherwise than softnd: requests that end within their calls, that end with unusual statuses, or that
//! do not end.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::common::{self, block_on, poll};
use futures_util::stream::StreamExt;
use netdirect::{
    Adapter, AdapterInfo, Affinity, Association, Buffer, CompletionQueue, CompletionResult,
    Connector, Listener, LocalToken, MemoryRegion, MemoryWindow, MrFlags, NotifyType, Overlapped,
    OverlappedFile, OverlappedObject, PendingOverlapped, QueuePair, QueuePairOptions, ReadLimits,
    RemoteToken, RequestType, Result, SharedReceiveQueue, SharedReceiveQueueOptions, Started,
    Status,
};
use netdirect_async::{AsyncAdapter, CompletionStream, ListenerOptions};
use softnd::simulation::Simulation;

/// How a request goes.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It ends within its call, which returns this.
    Within(Status),
    /// It has ended with this status when its call returns.
    Meanwhile(Status),
    /// It stays in flight.
    Never,
}

const DONE: Way = Way::Within(Status::SUCCESS);

#[derive(Debug, Default)]
struct File(Association);

impl OverlappedFile for File {
    fn association(&self) -> &Association {
        &self.0
    }
    fn progress(&self) {}
    fn park(&self, _: &dyn Fn() -> bool, _: Option<Instant>) -> Result<()> {
        Ok(())
    }
    fn wake(&self) {}
    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// The way of each request, in the order of the calls, and the calls that were made.
#[derive(Debug, Default)]
struct Script {
    ways: VecDeque<Way>,
    calls: Vec<&'static str>,
    in_flight: Vec<PendingOverlapped>,
}

/// An adapter that makes itself as every object.
#[derive(Clone, Debug, Default)]
struct Mock(Arc<Mutex<Script>>);

impl Mock {
    fn new(ways: &[Way]) -> Self {
        let mock = Self::default();
        mock.0.lock().unwrap().ways.extend(ways);
        mock
    }

    fn adapter(&self) -> AsyncAdapter {
        let adapter: Arc<dyn Adapter> = Arc::new(self.clone());
        AsyncAdapter::new(&adapter).unwrap()
    }

    fn call(&self, name: &'static str) {
        self.0.lock().unwrap().calls.push(name);
    }

    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap().calls)
    }

    fn start(&self, name: &'static str, overlapped: &Overlapped) -> Result<Started> {
        self.call(name);
        let way = self.0.lock().unwrap().ways.pop_front();
        let file: Arc<dyn OverlappedFile> = Arc::new(File::default());
        let pending = overlapped.begin(&file)?;
        match way.unwrap_or(Way::Never) {
            Way::Within(status) => {
                pending.abandon(status);
                return status.ok().map(|()| Started::Done);
            }
            Way::Meanwhile(status) => pending.complete(status),
            Way::Never => self.0.lock().unwrap().in_flight.push(pending),
        }
        Ok(Started::Pending)
    }

    fn none<T>(&self) -> Result<T> {
        Err(Status::NOT_SUPPORTED.into())
    }
}

impl OverlappedObject for Mock {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        let in_flight = std::mem::take(&mut self.0.lock().unwrap().in_flight);
        drop(in_flight);
        Ok(())
    }
}

impl Adapter for Mock {
    fn create_overlapped_file(&self) -> Result<Arc<dyn OverlappedFile>> {
        Ok(Arc::new(File::default()))
    }
    fn query(&self) -> Result<AdapterInfo> {
        Ok(AdapterInfo::default())
    }
    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        self.none()
    }
    fn create_completion_queue(
        &self,
        _: &Arc<dyn OverlappedFile>,
        _: u32,
        _: Affinity,
    ) -> Result<Arc<dyn CompletionQueue>> {
        self.none()
    }
    fn create_memory_region(&self, _: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn MemoryRegion>> {
        Ok(Arc::new(self.clone()))
    }
    fn create_memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        self.none()
    }
    fn create_shared_receive_queue(
        &self,
        _: &Arc<dyn OverlappedFile>,
        _: SharedReceiveQueueOptions,
    ) -> Result<Arc<dyn SharedReceiveQueue>> {
        self.none()
    }
    fn create_queue_pair(
        &self,
        _: &Arc<dyn CompletionQueue>,
        _: &Arc<dyn CompletionQueue>,
        _: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        self.none()
    }
    fn create_queue_pair_with_srq(
        &self,
        _: &Arc<dyn CompletionQueue>,
        _: &Arc<dyn CompletionQueue>,
        _: &Arc<dyn SharedReceiveQueue>,
        _: QueuePairOptions,
    ) -> Result<Arc<dyn QueuePair>> {
        self.none()
    }
    fn create_connector(&self, _: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Connector>> {
        Ok(Arc::new(self.clone()))
    }
    fn create_listener(&self, _: &Arc<dyn OverlappedFile>) -> Result<Arc<dyn Listener>> {
        Ok(Arc::new(self.clone()))
    }
}

impl Listener for Mock {
    fn bind(&self, _: SocketAddr) -> Result<()> {
        Ok(())
    }
    fn listen(&self, _: u32) -> Result<()> {
        Ok(())
    }
    fn get_local_address(&self) -> Result<SocketAddr> {
        Ok(address())
    }
    fn get_connection_request(
        &self,
        _: &Arc<dyn Connector>,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.start("request", overlapped)
    }
}

impl Connector for Mock {
    fn bind(&self, _: SocketAddr) -> Result<()> {
        Ok(())
    }
    fn connect(
        &self,
        _: &Arc<dyn QueuePair>,
        _: SocketAddr,
        _: u32,
        _: u32,
        _: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.start("connect", overlapped)
    }
    fn complete_connect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.start("complete", overlapped)
    }
    fn accept(
        &self,
        _: &Arc<dyn QueuePair>,
        _: u32,
        _: u32,
        _: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.start("accept", overlapped)
    }
    fn reject(&self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn get_read_limits(&self) -> Result<ReadLimits> {
        Ok(ReadLimits::default())
    }
    fn get_private_data(&self) -> Result<Vec<u8>> {
        Ok(b"peer".to_vec())
    }
    fn get_local_address(&self) -> Result<SocketAddr> {
        Ok(address())
    }
    fn get_peer_address(&self) -> Result<SocketAddr> {
        Ok(address())
    }
    fn notify_disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.start("notify", overlapped)
    }
    fn disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.start("disconnect", overlapped)
    }
}

impl MemoryRegion for Mock {
    fn register(&self, _: &Buffer, _: MrFlags, overlapped: &Overlapped) -> Result<Started> {
        self.start("register", overlapped)
    }
    fn deregister(&self, overlapped: &Overlapped) -> Result<Started> {
        self.start("deregister", overlapped)
    }
    fn get_local_token(&self) -> LocalToken {
        LocalToken(1)
    }
    fn get_remote_token(&self) -> RemoteToken {
        RemoteToken(2)
    }
}

fn address() -> SocketAddr {
    "192.0.2.7:4791".parse().unwrap()
}

/// A queue pair where none is used.
fn queue_pair() -> Arc<dyn QueuePair> {
    let adapter = common::Network::Simulated(Simulation::new(0)).open(1);
    common::Side::new(&adapter).qp
}

#[test]
fn gen_008_connections_may_be_made_within_the_calls() {
    let qp = queue_pair();
    let mock = Mock::new(&[DONE, DONE, DONE, DONE]);
    let connection = block_on(mock.adapter().connect(&qp, address()).into_future()).unwrap();
    assert_eq!(connection.private_data(), b"peer");
    assert_eq!(mock.calls(), ["connect", "complete"]);
    block_on(connection.disconnected()).unwrap();
    block_on(connection.disconnected()).unwrap();
    block_on(connection.disconnect()).unwrap();
    drop(connection);
    assert_eq!(mock.calls(), ["notify", "disconnect"]);
}

#[test]
fn gen_017_a_connect_with_any_other_status_than_success_has_failed() {
    let qp = queue_pair();
    for status in [Status::TIMEOUT, Status::FALSE, Status::CONNECTION_REFUSED] {
        for way in [Way::Within(status), Way::Meanwhile(status)] {
            // The first step, or the second.
            for (ways, made) in [(vec![way], 1), (vec![DONE, way], 2)] {
                let mock = Mock::new(&ways);
                let connect = mock.adapter().connect(&qp, address());
                let error = block_on(connect.into_future()).unwrap_err();
                assert_eq!(error.status(), status);
                let is_refused = made == 1 && status == Status::CONNECTION_REFUSED;
                assert_eq!(!error.private_data.is_empty(), is_refused); // CONN-089
                assert_eq!(mock.calls()[..made], ["connect", "complete"][..made]);
            }
        }
    }
}

/// Some providers take time for CompleteConnect.
#[test]
fn a_connect_that_is_dropped_in_its_second_step_does_not_leave_the_connection_to_nobody() {
    let qp = queue_pair();
    let mock = Mock::new(&[DONE, Way::Never]);
    let mut connect = mock.adapter().connect(&qp, address()).into_future();
    assert!(poll(connect.as_mut()).is_pending());
    assert_eq!(mock.calls(), ["connect", "complete"]);
    drop(connect);
    assert_eq!(mock.calls(), ["disconnect"]);
}

#[test]
fn mr_007_memory_is_registered_when_its_request_has_ended() {
    let buffer = Buffer::new(100);
    let short = Status::INSUFFICIENT_RESOURCES;
    for way in [Way::Within(short), Way::Meanwhile(short)] {
        let adapter = Mock::new(&[way]).adapter();
        let refused = block_on(adapter.register(&buffer, MrFlags::empty()));
        assert_eq!(refused.unwrap_err().status(), short);
    }
    for way in [DONE, Way::Meanwhile(Status::SUCCESS)] {
        let mock = Mock::new(&[way, way]);
        let memory = block_on(mock.adapter().register(&buffer, MrFlags::empty())).unwrap();
        memory.write(0, b"the same memory");
        assert_eq!(buffer.slice(..8).to_vec(), b"the same");
        let (sge, remote) = (memory.sge(10..30), memory.remote(40));
        assert_eq!((sge.address, sge.length), (buffer.address() + 10, 20));
        assert_eq!(remote.address, buffer.address() + 40);
        assert_eq!(memory.part(10..30).sge(), sge);
        block_on(memory.deregister()).unwrap();
        assert_eq!(mock.calls(), ["register", "deregister"]);
    }
    // The region of a future that was dropped is not kept.
    let mock = Mock::new(&[]);
    let adapter = mock.adapter();
    let mut dropped = Box::pin(adapter.register(&buffer, MrFlags::empty()));
    assert!(poll(dropped.as_mut()).is_pending());
    let references = Arc::strong_count(&mock.0);
    drop(dropped);
    assert_eq!(Arc::strong_count(&mock.0), references - 1);
}

#[test]
fn lstn_028_a_listener_takes_peers_that_come_within_the_call() {
    let mock = Mock::new(&[DONE, DONE, Way::Meanwhile(Status::SUCCESS), DONE]);
    let options = ListenerOptions::default().pending(2);
    let listener = mock.adapter().listen(address(), options).unwrap();
    for _ in 0..4 {
        let request = block_on(listener.get_connection_request()).unwrap();
        assert_eq!(request.private_data(), b"peer");
    }
    assert!(poll(pin!(listener.get_connection_request())).is_pending());
    // As many as wished, and none of them twice.
    let made = mock.calls().into_iter().filter(|call| *call == "request");
    assert_eq!(made.count(), 4 + 2);
}

#[test]
fn a_listener_whose_request_fails_tells_one_of_those_who_wait_and_goes_on() {
    let failed = Way::Meanwhile(Status::UNSUCCESSFUL);
    for way in [failed, Way::Within(Status::UNSUCCESSFUL)] {
        let mock = Mock::new(&[way, DONE]);
        let options = ListenerOptions::default().pending(1);
        let listener = mock.adapter().listen(address(), options).unwrap();
        let mut incoming = listener.incoming();
        let error = block_on(incoming.next()).unwrap().unwrap_err();
        assert_eq!(error.status(), Status::UNSUCCESSFUL);
        assert!(block_on(incoming.next()).unwrap().is_ok());
    }
    // A cancelled request is made anew.
    let mock = Mock::new(&[Way::Meanwhile(Status::CANCELED), DONE]);
    let options = ListenerOptions::default().pending(1);
    let listener = mock.adapter().listen(address(), options).unwrap();
    assert!(block_on(listener.get_connection_request()).is_ok());
}

/// A queue whose Notify goes as the script says, and which gets a result at one of the calls.
#[derive(Debug)]
struct Queue {
    mock: Mock,
    /// After this many calls of GetResults and Notify the result is there.
    comes_after: usize,
    calls: Mutex<usize>,
    stale: Mutex<Option<PendingOverlapped>>,
}

impl OverlappedObject for Queue {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.mock.cancel_overlapped_requests()
    }
}

impl Queue {
    /// Counts a call. The result ends what is in flight (CQ-032), and no later Notify (CQ-031).
    fn count(&self) {
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        if *calls == self.comes_after {
            let ended = std::mem::take(&mut self.mock.0.lock().unwrap().in_flight);
            let stale = self.stale.lock().unwrap().take();
            drop(calls);
            for request in ended.into_iter().chain(stale) {
                request.complete(Status::SUCCESS);
            }
        }
    }
}

impl CompletionQueue for Queue {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        self.mock.none()
    }
    fn resize(&self, _: u32) -> Result<()> {
        self.mock.none()
    }
    fn notify(&self, _: NotifyType, overlapped: &Overlapped) -> Result<Started> {
        let started = self.mock.start("notify", overlapped);
        self.count();
        started
    }
    fn get_results(&self, results: &mut [CompletionResult]) -> usize {
        let is_here = *self.calls.lock().unwrap() >= self.comes_after;
        self.count();
        if is_here {
            results[0] = CompletionResult::new(RequestType::Receive, 7);
        }
        usize::from(is_here)
    }
}

/// A Notify of an earlier stream takes the news of a result that comes between two calls of this one.
#[test]
fn cq_031_a_result_that_comes_between_any_two_calls_is_seen() {
    for comes_after in 0..6 {
        let overlapped = Overlapped::new();
        let file: Arc<dyn OverlappedFile> = Arc::new(File::default());
        let queue = Arc::new(Queue {
            mock: Mock::new(&[]),
            comes_after,
            calls: Mutex::new(0),
            stale: Mutex::new(Some(overlapped.begin(&file).unwrap())),
        });
        let cq: Arc<dyn CompletionQueue> = queue.clone();
        let mut results = CompletionStream::new(&cq);
        let mut next = pin!(results.next());
        let mut polls = 0;
        let result = loop {
            if let std::task::Poll::Ready(result) = poll(next.as_mut()) {
                break result;
            }
            // No call of this stream brings the result: something else does.
            polls += 1;
            assert!(polls < 3, "after {comes_after} calls");
            while *queue.calls.lock().unwrap() < comes_after {
                queue.count();
            }
        };
        assert_eq!(result.unwrap().unwrap().request_context, 7);
    }
}
