//! The system's data about the TCP sockets of software iWARP: the tables of `proc(5)`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};

/// The number of octets that TCP has received for the connection between these two addresses and that were not read yet; `None` if the
/// system does not report it. Takes about a millisecond for each thousand of the system's sockets.
pub(crate) fn unread(local: SocketAddr, peer: SocketAddr) -> Option<u64> {
    let table = match local {
        SocketAddr::V4(_) => "/proc/thread-self/net/tcp",
        SocketAddr::V6(_) => "/proc/thread-self/net/tcp6",
    };
    unread_of(BufReader::new(File::open(table).ok()?), local, peer)
}

/// The number of unread octets, from one table.
fn unread_of(table: impl BufRead, local: SocketAddr, peer: SocketAddr) -> Option<u64> {
    let (local, peer) = (listed(local), listed(peer));
    for line in table.lines() {
        let line = line.ok()?;
        // The line's number, both addresses, the state, and the octets that wait to be sent and to be read.
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next() == Some(&local) && fields.next() == Some(&peer) {
            let (_, unread) = fields.nth(1)?.split_once(':')?;
            return u64::from_str_radix(unread, 16).ok();
        }
    }
    None
}

/// An address in the format of a table: each four octets as one number of this machine, and the port.
fn listed(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (words, _) = octets.as_chunks::<4>();
    let words = words
        .iter()
        .map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_system_tells_what_nobody_has_taken() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let mut there = TcpStream::connect(listener.local_addr().expect("bound")).expect("made");
        let (mut here, peer) = listener.accept().expect("a connection");
        let local = here.local_addr().expect("bound");
        assert_eq!(unread(local, peer), Some(0));
        there.write_all(b"abc").expect("sent");
        let mut octets = [0; 3];
        while here.peek(&mut octets).expect("open") < octets.len() {}
        assert_eq!(unread(local, peer), Some(3));
        here.read_exact(&mut octets[..2]).expect("open");
        assert_eq!(unread(local, peer), Some(1));
        assert_eq!(unread(peer, local), Some(0));
        // There is no such connection.
        assert_eq!(unread(local, local), None);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn both_kinds_of_addresses_are_found_in_a_table() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000001 00:00000000 00000000     0        0 1 1
   1: 0100007F:1F90 0200007F:C001 01 00000007:00000024 00:00000000 00000000     0        0 2 1
   2: 000000FD000000000000000001000000:1F90 000000FD000000000000000002000000:C001 01 00000000:0000001C 00:0 0 0 0 3
";
        let unread = |local: &str, peer: &str| {
            let [local, peer] = [local, peer].map(|text| text.parse().expect("an address"));
            unread_of(table.as_bytes(), local, peer)
        };
        assert_eq!(unread("127.0.0.1:8080", "127.0.0.2:49153"), Some(0x24));
        assert_eq!(unread("[fd00::1]:8080", "[fd00::2]:49153"), Some(0x1C));
        assert_eq!(unread("127.0.0.1:8080", "127.0.0.2:49154"), None);
    }
}
