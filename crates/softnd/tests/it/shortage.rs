//! Calls for which the system lacks a resource. The call fails with the status of its row, no other call fails, and the object continues to
//! work. The tests inject the faults: no resource is really short.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::common::{ALL, Side, run, status};
use netdirect::{
    Adapter, Affinity, Buffer, Call, CompletionQueue, CompletionResult, Fault, NotifyType, OpFlags,
    Overlapped, Provider, QueuePairOptions, Result, SharedReceiveQueue, SharedReceiveQueueOptions,
    Status, ext,
};
use softnd::Options;

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// One object of each kind that has calls.
struct Bench {
    provider: Arc<dyn Provider>,
    side: Side,
}

impl Bench {
    fn new() -> Self {
        let provider = softnd::provider(Options::default());
        let id = provider.resolve_address(any_port()).unwrap();
        let adapter = provider.open_adapter(id).unwrap();
        Self {
            provider,
            side: Side::on_adapter(adapter),
        }
    }

    fn inject(&self, call: Call, nth: u32, status: Status) {
        let fault = Fault::Call { call, nth, status };
        let of_provider = matches!(call, Call::ResolveAddress | Call::OpenAdapter);
        let injected = if of_provider {
            self.provider.extensions().unwrap().inject(fault)
        } else {
            self.side.adapter.extensions().unwrap().inject(fault)
        };
        injected.unwrap();
    }
}

/// A call whose objects are ready. Returns the call's status.
type Ready = Box<dyn Fn() -> Status>;

/// Makes the objects of a call.
type Prepare = fn(&Bench) -> Ready;

fn resolve(bench: &Bench) -> Ready {
    let provider = Arc::clone(&bench.provider);
    Box::new(move || status(provider.resolve_address(any_port())))
}

fn open(bench: &Bench) -> Ready {
    let provider = Arc::clone(&bench.provider);
    let id = provider.resolve_address(any_port()).unwrap();
    Box::new(move || status(provider.open_adapter(id)))
}

fn create_file(bench: &Bench) -> Ready {
    let side = bench.side.clone();
    Box::new(move || status(side.adapter.create_overlapped_file()))
}

fn create_queue(bench: &Bench) -> Ready {
    let side = bench.side.clone();
    Box::new(move || {
        let none = Affinity::default();
        status(side.adapter.create_completion_queue(&side.file, 4, none))
    })
}

fn create_region(bench: &Bench) -> Ready {
    let side = bench.side.clone();
    Box::new(move || status(side.adapter.create_memory_region(&side.file)))
}

fn create_window(bench: &Bench) -> Ready {
    let side = bench.side.clone();
    Box::new(move || status(side.adapter.create_memory_window()))
}

fn create_queue_pair(bench: &Bench) -> Ready {
    let side = bench.side.clone();
    Box::new(move || {
        let options = QueuePairOptions::default();
        status(side.adapter.create_queue_pair(&side.cq, &side.cq, options))
    })
}

fn create_connector(bench: &Bench) -> Ready {
    let side = bench.side.clone();
    Box::new(move || status(side.adapter.create_connector(&side.file)))
}

fn create_listener(bench: &Bench) -> Ready {
    let side = bench.side.clone();
    Box::new(move || status(side.adapter.create_listener(&side.file)))
}

fn new_queue(bench: &Bench) -> Arc<dyn CompletionQueue> {
    let side = &bench.side;
    let none = Affinity::default();
    side.adapter
        .create_completion_queue(&side.file, 4, none)
        .unwrap()
}

fn resize(bench: &Bench) -> Ready {
    let cq = new_queue(bench);
    Box::new(move || status(cq.resize(8)))
}

fn notify(bench: &Bench) -> Ready {
    let cq = new_queue(bench);
    Box::new(move || {
        let overlapped = Overlapped::new();
        let started = status(cq.notify(NotifyType::Any, &overlapped));
        let pending = overlapped.is_pending();
        assert_eq!(pending, started == Status::SUCCESS, "GEN-009");
        cq.cancel_overlapped_requests().unwrap();
        started
    })
}

fn register(bench: &Bench) -> Ready {
    let side = &bench.side;
    let region = side.adapter.create_memory_region(&side.file).unwrap();
    Box::new(move || {
        let buffer = Buffer::new(64);
        let registered = run(|overlapped| region.register(&buffer, ALL, overlapped));
        if registered.is_ok() {
            run(|overlapped| region.deregister(overlapped)).unwrap();
        }
        registered.err().unwrap_or(Status::SUCCESS)
    })
}

fn bind_listener(bench: &Bench) -> Ready {
    let side = &bench.side;
    let listener = side.adapter.create_listener(&side.file).unwrap();
    Box::new(move || status(listener.bind(any_port())))
}

fn listen(bench: &Bench) -> Ready {
    let side = &bench.side;
    let listener = side.adapter.create_listener(&side.file).unwrap();
    listener.bind(any_port()).unwrap();
    Box::new(move || status(listener.listen(0)))
}

