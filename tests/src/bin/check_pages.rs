//! Writes the pages of the book that are made from the catalogues of rows and from the checks.

use std::fs;
use std::path::Path;

use softnd_tests::check_pages::pages;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for page in pages(&root) {
        let path = root.join("docs/check").join(&page.path);
        fs::create_dir_all(path.with_file_name("")).expect("a folder for the page");
        fs::write(&path, &page.text).expect("a page that can be written");
    }
}
