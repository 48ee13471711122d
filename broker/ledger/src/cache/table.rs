//! Outcomes side by side as text.

use std::fmt::Write;

use super::optimum::Bounds;
use super::replay::Outcome;

/// A table of outcomes on one trace at one capacity. `baseline` is what `captured` starts from: hits of a queue without age limit.
#[must_use]
pub fn table(title: &str, baseline: u64, rows: &[(String, Outcome)], bounds: &Bounds) -> String {
    let wide = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(18);
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(out, "{title}: {} entries read", bounds.reads);
    let _ = writeln!(
        out,
        "{:wide$}  {:>7}  {:>7}  {:>8}  {:>13}  {:>15}  {:>9}",
        "policy", "hits %", "bytes %", "captured", "storage reads", "storage entries", "evicted"
    );
    for (name, outcome) in rows {
        let captured = format!("{:.1} %", bounds.captured(baseline, outcome.hits) * 100.0);
        let evicted = outcome.counts.evicted + outcome.counts.evicted_by_stand_in;
        let _ = writeln!(
            out,
            "{name:wide$}  {:>7.2}  {:>7.2}  {captured:>8}  {:>13}  {:>15}  {evicted:>9}",
            outcome.hit_ratio() * 100.0,
            outcome.byte_ratio() * 100.0,
            outcome.storage_reads,
            outcome.storage_entries,
        );
    }
    if bounds.exact {
        let _ = writeln!(out, "{:wide$}  {:>7.2}", "optimum", bounds.upper_ratio() * 100.0);
    } else {
        let _ = writeln!(out, "{:wide$}  {:>7.2}", "optimum, at most", bounds.upper_ratio() * 100.0);
        let _ = writeln!(out, "{:wide$}  {:>7.2}", "optimum, at least", bounds.lower_ratio() * 100.0);
    }
    let _ = writeln!(out, "{:wide$}  {:>7.2}", "infinite cache", bounds.infinite_ratio() * 100.0);
    out
}
