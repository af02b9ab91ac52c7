//! A process that has no descriptors left: what is told of it, and who is served when one is free again.
//!
//! The limit is the process's, so that these tests are alone in theirs and run one after the other.

mod common;

use std::fmt::Write as _;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use common::Side;
use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Enough for what a test has open, and soon used up.
const DESCRIPTORS: u64 = 256;

/// The lines that were logged as warnings and errors.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Log;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The lines about something, since the test began.
fn lines_about(what: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap();
    let about = lines.iter().filter(|line| line.contains(what));
    about.cloned().collect()
}

/// One test at a time, with a log of its own.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    static LOG: OnceLock<()> = OnceLock::new();
    let one = ONE.lock().unwrap_or_else(|failed| failed.into_inner());
    LOG.get_or_init(|| tracing::subscriber::set_global_default(Log).unwrap());
    LINES.lock().unwrap().clear();
    one
}

/// All the descriptors that the process may still have; with it they are free again.
struct Hoard {
    _files: Vec<File>,
}

impl Hoard {
    fn new() -> Self {
        limit(DESCRIPTORS);
        let mut files = vec![File::open("/dev/null").unwrap()];
        while let Ok(next) = files[0].try_clone() {
            files.push(next);
        }
        Self { _files: files }
    }
}

impl Drop for Hoard {
    fn drop(&mut self) {
        limit(u64::MAX);
    }
}

/// Allows the process so many descriptors, or as many as it may have.
fn limit(descriptors: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    limit.current = Some(descriptors.min(most));
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn threads_that_cannot_sleep_for_want_of_descriptors_fill_no_log() {
    let _alone = alone();
    let began = Instant::now();
    let side = Side::new();
    let (looks, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|threads| {
        // The first thread that waits needs no descriptor of its own.
        threads.spawn(|| {
            let done = || {
                looks.fetch_add(1, Ordering::SeqCst);
                over.load(Ordering::SeqCst)
            };
            while !over.load(Ordering::SeqCst) {
                side.file.park(&done, None);
            }
        });
        // It looks once before it is counted as the first.
        while looks.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        let hoard = Hoard::new();
        for _ in 0..1000 {
            side.file.park(&|| false, Some(Instant::now()));
        }
        drop(hoard);
        over.store(true, Ordering::SeqCst);
        side.file.wake();
    });
    let lines = lines_about("descriptors");
    let most = 1 + began.elapsed().as_secs() / 60;
    assert!(
        (1..=most).contains(&(lines.len() as u64)),
        "{} lines, at first {:?}",
        lines.len(),
        lines.first()
    );
}
