//! Measures rows one after the other, and shows each when it is done.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use nd_base::errors::{Failure, Result};
use nd_base::interrupt::Interrupt;
use nd_base::output_file::OutputFile;
use nd_base::provider::{self, fingerprint, own_fingerprint};
use nd_base::session;

use super::affinity;
use super::args::{LocalArgs, Rows, RunArgs, Switch, TestArgs};
use super::control::{Control, not_understood};
use super::link::{check_choices, check_transport};
use super::local::Second;
use super::messages::ControlRequest;
use super::plan::Plan;
use super::plot;
use super::report::{self, Report};
use super::row::{await_cores, measure};
use super::spec::{Placement, Spec};
use crate::cores::Watch;

/// How long the other side may take for something that is not a turn, above all to check the data.
const ANSWER: Duration = Duration::from_secs(60);

/// Rows between this process and one that waits elsewhere.
pub(super) fn remote(args: &RunArgs) -> Result<()> {
    let (tests, mut plan, rows) = chosen(&args.tests, args.url.as_deref(), Placement::Free)?;
    let plot = plot_file(&tests, &rows.measured)?;
    let addresses = session::resolve(&args.address)?;
    let mut control = connect(&addresses, &args.address)?;
    control.allow(plan.timeout)?;
    plan.pin = certificates(&mut control, tests.udp)?;
    sweep(control, (&tests, plot), &plan, &rows)
}

/// Returns the rows to measure with this adapter, and their plan.
fn chosen(
    tests: &TestArgs,
    url: Option<&str>,
    placement: Placement,
) -> Result<(TestArgs, Plan, Rows)> {
    let mut tests = tests.clone();
    if let Some(url) = url
        && tests.crc.is_empty()
        && !provider::chooses_crc(url)?
    {
        tests.crc = vec![Switch::On];
    }
    let (mut plan, rows) = (tests.plan()?, tests.rows(placement)?);
    plan.url = url.map(str::to_owned);
    check_choices(url, plan.fault.as_deref())?;
    for row in &rows.measured {
        check_transport(url, row.transport)?;
    }
    Ok((tests, plan, rows))
}

/// Rows between two processes of this machine.
pub(super) fn local(args: &LocalArgs, verbose: u8) -> Result<()> {
    let placement = if args.one_core {
        Placement::Together
    } else {
        Placement::Apart
    };
    provider::check_for_two_processes(args.url.as_deref())?;
    let (tests, mut plan, rows) = chosen(&args.tests, args.url.as_deref(), placement)?;
    let plot = plot_file(&tests, &rows.measured)?;
    plan.steady = args.steady.is_some();
    let nanos = args.steady.flatten().map(NonZeroU32::get);
    plan.usual = nanos.map(|nanos| Duration::from_nanos(nanos.into()));
    let second = Second::start(verbose, tests.side.receives, args.url.as_deref())?;
    let mut control = connect(&[second.address], "the second process")?;
    control.allow(plan.timeout)?;
    plan.pin = certificates(&mut control, tests.udp)?;
    sweep(control, (&tests, plot), &plan, &rows)?;
    second.finish();
    Ok(())
}

/// Tells each side the fingerprint of the other one's certificate, for rows over UDP. Returns that of the other side. The control
/// connection proves nothing, and what is measured is no secret.
pub(super) fn certificates(control: &mut Control, over_udp: bool) -> Result<Option<String>> {
    if !over_udp {
        return Ok(None);
    }
    let own = ControlRequest::Certificate(own_fingerprint()?);
    let certificate: String = control.ask(&own)?;
    fingerprint(&certificate)
        .map(Some)
        .map_err(|_| not_understood())
}

/// The control connection to the process at the other side. Errors call that process `name`.
pub(super) fn connect(addresses: &[SocketAddr], name: &str) -> Result<Control> {
    let stream = TcpStream::connect(addresses).map_err(|error| {
        let failure = Failure::socket(format_args!("connect to {name}"), &error);
        match error.kind() {
            // Their own advice names what a user can look at.
            ErrorKind::PermissionDenied
            | ErrorKind::Unsupported
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable => failure,
            _ => failure.advise("check address and port, and that `nd perf serve` runs there"),
        }
    })?;
    Control::new(stream, ANSWER)
}

/// Measures row after row, and shows each when it is done. The first failure ends it.
fn sweep(
    mut control: Control,
    (args, plot): (&TestArgs, Option<OutputFile>),
    plan: &Plan,
    rows: &Rows,
) -> Result<()> {
    affinity::note_one_processor(rows.measured.iter());
    let bar = bar(rows.measured.iter().map(|spec| plan.steps(spec)).sum());
    let mut report = Report::new(args.format);
    let mut ended = Ok(());
    let interrupt = Interrupt::watch();
    let progress = || {
        bar.inc(1);
        interrupt.check()
    };
    let mut seen = Watch::default();
    for spec in &rows.measured {
        bar.set_message(report::title(spec));
        let plan = plan.after(&seen);
        ended = await_cores(&plan);
        if ended.is_err() {
            break;
        }
        let (outcome, done) = measure(&mut control, spec, &plan, &progress);
        seen.add(&outcome.cores);
        bar.suspend(|| report.add(outcome))?;
        if done.is_err() {
            ended = done;
            break;
        }
    }
    bar.finish_and_clear();
    report.finish()?;
    // Without a figure, an error has ended the test, and is reported.
    let drawn = match plot.zip(plot::svg(report.outcomes(), rows)) {
        Some((file, svg)) => file.write(&svg),
        None => Ok(()),
    };
    interrupt.end_if_came();
    ended.and(drawn)
}

/// The file for the drawing, if there will be anything to draw.
fn plot_file(args: &TestArgs, rows: &[Spec]) -> Result<Option<OutputFile>> {
    let Some(path) = &args.plot else {
        return Ok(None);
    };
    if !rows.iter().any(plot::draws) {
        return Err(Failure::new(
            "there is nothing to draw: no test was chosen of which --plot draws a figure",
            "leave out --plot, or choose --test latency, --test bandwidth or --test scale",
        ));
    }
    OutputFile::open(path, "plot").map(Some)
}

/// A bar on standard error, if that is a terminal and the wait is longer than a moment.
pub(super) fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %, {eta} left, {msg}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
