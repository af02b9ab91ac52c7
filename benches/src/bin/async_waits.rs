//! Measures the round trip of 8 octets between two threads, each with a runtime of tokio and its own adapter: with the ways in which async
//! programs wait, with and without `on_tokio::drive`, and with a TCP stream of tokio.
//!
//! `cargo run --release -p softnd-benches --bin async_waits`.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use netdirect::{Buffer, MrFlags, OpFlags, QueuePair, QueuePairOptions, RequestType};
use netdirect_async::{
    AsyncAdapter, CompletionStream, Connection, Endpoint, ListenerOptions, RegisteredBuffer,
    Request, on_tokio,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;

/// Octets of a message.
const LENGTH: usize = 8;
/// Round trips before the measurement.
const WARM_UP: usize = 100;

/// Measures how long a message to and fro takes, by the way in which tasks wait.
#[derive(Debug, Parser)]
struct Arguments {
    /// Round trips of each measurement
    #[arg(long, value_name = "N", default_value_t = 5000)]
    rounds: usize,

    /// Measurements of each way, in turn
    #[arg(long, value_name = "N", default_value_t = 3)]
    turns: usize,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The transport of the messages, and the way in which a task waits for them.
#[derive(Clone, Copy, Debug)]
enum Way {
    Tcp,
    Stream { drives: bool },
    Endpoint { drives: bool },
}

const WAYS: [(&str, Way); 5] = [
    ("tokio over TCP", Way::Tcp),
    ("CompletionStream", Way::Stream { drives: false }),
    ("CompletionStream, drive", Way::Stream { drives: true }),
    ("Endpoint", Way::Endpoint { drives: false }),
    ("Endpoint, drive", Way::Endpoint { drives: true }),
];

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("async_waits: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<(), Failure> {
    println!("| a task waits by | p50 | p99 |");
    println!("|--|--:|--:|");
    for _ in 0..arguments.turns {
        for (name, way) in WAYS {
            let mut times = round_trips(way, arguments.rounds)?;
            times.sort_unstable();
            let at = |share: usize| times.get(times.len() * share / 100).copied();
            let us = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1e6;
            println!("| {name} | {:.1} µs | {:.1} µs |", us(at(50)), us(at(99)));
        }
    }
    Ok(())
}

fn round_trips(way: Way, rounds: usize) -> Result<Vec<Duration>, Failure> {
    let (sender, receiver) = crossbeam_channel::unbounded();
    let messages = WARM_UP + rounds;
    thread::scope(|scope| {
        let server = scope.spawn(move || in_runtime(serve(way, messages, sender)));
        let measured = match receiver.recv() {
            Ok(address) => in_runtime(ping(way, messages, address)),
            Err(_) => Ok(Vec::new()), // the server says why
        };
        let served = server.join().map_err(|_| "the server has panicked")?;
        served
            .and(measured)
            .map(|mut times| times.split_off(WARM_UP))
    })
}

fn in_runtime<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(future)
}

async fn serve(
    way: Way,
    messages: usize,
    tell: crossbeam_channel::Sender<SocketAddr>,
) -> Result<(), Failure> {
    if let Way::Tcp = way {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        tell.send(listener.local_addr()?)?;
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut message = [0; LENGTH];
        for _ in 0..messages {
            stream.read_exact(&mut message).await?;
            stream.write_all(&message).await?;
        }
        return Ok(());
    }
    let adapter = adapter(way)?;
    let listener = adapter.listen("127.0.0.1:0".parse()?, ListenerOptions::default())?;
    let mut end = End::new(way, &adapter).await?;
    end.receive()?;
    tell.send(listener.local_address()?)?;
    let request = listener.get_connection_request().await?;
    let connection = request.accept(end.queue_pair()).await?;
    for _ in 0..messages {
        end.received().await?;
        end.receive()?;
        end.send()?;
    }
    connection.disconnected().await?;
    Ok(())
}

async fn ping(way: Way, messages: usize, server: SocketAddr) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::with_capacity(messages);
    if let Way::Tcp = way {
        let mut stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let mut message = [0; LENGTH];
        for _ in 0..messages {
            let start = Instant::now();
            stream.write_all(&message).await?;
            stream.read_exact(&mut message).await?;
            times.push(start.elapsed());
        }
        return Ok(times);
    }
    let adapter = adapter(way)?;
    let mut end = End::new(way, &adapter).await?;
    let connection: Connection = adapter.connect(end.queue_pair(), server).await?;
    for _ in 0..messages {
        end.receive()?;
        let start = Instant::now();
        end.send()?;
        end.received().await?;
        times.push(start.elapsed());
    }
    connection.disconnect().await?;
    Ok(times)
}

