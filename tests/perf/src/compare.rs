//! Two sets of runs side by side: medians with their extremes, the change in per cent, and every reason not to believe it.

mod differences;
mod metrics;
mod page;
mod ranges;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::Serialize;

pub use self::metrics::{Judgement, Row, Spread};
use crate::{
    report::{figures, files::put, page::standalone, readme::markdown_table},
    result::{Durability, HostUse, RunResult},
};

/// Lays two sets of runs side by side.
#[derive(Clone, Debug, clap::Args)]
pub struct Compare {
    /// Run directories of the first set
    #[arg(required = true, value_name = "A")]
    pub a: Vec<PathBuf>,
    /// Run directories of the second set, behind `--`
    #[arg(last = true, required = true, value_name = "B")]
    pub b: Vec<PathBuf>,
    /// What the first set is called
    #[arg(long, value_name = "TEXT")]
    pub name_a: Option<String>,
    /// What the second set is called
    #[arg(long, value_name = "TEXT")]
    pub name_b: Option<String>,
    /// Directory of the report, made if need be
    #[arg(long, value_name = "DIR", default_value = "perf-comparison")]
    pub out: PathBuf,
}

impl Compare {
    /// Writes the report and prints the table; false when a run of either set is not valid.
    pub fn run(&self, out: &mut impl Write) -> anyhow::Result<bool> {
        let misplaced = self.b.iter().find(|directory| directory.as_os_str().as_encoded_bytes().starts_with(b"--"));
        if let Some(option) = misplaced {
            anyhow::bail!(
                "{} stands behind `--`, where only run directories of the second set do: give options before the first set",
                option.display()
            );
        }
        let (a, b) = (read(&self.a)?, read(&self.b)?);
        let (default_a, default_b) = default_names(&a, &b);
        let names = (self.name_a.clone().unwrap_or(default_a), self.name_b.clone().unwrap_or(default_b));
        let comparison = Comparison::of(Set::new(names.0, a)?, Set::new(names.1, b)?);
        comparison.write(&self.out)?;
        write!(out, "{}", comparison.text())?;
        writeln!(out, "\nThe report is {}", self.out.join("index.html").display())?;
        Ok(comparison.invalid.is_empty())
    }
}

fn read(directories: &[PathBuf]) -> anyhow::Result<Vec<RunResult>> {
    directories.iter().map(|directory| RunResult::read(directory)).collect()
}

/// Product and version; when those are the same, the settings that tell the sets apart.
fn default_names(a: &[RunResult], b: &[RunResult]) -> (String, String) {
    let (Some(a), Some(b)) = (a.first(), b.first()) else {
        return ("A".to_owned(), "B".to_owned());
    };
    let product = |run: &RunResult| format!("{} {}", run.settings.broker.product, run.settings.broker.version);
    if product(a) != product(b) {
        return (product(a), product(b));
    }
    let told: Vec<differences::Difference> = differences::between(a, b).into_iter().take(2).collect();
    if told.is_empty() {
        return (product(a), product(b));
    }
    let name = |of: fn(&differences::Difference) -> &str| {
        let settings: Vec<String> = told.iter().map(|one| format!("{}={}", one.short_name(), of(one))).collect();
        settings.join(", ")
    };
    (name(|one| &one.a), name(|one| &one.b))
}

/// Runs of one kind.
#[derive(Clone, Debug)]
pub struct Set {
    /// What it is called.
    pub name: String,
    /// At least one.
    pub runs: Vec<RunResult>,
}

impl Set {
    /// Errs for a set without runs, or with runs of different scenarios.
    pub fn new(name: String, runs: Vec<RunResult>) -> anyhow::Result<Self> {
        let first = runs.first().context("a set needs at least one run")?;
        let other = runs.iter().find(|run| run.scenario != first.scenario);
        if let Some(other) = other {
            anyhow::bail!("the set {name} has runs of {} and of {}: give runs of one scenario", first.scenario, other.scenario);
        }
        Ok(Self { name, runs })
    }

