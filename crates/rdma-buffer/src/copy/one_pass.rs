//! Copies out and computes the CRC in one pass, on processors that multiply without carries in wide registers (x86-64 with
//! AVX-512 and VPCLMULQDQ).
//!
//! A CRC is the remainder of a polynomial division. Octets that are 2,048 bits ahead of other octets may be multiplied by
//! x^2048 and added to them without changing the CRC. So the loop keeps 256 octets, multiplies them and adds the next 256,
//! which it also stores. The last 256 octets have the CRC of everything that was copied, and the library's routine, which
//! computes all other CRCs, continues from there ([`Sum::become_sum_of`]). This is one pass instead of two, each of which
//! is limited by the cache.

use std::sync::LazyLock;

use super::sum::Sum;
use crate::environment;

/// The environment variable that switches these copies off when it is set and not empty, so that the tests can run on one
/// machine as on processors without these instructions.
const SWITCH: &str = "SOFTND_NO_AVX512";

/// The octets that the loop keeps.
pub(super) const STRIDE: usize = 256;

/// From this length on one pass is faster than two.
pub(super) const MIN: usize = 2 * 1024;

/// The polynomial of the CRC32c without its highest term, x^32.
#[cfg(any(target_arch = "x86_64", test))]
const POLYNOMIAL: u32 = 0x1EDC_6F41;

/// The multipliers for the two halves of 16 octets over a stride, in the reflected order of the CRC, where a product of 64
/// by 33 bits is one bit too low.
#[cfg(any(target_arch = "x86_64", test))]
const FACTORS: [u64; 2] = {
    let bits = 8 * STRIDE;
    [factor(bits + 32), factor(bits - 32)]
};

/// x to the power of `exponent` modulo the polynomial, reflected, and moved up by one.
#[cfg(any(target_arch = "x86_64", test))]
const fn factor(exponent: usize) -> u64 {
    let mut remainder = 1u32;
    let mut i = 0;
    while i < exponent {
        let carry = remainder >> 31 == 1;
        remainder = remainder << 1 ^ if carry { POLYNOMIAL } else { 0 };
        i += 1;
    }
    (remainder.reverse_bits() as u64) << 1
}

/// Returns true if the processor has the instructions, and these copies are not switched off. This is determined once.
pub(super) fn is_in_use() -> bool {
    static IN_USE: LazyLock<bool> = LazyLock::new(|| is_supported() && !is_switched_off());
    *IN_USE
}

fn is_switched_off() -> bool {
    environment::variable(SWITCH).is_some_and(|value| !value.is_empty())
}

/// Returns true if the processor has the instructions.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn is_supported() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("vpclmulqdq")
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn is_supported() -> bool {
    false
}

/// Copies `strides` times [`STRIDE`] octets, with at least one stride, and adds them to the CRC.
///
/// # Safety
///
/// - [`is_supported`], which [`is_in_use`] includes.
/// - `src` is valid for reads and `dst` for writes of that many octets, and they do not overlap. To the compiler this is
///   like `bulk`: an operation that may read and write any memory that the compiler does not own alone.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy_and_sum(
    dst: *mut u8,
    src: *const u8,
    strides: usize,
    sum: &mut impl Sum,
) {
    let carry = u32::from_le_bytes(sum.carry());
    let mut remainder = [0u8; STRIDE];
    // SAFETY: the caller vouches for both ranges and for the instructions; the loop moves `strides` times 256 octets, and
    // what it has carried along goes to the 256 octets of `remainder`; nothing but the registers named and that memory is
    // changed. The upper halves of the registers are cleared, as the calling convention wants it.
    unsafe {
        std::arch::asm!(
            "vbroadcasti32x4 zmm8, [{factors}]",
            "vmovd xmm9, {carry:e}",
            "vmovdqu64 zmm0, [{src}]",
            "vmovdqu64 zmm1, [{src} + 64]",
            "vmovdqu64 zmm2, [{src} + 128]",
            "vmovdqu64 zmm3, [{src} + 192]",
            "vmovdqu64 [{dst}], zmm0",
            "vmovdqu64 [{dst} + 64], zmm1",
            "vmovdqu64 [{dst} + 128], zmm2",
            "vmovdqu64 [{dst} + 192], zmm3",
            "vpxorq zmm0, zmm0, zmm9",
            "jmp 3f",
            "2:",
            "add {src}, 256",
            "add {dst}, 256",
            "vmovdqu64 zmm4, [{src}]",
            "vmovdqu64 zmm5, [{src} + 64]",
            "vmovdqu64 zmm6, [{src} + 128]",
            "vmovdqu64 zmm7, [{src} + 192]",
            "vmovdqu64 [{dst}], zmm4",
            "vmovdqu64 [{dst} + 64], zmm5",
            "vmovdqu64 [{dst} + 128], zmm6",
            "vmovdqu64 [{dst} + 192], zmm7",
            "vpclmulqdq zmm9, zmm0, zmm8, 0x00",
            "vpclmulqdq zmm10, zmm1, zmm8, 0x00",
            "vpclmulqdq zmm11, zmm2, zmm8, 0x00",
            "vpclmulqdq zmm12, zmm3, zmm8, 0x00",
            "vpclmulqdq zmm0, zmm0, zmm8, 0x11",
            "vpclmulqdq zmm1, zmm1, zmm8, 0x11",
            "vpclmulqdq zmm2, zmm2, zmm8, 0x11",
            "vpclmulqdq zmm3, zmm3, zmm8, 0x11",
            "vpternlogq zmm0, zmm9, zmm4, 0x96",
            "vpternlogq zmm1, zmm10, zmm5, 0x96",
            "vpternlogq zmm2, zmm11, zmm6, 0x96",
            "vpternlogq zmm3, zmm12, zmm7, 0x96",
            "3:",
            "dec {strides}",
            "jnz 2b",
            "vmovdqu64 [{remainder}], zmm0",
            "vmovdqu64 [{remainder} + 64], zmm1",
            "vmovdqu64 [{remainder} + 128], zmm2",
            "vmovdqu64 [{remainder} + 192], zmm3",
            "vzeroupper",
            factors = in(reg) FACTORS.as_ptr(),
            carry = in(reg) carry,
            remainder = in(reg) remainder.as_mut_ptr(),
            src = inout(reg) src => _,
            dst = inout(reg) dst => _,
            strides = inout(reg) strides => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack)
        );
    }
    sum.become_sum_of(&remainder);
}

