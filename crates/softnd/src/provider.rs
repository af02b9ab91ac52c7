//! The provider, ND2's `IND2Provider`: lists the addresses of all adapters and opens adapters.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use iwarp_io::environment::Environment;
use iwarp_io::faults::Faults;
use iwarp_io::interfaces::{self, NetworkInterface};
use iwarp_io::log::targets;
use iwarp_io::simulation::World;
use iwarp_io::transport::Transport;
use iwarp_io::transport::chosen_congestion::{CongestedTransport, choose};
use iwarp_io::transport::chosen_same_host;
use iwarp_io::transport::quic::{Quic, QuicOptions};
use iwarp_io::transport::same_host::SameHost;
use iwarp_io::transport::tcp::{Tcp, TcpOptions};
use netdirect::{Adapter, AdapterId, Call, Error, Fault, ProviderExtensions, Result, Status};
use netdirect_provider::cannot_inject;
use netdirect_provider::checks::addresses;

use crate::adapter;
use crate::core::NetworkHold;
use crate::device::Device;
use crate::fault_plan;
use crate::local_addresses::LocalAddresses;
use crate::named_addresses::NamedAddresses;
use crate::options::{Options, YEAR};
use crate::status::bind_status;

/// Addresses that an error lists.
const SHOWN: usize = 16;

/// The software provider. Over TCP, every network interface of the host is one adapter.
#[derive(Debug)]
pub(crate) struct Provider {
    network: Network,
    protocol: Protocol,
    options: Options,
    /// The reason why the fault plan is unusable.
    wrong_setting: Option<String>,
    /// Connections within this machine go through shared memory.
    same_host: bool,
    faults: Device,
    /// Used if the system does not list its interfaces.
    named: NamedAddresses,
}

/// The protocol that carries the adapters' streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The network's own streams: TCP, or those of a simulated network.
    Streams,
    /// QUIC over UDP, or over the datagrams of a simulated network.
    Quic,
}

/// The network that the adapters belong to.
#[derive(Debug)]
enum Network {
    /// The network interfaces of the host.
    Host,
    /// A simulated network, in which each address is one adapter.
    Simulated(World, Vec<IpAddr>),
}

/// One network interface, which is one ND2 adapter.
struct Interface {
    id: AdapterId,
    addresses: LocalAddresses,
    /// The number of an interface of the system. `None` for the loopback interface, which cannot go.
    index: Option<u32>,
}

impl Interface {
    /// An interface that is known by one address alone.
    fn of_address(address: IpAddr) -> Self {
        Self {
            id: adapter_id(&address.to_string()),
            addresses: LocalAddresses::one(address),
            index: None,
        }
    }
}

impl Provider {
    pub(crate) fn new(protocol: Protocol, options: Options) -> Self {
        Self::with(Network::Host, protocol, options)
    }

    pub(crate) fn simulated(
        world: World,
        addresses: Vec<IpAddr>,
        protocol: Protocol,
        options: Options,
    ) -> Self {
        Self::with(Network::Simulated(world, addresses), protocol, options)
    }

    fn with(network: Network, protocol: Protocol, mut options: Options) -> Self {
        if protocol == Protocol::Quic {
            // QUIC protects every packet better than a CRC does, and its streams have no segments that markers could mark.
            options = options.crc(false).markers(false);
            // Every peer speaks revision 2. A Connect that a peer breaks off has failed, and is not repeated.
            options = options.revision_1_fallback(false);
        }
        let mut wrong_setting = None;
        let mut whose = String::new();
        if options.faults.is_none() {
            match fault_plan::of_environment() {
                Ok(plan) => options.faults = plan,
                Err(error) => wrong_setting = Some(error),
            }
            whose = format!("{}: ", fault_plan::VARIABLE);
        }
        if protocol == Protocol::Streams
            && let Some(plan) = &options.faults
            && let Err(error) = fault_plan::check_streams(plan)
        {
            wrong_setting = Some(format!("{whose}fault plan, {error}"));
        }
        if matches!(network, Network::Host) {
            let transport = match protocol {
                Protocol::Streams => CongestedTransport::Tcp,
                Protocol::Quic => CongestedTransport::Quic,
            };
            match choose(options.congestion.clone(), transport) {
                Ok(chosen) => options.congestion = chosen,
                Err(error) => wrong_setting = Some(error.to_string()),
            }
        }
        if cfg!(windows) && matches!(network, Network::Host) && options.segment.is_some() {
            let what =
                "Windows lets no program choose the length of TCP's segments: leave out `segment`";
            wrong_setting = Some(what.to_owned());
        }
        let mut same_host = false;
        if matches!(network, Network::Host) {
            match (protocol, options.same_host) {
                (Protocol::Streams, chosen) => match chosen_same_host::choose(chosen) {
                    Ok(chosen) => same_host = chosen && !options.shapes_tcp(),
                    Err(error) => wrong_setting = Some(error.to_string()),
                },
                (Protocol::Quic, Some(true)) => {
                    let what = "connections over UDP do not go through shared memory: same_host is for TCP";
                    wrong_setting = Some(what.to_owned());
                }
                // The environment may be that of other adapters.
                (Protocol::Quic, _) => {}
            }
        }
        let plan = options.faults.clone();
        Self {
            network,
            protocol,
            options,
            wrong_setting,
            same_host,
            faults: Device::new(plan.map(Faults::new)),
            named: NamedAddresses::default(),
        }
    }

