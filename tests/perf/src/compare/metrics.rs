//! The figures of a comparison.

use serde::Serialize;

use crate::{
    report::{
        figures::{megabytes, micros, number, whole},
        sections::slowest_from_the_start,
    },
    result::{LatencySummary, ProcessUse, RunResult, ThreadKind},
};

/// Median and extremes of one figure over the runs of a set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one; of an even number the mean of the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many runs have the figure.
    pub runs: usize,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] };
        Some(Self { median, min, max, runs: values.len() })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

/// What a difference is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// No run of B is as bad as any of A.
    Better,
    /// No run of B is as good as any of A.
    Worse,
    /// The ranges lie apart, and nobody says which is better.
    Apart,
    /// The ranges overlap: the difference may be chance.
    Overlap,
    /// One run on a side, so nobody knows how far runs differ by chance.
    SingleRun,
    /// One side does not have the figure.
    Missing,
}

impl Judgement {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Apart => "differs",
            Self::Overlap => "ranges overlap",
            Self::SingleRun => "single run: spread unknown",
            Self::Missing => "not in both",
        }
    }

    pub(super) fn style(self) -> &'static str {
        match self {
            Self::Better => "good",
            Self::Worse => "bad",
            Self::Apart | Self::Overlap | Self::SingleRun | Self::Missing => "",
        }
    }
}

/// One figure of both sets.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it is.
    pub name: &'static str,
    /// Of the first set.
    pub a: Option<Spread>,
    /// Of the second.
    pub b: Option<Spread>,
    /// Of the medians, in per cent of the first.
    pub change: Option<f64>,
    /// What that is worth.
    pub judgement: Judgement,
    #[serde(skip)]
    spell: fn(f64) -> String,
}

