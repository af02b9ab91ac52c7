//! Connectors and listeners.

use std::ffi::c_void;
use std::ptr;

use conform_report::{Pass, Step, Verdict, ensure};
use netdirect::Status;
use netdirect_com::sockaddr;
use netdirect_conform::{Check, Unopened};

use crate::call::call;
use crate::client::Client;
use crate::common::{check, status};
use crate::link::{End, Offer, bind};
use crate::memory::nowhere;
use crate::open_adapter::OpenAdapter;
use crate::query::Query;
use crate::request::{Request, end};

pub(crate) const CHECKS: &[Check] = &[
    check(
        "CONN-025.unreadable",
        "connects with private data at an address that cannot be read",
        connect_unreadable,
    ),
    check(
        "CONN-057.unreadable",
        "accepts with private data at an address that cannot be read",
        accept_unreadable,
    ),
    check(
        "CONN-072.unreadable",
        "rejects with private data at an address that cannot be read",
        reject_unreadable,
    ),
    check(
        "CONN-082.null",
        "asks for one read limit of an offer, or for none",
        read_limits,
    ),
    check(
        "CONN-085.partly",
        "asks for private data with room for two octets",
        private_data_partly,
    )
    .also(&["AMB-043"]),
    check(
        "CONN-086.none",
        "asks how much room private data needs",
        private_data_size,
    ),
    check(
        "CONN-093.small",
        "asks a bound connector for its address with a buffer that is much too small, and with one that lacks an octet",
        |unopened| local_address(unopened, |query| query.too_small(4)),
    ),
    check(
        "CONN-095.sizes",
        "asks a bound connector how much room its address needs, and for it with a buffer that is too large",
        |unopened| local_address(unopened, sizes),
    ),
    check(
        "CONN-098.small",
        "asks for the address of the peer with a buffer that is much too small, and with one that lacks an octet",
        |unopened| peer_address(unopened, |query| query.too_small(4)),
    ),
    check(
        "CONN-100.sizes",
        "asks how much room the address of the peer needs, and for it with a buffer that is too large",
        |unopened| peer_address(unopened, sizes),
    ),
    check(
        "LSTN-020.small",
        "asks a bound listener for its address with a buffer that is much too small, and with one that lacks an octet",
        |unopened| listening_address(unopened, |query| query.too_small(4)),
    ),
    check(
        "LSTN-022.sizes",
        "asks a bound listener how much room its address needs, and for it with a buffer that is too large",
        |unopened| listening_address(unopened, sizes),
    ),
];

fn sizes(query: &Query<'_>) -> Step {
    query.none()?;
    query.large().map(drop)
}

