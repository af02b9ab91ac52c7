//! A server that can be stopped, over the plain traits of NetworkDirect: a thread for each client, Reads of the server's memory through a
//! window, a shared receive queue, a limit of clients beyond which it rejects, and a flag that stops it.
//!
//! A client asks for the number of a word, and reads the word from the server's memory by an RDMA Read.
//!
//! `cargo run -p softnd --example server` runs the server and four clients, one more than it serves at a time, and stops it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, CompletionResult, Connector, Error, Listener,
    MemoryRegion, MrFlags, OpFlags, Overlapped, OverlappedFile, QueuePairOptions, ReadLimits,
    RemoteAddress, RemoteToken, Result, Sge, SharedReceiveQueue, SharedReceiveQueueOptions, Status,
    ext,
};

const WORDS: &str = "apple  pear   cherry plum   ";
/// Octets of a word.
const WORD: u64 = 7;
/// The most clients at a time.
const CLIENTS: usize = 3;
/// The time after which a wait looks at the flag that stops the server, and the time that a client has for one step.
const LOOK: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(10);
/// The Reads that either side serves and makes at a time.
const READS: ReadLimits = ReadLimits {
    inbound: 2,
    outbound: 2,
};

/// The contexts of requests.
const RECEIVE: u64 = 0;
const SEND: u64 = 1;
const BIND: u64 = 2;
const READ: u64 = 3;

/// An adapter with registered memory, for either side.
struct End {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    buffer: Buffer,
    region: Arc<dyn MemoryRegion>,
}

impl End {
    fn new(rights: MrFlags) -> Result<Self> {
        let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
        let file = adapter.create_overlapped_file()?;
        let buffer = Buffer::try_new(4096)?;
        let region = adapter.create_memory_region(&file)?;
        let registered = Overlapped::new();
        ext::wait(region.register(&buffer, rights, &registered), &registered)?;
        Ok(Self {
            adapter,
            file,
            buffer,
            region,
        })
    }

    fn completions(&self) -> Result<Arc<dyn CompletionQueue>> {
        self.adapter
            .create_completion_queue(&self.file, 16, Affinity::default())
    }

    fn sge(&self, range: std::ops::Range<usize>) -> Sge {
        Sge::new(&self.buffer, range, self.region.get_local_token())
    }
}

/// Waits for one completion, which must have succeeded.
fn completed(results: &ext::Results) -> Result<CompletionResult> {
    let mut result = [CompletionResult::default()];
    if results.get_timeout(&mut result, PATIENCE)? == 0 {
        return Err(Error::new(Status::IO_TIMEOUT, "nothing has completed"));
    }
    result[0].status.ok()?;
    Ok(result[0])
}

struct Server {
    end: End,
    /// The Receives of all clients.
    receives: Arc<dyn SharedReceiveQueue>,
    stops: AtomicBool,
    clients: AtomicUsize,
}

impl Server {
    fn new() -> Result<Self> {
        let end = End::new(MrFlags::ALLOW_LOCAL_WRITE | MrFlags::ALLOW_REMOTE_READ)?;
        end.buffer.write(0, WORDS.as_bytes());
        let receives = end.adapter.create_shared_receive_queue(
            &end.file,
            SharedReceiveQueueOptions::default().queue_depth(8),
        )?;
        for context in 0..8 {
            // Messages without octets need no memory.
            receives.receive(context, &[])?;
        }
        Ok(Self {
            end,
            receives,
            stops: AtomicBool::new(false),
            clients: AtomicUsize::new(0),
        })
    }

    /// Serves until `stops` is set. A client that comes when a limit passes is served by the next turn.
    fn serve(self: &Arc<Self>, listener: &Arc<dyn Listener>) -> Result<()> {
        while !self.stops.load(Ordering::Relaxed) {
            let connector = self.end.adapter.create_connector(&self.end.file)?;
            let Some(client) = ext::get_connection_request_timeout(listener, &connector, LOOK)?
            else {
                continue;
            };
            if self.clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS {
                self.clients.fetch_sub(1, Ordering::Relaxed);
                connector.reject(b"there are too many clients: come back later")?;
                continue;
            }
            let (server, name) = (Arc::clone(self), client.private_data);
            thread::spawn(move || {
                if let Err(error) = server.serve_client(&connector) {
                    let name = String::from_utf8_lossy(&name);
                    let end = connector.connection_end().map(|end| end.to_string());
                    eprintln!("{name}: {error}; {}", end.unwrap_or_default());
                }
                server.clients.fetch_sub(1, Ordering::Relaxed);
            });
        }
        Ok(())
    }

