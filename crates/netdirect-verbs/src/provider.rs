//! The provider, ND2's `IND2Provider`: the RDMA devices of this machine that have addresses.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use netdirect::{
    Adapter, AdapterId, Call, Error, Fault, Provider, ProviderExtensions, Result, Status,
};
use netdirect_provider::cannot_inject;
use netdirect_provider::checks::addresses;

use crate::UnlistedDevice;
use crate::adapter::{AdapterHandle, OpenedDevice};
use crate::core::Core;
use crate::fault_plan::PlannedFaults;
use crate::handle::{CmId, Context, EventChannel};
use crate::options::Options;
use crate::status::shortage;
use crate::sys::Libraries;
use crate::unavailable::Unavailable;

/// The RDMA devices of this machine.
#[derive(Debug)]
pub(crate) struct VerbsProvider {
    libraries: &'static Libraries,
    channel: Arc<EventChannel>,
    options: Options,
    faults: PlannedFaults,
}

/// A device with addresses.
struct Device {
    name: String,
    /// Those on ports that are up. A device without such addresses is not an adapter.
    addresses: Vec<IpAddr>,
    /// Those on ports that are down.
    cut_off: Vec<IpAddr>,
}

impl Device {
    /// The number of the device: the 64-bit FNV-1a hash of its name. So a device has the same number in every process.
    fn id(&self) -> AdapterId {
        let octets = "verbs://".bytes().chain(self.name.bytes());
        let hash = octets.fold(0xCBF2_9CE4_8422_2325, |hash, octet| {
            (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01B3)
        });
        AdapterId(hash)
    }

    fn is_adapter(&self) -> bool {
        !self.addresses.is_empty()
    }
}

/// The reason why a device is not an adapter, with the remedy.
fn port_is_down(name: &str) -> String {
    format!(
        "the port of the RDMA device {name} is down: bring its network interface up, and look at the cable and at `rdma link`"
    )
}

impl VerbsProvider {
    pub(crate) fn new(
        libraries: &'static Libraries,
        options: Options,
    ) -> Result<Self, Unavailable> {
        let channel = EventChannel::new(libraries).map_err(|error| {
            // Without a device librdmacm makes no channel.
            match Context::names(libraries) {
                Ok(names) if names.is_empty() => Unavailable::NoDevice,
                _ => Unavailable::NoConnectionManager {
                    error: error.to_string(),
                },
            }
        })?;
        Ok(Self {
            libraries,
            channel,
            options,
            faults: PlannedFaults::default(),
        })
    }

    /// The names of all devices, with or without addresses.
    fn names(&self) -> Result<Vec<String>> {
        let names = Context::names(self.libraries);
        names.map_err(shortage("cannot list the RDMA devices of this machine"))
    }

    /// The devices that have addresses. The connection manager knows the device of each address of the machine.
    fn devices(&self) -> Result<Vec<Device>> {
        let found = if_addrs::get_if_addrs().map_err(|error| {
            let what = format!("cannot list the network interfaces of this machine: {error}");
            Error::new(Status::UNSUCCESSFUL, what)
        })?;
        let mut devices: Vec<Device> = Vec::new();
        for address in found.iter().map(|interface| interface.ip()) {
            if matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
                continue; // it needs a scope (DLL-014)
            }
            let Some((name, is_down)) = self.owner(address) else {
                continue;
            };
            let known = devices.iter().position(|device| device.name == name);
            let at = known.unwrap_or_else(|| {
                devices.push(Device {
                    name,
                    addresses: Vec::new(),
                    cut_off: Vec::new(),
                });
                devices.len() - 1
            });
            let device = &mut devices[at];
            let addresses = match is_down {
                true => &mut device.cut_off,
                false => &mut device.addresses,
            };
            // Two interfaces may have the same address, which the connection manager knows at one of them.
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(devices)
    }

    /// The device that has an address, and true if the address's port is down.
    fn owner(&self, address: IpAddr) -> Option<(String, bool)> {
        let id = CmId::new(&self.channel, 0).ok()?;
        id.bind(SocketAddr::new(address, 0)).ok()?;
        Some((id.device()?, id.is_port_down()))
    }

    pub(crate) fn device_of(&self, address: IpAddr) -> Option<String> {
        self.owner(address).map(|(name, _)| name)
    }

