//! The bulk copy: a loop of wide moves, or the processor's string instruction, whichever is faster on this processor.

use std::sync::LazyLock;

use super::processor::{Processor, Vendor};
use crate::environment;

/// The environment variable that chooses, so that the tests can run with both on one machine: `strings` or `loop`. With anything
/// else the processor decides.
const SWITCH: &str = "SOFTND_COPIES";

/// Pieces of at least this length are copied by strings, where those are preferred. Shorter ones gain nothing: to memory that is in no
/// cache, 2 KiB take a sixth longer than by the loop.
#[cfg(target_arch = "x86_64")]
const STRINGS_MIN: usize = 8 * 1024;

/// Returns true if `rep movsb` is the fastest copy of long pieces, also to memory that is in no cache. Kernels copy to and from sockets by
/// this instruction if the processor reports that it is fast (FSRM). So the answer also says whether a kernel's copy is as fast as one of
/// ours. Determined once.
///
/// On an Intel processor with FSRM `rep movsb` was measured to be the fastest: 26 GB/s to memory that is in no cache, where the loop has 20
/// GB/s. On AMD's, which report FSRM as well, the loop is faster by half. Other processors were not measured, and have the loop.
#[must_use]
pub fn prefers_strings() -> bool {
    static PREFERS: LazyLock<bool> = LazyLock::new(|| {
        let chosen = environment::text(SWITCH).unwrap_or_default();
        decide(&chosen, is_intel_with_fsrm())
    });
    *PREFERS
}

/// Returns true if strings are used, by what is chosen and what the processor is. Only x86-64 has them.
fn decide(chosen: &str, is_fastest: bool) -> bool {
    match chosen {
        "strings" => cfg!(target_arch = "x86_64"),
        "loop" => false,
        _ => is_fastest,
    }
}

/// Returns true for Intel processors that report fast short `rep movsb`.
fn is_intel_with_fsrm() -> bool {
    let processor = Processor::here();
    processor.vendor == Vendor::Intel && processor.fsrm
}

/// Copies by the faster way. To the compiler this is an operation that may read and write any memory that the compiler does not own
/// alone.
///
/// # Safety
///
/// `src` is valid for reads and `dst` for writes of `len` octets, and they do not overlap.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn bulk(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: exactly what the caller vouches for.
    unsafe { moves(dst, src, len, len >= STRINGS_MIN && prefers_strings()) };
}

/// A loop of 16-octet moves, and `rep movsb` for the rest. With `strings` everything is the rest.
///
/// # Safety
///
/// As for [`bulk`].
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn moves(dst: *mut u8, src: *const u8, len: usize, strings: bool) {
    let blocks = if strings { 0 } else { len / 64 };
    let rest = len - blocks * 64;
    // SAFETY: the caller vouches for both ranges, of which the loop moves `blocks` times 64 octets and `rep movsb` the rest; the
    // direction flag is clear between Rust statements; nothing else than the registers named and that memory is changed.
    unsafe {
        std::arch::asm!(
            "test {blocks}, {blocks}",
            "jz 3f",
            "2:",
            "movups {a}, [rsi]",
            "movups {b}, [rsi + 16]",
            "movups {c}, [rsi + 32]",
            "movups {d}, [rsi + 48]",
            "movups [rdi], {a}",
            "movups [rdi + 16], {b}",
            "movups [rdi + 32], {c}",
            "movups [rdi + 48], {d}",
            "add rsi, 64",
            "add rdi, 64",
            "dec {blocks}",
            "jnz 2b",
            "3:",
            "rep movsb",
            blocks = inout(reg) blocks => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            inout("rcx") rest => _,
            inout("rdi") dst => _,
            inout("rsi") src => _,
            options(nostack)
        );
    }
}

/// Never called, because the callers check the architecture first.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn bulk(_: *mut u8, _: *const u8, _: usize) {
    unreachable!("bulk copies exist on x86-64 only");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_stands_above_the_processor() {
        let here = cfg!(target_arch = "x86_64");
        for (chosen, is_fastest, strings) in [
            ("strings", false, here),
            ("loop", true, false),
            ("", true, true),
            ("", false, false),
            ("something", true, true),
        ] {
            assert_eq!(decide(chosen, is_fastest), strings, "{chosen}");
        }
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn both_ways_copy_every_length_and_nothing_else() {
        let source: Vec<u8> = (0..=250).cycle().take(400).collect();
        for strings in [false, true] {
            for len in 0..=source.len() {
                let mut target = vec![0xFF; len + 2];
                let place = target[1..].as_mut_ptr();
                // SAFETY: `source` has `len` octets, and `target` has them behind its first one; two vectors do not overlap.
                unsafe { moves(place, source.as_ptr(), len, strings) };
                let (first, rest) = target.split_first().expect("two octets more");
                let (last, copied) = rest.split_last().expect("two octets more");
                assert_eq!((*first, copied, *last), (0xFF, &source[..len], 0xFF));
            }
        }
    }
}
