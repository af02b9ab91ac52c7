//! Two programs send a message to and fro: the smallest program that connects, registers memory, sends and receives.
//!
//! ```sh
//! cargo run -p netdirect-async --example ping_pong -- serve                # prints its address
//! cargo run -p netdirect-async --example ping_pong -- 127.0.0.1:PORT 1000  # number of messages
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use netdirect::{Buffer, MrFlags, OpFlags, QueuePairOptions, Result, Status};
use netdirect_async::{AsyncAdapter, AsyncListener, Endpoint, ListenerOptions, RegisteredBuffer};

/// The length of a message, in octets.
pub const LENGTH: usize = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
    let adapter = AsyncAdapter::new(&adapter)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => {
            let listener = adapter.listen("127.0.0.1:0".parse()?, ListenerOptions::default())?;
            println!("serving at {}", listener.local_address()?);
            let rounds = serve_one(&adapter, &listener).await?;
            println!("sent back {rounds} messages");
        }
        [address, rounds] => {
            let rounds = rounds.parse()?;
            let begun = Instant::now();
            ping(&adapter, address.parse()?, rounds).await?;
            let each = begun.elapsed().checked_div(rounds);
            println!(
                "{:?} for a message to and fro",
                each.unwrap_or(Duration::ZERO)
            );
        }
        _ => return Err("usage: ping_pong serve | ping_pong ADDRESS ROUNDS".into()),
    }
    Ok(())
}

/// One end: a queue pair, and memory for a message that comes and one that goes.
struct End {
    endpoint: Endpoint,
    incoming: RegisteredBuffer,
    outgoing: RegisteredBuffer,
}

impl End {
    async fn new(adapter: &AsyncAdapter) -> Result<Self> {
        let receives = MrFlags::ALLOW_LOCAL_WRITE;
        Ok(Self {
            endpoint: adapter.endpoint(QueuePairOptions::default())?,
            incoming: adapter.register(&Buffer::new(LENGTH), receives).await?,
            outgoing: adapter
                .register(&Buffer::new(LENGTH), MrFlags::empty())
                .await?,
        })
    }
}

/// Sends `rounds` messages and waits for each to come back.
pub async fn ping(adapter: &AsyncAdapter, server: SocketAddr, rounds: u32) -> Result<()> {
    let end = End::new(adapter).await?;
    let connection = adapter.connect(end.endpoint.queue_pair(), server).await?;
    for round in 0..rounds {
        // The Receive first, so that the answer finds it.
        let answer = end.endpoint.receive([end.incoming.part(..)]);
        end.outgoing.write(0, &round.to_be_bytes());
        end.endpoint
            .send([end.outgoing.part(..)], OpFlags::empty())
            .await?;
        answer.await?;
        assert_eq!(end.incoming.slice(..4).to_vec(), round.to_be_bytes());
    }
    connection.disconnect().await
}

/// Accepts one client and sends back what it sends, until it disconnects. Returns the number of messages.
pub async fn serve_one(adapter: &AsyncAdapter, listener: &AsyncListener) -> Result<u32> {
    let end = End::new(adapter).await?;
    let request = listener.get_connection_request().await?;
    // The client sends as soon as it is connected, so the Receive comes before Accept.
    let mut message = end.endpoint.receive([end.incoming.part(..)]);
    let connection = request.accept(end.endpoint.queue_pair()).await?;
    let mut rounds = 0;
    loop {
        let length = match message.await {
            Ok(result) => result.bytes_transferred as usize,
            // The end of the connection ends the Receive.
            Err(error) if error.status() == Status::CANCELED => break,
            Err(error) => return Err(error),
        };
        end.outgoing
            .write(0, &end.incoming.slice(..length).to_vec());
        message = end.endpoint.receive([end.incoming.part(..)]);
        end.endpoint
            .send([end.outgoing.part(..length)], OpFlags::empty())
            .await?;
        rounds += 1;
    }
    connection.disconnect().await?;
    Ok(rounds)
}
