//! Opens the provider of each scheme: what a provider makes of the options, and of the name in a URL.

use std::fmt::{Debug, Display};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use netdirect::{Error, Provider, Status};
use softnd::capture::Capture;
use softnd::faults::Plan;
use softnd::peer::Peer;

use super::options::AdapterOptions;
use super::security::{self, Refusals};
use crate::args::{CaptureRoom, SecurityArgs, Stack};
use crate::errors::{Failure, Result};

/// A provider that a scheme has made.
pub(super) struct Started {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) capture: Option<Box<dyn Flush>>,
    /// The fingerprint of the certificate that the adapters show, if they show one.
    pub(super) fingerprint: Option<String>,
    pub(super) refusals: Arc<Refusals>,
}

/// Output that the adapters write while they work.
pub(super) trait Flush: Debug + Send + Sync {
    /// Writes what is still held back. Also fails if an earlier write has failed.
    fn flush(&self) -> io::Result<()>;
}

/// Opens an adapter by address, for schemes whose names are addresses: `127.0.0.1`, `::1`, `[::1]`, `[::ffff:127.0.0.1]`. A port
/// behind the address is ignored.
pub(super) fn by_address(_: &dyn Provider, name: &str) -> netdirect::Result<SocketAddr> {
    // Both brackets, or none.
    let bare = name
        .strip_prefix('[')
        .map_or(Some(name), |rest| rest.strip_suffix(']'));
    let bare = bare.unwrap_or_default();
    let (ip, port) = match (bare.parse::<IpAddr>(), name.parse::<SocketAddr>()) {
        (Ok(ip), _) => (ip, 0),
        (_, Ok(address)) => (address.ip(), address.port()),
        _ => {
            let what = format!("{name:?} is not an address");
            return Err(Error::new(Status::INVALID_ADDRESS, what));
        }
    };
    Ok(SocketAddr::new(ip.to_canonical(), port))
}

/// Opens an adapter by the name of its device, or by an address.
pub(super) fn by_device(provider: &dyn Provider, name: &str) -> netdirect::Result<SocketAddr> {
    by_address(provider, name).or_else(|_| netdirect_verbs::device_address(provider, name))
}

/// For schemes whose names describe a network: its first adapter.
pub(super) fn first_address(provider: &dyn Provider, _: &str) -> netdirect::Result<SocketAddr> {
    let addresses = provider.query_address_list()?;
    let first = addresses.first().copied();
    first.ok_or_else(|| Error::new(Status::INVALID_ADDRESS, "the network has no adapter"))
}

impl Flush for Capture {
    fn flush(&self) -> io::Result<()> {
        Self::flush(self)
    }
}

pub(super) fn softnd_tcp(options: &AdapterOptions, _: Option<&str>) -> Result<Started> {
    let (chosen, capture) = softnd_options(options)?;
    Ok(Started {
        provider: softnd::provider(chosen),
        capture,
        fingerprint: None,
        refusals: Arc::default(),
    })
}

/// Refuses connections over UDP in a program that was built without them.
fn check_udp() -> Result<()> {
    if cfg!(feature = "udp") {
        return Ok(());
    }
    Err(Failure::new(
        "cannot connect over UDP: this program was built without the feature `udp`",
        "connect over TCP, or build with that feature",
    ))
}

pub(super) fn softnd_udp(options: &AdapterOptions, _: Option<&str>) -> Result<Started> {
    check_udp()?;
    let refusals = Arc::new(Refusals::of_udp());
    let security = security::security(&options.security, &refusals)?;
    // If the certificate cannot be made, no adapter can be opened. The error comes then.
    let fingerprint = security.fingerprint().ok();
    let (chosen, capture) = softnd_options(options)?;
    Ok(Started {
        provider: softnd::udp_provider(chosen.security(security)),
        capture,
        fingerprint: fingerprint.map(|fingerprint| fingerprint.to_string()),
        refusals,
    })
}

