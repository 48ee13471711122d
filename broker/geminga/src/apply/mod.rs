//! `geminga apply`: tenants, namespaces, topics and policies as a file says, and nothing else changed.

mod document;
mod plan;

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use client::Http;

use crate::remote::Reach;
use document::Document;
use plan::{Plan, Step};

/// `geminga apply`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga apply -f house.yaml --dry-run     what would change
  geminga apply -f house.yaml
  geminga apply -f - < house.yaml

A file:
  tenants:
    acme: {adminRoles: [ops]}
  namespaces:
    acme/orders:
      messageTTL: 86400
      retention: {retentionTimeInMinutes: 180, retentionSizeInMB: 1024}
      permissions: {app: [produce, consume]}
  topics:
    persistent://acme/orders/new:
      partitions: 4
      maxProducers: 10

Policies have the names and values of the REST interface. What the file does not mention stays as it is; nothing is removed.
Applying the same file again changes nothing.")]
pub struct Apply {
    /// The file, YAML or JSON; - is the standard input
    #[arg(long, short = 'f', value_name = "FILE")]
    pub file: PathBuf,
    /// Only tell what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Where the broker is.
    #[command(flatten)]
    pub reach: Reach,
}

/// Compares, and changes what differs. The text tells each change.
pub fn run(apply: &Apply) -> anyhow::Result<String> {
    let text = read(&apply.file)?;
    let document = Document::parse(&text).with_context(|| format!("{} cannot be applied", apply.file.display()))?;
    let http = apply.reach.http()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let plan = Plan::of(&document, &http).await?;
        if !plan.refusals.is_empty() {
            bail!("nothing was changed:\n  {}", plan.refusals.join("\n  "));
        }
        let mut told = String::new();
        for (done, step) in plan.steps.iter().enumerate() {
            if !apply.dry_run {
                carry_out(&http, step).await.with_context(|| format!("{step}\n{told}{done} of {} changes were made", plan.steps.len()))?;
            }
            told.push_str(&format!("{step}\n"));
        }
        let tense = if apply.dry_run { "to change" } else { "changed" };
        Ok(format!("{told}{} {tense}, {} as wanted\n", plan.steps.len(), plan.as_wanted))
    })
}

async fn carry_out(http: &Http, step: &Step) -> anyhow::Result<()> {
    let body = step.body.as_ref().map(|body| ("application/json", body.to_string().into()));
    let answer = http.ask(step.method.clone(), &step.path, body).await.map_err(crate::remote::explained)?;
    crate::remote::refuse_failures(http, &step.method, &step.path, &answer)
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let outcome = match file.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text),
        _ => std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text)),
    };
    outcome.with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text)
}
