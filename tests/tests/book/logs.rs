//! The page about the log: its tables have exactly the events and spans of the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Lit, LitStr};

use super::files;

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
const SPANS: [&str; 5] = [
    "error_span",
    "warn_span",
    "info_span",
    "debug_span",
    "trace_span",
];

/// The rows of each target, as the page has them.
type Rows = BTreeMap<String, BTreeSet<String>>;

/// The texts of a crate's constants, by their names.
type Texts = BTreeMap<String, String>;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn text_of(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else {
        return None;
    };
    match Lit::new(literal.clone()) {
        Lit::Str(text) => Some(LitStr::value(&text)),
        _ => None,
    }
}

fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

fn tokens(stream: TokenStream) -> Vec<TokenTree> {
    stream.into_iter().collect()
}

/// Returns true if what stands behind this attribute is compiled for tests only.
fn is_for_tests(attribute: &TokenStream) -> bool {
    let text = attribute.to_string();
    let mut words = text.split(|sign: char| !sign.is_alphanumeric() && sign != '_');
    text.starts_with("cfg")
        && words.clone().any(|word| word == "test")
        && words.all(|word| !matches!(word, "not" | "any"))
}

/// Calls `see` with each list of tokens of the file that is compiled for more than tests, and a place in it.
fn walk(stream: TokenStream, see: &mut dyn FnMut(&[TokenTree], usize)) {
    let list = tokens(stream);
    let mut at = 0;
    while at < list.len() {
        if is_sign(list.get(at), '#')
            && let Some(TokenTree::Group(group)) = list.get(at + 1)
            && is_for_tests(&group.stream())
        {
            at += 2;
            while at < list.len() {
                let ends = is_sign(list.get(at), ';')
                    || matches!(&list[at], TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
                at += 1;
                if ends {
                    break;
                }
            }
            continue;
        }
        if is_ident(list.get(at), "macro_rules") && is_sign(list.get(at + 1), '!') {
            at += 4;
            continue;
        }
        see(&list, at);
        if let TokenTree::Group(group) = &list[at] {
            walk(group.stream(), see);
        }
        at += 1;
    }
}

/// The text of the constant that begins here, with its name.
fn constant(list: &[TokenTree], at: usize) -> Option<(String, String)> {
    let TokenTree::Ident(name) = list.get(at + 1)? else {
        return None;
    };
    let is_text = is_ident(list.get(at), "const")
        && is_sign(list.get(at + 2), ':')
        && is_sign(list.get(at + 3), '&')
        && is_ident(list.get(at + 4), "str")
        && is_sign(list.get(at + 5), '=');
    let text = text_of(list.get(at + 6)?)?;
    is_text.then(|| (name.to_string(), text))
}

/// The arguments of the macro that is called here, and its name.
fn call(list: &[TokenTree], at: usize) -> Option<(String, Vec<Vec<TokenTree>>)> {
    let TokenTree::Ident(name) = list.get(at)? else {
        return None;
    };
    let TokenTree::Group(group) = list
        .get(at + 2)
        .filter(|_| is_sign(list.get(at + 1), '!'))?
    else {
        return None;
    };
    let list = tokens(group.stream());
    let arguments = list.split(|token| is_sign(Some(token), ','));
    let arguments = arguments.filter(|argument| !argument.is_empty());
    Some((name.to_string(), arguments.map(<[_]>::to_vec).collect()))
}

/// One event or span.
#[derive(Debug, Default)]
struct Entry {
    level: String,
    target: String,
    message: String,
    fields: Vec<String>,
    /// It names the span that it is in.
    has_parent: bool,
}

impl Entry {
    /// The event or the span that the macro called here makes, if it makes one.
    fn read(
        list: &[TokenTree],
        at: usize,
        target: impl Fn(&[TokenTree]) -> String,
    ) -> Option<Self> {
        let (name, arguments) = call(list, at)?;
        let mut entry = Self::default();
        let mut arguments = arguments.into_iter();
        let is_span = SPANS.contains(&name.as_str());
        if name == "limited" {
            let level = arguments.next().expect("the level");
            entry.level = level[0].to_string();
            entry.fields.push("left_out".to_owned());
        } else if is_span {
            entry.level = "span".to_owned();
        } else if LEVELS.contains(&name.as_str()) {
            entry.level = name;
        } else {
            assert!(
                name != "event",
                "write the macro of the level in place of event!"
            );
            return None;
        }
        for argument in arguments {
            if is_sign(argument.get(1), ':') && !is_sign(argument.get(2), ':') {
                if is_ident(argument.first(), "target") {
                    entry.target = target(&argument[2..]);
                }
                entry.has_parent |= is_ident(argument.first(), "parent");
                continue;
            }
            if let Some(text) = text_of(&argument[0]) {
                entry.message = text;
                if !is_span {
                    break; // what the text refers to follows
                }
                continue;
            }
            let name = argument
                .iter()
                .skip_while(|token| is_sign(Some(token), '%') || is_sign(Some(token), '?'))
                .take_while(|token| !is_sign(Some(token), '='));
            entry.fields.push(name.map(ToString::to_string).collect());
        }
        Some(entry)
    }

    fn row(&self) -> String {
        let fields = self.fields.iter().map(|name| format!("`{name}`"));
        let fields: Vec<_> = fields.collect();
        let row = format!(
            "| {} | `{}` | {} |",
            self.level,
            self.message,
            fields.join(", ")
        );
        row.replace("|  |", "| |")
    }
}

/// The text that these tokens stand for: a literal, a constant of the crate, or one of the driver's targets.
fn target(path: &[TokenTree], own: &Texts, of_driver: &Texts, file: &Path) -> String {
    if let [literal] = path
        && let Some(text) = text_of(literal)
    {
        return text;
    }
    let is_driver = path.iter().any(|token| is_ident(Some(token), "targets"));
    let texts = if is_driver { of_driver } else { own };
    let name = path.last().expect("a name").to_string();
    let text = texts.get(&name);
    text.unwrap_or_else(|| panic!("{}: the target {name} is no constant", file.display()))
        .clone()
}

/// The files of a crate without those of its tests, as tokens.
fn sources(folder: &Path) -> Vec<(std::path::PathBuf, TokenStream)> {
    let is_of_tests = |path: &Path| {
        let within = path.strip_prefix(folder).unwrap();
        within
            .iter()
            .any(|part| part == "tests" || part == "tests.rs")
    };
    let read = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let tokens = text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, tokens)
    };
    let files = files(folder, "rs").into_iter();
    files.filter(|path| !is_of_tests(path)).map(read).collect()
}

