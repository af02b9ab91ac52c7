//! The sockets of one port, one for each address of its device, and the queue pairs whose numbers name the port.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use iwarp_io::log::targets;
use iwarp_io::progress::domain::Domain;
use iwarp_io::transport::both_ports::ReservedUdp;
use iwarp_io::transport::datagrams::{DatagramOwner, DatagramPort, WatchedPort};
use parking_lot::Mutex;

use super::header::DatagramHeader;
use crate::device::{Device, Gid, gid};
use crate::dropped_datagrams::Dropped;
use crate::error::{Error, Result};
use crate::process::Process;

/// Work that is done once a queue pair is unlocked: dropping it does it.
pub(super) type Deferred = Box<dyn Send>;

/// A queue pair whose number names the port.
pub(super) trait Addressee: Send + Sync {
    /// A datagram has arrived from the first of these GIDs at the second one.
    fn received(
        &self,
        header: &DatagramHeader,
        gids: (Gid, Gid),
        octets: &[u8],
    ) -> std::result::Result<Option<Deferred>, Dropped>;

    /// A socket may take datagrams again.
    fn has_room(&self);
}

/// See the [module](self).
pub(crate) struct UdSockets {
    process: Weak<Process>,
    ports: Vec<Arc<DatagramPort<Self>>>,
    pairs: Mutex<HashMap<u32, Weak<dyn Addressee>>>,
}

/// The sockets that the threads of a completion queue receive from, until it is dropped.
#[derive(Debug)]
pub(super) struct Watched {
    #[expect(dead_code, reason = "watched until it is dropped")]
    ports: Vec<WatchedPort<UdSockets>>,
}

impl fmt::Debug for UdSockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdSockets")
            .field("ports", &self.ports)
            .finish_non_exhaustive()
    }
}

impl UdSockets {
    /// Opens the sockets of a port of `device`, which is reserved.
    pub(crate) fn open(
        process: &Process,
        device: &Device,
        reserved: &ReservedUdp,
        port: u16,
    ) -> Result<Arc<Self>> {
        let engine = process.engine()?;
        let driver = &engine.driver;
        let mut failed = None;
        let sockets = Arc::new_cyclic(|this: &Weak<Self>| {
            let ports = DatagramPort::open_at_each(
                &driver.environment,
                &driver.socket_drivers(),
                reserved,
                (&device.interface().addresses, port),
                process.faults.as_ref(),
                this,
            );
            Self {
                process: process.this.clone(),
                ports: ports.unwrap_or_else(|error| {
                    failed = Some(error);
                    Vec::new()
                }),
                pairs: Mutex::default(),
            }
        });
        match failed {
            None => Ok(sockets),
            Some((local, error)) => Err(Error::of_system(
                &error,
                &format!("no datagrams at {local}"),
            )),
        }
    }

    /// Makes a queue pair the one that datagrams with its number reach.
    pub(super) fn add(&self, number: u32, pair: Weak<dyn Addressee>) {
        self.pairs.lock().insert(number, pair);
    }

    /// No datagram reaches this number any more.
    pub(super) fn remove(&self, number: u32) {
        self.pairs.lock().remove(&number);
    }

    /// Makes the threads that drive `domain` receive the datagrams of all addresses.
    pub(super) fn watch(&self, domain: &Arc<Domain>) -> Result<Watched> {
        let ports = self.ports.iter().map(|port| port.watch(domain));
        let ports: std::io::Result<_> = ports.collect();
        let ports =
            ports.map_err(|error| Error::of_system(&error, "cannot watch for datagrams"))?;
        Ok(Watched { ports })
    }

    /// Sends a datagram from an address of the device.
    pub(super) fn send(&self, from: IpAddr, to: SocketAddr, octets: &[u8]) -> std::io::Result<()> {
        let mut ports = self.ports.iter();
        let port = ports.find(|port| port.local().ip() == from);
        port.ok_or(std::io::ErrorKind::AddrNotAvailable)?
            .send(to, octets)
    }

    fn pair(&self, number: u32) -> Option<Arc<dyn Addressee>> {
        self.pairs.lock().get(&number).and_then(Weak::upgrade)
    }
}

impl DatagramOwner for UdSockets {
    type Deferred = Deferred;

    fn received(&self, local: SocketAddr, from: SocketAddr, octets: &[u8]) -> Option<Deferred> {
        let process = self.process.upgrade()?;
        let dropped = |why| {
            process.datagrams.count(why);
            None
        };
        let (header, octets) = match DatagramHeader::parse(octets) {
            Ok(parsed) => parsed,
            Err(error) => {
                tracing::trace!(target: targets::UDP, %from, %error, "a datagram was dropped");
                return dropped(Dropped::Foreign);
            }
        };
        let Some(pair) = self.pair(header.to) else {
            return dropped(Dropped::UnknownNumber);
        };
        let gids = (
            gid(from.ip().to_canonical()),
            gid(local.ip().to_canonical()),
        );
        match pair.received(&header, gids, octets) {
            Ok(deferred) => deferred,
            Err(why) => dropped(why),
        }
    }

    fn has_room(&self) {
        let pairs: Vec<_> = self.pairs.lock().values().cloned().collect();
        for pair in pairs.iter().filter_map(Weak::upgrade) {
            pair.has_room();
        }
    }
}

impl Drop for UdSockets {
    fn drop(&mut self) {
        self.ports.iter().for_each(|port| port.close());
    }
}
