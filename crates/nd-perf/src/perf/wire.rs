//! The exchanges over a bare stream, with which RDMA is compared.
//!
//! The exchanges are as fast as plain streams allow: no delay, the best sizes of writes and reads, the best congestion
//! control, the same amount of memory used in the same order, and the same way of waiting as the row under test.

use std::io::ErrorKind;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nd_base::errors::{Failure, Result};
use netdirect::Buffer;

use super::bare::BareStream;
use super::lane::{SpinLimit, gone, silence};
use super::limit::SilenceLimit;
use super::pattern;
use super::placed::PlacedMemory;
use super::spec::{Op, Spec, Test};

/// The messages of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exchange {
    /// A request and an answer, one at a time, each of this many octets.
    PingPong { request: usize, answer: usize },
    /// One way, from the side that runs the test or to it.
    Stream { towards_server: bool },
    /// Small messages for which the receiver has given credit, with credits flowing back. Each has as many octets as an FPDU, and a
    /// write has as many messages as a call of the adapter usually gathers.
    Credits,
}

/// Octets of a Read Request: its header and the frame around it.
const READ_REQUEST: usize = 52;

/// The least memory of a stream, so that even with small messages the best write size can be used.
const MIN_RING: usize = 2 << 20;

/// The most that is read at once.
const READ: usize = 1 << 20;

/// The octets to send where only their number has a meaning.
static MARKS: [u8; 64] = [0; 64];

/// The most that is written at once in exchanges other than streams.
pub(super) const WHOLE: usize = usize::MAX;

impl Exchange {
    /// The exchange that corresponds to the row.
    pub(super) fn from_spec(spec: &Spec) -> Self {
        let size = spec.size as usize;
        match (spec.is_timed(), spec.op) {
            (true, Op::Send | Op::Write) => Self::PingPong {
                request: size,
                answer: size,
            },
            (true, Op::Read) => Self::PingPong {
                request: READ_REQUEST,
                answer: size,
            },
            (false, Op::Send) if spec.test == Test::Rate => Self::Credits,
            (false, op) => Self::Stream {
                towards_server: op != Op::Read,
            },
        }
    }
}

/// One bare connection, at either side.
#[derive(Debug)]
pub(super) struct Wire {
    stream: BareStream,
    spins: bool,
    limit: SilenceLimit,
    exchange: Exchange,
    size: usize,
    batch: u64,
    window: u64,
    /// The memory from which data is sent.
    source: Bytes,
    /// The memory into which data is received.
    sink: PlacedMemory,
    at: usize,
    /// How far the sink has been filled.
    seen: usize,
}

/// Octets of a message on the stream, and of each of the two rings.
fn sizes(exchange: Exchange, spec: &Spec) -> (usize, usize) {
    let size = match exchange {
        Exchange::Credits => spec.octets_of_send(),
        Exchange::PingPong { .. } | Exchange::Stream { .. } => spec.size as usize,
    };
    let slots = spec.slots() as usize;
    let ring = match exchange {
        Exchange::PingPong { request, answer } => request.max(answer),
        // Whole messages, so that the pattern of each is in its place.
        Exchange::Stream { .. } => size.saturating_mul(slots.max(MIN_RING.div_ceil(size))),
        Exchange::Credits => size.saturating_mul(slots),
    };
    (size, ring)
}

impl Wire {
    /// Octets of the memory that a bare connection of the row needs at each side.
    pub(super) fn memory(spec: &Spec) -> u64 {
        let (_, ring) = sizes(Exchange::from_spec(spec), spec);
        2_u64.saturating_mul(ring.saturating_add(Buffer::PAGE) as u64)
    }

    /// Takes over a connected stream.
    pub(super) fn new(stream: BareStream, spec: &Spec, limit: SilenceLimit) -> Result<Self> {
        let spins = !spec.mode.sleeps();
        let exchange = Exchange::from_spec(spec);
        let (size, len) = sizes(exchange, spec);
        let mut source = PlacedMemory::new(len)?;
        for (slot, octets) in source.chunks_mut(size).enumerate() {
            pattern::fill(slot, octets);
        }
        // The memory is written to now, so that the system does not zero it on first use, in the middle of a turn.
        let mut sink = PlacedMemory::new(len)?;
        sink.fill(0xFF);
        Ok(Self {
            stream,
            spins,
            limit,
            exchange,
            size,
            batch: spec.credit_batch().into(),
            window: spec.window().into(),
            source: Bytes::from_owner(source),
            sink,
            at: 0,
            seen: 0,
        })
    }

    /// The name of the congestion control.
    pub(super) fn congestion(&self) -> String {
        self.stream.congestion()
    }

