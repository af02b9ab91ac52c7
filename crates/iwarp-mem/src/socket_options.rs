//! Options of sockets that no safe library has.

use std::io::Result;
use std::os::fd::AsFd;

/// A later bind to port 0 reserves the address alone. Connecting chooses the port, so connections to different peers may have one port.
/// Only Linux has the option; elsewhere this does nothing.
///
/// # Errors
///
/// Those of `setsockopt(2)`.
pub fn choose_port_late(socket: &impl AsFd) -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;

        let on: libc::c_int = 1;
        let length = libc::socklen_t::try_from(size_of_val(&on)).map_err(std::io::Error::other)?;
        let descriptor = socket.as_fd().as_raw_fd();
        // SAFETY: the kernel reads the four octets of `on`, which lives until the call returns; the descriptor is borrowed that long.
        let result = unsafe {
            libc::setsockopt(
                descriptor,
                libc::IPPROTO_IP,
                libc::IP_BIND_ADDRESS_NO_PORT,
                (&raw const on).cast(),
                length,
            )
        };
        if result != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}
