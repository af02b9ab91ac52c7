//! `IND2Adapter::Query`.

use conform_report::{Pass, Step, Verdict, ensure};
use netdirect::{Status, VERSION_1, VERSION_2};
use netdirect_com::abi::AdapterInfo;
use netdirect_conform::{Check, Unopened};

use crate::call::call;
use crate::client::Client;
use crate::common::{check, status};
use crate::query::Query;

/// The length of `ND2_ADAPTER_INFO` in octets.
#[expect(clippy::cast_possible_truncation, reason = "a small structure")]
const EXACT: u32 = size_of::<AdapterInfo>() as u32;

pub(crate) const CHECKS: &[Check] = &[
    check(
        "ADPT-010.small",
        "asks for the adapter's limits with a buffer that is much too small, and with one that lacks an octet",
        |unopened| query(unopened, VERSION_2, |query| query.too_small(8)),
    )
    .also(&["GEN-016"]),
    check(
        "ADPT-011.none",
        "asks how much room the adapter's limits need",
        |unopened| query(unopened, VERSION_2, |query| query.none()),
    ),
    check(
        "ADPT-012.large",
        "asks for the adapter's limits with a buffer that is too large",
        |unopened| query(unopened, VERSION_2, |query| query.large().map(drop)),
    ),
    check(
        "ADPT-013.exact",
        "asks for the adapter's limits as tests do: version 0x20000, and room for exactly the structure",
        |unopened| {
            query(unopened, VERSION_2, |query| {
                let (returned, _) = query.with(EXACT);
                let what = format!("Query with {EXACT} octets and version {VERSION_2:#x}");
                status(&what, Status::SUCCESS, returned)
            })
        },
    )
    .also(&["TST-023"]),
    check(
        "AMB-017.versions",
        "asks for the adapter's limits with either version, and looks which version comes back",
        |unopened| queries(unopened, &[VERSION_1, VERSION_2], reports_version),
    )
    .also(&["ADPT-014", "INFO-001"]),
];

fn query(unopened: Unopened, version: u32, look: impl Fn(&Query<'_>) -> Step) -> Verdict {
    queries(unopened, &[version], |query, _| look(query))
}

fn queries(
    unopened: Unopened,
    versions: &[u32],
    look: impl Fn(&Query<'_>, u32) -> Step,
) -> Verdict {
    let client = Client::new(unopened)?;
    let provider = client.provider()?;
    let adapter = client.adapter(&provider)?;
    for version in versions {
        let query = Query {
            client: &client,
            name: "Query",
            head: Some(*version),
            call: &|info, size| call!(&adapter, query(info.cast(), size)),
        };
        look(&query, *version)?;
    }
    Ok(Pass::Right)
}

/// Checks that the adapter accepts the version, and reports the version that it has filled in: this one, or an older one.
fn reports_version(query: &Query<'_>, version: u32) -> Step {
    let (returned, room) = query.with(super::query::PLENTY);
    let what = format!("Query with version {version:#x}");
    status(&what, Status::SUCCESS, returned)?;
    let octets = room.octets();
    let back = u32::from_ne_bytes([octets[0], octets[1], octets[2], octets[3]]);
    ensure(
        [VERSION_1, VERSION_2].contains(&back) && back <= version,
        format!("a version that is filled in, of at most {version:#x}, from {what}"),
        format!("{back:#x}"),
    )
}
