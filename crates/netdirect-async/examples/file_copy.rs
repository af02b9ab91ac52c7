//! Copies a file by RDMA Write, with several Writes outstanding.
//!
//! ```sh
//! cargo run -p netdirect-async --example file_copy -- receive copy.bin        # prints its address
//! cargo run -p netdirect-async --example file_copy -- send original.bin 127.0.0.1:PORT
//! ```
//!
//! The receiver registers memory for [`BLOCKS`] blocks, and sends the sender the place of this memory when it accepts the connection.
//! The sender then repeats, for all blocks at the same time:
//!
//! 1. Write the next part of the file into a free block of the receiver's.
//! 2. Send a message that names the block. The message arrives after the data, because one connection keeps its order.
//! 3. Wait for the receiver's answer: the receiver has taken the data out, and the block is free again.
//!
//! The last message carries a checksum of the whole file. The receiver compares it with its own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

use futures_util::future::try_join_all;
use netdirect::{Buffer, MrFlags, OpFlags, QueuePairOptions, RemoteAddress, Result};
use netdirect_async::{AsyncAdapter, AsyncListener, Endpoint, ListenerOptions, RegisteredBuffer};

/// How many parts of the file are on their way at a time.
pub const BLOCKS: usize = 4;
/// The length of a part, in octets.
pub const BLOCK: usize = 256 * 1024;

/// The reason why a copy ends early: an error of ND2, of the file, or a peer that breaks the rules.
type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
    let adapter = AsyncAdapter::new(&adapter)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let octets = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", path] => {
            let listener = adapter.listen("127.0.0.1:0".parse()?, ListenerOptions::default())?;
            println!("receiving at {}", listener.local_address()?);
            receive(&adapter, &listener, File::create(path)?).await?
        }
        ["send", path, address] => send(&adapter, address.parse()?, File::open(path)?).await?,
        _ => return Err("usage: file_copy receive FILE | file_copy send FILE ADDRESS".into()),
    };
    println!("{octets} octets");
    Ok(())
}

/// Sends a file to the receiver at an address. Returns the length of the file.
pub async fn send(adapter: &AsyncAdapter, to: SocketAddr, file: impl Read) -> Result<u64, Failure> {
    let endpoint = endpoint(adapter)?;
    // The source of a Write needs no rights.
    let buffer = Buffer::new(BLOCKS * BLOCK);
    let blocks = adapter.register(&buffer, MrFlags::empty()).await?;
    let connection = adapter.connect(endpoint.queue_pair(), to).await?;
    let there = RemoteAddress::from_bytes(connection.private_data().try_into()?);

    let source = RefCell::new(Source {
        file,
        octets: 0,
        sum: Sum::new(),
    });
    // All blocks are in use at the same time, in one task.
    let through = |block| send_through(block, &endpoint, &blocks, there, &source);
    try_join_all((0..BLOCKS).map(through)).await?;

    let Source { octets, sum, .. } = source.into_inner();
    let (buffer, rights) = (Buffer::new(8), MrFlags::ALLOW_LOCAL_WRITE);
    let verdict = adapter.register(&buffer, rights).await?;
    let answer = endpoint.receive([verdict.part(..)]);
    endpoint
        .send_inline(&[&Message::End(sum.value()).to_bytes()], OpFlags::empty())
        .await?;
    answer.await?;
    connection.disconnect().await?;
    match verdict.to_vec() == sum.value().to_be_bytes() {
        true => Ok(octets),
        false => Err("the receiver got another file: the checksum differs".into()),
    }
}

/// Sends parts of the file through one block, until the file ends.
async fn send_through(
    block: usize,
    endpoint: &Endpoint,
    blocks: &RegisteredBuffer,
    there: RemoteAddress,
    source: &RefCell<Source<impl Read>>,
) -> Result<(), Failure> {
    let from = block * BLOCK;
    loop {
        let part = source.borrow_mut().next()?;
        if part.is_empty() {
            return Ok(());
        }
        blocks.write(from, &part);
        let here = [blocks.part(from..from + part.len())];
        let message = Message::Part(block, part.len()).to_bytes();
        // The three requests are posted in a row. So the answers, which come in the order of the messages, use the Receives in the
        // same order, and each block gets its own.
        let answer = endpoint.receive([]); // a message of no length
        let written = endpoint.write(here, there.offset(from as u64), OpFlags::empty());
        let sent = endpoint.send_inline(&[&message], OpFlags::empty());
        written.await?;
        sent.await?;
        answer.await?;
    }
}

/// The file that is sent, with its length and checksum up to now.
struct Source<F> {
    file: F,
    octets: u64,
    sum: Sum,
}

