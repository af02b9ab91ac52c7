//! Connections that end in each possible way.

use std::any::Any;
use std::io::Write;
use std::sync::Arc;

use iwarp_io::setup::{Enhanced, Frame, FrameKind};
use netdirect::{
    CompletionQueue, CompletionResult, Connector, LocalToken, OpFlags, Overlapped, QueuePair,
    RemoteAddress, Sge, Status,
};

use super::{Side, end, pair, raw, run};

/// The ways in which a connection can end without this side's Disconnect.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    /// The peer disconnects.
    Orderly,
    /// The peer's end of the stream is a reset.
    Reset,
    /// The peer finds an error and sends a Terminate.
    Terminate,
    /// This side finds an error in what the peer sent.
    Fault,
    /// A request of this side fails.
    Request,
}

pub const ENDINGS: [Ending; 5] = [
    Ending::Orderly,
    Ending::Reset,
    Ending::Terminate,
    Ending::Fault,
    Ending::Request,
];

/// One end of a connection, and the action that ends it.
pub struct Watched {
    pub side: Side,
    pub qp: Arc<dyn QueuePair>,
    pub connector: Arc<dyn Connector>,
    pub end: Box<dyn FnOnce() + Send>,
    /// The other end, which lives as long as this one.
    pub _peer: Box<dyn Any + Send>,
}

/// A Write to memory that is not registered; its success is not reported.
pub fn write_astray(qp: &Arc<dyn QueuePair>) {
    let nowhere = RemoteAddress {
        address: 0,
        token: netdirect::RemoteToken(0xDEAD_BEEF),
    };
    qp.write_inline(99, &[b"astray"], nowhere, OpFlags::SILENT_SUCCESS)
        .unwrap();
}

pub fn watched(ending: Ending) -> Watched {
    if let Ending::Reset = ending {
        return reset_by_hand();
    }
    let pair = pair();
    let (active, passive) = (pair.active_qp.clone(), pair.passive_qp.clone());
    let (side, qp, connector) = match ending {
        Ending::Terminate => (&pair.active, &pair.active_qp, &pair.active_connector),
        _ => (&pair.passive, &pair.passive_qp, &pair.passive_connector),
    };
    let (side, qp, connector) = (side.clone(), qp.clone(), connector.clone());
    let peer = pair.active_connector.clone();
    let end = move || match ending {
        Ending::Orderly => run(|overlapped| peer.disconnect(overlapped)).unwrap(),
        Ending::Terminate | Ending::Fault => write_astray(&active),
        Ending::Request => {
            let unknown = Sge {
                address: 0,
                length: 1,
                token: LocalToken(0xDEAD_BEEF),
            };
            passive.send(98, &[unknown], OpFlags::empty()).unwrap();
        }
        Ending::Reset => unreachable!("made by hand"),
    };
    let keep: (Side, Arc<dyn QueuePair>, Arc<dyn Connector>) = match ending {
        Ending::Terminate => (pair.passive, pair.passive_qp, pair.passive_connector),
        _ => (pair.active, pair.active_qp, pair.active_connector),
    };
    Watched {
        side,
        qp,
        connector,
        end: Box::new(end),
        _peer: Box::new(keep),
    }
}

/// Offered a connection by a client made by hand.
pub fn offered_by_hand() -> (Side, Arc<dyn Connector>, raw::Peer) {
    offered_by(Side::new(), false)
}

/// This side is offered a connection by a client made by hand, in peer-to-peer mode or by a Request of revision 1.
pub fn offered_by(side: Side, peer_to_peer: bool) -> (Side, Arc<dyn Connector>, raw::Peer) {
    let enhanced = Enhanced {
        peer_to_peer,
        rtr_send: false,
        rtr_write: true,
        rtr_read: false,
        ird: 1,
        ord: 1,
    };
    let (listener, address) = side.listener(0);
    let connector = side.connector();
    let arrives = Overlapped::new();
    let arrival = listener.get_connection_request(&connector, &arrives);
    let request = Frame {
        kind: FrameKind::Request,
        markers: false,
        crc: false,
        rejected: false,
        revision: 1 + u8::from(peer_to_peer),
        enhanced: peer_to_peer.then_some(enhanced),
        private_data: Vec::new(),
    };
    let mut octets = Vec::new();
    request.encode(&mut octets);
    let mut client = raw::dial(address);
    client.write_all(&octets).unwrap();
    end(arrival, &arrives).unwrap();
    (side, connector, client)
}

/// Connected with a client made by hand, which ends with a reset.
pub fn reset_by_hand() -> Watched {
    let (side, qp, connector, mut client) = silent();
    client.receive(20);
    let end = move || client.reset();
    Watched {
        side,
        qp,
        connector,
        end: Box::new(end),
        _peer: Box::new(()),
    }
}

/// Takes the results in the queue. Returns true if the flushed Receive is among them.
pub fn is_flushed(cq: &Arc<dyn CompletionQueue>) -> bool {
    let mut results = [CompletionResult::default(); 8];
    let count = cq.get_results(&mut results);
    results[..count]
        .iter()
        .any(|result| result.status == Status::CANCELED)
}

/// Makes `act` run at the end of the request, in the thread that ends it.
pub fn at_end(act: impl Fn() + Send + Sync + 'static) -> Overlapped {
    Overlapped::with_sink(Arc::new(move |_: Status| act()))
}

/// A connection with a client made by hand, which ends it only when it is dropped.
pub fn silent() -> (Side, Arc<dyn QueuePair>, Arc<dyn Connector>, raw::Peer) {
    let (side, connector, client) = offered_by_hand();
    let qp = side.queue_pair();
    run(|overlapped| connector.accept(&qp, 0, 0, b"", overlapped)).unwrap();
    (side, qp, connector, client)
}

pub fn numbered(user: u64) -> Overlapped {
    let overlapped = Overlapped::new();
    overlapped.set_user(user);
    overlapped
}
