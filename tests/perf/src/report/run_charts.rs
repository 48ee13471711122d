//! The charts of one run. Those that a comparison lays side by side take their frame from several runs.

use super::{
    bars::{Bar, bars},
    chart::{Frame, Ink, Line, WIDE, lines},
    figures::{micros_tick, tick},
    scales::Scale,
};
use crate::result::{LatencySummary, RunResult, ThreadKind, ThreadShares};

/// A chart with what a reader needs to read it.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// Name of its file.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) note: String,
    pub(crate) svg: String,
}

/// What a line of a chart shows.
type Course = fn(&RunResult) -> Vec<Vec<(f64, f64)>>;

/// All charts of a run, without those that it has nothing for.
pub(crate) fn charts(run: &RunResult) -> anyhow::Result<Vec<Chart>> {
    let mut charts = vec![throughput(run)?, percentiles(run)?, latency_over_time(run)?];
    charts.extend(backlog(run)?);
    charts.extend(threads(run)?);
    charts.extend(cores(run)?);
    charts.extend(memory(run)?);
    charts.extend(reconnect(run)?);
    Ok(charts)
}

fn throughput(run: &RunResult) -> anyhow::Result<Chart> {
    let labels = ["published", "delivered"];
    let svg = lines(&throughput_frame(&[run], WIDE), &labelled(&labels, throughput_courses(run)))?;
    let note = match run.throughput.window.applications {
        0 | 1 => "Messages per second; the measured window is shaded.".to_owned(),
        several => format!("Messages per second; each message is delivered {several} times. The measured window is shaded."),
    };
    Ok(Chart { id: "throughput", title: "Throughput", note, svg })
}

/// Published and delivered.
pub(crate) fn throughput_courses(run: &RunResult) -> Vec<Vec<(f64, f64)>> {
    let timeline = &run.throughput.timeline;
    let published = timeline.iter().map(|point| (point.second, point.published));
    let delivered = timeline.iter().map(|point| (point.second, point.delivered));
    vec![published.collect(), delivered.collect()]
}

pub(crate) fn throughput_frame(runs: &[&RunResult], size: (u32, u32)) -> Frame {
    over_time(runs, throughput_courses, tick, size)
}

fn labelled(labels: &[&str], courses: Vec<Vec<(f64, f64)>>) -> Vec<Line> {
    let line = |(at, (label, points)): (usize, (&&str, _))| Line { label: (*label).to_owned(), ink: Ink::Series(at), thin: false, points };
    labels.iter().zip(courses).enumerate().map(line).collect()
}

/// A frame over the time of all these runs, from zero to the most that any of them shows.
pub(crate) fn over_time(runs: &[&RunResult], courses: Course, spell: fn(f64) -> String, size: (u32, u32)) -> Frame {
    let points: Vec<(f64, f64)> = runs.iter().flat_map(|run| courses(run)).flatten().collect();
    let most = points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    let (from, to) = extent(points.iter().map(|(x, _)| *x));
    let windows: Vec<f64> = runs.iter().map(|run| run.throughput.window.seconds).collect();
    // Runs with windows of different lengths have no window in common.
    let same = windows.iter().all(|seconds| (seconds - windows.first().unwrap_or(seconds)).abs() < 1.0);
    Frame {
        x: Scale::exact(from, to, 8.0),
        x_spell: tick,
        x_title: "seconds since the measured window began",
        y: Scale::linear(0.0, most, 5.0),
        y_spell: spell,
        y_is_log: false,
        shaded: windows.first().filter(|_| same).map(|seconds| (0.0, *seconds)),
        size,
    }
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (from, to) = values.fold((f64::MAX, f64::MIN), |(from, to), x| (from.min(x), to.max(x)));
    if from <= to { (from.min(0.0), to) } else { (0.0, 1.0) }
}

fn percentiles(run: &RunResult) -> anyhow::Result<Chart> {
    let named = [("publish", &run.latency.publish), ("end to end", &run.latency.end_to_end)];
    let curves: Vec<Vec<(f64, f64)>> = named.iter().map(|(_, summary)| percentile_curve(summary)).collect::<anyhow::Result<_>>()?;
    let frame = percentile_frame(&curves, WIDE);
    let svg = lines(&frame, &labelled(&named.map(|(label, _)| label), curves))?;
    let note = "How many messages were at least this fast; the time axis is logarithmic.".to_owned();
    Ok(Chart { id: "latency-percentiles", title: "Latency by percentile", note, svg })
}

/// The curve of a histogram: how many nines a percentile has, and its latency.
pub(crate) fn percentile_curve(summary: &LatencySummary) -> anyhow::Result<Vec<(f64, f64)>> {
    if summary.count == 0 {
        return Ok(Vec::new());
    }
    let histogram = summary.decoded()?;
    let most = (summary.count as f64).log10().clamp(2.0, MOST_NINES);
    let steps = 25 * most.ceil() as u32;
    let point = |step| {
        let nines = most * f64::from(step) / f64::from(steps);
        (nines, histogram.value_at_quantile(1.0 - 10f64.powf(-nines)).max(1) as f64)
    };
    Ok((0..=steps).map(point).collect())
}

