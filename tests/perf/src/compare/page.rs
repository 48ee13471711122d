//! The page of a comparison.

use maud::{Markup, PreEscaped, html};

use super::{Comparison, Set, ranges::ranges};
use crate::{
    report::{
        chart::{Frame, Ink, Line, lines},
        figures::{micros_tick, tick},
        moment,
        page::{definitions, lines_in_box, page as whole_page},
        run_charts::{
            backlog_courses, core_courses, latency_courses, latency_frame, memory_courses, most_share, over_time, percentile_curve,
            percentile_frame, thread_bars, throughput_courses, throughput_frame,
        },
        sections::conditions,
    },
    result::{LatencySummary, RunResult, ThreadShares},
};

/// A chart of both sets: one drawing that holds both, or one for each with the same axes.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    note: &'static str,
    drawn: Drawn,
}

#[derive(Clone, Debug)]
enum Drawn {
    Together(String),
    SideBySide(String, String),
}

const HALF: (u32, u32) = (540, 290);
const FULL: (u32, u32) = (1080, 320);

impl Pair {
    /// Each drawing with what its file's name ends in.
    pub(super) fn drawings(&self) -> Vec<(&'static str, &str)> {
        match &self.drawn {
            Drawn::Together(svg) => vec![("", svg)],
            Drawn::SideBySide(a, b) => vec![("-a", a), ("-b", b)],
        }
    }
}

