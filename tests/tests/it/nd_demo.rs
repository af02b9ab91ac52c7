//! `nd demo` succeeds, says so, and puts on the wire what its output says.

use softnd_tests::dissect::Dissection;
use softnd_tests::{args, nd, tool};

/// Ports that the administrator has reserved for other programs are not picked.
#[test]
fn reserved_ports_are_left_out() {
    let (Some(unshare), Some(ip)) = (tool::find("unshare"), tool::find("ip")) else {
        return;
    };
    let (unshare, ip) = (unshare.display(), ip.display());
    let reserved = |line: &str| {
        let file = "/proc/sys/net/ipv4/ip_local_reserved_ports";
        let network = format!("{ip} link set lo up && echo 49152-65000,65002-65535 > {file}");
        format!("exec {unshare} --user --map-root-user --net sh -c '{network} && {line}'")
    };
    let tried = std::process::Command::new("sh")
        .arg("-c")
        .arg(reserved("true"))
        .output()
        .expect("sh starts");
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        return tool::skip_here(&format!("no ports can be reserved: {}", why.trim()));
    }
    let recv = format!(
        "exec {} cat recv --listen 127.0.0.1:0 --out -",
        nd::binary().display()
    );
    for more in ["", " --udp"] {
        let mut recv = nd::shell(&reserved(&format!("{recv}{more}")));
        assert_eq!(recv.address().port(), 65001, "{more}");
    }
}

/// Commands that need no address work in a network that has only IPv6.
#[test]
fn a_machine_with_ipv6_alone_is_enough() {
    let (Some(unshare), Some(ip)) = (tool::find("unshare"), tool::find("ip")) else {
        return;
    };
    let (unshare, ip) = (unshare.display(), ip.display());
    let alone = |line: &str| {
        let network = format!("{ip} link set lo up && {ip} addr del 127.0.0.1/8 dev lo");
        format!("exec {unshare} --user --map-root-user --net sh -c '{network} && {line}'")
    };
    let tried = std::process::Command::new("sh")
        .arg("-c")
        .arg(alone(&format!("{ip} -6 addr show dev lo | grep -q ::1")))
        .output()
        .expect("sh starts");
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        return tool::skip_here(&format!("no network with IPv6 alone: {}", why.trim()));
    }
    let nd_program = nd::binary().display();
    let perf = "--turns 3 --duration 0.006 --op send --test latency --size 8 --mode event --crc on";
    for line in [
        "demo".to_owned(),
        "demo --udp".to_owned(),
        format!("perf local {perf}"),
    ] {
        let run = nd::shell(&alone(&format!("exec {nd_program} {line}"))).finish();
        run.assert_success();
    }
    let listen = alone(&format!("exec {nd_program} perf serve"));
    assert!(nd::shell(&listen).address().is_ipv6());
}

#[test]
fn the_demo_succeeds_and_shows_every_step() {
    let demo = nd::run(args!["demo"]);
    demo.assert_success();
    let steps = [
        "Connect",
        "Send",
        "RDMA Write",
        "RDMA Read",
        "window",
        "Refused",
        "Reject",
        "Disconnect",
        "every byte checked",
    ];
    for step in steps {
        assert!(demo.stdout.contains(step), "{step} is missing: {demo}");
    }
    assert!(demo.stderr.is_empty(), "{demo}");
}

#[test]
fn the_demo_on_the_wire_is_iwarp_with_good_crcs() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.pcapng");
    nd::run(args!["demo", "--capture", &path]).assert_success();
    let found = Dissection::new(&tshark, &path);
    found.assert_clean();

    // Every operation of RFC 5040 that ND2 knows. The client captures.
    let [write, request, response, send, terminate] =
        [0, 1, 2, 3, 7].map(|opcode| found.count(opcode));
    assert!(
        write.0 > 0 && request.0 > 0 && response.1 > 0,
        "the client writes and reads"
    );
    assert!(send.0 > 0 && send.1 > 0, "both send");
    assert_eq!(terminate.0, 0, "nobody faults the server");
    // A Read by an STag that was invalidated: RDMAP, remote protection. A Write out of bounds: DDP, tagged buffer.
    let mut faults: Vec<_> = found
        .packets
        .iter()
        .filter_map(|packet| packet.terminate)
        .collect();
    faults.sort_unstable();
    assert_eq!(faults, [(0, 1, 0), (1, 1, 1)], "the two refused accesses");

    let streams = found.messages();
    assert!(
        streams.len() >= 3,
        "connections of their own for the refusals and the rejection"
    );
    for messages in streams.values() {
        let request = messages[0]
            .startup
            .as_ref()
            .expect("a connection begins with a Request");
        let reply = messages[1].startup.as_ref().expect("a Reply answers it");
        assert!(request.request && messages[0].outbound && !reply.request && !messages[1].outbound);
    }
    let rejected = streams
        .values()
        .filter(|messages| messages.len() == 2)
        .count();
    assert_eq!(rejected, 1, "after a rejection nothing is said any more");
    let text: String = "hello from the client"
        .bytes()
        .map(|octet| format!("{octet:02x}"))
        .collect();
    let startups = found
        .packets
        .iter()
        .filter_map(|packet| packet.startup.as_ref());
    assert!(
        startups
            .filter(|startup| startup.request)
            .any(|startup| startup.private_data.contains(&text))
    );
}

#[test]
fn the_demo_works_without_crc() {
    nd::run(args!["demo", "--no-crc"]).assert_success();
}
