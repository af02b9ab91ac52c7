use super::*;

const UP: LinkFlags = LinkFlags::UP.union(LinkFlags::LOWER_UP);
const LOOPBACK: LinkFlags = UP.union(LinkFlags::LOOPBACK);

/// Arranges interfaces, each with its addresses; the index of an interface is its place. `first` is the source of the default route.
fn arranged(made_up: &[(&str, LinkFlags, &[&str])], first: Option<&str>) -> NetworkInterfaces {
    let mut lists = Lists::default();
    for ((name, flags, addresses), index) in made_up.iter().zip(1..) {
        lists.links.push(Link {
            index,
            name: (*name).to_owned(),
            flags: *flags,
            ..Link::default()
        });
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        lists.addresses.extend(addresses.map(|ip| (index, ip)));
    }
    arrange(lists, first.map(|first| first.parse().unwrap()))
}

/// The names and addresses of the list, in its order.
fn shown(interfaces: &NetworkInterfaces) -> Vec<String> {
    let list = interfaces.list.iter();
    list.map(|one| {
        let addresses: Vec<_> = one.addresses.iter().map(ToString::to_string).collect();
        format!("{} {}", one.name, addresses.join(" "))
    })
    .collect()
}

#[test]
fn the_flags_decide_which_interface_is_loopback_and_its_address_comes_first() {
    for addresses in [
        &["127.0.0.1", "10.255.255.254", "::1", "fd00::9"][..],
        &["10.255.255.254", "fd00::9", "127.0.0.1", "::1"],
        &["fd00::9", "::1", "10.255.255.254", "127.0.0.1"],
    ] {
        let found = arranged(&[("lo", LOOPBACK, addresses)], None);
        let lo = ["lo 127.0.0.1 10.255.255.254 ::1 fd00::9"];
        assert_eq!(shown(&found), lo, "{addresses:?}");
        assert!(found.list[0].is_loopback);
    }
    // An address of the loopback network makes no loopback interface, and comes first nowhere else.
    let found = arranged(&[("eth0", UP, &["10.0.0.1", "127.0.0.1"])], None);
    assert_eq!(shown(&found), ["eth0 10.0.0.1 127.0.0.1"]);
    assert!(!found.list[0].is_loopback);
    let found = arranged(&[("lo", LOOPBACK, &["10.255.255.254"])], None);
    assert!(found.list[0].is_loopback);
}

#[test]
fn further_loopback_addresses_follow_in_the_order_of_the_system() {
    let addresses = &["127.0.0.9", "127.0.0.3", "127.0.0.1"];
    let found = arranged(&[("lo", LOOPBACK, addresses)], None);
    assert_eq!(shown(&found), ["lo 127.0.0.1 127.0.0.9 127.0.0.3"]);
}

#[test]
fn an_interface_has_its_addresses_of_both_families_once() {
    let addresses = &["fd00::2", "10.0.0.2", "fe80::1", "fd00::1", "10.0.0.1"];
    let found = arranged(&[("eth0", UP, addresses)], None);
    assert_eq!(shown(&found), ["eth0 10.0.0.2 10.0.0.1 fd00::2 fd00::1"]);
    let twice = &["10.0.0.1", "10.0.0.2", "10.0.0.1"];
    let found = arranged(&[("ppp0", UP, twice)], None);
    assert_eq!(shown(&found), ["ppp0 10.0.0.1 10.0.0.2"]);
    assert!(found.shared.is_empty());
}

#[test]
fn interfaces_that_are_down_or_have_no_address_are_left_out() {
    let down = LinkFlags::LOWER_UP;
    let found = arranged(
        &[
            ("down", down, &["10.0.0.1"]),
            ("bare", UP, &[]),
            ("local", UP, &["fe80::1"]),
            ("lo", LinkFlags::LOOPBACK, &["127.0.0.1"]),
        ],
        None,
    );
    assert_eq!(found, NetworkInterfaces::default());
}

#[test]
fn the_default_route_leads_the_list_and_the_loopback_interface_ends_it() {
    let made_up: &[(&str, LinkFlags, &[&str])] = &[
        ("lo", LOOPBACK, &["127.0.0.1"]),
        ("a0", LinkFlags::UP, &["10.0.0.1"]),
        ("c0", UP, &["10.0.1.1"]),
        ("b0", UP, &["10.0.2.1", "fd00::1"]),
    ];
    let order = |first| {
        let found = arranged(made_up, first);
        let names = found.list.iter().map(|one| one.name.clone());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(None), "b0 c0 a0 lo");
    assert_eq!(order(Some("10.0.1.1")), "c0 b0 a0 lo");
    assert_eq!(order(Some("10.0.0.1")), "a0 b0 c0 lo");
    assert_eq!(order(Some("10.9.9.9")), "b0 c0 a0 lo");
    // The default route may lead out with an address of the loopback interface.
    assert_eq!(order(Some("127.0.0.1")), "b0 c0 a0 lo");
    let carrier = |name| {
        let found = arranged(made_up, None);
        let mut list = found.list.into_iter();
        list.find(|one| one.name == name).unwrap().has_carrier
    };
    assert!(carrier("b0") && !carrier("a0"));
}

#[test]
fn the_first_interface_of_the_list_answers_for_an_address_of_two() {
    let found = arranged(
        &[
            ("lo", LOOPBACK, &["127.0.0.1", "10.0.0.1"]),
            ("b0", UP, &["10.0.0.1", "10.0.0.2"]),
            ("a0", UP, &["10.0.0.3"]),
            ("c0", UP, &["10.0.0.3"]),
        ],
        Some("10.0.0.1"),
    );
    assert_eq!(
        shown(&found),
        ["b0 10.0.0.1 10.0.0.2", "a0 10.0.0.3", "lo 127.0.0.1"]
    );
    let shared: Vec<_> = found.shared.iter().map(ToString::to_string).collect();
    assert_eq!(
        shared,
        [
            "a0 and c0 both have the address 10.0.0.3, and a0 answers for it",
            "b0 and lo both have the address 10.0.0.1, and b0 answers for it",
        ]
    );
}

#[test]
fn the_interfaces_of_this_machine_keep_to_these_rules() {
    let found = of_system().unwrap();
    let mut seen = Vec::<IpAddr>::new();
    for interface in &found.list {
        assert!(!interface.addresses.is_empty() && interface.mtu > 0);
        assert!(interface.index > 0, "{interface:?}");
        seen.extend(&interface.addresses);
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count);
    let loopback = found.list.iter().position(|one| one.is_loopback);
    assert!(loopback.is_none_or(|at| at + 1 == found.list.len()));
}

/// The system may send from the first address of the network instead.
#[test]
fn the_source_for_an_own_address_is_an_own_address() {
    let found = of_system().unwrap();
    for one in &found.list {
        for local in &one.addresses {
            let source = source_for((*local, 7).into()).unwrap();
            assert!(one.addresses.contains(&source), "{local} from {source}");
        }
    }
}
