//! The convenience layer over objects that follow the contract, and what the traits promise to generic code.

use std::any::Any;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{MockFile, block_on};
use netdirect::{
    Adapter, Affinity, CompletionQueue, CompletionResult, Connector, Listener, MemoryRegion,
    MemoryWindow, NotifyType, OpFlags, Overlapped, OverlappedFile, OverlappedObject,
    PendingOverlapped, Provider, QueuePair, ReadLimits, RemoteAddress, RequestType, Result, Sge,
    SharedReceiveQueue, Started, Status, ext,
};

/// A queue that results are put into by hand.
#[derive(Debug)]
struct Queue {
    mock: Arc<MockFile>,
    file: Arc<dyn OverlappedFile>,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    results: VecDeque<CompletionResult>,
    armed: Vec<PendingOverlapped>,
    broken: bool,
}

impl Queue {
    fn new() -> Arc<Self> {
        let (mock, file) = MockFile::shared();
        Arc::new(Self {
            mock,
            file,
            state: Mutex::default(),
        })
    }

    fn put(&self, request_context: u64) {
        let mut state = self.state.lock().unwrap();
        let result = CompletionResult::new(RequestType::Receive, request_context);
        state.results.push_back(result);
        let armed = std::mem::take(&mut state.armed);
        drop(state);
        armed
            .into_iter()
            .for_each(|pending| pending.complete(Status::SUCCESS));
    }

    fn overrun(&self) {
        let mut state = self.state.lock().unwrap();
        state.broken = true;
        drop(state);
        self.end_notifications(Status::BUFFER_OVERFLOW);
    }

    fn end_notifications(&self, status: Status) {
        let armed = std::mem::take(&mut self.state.lock().unwrap().armed);
        armed
            .into_iter()
            .for_each(|pending| pending.complete(status));
    }

    fn armed(&self) -> usize {
        self.state.lock().unwrap().armed.len()
    }
}

impl OverlappedObject for Queue {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        let armed = std::mem::take(&mut self.state.lock().unwrap().armed);
        drop(armed); // a dropped request is cancelled
        Ok(())
    }
}

impl CompletionQueue for Queue {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        Err(Status::NOT_SUPPORTED.into())
    }

    fn resize(&self, _depth: u32) -> Result<()> {
        Err(Status::NOT_SUPPORTED.into())
    }

    fn notify(&self, _kind: NotifyType, overlapped: &Overlapped) -> Result<Started> {
        let pending = overlapped.begin(&self.file)?;
        let mut state = self.state.lock().unwrap();
        match (state.broken, state.results.is_empty()) {
            (true, _) => pending.complete(Status::BUFFER_OVERFLOW),
            (false, false) => pending.complete(Status::SUCCESS), // CQ-037, notified all the same (TST-003)
            (false, true) => state.armed.push(pending),
        }
        Ok(Started::Pending)
    }

    fn get_results(&self, results: &mut [CompletionResult]) -> usize {
        let mut state = self.state.lock().unwrap();
        let count = results.len().min(state.results.len());
        results
            .iter_mut()
            .zip(state.results.drain(..count))
            .for_each(|(to, from)| *to = from);
        count
    }
}

fn contexts(results: &[CompletionResult]) -> Vec<u64> {
    results
        .iter()
        .map(|result| result.request_context)
        .collect()
}

#[test]
fn results_are_drained_then_waited_for() {
    let queue = Queue::new();
    let cq: Arc<dyn CompletionQueue> = queue.clone();
    let results = ext::Results::new(&cq);
    let mut batch = [CompletionResult::default(); 2];
    (1..=3).for_each(|context| queue.put(context));
    let count = results.get(&mut batch).unwrap();
    assert_eq!(contexts(&batch[..count]), [1, 2]);
    let count = results.get(&mut batch).unwrap();
    assert_eq!(contexts(&batch[..count]), [3]);

    let putter = thread::spawn({
        let queue = queue.clone();
        move || {
            queue.mock.wait_for_sleepers(1);
            queue.put(4);
        }
    });
    assert_eq!(results.get(&mut batch), Ok(1));
    assert_eq!(batch[0].request_context, 4);
    putter.join().unwrap();
}

