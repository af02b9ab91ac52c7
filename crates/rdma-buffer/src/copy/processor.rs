//! The features of the processor that decide which copies are fast.

/// The maker of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor {
    Intel,
    Amd,
    /// Another vendor, or the architecture has no such instruction.
    Other,
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Processor {
    pub(super) vendor: Vendor,
    pub(super) family: u32,
    /// `rep movsb` is fast for long pieces (ERMS), and for short ones as well (FSRM).
    pub(super) erms: bool,
    pub(super) fsrm: bool,
}

/// The registers that the instruction CPUID fills for one leaf.
#[derive(Clone, Copy, Debug, Default)]
struct Leaf {
    eax: u32,
    ebx: u32,
    ecx: u32,
    edx: u32,
}

impl Processor {
    /// By what the instruction says: leaf 0 has the vendor, leaf 1 the family, leaf 7 the features.
    fn from_cpuid(cpuid: impl Fn(u32) -> Leaf) -> Self {
        /// The leaf of further features, the bit of ERMS in its EBX, and the bit of FSRM in its EDX.
        const FEATURES: u32 = 7;
        const ERMS: u32 = 1 << 9;
        const FSRM: u32 = 1 << 4;
        let first = cpuid(0);
        let vendor = [first.ebx, first.edx, first.ecx].map(u32::to_le_bytes);
        let features = if first.eax < FEATURES {
            Leaf::default()
        } else {
            cpuid(FEATURES)
        };
        Self {
            vendor: match vendor.as_flattened() {
                b"GenuineIntel" => Vendor::Intel,
                b"AuthenticAMD" => Vendor::Amd,
                _ => Vendor::Other,
            },
            family: family(cpuid(1).eax),
            erms: features.ebx & ERMS != 0,
            fsrm: features.edx & FSRM != 0,
        }
    }

    /// The one that runs this.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[allow(unused_unsafe, reason = "the function is unsafe in older compilers")]
    pub(super) fn here() -> Self {
        Self::from_cpuid(|leaf| {
            // SAFETY: every x86-64 processor has the instruction. For a leaf that the processor does not have, it gives numbers
            // without a meaning; `from_cpuid` asks for leaves 0 and 1, which all have, and for further ones after leaf 0 has said so.
            let result = unsafe { std::arch::x86_64::__cpuid_count(leaf, 0) };
            Leaf {
                eax: result.eax,
                ebx: result.ebx,
                ecx: result.ecx,
                edx: result.edx,
            }
        })
    }

    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    pub(super) fn here() -> Self {
        Self::from_cpuid(|_| Leaf::default())
    }
}

/// The family, from EAX of leaf 1: four bits, and eight more to be added to them if the four are all set.
fn family(eax: u32) -> u32 {
    match eax >> 8 & 0xF {
        0xF => 0xF + (eax >> 20 & 0xFF),
        base => base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: [u8; 12], version: u32, features: Leaf) -> impl Fn(u32) -> Leaf {
        let [ebx, edx, ecx] = [0, 4, 8]
            .map(|at| u32::from_le_bytes(name[at..at + 4].try_into().expect("four octets")));
        move |leaf| match leaf {
            0 => Leaf {
                eax: 7,
                ebx,
                ecx,
                edx,
            },
            1 => Leaf {
                eax: version,
                ..Leaf::default()
            },
            7 => features,
            other => unreachable!("leaf {other}"),
        }
    }

    #[test]
    fn vendor_family_and_features_are_read() {
        let both = Leaf {
            ebx: 1 << 9,
            edx: 1 << 4,
            ..Leaf::default()
        };
        // EPYC 7003, EPYC 9004 and EPYC 9005, which are Zen 3, 4 and 5; then an EPYC 7002 (Zen 2).
        for (version, family) in [
            (0x00A0_0F11, 0x19),
            (0x00A1_0F11, 0x19),
            (0x00B0_0F21, 0x1A),
            (0x0083_0F10, 0x17),
        ] {
            let found = Processor::from_cpuid(named(*b"AuthenticAMD", version, both));
            let expected = Processor {
                vendor: Vendor::Amd,
                family,
                erms: true,
                fsrm: true,
            };
            assert_eq!(found, expected, "{version:#x}");
        }
        let erms = Leaf {
            ebx: 1 << 9,
            ..Leaf::default()
        };
        let intel = Processor::from_cpuid(named(*b"GenuineIntel", 0x000C_06F2, erms));
        assert_eq!((intel.vendor, intel.family), (Vendor::Intel, 6));
        assert!(intel.erms && !intel.fsrm);
        let other = Processor::from_cpuid(named(*b"HygonGenuine", 0x0090_0F02, Leaf::default()));
        assert_eq!((other.vendor, other.family), (Vendor::Other, 0x18));
        assert!(!other.erms && !other.fsrm);
    }

    #[test]
    fn features_are_not_read_where_there_is_no_such_leaf() {
        let old = Processor::from_cpuid(|leaf| match leaf {
            0 => Leaf {
                eax: 1,
                ..Leaf::default()
            },
            1 => Leaf::default(),
            other => unreachable!("leaf {other}"),
        });
        assert!(!old.erms && !old.fsrm);
    }
}
