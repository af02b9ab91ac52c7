//! Wrong arguments that clients may pass by mistake: handles, addresses, numbers, memory.

use std::ptr;

use conform_report::{Pass, Verdict, ensure};
use netdirect::Status;
use netdirect_com::sockaddr;
use netdirect_conform::{Check, Unopened};

use crate::call::call;
use crate::client::Client;
use crate::common::{check, status};
use crate::open_adapter::{OpenAdapter, file};

pub(crate) const CHECKS: &[Check] = &[
    check(
        "AMB-025.file",
        "gets two files from CreateOverlappedFile, and makes objects with a handle that is none",
        files,
    )
    .also(&["OVL-020"]),
    check(
        "CONN-013.short",
        "binds a connector to an address that is cut short",
        short_address,
    ),
];

fn files(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let second = file(&near.client, &near.adapter)?;
    ensure(
        second.handle() != near.file.handle(),
        "a file of its own from each CreateOverlappedFile",
        "the same handle",
    )?;
    for kind in near.kinds().filter(|kind| kind.is_overlapped()) {
        near.refuses_file(kind, ptr::null_mut())?;
    }
    Ok(Pass::Right)
}

fn short_address(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let (octets, len) = sockaddr::raw(near.client.address);
    for short in [len - 1, 2] {
        let connector = near.connector()?;
        let what = format!("Bind with {short} octets of an address of {len}");
        near.step(&*what);
        let returned = call!(&connector, bind(octets.as_ptr().cast(), short));
        status(&what, Status::INVALID_PARAMETER_2, returned)?;
    }
    Ok(Pass::Right)
}
