//! The table of URL schemes, which says which provider serves a URL. Nothing else in `nd` names a provider.
//!
//! A URL is `SCHEME://NAME`, and the scheme says what a name is. All other modules see only the traits of `netdirect`.

mod security;

use std::fmt::{self, Debug, Display};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use netdirect::{Adapter, AdapterId, Error, Provider, Status};
use softnd::capture::Capture;
pub(crate) use softnd::capture::CaptureOptions;
use softnd::faults::Plan;
use softnd::peer::Peer;
pub(crate) use softnd::{PeerNetwork, PeerTable, STRANGERS, processors, user_files};

use crate::args::{AdapterArgs, CaptureRoom, SecurityArgs, Stack};
use crate::errors::{Failure, Result};

#[cfg(feature = "ring")]
pub(crate) use self::security::fingerprint_of;
pub(crate) use self::security::{Refusals, RefusedConnect, fingerprint, own_fingerprint};

/// The table. Without a URL, the first line is used.
const SCHEMES: &[Scheme] = &[
    Scheme {
        name: "softnd+tcp",
        example: EXAMPLE,
        what: "iWARP in software, over the TCP sockets of the system",
        takes: &[
            Choice::Capture,
            Choice::Fault,
            Choice::NoCrc,
            Choice::Peer,
            Choice::Segment,
            Choice::Boundaries,
            Choice::Markers,
        ],
        place: Place::Machine,
        start: softnd_tcp,
        address: by_address,
    },
    Scheme {
        name: "softnd+udp",
        example: "softnd+udp://127.0.0.1",
        what: "iWARP in software over UDP, encrypted by QUIC",
        takes: &[
            Choice::Capture,
            Choice::Fault,
            Choice::Pin,
            Choice::Ca,
            Choice::ServerName,
            Choice::Insecure,
            Choice::Cert,
        ],
        place: Place::Machine,
        start: softnd_udp,
        address: by_address,
    },
    Scheme {
        name: "softnd+sim",
        example: "softnd+sim://seed=7",
        what: "the same in a simulated network, which ends with the process",
        takes: &[
            Choice::Capture,
            Choice::Fault,
            Choice::NoCrc,
            Choice::Peer,
            Choice::Segment,
            Choice::Boundaries,
            Choice::Markers,
        ],
        place: Place::Simulation,
        start: softnd_sim,
        address: first_address,
    },
    Scheme {
        name: "verbs",
        example: "verbs://siw0",
        what: "RDMA devices that rdma-core knows: cards, and the kernel's siw",
        takes: &[],
        place: Place::Devices,
        start: verbs,
        address: by_device,
    },
    Scheme {
        name: "com",
        example: "com:///usr/lib/libsoftnd.so",
        what: "a library in C or C++ that exports a NetworkDirect provider",
        takes: &[],
        place: Place::Library,
        start: com,
        address: first_address,
    },
];

/// A URL as it may be typed on any machine.
pub(crate) const EXAMPLE: &str = "softnd+tcp://127.0.0.1";

/// A URL for the adapters over UDP, whichever of them has or reaches an address.
pub(crate) const OVER_UDP: &str = "softnd+udp://";

/// One line of the table.
#[derive(Clone, Copy)]
struct Scheme {
    /// The part of a URL in front of `://`.
    name: &'static str,
    example: &'static str,
    /// A short description of the adapters.
    what: &'static str,
    /// The choices that the adapters know. Other choices are refused.
    takes: &'static [Choice],
    place: Place,
    /// Makes the provider, for the name in a URL if there is one.
    start: fn(&AdapterOptions, Option<&str>) -> Result<Started>,
    /// An address of the adapter that has the name.
    address: fn(&dyn Provider, &str) -> netdirect::Result<SocketAddr>,
}

/// Where the adapters of a scheme are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// They are those of this machine, and are listed without a URL.
    Machine,
    /// Each provider has its own simulated network, with several adapters.
    Simulation,
    /// They are devices of this machine, which are listed without a URL where the machine has what they need.
    Devices,
    /// They are those of a library that the URL names.
    Library,
}

