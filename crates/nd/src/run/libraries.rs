//! Where the libraries for verbs programs are.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{elf, private_folder};
use crate::errors::Failure;

/// The libraries as cargo names them, which programs also load by this name, and with the version that their SONAMEs have. Programs do not
/// load the last one, which shows the devices below `/sys` and `/dev`.
const NAMES: [(&str, &str); 3] = [
    ("libibverbs.so", "libibverbs.so.1"),
    ("librdmacm.so", "librdmacm.so.1"),
    ("libnd_paths.so", "libnd_paths.so"),
];

/// The section of a library that was built without its functions: the reason.
const EMPTY: &str = ".softnd.empty";

/// A folder with all libraries.
pub(super) struct Libraries(PathBuf);

/// Finds the libraries in the folder of this program, or in `../lib/softnd`.
pub(super) fn find() -> Result<Libraries, Failure> {
    if !cfg!(target_os = "linux") {
        return Err(super::needs_linux());
    }
    let program = env::current_exe().map_err(|error| Failure::io("find nd itself", &error))?;
    let beside = program.parent().unwrap_or(Path::new("/")).to_owned();
    let installed = beside.parent().unwrap_or(Path::new("/")).join("lib/softnd");
    let found = [&beside, &installed]
        .into_iter()
        .find(|folder| has_all(folder));
    let Some(found) = found else {
        let (beside, installed) = (beside.display(), installed.display());
        return Err(Failure::new(
            format!("the libraries for verbs programs are neither in {beside} nor in {installed}"),
            format!(
                "in softnd's sources, run `cargo build --release && install -Dt {installed} \
                 target/release/libibverbs.so target/release/librdmacm.so target/release/libnd_paths.so`"
            ),
        ));
    };
    let libraries = Libraries(found.clone());
    libraries.check()?;
    Ok(libraries)
}

fn has_all(folder: &Path) -> bool {
    NAMES.iter().all(|(file, _)| folder.join(file).is_file())
}

impl Libraries {
    /// A library that was built on a machine that cannot link it says why.
    fn check(&self) -> Result<(), Failure> {
        let library = self.0.join(NAMES[0].0);
        let reason = File::open(&library).and_then(|mut file| elf::section(&mut file, EMPTY));
        let reason =
            reason.map_err(|error| Failure::io(format!("read {}", library.display()), &error))?;
        let Some(why) = reason else {
            return Ok(());
        };
        let why = String::from_utf8_lossy(&why);
        Err(Failure::new(
            format!("{} holds no functions: {why}", library.display()),
            "build softnd again where this is mended",
        ))
    }

    /// Makes a folder in the private one, in which the libraries have the names that programs load them by.
    pub(super) fn versioned_names(&self, private: &Path) -> Result<VersionedNames, Failure> {
        let digest = Sha256::digest(self.0.as_os_str().as_encoded_bytes());
        let name: String = digest
            .iter()
            .take(8)
            .map(|octet| format!("{octet:02x}"))
            .collect();
        let folder = private.join(name);
        let doing = |error: &std::io::Error| {
            Failure::io(format!("make links in {}", folder.display()), error)
        };
        fs::create_dir_all(&folder).map_err(|error| doing(&error))?;
        for (file, versioned) in NAMES {
            for name in [file, versioned] {
                private_folder::link(&self.0.join(file), &folder.join(name))
                    .map_err(|error| doing(&error))?;
            }
        }
        Ok(VersionedNames(folder))
    }
}

/// A folder of links to the libraries, whose path the dynamic linker takes in its lists.
pub(super) struct VersionedNames(PathBuf);

impl VersionedNames {
    /// The paths to preload. They are those of the links, because the libraries themselves may lie in a folder with a space in its name.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let names = NAMES.iter().map(|(_, versioned)| self.0.join(versioned));
        names.collect()
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.0
    }
}
