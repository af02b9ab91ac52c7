//! Sets of interfaces and addresses that systems have, each in a network of its own: by the traits, over UDP, at COM's border and under
//! `nd run` an interface is the same thing, with the same addresses.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use netdirect::{Adapter, AdapterId, Overlapped, Provider, Started, Status};
use netdirect_com::import::TrustedLibrary;
use netdirect_conform::{Selection, Target};
use softnd::Options;
use softnd_tests::c_programs::CProgram;
use softnd_tests::nd;
use softnd_tests::own_network::{inside, ip};
use softnd_tests::verbs_programs::nd_run;

/// A limit that only ends a hang.
const HANG: Duration = Duration::from_secs(120);

/// The loopback interface.
const LO: &str = "ip link set lo up";

/// An interface with a carrier. Its other end has no address.
fn link(name: &str) -> String {
    format!(
        "ip link add {name} type veth peer name {name}-peer; ip link set {name}-peer up; ip link set {name} up; \
         ip addr flush dev {name}-peer"
    )
}

/// Gives an interface addresses. Those of IPv6 are usable at once.
fn addresses(name: &str, all: &[&str]) -> String {
    let add = all.iter().map(|address| {
        let more = if address.contains(':') { " nodad" } else { "" };
        format!("ip addr add {address} dev {name}{more}")
    });
    add.collect::<Vec<_>>().join("; ")
}

fn library() -> PathBuf {
    nd::build_libraries();
    nd::binary().with_file_name("libsoftnd.so")
}

/// Every way to the adapters of ND2, with its name.
fn providers() -> [(&'static str, Arc<dyn Provider>); 3] {
    let com = netdirect_com::import::provider(TrustedLibrary { path: &library() }).unwrap();
    [
        ("the traits", softnd::provider(Options::default())),
        ("UDP", softnd::udp_provider(Options::default())),
        ("COM", com),
    ]
}

fn any_port(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), 0)
}

/// The adapters of a provider in its order, each as its addresses.
fn adapters(provider: &dyn Provider) -> Vec<String> {
    let mut adapters = Vec::<(AdapterId, Vec<SocketAddr>)>::new();
    for address in provider.query_address_list().unwrap() {
        let id = provider.resolve_address(address).unwrap();
        match adapters.iter_mut().find(|(known, _)| *known == id) {
            Some((_, addresses)) => addresses.push(address),
            None => adapters.push((id, vec![address])),
        }
    }
    let shown = adapters.into_iter().map(|(id, addresses)| {
        let adapter = provider.open_adapter(id).unwrap();
        assert_eq!(adapter.query_address_list().unwrap(), addresses);
        let addresses = addresses.iter().map(|address| address.ip().to_string());
        addresses.collect::<Vec<_>>().join(" ")
    });
    shown.collect()
}

/// Checks of the suite that connect at an address.
const CONNECTS: &[&str] = &["DLL-014.scope", "CONN-097.addresses", "IW-049.own"];

/// Checks of the suite for the lists of addresses.
const LISTS: &[&str] = &[
    "PROV-006.list",
    "PROV-012.resolve",
    "PROV-014.unknown",
    "ADPT-017.addresses",
    "CONN-012",
    "LSTN-010",
    "LSTN-012",
];

/// The adapter of this address passes these checks.
#[track_caller]
fn passes(what: &str, provider: &Arc<dyn Provider>, address: &str, checks: &[&[&str]]) {
    let selection = Selection {
        only: checks.concat().iter().map(ToString::to_string).collect(),
        ..Selection::default()
    };
    let target = Target::on_provider(provider, any_port(address));
    let found = netdirect_conform::run(&target, &selection, |_| {}).unwrap();
    let report = netdirect_conform::report::text(&found, netdirect_conform::report::Paint::off());
    assert!(
        found.succeeded() && !found.is_empty(),
        "{what}, {address}:\n{report}"
    );
}

