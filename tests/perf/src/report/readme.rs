//! The run as plain text, for terminals and for pages that show Markdown.

use std::fmt::Write;

use super::{
    moment,
    run_charts::Chart,
    sections::{conditions, key_figures, sections, verdict},
};
use crate::result::RunResult;

/// The whole of `README.md`.
pub(crate) fn readme(run: &RunResult, charts: &[Chart]) -> String {
    let mut out = String::new();
    let broker = &run.settings.broker;
    let (word, reasons) = verdict(run);
    let mut paragraph = |text: String| {
        out.push_str(&text);
        out.push_str("\n\n");
    };
    paragraph(format!("# {}: {} on {} {}", word, run.scenario, broker.product, broker.version));
    paragraph(format!(
        "{} UTC, {:.0} s measured, {}.",
        moment::utc(run.started_at_ms),
        run.throughput.window.seconds,
        broker.durability.label()
    ));
    if !reasons.is_empty() {
        paragraph(format!("This run is not valid, its figures are not to be used:\n{}", items(&reasons)));
    }
    if let Some(noise) = run.host.as_ref().map(|host| &host.noise).filter(|noise| !noise.is_empty()) {
        paragraph(format!("The machine was not quiet:\n{}", items(noise)));
    }
    if !run.remarks.is_empty() {
        paragraph(format!("Remarks:\n{}", items(&run.remarks)));
    }
    let figures: Vec<Vec<String>> = key_figures(run).into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    paragraph(markdown_table(&["figure".to_owned(), "value".to_owned()], &figures));
    for section in sections(run) {
        paragraph(format!("## {}", section.title));
        paragraph(section.note.clone());
        paragraph(markdown_table(&section.head, &section.rows));
    }
    paragraph("## Charts".to_owned());
    for chart in charts {
        paragraph(format!("{}. {}", chart.title, chart.note));
        paragraph(format!("![{}](charts/{}.svg)", chart.title, chart.id));
    }
    paragraph("## Conditions".to_owned());
    let conditions: Vec<Vec<String>> = conditions(run).into_iter().map(|(name, value)| vec![name, value]).collect();
    paragraph(markdown_table(&["what".to_owned(), "how".to_owned()], &conditions));
    let _ = writeln!(
        out,
        "`result.json` holds everything; `index.html` shows it; `*.hlog` are HdrHistogram logs; `*.csv` the courses over time."
    );
    out
}

fn items(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |text, line| format!("{text}\n- {line}"))
}

/// A table in Markdown.
pub(crate) fn markdown_table(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule = format!("|{}", "---|".repeat(head.len()));
    let lines: Vec<String> = [line(head), rule].into_iter().chain(rows.iter().map(|row| line(row))).collect();
    lines.join("\n")
}
