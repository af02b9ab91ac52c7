//! Debian's programs for verbs, unmodified, over softnd's libraries: every row of the table in the book.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use softnd_tests::c_programs::CProgram;
use softnd_tests::verbs_programs::free_port;
use softnd_tests::verbs_table::{MARKS, PAGE, replace, rows, run, table};
use softnd_tests::{device_tests, nd, own_network, tool};

/// The programs that the rows name.
fn are_installed() -> bool {
    let commands = rows().into_iter().flat_map(|row| {
        let others = row.prepare.iter().chain(row.finish).copied();
        others.chain([row.server, row.client])
    });
    // `env` and variables come before some.
    let programs = commands.filter_map(|command| {
        let mut words = command.split_whitespace();
        words.find(|word| *word != "env" && !word.contains('='))
    });
    let mut programs: Vec<_> = programs
        .filter(|program| !matches!(*program, "nd" | "ND"))
        .collect();
    programs.sort_unstable();
    programs.dedup();
    programs
        .into_iter()
        .all(|program| tool::find(program).is_some())
}

/// The variable with a text that the client's command contains, to run some rows alone.
const ROWS: &str = "SOFTND_ROWS";

#[test]
#[ignore = "takes minutes, and needs Debian's packages for RDMA; .ci/night runs it"]
fn every_program_of_the_table_works() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    if !are_installed() {
        return;
    }
    nd::build_libraries();
    let chosen = env::var(ROWS).unwrap_or_default();
    let rows: Vec<_> = rows()
        .into_iter()
        .filter(|row| !row.ipv6 || tool::has_ipv6())
        .filter(|row| row.client.contains(&chosen))
        .collect();
    let outcomes: Vec<_> = rows
        .iter()
        .map(|row| {
            let outcome = run(row, &tshark);
            // Not `println!`, because the test harness hides its output when the test passes.
            let failures = outcome.failures();
            let _ = writeln!(std::io::stderr(), "{}: {failures:?}", row.client);
            outcome
        })
        .collect();
    let failures: Vec<_> = outcomes.iter().flat_map(|one| one.failures()).collect();
    if chosen.is_empty() {
        compare_with_book(MARKS, &table(rows.iter().zip(&outcomes)));
    } else {
        let _ = writeln!(std::io::stderr(), "{}", table(rows.iter().zip(&outcomes)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The book has the lines of this table. With `SOFTND_WRITE_TABLE` the table is written there, between the marks.
#[track_caller]
fn compare_with_book(marks: [&str; 2], table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
    let page = fs::read_to_string(&path).expect("the page");
    if env::var_os("SOFTND_WRITE_TABLE").is_some() {
        let page = replace(&page, marks, table).expect("a page with a table");
        fs::write(&path, page).expect("a page that can be written");
    } else {
        let missing: Vec<_> = table.lines().filter(|line| !page.contains(line)).collect();
        assert!(missing.is_empty(), "{PAGE} lacks:\n{}", missing.join("\n"));
    }
}

/// The variable with the folder in which the package `tests` of rdma-core's device tests is.
const DEVICE_TESTS: &str = "SOFTND_DEVICE_TESTS";

#[test]
#[ignore = "needs rdma-core's device tests; .ci/night device-tests has them"]
fn none_of_rdma_cores_device_tests_fails() {
    let Some(folder) = env::var_os(DEVICE_TESTS) else {
        return tool::skip_here(&format!("{DEVICE_TESTS} names no folder with these tests"));
    };
    nd::build_libraries();
    let numbers = device_tests::run(Path::new(&folder));
    compare_with_book(device_tests::MARKS, &device_tests::table(&numbers));
    let failures = device_tests::failures(&numbers);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The input of hpcc: its fourth line names the matrix' order, which is small, because debug builds run this too.
const HPCC_INPUT: &str = "/usr/share/doc/hpcc/examples/_hpccinf.txt";

/// Runs hpcc with four processes, `mpirun` with these arguments and variables. It verifies its own results.
#[track_caller]
fn run_hpcc(mpirun: &[&str], variables: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let input = fs::read_to_string(HPCC_INPUT).expect("hpcc's input");
    let mut lines: Vec<_> = input.lines().collect();
    lines[5] = "200          Ns";
    fs::write(folder.path().join("hpccinf.txt"), lines.join("\n")).expect("a file");
    let mut hpcc = open_mpi(mpirun, variables);
    let output = hpcc.arg("hpcc").current_dir(folder.path()).output();
    let output = output.expect("nd starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let report = fs::read_to_string(folder.path().join("hpccoutf.txt")).expect("a report");
    for expected in [
        "Success=1",
        "End of HPC Challenge tests.",
        "0 tests completed and failed",
    ] {
        assert!(report.contains(expected), "{expected} is not in {report}");
    }
    assert!(!report.contains("FAILED"), "{report}");
}

/// `mpirun` of Open MPI by `nd run`, with four processes.
fn open_mpi(more: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut mpirun = Command::new(nd::binary());
    mpirun.args(["run", "--", "mpirun", "--allow-run-as-root"]);
    mpirun.args(["--oversubscribe", "-np", "4"]).args(more);
    mpirun.envs(variables.iter().copied());
    mpirun
}

/// libfabric treats 127.0.0.1 apart, so the network has another address.
#[test]
#[ignore = "takes a minute, and needs Debian's packages for MPI; .ci/night runs it"]
fn hpcc_over_open_mpi_and_libfabric_verifies_its_results() {
    own_network::inside(
        "hpcc_over_open_mpi_and_libfabric_verifies_its_results",
        "ip link set lo up; ip link add v0 type veth peer name v1; ip addr add 10.99.0.1/24 dev v0; \
         ip link set v0 up; ip link set v1 up",
        || {
            let (Some(_), Some(_)) = (tool::find("mpirun"), tool::find("hpcc")) else {
                return;
            };
            nd::build_libraries();
            let over_libfabric = ["--mca", "pml", "cm", "--mca", "mtl", "ofi"];
            run_hpcc(&over_libfabric, &[("FI_PROVIDER", "verbs;ofi_rxm")]);
        },
    );
}

/// Runs a program of `tests/verbs` over another library, which counts its failures.
#[track_caller]
fn numbers_over(name: &str, header: &str, library: &str, arguments: &[&str]) {
    let libraries = [library, "-libverbs", "-lrdmacm", "-lpthread"];
    let Some(program) = CProgram::compile(name, &[header, "infiniband/verbs.h"], &libraries) else {
        return;
    };
    nd::build_libraries();
    let mut command = Command::new(nd::binary());
    command.args(["run", "--", "timeout", "300", program.path()]);
    let output = command.args(arguments).output().expect("nd starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && said == "0 failures\n";
    assert!(passed, "{name}: {}: {said}{errors}", output.status);
}

#[test]
#[ignore = "needs librpma; .ci/night runs it"]
fn sends_with_a_number_by_librpma() {
    numbers_over("rpma", "librpma.h", "-lrpma", &[&free_port()]);
}

#[test]
#[ignore = "needs libfabric; .ci/night runs it"]
fn sends_with_a_number_by_libfabric() {
    let arguments = ["127.0.0.1", &free_port()];
    numbers_over("fabric", "rdma/fi_cm.h", "-lfabric", &arguments);
}

/// UCX over the first device alone, also within the machine.
const UCX_OVER_VERBS: [(&str, &str); 2] =
    [("UCX_TLS", "rc_v,self"), ("UCX_NET_DEVICES", "softnd0:1")];

#[test]
#[ignore = "takes a minute, and needs Debian's packages for MPI; .ci/night runs it"]
fn open_mpi_over_ucx_verifies_its_results() {
    let programs = ["mpirun", "hpcc"].map(tool::find);
    if programs.contains(&None) {
        return;
    }
    nd::build_libraries();
    run_hpcc(&["--mca", "pml", "ucx"], &UCX_OVER_VERBS);
    let mut ring = open_mpi(&["--mca", "pml", "ucx"], &UCX_OVER_VERBS);
    ring.args(["/usr/bin/python3", "-m", "mpi4py.bench", "ringtest"]);
    ring.args(["-n", "65536", "-l", "100"]);
    let output = ring.output().expect("nd starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert!(said.contains("4 processes, 65536 bytes"), "{said}");
}

/// With no variable, over UCX's transport for verbs alone, and with each process by an `nd run` of its own.
#[test]
#[ignore = "needs Debian's packages for MPICH; .ci/night runs it"]
fn mpich_runs_over_ucx() {
    let programs = ["mpicc.mpich", "mpiexec.mpich"].map(tool::find);
    let [Some(compiler), Some(_)] = &programs else {
        return;
    };
    nd::build_libraries();
    let folder = tempfile::tempdir().expect("a folder");
    let ring = folder.path().join("ring");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("verbs/mpi_ring.c");
    let mut compiler = Command::new(compiler);
    compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
    let compiled = compiler.arg(&ring).arg(source).status();
    assert!(compiled.expect("a compiler").success());
    for (is_each, variables) in [
        (false, &[][..]),
        (false, &UCX_OVER_VERBS),
        (true, &UCX_OVER_VERBS),
    ] {
        let mut mpiexec = match is_each {
            false => {
                let mut run = Command::new(nd::binary());
                run.args(["run", "--", "mpiexec.mpich", "-np", "4"]);
                run
            }
            true => {
                let mut mpiexec = Command::new("mpiexec.mpich");
                mpiexec.args(["-np", "4"]).arg(nd::binary());
                mpiexec.args(["run", "--"]);
                mpiexec
            }
        };
        mpiexec.env_remove("UCX_TLS").env_remove("UCX_NET_DEVICES");
        mpiexec.envs(variables.iter().copied());
        let output = mpiexec.arg(&ring).output().expect("a program");
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{variables:?}: {said}{errors}");
        assert!(
            said.contains("4 processes: all contents are right"),
            "{said}"
        );
    }
}

/// A virtual machine without a disk, by `nd run`, whose monitor has the standard streams.
fn qemu(more: &[&str]) -> Child {
    let mut qemu = Command::new(nd::binary());
    qemu.args([
        "run",
        "--",
        "qemu-system-x86_64",
        "-accel",
        "tcg",
        "-m",
        "64",
    ]);
    qemu.args(["-display", "none", "-nodefaults", "-monitor", "stdio"]);
    qemu.args(more).stdin(Stdio::piped()).stdout(Stdio::piped());
    qemu.spawn().expect("nd starts")
}

/// Has the monitor execute commands, the last of which is `quit`, and returns what it has printed.
fn command(qemu: Child, commands: &str) -> String {
    let mut monitor = qemu.stdin.as_ref().expect("a pipe");
    monitor.write_all(commands.as_bytes()).expect("a monitor");
    let output = qemu.wait_with_output().expect("a child");
    assert!(output.status.success(), "{}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs QEMU; .ci/night runs it"]
fn qemu_migrates_over_rdma() {
    if tool::find("qemu-system-x86_64").is_none() {
        return;
    }
    nd::build_libraries();
    let address = format!("rdma:127.0.0.1:{}", free_port());
    // The monitor answers when the machine listens.
    let mut target = qemu(&["-incoming", "defer"]);
    let mut monitor = target.stdin.as_ref().expect("a pipe");
    writeln!(monitor, "migrate_incoming {address}\ninfo status").expect("a monitor");
    let mut said = BufReader::new(target.stdout.take().expect("a pipe"));
    assert!(status(&mut said).contains("paused (inmigrate)"));
    let source = command(
        qemu(&[]),
        &format!("migrate {address}\ninfo migrate\nquit\n"),
    );
    assert!(source.contains("Migration status: completed"), "{source}");
    loop {
        writeln!(monitor, "info status").expect("a monitor");
        let status = status(&mut said);
        if status.contains("running") {
            break;
        }
        assert!(status.contains("inmigrate"), "{status}");
    }
    writeln!(monitor, "quit").expect("a monitor");
    assert!(target.wait().expect("a child").success());
}

/// The monitor's next line about the machine.
fn status(monitor: &mut impl BufRead) -> String {
    let mut lines = monitor.lines().map(|line| line.expect("text"));
    let status = lines.find(|line| line.starts_with("VM status:"));
    status.expect("the machine runs")
}

/// The suite of NetworkDirect over these libraries: no check fails but the known ones.
#[test]
#[ignore = "takes minutes; .ci/night runs it"]
fn network_direct_runs_over_the_libraries() {
    nd::build_libraries();
    let mut conform = Command::new(nd::binary());
    conform.args(["run", "--as", "iwarp", "--"]);
    conform.arg(nd::binary());
    conform.args(["conform", "verbs://softnd0", "--deviations", "softnd-verbs"]);
    let output = conform.output().expect("nd starts");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
}
