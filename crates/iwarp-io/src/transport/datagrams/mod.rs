//! Datagrams over UDP, or over a simulated network: sockets, with or without a fault plan, and ports that several users share.
//!
//! QUIC sends its packets by these sockets, and queue pairs for datagrams their messages by [`DatagramPort`]s. Without the feature `udp` there
//! are none.

#[cfg(feature = "udp")]
mod driving;
#[cfg(feature = "udp")]
mod faulted_socket;
#[cfg(feature = "udp")]
mod memory;
mod owner;
#[cfg(feature = "udp")]
mod plain_socket;
#[cfg(feature = "udp")]
mod port;
#[cfg(feature = "udp")]
mod socket;
mod socket_drivers;
#[cfg(not(feature = "udp"))]
mod without;

#[cfg(feature = "udp")]
pub(crate) use driving::{CarriedWatch, Driving};
#[cfg(feature = "udp")]
pub(crate) use faulted_socket::FaultedSocket;
#[cfg(feature = "udp")]
pub(crate) use memory::with_memory;
pub use owner::DatagramOwner;
#[cfg(feature = "udp")]
pub(crate) use plain_socket::{BATCH, LONGEST_TRAIN, Outgoing, PlainSocket, Train};
#[cfg(feature = "udp")]
pub use port::{DatagramPort, WatchedPort};
#[cfg(feature = "udp")]
pub(crate) use socket::Socket;
pub use socket_drivers::SocketDrivers;
#[cfg(not(feature = "udp"))]
pub use without::{NoDatagramPort as DatagramPort, NoWatchedPort as WatchedPort};