/// ND2 has these adapters in this order, every address connects, and so do `others`, which are not listed.
#[track_caller]
fn nd2_has(wanted: &[&str], others: &[&str]) {
    for (what, provider) in &providers() {
        assert_eq!(adapters(&**provider), wanted, "{what}");
        let listed = wanted.iter().map(|adapter| adapter.split(' '));
        // Over UDP, where each check makes certificates, one address of each adapter is enough.
        let some = listed.flat_map(|all| all.take(if *what == "UDP" { 1 } else { usize::MAX }));
        for address in some {
            passes(what, provider, address, &[LISTS, CONNECTS]);
        }
        for address in others {
            passes(what, provider, address, &[CONNECTS]);
        }
    }
}

/// ND2 does not serve this address, and says which ones it serves.
#[track_caller]
fn nd2_refuses(address: &str, served: &str) {
    for (what, provider) in &providers() {
        let refused = provider.resolve_address(any_port(address)).unwrap_err();
        assert_eq!(refused.status(), Status::INVALID_ADDRESS, "{what}");
        if *what != "COM" {
            let said = refused.what();
            assert!(said.contains(served), "{what}: {said}");
        }
    }
}

fn program() -> Option<CProgram> {
    let headers = ["infiniband/verbs.h", "rdma/rdma_cma.h"];
    CProgram::compile("interfaces", &headers, &["-libverbs", "-lrdmacm"])
}

/// A program for verbs finds these devices with these GIDs, and connects to `connects`, each with the device that has it.
#[track_caller]
fn verbs_has(devices: &[&str], connects: &[&str]) {
    let Some(program) = program() else {
        return;
    };
    let words = connects.iter().map(|line| line.split(' ').next_back());
    let mut command = vec!["timeout", "120", program.path()];
    command.extend(words.map(|word| word.expect("DEVICE ADDRESS")));
    let output = nd_run(&command).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let wanted = [devices, connects, &["0 failures"]].concat();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stdout.lines().collect::<Vec<_>>(), wanted, "{said}");
}

/// WSL2 and the virtual addresses of load balancers.
#[test]
fn an_address_on_the_loopback_interface_is_one_more() {
    const WANTED: &[&str] = &["127.0.0.1 10.255.255.254 ::1 fd00:9::9"];
    let test = "networks::an_address_on_the_loopback_interface_is_one_more";
    let more = addresses("lo", &["10.255.255.254/32", "fd00:9::9/128"]);
    inside(test, &format!("{LO}; {more}"), || {
        for added in ["before", "behind"] {
            nd2_has(WANTED, &[]);
            verbs_has(
                &["softnd0: 127.0.0.1 10.255.255.254 ::1 fd00:9::9"],
                &[
                    "softnd0 127.0.0.1",
                    "softnd0 10.255.255.254",
                    "softnd0 ::1",
                    "softnd0 127.0.0.9",
                    "softnd0 ::ffff:127.0.0.1",
                ],
            );
            if added == "before" {
                // Now 127.0.0.1 is the last one that was added.
                ip("addr del 127.0.0.1/8 dev lo");
                ip("addr add 127.0.0.1/8 dev lo");
            }
        }
        let url = "softnd+tcp://127.0.0.1";
        nd::run(["conform", url]).assert_success();
        let info = nd::run(["info", url]);
        info.assert_success();
        assert!(info.stdout.contains("127.0.0.1, 10.255.255.254"), "{info}");
        let perf = "perf local --turns 3 --duration 0.006 --op send --test latency --size 8";
        nd::run(perf.split(' ')).assert_success();
    });
}

#[test]
fn an_interface_has_all_its_addresses_of_both_families() {
    let test = "networks::an_interface_has_all_its_addresses_of_both_families";
    let more = addresses(
        "a0",
        &[
            "10.1.0.1/24",
            "10.1.0.2/24",
            "10.2.0.1/16",
            "fd00:1::1/64",
            "fd00:2::1/64",
        ],
    );
    inside(test, &format!("{LO}; {}; {more}", link("a0")), || {
        // Linux lists the youngest address of IPv6 first.
        let a0 = "10.1.0.1 10.2.0.1 10.1.0.2 fd00:2::1 fd00:1::1";
        nd2_has(&[a0, "127.0.0.1 ::1"], &[]);
        verbs_has(
            &[&format!("softnd0: {a0}")],
            &[
                "softnd0 10.1.0.2",
                "softnd0 10.2.0.1",
                "softnd0 fd00:1::1",
                "softnd0 127.0.0.1",
            ],
        );
    });
}

