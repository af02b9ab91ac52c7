//! Targets that break one rule each: exactly the check for that rule fails.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use iwarp_conform::{
    Bench, Check, Deviations, Outcome, Run, Selection, Wants, checks, report, run,
};

use crate::reference::{self, Break, CONNECTING, CONNECTING_TOO, LISTENING, MARKED, Options};
use crate::sample;

/// For targets that break a rule: nothing answers some of the checks for these, so this limit passes.
fn wants() -> Wants {
    let mut wants = Wants::default();
    wants.limits.answer = Duration::from_secs(2);
    wants.limits.quiet = Duration::from_millis(40);
    wants.limits.startup = Duration::from_secs(3);
    wants
}

fn listening(options: Options, wants: Wants, selection: &Selection) -> Result<Run, String> {
    let target = reference::listen(options).unwrap();
    let mut bench = Bench::active(target, wants);
    run(&mut bench, "reference".to_owned(), selection, |_| {})
}

fn connecting(options: Options, wants: Wants, selection: &Selection) -> Result<Run, String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut bench = Bench::passive(listener, wants).unwrap();
    reference::connect(options, address);
    run(&mut bench, "reference".to_owned(), selection, |_| {})
}

fn failed(run: &Run) -> Vec<&'static str> {
    run.entries
        .iter()
        .filter(|entry| matches!(entry.outcome, Outcome::Fail(_)))
        .map(|entry| entry.check.name)
        .collect()
}

fn details(run: &Run) -> String {
    let failures: Vec<_> = run
        .entries
        .iter()
        .filter(|entry| !matches!(entry.outcome, Outcome::Pass | Outcome::Skip(_)))
        .map(|entry| format!("{}: {:#?}", entry.check.name, entry.outcome))
        .collect();
    format!("{failures:#?} {:?}", run.lost)
}

/// Long time limits, because nothing here waits for a limit to pass.
fn patient() -> Wants {
    let mut wants = wants();
    wants.limits.answer = Duration::from_secs(120);
    wants.limits.startup = Duration::from_secs(6);
    wants
}

type Find = dyn Fn(Options, Wants, &Selection) -> Result<Run, String> + Sync;

/// If the machine pauses for a while, checks and targets with a time limit fail. So a check with an unexpected result runs again, with long
/// limits on both sides. A check that fails for a reason fails again.
fn again(options: Options, wants: Wants, only: Vec<String>, find: &Find) -> Result<Run, String> {
    let mut wants = wants;
    // Shorter than the target's own limit, because the end of the connection would pass for an answer.
    wants.limits.answer = Duration::from_secs(20);
    wants.limits.quiet = Duration::from_secs(2);
    wants.limits.startup = Duration::from_secs(60);
    let options = Options {
        startup: Duration::from_secs(20),
        ..options
    };
    let selection = Selection {
        only,
        ..Selection::default()
    };
    find(options, wants, &selection)
}

/// All checks, a part of them on each of several targets at the same time, because most of the time is spent waiting. At night
/// targets meet all checks one after the other.
fn side_by_side(options: Options, wants: Wants, find: &Find) -> Run {
    const PARTS: usize = 6;
    let part = |part: usize| {
        let names = checks().skip(part).step_by(PARTS);
        let selection = Selection {
            only: names.map(|check| check.name.to_owned()).collect(),
            ..Selection::default()
        };
        find(options, wants, &selection).unwrap()
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..PARTS)
            .map(|number| scope.spawn(move || part(number)))
            .collect();
        let mut parts = parts.into_iter().map(|part| part.join().unwrap());
        let mut whole = parts.next().unwrap();
        for part in parts {
            whole.entries.extend(part.entries);
            whole.lost = whole.lost.or(part.lost);
        }
        whole
    })
}

