//! A server of many clients over the plain traits of NetworkDirect: one thread, one completion port, one completion queue for all
//! clients. Each client sends a line, and gets it back in capitals.
//!
//! The end of every request arrives at the port as a packet: of requests of the listener and of connectors, and of the Notify that reports
//! results in the completion queue. The number in a packet (`Overlapped::set_user`) identifies its client. `ext::start_on` queues the
//! packet of a request that ended at once, so that there is one place for both.
//!
//! `cargo run -p softnd --example completion_port` runs the server and 100 clients.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use netdirect::{
    Adapter, Affinity, Buffer, CompletionPort, CompletionQueue, CompletionResult, Connector,
    Listener, MemoryRegion, MrFlags, NotifyType, OpFlags, Overlapped, OverlappedFile, QueuePair,
    QueuePairOptions, ReadLimits, Result, Sge, Status, ext,
};

/// The longest line in octets.
const LINE: usize = 64;
/// The most requests of one client: a Receive and a Send.
const REQUESTS: u32 = 2;
/// The key of the server's file. A program with several files has one for each.
const KEY: u64 = 0;

/// The event of a packet: the low octet of its number. The other bits are the number of the client.
const ARRIVED: u64 = 0;
const RESULTS: u64 = 1;
const ACCEPTED: u64 = 2;
const ENDED: u64 = 3;

/// The contexts of the requests on a queue pair.
const RECEIVE: u64 = 0;
const SEND: u64 = 1;

/// An `Overlapped` whose packets have the number of a client, and an event.
fn numbered(client: u64, what: u64) -> Overlapped {
    let overlapped = Overlapped::new();
    overlapped.set_user(client << 8 | what);
    overlapped
}

/// The objects of one client. Dropping them ends its connection.
struct Client {
    qp: Arc<dyn QueuePair>,
    connector: Arc<dyn Connector>,
}

struct Server {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    port: CompletionPort,
    cq: Arc<dyn CompletionQueue>,
    results: Overlapped,
    listener: Arc<dyn Listener>,
    buffer: Buffer,
    region: Arc<dyn MemoryRegion>,
    /// The connector for the next client.
    next: Arc<dyn Connector>,
    clients: HashMap<u64, Client>,
    accepted: u64,
}

impl Server {
    /// Listens at a port that the system chooses, with memory for `most` clients.
    fn new(adapter: Arc<dyn Adapter>, address: SocketAddr, most: u32) -> Result<Self> {
        let file = adapter.create_overlapped_file()?;
        let port = CompletionPort::new();
        file.associate(&port, KEY)?;
        let cq = adapter.create_completion_queue(&file, most * REQUESTS, Affinity::default())?;
        let buffer = Buffer::try_new(LINE * most as usize)?;
        let region = adapter.create_memory_region(&file)?;
        let registered = Overlapped::new().without_port();
        let rights = MrFlags::ALLOW_LOCAL_WRITE;
        ext::wait(region.register(&buffer, rights, &registered), &registered)?;
        let listener = adapter.create_listener(&file)?;
        listener.bind(address)?;
        listener.listen(0)?;
        let next = adapter.create_connector(&file)?;
        Ok(Self {
            results: numbered(0, RESULTS),
            clients: HashMap::new(),
            accepted: 0,
            adapter,
            file,
            port,
            cq,
            listener,
            buffer,
            region,
            next,
        })
    }

    /// Serves until this many clients have disconnected.
    fn serve(mut self, count: u64) -> Result<()> {
        self.ask()?;
        self.watch()?;
        let mut gone = 0;
        while gone < count {
            let Some(packet) = self.port.get(None) else {
                return Err(Status::POSSIBLE_DEADLOCK.into()); // in a simulation: no event is left
            };
            let client = packet.user >> 8;
            match packet.user & 0xFF {
                ARRIVED => {
                    packet.status.ok()?;
                    self.accept()?;
                    if self.accepted < count {
                        self.ask()?;
                    }
                }
                RESULTS => {
                    packet.status.ok()?;
                    self.take_results()?;
                    self.watch()?;
                }
                ACCEPTED if packet.status == Status::SUCCESS => self.watch_end(client)?,
                // The client has ended its connection, or has disconnected while it was accepted.
                _ => {
                    self.clients.remove(&client);
                    gone += 1;
                }
            }
        }
        Ok(())
    }

    /// Waits for the next client.
    fn ask(&mut self) -> Result<()> {
        self.next = self.adapter.create_connector(&self.file)?;
        let arrived = numbered(0, ARRIVED);
        let started = self.listener.get_connection_request(&self.next, &arrived);
        ext::start_on(&self.port, KEY, arrived.user(), started)
    }

    /// Waits for results of the completion queue.
    fn watch(&self) -> Result<()> {
        let started = self.cq.notify(NotifyType::Any, &self.results);
        ext::start_on(&self.port, KEY, self.results.user(), started)
    }

    /// Accepts the client that has arrived, with a Receive for its line.
    fn accept(&mut self) -> Result<()> {
        let number = self.accepted;
        self.accepted += 1;
        let options = QueuePairOptions::default()
            .context(number)
            .receive_queue_depth(1)
            .initiator_queue_depth(1);
        let qp = self
            .adapter
            .create_queue_pair(&self.cq, &self.cq, options)?;
        qp.receive(RECEIVE, &[self.sge(number, LINE)])?;
        let connector = self.next.clone();
        let accepted = numbered(number, ACCEPTED);
        let started = connector.accept(&qp, 0, 0, &[], &accepted);
        self.clients.insert(number, Client { qp, connector });
        if ext::start_on(&self.port, KEY, accepted.user(), started).is_err() {
            // The client has disconnected already. One client never stops the server.
            self.port.post(KEY, number << 8 | ENDED);
        }
        Ok(())
    }

