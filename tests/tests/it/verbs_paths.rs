//! The files that programs see below `/sys/class/infiniband` and `/dev/infiniband` under `nd run`.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use softnd_tests::c_programs::CProgram;
use softnd_tests::other_user::OtherUser;
use softnd_tests::verbs_programs::{nd_run, open_trees};

/// `nd run`, which makes the tree in this folder.
fn in_folder(folder: &Path, program: &[&str]) -> Command {
    let mut command = nd_run(program);
    command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", folder);
    command
}

/// A folder for trees, whose folders not even their owner may write to: they are opened before they are removed.
struct Trees(tempfile::TempDir);

impl Trees {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The roots of the trees.
    fn roots(&self) -> Vec<PathBuf> {
        let private = fs::read_dir(self.path()).unwrap().next().unwrap().unwrap();
        let all = fs::read_dir(private.path()).unwrap();
        let paths = all.map(|entry| entry.unwrap().path());
        let is_tree = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("paths-")
        };
        paths.filter(is_tree).collect()
    }
}

impl Drop for Trees {
    fn drop(&mut self) {
        open_trees(self.path());
    }
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
    let folder = Trees::new();
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
    let trees = Trees::new();
    let folder = program.folder().to_str().unwrap();
    assert_eq!(
        output(trees.path(), &[program.path(), folder]),
        "0 failures\n"
    );
}

#[test]
fn changes_are_refused_as_below_sys() {
    let Some(program) = CProgram::compile("changes", &["stdio.h"], &[]) else {
        return;
    };
    let trees = Trees::new();
    let folder = program.folder().to_str().unwrap();
    assert_eq!(
        output(trees.path(), &[program.path(), folder]),
        "0 failures\n"
    );
}

#[test]
fn changes_are_refused_to_users_who_are_not_root() {
    let Some(program) = CProgram::compile("changes", &["stdio.h"], &[]) else {
        return;
    };
    let Some(user) = OtherUser::new() else {
        return;
    };
    let path = user.folder().join("changes");
    fs::copy(program.path(), &path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let own = user.folder().join("own");
    let command = [path.to_str().unwrap(), own.to_str().unwrap()];
    let output = user.nd_run(&command).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "0 failures\n", "{said}");
}

#[test]
fn programs_of_the_system_are_refused_changes() {
    let trees = Trees::new();
    let listed = || {
        let folders = ["/sys/class/infiniband", "/dev/infiniband"];
        output(trees.path(), &[&["ls", "-lR"][..], &folders].concat())
    };
    let before = listed();
    for change in [
        ": > /sys/class/infiniband/new",
        "cd /sys/class/infiniband && : > new",
        "cd /dev/infiniband && mkdir new",
        "mkdir -p /sys/class/infiniband/softnd0/new/deep",
        "touch /dev/infiniband/new",
        "rm -f /sys/class/infiniband/softnd0/node_type",
        "rm -rf /sys/class/infiniband/softnd0/ports",
        "mv /sys/class/infiniband/softnd0 /sys/class/infiniband/other",
        "chmod 666 /sys/class/infiniband/softnd0/node_type",
        "chmod -R a+w /sys/class/infiniband/softnd0/ports",
        "ln -s /etc /sys/class/infiniband/new",
        "ln -sfn /etc /sys/class/infiniband/softnd0",
        "cp /etc/passwd /sys/class/infiniband/softnd0/node_type",
        "echo x | tee /sys/class/infiniband/softnd0/node_desc",
    ] {
        let output = in_folder(trees.path(), &["sh", "-c", change])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{change}");
        let is_refusal = |text| said.contains(text);
        assert!(
            is_refusal("Permission denied") || is_refusal("not permitted"),
            "{change}: {said}"
        );
    }
    assert_eq!(listed(), before);
}

/// By a system call without the C library, as from a static program.
#[test]
fn what_was_made_nevertheless_is_removed_and_runs_under_way_go_on() {
    let trees = Trees::new();
    let shell = "cd /sys/class/infiniband/softnd0; echo begun; read line; cat node_type; ls /sys/class/infiniband";
    let mut under_way = in_folder(trees.path(), &["sh", "-c", shell]);
    let mut under_way = under_way
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begun = [0; 6];
    std::io::Read::read_exact(under_way.stdout.as_mut().unwrap(), &mut begun).unwrap();
    let class = trees.roots()[0].join("sys/class/infiniband");
    fs::set_permissions(&class, Permissions::from_mode(0o755)).unwrap();
    fs::write(class.join("new"), "").unwrap();
    fs::create_dir(class.join("folder")).unwrap();
    fs::remove_file(class.join("softnd0")).unwrap();
    let listed = output(trees.path(), &["ls", "/sys/class/infiniband"]);
    assert!(listed.contains("softnd0\n"), "{listed}");
    assert!(
        !listed.contains("new") && !listed.contains("folder"),
        "{listed}"
    );
    under_way.stdin.take().unwrap().write_all(b"\n").unwrap();
    let ended = under_way.wait_with_output().unwrap();
    let printed = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(printed, format!("1: CA\n{listed}"));
}

#[test]
fn runs_leave_one_tree_in_a_private_folder() {
    let folder = Trees::new();
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
    assert_eq!(folder.roots().len(), 1);
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