/// An option of adapters that the traits do not have. Not every provider knows each option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Capture,
    Fault,
    NoCrc,
    Peer,
    Segment,
    Boundaries,
    Markers,
    Pin,
    Ca,
    ServerName,
    Insecure,
    Cert,
}

impl Choice {
    /// Returns true if the choice is about certificates and trust.
    fn is_of_security(self) -> bool {
        matches!(
            self,
            Self::Pin | Self::Ca | Self::ServerName | Self::Insecure | Self::Cert
        )
    }
}

impl Display for Choice {
    /// The option as the command line has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Capture => "--capture",
            Self::Fault => "--fault",
            Self::NoCrc => "--no-crc",
            Self::Peer => "--peer",
            Self::Segment => "--segment",
            Self::Boundaries => "--boundaries",
            Self::Markers => "--markers",
            Self::Pin => "--pin",
            Self::Ca => "--ca",
            Self::ServerName => "--server-name",
            Self::Insecure => "--insecure",
            Self::Cert => "--cert",
        })
    }
}

/// The options for all adapters that a command opens.
#[derive(Clone, Debug)]
pub(crate) struct AdapterOptions {
    /// Records what is sent and received in this file.
    pub(crate) capture: Option<PathBuf>,
    /// The room that the capture may take.
    pub(crate) capture_room: CaptureRoom,
    /// A fault plan in the provider's language, or `@` and the name of a file with the plan.
    pub(crate) fault: Option<String>,
    /// Whether to ask for CRCs.
    pub(crate) crc: bool,
    /// The stack of the other side.
    pub(crate) peer: Option<Stack>,
    /// The trusted certificates, and this side's own certificate.
    pub(crate) security: SecurityArgs,
    /// TCP segments have at most this many octets.
    pub(crate) segment: Option<u16>,
    /// TCP segments never begin inside a CRC field.
    pub(crate) whole_crcs: bool,
    /// Whether to ask for MPA's markers.
    pub(crate) markers: bool,
    /// Whether a peer that closes on MPA revision 2 is tried again with revision 1. A provider that leaves MPA to a device never does that,
    /// so this option is never refused.
    pub(crate) revision_1_fallback: bool,
    /// Whether the provider is to be as narrow as the narrowest adapter. A provider without profiles stays as it is.
    pub(crate) strict: bool,
    /// All time limits towards peers. Callers first look whether the scheme has such options.
    pub(crate) time_limits: Option<Duration>,
    /// How long Connect waits for the peer's application, unless the limits above say so. A provider that has such a limit by
    /// itself stays as it is.
    pub(crate) reply: Duration,
    /// The largest buffer that can be registered, as for the time limits.
    pub(crate) largest_registration: Option<u64>,
    /// The time that the provider waits for its client to complete a connection before it sends the ready-to-receive message without it. A
    /// provider without such an option stays as it is.
    pub(crate) patience: Option<Duration>,
}

impl Default for AdapterOptions {
    fn default() -> Self {
        Self {
            capture: None,
            capture_room: CaptureRoom::default(),
            fault: None,
            crc: true,
            peer: None,
            security: SecurityArgs::default(),
            segment: None,
            whole_crcs: true,
            markers: false,
            revision_1_fallback: true,
            strict: false,
            time_limits: None,
            reply: Duration::from_secs(120),
            largest_registration: None,
            patience: None,
        }
    }
}

impl From<&AdapterArgs> for AdapterOptions {
    fn from(args: &AdapterArgs) -> Self {
        Self {
            capture: args.capture.clone(),
            capture_room: args.capture_room,
            fault: args.fault.clone(),
            crc: !args.no_crc,
            peer: args.peer,
            ..Self::default()
        }
    }
}

impl AdapterOptions {
    /// The options of a command that names peers outside this process.
    pub(crate) fn new(args: &AdapterArgs, security: &SecurityArgs) -> Self {
        Self {
            security: security.clone(),
            ..Self::from(args)
        }
    }