#[test]
fn a_wait_that_ran_out_keeps_its_notification() {
    let queue = Queue::new();
    let cq: Arc<dyn CompletionQueue> = queue.clone();
    let results = ext::Results::new(&cq);
    let mut batch = [CompletionResult::default(); 2];
    for _ in 0..3 {
        assert_eq!(results.get_timeout(&mut batch, Duration::ZERO), Ok(0));
        assert_eq!(
            results.get_timeout(&mut batch, Duration::from_micros(10)),
            Ok(0)
        );
    }
    assert_eq!(queue.armed(), 1);
    queue.put(1);
    assert_eq!(results.get_timeout(&mut batch, Duration::MAX), Ok(1));
    assert_eq!(queue.armed(), 0);
}

#[test]
fn a_broken_queue_ends_the_wait() {
    // CQ-022
    let queue = Queue::new();
    let cq: Arc<dyn CompletionQueue> = queue.clone();
    let results = ext::Results::new(&cq);
    let breaker = thread::spawn({
        let queue = queue.clone();
        move || {
            queue.mock.wait_for_sleepers(1);
            queue.overrun();
        }
    });
    let mut batch = [CompletionResult::default(); 2];
    assert_eq!(
        results.get(&mut batch).unwrap_err().status(),
        Status::BUFFER_OVERFLOW
    );
    assert_eq!(
        results.get(&mut batch).unwrap_err().status(),
        Status::BUFFER_OVERFLOW
    );
    breaker.join().unwrap();
}

/// A connector that records its calls, and lets all of them succeed unless the test asks for a failure.
#[derive(Debug)]
struct Script {
    mock: Arc<MockFile>,
    file: Arc<dyn OverlappedFile>,
    ends: Status,
    /// Requests stay in flight.
    silent: bool,
    at_once: bool,
    calls: Mutex<Vec<&'static str>>,
    held: Mutex<Vec<PendingOverlapped>>,
}

impl Script {
    fn new(ends: Status) -> Self {
        let (mock, file) = MockFile::shared();
        Self {
            mock,
            file,
            ends,
            silent: false,
            at_once: false,
            calls: Mutex::default(),
            held: Mutex::default(),
        }
    }

    fn start(&self, call: &'static str, overlapped: &Overlapped) -> Result<Started> {
        self.calls.lock().unwrap().push(call);
        let pending = overlapped.begin(&self.file)?;
        if self.at_once {
            pending.abandon(self.ends);
            return self.ends.ok().map(|()| Started::Done);
        }
        if self.silent {
            self.held.lock().unwrap().push(pending);
        } else {
            let ends = self.ends;
            self.mock.submit(move || pending.complete(ends));
        }
        Ok(Started::Pending)
    }

    fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }
}

impl OverlappedObject for Script {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.calls.lock().unwrap().push("cancel");
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        drop(held);
        Ok(())
    }
}

