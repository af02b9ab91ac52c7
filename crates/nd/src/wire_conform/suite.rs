//! The suite as a command: arguments in, report out.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use iwarp_conform::{Bench, Deviations, Limits, Selection, Wants, report, rows};

use super::args::{Suite, Switch};
use crate::args::Format;
use crate::errors::{self, Failure, Result};
use crate::interrupt::Interrupt;
use crate::output;
use crate::session;
use crate::stderr;
use crate::suites::{self, Shipped};

/// Returns true if every check passed or is a known deviation.
pub(super) fn run(args: &Suite) -> Result<bool> {
    let mut selection = select(args)?;
    if args.list {
        list(args, &selection)?;
        return Ok(true);
    }
    let Opened {
        mut bench,
        target,
        untrusted,
    } = bench(args)?;
    let interrupt = Interrupt::watch();
    selection.stop = interrupt.flag();
    let paint = suites::paint();
    let mut section: Option<&str> = None;
    let mut broken = None;
    let found = iwarp_conform::run(&mut bench, target, &selection, |entry| {
        if args.format != Format::Text || broken.is_some() {
            return;
        }
        let mut text = String::new();
        if section.replace(entry.check.section) != Some(entry.check.section) {
            text.push_str(&report::header(entry.check.section, paint));
        }
        text.push_str(&report::line(entry, paint));
        broken = output::text(&text).err();
    })
    .map_err(|why| {
        if let Some(shown) = untrusted.lock().ok().and_then(|mut shown| shown.take()) {
            return Failure::new(
                format!("cannot check the target: it shows the certificate {shown}, which is not trusted"),
                format!("if that is what the target printed, add --pin {shown}"),
            );
        }
        let refusal = errors::refusal(&why).map(|(_, advice)| advice);
        let usual =
            "check its address, and that it is an iWARP peer; `nd wire-conform target` makes one of any provider";
        let what = format!("cannot check the target: {why}");
        Failure::new(what, refusal.unwrap_or(usual))
    })?;
    if let Some(failure) = broken {
        return Err(failure);
    }
    // As text the checks have been printed already.
    let text = suites::form(args.format, &found, || report::summary(&found, paint));
    output::text(&text)?;
    interrupt.end_if_came();
    Ok(found.succeeded())
}

fn list(args: &Suite, selection: &Selection) -> Result<()> {
    let checks = || iwarp_conform::checks().filter(|check| selection.takes(check));
    let text = suites::list(args.format, || report::list(checks()), report::page)?;
    output::text(&text)
}

fn select(args: &Suite) -> Result<Selection> {
    for text in &args.only {
        if !iwarp_conform::checks().any(|check| check.is_meant_by(text)) {
            let row = rows::all().find(|row| row.id == text);
            let why = row.as_ref().map(rows::why_unchecked);
            return Err(suites::no_check(text, why, "nd wire-conform --list"));
        }
    }
    let deviations = match &args.deviations {
        None => Deviations::default(),
        Some(name) => known(name)?,
    };
    Ok(Selection {
        only: args.only.clone(),
        strict: args.strict,
        deviations,
        ..Selection::default()
    })
}

fn known(name: &str) -> Result<Deviations> {
    let shipped = Shipped {
        parse: Deviations::parse,
        named: Deviations::shipped,
        names: Deviations::names().collect(),
    };
    suites::deviations(name, &shipped)
}

/// A bench that is ready to connect.
struct Opened {
    bench: Bench,
    /// The target, in words.
    target: String,
    /// The fingerprint of the certificate of a target that was not trusted.
    untrusted: Untrusted,
}

type Untrusted = Arc<Mutex<Option<String>>>;

impl Opened {
    fn new(bench: Bench, target: String) -> Self {
        Self {
            bench,
            target,
            untrusted: Untrusted::default(),
        }
    }
}

