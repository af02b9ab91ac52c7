//! RDMA inside of a program of tokio: a task runs the provider, each client has a task, and other futures run at the same time: a time
//! limit, a channel, and the wish to stop.
//!
//! ```sh
//! cargo run -p netdirect-async --example in_tokio --features tokio
//! ```
//!
//! The server counts the octets that its clients send, and answers each message. Each client's task tells its counts through an
//! ordinary channel of tokio.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use netdirect::{Buffer, MrFlags, OpFlags, QueuePairOptions, Result, Status};
use netdirect_async::on_tokio::{drive, timeout};
use netdirect_async::{AsyncAdapter, AsyncListener, ConnectionRequest, ListenerOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// The longest message, in octets.
pub const LONGEST: usize = 1024;
/// How long a peer may take to connect, to send its next message, and to answer.
pub const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let octets = run(4, 10).await?;
    println!("4 clients sent 10 messages each: {octets} octets");
    Ok(())
}

/// Runs a server and clients in one program. Returns how many octets the server has counted.
pub async fn run(clients: u32, messages: usize) -> Result<usize, Box<dyn Error>> {
    let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
    let adapter = AsyncAdapter::new(&adapter)?;
    // Requests end in a thread of the runtime. Without this task they would end in the provider's thread, a little later.
    let driving = tokio::spawn(drive(adapter.file().clone()));

    let listener = adapter.listen("127.0.0.1:0".parse()?, ListenerOptions::default())?;
    let address = listener.local_address()?;
    let (counts, mut counted) = mpsc::channel(16);
    let (stop, stopped) = watch::channel(false);
    let server = tokio::spawn(serve(adapter.clone(), listener, counts, stopped));

    let total = tokio::spawn(async move {
        let mut octets = 0;
        while let Some(count) = counted.recv().await {
            octets += count;
        }
        octets
    });
    let mut senders = JoinSet::new();
    for _ in 0..clients {
        senders.spawn(send(adapter.clone(), address, messages));
    }
    while let Some(ended) = senders.join_next().await {
        ended??;
    }
    stop.send(true)?;
    server.await??;
    driving.abort();
    Ok(total.await?)
}

/// Accepts clients, with a task for each, until it is asked to stop. Then waits for the clients that are connected.
async fn serve(
    adapter: AsyncAdapter,
    listener: AsyncListener,
    counts: mpsc::Sender<usize>,
    mut stopped: watch::Receiver<bool>,
) -> Result<()> {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            // The future that is dropped here loses no client.
            request = listener.get_connection_request() => {
                let client = count(adapter.clone(), request?, counts.clone());
                clients.spawn(async move {
                    // A failure of one client does not affect the others.
                    if let Err(error) = client.await {
                        eprintln!("a client has failed: {error}");
                    }
                });
            }
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
    // Refuses those who come from now on.
    drop((listener, counts));
    clients.join_all().await;
    Ok(())
}

/// Reports the length of each message of a client, and answers it, until the client disconnects.
async fn count(
    adapter: AsyncAdapter,
    request: ConnectionRequest,
    counts: mpsc::Sender<usize>,
) -> Result<()> {
    let endpoint = adapter.endpoint(QueuePairOptions::default())?;
    let rights = MrFlags::ALLOW_LOCAL_WRITE;
    let memory = adapter.register(&Buffer::new(LONGEST), rights).await?;
    let mut message = endpoint.receive([memory.part(..)]);
    let connection = timeout(PATIENCE, request.accept(endpoint.queue_pair())).await?;
    loop {
        let length = match timeout(PATIENCE, message).await {
            Ok(result) => result.bytes_transferred as usize,
            Err(error) if error.status() == Status::CANCELED => break, // the client has disconnected
            Err(error) => return Err(error),
        };
        // A program would look at the memory here, before it gives it away again. The client waits for the answer: however long the
        // channel takes, no message comes that finds no Receive.
        let _ = counts.send(length).await;
        message = endpoint.receive([memory.part(..)]);
        endpoint.send([], OpFlags::empty()).await?;
    }
    connection.disconnect().await
}

/// Sends this many messages of one to this many octets.
async fn send(adapter: AsyncAdapter, server: SocketAddr, messages: usize) -> Result<()> {
    let endpoint = adapter.endpoint(QueuePairOptions::default())?;
    let memory = adapter
        .register(&Buffer::new(LONGEST), MrFlags::empty())
        .await?;
    let connect = adapter.connect(endpoint.queue_pair(), server);
    let connection = timeout(PATIENCE, connect).await?;
    for length in 1..=messages {
        let answer = endpoint.receive([]); // which has no octets
        endpoint
            .send([memory.part(..length)], OpFlags::empty())
            .await?;
        timeout(PATIENCE, answer).await?;
    }
    connection.disconnect().await
}
