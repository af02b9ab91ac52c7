//! A server for many clients in one task: one completion queue, one shared receive queue, and a queue pair for each client.
//!
//! ```sh
//! cargo run -p netdirect-async --example many_clients -- serve                     # prints its address
//! cargo run -p netdirect-async --example many_clients -- ask 127.0.0.1:PORT hello  # HELLO
//! ```
//!
//! With a receive queue for each client, a server needs memory for the most that all clients can send at the same time. Most clients
//! are silent most of the time, so this server has one pool of Receives for all of them. A message takes the oldest Receive of the
//! pool. If the pool is empty, the message waits in the network until the server has posted a Receive again, and nothing breaks.
//!
//! The server answers each message by the same text in capital letters. It never waits for a single client: it handles what the completion
//! queue says next, whoever it is from. The context of a queue pair says which client a result belongs to.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::TryStreamExt;
use futures_util::future::try_join;
use netdirect::{
    Buffer, CompletionQueue, CompletionResult, MrFlags, OpFlags, QueuePair, QueuePairOptions,
    RequestType, Result, SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};
use netdirect_async::{
    AsyncAdapter, AsyncListener, CompletionStream, Connection, ConnectionRequest, Endpoint,
    ListenerOptions, RegisteredBuffer,
};
use tokio::sync::Notify;

/// The Receives that all clients share.
pub const RECEIVES: u32 = 64;
/// The most answers that a client has not taken yet.
pub const ANSWERS: u32 = 4;
/// The longest message, in octets.
pub const MESSAGE: u32 = 64;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
    let adapter = AsyncAdapter::new(&adapter)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => {
            let listener = adapter.listen("127.0.0.1:0".parse()?, ListenerOptions::default())?;
            println!("serving at {}", listener.local_address()?);
            Server::new(&adapter, 256).await?.run(&listener).await?;
        }
        ["ask", address, text] => {
            let client = Client::connect(&adapter, address.parse()?).await?;
            let answer = client.ask(text.as_bytes()).await?;
            println!("{}", String::from_utf8_lossy(&answer));
            client.disconnect().await?;
        }
        _ => return Err("usage: many_clients serve | many_clients ask ADDRESS TEXT".into()),
    }
    Ok(())
}

/// A client as the server sees it.
struct Peer {
    qp: Arc<dyn QueuePair>,
    /// Ends the connection.
    leave: Notify,
}

/// By the contexts of their queue pairs.
type Clients = HashMap<u64, Arc<Peer>>;

/// The server.
pub struct Server {
    adapter: AsyncAdapter,
    cq: Arc<dyn CompletionQueue>,
    srq: Arc<dyn SharedReceiveQueue>,
    messages: RegisteredBuffer,
    /// The most clients at a time.
    most: u32,
    clients: Mutex<Clients>,
    next: AtomicU64,
}

impl Server {
    /// Makes the queues for this many clients, and posts the Receives.
    pub async fn new(adapter: &AsyncAdapter, most: u32) -> Result<Self> {
        // Every result needs room, because a completion queue that overflows takes all its queue pairs with it: the results of the
        // Receives, of the answers to them, and of the answers that come back when all clients break off at the same time.
        let cq = adapter.completion_queue(2 * RECEIVES + most * ANSWERS)?;
        let options = SharedReceiveQueueOptions::default().queue_depth(RECEIVES);
        let srq = adapter.shared_receive_queue(options)?;
        let buffer = Buffer::new((RECEIVES * MESSAGE) as usize);
        let messages = adapter
            .register(&buffer, MrFlags::ALLOW_LOCAL_WRITE)
            .await?;
        let server = Self {
            adapter: adapter.clone(),
            cq,
            srq,
            messages,
            most,
            clients: Mutex::default(),
            next: AtomicU64::default(),
        };
        (0..RECEIVES).try_for_each(|n| server.receive(n.into()))?;
        Ok(server)
    }

