//! The stream: reads and writes that drive the connection.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nd_base::errors::{Failure, Result};
use nd_base::session::Deadline;
use quinn_proto::{
    ClientConfig, Dir, ReadError, ReadableError, ServerConfig, StreamId, WriteError,
};

use super::end::QuicEnd;
use super::{security, settings};
use crate::perf::messages::Key;
use crate::perf::spec::Spec;

/// The first octet on a stream, by which the other side learns of the stream.
const HELLO: u8 = 0xA5;

/// An end that waits for the other one.
#[derive(Debug)]
pub(in crate::perf) struct QuicListener {
    end: QuicEnd,
    certificate: Vec<u8>,
    spins: bool,
}

impl QuicListener {
    /// Waits at this address for the side that knows the key.
    pub(in crate::perf) fn new(local: SocketAddr, key: Key, spec: &Spec) -> Result<Self> {
        let (certificate, crypto) = security::server(key)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        // Both sides of a connection within the machine have addresses of the same kind.
        config.transport_config(settings::transport(spec, local.ip()));
        let end = QuicEnd::bind(local, Some(config));
        let end =
            end.map_err(|error| Failure::socket(format_args!("listen on {local}"), &error))?;
        Ok(Self {
            end,
            certificate,
            spins: spins(spec),
        })
    }

    pub(in crate::perf) fn port(&self) -> Result<u16> {
        match self.end.address() {
            Ok(address) => Ok(address.port()),
            Err(error) => Err(Failure::socket("see the socket's address", &error)),
        }
    }