#[test]
fn an_interface_without_an_address_is_no_adapter() {
    let test = "networks::an_interface_without_an_address_is_no_adapter";
    inside(test, &format!("{LO}; {}", link("a0")), || {
        nd2_has(&["127.0.0.1 ::1"], &[]);
        verbs_has(&["softnd0: 127.0.0.1 ::1"], &["softnd0 127.0.0.1"]);
        let said = refused_run("a0");
        assert!(said.contains("no interface a0 that is up"), "{said}");
    });
}

/// What `nd run --interface` says, and does not run anything.
fn refused_run(interface: &str) -> String {
    nd::build_libraries();
    let run = nd::run(["run", "--interface", interface, "--", "true"]);
    run.assert_failure(interface);
    run.stderr
}

#[test]
fn of_two_interfaces_with_one_address_the_first_answers() {
    let test = "networks::of_two_interfaces_with_one_address_the_first_answers";
    let network = [
        LO.to_owned(),
        link("b0"),
        link("a0"),
        link("c0"),
        addresses("b0", &["10.1.0.1/24", "10.2.0.1/24"]),
        addresses("a0", &["10.1.0.1/24"]),
        addresses("c0", &["10.1.0.1/32"]),
        addresses("lo", &["10.2.0.1/32"]),
    ];
    inside(test, &network.join("; "), || {
        nd2_has(&["10.1.0.1", "10.2.0.1", "127.0.0.1 ::1"], &[]);
        verbs_has(
            &["softnd0: 10.1.0.1", "softnd1: 10.2.0.1"],
            &["softnd0 10.1.0.1", "softnd1 10.2.0.1", "softnd0 127.0.0.1"],
        );
        let why = "a0 and c0 both have the address 10.1.0.1, and a0 answers for it";
        let said = refused_run("c0");
        assert!(said.contains(why), "{said}");
        let info = nd::run(["info"]);
        info.assert_success();
        for other in ["a0 and b0", "a0 and c0"] {
            let note = format!("{other} both have the address 10.1.0.1, and a0 answers for it");
            assert!(info.stderr.contains(&note), "{info}");
        }
        assert_eq!(info.stderr.lines().count(), 3, "{info}");
    });
}

/// A label need not begin with the name of an interface, and may be the name of another one.
#[test]
fn aliases_belong_to_their_interface() {
    let test = "networks::aliases_belong_to_their_interface";
    let network = [
        LO.to_owned(),
        link("a0"),
        "ip addr add 127.0.0.2/8 dev lo label lo:2".to_owned(),
        "ip addr add 10.7.0.1/32 dev lo label lovely".to_owned(),
        "ip addr add 10.1.0.1/24 dev a0".to_owned(),
        "ip addr add 10.1.0.2/24 dev a0 label a0:1".to_owned(),
        "ip addr add 10.1.0.3/24 dev a0 label a0-peer".to_owned(),
    ];
    inside(test, &network.join("; "), || {
        let (a0, lo) = (
            "10.1.0.1 10.1.0.2 10.1.0.3",
            "127.0.0.1 10.7.0.1 127.0.0.2 ::1",
        );
        nd2_has(&[a0, lo], &[]);
        verbs_has(
            &[&format!("softnd0: {a0}")],
            &["softnd0 10.1.0.3", "softnd0 10.7.0.1"],
        );
    });
}

#[test]
fn interfaces_that_are_down_are_left_out() {
    let test = "networks::interfaces_that_are_down_are_left_out";
    let network = [
        LO.to_owned(),
        link("a0"),
        link("b0"),
        addresses("a0", &["10.1.0.1/24"]),
        addresses("b0", &["10.2.0.1/24"]),
        "ip link set a0 down".to_owned(),
    ];
    inside(test, &network.join("; "), || {
        nd2_has(&["10.2.0.1", "127.0.0.1 ::1"], &[]);
        nd2_refuses("10.1.0.1", "it serves 10.2.0.1, 127.0.0.1, ::1");
        verbs_has(&["softnd0: 10.2.0.1"], &["softnd0 10.2.0.1"]);
        let said = refused_run("a0");
        assert!(said.contains("no interface a0 that is up"), "{said}");
        // Its other end is down, so that it has no carrier.
        ip("link set a0 up");
        ip("link set a0-peer down");
        nd2_has(&["10.2.0.1", "10.1.0.1", "127.0.0.1 ::1"], &[]);
        verbs_has(&["softnd0: 10.2.0.1"], &["softnd0 10.2.0.1"]);
        ip("link set b0 down");
        verbs_has(&["softnd0: 127.0.0.1 ::1"], &["softnd0 127.0.0.1"]);
    });
}

