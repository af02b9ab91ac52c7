//! TCP over the system's sockets.
//!
//! `wire` is one for all systems. What Unix and Windows do in different ways stands in the files `unix` and `windows`, under the same names.

mod polled;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
mod wire;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

#[cfg(all(windows, feature = "udp"))]
pub(super) use windows::bind_alone;
pub use wire::{Bound, Dialer, Listener, Tcp, Wire, permits_congestion};

use super::congestion_control::CongestionControl;
use super::same_host::SameHost;

/// The options of an adapter's connections.
#[derive(Clone, Debug, Default)]
pub struct TcpOptions {
    /// Segments have at most this many octets (`TCP_MAXSEG`); without it the path decides.
    pub segment: Option<u16>,
    /// The places at which segments begin.
    pub boundaries: Boundaries,
    /// The congestion control.
    pub congestion: CongestionControl,
    /// Connections within this machine are over shared memory, where both ends have this.
    pub same_host: Option<SameHost>,
}

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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::ErrorKind;
    use std::os::fd::AsFd;

    use socket2::SockRef;

    use super::*;
    use crate::progress::Edges;

    fn tcp(name: &str) -> Tcp {
        Tcp::new(TcpOptions {
            congestion: CongestionControl::from_name(name),
            ..TcpOptions::default()
        })
    }

    /// The congestion controls of the two ends of a connection within this machine.
    fn of_both_ends(name: &str) -> [String; 2] {
        let tcp = tcp(name);
        let any = "127.0.0.1:0".parse().unwrap();
        let bound = tcp.bind(any).unwrap();
        let address = bound.local().unwrap();
        let listener = bound.listen().unwrap();
        let dialer = tcp.bind(any).unwrap().connect(address).unwrap();
        while !dialer.is_connected(Edges::all()).unwrap() || !listener.is_somebody_there() {
            std::thread::yield_now();
        }
        [dialer.into_wire().unwrap(), listener.accept().unwrap()].map(|wire| {
            let octets = SockRef::from(&wire.as_fd()).tcp_congestion().unwrap();
            let name = String::from_utf8(octets).unwrap();
            name.trim_end_matches('\0').to_owned()
        })
    }

    /// Every Linux has reno, and permits it.
    #[test]
    fn both_ends_have_the_congestion_control_that_was_chosen() {
        assert_eq!(of_both_ends("reno"), ["reno", "reno"]);
        let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
        let default = default.unwrap();
        assert_eq!(of_both_ends("system"), [default.trim(); 2]);
    }

    #[test]
    fn a_congestion_control_that_is_not_permitted_is_refused_with_those_that_are() {
        let refused = permits_congestion("no_such").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        let text = refused.to_string();
        assert!(
            text.contains("\"no_such\"") && text.contains("reno"),
            "{text}"
        );
    }
}