fn bench(args: &Suite) -> Result<Opened> {
    let usual = if args.udp { Switch::Off } else { Switch::On };
    let wants = Wants {
        crc: args.crc.unwrap_or(usual) == Switch::On,
        markers: args.markers == Switch::On,
        service: !args.no_service,
        limits: Limits {
            answer: args.answer,
            quiet: args.quiet,
            startup: args.startup,
        },
    };
    if args.udp {
        return over_udp(args, wants);
    }
    if let Some(local) = &args.listen {
        let addresses = session::resolve(local)?;
        let doing = || format!("listen on {local}");
        let listener = TcpListener::bind(addresses.as_slice())
            .map_err(|error| Failure::socket(doing(), &error))?;
        let address = listener
            .local_addr()
            .map_err(|error| Failure::socket(doing(), &error))?;
        stderr::note(format_args!("waiting for a target on {address}"));
        let bench =
            Bench::passive(listener, wants).map_err(|error| Failure::socket(doing(), &error))?;
        let target = format!("the target that connects to {address}");
        return Ok(Opened::new(bench, target));
    }
    let text = args.target.as_deref().unwrap_or_default();
    let addresses = session::resolve(text)?;
    // A name may have several addresses, of which the suite uses one. If there is only one, it is not tried first, because
    // a connection that ends at once makes some targets close their listener (SEC-031.half-open).
    let reached = match addresses.as_slice() {
        [only] => Some(only),
        several => several
            .iter()
            .find(|address| std::net::TcpStream::connect_timeout(address, args.answer).is_ok()),
    };
    let Some(address) = reached else {
        return Err(Failure::new(
            format!("cannot reach {text}: nothing accepts connections there"),
            "check the address, and that the target runs",
        ));
    };
    let bench = Bench::active(*address, wants);
    Ok(Opened::new(bench, address.to_string()))
}

/// A bench over QUIC.
#[cfg(feature = "udp")]
fn over_udp(args: &Suite, wants: Wants) -> Result<Opened> {
    use crate::provider::{fingerprint, fingerprint_of};
    use iwarp_conform::Quic;

    let listens = args.listen.is_some();
    let text = args.listen.as_ref().or(args.target.as_ref());
    let text = text.map_or("", String::as_str);
    let address = session::resolve(text)?[0];
    if listens {
        let explain = |error| Failure::socket(format_args!("listen on {text}"), &error);
        let quic = Quic::listening(address).map_err(explain)?;
        let address = quic.address().map_err(explain)?;
        let pin = fingerprint_of(&quic.certificate());
        stderr::note(format_args!("waiting for a target on {address}"));
        stderr::note(format_args!("the target connects with --pin {pin}"));
        let target = format!("the target that connects to {address} over UDP");
        return Ok(Opened::new(Bench::passive_over(quic, wants), target));
    }
    let mut pins = Vec::new();
    for pin in &args.pins {
        let pin = fingerprint(pin).map_err(|why| {
            Failure::new(
                format!("cannot use what --pin gives: {why}"),
                "copy what the target prints when it listens",
            )
        })?;
        pins.push(pin);
    }
    let insecure = args.insecure;
    let untrusted = Untrusted::default();
    let kept = Arc::clone(&untrusted);
    let trusts = move |certificate: &[u8]| {
        let shown = fingerprint_of(certificate);
        let trusted = insecure || pins.contains(&shown);
        if !trusted && let Ok(mut kept) = kept.lock() {
            *kept = Some(shown);
        }
        trusted
    };
    let quic = Quic::connecting(address, Arc::new(trusts));
    let quic = quic.map_err(|error| Failure::socket("open a UDP socket", &error))?;
    Ok(Opened {
        bench: Bench::active_over(quic, address, wants),
        target: format!("{address} over UDP"),
        untrusted,
    })
}

#[cfg(not(feature = "udp"))]
fn over_udp(_: &Suite, _: Wants) -> Result<Opened> {
    Err(Failure::new(
        "cannot connect over UDP: this program was built without the feature `udp`",
        "check the target over TCP, or build with that feature",
    ))
}
