//! Under tokio, in one thread and in several.

use std::future::pending;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::common::{self, LONG, Network, Side};
use netdirect::{Association, OpFlags, OverlappedFile, QueuePairOptions, Status};
use netdirect_async::on_tokio::{drive, timeout};
use netdirect_async::{AsyncAdapter, ConnectError, Endpoint, ListenerOptions};
use softnd::Options;
use softnd::simulation::Simulation;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

fn runtimes() -> [Runtime; 2] {
    let one = Builder::new_current_thread().enable_all().build();
    let several = Builder::new_multi_thread()
        .worker_threads(3)
        .enable_all()
        .build();
    [one.unwrap(), several.unwrap()]
}

fn endpoint(adapter: &AsyncAdapter) -> Endpoint {
    let options = QueuePairOptions::default().inline_data_size(64);
    adapter.endpoint(options).unwrap()
}

/// Sends back what a client sends, until it disconnects.
async fn echo(adapter: AsyncAdapter, request: netdirect_async::ConnectionRequest) {
    let endpoint = endpoint(&adapter);
    let buffer = netdirect::Buffer::new(64);
    let memory = adapter.register(&buffer, common::ALL).await.unwrap();
    let mut received = endpoint.receive([memory.part(..)]);
    let _connection = request.accept(endpoint.queue_pair()).await.unwrap();
    loop {
        let length = match received.await {
            Ok(result) => result.bytes_transferred as usize,
            Err(error) => return assert_eq!(error.status(), Status::CANCELED),
        };
        let message = memory.slice(..length).to_vec();
        received = endpoint.receive([memory.part(..)]);
        let sent = endpoint.send_inline(&[&message], OpFlags::empty());
        sent.await.unwrap();
    }
}

/// Many clients in their own tasks, and a server with a task for each.
async fn clients_and_servers(is_driven: bool) {
    let network = Network::Tcp;
    let (here, there) = (network.open(1), network.open(2));
    let mut driving = JoinSet::new();
    if is_driven {
        for adapter in [&here, &there] {
            driving.spawn(drive(adapter.file().clone()));
        }
    }
    let listener = network.listen(&there, ListenerOptions::default());
    let address = listener.local_address().unwrap();
    let mut tasks = JoinSet::new();
    // Several tasks wait at one listener.
    for _ in 0..4 {
        let (listener, there) = (listener.clone(), there.clone());
        tasks.spawn(async move {
            let mut served = JoinSet::new();
            for _ in 0..5 {
                let request = listener.get_connection_request().await.unwrap();
                served.spawn(echo(there.clone(), request));
            }
            while let Some(ended) = served.join_next().await {
                ended.unwrap();
            }
        });
    }
    for number in 0..20u8 {
        let here = here.clone();
        tasks.spawn(async move {
            let endpoint = endpoint(&here);
            let buffer = netdirect::Buffer::new(64);
            let memory = here.register(&buffer, common::ALL).await.unwrap();
            let connection = here.connect(endpoint.queue_pair(), address).await.unwrap();
            for round in 0..20u8 {
                let echo = endpoint.receive([memory.part(..)]);
                let message = [number, round];
                let sent = endpoint.send_inline(&[&message], OpFlags::empty());
                sent.await.unwrap();
                assert_eq!(echo.await.unwrap().bytes_transferred, 2);
                assert_eq!(memory.slice(..2).to_vec(), message);
            }
            connection.disconnect().await.unwrap();
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    if is_driven {
        assert_eq!(driving.len(), 2);
        assert!(driving.try_join_next().is_none(), "it never ends by itself");
    }
}

#[test]
fn many_clients_and_servers_in_one_thread_and_in_several() {
    for runtime in runtimes() {
        for is_driven in [false, true] {
            let work = clients_and_servers(is_driven);
            runtime.block_on(async { tokio::time::timeout(LONG, work).await.unwrap() });
        }
    }
}

/// A file whose descriptor is one end of a stream, and which records its calls.
#[derive(Debug)]
struct Watched {
    association: Association,
    stream: Mutex<UnixStream>,
    descriptor: UnixStream,
    progressed: UnboundedSender<std::thread::ThreadId>,
}

impl OverlappedFile for Watched {
    fn association(&self) -> &Association {
        &self.association
    }

    fn progress(&self) {
        let _ = self.stream.lock().unwrap().read(&mut [0; 16]);
        let _ = self.progressed.send(std::thread::current().id());
    }

    fn park(&self, _: &dyn Fn() -> bool, _: Option<Instant>) -> netdirect::Result<()> {
        Ok(())
    }

    fn wake(&self) {}

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }
}

#[test]
fn the_provider_runs_in_the_task_whenever_its_descriptor_is_ready() {
    let [runtime, _] = runtimes();
    let (mut other, stream) = UnixStream::pair().unwrap();
    stream.set_nonblocking(true).unwrap();
    let (progressed, mut calls) = unbounded_channel();
    let file = Arc::new(Watched {
        association: Association::new(),
        descriptor: stream.try_clone().unwrap(),
        stream: Mutex::new(stream),
        progressed,
    });
    runtime.block_on(async {
        let driving = tokio::spawn(drive(file));
        for _ in 0..10 {
            other.write_all(b"ready").unwrap();
            let thread = tokio::time::timeout(LONG, calls.recv()).await.unwrap();
            assert_eq!(thread, Some(std::thread::current().id()));
        }
        driving.abort();
        assert!(driving.await.unwrap_err().is_cancelled());
        assert_eq!(calls.recv().await, None, "the file was released");
    });
}

#[test]
fn a_simulation_has_no_descriptor_to_watch() {
    let [runtime, _] = runtimes();
    let network = Simulation::new(1);
    let adapter = network.open([10, 0, 0, 1], Options::default()).unwrap();
    let adapter = AsyncAdapter::new(&adapter).unwrap();
    let error = runtime.block_on(drive(adapter.file().clone())).unwrap_err();
    assert_eq!(error.status(), Status::NOT_SUPPORTED);
}

#[test]
fn a_time_limit_of_tokio_ends_what_takes_too_long() {
    let [runtime, _] = runtimes();
    let (here, there) = (Side::new(&Network::Tcp.open(1)), Network::Tcp.open(2));
    let listener = Network::Tcp.listen(&there, ListenerOptions::default());
    let address = listener.local_address().unwrap();
    runtime.block_on(async {
        // The listener accepts nothing.
        let connect = here.adapter.connect(&here.qp, address);
        let late: ConnectError = timeout(Duration::from_millis(1), connect)
            .await
            .unwrap_err();
        assert_eq!(late.status(), Status::TIMEOUT);
        let never = pending::<netdirect::Result<()>>();
        let late = timeout(Duration::ZERO, never).await.unwrap_err();
        assert_eq!(late.status(), Status::TIMEOUT);
        let done = timeout(LONG, async { Ok::<_, netdirect::Error>(1) }).await;
        assert_eq!(done, Ok(1));
    });
}
