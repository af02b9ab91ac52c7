//! The progress of the pings, and their summary.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::exchange;
use crate::errors::{Failure, Result, one_line};
use crate::output;
use crate::units;

/// The progress of the pings.
#[derive(Debug)]
pub(super) struct Pings {
    pub(super) wanted: u64,
    pub(super) done: u64,
    octets: u64,
    begun: Option<Instant>,
    time: Duration,
    show: bool,
    bar: ProgressBar,
}

impl Pings {
    pub(super) fn new(wanted: u64, show: bool) -> Self {
        // Hidden unless standard error is a terminal.
        let bar = if wanted == 0 {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::new(wanted)
        };
        let template = if wanted == 0 {
            "{spinner} {pos} pings, {per_sec}"
        } else {
            "{wide_bar} {pos}/{len} pings, {per_sec}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            wanted,
            done: 0,
            octets: 0,
            begun: None,
            time: Duration::ZERO,
            show,
            bar,
        }
    }

    /// The connection is established. The time counts from here on.
    pub(super) fn begin(&mut self) {
        self.begun = Some(Instant::now());
    }

    /// Returns true if another ping is wanted.
    pub(super) fn more(&self) -> bool {
        self.wanted == 0 || self.done < self.wanted
    }

    /// Counts one more success. `title` is rping's name for the data.
    pub(super) fn count(&mut self, title: &str, data: &[u8]) -> Result<()> {
        self.done += 1;
        self.octets += data.len() as u64;
        self.time = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        self.bar.set_position(self.done);
        if self.show {
            let text = one_line(&exchange::text(data));
            self.bar
                .suspend(|| output::line(format_args!("{title}: {text}")))?;
        }
        Ok(())
    }

    /// Ends the pings and removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// `100 pings, 6400 B each way, in 12 ms (120 µs each)`.
    pub(super) fn summary(&self) -> String {
        let plural = if self.done == 1 { "" } else { "s" };
        let each = u32::try_from(self.done)
            .ok()
            .and_then(|done| self.time.checked_div(done))
            .unwrap_or_default();
        format!(
            "{} ping{plural}, {} each way, in {} ({} each)",
            self.done,
            units::bytes(self.octets),
            units::time(self.time),
            units::time(each)
        )
    }
}

/// The error for a peer that ended the connection before all pings were done.
pub(super) fn early(pings: &Pings) -> Failure {
    Failure::peer(
        format!(
            "the other side ended the connection after {} of {} pings",
            pings.done, pings.wanted
        ),
        "look at what it says",
    )
}