#[test]
fn a_point_to_point_interface_has_its_own_address_and_not_the_other_ends() {
    let test = "networks::a_point_to_point_interface_has_its_own_address_and_not_the_other_ends";
    let network = [
        LO.to_owned(),
        "ip tuntap add mode tun name p0".to_owned(),
        "ip link set p0 up".to_owned(),
        "ip addr flush dev p0".to_owned(),
        link("q0"),
        "ip addr add 10.3.0.1 peer 10.3.0.2/32 dev p0".to_owned(),
        "ip addr add 10.4.0.1 peer 10.4.0.2/32 dev q0".to_owned(),
    ];
    inside(test, &network.join("; "), || {
        // No program has the tunnel open, so that it has no carrier.
        nd2_has(&["10.4.0.1", "10.3.0.1", "127.0.0.1 ::1"], &[]);
        nd2_refuses("10.3.0.2", "10.3.0.1");
        nd2_refuses("10.4.0.2", "10.4.0.1");
        verbs_has(&["softnd0: 10.4.0.1"], &["softnd0 10.4.0.1"]);
    });
}

#[test]
fn the_loopback_network_belongs_to_the_loopback_interface() {
    let test = "networks::the_loopback_network_belongs_to_the_loopback_interface";
    let network = [
        LO.to_owned(),
        link("a0"),
        addresses("lo", &["127.0.0.9/8", "127.1.0.1/8"]),
        addresses("a0", &["127.3.0.1/32", "10.1.0.1/24"]),
    ];
    inside(test, &network.join("; "), || {
        let (a0, lo) = ("127.3.0.1 10.1.0.1", "127.0.0.1 127.0.0.9 127.1.0.1 ::1");
        nd2_has(&[a0, lo], &["127.0.0.77", "127.255.255.254"]);
        let named = ["127.0.0.77", "127.1.0.1", "127.3.0.1"]
            .map(|address| address.parse::<IpAddr>().unwrap());
        let options = Options::default().addresses(named);
        let provider = softnd::provider(options);
        assert_eq!(adapters(&*provider), ["127.3.0.1", "127.1.0.1 127.0.0.77"]);
        verbs_has(
            &[&format!("softnd0: {a0}")],
            &["softnd0 127.0.0.77", "softnd0 127.3.0.1"],
        );
    });
}

#[test]
fn the_interface_of_the_default_route_comes_first() {
    let test = "networks::the_interface_of_the_default_route_comes_first";
    let network = [
        LO.to_owned(),
        link("a0"),
        link("b0"),
        addresses("a0", &["10.1.0.1/24"]),
        addresses("b0", &["10.2.0.1/24", "fd00:2::1/64"]),
        "ip route add default via 10.2.0.254 dev b0".to_owned(),
    ];
    inside(test, &network.join("; "), || {
        nd2_has(&["10.2.0.1 fd00:2::1", "10.1.0.1", "127.0.0.1 ::1"], &[]);
        verbs_has(
            &["softnd0: 10.2.0.1 fd00:2::1", "softnd1: 10.1.0.1"],
            &["softnd1 10.1.0.1", "softnd0 127.0.0.1"],
        );
    });
}

