//! Which characters of a peer's texts may be shown to people.

/// Returns true if the character changes nothing but its own place on a terminal or a page. Control characters move the cursor or hide
/// text, separators begin a line, characters of the category Cf of Unicode 15 are invisible or change how their neighbours are shown (those of
/// Unicode Standard Annex 9 reorder text), and XML 1.0 cannot hold U+FFFE and U+FFFF.
#[must_use]
pub fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
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
            | '\u{e0020}'..='\u{e007f}'
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_invisible_or_changes_other_text_is_not_printable() {
        // A soft hyphen, a zero-width space, a word joiner, a byte order mark, a line separator, an override, a tag character.
        let unseen = "\u{ad}\u{200b}\u{2060}\u{feff}\u{2028}\u{202e}\u{e0041}\u{7}";
        assert!(!unseen.chars().any(is_printable));
        assert_eq!(printable(unseen), "\u{fffd}".repeat(8));
        let seen = "a ü 語 \u{301}😀\u{fffd}\n\t";
        assert_eq!(printable(seen), seen);
    }
}
