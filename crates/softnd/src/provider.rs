//! The provider: which addresses there are, and opening the adapter behind one (ND2's `IND2Provider`).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use iwarp_io::faults::Faults;
use iwarp_io::transport::Transport;
use iwarp_io::transport::sim::World;
use iwarp_io::transport::tcp::Tcp;
use netdirect::{Adapter, AdapterId, Call, Error, Fault, ProviderExtensions, Result, Status};

use crate::adapter::{self, cannot_happen};
use crate::core::serves;
use crate::device::Device;
use crate::fault_names;
use crate::options::Options;

/// The software provider. Over TCP every network interface of the host is one adapter.
#[derive(Debug)]
pub(crate) struct Provider {
    network: Network,
    options: Options,
    /// What is wrong with the plan of the environment.
    plan_error: Option<String>,
    faults: Device,
}

/// Whose adapters they are.
#[derive(Debug)]
enum Network {
    /// The host's interfaces.
    Host,
    /// A simulated network: each address is an adapter.
    Simulated(World, Vec<IpAddr>),
}

/// One network interface: what is an adapter to ND2.
struct Interface {
    id: AdapterId,
    addresses: Vec<IpAddr>,
}

impl Provider {
    pub(crate) fn new(options: Options) -> Self {
        Self::of(Network::Host, options)
    }

    pub(crate) fn simulated(world: World, addresses: Vec<IpAddr>, options: Options) -> Self {
        Self::of(Network::Simulated(world, addresses), options)
    }

    fn of(network: Network, mut options: Options) -> Self {
        let mut plan_error = None;
        if options.faults.is_none() {
            match fault_names::of_environment() {
                Ok(plan) => options.faults = plan,
                Err(error) => plan_error = Some(error),
            }
        }
        let plan = options.faults.clone();
        Self {
            network,
            options,
            plan_error,
            faults: Device::new(plan.map(Faults::new)),
        }
    }

    fn interfaces(&self) -> Result<Vec<Interface>> {
        match &self.network {
            Network::Host => self.interfaces_of_host(),
            Network::Simulated(_, addresses) => Ok(addresses
                .iter()
                .map(|address| Interface {
                    id: adapter_id(&address.to_string()),
                    addresses: vec![*address],
                })
                .collect()),
        }
    }

    /// How adapters reach others.
    fn transport(&self) -> Transport {
        match &self.network {
            Network::Host => Transport::Tcp(Tcp::new(self.options.segment)),
            Network::Simulated(world, _) => Transport::Sim(world.clone()),
        }
    }

    /// The interfaces as they are now, loopback last, as callers without a wish take the first address.
    fn interfaces_of_host(&self) -> Result<Vec<Interface>> {
        let found = if_addrs::get_if_addrs().map_err(|error| {
            Error::new(
                Status::UNSUCCESSFUL,
                format!("cannot list the network interfaces: {error}"),
            )
        })?;
        let mut by_name = BTreeMap::<_, Vec<IpAddr>>::new();
        for interface in found {
            let address = interface.ip();
            let wanted = self
                .options
                .addresses
                .as_ref()
                .is_none_or(|wanted| wanted.contains(&address));
            if wanted && !is_link_local(address) {
                by_name
                    .entry((interface.is_loopback(), interface.name))
                    .or_default()
                    .push(address);
            }
        }
        let mut interfaces: Vec<_> = by_name
            .into_iter()
            .map(|((_, name), addresses)| Interface {
                id: adapter_id(&name),
                addresses,
            })
            .collect();
        self.add_loopback_aliases(&mut interfaces);
        Ok(interfaces)
    }

    /// The whole of 127.0.0.0/8 is local although one address of it is listed: serve those that were asked for.
    fn add_loopback_aliases(&self, interfaces: &mut Vec<Interface>) {
        for &wanted in self.options.addresses.iter().flatten() {
            let listed = interfaces
                .iter()
                .any(|interface| interface.addresses.contains(&wanted));
            if !listed && wanted.is_ipv4() && wanted.is_loopback() {
                match interfaces
                    .iter_mut()
                    .find(|interface| interface.addresses.iter().any(IpAddr::is_loopback))
                {
                    Some(interface) => interface.addresses.push(wanted),
                    None => interfaces.push(Interface {
                        id: adapter_id("lo"),
                        addresses: vec![wanted],
                    }),
                }
            }
        }
    }
}

/// Without a scope, which ND2's address lists do not carry reliably, a link-local address names no interface (DLL-014).
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// The same interface gets the same id in every process of a host, whatever compiler made it: FNV-1a of 64 bits over the
/// name.
fn adapter_id(name: &str) -> AdapterId {
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01B3)
    });
    AdapterId(hash)
}

impl netdirect::Provider for Provider {
    fn name(&self) -> &str {
        "softnd"
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        let interfaces = self.interfaces()?;
        Ok(interfaces
            .iter()
            .flat_map(|interface| &interface.addresses)
            .map(|ip| SocketAddr::new(*ip, 0))
            .collect())
    }

    fn resolve_address(&self, address: SocketAddr) -> Result<AdapterId> {
        let interfaces = self.interfaces()?;
        let owner = interfaces
            .iter()
            .find(|interface| serves(&interface.addresses, address.ip()));
        let owner = owner.ok_or_else(|| {
            let what = format!(
                "{} is not an address of this host that softnd serves",
                address.ip()
            );
            Error::new(Status::INVALID_ADDRESS, what)
        })?;
        self.faults.admit(Call::ResolveAddress)?;
        Ok(owner.id)
    }

    fn open_adapter(&self, id: AdapterId) -> Result<Arc<dyn Adapter>> {
        if let Some(error) = &self.plan_error {
            return Err(Error::new(Status::INVALID_PARAMETER_MIX, error.clone()));
        }
        let interface = self
            .interfaces()?
            .into_iter()
            .find(|interface| interface.id == id);
        let interface = interface.ok_or_else(|| {
            Error::new(
                Status::INVALID_PARAMETER,
                "no adapter has this id; resolve an address first",
            )
        })?;
        self.faults.admit(Call::OpenAdapter)?;
        adapter::AdapterHandle::open(
            id,
            interface.addresses,
            self.options.clone(),
            self.transport(),
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
            other => cannot_happen(&other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PROV-012, PROV-017: an id that one process was given means the same adapter in another one. The numbers are those of the
    /// hash's authors.
    #[test]
    fn an_adapters_id_is_the_same_in_every_process() {
        let ids = ["a", "foobar"].map(|name| adapter_id(name).0);
        assert_eq!(ids, [0xAF63_DC4C_8601_EC8C, 0x8594_4171_F739_67E8]);
    }
}
