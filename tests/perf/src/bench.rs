//! For the impatient: one line after some ten seconds.

use crate::result::{RunResult, Verdict};

/// The scenario that is run.
pub const SCENARIO: &str = "bench";

/// Rates and latencies in one line; what is wrong comes first.
#[must_use]
pub fn line(result: &RunResult) -> String {
    let window = &result.throughput.window;
    let latency = |summary: &crate::result::LatencySummary| {
        let millis = |percentile| summary.percentile(percentile).unwrap_or(0) as f64 / 1000.0;
        format!("p50 {:.1} p99 {:.1} ms", millis(50.0), millis(99.0))
    };
    let figures = format!(
        "published {:.0}/s, delivered {:.0}/s, publish {}, end to end {}",
        window.published_per_second(),
        window.delivered_per_second(),
        latency(&result.latency.publish),
        latency(&result.latency.end_to_end),
    );
    match result.correctness.verdict() {
        Verdict::Valid => format!("{figures}, {} messages all received in order", result.correctness.published),
        Verdict::Invalid(reasons) => format!("INVALID ({}): {figures}", reasons.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{ApplicationCheck, Correctness, Latencies, LatencySummary, Settings, Throughput};

    fn run(missing: u64) -> RunResult {
        let application = ApplicationCheck { name: "billing".to_owned(), received: 5, missing, ..ApplicationCheck::default() };
        RunResult {
            format: crate::result::FORMAT,
            scenario: SCENARIO.to_owned(),
            started_at_ms: 0,
            settings: Settings::default(),
            correctness: Correctness { published: 5, applications: vec![application], ..Correctness::default() },
            throughput: Throughput::default(),
            latency: Latencies { publish: LatencySummary::default(), end_to_end: LatencySummary::default(), applications: Vec::new() },
            backlog: crate::result::Backlog::default(),
            catch_up: Vec::new(),
            brokers: Vec::new(),
            generator: None,
            cache: None,
            host: None,
            reconnect: None,
            remarks: Vec::new(),
        }
    }

    #[test]
    fn a_line_says_that_order_was_verified_or_what_is_wrong_first() {
        assert!(line(&run(0)).ends_with("5 messages all received in order"));
        assert!(line(&run(1)).starts_with("INVALID (billing: 1 messages never came)"));
        assert!(!line(&run(1)).contains("in order"));
    }
}
