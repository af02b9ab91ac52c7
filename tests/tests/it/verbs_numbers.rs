//! Unmodified programs that exchange the numbers of their queue pairs by themselves.

use softnd_tests::tool;
use softnd_tests::verbs_programs::{Server, free_port, run};

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