pub(super) fn softnd_sim(options: &AdapterOptions, name: Option<&str>) -> Result<Started> {
    let (chosen, capture) = softnd_options(options)?;
    let provider = softnd::simulation::provider(name.unwrap_or_default(), chosen);
    // The status is about addresses, but here the text of the URL is wrong.
    let provider = provider.map_err(|error| {
        let advice = "correct the URL; softnd+sim://seed=7 is one that works, and each number is another run";
        Failure::new(
            format!("cannot simulate a network: {}", error.what()),
            advice,
        )
    })?;
    Ok(Started {
        provider,
        capture,
        fingerprint: None,
        refusals: Arc::default(),
    })
}

pub(super) fn verbs(options: &AdapterOptions, _: Option<&str>) -> Result<Started> {
    let mut chosen = netdirect_verbs::Options::default();
    if let Some(limit) = options.time_limits {
        chosen = chosen.timeouts(|limits| limits.ready = Some(limit));
    }
    if let Some(octets) = options.largest_registration {
        chosen = chosen.registration_limit(octets);
    }
    let provider = netdirect_verbs::provider(chosen).map_err(|error| {
        let what = format!("cannot use RDMA devices: {}", error.reason());
        Failure::new(what, error.advice())
    })?;
    Ok(Started {
        provider,
        capture: None,
        fingerprint: None,
        refusals: Arc::default(),
    })
}

/// A URL that names a library.
pub(super) const LIBRARY: &str = if cfg!(windows) {
    r"com://C:\softnd\softnd.dll"
} else {
    "com:///usr/lib/libsoftnd.so"
};

pub(super) fn com(options: &AdapterOptions, path: Option<&str>) -> Result<Started> {
    let path = path.filter(|path| !path.is_empty()).ok_or_else(|| {
        let advice = format!("write the path of the library behind it: {}", LIBRARY);
        Failure::new("com:// names no library", advice)
    })?;
    // The user of `nd` has named it.
    let library = netdirect_com::import::TrustedLibrary {
        path: Path::new(path),
    };
    let provider = netdirect_com::import::provider(library)
        .map_err(|error| Failure::new(format!("cannot use {error}"), error.advice()))?;
    let configured = netdirect_com::import::configure(&*provider, &configuration(options));
    configured.map_err(|error| Failure::nd(format_args!("configure {path}"), &error))?;
    Ok(Started {
        provider,
        capture: None,
        fingerprint: None,
        refusals: Arc::default(),
    })
}

/// Lines of the configuration of a library that can be configured, for the options that every provider may know or not. A vendor's
/// library stays as it is.
fn configuration(options: &AdapterOptions) -> String {
    let mut lines = String::new();
    if options.strict {
        lines += "profile = \"strict\"\n";
    }
    let limits = [
        ("time_limit", options.time_limits),
        ("patience", options.patience),
    ];
    for (key, limit) in limits {
        if let Some(limit) = limit {
            lines += &format!("{key} = {:?}\n", limit.as_secs_f64());
        }
    }
    if let Some(octets) = options.largest_registration {
        lines += &format!("largest_registration = {octets}\n");
    }
    lines
}