const MOST_NINES: f64 = 6.0;

/// A frame for curves of [`percentile_curve`].
pub(crate) fn percentile_frame(curves: &[Vec<(f64, f64)>], size: (u32, u32)) -> Frame {
    let (_, nines) = extent(curves.iter().flatten().map(|(x, _)| *x));
    Frame {
        x: Scale { from: 0.0, to: nines, ticks: (0..=nines as u32).map(f64::from).collect() },
        x_spell: spelt_nines,
        x_title: "percentile",
        y: latencies(curves.iter().flatten().map(|(_, y)| *y)),
        y_spell: micros_tick,
        y_is_log: true,
        shaded: None,
        size,
    }
}

fn spelt_nines(nines: f64) -> String {
    match nines.round() as u32 {
        0 => "fastest".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => format!("99.{} %", "9".repeat(more as usize - 2)),
    }
}

fn latencies(values: impl Iterator<Item = f64>) -> Scale {
    let (from, to) = values.filter(|value| *value > 0.0).fold((f64::MAX, f64::MIN), |(from, to), y| (from.min(y), to.max(y)));
    if from <= to { Scale::logarithmic(from, to) } else { Scale::logarithmic(1.0, 1000.0) }
}

fn latency_over_time(run: &RunResult) -> anyhow::Result<Chart> {
    let courses: Vec<Vec<(f64, f64)>> = [&run.latency.publish, &run.latency.end_to_end].into_iter().flat_map(latency_courses).collect();
    let frame = latency_frame(&[run], courses.iter().flatten().map(|(_, y)| *y), WIDE);
    let svg = lines(&frame, &labelled(&["publish p50", "publish p99", "end to end p50", "end to end p99"], courses))?;
    let note = "Of the messages of each second; the time axis upwards is logarithmic.".to_owned();
    Ok(Chart { id: "latency-over-time", title: "Latency over time", note, svg })
}

/// Median and 99th percentile.
pub(crate) fn latency_courses(summary: &LatencySummary) -> Vec<Vec<(f64, f64)>> {
    let seen = || summary.timeline.iter().filter(|point| point.count > 0);
    let p50 = seen().map(|point| (point.second, point.p50.max(1) as f64)).collect();
    let p99 = seen().map(|point| (point.second, point.p99.max(1) as f64)).collect();
    vec![p50, p99]
}

pub(crate) fn latency_frame(runs: &[&RunResult], values: impl Iterator<Item = f64>, size: (u32, u32)) -> Frame {
    let time = over_time(runs, throughput_courses, tick, size);
    Frame { y: latencies(values), y_spell: micros_tick, y_is_log: true, ..time }
}

/// More applications than this are told as one sum.
const MOST_LINES: usize = 6;

fn backlog(run: &RunResult) -> anyhow::Result<Option<Chart>> {
    let backlog = &run.backlog;
    if backlog.timeline.is_empty() {
        return Ok(None);
    }
    let (labels, note): (Vec<&str>, _) = if backlog.applications.len() <= MOST_LINES {
        (backlog.applications.iter().map(String::as_str).collect(), "of each application")
    } else {
        (vec!["all applications", "the one furthest behind"], "of all applications together")
    };
    let svg = lines(&over_time(&[run], backlog_courses, tick, WIDE), &labelled(&labels, backlog_courses(run)))?;
    let note = format!("Messages published and not yet received, {note}.");
    Ok(Some(Chart { id: "backlog", title: "Backlog", note, svg }))
}

/// A course for each application, or the sum and the greatest when there are many.
pub(crate) fn backlog_courses(run: &RunResult) -> Vec<Vec<(f64, f64)>> {
    let backlog = &run.backlog;
    let course = |of: &dyn Fn(&[u64]) -> u64| backlog.timeline.iter().map(|point| (point.second, of(&point.messages) as f64)).collect();
    if backlog.applications.len() > MOST_LINES {
        return vec![course(&|all| all.iter().sum()), course(&|all| all.iter().copied().max().unwrap_or(0))];
    }
    (0..backlog.applications.len()).map(|at| course(&|all| all.get(at).copied().unwrap_or(0))).collect()
}

fn threads(run: &RunResult) -> anyhow::Result<Option<Chart>> {
    let Some(threads) = run.brokers.first().and_then(|broker| broker.threads.as_ref()) else {
        return Ok(None);
    };
    let note = format!(
        "Share of a core of each broker thread, over {:.0} s inside the window. {} of {} I/O loops used more than 5 % of a core (the line).",
        threads.seconds, threads.busy_loops, threads.loops
    );
    Ok(Some(Chart { id: "threads", title: "Broker threads", note, svg: thread_bars(threads, most_share(&[threads]), WIDE.0)? }))
}

