//! Unmodified programs that exchange the numbers of their queue pairs by themselves.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use softnd_tests::c_programs::CProgram;
use softnd_tests::own_network::{inside, ip};
use softnd_tests::tool;
use softnd_tests::verbs_programs::{
    Server, free_port, holds_in_time, nd_run, nd_run_with, run, run_with,
};

/// A network with two hosts' addresses. What these send each other goes through the loopback interface.
const NETWORK: &str = "ip link set lo up; ip link add a0 type veth peer name a0-peer; ip link set a0-peer up; ip link set a0 up; \
    ip addr add 10.9.0.1/24 dev a0; ip addr add 10.9.0.2/24 dev a0";

/// Runs a program at both ends, with the same options.
#[track_caller]
fn connects(program: &[&str], says: &str) {
    if tool::find(program[0]).is_none() {
        return;
    }
    let port = free_port();
    let with_port = [program, &["-p", &port]].concat();
    let server = Server::start(&with_port);
    let said = run(&[&with_port[..], &["127.0.0.1"]].concat());
    assert!(said.contains(says), "{program:?}: {said}");
    server.ends_well();
}

#[test]
fn ibv_rc_pingpong_connects_and_checks_its_octets() {
    connects(&["ibv_rc_pingpong", "-g", "0", "-c"], "iters in");
}

#[test]
fn ibv_ud_pingpong_finds_its_peer_by_datagrams() {
    connects(&["ibv_ud_pingpong", "-g", "0"], "iters in");
}

#[test]
fn ibv_uc_pingpong_connects_and_checks_its_octets() {
    connects(&["ibv_uc_pingpong", "-g", "0", "-c"], "iters in");
}

#[test]
fn ib_write_bw_connects_without_rdma_cm() {
    connects(&["ib_write_bw", "-F", "-n", "500"], "65536");
}

/// Runs a program of `tests/verbs`, which counts its failures.
#[track_caller]
fn has_no_failure(name: &str, arguments: &[&str]) -> Option<String> {
    let program = compiled(name)?;
    let limited = [&["timeout", "300", program.path()], arguments].concat();
    let output = nd_run(&limited).output().expect("nd starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && said.ends_with("0 failures\n");
    assert!(passed, "{name}: {}\n{said}\n{stderr}", output.status);
    Some(said)
}

fn compiled(name: &str) -> Option<CProgram> {
    let headers = ["infiniband/verbs.h", "rdma/rdma_cma.h"];
    CProgram::compile(name, &headers, &["-libverbs", "-lrdmacm"])
}

#[test]
fn a_host_that_is_gone_fails_a_request_and_a_peer_without_receives_does_not() {
    inside(
        "verbs_numbers::a_host_that_is_gone_fails_a_request_and_a_peer_without_receives_does_not",
        NETWORK,
        || {
            has_no_failure("dead_host", &[]);
        },
    );
}

#[test]
fn a_peer_that_is_killed_with_writes_under_way_leaves_receives_posted() {
    has_no_failure("killed_writer", &[]);
}

#[test]
fn many_queue_pairs_connect() {
    has_no_failure("many_numbers", &["300", "0"]);
}

#[test]
#[ignore = "takes two minutes: .ci/night numbers"]
fn thousands_of_queue_pairs_connect_and_wait() {
    let cases: [&[&str]; 3] = [&["1000", "10"], &["10000", "10"], &["1000", "40", "armed"]];
    for arguments in cases {
        if let Some(said) = has_no_failure("many_numbers", arguments) {
            print!("{said}");
        }
    }
}

/// The smaller number is on the side that cannot call.
#[test]
fn two_hosts_of_which_one_cannot_call_connect() {
    inside(
        "verbs_numbers::two_hosts_of_which_one_cannot_call_connect",
        NETWORK,
        || {
            if tool::find("ibv_rc_pingpong").is_none() {
                return;
            }
            // A call of this kind fails at once.
            ip("rule add to 10.9.0.2 ipproto tcp dport 21000-21009 prohibit");
            let program = |row| ["timeout", "60", "ibv_rc_pingpong", "-c", "-g", row];
            let smaller = Server::start_with(&["--ports", "20000-20009"], &program("0"));
            let larger = [&program("1")[..], &["127.0.0.1"]].concat();
            run_with(&["--ports", "21000-21009"], &larger);
            smaller.ends_well();
        },
    );
}

#[test]
fn processes_share_a_range_of_ports_until_none_is_left() {
    inside(
        "verbs_numbers::processes_share_a_range_of_ports_until_none_is_left",
        NETWORK,
        || {
            if tool::find("ibv_rc_pingpong").is_none() {
                return;
            }
            let options = ["--explain", "--ports", "20000-20001"];
            let server = |port| ["ibv_rc_pingpong", "-g", "0", "-p", port];
            let client = |port| [&server(port)[..], &["127.0.0.1"]].concat();
            let one = Server::start_with(&options, &server("18515"));
            run_with(&options, &client("18515"));
            one.ends_well();
            // Two programs that wait for their clients have both ports.
            let ports = ["18516", "18517"];
            let _both = ports.map(|port| Server::start_with(&options, &server(port)));
            assert!(ports.iter().all(|port| holds_in_time(|| listens(port))));
            let third = nd_run_with(&options, &client("18518")).output();
            let said = third.expect("nd starts").stderr;
            let why = "no port for queue pairs: every port from 20000 to 20001 is in use: give a longer range of ports";
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains(why), "{said}");
        },
    );
}