    /// The choices that differ from the default of all providers.
    fn made(&self) -> impl Iterator<Item = Choice> {
        let security = &self.security;
        [
            (Choice::Capture, self.capture.is_some()),
            (Choice::Fault, self.fault.is_some()),
            (Choice::NoCrc, !self.crc),
            (Choice::Peer, self.peer.is_some()),
            (Choice::Segment, self.segment.is_some()),
            (Choice::Boundaries, !self.whole_crcs),
            (Choice::Markers, self.markers),
            (Choice::Pin, !security.pins.is_empty()),
            (Choice::Ca, !security.authorities.is_empty()),
            (Choice::ServerName, security.server_name.is_some()),
            (Choice::Insecure, security.insecure),
            (Choice::Cert, security.certificate.is_some()),
        ]
        .into_iter()
        .filter_map(|(choice, made)| made.then_some(choice))
    }
}

/// A provider that a scheme has made.
struct Started {
    provider: Arc<dyn Provider>,
    capture: Option<Box<dyn Flush>>,
    /// The fingerprint of the certificate that the adapters show, if they show one.
    fingerprint: Option<String>,
    refusals: Arc<Refusals>,
}

/// Output that the adapters write while they work.
trait Flush: Debug + Send + Sync {
    /// Writes what is still held back. Also fails if an earlier write has failed.
    fn flush(&self) -> io::Result<()>;
}

/// A provider, and the scheme that names its adapters.
#[derive(Debug)]
pub(crate) struct Backend {
    scheme: &'static Scheme,
    provider: Arc<dyn Provider>,
    capture: Option<(PathBuf, Box<dyn Flush>)>,
    fingerprint: Option<String>,
    refusals: Arc<Refusals>,
}

impl Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scheme").field(&self.name).finish()
    }
}

impl Backend {
    /// The provider of the URL, or the default provider. Creates the capture file, if one is wanted.
    pub(crate) fn new(url: Option<&str>, options: &AdapterOptions) -> Result<Self> {
        let (scheme, name) = match url {
            Some(url) => find(SCHEMES, url).map(|(scheme, name)| (scheme, Some(name)))?,
            None => (&SCHEMES[0], None),
        };
        Self::start(scheme, name, options)
    }

    /// Every provider that this machine has.
    pub(crate) fn all(options: &AdapterOptions) -> impl Iterator<Item = Result<Self>> {
        let schemes = SCHEMES.iter();
        let schemes =
            schemes.filter(|scheme| !matches!(scheme.place, Place::Simulation | Place::Library));
        schemes.filter_map(|scheme| match Self::start(scheme, None, options) {
            Err(failure) if scheme.place == Place::Devices => {
                tracing::info!("no adapters of {}://: {failure}", scheme.name);
                None
            }
            started => Some(started),
        })
    }

    fn start(
        scheme: &'static Scheme,
        name: Option<&str>,
        options: &AdapterOptions,
    ) -> Result<Self> {
        check(scheme, options)?;
        let Started {
            provider,
            capture,
            fingerprint,
            refusals,
        } = (scheme.start)(options, name)?;
        Ok(Self {
            scheme,
            provider,
            capture: options.capture.clone().zip(capture),
            fingerprint,
            refusals,
        })
    }

    /// The fingerprint of the certificate that the adapters show, if they show one.
    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// Why connections of the adapters have failed, as far as that is known.
    pub(crate) fn refusals(&self) -> &Arc<Refusals> {
        &self.refusals
    }

    pub(crate) fn provider(&self) -> &dyn Provider {
        self.provider.as_ref()
    }

