//! Copies a file by RDMA Write, with several Writes outstanding.
//!
//! ```sh
//! cargo run -p netdirect-async --example file_copy -- receive copy.bin        # prints its address
//! cargo run -p netdirect-async --example file_copy -- send original.bin 127.0.0.1:PORT
//! ```
//!
//! The receiver registers memory for [`BLOCKS`] blocks, and tells the sender where this memory is when it accepts the connection.
//! The sender then repeats, for all blocks at the same time:
//!
//! 1. Write the next part of the file into a free block of the receiver's.
//! 2. Send a message that names the block. The message arrives after the data, because one connection keeps its order.
//! 3. Wait for the receiver's answer: the receiver has taken the data out, and the block is free again.
//!
//! The last message carries a checksum of the whole file. The receiver compares it with its own.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use netdirect::{
    Buffer, CompletionQueue, CompletionResult, MrFlags, OpFlags, QueuePair, QueuePairOptions,
    RemoteAddress, RequestType, Result,
};
use netdirect_async::{
    AsyncAdapter, AsyncListener, CompletionStream, ListenerOptions, RegisteredBuffer,
};

/// How many parts of the file are on their way at a time.
pub const BLOCKS: usize = 4;
/// The length of a part, in octets.
pub const BLOCK: usize = 256 * 1024;

/// What ends a copy early: an error of ND2, of the file, or a peer that breaks the rules.
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
pub async fn send(
    adapter: &AsyncAdapter,
    to: SocketAddr,
    mut file: impl Read,
) -> Result<u64, Failure> {
    let end = End::new(adapter)?;
    // The source of a Write needs no rights.
    let buffer = Buffer::new(BLOCKS * BLOCK);
    let blocks = adapter.register(&buffer, MrFlags::empty()).await?;
    let answers = Messages::post(adapter, &end.qp).await?;
    let connection = adapter.connect(&end.qp, to).await?;
    let there = RemoteAddress::from_bytes(connection.private_data().try_into()?);

    let mut results = CompletionStream::of(&end.cq);
    let (mut octets, mut sum, mut is_whole) = (0, Sum::new(), false);
    let mut free: Vec<usize> = (0..BLOCKS).collect();
    // A block is free when its message has left and the receiver has answered, in either order.
    let mut awaits = [0; BLOCKS];
    loop {
        while !is_whole && let Some(block) = free.pop() {
            let mut part = Vec::with_capacity(BLOCK);
            file.by_ref().take(BLOCK as u64).read_to_end(&mut part)?;
            if part.is_empty() {
                is_whole = true;
                free.push(block);
                break;
            }
            sum.add(&part);
            octets += part.len() as u64;
            blocks.write(block * BLOCK, &part);
            let source = blocks.sge(block * BLOCK..block * BLOCK + part.len());
            let target = there.offset((block * BLOCK) as u64);
            let context = block as u64;
            // The result of the Send tells of both: requests complete in their order.
            let flags = OpFlags::SILENT_SUCCESS;
            end.qp.write(context, &[source], target, flags)?;
            end.send(context, Message::Part(block, part.len()))?;
            awaits[block] = 2;
        }
        if free.len() == BLOCKS {
            break;
        }
        let result = next(&mut results).await?;
        let block = match result.request_type {
            RequestType::Send => usize::try_from(result.request_context)?,
            _ => match answers.take(&end.qp, &result)? {
                Message::Free(block) if awaits[block] > 0 => block,
                other => return Err(format!("unexpected answer {other:?}").into()),
            },
        };
        awaits[block] -= 1;
        if awaits[block] == 0 {
            free.push(block);
        }
    }

    end.send(0, Message::End(sum.value()))?;
    loop {
        let result = next(&mut results).await?;
        if result.request_type == RequestType::Receive {
            let answer = answers.take(&end.qp, &result)?;
            connection.disconnect().await?;
            return match answer {
                Message::End(theirs) if theirs == sum.value() => Ok(octets),
                Message::End(_) => {
                    Err("the receiver got another file: the checksum differs".into())
                }
                other => Err(format!("unexpected answer {other:?}").into()),
            };
        }
    }
}

/// Receives a file from the next sender who connects. Returns the length of the file.
pub async fn receive(
    adapter: &AsyncAdapter,
    listener: &AsyncListener,
    mut file: impl Write,
) -> Result<u64, Failure> {
    let end = End::new(adapter)?;
    let (buffer, rights) = (Buffer::new(BLOCKS * BLOCK), MrFlags::ALLOW_REMOTE_WRITE);
    let blocks = adapter.register(&buffer, rights).await?;
    let messages = Messages::post(adapter, &end.qp).await?; // before the sender can send
    let request = listener.get_connection_request().await?;
    let place = blocks.remote(0).to_bytes();
    let connection = request.accept(&end.qp).private_data(place).await?;

    let mut results = CompletionStream::of(&end.cq);
    let (mut octets, mut sum) = (0, Sum::new());
    loop {
        let result = next(&mut results).await?;
        if result.request_type == RequestType::Send {
            continue; // an answer has left
        }
        match messages.take(&end.qp, &result)? {
            Message::Part(block, length) => {
                // Copied out: the memory itself stays open to the sender.
                let mut part = vec![0; length];
                blocks.read(block * BLOCK, &mut part);
                end.send(0, Message::Free(block))?;
                sum.add(&part);
                octets += part.len() as u64;
                file.write_all(&part)?;
            }
            Message::End(theirs) => {
                file.flush()?;
                end.send(0, Message::End(sum.value()))?;
                connection.disconnected().await?; // the sender has seen the answer
                connection.disconnect().await?;
                return match theirs == sum.value() {
                    true => Ok(octets),
                    false => Err("another file has arrived: the checksum differs".into()),
                };
            }
            other => return Err(format!("unexpected message {other:?}").into()),
        }
    }
}

