//! The figures in the forms that other programs read: CSV for spreadsheets, HdrHistogram logs for its own tools.

use std::{
    fs,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{Context, anyhow};
use hdrhistogram::serialization::{V2DeflateSerializer, interval_log::IntervalLogWriterBuilder};

use crate::result::{LatencySummary, RunResult};

/// Writes all of them.
pub(crate) fn write(directory: &Path, run: &RunResult) -> anyhow::Result<()> {
    for (name, summary) in [("publish", &run.latency.publish), ("end-to-end", &run.latency.end_to_end)] {
        put(directory, &format!("{name}.hlog"), &hdr_log(run, summary)?)?;
        put(directory, &format!("{name}-latency.csv"), latency_csv(summary).as_bytes())?;
    }
    for (name, text) in [
        ("throughput", throughput_csv(run)),
        ("backlog", backlog_csv(run)),
        ("processes", processes_csv(run)),
        ("threads", threads_csv(run)),
    ] {
        put(directory, &format!("{name}.csv"), text.as_bytes())?;
    }
    Ok(())
}

/// Writes one file.
pub(crate) fn put(directory: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let path = directory.join(name);
    fs::write(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}

/// A log with one interval: the measured window.
fn hdr_log(run: &RunResult, summary: &LatencySummary) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let begin = UNIX_EPOCH + Duration::from_millis(run.started_at_ms);
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_start_time(begin).with_base_time(begin).with_max_value_divisor(1e6);
    builder.add_comment("microseconds");
    let mut log = builder.begin_log_with(&mut bytes, &mut serializer)?;
    if summary.count > 0 {
        let window = Duration::from_secs_f64(run.throughput.window.seconds.max(0.0));
        log.write_histogram(&summary.decoded()?, Duration::ZERO, window, None)
            .map_err(|error| anyhow!("the HDR log cannot be written: {error:?}"))?;
    }
    Ok(bytes)
}

fn csv(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let line = |cells: Vec<String>| cells.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    std::iter::once(head).chain(rows).map(line).collect()
}

fn quoted(cell: String) -> String {
    if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

fn second(second: f64) -> String {
    format!("{second:.3}")
}

fn throughput_csv(run: &RunResult) -> String {
    let rows = run
        .throughput
        .timeline
        .iter()
        .map(|point| vec![second(point.second), format!("{:.1}", point.published), format!("{:.1}", point.delivered)]);
    csv(&["second", "published_per_second", "delivered_per_second"], rows)
}

fn latency_csv(summary: &LatencySummary) -> String {
    let rows = summary.timeline.iter().map(|point| {
        let counts = [point.count, point.p50, point.p99, point.max];
        std::iter::once(second(point.second)).chain(counts.map(|count| count.to_string())).collect()
    });
    csv(&["second", "messages", "p50_us", "p99_us", "max_us"], rows)
}

fn backlog_csv(run: &RunResult) -> String {
    let head: Vec<&str> = std::iter::once("second").chain(run.backlog.applications.iter().map(String::as_str)).collect();
    let rows = run
        .backlog
        .timeline
        .iter()
        .map(|point| std::iter::once(second(point.second)).chain(point.messages.iter().map(u64::to_string)).collect());
    csv(&head, rows)
}

fn processes_csv(run: &RunResult) -> String {
    let rows = run.brokers.iter().chain(&run.generator).flat_map(|process| {
        process
            .timeline
            .iter()
            .map(|point| vec![process.name.clone(), second(point.second), format!("{:.3}", point.cores), point.rss.to_string()])
    });
    csv(&["process", "second", "cores", "rss_bytes"], rows)
}

fn threads_csv(run: &RunResult) -> String {
    let rows = run.brokers.iter().flat_map(|broker| {
        broker.threads.iter().flat_map(|threads| &threads.threads).map(|thread| {
            vec![
                broker.name.clone(),
                thread.name.clone(),
                format!("{:?}", thread.kind),
                format!("{:.4}", thread.share),
                format!("{:.1}", thread.voluntary_switches),
                format!("{:.1}", thread.involuntary_switches),
            ]
        })
    });
    let head = ["process", "thread", "kind", "share_of_a_core", "voluntary_switches_per_second", "involuntary_switches_per_second"];
    csv(&head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_with_a_comma_is_quoted() {
        assert_eq!(csv(&["a", "b"], [vec!["1,5".to_owned(), "say \"x\"".to_owned()]].into_iter()), "a,b\n\"1,5\",\"say \"\"x\"\"\"\n");
    }
}
