//! Two measurements of each turn, and their ratio.

use super::{Failure, median};

/// The two measurements of one turn, both in nanoseconds or both in octets per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// What is judged.
    pub measured: f64,
    /// What it is compared with.
    pub beside: f64,
}

/// The turns of a comparison, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs(pub Vec<Pair>);

impl Pairs {
    /// Measures both sides in each turn. Which begins, changes from turn to turn.
    ///
    /// # Errors
    ///
    /// The first failure of a side.
    pub fn measure(
        turns: usize,
        name: &str,
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
        (0..turns).map(turn).collect::<Result<_, _>>().map(Self)
    }

    /// The medians of both sides.
    #[must_use]
    pub fn medians(&self) -> Option<Pair> {
        Some(Pair {
            measured: median(self.0.iter().map(|pair| pair.measured))?,
            beside: median(self.0.iter().map(|pair| pair.beside))?,
        })
    }

    /// The median of the ratios within each turn, and what half of them lie between.
    #[must_use]
    pub fn ratio(&self) -> Option<(f64, f64, f64)> {
        let ratios = self.0.iter().map(|pair| pair.measured / pair.beside);
        let mut ratios: Vec<_> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        let last = ratios.len().checked_sub(1)?;
        let middle = median(ratios.iter().copied())?;
        Some((middle, ratios[last / 4], ratios[last - last / 4]))
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
        let pairs = Pairs::measure(
            3,
            "",
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
        assert!(Pairs::measure(4, "", side('m', [1.0; 3]), side('b', [1.0; 3])).is_err());
        assert!(Pairs::default().medians().is_none() && Pairs::default().ratio().is_none());
    }
}
