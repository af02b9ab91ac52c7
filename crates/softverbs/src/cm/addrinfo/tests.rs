use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A host of two addresses, a service, and nothing else.
fn resolver(query: &NameQuery<'_>) -> Result<Vec<SocketAddr>, NameFailure> {
    if query.is_numeric && query.host == Some(c"host") {
        return Err(NameFailure::UnknownHost);
    }
    let port = match query.service.map(CStr::to_bytes) {
        None => 0,
        Some(b"7471") => 7471,
        Some(b"rdma") => 4791,
        Some(_) => return Err(NameFailure::UnknownService),
    };
    let hosts = match query.host.map(CStr::to_bytes) {
        Some(b"host") => vec!["2001:db8::1", "192.0.2.1"],
        Some(b"127.1") | None => vec!["127.0.0.1"],
        Some(b"empty") => vec![],
        Some(b"later") => return Err(NameFailure::TryAgain),
        Some(_) => return Err(NameFailure::UnknownHost),
    };
    let ips = hosts.into_iter().map(|one| one.parse::<IpAddr>().unwrap());
    Ok(ips.map(|ip| (ip, port).into()).collect())
}

fn hints(flags: AddrInfoFlags, family: AddressFamily) -> AddrInfoHints {
    AddrInfoHints {
        flags,
        family,
        ..AddrInfoHints::default()
    }
}

fn info(
    host: Option<&CStr>,
    service: Option<&CStr>,
    hints: AddrInfoHints,
) -> Result<AddrInfo, AddrInfoError> {
    address_info(host, service, Some(&hints), &resolver)
}

/// The source and the destination.
fn ends(
    host: Option<&CStr>,
    service: Option<&CStr>,
    flags: AddrInfoFlags,
    family: AddressFamily,
) -> (Option<SocketAddr>, Option<SocketAddr>) {
    let info = info(host, service, hints(flags, family)).unwrap();
    (info.source, info.destination)
}

