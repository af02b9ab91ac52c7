//! The congestion control that all programs of a comparison have.

use std::fs;
use std::path::{Path, PathBuf};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Failure;

/// Where Linux has the default of new connections.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The system's default for new connections.
#[must_use]
pub fn default() -> Option<String> {
    read(Path::new(DEFAULT))
}

fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

/// A default of the whole system that this process has chosen. The old one comes back when this is dropped, and when a
/// signal ends the process.
#[derive(Debug)]
pub struct Chosen {
    path: PathBuf,
    before: String,
}

impl Chosen {
    /// Chooses the default for new connections of all programs.
    ///
    /// # Errors
    ///
    /// When this process may not, or the system does not have it.
    pub fn system_wide(name: &str) -> Result<Self, Failure> {
        let chosen = Self::at(Path::new(DEFAULT), name)?;
        let (path, before) = (chosen.path.clone(), chosen.before.clone());
        let signals = Signals::new([SIGINT, SIGTERM]);
        let mut signals =
            signals.map_err(|error| Failure::new(format!("watch for Ctrl-C: {error}")))?;
        // A signal ends the process without dropping anything.
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                restore(&path, &before);
                nd_base::signals::end_by(signal);
            }
        });
        Ok(chosen)
    }

    fn at(path: &Path, name: &str) -> Result<Self, Failure> {
        let before = read(path).ok_or_else(|| {
            Failure::new("this system does not tell its default congestion control")
        })?;
        fs::write(path, name).map_err(|error| {
            Failure::new(format!(
                "make {name} the congestion control of all programs: {error}"
            ))
        })?;
        Ok(Self {
            path: path.to_owned(),
            before,
        })
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        restore(&self.path, &self.before);
    }
}

fn restore(path: &Path, before: &str) {
    if let Err(error) = fs::write(path, before) {
        eprintln!(
            "compare: the system still has another congestion control; to undo it, write {before} to {}: {error}",
            path.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_default_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("default");
        fs::write(&path, "bbr\n").unwrap();
        let chosen = Chosen::at(&path, "cubic").unwrap();
        assert_eq!(read(&path).as_deref(), Some("cubic"));
        drop(chosen);
        assert_eq!(read(&path).as_deref(), Some("bbr"));
        let missing = Chosen::at(&folder.path().join("nothing"), "cubic");
        assert!(missing.is_err());
    }
}