impl Connector for Script {
    fn bind(&self, _: SocketAddr) -> Result<()> {
        Ok(())
    }
    fn connect(
        &self,
        _: &Arc<dyn QueuePair>,
        destination: SocketAddr,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        assert_eq!((destination, private_data), (to(), b"caller".as_slice()));
        assert_eq!((inbound_read_limit, outbound_read_limit), (3, 5));
        self.start("connect", overlapped)
    }
    fn complete_connect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.start("complete", overlapped)
    }
    fn accept(
        &self,
        _: &Arc<dyn QueuePair>,
        inbound_read_limit: u32,
        outbound_read_limit: u32,
        _private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        assert_eq!((inbound_read_limit, outbound_read_limit), (3, 5));
        self.start("accept", overlapped)
    }
    fn reject(&self, _private_data: &[u8]) -> Result<()> {
        Ok(())
    }
    fn get_read_limits(&self) -> Result<ReadLimits> {
        Ok(ReadLimits {
            inbound: 1,
            outbound: 2,
        })
    }
    fn get_private_data(&self) -> Result<Vec<u8>> {
        self.calls.lock().unwrap().push("data");
        Ok(b"callee".to_vec())
    }
    fn get_local_address(&self) -> Result<SocketAddr> {
        Ok(to())
    }
    fn get_peer_address(&self) -> Result<SocketAddr> {
        Ok(to())
    }
    fn notify_disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.start("notify", overlapped)
    }
    fn disconnect(&self, overlapped: &Overlapped) -> Result<Started> {
        self.start("disconnect", overlapped)
    }
}

impl Listener for Script {
    fn bind(&self, _: SocketAddr) -> Result<()> {
        Ok(())
    }
    fn listen(&self, _backlog: u32) -> Result<()> {
        Ok(())
    }
    fn get_local_address(&self) -> Result<SocketAddr> {
        Ok(to())
    }
    fn get_connection_request(
        &self,
        _: &Arc<dyn Connector>,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.start("request", overlapped)
    }
    fn withdraw(&self, _: &Arc<dyn Connector>) -> Result<()> {
        self.calls.lock().unwrap().push("withdraw");
        Ok(())
    }
}

/// Stands for a queue pair where none is used.
#[derive(Debug)]
struct NoPair;

impl QueuePair for NoPair {
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn send(&self, _: u64, _: &[Sge], _: OpFlags) -> Result<()> {
        Err(Status::CONNECTION_INVALID.into())
    }
    fn receive(&self, _: u64, _: &[Sge]) -> Result<()> {
        Err(Status::NO_MORE_ENTRIES.into())
    }
    fn bind(
        &self,
        _: u64,
        _: &Arc<dyn MemoryRegion>,
        _: &Arc<dyn MemoryWindow>,
        _: u64,
        _: u64,
        _: OpFlags,
    ) -> Result<()> {
        Err(Status::CONNECTION_INVALID.into())
    }
    fn invalidate(&self, _: u64, _: &Arc<dyn MemoryWindow>, _: OpFlags) -> Result<()> {
        Err(Status::CONNECTION_INVALID.into())
    }
    fn read(&self, _: u64, _: &[Sge], _: RemoteAddress, _: OpFlags) -> Result<()> {
        Err(Status::CONNECTION_INVALID.into())
    }
    fn write(&self, _: u64, _: &[Sge], _: RemoteAddress, _: OpFlags) -> Result<()> {
        Err(Status::CONNECTION_INVALID.into())
    }
    fn send_inline(&self, _: u64, _: &[&[u8]], _: OpFlags) -> Result<()> {
        Err(Status::CONNECTION_INVALID.into())
    }
    fn write_inline(&self, _: u64, _: &[&[u8]], _: RemoteAddress, _: OpFlags) -> Result<()> {
        Err(Status::CONNECTION_INVALID.into())
    }
}

fn to() -> SocketAddr {
    "192.0.2.7:4791".parse().unwrap()
}

const LIMITS: ReadLimits = ReadLimits {
    inbound: 3,
    outbound: 5,
};

#[test]
fn connecting_takes_both_steps_and_tells_what_the_peer_said() {
    let qp: Arc<dyn QueuePair> = Arc::new(NoPair);
    for at_once in [false, true] {
        let script = Arc::new(Script {
            at_once,
            ..Script::new(Status::SUCCESS)
        });
        let connector: Arc<dyn Connector> = script.clone();
        let peer = ext::connect(&connector, &qp, to(), LIMITS, b"caller").unwrap();
        assert_eq!(
            (&*peer.private_data, peer.limits),
            (
                &b"callee"[..],
                ReadLimits {
                    inbound: 1,
                    outbound: 2
                }
            )
        );
        assert_eq!(script.calls(), ["connect", "data", "complete"]); // the data is not to be had later (CONN-090)
        ext::accept(&connector, &qp, LIMITS, b"").unwrap();
        ext::disconnect(&connector).unwrap();
        assert_eq!(script.calls()[3..], ["accept", "disconnect"]);
    }
}

