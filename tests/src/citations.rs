//! The words of the comments at the code, outside of tests. There a crate names the rows that it keeps.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the words of the comments at code, in the sources below a folder.
///
/// # Panics
/// When a file cannot be read.
pub fn words(folder: &Path) -> BTreeSet<String> {
    let mut files = Vec::new();
    collect(folder, &mut files);
    let (mut tests, mut sources) = (Vec::new(), Vec::new());
    for file in files {
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let source = Source::new(&text);
        let stem = file.file_stem().and_then(|stem| stem.to_str());
        let modules = match stem {
            Some("mod" | "lib" | "main") => file.with_file_name(""),
            _ => file.with_extension(""),
        };
        tests.extend(source.tests.iter().map(|name| modules.join(name)));
        sources.push((file, source.comments));
    }
    sources
        .into_iter()
        // A module of tests is one file, or a folder with its own modules.
        .filter(|(file, _)| {
            !tests
                .iter()
                .any(|test| file.with_extension("") == *test || file.starts_with(test))
        })
        .flat_map(|(_, comments)| comments)
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// One file.
#[derive(Debug)]
struct Source {
    /// The words of its comments at code.
    comments: BTreeSet<String>,
    /// Its modules that are compiled for tests only, and are in their own files.
    tests: Vec<String>,
}

impl Source {
    fn new(text: &str) -> Self {
        let Split { mut code, comments } = Split::new(text);
        let tests = take_tests(&mut code);
        let code: Vec<_> = code.lines().map(str::trim).collect();
        let comments: Vec<_> = comments.lines().map(str::trim).collect();
        let mut words = BTreeSet::new();
        for (line, comment) in comments.iter().enumerate() {
            // The comment of a module describes the module, and is not at any code.
            if comment.starts_with("//!") {
                continue;
            }
            // Beside code before it in the line, or behind the comment's last line.
            let is_above = |line: &usize| code[*line].is_empty() && !comments[*line].is_empty();
            let next = (line..code.len()).find(|line| !is_above(line));
            if next.is_some_and(|next| !code[next].is_empty() && code[next] != TEST) {
                let of_word = |sign: char| sign.is_ascii_alphanumeric() || sign == '-';
                words.extend(comment.split(|sign| !of_word(sign)).map(str::to_owned));
            }
        }
        Self {
            comments: words,
            tests,
        }
    }
}

/// A text's code, and its comments. Each has spaces in place of the other, and in place of the content of literals.
struct Split {
    code: String,
    comments: String,
}

impl Split {
    fn new(text: &str) -> Self {
        let mut split = Self {
            code: String::with_capacity(text.len()),
            comments: String::with_capacity(text.len()),
        };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|sign| !is_of_name(sign)).unwrap_or(rest.len());
            let (len, kind) = if rest.starts_with("//") {
                (rest.find('\n').unwrap_or(rest.len()), Kind::Comment)
            } else if rest.starts_with("/*") {
                (block_comment(rest), Kind::Comment)
            } else if let Some(len) = raw_string(rest, word) {
                (len, Kind::Literal)
            } else if word > 0 {
                (word, Kind::Code)
            } else if first == '"' {
                (quoted(rest, '"'), Kind::Literal)
            } else if first == '\'' && is_character(rest) {
                (quoted(rest, '\''), Kind::Literal)
            } else {
                (first.len_utf8(), Kind::Code)
            };
            let (piece, behind) = rest.split_at(len);
            split.put(piece, kind);
            rest = behind;
        }
        split
    }

    fn put(&mut self, piece: &str, kind: Kind) {
        for sign in piece.chars() {
            let blank = if sign == '\n' { '\n' } else { ' ' };
            self.code
                .push(if kind == Kind::Code { sign } else { blank });
            self.comments
                .push(if kind == Kind::Comment { sign } else { blank });
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

fn is_of_name(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let step = match text.get(at..at + 2) {
            Some("/*") => 1,
            Some("*/") => -1,
            _ => 0,
        };
        depth += step;
        at += if step == 0 { 1 } else { 2 };
        if depth == 0 {
            break;
        }
    }
    at
}

/// The octets of a raw string, if one begins with the first `word` octets.
fn raw_string(text: &str, word: usize) -> Option<usize> {
    let (prefix, rest) = text.split_at(word);
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if !matches!(prefix, "r" | "br" | "cr") || !rest[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = word + hashes + 1;
    let len = text[begin..].find(&end);
    Some(len.map_or(text.len(), |len| begin + len + end.len()))
}

/// Returns true if this is a character literal, and not a lifetime.
fn is_character(text: &str) -> bool {
    let mut signs = text.chars().skip(1);
    let first = signs.next();
    first == Some('\\') || signs.next() == Some('\'')
}

fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, sign) in text.char_indices().skip(1) {
        if sign == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = sign == '\\' && !is_escaped;
    }
    text.len()
}

