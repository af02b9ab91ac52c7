//! The readme: every line of code in it is run by something, and the test here names what.

use std::fs;
use std::path::{Path, PathBuf};

use softnd_tests::nd;

/// The way to run a line of the readme.
enum RunBy {
    /// A step of `.ci/run`.
    EachChange,
    /// The step `first-page` of `.ci/night`.
    Night,
    /// A script that the step `packages` of `.ci/night` runs: the script, and how it writes the command.
    Packages(&'static str, &'static str),
    /// The step `first-page`, and the test here by the `nd` of the tests.
    NightAndTest,
}

const COMMANDS: [(&str, RunBy); 10] = [
    ("cargo run --release -- demo", RunBy::EachChange),
    ("cargo test --workspace", RunBy::EachChange),
    ("cargo install --path crates/nd", RunBy::Night),
    (
        ".ci/make-packages",
        RunBy::Packages(".ci/night", r#""$first/.ci/make-packages" --linux"#),
    ),
    (
        "sudo dpkg -i target/packages/softnd_*.deb",
        RunBy::Packages(".ci/package-trial", r#"step dpkg --install "$1""#),
    ),
    (
        "man nd",
        RunBy::Packages(".ci/package-trial", "says 'nd-cat(1)' man nd"),
    ),
    ("cargo build --release", RunBy::Night),
    ("target/release/nd run -- ib_send_lat -R -F &", RunBy::Night),
    (
        "target/release/nd run -- ib_send_lat -R -F 127.0.0.1",
        RunBy::Night,
    ),
    (
        "nd conform softnd+sim://seed=1 --format junit --output nd.xml",
        RunBy::NightAndTest,
    ),
];

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = root.join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fenced blocks of the readme: what is behind the opening fence, and the lines.
fn blocks() -> Vec<(String, Vec<String>)> {
    let mut blocks: Vec<(String, Vec<String>)> = Vec::new();
    let mut is_inside = false;
    for line in read("README.md").lines() {
        if let Some(kind) = line.strip_prefix("```") {
            is_inside = !is_inside;
            if is_inside {
                blocks.push((kind.to_owned(), Vec::new()));
            }
        } else if is_inside {
            blocks.last_mut().unwrap().1.push(line.to_owned());
        } else {
            assert!(
                !line.starts_with("    ") || line.trim().is_empty(),
                "code without a fence has no class: {line}"
            );
        }
    }
    assert!(!is_inside, "a fence is open");
    blocks
}

/// Tokens differ from run to run.
fn without_tokens(line: &str) -> String {
    let mut parts = line.split("0x");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, rest| {
        let token = rest
            .find(|sign: char| !sign.is_ascii_hexdigit())
            .unwrap_or(rest.len());
        text + "0x…" + &rest[token..]
    })
}

/// A test that a reader can copy. The readme has its text.
#[test]
fn a_region_is_registered_without_a_device() -> netdirect::Result<()> {
    use netdirect::{Buffer, MrFlags, Overlapped, ext};

    let adapter = softnd::open("softnd+sim://seed=1", softnd::Options::default())?;
    let file = adapter.create_overlapped_file()?;
    let region = adapter.create_memory_region(&file)?;
    let overlapped = Overlapped::new();
    ext::wait(
        region.register(&Buffer::new(4096), MrFlags::ALLOW_REMOTE_READ, &overlapped),
        &overlapped,
    )?;
    ext::wait(region.deregister(&overlapped), &overlapped)
}

#[test]
fn something_runs_each_line_of_code_in_the_readme() {
    let here = read("tests/tests/it/first_page.rs");
    let (run, night) = (read(".ci/run"), read(".ci/night"));
    let (mut commands, mut programs) = (Vec::new(), 0);
    for (kind, lines) in blocks() {
        match kind.as_str() {
            "sh" => commands.extend(lines),
            // Compiled and run with the documentation of `softnd_tests`, unless they are tests.
            "rust" if lines[0] == "#[test]" => {
                assert!(here.contains(&lines.join("\n")), "{lines:#?}");
                programs += 1;
            }
            "rust" => programs += 1,
            // The dependencies with which `.ci/night book` builds the program in a new folder.
            "toml" => {
                let builder = read("tests/tests/book/new_folder.rs");
                assert!(builder.contains("\"README.md\""), "{builder}");
            }
            "text" => {
                let said = nd::run(["demo"]);
                said.assert_success();
                let said: Vec<_> = said.stdout.lines().map(without_tokens).collect();
                for line in lines.iter().map(|line| without_tokens(line)) {
                    assert!(
                        said.contains(&line),
                        "{line:?} is not of the demo: {said:#?}"
                    );
                }
            }
            _ => panic!("what runs a block of {kind:?}? {lines:#?}"),
        }
    }
    assert!(read("tests/src/lib.rs").contains(r#"include_str!("../../README.md")"#));
    assert_eq!(programs, 2);
    let listed: Vec<_> = COMMANDS.iter().map(|(line, _)| *line).collect();
    assert_eq!(commands, listed, "each command has a class");
    for (command, run_by) in &COMMANDS {
        let is_run = match run_by {
            RunBy::EachChange => run
                .lines()
                .any(|line| line.starts_with("step ") && line.ends_with(command)),
            RunBy::Packages(script, line) => read(script).lines().any(|has| has.trim() == *line),
            RunBy::Night | RunBy::NightAndTest => night.lines().any(|line| line.trim() == *command),
        };
        assert!(is_run, "{command}");
        if matches!(run_by, RunBy::NightAndTest) {
            assert_by_nd(command);
        }
    }
}

/// Runs a command of `nd` in its own folder.
fn assert_by_nd(command: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut output = PathBuf::new();
    let args: Vec<_> = command
        .split(' ')
        .skip(1)
        .map(|arg| {
            if !arg.ends_with(".xml") {
                return arg.to_owned();
            }
            output = folder.path().join(arg);
            output.to_str().unwrap().to_owned()
        })
        .collect();
    nd::run(&args).assert_success();
    let report = fs::read_to_string(&output).unwrap();
    assert!(report.contains("<testsuite"), "{report}");
}
