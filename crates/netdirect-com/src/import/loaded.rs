//! A library in memory.

use std::fmt;
use std::path::PathBuf;

use libloading::Library;

/// A library that is loaded as long as this lives.
pub(super) struct Loaded {
    _library: Library,
    path: PathBuf,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loaded").field(&self.path).finish()
    }
}

impl Loaded {
    pub(super) fn new(library: Library, path: PathBuf) -> Self {
        Self {
            _library: library,
            path,
        }
    }
}
