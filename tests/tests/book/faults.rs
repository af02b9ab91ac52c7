//! The calls that a fault plan can name: the page has those that softnd takes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use softnd::Options;
use softnd::faults::Plan;

#[test]
fn the_page_has_all_names_of_calls() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/use/faults.md");
    let page = fs::read_to_string(path).unwrap();
    let (_, table) = page
        .split_once("| object | calls |\n|---|---|\n")
        .expect("the table");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let on_page: BTreeSet<_> = rows
        .flat_map(|row| row.split('`').skip(1).step_by(2))
        .collect();
    let plan: Plan = "when 1st Nothing called: remove device".parse().unwrap();
    let error = Options::default().faults(plan).expect_err("no such call");
    let (_, names) = error.problem().split_once("one of ").expect("the names");
    let (names, _) = names.split_once(", found").expect("what was found");
    let taken: BTreeSet<_> = names
        .split(", ")
        .map(|name| name.trim_matches('`'))
        .collect();
    assert_eq!(on_page, taken);
    assert_eq!(taken.len(), 20);
}
