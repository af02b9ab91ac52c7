//! The part of a page that a program writes. It stands between two marks, and the rest of the page stays unchanged.

use std::fmt;

/// The page does not have the marks of the part, or has them twice or in the wrong order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlace {
    name: String,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [begin, end] = marks(&self.name);
        write!(f, "the page has no {begin} followed by one {end}")
    }
}

impl std::error::Error for NoPlace {}

fn marks(name: &str) -> [String; 2] {
    ["begin", "end"].map(|end| format!("<!-- {name}: {end} -->"))
}

/// `page` with `part` between the marks of that name: `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
///
/// # Errors
///
/// If the page does not have both marks, once each and in order.
pub fn replace(page: &str, name: &str, part: &str) -> Result<String, NoPlace> {
    let none = || NoPlace {
        name: name.to_owned(),
    };
    let [begin, end] = marks(name);
    let (before, rest) = page.split_once(&begin).ok_or_else(none)?;
    let (old, after) = rest.split_once(&end).ok_or_else(none)?;
    if old.contains(&begin) || after.contains(&begin) || after.contains(&end) {
        return Err(none());
    }
    Ok(format!(
        "{before}{begin}\n\n{}\n\n{end}{after}",
        part.trim()
    ))
}

/// Text as a cell of a Markdown table.
#[must_use]
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let [begin, end] = marks("it");
        let page = format!("a\n{begin}\nold\n{end}\nb\n");
        let new = replace(&page, "it", "\nnew\n").expect("a place");
        assert_eq!(new, format!("a\n{begin}\n\nnew\n\n{end}\nb\n"));
        assert_eq!(replace(&new, "it", "new").expect("a place"), new);
        let twice = page.repeat(2);
        for bad in ["", &begin, &end, &format!("{end}{begin}"), &twice] {
            let error = replace(bad, "it", "new").expect_err(bad).to_string();
            assert!(error.contains(&begin) && error.contains(&end), "{error}");
        }
        assert!(replace(&page, "other", "new").is_err());
    }
}
