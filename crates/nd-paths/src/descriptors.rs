//! Where a descriptor is, and what is in its file.

use std::ffi::{c_char, c_int};

use crate::room::Room;

/// `/proc/self/fd/N` with a zero behind it.
pub(crate) struct Name([u8; 32]);

impl Name {
    pub(crate) fn new(descriptor: c_int) -> Self {
        let mut digits = [0_u8; 10];
        let mut left = descriptor.unsigned_abs();
        let mut count = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(left % 10).unwrap_or(0);
            left /= 10;
            count += 1;
            if left == 0 {
                break;
            }
        }
        let digits = digits.iter().skip(digits.len() - count);
        let mut name = [0; 32];
        for (to, from) in name.iter_mut().zip(b"/proc/self/fd/".iter().chain(digits)) {
            *to = *from;
        }
        Self(name)
    }

    pub(crate) fn pointer(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }
}

/// The octets of a file at an offset, as many as there are.
pub(crate) fn read_at(file: c_int, at: usize, to: &mut [u8]) -> Option<&[u8]> {
    let at = libc::off64_t::try_from(at).ok()?;
    // SAFETY: there is room for the octets.
    let read = unsafe { libc::pread64(file, to.as_mut_ptr().cast(), to.len(), at) };
    to.get(..usize::try_from(read).ok()?)
}

/// Writes the absolute path of a descriptor's file, or of the working directory, as the kernel has it. Returns false if there is none.
pub(crate) fn path(descriptor: c_int, to: &mut Room) -> bool {
    to.fill(|octets| match descriptor {
        libc::AT_FDCWD => {
            // SAFETY: there is room for the octets. The C library's function may be our wrapper.
            let len = unsafe { libc::syscall(libc::SYS_getcwd, octets.as_mut_ptr(), octets.len()) };
            // With the zero.
            usize::try_from(len).ok()?.checked_sub(1)
        }
        0.. => {
            let name = Name::new(descriptor);
            let to = octets.as_mut_ptr().cast();
            // SAFETY: the path ends in a zero, and there is room for the octets.
            let len = unsafe { libc::readlink(name.pointer(), to, octets.len()) };
            usize::try_from(len).ok()
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn numbers_have_names() {
        for number in [0, 7, 10, 1024, c_int::MAX] {
            let name = Name::new(number).0;
            let text = format!("/proc/self/fd/{number}\0");
            assert!(name.starts_with(text.as_bytes()), "{number}");
        }
    }

    #[test]
    fn files_and_the_working_directory_have_paths() {
        let mut room = Room::new();
        let file = File::open("/dev/null").unwrap();
        assert!(path(file.as_raw_fd(), &mut room));
        assert_eq!(room.octets(), b"/dev/null");
        assert!(path(libc::AT_FDCWD, &mut room));
        let here = std::env::current_dir().unwrap();
        assert_eq!(room.octets(), here.as_os_str().as_encoded_bytes());
        assert!(!path(-1, &mut room));
    }
}