fn texts(sources: &[(std::path::PathBuf, TokenStream)]) -> Texts {
    let mut texts = Texts::new();
    for (_, stream) in sources {
        walk(stream.clone(), &mut |list, at| {
            texts.extend(constant(list, at))
        });
    }
    texts
}

/// Calls `see` with each event and span of the sources.
fn for_each(mut see: impl FnMut(&Path, Entry)) {
    let of_driver = texts(&sources(&root().join("crates/iwarp-io/src")));
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path().join("src");
        let sources = sources(&folder);
        let own = texts(&sources);
        for (file, stream) in sources {
            walk(stream, &mut |list, at| {
                let target = |path: &[TokenTree]| target(path, &own, &of_driver, &file);
                let Some(entry) = Entry::read(list, at, target) else {
                    return;
                };
                assert!(
                    !entry.target.is_empty(),
                    "{}: without a target: {entry:?}",
                    file.display()
                );
                see(&file, entry);
            });
        }
    }
}

/// The events and spans of the sources.
fn of_sources() -> Rows {
    let mut rows = Rows::new();
    for_each(|_, entry| {
        rows.entry(entry.target.clone())
            .or_default()
            .insert(entry.row());
    });
    rows
}

/// The tables of the page, by the target in the heading above.
fn of_page() -> Rows {
    let page = fs::read_to_string(root().join("docs/use/logs.md")).unwrap();
    let mut rows = Rows::new();
    let mut target = None;
    for line in page.lines() {
        if line.starts_with('#') {
            let name = line
                .strip_prefix("### `")
                .and_then(|rest| rest.strip_suffix('`'));
            target = name.map(str::to_owned);
        } else if let Some(target) = &target
            && line.starts_with("| ")
            && !line.starts_with("| level ")
        {
            let is_new = rows
                .entry(target.clone())
                .or_default()
                .insert(line.to_owned());
            assert!(is_new, "twice on the page: {line}");
        }
    }
    rows
}

#[test]
fn the_page_about_the_log_has_every_event_with_its_fields() {
    let (page, sources) = (of_page(), of_sources());
    let events: usize = sources.values().map(BTreeSet::len).sum();
    assert!(events > 80 && sources.len() > 10, "{events} events");
    let targets: BTreeSet<_> = page.keys().chain(sources.keys()).collect();
    let none = BTreeSet::new();
    let mut wrong = String::new();
    for target in targets {
        let listed = page.get(target).unwrap_or(&none);
        let written = sources.get(target).unwrap_or(&none);
        for row in written.difference(listed) {
            wrong += &format!("missing below `{target}`: {row}\n");
        }
        for row in listed.difference(written) {
            wrong += &format!("not in the sources, below `{target}`: {row}\n");
        }
    }
    assert!(wrong.is_empty(), "docs/use/logs.md:\n{wrong}");
}

