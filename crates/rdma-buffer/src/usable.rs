//! Checks before memory is registered that it can be read and written.

/// Returns true if all of the memory can be read, and written if `is_written`. Nothing is written but what is there already.
///
/// If the memory has up to four pages, one word of each is read or rewritten unchanged, by a system call
/// each. Memory of up to 4 MiB is made present by one system call, as an adapter that pins memory does. For
/// more, and if the system has no such call, the list of the process's mappings is read once, and a word of the last page of each file's
/// mapping, which may be longer than its file. So the number of system calls is bounded by that of the mappings, and at most 4 MiB become
/// present.
///
/// On Windows the system is asked for the rights of each range of pages that have the same ones, and nothing becomes present.
///
/// Other systems have no such query: the first access decides there.
#[cfg(target_os = "linux")]
pub fn is_usable(start: *mut u8, len: usize, is_written: bool) -> bool {
    if len == 0 {
        return true;
    }
    if start.addr().checked_add(len).is_none() {
        return false;
    }
    let is_good = linux::ask(start, len, is_written);
    let is_good = is_good.or_else(|| linux::touch(start, len, is_written));
    is_good.unwrap_or_else(|| linux::is_mapped(start, len, is_written))
}

/// See above.
#[cfg(all(windows, not(miri)))]
pub fn is_usable(start: *mut u8, len: usize, is_written: bool) -> bool {
    let Some(end) = start.addr().checked_add(len) else {
        return false;
    };
    let mut at = start.addr();
    while at < end {
        match windows::pages(at) {
            Some(pages) if pages.permit(is_written) => at = pages.end,
            _ => return false,
        }
    }
    true
}

/// See above.
#[cfg(not(any(target_os = "linux", all(windows, not(miri)))))]
pub fn is_usable(start: *mut u8, len: usize, _is_written: bool) -> bool {
    start.addr().checked_add(len).is_some()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::ops::Range;

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
    pub(super) fn is_mapped(start: *mut u8, len: usize, is_written: bool) -> bool {
        let Ok(maps) = fs::read_to_string("/proc/self/maps") else {
            // No list of mappings: the first access decides.
            return true;
        };
        let range = start.addr()..start.addr() + len;
        covers(&maps, range, is_written, |last| {
            // A system that cannot be asked has no better answer.
            has_word(start.with_addr(last & !3), is_written).unwrap_or(true)
        })
    }

    /// Returns true if the mappings of a list, which are in the order of addresses, cover the range without a gap. `has_last` says if the
    /// last octet that is wanted of a file's mapping is in the file: all octets before it are, too.
    pub(super) fn covers(
        maps: &str,
        wanted: Range<usize>,
        is_written: bool,
        mut has_last: impl FnMut(usize) -> bool,
    ) -> bool {
        let mut covered = wanted.start;
        for mapping in maps.lines().filter_map(Mapping::read) {
            if mapping.range.end <= covered {
                continue;
            }
            if mapping.range.start > covered || !mapping.permits(is_written) {
                return false;
            }
            covered = mapping.range.end.min(wanted.end);
            if mapping.is_of_file && !has_last(covered - 1) {
                return false;
            }
            if covered == wanted.end {
                return true;
            }
        }
        false
    }

    /// A line of the list: `from-to rights offset device inode path`, where the first two and the offset have hexadecimal digits.
    struct Mapping<'a> {
        range: Range<usize>,
        rights: &'a str,
        is_of_file: bool,
    }

    impl<'a> Mapping<'a> {
        fn read(line: &'a str) -> Option<Self> {
            let mut fields = line.split_ascii_whitespace();
            let (from, to) = fields.next()?.split_once('-')?;
            let from = usize::from_str_radix(from, 16).ok()?;
            let to = usize::from_str_radix(to, 16).ok()?;
            let rights = fields.next()?;
            let inode = fields.nth(2)?;
            Some(Self {
                range: from..to,
                rights,
                is_of_file: inode != "0",
            })
        }

        fn permits(&self, is_written: bool) -> bool {
            let mut rights = self.rights.chars();
            rights.next() == Some('r') && (!is_written || rights.next() == Some('w'))
        }
    }
}

