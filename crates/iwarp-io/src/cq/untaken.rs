//! The results of one queue of requests that its client has not taken yet.

use std::collections::VecDeque;

/// The numbers of results that were placed in one completion queue and are not known to be taken.
///
/// A slot of a queue of requests is used until the result of its request has been taken. Nobody tells the queue of requests of that. It notes
/// the number of each result here, and when it has no free slot, it compares these numbers with the [number of results
/// taken](super::Queue::taken).
///
/// ```
/// use iwarp_io::cq::Untaken;
///
/// let mut untaken = Untaken::default();
/// untaken.placed(7, 2);
/// assert_eq!(untaken.take_below(8), 1);
/// assert_eq!(untaken.take_below(8), 0);
/// assert_eq!(untaken.take_below(100), 1);
/// ```
#[derive(Debug, Default)]
pub struct Untaken {
    /// The last run. Neighbouring numbers are one run, so that a completion queue with a single user has no other.
    last: Run,
    /// The runs before it.
    before: VecDeque<Run>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    first: u64,
    end: u64,
}

impl Run {
    const fn is_empty(&self) -> bool {
        self.first == self.end
    }
}

impl Untaken {
    /// Results with the numbers from `first` on were placed. Larger numbers may have been noted before, if several threads place results.
    #[inline]
    pub fn placed(&mut self, first: u64, count: u64) {
        if self.last.end == first {
            self.last.end = first + count;
        } else {
            self.begin(Run {
                first,
                end: first + count,
            });
        }
    }

    /// Notes a run that does not continue the last one.
    #[inline(never)]
    fn begin(&mut self, run: Run) {
        if self.last.is_empty() {
            self.last = run;
        } else if run.first > self.last.first {
            self.before.push_back(self.last);
            self.last = run;
        } else {
            let at = self.before.partition_point(|other| other.first < run.first);
            self.before.insert(at, run);
        }
    }

    /// The smallest number.
    #[inline]
    pub fn oldest(&self) -> Option<u64> {
        let first = self.before.front().unwrap_or(&self.last);
        (!first.is_empty()).then_some(first.first)
    }

    /// Forgets this number, of a result that was removed. Returns true if it was known.
    pub fn remove(&mut self, number: u64) -> bool {
        let in_last = (self.last.first..self.last.end).contains(&number);
        if in_last {
            let Run { first, end } = self.last;
            self.last.first = number + 1;
            if first < number {
                self.before.push_back(Run { first, end: number });
            }
            return self.take_back_last(end);
        }
        let at = self.before.partition_point(|run| run.end <= number);
        let Some(Run { first, end }) = self.before.get(at).copied() else {
            return false;
        };
        if number < first {
            return false;
        }
        self.before.remove(at);
        if number + 1 < end {
            self.before.insert(
                at,
                Run {
                    first: number + 1,
                    end,
                },
            );
        }
        if first < number {
            self.before.insert(at, Run { first, end: number });
        }
        true
    }

    /// If the last run, which ends at `end`, has become empty, the one before it takes its place. Returns true.
    fn take_back_last(&mut self, end: u64) -> bool {
        if self.last.is_empty() {
            self.last = self.before.pop_back().unwrap_or(Run { first: end, end });
        }
        true
    }

    /// Forgets all numbers below `end`, and returns how many these are.
    pub fn take_below(&mut self, end: u64) -> u64 {
        let end = if crate::planted!(SlotFreeEarly) {
            u64::MAX
        } else {
            end
        };
        let mut count = 0;
        while let Some(run) = self.before.front_mut() {
            if run.end > end {
                let taken = end.saturating_sub(run.first);
                run.first += taken;
                return count + taken;
            }
            count += run.end - run.first;
            self.before.pop_front();
        }
        let taken = end.min(self.last.end).saturating_sub(self.last.first);
        self.last.first += taken;
        count + taken
    }
}

/// Calls `run` for each run of neighbours with the same flag: with the flag, the number of the first one, and how many there are. The
/// first flag has the number `first`.
#[inline]
pub fn each_run(
    first: u64,
    flags: impl Iterator<Item = bool>,
    mut run: impl FnMut(bool, u64, u64),
) {
    let mut current = (false, first);
    let mut number = first;
    for flag in flags {
        if flag != current.0 {
            if number > current.1 {
                run(current.0, current.1, number - current.1);
            }
            current = (flag, number);
        }
        number += 1;
    }
    if number > current.1 {
        run(current.0, current.1, number - current.1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_are_neighbours_with_the_same_flag() {
        for (flags, runs) in [
            (&[][..], &[][..]),
            (&[false], &[(false, 7, 1)]),
            (&[true, true], &[(true, 7, 2)]),
            (
                &[false, true, true, false],
                &[(false, 7, 1), (true, 8, 2), (false, 10, 1)],
            ),
        ] {
            let mut found = Vec::new();
            each_run(7, flags.iter().copied(), |flag, first, count| {
                found.push((flag, first, count));
            });
            assert_eq!(found, runs);
        }
    }

    proptest! {
        /// Numbers are handed out in order, and noted in another one: as by threads that are held up in between.
        #[test]
        fn what_was_placed_is_counted_once_when_it_was_taken(
            counts in prop::collection::vec((1..5u64, any::<bool>(), any::<prop::sample::Index>()), 1..60),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            heads in prop::collection::vec(0..200u64, 1..10),
        ) {
            let mut late = Vec::new();
            let mut untaken = Untaken::default();
            let mut plain = std::collections::BTreeSet::new();
            let mut number = 0;
            let mut heads = heads;
            heads.sort_unstable();
            let note = |untaken: &mut Untaken, plain: &mut std::collections::BTreeSet<u64>, (first, count)| {
                untaken.placed(first, count);
                plain.extend(first..first + count);
            };
            for (count, is_late, at) in counts {
                let run = (number, count);
                // Other queues of requests have the numbers in between.
                number += count + u64::from(at.index(2) == 0);
                if is_late {
                    late.push(run);
                    continue;
                }
                note(&mut untaken, &mut plain, run);
                if !late.is_empty() {
                    let run = late.swap_remove(at.index(late.len()));
                    note(&mut untaken, &mut plain, run);
                }
            }
            for run in late {
                note(&mut untaken, &mut plain, run);
            }
            for at in removed {
                let number = at.index(usize::try_from(number).unwrap()) as u64;
                prop_assert_eq!(untaken.remove(number), plain.remove(&number));
            }
            for head in heads {
                let left = plain.split_off(&head);
                let taken = std::mem::replace(&mut plain, left).len() as u64;
                prop_assert_eq!(untaken.take_below(head), taken);
                prop_assert_eq!(untaken.oldest(), plain.first().copied());
            }
        }
    }
}
