//! The files that programs see below `/sys/class/infiniband` and `/dev/infiniband` under `nd run`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use softnd_tests::c_programs::CProgram;
use softnd_tests::verbs_programs::nd_run;

/// `nd run`, which makes the tree in this folder.
fn in_folder(folder: &Path, program: &[&str]) -> Command {
    let mut command = nd_run(program);
    command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", folder);
    command
}

/// Returns the output of a program that must succeed.
fn output(folder: &Path, program: &[&str]) -> String {
    let output = in_folder(folder, program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?}: {said}");
    assert!(said.is_empty(), "{program:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn programs_of_the_system_see_the_devices() {
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &[&str]| output(folder.path(), program);
    let listed = run(&["ls", "-l", "/sys/class/infiniband"]);
    assert!(
        listed.contains(" softnd0 -> ../../devices/virtual/infiniband/softnd0\n"),
        "{listed}"
    );
    let device = "/sys/class/infiniband/softnd0";
    assert_eq!(run(&["cat", &format!("{device}/node_type")]), "1: CA\n");
    let found = run(&["find", "-H", device, "-name", "state"]);
    assert_eq!(
        found.lines().next(),
        Some(&*format!("{device}/ports/1/state"))
    );
    assert!(run(&["ls", "-lR", "/dev/infiniband"]).contains("uverbs0 -> /dev/null"));
    let shell = "cd /sys/class/infiniband_verbs && cat */ibdev && test -c /dev/infiniband/uverbs0 -a -w /dev/infiniband/rdma_cm";
    assert!(run(&["sh", "-c", shell]).starts_with("softnd0\n"));
    for (path, expected) in [
        (
            "/sys/class/infiniband_verbs/uverbs0/device",
            "/sys/devices/virtual/infiniband/softnd0/device\n",
        ),
        (
            "/sys/class/infiniband/softnd0/../..",
            "/sys/devices/virtual\n",
        ),
    ] {
        assert_eq!(run(&["realpath", path]), expected);
        assert_eq!(run(&["readlink", "-f", path]), expected);
        let shell = format!("cd -P {path} && /bin/pwd -P");
        assert_eq!(run(&["sh", "-c", &shell]), expected);
    }
    let other = "cat /proc/self/cmdline; ls /sys/class/net | grep -qx lo && test ! -e /sys/class/infiniband_mad";
    assert!(run(&["sh", "-c", other]).starts_with("cat"));
}

#[test]
fn every_function_of_the_c_library_has_its_wrapper() {
    let Some(program) = CProgram::compile("paths", &["stdio.h"], &["-pthread"]) else {
        return;
    };
    let folder = program.folder().to_str().unwrap();
    assert_eq!(
        output(program.folder(), &[program.path(), folder]),
        "0 failures\n"
    );
}

#[test]
fn runs_leave_one_tree_in_a_private_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs: Vec<_> = (0..10)
        .map(|_| in_folder(folder.path(), &["true"]).spawn().unwrap())
        .collect();
    assert!(runs.iter_mut().all(|run| run.wait().unwrap().success()));
    let private = fs::read_dir(folder.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(
        private.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    let trees = || {
        let all = fs::read_dir(private.path()).unwrap();
        let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("paths-")).count()
    };
    assert_eq!(trees(), 1);
}

#[test]
fn a_folder_that_cannot_be_written_is_one_line() {
    // Process information is not for writing, for root neither.
    let output = in_folder(Path::new("/proc/self"), &["true"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains("TMPDIR"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