#[cfg(all(windows, not(miri)))]
mod windows {
    use std::mem::MaybeUninit;
    use std::ptr;

    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEMORY_BASIC_INFORMATION, PAGE_EXECUTE_READ, PAGE_EXECUTE_READWRITE,
        PAGE_EXECUTE_WRITECOPY, PAGE_GUARD, PAGE_READONLY, PAGE_READWRITE, PAGE_WRITECOPY,
        VirtualQuery,
    };

    /// Pages that have the same rights.
    pub(super) struct Pages {
        pub(super) end: usize,
        is_committed: bool,
        rights: u32,
    }

    /// The pages from the one of this address on. `None` where programs have no memory.
    pub(super) fn pages(at: usize) -> Option<Pages> {
        let mut room = MaybeUninit::<MEMORY_BASIC_INFORMATION>::uninit();
        let size = size_of::<MEMORY_BASIC_INFORMATION>();
        // SAFETY: there is room for the answer; the address is looked up only.
        let written = unsafe { VirtualQuery(ptr::without_provenance(at), room.as_mut_ptr(), size) };
        if written < size {
            return None;
        }
        // SAFETY: all of it was written.
        let pages = unsafe { room.assume_init() };
        let end = pages.BaseAddress.addr().checked_add(pages.RegionSize)?;
        (end > at).then_some(Pages {
            end,
            is_committed: pages.State == MEM_COMMIT,
            rights: pages.Protect,
        })
    }

    const WRITABLE: u32 =
        PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
    const READABLE: u32 = WRITABLE | PAGE_READONLY | PAGE_EXECUTE_READ;

    impl Pages {
        pub(super) fn permit(&self, is_written: bool) -> bool {
            let wanted = if is_written { WRITABLE } else { READABLE };
            self.is_committed && self.rights & wanted != 0 && self.rights & PAGE_GUARD == 0
        }
    }
}

