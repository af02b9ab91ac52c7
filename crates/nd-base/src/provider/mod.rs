//! The providers, and the table of URL schemes, which says which provider serves a URL. Nothing else in `nd` names a provider.
//!
//! A URL is `SCHEME://NAME`, and the scheme says what a name is. All other modules see only the traits of `netdirect`.

mod openings;
mod options;
mod schemes;
mod security;
mod shared_memory;

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netdirect::{Adapter, AdapterId, Error, Provider, Status};
pub use softnd::capture::CaptureOptions;
pub use softnd::{PeerNetwork, PeerTable, UNKNOWN_PEERS, processors, user_files};

use self::openings::{Flush, Started};
pub use self::openings::{check_security, wrong_plan};
pub use self::options::AdapterOptions;
pub use self::schemes::{
    EXAMPLE, OVER_UDP, check_for_two_processes, chooses_crc, help, is_library, is_of_one_adapter,
    is_over_udp, is_simulated, knows_stacks,
};
use self::schemes::{Place, SCHEMES, Scheme, check, find};
#[cfg(feature = "udp")]
pub use self::security::fingerprint_of;
pub use self::security::{Refusals, RefusedConnect, fingerprint, own_fingerprint};
pub use self::shared_memory::{
    OVER_TCP, has_shared_memory, refusal_of_shared_memory, shared_memory,
};
use crate::errors::{Failure, Result};

/// The name of this module in the log, where the user knows `nd` alone.
const LOG: &str = "nd::provider";

/// A provider, and the scheme that names its adapters.
#[derive(Debug)]
pub struct Backend {
    scheme: &'static Scheme,
    provider: Arc<dyn Provider>,
    capture: Option<(PathBuf, Box<dyn Flush>)>,
    fingerprint: Option<String>,
    refusals: Arc<Refusals>,
}

impl Backend {
    /// The provider of the URL, or the default provider. Creates the capture file, if one is wanted.
    pub fn new(url: Option<&str>, options: &AdapterOptions) -> Result<Self> {
        let (scheme, name) = match url {
            Some(url) => find(SCHEMES, url).map(|(scheme, name)| (scheme, Some(name)))?,
            None => (&SCHEMES[0], None),
        };
        Self::start(scheme, name, options)
    }