/// The text in place of code that is compiled for tests only.
const TEST: &str = "~";

/// Replaces items that are compiled for tests only, line by line. Returns the names of those that are modules in their own files.
fn take_tests(code: &mut String) -> Vec<String> {
    const ATTRIBUTE: &str = "#[cfg(";
    let (mut modules, mut from) = (Vec::new(), 0);
    while let Some(begin) = code[from..].find(ATTRIBUTE).map(|at| from + at) {
        let Some(behind) = code[begin..].find(")]").map(|at| begin + at + 2) else {
            break;
        };
        from = behind;
        if !is_for_tests(&code[begin + ATTRIBUTE.len()..behind - 2]) {
            continue;
        }
        let item = &code[behind..];
        let len = item_len(item);
        let mut words = item[..len].split(|sign| !is_of_name(sign));
        if item[..len].ends_with(';') && words.any(|word| word == "mod") {
            modules.extend(words.next().map(str::to_owned));
        }
        let lines = code[begin..behind + len].split('\n').count();
        let blank = vec![TEST; lines].join("\n");
        code.replace_range(begin..behind + len, &blank);
        from = begin + blank.len();
    }
    modules
}

/// Returns true if this condition has `test`, and not inside of `not(…)`.
fn is_for_tests(condition: &str) -> bool {
    let mut depth = 0;
    let mut without = String::new();
    let mut rest = condition;
    while let Some(sign) = rest.chars().next() {
        if depth == 0 && rest.starts_with("not(") {
            depth = 1;
            rest = &rest["not(".len()..];
            continue;
        }
        match sign {
            _ if depth == 0 => without.push(sign),
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        rest = &rest[sign.len_utf8()..];
    }
    without
        .split(|sign| !is_of_name(sign))
        .any(|word| word == "test")
}

/// Up to the semicolon or the closing brace.
fn item_len(code: &str) -> usize {
    let mut depth = 0;
    for (at, sign) in code.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' => {}
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = r##"
        //! A-001 in the comment of a module.

        // A-002 beside nothing.

        /// A-003 above an item,
        /// A-004 on its second line (A-005).
        #[doc(hidden)]
        fn f<'a>(x: &'a str) -> char { // B-001
            g("A-006", r#"A-007 " // A-008"#, '"', '\''); /* B-002 /* B-003 */ */
            'x'
            // B-004
        }

        // T-001
        #[cfg(all(test, not(loom)))]
        fn only() {
            // T-002 "
            for brace in ['{', '"'] {}
        }
        fn more() {} // B-005

        #[cfg(not(test))]
        fn without() {} // B-006

        #[cfg(any(test, feature = "testing"))]
        #[doc(hidden)]
        pub(crate) mod testing; // B-007

        #[cfg(test)]
        mod inside {
            /// T-003
            fn test() {}
        }
    "##;

    #[test]
    fn rows_count_in_comments_beside_code_only() {
        let source = Source::new(ROWS);
        let is_row = |word: &&String| word.len() == 5 && word.as_bytes()[1] == b'-';
        let rows: Vec<_> = source.comments.iter().filter(is_row).collect();
        let expected = [
            "A-003", "A-004", "A-005", "B-001", "B-002", "B-003", "B-004",
        ];
        assert_eq!(rows, [&expected[..], &["B-005", "B-006"]].concat());
        assert_eq!(source.tests, ["testing"]);
    }

    #[test]
    fn modules_of_tests_do_not_count_wherever_their_files_are() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("lib.rs", "mod a;\n#[cfg(test)]\nmod tests;");
        write("tests.rs", "fn f() {} // T-001");
        write(
            "a.rs",
            "fn f() {} // A-001\n#[cfg(all(test, loom))]\nmod model;",
        );
        write("a/model/mod.rs", "fn f() {} // T-002");
        write("a/model/part.rs", "fn f() {} // T-003");
        write("a/models.rs", "fn f() {} // A-002");
        let words: Vec<_> = words(folder.path()).into_iter().collect();
        assert_eq!(words, ["", "A-001", "A-002"]);
    }
}
