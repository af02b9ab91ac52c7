//! Options of sockets that no safe library has.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use std::io::Result;
#[cfg(unix)]
use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
pub use linux::{open_window, user_of_peer};
#[cfg(windows)]
pub use windows::{path_segment, refuse_sharing, repeat_no_syn};

#[cfg(unix)]
use crate::transfer::Acknowledgements;

/// What the peer's system has acknowledged (`TCP_INFO`). Only Linux says so.
///
/// # Errors
///
/// Those of `getsockopt(2)`; `Unsupported` on other systems, and before Linux 4.6.
#[cfg(unix)]
pub fn acknowledgements(socket: &impl AsFd) -> Result<Acknowledgements> {
    #[cfg(target_os = "linux")]
    return linux::acknowledgements(socket.as_fd());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// A later bind to port 0 reserves the address alone. Connecting chooses the port, so connections to different peers may have one port.
/// Only Linux has the option; elsewhere this does nothing.
///
/// # Errors
///
/// Those of `setsockopt(2)`.
#[cfg(unix)]
pub fn choose_port_late(socket: &impl AsFd) -> Result<()> {
    #[cfg(target_os = "linux")]
    return linux::choose_port_late(socket.as_fd());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        Ok(())
    }
}
