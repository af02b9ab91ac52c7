//! Shortage of memory: makes an error of an allocation that fails, where the standard library would abort.

use std::io::Write as _;

use crate::errors::{Failure, Result};
use crate::units;

/// The memory that every command may need besides the buffers whose size it knows.
const BASE: usize = 48 << 20;

/// A constant, because building the text would need an allocation, which might fail as well.
const TOO_LITTLE: &[u8] =
    b"nd: error: there are less than 48 MiB of memory for this process; raise its limits \
(ulimit -v, ulimit -d), or free some memory\n";

/// Returns true if there is enough memory to begin with. If not, prints a message. Called before threads are started.
pub fn is_enough() -> bool {
    rdma_buffer::heaps::share_one_if_limited();
    let enough = Vec::<u8>::new().try_reserve_exact(BASE).is_ok();
    if !enough {
        let _ = std::io::stderr().write_all(TOO_LITTLE);
    }
    enough
}

/// The memory that has to be left after large pieces, for everything that is too small to be checked.
const SPARE: usize = 16 << 20;

/// The size from which a piece is large.
const LARGE: usize = 1 << 20;

/// So many zeroed octets.
pub fn zeroed(len: usize) -> Result<Vec<u8>> {
    let mut octets = Vec::new();
    reserve(&mut octets, len)?;
    check_spare(len)?;
    octets.resize(len, 0);
    Ok(octets)
}

/// Checks that enough memory is left after a piece of this many octets.
pub fn check_spare(len: usize) -> Result<()> {
    if len >= LARGE && Vec::<u8>::new().try_reserve_exact(SPARE).is_err() {
        return Err(missing(len));
    }
    Ok(())
}

/// Makes room for this many more elements.
pub fn reserve<T>(elements: &mut Vec<T>, more: usize) -> Result<()> {
    let reserved = elements.try_reserve_exact(more);
    reserved.map_err(|_| missing(more.saturating_mul(size_of::<T>())))
}

fn missing(octets: usize) -> Failure {
    Failure::new(
        format!("cannot get {} of memory", units::bytes(octets as u64)),
        "free some memory, or raise its limits (ulimit -v, ulimit -d)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_an_error_with_its_size() {
        assert_eq!(zeroed(3).expect("three octets"), [0; 3]);
        let text = zeroed(1 << 60).expect_err("an exbibyte").to_string();
        assert!(
            text.starts_with("cannot get 1024 PiB of memory; "),
            "{text}"
        );
    }

    #[test]
    fn the_words_for_too_little_name_what_is_asked_for() {
        let words = String::from_utf8_lossy(TOO_LITTLE);
        assert!(words.contains(&units::bytes(BASE as u64)), "{words}");
        assert_eq!(words.lines().count(), 1);
        assert!(is_enough());
    }
}
