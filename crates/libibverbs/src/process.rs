//! The devices of this process, and how `nd run` wants them.

use std::env;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use softverbs::{Device, DeviceKind, Error, Process, ProcessOptions, Result};

use crate::border::{at_exit, end_waits, forked, watch_forks};

/// How long the end of the program may take.
const EXIT_WITHIN: Duration = Duration::from_secs(2);

/// The process object, and how many forks the process had behind it then.
static PROCESS: Mutex<Option<(u32, Arc<Process>)>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<(u32, Arc<Process>)>> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The devices. They are made with the first call, and anew in the child of a fork.
pub(crate) fn process() -> Result<Arc<Process>> {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        watch_forks();
        at_exit(finish);
    });
    let mut known = locked();
    if let Some((forks, process)) = &*known {
        if *forks == forked() {
            return Ok(Arc::clone(process));
        }
        process.forget();
    }
    let process = Process::of_system(options()).inspect_err(say)?;
    *known = Some((forked(), Arc::clone(&process)));
    Ok(process)
}

/// Says why there are no devices: the program learns of a number alone.
fn say(error: &Error) {
    static SAID: Once = Once::new();
    SAID.call_once(|| eprintln!("softnd's libibverbs has no devices: {error}"));
}

/// The program exits: what it has sent arrives. In the child of a fork that has opened no device, nothing is its own.
///
/// Programs also exit in handlers of signals, which may have interrupted this library while it held a lock. So another thread does the
/// work, and the program waits for it as long as it may take.
extern "C" fn finish() {
    let Some((forks, process)) = PROCESS.try_lock().ok().and_then(|known| known.clone()) else {
        return;
    };
    if forks != forked() {
        return;
    }
    let (done, is_done) = mpsc::channel();
    let finishing = thread::Builder::new().spawn(move || {
        process.finish(EXIT_WITHIN);
        let _ = done.send(());
    });
    if finishing.is_ok() {
        let _ = is_done.recv_timeout(EXIT_WITHIN);
    }
}

/// A panic was caught: devices are not to be trusted any more.
pub(crate) fn broke() {
    let known = locked().clone();
    if let Some((_, process)) = known {
        process.break_down();
    }
}

/// What `nd run` has put into the environment.
fn options() -> ProcessOptions {
    let mut options = ProcessOptions::default();
    options.interrupts = Some(end_waits);
    if env::var("SOFTND_VERBS_AS").is_ok_and(|kind| kind == "iwarp") {
        options.kind = DeviceKind::Iwarp;
    }
    options.interface = env::var("SOFTND_VERBS_INTERFACE").ok();
    options.capture = env::var_os("SOFTND_VERBS_CAPTURE").map(|folder| capture(folder.as_ref()));
    options.ports = env::var("SOFTND_VERBS_PORTS")
        .ok()
        .and_then(|text| ports(&text));
    if env::var("SOFTND_VERBS_CRC").is_ok_and(|crc| crc == "off") {
        options.crc = false;
    }
    options
}

/// The file for what this process captures.
fn capture(folder: &Path) -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().display();
    folder.join(format!("{program}-{}.pcapng", std::process::id()))
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
