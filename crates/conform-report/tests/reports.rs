//! One run in every form: what is checked here is what a reader of each form has to find.

use std::time::Duration;

use conform_report::report::{self, Paint};
use conform_report::{About, Entry, Failure, Level, Outcome, Run, Suite, rows};
use serde_json::{Map, Value};

#[derive(Debug)]
struct Facts(Vec<String>);

impl Suite for Facts {
    const TITLE: &'static str = "Conformance of";
    const TRACE: &'static str = "steps";
    const REMARK: &'static str = "detail";
    const REMARK_ALWAYS: bool = true;
    const MENDED: &'static str = "pass";

    fn head(&self, target: &str, object: &mut Map<String, Value>) {
        object.insert("provider".into(), target.into());
    }

    fn preface(&self) -> String {
        "A preface.".to_owned()
    }

    fn notes(&self) -> &[String] {
        &self.0
    }

    fn rule(&self, row: &str) -> Option<String> {
        Some(format!("the rule of {row}"))
    }
}

fn entry(
    name: &'static str,
    also: &'static [&'static str],
    section: &'static str,
    outcome: Outcome,
) -> Entry {
    Entry {
        check: About {
            name,
            also,
            section,
            level: Level::Must,
            title: "a | b < c",
        },
        outcome,
        took: Duration::from_millis(1500),
    }
}

fn run() -> Run<Facts> {
    let failure = Failure {
        expected: "one".into(),
        seen: "two".into(),
        trace: vec!["a step".into()],
    };
    Run {
        target: "x".into(),
        facts: Facts(vec!["a note".into()]),
        strict: false,
        entries: vec![
            entry("RG-001.a", &["OTH-001"], "Regions", Outcome::Pass),
            entry(
                "RG-002.a",
                &["RG-001"],
                "Regions",
                Outcome::Fail(failure.clone()),
            ),
            entry(
                "QU-001.a",
                &[],
                "Queues",
                Outcome::Skip("no capability MEMORY_WINDOWS".into()),
            ),
            entry(
                "QU-002.a",
                &[],
                "Queues",
                Outcome::Known(failure, "why (how)".into()),
            ),
            entry(
                "QU-003.a",
                &[],
                "Queues",
                Outcome::Mended("why (how)".into()),
            ),
            entry(
                "OUT-001.a",
                &["RG-001"],
                "Queues",
                Outcome::LeftOut("the run is not of the profile".into()),
            ),
        ],
        lost: None,
        interrupted: None,
    }
}

