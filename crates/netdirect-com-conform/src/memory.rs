//! Memory regions.

use std::ffi::c_void;
use std::ptr;

use conform_report::{Pass, Verdict};
use netdirect::{MrFlags, Status};
use netdirect_conform::{Check, Unopened};

use crate::call::call;
use crate::client::Client;
use crate::common::{check, status};
use crate::open_adapter::OpenAdapter;
use crate::request::{Request, end};

pub(crate) const CHECKS: &[Check] = &[
    check(
        "MR-009.unreadable",
        "registers memory that the process does not have",
        |unopened| register(unopened, nowhere(), 4096, Status::ACCESS_VIOLATION),
    ),
    check(
        "TST-083.null",
        "registers no octets at a null pointer",
        |unopened| register(unopened, ptr::null(), 0, Status::INVALID_PARAMETER),
    ),
];

/// An address at which no process has memory: systems keep the first pages free, so that null pointers are found.
pub(crate) fn nowhere() -> *const c_void {
    ptr::without_provenance(4096)
}

fn register(unopened: Unopened, start: *const c_void, len: usize, wanted: Status) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let region = near.region()?;
    let what = format!("Register of {len} octets at {start:p}");
    near.step(&*what);
    let (flags, mut request) = (MrFlags::ALLOW_LOCAL_WRITE.bits(), Request::new());
    let started = call!(&region, register(start, len, flags, request.pointer()));
    let returned = end!(request, &region, started);
    status(&what, wanted, returned)?;
    Ok(Pass::Right)
}
