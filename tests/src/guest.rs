//! A guest whose kernel has the soft-iWARP driver siw, veth and netem, as `tests/interop/guest/make` leaves it behind.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::tool;

/// A guest that exists.
#[derive(Debug)]
pub struct Guest {
    scripts: PathBuf,
    made: PathBuf,
}

/// The output of a program in the guest, and its status.
#[derive(Debug)]
pub struct Said {
    /// The exit status.
    pub status: ExitStatus,
    /// Its standard output and standard error.
    pub text: String,
    /// The errors of the script that runs the guest.
    pub errors: String,
}

impl Guest {
    /// The guest. `None` if the guest or qemu is missing, after a message that names the skipped test. Tests do not make
    /// the guest, because that needs Debian 12 and takes minutes.
    ///
    /// # Panics
    /// If it is missing and `CI=true` is set. Tests with a guest are ignored unless they are named, so a run that names them
    /// needs the guest.
    pub fn find() -> Option<Self> {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/guest");
        let cache = || {
            let home = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
                .map(|cache| cache.join("softnd-guest"))
        };
        let made = env::var_os("SOFTND_GUEST")
            .map(PathBuf::from)
            .or_else(cache);
        let Some(made) = made.filter(|made| made.join("recipe").is_file()) else {
            tool::skip("there is no guest: tests/interop/guest/make makes one");
            return None;
        };
        tool::find("qemu-system-x86_64")?;
        Some(Self { scripts, made })
    }

    /// Runs `main` from the folder `share` on this many processors, and copies the guest's folder `out` into ours. Shows each line that
    /// `main` prints as soon as it comes, because a guest may take hours.
    ///
    /// # Panics
    /// If the script that runs the guest cannot be started.
    pub fn run(&self, processors: u32, limit: Duration, share: &Path, out: &Path) -> Said {
        let mut script = Command::new(self.scripts.join("run"))
            .arg(limit.as_secs().to_string())
            .args([share, out])
            .env("SOFTND_GUEST", &self.made)
            .env("GUEST_PROCESSORS", processors.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the guest is started");
        let text = script.stdout.take().expect("a pipe");
        let errors = script.stderr.take().expect("a pipe");
        let errors = thread::spawn(move || all(errors));
        let text = shown(text);
        Said {
            status: script.wait().expect("the script ends"),
            text,
            errors: errors.join().expect("the errors are read"),
        }
    }

    /// The version of a package that the guest is made of.
    ///
    /// # Panics
    /// If the guest does not have this package.
    pub fn version(&self, package: &str) -> String {
        let list = fs::read_to_string(self.made.join("packages")).expect("the guest's packages");
        let found = list.lines().find_map(|line| {
            let (name, version) = line.split_once(' ')?;
            name.starts_with(package).then(|| version.to_owned())
        });
        found.unwrap_or_else(|| panic!("the guest has no package {package}: {list}"))
    }
}

/// All that a stream has.
fn all(mut stream: impl Read) -> String {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).expect("a pipe can be read");
    String::from_utf8_lossy(&text).into_owned()
}

/// All that a stream has. Each line goes to standard error at once: not by `eprintln!`, because the test harness hides its output
/// when the test passes.
fn shown(stream: impl Read) -> String {
    let mut stream = BufReader::new(stream);
    let mut text = String::new();
    let mut line = Vec::new();
    while stream
        .read_until(b'\n', &mut line)
        .expect("a pipe can be read")
        > 0
    {
        let _ = io::stderr().write_all(&line);
        text.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    text
}
