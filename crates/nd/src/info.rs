//! `nd info`: the adapters of this machine and their limits.
//!
//! The first table has a row per adapter. One network interface with the same limits over several protocols is one row, with a URL
//! for each protocol. A second table has the limits, with a column per adapter. Adapters with the same
//! limits share a column, as the addresses of one software provider mostly do. A third table says which adapters have connections within this
//! machine through shared memory, and what the system refuses of it. Devices that cannot be used now are named on standard
//! error, with the reason, and so are addresses that several interfaces have.

use std::net::SocketAddr;

use netdirect::{Adapter, AdapterFlags, AdapterId, AdapterInfo};

use crate::errors::{Failure, Result};
use crate::output;
use crate::provider::{self, AdapterOptions, Backend};
use crate::stderr;
use crate::units;
use conform_report::table::{Align, Table};

/// Prints the adapter at `url`, or all adapters and why devices are none.
pub(crate) fn run(url: Option<&str>) -> Result<()> {
    let options = AdapterOptions::default();
    let found = match url {
        Some(url) => {
            let backend = Backend::new(Some(url), &options)?;
            vec![look_at(backend.open(url)?.as_ref(), |_| url.to_owned())?]
        }
        None => all(&options)?,
    };
    output::line(adapters(&found))?;
    output::line(limits(&found))?;
    let refusal = provider::refusal_of_shared_memory();
    let table = shared_memory(&found, refusal.as_deref());
    output::line(table.to_string().trim_end())
}

/// An adapter as it is shown.
#[derive(Debug)]
struct Found {
    /// One for each protocol that it speaks.
    urls: Vec<String>,
    addresses: Vec<SocketAddr>,
    info: AdapterInfo,
    /// For each of the URLs, whether its adapter has the option of shared memory.
    shares_memory: Vec<(String, bool)>,
}

/// All adapters of all providers, each once however many addresses it has (PROV-016), and however many protocols it speaks.
fn all(options: &AdapterOptions) -> Result<Vec<Found>> {
    let mut found: Vec<Found> = Vec::new();
    for backend in Backend::all(options) {
        let backend = backend?;
        let provider = backend.provider();
        let addresses = provider
            .query_address_list()
            .map_err(|error| Failure::nd("list the adapters", &error))?;
        for (url, why) in backend.unlisted()? {
            stderr::note(format_args!("{url} is no adapter: {why}"));
        }
        let mut seen: Vec<AdapterId> = Vec::new();
        for address in addresses {
            // An address may have been removed since the list was made (PROV-010).
            let Ok(id) = provider.resolve_address(address) else {
                continue;
            };
            if !seen.contains(&id) {
                seen.push(id);
                let adapter = backend.open_id(id, address)?;
                let next = look_at(adapter.as_ref(), |address| backend.url(address))?;
                match found.iter_mut().find(|known| known.is_same(&next)) {
                    Some(known) => {
                        known.urls.extend(next.urls);
                        known.shares_memory.extend(next.shares_memory);
                    }
                    None => found.push(next),
                }
            }
        }
    }
    for shared in provider::shared_addresses() {
        stderr::note(shared);
    }
    if found.is_empty() {
        return Err(Failure::new(
            "this machine has no adapter",
            "give a network interface an address",
        ));
    }
    Ok(found)
}

impl Found {
    /// Returns true if the other one is the same adapter over another protocol.
    fn is_same(&self, other: &Self) -> bool {
        self.info.adapter_id == other.info.adapter_id
            && self.info.vendor_id == other.info.vendor_id
            && self.info.device_id == other.info.device_id
            && self.addresses == other.addresses
            && have_same_limits(&self.info, &other.info)
    }
}

fn have_same_limits(one: &AdapterInfo, other: &AdapterInfo) -> bool {
    LIMITS.iter().all(|(_, value)| value(one) == value(other))
}

fn look_at(adapter: &dyn Adapter, url: impl Fn(SocketAddr) -> String) -> Result<Found> {
    let info = adapter
        .query()
        .map_err(|error| Failure::nd("query the adapter", &error))?;
    let addresses = adapter
        .query_address_list()
        .map_err(|error| Failure::nd("list its addresses", &error))?;
    let urls: Vec<_> = addresses
        .first()
        .map(|address| url(*address))
        .into_iter()
        .collect();
    let shares_memory = provider::has_shared_memory(adapter);
    Ok(Found {
        shares_memory: urls
            .iter()
            .map(|url| (url.clone(), shares_memory))
            .collect(),
        urls,
        addresses,
        info,
    })
}