/// Never reached: [`is_in_use`] says no.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy_and_sum(_: *mut u8, _: *const u8, _: usize, _: &mut impl Sum) {
    unreachable!("copies that sum exist on x86-64 only");
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::Write as _;
    #[cfg(not(miri))]
    use std::process::Command;

    use iwarp::Crc;

    use super::*;

    /// The two numbers for CRC32c at this distance, as Intel's white paper on CRCs with PCLMULQDQ makes them.
    #[test]
    fn factors_are_powers_of_x() {
        assert_eq!(factor(0), 1 << 32);
        assert_eq!(factor(31), 2);
        assert_eq!(factor(32), u64::from(POLYNOMIAL.reverse_bits()) << 1);
        assert!(FACTORS.iter().all(|factor| factor >> 33 == 0));
    }

    /// Prints on standard error that a test is skipped because the processor does not have the instructions. No
    /// installation helps, so this is no failure in CI.
    fn skip(test: &str) {
        let why = "the processor has no AVX-512 with VPCLMULQDQ";
        // Not `eprintln!`, because the test harness hides its output when the test passes.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {}::{test}: {why}",
            module_path!()
        );
    }

    #[test]
    fn the_sum_and_the_copy_are_those_of_the_octets() {
        if !is_supported() {
            return skip("the_sum_and_the_copy_are_those_of_the_octets");
        }
        let octets: Vec<u8> = (0..20_000u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0])
            .collect();
        for strides in [1, 2, 3, 7, 64, 77] {
            for offset in [0, 1, 13, 64] {
                let src = &octets[offset..offset + strides * STRIDE];
                let mut dst = vec![0; src.len()];
                for before in [&b""[..], b"a", b"a header of 20 octets"] {
                    let mut sum = Crc::new();
                    sum.update(before);
                    let mut plain = sum;
                    plain.update(src);
                    // SAFETY: supported, as just asked; both are slices of `strides` strides.
                    unsafe { copy_and_sum(dst.as_mut_ptr(), src.as_ptr(), strides, &mut sum) };
                    assert_eq!(sum.finish(), plain.finish(), "{strides} from {offset}");
                    assert_eq!(dst, src);
                }
            }
        }
    }

    #[test]
    fn in_use_where_the_processor_can_and_the_variable_is_not_set() {
        let is_set = environment::text(SWITCH).is_some_and(|value| !value.is_empty());
        assert_eq!(is_in_use(), is_supported() && !is_set);
    }

    /// Whatever the environment of the tests is.
    #[cfg(not(miri))]
    #[test]
    fn copies_are_right_with_the_variable_set_and_without_it() {
        let tests = [
            "in_use_where_the_processor_can_and_the_variable_is_not_set",
            "copies_that_are_summed_have_the_sum_of_their_octets",
        ];
        for value in ["1", ""] {
            let run = Command::new(std::env::current_exe().unwrap())
                .args(tests)
                .env(SWITCH, value)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success(), "{SWITCH}={value}: {said}");
            assert!(said.contains(" 2 passed"), "{SWITCH}={value}: {said}");
        }
    }
}
