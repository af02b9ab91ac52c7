//! The lists of interfaces and addresses of other systems than Linux.
//!
//! The crate `if-addrs` does not say which interface is the loopback interface: here it is the one with a loopback address.

use std::io;

use super::link::{Link, LinkFlags, Lists};

/// Asks the system for its lists.
pub(super) fn lists() -> io::Result<Lists> {
    let mut lists = Lists::default();
    for found in if_addrs::get_if_addrs()? {
        if is_down(&found) {
            continue;
        }
        let known = lists.links.iter().position(|link| link.name == found.name);
        let at = known.unwrap_or_else(|| {
            let place = u32::try_from(lists.links.len()).unwrap_or(0);
            lists.links.push(Link {
                // An interface that has gone meanwhile has no number: one that the system does not use stands for it.
                index: found.index.unwrap_or(u32::MAX - place),
                name: found.name.clone(),
                identity: identity(&found),
                flags: LinkFlags::UP,
                mtu: 1500,
                hardware_address: [0; 6],
            });
            lists.links.len() - 1
        });
        let link = &mut lists.links[at];
        if found.is_loopback() {
            link.flags |= LinkFlags::LOOPBACK;
        }
        if found.is_oper_up() {
            link.flags |= LinkFlags::LOWER_UP;
        }
        lists.addresses.push((link.index, found.ip()));
    }
    Ok(lists)
}

/// Windows lists the interfaces that are down too, with addresses that nobody can use (169.254.0.0/16).
fn is_down(found: &if_addrs::Interface) -> bool {
    cfg!(windows) && !found.is_oper_up()
}

/// The number (GUID) of an interface. Users can change its name, and the system translates it.
#[cfg(windows)]
fn identity(found: &if_addrs::Interface) -> Option<String> {
    Some(found.adapter_name.clone())
}

/// Other systems have names that stay.
#[cfg(not(windows))]
fn identity(_: &if_addrs::Interface) -> Option<String> {
    None
}