/// An adapter, which a task drives if the way says so.
fn adapter(way: Way) -> Result<AsyncAdapter, Failure> {
    let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
    let adapter = AsyncAdapter::new(&adapter)?;
    if let Way::Stream { drives: true } | Way::Endpoint { drives: true } = way {
        // The task ends with the runtime.
        drop(tokio::spawn(on_tokio::drive(adapter.file().clone())));
    }
    Ok(adapter)
}

/// One end of a connection.
enum End {
    Stream {
        qp: Arc<dyn QueuePair>,
        results: CompletionStream,
        incoming: RegisteredBuffer,
        outgoing: RegisteredBuffer,
    },
    Endpoint {
        endpoint: Endpoint,
        answer: Option<Request>,
        sent: Option<Request>,
        incoming: RegisteredBuffer,
        outgoing: RegisteredBuffer,
    },
}

impl End {
    async fn new(way: Way, adapter: &AsyncAdapter) -> Result<Self, Failure> {
        let writes = MrFlags::ALLOW_LOCAL_WRITE;
        let incoming = adapter.register(&Buffer::new(LENGTH), writes).await?;
        let reads = MrFlags::empty();
        let outgoing = adapter.register(&Buffer::new(LENGTH), reads).await?;
        let options = QueuePairOptions::default();
        if let Way::Endpoint { .. } = way {
            return Ok(Self::Endpoint {
                endpoint: adapter.endpoint(options)?,
                answer: None,
                sent: None,
                incoming,
                outgoing,
            });
        }
        let cq = adapter.completion_queue(64)?;
        Ok(Self::Stream {
            qp: adapter.queue_pair(&cq, options)?,
            results: CompletionStream::new(&cq),
            incoming,
            outgoing,
        })
    }

    fn queue_pair(&self) -> &Arc<dyn QueuePair> {
        match self {
            Self::Stream { qp, .. } => qp,
            Self::Endpoint { endpoint, .. } => endpoint.queue_pair(),
        }
    }

    /// Is ready for one message.
    fn receive(&mut self) -> Result<(), Failure> {
        match self {
            Self::Stream { qp, incoming, .. } => qp.receive(0, &[incoming.sge(..)])?,
            Self::Endpoint {
                endpoint,
                answer,
                incoming,
                ..
            } => *answer = Some(endpoint.receive([incoming.part(..)])),
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Failure> {
        let flags = OpFlags::empty();
        match self {
            Self::Stream { qp, outgoing, .. } => qp.send(0, &[outgoing.sge(..)], flags)?,
            Self::Endpoint {
                endpoint,
                sent,
                outgoing,
                ..
            } => *sent = Some(endpoint.send([outgoing.part(..)], flags)),
        }
        Ok(())
    }

    /// Waits for the message, and for the end of the last Send.
    async fn received(&mut self) -> Result<(), Failure> {
        match self {
            Self::Stream { results, .. } => loop {
                let result = results.next().await.ok_or("the queue has broken down")??;
                result.status.ok()?;
                if result.request_type == RequestType::Receive {
                    return Ok(());
                }
            },
            Self::Endpoint { answer, sent, .. } => {
                for request in [answer.take(), sent.take()].into_iter().flatten() {
                    request.await?;
                }
                Ok(())
            }
        }
    }
}
