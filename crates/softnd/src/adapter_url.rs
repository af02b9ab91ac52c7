//! URLs of adapters over TCP and UDP.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use netdirect::{Error, Result, Status};

use crate::provider::Protocol;
use crate::simulation;

/// The scheme of the URLs of this provider.
pub const SCHEME: &str = "softnd+tcp://";

/// The scheme of the URLs of the provider over UDP.
pub const UDP_SCHEME: &str = "softnd+udp://";

/// The protocol and the address of a URL, which may be the address alone. The port of the result is 0.
pub(crate) fn parse(url: &str) -> Result<(Protocol, SocketAddr)> {
    let (scheme, protocol) = match url.starts_with(UDP_SCHEME) {
        true => (UDP_SCHEME, Protocol::Quic),
        false => (SCHEME, Protocol::Streams),
    };
    let address = url.strip_prefix(scheme).unwrap_or(url);
    if let Some((scheme, _)) = address.split_once("://") {
        return refused(format!(
            "unknown scheme {scheme}:// in {url:?}; use {SCHEME}ADDRESS, {UDP_SCHEME}ADDRESS or {}seed=NUMBER",
            simulation::SCHEME
        ));
    }
    if let Ok(ip) = address.parse::<IpAddr>() {
        return Ok((protocol, SocketAddr::new(ip, 0)));
    }
    // Brackets, and in them a zone of a link-local address, are those of addresses with a port.
    if address.ends_with(']')
        && let Ok(v6) = format!("{address}:0").parse::<SocketAddrV6>()
    {
        return Ok((protocol, v6.into()));
    }
    if let Ok(with_port) = address.parse::<SocketAddr>() {
        let (bare, port) = (with_port.ip(), with_port.port());
        let bare = match bare {
            IpAddr::V4(_) => bare.to_string(),
            IpAddr::V6(_) => format!("[{bare}]"),
        };
        return refused(format!(
            "{url:?} has a port, and an adapter has none: open {scheme}{bare}, and give port {port} to Bind or Connect"
        ));
    }
    if address.starts_with('[') != address.ends_with(']') {
        return refused(format!(
            "{url:?} has one bracket of two; write an IPv6 address as {scheme}[::1]"
        ));
    }
    refused(format!(
        "{url:?} is not an address; expected {scheme}ADDRESS, for example {scheme}127.0.0.1"
    ))
}

fn refused<T>(what: String) -> Result<T> {
    Err(Error::new(Status::INVALID_ADDRESS, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_with_and_without_a_scheme() {
        for (url, expected) in [
            ("127.0.0.1", "127.0.0.1:0"),
            ("softnd+tcp://127.0.0.1", "127.0.0.1:0"),
            ("softnd+udp://127.0.0.1", "127.0.0.1:0"),
            ("::1", "[::1]:0"),
            ("[::1]", "[::1]:0"),
            ("softnd+tcp://[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]:0"),
            ("softnd+udp://[fe80::1%3]", "[fe80::1%3]:0"),
        ] {
            let (protocol, address) = parse(url).unwrap();
            assert_eq!(address.to_string(), expected, "{url}");
            let is_over_udp = url.starts_with(UDP_SCHEME);
            assert_eq!(matches!(protocol, Protocol::Quic), is_over_udp, "{url}");
        }
    }

    fn error(url: &str) -> String {
        let error = parse(url).map(|(_, address)| address).expect_err(url);
        assert_eq!(error.status(), Status::INVALID_ADDRESS);
        error.what().to_owned()
    }

    #[test]
    fn a_port_is_refused_with_the_url_without_it() {
        assert_eq!(
            error("127.0.0.1:80"),
            "\"127.0.0.1:80\" has a port, and an adapter has none: open softnd+tcp://127.0.0.1, and give port 80 to Bind or Connect"
        );
        for (url, instead) in [
            (
                "softnd+tcp://127.0.0.1:0",
                "open softnd+tcp://127.0.0.1, and",
            ),
            (
                "softnd+udp://10.0.0.1:7174",
                "open softnd+udp://10.0.0.1, and",
            ),
            ("[::1]:7174", "open softnd+tcp://[::1], and"),
        ] {
            let text = error(url);
            assert!(
                text.contains("has a port") && text.contains(instead),
                "{text}"
            );
        }
    }

    #[test]
    fn half_a_pair_of_brackets_is_refused() {
        for url in ["[::1", "::1]", "softnd+tcp://[::1", "softnd+udp://::1]"] {
            let text = error(url);
            assert!(text.contains("one bracket of two"), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_address() {
        for url in [
            "",
            "[]",
            "[[::1]]",
            "[127.0.0.1]",
            "localhost",
            "softnd+tcp://",
            "softnd+udp://eth0",
            "127.0.0.1:",
            "[::1]:x",
            "softnd+tcp:// 127.0.0.1",
        ] {
            let text = error(url);
            assert!(!text.contains("has a port"), "{text}");
        }
        assert!(error("http://127.0.0.1").contains("unknown scheme http://"));
    }
}
