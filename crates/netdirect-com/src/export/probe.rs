//! Checks before memory is registered that it can be read and written.

use netdirect::{Error, Result, Status};

/// Checks that all of the memory can be read, and written if `is_written` (AMB-012).
///
/// If the memory has up to [`PAGES_ASKED`](linux::PAGES_ASKED) pages, one word of each is read or rewritten unchanged, by a system call
/// each. Memory of up to [`TOUCHED`](linux::TOUCHED) octets is made present by one system call, as an adapter that pins memory does. For
/// more, and if the system has no such call, the list of the process's mappings is read once. So the number of system calls has a bound.
///
/// # Errors
///
/// [`ACCESS_VIOLATION`](Status::ACCESS_VIOLATION).
#[cfg(target_os = "linux")]
pub(super) fn check(start: *mut u8, len: usize, is_written: bool) -> Result<()> {
    if start.addr().checked_add(len).is_none() {
        return Err(refused(start, len, is_written));
    }
    let is_good = linux::ask(start, len, is_written);
    let is_good = is_good.or_else(|| linux::touch(start, len, is_written));
    if is_good.unwrap_or_else(|| linux::is_mapped(start.addr(), len, is_written)) {
        Ok(())
    } else {
        Err(refused(start, len, is_written))
    }
}

/// Systems other than Linux have no such query: the first access decides.
#[cfg(not(target_os = "linux"))]
pub(super) fn check(start: *mut u8, len: usize, is_written: bool) -> Result<()> {
    match start.addr().checked_add(len) {
        Some(_) => Ok(()),
        None => Err(refused(start, len, is_written)),
    }
}