/// Returns true if a process of this network listens at a port of IPv4.
fn listens(port: &str) -> bool {
    let number: u16 = port.parse().expect("a port");
    let (local, listening) = (format!(":{number:04X}"), "0A");
    let sockets = fs::read_to_string("/proc/self/net/tcp").expect("a list");
    sockets.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() > 3 && words[1].ends_with(&local) && words[3] == listening
    })
}

/// Rounds of junk between two looks at the clock.
const ROUNDS: u32 = 400;

/// What is sent to the port of a queue pair by processes that are not its peer.
struct Junk {
    to: SocketAddr,
    number: u32,
    peer: u32,
    /// The number of a queue pair for datagrams at the same port, and its Q_Key.
    datagrams: u32,
    key: u32,
}

impl Junk {
    /// A datagram with a header of this version and these flags.
    fn datagram(version: u8, flags: u8, to: u32, key: u32, octets: &[u8]) -> Vec<u8> {
        let numbers = [0x00C0_0001, to, key, 0].map(u32::to_be_bytes).concat();
        [b"UD", &[version, flags][..], &numbers, octets].concat()
    }

    /// Datagrams that nobody takes, each of another kind.
    fn datagrams(&self, noise: &[u8]) -> [Vec<u8>; 8] {
        let (to, key) = (self.datagrams, self.key);
        let right = Self::datagram(1, 0, to, key, &[]);
        let long = Self::datagram(1, 0, to, key, &[1; 60_000]);
        [
            noise.to_vec(),
            Vec::new(),
            right[..right.len() - 1].to_vec(),
            Self::datagram(2, 0, to, key, noise),
            Self::datagram(1, 0x80, to, key, noise),
            Self::datagram(1, 1, to + 9, key, noise),
            Self::datagram(1, 2, to, key + 1, noise),
            // A queue pair that is connected, and a message that is longer than any datagram.
            match noise.len() % 2 {
                0 => Self::datagram(1, 0, self.number, key, noise),
                _ => long,
            },
        ]
    }

    /// A Request of MPA revision 2 with this private data.
    fn request(private_data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(private_data.len()).expect("private data is short");
        [
            b"MPA ID Req Frame\x50\x02",
            &length.to_be_bytes()[..],
            private_data,
        ]
        .concat()
    }

