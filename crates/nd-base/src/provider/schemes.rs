//! The table of URL schemes, and the questions that the table answers.

use std::fmt::{self, Debug};
use std::net::SocketAddr;

use netdirect::Provider;

use super::openings::{self, Started};
use super::options::{AdapterOptions, Choice};
use crate::errors::{Failure, Result};

/// The table. Without a URL, the first line is used.
pub(super) const SCHEMES: &[Scheme] = &[
    Scheme {
        name: "softnd+tcp",
        example: EXAMPLE,
        what: "iWARP in software, over the TCP sockets of the system",
        takes: &[
            Choice::Capture,
            Choice::Fault,
            Choice::Crc,
            Choice::NoCrc,
            Choice::SameHost,
            Choice::Peer,
            Choice::Congestion,
            Choice::Segment,
            Choice::Boundaries,
            Choice::Markers,
        ],
        place: Place::Machine,
        start: openings::softnd_tcp,
        address: openings::by_address,
    },
    Scheme {
        name: "softnd+udp",
        example: "softnd+udp://127.0.0.1",
        what: "iWARP in software over UDP, encrypted by QUIC",
        takes: &[
            Choice::Capture,
            Choice::Fault,
            Choice::Congestion,
            Choice::Pin,
            Choice::Ca,
            Choice::ServerName,
            Choice::Insecure,
            Choice::Cert,
        ],
        place: Place::Machine,
        start: openings::softnd_udp,
        address: openings::by_address,
    },
    Scheme {
        name: "softnd+sim",
        example: "softnd+sim://seed=7",
        what: "the same in a simulated network, which ends with the process",
        takes: &[
            Choice::Capture,
            Choice::Fault,
            Choice::Crc,
            Choice::NoCrc,
            Choice::Peer,
            Choice::Segment,
            Choice::Boundaries,
            Choice::Markers,
        ],
        place: Place::Simulation,
        start: openings::softnd_sim,
        address: openings::first_address,
    },
    Scheme {
        name: "verbs",
        example: "verbs://siw0",
        what: "RDMA devices that rdma-core knows: cards, and the kernel's siw",
        takes: &[],
        place: Place::Devices,
        start: openings::verbs,
        address: openings::by_device,
    },
    Scheme {
        name: "com",
        example: openings::LIBRARY,
        what: "a library in C or C++ that exports a NetworkDirect provider",
        takes: &[],
        place: Place::Library,
        start: openings::com,
        address: openings::first_address,
    },
];

/// A URL as it may be typed on any machine.
pub const EXAMPLE: &str = "softnd+tcp://127.0.0.1";

/// A URL for the adapters over UDP, whichever of them has or reaches an address.
pub const OVER_UDP: &str = "softnd+udp://";

/// One line of the table.
#[derive(Clone, Copy)]
pub(super) struct Scheme {
    /// The part of a URL in front of `://`.
    pub(super) name: &'static str,
    pub(super) example: &'static str,
    /// A short description of the adapters.
    pub(super) what: &'static str,
    /// The choices that the adapters know. Other choices are refused.
    pub(super) takes: &'static [Choice],
    pub(super) place: Place,
    /// Makes the provider, for the name in a URL if there is one.
    pub(super) start: fn(&AdapterOptions, Option<&str>) -> Result<Started>,
    /// An address of the adapter that has the name.
    pub(super) address: fn(&dyn Provider, &str) -> netdirect::Result<SocketAddr>,
}

impl Scheme {
    /// Returns true for the adapters over UDP.
    pub(super) fn is_over_udp(&self) -> bool {
        OVER_UDP.strip_suffix("://") == Some(self.name)
    }
}

/// Where the adapters of a scheme are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// They are those of this machine, and are listed without a URL.
    Machine,
    /// Each provider has its own simulated network, with several adapters.
    Simulation,
    /// They are devices of this machine, which are listed without a URL where the machine has what they need.
    Devices,
    /// They are those of a library that the URL names.
    Library,
}

impl Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scheme").field(&self.name).finish()
    }
}

