//! The devices of this process, and how `nd run` wants them.

use std::env;
use std::io::{self, Write as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rdma_buffer::{environment, forks, signals};
use softverbs::{
    Cancellation, CaptureOptions, Device, DeviceKind, Error, Process, ProcessOptions, Result,
    WriteCompletion,
};

use crate::border::{
    CounterRequests, PerProcess, at_exit, cancellation, counter_requests, end_waits, explain_words,
    finish_explaining,
};
use crate::{log, udp};

/// How long the end of the program may take.
const EXIT_WITHIN: Duration = Duration::from_secs(2);

/// The process object. The child of a fork makes its own, and leaves its parent's as it is.
static PROCESS: PerProcess<Mutex<Option<Arc<Process>>>> = PerProcess::new();

fn locked() -> MutexGuard<'static, Option<Arc<Process>>> {
    PROCESS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The devices. They are made with the first call, and anew in the child of a fork.
pub(crate) fn process() -> Result<Arc<Process>> {
    watch();
    let mut known = locked();
    if let Some(process) = &*known {
        return Ok(Arc::clone(process));
    }
    let process = options().and_then(Process::of_system).inspect_err(say)?;
    *known = Some(Arc::clone(&process));
    drop(known);
    if process.options().counters.is_some() {
        serve_counters(Arc::clone(&process));
    }
    Ok(process)
}

/// Has the counters of this process written when SIGUSR1 or the end of the program asks for it.
fn serve_counters(process: Arc<Process>) {
    let requests = CounterRequests::new();
    let write = move || {
        if let Err(error) = process.write_counters() {
            // The program may have closed its standard error.
            let _ = writeln!(io::stderr(), "softnd's libibverbs: {error}");
        }
    };
    let serve = move || requests.serve(write);
    match signals::blocked(|| thread::Builder::new().spawn(serve)) {
        Ok(_) => CounterRequests::begin(),
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "softnd's libibverbs writes no counters: {error}"
            );
        }
    }
}

/// Has forks and the end of the program noticed. Threads that come first at the same moment may all do so, which does no harm. With a
/// `Once` a child that was forked in this moment would wait for a thread that it does not have.
fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.load(Ordering::Acquire) {
        forks::watch();
        at_exit(finish);
        IS_WATCHED.store(true, Ordering::Release);
    }
}

/// Says why there are no devices: the program learns of a number alone.
fn say(error: &Error) {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Ordering::Relaxed) {
        eprintln!("softnd's libibverbs has no devices: {error}");
    }
}

/// The program exits: what it has sent arrives. In the child of a fork that has opened no device, nothing is its own.
///
/// Programs also exit in handlers of signals, which may have interrupted this library while it held a lock. So another thread does the
/// work, and the program waits for it as long as it may take.
extern "C" fn finish() {
    finish_explaining();
    finish_connections();
    counter_requests::have_written();
}

fn finish_connections() {
    let known = PROCESS.get_if().and_then(|known| known.try_lock().ok());
    let Some(process) = known.and_then(|known| known.clone()) else {
        return;
    };
    if !process.has_begun() {
        return;
    }
    let (done, is_done) = crossbeam_channel::unbounded();
    let finish = move || {
        process.finish(EXIT_WITHIN);
        let _ = done.send(());
    };
    let finishing = signals::blocked(|| thread::Builder::new().spawn(finish));
    if finishing.is_ok() {
        let _ = is_done.recv_timeout(EXIT_WITHIN);
    }
}

/// A panic was caught: devices are not to be trusted any more.
pub(crate) fn broke() {
    let known = locked().clone();
    if let Some(process) = known {
        process.break_down();
    }
}

/// Reads the options that `nd run` has put into the environment.
fn options() -> Result<ProcessOptions> {
    log::start().map_err(wrong("SOFTND_VERBS_LOG"))?;
    let mut options = ProcessOptions::default();
    options.interrupts = Some(end_waits);
    options.cancellation = Some(Cancellation {
        sleep: cancellation::sleep,
        is_cancelled: cancellation::has_come,
    });
    if environment::text("SOFTND_VERBS_AS").is_some_and(|kind| kind == "iwarp") {
        options.kind = DeviceKind::Iwarp;
    }
    if let Some(names) = environment::text("SOFTND_VERBS_NAMES") {
        options.names = names;
    }
    options.interface = environment::text("SOFTND_VERBS_INTERFACE");
    let folder = environment::variable("SOFTND_VERBS_CAPTURE");
    options.capture = folder.map(|folder| capture(folder.as_ref()));
    options.counters = environment::variable("SOFTND_VERBS_COUNTERS").map(PathBuf::from);
    options.capture_room = capture_room(options.capture_room);
    options.ports = environment::text("SOFTND_VERBS_PORTS").and_then(|text| ports(&text));
    options.crc = match environment::text("SOFTND_VERBS_CRC").as_deref() {
        Some("off") => Some(false),
        Some("on") => Some(true),
        _ => None,
    };
    options.writes = match environment::text("SOFTND_VERBS_WRITES").as_deref() {
        Some("sent") => Some(WriteCompletion::Sent),
        Some("placed") => Some(WriteCompletion::Placed),
        _ => None,
    };
    if let Some(plan) = environment::text("SOFTND_VERBS_FAULTS") {
        options.faults = Some(plan.parse().map_err(wrong("SOFTND_VERBS_FAULTS"))?);
        options.on_fault = Some(explain_words);
    }
    options.on_end = Some(explain_words);
    options.udp = udp::security()
        .transpose()
        .map_err(wrong("SOFTND_VERBS_UDP"))?;
    Ok(options)
}

/// The error of a variable with a wrong value: `nd run` has checked what it sets, so something else has set this one.
fn wrong<E: std::fmt::Display>(variable: &str) -> impl Fn(E) -> Error {
    move |error| Error::new(softverbs::Errno::INVAL, format!("{variable}: {error}"))
}

/// The file for what this process captures.
fn capture(folder: &Path) -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let mut file = program.file_name().unwrap_or_default().to_owned();
    file.push(format!("-{}.pcapng", std::process::id()));
    folder.join(file)
}

/// The room for what this process captures.
fn capture_room(room: CaptureOptions) -> CaptureOptions {
    let number = |name| environment::text(name)?.parse::<u64>().ok();
    let mut room = room.on_full(|text| {
        // The program may have closed its standard error.
        let _ = writeln!(io::stderr(), "softnd's libibverbs: {text}");
    });
    if let Some(octets) = number("SOFTND_VERBS_CAPTURE_LIMIT") {
        room = room.limit(octets);
    }
    if let Some(files) = number("SOFTND_VERBS_CAPTURE_FILES") {
        room = room.files(u32::try_from(files).unwrap_or(u32::MAX));
    }
    room
}

/// Ports as `nd run` writes them: `FIRST-LAST`.
fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let ports = first.parse().ok()?..=last.parse().ok()?;
    (!ports.is_empty() && *ports.start() > 0).then_some(ports)
}

/// The device at a place in the list.
pub(crate) fn device(index: usize) -> Result<Arc<Device>> {
    let process = process()?;
    let device = process.devices().get(index);
    device.cloned().ok_or_else(|| {
        crate::border::error(
            softverbs::Errno::NODEV,
            "the device does not exist any more",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::ports;

    #[test]
    fn ports_are_a_range_that_has_some() {
        assert_eq!(ports("7000-7010"), Some(7000..=7010));
        for wrong in ["", "7", "7-6", "0-5", "7-70000"] {
            assert_eq!(ports(wrong), None, "{wrong}");
        }
    }
}
