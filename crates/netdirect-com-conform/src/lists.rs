//! Lists of addresses, of a provider and of an adapter.

use conform_report::{Pass, Step, Verdict, ensure};
use netdirect_com::abi::{SocketAddress, SocketAddressList};
use netdirect_conform::{Check, Unopened};

use crate::call::call;
use crate::client::Client;
use crate::common::check;
use crate::open_adapter::OpenAdapter;
use crate::query::{Query, QueryBuffer};

pub(crate) const CHECKS: &[Check] = &[
    check(
        "PROV-007.small",
        "asks the provider for its addresses with a buffer that is much too small, and with one that lacks an octet",
        |unopened| provider(unopened, |query| query.too_small(4)),
    )
    .also(&["GEN-016"]),
    check(
        "PROV-008.large",
        "asks the provider for its addresses with a buffer that is too large",
        |unopened| provider(unopened, |query| query.large().map(drop)),
    )
    .also(&["GEN-016"]),
    check(
        "PROV-009.none",
        "asks the provider how much room its addresses need",
        |unopened| provider(unopened, |query| query.none()),
    )
    .also(&["GEN-016"]),
    check(
        "PROV-011.layout",
        "looks where the addresses of the provider's list lie",
        |unopened| provider(unopened, layout),
    ),
    check(
        "ADPT-018.small",
        "asks the adapter for its addresses with a buffer that is much too small, and with one that lacks an octet",
        |unopened| adapter(unopened, |query| query.too_small(4)),
    ),
    check(
        "ADPT-019.sizes",
        "asks the adapter how much room its addresses need, and for them with a buffer that is too large",
        |unopened| {
            adapter(unopened, |query| {
                query.none()?;
                query.large().map(drop)
            })
        },
    ),
];

fn provider(unopened: Unopened, look: impl FnOnce(&Query<'_>) -> Step) -> Verdict {
    let client = Client::new(unopened)?;
    let provider = client.provider()?;
    look(&Query {
        client: &client,
        name: "QueryAddressList",
        head: None,
        call: &|list, size| call!(&provider, query_address_list(list.cast(), size)),
    })?;
    Ok(Pass::Right)
}

fn adapter(unopened: Unopened, look: impl FnOnce(&Query<'_>) -> Step) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    look(&Query {
        client: &near.client,
        name: "the adapter's QueryAddressList",
        head: None,
        call: &|list, size| call!(&near.adapter, query_address_list(list.cast(), size)),
    })?;
    Ok(Pass::Right)
}

/// A number in the host's byte order in the octets that a method has left.
fn number<const N: usize>(octets: &[u8], at: usize) -> [u8; N] {
    let mut number = [0; N];
    number.copy_from_slice(&octets[at..at + N]);
    number
}

/// Checks that each address is in the buffer, behind the entries, within the size that the method reports, and does not overlap the others.
fn layout(query: &Query<'_>) -> Step {
    let (returned, room) = query.with(super::query::PLENTY);
    super::common::status(query.name, netdirect::Status::SUCCESS, returned)?;
    let places = places(&room)?;
    let entries = std::mem::offset_of!(SocketAddressList, addresses)
        + places.len() * size_of::<SocketAddress>();
    // A method that does not report the size used breaks another row.
    let end = (room.size() as usize).min(super::query::PLENTY as usize);
    let mut taken: Vec<(usize, usize)> = Vec::new();
    for (start, len) in places {
        let known = [16, 28].contains(&len);
        let place = start.wrapping_sub(room.start());
        let is_inside = place >= entries && place.checked_add(len).is_some_and(|last| last <= end);
        let is_alone = taken
            .iter()
            .all(|(from, to)| place >= *to || place + len <= *from);
        ensure(
            known && is_inside && is_alone,
            format!(
                "an address of 16 or 28 octets between octet {entries} and octet {end} of the buffer"
            ),
            format!("{len} octets at octet {}", place.cast_signed()),
        )?;
        taken.push((place, place + len));
    }
    Ok(())
}

/// The addresses' places and lengths.
fn places(room: &QueryBuffer) -> Step<Vec<(usize, usize)>> {
    let octets = room.octets();
    let count = i32::from_ne_bytes(number(&octets, 0));
    ensure(
        (1..=64).contains(&count),
        "a number of addresses at the front of the list",
        count.to_string(),
    )?;
    let head = std::mem::offset_of!(SocketAddressList, addresses);
    let entry = |index: usize| {
        let at = head + index * size_of::<SocketAddress>();
        let length = at + std::mem::offset_of!(SocketAddress, length);
        let length = i32::from_ne_bytes(number(&octets, length));
        let start = usize::from_ne_bytes(number(&octets, at));
        (start, usize::try_from(length).unwrap_or(usize::MAX))
    };
    Ok((0..count.unsigned_abs() as usize).map(entry).collect())
}