    /// Messages after which all memory has been walked.
    pub(super) fn whole(&self) -> u64 {
        (self.source.len() / self.size).max(1) as u64
    }

    /// The turn of the side that runs the test: as [`Client::turn`](super::client::Client::turn).
    pub(super) fn run(
        &mut self,
        count: u64,
        write: usize,
        times: &mut Vec<u64>,
    ) -> Result<Duration> {
        self.at = 0;
        let begun = Instant::now();
        match self.exchange {
            Exchange::PingPong { request, answer } => {
                self.ping(count, request, answer, times)?;
            }
            Exchange::Stream {
                towards_server: true,
            } => {
                self.pour(count, write)?;
                self.hear()?;
            }
            Exchange::Stream {
                towards_server: false,
            } => {
                self.tell(1)?;
                self.drink(count)?;
            }
            Exchange::Credits => self.send_on_credit(count)?,
        }
        Ok(begun.elapsed())
    }

    /// The turn of the side that serves the test.
    pub(super) fn serve(&mut self, count: u64, write: usize) -> Result<()> {
        self.at = 0;
        match self.exchange {
            Exchange::PingPong { request, answer } => self.pong(count, request, answer),
            Exchange::Stream {
                towards_server: true,
            } => {
                self.drink(count)?;
                self.tell(1)
            }
            Exchange::Stream {
                towards_server: false,
            } => {
                self.hear()?;
                self.pour(count, write)
            }
            Exchange::Credits => self.give_credit(count),
        }?;
        match self.stream.finish() {
            Ok(()) => Ok(()),
            Err(error) => waits(&error, false, self.limit),
        }
    }