impl Row {
    pub(super) fn spelt(&self, spread: Option<&Spread>) -> String {
        let spell = self.spell;
        match spread {
            None => "–".to_owned(),
            Some(one) if one.runs == 1 => spell(one.median),
            Some(several) => format!("{} ({}–{})", spell(several.median), spell(several.min), spell(several.max)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Good {
    High,
    Low,
    Neither,
}

struct Metric {
    name: &'static str,
    good: Good,
    spell: fn(f64) -> String,
    of: fn(&RunResult) -> Option<f64>,
}

const fn metric(name: &'static str, good: Good, spell: fn(f64) -> String, of: fn(&RunResult) -> Option<f64>) -> Metric {
    Metric { name, good, spell, of }
}

const METRICS: &[Metric] = &[
    metric("messages published per second", Good::High, whole, |run| Some(run.throughput.window.published_per_second())),
    metric("messages delivered per second", Good::High, whole, |run| Some(run.throughput.window.delivered_per_second())),
    metric("publish latency p50", Good::Low, micros, |run| percentile(&run.latency.publish, 50.0)),
    metric("publish latency p99", Good::Low, micros, |run| percentile(&run.latency.publish, 99.0)),
    metric("publish latency p99.9", Good::Low, micros, |run| percentile(&run.latency.publish, 99.9)),
    metric("publish latency max", Good::Low, micros, |run| most(&run.latency.publish)),
    metric("end to end latency p50", Good::Low, micros, |run| percentile(&run.latency.end_to_end, 50.0)),
    metric("end to end latency p99", Good::Low, micros, |run| percentile(&run.latency.end_to_end, 99.0)),
    metric("end to end latency p99.9", Good::Low, micros, |run| percentile(&run.latency.end_to_end, 99.9)),
    metric("end to end latency max", Good::Low, micros, |run| most(&run.latency.end_to_end)),
    metric("end to end latency p99, there from the start", Good::Low, micros, |run| percentile(slowest_from_the_start(run)?, 99.0)),
    metric("broker CPU s per million published", Good::Low, number, RunResult::broker_cpu_per_million),
    metric("broker CPU s per GB published", Good::Low, number, RunResult::broker_cpu_per_gigabyte),
    metric("broker cores busy", Good::Neither, number, |run| {
        let seconds = run.brokers.first()?.seconds;
        (seconds > 0.0).then(|| run.broker_cpu_seconds().map(|cpu| cpu / seconds))?
    }),
    metric("broker RSS max", Good::Low, megabytes, |run| of_broker(run, |broker| Some(broker.rss_max as f64))),
    metric("voluntary switches per million published", Good::Low, whole, |run| {
        let published = run.throughput.window.published as f64 / 1e6;
        of_broker(run, |broker| (published > 0.0).then(|| broker.voluntary_switches as f64 / published))
    }),
    metric("I/O loops above 5 % of a core", Good::Neither, whole, |run| {
        of_broker(run, |broker| broker.threads.as_ref().map(|threads| threads.busy_loops as f64))
    }),
    metric("busiest I/O loop, % of a core", Good::Neither, number, |run| {
        of_broker(run, |broker| {
            broker.threads.as_ref()?.threads.iter().find(|thread| thread.kind == ThreadKind::Loop).map(|thread| thread.share * 100.0)
        })
    }),
    metric("load generator cores busy", Good::Neither, number, |run| {
        run.generator.as_ref().filter(|process| process.seconds > 0.0).map(|process| process.cpu_seconds / process.seconds)
    }),
    metric("cache hit ratio, %", Good::High, number, |run| Some(run.cache.as_ref()?.hit_ratio()? * 100.0)),
    metric("storage reads", Good::Low, whole, |run| Some(run.cache.as_ref()?.storage_reads? as f64)),
    metric("entries read from storage", Good::Low, whole, |run| Some(run.cache.as_ref()?.storage_entries? as f64)),
    metric("first to catch up, s since the run's start", Good::Low, number, |run| earliest(run, |one| one.since_run_start)),
    metric("first to catch up, s since it joined", Good::Low, number, |run| earliest(run, |one| one.since_join)),
    metric("last to catch up, s since the run's start", Good::Low, number, |run| latest(run, |one| one.since_run_start)),
    metric("last to catch up, s since it joined", Good::Low, number, |run| latest(run, |one| one.since_join)),
    metric("all publish after a restart, s", Good::Low, number, |run| run.reconnect.as_ref()?.all_publish),
    metric("duplicates", Good::Neither, whole, |run| Some(run.correctness.duplicates() as f64)),
];

fn percentile(summary: &LatencySummary, at: f64) -> Option<f64> {
    summary.percentile(at).filter(|_| summary.count > 0).map(|micros| micros as f64)
}

fn most(summary: &LatencySummary) -> Option<f64> {
    (summary.count > 0).then_some(summary.max as f64)
}

fn of_broker(run: &RunResult, of: impl Fn(&ProcessUse) -> Option<f64>) -> Option<f64> {
    run.brokers.first().and_then(of)
}

fn earliest(run: &RunResult, clock: fn(&crate::result::CatchUp) -> Option<f64>) -> Option<f64> {
    run.catch_up.iter().filter_map(clock).min_by(f64::total_cmp)
}

/// None unless all of them caught up: the last one that did says nothing about those that did not.
fn latest(run: &RunResult, clock: fn(&crate::result::CatchUp) -> Option<f64>) -> Option<f64> {
    let all: Option<Vec<f64>> = run.catch_up.iter().map(clock).collect();
    all?.into_iter().max_by(f64::total_cmp)
}

/// Every figure that one of the sets has.
pub(super) fn rows(a: &[RunResult], b: &[RunResult]) -> Vec<Row> {
    let row = |metric: &Metric| {
        let spread = |runs: &[RunResult]| Spread::of(runs.iter().filter_map(metric.of).collect());
        let (a, b) = (spread(a), spread(b));
        let change = a.zip(b).filter(|(a, _)| a.median != 0.0).map(|(a, b)| (b.median / a.median - 1.0) * 100.0);
        (a.is_some() || b.is_some()).then(|| Row {
            name: metric.name,
            a,
            b,
            change,
            judgement: judge(metric.good, a, b),
            spell: metric.spell,
        })
    };
    METRICS.iter().filter_map(row).collect()
}

fn judge(good: Good, a: Option<Spread>, b: Option<Spread>) -> Judgement {
    let Some((a, b)) = a.zip(b) else {
        return Judgement::Missing;
    };
    if a.runs == 1 || b.runs == 1 {
        return Judgement::SingleRun;
    }
    match (a.overlaps(&b), good) {
        (true, _) => Judgement::Overlap,
        (false, Good::Neither) => Judgement::Apart,
        (false, Good::High) if b.median > a.median => Judgement::Better,
        (false, Good::Low) if b.median < a.median => Judgement::Better,
        (false, _) => Judgement::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Option<Spread> {
        Spread::of(values.to_vec())
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(spread(&[4.0, 1.0, 2.0, 10.0]).unwrap().median, 3.0);
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn ranges_that_touch_overlap() {
        assert_eq!(judge(Good::High, spread(&[1.0, 2.0]), spread(&[2.0, 3.0])), Judgement::Overlap);
        assert_eq!(judge(Good::High, spread(&[1.0, 2.0]), spread(&[2.1, 3.0])), Judgement::Better);
        assert_eq!(judge(Good::Low, spread(&[1.0, 2.0]), spread(&[2.1, 3.0])), Judgement::Worse);
    }

    #[test]
    fn a_single_run_has_no_spread_to_judge_by() {
        assert_eq!(judge(Good::High, spread(&[1.0]), spread(&[2.0, 3.0])), Judgement::SingleRun);
        assert_eq!(judge(Good::High, spread(&[]), spread(&[2.0, 3.0])), Judgement::Missing);
    }
}
