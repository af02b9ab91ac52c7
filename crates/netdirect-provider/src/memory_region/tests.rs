//! Regions whose buffers are registered nowhere.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicBool;

use netdirect::Error;

use super::*;
use crate::testing::{TestAdapter, file};

#[derive(Debug)]
pub(crate) struct TestRegistration {
    #[expect(dead_code, reason = "counted while the buffer is registered")]
    adapter: Arc<TestAdapter>,
    /// Windows are bound to it.
    is_busy: AtomicBool,
}

impl RegistrationLine for TestRegistration {
    type Adapter = TestAdapter;

    /// Fails for a buffer of one octet.
    fn register(adapter: &Arc<TestAdapter>, buffer: &Buffer, _: MrFlags) -> Result<Self> {
        if buffer.len() == 1 {
            return fail(Status::INSUFFICIENT_RESOURCES, "no room");
        }
        Ok(Self {
            adapter: Arc::clone(adapter),
            is_busy: AtomicBool::new(false),
        })
    }

    fn deregister(self) -> Result<(), Self> {
        match self.is_busy.load(Ordering::SeqCst) {
            true => Err(self),
            false => Ok(()),
        }
    }

    fn local_token(&self) -> LocalToken {
        LocalToken(1)
    }

    fn remote_token(&self) -> RemoteToken {
        RemoteToken(2)
    }
}

struct Stage {
    adapter: Arc<TestAdapter>,
    region: Region<TestRegistration>,
}

impl Stage {
    fn new() -> Self {
        let adapter = TestAdapter::at(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let region = Region::new(Arc::clone(&adapter), file());
        Self { adapter, region }
    }

    /// Registers a buffer. Returns the status of the call, and that of the request.
    fn register(&self, octets: usize) -> (Status, Status) {
        let (buffer, flags) = (Buffer::new(octets), MrFlags::ALLOW_LOCAL_WRITE);
        outcome(|overlapped| self.region.register(&buffer, flags, overlapped))
    }

    fn is_registered(&self) -> bool {
        Arc::strong_count(&self.adapter) > 2
    }

    fn deregister(&self) -> (Status, Status) {
        outcome(|overlapped| self.region.deregister(overlapped))
    }
}

fn outcome(call: impl FnOnce(&Overlapped) -> Result<Started>) -> (Status, Status) {
    let overlapped = Overlapped::new();
    let called = call(&overlapped).map_err(|error: Error| error.status());
    assert!(!overlapped.is_pending());
    let called = called.map(|started| assert_eq!(started, Started::Pending));
    (called.err().unwrap_or(Status::SUCCESS), overlapped.status())
}

const DONE: (Status, Status) = (Status::SUCCESS, Status::SUCCESS);

#[test]
fn mr_001_mr_002_mr_026_mr_027_a_region_has_at_most_one_buffer() {
    let stage = Stage::new();
    let invalid = Status::INVALID_DEVICE_STATE;
    assert_eq!(stage.deregister().0, invalid); // MR-027
    assert_eq!(stage.region.with(|_| ()), None);
    assert_eq!(stage.register(8), DONE);
    let tokens = (
        stage.region.get_local_token(),
        stage.region.get_remote_token(),
    );
    assert_eq!(tokens, (LocalToken(1), RemoteToken(2)));
    assert_eq!(stage.register(8).0, invalid); // MR-002
    let set_busy = |is_busy| {
        let set =
            |registration: &TestRegistration| registration.is_busy.store(is_busy, Ordering::SeqCst);
        stage.region.with(set).unwrap();
    };
    set_busy(true);
    let busy = Status::DEVICE_BUSY;
    assert_eq!(stage.deregister(), (busy, busy)); // MR-026
    assert_eq!(stage.register(8).0, invalid); // the buffer stays registered
    set_busy(false);
    assert_eq!(stage.deregister(), DONE);
    assert!(!stage.is_registered());
    assert_eq!(stage.register(8), DONE);
    assert!(stage.is_registered());
}

#[test]
fn mr_008_mr_010_mr_011_a_register_that_fails_leaves_no_request_and_no_buffer() {
    let stage = Stage::new();
    let short = Status::INSUFFICIENT_RESOURCES;
    assert_eq!(stage.register(1), (short, short)); // MR-008
    *stage.adapter.fault.lock() = Some((Call::Register, Status::NO_MEMORY));
    let due = Status::NO_MEMORY;
    assert_eq!(stage.register(8), (due, due));
    assert_eq!(stage.register(65).0, Status::INVALID_PARAMETER); // MR-011
    assert!(!stage.is_registered());
    stage.adapter.is_removed.store(true, Ordering::SeqCst);
    assert_eq!(stage.register(8).0, Status::DEVICE_REMOVED); // MR-010
}
