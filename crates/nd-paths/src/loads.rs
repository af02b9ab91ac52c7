//! `dlopen` of the libraries for verbs by names other than their versioned ones.
//!
//! The dynamic linker takes a preloaded library for another one by its SONAME alone. A program that loads `libibverbs.so`, or the system's
//! library by its path, would get a second library, without devices.

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_int, c_void};

use crate::c;
use crate::next::Next;

/// What programs call a library, without a version, and its SONAME.
const LIBRARIES: [(&[u8], &CStr); 2] = [
    (b"libibverbs.so", c"libibverbs.so.1"),
    (b"librdmacm.so", c"librdmacm.so.1"),
];

/// The longest path of a system call, with the zero behind it.
const ROOM: usize = 4096;

static DLOPEN: Next = Next::new(c"dlopen");

pub(crate) static ALL: &[&Next] = &[&DLOPEN];

/// The SONAME of the preloaded library that a name means: `libibverbs.so`, `libibverbs.so.1` and `libibverbs.so.1.14.44.0`, in any folder.
fn preloaded(name: &[u8]) -> Option<&'static CStr> {
    let file = name.rsplit(|octet| *octet == b'/').next()?;
    let is_version = |version: &[u8]| version == b".1" || version.starts_with(b".1.");
    let of_file = |(unversioned, soname): (&[u8], _)| {
        let version = file.strip_prefix(unversioned)?;
        (version.is_empty() || is_version(version)).then_some(soname)
    };
    LIBRARIES.into_iter().find_map(of_file)
}

/// The name to load in place of `name`. A path without a file fails as it does without us.
fn in_place_of(name: *const c_char) -> *const c_char {
    let Some(octets) = c::path(name, ROOM) else {
        return name;
    };
    let Some(soname) = preloaded(octets) else {
        return name;
    };
    // SAFETY: the path was read just now, to the zero at its end.
    let is_there = || c::with_errno_kept(|| unsafe { libc::access(name, libc::R_OK) } == 0);
    match octets.contains(&b'/') && !is_there() {
        true => name,
        false => soname.as_ptr(),
    }
}

/// What the wrapper goes on with; C returns it in two registers.
#[repr(C)]
struct Call {
    name: *const c_char,
    function: *const c_void,
}

/// Where the C library has no `dlopen`.
extern "C" fn no_dlopen(_name: *const c_char, _flags: c_int) -> *mut c_void {
    std::ptr::null_mut()
}

extern "C" fn choose(name: *const c_char) -> Call {
    let found = DLOPEN.find().cast_const();
    let function = match found.is_null() {
        true => no_dlopen as *const c_void,
        false => found,
    };
    Call {
        name: in_place_of(name),
        function,
    }
}

/// Jumps to the definition of the C library, which looks at its return address: a library that loads another one has the RUNPATH by which
/// that one is found.
// SAFETY: the C library has a function of this name and type, which the wrapper replaces. The wrapper keeps the flags in `rsi` and the
// alignment of the stack, and leaves the stack as it was.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
unsafe extern "C" fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
    naked_asm!(
        "endbr64",
        "push rsi",
        "call {choose}",
        "pop rsi",
        "mov rdi, rax",
        "jmp rdx",
        choose = sym choose,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_libraries_mean_the_preloaded_ones() {
        for (name, soname) in [
            ("libibverbs.so", c"libibverbs.so.1"),
            ("libibverbs.so.1", c"libibverbs.so.1"),
            ("/usr/lib64/libibverbs.so.1.14.44.0", c"libibverbs.so.1"),
            ("../lib/librdmacm.so", c"librdmacm.so.1"),
            ("/a/librdmacm.so.1", c"librdmacm.so.1"),
        ] {
            assert_eq!(preloaded(name.as_bytes()), Some(soname), "{name}");
        }
    }

    #[test]
    fn other_names_mean_themselves() {
        for name in [
            "",
            "libibverbs",
            "libibverbs.so.10",
            "libibverbs.so.2",
            "libibverbs.so.1/libmlx5.so",
            "/libibverbs.so/",
            "xlibibverbs.so",
            "librdmacm.so.d",
        ] {
            assert_eq!(preloaded(name.as_bytes()), None, "{name}");
        }
    }
}