#[test]
fn connecting_ends_with_the_status_of_the_request() {
    let qp: Arc<dyn QueuePair> = Arc::new(NoPair);
    for at_once in [false, true] {
        let script = Arc::new(Script {
            at_once,
            ..Script::new(Status::CONNECTION_REFUSED)
        });
        let connector: Arc<dyn Connector> = script.clone();
        let error = ext::connect(&connector, &qp, to(), LIMITS, b"caller").unwrap_err();
        assert_eq!(error.status(), Status::CONNECTION_REFUSED);
        assert_eq!(script.calls(), ["connect"]);
    }
}

/// ND_TIMEOUT has the severity of a success (GEN-017), and yet there is no connection.
#[test]
fn gen_017_only_success_is_success() {
    let qp: Arc<dyn QueuePair> = Arc::new(NoPair);
    for ends in [Status::TIMEOUT, Status::FALSE] {
        let script = Arc::new(Script::new(ends));
        let connector: Arc<dyn Connector> = script.clone();
        let error = ext::connect(&connector, &qp, to(), LIMITS, b"caller").unwrap_err();
        assert_eq!(error.status(), ends);
        assert_eq!(script.calls(), ["connect"]);
        let overlapped = Overlapped::new();
        let started = connector.disconnect(&overlapped);
        script.mock.progress();
        let finished = block_on(ext::finished(started, &overlapped));
        assert_eq!(finished.unwrap_err().status(), ends);

        let queue = Queue::new();
        let cq: Arc<dyn CompletionQueue> = queue.clone();
        let results = ext::Results::new(&cq);
        let ender = thread::spawn({
            let queue = queue.clone();
            move || {
                queue.mock.wait_for_sleepers(1);
                queue.end_notifications(ends);
            }
        });
        let got = results.get(&mut [CompletionResult::default()]);
        assert_eq!(got.unwrap_err().status(), ends);
        ender.join().unwrap();
    }
}

#[test]
fn a_request_arrives_with_what_the_peer_said() {
    let script = Arc::new(Script::new(Status::SUCCESS));
    let connector: Arc<dyn Connector> = script.clone();
    let listener: Arc<dyn Listener> = script.clone();
    assert_eq!(
        ext::get_connection_request(&listener, &connector)
            .unwrap()
            .private_data,
        b"callee"
    );
    assert_eq!(script.calls(), ["request", "data"]);
}

#[test]
fn every_interface_is_an_object() {
    // One name for each of the ten interfaces and the overlapped file; providers recognise their own objects by downcasting.
    fn object<T: ?Sized + Any + std::fmt::Debug + Send + Sync>() {}
    object::<dyn Provider>();
    object::<dyn OverlappedObject>();
    object::<dyn OverlappedFile>();
    object::<dyn Adapter>();
    object::<dyn CompletionQueue>();
    object::<dyn MemoryRegion>();
    object::<dyn MemoryWindow>();
    object::<dyn SharedReceiveQueue>();
    object::<dyn QueuePair>();
    object::<dyn Connector>();
    object::<dyn Listener>();

    let cq: Arc<dyn CompletionQueue> = Queue::new();
    let by_reference: &dyn Any = &*cq;
    assert!(by_reference.is::<Queue>() && !by_reference.is::<Script>());
    let base: Arc<dyn OverlappedObject> = cq.clone();
    assert!(base.cancel_overlapped_requests().is_ok());
    let owned: Arc<dyn Any + Send + Sync> = cq;
    assert!(owned.downcast::<Queue>().is_ok());
}
