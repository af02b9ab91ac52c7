//! Which characters of a peer's texts may be shown to people.

/// Returns true if the character changes nothing but its own place on a terminal or a page. Control characters move the cursor or hide
/// text, bidirectional controls (Unicode Standard Annex 9) reorder the text around them, and XML 1.0 cannot hold U+FFFE and U+FFFF.
#[must_use]
pub fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{fffe}'
                | '\u{ffff}'
        )
}

/// The text with U+FFFD in place of characters that are not printable. Lines and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| {
        if is_printable(c) || matches!(c, '\n' | '\t') {
            c
        } else {
            char::REPLACEMENT_CHARACTER
        }
    };
    text.chars().map(shown).collect()
}
