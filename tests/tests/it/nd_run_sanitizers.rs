//! Programs under `nd run` that were built with a sanitizer, whose runtime is a library that has to come first.

use std::path::PathBuf;
use std::process::{Command, Output};

use softnd_tests::c_programs::CProgram;
use softnd_tests::verbs_programs::nd_run;
use softnd_tests::{nd, tool};

use super::nd_run_without::script;

const SANITIZERS: [(&str, &str); 2] = [("address", "libasan.so"), ("thread", "libtsan.so")];

/// A runtime's library, as gcc finds it. `None` if it is not installed.
fn runtime(library: &str) -> Option<PathBuf> {
    let mut compiler = Command::new(tool::find("gcc")?);
    let output = compiler.arg(format!("-print-file-name={library}")).output();
    let named = String::from_utf8(output.unwrap().stdout).unwrap();
    // Without one it says the name again.
    let found = PathBuf::from(named.trim()).canonicalize().ok();
    if found.is_none() {
        tool::skip(&format!("gcc has no {library}"));
    }
    found
}

/// Compiles the program that lists the devices, with this sanitizer.
fn lister(sanitizer: &str) -> Option<CProgram> {
    let option = format!("-fsanitize={sanitizer}");
    CProgram::compile(
        "lists_devices",
        &["infiniband/verbs.h"],
        &[&option, "-libverbs"],
    )
}

/// The output of a run that succeeds, and of which nothing is reported.
#[track_caller]
fn silent(run: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = run.output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(status.success() && said.is_empty(), "{status}: {said}");
    String::from_utf8(stdout).unwrap()
}

/// The list in the environment that `env` prints.
fn preloaded(variables: &str) -> Vec<&str> {
    let mut lines = variables.lines();
    let list = lines.find_map(|line| line.strip_prefix("LD_PRELOAD="));
    list.expect("libraries are preloaded").split(':').collect()
}

#[test]
fn programs_with_a_sanitizer_start_and_are_silent() {
    for (sanitizer, library) in SANITIZERS {
        if runtime(library).is_none() {
            continue;
        }
        let Some(program) = lister(sanitizer) else {
            return;
        };
        let path = program.path();
        assert_eq!(silent(&mut nd_run(&[path])), "0 failures\n");
        let by_path = script(program.folder(), "by_path", &format!("{path} true"));
        assert_eq!(silent(&mut nd_run(&[&by_path, "true"])), "0 failures\n");
        let by_name = script(
            program.folder(),
            "by_name",
            "/usr/bin/env -S lists_devices true",
        );
        let mut run = nd_run(&["sh", "-c", &format!("{path}; {by_name} true; exec {path}")]);
        let folders = std::env::var("PATH").unwrap();
        run.env("PATH", format!("{}:{folders}", program.folder().display()));
        assert_eq!(silent(&mut run), "0 failures\n".repeat(3));
    }
}

#[test]
fn only_programs_that_need_a_runtime_get_it() {
    for (sanitizer, library) in SANITIZERS {
        if runtime(library).is_none() {
            continue;
        }
        let Some(program) = lister(sanitizer) else {
            return;
        };
        let path = program.path();
        let shell = format!("exec {path} sh -c 'exec {path} env'");
        let said = silent(&mut nd_run(&["sh", "-c", &shell]));
        assert!(said.starts_with("0 failures\n0 failures\n"), "{said}");
        let libraries = preloaded(&said);
        assert_eq!(libraries.len(), 3, "{libraries:?}");
        assert!(!said.contains(library));
    }
}

#[test]
fn each_function_executes_programs_with_a_sanitizer() {
    if runtime("libasan.so").is_none() {
        return;
    }
    let option = ["-fsanitize=address"];
    let Some(program) = CProgram::compile("executes", &["stdio.h"], &option) else {
        return;
    };
    let Some(ordinary) = CProgram::compile("executes", &["stdio.h"], &[]) else {
        return;
    };
    for from in [&program, &ordinary] {
        let mut run = nd_run(&[from.path(), program.path()]);
        assert_eq!(silent(&mut run), "0 failures\n");
    }
}

#[test]
fn what_the_user_preloads_comes_first() {
    let Some(address) = runtime("libasan.so") else {
        return;
    };
    // The list of the user has two separators, and two where one is enough.
    for list in [
        format!("{}", address.display()),
        format!("{}: libm.so.6", address.display()),
    ] {
        let mut run = nd_run(&["env"]);
        let variables = silent(
            run.env("LD_PRELOAD", &list)
                .env("ASAN_OPTIONS", "detect_leaks=0"),
        );
        let libraries = preloaded(&variables);
        assert_eq!(libraries[0], address.to_str().unwrap());
        let ours = libraries
            .iter()
            .position(|path| path.ends_with("/libibverbs.so.1"));
        assert_eq!(ours, Some(libraries.len() - 3), "{libraries:?}");
        assert_eq!(libraries.contains(&"libm.so.6"), list.contains("libm"));
    }
    // A program that needs it gets it once.
    let Some(program) = lister("address") else {
        return;
    };
    let mut run = nd_run(&[program.path(), "env"]);
    let variables = silent(
        run.env("LD_PRELOAD", &address)
            .env("ASAN_OPTIONS", "detect_leaks=0"),
    );
    let libraries = preloaded(&variables);
    assert_eq!(libraries.len(), 4, "{libraries:?}");
}

#[test]
fn a_run_within_a_run_preloads_its_libraries_once() {
    let nd = nd::binary().to_str().unwrap();
    let variables = silent(&mut nd_run(&[nd, "run", "--", "env"]));
    let libraries = preloaded(&variables);
    assert_eq!(libraries.len(), 3, "{libraries:?}");
}
