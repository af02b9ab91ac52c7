//! `.ci/subjects`, in histories that the tests write.

use std::fs;
use std::path::Path;
use std::process::Command;

use softnd_tests::tool;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Runs git in a folder, as somebody whose settings do not matter.
fn git(folder: &Path, args: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x"])
        .args([
            "-c",
            "commit.gpgsign=false",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(done.status.success(), "git {args:?}: {done:?}");
}

fn commit(folder: &Path, subject: &str) {
    let args = ["commit", "--quiet", "--allow-empty", "--message", subject];
    git(folder, &args);
}

/// Puts the script there.
fn add_script(folder: &Path) {
    fs::create_dir(folder.join(".ci")).unwrap();
    fs::copy(root().join(".ci/subjects"), folder.join(".ci/subjects")).unwrap();
}

/// The exit status, and all output.
fn run(folder: &Path) -> (Option<i32>, String) {
    let done = Command::new(folder.join(".ci/subjects")).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8(said).unwrap())
}

/// A clone with a long subject before the script was added, and the script.
fn clone() -> tempfile::TempDir {
    let clone = tempfile::tempdir().unwrap();
    git(clone.path(), &["init", "--quiet", "--initial-branch=main"]);
    commit(clone.path(), &"before ".repeat(20));
    add_script(clone.path());
    git(clone.path(), &["add", ".ci"]);
    commit(clone.path(), &"the script itself ".repeat(9));
    clone
}

#[test]
fn subjects_after_the_check_have_72_characters_at_most() {
    if tool::find("git").is_none() {
        return;
    }
    let clone = clone();
    let (code, said) = run(clone.path());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("0 subjects"), "{said}");
    // Each of these characters has two octets.
    commit(clone.path(), &"ä".repeat(72));
    let (code, said) = run(clone.path());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("1 subjects"), "{said}");
    let long = "x".repeat(73);
    commit(clone.path(), &long);
    commit(clone.path(), "short");
    let (code, said) = run(clone.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(&format!("has 73 characters, and 72 is the most: {long}")),
        "{said}"
    );
    assert!(
        !said.contains("before") && !said.contains("script itself"),
        "{said}"
    );
}

/// The commits that are there are checked, but for the oldest, whose parents are not there to say whether it added the script.
#[test]
fn a_shallow_clone_checks_the_subjects_that_it_has() {
    if tool::find("git").is_none() {
        return;
    }
    let whole = clone();
    for subject in ["first", &"x".repeat(80), "last"] {
        commit(whole.path(), subject);
    }
    let url = format!("file://{}", whole.path().display());
    for (depth, code, words) in [
        ("--depth=1", 0, "0 subjects"),
        ("--depth=2", 0, "1 subjects"),
        ("--depth=3", 1, "has 80 characters"),
        ("--depth=9", 1, "has 80 characters"),
    ] {
        let shallow = tempfile::tempdir().unwrap();
        git(shallow.path(), &["clone", "--quiet", depth, &url, "."]);
        let (found, said) = run(shallow.path());
        assert_eq!(found, Some(code), "{depth}: {said}");
        assert!(said.contains(words), "{depth}: {said}");
    }
}

#[test]
fn a_folder_without_a_history_has_no_subjects() {
    let folder = tempfile::tempdir().unwrap();
    add_script(folder.path());
    let (code, said) = run(folder.path());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("no subjects to check"), "{said}");
}
