//! A UDP socket: the system's, or a simulated one.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use quinn_proto::EcnCodepoint;
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use rdma_buffer::forks::ParentsDescriptor;
use rustix::fd::{AsFd as _, BorrowedFd};
use socket2::{Domain, Protocol, SockRef, Type};

use crate::error_number::Errno;
use crate::progress::shared_descriptor::CarrierId;
use crate::simulation::World;
use crate::system_call::{errno, named};
use crate::transport::sim;

/// The number of datagrams, or trains of datagrams of one length, that are received at once. More gain nothing, and cost caches.
pub(crate) const BATCH: usize = if quinn_udp::BATCH_SIZE < 4 {
    quinn_udp::BATCH_SIZE
} else {
    4
};

/// The longest train of datagrams.
pub(crate) const LONGEST_TRAIN: usize = 64 * 1024;

/// The buffers of the system that are asked for, in octets. The system gives what it allows (`net.core.rmem_max`).
const BUFFER: usize = 4 * 1024 * 1024;

/// A datagram, or a train of datagrams of one length, in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Train {
    pub(crate) from: SocketAddr,
    pub(crate) len: usize,
    /// The length of each datagram but the last.
    pub(crate) stride: usize,
    pub(crate) ecn: Option<EcnCodepoint>,
}

/// Datagrams to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) to: SocketAddr,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) octets: &'a [u8],
    /// The length of each datagram but the last, if there are several.
    pub(crate) stride: Option<usize>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) enum PlainSocket {
    System {
        /// In front of the socket, so that it is dropped first.
        #[expect(dead_code, reason = "dropped with the socket")]
        of_parent: ParentsDescriptor,
        udp: UdpSocket,
        /// Without it, datagrams are sent and received one by one, and their marks of congestion are neither set nor known.
        state: Option<UdpSocketState>,
    },
    Sim(sim::DatagramSocket),
}

impl PlainSocket {
    /// A socket of the system at this address.
    pub(crate) fn of_system(address: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = socket2::Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
            .map_err(named("socket"))?;
        if address.is_ipv6() {
            // A socket is bound to one address, so this option matters only for the unspecified one.
            let _ = socket.set_only_v6(true);
        }
        bind(&socket, address)?;
        Self::of_bound(UdpSocket::from(socket))
    }

    /// A socket of the system that is bound.
    pub(crate) fn of_bound(udp: UdpSocket) -> io::Result<Self> {
        udp.set_nonblocking(true).map_err(named("O_NONBLOCK"))?;
        let state = match UdpSocketState::new(UdpSockRef::from(&udp)) {
            Ok(state) => Some(state),
            Err(error) if does_without_options(&error) => None,
            Err(error) => {
                return Err(named("an option of UDP sockets, such as IP_PKTINFO")(error));
            }
        };
        // The system's default would do, but loses more.
        let _ = SockRef::from(&udp).set_recv_buffer_size(BUFFER);
        let _ = SockRef::from(&udp).set_send_buffer_size(BUFFER);
        let of_parent = ParentsDescriptor::new(Some(udp.as_fd()));
        Ok(Self::System {
            of_parent,
            udp,
            state,
        })
    }

