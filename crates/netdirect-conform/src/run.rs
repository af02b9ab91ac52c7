//! Makes the checks, each in its own thread.

use crossbeam_channel::RecvTimeoutError;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use conform_report::{Deviations, Entry, Failure, Outcome, Stop, Suite, Verdict, fail};
use netdirect::Capabilities;
use serde_json::{Map, Value, json as value};

use crate::bench::Bench;
use crate::check::{Check, Work};
use crate::checks;
use crate::limits::Limits;
use crate::need::Profile;
use crate::rows;
use crate::steps::Steps;
use crate::target::{Target, Wants};
use crate::unopened::Unopened;

/// The options of a run: its checks, and how they are judged.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Families, rows, names, or beginnings of the latter two; empty for all.
    pub only: Vec<String>,
    /// The profile, which some expectations depend on.
    pub profile: Profile,
    /// One adapter is used for both ends.
    pub one_adapter: bool,
    /// Known deviations of the provider.
    pub deviations: Deviations,
    /// How many checks run at the same time.
    pub jobs: usize,
    /// How long to wait.
    pub limits: Limits,
    /// An unused address, in a network that the adapter reaches. Without it, the check of unreachable hosts runs only with providers that
    /// can simulate such a host.
    pub unreachable_host: Option<IpAddr>,
    /// Set by another thread to end the run early. Checks that are under way then are left behind and not reported.
    pub stop: Arc<AtomicBool>,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            only: Vec::new(),
            profile: Profile::default(),
            one_adapter: false,
            deviations: Deviations::default(),
            jobs: 1,
            limits: Limits::default(),
            unreachable_host: None,
            stop: Arc::default(),
        }
    }
}

impl Selection {
    /// Returns true if a check is to be run.
    pub fn takes(&self, check: &Check) -> bool {
        let about = check.about();
        self.only.is_empty() || self.only.iter().any(|text| about.is_meant_by(text))
    }

    fn wants(&self, check: Option<&Check>) -> Wants {
        Wants {
            profile: self.profile,
            time_limits: check.and_then(|check| check.time_limits),
            largest_registration: check.and_then(|check| check.largest_registration),
            patience: check.and_then(|check| check.patience),
        }
    }
}

/// Facts about the target of a run.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name of the near provider.
    pub provider: String,
    /// The far provider if it is another one, as named in the options of the run.
    pub peer: Option<String>,
    /// One adapter was used for both ends.
    pub one_adapter: bool,
    /// The profile of the run.
    pub profile: Profile,
    /// The capabilities of the near adapter, by their names.
    pub capabilities: Vec<String>,
    /// The names of the transports that have carried connections of checks, as far as the provider can tell.
    pub transports: Vec<&'static str>,
    /// Remarks for the report.
    pub notes: Vec<String>,
}

/// The results of a whole run.
pub type Run = conform_report::Run<Facts>;

impl Suite for Facts {
    const TITLE: &'static str = "NetworkDirect conformance of";
    const TRACE: &'static str = "steps";
    const REMARK: &'static str = "detail";
    const REMARK_ALWAYS: bool = true;
    const MENDED: &'static str = "pass";

    fn head(&self, target: &str, object: &mut Map<String, Value>) {
        let facts = value!({
            "name": self.provider,
            "capabilities": self.capabilities,
            "transports": self.transports,
            "notes": self.notes,
        });
        for (key, value) in [
            ("provider", value!(target)),
            ("peer", value!(self.peer)),
            ("one_adapter", value!(self.one_adapter)),
            ("profile", value!(self.profile.name())),
            ("facts", facts),
        ] {
            object.insert(key.to_owned(), value);
        }
    }