    /// The provider, shared.
    pub(crate) fn shared(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.provider)
    }

    /// Opens the adapter that the URL names. The URL is the one that led to this provider.
    pub(crate) fn open(&self, url: &str) -> Result<Arc<dyn Adapter>> {
        let address = self.address(url)?;
        let id = self.provider.resolve_address(address);
        let opened = id.and_then(|id| self.provider.open_adapter(id));
        opened.map_err(|error| self.not_opened(url, &error))
    }

    /// An address of the adapter that the URL names. The URL is the one that led to this provider.
    pub(crate) fn address(&self, url: &str) -> Result<SocketAddr> {
        let (_, name) = find(SCHEMES, url)?;
        let address = (self.scheme.address)(self.provider(), name);
        address.map_err(|error| self.not_opened(url, &error))
    }

    /// An address for the other end of connections with the adapter at `address`: in a simulated network that of another
    /// adapter, else the same one.
    pub(crate) fn other_end(&self, address: SocketAddr) -> SocketAddr {
        let others = match self.scheme.place {
            Place::Machine | Place::Devices | Place::Library => Vec::new(),
            Place::Simulation => self.provider.query_address_list().unwrap_or_default(),
        };
        let mut others = others.into_iter().filter(|other| *other != address);
        others.next().unwrap_or(address)
    }

    fn not_opened(&self, url: &str, error: &Error) -> Failure {
        let adapter = match self.scheme.place {
            Place::Machine => ", with an adapter that `nd info` shows",
            Place::Simulation => "",
            Place::Library => ", with the path of a library whose adapters have addresses",
            Place::Devices => ", with a device that `rdma link` shows",
        };
        let failure = not_opened(format_args!("open {url}"), error);
        match error.status() {
            Status::INVALID_ADDRESS => {
                failure.advise(format!("write it as {}{adapter}", self.scheme.example))
            }
            _ => failure,
        }
    }

    /// Opens the adapter with this number. `address` is one of its addresses.
    pub(crate) fn open_id(&self, id: AdapterId, address: SocketAddr) -> Result<Arc<dyn Adapter>> {
        let doing = || format!("open the adapter of {}", address.ip());
        let opened = self.provider.open_adapter(id);
        opened.map_err(|error| not_opened(doing(), &error))
    }

    /// A URL that names the adapter with this address.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        if let Some(device) = netdirect_verbs::device_name(&*self.provider, address) {
            return format!("{}://{device}", self.scheme.name);
        }
        match address {
            SocketAddr::V4(address) => format!("{}://{}", self.scheme.name, address.ip()),
            SocketAddr::V6(address) => format!("{}://[{}]", self.scheme.name, address.ip()),
        }
    }

    /// Devices of this machine that the provider does not list: the URL of each, and why. Without any device, a line of the log says
    /// so.
    pub(crate) fn unlisted(&self) -> Result<Vec<(String, String)>> {
        let unlisted = netdirect_verbs::unlisted_devices(&*self.provider);
        let unlisted = unlisted.map_err(|error| Failure::nd("list the devices", &error))?;
        let scheme = self.scheme.name;
        let named = unlisted.into_iter().filter_map(|device| {
            let Some(name) = device.name else {
                tracing::info!("no adapters of {scheme}://: {}", device.why);
                return None;
            };
            Some((format!("{scheme}://{name}"), device.why))
        });
        Ok(named.collect())
    }

    /// Writes out what the capture still holds. A capture that could not be written whole is an error.
    pub(crate) fn finish(&self) -> Result<()> {
        let Some((path, capture)) = &self.capture else {
            return Ok(());
        };
        capture.flush().map_err(|error| {
            Failure::io(format_args!("write the capture {}", path.display()), &error)
        })
    }
}

/// An adapter that could not be opened. An invalid argument is then an environment variable, which the provider's text names. The text
/// about a device that cannot be used now ends with what to do.
fn not_opened(doing: impl Display, error: &Error) -> Failure {
    let (status, what) = (error.status(), error.what());
    let failure = |what: &str| Failure::nd(doing, &Error::new(status, what.to_owned()));
    match status {
        Status::INVALID_PARAMETER => match what.rsplit_once("; ") {
            Some((what, advice)) => failure(what).advise(advice.to_owned()),
            None => failure(what),
        },
        Status::DEVICE_NOT_READY => match what.rsplit_once(": ") {
            Some((what, advice)) => failure(what).advise(advice.to_owned()),
            None => failure(what),
        },
        // A fault plan, with the place of its error in the lines below.
        Status::INVALID_PARAMETER_MIX => {
            let (what, shown) = what.split_once('\n').unwrap_or((what, ""));
            let advice = "correct the environment variable, or unset it";
            failure(what).advise(advice).showing(shown)
        }
        _ => failure(what),
    }
}

