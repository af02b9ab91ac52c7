//! Writes the part of `docs/check/nd-conformance.md` that is made from the rows of the catalogue and the checks of the suite.

use std::fs;
use std::path::Path;

use softnd_tests::nd_rows::{MARK, page};

fn main() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/check/nd-conformance.md");
    let text = fs::read_to_string(&path).expect("the page");
    let (by_hand, _) = text.split_once(MARK).expect("the mark in the page");
    fs::write(&path, format!("{by_hand}{MARK}{}", page())).expect("a page that can be written");
}
