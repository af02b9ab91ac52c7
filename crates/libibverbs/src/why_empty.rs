//! Why this library exports no functions, in a form that `nd run` finds in the file.

const TEXT: &str = concat!("softnd-verbs-empty: ", env!("WHY_EMPTY"), "\0");

/// The mark and the reason. Exported, so that no linker drops it.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
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
