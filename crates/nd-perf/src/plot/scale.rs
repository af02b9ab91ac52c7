//! Logarithmic axes.

/// An axis from one value to another over this many pixels.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    pixels: f64,
    ticks: Vec<f64>,
}

impl Scale {
    /// An axis for sizes: the ends are powers of two, with at most nine ticks.
    pub(super) fn binary(values: impl Iterator<Item = f64>, pixels: f64) -> Self {
        let (low, high) = bounds(values);
        let (first, mut last) = (low.log2().floor(), high.log2().ceil());
        if last <= first {
            last = first + 1.0;
        }
        let step = ((last - first) / 8.0).ceil().max(1.0);
        let ticks = series(first, last, step).map(f64::exp2).collect();
        Self {
            low: first.exp2(),
            high: last.exp2(),
            pixels,
            ticks,
        }
    }

    /// An axis for times and rates, with ticks at 1, 2 and 5 of each power of ten, or only at the powers if there are many.
    pub(super) fn decimal(values: impl Iterator<Item = f64>, pixels: f64) -> Self {
        let (low, high) = bounds(values);
        let (first, last) = (low.log10().floor(), high.log10().ceil());
        let digits: &[f64] = if last - first <= 3.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let all: Vec<f64> = series(first, last, 1.0)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powf(power)))
            .collect();
        // The axis ends at the last tick below all values, and at the first tick above.
        let low = all.iter().copied().rfind(|tick| *tick <= low);
        let low = low.unwrap_or_else(|| 10_f64.powf(first));
        let high = all.iter().copied().find(|tick| *tick >= high);
        let high = high.unwrap_or_else(|| 10_f64.powf(last)).max(low * 2.0);
        let ticks = all
            .into_iter()
            .filter(|tick| *tick >= low && *tick <= high)
            .collect();
        Self {
            low,
            high,
            pixels,
            ticks,
        }
    }

    /// Where a value lies, in pixels from the low end.
    pub(super) fn at(&self, value: f64) -> f64 {
        (value / self.low).ln() / (self.high / self.low).ln() * self.pixels
    }

    /// The ticks and their positions.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, f64)> {
        self.ticks.iter().map(|tick| (*tick, self.at(*tick)))
    }
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low.is_finite() && low > 0.0 {
        (low, high)
    } else {
        (1.0, 1.0)
    }
}

/// From `first` to `last`, both included.
fn series(first: f64, last: f64, step: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(first), move |value| Some(value + step))
        .take_while(move |value| *value <= last + 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_lie_between_powers_of_two() {
        let scale = Scale::binary([8.0, 1024.0].into_iter(), 700.0);
        assert_eq!(
            (scale.at(8.0).round(), scale.at(1024.0).round()),
            (0.0, 700.0)
        );
        assert_eq!(scale.at(64.0).round(), 300.0);
        assert!(scale.ticks().count() <= 9);
    }

    #[test]
    fn an_axis_has_a_length_even_for_one_value() {
        for scale in [
            Scale::binary([64.0].into_iter(), 100.0),
            Scale::decimal([10.0].into_iter(), 100.0),
            Scale::decimal(std::iter::empty(), 100.0),
        ] {
            assert!(scale.ticks().count() >= 2);
            assert!(scale.ticks().all(|(_, at)| (-0.1..=100.1).contains(&at)));
        }
    }

    #[test]
    fn values_lie_inside_of_the_axis() {
        let values = [3.9e9, 6.5e6, 1.2e7];
        let scale = Scale::decimal(values.into_iter(), 300.0);
        assert!(
            values
                .iter()
                .all(|value| (0.0..=300.0).contains(&scale.at(*value)))
        );
    }
}
