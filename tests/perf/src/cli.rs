//! `geminga perf`: what may be asked of the framework, and what is printed.

use std::{env, fs, io::Write, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::{
    bench,
    compare::Compare,
    report,
    result::{BrokerUnderTest, Durability},
    run::{Outcome, Run, summary},
    scenario::{Override, Scenario, catalog, resolve},
};

/// `geminga perf`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga perf list                                                  what can be run
  geminga perf run tiny                                              against a broker on localhost, in a few seconds
  geminga perf run iot-telemetry-max-rate-2core --out runs/first     keep the record
  geminga perf run iot-telemetry-small --service-url pulsar://host:6650 --admin-url http://host:8080
  geminga perf run iot-telemetry-high-rate-2core --set load.rate=8000
  geminga perf show iot-telemetry-catch-up                           every field of a scenario
  geminga perf bench                                                 one line after ten seconds
  geminga perf compare runs/a1 runs/a2 -- runs/b1 runs/b2            is it a difference?

A run in which anything was lost, came out of order or was not what had been sent prints INVALID first and ends with 1.")]
pub struct Perf {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the framework does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the scenarios that come with the program
    List,
    /// Show a scenario with nothing left to a default; the output is a scenario file
    Show(Show),
    /// Run a scenario, check it, and keep its record
    Run(Box<RunArgs>),
    /// Ten seconds at the maximum rate, and one line about them
    Bench(BenchArgs),
    /// Lay two sets of runs side by side
    #[command(after_help = "\
Examples:
  geminga perf compare runs/a1 runs/a2 runs/a3 -- runs/b1 runs/b2 runs/b3
  geminga perf compare runs/before -- runs/after --out runs/change")]
    Compare(Box<Compare>),
}

/// `geminga perf show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga perf show tiny
  geminga perf show tiny --set topics=5 > mine.yaml      and then: geminga perf run mine.yaml")]
pub struct Show {
    /// Which one, and what is changed in it.
    #[command(flatten)]
    pub scenario: Chosen,
}

/// A scenario and changes to it.
#[derive(Clone, Debug, Args)]
pub struct Chosen {
    /// A scenario by its name (see `geminga perf list`), or the path of a file
    #[arg(value_name = "SCENARIO")]
    pub name: String,
    /// Change a field; may be given several times. The environment may do the same: GEMINGA_PERF_SET_load__rate=500
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
}

/// Where the broker is.
#[derive(Clone, Debug, Args)]
pub struct Address {
    /// Where the broker is
    #[arg(long, short = 'u', value_name = "URL", default_value = "pulsar://localhost:6650")]
    pub service_url: String,
    /// Where it is administered; the run gets a namespace of its own there
    #[arg(long, value_name = "URL", default_value = "http://localhost:8080")]
    pub admin_url: String,
}

/// `geminga perf bench`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga perf bench
  geminga perf bench --service-url pulsar://host:6650 --admin-url http://host:8080")]
pub struct BenchArgs {
    /// Where the broker is.
    #[command(flatten)]
    pub at: Address,
}

/// `geminga perf run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga perf run tiny
  geminga perf run iot-telemetry-max-rate-2core --pid $(pgrep -x geminga) --out runs/first
  geminga perf run iot-telemetry-small-2core --set load.rate=500 --set applications.pods=2
  GEMINGA_PERF_SET_load__rate=500 geminga perf run iot-telemetry-small-2core

Exit codes: 0 the run is valid, 1 it is not or could not be made, 2 the command line was not understood, 3 the scenario is wrong.")]
pub struct RunArgs {
    /// Which one, and what is changed in it.
    #[command(flatten)]
    pub scenario: Chosen,
    /// Where the broker is.
    #[command(flatten)]
    pub at: Address,
    /// The broker's process, if it is on this machine, to measure what it uses; may be given several times
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Directory for the record of the run; it must not hold one already
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// From which everything random is derived
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Keep in the directory what each device sent and each application saw
    #[arg(long, requires = "out")]
    pub states: bool,
    /// Namespace to run in, created if need be and left as it is at the end; topics in it must be fresh [default: one of its own]
    #[arg(long, value_name = "TENANT/NAME")]
    pub namespace: Option<String>,
    /// Print nothing while it runs
    #[arg(long, short = 'q')]
    pub quiet: bool,
}

const VALID: u8 = 0;
const FAILED: u8 = 1;
const WRONG_SCENARIO: u8 = 3;

/// Does what was asked for.
#[must_use]
pub fn main(perf: &Perf) -> ExitCode {
    let code = match &perf.command {
        Command::List => print(&list()),
        Command::Show(show) => match show.scenario.resolve() {
            Ok((scenario, _)) => print(&yaml(&scenario)),
            Err(error) => refuse(&error, WRONG_SCENARIO),
        },
        Command::Run(args) => args.run(),
        Command::Bench(args) => args.run(),
        Command::Compare(compare) => match compare.run(&mut std::io::stdout().lock()) {
            Ok(is_valid) => {
                if is_valid {
                    VALID
                } else {
                    FAILED
                }
            }
            Err(error) => refuse(&error, FAILED),
        },
    };
    ExitCode::from(code)
}

fn print(text: &str) -> u8 {
    match writeln!(std::io::stdout().lock(), "{}", text.trim_end()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => refuse(&anyhow::anyhow!("cannot print: {error}"), FAILED),
        _ => VALID,
    }
}

fn refuse(error: &anyhow::Error, code: u8) -> u8 {
    eprintln!("geminga perf: {error:#}");
    code
}

fn list() -> String {
    let width = catalog::names().map(str::len).max().unwrap_or(0);
    let line = |name: &str| {
        let description = resolve(name, &[]).map(|scenario| scenario.description).unwrap_or_default();
        format!("{name:width$}  {description}")
    };
    catalog::names().map(line).collect::<Vec<_>>().join("\n")
}

/// JSON is YAML; groups on lines of their own are easier to read and to change.
fn yaml(scenario: &Scenario) -> String {
    fn lines(value: &serde_json::Value, indent: usize, out: &mut String) {
        let Some(object) = value.as_object() else { return };
        for (name, value) in object {
            out.push_str(&" ".repeat(indent));
            if value.is_object() {
                out.push_str(&format!("{name}:\n"));
                lines(value, indent + 2, out);
            } else {
                out.push_str(&format!("{name}: {value}\n"));
            }
        }
    }
    let mut out = String::new();
    lines(&scenario.to_json(), 0, &mut out);
    out
}

impl Chosen {
    /// The scenario with its changes, and those as text. The environment comes before the command line.
    fn resolve(&self) -> anyhow::Result<(Scenario, Vec<String>)> {
        let mut overrides = Override::from_variables(env::vars())?;
        for text in &self.set {
            overrides.push(Override::parse(text)?);
        }
        let told = overrides.iter().map(|change| format!("{}={}", change.path, change.value)).collect();
        Ok((resolve(&self.name, &overrides)?, told))
    }
}

impl RunArgs {
    fn run(&self) -> u8 {
        let (scenario, overrides) = match self.scenario.resolve() {
            Ok(resolved) => resolved,
            Err(error) => return refuse(&error, WRONG_SCENARIO),
        };
        let run = Run {
            name: self.scenario.name.clone(),
            scenario,
            overrides,
            seed: self.seed,
            broker: broker_at(&self.at),
            broker_pids: self.pid.clone(),
            namespace: self.namespace.clone(),
            shows_progress: !self.quiet,
        };
        match self.play(&run) {
            Ok(is_valid) => {
                if is_valid {
                    VALID
                } else {
                    FAILED
                }
            }
            Err(error) => refuse(&error, FAILED),
        }
    }

    fn play(&self, run: &Run) -> anyhow::Result<bool> {
        if let Some(out) = &self.out {
            anyhow::ensure!(!out.join(RECORD).exists(), "{} already holds a run: choose another directory", out.display());
            fs::create_dir_all(out).with_context(|| format!("{} cannot be created", out.display()))?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(run.run(None))?;
        print(&summary(&outcome.result));
        if let Some(out) = &self.out {
            self.keep(&outcome, out)?;
        }
        Ok(outcome.result.correctness.verdict().is_valid())
    }

    fn keep(&self, outcome: &Outcome, out: &std::path::Path) -> anyhow::Result<()> {
        report::write(out, &outcome.result)?;
        if self.states {
            outcome.sent.numbers.save(&out.join("producers.numbers"))?;
            for (application, tracker) in outcome.heard.trackers.iter().enumerate() {
                tracker.next().save(&out.join(format!("{}.numbers", crate::pods::name(application))))?;
            }
        }
        print(&format!("the report is {}", out.join("index.html").display()));
        Ok(())
    }
}

impl BenchArgs {
    fn run(&self) -> u8 {
        match self.play() {
            Ok(true) => VALID,
            Ok(false) => FAILED,
            Err(error) => refuse(&error, FAILED),
        }
    }

    fn play(&self) -> anyhow::Result<bool> {
        let run = Run {
            name: bench::SCENARIO.to_owned(),
            scenario: resolve(bench::SCENARIO, &[])?,
            overrides: Vec::new(),
            seed: 1,
            broker: broker_at(&self.at),
            broker_pids: Vec::new(),
            namespace: None,
            shows_progress: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(run.run(None))?;
        print(&bench::line(&outcome.result));
        Ok(outcome.result.correctness.verdict().is_valid())
    }
}

fn broker_at(at: &Address) -> BrokerUnderTest {
    BrokerUnderTest {
        product: "unknown".to_owned(),
        service_url: at.service_url.clone(),
        admin_url: at.admin_url.clone(),
        durability: Durability::Unknown,
        ..BrokerUnderTest::default()
    }
}

const RECORD: &str = "result.json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_a_scenario_again() {
        for name in catalog::names() {
            let scenario = resolve(name, &[]).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("shown.yaml");
            fs::write(&path, yaml(&scenario)).unwrap();
            assert_eq!(resolve(path.to_str().unwrap(), &[]).unwrap(), scenario, "{name}");
        }
    }

    #[test]
    fn the_list_has_a_line_for_each_scenario() {
        assert_eq!(list().lines().count(), catalog::names().count());
    }
}
