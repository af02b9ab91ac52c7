//! Where in their pages a kernel's copy takes octets from and puts them, and whether that decides its speed.

use std::sync::LazyLock;

use super::processor::{Processor, Vendor};
use crate::buffer::Buffer;
use crate::environment;

/// The environment variable that chooses, so that the tests can run with both on one machine: `matter` or `equal`. With anything
/// else the processor decides.
const SWITCH: &str = "SOFTND_PAGE_OFFSETS";

/// The family of Zen 3 and Zen 4. Zen 5 is the next one.
const ZEN_3: u32 = 0x19;

/// A copy is slow if its destination lies fewer octets than this behind its source, modulo a page. At a distance of 0 it is
/// fast on a Zen 4; of a Zen 3 some measured that it is slow there.
const SLOW_BEHIND: usize = 64;

/// Returns true if the speed of a kernel's copy to or from a socket depends on where in their pages source and destination lie
/// ([`is_slow_copy`]). Determined once.
///
/// So it is on AMD's processors from Zen 3 on that report a fast `rep movsb`. Kernels copy to and from sockets by this instruction
/// then. It was measured on a Zen 3, 3 to 6 times as long at bad offsets, and on a Zen 4: twice as long at 16 to 31 octets behind the
/// source, 10 to 30 times at 1 to 8, and as long as elsewhere from 32 on.
/// glibc's bug 30994 has Zen 3, and glibc now copies without the instruction on all of AMD's processors. Nothing is known of Zen 5 and
/// later ones; they count as slow, because a needless private copy costs less than a slow copy of the kernel.
///
/// The processor's name decides and not a measurement: the copy is slow when the source is in another core's cache, so that a
/// measurement needs two threads on two cores, which a virtual machine may take turns to run.
#[must_use]
pub fn page_offsets_matter() -> bool {
    static MATTER: LazyLock<bool> = LazyLock::new(|| {
        let chosen = environment::text(SWITCH).unwrap_or_default();
        decide(&chosen, Processor::here())
    });
    *MATTER
}

/// Returns true if page offsets matter, by what is chosen and what the processor is.
fn decide(chosen: &str, processor: Processor) -> bool {
    match chosen {
        "matter" => true,
        "equal" => false,
        _ => is_affected(processor),
    }
}

/// Returns true if the processor is on the list. Kernels use `rep movsb` for long copies with either of the two features; a virtual machine
/// may show only one of them.
fn is_affected(processor: Processor) -> bool {
    processor.vendor == Vendor::Amd
        && processor.family >= ZEN_3
        && (processor.erms || processor.fsrm)
}

/// Returns true if a copy `from` this address `to` that one is slow where [page offsets matter](page_offsets_matter): if the destination
/// lies 0 to 63 octets behind the source, modulo 4,096. Only the offsets within a page count. Where they are not known exactly, the
/// destination may also lie up to `further` octets behind `to`; less than 4,032.
#[must_use]
pub const fn is_slow_copy(from: usize, to: usize, further: usize) -> bool {
    debug_assert!(further + SLOW_BEHIND < Buffer::PAGE, "all is slow");
    // Pages divide the address space, so that addresses may wrap around it.
    to.wrapping_sub(from).wrapping_add(further) % Buffer::PAGE < SLOW_BEHIND + further
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZEN: Processor = Processor {
        vendor: Vendor::Amd,
        family: ZEN_3,
        erms: true,
        fsrm: true,
    };

    #[test]
    fn the_choice_stands_above_the_processor() {
        let intel = Processor {
            vendor: Vendor::Intel,
            ..ZEN
        };
        for (chosen, processor, matter) in [
            ("matter", intel, true),
            ("equal", ZEN, false),
            ("", ZEN, true),
            ("", intel, false),
            ("something", ZEN, true),
        ] {
            assert_eq!(decide(chosen, processor), matter, "{chosen} {processor:?}");
        }
    }

    #[test]
    fn amds_processors_with_a_fast_rep_movsb_are_on_the_list() {
        let zen = |family, erms, fsrm| Processor {
            family,
            erms,
            fsrm,
            ..ZEN
        };
        for affected in [
            ZEN,
            zen(0x19, true, false),
            zen(0x19, false, true),
            zen(0x1A, true, true),
        ] {
            assert!(is_affected(affected), "{affected:?}");
        }
        for other in [
            zen(0x19, false, false),
            zen(0x17, true, true),
            Processor {
                vendor: Vendor::Other,
                ..ZEN
            },
        ] {
            assert!(!is_affected(other), "{other:?}");
        }
    }

    #[test]
    fn destinations_shortly_behind_the_source_are_slow() {
        for source in [0, 16, 1024, 4080, 0x7fff_ffff_f000, usize::MAX] {
            for distance in 0..2 * Buffer::PAGE {
                let slow = |further| is_slow_copy(source, source.wrapping_add(distance), further);
                let within = distance % Buffer::PAGE;
                assert_eq!(slow(0), within < 64, "{source} {distance}");
                let near = !(64..Buffer::PAGE - 100).contains(&within);
                assert_eq!(slow(100), near, "{source} {distance}");
            }
        }
        // Between two of our buffers, and between ours and the memory of allocators and sockets.
        assert!(!is_slow_copy(Buffer::PAGE_OFFSET, 0, 256));
        assert!(!is_slow_copy(0, Buffer::PAGE_OFFSET, 256));
        assert!(is_slow_copy(0, 20, 0) && is_slow_copy(4080, 20, 0));
    }
}