    fn watch_end(&self, number: u64) -> Result<()> {
        let ended = numbered(number, ENDED);
        let started = self.clients[&number].connector.notify_disconnect(&ended);
        ext::start_on(&self.port, KEY, ended.user(), started)
    }

    fn take_results(&self) -> Result<()> {
        let mut batch = [CompletionResult::default(); 16];
        loop {
            let taken = self.cq.get_results(&mut batch);
            for result in &batch[..taken] {
                let number = result.queue_pair_context;
                let client = self.clients.get(&number);
                // Flushed requests, and results of clients that have disconnected, need no answer.
                if let Some(client) = client.filter(|_| result.status == Status::SUCCESS) {
                    // A post fails when the client has disconnected meanwhile, which a packet reports.
                    let _ = self.answer(client, number, result);
                }
            }
            if taken < batch.len() {
                return Ok(());
            }
        }
    }

    fn answer(&self, client: &Client, number: u64, result: &CompletionResult) -> Result<()> {
        if result.request_context == SEND {
            return client.qp.receive(RECEIVE, &[self.sge(number, LINE)]);
        }
        let (at, length) = (self.place(number), result.bytes_transferred as usize);
        let line = self.buffer.slice(at..at + length).to_vec();
        self.buffer.write(at, &line.to_ascii_uppercase());
        client
            .qp
            .send(SEND, &[self.sge(number, length)], OpFlags::empty())
    }

    fn place(&self, number: u64) -> usize {
        LINE * usize::try_from(number).expect("the number of a client")
    }

    fn sge(&self, number: u64, length: usize) -> Sge {
        let at = self.place(number);
        Sge::new(&self.buffer, at..at + length, self.region.get_local_token())
    }
}

/// A client that waits in each call. Returns the answer to a line.
fn client(adapter: &Arc<dyn Adapter>, server: SocketAddr, line: &[u8]) -> Result<Vec<u8>> {
    let file = adapter.create_overlapped_file()?;
    let cq = adapter.create_completion_queue(&file, REQUESTS, Affinity::default())?;
    let qp = adapter.create_queue_pair(&cq, &cq, QueuePairOptions::default())?;
    let (buffer, region) = (Buffer::new(2 * LINE), adapter.create_memory_region(&file)?);
    let registered = Overlapped::new();
    let rights = MrFlags::ALLOW_LOCAL_WRITE;
    ext::wait(region.register(&buffer, rights, &registered), &registered)?;
    let sge = |range| Sge::new(&buffer, range, region.get_local_token());
    qp.receive(RECEIVE, &[sge(LINE..2 * LINE)])?;
    let connector = adapter.create_connector(&file)?;
    ext::connect(&connector, &qp, server, ReadLimits::default(), b"")?;
    buffer.write(0, line);
    qp.send(SEND, &[sge(0..line.len())], OpFlags::empty())?;
    let results = ext::Results::new(&cq);
    let mut answer = None;
    while answer.is_none() {
        let mut batch = [CompletionResult::default(); 2];
        let taken = results.get(&mut batch)?;
        for result in &batch[..taken] {
            result.status.ok()?;
            if result.request_context == RECEIVE {
                answer = Some(result.bytes_transferred as usize);
            }
        }
    }
    let answer = buffer.slice(LINE..LINE + answer.unwrap_or(0)).to_vec();
    ext::disconnect(&connector)?;
    Ok(answer)
}

/// Runs a server and its clients, several of them at a time. Returns the number of clients served.
fn run(url: &str, count: u32) -> Result<u32> {
    const AT_A_TIME: u32 = 4;
    let (sender, listening) = channel();
    let serve = |address: Sender<SocketAddr>| {
        let adapter = softnd::open(url, softnd::Options::default())?;
        let server = Server::new(adapter, ([127, 0, 0, 1], 0).into(), count)?;
        let local = server.listener.get_local_address()?;
        address.send(local).expect("the clients wait for it");
        server.serve(count.into())
    };
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(sender));
        let Ok(server) = listening.recv() else {
            return serving.join().expect("no panic").map(|()| 0);
        };
        let clients: Vec<_> = (0..AT_A_TIME)
            .map(|first| {
                scope.spawn(move || -> Result<u32> {
                    let adapter = softnd::open(url, softnd::Options::default())?;
                    let mut served = 0;
                    for number in (first..count).step_by(AT_A_TIME as usize) {
                        let line = format!("client {number}");
                        let answer = client(&adapter, server, line.as_bytes())?;
                        assert_eq!(answer, line.to_uppercase().as_bytes());
                        served += 1;
                    }
                    Ok(served)
                })
            })
            .collect();
        let served = clients
            .into_iter()
            .map(|client| client.join().expect("no panic"));
        let served = served.sum::<Result<u32>>()?;
        serving.join().expect("no panic")?;
        Ok(served)
    })
}

fn main() -> Result<()> {
    let served = run("softnd+tcp://127.0.0.1", 100)?;
    println!("{served} clients served");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn each_client_gets_its_own_line_back() {
        for url in ["softnd+tcp://127.0.0.1", "softnd+udp://127.0.0.1"] {
            assert_eq!(run(url, 30), Ok(30), "{url}");
        }
    }
}