    /// All interfaces. A caller may have named an address of one of them.
    fn interfaces(&self, named: Option<IpAddr>) -> Result<Vec<Interface>> {
        match &self.network {
            Network::Host => match interfaces::of_system() {
                Ok(found) => Ok(self.interfaces_of_host(found.list)),
                Err(error) => self.named_interfaces(named, &error),
            },
            Network::Simulated(_, addresses) => {
                let addresses = addresses.iter().copied();
                Ok(addresses.map(Interface::of_address).collect())
            }
        }
    }

    fn hold(&self) -> NetworkHold {
        NetworkHold::new(match &self.network {
            Network::Host => None,
            Network::Simulated(world, _) => Some(world),
        })
    }

    /// What an adapter needs for connections through shared memory.
    fn same_host(&self) -> Option<SameHost> {
        let mut same_host = self.same_host.then(SameHost::if_possible)??;
        if let Some(octets) = self.options.same_host_memory {
            same_host.limit_memory(octets);
        }
        // A limit that is switched off is the longest one.
        same_host.wait_for(self.options.timeouts.same_host.unwrap_or(YEAR));
        Some(same_host)
    }

    /// The transport of the adapters' streams.
    fn transport(&self) -> Result<Transport> {
        let environment = match (&self.network, self.protocol) {
            (Network::Host, Protocol::Streams) => {
                let options = &self.options;
                return Ok(Transport::Tcp(Tcp::new(TcpOptions {
                    segment: options.segment,
                    boundaries: options.boundaries,
                    congestion: options.congestion.clone(),
                    same_host: self.same_host(),
                })));
            }
            (Network::Simulated(world, _), Protocol::Streams) => {
                return Ok(Transport::Sim(world.own()));
            }
            (Network::Host, Protocol::Quic) => Environment::System,
            (Network::Simulated(world, _), Protocol::Quic) => Environment::Sim(world.own()),
        };
        let options = QuicOptions {
            undelivered: self.options.undelivered_limits(),
            ports: None,
            congestion: self.options.congestion.clone(),
        };
        let quic = Quic::with(environment, &self.options.security, options);
        let quic = quic.map_err(|error| {
            if error.kind() == io::ErrorKind::Unsupported {
                return Error::new(Status::NOT_SUPPORTED, error.to_string());
            }
            let what = format!("cannot prepare encrypted connections: {error}");
            Error::new(Status::INVALID_PARAMETER_MIX, what)
        })?;
        Ok(Transport::Quic(quic))
    }

    /// The adapters of the interfaces of the host, in their order.
    fn interfaces_of_host(&self, found: Vec<NetworkInterface>) -> Vec<Interface> {
        let all: Vec<IpAddr> = found.iter().flat_map(|one| one.addresses.clone()).collect();
        let interfaces = found.into_iter().map(|found| {
            let mut listed = found.addresses;
            if found.is_loopback {
                self.add_loopback_aliases(&mut listed, &all);
            }
            listed.retain(|address| self.is_wanted(*address));
            Interface {
                id: adapter_id(&found.identity),
                addresses: LocalAddresses::of_interface(listed, found.is_loopback),
                index: Some(found.index).filter(|_| !found.is_loopback),
            }
        });
        interfaces
            .filter(|interface| !interface.addresses.listed().is_empty())
            .collect()
    }

    fn is_wanted(&self, address: IpAddr) -> bool {
        let wanted = self.options.addresses.as_ref();
        wanted.is_none_or(|wanted| wanted.contains(&address))
    }