/// The targets whose events are about connections.
const OF_CONNECTIONS: [&str; 4] = [
    "softnd::connect",
    "softnd::connection",
    "softnd::leniency",
    "softnd::unknown_peers",
];

/// The events of these targets that are about no connection, by the beginning of their messages, and what they are about.
const ABOUT_NO_CONNECTION: [(&str, &str); 6] = [
    ("a listener takes no offers of shared memory", "a listener"),
    ("an address was not resolved", "an address"),
    ("cannot accept connections: peers wait until", "a listener"),
    ("cannot accept connections: peers wait, it", "a listener"),
    ("cannot accept connections: peers wait; look", "a listener"),
    ("cannot watch a listener", "a listener"),
];

#[test]
fn every_event_about_a_connection_is_in_its_span() {
    let mut wrong = String::new();
    let mut unused: BTreeSet<_> = ABOUT_NO_CONNECTION.iter().map(|row| row.0).collect();
    for_each(|file, entry| {
        if entry.level == "span" || !OF_CONNECTIONS.contains(&entry.target.as_str()) {
            return;
        }
        let about_none = ABOUT_NO_CONNECTION
            .iter()
            .find(|row| entry.message.starts_with(row.0));
        match about_none {
            Some((message, _)) => drop(unused.remove(message)),
            None if entry.has_parent => {}
            None => wrong += &format!("{}: no parent: {entry:?}\n", file.display()),
        }
    });
    assert!(wrong.is_empty(), "name the span by `parent:`\n{wrong}");
    assert!(unused.is_empty(), "no events: {unused:?}");
}

/// Returns true if a row is about this line of the log.
fn is_about(row: &str, line: &serde_json::Value) -> bool {
    let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
    let level = line["level"].as_str().unwrap().to_lowercase();
    let message = line["message"].as_str().unwrap();
    let constant = cells[1].trim_matches('`').split('{').next().unwrap();
    let fields = line.as_object().unwrap().keys();
    let mut own = fields
        .filter(|key| !["timestamp", "level", "message", "target", "span"].contains(&key.as_str()));
    cells[0] == level
        && message.starts_with(constant)
        && own.all(|key| row.contains(&format!("`{key}`")))
}

#[test]
fn the_lines_that_the_page_shows_are_events_of_its_tables() {
    let rows = of_page();
    let page = fs::read_to_string(root().join("docs/use/logs.md")).unwrap();
    let shown = page.lines().filter(|line| line.starts_with('{'));
    let shown: Vec<serde_json::Value> = shown
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(shown.len() > 1);
    let span = rows["softnd::connection"]
        .iter()
        .find(|row| row.starts_with("| span |"))
        .unwrap();
    for line in &shown {
        let of_target = &rows[line["target"].as_str().unwrap()];
        assert!(of_target.iter().any(|row| is_about(row, line)), "{line}");
        for field in line["span"].as_object().unwrap().keys() {
            let is_known = field == "name" || span.contains(&format!("`{field}`"));
            assert!(is_known, "{line}: {field}");
        }
    }
}

#[test]
fn events_are_read_as_the_compiler_reads_them() {
    let source = r#"
        const LOG: &str = "a::b";
        fn one() {
            tracing::info!(target: LOG, parent: &span, %peer, ?fault, count = 1, done.at, "it {ended}: {}", why(1));
            Err(error) => limited!(warn, target: targets::X, parent: self.span(), %error,
                "a \
                 line"),
            error_span!(target: "c", "connection", queue_pair = Empty, %peer)
        }
        #[cfg(test)]
        mod tests { fn two() { tracing::info!("no target"); } }
        #[cfg(not(test))]
        fn three() { tracing::trace!(target: "d", "three"); }
        macro_rules! other { () => { tracing::info!("no target") } }
    "#;
    let stream: TokenStream = source.parse().unwrap();
    let own = texts(&[(root().to_owned(), stream.clone())]);
    let of_driver = Texts::from([("X".to_owned(), "x".to_owned())]);
    let mut found = Vec::new();
    walk(stream, &mut |list, at| {
        let target = |path: &[TokenTree]| target(path, &own, &of_driver, root());
        found
            .extend(Entry::read(list, at, target).map(|entry| (entry.target.clone(), entry.row())));
    });
    let expected = [
        (
            "a::b",
            "| info | `it {ended}: {}` | `peer`, `fault`, `count`, `done.at` |",
        ),
        ("x", "| warn | `a line` | `left_out`, `error` |"),
        ("c", "| span | `connection` | `queue_pair`, `peer` |"),
        ("d", "| trace | `three` | |"),
    ];
    let expected = expected.map(|(target, row)| (target.to_owned(), row.to_owned()));
    assert_eq!(found, expected);
}