    fn first(&self) -> &RunResult {
        &self.runs[0]
    }
}

/// What came of laying two sets side by side.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The first set.
    pub a: Set,
    /// The second.
    pub b: Set,
    /// The figures.
    pub rows: Vec<Row>,
    /// Runs that are not valid, and why; none of the figures is to be used then.
    pub invalid: Vec<String>,
    /// What makes the sets less comparable than they look.
    pub warnings: Vec<String>,
    /// In what the brokers differ: the subject of the comparison, presumably.
    pub subject: Vec<String>,
}

/// What is kept of it for other programs.
#[derive(Serialize)]
struct Kept<'a> {
    a: &'a str,
    b: &'a str,
    invalid: &'a [String],
    warnings: &'a [String],
    subject: &'a [String],
    rows: &'a [Row],
}

impl Comparison {
    /// Compares.
    pub fn of(a: Set, b: Set) -> Self {
        let rows = metrics::rows(&a.runs, &b.runs);
        let invalid = [&a, &b].into_iter().flat_map(invalid).collect();
        let differences = differences::between(a.first(), b.first());
        let (subject, unwanted): (Vec<_>, Vec<_>) = differences.into_iter().partition(|difference| difference.is_subject);
        let mut warnings: Vec<String> = not_durable(&a).into_iter().chain(not_durable(&b)).collect();
        warnings.extend(unwanted.iter().map(differences::Difference::warning));
        warnings.extend([&a, &b].into_iter().flat_map(unlike_each_other));
        warnings.extend(not_interleaved(&a, &b));
        warnings.extend([&a, &b].into_iter().flat_map(noisy));
        warnings.extend([&a, &b].into_iter().flat_map(cold));
        let subject = subject.iter().map(differences::Difference::told).collect();
        Self { a, b, rows, invalid, warnings, subject }
    }

    /// Writes `index.html`, `README.md`, `comparison.json` and the charts.
    pub fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let drawn = directory.join("charts");
        fs::create_dir_all(&drawn).with_context(|| format!("the directory {} cannot be made", drawn.display()))?;
        let charts = page::charts(self)?;
        put(directory, "index.html", page::page(self, &charts).as_bytes())?;
        put(directory, "README.md", self.readme(&charts).as_bytes())?;
        let Self { a, b, rows, invalid, warnings, subject } = self;
        let kept = Kept { a: &a.name, b: &b.name, invalid, warnings, subject, rows };
        put(directory, "comparison.json", &serde_json::to_vec_pretty(&kept)?)?;
        for chart in &charts {
            for (side, svg) in chart.drawings() {
                put(&drawn, &format!("{}{side}.svg", chart.id), standalone(svg).as_bytes())?;
            }
        }
        Ok(())
    }

    /// `INVALID` first if it has to be, then the warnings, then the table.
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self.invalid.iter().map(|why| format!("INVALID: {why}")).collect();
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.push(self.headline());
        lines.extend(self.subject.iter().map(|subject| format!("  {subject}")));
        let table: Vec<Vec<String>> = std::iter::once(self.head()).chain(self.rows.iter().map(Row::cells)).collect();
        lines.extend(columns(&table));
        lines.join("\n") + "\n"
    }

    fn headline(&self) -> String {
        let (a, b) = (&self.a, &self.b);
        let count = |set: &Set| if set.runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", set.runs.len()) };
        format!("{}: A = {} ({}), B = {} ({})", a.first().scenario, a.name, count(a), b.name, count(b))
    }

    fn head(&self) -> Vec<String> {
        ["median (min–max)", "A", "B", "B against A", ""].map(str::to_owned).to_vec()
    }

    fn readme(&self, charts: &[page::Pair]) -> String {
        let word = if self.invalid.is_empty() { "Comparison" } else { "INVALID comparison" };
        let mut paragraphs = vec![format!("# {word}: {}", self.headline())];
        let list = |title: &str, lines: &[String]| {
            let items: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
            (!items.is_empty()).then(|| format!("{title}\n\n{}", items.join("\n")))
        };
        paragraphs.extend(list("Not valid, none of the figures is to be used:", &self.invalid));
        paragraphs.extend(list("Warnings:", &self.warnings));
        paragraphs.extend(list("What differs:", &self.subject));
        paragraphs.push(markdown_table(&self.head(), &self.rows.iter().map(Row::cells).collect::<Vec<_>>()));
        for chart in charts {
            let images = chart.drawings().into_iter().map(|(side, _)| format!("![{}](charts/{}{side}.svg)", chart.title, chart.id));
            paragraphs.push(format!("{}\n\n{}", chart.title, images.collect::<Vec<_>>().join("\n")));
        }
        paragraphs.join("\n\n") + "\n"
    }
}

