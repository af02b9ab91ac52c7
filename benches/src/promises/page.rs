//! The results in a page of the book: one table for each question.

use std::fs;
use std::path::Path;

use conform_report::page;
use nd_perf::cores::Watch;

use super::line::Line;
use super::rows::Question;
use crate::compare::Failure;

/// The part of the page that says how and where the tables were measured.
const REMARK: &str = "table";

/// The columns that are the same on every machine.
const HEADS: [&str; 3] = ["what", "size", "required"];

/// The page with the tables of these questions and the remark in their places. Each processor has its own columns, and those of other
/// processors stay as they are. A variant has its own places, and no remark.
///
/// # Errors
///
/// If the page cannot be read, or does not have the marks of a part.
pub fn filled(
    path: &Path,
    variant: Option<&str>,
    questions: &[Question],
    lines: &[Line],
    remark: &str,
) -> Result<String, Failure> {
    let mut page = fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    let processor = nd_perf::machine::short_name();
    if variant.is_none() {
        page = changed(page, path, REMARK, |old| remarks(old, &processor, remark))?;
    }
    let names = questions.iter().map(|question| {
        let name = question.part();
        variant.map_or_else(|| name.to_owned(), |variant| format!("{name} {variant}"))
    });
    for (question, name) in questions.iter().zip(names) {
        let lines: Vec<_> = lines
            .iter()
            .filter(|line| line.question == *question)
            .collect();
        page = changed(page, path, &name, |old| table(old, &processor, &lines))?;
    }
    Ok(page)
}

/// Checks that the page can be written.
///
/// # Errors
///
/// If it cannot.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    let opened = fs::OpenOptions::new().append(true).open(path);
    opened
        .map(drop)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// Writes the page.
///
/// # Errors
///
/// If it cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// The page with this part made anew out of the old one.
fn changed(
    page: String,
    path: &Path,
    name: &str,
    new: impl Fn(&str) -> String,
) -> Result<String, Failure> {
    let part = page::part(&page, name).map(new);
    part.and_then(|part| page::replace(&page, name, &part))
        .map_err(|error| {
            Failure::new(format!(
                "cannot write into {}: {error}; choose a page that has these two lines, such as docs/reports/performance.md",
                path.display()
            ))
        })
}

/// The remark about the method and the machine of the tables. `turns` names the number of turns of each kind of comparison.
#[must_use]
pub fn remark(turns: &str, runs: u32, machine: &str, cores: &Watch) -> String {
    let runs = match runs {
        1 => "one run".to_owned(),
        runs => format!("the worst of {runs} runs"),
    };
    let text = format!(
        "{machine}. Measured by nd {} (profile {}) on {}, with {turns}, {runs}. {cores}",
        env!("CARGO_PKG_VERSION"),
        nd_perf::machine::PROFILE,
        nd_perf::machine::date(),
    );
    text.trim_end().to_owned()
}

/// The list of remarks, with that on this processor in its place, or behind the others.
fn remarks(old: &str, processor: &str, remark: &str) -> String {
    let head = format!("- **{processor}**:");
    let new = format!("{head} {remark}");
    let mut items: Vec<String> = Vec::new();
    for line in old.lines() {
        match items.last_mut() {
            _ if line.starts_with("- **") => items.push(line.to_owned()),
            Some(item) if line.starts_with("  ") => {
                item.push(' ');
                item.push_str(line.trim());
            }
            _ => {}
        }
    }
    match items.iter_mut().find(|item| item.starts_with(&head)) {
        Some(item) => *item = new,
        None => items.push(new),
    }
    items.join("\n")
}

