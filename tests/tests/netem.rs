//! `nd cat` across paths that delay packets and lose some, between two network namespaces of the guest. One boot for all.
//!
//! The path of the requirement has 20 ms delay and 1 % (or 5 %) loss. Here this is the path's one way: netem on either end
//! delays by 20 ms what this end sends, and loses 1 % (or 5 %) of the packets. A round trip takes 40 ms. A round trip of 20 ms
//! would be the easier reading.
//!
//! With `SOFTND_REPORT=1` the run is written down as `docs/reports/lossy-paths.md`.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use softnd_tests::guest::Guest;
use softnd_tests::nd;
use softnd_tests::netem::{self, LossyPath, Outcome, Transfer, Transport};

/// All of them cross each path in the same boot of the guest, so that their rates can be compared.
const TRANSPORTS: [Transport; 2] = [
    Transport {
        name: "TCP",
        prefix: "",
        receiver: &[],
        sender: &[],
    },
    Transport {
        name: "UDP",
        prefix: "",
        receiver: &["--udp"],
        sender: &["--udp", "--pin", "FINGERPRINT"],
    },
];

/// The paths, and the size of the file that has to cross each.
const PATHS: [(LossyPath, usize); 2] = [
    (LossyPath { delay: 20, loss: 1 }, 16 << 20),
    (LossyPath { delay: 20, loss: 5 }, 4 << 20),
];

fn write_report(guest: &Guest, outcomes: &[Outcome]) {
    let nd = Command::new(nd::optimized())
        .arg("--version")
        .output()
        .expect("nd starts");
    let versions = [
        (
            "softnd",
            String::from_utf8_lossy(&nd.stdout).trim().to_owned(),
        ),
        ("Linux", guest.version("linux-image-")),
        ("iproute2", guest.version("iproute2")),
    ];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reports/lossy-paths.md");
    fs::write(path, netem::page(&versions, outcomes)).expect("the report is written");
}

#[test]
#[ignore = "needs a guest: cargo make netem"]
fn kernel_netem_loses_packets_and_nd_cat_loses_nothing() {
    let Some(guest) = Guest::find() else { return };
    let mut transfers = Vec::new();
    for (path, octets) in PATHS {
        transfers.extend(TRANSPORTS.map(|transport| Transfer {
            transport,
            path,
            octets,
        }));
    }
    let outcomes = netem::run(&guest, &nd::optimized(), &transfers);
    for outcome in &outcomes {
        // Not `println!`, because the test harness hides the output of a test that passes.
        let _ = writeln!(std::io::stderr(), "{outcome}");
    }
    if env::var_os("SOFTND_REPORT").is_some() {
        write_report(&guest, &outcomes);
    }
}
