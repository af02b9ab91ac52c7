//! The results in a page of the book: one table for each question.

use std::path::Path;

use conform_report::page;
use nd::cores::Watch;

use super::line::Line;
use super::rows::Question;
use crate::errors::{Failure, Result};

/// The part of the page that says how and where the tables were measured.
const REMARK: &str = "table";

/// The columns that are the same on every machine.
const HEADS: [&str; 3] = ["what", "size", "required"];

/// The page with the tables of these questions and the remark in their places. Each processor has its own columns, and those of other
/// processors stay as they are. A variant has its own places, and no remark.
pub(super) fn filled(
    path: &Path,
    variant: Option<&str>,
    questions: &[Question],
    lines: &[Line],
    remark: &str,
) -> Result<String> {
    let mut page = std::fs::read_to_string(path)
        .map_err(|error| Failure::io(format_args!("read {}", path.display()), &error))?;
    let processor = nd::machine::short_name();
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

/// The page with this part made anew out of the old one.
fn changed(page: String, path: &Path, name: &str, new: impl Fn(&str) -> String) -> Result<String> {
    let part = page::part(&page, name).map(new);
    part.and_then(|part| page::replace(&page, name, &part))
        .map_err(|error| {
            Failure::new(
                format!("cannot write into {}: {error}", path.display()),
                "choose a page that has these two lines, such as docs/reports/performance.md",
            )
        })
}

/// The remark about the method and the machine of the tables. `turns` names the number of turns of each kind of comparison.
pub(super) fn remark(turns: &str, runs: u32, machine: &str, cores: &Watch) -> String {
    let runs = match runs {
        1 => "one run".to_owned(),
        runs => format!("the worst of {runs} runs"),
    };
    let text = format!(
        "{machine}. Measured by nd {} (profile {}) on {}, with {turns}, {runs}. {cores}",
        env!("CARGO_PKG_VERSION"),
        nd::machine::PROFILE,
        nd::machine::date(),
    );
    text.trim_end().to_owned()
}

/// The list of remarks, with that on this processor in its place, or behind the others.
fn remarks(old: &str, processor: &str, remark: &str) -> String {
    let head = format!("- **{processor}**:");
    let new = format!("{head} {remark}");
    let mut lines: Vec<_> = old
        .lines()
        .filter(|line| line.starts_with("- **"))
        .collect();
    match lines.iter_mut().find(|line| line.starts_with(&head)) {
        Some(line) => *line = &new,
        None => lines.push(&new),
    }
    lines.join("\n")
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
        let (measured, told) = (page::cell(&measured(line)), line.runs.told("yes", "missed"));
        let mut cells = keys.clone();
        for (at, other) in processors.iter().enumerate() {
            if *other == processor {
                cells.extend([&*measured, &*told]);
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
    use super::super::judge::{Promise, Verdict};
    use super::super::line::Runs;
    use super::*;
    use crate::perf::outcome::Outcome;
    use crate::perf::report::tests::{bandwidth, latency, scale, shared};

    fn line(outcome: &Outcome, promise: Promise) -> Line {
        let verdict = promise.judge(outcome);
        Line::new(Question::Message, &outcome.spec, None, promise, verdict)
    }

    #[test]
    fn the_page_has_a_line_for_every_promise() {
        let lines = [
            line(&bandwidth(), Promise::Share(0.95)),
            line(&latency(), Promise::Times(0.99, Some(1.5))),
            line(&scale(), Promise::Memory(16_384.0)),
            line(&shared(), Promise::Plain(0.95)),
            Line {
                verdict: Verdict::failed("cannot a | b".to_owned()),
                runs: Runs { held: 0, all: 2 },
                ..line(&scale(), Promise::OneOfMany(1.2))
            },
            Line {
                question: Question::Udp,
                ..line(&scale(), Promise::Idle(0.01))
            },
        ];
        let of_messages: Vec<_> = lines
            .iter()
            .filter(|line| line.question == Question::Message)
            .collect();
        let text = table("", "One", &of_messages);
        let title = "10 000 idle connections, Send latency on one, poll, CRC off";
        for wanted in [
            "| what | size | required | One | holds |\n| --- | --: | --- | --- | --- |\n",
            "| RDMA Write bandwidth, poll, CRC off, depth 32 | 64 KiB | at least 0.95 of raw TCP | 1.00 (1.00–1.00) | yes |",
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
            line(&bandwidth(), Promise::Share(0.95)),
            line(&latency(), Promise::Times(0.99, None)),
        ];
        let first: Vec<_> = first.iter().collect();
        let alone = table("no table", "One", &first);
        assert_eq!(table(&alone, "One", &first), alone);
        // The second row requires something else by now.
        let second = [
            line(&bandwidth(), Promise::Share(0.95)),
            line(&latency(), Promise::Times(1.01, None)),
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
    }

    #[test]
    fn the_page_of_the_book_has_its_marks() {
        let page = include_str!("../../../../../docs/reports/performance.md");
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
}
