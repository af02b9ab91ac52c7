//! The keys of simulated networks' URLs: the page has those that softnd takes, with their defaults and protocols.

use std::fs;
use std::path::Path;

use softnd::Options;
use softnd::simulation::provider;

/// The rows of the table that begins with `head`, as cells without code marks.
fn rows(page: &str, head: &str) -> Vec<Vec<String>> {
    let (_, table) = page.split_once(head).expect(head);
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    rows.map(|row| row.trim_matches('|').split('|').map(cell).collect())
        .collect()
}

/// The error of a URL.
fn refused(url: &str) -> String {
    let error = provider(url, Options::default()).expect_err(url);
    error.what().to_owned()
}

#[test]
fn the_page_has_all_keys_with_their_defaults_and_protocols() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/use/simulation.md");
    let page = fs::read_to_string(path).unwrap();
    let rows = rows(&page, "| key | form | without it | for | what it is |");
    assert_eq!(rows.len(), 23);
    let unknown = refused("seed=1,colour=red");
    let (_, keys) = unknown.split_once("keys are ").expect("the keys");
    let mut keys: Vec<_> = keys.split(", ").collect();
    let mut names: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
    keys.sort_unstable();
    names.sort_unstable();
    assert_eq!(names, keys);
    for row in &rows[3..] {
        let [key, _, default, protocol, _] = row.as_slice() else {
            panic!("{row:?}")
        };
        let wrong = refused(&format!("seed=1,{key}=red"));
        let end = format!("(of {key}; without the key it is {default})");
        assert!(wrong.ends_with(&end), "{wrong}");
        for other in ["tcp", "udp"] {
            let url = format!("seed=1,protocol={other},{key}={default}");
            if protocol == "both" || protocol == other {
                assert!(provider(&url, Options::default()).is_ok(), "{url}");
            } else {
                let why = refused(&url);
                assert!(why.contains(&format!("{key} has no effect with")), "{why}");
            }
        }
    }
}
