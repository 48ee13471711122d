//! One number per question, from socket to socket, with client and broker on one machine.
//!
//! `bench load`: how fast, and what it costs the broker. `bench first`: how soon and how small. Everything that was published is checked to
//! have arrived.

mod cpu;
mod first;
mod load;

use std::{io::Write, process::ExitCode};

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Benches of the whole broker", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
    /// One JSON object instead of a table
    #[arg(long, global = true)]
    json: bool,
    /// A setting of the broker, as KEY=VALUE; may be given several times
    #[arg(long = "set", global = true, value_parser = setting)]
    settings: Vec<(String, String)>,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Publish and consume at full speed
    Load(load::Load),
    /// From an empty directory to the first message; idle memory and CPU
    First(first::First),
}

fn setting(text: &str) -> Result<(String, String), String> {
    text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| "write it as KEY=VALUE".into())
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    // One thread: it must drive hundreds of clients and leave the rest of the machine to the broker.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (report, is_valid) = runtime.block_on(async {
        match &arguments.bench {
            Bench::Load(load) => load.run(&arguments.settings).await,
            Bench::First(first) => first.run(&arguments.settings).await,
        }
    })?;
    let text = if arguments.json { serde_json::to_string(&report)? } else { table(&report) };
    writeln!(std::io::stdout(), "{text}")?;
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Names to the left, values to the right; a list of objects below its name.
fn table(report: &serde_json::Value) -> String {
    let mut out = String::new();
    for (name, value) in report.as_object().into_iter().flatten() {
        match value {
            serde_json::Value::Array(rows) => {
                out += &format!("{name}\n");
                for row in rows {
                    let cells = row.as_object().into_iter().flatten().map(|(_, cell)| format!("{:<18}", plain(cell)));
                    out += &format!("  {}\n", cells.collect::<String>().trim_end());
                }
            }
            other => out += &format!("{name:<42} {}\n", plain(other)),
        }
    }
    out.trim_end().to_owned()
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