/// All checks on a target that fails none of them.
fn sound(options: Options, wants: Wants, find: &Find) -> Run {
    let run = side_by_side(options, wants, find);
    let failed = failed(&run);
    if !(run.succeeded() && failed.is_empty()) {
        let only = failed.iter().map(|name| (*name).to_owned()).collect();
        let again = again(options, wants, only, find).unwrap();
        assert!(
            again.succeeded() && self::failed(&again).is_empty(),
            "{}, after {}",
            details(&again),
            details(&run)
        );
    }
    run
}

#[test]
fn a_target_that_breaks_nothing_fails_nothing() {
    let sound_with = |(crc, markers)| {
        let options = Options {
            crc,
            markers,
            ..Options::default()
        };
        let wants = Wants {
            crc,
            markers,
            ..patient()
        };
        let facts = sound(options, wants, &listening).facts;
        assert_eq!(
            (facts.crc, facts.markers_in, facts.markers_out),
            (crc, markers, markers)
        );
    };
    // Most of the time is spent waiting.
    std::thread::scope(|scope| {
        for frames in [(true, false), (false, false), (true, true), (false, true)] {
            scope.spawn(move || sound_with(frames));
        }
    });
}

#[test]
fn a_target_that_connects_and_breaks_nothing_fails_nothing() {
    sound(Options::default(), patient(), &connecting);
}

#[test]
fn a_target_without_the_send_protocol_is_checked_as_far_as_that_goes() {
    let options = Options {
        service: false,
        extensions: false,
        ..Options::default()
    };
    let mut wants = patient();
    // Not tried at all, rather than tried until the limit has passed.
    wants.service = false;
    let run = sound(options, wants, &listening);
    assert!(!run.facts.service);
    let skipped = run.count(|outcome| matches!(outcome, Outcome::Skip(_)));
    assert!(
        skipped * 3 < run.entries.len() * 2,
        "{skipped} of {}",
        run.entries.len()
    );
}

#[test]
fn a_known_deviation_is_no_failure_and_one_that_has_gone_is_told() {
    let options = Options {
        broken: Break::TerminateBitOrder,
        ..Options::default()
    };
    let selection = Selection {
        only: vec!["RDMAP-075".to_owned(), "MPA2-017".to_owned()],
        deviations: Deviations::shipped("siw-6.1").unwrap().unwrap(),
        ..Selection::default()
    };
    let run = listening(options, patient(), &selection).unwrap();
    assert!(run.succeeded());
    let outcomes: Vec<_> = run.entries.iter().map(|entry| &entry.outcome).collect();
    assert!(
        matches!(outcomes[..], [Outcome::Mended(_), Outcome::Known(..)]),
        "{outcomes:?}"
    );
}

#[test]
fn a_deviation_may_come_and_go_or_be_fatal() {
    let deviations = |more: &str| {
        let text = format!(
            "[[deviation]]\ncheck = 'MPA-053.sent'\nreason = 'it'\nsource = 'this test'\n{more}\n"
        );
        Deviations::parse(&text).unwrap()
    };
    let outcome = |broken, more: &str, only: &str| {
        let options = Options {
            broken,
            ..Options::default()
        };
        let selection = Selection {
            only: vec![only.to_owned()],
            deviations: deviations(more),
            ..Selection::default()
        };
        let run = listening(options, patient(), &selection).unwrap();
        run.entries[0].outcome.clone()
    };
    let (sends_pad, fatal) = (Break::SendsPad, "fatal = true");
    let goes = outcome(Break::Nothing, "intermittent = 'at times'", "MPA-053");
    assert_eq!(goes, Outcome::Pass);
    let comes = outcome(sends_pad, "intermittent = 'at times'", "MPA-053");
    assert!(matches!(comes, Outcome::Known(..)), "{comes:?}");
    let elsewhere = outcome(sends_pad, "crc = 'off'", "MPA-053");
    assert!(matches!(elsewhere, Outcome::Fail(_)), "{elsewhere:?}");
    let left_out = outcome(sends_pad, fatal, "MPA-053");
    assert!(matches!(left_out, Outcome::Skip(_)), "{left_out:?}");
    let named = outcome(sends_pad, fatal, "MPA-053.sent");
    assert!(matches!(named, Outcome::Known(..)), "{named:?}");
}