#[test]
fn without_a_loopback_interface_its_addresses_are_refused() {
    let test = "networks::without_a_loopback_interface_its_addresses_are_refused";
    let network = format!("{}; {}", link("a0"), addresses("a0", &["fd00:1::1/64"]));
    inside(test, &network, || {
        // An address that every socket may have, without a route to itself.
        assert_eq!(
            adapters(&*softnd::provider(Options::default())),
            ["fd00:1::1"]
        );
        nd2_refuses("127.0.0.1", "it serves fd00:1::1");
        let info = nd::run(["info", "softnd+tcp://127.0.0.1"]);
        info.assert_failure("it serves fd00:1::1");
        ip("link set a0 down");
        nd2_refuses("127.0.0.1", "no network interface that is up has one");
        let run = nd_run(&["true"]).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(
            said.contains("no network interface has an address"),
            "{said}"
        );
        ip("link set lo up");
        nd2_has(&["127.0.0.1 ::1"], &[]);
    });
}

/// The suite asks for 192.0.2.255, which sockets of a network with this broadcast address may have.
#[test]
fn without_a_list_an_address_of_nobody_is_refused() {
    let test = "networks::without_a_list_an_address_of_nobody_is_refused";
    let own = "ip addr add 192.0.2.2/24 brd + dev a0";
    inside(test, &format!("{LO}; {}; {own}", link("a0")), || {
        let refuse = env!("CARGO_BIN_EXE_refuse_calls");
        let by = [refuse, "socket:EAFNOSUPPORT:0=16", "--"].map(OsString::from);
        for url in ["softnd+tcp://127.0.0.1", "softnd+tcp://192.0.2.2"] {
            let conform = ["conform", url, "--only", "PROV"];
            nd::start_by(&by, conform).finish().assert_success();
        }
        let listen = ["cat", "recv", "--listen", "192.0.2.255:0", "--out", "-"];
        let refused = nd::start_by(&by, listen).finish();
        refused.assert_failure("cannot bind to 192.0.2.255: ");
        // With a list it is refused as well.
        nd2_refuses("192.0.2.255", "it serves 192.0.2.2, 127.0.0.1, ::1");
    });
}

/// A provider whose one adapter is open already.
#[derive(Debug)]
struct Opened {
    adapter: Arc<dyn Adapter>,
    address: SocketAddr,
}

impl Provider for Opened {
    fn name(&self) -> &str {
        "opened"
    }

    fn query_address_list(&self) -> netdirect::Result<Vec<SocketAddr>> {
        Ok(vec![self.address])
    }

    fn resolve_address(&self, _: SocketAddr) -> netdirect::Result<AdapterId> {
        Ok(AdapterId(1))
    }

    fn open_adapter(&self, _: AdapterId) -> netdirect::Result<Arc<dyn Adapter>> {
        Ok(Arc::clone(&self.adapter))
    }
}

/// An open adapter, with the name of its provider.
struct OpenAdapter {
    what: &'static str,
    provider: Arc<dyn Provider>,
    id: AdapterId,
    adapter: Arc<dyn Adapter>,
}

/// Opens the adapter of an address with every provider.
fn opened(address: &str) -> Vec<OpenAdapter> {
    let open = |(what, provider): (_, Arc<dyn Provider>)| {
        let id = provider.resolve_address(any_port(address)).unwrap();
        let adapter = provider.open_adapter(id).unwrap();
        OpenAdapter {
            what,
            provider,
            id,
            adapter,
        }
    };
    providers().into_iter().map(open).collect()
}

#[test]
fn an_open_adapter_outlives_the_name_of_its_interface() {
    let test = "networks::an_open_adapter_outlives_the_name_of_its_interface";
    let network = format!(
        "{LO}; {}; {}",
        link("a0"),
        addresses("a0", &["10.1.0.1/24"])
    );
    inside(test, &network, || {
        let before = opened("10.1.0.1");
        let mut program = Conversation::start("10.1.0.1");
        program.has("softnd0: 10.1.0.1");
        // Older kernels rename only what is down.
        ip("link set a0 down");
        ip("link set a0 name z0");
        ip("link set z0 up");
        for one in before {
            let OpenAdapter {
                what,
                provider,
                id,
                adapter,
            } = one;
            assert_eq!(adapter.query().unwrap().adapter_id, id, "{what}");
            let address = any_port("10.1.0.1");
            let opened: Arc<dyn Provider> = Arc::new(Opened { adapter, address });
            let selection = Selection {
                only: vec!["IW-049.own".into()],
                one_adapter: true,
                ..Selection::default()
            };
            let target = Target::on_provider(&opened, address);
            let found = netdirect_conform::run(&target, &selection, |_| {}).unwrap();
            assert!(found.succeeded() && !found.is_empty(), "{what}");
            assert_ne!(provider.resolve_address(address).unwrap(), id, "{what}");
            let old = provider.open_adapter(id).unwrap_err();
            assert_eq!(old.status(), Status::INVALID_PARAMETER, "{what}");
        }
        nd2_has(&["10.1.0.1", "127.0.0.1 ::1"], &[]);
        program.go_on();
        program.has("softnd0 10.1.0.1");
        program.has("0 failures");
        let _ = nd_run(&["true"]);
        nd::run(["run", "--interface", "z0", "--", "true"]).assert_success();
        refused_run("a0");
    });
}

