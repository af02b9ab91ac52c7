//! The variables of the environment in programs that have more rights than their user.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use softnd_tests::c_programs::CProgram;
use softnd_tests::{nd, tool};
use tempfile::TempDir;

/// What `privileged.c` prints behind its first line without any variable.
const PLAIN: &str = "provider: 0\nadapter: 1\ndevice: 1\npath: 0\n";

/// A folder that every user can read, with the libraries, and the program with and without more rights than its user.
struct Programs {
    folder: TempDir,
}

impl Programs {
    /// `None` if this machine cannot do it, after a message on standard error that names the skipped test.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            tool::skip_here("only root gives a program more rights than its user has");
            return None;
        }
        let setcap = tool::find("setcap")?;
        tool::find("setpriv")?;
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../include");
        let program = CProgram::compile("privileged", &[], &[include, "-ldl"])?;
        nd::build_libraries();
        let built = nd::binary().parent().expect("nd is in a folder");
        let programs = Self {
            folder: tempfile::tempdir_in("/tmp").expect("a folder can be made"),
        };
        fs::set_permissions(programs.folder.path(), Permissions::from_mode(0o755)).unwrap();
        for (from, to) in [
            ("libibverbs.so", "libibverbs.so"),
            ("libnetdirect.so", "libnetdirect.so"),
            ("libsoftnd.so", "libsoftnd.so"),
            ("libsoftnd.so", "named.so"),
            ("libnd_paths.so", "libnd_paths.so"),
        ] {
            fs::copy(built.join(from), programs.path(to)).unwrap();
        }
        fs::create_dir_all(programs.path("tree/dev/infiniband")).unwrap();
        fs::write(programs.path("tree/dev/infiniband/of_the_test"), "").unwrap();
        fs::create_dir(programs.path("captures")).unwrap();
        fs::set_permissions(programs.path("captures"), Permissions::from_mode(0o777)).unwrap();
        for (name, mode) in [
            ("plain", 0o755),
            ("capable", 0o755),
            ("set-uid", 0o4755),
            ("set-gid", 0o2755),
        ] {
            // By another process: a file that a child of this one has still opened for writing cannot be run.
            let copied = Command::new("cp")
                .arg(program.path())
                .arg(programs.path(name))
                .status();
            assert!(copied.unwrap().success());
            fs::set_permissions(programs.path(name), Permissions::from_mode(mode)).unwrap();
        }
        let given = Command::new(setcap)
            .arg("cap_dac_override+ep")
            .arg(programs.path("capable"))
            .status();
        if !given.unwrap().success() {
            tool::skip_here("this file system has no capabilities");
            return None;
        }
        Some(programs)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The first line that a program prints as another user with a variable, and the others.
    fn run(&self, name: &str, variable: &str, value: &str) -> (String, String) {
        let Output { status, stdout, .. } = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(self.path(name))
            .arg(self.folder.path())
            .env_clear()
            .env(variable, value)
            .output()
            .unwrap();
        let said = String::from_utf8(stdout).unwrap();
        assert!(status.success(), "{name}, {variable}: {status}: {said}");
        let (first, others) = said.split_once('\n').unwrap();
        (first.to_owned(), others.to_owned())
    }

    /// The number of captures and files of counters, which are removed.
    fn take_captures(&self) -> usize {
        let captures = fs::read_dir(self.path("captures")).unwrap();
        let removed = captures.map(|capture| fs::remove_file(capture.unwrap().path()).unwrap());
        removed.count()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of the tests")
}

#[test]
fn programs_with_more_rights_than_their_user_follow_no_variable() {
    let Some(programs) = Programs::new() else {
        return;
    };
    let (named, tree, captures) = (
        programs.path("named.so"),
        programs.path("tree"),
        programs.path("captures"),
    );
    // What a program follows that has its user's rights alone.
    for (variable, value, followed) in [
        (
            "ND_PROVIDER",
            text(&named),
            PLAIN.replace("provider: 0", "provider: 1"),
        ),
        (
            "SOFTND_VERBS_PATHS",
            text(&tree),
            PLAIN.replace("path: 0", "path: 1"),
        ),
        (
            "SOFTND_FAULTS",
            "@/nonexistent",
            PLAIN.replace("adapter: 1", "adapter: 0"),
        ),
        (
            "SOFTND_COM_PROTOCOL",
            "none",
            PLAIN.replace("adapter: 1", "adapter: 0"),
        ),
        (
            "SOFTND_CONGESTION",
            "none",
            PLAIN
                .replace("adapter: 1", "adapter: 0")
                .replace("device: 1", "device: 0"),
        ),
        (
            "SOFTND_READINESS",
            "none",
            PLAIN
                .replace("adapter: 1", "adapter: 0")
                .replace("device: 1", "device: 0"),
        ),
        (
            "SOFTND_VERBS_INTERFACE",
            "none",
            PLAIN.replace("device: 1", "device: 0"),
        ),
        ("SOFTND_VERBS_CAPTURE", text(&captures), PLAIN.to_owned()),
        ("SOFTND_VERBS_COUNTERS", text(&captures), PLAIN.to_owned()),
    ] {
        let leaves_file = ["SOFTND_VERBS_CAPTURE", "SOFTND_VERBS_COUNTERS"].contains(&variable);
        let said = programs.run("plain", variable, value);
        assert_eq!(said, ("secure: 0".to_owned(), followed), "{variable}");
        assert_eq!(programs.take_captures(), usize::from(leaves_file));
        for name in ["capable", "set-uid", "set-gid"] {
            let (first, others) = programs.run(name, variable, value);
            if first == "secure: 0" {
                tool::skip_here(&format!("this system gives no more rights to {name}"));
                programs.take_captures();
                continue;
            }
            assert_eq!(others, PLAIN, "{name}, {variable}");
            assert_eq!(programs.take_captures(), 0, "{name}, {variable}");
        }
    }
}