    /// The addresses that the options or callers have named, each as an interface, if the system lists none because of `error`.
    fn named_interfaces(&self, named: Option<IpAddr>, error: &io::Error) -> Result<Vec<Interface>> {
        for &wanted in self.options.addresses.iter().flatten() {
            if let Err(error) = self.named.add(wanted) {
                tracing::debug!(target: targets::ADAPTER, %wanted, %error, "not an address of this host");
            }
        }
        if let Some(address) = named.filter(|address| self.is_wanted(*address)) {
            self.named.add(address).map_err(|error| {
                Error::new(
                    bind_status(&error),
                    format!("cannot bind to {address}: {error}"),
                )
            })?;
        }
        let found = self.named.all();
        if found.is_empty() && named.is_none() {
            let what = format!(
                "the system does not list the network interfaces of this host, for which a program needs a netlink socket: {error}; \
                 an address that is named is tried by binding to it"
            );
            return Err(Error::new(Status::UNSUCCESSFUL, what));
        }
        Ok(found.into_iter().map(Interface::of_address).collect())
    }

    /// Adds the loopback addresses that the options ask for, unless they are among `all` that interfaces have. The system lists only
    /// 127.0.0.1, but all of 127.0.0.0/8 is local.
    fn add_loopback_aliases(&self, listed: &mut Vec<IpAddr>, all: &[IpAddr]) {
        let own = LocalAddresses::of_interface(listed.clone(), true);
        for &wanted in self.options.addresses.iter().flatten() {
            if own.serves(wanted) && !all.contains(&wanted) && !listed.contains(&wanted) {
                listed.push(wanted);
            }
        }
    }
}

/// The error for an address that is not served, with those that are.
fn not_served(address: IpAddr, interfaces: &[Interface]) -> Error {
    let all = interfaces.iter().flat_map(|one| one.addresses.listed());
    let all: Vec<_> = all.map(IpAddr::to_string).collect();
    let served = match all.get(SHOWN..) {
        None | Some([]) => all.join(", "),
        Some(more) => format!("{} and {} more", all[..SHOWN].join(", "), more.len()),
    };
    let served = if served.is_empty() {
        "no network interface that is up has one".to_owned()
    } else {
        format!("it serves {served}")
    };
    let what = format!("{address} is not an address that softnd serves on this host; {served}");
    Error::new(Status::INVALID_ADDRESS, what)
}

/// The id of an interface: the 64-bit FNV-1a hash of what identifies it in the system. The hash does not depend on the compiler, so that
/// an interface has the same id in every process of a host.
fn adapter_id(identity: &str) -> AdapterId {
    let hash = identity.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01B3)
    });
    AdapterId(hash)
}

impl netdirect::Provider for Provider {
    fn name(&self) -> &str {
        "softnd"
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        let interfaces = self.interfaces(None)?;
        Ok(interfaces
            .iter()
            .flat_map(|interface| interface.addresses.listed())
            .map(|ip| SocketAddr::new(*ip, 0))
            .collect())
    }

    fn resolve_address(&self, address: SocketAddr) -> Result<AdapterId> {
        let address = addresses::canonical(address).ip();
        let interfaces = self.interfaces(Some(address))?;
        // An address that an interface has goes before the loopback network.
        let is_listed = |interface: &&Interface| interface.addresses.listed().contains(&address);
        let serves = |interface: &&Interface| interface.addresses.serves(address);
        let mut all = interfaces.iter();
        let owner = all.clone().find(is_listed).or_else(|| all.find(serves));
        let owner = owner.ok_or_else(|| not_served(address, &interfaces))?;
        self.faults.admit(Call::ResolveAddress)?;
        Ok(owner.id)
    }

    fn open_adapter(&self, id: AdapterId) -> Result<Arc<dyn Adapter>> {
        if let Some(error) = &self.wrong_setting {
            return Err(Error::new(Status::INVALID_PARAMETER_MIX, error.clone()));
        }
        let interface = self
            .interfaces(None)?
            .into_iter()
            .find(|interface| interface.id == id);
        let interface = interface.ok_or_else(|| {
            Error::new(
                Status::INVALID_PARAMETER,
                "no adapter has this id; get an id by resolving an address",
            )
        })?;
        self.faults.admit(Call::OpenAdapter)?;
        adapter::open(
            id,
            interface.addresses,
            interface.index,
            self.options.clone(),
            self.transport()?,
            self.hold(),
        )
    }

    fn extensions(&self) -> Option<&dyn ProviderExtensions> {
        Some(self)
    }
}

impl ProviderExtensions for Provider {
    fn inject(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Call {
                call: call @ (Call::Any | Call::ResolveAddress | Call::OpenAdapter),
                nth,
                status,
            } => self.faults.plan(call, nth, status),
            other => Err(cannot_inject(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PROV-012, PROV-017: one process can pass an id to another, because the id names the same adapter there. The expected
    /// values come from the authors of the hash.
    #[test]
    fn an_adapters_id_is_the_same_in_every_process() {
        let ids = ["a", "foobar"].map(|name| adapter_id(name).0);
        assert_eq!(ids, [0xAF63_DC4C_8601_EC8C, 0x8594_4171_F739_67E8]);
    }
}
