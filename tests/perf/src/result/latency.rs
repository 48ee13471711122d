//! Latency as it is kept: the whole histogram, the figures people ask for, and their course over time.

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer, V2DeflateSerializer},
};
use serde::{Deserialize, Serialize};

/// What reports show, besides the maximum.
pub const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999];

/// Microseconds up to an hour, three digits: the bounds that all of the framework's histograms share, so that they can be added.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("bounds that hdrhistogram takes")
}

/// A histogram of microseconds, with what is usually read from it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencySummary {
    /// The whole histogram: HdrHistogram V2, compressed, in base64, as its log files have it.
    pub histogram: String,
    /// Messages in it.
    pub count: u64,
    /// The fastest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// Each of [`PERCENTILES`] with its value.
    pub percentiles: Vec<(f64, u64)>,
    /// The slowest.
    pub max: u64,
    /// Its course, one point a second.
    pub timeline: Vec<LatencyPoint>,
}

/// What was seen in the second that ends at `second`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// The end of the interval.
    pub second: f64,
    /// Messages in it.
    pub count: u64,
    /// The median.
    pub p50: u64,
    /// One in a hundred was slower.
    pub p99: u64,
    /// The slowest.
    pub max: u64,
}

impl LatencyPoint {
    /// Reads the figures from the histogram of one interval.
    pub fn of(second: f64, histogram: &Histogram<u64>) -> Self {
        let (p50, p99) = (histogram.value_at_quantile(0.5), histogram.value_at_quantile(0.99));
        Self { second, count: histogram.len(), p50, p99, max: histogram.max() }
    }
}

impl LatencySummary {
    /// Keeps a histogram, with its course over time.
    pub fn of(histogram: &Histogram<u64>, timeline: Vec<LatencyPoint>) -> Self {
        let value = |percentile| (percentile, histogram.value_at_percentile(percentile));
        Self {
            histogram: encoded(histogram),
            count: histogram.len(),
            min: if histogram.is_empty() { 0 } else { histogram.min() },
            mean: histogram.mean(),
            percentiles: PERCENTILES.map(value).to_vec(),
            max: histogram.max(),
            timeline,
        }
    }

    /// The value of one of [`PERCENTILES`].
    pub fn percentile(&self, percentile: f64) -> Option<u64> {
        self.percentiles.iter().find(|(at, _)| (at - percentile).abs() < 1e-9).map(|(_, value)| *value)
    }

    /// The whole histogram again; errs when the record was damaged.
    pub fn decoded(&self) -> anyhow::Result<Histogram<u64>> {
        let bytes = STANDARD.decode(&self.histogram).context("the record's histogram is not base64")?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).context("the record's histogram is damaged")
    }
}

fn encoded(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("a histogram fits into memory");
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_the_record() {
        let mut histogram = new_histogram();
        for micros in [10, 20, 30, 40_000, 7_000_000] {
            histogram.record(micros).unwrap();
        }
        let summary = LatencySummary::of(&histogram, Vec::new());
        assert_eq!(summary.decoded().unwrap(), histogram);
        assert_eq!(summary.percentile(50.0), Some(30));
        assert_eq!((summary.min, summary.max), (10, histogram.max()));
    }

    #[test]
    fn a_damaged_histogram_is_told() {
        let summary = LatencySummary { histogram: "AAAA".to_owned(), ..Default::default() };
        assert!(summary.decoded().unwrap_err().to_string().contains("damaged"));
    }
}
