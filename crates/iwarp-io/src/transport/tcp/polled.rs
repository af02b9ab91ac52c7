//! A look at one socket.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;

/// What the system reports of a socket now: of `flags`, and that the socket is broken, which it reports unasked.
pub(super) fn reported(socket: &impl AsFd, flags: PollFlags) -> PollFlags {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut sockets = [PollFd::new(socket, flags)];
    match poll(&mut sockets, Some(&now)) {
        Ok(_) => sockets[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}
