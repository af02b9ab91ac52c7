//! Two measurements of each turn, their ratio, and its bound.

use std::fmt;

use super::{Failure, median};

/// The two measurements of one turn, both in nanoseconds or both in octets per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// What is judged.
    pub measured: f64,
    /// What it is compared with.
    pub beside: f64,
}

/// The bound of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Times.
    AtMost(f64),
    /// Rates.
    AtLeast(f64),
}

impl Bound {
    /// Returns true if the ratio is within the bound.
    #[must_use]
    pub const fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) => ratio >= least,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "at most {most:.2}"),
            Self::AtLeast(least) => write!(f, "at least {least:.2}"),
        }
    }
}

/// The turns of a comparison, and what is required of their ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// In order.
    pub turns: Vec<Pair>,
    /// Times are limited from above, and rates from below.
    pub bound: Bound,
}

impl Pairs {
    /// Measures both sides in each turn. Which begins, changes from turn to turn.
    ///
    /// # Errors
    ///
    /// The first failure of a side.
    pub fn measure(
        turns: usize,
        name: &str,
        bound: Bound,
        mut measured: impl FnMut() -> Result<f64, Failure>,
        mut beside: impl FnMut() -> Result<f64, Failure>,
    ) -> Result<Self, Failure> {
        let turn = |turn: usize| {
            eprintln!("{name}: turn {turn} of {turns}");
            if turn.is_multiple_of(2) {
                let measured = measured()?;
                let beside = beside()?;
                Ok(Pair { measured, beside })
            } else {
                let beside = beside()?;
                let measured = measured()?;
                Ok(Pair { measured, beside })
            }
        };
        let turns = (0..turns).map(turn).collect::<Result<_, Failure>>()?;
        Ok(Self { turns, bound })
    }

    /// The medians of both sides.
    #[must_use]
    pub fn medians(&self) -> Option<Pair> {
        Some(Pair {
            measured: median(self.turns.iter().map(|pair| pair.measured))?,
            beside: median(self.turns.iter().map(|pair| pair.beside))?,
        })
    }

    /// The median of the ratios within each turn, and what half of them lie between.
    #[must_use]
    pub fn ratio(&self) -> Option<(f64, f64, f64)> {
        let ratios = self.turns.iter().map(|pair| pair.measured / pair.beside);
        let mut ratios: Vec<_> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        let last = ratios.len().checked_sub(1)?;
        let middle = median(ratios.iter().copied())?;
        Some((middle, ratios[last / 4], ratios[last - last / 4]))
    }

    /// Returns true if the median of the ratios is within the bound.
    #[must_use]
    pub fn holds(&self) -> bool {
        let ratio = self.ratio();
        ratio.is_some_and(|(middle, ..)| self.bound.holds(middle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_begin_in_turn_and_ratios_are_those_within_a_turn() {
        let order = std::cell::RefCell::new(String::new());
        let side = |name, figures: [f64; 3]| {
            let (order, mut figures) = (&order, figures.into_iter());
            move || {
                order.borrow_mut().push(name);
                figures.next().ok_or_else(|| Failure::new("no more turns"))
            }
        };
        let bound = Bound::AtMost(1.5);
        let pairs = Pairs::measure(
            3,
            "",
            bound,
            side('m', [4.0, 2.0, 9.0]),
            side('b', [2.0, 4.0, 3.0]),
        );
        let pairs = pairs.unwrap();
        assert_eq!(*order.borrow(), "mbbmmb");
        let medians = Pair {
            measured: 4.0,
            beside: 3.0,
        };
        assert_eq!(pairs.medians(), Some(medians));
        assert_eq!(pairs.ratio(), Some((2.0, 0.5, 3.0)));
        assert!(Pairs::measure(4, "", bound, side('m', [1.0; 3]), side('b', [1.0; 3])).is_err());
    }

    #[test]
    fn the_median_of_the_ratios_is_judged_and_no_turns_hold_nothing() {
        let pairs = |ratios: &[f64], bound| Pairs {
            turns: ratios
                .iter()
                .map(|ratio| Pair {
                    measured: 8.0 * ratio,
                    beside: 8.0,
                })
                .collect(),
            bound,
        };
        let (times, rates) = (Bound::AtMost(1.5), Bound::AtLeast(0.5));
        assert!(pairs(&[1.0, 1.5, 9.0], times).holds());
        assert!(!pairs(&[1.0, 1.75, 1.75], times).holds());
        assert!(pairs(&[0.25, 0.5, 1.0], rates).holds());
        assert!(!pairs(&[0.25, 0.25, 1.0], rates).holds());
        let none = pairs(&[], rates);
        assert!(!none.holds() && none.medians().is_none() && none.ratio().is_none());
    }
}
