//! Programs in which `nd run` can preload nothing: one sentence says so.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use softnd_tests::c_programs::CProgram;
use softnd_tests::other_user::OtherUser;
use softnd_tests::tool;
use softnd_tests::verbs_programs::{nd_run, open_trees};

/// What a run says on standard error.
fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The sentence of a run that is refused.
#[track_caller]
fn refused(run: &mut Command) -> String {
    let output = run.output().unwrap();
    let said = said(&output);
    assert!(!output.status.success(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// Compiles the program of the tests for musl.
fn for_musl(folder: &Path) -> Option<PathBuf> {
    let path = folder.join("musl");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/verbs/executes.c");
    let mut compiler = Command::new(tool::find("musl-gcc")?);
    let compiled = compiler.arg(source).arg("-o").arg(&path).output().unwrap();
    assert!(compiled.status.success(), "{}", said(&compiled));
    Some(path)
}

/// A script that is run by `line`.
pub(crate) fn script(folder: &Path, name: &str, line: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, format!("#!{line}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn programs_for_musl_are_refused_and_so_are_their_scripts() {
    let folder = tempfile::tempdir().unwrap();
    let Some(musl) = for_musl(folder.path()) else {
        return;
    };
    let path = musl.to_str().unwrap();
    let direct = refused(&mut nd_run(&[path]));
    assert!(
        direct.contains(&format!("{path} is linked for ")),
        "{direct}"
    );
    assert!(direct.contains("ld-musl"), "{direct}");
    let by_path = script(folder.path(), "by_path", &format!(" {path} -x"));
    let by_script = script(folder.path(), "by_script", &by_path);
    let by_name = script(folder.path(), "by_name", "/usr/bin/env -S A=b musl");
    for script in [by_path, by_script, by_name] {
        let mut run = nd_run(&[&script]);
        run.env("PATH", folder.path());
        let said = refused(&mut run);
        let expected = format!("{script} is a script for {path}, which is linked for ");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn each_function_executes_programs_as_before() {
    let Some(program) = CProgram::compile("executes", &["stdio.h"], &[]) else {
        return;
    };
    let output = nd_run(&[program.path(), program.path()]).output().unwrap();
    let said = said(&output);
    assert!(output.status.success() && said.is_empty(), "{said}");
    assert_eq!(output.stdout, b"0 failures\n");
}

#[test]
fn each_child_for_musl_is_one_sentence() {
    let Some(program) = CProgram::compile("executes", &["stdio.h"], &[]) else {
        return;
    };
    let Some(musl) = for_musl(program.folder()) else {
        return;
    };
    let path = musl.to_str().unwrap();
    let output = nd_run(&[program.path(), path]).output().unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(output.stdout, b"0 failures\n");
    assert_eq!(said.lines().count(), 12, "{said}");
    let sentence = " is linked for another C library than glibc";
    assert!(said.lines().all(|line| line.contains(sentence)), "{said}");
    // What the user preloads, and other variables, stay.
    let shell = format!("LD_PRELOAD=/no/library:$LD_PRELOAD {path}; env -i A=b {path}");
    let output = nd_run(&["sh", "-c", &shell]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let lines = said.lines().filter(|line| line.contains(sentence));
    assert_eq!(lines.count(), 1, "{said}");
}

#[test]
fn a_sandbox_without_the_folder_is_one_sentence() {
    let Some(sandbox) = tool::find("bwrap") else {
        return;
    };
    let sandbox = sandbox.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let hidden = folder.path().to_str().unwrap();
    let run = |program: &[&str]| {
        let mut run = nd_run(&[&[sandbox, "--dev-bind", "/", "/"][..], program].concat());
        run.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", hidden);
        let output = run.output().unwrap();
        open_trees(folder.path());
        output
    };
    let visible = run(&["ls", "/sys/class/infiniband"]);
    if !visible.status.success() {
        return tool::skip_here("this machine makes no sandboxes");
    }
    assert!(
        visible.stdout.starts_with(b"softnd0\n"),
        "{}",
        said(&visible)
    );
    let output = run(&["--tmpfs", hidden, "sh", "-c", "true; env; ls /"]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let expected = format!(
        "nd run: sh finds no devices, because it does not see the folder {hidden}/softnd-verbs-"
    );
    assert!(said.starts_with(&expected), "{said}");
    let variables = String::from_utf8(output.stdout).unwrap();
    assert!(!variables.contains("LD_PRELOAD"), "{variables}");
}

#[test]
fn programs_with_file_capabilities_are_refused_and_so_are_their_scripts() {
    let Some(user) = OtherUser::new() else {
        return;
    };
    let Some(setcap) = tool::find("setcap") else {
        return;
    };
    let program = user.folder().join("capable");
    fs::copy("/bin/true", &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let path = program.to_str().unwrap();
    let runs = |path: &str| user.nd_run(&[path]).output().unwrap();
    assert!(runs(path).status.success(), "{}", said(&runs(path)));
    let set = Command::new(setcap).args(["cap_net_raw+ep", path]).output();
    if !set.unwrap().status.success() {
        return tool::skip_here("this file system takes no capabilities");
    }
    let said = refused(&mut user.nd_run(&[path]));
    assert!(said.contains("has file capabilities"), "{said}");
    let by_script = script(user.folder(), "by_script", path);
    let said = refused(&mut user.nd_run(&[&by_script]));
    let expected = format!("{by_script} is a script for {path}, which has file capabilities");
    assert!(said.contains(&expected), "{said}");
    // Root has all rights before, so its programs do get the libraries.
    let shown = nd_run(&[path]).output().unwrap();
    assert!(shown.status.success());
}
