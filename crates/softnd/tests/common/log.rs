//! Records the log while the tests of a process run.

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::{Mutex, Once};
use std::thread::{self, ThreadId};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::SIMULATED;

/// Warnings and errors.
static LINES: Mutex<Vec<Logged>> = Mutex::new(Vec::new());

struct Logged {
    thread: ThreadId,
    line: String,
}

/// At the end of the lines of events that are in a span.
pub const IN_SPAN: &str = "in the span of a connection";

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
        if event.parent().is_some() {
            line.0 += IN_SPAN;
        }
        LINES.lock().unwrap().push(Logged {
            thread: thread::current().id(),
            line: line.0,
        });
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// From here on lines are kept: those of the process, or in a simulated network, where nothing happens in other threads, those of the
/// test's own thread.
pub fn keep() {
    static ONCE: Once = Once::new();
    thread_local! {
        static KEPT: Cell<bool> = const { Cell::new(false) };
    }
    if !SIMULATED {
        ONCE.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
    } else if !KEPT.replace(true) {
        std::mem::forget(tracing::subscriber::set_default(Log)); // to the thread's end
    }
}

/// The lines that contain all of these words.
pub fn lines_with(words: &[&str]) -> Vec<String> {
    let lines = LINES.lock().unwrap();
    let here = |line: &&Logged| !SIMULATED || line.thread == thread::current().id();
    let all = |line: &String| words.iter().all(|word| line.contains(word));
    let lines = lines.iter().filter(here).map(|logged| &logged.line);
    lines.filter(|line| all(line)).cloned().collect()
}
