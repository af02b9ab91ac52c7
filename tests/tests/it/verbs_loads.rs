//! The names by which programs load the libraries for verbs under `nd run`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use softnd_tests::c_programs::CProgram;
use softnd_tests::tool;
use softnd_tests::verbs_programs::nd_run;

/// The files of the system's libraries for verbs, with and without versions.
fn of_the_system() -> Vec<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"].map(Path::new);
    let files = folders.into_iter().filter_map(|at| fs::read_dir(at).ok());
    let files = files.flatten().map(|entry| entry.unwrap().path());
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        ["libibverbs.so", "librdmacm.so"]
            .iter()
            .any(|library| name.starts_with(library))
    };
    files.filter(is_wanted).collect()
}

/// Compiles a library of the program into its folder.
fn library(program: &CProgram, name: &str, arguments: &[&str]) -> PathBuf {
    let path = program.folder().join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/verbs/loads.c");
    let output = Command::new(tool::find("cc").expect("the program was compiled"))
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", source])
        .args(arguments)
        .arg("-o")
        .arg(&path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
    path
}

#[test]
fn every_name_of_the_libraries_loads_the_preloaded_ones() {
    let Some(program) = CProgram::compile("loads", &["infiniband/verbs.h"], &[]) else {
        return;
    };
    library(&program, "libinner.so", &["-DINNER"]);
    let outer = library(
        &program,
        "libouter.so",
        &["-DOUTER", "-Wl,-rpath,$ORIGIN,--enable-new-dtags"],
    );
    let system = of_the_system();
    assert!(!system.is_empty(), "the headers come with libraries");
    let output = nd_run(&[program.path()])
        .arg(outer)
        .args(system)
        .output()
        .unwrap();
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        said == "0 failures\n" && errors.is_empty(),
        "{said}{errors}"
    );
}
