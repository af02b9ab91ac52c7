//! The part of a page that a program writes. It is between two marks, and the rest of the page stays unchanged.

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
    let [begin, end] = marks(name);
    let [before, _, after] = split(page, name)?;
    Ok(format!(
        "{before}{begin}\n\n{}\n\n{end}{after}",
        part.trim()
    ))
}

/// Returns the text between the marks of that name.
///
/// # Errors
///
/// If the page does not have both marks, once each and in order.
pub fn part<'a>(page: &'a str, name: &str) -> Result<&'a str, NoPlace> {
    split(page, name).map(|[_, part, _]| part.trim())
}

/// What is before the marks, between them, and behind them.
fn split<'a>(page: &'a str, name: &str) -> Result<[&'a str; 3], NoPlace> {
    let none = || NoPlace {
        name: name.to_owned(),
    };
    let [begin, end] = marks(name);
    let (before, rest) = page.split_once(&begin).ok_or_else(none)?;
    let (part, after) = rest.split_once(&end).ok_or_else(none)?;
    if part.contains(&begin) || after.contains(&begin) || after.contains(&end) {
        return Err(none());
    }
    Ok([before, part, after])
}

/// Text as a cell of a Markdown table.
#[must_use]
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The cells of a line of a Markdown table, as [`cell`] wrote them. `None` if it is no such line.
#[must_use]
pub fn cells(line: &str) -> Option<Vec<&str>> {
    let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let (mut cells, mut begin) = (Vec::new(), 0);
    for (at, _) in line.match_indices('|') {
        if !line[..at].ends_with('\\') {
            cells.push(line[begin..at].trim());
            begin = at + 1;
        }
    }
    cells.push(line[begin..].trim());
    Some(cells)
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
        assert_eq!(part(&new, "it"), Ok("new"));
        let twice = page.repeat(2);
        for bad in ["", &begin, &end, &format!("{end}{begin}"), &twice] {
            let error = replace(bad, "it", "new").expect_err(bad).to_string();
            assert!(error.contains(&begin) && error.contains(&end), "{error}");
        }
        assert!(replace(&page, "other", "new").is_err());
        assert!(part(&page, "other").is_err());
    }

    #[test]
    fn cells_are_read_as_they_were_written() {
        let line = format!("| {} | {} |  | d |", cell("a"), cell("b | c"));
        assert_eq!(cells(&line), Some(vec!["a", "b \\| c", "", "d"]));
        assert_eq!(cells("|---|"), Some(vec!["---"]));
        for bad in ["", "text", "|", "| a", "a |"] {
            assert_eq!(cells(bad), None, "{bad}");
        }
    }
}
