//! The provider, ND2's `IND2Provider`: the RDMA devices of this machine that have addresses.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use netdirect::{Adapter, AdapterId, Error, Provider, Result, Status};

use crate::adapter::AdapterHandle;
use crate::core::Core;
use crate::handle::{CmId, Context, EventChannel};
use crate::status::shortage;
use crate::sys::Libraries;
use crate::unavailable::Unavailable;

/// How long Accept waits for the peer's ready-to-receive message (IW-068).
const PATIENCE: Duration = Duration::from_secs(60);

/// The RDMA devices of this machine.
#[derive(Debug)]
pub(crate) struct VerbsProvider {
    libraries: &'static Libraries,
    channel: Arc<EventChannel>,
}

/// A device with addresses.
struct Device {
    name: String,
    addresses: Vec<IpAddr>,
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
}

impl VerbsProvider {
    pub(crate) fn new(libraries: &'static Libraries) -> Result<Self, Unavailable> {
        let channel = EventChannel::new(libraries);
        let channel = channel.map_err(|error| Unavailable::NoConnectionManager {
            error: error.to_string(),
        })?;
        Ok(Self { libraries, channel })
    }

    /// The names of all devices, with or without addresses.
    fn names(&self) -> Result<Vec<String>> {
        let names = Context::names(self.libraries);
        names.map_err(shortage("cannot list the RDMA devices of this machine"))
    }

    /// The devices that have addresses. The connection manager knows which device has an address of the machine.
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
            let Some(name) = self.device_of(address) else {
                continue;
            };
            match devices.iter_mut().find(|device| device.name == name) {
                Some(device) => device.addresses.push(address),
                None => devices.push(Device {
                    name,
                    addresses: vec![address],
                }),
            }
        }
        Ok(devices)
    }

    pub(crate) fn device_of(&self, address: IpAddr) -> Option<String> {
        let id = CmId::new(&self.channel, 0).ok()?;
        id.bind(SocketAddr::new(address, 0)).ok()?;
        id.device()
    }

    /// An address of the device with this name, for [`resolve_address`](Provider::resolve_address).
    pub(crate) fn address_of(&self, name: &str) -> Result<SocketAddr> {
        let devices = self.devices()?;
        if let Some(device) = devices.iter().find(|device| device.name == name) {
            return Ok(SocketAddr::new(device.addresses[0], 0));
        }
        let names = self.names()?;
        let what = if names.iter().any(|other| other == name) {
            format!(
                "the RDMA device {name} has no address: give its network interface one, and look at `rdma link` for the state of its port"
            )
        } else if names.is_empty() {
            "this machine has no RDMA device: `rdma link add siw0 type siw netdev …` makes one in software".to_owned()
        } else {
            format!(
                "this machine has no RDMA device {name}, but {}",
                names.join(", ")
            )
        };
        Err(Error::new(Status::INVALID_ADDRESS, what))
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
        let devices = self.devices()?;
        let mut devices = devices.iter();
        let owner = devices.find(|device| device.addresses.contains(&address.ip()));
        owner.map(Device::id).ok_or_else(|| {
            let what = format!(
                "{} is not an address of an RDMA device of this machine; query the address list for the addresses",
                address.ip()
            );
            Error::new(Status::INVALID_ADDRESS, what)
        })
    }

    fn open_adapter(&self, id: AdapterId) -> Result<Arc<dyn Adapter>> {
        let devices = self.devices()?;
        let device = devices.into_iter().find(|device| device.id() == id);
        let device = device.ok_or_else(|| {
            Error::new(
                Status::INVALID_PARAMETER,
                "no adapter has this id; get an id by resolving an address",
            )
        })?;
        let core = Core::open(self.libraries, id, device.name, device.addresses, PATIENCE)?;
        Ok(Arc::new(AdapterHandle(core)))
    }
}
