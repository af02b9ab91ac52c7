//! The devices that are adapters, the reports about the others, and the options of a provider.

use std::net::SocketAddr;

use netdirect::{Buffer, Call, Fault, MrFlags, Overlapped, Provider, ProviderExtensions, Status};

use super::{HERE, Objects, fake};
use crate::options::Options;
use crate::provider::VerbsProvider;
use crate::sys::bindings as c;
use crate::{Unavailable, device_address, unlisted_devices};

const ADDRESS: SocketAddr = SocketAddr::new(HERE, 0);

fn provider() -> VerbsProvider {
    VerbsProvider::new(&fake::LIBRARIES, Options::default()).expect("the fake library")
}

/// The status and the text of a refusal.
fn refusal<T>(result: netdirect::Result<T>) -> (Status, String) {
    match result {
        Ok(_) => panic!("it is not refused"),
        Err(error) => (error.status(), error.what().to_owned()),
    }
}

#[test]
fn a_device_with_an_address_on_a_port_that_is_up_is_an_adapter() {
    let _turn = fake::turn();
    let provider = provider();
    assert_eq!(provider.query_address_list(), Ok(vec![ADDRESS]));
    assert_eq!(device_address(&provider, "fake0"), Ok(ADDRESS));
    assert_eq!(unlisted_devices(&provider), Ok(Vec::new()));
    let id = provider.resolve_address(ADDRESS).expect("its address");
    let adapter = provider.open_adapter(id).expect("the adapter");
    assert_eq!(adapter.query_address_list(), Ok(vec![ADDRESS]));
    let (status, what) = refusal(device_address(&provider, "other0"));
    assert_eq!(status, Status::INVALID_ADDRESS);
    assert_eq!(what, "this machine has no RDMA device other0, but fake0");
}

#[test]
fn a_machine_without_devices_is_told_as_one() {
    let _turn = fake::turn();
    let provider = provider();
    fake::with(|world| world.lacks_device = true);
    let (status, what) = refusal(device_address(&provider, "fake0"));
    assert_eq!(status, Status::INVALID_ADDRESS);
    assert!(
        what.starts_with("this machine has no RDMA device: "),
        "{what}"
    );
    let unlisted = unlisted_devices(&provider).expect("listed");
    assert_eq!(unlisted.len(), 1);
    assert_eq!((&unlisted[0].name, &unlisted[0].why), (&None, &what));
    // The connection manager makes no event channel then.
    let another = VerbsProvider::new(&fake::LIBRARIES, Options::default());
    assert_eq!(another.map(drop), Err(Unavailable::NoDevice));
}

#[test]
fn a_missing_address_and_a_port_that_is_down_are_told_each_by_itself() {
    let up = c::IBV_PORT_ACTIVE;
    for (lacks_address, port_state, wanted) in [
        (true, up, "the RDMA device fake0 has no address: "),
        (
            true,
            c::IBV_PORT_DOWN,
            "the RDMA device fake0 has no address, and its port is down: ",
        ),
        (
            false,
            c::IBV_PORT_DOWN,
            "the port of the RDMA device fake0 is down: ",
        ),
        (
            false,
            c::IBV_PORT_INIT,
            "the port of the RDMA device fake0 is down: ",
        ),
    ] {
        let _turn = fake::turn();
        let provider = provider();
        let id = provider.resolve_address(ADDRESS).expect("its address");
        fake::with(|world| {
            world.lacks_address = lacks_address;
            world.port_state = port_state;
        });
        assert_eq!(provider.query_address_list(), Ok(Vec::new()));
        let (status, what) = refusal(device_address(&provider, "fake0"));
        assert_eq!(status, Status::DEVICE_NOT_READY);
        assert!(what.starts_with(wanted), "{what}");
        let unlisted = unlisted_devices(&provider).expect("listed");
        assert_eq!(unlisted.len(), 1);
        assert_eq!(unlisted[0].name.as_deref(), Some("fake0"));
        assert_eq!(unlisted[0].why, what);
        // An address that the device has lost belongs to no device.
        let resolved = refusal(provider.resolve_address(ADDRESS));
        let opened = refusal(provider.open_adapter(id));
        if lacks_address {
            assert_eq!(resolved.0, Status::INVALID_ADDRESS);
            assert_eq!(opened.0, Status::INVALID_PARAMETER);
        } else {
            assert_eq!(resolved, (status, what.clone()));
            assert_eq!(opened, (status, what));
        }
        fake::with(|world| (world.lacks_address, world.port_state) = (false, up));
        assert_eq!(provider.resolve_address(ADDRESS), Ok(id));
    }
}

#[test]
fn prov_013_and_018_calls_of_the_provider_can_be_made_to_fail_once() {
    let _turn = fake::turn();
    let provider = provider();
    let id = provider.resolve_address(ADDRESS).expect("its address");
    let fault = |call| Fault::Call {
        call,
        nth: 1,
        status: Status::NO_MEMORY,
    };
    provider
        .inject(fault(Call::ResolveAddress))
        .expect("injected");
    let failed = refusal(provider.resolve_address(ADDRESS));
    assert_eq!(failed.0, Status::NO_MEMORY);
    assert_eq!(provider.resolve_address(ADDRESS), Ok(id));
    provider.inject(fault(Call::OpenAdapter)).expect("injected");
    assert_eq!(refusal(provider.open_adapter(id)).0, Status::NO_MEMORY);
    provider.open_adapter(id).expect("the adapter");
    // These are faults of an adapter.
    for fault in [fault(Call::Register), Fault::RemoveDevice] {
        assert_eq!(refusal(provider.inject(fault)).0, Status::NOT_SUPPORTED);
    }
}

#[test]
fn mr_011_a_lower_limit_of_registrations_is_kept_before_the_driver_is_asked() {
    let _turn = fake::turn();
    let objects = Objects::with(&Options::default().registration_limit(4096));
    let info = objects.adapter.query().expect("its limits");
    assert_eq!(info.max_registration_size, 4096);
    let region = objects.adapter.create_memory_region(&objects.file);
    let region = region.expect("a region");
    let overlapped = Overlapped::new();
    fake::with(|world| world.register_fails = libc::EFAULT);
    let refused = region.register(&Buffer::new(4097), MrFlags::empty(), &overlapped);
    assert_eq!(refusal(refused).0, Status::INVALID_PARAMETER);
    fake::with(|world| world.register_fails = 0);
    let largest = region.register(&Buffer::new(4096), MrFlags::empty(), &overlapped);
    assert_eq!(largest, Ok(netdirect::Started::Pending));
    // A limit above the device's changes nothing.
    drop((region, objects));
    let objects = Objects::with(&Options::default().registration_limit(u64::MAX));
    let info = objects.adapter.query().expect("its limits");
    assert_eq!(info.max_registration_size, 1 << 47);
}
