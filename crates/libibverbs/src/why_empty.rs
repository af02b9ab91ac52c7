//! Why this library exports no functions, in a form that `nd run` finds in the file.

const TEXT: &str = env!("WHY_EMPTY");

/// The reason, in a section that has nothing else. Exported, so that no linker drops it.
// SAFETY: no other symbol has this name, and the section holds constant octets.
#[unsafe(no_mangle)]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".softnd.empty"))]
pub(crate) static SOFTND_VERBS_EMPTY: [u8; TEXT.len()] = bytes();

const fn bytes() -> [u8; TEXT.len()] {
    let mut bytes = [0; TEXT.len()];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = TEXT.as_bytes()[at];
        at += 1;
    }
    bytes
}
