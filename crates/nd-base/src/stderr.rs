//! Messages for people, on standard error.

use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether nothing more is to be written.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Writes nothing more: a signal ends the program, or another process reports the error.
pub fn silence() {
    SILENT.store(true, Ordering::SeqCst);
}

/// Writes a line. The exit status does not depend on whether the line can be written.
pub fn note(text: impl Display) {
    if SILENT.load(Ordering::SeqCst) {
        return;
    }
    let _ = writeln!(std::io::stderr().lock(), "nd: {text}");
}

/// Lines that unknown peers cause. They cannot fill standard error.
#[derive(Debug, Default)]
pub struct Remarks(Mutex<Minute>);

impl Remarks {
    /// Writes a line, unless there were too many within a minute. A later line says how many were left out.
    pub fn remark(&self, text: impl Display) {
        let mut minute = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left_out) = minute.next(Instant::now()) {
            note(format_args!(
                "left out {left_out} more such lines in a minute"
            ));
        }
        if minute.may_speak() {
            note(text);
        }
    }
}

/// The lines of a minute.
#[derive(Debug, Default)]
struct Minute {
    since: Option<Instant>,
    made: u32,
    left_out: u32,
}

impl Minute {
    /// The most lines in a minute.
    const MOST: u32 = 10;

    /// Begins to count anew when a minute has passed. Returns how many lines were left out in this minute, if any.
    fn next(&mut self, now: Instant) -> Option<u32> {
        let minute = Duration::from_secs(60);
        if self.since.is_some_and(|since| now - since < minute) {
            return None;
        }
        let left_out = self.left_out;
        *self = Self {
            since: Some(now),
            ..Self::default()
        };
        (left_out > 0).then_some(left_out)
    }

    fn may_speak(&mut self) -> bool {
        let may = self.made < Self::MOST;
        let count = if may {
            &mut self.made
        } else {
            &mut self.left_out
        };
        *count += 1;
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_strangers_is_a_few_lines_a_minute() {
        let mut minute = Minute::default();
        let begun = Instant::now();
        assert_eq!(minute.next(begun), None);
        let lines = (0..1000).filter(|_| minute.may_speak()).count();
        assert_eq!(lines, 10);
        assert_eq!(minute.next(begun + Duration::from_secs(59)), None);
        assert_eq!(minute.next(begun + Duration::from_secs(60)), Some(990));
        assert!(minute.may_speak());
    }
}
