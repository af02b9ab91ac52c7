//! A user that runs programs by `nd run`, and is not root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::{nd, tool};

/// A user that is not root, with a copy of `nd` and the libraries.
#[derive(Debug)]
pub struct OtherUser {
    folder: TempDir,
}

impl OtherUser {
    const NUMBER: u32 = 54_323;

    /// `None` if this user is not root, who alone can become another one, after a message that names the skipped test.
    ///
    /// # Panics
    /// If files cannot be copied.
    pub fn new() -> Option<Self> {
        tool::find("setpriv")?;
        nd::build_libraries();
        if !rustix::process::geteuid().is_root() {
            tool::skip_here("only root can become another user");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder can be made");
        let open = Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("the folder is root's");
        let built = nd::binary().parent().expect("programs lie in a folder");
        for name in ["nd", "libibverbs.so", "librdmacm.so", "libnd_paths.so"] {
            let to = folder.path().join(name);
            fs::hard_link(built.join(name), &to)
                .or_else(|_| fs::copy(built.join(name), &to).map(drop))
                .expect("there is room");
        }
        let own = folder.path().join("own");
        fs::create_dir(&own).expect("the folder is root's");
        chown(&own, Some(Self::NUMBER), Some(Self::NUMBER)).expect("this is root");
        Some(Self { folder })
    }

    /// A folder that all users can enter.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `nd run -- PROGRAM` as this user, with a folder for temporary files that belongs to the user.
    pub fn nd_run(&self, program: &[&str]) -> Command {
        let user = Self::NUMBER;
        let mut command = Command::new("setpriv");
        command
            .args([&format!("--reuid={user}"), &format!("--regid={user}")])
            .arg("--clear-groups")
            .arg(self.folder().join("nd"))
            .args(["run", "--"])
            .args(program)
            .env_remove("XDG_RUNTIME_DIR")
            .env("TMPDIR", self.folder().join("own"))
            .current_dir(self.folder())
            .stdin(Stdio::null());
        command
    }
}
