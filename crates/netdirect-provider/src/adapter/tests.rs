//! Adapters whose objects are those of the other tests.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use netdirect::{
    Adapter, AdapterExtensions, CompletionQueue, Fault, MemoryWindow, NotifyType, Overlapped,
    OverlappedFile, QueuePairOptions, SharedReceiveQueue, SharedReceiveQueueOptions,
};
use parking_lot::Mutex;

use super::*;
use crate::completion_queue::tests::TestCompletionQueue;
use crate::connector::tests::TestConnector;
use crate::error::fail;
use crate::listener::tests::TestListener;
use crate::memory_region::tests::TestRegistration;
use crate::queue_pair::tests::TestQueuePair;
use crate::shared_receive_queue::SharedReceiveQueueLine;
use crate::shared_receive_queue::tests::TestSharedReceiveQueue;
use crate::testing::{IdleFile, TestAdapter, file_of};

/// The queue that breaks down while a queue pair is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaks {
    Receive,
    Initiator,
    Shared,
}

#[derive(Debug)]
struct Line {
    adapter: Arc<TestAdapter>,
    breaks: Mutex<Option<Breaks>>,
    /// How many queue pairs were made.
    made: Mutex<u32>,
}

impl AdapterLine for Line {
    type Adapter = TestAdapter;
    type File = IdleFile;
    type CompletionQueue = TestCompletionQueue;
    type SharedReceiveQueue = TestSharedReceiveQueue;
    type Registration = TestRegistration;
    type QueuePair = TestQueuePair;
    type Connector = TestConnector;
    type Listener = TestListener;

    fn adapter(&self) -> &Arc<TestAdapter> {
        &self.adapter
    }

    fn overlapped_file(&self) -> Result<IdleFile> {
        Ok(IdleFile::new(&self.adapter))
    }

    fn memory_window(&self) -> Result<Arc<dyn MemoryWindow>> {
        fail(Status::NOT_SUPPORTED, "no windows")
    }

    fn queue_pair(
        &self,
        queues: &QueuePairQueues<Self>,
        _: QueuePairOptions,
    ) -> Result<TestQueuePair> {
        *self.made.lock() += 1;
        let status = Status::INTERNAL_ERROR;
        match self.breaks.lock().take() {
            Some(Breaks::Receive) => self.break_completion_queue(&queues.receive, status),
            Some(Breaks::Initiator) => self.break_completion_queue(&queues.initiator, status),
            Some(Breaks::Shared) => {
                self.break_shared_receive_queue(queues.shared.as_ref().unwrap(), status);
            }
            None => {}
        }
        Ok(TestQueuePair::new(&self.adapter))
    }

    fn plan_fault(&self, call: Call, _: u32, status: Status) -> Result<()> {
        *self.adapter.fault.lock() = Some((call, status));
        Ok(())
    }

    fn remove_device(&self) -> Result<()> {
        self.adapter.remove();
        Ok(())
    }

    fn break_completion_queue(&self, queue: &TestCompletionQueue, _: Status) {
        queue.is_broken.store(true, Ordering::SeqCst);
    }

    fn break_shared_receive_queue(&self, queue: &TestSharedReceiveQueue, status: Status) {
        queue.rules().break_down(queue, status);
    }
}

struct Stage {
    handle: AdapterHandle<Line>,
    file: Arc<dyn OverlappedFile>,
}

impl Stage {
    fn new() -> Self {
        let line = Line {
            adapter: TestAdapter::at(Ipv4Addr::LOCALHOST.into()),
            breaks: Mutex::default(),
            made: Mutex::default(),
        };
        let handle = AdapterHandle::new(line);
        let file = handle.create_overlapped_file().unwrap();
        Self { handle, file }
    }

    fn queue(&self) -> Arc<dyn CompletionQueue> {
        let queue = self
            .handle
            .create_completion_queue(&self.file, 4, Affinity::default());
        queue.unwrap()
    }

    fn shared(&self) -> Arc<dyn SharedReceiveQueue> {
        let options = SharedReceiveQueueOptions::default().queue_depth(4);
        let queue = self.handle.create_shared_receive_queue(&self.file, options);
        queue.unwrap()
    }

    fn inject(&self, fault: Fault) -> Status {
        status(self.handle.inject(fault))
    }
}

fn status<T>(result: Result<T>) -> Status {
    result.map_or_else(|error| error.status(), |_| Status::SUCCESS)
}

#[test]
fn adpt_051_adpt_052_a_queue_pair_has_no_queue_that_has_broken_down() {
    for (breaks, due) in [
        (None, Status::SUCCESS),
        (Some(Breaks::Receive), Status::INVALID_PARAMETER_2),
        (Some(Breaks::Initiator), Status::INVALID_PARAMETER_3),
        (Some(Breaks::Shared), Status::INVALID_PARAMETER_4),
    ] {
        let stage = Stage::new();
        let (receive, initiator, shared) = (stage.queue(), stage.queue(), stage.shared());
        let make = || {
            let options = QueuePairOptions::default().receive_queue_depth(0);
            let made = stage
                .handle
                .create_queue_pair_with_srq(&receive, &initiator, &shared, options);
            status(made)
        };
        *stage.handle.line().breaks.lock() = breaks;
        assert_eq!(make(), due); // found when the queue pair was made
        assert_eq!(make(), due);
        let made = *stage.handle.line().made.lock();
        assert_eq!(made, if breaks.is_none() { 2 } else { 1 });
    }
}