    /// The certificate that the other side has to know.
    pub(in crate::perf) fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The stream of the other side.
    pub(in crate::perf) fn accept(self, limit: Duration) -> Result<QuicStream> {
        let mut end = self.end;
        let deadline = Deadline::after(limit);
        let id = establish(&mut end, deadline, |end| {
            end.connection()?.streams().accept(Dir::Bi)
        })?;
        let mut stream = QuicStream {
            end,
            id,
            spins: false,
            limit,
        };
        match stream.read(&mut [0]) {
            Ok(_) => {
                stream.spins = self.spins;
                Ok(stream)
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

/// One end of a stream.
#[derive(Debug)]
pub(in crate::perf) struct QuicStream {
    end: QuicEnd,
    id: StreamId,
    spins: bool,
    limit: Duration,
}

impl QuicStream {
    /// Connects to the side that listens with the key, and shows this certificate.
    pub(in crate::perf) fn connect(
        to: SocketAddr,
        key: Key,
        certificate: Vec<u8>,
        spec: &Spec,
        limit: Duration,
    ) -> Result<Self> {
        let local: SocketAddr = if to.is_ipv4() {
            ([0; 4], 0).into()
        } else {
            ([0_u16; 8], 0).into()
        };
        let crypto = security::client(key, certificate)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(settings::transport(spec, to.ip()));
        let explain =
            |error| Failure::socket(format_args!("connect to {to} to compare"), &error).by_peer();
        let mut end = QuicEnd::bind(local, None).map_err(explain)?;
        end.connect(config, to).map_err(explain)?;
        let id = establish(&mut end, Deadline::after(limit), |end| {
            end.connection()?.streams().open(Dir::Bi)
        })?;
        let mut stream = Self {
            end,
            id,
            spins: spins(spec),
            limit,
        };
        let hello = Bytes::from_static(&[HELLO]);
        match stream.write(&hello, 0..1) {
            Ok(_) => Ok(stream),
            Err(error) => Err(failed(&error)),
        }
    }

    /// The name of the congestion control.
    pub(in crate::perf) fn congestion(&self) -> &'static str {
        settings::CONGESTION
    }

    /// The length of the longest datagrams that are sent.
    #[cfg(test)]
    pub(super) fn datagram(&self) -> u16 {
        self.end.datagram()
    }

    /// Takes octets of this part of the memory for sending, and sends what may be sent. Returns how many octets it took. Waits
    /// until there is room for some; where it spins, it returns `WouldBlock` instead.
    pub(in crate::perf) fn write(
        &mut self,
        memory: &Bytes,
        part: Range<usize>,
    ) -> std::io::Result<usize> {
        let mut chunk = [memory.slice(part)];
        let mut deadline = None;
        loop {
            let connection = self.end.connection().ok_or(ErrorKind::ConnectionAborted)?;
            match connection.send_stream(self.id).write_chunks(&mut chunk) {
                Ok(written) if written.bytes > 0 => {
                    self.end.send()?;
                    return Ok(written.bytes);
                }
                Ok(_) | Err(WriteError::Blocked) => {}
                Err(error) => return Err(Error::new(ErrorKind::BrokenPipe, error)),
            }
            self.go_on(&mut deadline)?;
        }
    }

    /// Reads the octets that are there. Waits until there are some; where it spins, it returns `WouldBlock` instead.
    pub(in crate::perf) fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let mut deadline = None;
        loop {
            let read = self.read_some(into)?;
            if read > 0 {
                return Ok(read);
            }
            self.go_on(&mut deadline)?;
        }
    }

    fn read_some(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let connection = self.end.connection().ok_or(ErrorKind::ConnectionAborted)?;
        let mut stream = connection.recv_stream(self.id);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => {
                return Err(ErrorKind::ConnectionReset.into());
            }
        };
        let mut filled = 0;
        while filled < into.len() {
            match chunks.next(into.len() - filled) {
                Ok(Some(chunk)) => {
                    into[filled..filled + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    filled += chunk.bytes.len();
                }
                Err(ReadError::Blocked) => break,
                Ok(None) | Err(ReadError::Reset(_)) => {
                    return Err(ErrorKind::ConnectionReset.into());
                }
            }
        }
        // Before the end sleeps, it asks again whether the peer has to learn of the larger window.
        let _ = chunks.finalize();
        Ok(filled)
    }

    /// Sends and receives, or waits until this is possible.
    fn go_on(&mut self, deadline: &mut Option<Deadline>) -> std::io::Result<()> {
        if self.spins {
            let sent = self.end.send()?;
            let went_on = self.end.receive()? || sent;
            return went_on.then_some(()).ok_or(ErrorKind::WouldBlock.into());
        }
        let deadline = deadline.get_or_insert_with(|| Deadline::after(self.limit));
        match deadline.left() {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => self.end.turn(left),
        }
    }

    /// Goes on until the other side has everything, after which nothing is due. Called by the side that serves, after a turn.
    pub(in crate::perf) fn finish(&mut self) -> std::io::Result<()> {
        let deadline = Deadline::after(self.limit);
        loop {
            // When all that was in flight has arrived nothing is due, but more may wait to be sent.
            while self.end.send()? {}
            if self.end.next_deadline().is_none() {
                return Ok(());
            }
            match deadline.left() {
                Duration::ZERO => return Err(ErrorKind::TimedOut.into()),
                left => self.end.turn(left)?,
            }
        }
    }

    /// Answers what comes, for at most this long. Called by the side that runs the test, until the other side has finished.
    pub(in crate::perf) fn attend(&mut self, limit: Duration) -> std::io::Result<()> {
        self.end.turn(limit)
    }
}

/// Returns true if both sides of a row spin.
fn spins(spec: &Spec) -> bool {
    !spec.mode.sleeps()
}

/// Drives an end until there is a stream.
fn establish(
    end: &mut QuicEnd,
    deadline: Deadline,
    mut stream: impl FnMut(&mut QuicEnd) -> Option<StreamId>,
) -> Result<StreamId> {
    loop {
        if let Some(id) = stream(end) {
            return Ok(id);
        }
        let left = deadline.left();
        if left.is_zero() {
            return Err(failed(&ErrorKind::TimedOut.into()));
        }
        end.turn(left).map_err(|error| failed(&error))?;
    }
}

fn failed(error: &Error) -> Failure {
    Failure::socket("set up a QUIC stream to compare with", error)
        .advise("look at what the other side says")
        .by_peer()
}
