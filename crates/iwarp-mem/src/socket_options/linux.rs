//! The options of Linux.

use std::ffi::{c_int, c_void};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::transfer::Acknowledgements;

/// The words of `struct tcp_info` up to `tcpi_bytes_acked`.
const WORDS: usize = 32;
/// The places of its members, in words.
const UNACKED: usize = 6;
const BYTES_ACKED: usize = 30;

/// Sets an option that is a number.
fn set(socket: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> Result<()> {
    let length = libc::socklen_t::try_from(size_of_val(&value)).map_err(Error::other)?;
    // SAFETY: `socket` keeps the descriptor open; the kernel only reads `value`, which is `length` octets long.
    let refused = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast::<c_void>(),
            length,
        )
    };
    if refused != 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}

/// Asks for an option that is a list of words, and returns them with the number of octets that the kernel wrote.
fn get<const WORDS: usize>(
    socket: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
) -> Result<([u32; WORDS], usize)> {
    let mut words = [0; WORDS];
    let mut length = libc::socklen_t::try_from(size_of_val(&words)).map_err(Error::other)?;
    // SAFETY: `socket` keeps the descriptor open; the kernel writes at most `length` octets, which `words` has, and then `length` itself.
    let refused = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            words.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    if refused != 0 {
        return Err(Error::last_os_error());
    }
    Ok((words, usize::try_from(length).map_err(Error::other)?))
}

pub(super) fn acknowledgements(socket: BorrowedFd<'_>) -> Result<Acknowledgements> {
    let (words, written) = get::<WORDS>(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    if written < size_of_val(&words) {
        return Err(ErrorKind::Unsupported.into());
    }
    let [a, b] = [words[BYTES_ACKED], words[BYTES_ACKED + 1]].map(u32::to_ne_bytes);
    let [a0, a1, a2, a3] = a;
    let [b0, b1, b2, b3] = b;
    Ok(Acknowledgements {
        open_segments: words[UNACKED],
        octets: u64::from_ne_bytes([a0, a1, a2, a3, b0, b1, b2, b3]),
    })
}

pub(super) fn choose_port_late(socket: BorrowedFd<'_>) -> Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Opens a TCP socket's receive window to `octets`, at most half of what the system lets sockets grow to by themselves
/// (`tcp_rmem`). A window that is as wide already stays as it is. The socket goes on to grow by itself.
///
/// The system widens the window for a low-water mark of received octets, which is taken back at once. Octets that arrive in between may
/// not be reported, so the caller reads afterwards. `SO_RCVBUF` has another limit, which is often lower than what the socket has grown to,
/// and ends its growth.
///
/// # Errors
///
/// Those of `setsockopt(2)`.
pub fn open_window(socket: BorrowedFd<'_>, octets: c_int) -> Result<()> {
    for mark in [octets, 1] {
        set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, mark)?;
    }
    Ok(())
}

/// The effective user of the process at the other end of a Unix socket, when it connected or began to listen (`SO_PEERCRED`), as this
/// process's user namespace has it.
///
/// rustix's call cannot be used: its type has no process number of 0, which a process of another PID namespace has.
///
/// # Errors
///
/// Those of `getsockopt(2)`.
pub fn user_of_peer(socket: BorrowedFd<'_>) -> Result<u32> {
    // `struct ucred`: process, user, group.
    let ([_, user, _], _) = get(socket, libc::SOL_SOCKET, libc::SO_PEERCRED)?;
    Ok(user)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_the_peer_has_received_is_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut to, _) = listener.accept().unwrap();
        let before = acknowledgements(from.as_fd()).unwrap();
        from.write_all(&[1; 1000]).unwrap();
        to.read_exact(&mut [0; 1000]).unwrap();
        // The answer carries the acknowledgement.
        to.write_all(&[2]).unwrap();
        from.read_exact(&mut [0]).unwrap();
        let after = acknowledgements(from.as_fd()).unwrap();
        assert_eq!(after.octets - before.octets, 1000);
        assert_eq!(after.open_segments, 0);
    }

    #[test]
    fn the_other_end_of_a_unix_socket_has_a_user() {
        let (one, _other) = UnixStream::pair().unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(user_of_peer(one.as_fd()).unwrap(), own);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        // A socket of another kind has no user, or root's number of none.
        let of_tcp = user_of_peer(tcp.as_fd());
        assert!(of_tcp.is_err() || of_tcp.unwrap() == u32::MAX);
    }
}