    /// Every provider that this machine has.
    pub fn all(options: &AdapterOptions) -> impl Iterator<Item = Result<Self>> {
        let schemes = SCHEMES.iter();
        let schemes =
            schemes.filter(|scheme| !matches!(scheme.place, Place::Simulation | Place::Library));
        let schemes = schemes.filter(|scheme| cfg!(feature = "udp") || !scheme.is_over_udp());
        schemes.filter_map(|scheme| match Self::start(scheme, None, options) {
            Err(failure) if scheme.place == Place::Devices => {
                let scheme = scheme.name;
                tracing::info!(target: LOG, "no adapters of {scheme}://: {failure}");
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
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// Why connections of the adapters have failed, as far as that is known.
    pub fn refusals(&self) -> &Arc<Refusals> {
        &self.refusals
    }

    /// The provider.
    pub fn provider(&self) -> &dyn Provider {
        self.provider.as_ref()
    }

    /// The provider, shared.
    pub fn shared(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.provider)
    }

    /// Opens the adapter that the URL names. The URL is the one that led to this provider.
    pub fn open(&self, url: &str) -> Result<Arc<dyn Adapter>> {
        let address = self.address(url)?;
        let id = self.provider.resolve_address(address);
        let opened = id.and_then(|id| self.provider.open_adapter(id));
        opened.map_err(|error| self.not_opened(url, &error))
    }

    /// An address of the adapter that the URL names. The URL is the one that led to this provider.
    pub fn address(&self, url: &str) -> Result<SocketAddr> {
        let (_, name) = find(SCHEMES, url)?;
        let address = (self.scheme.address)(self.provider(), name);
        address.map_err(|error| self.not_opened(url, &error))
    }

    /// An address for the other end of connections with the adapter at `address`: in a simulated network that of another
    /// adapter, else the same one.
    pub fn other_end(&self, address: SocketAddr) -> SocketAddr {
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
    pub fn open_id(&self, id: AdapterId, address: SocketAddr) -> Result<Arc<dyn Adapter>> {
        let doing = || format!("open the adapter of {}", address.ip());
        let opened = self.provider.open_adapter(id);
        opened.map_err(|error| not_opened(doing(), &error))
    }

    /// A URL that names the adapter with this address.
    pub fn url(&self, address: SocketAddr) -> String {
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
    pub fn unlisted(&self) -> Result<Vec<(String, String)>> {
        let unlisted = netdirect_verbs::unlisted_devices(&*self.provider);
        let unlisted = unlisted.map_err(|error| Failure::nd("list the devices", &error))?;
        let scheme = self.scheme.name;
        let named = unlisted.into_iter().filter_map(|device| {
            let Some(name) = device.name else {
                let failure = device.why;
                tracing::info!(target: LOG, "no adapters of {scheme}://: {failure}");
                return None;
            };
            Some((format!("{scheme}://{name}"), device.why))
        });
        Ok(named.collect())
    }

    /// Writes out what the capture still holds. A capture that could not be written whole is an error.
    pub fn finish(&self) -> Result<()> {
        let Some((path, capture)) = &self.capture else {
            return Ok(());
        };
        capture.flush().map_err(|error| {
            Failure::io(format_args!("write the capture {}", path.display()), &error)
        })
    }
}

/// An adapter that could not be opened. An invalid argument is then an environment variable, with whose name the provider's text begins, or an
/// option that the system does not have. The text about such an option, or about a device that cannot be used now, ends with what to do.
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
            let of_variable = "correct the environment variable, or unset it";
            let (what, advice) = match what.rsplit_once(": ") {
                Some(parts) if !what.starts_with("SOFTND_") && shown.is_empty() => parts,
                _ => (what, of_variable),
            };
            failure(what).advise(advice.to_owned()).showing(shown)
        }
        _ => failure(what),
    }
}

/// Closes all connections whose peers do not learn from the system that the program ends: when what was sent has arrived, or after `limit`.
pub fn leave(limit: Duration) {
    softnd::close_connections(limit);
}

/// Addresses that several network interfaces of this machine have, each with the one that answers.
pub fn shared_addresses() -> Vec<impl Display> {
    softnd::shared_addresses()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_about_a_setting_depends_on_where_it_comes_from() {
        let text = |what: &str| {
            let error = Error::new(Status::INVALID_PARAMETER_MIX, what.to_owned());
            not_opened("open it", &error).to_string()
        };
        let of_variable = text("SOFTND_SAME_HOST is \"maybe\": it has to be 1 or 0");
        assert!(
            of_variable.ends_with("1 or 0); correct the environment variable, or unset it"),
            "{of_variable}"
        );
        let of_option = text("Windows has no such option: leave out `segment`");
        assert!(
            of_option.ends_with("no such option); leave out `segment`"),
            "{of_option}"
        );
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

    #[cfg(not(feature = "udp"))]
    #[test]
    fn without_udp_the_adapters_of_tcp_are_left_and_the_others_name_the_feature() {
        let options = AdapterOptions::default();
        let schemes =
            Backend::all(&options).map(|started| started.expect("a provider").scheme.name);
        assert!(schemes.collect::<Vec<_>>().contains(&"softnd+tcp"));
        let opened = Backend::new(Some("softnd+udp://127.0.0.1"), &options).map(drop);
        // `nd run --udp` asks this before it starts a program.
        let checked = check_security(&crate::args::SecurityArgs::default()).map(drop);
        for refused in [opened, checked] {
            let text = refused.expect_err("no UDP").to_string();
            assert!(text.contains("built without the feature `udp`"), "{text}");
        }
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
        for wrong in ["nonsense", "softnd+tcp://[::1", "::1]", "[127.0.0.1"] {
            let text = backend.open(wrong).expect_err(wrong).to_string();
            assert!(text.contains(&format!("cannot open {wrong}")), "{text}");
        }
    }
}