fn refused(start: *mut u8, len: usize, is_written: bool) -> Error {
    let use_ = if is_written {
        "read and written"
    } else {
        "read"
    };
    Error::new(
        Status::ACCESS_VIOLATION,
        format!("not all of the {len} octets from {start:p} on can be {use_}"),
    )
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use rustix::io::Errno;
    use rustix::mm::{Advice, madvise};

    /// The most octets that are made present.
    pub(super) const TOUCHED: usize = 4 << 20;

    const PAGE: usize = 4096;

    /// The most pages of which one word each is checked.
    pub(super) const PAGES_ASKED: usize = 4;

    /// Checks a word of each page. `None` for more pages, and if the system does not support this.
    pub(super) fn ask(start: *mut u8, len: usize, is_written: bool) -> Option<bool> {
        let (first, last) = (start.addr() / PAGE, (start.addr() + len - 1) / PAGE);
        if last - first >= PAGES_ASKED {
            return None;
        }
        for page in first..=last {
            // The word is within the page.
            let address = start.addr().max(page * PAGE) & !3;
            if !has_word(start.with_addr(address), is_written)? {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Returns true if the aligned word at an address can be read, and written if `is_written`. The kernel is asked by a futex call that
    /// leaves the word unchanged: a wait whose time limit is over at once, or a wake-up that adds 0 to the word.
    fn has_word(word: *mut u8, is_written: bool) -> Option<bool> {
        let own = 0_u32;
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let answer = if is_written {
            let operation = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
            // FUTEX_OP_ADD with 0 is 1 << 28. A thread that waits for this word, which no program does in memory for an adapter, could be
            // woken without reason. SAFETY: the kernel checks the second address, and leaves the word unchanged.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    &raw const own,
                    operation,
                    0_usize,
                    0_usize,
                    word,
                    1_usize << 28,
                )
            }
        } else {
            let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the kernel checks the address and reads the word; the time limit is over at once.
            unsafe { libc::syscall(libc::SYS_futex, word, operation, 0_usize, &raw const now) }
        };
        if answer >= 0 {
            return Some(true);
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR) => Some(true),
            Some(libc::EFAULT) => Some(false),
            _ => None,
        }
    }

    /// Makes memory present. `None` if the system does not know the call, or the answer depends on the kind of memory.
    pub(super) fn touch(start: *mut u8, len: usize, is_written: bool) -> Option<bool> {
        if len > TOUCHED {
            return None;
        }
        let from = start.map_addr(|address| address & !(PAGE - 1));
        let whole = (start.addr() - from.addr() + len).next_multiple_of(PAGE);
        let advice = if is_written {
            Advice::LinuxPopulateWrite
        } else {
            Advice::LinuxPopulateRead
        };
        // SAFETY: the advice changes no octet: it reads pages in, and makes private copies of pages that are to be written.
        let answer = unsafe { madvise(from.cast(), whole, advice) };
        match answer {
            Ok(()) => Some(true),
            Err(Errno::NOMEM | Errno::FAULT) => Some(false),
            // An old system, or memory that is mapped without the right, or memory of a device.
            Err(_) => None,
        }
    }

    /// Checks the list of mappings.
    pub(super) fn is_mapped(start: usize, len: usize, is_written: bool) -> bool {
        let Ok(maps) = fs::read_to_string("/proc/self/maps") else {
            // No list of mappings: the first access decides.
            return true;
        };
        covers(&maps, start, start + len, is_written)
    }

    /// Returns true if the mappings of a list, which are in the order of addresses, cover `start..end` without a gap.
    pub(super) fn covers(maps: &str, start: usize, end: usize, is_written: bool) -> bool {
        let mut covered = start;
        for line in maps.lines() {
            let Some((from, to, rights)) = mapping(line) else {
                continue;
            };
            if to <= covered {
                continue;
            }
            let has_right =
                rights.starts_with('r') && (!is_written || rights[1..].starts_with('w'));
            if from > covered || !has_right {
                return false;
            }
            covered = to;
            if covered >= end {
                return true;
            }
        }
        false
    }

    /// `from-to rights …`, in hexadecimal digits.
    fn mapping(line: &str) -> Option<(usize, usize, &str)> {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let from = usize::from_str_radix(from, 16).ok()?;
        let to = usize::from_str_radix(to, 16).ok()?;
        Some((from, to, rest.get(..4)?))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const MAPS: &str = "1000-3000 r--p 00000000 00:00 0\n3000-4000 rw-p 00000000 00:00 0 [heap]\n6000-7000 ---p 00000000 00:00 0\n";

    #[test]
    fn mappings_cover_memory_without_a_gap() {
        assert!(linux::covers(MAPS, 0x1000, 0x4000, false));
        assert!(linux::covers(MAPS, 0x2FFF, 0x3001, false));
        assert!(!linux::covers(MAPS, 0x2FFF, 0x3001, true));
        assert!(linux::covers(MAPS, 0x3000, 0x4000, true));
        assert!(!linux::covers(MAPS, 0x3000, 0x4001, false));
        assert!(!linux::covers(MAPS, 0x0, 0x10, false));
        assert!(!linux::covers(MAPS, 0x6000, 0x6001, false));
        assert!(!linux::covers(MAPS, 0x8000, 0x8001, false));
    }

    #[test]
    fn own_memory_is_good_and_memory_that_nobody_has_is_not() {
        let mut own = vec![1_u8; 100_000];
        for len in [1, 4096, 10_000] {
            check(own.as_mut_ptr(), len, false).unwrap();
            check(own.as_mut_ptr(), len, true).unwrap();
        }
        assert!(own.iter().all(|octet| *octet == 1));
        let large = vec![0_u8; linux::TOUCHED + 1];
        for is_written in [false, true] {
            check(own.as_mut_ptr(), own.len(), is_written).unwrap();
            check(large.as_ptr().cast_mut(), large.len(), is_written).unwrap();
        }
        let constant: &'static str = "a constant of the program";
        check(constant.as_ptr().cast_mut(), constant.len(), false).unwrap();
        let error = check(constant.as_ptr().cast_mut(), constant.len(), true).unwrap_err();
        assert_eq!(error.status(), Status::ACCESS_VIOLATION);
        for len in [16, 100_000, linux::TOUCHED + 1] {
            let nowhere = std::ptr::without_provenance_mut(4096);
            let error = check(nowhere, len, false).unwrap_err();
            assert_eq!(error.status(), Status::ACCESS_VIOLATION);
        }
        let error = check(own.as_mut_ptr(), usize::MAX, false).unwrap_err();
        assert_eq!(error.status(), Status::ACCESS_VIOLATION);
    }
}
