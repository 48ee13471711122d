//! The page of one run.

use maud::{Markup, html};

use super::{
    moment,
    page::{Tile, definitions, figure, lines_in_box, page, table, tiles},
    run_charts::Chart,
    sections::{conditions, key_figures, sections, verdict},
};
use crate::result::{Durability, HostUse, RunResult};

/// The whole page.
pub(crate) fn run_page(run: &RunResult, charts: &[Chart]) -> anyhow::Result<String> {
    let broker = &run.settings.broker;
    let tiled: Vec<Tile> = key_figures(run).into_iter().map(|(name, value)| Tile { name, value }).collect();
    let (_, reasons) = verdict(run);
    let body = html! {
        h1 { (run.scenario) " on " (broker.product) " " (broker.version) }
        p .muted { (moment::utc(run.started_at_ms)) " UTC, " (format!("{:.0} s measured", run.throughput.window.seconds)) }
        @if let Some(description) = run.settings.scenario.get("description").and_then(serde_json::Value::as_str) {
            p { (description) }
            @if !run.settings.overrides.is_empty() { p .muted { "Changed for this run: " (run.settings.overrides.join(", ")) "." } }
        }
        (badges(run))
        (lines_in_box("bad", "This run is not valid: its figures are not to be used.", &reasons))
        (lines_in_box("warn", "A receipt did not mean that a message was safe.", not_durable(run)))
        (lines_in_box("warn", "The machine was not quiet.", run.host.as_ref().map_or(&[], |host| &host.noise)))
        (lines_in_box("", "Remarks", &run.remarks))
        (tiles(&tiled))
        div .charts { @for chart in charts { (figure(chart)) } }
        @for section in sections(run) {
            h2 { (section.title) }
            p .note { (section.note) }
            (table(&section.head.iter().map(String::as_str).collect::<Vec<_>>(), &section.rows))
        }
        h2 { "Conditions" }
        (definitions(&conditions(run)))
        h2 { "Scenario" }
        details {
            summary { "resolved: nothing in it is inherited or left to a default" }
            pre { (serde_json::to_string_pretty(&run.settings.scenario)?) }
        }
    };
    Ok(page(&format!("{} · {}", run.scenario, broker.product), &body))
}

fn badges(run: &RunResult) -> Markup {
    let (word, reasons) = verdict(run);
    let durability = &run.settings.broker.durability;
    let durable = match durability {
        Durability::Durable => "good",
        Durability::NotDurable(_) => "warn",
        Durability::Unknown => "",
    };
    html! {
        div .badges {
            span class={ "badge " (if reasons.is_empty() { "good" } else { "bad" }) } { (word) }
            span class={ "badge " (durable) } { (durability.label()) }
            @if run.host.as_ref().is_some_and(HostUse::is_noisy) { span .badge .warn { "noisy host" } }
        }
    }
}

fn not_durable(run: &RunResult) -> &[String] {
    match &run.settings.broker.durability {
        Durability::NotDurable(reasons) => reasons,
        _ => &[],
    }
}
