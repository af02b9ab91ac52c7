//! `IND2Provider`: addresses, their adapters, and opening one.

use std::net::{SocketAddr, SocketAddrV6};

use conform_report::{Pass, Step, Stop, Verdict, ensure, fail};
use netdirect::{AdapterId, Call, Fault, MrFlags, OpFlags, Status};

use super::common::{exchange, shared, sink};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::link::LinkOptions;
use crate::need::Need;
use crate::side::Side;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::Provider, name, title, run)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "PROV-004.at-once",
        "connects by address and port, and sends RDMA messages at once",
        |bench| {
            let options = LinkOptions {
                greeting: false,
                ..LinkOptions::default()
            };
            exchange(&bench.link_with(options)?)?;
            Ok(Pass::Right)
        },
    )
    .also(&["PROV-001"])
    .needs(&[Need::Connections]),
    new_check(
        "PROV-005.flags",
        "posts a Read with each flag that Read does not take",
        read_flags,
    )
    .also(&["QP-061", "INFO-027"])
    .needs(&[Need::Connections]),
    new_check(
        "PROV-006.list",
        "lists the provider's addresses, each of which has an adapter that opens",
        list,
    )
    .also(&["PROV-010", "TST-089"]),
    new_check(
        "PROV-012.resolve",
        "resolves each address of the adapter with several ports, and gets the adapter's number",
        resolve,
    )
    .also(&["PROV-015", "PROV-016"]),
    new_check(
        "DLL-014.scope",
        "resolves each address of the adapter with another port and, for IPv6, other scopes, and opens the adapter by them",
        port_and_scope,
    ),
    new_check(
        "PROV-013.shortage",
        "has ResolveAddress fail for want of memory, and succeed afterwards",
        |bench| {
            let Side {
                provider, address, ..
            } = &bench.near;
            short(&bench.near, Call::ResolveAddress, || {
                provider.resolve_address(*address)
            })
        },
    ),
    new_check(
        "PROV-014.unknown",
        "resolves an address of nobody",
        |bench| {
            let nobody = std::net::SocketAddr::from(([192, 0, 2, 255], 0));
            let resolved = bench.near.provider.resolve_address(nobody);
            let wanted = Status::INVALID_ADDRESS;
            bench.near.refused("ResolveAddress", resolved, wanted)?;
            Ok(Pass::Right)
        },
    ),
    new_check(
        "PROV-017.open",
        "opens the adapter by its number, and registers memory with it",
        |bench| {
            let opened = bench.near.open_again()?;
            bench
                .near
                .equal("what Query tells", opened.info, bench.near.info)?;
            sink(&opened, 64)?;
            Ok(Pass::Right)
        },
    ),
    new_check(
        "PROV-018.shortage",
        "has OpenAdapter fail for want of memory, and succeed afterwards",
        |bench| {
            let Side {
                provider, address, ..
            } = &bench.near;
            let id = provider.resolve_address(*address);
            let id = bench.near.expect("resolve the address", id)?;
            short(&bench.near, Call::OpenAdapter, || provider.open_adapter(id))
        },
    ),
    new_check(
        "PROV-019.number",
        "opens adapters by numbers that no address resolves to",
        unknown_numbers,
    ),
    new_check(
        "PROV-021.released",
        "releases the provider, and goes on with the adapter",
        |bench| {
            let side = bench.afresh()?;
            side.step("release the provider");
            let Side {
                provider,
                adapter,
                file,
                ..
            } = side;
            drop(provider);
            let region = adapter.create_memory_region(&file);
            let region = bench.near.expect("create a memory region", region)?;
            let buffer = netdirect::Buffer::new(64);
            bench.near.register(&region, &buffer, MrFlags::empty())?;
            Ok(Pass::Right)
        },
    ),
    new_check(
        "PROV-022.several",
        "opens the adapter three times, and closes one: the others go on",
        |bench| {
            let opened = [bench.near.open_again()?, bench.near.open_again()?];
            drop(bench.near.open_again()?);
            for side in &opened {
                sink(side, 64)?;
                side.listening()?;
            }
            Ok(Pass::Right)
        },
    )
    .also(&["TST-069"]),
];