    /// A socket of a simulated network at this address.
    pub(crate) fn of_world(world: &World, address: SocketAddr) -> io::Result<Self> {
        Ok(Self::Sim(sim::DatagramSocket::bind(world, address)?))
    }

    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        match self {
            Self::System { udp, .. } => udp.local_addr().map_err(named("getsockname")),
            Self::Sim(socket) => Ok(socket.local()),
        }
    }

    pub(crate) fn id(&self) -> CarrierId<'_> {
        match self {
            Self::System { udp, .. } => CarrierId::Descriptor(udp.as_fd()),
            Self::Sim(socket) => CarrierId::Sim(socket.source()),
        }
    }

    /// The descriptor of a socket of the system.
    pub(crate) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        match self.id() {
            CarrierId::Descriptor(descriptor) => Ok(descriptor),
            CarrierId::Sim(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(crate) fn is_simulated(&self) -> bool {
        match self {
            Self::System { .. } => false,
            Self::Sim(_) => true,
        }
    }

    /// The most datagrams that one call may send to one peer.
    pub(crate) fn train(&self) -> usize {
        match self {
            Self::System { state, .. } => {
                state.as_ref().map_or(1, UdpSocketState::max_gso_segments)
            }
            Self::Sim(_) => 1,
        }
    }

    /// Returns true if datagrams may be cut on their way, so that the length of those that arrive says nothing about the path.
    pub(crate) fn may_fragment(&self) -> bool {
        match self {
            Self::System { state, .. } => state.as_ref().is_none_or(UdpSocketState::may_fragment),
            Self::Sim(_) => false,
        }
    }

    /// Receives into buffers of [`LONGEST_TRAIN`] octets, and adds a [`Train`] for each buffer that was filled.
    pub(crate) fn receive(&self, buffers: &mut [u8], received: &mut Vec<Train>) -> io::Result<()> {
        received.clear();
        match self {
            Self::System {
                udp,
                state: Some(state),
                ..
            } => {
                let mut slices = buffers.chunks_mut(LONGEST_TRAIN).map(IoSliceMut::new);
                let mut slices: [_; BATCH] =
                    std::array::from_fn(|_| slices.next().unwrap_or(IoSliceMut::new(&mut [])));
                let mut metas = [RecvMeta::default(); BATCH];
                let count = state.recv(UdpSockRef::from(udp), &mut slices, &mut metas)?;
                received.extend(metas[..count].iter().map(|meta| Train {
                    from: meta.addr,
                    len: meta.len,
                    stride: meta.stride,
                    ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
                }));
                Ok(())
            }
            Self::System {
                udp, state: None, ..
            } => {
                for buffer in buffers.chunks_mut(LONGEST_TRAIN) {
                    let (len, from) = match udp.recv_from(buffer) {
                        Err(_) if !received.is_empty() => break,
                        datagram => datagram?,
                    };
                    received.push(Train {
                        from,
                        len,
                        stride: len,
                        ecn: None,
                    });
                }
                Ok(())
            }
            Self::Sim(socket) => {
                for buffer in buffers.chunks_mut(LONGEST_TRAIN) {
                    let datagram = match socket.recv_from(buffer) {
                        Err(_) if !received.is_empty() => break,
                        datagram => datagram?,
                    };
                    received.push(Train {
                        from: datagram.from,
                        len: datagram.len,
                        stride: datagram.len,
                        ecn: EcnCodepoint::from_bits(datagram.ecn),
                    });
                }
                Ok(())
            }
        }
    }

    /// Sends datagrams.
    pub(crate) fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        match self {
            Self::System {
                udp,
                state: Some(state),
                ..
            } => {
                let transmit = quinn_udp::Transmit {
                    destination: outgoing.to,
                    ecn: outgoing
                        .ecn
                        .and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                    contents: outgoing.octets,
                    segment_size: outgoing.stride,
                    src_ip: None,
                };
                state.try_send(UdpSockRef::from(udp), &transmit)
            }
            Self::System {
                udp, state: None, ..
            } => {
                let stride = outgoing.stride.unwrap_or(outgoing.octets.len()).max(1);
                for datagram in outgoing.octets.chunks(stride) {
                    udp.send_to(datagram, outgoing.to)?;
                }
                Ok(())
            }
            Self::Sim(socket) => {
                let stride = outgoing.stride.unwrap_or(outgoing.octets.len()).max(1);
                let ecn = outgoing.ecn.map_or(0, |ecn| ecn as u8);
                for datagram in outgoing.octets.chunks(stride) {
                    socket.send_to(outgoing.to, ecn, datagram)?;
                }
                Ok(())
            }
        }
    }

    /// Takes out the address of a peer at which there is no socket, as its host has reported since the last call. Only a simulated network
    /// reports this here; on the system's, QUIC's `AddressProbe` asks.
    pub(crate) fn take_refused(&self) -> Option<SocketAddr> {
        match self {
            Self::System { .. } => None,
            Self::Sim(socket) => socket.take_refused(),
        }
    }
}

/// Binds a socket that shares its port with nobody.
#[cfg(unix)]
fn bind(socket: &socket2::Socket, address: SocketAddr) -> io::Result<()> {
    socket.bind(&address.into()).map_err(named("bind"))
}

/// As that of TCP.
#[cfg(windows)]
fn bind(socket: &socket2::Socket, address: SocketAddr) -> io::Result<()> {
    crate::transport::tcp::bind_alone(socket, address)
}

/// Returns true if the set-up of a socket has failed because this Windows lacks an option.
fn does_without_options(error: &io::Error) -> bool {
    cfg!(windows) && matches!(errno(error), Some(Errno::OPNOTSUPP | Errno::NOPROTOOPT))
}