fn bind_connector(bench: &Bench) -> Ready {
    let connector = bench.side.connector();
    Box::new(move || status(connector.bind(any_port())))
}

fn shared_receive_queue(side: &Side) -> netdirect::Result<Arc<dyn SharedReceiveQueue>> {
    let options = SharedReceiveQueueOptions::default();
    side.adapter
        .create_shared_receive_queue(&side.file, options)
}

fn create_shared(bench: &Bench) -> Ready {
    let side = bench.side.clone();
    Box::new(move || status(shared_receive_queue(&side)))
}

fn create_queue_pair_with_shared(bench: &Bench) -> Ready {
    let side = bench.side.clone();
    let srq = shared_receive_queue(&side).unwrap();
    let options = QueuePairOptions::default();
    Box::new(move || {
        let (adapter, cq) = (&side.adapter, &side.cq);
        status(adapter.create_queue_pair_with_srq(cq, cq, &srq, options))
    })
}

fn modify_shared(bench: &Bench) -> Ready {
    let srq = shared_receive_queue(&bench.side).unwrap();
    Box::new(move || status(srq.modify(8, 1)))
}

fn notify_shared(bench: &Bench) -> Ready {
    let srq = shared_receive_queue(&bench.side).unwrap();
    Box::new(move || status(srq.notify(&Overlapped::new())))
}

const ROWS: &[(&str, Call, Prepare, Status)] = &[
    (
        "ADPT-042",
        Call::CreateSharedReceiveQueue,
        create_shared,
        Status::NO_MEMORY,
    ),
    (
        "ADPT-043",
        Call::CreateSharedReceiveQueue,
        create_shared,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "ADPT-073",
        Call::CreateQueuePairWithSrq,
        create_queue_pair_with_shared,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "SRQ-012",
        Call::ModifySharedReceiveQueue,
        modify_shared,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "SRQ-021",
        Call::NotifySharedReceiveQueue,
        notify_shared,
        Status::INSUFFICIENT_RESOURCES,
    ),
    ("PROV-013", Call::ResolveAddress, resolve, Status::NO_MEMORY),
    ("PROV-018", Call::OpenAdapter, open, Status::NO_MEMORY),
    (
        "ADPT-002",
        Call::CreateOverlappedFile,
        create_file,
        Status::NO_MEMORY,
    ),
    (
        "ADPT-021",
        Call::CreateCompletionQueue,
        create_queue,
        Status::NO_MEMORY,
    ),
    (
        "ADPT-022",
        Call::CreateCompletionQueue,
        create_queue,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "ADPT-030",
        Call::CreateMemoryRegion,
        create_region,
        Status::NO_MEMORY,
    ),
    (
        "ADPT-031",
        Call::CreateMemoryRegion,
        create_region,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "AMB-057",
        Call::CreateMemoryWindow,
        create_window,
        Status::NO_MEMORY,
    ),
    (
        "ADPT-035",
        Call::CreateMemoryWindow,
        create_window,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "AMB-057",
        Call::CreateQueuePair,
        create_queue_pair,
        Status::NO_MEMORY,
    ),
    (
        "ADPT-058",
        Call::CreateQueuePair,
        create_queue_pair,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "ADPT-079",
        Call::CreateConnector,
        create_connector,
        Status::NO_MEMORY,
    ),
    (
        "ADPT-080",
        Call::CreateConnector,
        create_connector,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "ADPT-083",
        Call::CreateListener,
        create_listener,
        Status::NO_MEMORY,
    ),
    (
        "ADPT-084",
        Call::CreateListener,
        create_listener,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "CQ-011",
        Call::ResizeCompletionQueue,
        resize,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "CQ-024",
        Call::NotifyCompletionQueue,
        notify,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "MR-008",
        Call::Register,
        register,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "LSTN-007",
        Call::BindListener,
        bind_listener,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "LSTN-008",
        Call::BindListener,
        bind_listener,
        Status::TOO_MANY_ADDRESSES,
    ),
    (
        "LSTN-014",
        Call::Listen,
        listen,
        Status::INSUFFICIENT_RESOURCES,
    ),
    (
        "CONN-009",
        Call::BindConnector,
        bind_connector,
        Status::TOO_MANY_ADDRESSES,
    ),
];

#[test]
fn rows_on_shortage_fail_their_call_alone_and_leave_the_object_usable() {
    let bench = Bench::new();
    for (row, call, prepare, due) in ROWS {
        let (first, second) = (prepare(&bench), prepare(&bench));
        let others = ROWS.iter().filter(|(_, other, ..)| other != call);
        let others: Vec<_> = others
            .map(|(row, _, prepare, _)| (row, prepare(&bench)))
            .collect();
        bench.inject(*call, 2, *due);
        assert_eq!(first(), Status::SUCCESS, "{row}: the call before");
        for (other, act) in others {
            assert_eq!(act(), Status::SUCCESS, "{row}: the call of {other}");
        }
        assert_eq!(second(), *due, "{row}");
        assert_eq!(second(), Status::SUCCESS, "{row}: the same call again");
    }
}