#[test]
fn a_peer_known_to_leave_a_first_fpdu_gets_a_second_connection() {
    let forgetful = "[[deviation]]\ncheck = 'MPA2-032'\nreason = 'it'\nsource = 'this test'\nintermittent = 'at times'\n";
    for (text, service) in [(forgetful, true), ("", false)] {
        let options = Options {
            forgets: true,
            ..Options::default()
        };
        let selection = Selection {
            only: vec!["MPA-053".to_owned()],
            deviations: Deviations::parse(text).unwrap(),
            ..Selection::default()
        };
        let run = listening(options, patient(), &selection).unwrap();
        assert_eq!(run.facts.service, service, "{:?}", run.facts.notes);
        let mentions = |note: &String| note.contains("made anew");
        assert_eq!(run.facts.notes.iter().any(mentions), service);
    }
}

#[test]
fn reports_of_a_failure_can_be_read_by_programs() {
    let options = Options {
        broken: Break::SendsPad,
        ..Options::default()
    };
    let selection = Selection {
        only: vec!["MPA-053".to_owned(), "MPA-036".to_owned()],
        ..Selection::default()
    };
    let run = listening(options, patient(), &selection).unwrap();
    assert!(!run.succeeded());
    let json: serde_json::Value = serde_json::from_str(&report::json(&run)).unwrap();
    assert_eq!(json["succeeded"], false);
    let outcomes: Vec<_> = json["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| &check["outcome"])
        .collect();
    assert_eq!(outcomes, ["fail", "skip"]);
    assert_eq!(json["checks"][0]["expected"], "PAD of zeros");
    let junit = report::junit(&run);
    assert!(
        junit.contains("failures=\"1\"") && junit.contains("<skipped message=\"CRCs are on\"/>"),
        "{junit}"
    );
    let html = report::html(&run);
    assert!(
        html.contains("MPA-053.sent") && !html.contains("http"),
        "{html}"
    );
    let text = report::text(&run, report::Paint::off());
    assert!(
        text.contains("FAIL    MPA-053.sent") && text.contains("saw       "),
        "{text}"
    );
}

/// Finds out which of these checks fail on a target that breaks a rule; of all if none are named.
fn verify(
    options: Options,
    wants: Wants,
    (check, only): (&str, Vec<String>),
    find: &Find,
) -> Option<String> {
    let selection = Selection {
        only,
        ..Selection::default()
    };
    let first = match find(options, wants, &selection) {
        Ok(found) if found.lost.is_none() => failed(&found),
        _ => Vec::new(),
    };
    if first == [check] {
        return None;
    }
    let mut only: Vec<String> = first.iter().map(|name| (*name).to_owned()).collect();
    if !first.contains(&check) {
        only.push(check.to_owned());
    }
    let broken = options.broken;
    match again(options, wants, only, find) {
        Err(why) => Some(format!("{broken:?}: {why}")),
        Ok(found) if failed(&found) == [check] && found.lost.is_none() => None,
        Ok(found) => Some(format!(
            "{broken:?}: {:?} fail instead of {check}; {:?}",
            failed(&found),
            found.lost
        )),
    }
}

type Rules = [(Break, &'static str)];

/// The options by which one kind of target is checked.
struct Kind {
    rules: &'static [&'static Rules],
    markers: bool,
    /// The target connects.
    initiator: bool,
    /// How many targets a check meets by day, besides those that break its row.
    sampled: usize,
}

const LISTENS: Kind = Kind {
    rules: &[LISTENING],
    markers: false,
    initiator: false,
    sampled: 3,
};

/// The checks are those for [`LISTENS`] once more.
const HAS_MARKERS: Kind = Kind {
    rules: &[MARKED],
    markers: true,
    initiator: false,
    sampled: 1,
};

const CONNECTS: Kind = Kind {
    rules: &[CONNECTING, CONNECTING_TOO],
    markers: false,
    initiator: true,
    sampled: 3,
};

impl Kind {
    fn checks(&self) -> impl Iterator<Item = &'static Check> {
        checks().filter(|check| check.is_about(self.initiator))
    }

    /// The checks that the target with this rule broken meets by day.
    fn by_day(&self, line: (usize, usize), check: &str) -> Vec<String> {
        sample::of_line(line, check, self.sampled, self.checks())
    }

    /// Runs in several threads, because most of the time is spent waiting.
    fn each(&self, only: impl Fn((usize, usize), &str) -> Vec<String> + Sync) {
        let rules = self.rules.concat();
        let find: &Find = if self.initiator {
            &connecting
        } else {
            &listening
        };
        let next = AtomicUsize::new(0);
        let wrong = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..24 {
                scope.spawn(|| {
                    loop {
                        let line = next.fetch_add(1, Ordering::Relaxed);
                        let Some((broken, check)) = rules.get(line) else {
                            return;
                        };
                        let markers = self.markers;
                        let options = Options {
                            broken: *broken,
                            markers,
                            ..Options::default()
                        };
                        let wants = Wants { markers, ..wants() };
                        let only = only((line, rules.len()), check);
                        let found = verify(options, wants, (check, only), find);
                        wrong.lock().unwrap().extend(found);
                    }
                });
            }
        });
        let wrong = wrong.into_inner().unwrap();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

#[test]
fn each_rule_that_a_listening_target_breaks_fails_its_check_and_no_other() {
    LISTENS.each(|line, check| LISTENS.by_day(line, check));
}

#[test]
fn each_rule_about_markers_that_is_broken_fails_its_check_and_no_other() {
    HAS_MARKERS.each(|line, check| HAS_MARKERS.by_day(line, check));
}

#[test]
fn each_rule_that_a_connecting_target_breaks_fails_its_check_and_no_other() {
    CONNECTS.each(|line, check| CONNECTS.by_day(line, check));
}

#[test]
fn by_day_each_check_meets_the_target_that_breaks_its_rule_and_several_others() {
    for kind in [LISTENS, CONNECTS] {
        let mut met: HashMap<String, usize> = HashMap::new();
        let rules = kind.rules.concat();
        for (line, (_, expected)) in rules.iter().enumerate() {
            let chosen = kind.by_day((line, rules.len()), expected);
            assert!(chosen.iter().any(|name| name == expected), "{expected}");
            for name in chosen.into_iter().filter(|name| name != expected) {
                *met.entry(name).or_default() += 1;
            }
        }
        for check in kind.checks() {
            let met = met.get(check.name).copied().unwrap_or(0);
            assert!(met >= 2, "{}: {met}", check.name);
        }
    }
}

/// `cargo test -p iwarp-conform --test it every_broken_target_against_all_checks -- --ignored`
mod every_broken_target_against_all_checks {
    use super::*;

    #[test]
    #[ignore = "takes long: run at night by name"]
    fn that_breaks_nothing() {
        for (initiator, find) in [(false, &listening as &Find), (true, &connecting)] {
            let run = find(Options::default(), patient(), &Selection::default()).unwrap();
            assert!(
                run.succeeded() && failed(&run).is_empty(),
                "{}",
                details(&run)
            );
            let all = checks().filter(|check| check.is_about(initiator));
            assert_eq!(run.entries.len(), all.count());
        }
    }

    #[test]
    #[ignore = "takes long: run at night by name"]
    fn that_listens() {
        LISTENS.each(|_, _| Vec::new());
    }

    #[test]
    #[ignore = "takes long: run at night by name"]
    fn with_markers() {
        HAS_MARKERS.each(|_, _| Vec::new());
    }

    #[test]
    #[ignore = "takes long: run at night by name"]
    fn that_connects() {
        CONNECTS.each(|_, _| Vec::new());
    }
}