fn adapters(found: &[Found]) -> Table {
    let heads = ["adapter", "id", "vendor", "device", "url", "addresses"];
    let mut table = Table::new(heads.map(|head| (head, Align::Left)));
    for (i, adapter) in found.iter().enumerate() {
        table.row([
            i.to_string(),
            adapter.info.adapter_id.to_string(),
            format!("{:#06x}", adapter.info.vendor_id),
            format!("{:#06x}", adapter.info.device_id),
            adapter.urls.first().cloned().unwrap_or_default(),
            addresses(&adapter.addresses),
        ]);
        for url in adapter.urls.iter().skip(1) {
            let mut cells: [String; 6] = Default::default();
            cells[4].clone_from(url);
            table.row(cells);
        }
    }
    table
}

fn addresses(all: &[SocketAddr]) -> String {
    let all: Vec<_> = all.iter().map(|address| address.ip().to_string()).collect();
    all.join(", ")
}

/// The third table: a line for each kind of adapters. `refusal` is the call that the system refuses.
fn shared_memory(found: &[Found], refusal: Option<&str>) -> Table {
    let heads = ["connections within this machine", "through shared memory"];
    let mut table = Table::new(heads.map(|head| (head, Align::Left)));
    let mut seen: Vec<String> = Vec::new();
    for (url, has_option) in found.iter().flat_map(|adapter| &adapter.shares_memory) {
        let kind = match url.split_once("://") {
            Some((scheme, _)) => format!("{scheme}://"),
            None => url.clone(),
        };
        if seen.contains(&kind) {
            continue;
        }
        let state = provider::shared_memory(url, *has_option, refusal);
        table.row([kind.clone(), state]);
        seen.push(kind);
    }
    table
}