/// The line of the URL's scheme, and the name in the URL. A name without a scheme belongs to the first line.
pub(super) fn find<'s, 'u>(schemes: &'s [Scheme], url: &'u str) -> Result<(&'s Scheme, &'u str)> {
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
pub(super) fn check(scheme: &Scheme, options: &AdapterOptions) -> Result<()> {
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
pub fn help() -> String {
    let mut text = String::from("Adapters are named by URLs:");
    let width = SCHEMES.iter().map(|scheme| scheme.example.len()).max();
    let width = width.unwrap_or_default();
    for scheme in SCHEMES {
        text += &format!("\n  {:width$}  {}", scheme.example, scheme.what);
    }
    text
}

/// Checks that two processes can use the adapter together.
pub fn check_for_two_processes(url: Option<&str>) -> Result<()> {
    match url {
        Some(url) if is_simulated(url)? => Err(Failure::new(
            format!("{url} has a network of its own, which the second process does not reach"),
            "name an adapter of this machine, see `nd info`",
        )),
        _ => Ok(()),
    }
}

/// Returns true if the adapters of a URL are those of a library with COM's entry points.
pub fn is_library(url: &str) -> bool {
    find(SCHEMES, url).is_ok_and(|(scheme, _)| scheme.place == Place::Library)
}

/// Returns true if the URL is of a network that only this process has, and that no other adapter reaches.
pub fn is_simulated(url: &str) -> Result<bool> {
    find(SCHEMES, url).map(|(scheme, _)| scheme.place == Place::Simulation)
}

/// Returns true if the adapters of the URL have an option for the stack of the other side.
pub fn knows_stacks(url: &str) -> bool {
    find(SCHEMES, url).is_ok_and(|(scheme, _)| scheme.takes.contains(&Choice::Peer))
}

/// Returns true if the adapters of the URL have an option for connections through shared memory.
pub(super) fn may_share_memory(url: &str) -> bool {
    find(SCHEMES, url).is_ok_and(|(scheme, _)| scheme.takes.contains(&Choice::SameHost))
}

/// Returns true if the URL names one adapter, and not only a scheme, for which an address decides the adapter.
pub fn is_of_one_adapter(url: &str) -> Result<bool> {
    find(SCHEMES, url).map(|(scheme, name)| scheme.place == Place::Simulation || !name.is_empty())
}

/// Returns true if the adapters of the URL have a choice whether to ask for CRCs.
pub fn chooses_crc(url: &str) -> Result<bool> {
    find(SCHEMES, url).map(|(scheme, _)| scheme.takes.contains(&Choice::NoCrc))
}

/// Returns true if the URL is of adapters over UDP.
pub fn is_over_udp(url: &str) -> Result<bool> {
    find(SCHEMES, url).map(|(scheme, _)| scheme.is_over_udp())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::args::{CaptureRoom, SecurityArgs, Stack};

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

    #[test]
    fn a_choice_that_a_scheme_does_not_know_is_refused_by_name() {
        let [first, other] = two();
        let all = AdapterOptions {
            capture: Some("x".into()),
            capture_room: CaptureRoom::default(),
            fault: Some("when each connect: refuse".into()),
            crc: Some(false),
            same_host: Some(true),
            same_host_wait: None,
            congestion: Some("cubic".into()),
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
        // CRCs are either asked for or not.
        assert_eq!(all.made().count(), first.takes.len() - 1);
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
    fn every_line_of_the_table_is_led_to_by_its_example() {
        for scheme in SCHEMES {
            let (found, _) = find(SCHEMES, scheme.example).expect(scheme.name);
            assert_eq!(found.name, scheme.name);
            assert!(help().contains(scheme.example));
        }
    }

    #[test]
    fn the_help_has_all_descriptions_in_one_column() {
        let help = help();
        let column = |scheme: &Scheme| {
            let line = help.lines().find(|line| line.contains(scheme.example));
            line.and_then(|line| line.find(scheme.what))
        };
        let first = column(&SCHEMES[0]);
        assert!(first.is_some());
        assert!(
            SCHEMES.iter().all(|scheme| column(scheme) == first),
            "{help}"
        );
    }
}