impl<F: Read> Source<F> {
    /// The next part; empty at the end.
    fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut part = Vec::with_capacity(BLOCK);
        self.file
            .by_ref()
            .take(BLOCK as u64)
            .read_to_end(&mut part)?;
        self.octets += part.len() as u64;
        self.sum.add(&part);
        Ok(part)
    }
}

/// Receives a file from the next sender who connects. Returns the length of the file.
pub async fn receive(
    adapter: &AsyncAdapter,
    listener: &AsyncListener,
    mut file: impl Write,
) -> Result<u64, Failure> {
    let endpoint = endpoint(adapter)?;
    let (buffer, rights) = (Buffer::new(BLOCKS * BLOCK), MrFlags::ALLOW_REMOTE_WRITE);
    let blocks = adapter.register(&buffer, rights).await?;
    // A message for each block, and one at the end.
    let (count, length) = (BLOCKS + 1, Message::LEN);
    let (buffer, rights) = (Buffer::new(count * length), MrFlags::ALLOW_LOCAL_WRITE);
    let messages = adapter.register(&buffer, rights).await?;
    let receive = |n| endpoint.receive([messages.part(n * length..(n + 1) * length)]);
    // Before the sender can send. Messages use the Receives in the order in which these were posted.
    let mut receives: VecDeque<_> = (0..count).map(receive).collect();

    let request = listener.get_connection_request().await?;
    let place = blocks.remote(0).to_bytes();
    let accept = request.accept(endpoint.queue_pair()).private_data(place);
    let connection = accept.await?;
    let (mut octets, mut sum) = (0, Sum::new());
    for n in (0..count).cycle() {
        let next = receives.pop_front().expect("one is posted for each taken");
        let received = next.await?.bytes_transferred as usize;
        let mut message = [0; Message::LEN];
        messages.read(n * length, &mut message);
        receives.push_back(receive(n));
        match Message::from_bytes(&message[..received])? {
            Message::Part(block, length) => {
                // Copied out: the memory itself stays open to the sender.
                let mut part = vec![0; length];
                blocks.read(block * BLOCK, &mut part);
                endpoint.send([], OpFlags::empty()).await?;
                sum.add(&part);
                octets += part.len() as u64;
                file.write_all(&part)?;
            }
            Message::End(theirs) => {
                file.flush()?;
                let verdict = sum.value().to_be_bytes();
                endpoint.send_inline(&[&verdict], OpFlags::empty()).await?;
                connection.disconnected().await?; // the sender has seen the verdict
                connection.disconnect().await?;
                if theirs != sum.value() {
                    return Err("another file has arrived: the checksum differs".into());
                }
                break;
            }
        }
    }
    Ok(octets)
}

/// The same for both sides.
fn endpoint(adapter: &AsyncAdapter) -> Result<Endpoint, Failure> {
    // For each block a Write and a Send, and a message of the peer; and the end.
    let (requests, receives) = (2 * BLOCKS + 1, BLOCKS + 1);
    let options = QueuePairOptions::default()
        .initiator_queue_depth(requests.try_into()?)
        .receive_queue_depth(receives.try_into()?)
        .inline_data_size(Message::LEN.try_into()?);
    Ok(adapter.endpoint(options)?)
}

/// A message of the sender to the receiver.
#[derive(Clone, Copy, Debug)]
enum Message {
    /// A part of the file, of this length, is in a block.
    Part(usize, usize),
    /// The file has ended, with this checksum.
    End(u64),
}

impl Message {
    const LEN: usize = 24;

    fn to_bytes(self) -> [u8; Self::LEN] {
        let fields: [u64; 3] = match self {
            Self::Part(block, length) => [0, block as u64, length as u64],
            Self::End(sum) => [1, sum, 0],
        };
        let mut octets = [0; Self::LEN];
        for (to, field) in octets.chunks_mut(8).zip(fields) {
            to.copy_from_slice(&field.to_be_bytes());
        }
        octets
    }

    /// The sender's octets are checked here, so that no number in them leads beyond the memory.
    fn from_bytes(octets: &[u8]) -> Result<Self, Failure> {
        let octets: [u8; Self::LEN] = octets.try_into()?;
        let field = |n: usize| u64::from_be_bytes(std::array::from_fn(|at| octets[8 * n + at]));
        match (field(0), field(1), field(2)) {
            (0, block, length) if block < BLOCKS as u64 && length <= BLOCK as u64 => Ok(
                Self::Part(usize::try_from(block)?, usize::try_from(length)?),
            ),
            (1, sum, _) => Ok(Self::End(sum)),
            _ => Err(format!("not a message: {octets:?}").into()),
        }
    }
}

/// FNV-1a, a short checksum. It finds accidents; a program that has enemies takes SHA-256.
struct Sum(u64);

impl Sum {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, octets: &[u8]) {
        for octet in octets {
            self.0 = (self.0 ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01B3);
        }
    }

    fn value(&self) -> u64 {
        self.0
    }
}
