//! Unmodified programs that exchange the numbers of their queue pairs by themselves.

use softnd_tests::c_programs::CProgram;
use softnd_tests::own_network::inside;
use softnd_tests::tool;
use softnd_tests::verbs_programs::{Server, free_port, nd_run, run};

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
fn ib_write_bw_connects_without_rdma_cm() {
    connects(&["ib_write_bw", "-F", "-n", "500"], "65536");
}

#[test]
fn a_host_that_is_gone_fails_a_request_and_a_peer_without_receives_does_not() {
    inside(
        "verbs_numbers::a_host_that_is_gone_fails_a_request_and_a_peer_without_receives_does_not",
        NETWORK,
        || {
            let headers = ["infiniband/verbs.h", "rdma/rdma_cma.h"];
            let Some(program) =
                CProgram::compile("dead_host", &headers, &["-libverbs", "-lrdmacm"])
            else {
                return;
            };
            let output = nd_run(&["timeout", "120", program.path()])
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said == "0 failures\n", "{said}");
        },
    );
}