/// The table with this processor's columns: what was measured, and whether it holds. The columns of other processors keep their
/// figures in rows that require the same as before.
fn table(old: &str, processor: &str, lines: &[&Line]) -> String {
    let old: Vec<Vec<&str>> = old.lines().filter_map(page::cells).collect();
    let heads = old.first().and_then(|heads| heads.strip_prefix(&HEADS));
    let mut processors: Vec<_> = heads
        .unwrap_or_default()
        .iter()
        .step_by(2)
        .copied()
        .collect();
    if !processors.contains(&processor) {
        processors.push(processor);
    }
    let mut text = String::new();
    let mut add = |cells: &[&str]| text += &format!("| {} |\n", cells.join(" | "));
    let pairs = processors
        .iter()
        .flat_map(|processor| [*processor, "holds"]);
    add(&HEADS.into_iter().chain(pairs).collect::<Vec<_>>());
    let pairs = processors.iter().flat_map(|_| ["---", "---"]);
    add(&["---", "--:", "---"]
        .into_iter()
        .chain(pairs)
        .collect::<Vec<_>>());
    for line in lines {
        let keys = [&line.title, &line.sizes, &line.wanted].map(|key| page::cell(key));
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        let before = old.iter().find_map(|row| row.strip_prefix(&*keys));
        let (measured, verdict) = (
            page::cell(&measured(line)),
            line.runs.verdict("yes", "missed"),
        );
        let mut cells = keys.clone();
        for (at, other) in processors.iter().enumerate() {
            if *other == processor {
                cells.extend([&*measured, &*verdict]);
            } else {
                let known = before.and_then(|row| row.get(2 * at..2 * at + 2));
                cells.extend(known.unwrap_or(&["", ""]));
            }
        }
        add(&cells);
    }
    text
}