    fn preface(&self) -> String {
        let ends = match (&self.peer, self.one_adapter) {
            (Some(peer), _) => format!("the peer was {peer}"),
            (None, true) => "one adapter was used for both ends".to_owned(),
            (None, false) => "both ends were adapters of this provider".to_owned(),
        };
        format!("Profile {}; {ends}.", self.profile.name())
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn rule(&self, row: &str) -> Option<String> {
        rows::find(row).map(|row| row.text.clone())
    }
}

/// Runs what is selected. `progress` hears of each entry, in the order of the checks.
///
/// # Errors
///
/// When the adapters cannot be opened at all: what the trouble is.
pub fn run(
    target: &Target,
    selection: &Selection,
    progress: impl FnMut(&Entry),
) -> Result<Run, String> {
    run_these(checks::all(), target, selection, progress)
}

/// Runs what is selected of these checks, which need not be those of the suite.
///
/// # Errors
///
/// As [`run`], and when two of the checks have the same name.
pub fn run_these(
    checks: impl Iterator<Item = &'static Check>,
    target: &Target,
    selection: &Selection,
    mut progress: impl FnMut(&Entry),
) -> Result<Run, String> {
    let checks: Vec<&'static Check> = checks.filter(|check| selection.takes(check)).collect();
    let mut names = BTreeSet::new();
    if let Some(twice) = checks.iter().find(|check| !names.insert(check.name)) {
        let name = twice.name;
        return Err(format!(
            "two checks are called {name}: give each a name of its own"
        ));
    }
    let mut facts = discover(target, selection)?;
    let mut entries = Vec::with_capacity(checks.len());
    let next = AtomicUsize::new(0);
    let (sender, made) = crossbeam_channel::unbounded();
    thread::scope(|scope| {
        for _ in 0..selection.jobs.clamp(1, checks.len().max(1)) {
            let (sender, next, checks) = (sender.clone(), &next, &checks);
            scope.spawn(move || {
                while let Some(check) = checks.get(next.fetch_add(1, Ordering::Relaxed))
                    && let Some(entry) = one(target, check, selection)
                {
                    // The receiver lives as long as this scope.
                    let _ = sender.send(entry);
                }
            });
        }
        drop(sender);
        let mut early: BTreeMap<&'static str, Entry> = BTreeMap::new();
        for entry in made {
            early.insert(entry.check.name, entry);
            while let Some(check) = checks.get(entries.len())
                && let Some(entry) = early.remove(check.name)
            {
                progress(&entry);
                entries.push(entry);
            }
        }
        // Of an interrupted run, those behind checks that have not ended.
        for entry in checks.iter().filter_map(|check| early.remove(check.name)) {
            progress(&entry);
            entries.push(entry);
        }
    });
    let not_made = checks.len() - entries.len();
    facts.transports = target.transports();
    if !facts.transports.is_empty() {
        let names = facts.transports.join(" and ");
        facts
            .notes
            .push(format!("the connections of the checks were over {names}"));
    }
    Ok(Run {
        target: target.name().to_owned(),
        facts,
        strict: false,
        entries,
        lost: None,
        interrupted: (not_made > 0).then_some(not_made),
    })
}

/// Opens the adapters for once, to see what they are.
fn discover(target: &Target, selection: &Selection) -> Result<Facts, String> {
    let (target, selection) = (target.clone(), selection.clone());
    let limit = selection.limits.check;
    let stop = Arc::clone(&selection.stop);
    let within = within((limit, &stop), "the adapters", move || {
        let Selection {
            one_adapter,
            limits,
            ..
        } = selection;
        let wants = selection.wants(None);
        let bench = Bench::open(&target, &wants, one_adapter, limits, &Steps::default());
        let bench = bench.map_err(|stop| match stop {
            Stop::Fail { expected, seen } => format!("expected {expected}, saw {seen}"),
            Stop::Skip(why) | Stop::LeftOut(why) | Stop::Broken(why) => why,
        })?;
        let capabilities = bench.near.adapter.capabilities();
        Ok(Facts {
            provider: bench.near.provider.name().to_owned(),
            peer: target.peer().map(str::to_owned),
            one_adapter,
            profile: selection.profile,
            capabilities: names(capabilities),
            transports: Vec::new(),
            notes: Vec::new(),
        })
    });
    within.unwrap_or_else(|late| Err(late.words("opening the adapters")))
}

fn names(capabilities: Capabilities) -> Vec<String> {
    capabilities
        .iter_names()
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Makes one check. `None` if the run is to end before the check has ended.
fn one(target: &Target, check: &'static Check, selection: &Selection) -> Option<Entry> {
    if selection.stop.load(Ordering::Relaxed) {
        return None;
    }
    let about = check.about();
    let conditions = [("profile", selection.profile.name())];
    let known = selection.deviations.about(&about, &conditions);
    let named = selection.only.iter().any(|text| text == check.name);
    if let Some(fatal) = known.filter(|known| known.fatal && !named) {
        let reason = fatal.words();
        let name = check.name;
        return Some(Entry {
            check: about,
            outcome: Outcome::Skip(format!(
                "the provider would not survive it: {reason}; --only {name} makes it"
            )),
            took: Duration::ZERO,
        });
    }
    let steps = Steps::default();
    let began = Instant::now();
    let verdict = make(target, check, selection, &steps)?;
    let took = began.elapsed();
    let outcome = Outcome::judge(verdict, known, |stop| {
        Failure::from_stop(stop, "an adapter to make the check on", steps.trace())
    });
    Some(Entry {
        check: about,
        outcome,
        took,
    })
}

fn make(
    target: &Target,
    check: &'static Check,
    selection: &Selection,
    steps: &Steps,
) -> Option<Verdict> {
    let wants = selection.wants(Some(check));
    let (one_adapter, limits) = (selection.one_adapter, selection.limits);
    let profile = selection.profile;
    let unreachable_host = selection.unreachable_host;
    let (target, own) = (target.clone(), steps.clone());
    let stop = &selection.stop;
    let within = within((limits.check, stop), check.name, move || {
        let run = match check.run {
            Work::Opened(run) => run,
            Work::Unopened(run) => {
                own.begin("make the providers");
                let ends = target.open(&wants)?;
                return run(Unopened {
                    ends,
                    limits,
                    profile,
                    steps: own,
                });
            }
        };
        let bench = Bench::open(&target, &wants, one_adapter, limits, &own)?;
        let bench = bench.with_unreachable_host(unreachable_host);
        if let Some(need) = bench.lacks(check.needs) {
            return Err(need.stop());
        }
        let verdict = run(&bench);
        if verdict.is_ok() {
            own.begin("release all objects");
        }
        drop(bench);
        verdict
    });
    match within {
        Ok(verdict) => Some(verdict),
        Err(Late::Stopped) => None,
        Err(late) => Some(Err(fail(
            "an end of the check",
            late.words(&steps.current()),
        ))),
    }
}

/// Why a thread has not returned.
#[derive(Debug)]
enum Late {
    Panic(String),
    Hang(Duration),
    Thread(String),
    /// The run is to end.
    Stopped,
}

impl Late {
    fn words(&self, step: &str) -> String {
        match self {
            Self::Panic(what) => format!("a panic in the step \"{step}\": {what}"),
            Self::Hang(limit) => format!(
                "a hang in the step \"{step}\": the call has not returned within {} s",
                limit.as_secs_f64()
            ),
            Self::Thread(why) => format!("no thread could be started: {why}"),
            Self::Stopped => format!("the run was interrupted in the step \"{step}\""),
        }
    }
}

/// How often a thread that waits looks whether the run is to end.
const LOOK: Duration = Duration::from_millis(20);

/// Does something in a separate thread. A thread that does not return within this time, or before the run is to end, is left behind.
fn within<T: Send + 'static>(
    (limit, stop): (Duration, &AtomicBool),
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Late> {
    let (sender, done) = crossbeam_channel::bounded(1);
    let work = move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        // The receiver is gone when the time has run out.
        let _ = sender.send(result);
    };
    let began = Instant::now();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    let thread = thread.map_err(|error| Late::Thread(error.to_string()))?;
    loop {
        let left = limit.saturating_sub(began.elapsed());
        return match done.recv_timeout(left.min(LOOK)) {
            Ok(result) => {
                let _ = thread.join();
                result.map_err(|panic| Late::Panic(message(&*panic)))
            }
            Err(RecvTimeoutError::Disconnected) => Err(Late::Panic("without a message".to_owned())),
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => Err(Late::Stopped),
            Err(RecvTimeoutError::Timeout) if left > LOOK => continue,
            Err(RecvTimeoutError::Timeout) => Err(Late::Hang(limit)),
        };
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "without a message".to_owned()
    }
}
