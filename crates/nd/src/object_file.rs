//! Programs and libraries as the crate `object` reads them, of which only those parts are read that are looked at.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use object::{ReadCache, ReadRef};

/// The most octets of a name, of a section, a function or a library.
const LONGEST_NAME: u64 = 256;

/// A file of which only those parts are read that are looked at.
pub(crate) struct Parts<'f, F: Read + Seek> {
    cache: ReadCache<Watched<'f, F>>,
    /// The most octets of a part.
    longest: u64,
    is_too_long: Cell<bool>,
}

impl<'f, F: Read + Seek> Parts<'f, F> {
    /// The file, with the most octets of one of its parts.
    pub(crate) fn new(file: &'f mut F, longest: u64) -> Self {
        Self {
            cache: ReadCache::new(Watched { file, failed: None }),
            longest,
            is_too_long: Cell::new(false),
        }
    }

    /// Ends the reading of the file.
    ///
    /// # Errors
    ///
    /// The error of the system with which a part could not be read. `InvalidData`, if a part was too long.
    pub(crate) fn finish(self) -> io::Result<()> {
        if self.is_too_long.get() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.cache.into_inner().failed.map_or(Ok(()), Err)
    }
}

impl<'d, F: Read + Seek> ReadRef<'d> for &'d Parts<'_, F> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        if size > self.longest {
            self.is_too_long.set(true);
            return Err(());
        }
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        let end = range.end.min(range.start.saturating_add(LONGEST_NAME));
        self.cache.read_bytes_at_until(range.start..end, delimiter)
    }
}

/// Keeps the last error of a file, because `object` says only that there was one.
struct Watched<'f, F> {
    file: &'f mut F,
    failed: Option<io::Error>,
}

impl<F: Read> Read for Watched<'_, F> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(to);
        if let Err(error) = &read {
            self.failed = Some(error.kind().into());
        }
        read
    }
}

impl<F: Seek> Seek for Watched<'_, F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
