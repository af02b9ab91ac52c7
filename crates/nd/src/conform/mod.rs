//! `nd conform`: the conformance suite for providers of NetworkDirect, against any provider.

pub(crate) mod args;

use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use netdirect_conform::{
    Check, Deviations, End, Ends, Entry, Interface, Limits, Outcome, Profile, Run, Selection, Step,
    Stop, Target, Wants, report,
};

use self::args::Conform;
use crate::args::{Format, Stack};
use crate::errors::{self, Failure, Result};
use crate::interrupt::Interrupt;
use crate::output;
use crate::output_file::OutputFile;
use crate::provider::{self, AdapterOptions, Backend};
use crate::suites::{self, Shipped};

/// Exit status when nothing could be checked: wrong usage, or adapters that cannot be opened.
const NOTHING_CHECKED: u8 = 2;

/// The contents of `--output`.
const REPORT: &str = "report";

/// Runs the suite: 0 when all passed or was known, 1 on failures, 2 when nothing could be checked.
pub(crate) fn run(args: &Conform) -> ExitCode {
    match check(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) if failure.is_unread() => failure.report(),
        Err(failure) => {
            let _ = failure.report();
            ExitCode::from(NOTHING_CHECKED)
        }
    }
}

/// Returns true if every check passed or is a known deviation.
fn check(args: &Conform) -> Result<bool> {
    let mut selection = select(args)?;
    if args.list {
        list(args, &selection)?;
        return Ok(true);
    }
    let target = target(args)?;
    let file = args.output.as_deref();
    let file = file.map(|path| OutputFile::open(path, REPORT));
    let file = file.transpose()?;
    let interrupt = Interrupt::watch();
    selection.stop = interrupt.flag();
    let mut shown = Shown::new(args, &selection);
    let checks = checks(args.url.as_deref(), &args.only);
    let run = |entry: &Entry| shown.entry(entry);
    let found = netdirect_conform::run_these(checks, &target, &selection, run);
    let found = found.map_err(|why| {
        let refusal = errors::refusal(&why).map(|(_, advice)| advice);
        let usual = "check the URL, and with `nd info` that there is such an adapter";
        let what = format!("cannot check {}: {why}", target.name());
        Failure::new(what, refusal.unwrap_or(usual))
    })?;
    let written = shown.end((args.format, file), &found);
    interrupt.end_if_came();
    if found.is_empty() && found.ended_early().is_none() {
        return Err(Failure::new(
            "nothing was checked, because no chosen check is part of this run",
            "give the run what the report says that it lacks, or choose other checks",
        ));
    }
    match written {
        Ok(()) => Ok(found.succeeded()),
        Err(failure) if failure.is_unread() => Err(failure),
        // Much was checked, so the exit status is that of a failure.
        Err(failure) => {
            let _ = failure.report();
            Ok(false)
        }
    }
}

/// The checks of the traits, and those of COM's border.
fn all_checks() -> impl Iterator<Item = &'static Check> {
    netdirect_conform::checks().chain(netdirect_com_conform::all())
}

/// The checks of a run. Those of the border are among them where the provider is a library; else a run that asks for some says why it has
/// none.
fn checks(url: Option<&str>, only: &[String]) -> impl Iterator<Item = &'static Check> + use<> {
    let has_border = url.is_none_or(provider::is_library) || !only.is_empty();
    all_checks().filter(move |check| has_border || check.interface != Interface::Border)
}

/// The display while the suite runs: the checks where the report is not on standard output, and a bar on standard error.
struct Shown {
    lines: bool,
    paint: report::Paint,
    section: Option<&'static str>,
    bar: ProgressBar,
    broken: Option<Failure>,
}

impl Shown {
    fn new(args: &Conform, selection: &Selection) -> Self {
        let checks = checks(args.url.as_deref(), &args.only);
        let checks = checks.filter(|check| selection.takes(check));
        let bar = ProgressBar::new(checks.count() as u64);
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.tick();
        Self {
            lines: args.format == Format::Text || args.output.is_some(),
            paint: suites::paint(),
            section: None,
            bar,
            broken: None,
        }
    }

    fn entry(&mut self, entry: &Entry) {
        // Checks that were left out are listed together at the end.
        let is_left_out = matches!(entry.outcome, Outcome::LeftOut(_));
        if self.lines && !is_left_out && self.broken.is_none() {
            let mut text = String::new();
            if self.section.replace(entry.check.section) != Some(entry.check.section) {
                text.push_str(&report::header(entry.check.section, self.paint));
            }
            text.push_str(&report::line(entry, self.paint));
            self.broken = self.bar.suspend(|| output::text(&text)).err();
        }
        self.bar.set_message(entry.check.name);
        self.bar.inc(1);
    }

