//! softnd with the soft-iWARP driver of the Linux kernel, in a guest: the results of both sides, and what the wire shows.
//!
//! The cases are in `tests/interop/cases.sh`. With `SOFTND_REPORT=1` the run is written down as `docs/reports/interop.md`.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use iwarp_conform::Deviations;
use softnd_tests::alignment::Alignment;
use softnd_tests::conformance::{self, Findings};
use softnd_tests::dissect::{Dissection, Packet};
use softnd_tests::guest::Guest;
use softnd_tests::interop::{CONFORMANCE, Case, PROGRAMS_PART, Report, programs_table};
use softnd_tests::{nd, tool};

/// The limit for the start of a guest and its cases: a little more than the guest's script allows.
const LIMIT: Duration = Duration::from_secs(840);

/// The groups of cases, each with its own capture, by the guest that they share and its number of processors. The conformance suite has its
/// own guest, because neither the suite nor other cases should start with what the others have left of siw. A peer that ends its connection
/// as soon as it has the Reply, as the suite does, can be faster than siw itself. siw then reports the end before the beginning, and the
/// kernel stops at a `BUG` in `cm_work_handler`. On one processor siw has reported the beginning before the peer runs. But the listener is
/// lost only on two processors.
const GUESTS: [(u32, &[&str]); 3] = [
    (2, &["misuse", "rping", "perftest"]),
    (1, &["conform"]),
    (2, &["half_open"]),
];

/// Runs the cases of some groups in the guest. Returns the output of the script.
fn run(
    guest: &Guest,
    program: &Path,
    folder: &Path,
    (processors, groups): (u32, &[&str]),
) -> Vec<Case> {
    let share = folder.join("share");
    fs::create_dir_all(&share).expect("a folder to share");
    fs::write(share.join("groups"), groups.join(" ")).expect("the groups are named");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/cases.sh");
    fs::copy(script, share.join("main")).expect("the guest's script is copied");
    fs::copy(env!("CARGO_BIN_EXE_siw_peer"), share.join("siw_peer")).expect("siw_peer is copied");
    fs::copy(program, share.join("nd")).expect("nd is copied");
    for library in ["libibverbs.so", "librdmacm.so", "libnd_paths.so"] {
        let built = program.with_file_name(library);
        fs::copy(built, share.join(library)).expect("the libraries are copied");
    }
    let out = folder.join("out");
    // Removes the file of the guest before, because by its absence the script knows that a guest has failed.
    let _ = fs::remove_file(out.join("status"));
    let said = guest.run(processors, LIMIT, &share, &out);
    let cases: Vec<_> = said.text.lines().filter_map(Case::parse).collect();
    let all = cases.iter().all(|case| case.passed);
    assert!(
        said.status.success() && all,
        "guest: {}\n{}\n{}",
        said.status,
        said.text,
        said.errors
    );
    cases
}

/// Checks the cases whose ports are in the group's capture. Returns the FPDUs per port, and where softnd's segments begin. Wireshark does
/// not judge what the conformance suite sends, because that is wrong on purpose; the suite's cases only need FPDUs.
fn check(cases: &[Case], tshark: &Path, capture: &Path) -> (BTreeMap<u16, usize>, Alignment) {
    let found = Dissection::without_checksums(tshark, capture);
    let mut ports: HashMap<_, Vec<_>> = HashMap::new();
    for packet in &found.packets {
        // The one of the two ports that belongs to a case.
        let (from, to) = packet.ports;
        let known = |port| cases.iter().any(|case| case.port == port);
        let port = if known(from) { from } else { to };
        ports.entry(port).or_default().push(packet);
    }
    let (mut fpdus, mut alignment) = (BTreeMap::new(), Alignment::default());
    for case in cases {
        if let Some(packets) = ports.get(&case.port) {
            let of_packet = |packet: &&Packet| packet.opcodes.len();
            let found: usize = packets.iter().map(of_packet).sum();
            if case.is_elsewhere() {
                continue;
            }
            if case.name.starts_with(CONFORMANCE) {
                assert!(found > 0, "{}: no FPDU was dissected", case.name);
            } else {
                case.check(packets);
                let found = case.alignment(packets);
                assert_eq!(found.cut_crcs, 0, "{}: {found:?}", case.name);
                alignment += found;
            }
            fpdus.insert(case.port, found);
        }
    }
    (fpdus, alignment)
}

