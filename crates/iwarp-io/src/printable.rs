//! The characters of a peer's texts that may be shown to people.

/// Returns U+FFFD if the character is a control character, separates lines or paragraphs, is invisible or changes how its neighbours are
/// shown (category Cf of Unicode 15, which has those that reorder text), or is one of the noncharacters U+FFFE and U+FFFF.
pub(crate) fn printable(c: char) -> char {
    match c {
        '\u{ad}'
        | '\u{600}'..='\u{605}'
        | '\u{61c}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{890}'..='\u{891}'
        | '\u{8e2}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{fffe}'..='\u{ffff}'
        | '\u{110bd}'
        | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0001}'
        | '\u{e0020}'..='\u{e007f}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_invisible_or_changes_other_text_is_replaced() {
        // A soft hyphen, a zero-width space, a word joiner, a byte order mark, a line separator, an override, a tag character.
        for c in "\u{ad}\u{200b}\u{2060}\u{feff}\u{2028}\u{202e}\u{e0041}\u{7}".chars() {
            assert_eq!(printable(c), '\u{fffd}', "{c:?}");
        }
        for c in "a ü 語 \u{301}😀\u{fffd}".chars() {
            assert_eq!(printable(c), c);
        }
    }
}