#[test]
fn json_has_rows_outcome_detail_and_seconds_of_each_check() {
    let report: Value = serde_json::from_str(&report::json(&run())).unwrap();
    assert_eq!(report["provider"], "x");
    assert_eq!(report["succeeded"], false);
    let checks = report["checks"].as_array().unwrap();
    let words: Vec<_> = checks
        .iter()
        .map(|check| check["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["pass", "fail", "skip", "known", "pass"]);
    assert_eq!(checks[0]["rows"], serde_json::json!(["RG-001", "OTH-001"]));
    assert_eq!(
        (&checks[0]["detail"], &checks[0]["seconds"]),
        (&"".into(), &1.5.into())
    );
    assert_eq!(checks[1]["detail"], "expected one; saw two");
    assert_eq!(checks[1]["steps"][0], "a step");
    assert_eq!(checks[2]["detail"], "no capability MEMORY_WINDOWS");
}

#[test]
fn a_check_that_is_not_part_of_the_run_stands_apart_and_counts_nowhere() {
    let run = run();
    let report: Value = serde_json::from_str(&report::json(&run)).unwrap();
    let names = report["checks"].as_array().unwrap().iter();
    assert!(names.clone().all(|check| check["name"] != "OUT-001.a"));
    let left_out = serde_json::json!([{
        "name": "OUT-001.a",
        "rows": ["OUT-001", "RG-001"],
        "title": "a | b < c",
        "why": "the run is not of the profile",
    }]);
    assert_eq!(report["left_out"], left_out);
    let heading = "Not part of this run";
    for (text, name) in [
        (report::text(&run, Paint::off()), "  OUT-001.a "),
        (report::html(&run), "<code>OUT-001.a</code>"),
        (report::markdown(&run), "| `OUT-001.a` | a \\| b < c |"),
        (report::junit(&run), "name=\"OUT-001.a: "),
    ] {
        let (before, apart) = text.split_once(heading).expect(heading);
        assert!(!before.contains("OUT-001"), "{text}");
        assert_eq!(text.matches("OUT-001.a").count(), 1, "{text}");
        assert!(apart.contains(name), "{text}");
        assert!(apart.contains("the run is not of the profile"), "{text}");
    }
    let page = report::html(&run);
    assert!(
        page.contains("<b>5</b>checks") && page.contains("<b>1</b>skipped"),
        "{page}"
    );
    let summary = report::summary(&run, Paint::off());
    assert!(summary.contains("\n5 checks: "), "{summary}");
}

#[test]
fn html_is_one_page_with_a_square_and_folded_details_for_each_row() {
    let page = report::html(&run());
    assert!(page.contains("name=\"viewport\""), "{page}");
    for elsewhere in ["<script", "<link", "src=", "http"] {
        assert!(!page.contains(elsewhere), "{elsewhere}: {page}");
    }
    // A row is as bad as the worst of its checks.
    assert!(
        page.contains("<a class=\"fail\" href=\"#RG-001\""),
        "{page}"
    );
    assert!(page.contains("<details id=\"RG-001\" open>"), "{page}");
    assert!(page.contains("<details id=\"QU-001\"><summary>"), "{page}");
    assert!(page.contains("the rule of OTH-001"), "{page}");
    assert!(page.contains("a | b &lt; c"), "{page}");
    assert!(
        page.contains("<b>2</b>passed") && page.contains("<b>1</b>failed"),
        "{page}"
    );
}

#[test]
fn markdown_has_a_table_for_each_section() {
    let page = report::markdown(&run());
    assert!(
        page.starts_with(
            "# Conformance of x\n\nA preface. 2 passed, **1 failed**, 1 known, 1 skipped.\n"
        ),
        "{page}"
    );
    assert!(page.contains("\n## Queues\n"), "{page}");
    let line = "| **fail** | `RG-002.a` | RG-001 | a \\| b < c | expected one; saw two |";
    assert!(page.contains(line), "{page}");
}

#[test]
fn junit_counts_by_section() {
    let xml = report::junit(&run());
    assert!(
        xml.contains("name=\"conformance of x\" tests=\"6\" failures=\"1\""),
        "{xml}"
    );
    assert!(
        xml.contains(
            "name=\"Queues\" tests=\"3\" disabled=\"1\" errors=\"0\" failures=\"0\" skipped=\"1\""
        ),
        "{xml}"
    );
    assert!(xml.contains(">a step</failure>"), "{xml}");
}

#[test]
fn text_ends_with_a_matrix_and_a_summary() {
    let matrix = report::matrix(&run(), Paint::off());
    let lines: Vec<Vec<&str>> = matrix
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[1], ["checks", "passed", "failed", "known", "skipped"]);
    assert_eq!(lines[2], ["Regions", "2", "1", "1"]);
    assert_eq!(lines[3], ["Queues", "3", "1", "1", "1"]);
    let summary = report::summary(&run(), Paint::off());
    assert!(summary.ends_with("x: 1 checks failed\n"), "{summary}");
}

#[test]
fn a_row_without_checks_has_its_reason() {
    let line = |checks: &[&'static str], why: &str| rows::Line {
        id: "RG-001".into(),
        cells: vec!["API".into(), "a|b".into()],
        checks: checks.to_vec(),
        why: why.into(),
    };
    let table = rows::table(
        &["kind", "rule"],
        [line(&["RG-001.a"], ""), line(&[], "it binds the caller")],
    );
    assert_eq!(
        table,
        "| row | kind | rule | checks, or why there is none |\n|---|---|---|---|\n\
         | RG-001 | API | a\\|b | `RG-001.a` |\n| RG-001 | API | a\\|b | it binds the caller |\n"
    );
}

#[test]
fn an_interrupted_run_says_so_in_every_form() {
    let run = Run {
        interrupted: Some(7),
        entries: vec![entry("RG-001.a", &[], "Regions", Outcome::Pass)],
        ..run()
    };
    assert!(!run.succeeded());
    let words = "the run was interrupted; 7 checks were not made";
    for report in [
        report::summary(&run, report::Paint::off()),
        report::junit(&run),
        report::html(&run),
        report::markdown(&run),
    ] {
        assert!(report.contains(words), "{report}");
    }
    let report: Value = serde_json::from_str(&report::json(&run)).unwrap();
    assert_eq!(
        (&report["interrupted"], &report["succeeded"]),
        (&7.into(), &false.into())
    );
}

/// Reports show text of the peer to people, so none of it may move, hide or reorder the text around it; and XML has characters that it
/// cannot hold.
#[test]
fn the_words_of_a_peer_cannot_confuse_a_reader() {
    let confusing =
        "\u{1b}\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}\u{fffe}\u{ffff}\u{7f}\u{85}";
    let failure = Failure {
        expected: format!("one{confusing}"),
        seen: format!("two{confusing}"),
        trace: vec![format!("a step{confusing}")],
    };
    let run = Run {
        target: format!("x{confusing}"),
        facts: Facts(vec![format!("a note{confusing}")]),
        strict: false,
        entries: vec![
            entry("RG-001.a", &[], "Regions", Outcome::Fail(failure.clone())),
            entry(
                "RG-002.a",
                &[],
                "Regions",
                Outcome::Known(failure, confusing.into()),
            ),
            entry("RG-003.a", &[], "Regions", Outcome::Skip(confusing.into())),
            entry(
                "RG-004.a",
                &[],
                "Regions",
                Outcome::LeftOut(confusing.into()),
            ),
        ],
        lost: None,
        interrupted: None,
    };
    let lines: String = run
        .entries
        .iter()
        .map(|entry| report::line(entry, Paint::off()))
        .collect();
    for (form, text) in [
        ("lines", lines),
        ("summary", report::summary(&run, Paint::off())),
        ("JUnit", report::junit(&run)),
        ("HTML", report::html(&run)),
        ("Markdown", report::markdown(&run)),
    ] {
        let found: Vec<char> = confusing.chars().filter(|c| text.contains(*c)).collect();
        assert!(found.is_empty(), "{form} has {found:?}: {text:?}");
    }
    let shown = "\u{fffd}".repeat(confusing.chars().count());
    assert!(report::junit(&run).contains(&format!("two{shown}")));
}
