//! Each entry of `suppressions/softnd.tsan` has its reason directly above it.

use std::fs;

use super::root;

/// The entries that name a library, because ThreadSanitizer knows no name that is narrower. Their reasons begin with [`BY_LIBRARY`].
const LIBRARIES: [&str; 3] = [
    "called_from_lib:libibverbs.so.1",
    "race:libsoftnd.so",
    "race:libnetdirect.so",
];
const BY_LIBRARY: &str = "# By the library: ";

/// What is wrong with each entry of a file, and the entries that name libraries.
fn read(text: &str) -> (Vec<String>, Vec<&str>) {
    let (mut wrong, mut libraries) = (Vec::new(), Vec::new());
    // The lines of the comment that ends above the current line.
    let mut reason: Vec<&str> = Vec::new();
    for line in text.lines() {
        if line.starts_with("# ") {
            reason.push(line);
            continue;
        }
        let reason = std::mem::take(&mut reason);
        if line.is_empty() || line == "#" {
            continue;
        }
        if reason.is_empty() {
            wrong.push(format!("{line}: no reason above it"));
        }
        match line.split_once(':') {
            None | Some((_, "" | "*")) => {
                wrong.push(format!("{line}: no KIND:FUNCTION"));
            }
            Some((kind, pattern)) if kind == "called_from_lib" || pattern.contains(".so") => {
                libraries.push(line);
                if !reason
                    .first()
                    .is_some_and(|first| first.starts_with(BY_LIBRARY))
                {
                    wrong.push(format!(
                        "{line}: {BY_LIBRARY:?} and its functions are missing"
                    ));
                }
            }
            Some(_) => {}
        }
    }
    (wrong, libraries)
}

#[test]
fn each_suppression_of_thread_sanitizer_has_its_reason_above_it() {
    let text = fs::read_to_string(root().join("suppressions/softnd.tsan")).unwrap();
    let (wrong, libraries) = read(&text);
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(libraries, LIBRARIES);
}

#[test]
fn suppressions_without_a_reason_or_a_name_are_found() {
    for text in [
        "race:first",
        "# The reason.\n\nrace:first",
        "# The reason.\nrace:first\nrace:second",
        "# The reason.\nrace:libany.so",
        "# The reason.\ncalled_from_lib:any",
        "# The reason.\nrace:",
        "# The reason.\nrace:*",
        "# The reason.\nfirst",
    ] {
        let (wrong, _) = read(text);
        assert_eq!(wrong.len(), 1, "{text:?}: {wrong:?}");
    }
    let named = "# By the library: `first`.\nrace:libany.so\n\n# The reason.\nrace:first\n";
    assert_eq!(read(named), (Vec::new(), vec!["race:libany.so"]));
}