    /// The private data of a call between two queue pairs, to an address of IPv4.
    fn call(&self, version: u8, from: u32, to: u32) -> Vec<u8> {
        let IpAddr::V4(address) = self.to.ip() else {
            panic!("a device has an IPv4 address first");
        };
        let gid = address.to_ipv6_mapped().octets();
        // Of the enhanced start-up: no Reads, and every kind of ready-to-receive message.
        let limits = [0xc0, 0, 0xc0, 0];
        let numbers = [from, to].map(u32::to_be_bytes).concat();
        [&limits[..], b"QPN", &[version], &numbers, &gid, &gid].concat()
    }

    /// Connections of each kind, and datagrams. Returns the number of connections.
    fn send(&self, rounds: u32) -> u64 {
        let mut connections = 0;
        let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port is free");
        let other_host = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets();
        for round in 0..rounds {
            let noise: Vec<u8> = (0..round % 2000)
                .map(|at| (at * round).to_be_bytes()[2])
                .collect();
            let right = self.call(2, self.peer, self.number);
            let mut of_other_host = right.clone();
            of_other_host[16..32].copy_from_slice(&other_host);
            let requests = [
                noise.clone(),
                Self::request(&noise[..noise.len().min(512)]),
                Self::request(&right[..right.len() - 1]),
                Self::request(&self.call(1, self.peer, self.number)),
                Self::request(&self.call(2, self.peer + 1, self.number)),
                Self::request(&self.call(2, self.peer, self.number + 7)),
                Self::request(&of_other_host),
            ];
            for request in requests {
                // The listener may be full, or close the connection earlier.
                if let Ok(mut stream) = TcpStream::connect(self.to) {
                    connections += 1;
                    let _ = stream
                        .write_all(&request)
                        .and_then(|()| stream.write_all(&noise));
                }
            }
            for datagram in self.datagrams(&noise) {
                let _ = udp.send_to(&datagram, self.to);
            }
        }
        connections
    }
}

/// Sends junk as long as `goes_on` says so, at least once.
fn junk_places_nothing(mut goes_on: impl FnMut() -> bool) {
    let Some(program) = compiled("junk") else {
        return;
    };
    let mut command = nd_run(&["timeout", "7000", program.path()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("nd starts");
    let mut tell = child.stdin.take().expect("a pipe");
    let mut hear = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    hear.read_line(&mut line).expect("a line");
    let words: Vec<&str> = line.split_whitespace().collect();
    let [port, number, peer, datagrams, key, address] = words[..] else {
        panic!("{line}");
    };
    let junk = Junk {
        to: format!("{address}:{port}").parse().expect("an address"),
        number: number.parse().expect("a number"),
        peer: peer.parse().expect("a number"),
        datagrams: datagrams.parse().expect("a number"),
        key: key.parse().expect("a number"),
    };
    // What the first ones cost is there before memory is counted.
    junk.send(ROUNDS);
    tell.write_all(b"warm\n").expect("the program reads");
    let mut connections = 0;
    while {
        connections += junk.send(ROUNDS);
        goes_on()
    } {}
    println!("{connections} connections");
    assert!(connections > u64::from(ROUNDS));
    tell.write_all(b"over\n").expect("the program reads");
    let mut said = String::new();
    hear.read_to_string(&mut said).expect("words");
    let status = child.wait().expect("the program ends");
    assert!(
        status.success() && said == "0 failures\n",
        "{status}: {said}"
    );
}

#[test]
fn junk_at_the_port_of_a_queue_pair_places_nothing() {
    junk_places_nothing(|| false);
}

#[test]
#[ignore = "takes a minute: .ci/night numbers"]
fn a_live_peer_without_receives_is_waited_for() {
    has_no_failure("passes", &["waits"]);
}

#[test]
#[ignore = "takes an hour: .ci/night numbers"]
fn an_hour_of_junk_places_nothing() {
    let begun = Instant::now();
    junk_places_nothing(|| begun.elapsed() < Duration::from_secs(3600));
}
