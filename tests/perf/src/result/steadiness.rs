//! Whether a broker was warm when it was measured: what it used for a message at the beginning of the window and at its end.

use super::{ProcessUse, RunResult};

/// A run whose first third costs so much more than its last was measured too early.
const TOO_MUCH: f64 = 1.2;
/// Thirds of a window shorter than this say nothing.
const LEAST_SECONDS: f64 = 9.0;

impl RunResult {
    /// CPU seconds of the brokers per million published in the first and in the last third of the window; none for short windows.
    pub fn broker_cpu_of_thirds(&self) -> Option<(f64, f64)> {
        let window = self.throughput.window.seconds;
        if window < LEAST_SECONDS || self.brokers.is_empty() {
            return None;
        }
        let of = |from: f64, to: f64| {
            let published = mean(self.throughput.timeline.iter().map(|point| (point.second, point.published)), from, to)?;
            let cores = |broker: &ProcessUse| mean(broker.timeline.iter().map(|point| (point.second, point.cores)), from, to);
            let cores = self.brokers.iter().map(cores).sum::<Option<f64>>()?;
            (published > 0.0).then(|| cores / published * 1e6)
        };
        Some((of(0.0, window / 3.0)?, of(window * 2.0 / 3.0, window)?))
    }

    /// What to know of a broker that became cheaper while it was measured. Where the load changes by itself, nothing can be said.
    pub fn was_measured_cold(&self) -> Option<String> {
        if !self.catch_up.is_empty() || self.reconnect.is_some() {
            return None;
        }
        let (first, last) = self.broker_cpu_of_thirds()?;
        (first > last * TOO_MUCH).then(|| {
            format!(
                "the broker became cheaper while it was measured: {first:.1} CPU s per million published in the first third of the \
                 window, {last:.1} in the last; lengthen the warm-up (a Java process compiles its code while it runs)"
            )
        })
    }
}

/// The mean of the points that end inside a part of the window; none without a point.
fn mean(points: impl Iterator<Item = (f64, f64)>, from: f64, to: f64) -> Option<f64> {
    let inside: Vec<f64> = points.filter(|(second, _)| *second > from && *second <= to).map(|(_, value)| value).collect();
    (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_points_of_the_part_count() {
        let points = [(-1.0, 9.0), (1.0, 2.0), (2.0, 4.0), (3.0, 30.0)];
        assert_eq!(mean(points.into_iter(), 0.0, 2.0), Some(3.0));
        assert_eq!(mean(points.into_iter(), 5.0, 6.0), None);
    }
}
