//! One TCP connection, with what every use of it needs: capture, tuning, and the two ways to end it.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use iwarp::{PieceRef, Span, TxBatch};
use iwarp_mem::{Table, io::Sent};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::{SockRef, Socket, TcpKeepalive};

use crate::ports;
use iwarp_io::capture::{Capture, Flow, FlowRole, Side};
use iwarp_io::descriptors::Freed;

/// A connected, non-blocking TCP stream.
#[derive(Debug)]
pub(crate) struct Stream {
    tcp: TcpStream,
    flow: Option<Flow>,
    local: SocketAddr,
    peer: SocketAddr,
    /// Markers stand in what is sent.
    markers: bool,
    /// Behind the socket, and so dropped after it.
    _freed: Freed,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

impl Stream {
    /// Takes over a socket whose TCP connection is established.
    pub(crate) fn new(
        socket: Socket,
        role: FlowRole,
        capture: Option<&Capture>,
    ) -> io::Result<Self> {
        let tcp = TcpStream::from(socket);
        tcp.set_nonblocking(true)?;
        let (local, peer) = (tcp.local_addr()?, tcp.peer_addr()?);
        tune(&tcp, peer.ip())?;
        let flow = capture.map(|capture| capture.flow(local, peer, role));
        if let Some(flow) = &flow {
            flow.opened();
        }
        Ok(Self {
            tcp,
            flow,
            local,
            peer,
            markers: false,
            _freed: Freed,
        })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn is_captured(&self) -> bool {
        self.flow.is_some()
    }

    /// The peer wants markers in what is sent from here on.
    pub(crate) fn send_markers(&mut self) {
        self.markers = true;
    }

    /// The largest ULPDU that the path's segment size allows (MPA-082).
    pub(crate) fn mulpdu(&self) -> u32 {
        // MPA-088: where it is not known, what every path carries, 576 octets less the headers.
        let segment = SockRef::from(&self.tcp).tcp_mss().unwrap_or(536);
        if self.markers {
            iwarp::mpa::marker::mulpdu(segment)
        } else {
            iwarp::mpa::fpdu::mulpdu(segment)
        }
    }

    /// The core on which the kernel took in what came last.
    #[cfg(target_os = "linux")]
    pub(crate) fn incoming_core(&self) -> Option<usize> {
        let core = rustix::net::sockopt::socket_incoming_cpu(&self.tcp).ok()?;
        usize::try_from(core).ok()
    }

    /// Not known here.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn incoming_core(&self) -> Option<usize> {
        None
    }

    /// Reads what is there, at most `into.len()` octets; 0 is the peer's end.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            // As a bare system call: the standard library's is a point where threads can be cancelled, which costs.
            match rustix::net::recv(&self.tcp, &mut *into, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                Ok((count, _)) => {
                    self.saw(&into[..count]);
                    return Ok(count);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// As [`read`](Self::read), the first octets into registered memory at `place` and those behind it into `rest`;
    /// nothing is read, and nothing returned, if that memory is gone. Not for captured streams, whose octets are shown.
    pub(crate) fn read_to_place(
        &self,
        table: &Table,
        place: Span,
        rest: &mut [u8],
    ) -> io::Result<Option<usize>> {
        debug_assert!(!self.is_captured(), "what is read is shown");
        iwarp_mem::io::receive(self.tcp.as_fd(), table, place, rest)
    }

    fn saw(&self, octets: &[u8]) {
        match &self.flow {
            Some(flow) if octets.is_empty() => flow.closed(Side::Peer),
            Some(flow) => flow.received(octets),
            None => {}
        }
    }

    /// Looks whether the peer has sent something or gone, without taking it: `WouldBlock` when neither.
    pub(crate) fn peek(&self) -> io::Result<usize> {
        self.tcp.peek(&mut [0])
    }

    /// Sends a start-up frame or a message of our own, in one write and below any segment size (PEER-053). What the
    /// empty send buffer of a connection at its start does not take at once is an error.
    pub(crate) fn send_frame(&self, frame: &[u8]) -> io::Result<()> {
        let sent = (&self.tcp).write(frame)?;
        if let Some(flow) = &self.flow {
            flow.sent(&[&frame[..sent]]);
        }
        if sent < frame.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(())
    }

    /// Sends what it can of a batch.
    pub(crate) fn send(&self, table: &Table, batch: &mut TxBatch) -> io::Result<(u64, Sent)> {
        let Some(flow) = &self.flow else {
            return iwarp_mem::io::send(self.tcp.as_fd(), table, batch);
        };
        // With a capture on, the engine hands out copies only, so all octets are here to be recorded.
        let mut octets = Vec::new();
        for (piece, _) in batch.pieces() {
            if let PieceRef::Bytes(bytes) = piece {
                octets.extend_from_slice(bytes);
            }
        }
        let (count, sent) = iwarp_mem::io::send(self.tcp.as_fd(), table, batch)?;
        let count_here = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .min(octets.len());
        if count_here > 0 {
            flow.sent(&[&octets[..count_here]]);
        }
        Ok((count, sent))
    }

    /// Ends our direction; what was sent before, a Terminate too, arrives first (RDMAP-074).
    pub(crate) fn close_write(&self) {
        ports::release(&self.tcp);
        if self.tcp.shutdown(std::net::Shutdown::Write).is_ok()
            && let Some(flow) = &self.flow
        {
            flow.closed(Side::Local);
        }
    }

    /// Ends the connection at once, with a reset.
    pub(crate) fn reset(self) {
        ports::release(&self.tcp);
        let _ = SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO));
        if let Some(flow) = &self.flow {
            flow.reset(Side::Local);
        }
    }

    /// Records that the peer has reset the connection.
    pub(crate) fn was_reset(&self) {
        if let Some(flow) = &self.flow {
            flow.reset(Side::Peer);
        }
    }
}

/// What all our connections want of TCP.
fn tune(tcp: &TcpStream, peer: IpAddr) -> io::Result<()> {
    tcp.set_nodelay(true)?; // MPA-085: the end of a batch is not held back until the next FPDU
    let socket = SockRef::from(tcp);
    // Dead hosts are found without a time limit of our own (IW-068).
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(60)))?;
    if peer.is_loopback() {
        // Others, bbr above all, pace where nothing can be congested; refused or missing ones do no harm.
        let _ = socket
            .set_tcp_congestion(b"cubic")
            .or_else(|_| socket.set_tcp_congestion(b"reno"));
    }
    Ok(())
}
