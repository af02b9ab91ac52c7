//! Runs the checks one after the other, and asks after each whether the target still lives.

use std::time::{Duration, Instant};

use crate::bench::{Bench, Facts};
use crate::check::{Check, Level, Need};
use crate::checks;
use crate::deviations::Deviations;
use crate::outcome::{Pass, Stop};
use crate::service::RegionKind;

/// How a check came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it has to be.
    Pass,
    /// As well as can be told.
    Weak(String),
    /// Not so.
    Fail(Failure),
    /// Not so, as is known of this peer.
    Known(Failure, String),
    /// As it has to be, though this peer is known for something else.
    Mended(String),
    /// It could not be made.
    Skip(String),
}

/// What was expected, what was seen instead, and what went over the wire before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// What the row asks for.
    pub expected: String,
    /// What the target did.
    pub seen: String,
    /// Octets and events, the last ones.
    pub wire: Vec<String>,
}

/// One check with its outcome.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The check.
    pub check: &'static Check,
    /// How it came out.
    pub outcome: Outcome,
    /// How long it took, the probe not counted.
    pub took: Duration,
}

/// What a whole run found.
#[derive(Clone, Debug)]
pub struct Run {
    /// Who was checked, in words.
    pub target: String,
    /// The target was the Initiator.
    pub initiator: bool,
    /// What is known of the target.
    pub facts: Facts,
    /// A failing SHOULD counts.
    pub strict: bool,
    /// The checks, in their order.
    pub entries: Vec<Entry>,
    /// The target was gone: nothing ran behind this.
    pub lost: Option<String>,
}

/// What to run, and how to judge it.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Names, rows, or beginnings of either; empty for all.
    pub only: Vec<String>,
    /// A SHOULD counts as a MUST, a weak pass as a failure.
    pub strict: bool,
    /// What is known of the peer.
    pub deviations: Deviations,
}

impl Selection {
    /// Whether a check is to be run.
    pub fn takes(&self, check: &Check) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| check.is_meant_by(text))
    }

    /// Whether a check is named in full.
    fn names(&self, check: &Check) -> bool {
        self.only.iter().any(|text| text == check.name)
    }
}

impl Entry {
    /// Whether the outcome makes the run a failure.
    pub fn counts(&self, strict: bool) -> bool {
        match self.outcome {
            Outcome::Fail(_) => strict || self.check.level == Level::Must,
            Outcome::Weak(_) => strict,
            Outcome::Pass | Outcome::Known(..) | Outcome::Mended(_) | Outcome::Skip(_) => false,
        }
    }
}

impl Run {
    /// Checks that failed, those known not counted.
    pub fn failures(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|entry| entry.counts(self.strict))
    }

    /// Nothing failed, and the target is still there.
    pub fn succeeded(&self) -> bool {
        self.lost.is_none() && self.failures().next().is_none()
    }

    /// How many entries have an outcome that satisfies `wanted`.
    pub fn count(&self, wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.entries
            .iter()
            .filter(|entry| wanted(&entry.outcome))
            .count()
    }
}

/// Runs what is selected. `progress` hears of each entry as it is made.
///
/// # Errors
///
/// When no connection can be made at all: what the trouble is.
pub fn run(
    bench: &mut Bench,
    target: String,
    selection: &Selection,
    mut progress: impl FnMut(&Entry),
) -> Result<Run, String> {
    bench.forgetful = selection.deviations.forgetful();
    bench.discover().map_err(|stop| match stop {
        Stop::Broken(why) | Stop::Skip(why) => why,
        Stop::Fail { expected, seen } => {
            format!("no connection can be made: expected {expected}, saw {seen}")
        }
    })?;
    let mut run = Run {
        target,
        initiator: bench.target_is_initiator(),
        facts: bench.facts.clone(),
        strict: selection.strict,
        entries: Vec::new(),
        lost: None,
    };
    let initiator = run.initiator;
    for check in checks::all().filter(|check| check.is_about(initiator) && selection.takes(check)) {
        let entry = one(bench, check, selection);
        let ran = !matches!(entry.outcome, Outcome::Skip(_));
        progress(&entry);
        run.entries.push(entry);
        if ran && let Err(why) = probe(bench) {
            run.lost = Some(format!("behind {}: {why}", check.name));
            break;
        }
    }
    if bench.reopened > 0 {
        let count = bench.reopened;
        let note = format!(
            "the target left the first FPDUs of {count} connections untouched, which were made anew"
        );
        run.facts.notes.push(note);
    }
    Ok(run)
}

