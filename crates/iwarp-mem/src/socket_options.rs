//! Options of sockets that no safe library has.

use std::io::Result;
use std::os::fd::AsFd;

use crate::transfer::Acknowledgements;

/// What the peer's system has acknowledged (`TCP_INFO`). Only Linux says so.
///
/// # Errors
///
/// Those of `getsockopt(2)`; `Unsupported` on other systems, and before Linux 4.6.
pub fn acknowledgements(socket: &impl AsFd) -> Result<Acknowledgements> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;

        /// The words of `struct tcp_info` up to `tcpi_bytes_acked`, and the places of its members.
        const WORDS: usize = 32;
        const UNACKED: usize = 6;
        const BYTES_ACKED: usize = 30;

        let mut words = [0_u32; WORDS];
        let whole = size_of_val(&words);
        let mut length = libc::socklen_t::try_from(whole).map_err(std::io::Error::other)?;
        let descriptor = socket.as_fd().as_raw_fd();
        // SAFETY: the kernel writes at most `length` octets to `words`, and to `length`; both live until the call returns, and the descriptor
        // is borrowed that long.
        let result = unsafe {
            libc::getsockopt(
                descriptor,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                words.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(std::io::Error::last_os_error());
        }
        if usize::try_from(length).is_ok_and(|length| length == whole) {
            let [a, b] = [words[BYTES_ACKED], words[BYTES_ACKED + 1]].map(u32::to_ne_bytes);
            let [a0, a1, a2, a3] = a;
            let [b0, b1, b2, b3] = b;
            return Ok(Acknowledgements {
                open_segments: words[UNACKED],
                octets: u64::from_ne_bytes([a0, a1, a2, a3, b0, b1, b2, b3]),
            });
        }
    }
    let _ = socket;
    Err(std::io::ErrorKind::Unsupported.into())
}

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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_the_peer_has_received_is_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut to, _) = listener.accept().unwrap();
        let before = acknowledgements(&from).unwrap();
        from.write_all(&[1; 1000]).unwrap();
        to.read_exact(&mut [0; 1000]).unwrap();
        // The answer carries the acknowledgement.
        to.write_all(&[2]).unwrap();
        from.read_exact(&mut [0]).unwrap();
        let after = acknowledgements(&from).unwrap();
        assert_eq!(after.octets - before.octets, 1000);
        assert_eq!(after.open_segments, 0);
    }
}
