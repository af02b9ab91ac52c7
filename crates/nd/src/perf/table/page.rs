//! The results in a page of the book: one table for each question.

use std::path::Path;

use nd::page;

use super::line::Line;
use super::rows::Question;
use crate::errors::{Failure, Result};
use crate::perf::plan::Plan;
use crate::units;

/// The part of the page that says how and where the tables were measured.
const REMARK: &str = "table";

/// The page with the tables of these questions and the remark in their places. A variant has places of its own, and no remark.
pub(super) fn filled(
    path: &Path,
    variant: Option<&str>,
    questions: &[Question],
    lines: &[Line],
    remark: &str,
) -> Result<String> {
    let mut page = std::fs::read_to_string(path)
        .map_err(|error| Failure::io(format_args!("read {}", path.display()), &error))?;
    let parts = questions.iter().map(|question| {
        let name = question.part();
        let name = variant.map_or_else(|| name.to_owned(), |variant| format!("{name} {variant}"));
        (name, table(*question, lines))
    });
    let remark = variant
        .is_none()
        .then(|| (REMARK.to_owned(), remark.to_owned()));
    for (name, text) in remark.into_iter().chain(parts) {
        page = page::replace(&page, &name, &text).map_err(|error| {
            Failure::new(
                format!("cannot write into {}: {error}", path.display()),
                "choose a page that has these two lines, such as docs/performance.md",
            )
        })?;
    }
    Ok(page)
}

/// How and where the tables were measured.
pub(super) fn remark(plan: &Plan, runs: u32, machine: &str) -> String {
    let build = if cfg!(debug_assertions) {
        ", a build without optimisation"
    } else {
        ""
    };
    let runs = if runs == 1 {
        String::new()
    } else {
        format!(
            " The table shows the worst of {runs} runs, and a row holds if it held in all of them."
        )
    };
    format!(
        "Filled by `nd perf table` of nd {}{build} on {}, with {} turns of {} for each side of a comparison, on {machine}, loopback.{runs}\n",
        env!("CARGO_PKG_VERSION"),
        nd::machine::date(),
        plan.turns,
        units::time(plan.length),
    )
}

fn table(question: Question, lines: &[Line]) -> String {
    let mut text = "| what | size | required | measured | half of the turns | holds |\n|---|--:|---|---|---|---|\n".to_owned();
    for line in lines.iter().filter(|line| line.question == question) {
        let cells = [
            line.title(),
            line.sizes(),
            line.promise.wanted(&line.spec),
            line.measured(),
            line.verdict.spread.clone(),
            line.runs.told("yes", "missed"),
        ];
        text += &format!("| {} |\n", cells.map(|text| page::cell(&text)).join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::judge::{Promise, Verdict};
    use super::super::line::Runs;
    use super::*;
    use crate::perf::outcome::Outcome;
    use crate::perf::report::tests::{bandwidth, latency, scale, shared};

    fn line(outcome: &Outcome, promise: Promise) -> Line {
        Line {
            question: Question::Message,
            spec: outcome.spec,
            sizes: None,
            promise,
            runs: Runs::one(&promise.judge(outcome)),
            verdict: promise.judge(outcome),
        }
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
        let text = table(Question::Message, &lines);
        let title = "10 000 idle connections, Send latency on one, poll, CRC off";
        for wanted in [
            "| RDMA Write bandwidth, poll, CRC off, depth 32 | 64 KiB | at least 0.95 of raw TCP | 1.00 | 1.00–1.00 | yes |",
            "| p50 at most 0.99 of raw TCP, p99 1.50 | p50 1.00, p99 1.00 | 1.00–1.00, 1.00–1.00 | missed |",
            &format!(
                "| {title}: memory beyond posted buffers and kernel sockets |  | at most 16 KiB each | 6.0 KiB |  | yes |"
            ),
            "at least 0.95 times as fast as with own Receives | 1.00 | 1.00–1.00 | yes |",
            &format!(
                "| {title}: ping-pong on one |  | p50 at most 1.20 of one alone | cannot a \\| b |  | missed |"
            ),
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert_eq!(text.lines().count(), 2 + lines.len() - 1);
    }

    #[test]
    fn the_page_of_the_book_has_its_marks() {
        let page = include_str!("../../../../../docs/performance.md");
        let names = Question::ALL.map(Question::part).into_iter();
        for name in names.chain([REMARK, "table of CRC without AVX-512"]) {
            assert!(page::replace(page, name, "new").is_ok(), "{name}");
        }
    }
}
