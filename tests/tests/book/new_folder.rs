//! The programs of pages that are complete, built in a new folder with the dependencies that the page names, and run.

use std::fs;
use std::path::Path;
use std::process::Command;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// The pages, each with dependencies and behind or before them a program.
const PAGES: [&str; 2] = ["README.md", "docs/use/library.md"];

/// The first block of a kind for which `fits` is true.
fn block(text: &str, kind: &str, fits: impl Fn(&str) -> bool) -> String {
    let (mut is_inside, mut block) = (false, String::new());
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(own))) => {
                is_inside = &*own == kind;
                block.clear();
            }
            Event::Text(more) if is_inside => block.push_str(&more),
            Event::End(TagEnd::CodeBlock) if is_inside && fits(&block) => return block,
            Event::End(TagEnd::CodeBlock) => is_inside = false,
            _ => {}
        }
    }
    panic!("no block of {kind}");
}

#[test]
#[ignore = "takes minutes: .ci/night book"]
fn programs_of_pages_run_in_a_new_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap();
    for page in PAGES {
        let text = fs::read_to_string(root.join(page)).unwrap();
        let dependencies = block(&text, "toml", |block| block.starts_with("[dependencies]"));
        let program = block(&text, "rust", |block| block.contains("fn main()"));
        let folder = tempfile::tempdir().unwrap();
        let manifest = format!(
            "[package]\nname = \"program\"\nedition = \"2024\"\n\n{dependencies}\n[workspace]\n"
        );
        // The clone is not beside the folder.
        let manifest = manifest.replace("\"../softnd/", &format!("\"{}/", root.display()));
        fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
        // With the versions of other crates that this repository was tested with.
        fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/main.rs"), program).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_") {
                cargo.env_remove(name);
            }
        }
        let target = root.join("target/new-folder");
        let output = cargo
            .args(["run", "--quiet", "--target-dir"])
            .arg(target)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{page}: {said}");
    }
}
