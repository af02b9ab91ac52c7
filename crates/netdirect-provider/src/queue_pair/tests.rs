//! Queue pairs that keep their requests as text.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};

use netdirect::{Buffer, MrFlags, Overlapped, RemoteToken};
use parking_lot::Mutex;

use super::*;
use crate::memory_region::tests::TestRegistration;
use crate::owned;
use crate::testing::{TestAdapter, file};

#[derive(Debug)]
pub(crate) struct TestQueuePair {
    adapter: Arc<TestAdapter>,
    has_shared_receives: AtomicBool,
    /// The requests that were posted, as text.
    posted: Mutex<Vec<String>>,
}

impl TestQueuePair {
    pub(crate) fn new(adapter: &Arc<TestAdapter>) -> Self {
        Self {
            adapter: Arc::clone(adapter),
            has_shared_receives: AtomicBool::new(false),
            posted: Mutex::default(),
        }
    }

    fn note(&self, what: String) {
        self.posted.lock().push(what);
    }
}

#[derive(Debug)]
pub(crate) struct TestWindow(Arc<TestAdapter>);

impl MemoryWindow for TestWindow {
    fn get_remote_token(&self) -> RemoteToken {
        RemoteToken(0)
    }
}

owned!(TestWindow of TestAdapter: |window| &window.0);

impl QueuePairLine for TestQueuePair {
    type Adapter = TestAdapter;
    type Registration = TestRegistration;
    type Window = TestWindow;
    type Bind = WindowRange;

    fn adapter(&self) -> &Arc<TestAdapter> {
        &self.adapter
    }

    fn has_shared_receives(&self) -> bool {
        self.has_shared_receives.load(Ordering::SeqCst)
    }

    fn flush(&self) {
        self.note("Flush".to_owned());
    }

    fn receive(&self, context: u64, _: &[Sge]) -> Result<()> {
        self.note(format!("{context}: Receive"));
        Ok(())
    }

    fn post(&self, context: u64, request: Request<'_>, _: OpFlags) -> Result<()> {
        let what = match request {
            Request::Send(Source::Sges(_)) => "Send",
            Request::Send(Source::Inline(_)) => "inline Send",
            Request::Write(Source::Sges(_), _) => "Write",
            Request::Write(Source::Inline(_), _) => "inline Write",
            Request::Read(..) => "Read",
            Request::SendImmediate(_) => "Immediate",
            Request::Atomic(..) => "Atomic",
        };
        self.note(format!("{context}: {what}"));
        Ok(())
    }

    /// The buffer is said to have 8 octets from address 0.
    fn prepare_bind(
        &self,
        _: &TestRegistration,
        _: &TestWindow,
        range: WindowRange,
    ) -> Result<WindowRange> {
        match range.address + range.length {
            0..=8 => Ok(range),
            _ => Err(outside_region()),
        }
    }

    fn bind(&self, context: u64, _: &Arc<TestWindow>, bind: WindowRange, _: OpFlags) -> Result<()> {
        let WindowRange { read, write, .. } = bind;
        self.note(format!("{context}: Bind, {read}, {write}"));
        Ok(())
    }

    fn invalidate(&self, context: u64, _: &Arc<TestWindow>, _: OpFlags) -> Result<()> {
        self.note(format!("{context}: Invalidate"));
        Ok(())
    }
}

struct Stage {
    adapter: Arc<TestAdapter>,
    qp: QueuePairHandle<TestQueuePair>,
}

