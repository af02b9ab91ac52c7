//! Files that a user or the environment names and that are read whole, such as plans, certificates and configurations. A file that never
//! ends, such as `/dev/zero`, is refused after [`LONGEST`] octets.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::path::Path;

/// The most octets of a file. The list of all authorities that a system trusts has a fiftieth of it.
pub const LONGEST: usize = 16 << 20;

/// Reads a file of at most [`LONGEST`] octets.
///
/// # Errors
///
/// The file cannot be read, or is longer.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let mut octets = Vec::new();
    let most = u64::try_from(LONGEST + 1).unwrap_or(u64::MAX);
    File::open(path)?.take(most).read_to_end(&mut octets)?;
    if octets.len() > LONGEST {
        let why = format!("it has more than {} MiB", LONGEST >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(octets)
}

/// Reads a file of at most [`LONGEST`] octets whose content is UTF-8.
///
/// # Errors
///
/// The file cannot be read, is longer, or is not UTF-8.
pub fn read_text(path: impl AsRef<Path>) -> Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_that_never_ends_is_refused() {
        let error = read("/dev/zero").unwrap_err();
        assert_eq!(error.to_string(), "it has more than 16 MiB");
        let plan = crate::faults::Plan::load("@/dev/zero").unwrap_err();
        assert!(plan.to_string().contains("more than 16 MiB"), "{plan}");
    }

    #[test]
    fn the_longest_file_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(LONGEST as u64).unwrap();
        assert_eq!(read(file.path()).unwrap().len(), LONGEST);
        file.as_file().set_len(LONGEST as u64 + 1).unwrap();
        assert!(read(file.path()).is_err());
    }
}
