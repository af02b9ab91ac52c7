//! The sentences that `nd run --explain` asks for, on standard error: a few a second of each kind, however often a program fails.

use std::io::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rdma_buffer::environment;
use softverbs::Error;

use super::PerProcess;

/// Lines of one kind in one second.
const LINES: u64 = 10;

/// Kinds that are counted apart.
static KINDS: PerProcess<Kinds> = PerProcess::new();

struct Kinds([Kind; 64]);

impl Default for Kinds {
    fn default() -> Self {
        Self([const { Kind::new() }; 64])
    }
}

/// Prints the sentence of an error, where `nd run --explain` asks for it. An empty queue of a call that does not block is no failure.
#[cold]
pub(crate) fn explain(error: &Error) {
    // A call that is cancelled does not return.
    if !is_wanted() || error.is_no_event() || super::cancellation::has_come() {
        return;
    }
    let text = error.to_string();
    let errno = error.errno().to_string();
    // Errors of the system have it in their words.
    match text.contains(&errno) {
        true => print(&text),
        false => print(&format!("{text} ({errno})")),
    }
}

/// Prints a sentence where `nd run --explain` asks for it.
#[cold]
pub(crate) fn explain_words(text: &str) {
    if is_wanted() {
        print(text);
    }
}

fn print(text: &str) {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = seconds.map_or(0, |since| since.as_secs());
    let Some(left_out) = kind_of(text).line(seconds) else {
        return;
    };
    // The program may have closed its standard error.
    let mut stderr = std::io::stderr();
    if left_out > 0 {
        let _ = writeln!(stderr, "softnd's libibverbs: {}", left_out_words(left_out));
    }
    let _ = writeln!(stderr, "softnd's libibverbs: {text}");
}

/// The program ends: says how many lines the last seconds have left out.
pub(crate) fn finish() {
    let Some(Kinds(kinds)) = KINDS.get_if() else {
        return;
    };
    let left_out = kinds.iter().map(Kind::take_left_out).sum();
    if left_out > 0 {
        let mut stderr = std::io::stderr();
        let _ = writeln!(stderr, "softnd's libibverbs: {}", left_out_words(left_out));
    }
}

fn left_out_words(left_out: u64) -> String {
    format!("{left_out} lines were left out: {LINES} of one kind are printed in a second")
}

fn is_wanted() -> bool {
    // 0 until the environment was asked.
    static IS_WANTED: AtomicU8 = AtomicU8::new(0);
    const NO: u8 = 1;
    const YES: u8 = 2;
    if IS_WANTED.load(Ordering::Relaxed) == 0 {
        let is_wanted = environment::variable("SOFTND_VERBS_EXPLAIN").is_some();
        IS_WANTED.store(if is_wanted { YES } else { NO }, Ordering::Relaxed);
    }
    IS_WANTED.load(Ordering::Relaxed) == YES
}

/// Sentences that differ in their numbers alone are of one kind. Few others are, by chance.
fn kind_of(text: &str) -> &'static Kind {
    let letters = text.bytes().filter(|octet| !octet.is_ascii_digit());
    let hash = letters.fold(0_usize, |hash, octet| {
        hash.wrapping_mul(31).wrapping_add(usize::from(octet))
    });
    let Kinds(kinds) = KINDS.get();
    &kinds[hash % kinds.len()]
}

/// The lines of one kind: the second of the last one in the high half, and how many there were in that second, printed or not.
struct Kind(AtomicU64);

impl Kind {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A line is due. `None` if it is left out; otherwise the number of lines that were left out before.
    fn line(&self, second: u64) -> Option<u64> {
        let second = second & u64::from(u32::MAX);
        let mut known = self.0.load(Ordering::Relaxed);
        loop {
            let (last, count) = (known >> 32, known & u64::from(u32::MAX));
            let (next, printed) = if last != second {
                (1, Some(count.saturating_sub(LINES)))
            } else if count < LINES {
                (count + 1, Some(0))
            } else {
                ((count + 1).min(u32::MAX.into()), None)
            };
            let next = second << 32 | next;
            let changed =
                self.0
                    .compare_exchange_weak(known, next, Ordering::Relaxed, Ordering::Relaxed);
            match changed {
                Ok(_) => return printed,
                Err(now) => known = now,
            }
        }
    }

    fn take_left_out(&self) -> u64 {
        let count = self.0.swap(0, Ordering::Relaxed) & u64::from(u32::MAX);
        count.saturating_sub(LINES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_ten_lines_a_second_and_then_says_what_was_left_out() {
        let kind = Kind::new();
        let printed = |second, lines| {
            let lines = (0..lines).filter_map(|_| kind.line(second));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(printed(7, 10), [0; 10]);
        assert_eq!(printed(7, 25), [0; 0]);
        assert_eq!(printed(8, 3), [25, 0, 0]);
        assert_eq!(printed(9, 12).len(), 10);
        assert_eq!((kind.take_left_out(), kind.take_left_out()), (2, 0));
    }

    #[test]
    fn numbers_do_not_make_another_kind() {
        let same = |one, other| std::ptr::eq(kind_of(one), kind_of(other));
        assert!(same("port 17 is in use", "port 18 is in use"));
        assert!(!same("port 17 is in use", "there is no memory"));
    }
}