/// What both sides need for a connection.
struct End {
    cq: Arc<dyn CompletionQueue>,
    qp: Arc<dyn QueuePair>,
}

impl End {
    fn new(adapter: &AsyncAdapter) -> Result<Self, Failure> {
        // A Write and a Send for each block, and the end.
        let depth = u32::try_from(2 * BLOCKS + 2)?;
        // Room for the results of both queues: a completion queue that overflows is lost.
        let cq = adapter.completion_queue(2 * depth)?;
        let options = QueuePairOptions::default()
            .receive_queue_depth(depth)
            .initiator_queue_depth(depth)
            .inline_data_size(Message::LEN.try_into()?);
        let qp = adapter.queue_pair(&cq, options)?;
        Ok(Self { cq, qp })
    }

    fn send(&self, context: u64, message: Message) -> Result<()> {
        let octets = message.to_bytes();
        self.qp.send_inline(context, &[&octets], OpFlags::empty())
    }
}

/// The next result, which has to be a success.
async fn next(results: &mut CompletionStream) -> Result<CompletionResult, Failure> {
    let result = results.next().await.ok_or("the queue has ended")??;
    result.status.ok()?;
    Ok(result)
}

/// What the sides tell each other.
#[derive(Clone, Copy, Debug)]
enum Message {
    /// A part of the file, of this length, is in a block.
    Part(usize, usize),
    /// The block may be written again.
    Free(usize),
    /// The whole file was sent, or has arrived, with this checksum.
    End(u64),
}

impl Message {
    const LEN: usize = 24;

    fn to_bytes(self) -> [u8; Self::LEN] {
        let fields: [u64; 3] = match self {
            Self::Part(block, length) => [0, block as u64, length as u64],
            Self::Free(block) => [1, block as u64, 0],
            Self::End(sum) => [2, sum, 0],
        };
        let mut octets = [0; Self::LEN];
        for (to, field) in octets.chunks_mut(8).zip(fields) {
            to.copy_from_slice(&field.to_be_bytes());
        }
        octets
    }

    /// The peer's octets are checked here, so that no number of the peer's leads beyond the memory.
    fn from_bytes(octets: [u8; Self::LEN]) -> Result<Self, Failure> {
        let field = |n: usize| u64::from_be_bytes(std::array::from_fn(|at| octets[8 * n + at]));
        let (block, length) = (usize::try_from(field(1)), usize::try_from(field(2)));
        Ok(match (field(0), block, length) {
            (0, Ok(block), Ok(length)) if block < BLOCKS && length <= BLOCK => {
                Self::Part(block, length)
            }
            (1, Ok(block), _) if block < BLOCKS => Self::Free(block),
            (2, ..) => Self::End(field(1)),
            _ => return Err(format!("not a message: {octets:?}").into()),
        })
    }
}

/// The memory for messages of the peer, each with a Receive.
struct Messages(RegisteredBuffer);

impl Messages {
    /// One for each block, and one for the end.
    const COUNT: usize = BLOCKS + 1;

    async fn post(adapter: &AsyncAdapter, qp: &Arc<dyn QueuePair>) -> Result<Self> {
        let buffer = Buffer::new(Self::COUNT * Message::LEN);
        let messages = Self(
            adapter
                .register(&buffer, MrFlags::ALLOW_LOCAL_WRITE)
                .await?,
        );
        (0..Self::COUNT).try_for_each(|n| messages.receive(qp, n))?;
        Ok(messages)
    }

    fn receive(&self, qp: &Arc<dyn QueuePair>, n: usize) -> Result<()> {
        let place = self.0.sge(n * Message::LEN..(n + 1) * Message::LEN);
        qp.receive(n as u64, &[place])
    }

    /// The message of a Receive that has completed. The Receive is posted again.
    fn take(&self, qp: &Arc<dyn QueuePair>, result: &CompletionResult) -> Result<Message, Failure> {
        let n = usize::try_from(result.request_context)?;
        if result.bytes_transferred as usize != Message::LEN {
            return Err(format!("a message of {} octets", result.bytes_transferred).into());
        }
        let mut octets = [0; Message::LEN];
        self.0.read(n * Message::LEN, &mut octets);
        self.receive(qp, n)?;
        Message::from_bytes(octets)
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
