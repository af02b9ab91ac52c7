//! Runs the checks one after the other, and asks after each whether the target still lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use conform_report::{Entry, Failure, Outcome, Stop, Suite};
use serde_json::{Map, Value, json as value};

use crate::bench::{Bench, Facts};
use crate::check::{Check, Need};
use crate::deviations::Deviations;
use crate::service::RegionKind;
use crate::{checks, rows};

/// The results of a whole run.
pub type Run = conform_report::Run<Facts>;

/// The options of a run: its checks, and how they are judged.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Names, rows, or beginnings of either; empty for all.
    pub only: Vec<String>,
    /// A SHOULD counts as a MUST, a weak pass as a failure.
    pub strict: bool,
    /// Known deviations of the peer.
    pub deviations: Deviations,
    /// Set by another thread to end the run early, behind the check that is under way.
    pub stop: Arc<AtomicBool>,
}

impl Selection {
    /// Returns true if a check is to be run.
    pub fn takes(&self, check: &Check) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| check.is_meant_by(text))
    }

    /// Returns true if a check is named in full.
    fn names(&self, check: &Check) -> bool {
        self.only.iter().any(|text| text == check.name)
    }
}

impl Suite for Facts {
    const TITLE: &'static str = "Wire conformance of";
    const TRACE: &'static str = "wire";
    const REMARK: &'static str = "remark";
    const REMARK_ALWAYS: bool = false;
    const MENDED: &'static str = "no longer deviates";

    fn head(&self, target: &str, object: &mut Map<String, Value>) {
        let role = if self.initiator {
            "initiator"
        } else {
            "responder"
        };
        object.insert("target".into(), target.into());
        object.insert("role".into(), role.into());
        let facts = value!({
            "service": self.service,
            "crc": self.crc,
            "markers_from_target": self.markers_in,
            "markers_to_target": self.markers_out,
            "enhanced": self.enhanced,
            "peer_to_peer": self.peer_to_peer,
            "atomics": self.atomics,
            "immediate_data": self.immediate,
            "notes": self.notes,
        });
        object.insert("facts".into(), facts);
    }

    fn preface(&self) -> String {
        let role = if self.initiator {
            "Initiator"
        } else {
            "Responder"
        };
        format!("The target was the {role}.")
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn rule(&self, row: &str) -> Option<String> {
        let found = rows::all().find(|known| known.id == row);
        found.map(|row| row.rule.to_owned())
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
        Stop::Broken(why) | Stop::Skip(why) | Stop::LeftOut(why) => why,
        Stop::Fail { expected, seen } => {
            format!("no connection can be made: expected {expected}, saw {seen}")
        }
    })?;
    let initiator = bench.target_is_initiator();
    let mut run = Run {
        target,
        facts: Facts {
            initiator,
            ..bench.facts.clone()
        },
        strict: selection.strict,
        entries: Vec::new(),
        lost: None,
        interrupted: None,
    };
    let checks = checks::all();
    let checks = checks.filter(|check| check.is_about(initiator) && selection.takes(check));
    let checks: Vec<_> = checks.collect();
    for check in &checks {
        if selection.stop.load(Ordering::Relaxed) {
            run.interrupted = Some(checks.len() - run.entries.len());
            break;
        }
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
        check: check.about(),
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
    let outcome = Outcome::judge(verdict, known, |stop| {
        Failure::from_stop(stop, "a connection to make the check on", bench.log.take())
    });
    entry(outcome, took)
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
            Err(Stop::Broken(why) | Stop::Skip(why) | Stop::LeftOut(why)) => why,
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

/// The missing condition, in words.
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
