//! The report of a run: a directory that can be kept, sent and read without anything else.

pub(crate) mod bars;
pub(crate) mod chart;
pub(crate) mod figures;
pub(crate) mod files;
pub(crate) mod moment;
pub(crate) mod page;
pub(crate) mod readme;
pub(crate) mod run_charts;
mod run_page;
pub(crate) mod scales;
pub(crate) mod sections;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::result::RunResult;

/// Makes pages, charts and tables again from the record of each run.
#[derive(Clone, Debug, clap::Args)]
pub struct Report {
    /// Run directories
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
}

impl Report {
    /// Writes them, and prints where.
    pub fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        for directory in &self.directories {
            render_again(directory)?;
            writeln!(out, "{}", directory.join("index.html").display())?;
        }
        Ok(())
    }
}

/// A directory of its own for a run, below `parent`: named after moment, scenario and product.
pub fn directory_for(parent: &Path, run: &RunResult) -> PathBuf {
    let words = format!("{}-{}-{}", moment::file_name(run.started_at_ms), run.scenario, run.settings.broker.product);
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c.to_ascii_lowercase() } else { '-' };
    parent.join(words.chars().map(plain).collect::<String>())
}

/// Writes `result.json`, and everything that is made from it, into a directory that is made if need be.
pub fn write(directory: &Path, run: &RunResult) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("the directory {} cannot be made", directory.display()))?;
    files::put(directory, "result.json", &serde_json::to_vec_pretty(run)?)?;
    render(directory, run)
}

/// Makes everything again from the `result.json` of a directory, such as by a newer program.
pub fn render_again(directory: &Path) -> anyhow::Result<()> {
    render(directory, &RunResult::read(directory)?)
}

fn render(directory: &Path, run: &RunResult) -> anyhow::Result<()> {
    let charts = run_charts::charts(run)?;
    files::put(directory, "index.html", run_page::run_page(run, &charts)?.as_bytes())?;
    files::put(directory, "README.md", readme::readme(run, &charts).as_bytes())?;
    files::write(directory, run)?;
    let drawn = directory.join("charts");
    fs::create_dir_all(&drawn).with_context(|| format!("the directory {} cannot be made", drawn.display()))?;
    for chart in &charts {
        files::put(&drawn, &format!("{}.svg", chart.id), page::standalone(&chart.svg).as_bytes())?;
    }
    Ok(())
}
