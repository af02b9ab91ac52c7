//! A key-value store whose clients look values up by RDMA Read. The server's processor has no part in a lookup.
//!
//! ```sh
//! cargo run -p netdirect-async --example key_value -- serve apple=red pear=green    # prints its address
//! cargo run -p netdirect-async --example key_value -- get 127.0.0.1:PORT pear
//! ```
//!
//! The server publishes a table of slots in registered memory. A client hashes the key to the number of a slot and reads the slot.
//! If the slot has another key, the client goes on to the next slot, up to an empty one.
//!
//! The server may change a slot while a client reads it, and an RDMA Read is not atomic: the client can get the first half of the
//! old content and the second half of the new. So each slot contains a checksum of its content. A client whose checksum does not fit
//! reads the slot again.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::TryStreamExt;
use netdirect::{Buffer, MrFlags, OpFlags, QueuePairOptions, ReadLimits, RemoteAddress, Result};
use netdirect_async::{
    AsyncAdapter, AsyncListener, Connection, ConnectionRequest, Endpoint, ListenerOptions,
    RegisteredBuffer, within,
};

/// The reason why a call ends early: an error of ND2, or a peer that breaks the rules.
type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
    let adapter = AsyncAdapter::new(&adapter)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", ref pairs @ ..] => {
            let mut table = Table::new(&adapter, 1024).await?;
            for pair in pairs {
                let (key, value) = pair.split_once('=').ok_or("give KEY=VALUE")?;
                table.put(key.as_bytes(), value.as_bytes())?;
            }
            let listener = adapter.listen("127.0.0.1:0".parse()?, ListenerOptions::default())?;
            println!("serving at {}", listener.local_address()?);
            serve(&adapter, &listener, &table.place()).await?;
        }
        ["get", address, key] => {
            let mut client = Client::connect(&adapter, address.parse()?).await?;
            let limit = tokio::time::sleep(Duration::from_secs(1));
            match within(limit, client.get(key.as_bytes())).await? {
                Some(value) => println!("{}", String::from_utf8_lossy(&value)),
                None => println!("{key} is not there"),
            }
            client.disconnect().await?;
        }
        _ => return Err("usage: key_value serve KEY=VALUE… | key_value get ADDRESS KEY".into()),
    }
    Ok(())
}

/// A slot: a checksum, the lengths of key and value, the key, and the value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slot {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Slot {
    const LEN: usize = 256;
    /// Checksum and lengths.
    const HEADER: usize = 10;

    fn new(key: &[u8], value: &[u8]) -> Self {
        let (key, value) = (key.to_vec(), value.to_vec());
        Self { key, value }
    }

    fn to_bytes(&self) -> Result<[u8; Self::LEN], Failure> {
        let length = Self::HEADER + self.key.len() + self.value.len();
        if length > Self::LEN || self.key.is_empty() {
            return Err("an empty key, or too long a pair".into());
        }
        let mut octets = [0; Self::LEN];
        octets[8] = u8::try_from(self.key.len())?;
        octets[9] = u8::try_from(self.value.len())?;
        let pair = [&self.key[..], &self.value[..]].concat();
        octets[Self::HEADER..length].copy_from_slice(&pair);
        let sum = fnv(&octets[8..]);
        octets[..8].copy_from_slice(&sum.to_be_bytes());
        Ok(octets)
    }

    /// `None` if the checksum does not fit: the slot has changed while it was read. An empty slot is all zeros.
    fn from_bytes(octets: &[u8; Self::LEN]) -> Option<Self> {
        if octets == &[0; Self::LEN] {
            return Some(Self::default());
        }
        let (sum, content) = octets.split_first_chunk()?;
        if fnv(content) != u64::from_be_bytes(*sum) {
            return None;
        }
        let (key, rest) = content[2..].split_at_checked(content[0].into())?;
        let value = rest.get(..content[1].into())?;
        Some(Self::new(key, value))
    }
}