/// The end of an axis for the threads of several runs.
pub(crate) fn most_share(threads: &[&ThreadShares]) -> f64 {
    let most = threads.iter().flat_map(|threads| &threads.threads).map(|thread| thread.share * 100.0).fold(0.0, f64::max);
    (most / 10.0).ceil().max(1.0) * 10.0
}

/// Helpers below this share of a core are told as one.
const WORTH_A_BAR: f64 = 0.005;
const MOST_HELPERS: usize = 16;

/// I/O loops first, in the order of their names, then the log, then helpers.
pub(crate) fn thread_bars(threads: &ThreadShares, most: f64, width: u32) -> anyhow::Result<String> {
    let bar = |label: String, share: f64, kind: ThreadKind| Bar { label, value: share * 100.0, ink: ink_of(kind) };
    let mut shown: Vec<_> = threads.threads.iter().filter(|thread| thread.kind == ThreadKind::Loop).collect();
    shown.sort_by_key(|thread| natural(&thread.name));
    let others = || threads.threads.iter().filter(|thread| thread.kind != ThreadKind::Loop);
    let mut busy: Vec<_> = others().filter(|thread| thread.share >= WORTH_A_BAR).take(MOST_HELPERS).collect();
    busy.sort_by_key(|thread| thread.kind);
    let told: f64 = busy.iter().map(|thread| thread.share).sum();
    let rest = others().map(|thread| thread.share).sum::<f64>() - told;
    shown.extend(busy);
    let mut all: Vec<Bar> = shown.into_iter().map(|thread| bar(thread.name.clone(), thread.share, thread.kind)).collect();
    all.push(bar("all others".to_owned(), rest.max(0.0), ThreadKind::Helper));
    bars(&all, most, Some(5.0), width)
}

/// Sorts `io-10` behind `io-9`.
fn natural(name: &str) -> (String, u64) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = name.get(stem.len()..).unwrap_or_default();
    (stem.to_owned(), digits.parse().unwrap_or(0))
}

/// The colour of a kind of thread.
pub(crate) fn ink_of(kind: ThreadKind) -> Ink {
    match kind {
        ThreadKind::Loop => Ink::Series(0),
        ThreadKind::LogWriter => Ink::Series(1),
        ThreadKind::Helper => Ink::Series(2),
    }
}

fn cores(run: &RunResult) -> anyhow::Result<Option<Chart>> {
    if run.brokers.is_empty() {
        return Ok(None);
    }
    let svg = lines(&over_time(&[run], core_courses, tick, WIDE), &labelled(&["broker", "load generator"], core_courses(run)))?;
    let note = "Processors busy, on average of each second.".to_owned();
    Ok(Some(Chart { id: "processors", title: "Processor time", note, svg }))
}

/// Broker (the first process of it) and load generator.
pub(crate) fn core_courses(run: &RunResult) -> Vec<Vec<(f64, f64)>> {
    let processes = run.brokers.first().into_iter().chain(&run.generator);
    processes.map(|process| process.timeline.iter().map(|point| (point.second, point.cores)).collect()).collect()
}

fn memory(run: &RunResult) -> anyhow::Result<Option<Chart>> {
    if run.brokers.is_empty() {
        return Ok(None);
    }
    let svg = lines(&over_time(&[run], memory_courses, tick, WIDE), &labelled(&["broker"], memory_courses(run)))?;
    Ok(Some(Chart { id: "memory", title: "Resident memory of the broker", note: "Megabytes (of 10^6 bytes).".to_owned(), svg }))
}

/// Megabytes of the broker.
pub(crate) fn memory_courses(run: &RunResult) -> Vec<Vec<(f64, f64)>> {
    let course =
        |process: &crate::result::ProcessUse| process.timeline.iter().map(|point| (point.second, point.rss as f64 / 1e6)).collect();
    run.brokers.first().map(course).into_iter().collect()
}

fn reconnect(run: &RunResult) -> anyhow::Result<Option<Chart>> {
    let Some(storm) = run.reconnect.as_ref().filter(|storm| !storm.publish_again.is_empty()) else {
        return Ok(None);
    };
    let risen = storm.publish_again.iter().enumerate().map(|(at, seconds)| (*seconds, at as f64 + 1.0));
    let points: Vec<(f64, f64)> = std::iter::once((0.0, 0.0)).chain(risen).collect();
    let last = storm.publish_again.iter().copied().fold(0.0, f64::max);
    let frame = Frame {
        x: Scale::exact(0.0, last, 8.0),
        x_title: "seconds since the broker took connections again",
        y: Scale::linear(0.0, storm.gateways as f64, 5.0),
        shaded: None,
        ..throughput_frame(&[run], WIDE)
    };
    let svg = lines(&frame, &labelled(&["gateways that publish again"], vec![points]))?;
    let note = "Gateways that had a receipt again.".to_owned();
    Ok(Some(Chart { id: "reconnect", title: "After the restart", note, svg }))
}