/// All charts of which one of the sets has something.
pub(super) fn charts(of: &Comparison) -> anyhow::Result<Vec<Pair>> {
    let mut charts = Vec::new();
    if let Some(svg) = ranges(&of.rows)? {
        let note = "Bars from the least to the greatest run, a mark at the median: A blue, B orange. 100 % is A's median; the axis is logarithmic.";
        charts.push(Pair { id: "ranges", title: "All figures", note, drawn: Drawn::Together(svg) });
    }
    charts.push(throughput(of)?);
    charts.push(percentiles(of, "end-to-end-percentiles", "End to end latency by percentile", |run| &run.latency.end_to_end)?);
    charts.push(percentiles(of, "publish-percentiles", "Publish latency by percentile", |run| &run.latency.publish)?);
    charts.push(latency(of)?);
    charts.extend(threads(of)?);
    type Course =
        (&'static str, &'static str, &'static str, fn(&RunResult) -> Vec<Vec<(f64, f64)>>, &'static [&'static str], fn(f64) -> String);
    let courses: [Course; 3] = [
        (
            "backlog",
            "Backlog",
            "Messages published and not yet received, one line for each application and run.",
            backlog_courses,
            &[],
            tick,
        ),
        ("processors", "Processor time", "Processors busy.", core_courses, &["broker", "load generator"], tick),
        ("memory", "Resident memory of the broker", "Megabytes.", memory_courses, &["broker"], tick),
    ];
    for (id, title, note, courses, labels, spell) in courses {
        let all: Vec<&RunResult> = runs(of);
        if all.iter().any(|run| courses(run).iter().any(|course| !course.is_empty())) {
            let frame = over_time(&all, courses, spell, HALF);
            charts.push(Pair { id, title, note, drawn: side_by_side(of, &frame, courses, labels)? });
        }
    }
    Ok(charts)
}

fn runs(of: &Comparison) -> Vec<&RunResult> {
    of.a.runs.iter().chain(&of.b.runs).collect()
}

fn side_by_side(
    of: &Comparison,
    frame: &Frame,
    courses: impl Fn(&RunResult) -> Vec<Vec<(f64, f64)>>,
    labels: &[&str],
) -> anyhow::Result<Drawn> {
    let side = |set: &Set| {
        let thin = set.runs.len() > 1;
        let of_run = |run| courses(run).into_iter().enumerate();
        let line = |(at, points): (usize, _)| Line {
            label: labels.get(at).copied().unwrap_or_default().to_owned(),
            ink: Ink::Series(at),
            thin,
            points,
        };
        lines(frame, &set.runs.iter().flat_map(of_run).map(line).collect::<Vec<_>>())
    };
    Ok(Drawn::SideBySide(side(&of.a)?, side(&of.b)?))
}

fn throughput(of: &Comparison) -> anyhow::Result<Pair> {
    let frame = throughput_frame(&runs(of), HALF);
    let drawn = side_by_side(of, &frame, throughput_courses, &["published", "delivered"])?;
    let note = "Messages per second, one line for each run.";
    Ok(Pair { id: "throughput", title: "Throughput", note, drawn })
}

fn latency(of: &Comparison) -> anyhow::Result<Pair> {
    let courses = |run: &RunResult| latency_courses(&run.latency.end_to_end);
    let all = runs(of);
    let values: Vec<f64> = all.iter().flat_map(|run| courses(run)).flatten().map(|(_, y)| y).collect();
    let frame = latency_frame(&all, values.into_iter(), HALF);
    let drawn = side_by_side(of, &frame, courses, &["p50", "p99"])?;
    let note = "Of the messages of each second, one line for each run; the time axis upwards is logarithmic.";
    Ok(Pair { id: "latency-over-time", title: "End to end latency over time", note, drawn })
}

fn percentiles(of: &Comparison, id: &'static str, title: &'static str, summary: fn(&RunResult) -> &LatencySummary) -> anyhow::Result<Pair> {
    let mut drawn = Vec::new();
    for (at, (set, letter)) in [(&of.a, "A"), (&of.b, "B")].into_iter().enumerate() {
        for run in &set.runs {
            let (label, thin) = (format!("{letter}: {}", set.name), set.runs.len() > 1);
            drawn.push(Line { label, ink: Ink::Series(at), thin, points: percentile_curve(summary(run))? });
        }
    }
    let curves: Vec<Vec<(f64, f64)>> = drawn.iter().map(|line| line.points.clone()).collect();
    let svg = lines(&Frame { y_spell: micros_tick, ..percentile_frame(&curves, FULL) }, &drawn)?;
    let note = "One line for each run; the time axis is logarithmic.";
    Ok(Pair { id, title, note, drawn: Drawn::Together(svg) })
}

/// The run of a set whose broker used the median of CPU time, or the lower of the two beside it.
fn typical(set: &Set) -> Option<&ThreadShares> {
    let mut runs: Vec<&RunResult> = set.runs.iter().filter(|run| run.brokers.iter().any(|broker| broker.threads.is_some())).collect();
    runs.sort_by(|a, b| a.broker_cpu_seconds().unwrap_or(0.0).total_cmp(&b.broker_cpu_seconds().unwrap_or(0.0)));
    runs.get(runs.len().saturating_sub(1) / 2)?.brokers.first()?.threads.as_ref()
}

fn threads(of: &Comparison) -> anyhow::Result<Option<Pair>> {
    let (Some(a), Some(b)) = (typical(&of.a), typical(&of.b)) else {
        return Ok(None);
    };
    let most = most_share(&[a, b]);
    let drawn = Drawn::SideBySide(thread_bars(a, most, HALF.0)?, thread_bars(b, most, HALF.0)?);
    let note = "Share of a core of each broker thread, in the run with the median of CPU time; the line is at 5 %.";
    Ok(Some(Pair { id: "threads", title: "Broker threads", note, drawn }))
}

/// The whole page.
pub(super) fn page(of: &Comparison, charts: &[Pair]) -> String {
    let scenario = &of.a.first().scenario;
    let body = html! {
        h1 { (scenario) ": " (of.a.name) " against " (of.b.name) }
        (badges(of))
        (lines_in_box("bad", "Not valid: none of the figures is to be used.", &of.invalid))
        (lines_in_box("warn", "What to know before believing it", &of.warnings))
        (lines_in_box("", "What differs", &of.subject))
        h2 { "Figures" }
        (table(of))
        p .note { "Medians, with the least and the greatest run in brackets. The change is that of the medians. "
            "Where the ranges of the two sets overlap, the change may be chance." }
        @for chart in charts { (figure(of, chart)) }
        h2 { "Runs" }
        @for (letter, set) in [("A", &of.a), ("B", &of.b)] {
            h3 { (letter) ": " (set.name) }
            p .note { @for run in &set.runs { (moment::utc(run.started_at_ms)) " UTC. " } }
            (definitions(&conditions(set.first())))
        }
    };
    whole_page(&format!("{scenario}: comparison"), &body)
}

fn badges(of: &Comparison) -> Markup {
    let durable = |set: &Set| set.first().settings.broker.durability.label();
    html! {
        div .badges {
            span class={ "badge " (if of.invalid.is_empty() { "good" } else { "bad" }) } { (if of.invalid.is_empty() { "VALID" } else { "INVALID" }) }
            @for (letter, set) in [("A", &of.a), ("B", &of.b)] {
                span class={ "badge " (if durable(set) == "durable" { "good" } else { "warn" }) } {
                    (letter) ": " (set.runs.len()) (if set.runs.len() == 1 { " run, " } else { " runs, " }) (durable(set))
                }
            }
        }
    }
}

fn table(of: &Comparison) -> Markup {
    html! {
        div .wide {
            table {
                thead { tr { th { "median (least–greatest)" } th { "A: " (of.a.name) } th { "B: " (of.b.name) } th { "change, B against A" } th .text { "" } } }
                tbody {
                    @for row in &of.rows {
                        @let cells = row.cells();
                        tr {
                            @for cell in cells.iter().take(cells.len() - 1) { td { (cell) } }
                            td .text { span class={ "word " (row.judgement.style()) } { (row.judgement.words()) } }
                        }
                    }
                }
            }
        }
    }
}

fn figure(of: &Comparison, chart: &Pair) -> Markup {
    html! {
        h2 { (chart.title) }
        figure id=(chart.id) class=[matches!(chart.drawn, Drawn::Together(_)).then_some("full")] {
            p .note { (chart.note) }
            @match &chart.drawn {
                Drawn::Together(svg) => (PreEscaped(svg)),
                Drawn::SideBySide(a, b) => div .pair {
                    div { h3 { "A: " (of.a.name) } (PreEscaped(a)) }
                    div { h3 { "B: " (of.b.name) } (PreEscaped(b)) }
                },
            }
        }
    }
}
