//! The completion port of an adapter's overlapped files.

mod packets;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use packets::Ring;
#[cfg(test)]
pub(super) use packets::empty_packet;
#[cfg(unix)]
pub(super) use unix::Port;
#[cfg(windows)]
pub(super) use windows::Port;
