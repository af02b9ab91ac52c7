//! Datagrams that this machine refuses to send while a connection is being established, and sockets from which it refuses to receive.
//!
//! QUIC takes such a datagram for lost and sends it again until its time limit. The system has given a reason: the path is too narrow, no
//! route leads to the peer, or a rule forbids it.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;

use super::{Outside, QuicEndpoint};
use crate::log::targets;
use crate::system_call::{errno, of_call};
use crate::transport::quic::handshake_sends::{Handed, RECEIVING, SENDING};

impl QuicEndpoint {
    /// Notes the result of sending a datagram of a connection that is not established. An outgoing connection ends if it cannot succeed.
    pub(super) fn handed(&mut self, key: usize, handed: &Handed) {
        let connection = &mut self.connections[key];
        if connection.established || connection.lost {
            return;
        }
        match handed {
            Handed::Full => {}
            Handed::Left => connection.sends.left(),
            Handed::Refused(errno) => {
                let was_reported = connection.sends.are_hopeless();
                connection.sends.refused();
                if was_reported || !connection.sends.are_hopeless() {
                    return;
                }
                if connection.ours {
                    return self.hopeless.push((key, *errno));
                }
                let (peer, error) = (connection.remote, of_call(SENDING, *errno));
                self.on_failure.call(peer, &error.to_string());
                limited!(warn, target: targets::UDP, %peer, "no connection over UDP: {error}");
            }
        }
    }

    /// Notes the result of sending a datagram that was kept because the socket was full.
    pub(super) fn handed_late(&mut self, to: SocketAddr, handed: &Handed) {
        if let Some(&key) = self.dialed.get(&to) {
            self.handed(key, handed);
        }
    }

    /// Ends the outgoing connections whose handshakes cannot succeed.
    pub(super) fn end_hopeless(&mut self, outside: Outside<'_>) {
        while let Some((key, errno)) = self.hopeless.pop() {
            if self.connections.contains(key) {
                self.give_up(outside, key, Some(SENDING), errno);
            }
        }
    }

    /// The system does not let the socket receive: no handshake can be completed.
    pub(in crate::transport::quic) fn cannot_receive(
        &mut self,
        outside: Outside<'_>,
        error: &io::Error,
    ) {
        let Some(errno) = errno(error) else {
            return;
        };
        self.deaf = Some(errno);
        let (local, error) = (self.local, of_call(RECEIVING, errno));
        if self.listener.is_some() {
            limited!(error, target: targets::UDP, %local, "nobody can connect over UDP: {error}");
        }
        let keys: Vec<_> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            if self.connections.contains(key) && self.connections[key].ours {
                self.give_up(outside, key, Some(RECEIVING), errno);
            }
        }
    }

    /// Fails if the socket cannot receive.
    pub(super) fn check_hearing(&mut self) -> io::Result<()> {
        match self.deaf.take() {
            Some(errno) => Err(of_call(RECEIVING, errno)),
            None => Ok(()),
        }
    }

    /// Ends an outgoing connection that is not established, and the streams that wait for it. `call` is the call that the system refused.
    pub(super) fn give_up(
        &mut self,
        outside: Outside<'_>,
        key: usize,
        call: Option<&'static str>,
        errno: Errno,
    ) {
        let connection = &mut self.connections[key];
        if connection.established || connection.lost {
            return;
        }
        let opening: Vec<_> = connection.opening.drain(..).collect();
        for flow in opening {
            self.flows[flow].refused_call = call;
            self.break_flow(flow, errno);
        }
        self.close(outside, key);
    }
}