    /// Serves a client until it disconnects. It asks by a message without octets, and gets the address and the token of a window on the words.
    fn serve_client(&self, connector: &Arc<dyn Connector>) -> Result<()> {
        let End {
            adapter,
            region,
            buffer,
            ..
        } = &self.end;
        let cq = self.end.completions()?;
        let options = QueuePairOptions::default().inline_data_size(12);
        let qp = adapter.create_queue_pair_with_srq(&cq, &cq, &self.receives, options)?;
        let results = ext::Results::new(&cq);
        if ext::accept_timeout(connector, &qp, READS, b"", PATIENCE)?.is_none() {
            return Err(Error::new(
                Status::IO_TIMEOUT,
                "the client has not completed its Connect",
            ));
        }
        // With iWARP the side that connects sends first.
        let question = completed(&results)?;
        self.receives.receive(question.request_context, &[])?;
        let window = adapter.create_memory_window()?;
        let words = WORDS.len() as u64;
        qp.bind(
            BIND,
            region,
            &window,
            buffer.address(),
            words,
            OpFlags::ALLOW_READ,
        )?;
        completed(&results)?;
        let mut place = buffer.address().to_be_bytes().to_vec();
        place.extend_from_slice(&window.get_remote_token().to_bytes());
        qp.send_inline(SEND, &[&place], OpFlags::empty())?;
        completed(&results)?;
        // The client disconnects when it has read.
        let ended = Overlapped::new();
        ext::wait(connector.notify_disconnect(&ended), &ended)
    }
}

/// Reads the word of this number. `None`: the server has rejected the client.
fn client(server: SocketAddr, number: u64) -> Result<Option<String>> {
    let end = End::new(MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK)?;
    let cq = end.completions()?;
    let qp = end
        .adapter
        .create_queue_pair(&cq, &cq, QueuePairOptions::default())?;
    let connector = end.adapter.create_connector(&end.file)?;
    qp.receive(RECEIVE, &[end.sge(0..12)])?;
    let name = format!("client {number}");
    match ext::connect_timeout(&connector, &qp, server, READS, name.as_bytes(), PATIENCE) {
        Ok(Some(_)) => {}
        Ok(None) => {
            return Err(Error::new(
                Status::IO_TIMEOUT,
                "the server has not answered",
            ));
        }
        Err(error) if error.status() == Status::CONNECTION_REFUSED => {
            let why = connector.get_private_data()?;
            println!("{name}: {}", String::from_utf8_lossy(&why));
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    let results = ext::Results::new(&cq);
    qp.send(SEND, &[], OpFlags::empty())?;
    // The Send, and the answer.
    completed(&results)?;
    completed(&results)?;
    let place = end.buffer.slice(0..12).to_vec();
    let (address, token) = place.split_at(8);
    let from = RemoteAddress {
        address: u64::from_be_bytes(address.try_into().expect("eight octets")) + number * WORD,
        token: RemoteToken::from_bytes(token.try_into().expect("four octets")),
    };
    qp.read(READ, &[end.sge(100..107)], from, OpFlags::empty())?;
    completed(&results)?;
    let word = end.buffer.slice(100..107).to_vec();
    let word = String::from_utf8_lossy(&word).trim().to_owned();
    // The connection lives until the caller has its word, so that all clients are there at a time.
    ext::disconnect_timeout(&connector, PATIENCE)?;
    Ok(Some(word))
}

fn main() -> Result<()> {
    let server = Arc::new(Server::new()?);
    let listener = server.end.adapter.create_listener(&server.end.file)?;
    listener.bind(([127, 0, 0, 1], 0).into())?; // any free port
    listener.listen(8)?;
    let address = listener.get_local_address()?;
    let serving = {
        let (server, listener) = (Arc::clone(&server), Arc::clone(&listener));
        thread::spawn(move || server.serve(&listener))
    };
    let clients: Vec<_> = (0..4)
        .map(|number| thread::spawn(move || client(address, number)))
        .collect();
    for (number, client) in clients.into_iter().enumerate() {
        match client.join().expect("a client does not panic")? {
            Some(word) => println!("client {number} has read: {word}"),
            None => println!("client {number} was rejected"),
        }
    }
    server.stops.store(true, Ordering::Relaxed);
    serving.join().expect("the server does not panic")?;
    println!("the server has stopped");
    Ok(())
}

#[test]
fn each_client_reads_its_word_and_the_server_stops() {
    main().unwrap();
}