/// FNV-1a: the hash of keys, and the checksum of slots.
fn fnv(octets: &[u8]) -> u64 {
    octets.iter().fold(0xCBF2_9CE4_8422_2325, |sum, octet| {
        (sum ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// The slots in which a key may be, in the order in which both sides look.
fn search(key: &[u8], slots: u64) -> impl Iterator<Item = u64> + use<> {
    let first = fnv(key) % slots.max(1);
    (first..slots).chain(0..first)
}

/// The server's table. One owner changes it; any number of clients read it meanwhile.
pub struct Table {
    /// The memory that the clients read.
    pub memory: RegisteredBuffer,
    /// The key in each slot; empty if the slot is.
    keys: Vec<Vec<u8>>,
}

impl Table {
    /// Registers memory for this many slots, which are empty.
    pub async fn new(adapter: &AsyncAdapter, slots: usize) -> Result<Self> {
        let buffer = Buffer::new(slots * Slot::LEN);
        let memory = adapter.register(&buffer, MrFlags::ALLOW_REMOTE_READ);
        let (memory, keys) = (memory.await?, vec![Vec::new(); slots]);
        Ok(Self { memory, keys })
    }

    /// Adds a pair, or changes the value of a key. Clients see the old value or the new one.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let (pair, slots) = (Slot::new(key, value), self.keys.len());
        let octets = pair.to_bytes()?;
        let mut search = search(key, slots as u64).map_while(|slot| usize::try_from(slot).ok());
        let slot = search.find(|slot| self.keys[*slot].is_empty() || self.keys[*slot] == key);
        let slot = slot.ok_or("the table is full")?;
        self.keys[slot] = pair.key;
        self.memory.write(slot * Slot::LEN, &octets);
        Ok(())
    }

    /// Where the table is, for clients.
    pub fn place(&self) -> Vec<u8> {
        let (place, slots) = (self.memory.remote(0), self.keys.len() as u64);
        [&place.to_bytes()[..], &slots.to_be_bytes()].concat()
    }
}

/// Sends every client that connects the place of the table, and keeps the connection until the client ends it. Ends only when the
/// listener fails.
pub async fn serve(adapter: &AsyncAdapter, listener: &AsyncListener, place: &[u8]) -> Result<()> {
    let clients = listener.incoming();
    let all = clients.try_for_each_concurrent(None, async |request| {
        if let Err(error) = serve_one(adapter, request, place).await {
            eprintln!("a client is lost: {error}");
        }
        Ok(())
    });
    all.await
}

async fn serve_one(adapter: &AsyncAdapter, request: ConnectionRequest, place: &[u8]) -> Result<()> {
    // This side posts nothing: the endpoint is there for the client's Reads.
    let endpoint = adapter.endpoint(QueuePairOptions::default())?;
    let connection = request
        .accept(endpoint.queue_pair())
        .private_data(place)
        .await?;
    connection.disconnected().await?;
    connection.disconnect().await
}

/// A client of the table.
pub struct Client {
    connection: Connection,
    endpoint: Endpoint,
    /// Where slots arrive.
    memory: RegisteredBuffer,
    table: RemoteAddress,
    slots: u64,
    /// How often a slot was changed while it was read.
    pub changed: u64,
}

impl Client {
    /// Connects to a server.
    pub async fn connect(adapter: &AsyncAdapter, to: SocketAddr) -> Result<Self, Failure> {
        let endpoint = adapter.endpoint(QueuePairOptions::default())?;
        // iWARP adapters want to know what is the target of a Read.
        let rights = MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK;
        let memory = adapter.register(&Buffer::new(Slot::LEN), rights).await?;
        // This side issues one Read at a time, and serves none.
        let limits = ReadLimits {
            inbound: 0,
            outbound: 1,
        };
        let connection = adapter
            .connect(endpoint.queue_pair(), to)
            .read_limits(limits)
            .await?;
        let place = connection.private_data().split_first_chunk();
        let (table, slots) = place.ok_or("this is another server")?;
        Ok(Self {
            endpoint,
            memory,
            table: RemoteAddress::from_bytes(*table),
            slots: u64::from_be_bytes(slots.try_into()?),
            connection,
            changed: 0,
        })
    }

    /// The value of a key. If the server dies in the middle of a change, its slot never settles: limit the time by [`within`].
    pub async fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        for slot in search(key, self.slots) {
            let slot = self.read(slot).await?;
            if slot.key == key {
                return Ok(Some(slot.value));
            }
            if slot.key.is_empty() {
                break;
            }
        }
        Ok(None)
    }

    /// A slot as it was at one moment.
    async fn read(&mut self, slot: u64) -> Result<Slot, Failure> {
        let there = self.table.offset(slot * Slot::LEN as u64);
        loop {
            let here = [self.memory.part(..)];
            self.endpoint.read(here, there, OpFlags::empty()).await?;
            let mut octets = [0; Slot::LEN];
            self.memory.read(0, &mut octets);
            match Slot::from_bytes(&octets) {
                Some(slot) => return Ok(slot),
                None => self.changed += 1, // the server is changing the slot
            }
        }
    }

    /// Ends the connection.
    pub async fn disconnect(self) -> Result<()> {
        self.connection.disconnect().await
    }
}