/// What the book says of a removed device.
#[test]
fn an_interface_that_goes_takes_its_adapter_along() {
    let test = "networks::an_interface_that_goes_takes_its_adapter_along";
    let network = [
        LO.to_owned(),
        link("a0"),
        link("b0"),
        addresses("a0", &["10.1.0.1/24"]),
        addresses("b0", &["10.2.0.1/24"]),
    ];
    inside(test, &network.join("; "), || {
        let (before, others) = (opened("10.1.0.1"), opened("10.2.0.1"));
        // A client that waits for peers.
        let waiting: Vec<_> = before
            .iter()
            .map(|OpenAdapter { adapter, .. }| {
                let file = adapter.create_overlapped_file().unwrap();
                let listener = adapter.create_listener(&file).unwrap();
                listener.bind(any_port("10.1.0.1")).unwrap();
                listener.listen(8).unwrap();
                let connector = adapter.create_connector(&file).unwrap();
                let overlapped = Overlapped::new();
                let started = listener.get_connection_request(&connector, &overlapped);
                assert_eq!(started, Ok(Started::Pending));
                (file, listener, connector, overlapped)
            })
            .collect();
        // Changes of other interfaces are none of this one.
        ip("link del b0");
        for one in &others {
            has_gone(one.what, &one.adapter);
        }
        for OpenAdapter { what, adapter, .. } in &before {
            assert!(adapter.query().is_ok(), "{what}");
        }
        ip("link del a0");
        for (one, (_, listener, _, overlapped)) in before.iter().zip(waiting) {
            let OpenAdapter {
                what,
                provider,
                id,
                adapter,
            } = one;
            assert_eq!(overlapped.wait(), Status::DEVICE_REMOVED, "{what}");
            has_gone(what, adapter);
            let listened = listener.listen(8).unwrap_err();
            assert_eq!(listened.status(), Status::DEVICE_REMOVED, "{what}");
            let opened = provider.open_adapter(*id).unwrap_err();
            assert_eq!(opened.status(), Status::INVALID_PARAMETER, "{what}");
        }
        nd2_has(&["127.0.0.1 ::1"], &[]);
    });
}

/// Waits until a call finds that the device was removed.
#[track_caller]
fn has_gone(what: &str, adapter: &Arc<dyn Adapter>) {
    let start = Instant::now();
    loop {
        match adapter.query() {
            Err(error) => return assert_eq!(error.status(), Status::DEVICE_REMOVED, "{what}"),
            Ok(_) => assert!(start.elapsed() < HANG, "{what}: the adapter stays"),
        }
        thread::yield_now();
    }
}

/// A program for verbs that waits between its steps.
struct Conversation(
    Option<(
        CProgram,
        std::process::Child,
        BufReader<std::process::ChildStdout>,
    )>,
);

impl Conversation {
    fn start(address: &str) -> Self {
        Self(program().map(|program| {
            let mut command = nd_run(&["timeout", "120", program.path(), "then", address]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap());
            (program, child, lines)
        }))
    }

    #[track_caller]
    fn has(&mut self, wanted: &str) {
        if let Some((_, _, lines)) = &mut self.0 {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert_eq!(line.trim_end(), wanted);
        }
    }

    fn go_on(&mut self) {
        if let Some((_, child, _)) = &mut self.0 {
            child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if let Some((_, child, _)) = &mut self.0 {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}