fn softnd_options(options: &AdapterOptions) -> Result<(softnd::Options, Option<Box<dyn Flush>>)> {
    let AdapterOptions {
        capture,
        capture_room,
        fault,
        crc,
        same_host,
        same_host_wait,
        congestion,
        peer,
        security: _, // of one scheme alone
        segment,
        whole_crcs,
        markers,
        revision_1_fallback,
        strict,
        time_limits,
        reply,
        largest_registration,
        patience,
    } = options;
    let mut chosen = softnd::Options::default()
        .peer(peer.map_or(Peer::Any, known_peer))
        .markers(*markers)
        .whole_crcs(*whole_crcs)
        .revision_1_fallback(*revision_1_fallback)
        .timeouts(|limits| limits.reply = Some(*reply));
    if *strict {
        chosen = chosen.profile(softnd::Profile::Strict);
    }
    if let Some(limit) = *time_limits {
        // Not for the connection below: where a datagram of the handshake is lost, QUIC sends the next one after a second (RFC 9002
        // §6.2.2).
        chosen = chosen.timeouts(|limits| {
            limits.reply = Some(limit);
            limits.request = Some(limit);
            limits.ready = Some(limit);
            limits.hold_ready = Some(limit);
            limits.disconnect = Some(limit);
        });
    }
    if let Some(octets) = *largest_registration {
        chosen = chosen.limits(|limits| limits.registration_size = octets);
    }
    if let Some(patience) = *patience {
        chosen = chosen.timeouts(|limits| limits.hold_ready = Some(patience));
    }
    if let Some(crc) = *crc {
        chosen = chosen.crc(crc);
    }
    if let Some(same_host) = *same_host {
        chosen = chosen.same_host(same_host);
    }
    if same_host_wait.is_some() {
        chosen = chosen.timeouts(|limits| limits.same_host = *same_host_wait);
    }
    if let Some(name) = congestion {
        chosen = chosen.congestion(name);
    }
    if let Some(segment) = segment {
        chosen = chosen.segment(*segment);
    }
    if let Some(plan) = fault {
        let plan = Plan::load(plan).map_err(|error| wrong_plan(&error))?;
        chosen = chosen.faults(plan).map_err(|error| wrong_plan(&error))?;
    }
    let capture = capture.as_deref();
    let capture = capture
        .map(|path| create_capture(path, *capture_room))
        .transpose()?;
    if let Some(capture) = &capture {
        chosen = chosen.capture(capture.clone());
    }
    Ok((chosen, capture.map(|capture| Box::new(capture) as _)))
}

/// Checks certificates and trust, and returns the fingerprint of the certificate that is shown.
pub fn check_security(args: &SecurityArgs) -> Result<String> {
    check_udp()?;
    let refusals = Arc::new(Refusals::of_udp());
    let security = security::security(args, &refusals)?;
    match security.fingerprint() {
        Ok(fingerprint) => Ok(fingerprint.to_string()),
        Err(error) => Err(Failure::new(
            format!("cannot make a certificate: {error}"),
            "use an adapter over TCP",
        )),
    }
}

/// The error for a wrong fault plan, with the place below.
pub fn wrong_plan(error: &dyn Display) -> Failure {
    let text = error.to_string();
    let (what, shown) = text.split_once('\n').unwrap_or((&text, ""));
    let what = format!("cannot use what --fault gives: {what}");
    Failure::new(
        what,
        "see the language on the page Fault plans of the book (docs/use/faults.md)",
    )
    .showing(shown)
}

fn create_capture(path: &Path, room: CaptureRoom) -> Result<Capture> {
    room.options().create(path).map_err(|error| {
        let doing = format!("create the capture {}", path.display());
        Failure::io(doing, &error)
    })
}

fn known_peer(stack: Stack) -> Peer {
    match stack {
        Stack::Siw => Peer::Siw,
        Stack::Cxgb4 => Peer::Cxgb4,
        Stack::Irdma => Peer::Irdma,
        Stack::Qed => Peer::Qed,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::ValueEnum;

    use super::*;

    /// Connect waits for the peer's application without limit by default, and commands do not.
    #[test]
    fn every_command_limits_the_wait_for_a_reply() {
        for time_limits in [None, Some(Duration::from_secs(3))] {
            let options = AdapterOptions {
                time_limits,
                ..AdapterOptions::default()
            };
            let (chosen, _) = softnd_options(&options).expect("no capture");
            let limit = time_limits.unwrap_or(options.reply);
            let shown = format!("{chosen:?}");
            assert!(
                shown.contains(&format!("reply: Some({limit:?})")),
                "{shown}"
            );
        }
    }

    #[test]
    fn every_peer_that_is_known_can_be_named() {
        let stacks = Stack::value_variants().iter().copied().map(known_peer);
        assert!(stacks.eq(Peer::KNOWN));
    }
}