    /// Lets the other side finish its turn, which may need answers of this side. Called by the side that runs the test, until
    /// the other side is `through`.
    pub(super) fn attend(&mut self, mut through: impl FnMut() -> Result<bool>) -> Result<()> {
        const LOOK: Duration = Duration::from_millis(1);
        while !through()? {
            match self.stream.attend(LOOK) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => waits(&error, false, self.limit)?,
            }
        }
        Ok(())
    }

    /// Checks that the received data is what the other side has.
    pub(super) fn verify(&self) -> Result<()> {
        let (sink, source) = (&self.sink[..self.seen], &self.source[..self.seen]);
        let mut slots = sink.chunks(self.size).zip(source.chunks(self.size));
        match slots.position(|(sink, source)| sink != source) {
            Some(slot) => Err(pattern::mismatch(slot)),
            None => Ok(()),
        }
    }

    fn ping(
        &mut self,
        count: u64,
        request: usize,
        answer: usize,
        times: &mut Vec<u64>,
    ) -> Result<()> {
        let mut last = Instant::now();
        for _ in 0..count {
            self.put(0, request)?;
            self.take(0, answer)?;
            let now = Instant::now();
            times.push(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
            last = now;
        }
        Ok(())
    }

    fn pong(&mut self, count: u64, request: usize, answer: usize) -> Result<()> {
        for _ in 0..count {
            self.take(0, request)?;
            self.put(0, answer)?;
        }
        Ok(())
    }

    /// Sends this many messages out of the ring, in writes of `write` octets.
    fn pour(&mut self, count: u64, write: usize) -> Result<()> {
        let mut left = self.octets(count)?;
        while left > 0 {
            let room = usize::try_from(left).unwrap_or(usize::MAX);
            let part = write.min(self.source.len() - self.at).min(room);
            self.put(self.at, part)?;
            left -= part as u64;
            self.at = (self.at + part) % self.source.len();
        }
        Ok(())
    }

    /// Receives this many messages into the ring, as they come.
    fn drink(&mut self, count: u64) -> Result<()> {
        let mut left = self.octets(count)?;
        while left > 0 {
            let room = usize::try_from(left).unwrap_or(usize::MAX);
            let part = READ.min(self.sink.len() - self.at).min(room);
            let n = self.take_some(self.at, part)?;
            left -= n as u64;
            self.at = (self.at + n) % self.sink.len();
        }
        Ok(())
    }

    fn send_on_credit(&mut self, count: u64) -> Result<()> {
        let total = self.octets(count)?;
        let marks = count / self.batch + 1;
        let gathered = usize::try_from(self.octets(self.batch)?).unwrap_or(usize::MAX);
        let (mut sent, mut heard) = (0_u64, 0_u64);
        let mut patience = SpinLimit::new(self.limit);
        while heard < marks {
            let messages = count.min(self.window + heard * self.batch);
            let allowed = self.octets(messages)?.min(total);
            while sent < allowed {
                let room = usize::try_from(allowed - sent).unwrap_or(usize::MAX);
                let part = room.min(self.source.len() - self.at).min(gathered);
                self.put(self.at, part)?;
                sent += part as u64;
                self.at = (self.at + part) % self.source.len();
            }
            let mut marks_now = [0; 64];
            match self.read_into(&mut marks_now)? {
                Some(n) => {
                    heard += n as u64;
                    patience = SpinLimit::new(self.limit);
                }
                None => drop(patience.spent()?),
            }
        }
        Ok(())
    }

    fn give_credit(&mut self, count: u64) -> Result<()> {
        let total = self.octets(count)?;
        let (mut received, mut given) = (0_u64, 0_u64);
        let batch = self.octets(self.batch)?;
        while received < total {
            let part = self.sink.len() - self.at;
            let n = self.take_some(self.at, part)?;
            received += n as u64;
            self.at = (self.at + n) % self.sink.len();
            let due = received / batch - given;
            self.tell(due)?;
            given += due;
        }
        self.tell(1)
    }

    fn octets(&self, count: u64) -> Result<u64> {
        count.checked_mul(self.size as u64).ok_or_else(|| {
            Failure::new(
                "a turn of that many messages is too long",
                "choose a shorter --duration",
            )
        })
    }

    /// Sends this many octets, whose only meaning is that the other side may go on.
    fn tell(&mut self, count: u64) -> Result<()> {
        let mut left = count;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(MARKS.len());
            let octets = Bytes::from_static(&MARKS);
            write_all(&mut self.stream, &octets, 0..part, self.spins, self.limit)?;
            left -= part as u64;
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<()> {
        let mut patience = SpinLimit::new(self.limit);
        while self.read_into(&mut [0])?.is_none() {
            patience.spent()?;
        }
        Ok(())
    }

    #[inline]
    fn put(&mut self, at: usize, len: usize) -> Result<()> {
        let part = at..at + len;
        write_all(&mut self.stream, &self.source, part, self.spins, self.limit)
    }

    #[inline]
    fn take(&mut self, mut at: usize, len: usize) -> Result<()> {
        let end = at + len;
        while at < end {
            at += self.take_some(at, end - at)?;
        }
        Ok(())
    }

    /// Receives the octets that are there, at least one.
    #[inline]
    fn take_some(&mut self, at: usize, len: usize) -> Result<usize> {
        let mut patience = SpinLimit::new(self.limit);
        loop {
            match self.stream.read(&mut self.sink[at..at + len]) {
                Ok(0) => return Err(gone()),
                Ok(n) => {
                    self.seen = self.seen.max(at + n);
                    return Ok(n);
                }
                Err(error) => waits(&error, self.spins, self.limit)?,
            }
            patience.spent()?;
        }
    }

    /// Reads the octets that are there, if any.
    fn read_into(&mut self, into: &mut [u8]) -> Result<Option<usize>> {
        match self.stream.read(into) {
            Ok(0) => Err(gone()),
            Ok(n) => Ok(Some(n)),
            Err(error) => waits(&error, self.spins, self.limit).map(|()| None),
        }
    }
}

#[inline]
fn write_all(
    stream: &mut BareStream,
    memory: &Bytes,
    mut part: Range<usize>,
    spins: bool,
    limit: SilenceLimit,
) -> Result<()> {
    let mut patience = SpinLimit::new(limit);
    while !part.is_empty() {
        match stream.write(memory, part.clone()) {
            Ok(0) => return Err(gone()),
            Ok(n) => part.start += n,
            Err(error) => {
                waits(&error, spins, limit)?;
                patience.spent()?;
            }
        }
    }
    Ok(())
}

/// Returns the failure for an error, and success if the error only means that the socket is not ready yet.
fn waits(error: &std::io::Error, spins: bool, limit: SilenceLimit) -> Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock if spins => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(silence(limit.longest())),
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            Err(gone())
        }
        _ => Err(Failure::socket("move data over the stream to compare with", error).by_peer()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::super::spec::tests::SPEC;
    use super::*;

    #[test]
    fn memory_of_the_baseline_begins_where_the_adapters_begins() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for (test, size) in [
            (Test::Latency, 65_536),
            (Test::Bandwidth, 65_536),
            (Test::Rate, 64),
        ] {
            let spec = Spec { test, size, ..SPEC };
            let limit = Duration::from_secs(60);
            let stream = BareStream::tcp(socket.try_clone().unwrap(), &spec, limit).unwrap();
            let wire = Wire::new(stream, &spec, limit.into()).unwrap();
            for memory in [&wire.source[..], &wire.sink[..]] {
                assert_eq!(memory.as_ptr().addr() % Buffer::PAGE, Buffer::PAGE_OFFSET);
            }
        }
    }
}