/// Makes one check.
fn one(bench: &mut Bench, check: &'static Check, selection: &Selection) -> Entry {
    let entry = |outcome, took| Entry {
        check,
        outcome,
        took,
    };
    if let Some(reason) = missing(check, &bench.facts) {
        return entry(Outcome::Skip(reason), Duration::ZERO);
    }
    let known = selection.deviations.about(check, bench.facts.crc);
    if let Some(deviation) = known.filter(|deviation| deviation.fatal)
        && !selection.names(check)
    {
        let reason = deviation.words();
        let reason = format!(
            "the target would not survive it: {reason}; --only {} makes it",
            check.name
        );
        return entry(Outcome::Skip(reason), Duration::ZERO);
    }
    bench.log.take();
    let began = Instant::now();
    let verdict = (check.run)(bench);
    let took = began.elapsed();
    let outcome = match (verdict, known) {
        (Ok(_), Some(known)) if known.intermittent.is_none() => Outcome::Mended(known.words()),
        (Ok(Pass::Right), _) => Outcome::Pass,
        (Ok(Pass::Weak(why)), _) => Outcome::Weak(why),
        (Err(Stop::Skip(why)), _) => Outcome::Skip(why),
        (Err(stop), known) => {
            let failure = failure(stop, bench.log.take());
            match known {
                Some(known) => Outcome::Known(failure, known.words()),
                None => Outcome::Fail(failure),
            }
        }
    };
    entry(outcome, took)
}

fn failure(stop: Stop, wire: Vec<String>) -> Failure {
    match stop {
        Stop::Fail { expected, seen } => Failure {
            expected,
            seen,
            wire,
        },
        Stop::Broken(why) | Stop::Skip(why) => Failure {
            expected: "a connection to make the check on".to_owned(),
            seen: why,
            wire,
        },
    }
}

/// A new connection works: the target has survived what was done to it. One that restarts its server gets some time.
fn probe(bench: &mut Bench) -> Result<(), String> {
    let limits = bench.limits();
    let deadline = Instant::now() + 2 * limits.answer;
    loop {
        let why = match bench.open() {
            Ok(mut conn) => {
                conn.finish();
                // Lets the target end first, so that it sees no reset.
                let _ = conn.octets(limits.quiet);
                return Ok(());
            }
            Err(Stop::Fail { expected, seen }) => {
                format!("the target does not live: expected {expected}, saw {seen}")
            }
            Err(Stop::Broken(why) | Stop::Skip(why)) => why,
        };
        if Instant::now() > deadline {
            return Err(why);
        }
        std::thread::sleep(limits.quiet);
    }
}

/// Why a check cannot be made here.
fn missing(check: &Check, facts: &Facts) -> Option<String> {
    let need = check.needs.iter().find(|need| !has(facts, **need))?;
    Some(words(*need).to_owned())
}

fn has(facts: &Facts, need: Need) -> bool {
    let region = |kind, read, write| {
        facts.service
            && facts
                .offer
                .as_ref()
                .is_some_and(|offer| offer.region(kind, read, write).is_some())
    };
    match need {
        Need::Service => facts.service,
        Need::Crc => facts.crc,
        Need::NoCrc => !facts.crc,
        Need::MarkersIn => facts.markers_in,
        Need::MarkersOut => facts.markers_out,
        Need::Enhanced => facts.enhanced,
        Need::PeerToPeer => facts.peer_to_peer,
        Need::Readable => region(RegionKind::Shared, true, false),
        Need::Writable => region(RegionKind::Shared, false, true),
        Need::ReadWrite => region(RegionKind::Shared, true, true),
        Need::NoRights => region(RegionKind::Shared, false, false),
        Need::Window => region(RegionKind::Window, true, true),
        Need::Atomics => facts.atomics,
        Need::NoAtomics => !facts.atomics,
        Need::Immediate => facts.immediate,
    }
}

/// What is missing, in words.
pub fn words(need: Need) -> &'static str {
    match need {
        Need::Service => "the target does not speak the Send protocol",
        Need::Crc => "CRCs are off",
        Need::NoCrc => "CRCs are on",
        Need::MarkersIn => "the target sends no markers",
        Need::MarkersOut => "the target asks for no markers",
        Need::Enhanced => "the target does not use the frames of RFC 6581",
        Need::PeerToPeer => "the peer-to-peer model was not agreed on",
        Need::Readable => "no memory that may be read only is offered",
        Need::Writable => "no memory that may be written only is offered",
        Need::ReadWrite => "no memory that may be read and written is offered",
        Need::NoRights => "no memory without rights is offered",
        Need::Window => "no memory that may be invalidated is offered",
        Need::Atomics => "the target has no Atomics",
        Need::NoAtomics => "the target has Atomics",
        Need::Immediate => "the target takes no Immediate Data",
    }
}
