//! `IUnknown` of all objects: their identity, interfaces and references.

use std::ptr;

use conform_report::{Pass, Step, Verdict, ensure};
use netdirect::Status;
use netdirect_com::abi::{
    Guid, IID_IUNKNOWN, IID_ND2_ADAPTER, IID_ND2_OVERLAPPED, IID_ND2_PROVIDER, OverlappedTable,
    This, UnknownTable,
};
use netdirect_com::import::Pointer;
use netdirect_conform::{Check, Unopened};

use crate::call::call;
use crate::client::Client;
use crate::common::{check, status};
use crate::link::Link;
use crate::open_adapter::OpenAdapter;

/// An identifier that no object has.
const NOBODY: Guid = Guid::new(0x7E5C_AE11, 0x3B0D, 0x4D57, 0x9F1A_6C20_83E4_D5B6);

pub(crate) const CHECKS: &[Check] = &[
    check(
        "GEN-001.references",
        "takes a second reference to an object of each kind, and gives it back: the object is still there",
        |unopened| {
            each(unopened, |_, one| {
                let what = one.name;
                let twice = call!(&one.object, add_ref());
                let once = call!(&one.object, release());
                if once == 0 {
                    // The object is never used again.
                    std::mem::forget(one.object);
                }
                ensure(
                    twice > once && once > 0,
                    format!(
                        "more references to {what} after AddRef than after Release, which leaves one"
                    ),
                    format!("{twice} and {once}"),
                )
            })
        },
    ),
    check(
        "GEN-003.unknown",
        "asks an object of each kind for an interface that nobody has",
        |unopened| {
            each(unopened, |near, one| {
                let what = format!("QueryInterface of {} for an unknown interface", one.name);
                near.step(&*what);
                let (returned, found) = asked(&one.object, NOBODY);
                status(&what, Status::NO_INTERFACE, returned)?;
                ensure(
                    found.is_null(),
                    format!("a null pointer from {what}"),
                    "something else",
                )
            })
        },
    ),
    check(
        "GEN-004.own",
        "makes an object of each kind by the interface that its page names, and asks the object for it",
        |unopened| {
            each(unopened, |near, one| {
                let what = format!("QueryInterface of {} for its own interface", one.name);
                near.step(&*what);
                let (returned, found) = asked(&one.object, one.iid);
                near.client
                    .made::<UnknownTable>(&what, returned, found)
                    .map(drop)
            })
        },
    ),
    check(
        "GEN-021.same",
        "asks an object of each kind for each of its interfaces, and each of these for IUnknown: it is the same object",
        |unopened| each(unopened, same),
    ),
    check(
        "PROV-020.unknown",
        "opens an adapter by an interface that nobody has",
        |unopened| open_unknown(&Client::new(unopened)?),
    ),
    check(
        "AMB-070.references",
        "releases objects that others still use, and one of each kind: no reference is left",
        last_references,
    ),
    check(
        "TST-027.connector",
        "releases a connected connector, whose queue pair exists and whose NotifyDisconnect is in flight",
        |unopened| {
            let near = OpenAdapter::open(Client::new(unopened)?)?;
            let link = Link::new(&near)?;
            let left = link.release_busy_connector(&near)?;
            none(
                left,
                "the last Release of a connector with a request in flight",
            )?;
            Ok(Pass::Right)
        },
    ),
];

/// The status of QueryInterface, and the pointer that it leaves. Before the call the pointer is not null.
pub(crate) fn asked<T>(object: &Pointer<T>, iid: Guid) -> (Status, This) {
    object.ask(iid, ptr::without_provenance_mut(8))
}

/// An object of any kind, by its `IUnknown`.
struct AnyObject {
    name: &'static str,
    iid: Guid,
    is_overlapped: bool,
    object: Pointer<UnknownTable>,
}

/// Passes an object of each kind to `look`, one after the other.
fn each(unopened: Unopened, look: impl Fn(&OpenAdapter, AnyObject) -> Step) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let provider = near.client.provider()?;
    let adapter = near.client.adapter(&provider)?;
    let both = [
        ("a provider", IID_ND2_PROVIDER, provider.into_unknown()),
        ("an adapter", IID_ND2_ADAPTER, adapter.into_unknown()),
    ];
    for (name, iid, object) in both {
        let is_overlapped = false;
        look(
            &near,
            AnyObject {
                name,
                iid,
                is_overlapped,
                object,
            },
        )?;
    }
    for kind in near.kinds() {
        let one = AnyObject {
            name: kind.name(),
            iid: kind.iid(),
            is_overlapped: kind.is_overlapped(),
            object: near.any(kind)?,
        };
        look(&near, one)?;
    }
    Ok(Pass::Right)
}

/// The interface of the object, which is the same object.
fn interface<T>(near: &OpenAdapter, one: &AnyObject, iid: Guid) -> Step<Pointer<T>> {
    let what = format!("QueryInterface of {} for {iid}", one.name);
    near.step(&*what);
    let (returned, found) = asked(&one.object, iid);
    let found = near.client.made::<T>(&what, returned, found)?;
    let (returned, unknown) = asked(&found, IID_IUNKNOWN);
    let unknown = near.client.made::<UnknownTable>(&what, returned, unknown)?;
    let (returned, first) = asked(&one.object, IID_IUNKNOWN);
    let first = near.client.made::<UnknownTable>(&what, returned, first)?;
    ensure(
        unknown.this() == first.this(),
        format!("one IUnknown for all interfaces of {}", one.name),
        format!("another one by the interface {iid}"),
    )?;
    Ok(found)
}

fn same(near: &OpenAdapter, one: AnyObject) -> Step {
    for iid in [IID_IUNKNOWN, one.iid] {
        interface::<UnknownTable>(near, &one, iid)?;
    }
    if one.is_overlapped {
        let overlapped: Pointer<OverlappedTable> = interface(near, &one, IID_ND2_OVERLAPPED)?;
        let returned = call!(&overlapped, cancel_overlapped_requests());
        status(
            "CancelOverlappedRequests without requests",
            Status::SUCCESS,
            returned,
        )?;
    }
    Ok(())
}

fn open_unknown(client: &Client) -> Verdict {
    let provider = client.provider()?;
    let id = client.adapter_id(&provider)?;
    client.step("OpenAdapter by an unknown interface");
    let (iid, mut object) = (NOBODY, ptr::without_provenance_mut(8));
    let returned = call!(&provider, open_adapter(&raw const iid, id, &raw mut object));
    status(
        "OpenAdapter by an unknown interface",
        Status::NO_INTERFACE,
        returned,
    )?;
    Ok(Pass::Right)
}

fn none(left: u32, what: &str) -> Step {
    ensure(left == 0, format!("0 from {what}"), left.to_string())
}

fn last_references(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let provider = near.client.provider()?;
    let adapter = near.client.adapter(&provider)?;
    none(
        provider.give_back(),
        "Release of a provider whose adapter is open",
    )?;
    none(adapter.give_back(), "Release of an adapter")?;
    let queue = near.completion_queue()?;
    let qp = near.queue_pair(&queue)?;
    near.step("Release of a completion queue");
    none(
        queue.give_back(),
        "Release of a completion queue with a queue pair",
    )?;
    near.step("Release of a queue pair");
    none(qp.give_back(), "Release of a queue pair")?;
    for kind in near.kinds() {
        let object = near.any(kind)?;
        let what = format!("Release of {}", kind.name());
        near.step(&*what);
        none(object.give_back(), &what)?;
    }
    Ok(Pass::Right)
}
