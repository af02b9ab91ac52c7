//! A small iWARP target for tests of the suite. It implements everything that the suite checks (markers, Atomics and Immediate Data
//! included), and can break one rule on request.

mod engine;
mod memory;
mod rules;
mod startup;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use iwarp_conform::{Conn, Limits, Log};

pub(crate) use rules::{Break, CONNECTING, CONNECTING_TOO, LISTENING, MARKED};

use memory::Memory;

/// The behaviour of the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// The rule that the target breaks.
    pub(crate) broken: Break,
    /// C in the target's frames.
    pub(crate) crc: bool,
    /// M in the target's frames.
    pub(crate) markers: bool,
    /// The target implements RFC 7306.
    pub(crate) extensions: bool,
    /// The target uses the Send protocol.
    pub(crate) service: bool,
    /// If the target listens: ends the first connection after the Reply.
    pub(crate) forgets: bool,
    /// If the target listens: how long it waits for a Request.
    pub(crate) startup: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            broken: Break::Nothing,
            crc: true,
            markers: false,
            extensions: true,
            service: true,
            forgets: false,
            startup: Duration::from_millis(300),
        }
    }
}

/// The shared state of all connections.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) options: Options,
    memory: Mutex<Memory>,
    connections: AtomicU64,
}

impl World {
    fn new(options: Options) -> Arc<Self> {
        let sequential = options.broken == Break::SequentialStags;
        Arc::new(Self {
            options,
            memory: Mutex::new(Memory::new(sequential)),
            connections: AtomicU64::new(1),
        })
    }

    pub(crate) fn breaks(&self, rule: Break) -> bool {
        self.options.broken == rule
    }

    fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }
}

fn limits() -> Limits {
    Limits {
        answer: Duration::from_secs(60),
        ..Limits::default()
    }
}

/// A target that listens, as long as the test process lives.
pub(crate) fn listen(options: Options) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let world = World::new(options);
    std::thread::spawn(move || {
        let mut forgets = options.forgets;
        while let Ok((stream, _)) = listener.accept() {
            let world = Arc::clone(&world);
            let forgotten = std::mem::take(&mut forgets);
            std::thread::spawn(move || passive(&world, stream, forgotten));
        }
    });
    Ok(address)
}

fn passive(world: &Arc<World>, stream: TcpStream, forgotten: bool) {
    let Ok(conn) = Conn::new(stream, Log::default(), limits(), true) else {
        return;
    };
    if let Some(engine) = startup::respond(world, conn)
        && !forgotten
    {
        engine.run();
    }
}

/// A target that connects, again and again, until nothing listens any more.
pub(crate) fn connect(options: Options, suite: SocketAddr) {
    let world = World::new(options);
    std::thread::spawn(move || {
        while let Ok(stream) = TcpStream::connect(suite) {
            let Ok(conn) = Conn::new(stream, Log::default(), limits(), false) else {
                return;
            };
            if let Some(engine) = startup::initiate(&world, conn) {
                engine.run();
            }
        }
    });
}