#[cfg(all(test, windows, not(miri)))]
mod tests_on_windows {
    use std::ffi::c_void;
    use std::ptr;

    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_GUARD, PAGE_NOACCESS, PAGE_READONLY,
        PAGE_READWRITE, VirtualAlloc, VirtualFree, VirtualProtect,
    };

    use super::*;

    const PAGE: usize = 4096;

    /// Addresses that nothing else uses.
    struct Reserved(*mut c_void);

    impl Reserved {
        fn new(pages: usize) -> Self {
            // SAFETY: the system chooses a place where nothing is.
            let start =
                unsafe { VirtualAlloc(ptr::null(), pages * PAGE, MEM_RESERVE, PAGE_NOACCESS) };
            assert!(!start.is_null());
            Self(start)
        }

        fn page(&self, number: usize) -> *mut u8 {
            self.0.wrapping_byte_add(number * PAGE).cast()
        }

        fn commit(&self, number: usize) {
            let page = self.page(number).cast_const().cast();
            // SAFETY: a page of this reservation.
            let made = unsafe { VirtualAlloc(page, PAGE, MEM_COMMIT, PAGE_READWRITE) };
            assert!(!made.is_null());
        }

        fn protect(&self, number: usize, rights: u32) {
            let (page, mut old) = (self.page(number).cast_const().cast(), 0);
            // SAFETY: a page of this reservation, to which nothing refers.
            assert_ne!(
                unsafe { VirtualProtect(page, PAGE, rights, &raw mut old) },
                0
            );
        }
    }

    impl Drop for Reserved {
        fn drop(&mut self) {
            // SAFETY: nothing refers to the memory.
            unsafe { VirtualFree(self.0, 0, MEM_RELEASE) };
        }
    }

    #[test]
    fn rights_of_every_page_decide() {
        let memory = Reserved::new(4);
        let usable = |first, octets, is_written| is_usable(memory.page(first), octets, is_written);
        assert!(!usable(0, 1, false), "reserved only");
        for page in 0..3 {
            memory.commit(page);
        }
        assert!(usable(0, 3 * PAGE, true));
        assert!(
            !usable(0, 3 * PAGE + 1, false),
            "the last page is not committed"
        );
        memory.protect(1, PAGE_READONLY);
        assert!(usable(0, 3 * PAGE, false));
        assert!(!usable(0, PAGE + 1, true) && usable(0, PAGE, true));
        for rights in [PAGE_NOACCESS, PAGE_READWRITE | PAGE_GUARD] {
            memory.protect(1, rights);
            assert!(!usable(0, 3 * PAGE, false) && !usable(1, 1, true));
            assert!(usable(2, PAGE, true));
        }
    }

    #[test]
    fn own_memory_is_usable_and_memory_that_nobody_has_is_not() {
        let mut own = vec![1_u8; 10_000_000];
        for is_written in [false, true] {
            for len in [0, 1, 4096, 10_000, own.len()] {
                assert!(is_usable(own.as_mut_ptr(), len, is_written));
            }
        }
        let constant: &'static str = "a constant of the program";
        assert!(is_usable(constant.as_ptr().cast_mut(), 10, false));
        for start in [PAGE, usize::MAX - PAGE] {
            for len in [16, 100_000, usize::MAX] {
                assert!(!is_usable(ptr::without_provenance_mut(start), len, false));
            }
        }
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::ptr;

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

    use super::*;

    const MAPS: &str = "1000-3000 r--p 00000000 00:00 0\n3000-4000 rw-p 00000000 00:00 0 [heap]\n\
        6000-7000 ---p 00000000 00:00 0\n7000-9000 rw-s 00001000 08:01 77 /a file\n9000-a000 rw-p 00000000 00:00 0\n";

    #[test]
    fn mappings_cover_memory_without_a_gap() {
        let covers =
            |from, to, is_written| linux::covers(MAPS, from..to, is_written, |last| last < 0x8000);
        assert!(covers(0x1000, 0x4000, false));
        assert!(covers(0x2FFF, 0x3001, false));
        assert!(!covers(0x2FFF, 0x3001, true));
        assert!(covers(0x3000, 0x4000, true));
        assert!(!covers(0x3000, 0x4001, false));
        assert!(!covers(0x0, 0x10, false));
        assert!(!covers(0x6000, 0x6001, false));
        assert!(!covers(0xB000, 0xB001, false));
        // The file has one of the two pages.
        assert!(covers(0x7000, 0x8000, true));
        assert!(!covers(0x7000, 0x8001, true));
        assert!(!covers(0x7000, 0xA000, true));
    }

    #[test]
    fn own_memory_is_usable_and_memory_that_nobody_has_is_not() {
        let mut own = vec![1_u8; 100_000];
        let large = vec![0_u8; linux::TOUCHED + 1];
        for is_written in [false, true] {
            for len in [0, 1, 4096, 10_000, own.len()] {
                assert!(is_usable(own.as_mut_ptr(), len, is_written));
            }
            assert!(is_usable(
                large.as_ptr().cast_mut(),
                large.len(),
                is_written
            ));
        }
        assert!(own.iter().all(|octet| *octet == 1));
        let constant: &'static str = "a constant of the program";
        let constant = constant.as_ptr().cast_mut();
        assert!(is_usable(constant, 10, false));
        assert!(!is_usable(constant, 10, true));
        for len in [16, 100_000, linux::TOUCHED + 1, usize::MAX] {
            assert!(!is_usable(ptr::without_provenance_mut(4096), len, false));
        }
    }

    const PAGE: usize = 4096;
    /// Lengths for each of the three ways to find out.
    const LENGTHS: [usize; 3] = [PAGE, 64 * PAGE, linux::TOUCHED + PAGE];

    #[test]
    fn rights_decide() {
        for len in LENGTHS {
            let all = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the mapping is new, and nothing but this test knows of it.
            let memory = unsafe { mmap_anonymous(ptr::null_mut(), len, all, MapFlags::PRIVATE) };
            let memory = memory.unwrap();
            for (rights, readable, writable) in [
                (MprotectFlags::READ | MprotectFlags::WRITE, true, true),
                (MprotectFlags::READ, true, false),
                (MprotectFlags::empty(), false, false),
            ] {
                // SAFETY: nothing reads or writes the memory but the check, which asks the kernel.
                unsafe { mprotect(memory, len, rights) }.unwrap();
                assert_eq!(is_usable(memory.cast(), len, false), readable, "{len}");
                assert_eq!(is_usable(memory.cast(), len, true), writable, "{len}");
            }
            // SAFETY: the mapping is this test's own, and nothing uses it any more.
            unsafe { munmap(memory, len) }.unwrap();
        }
    }

    #[test]
    fn memory_behind_the_end_of_its_file_is_not_usable() {
        for len in LENGTHS {
            let folder = std::env::temp_dir();
            let path = folder.join(format!("usable-{}-{len}", std::process::id()));
            let file = File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path);
            let file = file.unwrap();
            std::fs::remove_file(&path).unwrap();
            file.set_len(len as u64).unwrap();
            let rights = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the mapping is new, and nothing but this test knows of it.
            let memory = unsafe {
                mmap(
                    ptr::null_mut(),
                    len + PAGE,
                    rights,
                    MapFlags::SHARED,
                    file.as_fd(),
                    0,
                )
            };
            let memory = memory.unwrap();
            for is_written in [false, true] {
                assert!(is_usable(memory.cast(), len, is_written), "{len}");
                assert!(!is_usable(memory.cast(), len + 1, is_written), "{len}");
            }
            // SAFETY: the mapping is this test's own, and nothing uses it any more.
            unsafe { munmap(memory, len + PAGE) }.unwrap();
        }
    }

    /// 1 TiB without a page is looked at, and stays without.
    #[test]
    fn large_memory_is_not_made_present() {
        const LEN: usize = 1 << 40;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is new, and nothing but this test knows of it.
        let Ok(memory) = (unsafe { mmap_anonymous(ptr::null_mut(), LEN, rights, flags) }) else {
            return; // a machine with less room for addresses
        };
        assert!(is_usable(memory.cast(), LEN, true));
        // SAFETY: the mapping is this test's own, and nothing uses it any more.
        unsafe { munmap(memory, LEN) }.unwrap();
    }
}
