//! The variables of `libsoftnd.so`: the page about C has the table of the library's readme.

use std::fs;
use std::path::Path;

#[test]
fn the_page_about_c_has_the_variables_of_the_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rows = |page: &str| {
        let text = fs::read_to_string(root.join(page)).unwrap();
        let rows = text
            .lines()
            .filter(|line| line.starts_with("| `SOFTND_COM_"));
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    let of_library = rows("crates/libsoftnd/README.md");
    assert!(of_library.len() > 15, "{of_library:#?}");
    assert_eq!(rows("docs/use/c.md"), of_library);
}