    /// Writes the report. If the file cannot be written after all, the report goes to standard output.
    fn end(self, (format, file): (Format, Option<OutputFile>), found: &Run) -> Result<()> {
        self.bar.finish_and_clear();
        if let Some(failure) = self.broken {
            return Err(failure);
        }
        if self.lines {
            output::text(report::end(found, self.paint))?;
        }
        let plain = || report::text(found, report::Paint::off());
        let text = || suites::form(format, found, plain);
        match file {
            Some(file) => file.write(&text()).or_else(|failure| {
                if format != Format::Text {
                    output::text(text())?;
                }
                Err(failure)
            }),
            None if format == Format::Text => Ok(()),
            None => output::text(text()),
        }
    }
}

fn list(args: &Conform, selection: &Selection) -> Result<()> {
    let checks = || {
        let checks = checks(args.url.as_deref(), &args.only);
        checks.filter(|check| selection.takes(check))
    };
    let (text, page) = (|| report::list(checks()), || report::page(checks()));
    let text = suites::list(args.format, text, page)?;
    match &args.output {
        Some(path) => OutputFile::open(path, REPORT)?.write(&text),
        None => output::text(&text),
    }
}

fn select(args: &Conform) -> Result<Selection> {
    for text in &args.only {
        let is_meant = |check: &Check| check.about().is_meant_by(text);
        if !all_checks().any(is_meant) {
            let row = netdirect_conform::rows::find(text);
            let why = row.and_then(|row| row.why_unproven());
            return Err(suites::no_check(text, why.as_deref(), "nd conform --list"));
        }
    }
    Ok(Selection {
        only: args.only.clone(),
        profile: profile(args.profile),
        one_adapter: args.one_adapter,
        deviations: args
            .deviations
            .as_deref()
            .map_or_else(|| Ok(Deviations::default()), known)?,
        jobs: args.jobs.get(),
        limits: Limits::default().scaled(args.time_scale),
        unreachable_host: args.unreachable_host,
        ..Selection::default()
    })
}

fn profile(chosen: args::Profile) -> Profile {
    match chosen {
        args::Profile::Default => Profile::Default,
        args::Profile::Strict => Profile::Strict,
    }
}

fn known(name: &str) -> Result<Deviations> {
    let shipped = Shipped {
        parse: |text| netdirect_conform::deviations::parse_for(text, all_checks()),
        named: netdirect_conform::deviations::shipped,
        names: netdirect_conform::deviations::names().collect(),
    };
    suites::deviations(name, &shipped)
}

/// The adapters are opened anew for each check. They are opened here once, so that a wrong URL gives the usual error.
fn target(args: &Conform) -> Result<Target> {
    let url = args.url.clone().unwrap_or_default();
    let peer = args.peer.clone();
    if let Some(peer) = &peer {
        for url in [&url, peer] {
            if provider::is_simulated(url)? {
                return Err(Failure::new(
                    format!("{url} has a network of its own, which no other adapter reaches"),
                    "leave out --peer",
                ));
            }
        }
    }
    let wants = Wants {
        profile: profile(args.profile),
        ..Wants::default()
    };
    let stack = args.stack;
    let is_reported =
        provider::knows_stacks(&url) || peer.as_deref().is_some_and(provider::knows_stacks);
    if stack.is_some() && !is_reported {
        return Err(Failure::new(
            "the adapters at both ends treat all stacks alike",
            "leave out --stack",
        ));
    }
    let choices = EndChoices {
        stack,
        same_host: args.same_host.then_some(true),
    };
    let _ = ends(&url, peer.as_deref(), choices, &wants)?;
    let own = peer.clone();
    Ok(Target::new(
        url.clone(),
        peer,
        move |wants: &Wants| -> Step<Ends> {
            let ends = ends(&url, own.as_deref(), choices, wants);
            ends.map_err(|failure| Stop::Broken(failure.to_string()))
        },
    ))
}

/// What the user has chosen for the adapters at both ends.
#[derive(Clone, Copy)]
struct EndChoices {
    /// The stack at the other end of each, for adapters with such an option.
    stack: Option<Stack>,
    /// Connections go through shared memory.
    same_host: Option<bool>,
}

/// The adapters of a check.
fn ends(url: &str, peer: Option<&str>, choices: EndChoices, wants: &Wants) -> Result<Ends> {
    let EndChoices { stack, same_host } = choices;
    let open = |url: &str| {
        let options = AdapterOptions {
            peer: stack.filter(|_| provider::knows_stacks(url)),
            same_host,
            // The other end has the same option. Its checks have limits of their own.
            same_host_wait: same_host.map(|_| Duration::from_secs(10)),
            strict: wants.profile == Profile::Strict,
            time_limits: wants.time_limits,
            largest_registration: wants.largest_registration,
            patience: wants.patience,
            ..AdapterOptions::default()
        };
        Backend::new(Some(url), &options)
    };
    let backend = open(url)?;
    let address = backend.address(url)?;
    let far = match peer {
        None => End {
            provider: backend.shared(),
            address: backend.other_end(address),
        },
        Some(peer) => {
            let backend = open(peer)?;
            End {
                address: backend.address(peer)?,
                provider: backend.shared(),
            }
        }
    };
    let near = End {
        provider: backend.shared(),
        address,
    };
    Ok(Ends { near, far })
}