    /// An address of the device with this name, for [`resolve_address`](Provider::resolve_address).
    pub(crate) fn address_of(&self, name: &str) -> Result<SocketAddr> {
        let devices = self.devices()?;
        let device = devices.iter().find(|device| device.name == name);
        if let Some(address) = device.and_then(|device| device.addresses.first()) {
            return Ok(SocketAddr::new(*address, 0));
        }
        let names = self.names()?;
        if names.iter().any(|other| other == name) {
            let what = self.why_no_adapter(name, device);
            return Err(Error::new(Status::DEVICE_NOT_READY, what));
        }
        let what = if names.is_empty() {
            Unavailable::NoDevice.to_string()
        } else {
            format!(
                "this machine has no RDMA device {name}, but {}",
                names.join(", ")
            )
        };
        Err(Error::new(Status::INVALID_ADDRESS, what))
    }

    /// The reason why a device of this machine is not an adapter. `device` has its addresses, if it has some, all of them on ports that are
    /// down.
    fn why_no_adapter(&self, name: &str, device: Option<&Device>) -> String {
        if device.is_some() {
            return port_is_down(name);
        }
        if self.is_down(name) {
            return format!(
                "the RDMA device {name} has no address, and its port is down: bring its network interface up, and give it an address"
            );
        }
        format!("the RDMA device {name} has no address: give its network interface one")
    }

    /// Returns true if all ports of a device are down, and false if that is unknown.
    fn is_down(&self, name: &str) -> bool {
        let Ok(context) = Context::open(self.libraries, name) else {
            return false;
        };
        let ports = context.limits().map_or(1, |limits| limits.ports.max(1));
        (1..=ports).all(|port| context.port(port).is_ok_and(|port| port.is_down))
    }

    /// The devices that are not adapters, with the reasons.
    pub(crate) fn unlisted(&self) -> Result<Vec<UnlistedDevice>> {
        let (names, devices) = (self.names()?, self.devices()?);
        if names.is_empty() {
            return Ok(vec![UnlistedDevice {
                name: None,
                why: Unavailable::NoDevice.to_string(),
            }]);
        }
        let mut unlisted = Vec::new();
        for name in names {
            let device = devices.iter().find(|device| device.name == name);
            if device.is_none_or(|device| !device.is_adapter()) {
                unlisted.push(UnlistedDevice {
                    why: self.why_no_adapter(&name, device),
                    name: Some(name),
                });
            }
        }
        Ok(unlisted)
    }
}

impl Provider for VerbsProvider {
    fn name(&self) -> &str {
        "netdirect-verbs"
    }

    fn query_address_list(&self) -> Result<Vec<SocketAddr>> {
        let devices = self.devices()?;
        let addresses = devices.iter().flat_map(|device| &device.addresses);
        Ok(addresses.map(|ip| SocketAddr::new(*ip, 0)).collect())
    }

    fn resolve_address(&self, address: SocketAddr) -> Result<AdapterId> {
        self.faults.admit(Call::ResolveAddress)?; // PROV-013
        let (devices, ip) = (self.devices()?, addresses::canonical(address).ip());
        let mut all = devices.iter();
        if let Some(owner) = all.find(|device| device.addresses.contains(&ip)) {
            return Ok(owner.id());
        }
        if let Some(owner) = devices.iter().find(|device| device.cut_off.contains(&ip)) {
            let what = port_is_down(&owner.name);
            return Err(Error::new(Status::DEVICE_NOT_READY, what));
        }
        let what = format!(
            "{ip} is not an address of an RDMA device of this machine; query the address list for the addresses"
        );
        Err(Error::new(Status::INVALID_ADDRESS, what))
    }

    fn open_adapter(&self, id: AdapterId) -> Result<Arc<dyn Adapter>> {
        self.faults.admit(Call::OpenAdapter)?; // PROV-018
        let devices = self.devices()?;
        let device = devices.into_iter().find(|device| device.id() == id);
        let device = device.ok_or_else(|| {
            Error::new(
                Status::INVALID_PARAMETER,
                "no adapter has this id; get an id by resolving an address",
            )
        })?;
        if !device.is_adapter() {
            let what = port_is_down(&device.name);
            return Err(Error::new(Status::DEVICE_NOT_READY, what));
        }
        let (name, addresses) = (device.name, device.addresses);
        let core = Core::open(self.libraries, id, name, addresses, &self.options)?;
        Ok(Arc::new(AdapterHandle::new(OpenedDevice(core))))
    }

    fn extensions(&self) -> Option<&dyn ProviderExtensions> {
        Some(self)
    }
}

impl ProviderExtensions for VerbsProvider {
    fn inject(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Call { call, nth, status }
                if matches!(call, Call::ResolveAddress | Call::OpenAdapter) =>
            {
                self.faults.plan(call, nth, status)
            }
            other => Err(cannot_inject(&other)),
        }
    }
}
