//! Files that another user of this machine has made, or put in the way: `nd` gives them no rights, writes no secrets into them, and loads
//! nothing from them. The tests need root, which makes the files of two users.

use std::fs::{self, File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use softnd_tests::nd;
use softnd_tests::{args, tool};
use tempfile::TempDir;

const ANN: u32 = 54_321;
const BOB: u32 = 54_322;

/// A folder that all users can enter, with a copy of `nd` that they can run.
struct Machine {
    folder: TempDir,
}

impl Machine {
    /// `None` if this user is not root, after a message that names the skipped test.
    fn new() -> Option<Self> {
        tool::find("setpriv")?;
        tool::find("timeout")?;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let machine = Self { folder };
        copied(nd::binary(), &machine.path("nd"));
        let mut tried = machine.as_user(ANN, &["--version"]);
        if !tried.status().is_ok_and(|status| status.success()) {
            tool::skip_here("only root can be two users");
            return None;
        }
        Some(machine)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A folder in which all users can make files. In a sticky one they cannot replace each other's.
    fn shared(&self, name: &str, mode: u32) -> PathBuf {
        let folder = self.path(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        folder
    }

    /// `nd` as this user.
    fn as_user(&self, user: u32, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        // The limit only ends a hang.
        command
            .args(["60", "setpriv"])
            .args([&format!("--reuid={user}"), &format!("--regid={user}")])
            .arg("--clear-groups")
            .arg(self.path("nd"))
            .args(arguments)
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("TMPDIR")
            .current_dir(self.folder.path());
        command
    }

    /// The output of `nd` as this user.
    fn output(&self, user: u32, arguments: &[&str]) -> Output {
        self.as_user(user, arguments).output().unwrap()
    }

    /// Has `user` receive "news" into `out`, and returns what the receiver says on standard error.
    fn receive(&self, user: u32, out: &Path) -> String {
        let news = self.path("news");
        fs::write(&news, "news").unwrap();
        let mut recv = nd::shell(&format!(
            "exec setpriv --reuid={user} --regid={user} --clear-groups {} cat recv --listen 127.0.0.1:0 --out {}",
            self.path("nd").display(),
            out.display()
        ));
        let address = recv.address().to_string();
        nd::run(args!["cat", "send", news, address]).assert_success();
        let recv = recv.finish();
        recv.assert_success();
        recv.stderr
    }
}

/// Has a second name lead to a program, or makes a copy. Another process copies: one that another thread begins meanwhile would keep the copy
/// open to be written, so that it could not be run (ETXTBSY).
fn copied(from: &Path, to: &Path) {
    if fs::hard_link(from, to).is_err() {
        let copied = Command::new("cp").args([from, to]).status();
        assert!(copied.unwrap().success(), "{}", from.display());
    }
}

/// A file of this user.
fn file(path: &Path, user: u32, mode: u32) {
    fs::write(path, "a longer text").unwrap();
    chown(path, Some(user), Some(user)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn pipe(path: &Path, user: u32) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    chown(path, Some(user), Some(user)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
}

fn link(path: &Path, to: &Path, user: u32) {
    symlink(to, path).unwrap();
    lchown(path, Some(user), Some(user)).unwrap();
}

/// Owner, group and mode.
fn rights(path: &Path) -> (u32, u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

#[track_caller]
fn assert_refused(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(why) && said.lines().count() == 1, "{said}");
}

/// Who sends a file gets no program with the rights of who receives it.
#[test]
fn a_received_file_keeps_owner_and_group_and_no_special_bits() {
    let Some(machine) = Machine::new() else {
        return;
    };
    for (folder, mode) in [("sticky", 0o1777), ("open", 0o777)] {
        let folder = machine.shared(folder, mode);
        for bits in [0o6755, 0o4777, 0o2640, 0o666] {
            let out = folder.join(format!("{bits:o}"));
            file(&out, ANN, bits);
            let said = machine.receive(0, &out);
            assert_eq!(rights(&out), (ANN, ANN, bits & 0o777), "{said}");
            assert_eq!(fs::read(&out).unwrap(), b"news");
        }
    }
}

#[test]
fn who_is_not_root_writes_in_place_or_says_that_the_file_is_another() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let sticky = machine.shared("sticky", 0o1777).join("file");
    file(&sticky, ANN, 0o6777);
    let said = machine.receive(BOB, &sticky);
    assert!(!said.contains("belonged to another user"), "{said}");
    assert_eq!(rights(&sticky), (ANN, ANN, 0o777));
    assert_eq!(fs::read(&sticky).unwrap(), b"news");

    let open = machine.shared("open", 0o777).join("file");
    file(&open, ANN, 0o6777);
    let said = machine.receive(BOB, &open);
    assert!(said.contains("belonged to another user or group"), "{said}");
    let (user, group, mode) = rights(&open);
    assert_eq!((user, group, mode & !0o666), (BOB, BOB, 0), "{mode:o}");
    assert_eq!(fs::read(&open).unwrap(), b"news");
}

#[test]
fn links_that_another_user_made_are_not_written_through() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let folder = machine.shared("sticky", 0o1777);
    let of_bob = machine.shared("bob's", 0o755);
    chown(&of_bob, Some(BOB), Some(BOB)).unwrap();
    let target = of_bob.join("target");
    file(&target, BOB, 0o644);
    let by = |name: &str, user| {
        let path = folder.join(name);
        link(&path, &target, user);
        path.into_os_string().into_string().unwrap()
    };
    let [of_ann, of_bob] = [by("of-ann", ANN), by("of-bob", BOB)];
    for reader in [0, BOB] {
        for arguments in [
            &["cat", "recv", "--listen", "127.0.0.1:0", "--out"][..],
            &[
                "conform",
                "softnd+sim://seed=1",
                "--only",
                "ADPT-001",
                "--format",
                "json",
                "--output",
            ],
            &[
                "perf", "local", "--op", "send", "--test", "latency", "--size", "8", "--plot",
            ],
            &[
                "cat",
                "recv",
                "--listen",
                "127.0.0.1:0",
                "--out",
                "/dev/null",
                "--capture",
            ],
        ] {
            let arguments = [arguments, &[&of_ann]].concat();
            let refused = machine.output(reader, &arguments);
            assert_refused(&refused, "is a link that another user made");
            assert_eq!(fs::read(&target).unwrap(), b"a longer text");
        }
    }
    machine.receive(BOB, Path::new(&of_bob));
    assert_eq!(fs::read(&target).unwrap(), b"news");
}

#[test]
fn captures_go_to_no_file_that_another_user_has_made() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let folder = machine.shared("sticky", 0o1777);
    let at = |name: &str| folder.join(name);
    pipe(&at("pipe"), ANN);
    link(&at("link"), &at("pipe"), BOB);
    file(&at("file"), ANN, 0o666);
    pipe(&at("of-root"), 0);
    // Whatever is opened does not wait for a reader.
    let _readers = ["pipe", "of-root"].map(|name| {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        rustix::fs::open(at(name), flags, Mode::empty()).unwrap()
    });
    file(&at("of-bob"), BOB, 0o600);
    fs::hard_link(at("of-bob"), at("second")).unwrap();
    for (name, why) in [
        ("pipe", "it belongs to another user"),
        ("link", "it belongs to another user"),
        ("file", "it belongs to another user"),
        ("of-root", "others may open it"),
        ("of-bob", "it has 2 names"),
    ] {
        let path = at(name).into_os_string().into_string().unwrap();
        let refused = machine.output(BOB, &["demo", "--capture", &path]);
        assert_refused(&refused, why);
    }
    assert_eq!(fs::read(at("file")).unwrap(), b"a longer text");
    assert_eq!(fs::read(at("of-bob")).unwrap(), b"a longer text");
    let demo = machine.output(BOB, &["demo", "--capture", "/dev/null"]);
    assert!(demo.status.success(), "{demo:?}");
}

/// Root gives a terminal to its user's group, and may do so with a pipe.
#[test]
fn captures_go_to_a_pipe_of_root_that_is_closed_to_others() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let path = machine.path("of-root");
    pipe(&path, 0);
    chown(&path, Some(0), Some(BOB)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
    let open = |flags| rustix::fs::open(&path, flags, Mode::empty()).unwrap();
    let reader = open(OFlags::RDONLY | OFlags::NONBLOCK);
    rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
    // As long as there is a writer, a read waits.
    let writer = open(OFlags::WRONLY);
    let read = thread::spawn(move || {
        let mut captured = Vec::new();
        File::from(reader).read_to_end(&mut captured).unwrap();
        captured
    });
    let demo = machine.output(BOB, &["demo", "--capture", path.to_str().unwrap()]);
    drop(writer);
    assert!(demo.status.success(), "{demo:?}");
    let captured = read.join().unwrap();
    assert_eq!(captured[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a pcapng file");
}

/// The shell of another user may have opened the standard streams.
#[test]
fn captures_go_to_standard_streams_whatever_they_are() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let path = machine.path("root's");
    let file = File::create(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let demo = machine
        .as_user(BOB, &["demo", "--capture", "/dev/stderr"])
        .stderr(file)
        .output()
        .unwrap();
    assert!(demo.status.success(), "{demo:?}");
    let captured = fs::read(&path).unwrap();
    assert_eq!(captured[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a pcapng file");
    assert_eq!(rights(&path), (0, 0, 0o600));
}

impl Machine {
    /// A machine whose `nd` has the libraries for `nd run`.
    fn with_libraries() -> Option<Self> {
        let machine = Self::new()?;
        // The libraries have to be built.
        let _ = softnd_tests::verbs_programs::nd_run(&["true"]);
        let built = nd::binary().parent().unwrap();
        for name in ["libibverbs.so", "librdmacm.so", "libnd_paths.so"] {
            copied(&built.join(name), &machine.path(name));
        }
        Some(machine)
    }

    /// The output of `nd run -- env` as Bob, with these variables.
    fn env(&self, variables: &[(&str, &Path)], options: &[&str]) -> Output {
        let arguments = [&["run"], options, &["--", "env"]].concat();
        let mut command = self.as_user(BOB, &arguments);
        command.envs(variables.iter().copied());
        command.output().unwrap()
    }
}

/// Who could replace a folder above the private one could have programs load other libraries.
#[test]
fn libraries_are_loaded_from_folders_that_no_other_user_can_replace() {
    let Some(machine) = Machine::with_libraries() else {
        return;
    };
    let own = |name: &str, user: u32, mode: u32| {
        let folder = machine.shared(name, mode);
        chown(&folder, Some(user), Some(user)).unwrap();
        folder
    };
    let good = own("good", BOB, 0o700);
    let of_ann = own("ann's", ANN, 0o755);
    let below = of_ann.join("below");
    fs::create_dir(&below).unwrap();
    chown(&below, Some(BOB), Some(BOB)).unwrap();
    let open = own("open", BOB, 0o777);
    let group = own("group", BOB, 0o775);
    let sticky = own("sticky", 0, 0o1777);
    let dollar = own("$ORIGIN", BOB, 0o700);
    link(&machine.path("link"), &open, BOB);
    for (bad, why) in [
        (&of_ann, "belongs to another user"),
        (&below, "belongs to another user"),
        (&open, "others can write to"),
        (&machine.path("link"), "others can write to"),
        (&group, "others can write to"),
        (&dollar, "dollar sign"),
    ] {
        let refused = machine.env(&[("TMPDIR", bad)], &[]);
        assert_refused(&refused, why);
        assert!(String::from_utf8_lossy(&refused.stderr).contains("TMPDIR"));
        let passed_over = machine.env(&[("XDG_RUNTIME_DIR", bad), ("TMPDIR", &good)], &[]);
        let said = String::from_utf8_lossy(&passed_over.stderr);
        assert!(passed_over.status.success(), "{said}");
        assert!(
            said.contains("XDG_RUNTIME_DIR") && said.contains(why),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        let variables = String::from_utf8(passed_over.stdout).unwrap();
        let preload = variables
            .lines()
            .find(|line| line.starts_with("LD_PRELOAD="));
        let preload = preload.unwrap_or_else(|| panic!("{variables}"));
        let folder = good.join(format!("softnd-verbs-{BOB}"));
        assert!(preload.contains(folder.to_str().unwrap()), "{preload}");
        // The private folder was not made there.
        assert!(!bad.join(format!("softnd-verbs-{BOB}")).exists());
    }
    for variable in ["XDG_RUNTIME_DIR", "TMPDIR"] {
        for folder in [&good, &sticky] {
            let taken = machine.env(&[(variable, folder)], &[]);
            assert!(
                taken.status.success() && taken.stderr.is_empty(),
                "{taken:?}"
            );
        }
    }
}

/// In a user namespace without root, root's folders seem to belong to the overflow user.
#[test]
fn where_root_has_no_number_its_folders_are_taken() {
    let Some(machine) = Machine::with_libraries() else {
        return;
    };
    let unshare = ["--user", "--map-root-user"];
    let in_namespace = |folder: &Path| {
        let mut command = Command::new("setpriv");
        command
            .args([&format!("--reuid={BOB}"), &format!("--regid={BOB}")])
            .args(["--clear-groups", "unshare"])
            .args(unshare)
            .arg(machine.path("nd"))
            .args(["run", "--", "true"])
            .env_remove("XDG_RUNTIME_DIR")
            .env("TMPDIR", folder);
        command.output().unwrap()
    };
    let tried = Command::new("setpriv")
        .args([&format!("--reuid={BOB}"), &format!("--regid={BOB}")])
        .args(["--clear-groups", "unshare"])
        .args(unshare)
        .arg("true")
        .output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return tool::skip_here("a user without special rights gets no namespace of users");
    }
    let taken = in_namespace(&machine.shared("sticky", 0o1777));
    assert!(
        taken.status.success() && taken.stderr.is_empty(),
        "{taken:?}"
    );
    let open = machine.shared("open", 0o777);
    assert_refused(&in_namespace(&open), "others can write to");
}

/// The names of captures and counters follow from the program and the number of its process.
#[test]
fn files_of_programs_are_in_a_folder_that_no_other_user_writes_to() {
    for (flag, variable) in [
        ("--capture", "SOFTND_VERBS_CAPTURE"),
        ("--counters", "SOFTND_VERBS_COUNTERS"),
    ] {
        let Some(machine) = Machine::with_libraries() else {
            return;
        };
        are_in_a_private_folder(&machine, flag, variable);
    }
}

fn are_in_a_private_folder(machine: &Machine, flag: &str, variable: &str) {
    let sticky = machine.shared("sticky", 0o1777);
    let of_ann = machine.shared("ann's", 0o755);
    chown(&of_ann, Some(ANN), Some(ANN)).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let new = sticky.join("new/folder");
    for (bad, why) in [
        (&sticky, "others can make files in"),
        (&of_ann, "belongs to another user"),
        (&of_ann.join("new"), "belongs to another user"),
    ] {
        let refused = machine.env(&[], &[flag, &text(bad)]);
        assert_refused(&refused, why);
    }
    assert!(!of_ann.join("new").exists());
    for relative in [false, true] {
        let option = if relative {
            "sticky/new/folder".to_owned()
        } else {
            text(&new)
        };
        let taken = machine.env(&[], &[flag, &option]);
        assert!(taken.status.success(), "{taken:?}");
        let variables = String::from_utf8(taken.stdout).unwrap();
        let expected = format!("{variable}={}", new.canonicalize().unwrap().display());
        assert!(
            variables.lines().any(|line| line == expected),
            "{variables}"
        );
        assert_eq!(rights(&new), (BOB, BOB, 0o755));
    }
}