/// Pads cells so that columns stand below each other.
fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let padded = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(at, cell)| {
            let space = " ".repeat(width(at) - cell.chars().count());
            if at == 0 || at + 1 == row.len() { format!("{cell}{space}") } else { format!("{space}{cell}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(padded).collect()
}

fn invalid(set: &Set) -> Vec<String> {
    let reasons = set.runs.iter().enumerate().map(|(at, run)| (at, crate::report::sections::verdict(run).1));
    reasons.filter(|(_, why)| !why.is_empty()).map(|(at, why)| format!("run {} of {}: {}", at + 1, set.name, why.join("; "))).collect()
}

fn not_durable(set: &Set) -> Option<String> {
    set.runs.iter().find_map(|run| match &run.settings.broker.durability {
        Durability::NotDurable(reasons) => Some(format!("{} is NOT DURABLE: {}", set.name, reasons.join("; "))),
        Durability::Durable | Durability::Unknown => None,
    })
}

fn unlike_each_other(set: &Set) -> Vec<String> {
    let others = set.runs.iter().skip(1).flat_map(|run| differences::between(set.first(), run));
    let mut told: Vec<String> = others.map(|difference| format!("the runs of {} differ in {}", set.name, difference.name)).collect();
    told.sort();
    told.dedup();
    told
}

fn not_interleaved(a: &Set, b: &Set) -> Option<String> {
    let times = |set: &Set| set.runs.iter().map(|run| run.started_at_ms).collect::<Vec<_>>();
    let (a, b) = (times(a), times(b));
    let apart = a.iter().max() < b.iter().min() || b.iter().max() < a.iter().min();
    (apart && a.len() > 1 && b.len() > 1).then(|| {
        "the sets were not interleaved: one was made after the other, and what changed on the machine meanwhile counts as a difference"
            .to_owned()
    })
}

fn noisy(set: &Set) -> Option<String> {
    let noisy: Vec<&HostUse> = set.runs.iter().filter_map(|run| run.host.as_ref()).filter(|host| host.is_noisy()).collect();
    let first = noisy.first()?.noise.join("; ");
    Some(format!("the machine was noisy in {} of {} runs of {}: {first}", noisy.len(), set.runs.len(), set.name))
}

fn cold(set: &Set) -> Option<String> {
    let cold: Vec<String> = set.runs.iter().filter_map(RunResult::was_measured_cold).collect();
    let first = cold.first()?;
    Some(format!("in {} of {} runs of {} {first}", cold.len(), set.runs.len(), set.name))
}

impl Row {
    /// Name, A, B, the change, and what it is worth.
    fn cells(&self) -> Vec<String> {
        let change = self.change.map_or_else(
            || "–".to_owned(),
            |percent| {
                let times = figures::times(1.0 + percent / 100.0).map(|times| format!(", {times}"));
                figures::change(percent) + &times.unwrap_or_default()
            },
        );
        vec![self.name.to_owned(), self.spelt(self.a.as_ref()), self.spelt(self.b.as_ref()), change, self.judgement.words().to_owned()]
    }
}