#[test]
fn faults_are_counted_when_they_happen() {
    let side = Side::new();
    let extensions = side.adapter.extensions().unwrap();
    let fault = Fault::Call {
        call: Call::CreateConnector,
        nth: 1,
        status: Status::NO_MEMORY,
    };
    let happened = || extensions.counters().total("faults");
    extensions.inject(fault).unwrap();
    assert_eq!(happened(), 0);
    assert!(side.adapter.create_connector(&side.file).is_err());
    assert!(side.adapter.create_connector(&side.file).is_ok());
    assert_eq!(happened(), 1);
}

#[test]
fn faults_that_cannot_happen_are_refused() {
    let bench = Bench::new();
    let adapter = bench.side.adapter.extensions().unwrap();
    let provider = bench.provider.extensions().unwrap();
    let fail = |call, nth, status| Fault::Call { call, nth, status };
    let no_memory = Status::NO_MEMORY;
    for (injected, due) in [
        (
            adapter.inject(fail(Call::OpenAdapter, 1, no_memory)),
            Status::NOT_SUPPORTED,
        ),
        (
            provider.inject(fail(Call::Listen, 1, no_memory)),
            Status::NOT_SUPPORTED,
        ),
        (provider.inject(Fault::RemoveDevice), Status::NOT_SUPPORTED),
        (
            adapter.inject(fail(Call::Listen, 0, no_memory)),
            Status::INVALID_PARAMETER,
        ),
        (
            adapter.inject(fail(Call::Listen, 1, Status::PENDING)),
            Status::INVALID_PARAMETER,
        ),
        (
            provider.inject(fail(Call::Any, 1, Status::SUCCESS)),
            Status::INVALID_PARAMETER,
        ),
    ] {
        assert_eq!(status(injected), due);
    }
}

/// Both ends of a connection in one adapter, one message, and the end.
fn program(adapter: &Arc<dyn Adapter>) -> Result<()> {
    let file = adapter.create_overlapped_file()?;
    let cq = adapter.create_completion_queue(&file, 16, Affinity::default())?;
    cq.resize(32)?;
    let options = QueuePairOptions::default();
    let active = adapter.create_queue_pair(&cq, &cq, options)?;
    let passive = adapter.create_queue_pair(&cq, &cq, options)?;
    let region = adapter.create_memory_region(&file)?;
    let (buffer, overlapped) = (Buffer::new(64), Overlapped::new());
    ext::wait(region.register(&buffer, ALL, &overlapped), &overlapped)?;
    let window = adapter.create_memory_window()?;
    let listener = adapter.create_listener(&file)?;
    listener.bind(any_port())?;
    listener.listen(0)?;
    let (to, from) = (
        adapter.create_connector(&file)?,
        adapter.create_connector(&file)?,
    );
    to.bind(any_port())?;
    let (connects, accepts) = (Overlapped::new(), Overlapped::new());
    let address = listener.get_local_address()?;
    let connecting = to.connect(&active, address, 4, 4, &[], &connects);
    ext::get_connection_request(&listener, &from)?;
    let accepting = from.accept(&passive, 4, 4, &[], &accepts);
    ext::wait(connecting, &connects)?;
    ext::wait(to.complete_connect(&overlapped), &overlapped)?;
    ext::wait(accepting, &accepts)?;
    passive.receive(1, &[])?;
    active.bind(
        2,
        &region,
        &window,
        buffer.address(),
        64,
        OpFlags::ALLOW_READ,
    )?;
    active.send(3, &[], OpFlags::empty())?;
    let (results, mut into) = (ext::Results::new(&cq), [CompletionResult::default(); 8]);
    let mut seen = 0;
    while seen < 3 {
        let count = results.get(&mut into)?;
        into[..count]
            .iter()
            .try_for_each(|result| result.status.ok())?;
        seen += count;
    }
    drop(window);
    ext::disconnect(&to)?;
    ext::wait(region.deregister(&overlapped), &overlapped)
}

/// Fails each call of a program in turn for want of a resource. The program ends with that status, and does not hang or panic.
#[test]
fn each_call_of_a_program_may_fail() {
    let mut nth = 1;
    loop {
        let side = Side::new();
        let extensions = side.adapter.extensions().unwrap();
        let due = Status::INSUFFICIENT_RESOURCES;
        let fault = Fault::Call {
            call: Call::Any,
            nth,
            status: due,
        };
        extensions.inject(fault).unwrap();
        let ended = status(program(&side.adapter));
        if extensions.counters().total("faults") == 0 {
            assert_eq!(ended, Status::SUCCESS);
            break;
        }
        assert_eq!(ended, due, "call {nth}");
        nth += 1;
    }
    assert!(nth > 14, "the program makes more calls than {nth}");
}
