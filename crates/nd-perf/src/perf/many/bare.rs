//! Connections of bare sockets, with which setting connections up and down is compared: connect, one exchange, close.
//!
//! The request is as long as the frame by which a queue pair asks for a connection, and the answer as long as the one that accepts it
//! (RFC 5044 section 7.1, RFC 6581 section 6). The client closes first, as `nd perf` disconnects.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use nd_base::errors::{Failure, Result};
use socket2::SockRef;

use crate::perf::lane::{gone, silence};
use crate::perf::link::LIMIT;
use crate::perf::messages::Key;

/// A start-up frame with its four octets for the limits of Reads, without private data.
const FRAME: usize = 24;

/// Octets of the request: the frame, with the private data of `nd perf` behind it.
const REQUEST: usize = FRAME + super::REQUEST_DATA;

/// Octets of the answer.
const ANSWER: usize = FRAME;

/// Connects, makes one exchange and closes, until the other side has closed as well.
pub(super) fn come_and_go(address: SocketAddr, key: Key) -> Result<()> {
    let explain =
        |error| Failure::socket(format_args!("connect to {address} to compare"), &error).by_peer();
    let mut stream = TcpStream::connect(address).map_err(explain)?;
    limit(&stream).map_err(explain)?;
    let mut request = [0; REQUEST];
    request[..key.len()].copy_from_slice(&key);
    stream.write_all(&request).map_err(explain)?;
    stream.read_exact(&mut [0; ANSWER]).map_err(explain)?;
    stream
        .shutdown(std::net::Shutdown::Write)
        .map_err(explain)?;
    match stream.read(&mut [0]).map_err(explain)? {
        0 => Ok(()),
        _ => Err(gone()),
    }
}

/// Limits how long a wait for the next connection takes. Only Linux is known to limit it.
pub(super) fn limit_accepts(listener: &TcpListener) -> Result<()> {
    let limited = SockRef::from(listener).set_read_timeout(Some(LIMIT));
    limited.map_err(|error| Failure::socket("set up a listener to compare with", &error))
}

/// Takes the next connection that has the key, and sees it end. Connections of other programs are closed.
pub(super) fn see_come_and_go(listener: &TcpListener, key: Key) -> Result<()> {
    let explain = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => silence(LIMIT),
        _ => Failure::socket("take a connection to compare", &error).by_peer(),
    };
    loop {
        let (mut stream, _) = listener.accept().map_err(explain)?;
        limit(&stream).map_err(explain)?;
        let mut request = [0; REQUEST];
        match stream.read_exact(&mut request) {
            Ok(()) if request.starts_with(&key) => {}
            Err(error) if !is_of_stranger(error.kind()) => return Err(explain(error)),
            _ => continue,
        }
        stream.write_all(&[0; ANSWER]).map_err(explain)?;
        return match stream.read(&mut [0]).map_err(explain)? {
            0 => Ok(()),
            _ => Err(gone()),
        };
    }
}

/// Errors of a connection whose other end may be another program.
fn is_of_stranger(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::WouldBlock
            | ErrorKind::TimedOut
    )
}

fn limit(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))
}