/// Judges what the conformance suite has found, and writes the result into its cases.
fn judge(cases: &mut [Case], out: &Path, known: &Deviations) {
    let mut runs = Vec::new();
    for case in cases {
        if let Some(name) = case.name.strip_prefix(CONFORMANCE) {
            let run = Findings::read(&out.join(name).with_extension("json"));
            case.figure = run.figure();
            runs.push(run);
        }
    }
    assert_eq!(conformance::judge(&runs, known), Ok(()));
}

/// The first line of a program's version.
fn version(program: &Path) -> String {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().unwrap_or_default().to_owned()
}

fn write_report(
    guest: &Guest,
    tshark: &Path,
    cases: &[Case],
    (fpdus, alignment): (BTreeMap<u16, usize>, Alignment),
    time: Duration,
    deviations: &Deviations,
) {
    let mut versions = vec![("softnd", version(&nd::optimized()))];
    for (what, package) in [
        ("Linux, with siw", "linux-image-"),
        ("rdma-core (rping)", "rdmacm-utils"),
        ("perftest", "perftest"),
        ("tcpdump", "tcpdump"),
    ] {
        versions.push((what, guest.version(package)));
    }
    versions.push(("tshark", version(tshark)));
    versions.push(("qemu", version(Path::new("qemu-system-x86_64"))));
    let report = Report {
        versions,
        cases,
        fpdus,
        alignment,
        time,
        deviations,
    };
    assert!(report.left_out().is_empty(), "{:?}", report.left_out());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reports/interop.md");
    fs::write(path, report.page()).expect("the report is written");
}

#[test]
#[ignore = "needs a guest: cargo make interop"]
fn kernel_siw_and_softnd_understand_each_other() {
    let Some(guest) = Guest::find() else { return };
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let program = nd::optimized();
    let begun = Instant::now();
    let mut cases = Vec::new();
    for started in GUESTS {
        cases.extend(run(&guest, &program, folder.path(), started));
    }
    let time = begun.elapsed();
    for kind in [
        "softnd-connects/ping/",
        "siw-connects/ping/",
        "nd-rping-client/",
        "nd-rping-server/",
        "nd-perftest-client/",
        "nd-perftest-server/",
        CONFORMANCE,
    ] {
        let found = cases.iter().any(|case| case.name.starts_with(kind));
        assert!(found, "no case of {kind}: {cases:?}");
    }

    let out = folder.path().join("out");
    let known = Deviations::shipped("siw-6.1").expect("siw's are shipped");
    let known = known.expect("and can be read");
    judge(&mut cases, &out, &known);

    let (mut fpdus, mut alignment) = (BTreeMap::new(), Alignment::default());
    for group in GUESTS.into_iter().flat_map(|(_, groups)| groups) {
        let capture = out.join(group).with_extension("pcap");
        let (found, aligned) = check(&cases, &tshark, &capture);
        fpdus.extend(found);
        alignment += aligned;
    }
    for case in &cases {
        assert!(
            fpdus.contains_key(&case.port),
            "{}: nothing was captured",
            case.name
        );
    }
    if env::var_os("SOFTND_REPORT").is_some() {
        write_report(&guest, &tshark, &cases, (fpdus, alignment), time, &known);
    }
}

/// Programs that were compiled for libibverbs and librdmacm, with one end over softnd and the other one over siw.
#[test]
#[ignore = "needs a guest: cargo make interop"]
fn unmodified_programs_run_between_softnd_and_kernel_siw() {
    let Some(guest) = Guest::find() else { return };
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let program = nd::optimized();
    let group = "programs";
    let cases = run(&guest, &program, folder.path(), (2, &[group]));
    // Ten programs, two roles, with and without CRC, two MTUs.
    assert_eq!(cases.len(), 80, "{cases:?}");
    let capture = folder.path().join("out").join(group).with_extension("pcap");
    let (fpdus, _) = check(&cases, &tshark, &capture);
    for case in cases.iter().filter(|case| !case.is_elsewhere()) {
        let of_case = fpdus.get(&case.port).copied().unwrap_or_default();
        assert!(of_case > 0, "{}: no FPDU was captured", case.name);
    }
    if env::var_os("SOFTND_REPORT").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/use/verbs.md");
        let page = fs::read_to_string(&path).expect("the chapter");
        let page = conform_report::page::replace(&page, PROGRAMS_PART, &programs_table(&cases));
        fs::write(path, page.expect("the chapter has the marks")).expect("the table is written");
    }
}