/// One line of the second table: the name of a limit, and its value as text.
type Limit = (&'static str, fn(&AdapterInfo) -> String);

const LIMITS: &[Limit] = &[
    ("MaxRegistrationSize", |info| {
        units::bytes(info.max_registration_size)
    }),
    ("MaxWindowSize", |info| units::bytes(info.max_window_size)),
    ("MaxInitiatorSge", |info| count(info.max_initiator_sge)),
    ("MaxReceiveSge", |info| count(info.max_receive_sge)),
    ("MaxReadSge", |info| count(info.max_read_sge)),
    ("MaxTransferLength", |info| {
        units::bytes(info.max_transfer_length.into())
    }),
    ("MaxInlineDataSize", |info| {
        units::bytes(info.max_inline_data_size.into())
    }),
    ("MaxInboundReadLimit", |info| {
        count(info.max_inbound_read_limit)
    }),
    ("MaxOutboundReadLimit", |info| {
        count(info.max_outbound_read_limit)
    }),
    ("MaxReceiveQueueDepth", |info| {
        count(info.max_receive_queue_depth)
    }),
    ("MaxInitiatorQueueDepth", |info| {
        count(info.max_initiator_queue_depth)
    }),
    ("MaxSharedReceiveQueueDepth", |info| {
        count(info.max_shared_receive_queue_depth)
    }),
    ("MaxCompletionQueueDepth", |info| {
        count(info.max_completion_queue_depth)
    }),
    ("InlineRequestThreshold", |info| {
        units::bytes(info.inline_request_threshold.into())
    }),
    ("LargeRequestThreshold", |info| {
        units::bytes(info.large_request_threshold.into())
    }),
    ("MaxCallerData", |info| {
        units::bytes(info.max_caller_data.into())
    }),
    ("MaxCalleeData", |info| {
        units::bytes(info.max_callee_data.into())
    }),
    ("in-order DMA", |info| {
        flag(info, AdapterFlags::IN_ORDER_DMA_SUPPORTED)
    }),
    ("CQ interrupt moderation", |info| {
        flag(info, AdapterFlags::CQ_INTERRUPT_MODERATION_SUPPORTED)
    }),
    ("multiple engines", |info| {
        flag(info, AdapterFlags::MULTI_ENGINE_SUPPORTED)
    }),
    ("CQ resize", |info| {
        flag(info, AdapterFlags::CQ_RESIZE_SUPPORTED)
    }),
    ("loopback connections", |info| {
        flag(info, AdapterFlags::LOOPBACK_CONNECTIONS_SUPPORTED)
    }),
];

fn count(n: u32) -> String {
    match n {
        0 => "none".to_owned(),
        n => units::count(n.into()),
    }
}

fn flag(info: &AdapterInfo, flag: AdapterFlags) -> String {
    if info.flags.contains(flag) {
        "yes"
    } else {
        "no"
    }
    .to_owned()
}

fn limits(found: &[Found]) -> Table {
    let kinds = alike(found);
    let heads = kinds.iter().map(|(numbers, _)| match numbers.as_slice() {
        [one] => format!("adapter {one}"),
        several => format!("adapters {}", several.join(", ")),
    });
    let columns = std::iter::once(("limit".to_owned(), Align::Left))
        .chain(heads.map(|head| (head, Align::Right)));
    let mut table = Table::new(columns);
    for (name, value) in LIMITS {
        table.row(
            std::iter::once((*name).to_owned()).chain(kinds.iter().map(|(_, info)| value(info))),
        );
    }
    table
}

/// Adapters with the same limits, by the numbers of their rows.
fn alike(found: &[Found]) -> Vec<(Vec<String>, AdapterInfo)> {
    let mut kinds: Vec<(Vec<String>, AdapterInfo)> = Vec::new();
    for (i, adapter) in found.iter().enumerate() {
        match kinds
            .iter_mut()
            .find(|(_, info)| have_same_limits(info, &adapter.info))
        {
            Some((numbers, _)) => numbers.push(i.to_string()),
            None => kinds.push((vec![i.to_string()], adapter.info)),
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use netdirect::AdapterId;

    fn found(id: u64, caller: u32) -> Found {
        let mut info = AdapterInfo::default();
        info.adapter_id = AdapterId(id);
        info.max_caller_data = caller;
        info.flags = AdapterFlags::CQ_RESIZE_SUPPORTED;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Found {
            urls: vec!["some://adapter".to_owned()],
            addresses: vec![address],
            info,
            shares_memory: Vec::new(),
        }
    }

    #[test]
    fn adapters_that_are_alike_share_a_column() {
        let all = [found(1, 248), found(2, 248), found(3, 56)];
        let text = limits(&all).to_string();
        let head = text.lines().next().unwrap_or_default();
        assert!(
            head.contains("adapters 0, 1") && head.contains("adapter 2"),
            "{text}"
        );
        assert!(
            text.lines()
                .any(|line| line.contains("MaxCallerData") && line.contains("248 B")),
            "{text}"
        );
    }

    #[test]
    fn every_limit_has_a_line_and_every_adapter_a_row() {
        let all = [found(1, 248), found(2, 248)];
        assert_eq!(limits(&all).to_string().lines().count(), LIMITS.len() + 2);
        let text = adapters(&all).to_string();
        assert_eq!(text.lines().count(), 4);
        assert!(text.contains("0x1") && text.contains("127.0.0.1"), "{text}");
    }

    #[test]
    fn each_kind_of_adapters_has_one_line_about_shared_memory() {
        let mut all = [found(1, 248), found(2, 248)];
        for adapter in &mut all {
            let urls = ["one://a", "other://b"].map(|url| (url.to_owned(), true));
            adapter.shares_memory = urls.into();
        }
        let text = shared_memory(&all, None).to_string();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines[2].starts_with("one://") && lines[2].ends_with(" yes"),
            "{text}"
        );
        assert!(lines[3].starts_with("other://"), "{text}");
        let text = shared_memory(&all, Some("the system refuses a call")).to_string();
        assert!(text.contains("the system refuses a call"), "{text}");
    }

    #[test]
    fn an_adapter_with_several_protocols_has_a_url_for_each() {
        let mut both = found(1, 248);
        assert!(both.is_same(&found(1, 248)));
        assert!(!both.is_same(&found(2, 248)) && !both.is_same(&found(1, 56)));
        both.urls.push("other://adapter".to_owned());
        let text = adapters(&[both, found(2, 248)]).to_string();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[2].contains("some://adapter"), "{text}");
        assert_eq!(lines[3], "other://adapter");
    }
}