/// The line of the URL's scheme, and the name in the URL. A name without a scheme belongs to the first line.
fn find<'s, 'u>(schemes: &'s [Scheme], url: &'u str) -> Result<(&'s Scheme, &'u str)> {
    let (wanted, name) = match url.split_once("://") {
        Some((scheme, name)) => (Some(scheme), name),
        None => (None, url),
    };
    let found = schemes
        .iter()
        .find(|scheme| wanted.is_none_or(|wanted| wanted == scheme.name));
    found.map(|scheme| (scheme, name)).ok_or_else(|| {
        let known: Vec<_> = schemes.iter().map(|scheme| scheme.example).collect();
        Failure::new(
            format!("cannot open {url}: no provider serves such URLs"),
            format!("write it as {}", known.join(" or ")),
        )
    })
}

/// Checks that the scheme takes all choices that were made.
fn check(scheme: &Scheme, options: &AdapterOptions) -> Result<()> {
    match options.made().find(|choice| !scheme.takes.contains(choice)) {
        None => Ok(()),
        Some(choice) => Err(Failure::new(
            format!(
                "the adapters of {}:// do not know {choice}: they are {}",
                scheme.name, scheme.what
            ),
            if choice.is_of_security() {
                format!("leave out {choice}, or connect over UDP with --udp")
            } else {
                format!("leave out {choice}, or name another adapter")
            },
        )),
    }
}

/// The table for `nd --help`.
pub(crate) fn help() -> String {
    let mut text = String::from("Adapters are named by URLs:");
    for scheme in SCHEMES {
        text += &format!("\n  {}  {}", scheme.example, scheme.what);
    }
    text
}

/// Closes all connections whose peers do not learn from the system that the program ends: when what was sent has arrived, or after `limit`.
pub(crate) fn leave(limit: Duration) {
    softnd::close_connections(limit);
}

/// Checks that two processes can use the adapter together.
pub(crate) fn check_for_two_processes(url: Option<&str>) -> Result<()> {
    match url {
        Some(url) if is_simulated(url)? => Err(Failure::new(
            format!("{url} has a network of its own, which the second process does not reach"),
            "name an adapter of this machine, see `nd info`",
        )),
        _ => Ok(()),
    }
}

/// Returns true if the adapters of a URL are those of a library with COM's entry points.
pub(crate) fn is_library(url: &str) -> bool {
    find(SCHEMES, url).is_ok_and(|(scheme, _)| scheme.place == Place::Library)
}

/// Returns true if the URL is of a network that only this process has, and that no other adapter reaches.
pub(crate) fn is_simulated(url: &str) -> Result<bool> {
    find(SCHEMES, url).map(|(scheme, _)| scheme.place == Place::Simulation)
}

/// Returns true if the adapters of the URL have an option for the stack of the other side.
pub(crate) fn knows_stacks(url: &str) -> bool {
    find(SCHEMES, url).is_ok_and(|(scheme, _)| scheme.takes.contains(&Choice::Peer))
}

/// Returns true if the URL names one adapter, and not only a scheme, for which an address decides the adapter.
pub(crate) fn is_of_one_adapter(url: &str) -> Result<bool> {
    find(SCHEMES, url).map(|(scheme, name)| scheme.place == Place::Simulation || !name.is_empty())
}

/// Returns true if the adapters of the URL have a choice whether to ask for CRCs.
pub(crate) fn chooses_crc(url: &str) -> Result<bool> {
    find(SCHEMES, url).map(|(scheme, _)| scheme.takes.contains(&Choice::NoCrc))
}

/// Returns true if the URL is of adapters over UDP.
pub(crate) fn is_over_udp(url: &str) -> Result<bool> {
    find(SCHEMES, url).map(|(scheme, _)| OVER_UDP.starts_with(scheme.name))
}

/// Addresses that several network interfaces of this machine have, each with the one that answers.
pub(crate) fn shared_addresses() -> Vec<impl Display> {
    softnd::shared_addresses()
}

