//! Which steps a check has made: the last one is named when the check hangs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// How many steps a report shows.
const KEPT: usize = 16;

/// The steps of one check. Clones are the same steps.
#[derive(Clone, Debug, Default)]
pub struct Steps(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    last: VecDeque<String>,
    left_out: usize,
}

impl Steps {
    /// A step begins.
    pub fn begin(&self, what: impl Into<String>) {
        let what = what.into();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A call and the wait for its request are one step, if they are called the same.
        if kept.last.back() == Some(&what) {
            return;
        }
        if kept.last.len() == KEPT {
            kept.last.pop_front();
            kept.left_out += 1;
        }
        kept.last.push_back(what);
    }

    /// The step that is under way.
    pub fn current(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last
            .back()
            .map_or_else(|| "open the adapters".to_owned(), Clone::clone)
    }

    /// The last steps, oldest first.
    pub fn trace(&self) -> Vec<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = (kept.left_out > 0).then(|| format!("({} steps before)", kept.left_out));
        left_out
            .into_iter()
            .chain(kept.last.iter().cloned())
            .collect()
    }
}