#[test]
fn gen_022_adpt_086_objects_of_other_adapters_are_refused_by_their_number() {
    let (stage, other) = (Stage::new(), Stage::new());
    let create = |file| status(stage.handle.create_memory_region(file));
    assert_eq!(create(&stage.file), Status::SUCCESS);
    assert_eq!(create(&other.file), Status::INVALID_HANDLE); // ADPT-086
    let options = QueuePairOptions::default();
    let pair = |receive: &_, initiator: &_| {
        status(stage.handle.create_queue_pair(receive, initiator, options))
    };
    let (own, foreign) = (stage.queue(), other.queue());
    assert_eq!(pair(&own, &own), Status::SUCCESS);
    assert_eq!(pair(&foreign, &own), Status::INVALID_PARAMETER_2);
    assert_eq!(pair(&own, &foreign), Status::INVALID_PARAMETER_3);
    let breakdown = |queue, status| Fault::BreakCompletionQueue { queue, status };
    let broken = Status::INTERNAL_ERROR;
    let refused = stage.inject(breakdown(foreign, broken));
    assert_eq!(refused, Status::INVALID_PARAMETER_1);
    let refused = stage.inject(breakdown(Arc::clone(&own), Status::SUCCESS));
    assert_eq!(refused, Status::INVALID_PARAMETER);
    assert_eq!(
        stage.inject(breakdown(Arc::clone(&own), broken)),
        Status::SUCCESS
    );
    assert_eq!(pair(&own, &own), Status::INVALID_PARAMETER_2);
}

#[test]
fn gen_015_adpt_066_adpt_074_what_an_adapter_lacks_and_what_a_removed_one_answers() {
    let stage = Stage::new();
    let addresses = stage.handle.query_address_list().unwrap();
    assert_eq!(addresses, [(Ipv4Addr::LOCALHOST, 0).into()]);
    let (queue, shared) = (stage.queue(), stage.shared());
    let adapter = stage.handle.line().adapter();
    adapter.info.lock().max_shared_receive_queue_depth = 0;
    let make = || {
        let options = QueuePairOptions::default();
        let made = stage
            .handle
            .create_queue_pair_with_srq(&queue, &queue, &shared, options);
        status(made)
    };
    assert_eq!(make(), Status::NOT_SUPPORTED); // ADPT-066
    let removed = Status::DEVICE_REMOVED;
    assert_eq!(stage.inject(Fault::RemoveDevice), Status::SUCCESS);
    assert_eq!(make(), removed); // ADPT-074
    assert_eq!(status(stage.handle.query()), removed);
    assert_eq!(status(stage.handle.query_address_list()), removed);
    let status_of_breakdown = Status::INTERNAL_ERROR;
    let breakdown = Fault::BreakCompletionQueue {
        queue,
        status: status_of_breakdown,
    };
    assert_eq!(stage.inject(breakdown), removed);
}

#[test]
fn gen_015_ovl_010_objects_end_when_the_device_is_removed() {
    let stage = Stage::new();
    let (queue, shared) = (stage.queue(), stage.shared());
    let connector = stage.handle.create_connector(&stage.file).unwrap();
    let listener = stage.handle.create_listener(&stage.file).unwrap();
    let orders = || {
        let adapter = stage.handle.line().adapter();
        let objects = adapter.objects.lock();
        let alive = objects.iter().filter(|(_, object)| object.is_alive());
        alive.map(|(order, _)| *order).collect::<Vec<_>>()
    };
    let all = [
        RemovalOrder::CompletionQueue,
        RemovalOrder::SharedReceiveQueue,
        RemovalOrder::Connector,
        RemovalOrder::Listener,
    ];
    assert_eq!(orders(), all);
    drop((connector, listener)); // the list keeps nothing
    assert_eq!(orders(), all[..2]);
    let waits = [Overlapped::new(), Overlapped::new()];
    let _ = queue.notify(NotifyType::Any, &waits[0]).unwrap();
    let _ = shared.notify(&waits[1]).unwrap();
    assert_eq!(stage.inject(Fault::RemoveDevice), Status::SUCCESS);
    let removed = Status::DEVICE_REMOVED;
    assert_eq!(waits.map(|overlapped| overlapped.status()), [removed; 2]);
    assert_eq!(status(stage.handle.create_listener(&stage.file)), removed);
}

#[test]
fn a_fault_is_due_at_the_adapters_calls_and_not_at_those_of_the_provider() {
    let stage = Stage::new();
    let due = Status::NO_MEMORY;
    let fail = |call| {
        stage.inject(Fault::Call {
            call,
            nth: 1,
            status: due,
        })
    };
    assert_eq!(fail(Call::OpenAdapter), Status::NOT_SUPPORTED);
    assert_eq!(fail(Call::ResolveAddress), Status::NOT_SUPPORTED);
    assert_eq!(fail(Call::CreateListener), Status::SUCCESS);
    let file = file_of(stage.handle.line().adapter());
    let file: Arc<dyn OverlappedFile> = file;
    assert_eq!(
        status(stage.handle.create_connector(&file)),
        Status::SUCCESS
    );
    assert_eq!(status(stage.handle.create_listener(&file)), due);
    assert_eq!(status(stage.handle.create_listener(&file)), Status::SUCCESS);
}