    /// Serves all clients who connect, until the device is removed or the completion queue breaks down.
    pub async fn run(&self, listener: &AsyncListener) -> Result<()> {
        let clients = listener.incoming();
        let connections = clients.try_for_each_concurrent(None, async |request| {
            if let Err(error) = self.connection(request).await {
                eprintln!("a client is lost: {error}");
            }
            Ok(())
        });
        // Two loops in one task: connections that come and go, and messages. An error of either ends both.
        try_join(connections, self.answer_all()).await.map(drop)
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> usize {
        self.lock().len()
    }

    /// One connection from its beginning to its end. The messages are not handled here.
    async fn connection(&self, request: ConnectionRequest) -> Result<()> {
        if self.clients() >= self.most as usize {
            return request.reject(b"too many clients");
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let options = QueuePairOptions::default()
            .context(number)
            .initiator_queue_depth(ANSWERS)
            .inline_data_size(MESSAGE);
        let adapter = &self.adapter;
        let qp = adapter.queue_pair_with_srq(&self.cq, &self.srq, options)?;
        let leave = Notify::new();
        let peer = Arc::new(Peer { qp, leave });
        // Before the client can send.
        self.lock().insert(number, peer.clone());
        let ended = peer.until_the_end(request).await;
        self.lock().remove(&number);
        ended
    }

    /// Handles the results of all clients, in the order in which they come.
    async fn answer_all(&self) -> Result<()> {
        let mut results = CompletionStream::new(&self.cq);
        while let Some(result) = results.next().await {
            let result = result?;
            // An answer that has left needs nothing, nor does one that its client did not take.
            if result.request_type == RequestType::Receive {
                self.answer(&result)?;
            }
        }
        Ok(())
    }

    fn answer(&self, result: &CompletionResult) -> Result<()> {
        let n = result.request_context;
        let mut text = vec![0; result.bytes_transferred as usize];
        if result.status == Status::SUCCESS {
            self.messages.read(room(n).start, &mut text);
        }
        // The message was copied out, so its Receive can serve the next message, of any client. A Receive that has failed comes
        // back too: with CANCELED if its client's connection has ended, with BUFFER_OVERFLOW if its client has sent too much.
        self.receive(n)?;
        let client = self.lock().get(&result.queue_pair_context).cloned();
        let Some(client) = client.filter(|_| result.status == Status::SUCCESS) else {
            return Ok(());
        };
        text.make_ascii_uppercase();
        let sent = client.qp.send_inline(0, &[&text], OpFlags::empty());
        if sent.is_err() {
            // NO_MORE_ENTRIES: a client that asks and does not take its answers.
            client.leave.notify_one();
        }
        Ok(())
    }

    fn receive(&self, n: u64) -> Result<()> {
        self.srq.receive(n, &[self.messages.sge(room(n))])
    }

    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of a Receive of the pool.
fn room(receive: u64) -> Range<usize> {
    let receive = usize::try_from(receive).expect("a context of this server's");
    let from = receive * MESSAGE as usize;
    from..from + MESSAGE as usize
}

impl Peer {
    async fn until_the_end(&self, request: ConnectionRequest) -> Result<()> {
        let connection = request.accept(&self.qp).await?;
        tokio::select! {
            ended = connection.disconnected() => ended?,
            () = self.leave.notified() => {}
        }
        connection.disconnect().await
    }
}

/// A client.
pub struct Client {
    connection: Connection,
    endpoint: Endpoint,
    memory: RegisteredBuffer,
}

impl Client {
    /// Connects to a server.
    pub async fn connect(adapter: &AsyncAdapter, to: SocketAddr) -> Result<Self> {
        let options = QueuePairOptions::default().inline_data_size(MESSAGE);
        let endpoint = adapter.endpoint(options)?;
        let buffer = Buffer::new(MESSAGE as usize);
        let memory = adapter
            .register(&buffer, MrFlags::ALLOW_LOCAL_WRITE)
            .await?;
        let connection = adapter.connect(endpoint.queue_pair(), to).await?;
        Ok(Self {
            connection,
            endpoint,
            memory,
        })
    }

    /// Sends a message and waits for the answer.
    pub async fn ask(&self, text: &[u8]) -> Result<Vec<u8>> {
        let received = self.endpoint.receive([self.memory.part(..)]); // before the answer can come
        self.endpoint.send_inline(&[text], OpFlags::empty()).await?;
        let mut answer = vec![0; received.await?.bytes_transferred as usize];
        self.memory.read(0, &mut answer);
        Ok(answer)
    }

    /// Ends the connection.
    pub async fn disconnect(self) -> Result<()> {
        self.connection.disconnect().await
    }
}