impl Stage {
    fn new() -> Self {
        let adapter = TestAdapter::at(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let qp = QueuePairHandle::new(TestQueuePair::new(&adapter));
        Self { adapter, qp }
    }

    fn region(&self) -> Arc<dyn MemoryRegion> {
        let adapter = Arc::clone(&self.adapter);
        Arc::new(Region::<TestRegistration>::new(adapter, file()))
    }

    fn window(&self) -> Arc<dyn MemoryWindow> {
        Arc::new(TestWindow(Arc::clone(&self.adapter)))
    }

    fn posted(&self) -> Vec<String> {
        std::mem::take(&mut *self.qp.line().posted.lock())
    }
}

fn status<T>(result: Result<T>) -> Status {
    result.map_or_else(|error| error.status(), |_| Status::SUCCESS)
}

const REMOTE: RemoteAddress = RemoteAddress {
    address: 0,
    token: RemoteToken(0),
};

#[test]
fn qp_015_requests_reach_the_line_with_flags_that_apply_to_them_and_not_with_others() {
    let (stage, fit, wrong) = (Stage::new(), OpFlags::empty(), OpFlags::ALLOW_READ);
    let (qp, window) = (&stage.qp, stage.window());
    let post_all = |flags| {
        [
            qp.send(1, &[], flags),
            qp.read(2, &[], REMOTE, flags),
            qp.write(3, &[], REMOTE, flags),
            qp.send_inline(4, &[], flags),
            qp.write_inline(5, &[], REMOTE, flags),
            qp.invalidate(6, &window, flags),
        ]
        .map(status)
    };
    let refused = [4, 6, 6, 4, 6, 3].map(|number| match number {
        3 => Status::INVALID_PARAMETER_3,
        4 => Status::INVALID_PARAMETER_4,
        _ => Status::INVALID_PARAMETER_6,
    });
    assert_eq!(post_all(wrong), refused);
    assert_eq!(stage.posted(), [""; 0]);
    assert_eq!(post_all(fit), [Status::SUCCESS; 6]);
    let all = [
        "1: Send",
        "2: Read",
        "3: Write",
        "4: inline Send",
        "5: inline Write",
        "6: Invalidate",
    ];
    assert_eq!(stage.posted(), all);
}

#[test]
fn qp_032_amb_050_receives_go_to_the_queue_that_the_queue_pair_has() {
    let stage = Stage::new();
    assert_eq!(stage.qp.receive(1, &[]), Ok(()));
    assert_eq!(stage.posted(), ["1: Receive"]);
    let shared = &stage.qp.line().has_shared_receives;
    shared.store(true, Ordering::SeqCst);
    let refused = status(stage.qp.receive(2, &[]));
    assert_eq!(refused, Status::INVALID_DEVICE_REQUEST);
    assert_eq!(stage.posted(), [""; 0]);
}

#[test]
fn amb_011_qp_038_gen_022_a_bind_needs_a_registered_buffer_and_own_objects() {
    let (stage, other) = (Stage::new(), Stage::new());
    let (region, window) = (stage.region(), stage.window());
    let bind = |region: &_, window: &_, length| {
        let bound = stage
            .qp
            .bind(1, region, window, 4, length, OpFlags::ALLOW_READ);
        status(bound)
    };
    assert_eq!(bind(&region, &window, 4), Status::INVALID_PARAMETER_2); // AMB-011
    let (buffer, flags) = (Buffer::new(8), MrFlags::ALLOW_LOCAL_WRITE);
    let _ = region.register(&buffer, flags, &Overlapped::new()).unwrap();
    assert_eq!(bind(&region, &window, 4), Status::SUCCESS);
    assert_eq!(stage.posted(), ["1: Bind, true, false"]);
    assert_eq!(bind(&region, &window, 5), Status::ACCESS_VIOLATION); // QP-038
    let foreign = other.region();
    assert_eq!(bind(&foreign, &window, 4), Status::INVALID_PARAMETER_2);
    let foreign = other.window();
    assert_eq!(bind(&region, &foreign, 4), Status::INVALID_PARAMETER_3);
    let invalidated = stage.qp.invalidate(2, &foreign, OpFlags::empty());
    assert_eq!(status(invalidated), Status::INVALID_PARAMETER_2);
    assert_eq!(stage.posted(), [""; 0]);
}

#[test]
fn requests_beyond_nd2_need_the_capability_for_them() {
    let stage = Stage::new();
    assert!(stage.qp.extensions().is_none());
    let atomic = |op| {
        let done = stage
            .qp
            .atomic(1, op, &Sge::default(), REMOTE, OpFlags::empty());
        status(done)
    };
    assert_eq!(atomic(AtomicOp::add(1)), Status::NOT_SUPPORTED);
    *stage.adapter.capabilities.lock() = Capabilities::FETCH_ADD;
    assert!(stage.qp.extensions().is_some());
    assert_eq!(atomic(AtomicOp::add(1)), Status::SUCCESS);
    assert_eq!(stage.posted(), ["1: Atomic"]);
    let immediate = |flags| status(stage.qp.send_immediate(2, [0; 8].into(), flags));
    assert_eq!(immediate(OpFlags::empty()), Status::SUCCESS);
    assert_eq!(stage.posted(), ["2: Immediate"]);
    assert_eq!(immediate(OpFlags::ALLOW_READ), Status::INVALID_PARAMETER_3);
}
