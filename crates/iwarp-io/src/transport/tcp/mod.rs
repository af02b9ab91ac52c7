//! TCP over the system's sockets.
//!
//! On Windows there is no such transport yet: `no_sockets` refuses it.

#[cfg(windows)]
mod no_sockets;
#[cfg(unix)]
mod wire;

#[cfg(windows)]
pub use no_sockets::{Bound, Dialer, Listener, NoTcp as Tcp, Wire, check_environment};
#[cfg(unix)]
pub use wire::{Bound, Dialer, Listener, Tcp, Wire, check_environment};

/// The places at which the segments of a connection begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Boundaries {
    /// Not inside the CRC field or the padding of an FPDU, as far as the system allows that. siw of Linux takes a CRC field that arrives in
    /// two pieces for a wrong one.
    #[default]
    OutsideCrcs,
    /// Anywhere.
    Any,
}
