//! An adapter that is connected with a peer over bare QUIC, in both roles.

use std::net::SocketAddr;
use std::sync::Arc;

use iwarp_io::setup::{Enhanced, Frame, FrameKind};
use iwarp_io::transport::quic::preamble::TAKEN;
use netdirect::{Connector, Listener, Overlapped, QueuePair, Status};
use quinn_proto::StreamId;

use crate::common::{Side, network};
use crate::peer::Peer;

/// The peer's address.
pub(crate) const THERE: [u8; 4] = [127, 0, 0, 2];

/// An end of a connection, and the peer that has the other one.
pub(crate) struct Ends {
    pub(crate) side: Side,
    pub(crate) qp: Arc<dyn QueuePair>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) peer: Peer,
    pub(crate) stream: StreamId,
    /// The listener of the adapter, if it is the passive side.
    pub(crate) listener: Option<Arc<dyn Listener>>,
}

/// An address of the peer.
pub(crate) fn there(port: u16) -> SocketAddr {
    SocketAddr::from((THERE, port))
}

/// A Request of revision 1, or a Reply of revision 2 with a Write as the ready-to-receive message.
pub(crate) fn frame(kind: FrameKind) -> Vec<u8> {
    let is_reply = kind == FrameKind::Reply;
    let enhanced = Enhanced {
        peer_to_peer: true,
        rtr_send: false,
        rtr_write: true,
        rtr_read: false,
        ird: 1,
        ord: 1,
    };
    let frame = Frame {
        kind,
        markers: false,
        crc: false,
        rejected: false,
        revision: 1 + u8::from(is_reply),
        enhanced: is_reply.then_some(enhanced),
        private_data: Vec::new(),
    };
    let mut octets = Vec::new();
    frame.encode(&mut octets);
    octets
}

/// A Connect in progress.
pub(crate) struct Call {
    pub(crate) side: Side,
    pub(crate) qp: Arc<dyn QueuePair>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) connects: Overlapped,
}

impl Call {
    pub(crate) fn new(side: &Side, to: SocketAddr) -> Self {
        let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
        let _ = connector.connect(&qp, to, 1, 1, b"", &connects).unwrap();
        Self {
            side: side.clone(),
            qp,
            connector,
            connects,
        }
    }

    /// The status of Connect, with a peer that is driven meanwhile.
    pub(crate) fn end(&self, peer: &mut Peer) -> Status {
        over(peer, &self.connects)
    }

    /// The status of Connect.
    pub(crate) fn end_alone(&self) -> Status {
        crate::common::wait(&self.connects)
    }
}

/// The status of a request, with a peer that is driven meanwhile.
pub(crate) fn over(peer: &mut Peer, overlapped: &Overlapped) -> Status {
    peer.until_true(|_| !overlapped.is_pending());
    overlapped.poll()
}

/// Answers the preamble and the Request of the next stream. Also returns the number of its connection.
pub(crate) fn serve(peer: &mut Peer) -> (usize, StreamId) {
    let (connection, stream) = peer.accept();
    peer.read_exact(stream, 8);
    peer.write(stream, &TAKEN);
    peer.read_exact(stream, 24);
    peer.write(stream, &frame(FrameKind::Reply));
    (connection, stream)
}

/// The adapter is the active side, and has sent the ready-to-receive message.
pub(crate) fn active() -> Ends {
    active_with(Peer::server(&network(), there(7174)))
}

pub(crate) fn active_with(mut peer: Peer) -> Ends {
    let call = Call::new(&Side::new(), peer.socket.local());
    let (_, stream) = serve(&mut peer);
    assert_eq!(call.end(&mut peer), Status::SUCCESS);
    let completes = Overlapped::new();
    let _ = call.connector.complete_connect(&completes).unwrap();
    assert_eq!(over(&mut peer, &completes), Status::SUCCESS);
    peer.read_exact(stream, 20);
    Ends {
        side: call.side,
        qp: call.qp,
        connector: call.connector,
        peer,
        stream,
        listener: None,
    }
}

/// The adapter is the passive side.
pub(crate) fn passive() -> Ends {
    let side = Side::new();
    let (listener, address) = side.listener(0);
    let peer = Peer::client(&network(), there(0), address);
    accepted(side, listener, address, peer)
}

/// Makes the adapter accept a stream of this peer.
pub(crate) fn accepted(
    side: Side,
    listener: Arc<dyn Listener>,
    address: SocketAddr,
    mut peer: Peer,
) -> Ends {
    let (connector, qp) = (side.connector(), side.queue_pair());
    let (arrives, accepts) = (Overlapped::new(), Overlapped::new());
    let _ = listener
        .get_connection_request(&connector, &arrives)
        .unwrap();
    let stream = peer.open_with_preamble(0xC001, address.port());
    peer.write(stream, &frame(FrameKind::Request));
    assert_eq!(over(&mut peer, &arrives), Status::SUCCESS);
    let _ = connector.accept(&qp, 1, 1, b"", &accepts).unwrap();
    assert_eq!(over(&mut peer, &accepts), Status::SUCCESS);
    peer.read_exact(stream, 20);
    Ends {
        side,
        qp,
        connector,
        peer,
        stream,
        listener: Some(listener),
    }
}

impl Ends {
    /// Expects that `act` ends the connection as a reset does.
    pub(crate) fn is_reset_by(&mut self, act: impl FnOnce(&mut Peer, StreamId)) {
        let notice = Overlapped::new();
        self.qp.receive(1, &[]).unwrap();
        let _ = self.connector.notify_disconnect(&notice).unwrap();
        act(&mut self.peer, self.stream);
        assert_eq!(over(&mut self.peer, &notice), Status::SUCCESS);
        let result = self.side.result();
        assert_eq!(
            (result.request_context, result.status),
            (1, Status::CANCELED)
        );
    }
}
