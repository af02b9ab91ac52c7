//! The characters of a peer's texts that may be shown to people.

/// Returns U+FFFD if the character is a control character, reorders the text around it (Unicode Standard Annex 9), or is one of the
/// noncharacters U+FFFE and U+FFFF.
pub(crate) fn printable(c: char) -> char {
    match c {
        '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{fffe}'
        | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}
