//! Completion queues, shared receive queues and queue pairs.

use std::ptr;

use conform_report::{Pass, Step, Verdict};
use netdirect::Status;
use netdirect_conform::{Check, Unopened};

use crate::call::call;
use crate::client::Client;
use crate::common::{check, status};
use crate::link::Link;
use crate::open_adapter::OpenAdapter;
use crate::request::{Request, end};

pub(crate) const CHECKS: &[Check] = &[
    check(
        "CQ-006.null",
        "asks a completion queue for its affinity, with a null pointer for one half or both",
        |unopened| {
            let near = OpenAdapter::open(Client::new(unopened)?)?;
            let queue = near.completion_queue()?;
            without_pointers(&near, |group, affinity| {
                call!(&queue, get_notify_affinity(group, affinity))
            })
        },
    ),
    check(
        "CQ-030.kind",
        "calls Notify with kinds that do not exist",
        kinds_of_notify,
    )
    .also(&["AMB-054"]),
    check(
        "SRQ-005.null",
        "asks a shared receive queue for its affinity, with a null pointer for one half or both",
        |unopened| {
            let near = OpenAdapter::open(Client::new(unopened)?)?;
            let queue = near.shared_receive_queue()?;
            without_pointers(&near, |group, affinity| {
                call!(&queue, get_notify_affinity(group, affinity))
            })
        },
    ),
    check(
        "QP-075.null",
        "posts each kind of request with a null array of one entry",
        null_array,
    ),
];

/// The statuses for missing pointers: the row's, or those that name the missing argument.
fn without_pointers(near: &OpenAdapter, ask: impl Fn(*mut u16, *mut usize) -> Status) -> Verdict {
    let (mut group, mut affinity) = (0, 0);
    for (lacks, first, second, position) in [
        ("both pointers", ptr::null_mut(), ptr::null_mut(), 1),
        ("the group", ptr::null_mut(), &raw mut affinity, 1),
        ("the processors", &raw mut group, ptr::null_mut(), 2),
    ] {
        let what = format!("GetNotifyAffinity without {lacks}");
        near.step(&*what);
        match ask(first, second) {
            returned if returned == Status::invalid_parameter(position) => {}
            returned => status(&what, Status::INVALID_PARAMETER, returned)?,
        }
    }
    Ok(Pass::Right)
}

fn kinds_of_notify(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let queue = near.completion_queue()?;
    for kind in [3, 77, u32::MAX] {
        let what = format!("Notify of the kind {kind}");
        near.step(&*what);
        let mut request = Request::new();
        let returned = call!(&queue, notify(kind, request.pointer()));
        if returned == Status::PENDING {
            // The request ends with its queue, and may use its OVERLAPPED until then.
            return status(&what, Status::INVALID_PARAMETER_1, returned).map(|()| Pass::Right);
        }
        let returned = end!(request, &queue, returned);
        status(&what, Status::INVALID_PARAMETER_1, returned)?;
    }
    Ok(Pass::Right)
}

fn null_array(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let link = Link::new(&near)?;
    let (qp, context) = (&link.active.qp, ptr::null_mut());
    let refused = |name: &str, post: &dyn Fn() -> Status| -> Step {
        let what = format!("{name} with a null array of one entry");
        near.step(&*what);
        status(&what, Status::INVALID_PARAMETER_2, post())
    };
    let none = ptr::null();
    refused("Receive", &|| call!(qp, receive(context, none, 1)))?;
    refused("Send", &|| call!(qp, send(context, none, 1, 0)))?;
    refused("Read", &|| call!(qp, read(context, none, 1, 0, 0, 0)))?;
    refused("Write", &|| call!(qp, write(context, none, 1, 0, 0, 0)))?;
    Ok(Pass::Right)
}
