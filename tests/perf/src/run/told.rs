//! A run in a few lines for the terminal; the report tells all of it.

use std::fmt::Write;

use crate::result::{LatencySummary, RunResult, Verdict};

/// `VALID`, or `INVALID` with every reason on a line of its own. It is what is printed first.
#[must_use]
pub fn verdict_line(result: &RunResult) -> String {
    match result.correctness.verdict() {
        Verdict::Valid => "VALID".to_owned(),
        Verdict::Invalid(reasons) => format!("INVALID\n  {}", reasons.join("\n  ")),
    }
}

/// Verdict, rates, latencies, and what it cost.
#[must_use]
pub fn summary(result: &RunResult) -> String {
    let mut text = verdict_line(result);
    let window = &result.throughput.window;
    let (publish, end_to_end) = (&result.latency.publish, &result.latency.end_to_end);
    let _ = write!(
        text,
        "\n{}: {:.1} s, {} published ({:.0}/s), delivered {:.0}/s to {} application(s), {} duplicates",
        result.scenario,
        window.seconds,
        window.published,
        window.published_per_second(),
        window.delivered_per_second(),
        window.applications,
        result.correctness.duplicates(),
    );
    for (name, latency) in [("publish", publish), ("end to end", end_to_end)] {
        let at = |percentile| latency.percentile(percentile).unwrap_or(0);
        let _ = write!(text, "\n{name} latency: p50 {} us, p99 {} us, p99.9 {} us, max {} us", at(50.0), at(99.0), at(99.9), latency.max);
    }
    if let Some(cpu) = result.broker_cpu_per_million() {
        let rss = result.brokers.iter().map(|process| process.rss_max).sum::<u64>();
        let _ = write!(text, "\nbroker: {cpu:.2} CPU s per million published, {:.0} MB at most", rss as f64 / 1e6);
    }
    if let Some(generator) = &result.generator {
        let cpu = generator.cpu_seconds / (window.published as f64 / 1e6);
        let _ = write!(text, "\nload generator: {cpu:.2} CPU s per million published, {:.0} MB at most", generator.rss_max as f64 / 1e6);
    }
    for late in &result.catch_up {
        let seconds = |at: Option<f64>| at.map_or("never while it was measured".to_owned(), |at| format!("{at:.1} s"));
        let _ = write!(
            text,
            "\n{} joined at {:.1} s, {} behind; caught up after {} (at {})",
            late.application,
            late.joined,
            late.backlog_at_join,
            seconds(late.since_join),
            seconds(late.since_run_start)
        );
    }
    if let ([_, ..], Some((name, tailing))) = (result.catch_up.as_slice(), tailing(result)) {
        let at = |percentile| tailing.percentile(percentile).unwrap_or(0);
        let _ = write!(text, "\n{name}, at the tail all the time: end to end p50 {} us, p99 {} us", at(50.0), at(99.0));
    }
    if let Some(cache) = &result.cache {
        let read = cache.storage_entries.unwrap_or(0);
        let reads = cache.storage_reads.map_or(String::new(), |reads| format!(" in {reads} reads"));
        let _ = write!(text, "\nentry cache: {} hits, {} misses; {read} entries read from storage{reads}", cache.hits, cache.misses);
    }
    if let Some(storm) = &result.reconnect {
        let after = |all: Option<f64>| all.map_or("not all".to_owned(), |seconds| format!("all after {seconds:.2} s"));
        let (attached, all) = (after(storm.all_attached), after(storm.all_publish));
        let _ = write!(
            text,
            "\nafter the broker was back: producers attached again, {attached}; {} of {} gateways publish again, {all}; {} lost",
            storm.publish_again.len(),
            storm.gateways,
            storm.acknowledged_lost
        );
    }
    for remark in result.remarks.iter().chain(result.host.iter().flat_map(|host| &host.noise)) {
        let _ = write!(text, "\nnote: {remark}");
    }
    text
}

/// The first application that did not join late.
fn tailing(result: &RunResult) -> Option<&(String, LatencySummary)> {
    result.latency.applications.iter().find(|(name, _)| result.catch_up.iter().all(|late| late.application != *name))
}
