//! Hosts that do not exist, and hosts that a firewall refuses to let be reached. The system has one error for both, so `nd` names both.

use std::path::Path;
use std::process::{Command, Output};

use softnd_tests::{nd, tool};

/// Runs a command in a network whose way leads through a second one. Its router refuses to forward to 192.0.2.1 and 2001:db8::1, as
/// firewalls do, and says that there is no host 192.0.2.2 and 2001:db8::2. `$1` is an empty folder, for pipes between the two networks; the
/// router ends with the first network's shell.
const NETWORKS: &str = r#"
set -e
mkfifo "$1/in" "$1/out"
unshare --net sh -ec '
    exec 3>"$1/out" <"$1/in"
    ip link set lo up
    echo 1 >/proc/sys/net/ipv4/ip_forward
    echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
    echo >&3
    read ready
    ip addr add 10.77.0.2/24 dev way1
    ip -6 addr add fd00:77::2/64 dev way1 nodad
    ip link set way1 up
    ip route add prohibit 192.0.2.1
    ip route add unreachable 192.0.2.2
    ip -6 route add prohibit 2001:db8::1
    ip -6 route add unreachable 2001:db8::2
    echo >&3
    read end || true
' sh "$1" &
router=$!
exec 4<"$1/out" 5>"$1/in"
read ready <&4
ip link set lo up
ip link add way0 type veth peer name way1 netns $router
ip addr add 10.77.0.1/24 dev way0
ip -6 addr add fd00:77::1/64 dev way0 nodad
ip link set way0 up
echo >&5
read ready <&4
ip route add default via 10.77.0.2
ip -6 route add default via fd00:77::2
exec 4<&-
shift
"$@"
"#;

/// The output of a command in these networks.
fn in_networks(command: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--net"])
        .args(["sh", "-c", NETWORKS, "sh"])
        .arg(folder.path())
        .args(command)
        .output()
        .unwrap()
}

#[test]
fn an_unreachable_host_may_be_absent_or_behind_a_firewall() {
    for program in ["unshare", "ip", "sh", "mkfifo"] {
        if tool::find(program).is_none() {
            return;
        }
    }
    let tried = in_networks(&["true"]);
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        return tool::skip_here(&format!("no networks of their own: {}", why.trim()));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let commands = r#"
for host in 192.0.2.1 192.0.2.2 2001:db8::1 2001:db8::2; do
    case $host in *:*) address=[$host]:7 ;; *) address=$host:7 ;; esac
    "$1" cat send "$2" $address 2>&1 | sed "s/^/$host cat /"
    "$1" rping -c -a $host -p 7 -C 1 2>&1 | sed "s/^/$host rping /"
    "$1" perf run $address --test latency 2>&1 | sed "s/^/$host perf /"
done"#;
    let nd = nd::binary().to_str().unwrap();
    let output = in_networks(&["sh", "-c", commands, "sh", nd, file.to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().count(), 12, "{said}");
    for line in said.lines() {
        assert!(line.contains(" nd: error: cannot connect to "), "{said}");
        // Over IPv6 the system's error is the one for what this machine itself forbids. Adapters have one status for both.
        let expected = if line.starts_with("2001:db8::1 perf ") {
            "a rule of this machine that forbids it (its firewall and routes, seccomp, SELinux) or, over IPv6, for a firewall on the way"
        } else if line.contains("ND_NETWORK_UNREACHABLE") {
            "no route leads to this network, or a firewall refuses it"
        } else {
            "there is no such host, or a firewall refuses"
        };
        assert!(line.contains(expected), "{said}");
    }
}
