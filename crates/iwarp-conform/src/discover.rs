//! Finds out what a target can do, by connections before the first check.

use crate::bench::Bench;
use crate::checks;
use conform_report::{Step, Stop};

impl Bench {
    /// Makes the first connections, and finds out what the target can do.
    ///
    /// # Errors
    ///
    /// If the target cannot be reached, or no connection can be made.
    pub fn discover(&mut self) -> Step {
        if self.wants.markers
            && let Err(stop) = self.begin(&self.plan())
        {
            let why = match stop {
                Stop::Fail { seen, .. } => seen,
                other => return Err(other),
            };
            self.wants.markers = false;
            self.facts.notes.push(format!(
                "the target does not take M = 1 ({why}): markers are off"
            ));
        }
        self.facts.service = self.wants.service;
        let mut conn = match self.open() {
            Ok(conn) => conn,
            Err(Stop::Broken(why)) => return Err(Stop::Broken(why)),
            Err(Stop::Fail { seen, .. }) if self.wants.service => {
                self.facts.service = false;
                self.facts.notes.push(format!(
                    "the target does not speak the Send protocol (to its hello: {seen})"
                ));
                self.open()?
            }
            Err(other) => return Err(other),
        };
        self.facts.crc = conn.crc;
        self.facts.markers_in = conn.markers_in.is_some();
        self.facts.markers_out = conn.markers_out.is_some();
        self.facts.offer = conn.offer.take();
        if let Some(frame) = &conn.frame {
            let limits = frame.limits();
            self.facts.enhanced = limits.is_some();
            self.facts.peer_to_peer = limits.is_some_and(|limits| limits.a);
        }
        if self.wants.markers != self.facts.markers_in {
            self.facts
                .notes
                .push("markers are not what was asked for".to_owned());
        }
        if self.wants.crc != self.facts.crc {
            self.facts
                .notes
                .push("the target insists on CRCs".to_owned());
        }
        conn.finish();
        drop(conn);
        self.facts.atomics = checks::takes_atomics(self)?;
        self.facts.immediate = checks::takes_immediate(self)?;
        Ok(())
    }
}