/// A call of the provider fails for want of memory, and succeeds afterwards.
fn short<T>(side: &Side, call: Call, make: impl Fn() -> netdirect::Result<T>) -> Verdict {
    let fault = Fault::Call {
        call,
        nth: 1,
        status: Status::NO_MEMORY,
    };
    let lacking = "the provider lacks fault injection (ProviderExtensions::inject)";
    let Some(extensions) = side.provider.extensions() else {
        return Err(Stop::LeftOut(lacking.to_owned()));
    };
    side.step(format_args!("inject {fault:?}"));
    match extensions.inject(fault) {
        Ok(()) => {}
        Err(error) if error.status() == Status::NOT_SUPPORTED => {
            return Err(Stop::LeftOut(lacking.to_owned()));
        }
        Err(error) => return Err(fail("the fault to be injected", error.to_string())),
    }
    let what = format!("{call:?} without memory");
    side.refused(what, make(), Status::NO_MEMORY)?;
    side.expect(format_args!("{call:?} afterwards"), make())?;
    Ok(Pass::Right)
}

fn read_flags(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let (into, from) = (sink(&bench.near, 64)?, shared(&bench.far, 64)?);
    let taken = OpFlags::SILENT_SUCCESS | OpFlags::READ_FENCE;
    for bit in (0..32).map(|bit| 1_u32 << bit) {
        let flags = OpFlags::from_bits_retain(bit);
        if taken.contains(flags) {
            continue;
        }
        let qp = &link.near.queues.qp;
        let posted = qp.read(1, &[into.sge(..)], from.remote(), flags);
        let what = format!("Read with the flag {bit:#x}");
        bench
            .near
            .refused(what, posted, Status::INVALID_PARAMETER_6)?;
    }
    exchange(&link)?;
    Ok(Pass::Right)
}

fn list(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let addresses = side.provider.query_address_list();
    let addresses = side.expect("QueryAddressList", addresses)?;
    let seen = format!("{addresses:?}");
    let own = addresses.contains(&side.address);
    ensure(own, format!("{} in the list", side.address), seen)?;
    for address in addresses {
        side.equal("the port in the list", address.port(), 0)?;
        let id = side.provider.resolve_address(address);
        let id = side.expect(format_args!("resolve {address}"), id)?;
        let opened = side.provider.open_adapter(id);
        side.expect(format_args!("open the adapter of {address}"), opened)?;
    }
    Ok(Pass::Right)
}

fn resolve(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let own = side.provider.resolve_address(side.address);
    let own = side.expect("resolve the address of the adapter", own)?;
    let served = side.provider.query_address_list();
    let served = side.expect("QueryAddressList of the provider", served)?;
    let addresses = side.adapter.query_address_list();
    let addresses = side.expect("QueryAddressList of the adapter", addresses)?;
    for mut address in addresses.into_iter().filter(|it| served.contains(it)) {
        for port in [0, 1, 5445, u16::MAX] {
            address.set_port(port);
            let id = side.provider.resolve_address(address);
            let id = side.expect(format_args!("resolve {address}"), id)?;
            side.equal(format_args!("the adapter of {address}"), id, own)?;
        }
    }
    Ok(Pass::Right)
}

fn port_and_scope(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let addresses = side.adapter.query_address_list();
    for address in side.expect("QueryAddressList of the adapter", addresses)? {
        for scope in [0, 1, 77] {
            let other = match address {
                SocketAddr::V4(v4) => SocketAddr::new((*v4.ip()).into(), 4791),
                SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), 4791, 0, scope).into(),
            };
            let again = side.open_at(other)?;
            let (got, wanted) = (again.info.adapter_id, side.info.adapter_id);
            side.equal(format_args!("the adapter of {other}"), got, wanted)?;
            let id = side.provider.resolve_address(other);
            let id = side.expect(format_args!("resolve {other}"), id)?;
            side.equal(format_args!("the number of {other}"), id, wanted)?;
        }
    }
    Ok(Pass::Right)
}

fn unknown_numbers(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let addresses = side.provider.query_address_list();
    let addresses = side.expect("QueryAddressList", addresses)?;
    let known: Step<Vec<AdapterId>> = addresses
        .into_iter()
        .map(|address| {
            let id = side.provider.resolve_address(address);
            side.expect(format_args!("resolve {address}"), id)
        })
        .collect();
    let known = known?;
    let own = side.info.adapter_id.0;
    for number in [0, 1, u64::MAX, own ^ 1, own.wrapping_add(1), !own] {
        if known.contains(&AdapterId(number)) {
            continue;
        }
        let opened = side.provider.open_adapter(AdapterId(number));
        let what = format!("OpenAdapter of {number:#x}");
        side.refused(what, opened, Status::INVALID_PARAMETER)?;
    }
    Ok(Pass::Right)
}