/// The figure, and in brackets what half of the turns lie between.
fn measured(line: &Line) -> String {
    match &*line.verdict.spread {
        "" => line.measured(),
        spread => format!("{} ({spread})", line.measured()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::judge::{Promise, Verdict};
    use super::super::line::Runs;
    use super::super::measured::Measured;
    use super::super::measured::tests::{bandwidth, latency, scale};
    use super::super::rows::{PromisedRow, rows};
    use super::*;

    const SCALE: &str = "10 000 idle connections, Send latency on one, poll, CRC off";

    fn line(title: &str, measured: &Measured, promise: Promise) -> Line {
        let row = PromisedRow {
            question: Question::Message,
            title: title.to_owned(),
            arguments: String::new(),
            sizes: if title == SCALE { vec![] } else { vec![65_536] },
            promises: vec![promise],
        };
        Line::new(&row, promise, None, promise.judge(measured))
    }

    fn of_scale(promise: Promise) -> Line {
        line(SCALE, &scale("[6144, 4096]", "[0.002, 0.001]"), promise)
    }

    #[test]
    fn the_page_has_a_line_for_every_promise() {
        let lines = [
            line("a flow", &bandwidth(), Promise::Share(0.95)),
            line("a ping", &latency(), Promise::Times(0.99, Some(1.5))),
            of_scale(Promise::Memory(16_384.0)),
            line("a flow", &bandwidth(), Promise::OwnReceives(0.95)),
            Line {
                verdict: Verdict::failed("cannot a | b".to_owned()),
                runs: Runs { held: 0, all: 2 },
                ..of_scale(Promise::OneOfMany(1.2))
            },
            Line {
                question: Question::Udp,
                ..of_scale(Promise::Idle(0.01))
            },
        ];
        let of_messages: Vec<_> = lines
            .iter()
            .filter(|line| line.question == Question::Message)
            .collect();
        let text = table("", "One", &of_messages);
        let title = SCALE;
        for wanted in [
            "| what | size | required | One | holds |\n| --- | --: | --- | --- | --- |\n",
            "| a flow | 64 KiB | at least 0.95 of raw TCP | 1.00 (1.00–1.00) | yes |",
            "| p50 at most 0.99 of raw TCP, p99 1.50 | p50 1.00, p99 1.00 (1.00–1.00, 1.00–1.00) | missed |",
            &format!(
                "| {title}: memory beyond posted buffers and kernel sockets |  | at most 16 KiB each | 6.0 KiB | yes |"
            ),
            "at least 0.95 times as fast as with own Receives | 1.00 (1.00–1.00) | yes |",
            &format!(
                "| {title}: ping-pong on one |  | p50 at most 1.20 of one alone | cannot a \\| b | missed |"
            ),
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert_eq!(text.lines().count(), 2 + lines.len() - 1);
    }

    #[test]
    fn each_processor_has_columns_of_its_own() {
        let first = [
            line("a flow", &bandwidth(), Promise::Share(0.95)),
            line("a ping", &latency(), Promise::Times(0.99, None)),
        ];
        let first: Vec<_> = first.iter().collect();
        let alone = table("no table", "One", &first);
        assert_eq!(table(&alone, "One", &first), alone);
        // The second row requires something else by now.
        let second = [
            line("a flow", &bandwidth(), Promise::Share(0.95)),
            line("a ping", &latency(), Promise::Times(1.01, None)),
        ];
        let second: Vec<_> = second.iter().collect();
        let both = table(&alone, "Other", &second);
        for wanted in [
            "| what | size | required | One | holds | Other | holds |",
            "| at least 0.95 of raw TCP | 1.00 (1.00–1.00) | yes | 1.00 (1.00–1.00) | yes |",
            "| p50 at most 1.01 of raw TCP |  |  | p50 1.00 (1.00–1.00) | yes |",
        ] {
            assert!(both.contains(wanted), "{wanted}\n{both}");
        }
        assert_eq!(table(&both, "Other", &second), both);
        let again = table(&both, "One", &second);
        assert!(again.contains("| p50 1.00 (1.00–1.00) | yes | p50 1.00 (1.00–1.00) | yes |"));
    }

    #[test]
    fn each_processor_has_a_remark_of_its_own() {
        let one = remarks("Some text.", "One", "first");
        let both = remarks(&one, "Other", "second");
        assert_eq!(both, "- **One**: first\n- **Other**: second");
        assert_eq!(
            remarks(&both, "One", "third"),
            "- **One**: third\n- **Other**: second"
        );
        let wrapped = "- **One**: first\n  line\n- **Other**: second,\n  in two lines";
        assert_eq!(
            remarks(wrapped, "One", "third"),
            "- **One**: third\n- **Other**: second, in two lines"
        );
    }

    #[test]
    fn a_page_that_cannot_be_filled_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.md");
        let failure = || {
            let failure = filled(&path, None, &[Question::Udp], &[], "").unwrap_err();
            failure.to_string()
        };
        assert!(failure().starts_with("cannot read ") && failure().contains("page.md"));
        for text in ["", "<!-- table: end -->\n<!-- table: begin -->\n"] {
            fs::write(&path, text).unwrap();
            let failure = failure();
            assert!(
                failure.contains("<!-- table: begin --> followed by one <!-- table: end -->"),
                "{failure}"
            );
        }
        assert!(check_writable(&path).is_ok() && check_writable(folder.path()).is_err());
    }

    #[test]
    fn the_page_of_the_book_has_its_marks() {
        let page = include_str!("../../../docs/reports/performance.md");
        let names = Question::ALL.map(Question::part).into_iter();
        for name in names.chain([
            REMARK,
            "table of CRC without AVX-512",
            "table of memory left to the kernel",
        ]) {
            let part = page::part(page, name).expect(name);
            let heads = part.lines().find_map(page::cells);
            assert!(
                name == REMARK || heads.is_some_and(|heads| heads.starts_with(&HEADS)),
                "{name}"
            );
        }
    }

    #[test]
    fn the_page_of_the_book_has_no_other_rows_than_those_that_are_measured() {
        let page = include_str!("../../../docs/reports/performance.md");
        for question in Question::ALL {
            if question == Question::Verbs {
                continue;
            }
            let part = page::part(page, question.part()).expect("a table");
            let shown: BTreeSet<_> = part
                .lines()
                .filter_map(page::cells)
                .skip(2)
                .map(|cells| [0, 2].map(|at| cells[at].to_owned()))
                .collect();
            let of_row = |row: &PromisedRow| {
                let line = |promise: &Promise| {
                    let failed = Verdict::failed(String::new());
                    let line = Line::new(row, *promise, None, failed);
                    [line.title, line.wanted]
                };
                row.promises.iter().map(line).collect::<Vec<_>>()
            };
            let rows = rows();
            let rows = rows.iter().filter(|row| row.question == question);
            // A row that is new comes into the page when it is measured.
            let measured: BTreeSet<_> = rows.flat_map(of_row).collect();
            let others: Vec<_> = shown.difference(&measured).collect();
            assert!(!shown.is_empty() && others.is_empty(), "{others:?}");
        }
    }
}