fn failure(
    host: Option<&CStr>,
    service: Option<&CStr>,
    flags: AddrInfoFlags,
    family: AddressFamily,
) -> NameFailure {
    match info(host, service, hints(flags, family)) {
        Err(AddrInfoError::Name(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

const NONE: AddrInfoFlags = AddrInfoFlags::empty();
const PASSIVE: AddrInfoFlags = AddrInfoFlags::PASSIVE;
use AddressFamily::{Any, Ipv4, Ipv6};

#[test]
fn a_host_is_the_destination_or_what_a_listener_binds_to() {
    let to = Some(address("192.0.2.9:7471"));
    let (host, service) = (Some(c"192.0.2.9"), Some(c"7471"));
    assert_eq!(ends(host, service, NONE, Any), (None, to));
    assert_eq!(ends(host, service, PASSIVE, Any), (to, None));
    // The flags of the answer are those with which a listener is made.
    let flags = PASSIVE | AddrInfoFlags::NUMERIC_HOST | AddrInfoFlags::NO_ROUTE;
    let listener = info(host, service, hints(flags, Any)).unwrap();
    assert_eq!(
        (listener.flags, listener.family, listener.qp_type),
        (PASSIVE, Ipv4, QP_TYPE_RC)
    );
    assert_eq!(listener.port_space, PORT_SPACE_TCP);
}

#[test]
fn without_hints_a_host_is_the_destination() {
    let info = address_info(Some(c"::1"), Some(c"7"), None, &resolver).unwrap();
    assert_eq!(
        (info.source, info.destination, info.family),
        (None, Some(address("[::1]:7")), Ipv6)
    );
    let nothing = address_info(None, None, None, &resolver);
    assert!(
        matches!(&nothing, Err(AddrInfoError::Call(error)) if error.errno() == Errno::INVAL),
        "{nothing:?}"
    );
}

#[test]
fn without_a_host_a_listener_has_all_addresses_and_a_client_the_loopback() {
    for (flags, family, expected) in [
        (PASSIVE, Any, "0.0.0.0:7471"),
        (PASSIVE, Ipv4, "0.0.0.0:7471"),
        (PASSIVE, Ipv6, "[::]:7471"),
        (NONE, Any, "127.0.0.1:7471"),
        (NONE, Ipv6, "[::1]:7471"),
    ] {
        let (source, destination) = ends(None, Some(c"7471"), flags, family);
        assert_eq!(source.or(destination), Some(address(expected)));
        assert_eq!(source.is_some(), flags == PASSIVE);
    }
}

#[test]
fn the_family_chooses_among_the_addresses_of_a_host() {
    // The family counts with and without RAI_FAMILY, as in rdma-core's library.
    for flags in [NONE, AddrInfoFlags::FAMILY] {
        for (family, expected) in [
            (Any, "[2001:db8::1]:7471"),
            (Ipv6, "[2001:db8::1]:7471"),
            (Ipv4, "192.0.2.1:7471"),
        ] {
            let (_, found) = ends(Some(c"host"), Some(c"7471"), flags, family);
            assert_eq!(found, Some(address(expected)));
        }
        assert_eq!(
            failure(Some(c"192.0.2.1"), None, flags, Ipv6),
            NameFailure::NoAddressOfFamily
        );
        assert_eq!(
            failure(Some(c"host"), None, flags, AddressFamily::Other),
            NameFailure::Family
        );
    }
}

#[test]
fn a_service_is_a_number_or_a_name() {
    let port = |host, service| ends(host, service, NONE, Any).1.unwrap().port();
    for host in [None, Some(c"192.0.2.1"), Some(c"host"), Some(c"127.1")] {
        let expected = if host == Some(c"192.0.2.1") { 0 } else { 4791 };
        // The table of the test knows one numeric address in its own form.
        if expected == 4791 {
            assert_eq!(port(host, Some(c"rdma")), expected);
        }
        assert_eq!(port(host, Some(c"7471")), 7471);
    }
    assert_eq!(port(Some(c"192.0.2.1"), Some(c"0")), 0);
    assert_eq!(port(Some(c"192.0.2.1"), Some(c"65535")), 65535);
    assert_eq!(port(Some(c"192.0.2.1"), None), 0);
    for wrong in [
        c"65536", c"-1", c"+7", c" 7", c"", c"nothing", c"7x", c"\xff",
    ] {
        for host in [None, Some(c"host")] {
            let why = failure(host, Some(wrong), NONE, Any);
            assert_eq!(why, NameFailure::UnknownService, "{wrong:?}");
        }
    }
}

#[test]
fn a_numeric_host_is_not_asked_for_as_a_name() {
    let numeric = AddrInfoFlags::NUMERIC_HOST;
    assert_eq!(
        failure(Some(c"host"), Some(c"7471"), numeric, Any),
        NameFailure::UnknownHost
    );
    // Forms that the C library reads.
    let (_, found) = ends(Some(c"127.1"), Some(c"7471"), numeric, Any);
    assert_eq!(found, Some(address("127.0.0.1:7471")));
    let never = |query: &NameQuery<'_>| panic!("{query:?}");
    let hints = hints(numeric, Any);
    let info = address_info(Some(c"192.0.2.1"), Some(c"7"), Some(&hints), &never).unwrap();
    assert_eq!(info.destination, Some(address("192.0.2.1:7")));
}

#[test]
fn failures_of_the_resolver_are_passed_on() {
    for (host, expected) in [
        (c"nobody", NameFailure::UnknownHost),
        (c"", NameFailure::UnknownHost),
        (c"\xff", NameFailure::UnknownHost),
        (c"later", NameFailure::TryAgain),
        (c"empty", NameFailure::NoData),
    ] {
        assert_eq!(failure(Some(host), None, NONE, Any), expected, "{host:?}");
    }
}

#[test]
fn without_a_host_and_a_service_the_addresses_of_the_hints_are_taken() {
    // The query that libfabric makes before it connects.
    let to = Some(address("192.0.2.1:57776"));
    let of_hints = AddrInfoHints {
        destination: to,
        ..hints(AddrInfoFlags::FAMILY, Ipv4)
    };
    let info = info(None, None, of_hints).unwrap();
    assert_eq!((info.source, info.destination), (None, to));
    assert_eq!((info.flags, info.family), (AddrInfoFlags::FAMILY, Ipv4));
    // With a host the source stays, and the host takes the destination's place.
    let with_source = AddrInfoHints {
        source: Some(address("192.0.2.7:1")),
        ..of_hints
    };
    let info = super::address_info(Some(c"::1"), None, Some(&with_source), &resolver);
    // The family of the hints is that of the host.
    assert_eq!(info, Err(NameFailure::NoAddressOfFamily.into()));
    let info = super::address_info(Some(c"192.0.2.8"), None, Some(&with_source), &resolver);
    let info = info.unwrap();
    assert_eq!(
        (info.source, info.destination),
        (with_source.source, Some(address("192.0.2.8:0")))
    );
}

#[test]
fn hints_that_contradict_each_other_are_refused() {
    let ask = |hints| info(Some(c"192.0.2.1"), None, hints);
    let unknown = AddrInfoFlags::from_bits_retain(0x40);
    assert_eq!(
        ask(hints(unknown | PASSIVE, Any)),
        Err(NameFailure::BadFlags.into())
    );
    let hints = |qp_type, port_space| AddrInfoHints {
        qp_type,
        port_space,
        ..AddrInfoHints::default()
    };
    for (qp_type, port_space) in [(QP_TYPE_UD, PORT_SPACE_TCP), (QP_TYPE_RC, PORT_SPACE_UDP)] {
        assert_eq!(
            ask(hints(qp_type, port_space)),
            Err(NameFailure::QpType.into())
        );
    }
    for (qp_type, port_space) in [
        (QP_TYPE_UD, 0),
        (0, PORT_SPACE_UDP),
        (QP_TYPE_UD, PORT_SPACE_UDP),
    ] {
        let found = ask(hints(qp_type, port_space)).unwrap();
        assert_eq!(
            (found.qp_type, found.port_space),
            (QP_TYPE_UD, PORT_SPACE_UDP)
        );
    }
    for other in [hints(3, 0), hints(3, PORT_SPACE_UDP), hints(0, 2)] {
        let refused = ask(other);
        assert!(
            matches!(&refused, Err(AddrInfoError::Call(error)) if error.errno() == Errno::OPNOTSUPP),
            "{refused:?}"
        );
    }
    assert!(ask(hints(QP_TYPE_RC, PORT_SPACE_TCP)).is_ok());
}