fn local_address(unopened: Unopened, look: impl FnOnce(&Query<'_>) -> Step) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let connector = near.connector()?;
    bind(&near, &connector)?;
    look(&Query {
        client: &near.client,
        name: "a connector's GetLocalAddress",
        head: None,
        call: &|address, size| call!(&connector, get_local_address(address, size)),
    })?;
    Ok(Pass::Right)
}

fn peer_address(unopened: Unopened, look: impl FnOnce(&Query<'_>) -> Step) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let offer = Offer::new(&near, &[])?;
    let connector = &offer.passive.connector;
    look(&Query {
        client: &near.client,
        name: "GetPeerAddress",
        head: None,
        call: &|address, size| call!(connector, get_peer_address(address, size)),
    })?;
    Ok(Pass::Right)
}

fn listening_address(unopened: Unopened, look: impl FnOnce(&Query<'_>) -> Step) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let listener = near.listener()?;
    let (octets, len) = sockaddr::raw(near.client.address);
    near.step("Bind");
    let returned = call!(&listener, bind(octets.as_ptr().cast(), len));
    status("the listener's Bind", Status::SUCCESS, returned)?;
    look(&Query {
        client: &near.client,
        name: "a listener's GetLocalAddress",
        head: None,
        call: &|address, size| call!(&listener, get_local_address(address, size)),
    })?;
    Ok(Pass::Right)
}

fn private_data(unopened: Unopened, data: &[u8], look: impl FnOnce(&Query<'_>) -> Step) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let offer = Offer::new(&near, data)?;
    let connector = &offer.passive.connector;
    look(&Query {
        client: &near.client,
        name: "GetPrivateData",
        head: None,
        call: &|data, size| call!(connector, get_private_data(data, size)),
    })?;
    Ok(Pass::Right)
}

/// An adapter may deliver more octets than the peer has sent, because some networks carry a fixed number.
fn private_data_partly(unopened: Unopened) -> Verdict {
    private_data(unopened, b"hello", |query| {
        let (returned, room) = query.with(2);
        status(
            "GetPrivateData with 2 octets",
            Status::BUFFER_OVERFLOW,
            returned,
        )?;
        let needed = room.size();
        ensure(
            needed >= 5 && room.octets().starts_with(b"he") && room.is_untouched_from(2),
            "the first 2 octets, and the size needed, which is at least 5",
            format!("{:?}, and {needed}", &room.octets()[..8]),
        )?;
        let whole = query.exactly(needed)?;
        ensure(
            whole.octets().starts_with(b"hello"),
            "the private data of the peer",
            format!("{:?}", &whole.octets()[..8]),
        )
    })
}

fn private_data_size(unopened: Unopened) -> Verdict {
    private_data(unopened, b"hello", |query| query.none())
}

fn read_limits(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let offer = Offer::new(&near, &[])?;
    let connector = &offer.passive.connector;
    let ask = |what: &str, inbound: *mut u32, outbound: *mut u32| -> Step {
        let what = format!("GetReadLimits {what}");
        near.step(&*what);
        let returned = call!(connector, get_read_limits(inbound, outbound));
        status(&what, Status::SUCCESS, returned)
    };
    let (mut both, mut one) = ([77, 77], [99, 99]);
    let [inbound, outbound] = &mut both;
    ask("for both limits", inbound, outbound)?;
    let [inbound, outbound] = &mut one;
    ask("without the outbound limit", inbound, ptr::null_mut())?;
    ask("without the inbound limit", ptr::null_mut(), outbound)?;
    ask("without either limit", ptr::null_mut(), ptr::null_mut())?;
    ensure(
        one == both,
        format!("the limits {both:?}, one by one as together"),
        format!("{one:?}"),
    )?;
    Ok(Pass::Right)
}

fn connect_unreadable(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    near.needs_connections()?;
    let end = End::new(&near)?;
    bind(&near, &end.connector)?;
    // There is no listener, which the call does not detect.
    let (octets, len) = sockaddr::raw((near.client.address.ip(), 9).into());
    let what = "Connect with private data that cannot be read";
    near.step(what);
    let mut request = Request::new();
    let started = call!(
        &end.connector,
        connect(
            end.qp.this(),
            octets.as_ptr().cast(),
            len,
            1,
            1,
            nowhere(),
            16,
            request.pointer()
        )
    );
    let returned = end!(request, &end.connector, started);
    status(what, Status::ACCESS_VIOLATION, returned)?;
    Ok(Pass::Right)
}

fn accept_unreadable(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let offer = Offer::new(&near, &[])?;
    let passive = &offer.passive;
    let what = "Accept with private data that cannot be read";
    near.step(what);
    let mut request = Request::new();
    let started = call!(
        &passive.connector,
        accept(passive.qp.this(), 1, 1, nowhere(), 16, request.pointer())
    );
    if started == Status::PENDING {
        // The request may wait for its peer, which completes nothing here.
        return status(what, Status::ACCESS_VIOLATION, started).map(|()| Pass::Right);
    }
    let returned = end!(request, &passive.connector, started);
    status(what, Status::ACCESS_VIOLATION, returned)?;
    Ok(Pass::Right)
}

fn reject_unreadable(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let offer = Offer::new(&near, &[])?;
    let what = "Reject with private data that cannot be read";
    near.step(what);
    let start: *const c_void = nowhere();
    let returned = call!(&offer.passive.connector, reject(start, 16));
    status(what, Status::ACCESS_VIOLATION, returned)?;
    Ok(Pass::Right)
}
