//! A listener for requests by datagrams.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use iwarp_io::driver::Driver;
use iwarp_io::faults::Faults;
use iwarp_io::log::targets;
use iwarp_io::transport::both_ports::ReservedUdp;
use iwarp_io::transport::datagrams::{DatagramOwner, DatagramPort};
use parking_lot::Mutex;

use super::message::{CmMessage, MessageKind};
use crate::device::Gid;

/// The answers that are kept, so that a peer whose answer was lost gets it again.
const ANSWERS: usize = 4096;

/// An address at which an identifier asks or listens.
#[derive(Default)]
pub(in crate::cm) struct BoundUdp {
    pub(in crate::cm) reserved: ReservedUdp,
    pub(in crate::cm) addresses: Vec<IpAddr>,
}

/// The queue pair of this side, for the peer.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cm) struct OwnPair {
    pub(in crate::cm) number: u32,
    pub(in crate::cm) key: u32,
    pub(in crate::cm) gid: Gid,
}

/// The identifier that listens.
pub(in crate::cm) trait RequestTaker: Send + Sync + 'static {
    /// A request has arrived. Returns false if there is no room for it: the peer repeats it.
    fn asked(&self, asked: Asked<Self>, request: CmMessage) -> bool
    where
        Self: Sized;
}

/// A peer's request by its address and its number.
type Key = (SocketAddr, u64);

/// See the [module](self).
pub(in crate::cm) struct DatagramListener<I: RequestTaker> {
    this: Weak<Self>,
    listener: Weak<I>,
    ports: Vec<Arc<DatagramPort<Self>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Requests that the program has not answered.
    open: HashSet<Key>,
    answers: HashMap<Key, Vec<u8>>,
    /// The keys of the answers, the oldest one first.
    order: VecDeque<Key>,
}

/// A request that waits for the program's answer. Dropping it lets the peer ask again.
pub(in crate::cm) struct Asked<I: RequestTaker> {
    service: Arc<DatagramListener<I>>,
    key: Key,
    /// The address at which the request has arrived.
    pub(in crate::cm) local: SocketAddr,
}

impl<I: RequestTaker> fmt::Debug for DatagramListener<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramListener")
            .field("ports", &self.ports)
            .finish_non_exhaustive()
    }
}

impl<I: RequestTaker> DatagramListener<I> {
    /// Listens at a port that is reserved at these addresses.
    pub(in crate::cm) fn open(
        driver: &Driver,
        reserved: &ReservedUdp,
        (addresses, port): (&[IpAddr], u16),
        faults: Option<&Arc<Faults>>,
        listener: Weak<I>,
    ) -> io::Result<Arc<Self>> {
        let mut failed = None;
        let service = Arc::new_cyclic(|this: &Weak<Self>| {
            let ports = DatagramPort::open_at_each(
                &driver.environment,
                &driver.socket_drivers(),
                reserved,
                (addresses, port),
                faults,
                this,
            );
            Self {
                this: this.clone(),
                listener,
                ports: ports.unwrap_or_else(|(_, error)| {
                    failed = Some(error);
                    Vec::new()
                }),
                state: Mutex::default(),
            }
        });
        match failed {
            None => Ok(service),
            Some(error) => Err(error),
        }
    }

    /// Hears no requests any more.
    pub(in crate::cm) fn close(&self) {
        self.ports.iter().for_each(|port| port.close());
    }

    fn send(&self, local: SocketAddr, to: SocketAddr, octets: &[u8]) {
        let port = self.ports.iter().find(|port| port.local() == local);
        let sent = port.map(|port| port.send(to, octets));
        if let Some(Err(error)) = sent {
            tracing::debug!(target: targets::UDP, %to, %error, "an answer was not sent; the peer asks again");
        }
    }
}

impl<I: RequestTaker> DatagramOwner for DatagramListener<I> {
    type Deferred = ();

    fn received(&self, local: SocketAddr, from: SocketAddr, octets: &[u8]) -> Option<()> {
        let request = match CmMessage::parse(octets) {
            Ok(request) if request.kind == MessageKind::Request => request,
            Ok(_) => return None,
            Err(error) => {
                tracing::trace!(target: targets::UDP, %from, %error, "a datagram was dropped");
                return None;
            }
        };
        let key = (from, request.nonce);
        let mut state = self.state.lock();
        if let Some(answer) = state.answers.get(&key).cloned() {
            drop(state);
            self.send(local, from, &answer);
            return None;
        }
        if !state.open.insert(key) {
            return None; // the program has it already
        }
        drop(state);
        let (listener, service) = (self.listener.upgrade()?, self.this.upgrade()?);
        let asked = Asked {
            service,
            key,
            local,
        };
        let _ = listener.asked(asked, request);
        None
    }

    /// Peers repeat requests without an answer.
    fn has_room(&self) {}
}

impl<I: RequestTaker> Drop for DatagramListener<I> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<I: RequestTaker> Asked<I> {
    /// The peer's address.
    pub(in crate::cm) fn peer(&self) -> SocketAddr {
        self.key.0
    }

    /// The number of the request.
    pub(in crate::cm) fn nonce(&self) -> u64 {
        self.key.1
    }

    /// Answers, and keeps the answer for a peer that asks again.
    pub(in crate::cm) fn answer(
        &self,
        kind: MessageKind,
        OwnPair { number, key, gid }: OwnPair,
        private_data: &[u8],
    ) {
        let answer = CmMessage {
            kind,
            nonce: self.key.1,
            number,
            key,
            gid,
            private_data: private_data.to_vec(),
        };
        let octets = answer.encode();
        let mut state = self.service.state.lock();
        if state.order.len() == ANSWERS
            && let Some(oldest) = state.order.pop_front()
        {
            state.answers.remove(&oldest);
        }
        if state.answers.insert(self.key, octets.clone()).is_none() {
            state.order.push_back(self.key);
        }
        drop(state);
        self.service.send(self.local, self.key.0, &octets);
    }
}

impl<I: RequestTaker> Drop for Asked<I> {
    fn drop(&mut self) {
        self.service.state.lock().open.remove(&self.key);
    }
}
