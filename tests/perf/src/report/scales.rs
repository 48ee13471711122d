//! Where an axis begins and ends, and where it has its ticks.

/// An axis that is ready to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) ticks: Vec<f64>,
}

const STEPS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

impl Scale {
    /// A linear axis over these values, with about `wanted` ticks at round numbers; it ends at a tick.
    pub(crate) fn linear(from: f64, to: f64, wanted: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        let step = round_step((to - from) / wanted);
        let first = (from / step).floor();
        let last = (to / step - 1e-9).ceil();
        let ticks: Vec<f64> = (first as i64..=last as i64).map(|at| at as f64 * step).collect();
        Self { from: first * step, to: last * step, ticks }
    }

    /// A linear axis over exactly these values.
    pub(crate) fn exact(from: f64, to: f64, wanted: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        let round = Self::linear(from, to, wanted);
        let ticks = round.ticks.into_iter().filter(|tick| *tick >= from - 1e-9 && *tick <= to + 1e-9).collect();
        Self { from, to, ticks }
    }

    /// A logarithmic axis: decades, and what lies between when there are few of them.
    pub(crate) fn logarithmic(from: f64, to: f64) -> Self {
        let from = from.max(1e-9);
        let to = to.max(from * 1.01);
        let between: &[f64] = if (to / from).log10() < 3.0 { &STEPS[..3] } else { &STEPS[..1] };
        let decades = from.log10().floor() as i32..=to.log10().ceil() as i32;
        let all: Vec<f64> = decades.flat_map(|decade| between.iter().map(move |step| step * 10f64.powi(decade))).collect();
        let begin = all.iter().copied().rfind(|tick| *tick <= from * 1.0001).unwrap_or(from);
        let end = all.iter().copied().find(|tick| *tick >= to * 0.9999).unwrap_or(to);
        let ticks = all.into_iter().filter(|tick| *tick >= begin && *tick <= end).collect();
        Self { from: begin, to: end, ticks }
    }
}

fn round_step(step: f64) -> f64 {
    let decade = 10f64.powf(step.log10().floor());
    STEPS.into_iter().map(|factor| factor * decade).find(|round| *round >= step * 0.999).unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_ends_at_round_numbers() {
        let scale = Scale::linear(0.0, 437_000.0, 5.0);
        assert_eq!((scale.from, scale.to), (0.0, 500_000.0));
        assert_eq!(scale.ticks.len(), 6);
    }

    #[test]
    fn an_axis_without_extent_is_still_one() {
        assert!(Scale::linear(0.0, 0.0, 5.0).to > 0.0);
        assert!(Scale::logarithmic(0.0, 0.0).to > 0.0);
    }

    #[test]
    fn a_logarithmic_axis_has_ticks_inside_one_decade() {
        let scale = Scale::logarithmic(1_500.0, 4_200.0);
        assert_eq!(scale.ticks, [1_000.0, 2_000.0, 5_000.0]);
    }

    #[test]
    fn an_exact_axis_keeps_to_its_ends() {
        let scale = Scale::exact(-20.0, 121.5, 8.0);
        assert_eq!((scale.from, scale.to), (-20.0, 121.5));
        assert!(scale.ticks.contains(&0.0) && scale.ticks.iter().all(|tick| *tick <= 121.5));
    }
}