/// Opens an adapter by address, for schemes whose names are addresses: `127.0.0.1`, `::1`, `[::1]`, `[::ffff:127.0.0.1]`. A port
/// behind the address is ignored.
fn by_address(_: &dyn Provider, name: &str) -> netdirect::Result<SocketAddr> {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
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
fn by_device(provider: &dyn Provider, name: &str) -> netdirect::Result<SocketAddr> {
    by_address(provider, name).or_else(|_| netdirect_verbs::device_address(provider, name))
}

/// For schemes whose names describe a network: its first adapter.
fn first_address(provider: &dyn Provider, _: &str) -> netdirect::Result<SocketAddr> {
    let addresses = provider.query_address_list()?;
    let first = addresses.first().copied();
    first.ok_or_else(|| Error::new(Status::INVALID_ADDRESS, "the network has no adapter"))
}

impl Flush for Capture {
    fn flush(&self) -> io::Result<()> {
        Self::flush(self)
    }
}

fn softnd_tcp(options: &AdapterOptions, _: Option<&str>) -> Result<Started> {
    let (chosen, capture) = softnd_options(options)?;
    Ok(Started {
        provider: softnd::provider(chosen),
        capture,
        fingerprint: None,
        refusals: Arc::default(),
    })
}

fn softnd_udp(options: &AdapterOptions, _: Option<&str>) -> Result<Started> {
    let refusals = Arc::new(Refusals::of_udp());
    let security = security::security(&options.security, &refusals)?;
    // Without cryptography, no adapter can be opened. The error comes then.
    let fingerprint = security.fingerprint().ok();
    let (chosen, capture) = softnd_options(options)?;
    Ok(Started {
        provider: softnd::udp_provider(chosen.security(security)),
        capture,
        fingerprint: fingerprint.map(|fingerprint| fingerprint.to_string()),
        refusals,
    })
}

fn softnd_sim(options: &AdapterOptions, name: Option<&str>) -> Result<Started> {
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

fn verbs(options: &AdapterOptions, _: Option<&str>) -> Result<Started> {
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

/// Libraries for Windows have handles of Windows, which the import does not know yet.
#[cfg(windows)]
fn com(_: &AdapterOptions, _: Option<&str>) -> Result<Started> {
    Err(Failure::new(
        "com:// does not work on Windows yet",
        "use softnd+sim://, or run the library on Linux",
    ))
}

#[cfg(unix)]
fn com(options: &AdapterOptions, path: Option<&str>) -> Result<Started> {
    let path = path.filter(|path| !path.is_empty()).ok_or_else(|| {
        let advice = "write the path of the library behind it: com:///usr/lib/libsoftnd.so";
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
#[cfg(unix)]
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
        .crc(*crc)
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
pub(crate) fn check_security(args: &SecurityArgs) -> Result<String> {
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
pub(crate) fn wrong_plan(error: &dyn Display) -> Failure {
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
    use clap::ValueEnum;

    use super::*;

    /// A table with a second provider, which knows fewer options.
    fn two() -> [Scheme; 2] {
        let other = Scheme {
            name: "other",
            example: "other://card0",
            what: "cards",
            takes: &[Choice::Peer],
            ..SCHEMES[0]
        };
        [SCHEMES[0], other]
    }

    #[test]
    fn a_url_is_found_by_its_scheme_and_a_name_alone_by_the_first() {
        let two = two();
        let found = |url| find(&two, url).map(|(scheme, name)| (scheme.name, name.to_owned()));
        for (url, scheme, name) in [
            ("other://card0", "other", "card0"),
            ("softnd+tcp://[::1]", "softnd+tcp", "[::1]"),
            ("127.0.0.1", "softnd+tcp", "127.0.0.1"),
        ] {
            assert_eq!(found(url).expect(url), (scheme, name.to_owned()));
        }
        for url in ["cards://x", "://x", "softnd://127.0.0.1"] {
            let text = found(url).expect_err(url).to_string();
            assert!(text.starts_with(&format!("cannot open {url}: ")), "{text}");
            let known = "write it as softnd+tcp://127.0.0.1 or other://card0";
            assert!(text.ends_with(known), "{text}");
        }
    }

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
    fn a_choice_that_a_scheme_does_not_know_is_refused_by_name() {
        let [first, other] = two();
        let all = AdapterOptions {
            capture: Some("x".into()),
            capture_room: CaptureRoom::default(),
            fault: Some("when each connect: refuse".into()),
            crc: false,
            peer: Some(Stack::Siw),
            security: SecurityArgs::default(),
            segment: Some(1448),
            whole_crcs: false,
            markers: true,
            revision_1_fallback: false,
            strict: true,
            time_limits: None,
            reply: Duration::from_secs(1),
            largest_registration: None,
            patience: None,
        };
        assert_eq!(all.made().count(), first.takes.len());
        assert!(check(&first, &all).is_ok());
        let text = check(&other, &all).expect_err("a capture").to_string();
        assert_eq!(
            text,
            "the adapters of other:// do not know --capture: they are cards; \
             leave out --capture, or name another adapter"
        );
        let plain = AdapterOptions {
            peer: Some(Stack::Siw),
            revision_1_fallback: false,
            ..AdapterOptions::default()
        };
        assert!(check(&other, &plain).is_ok());
        assert_eq!(AdapterOptions::default().made().count(), 0);
    }

    #[test]
    fn a_plan_that_is_wrong_is_shown_with_the_place() {
        let start = |plan: &str| {
            let options = AdapterOptions {
                fault: Some(plan.into()),
                ..AdapterOptions::default()
            };
            Backend::new(None, &options)
                .map(drop)
                .map_err(|failure| failure.to_string())
        };
        assert_eq!(start("when each connect: refuse"), Ok(()));
        let text = start("when each connect: refused").expect_err("a wrong word");
        let (line, shown) = text.split_once('\n').expect("several lines");
        assert_eq!(
            line,
            "cannot use what --fault gives: fault plan, line 1, column 20: \
             expected `refuse`, `hold` or `remove`, found `refused`; \
             see the language on the page Fault plans of the book (docs/use/faults.md)"
        );
        assert_eq!(
            shown,
            "  when each connect: refused\n                     ^"
        );
        let text = start("when 1st Regster called: fail with ND_NO_MEMORY").expect_err("no call");
        assert!(
            text.contains("line 1, column 10: expected a call: one of `Any`, "),
            "{text}"
        );
        let text = start("@/nonexistent/plan").expect_err("no file");
        assert!(
            text.contains("cannot read the fault plan /nonexistent/plan: "),
            "{text}"
        );
    }

    #[test]
    fn every_line_of_the_table_is_led_to_by_its_example() {
        for scheme in SCHEMES {
            let (found, _) = find(SCHEMES, scheme.example).expect(scheme.name);
            assert_eq!(found.name, scheme.name);
            assert!(help().contains(scheme.example));
        }
    }

    #[test]
    fn every_peer_that_is_known_can_be_named() {
        let stacks = Stack::value_variants().iter().copied().map(known_peer);
        assert!(stacks.eq(Peer::KNOWN));
    }

    #[test]
    fn a_device_that_cannot_be_used_is_told_with_what_to_do() {
        let what = "the port of the RDMA device x is down: bring its network interface up";
        let error = Error::new(Status::DEVICE_NOT_READY, what);
        assert_eq!(
            not_opened("open verbs://x", &error).to_string(),
            "cannot open verbs://x: the device cannot be used now (ND_DEVICE_NOT_READY: \
             the port of the RDMA device x is down); bring its network interface up"
        );
    }

    #[test]
    fn an_adapter_is_opened_by_its_address_in_any_form() {
        let backend = Backend::new(None, &AdapterOptions::default()).expect("the first line");
        for url in [
            "127.0.0.1",
            "softnd+tcp://127.0.0.1",
            "127.0.0.1:80",
            "::ffff:127.0.0.1",
            "softnd+tcp://[::ffff:127.0.0.1]",
            "[::ffff:127.0.0.1]:80",
        ] {
            backend.open(url).expect(url);
        }
        let text = backend
            .open("nonsense")
            .expect_err("no address")
            .to_string();
        assert!(text.contains("cannot open nonsense"), "{text}");
    }
}
