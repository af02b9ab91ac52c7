//! Debian's programs for verbs, unmodified, over softnd's libraries: every row of the table in the book.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use softnd_tests::verbs_table::{PAGE, replace, rows, run, table};
use softnd_tests::{nd, tool};

/// The programs that the rows name.
fn are_installed() -> bool {
    let commands = rows().into_iter().flat_map(|row| [row.server, row.client]);
    let programs = commands.filter_map(|command| command.split_whitespace().next());
    let mut programs: Vec<_> = programs
        .filter(|program| !matches!(*program, "nd" | "ND"))
        .collect();
    programs.sort_unstable();
    programs.dedup();
    programs
        .into_iter()
        .all(|program| tool::find(program).is_some())
}

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
    let rows: Vec<_> = rows()
        .into_iter()
        .filter(|row| !row.ipv6 || tool::has_ipv6())
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
    let page = fs::read_to_string(&path).expect("the page");
    let table = table(rows.iter().zip(&outcomes));
    if env::var_os("SOFTND_WRITE_TABLE").is_some() {
        let page = replace(&page, &table).expect("a page with a table");
        fs::write(&path, page).expect("a page that can be written");
    } else if page.contains("| server | client |") {
        let missing: Vec<_> = table.lines().filter(|line| !page.contains(line)).collect();
        assert!(missing.is_empty(), "{PAGE} lacks:\n{}", missing.join("\n"));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
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
