//! `geminga perf`: what may be asked of the framework, and what is printed.

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};

use crate::{
    access::Access,
    admin::Admin,
    bench,
    broker::{BrokerChoice, Keep, Kept, Started},
    compare::Compare,
    interrupt::{Interrupt, Interrupted},
    report,
    result::BrokerUnderTest,
    run::{Outcome, Restart, Run, summary},
    scenario::{Override, Scenario, catalog, resolve},
};

/// `geminga perf`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga perf list                                                  what can be run
  geminga perf run tiny --start geminga                              a broker of its own, in a few seconds
  geminga perf run iot-telemetry-max-rate-2core --start geminga --out runs/first
  geminga perf run iot-telemetry-small --service-url pulsar://host:6650 --admin-url http://host:8080
  geminga perf run iot-telemetry-high-rate-2core --set load.rate=8000
  geminga perf run iot-telemetry-max-rate-tls-2core --start geminga  over TLS, with certificates made for the run
  geminga perf run iot-telemetry-high-rate-tls --service-url pulsar+ssl://host:6651 --tls-trust ca.pem --token-file token.txt
  geminga perf show iot-telemetry-catch-up                           every field of a scenario
  geminga perf bench --start geminga                                 one line after ten seconds
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
    Bench(Box<BenchArgs>),
    /// Start a broker and keep it, so that several runs can use it
    Broker(Box<Keep>),
    /// Lay two sets of runs side by side
    #[command(after_help = "\
Examples:
  geminga perf compare runs/a1 runs/a2 runs/a3 -- runs/b1 runs/b2 runs/b3
  geminga perf compare --out runs/change runs/before -- runs/after")]
    Compare(Box<Compare>),
    /// Make pages, charts and tables of runs again from their records
    #[command(after_help = "\
Examples:
  geminga perf report runs/a1 runs/a2")]
    Report(report::Report),
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

/// Which broker: one that is started for the run, or one that is there.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Where the broker is; pulsar+ssl:// for TLS
    #[arg(long, short = 'u', value_name = "URL", default_value = "pulsar://localhost:6650")]
    pub service_url: String,
    /// Where it is administered; the run gets a namespace of its own there
    #[arg(long, value_name = "URL", default_value = "http://localhost:8080")]
    pub admin_url: String,
    /// The broker's process, if it is on this machine, to measure what it uses; may be given several times
    #[arg(long, value_name = "PID", conflicts_with = "start")]
    pub pid: Vec<u32>,
    /// A broker that `geminga perf broker` keeps, by the file that it wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["start", "pid", "service_url", "admin_url", "durable"])]
    pub broker: Option<PathBuf>,
    /// Started here, under conditions of choice.
    #[command(flatten)]
    pub choice: BrokerChoice,
    /// Whom to believe, and who to be.
    #[command(flatten)]
    pub access: Access,
}

/// `geminga perf bench`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga perf bench --start geminga
  geminga perf bench
  geminga perf bench --service-url pulsar://host:6650 --admin-url http://host:8080")]
pub struct BenchArgs {
    /// Which broker.
    #[command(flatten)]
    pub target: Target,
}

/// `geminga perf run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga perf run tiny --start geminga
  geminga perf run iot-telemetry-max-rate-2core --start geminga --set-broker numIOThreads=8 --out runs/eight
  geminga perf run tiny --service-url pulsar://localhost:6650 --admin-url http://localhost:8080 --pid $(pgrep -x geminga)
  geminga perf run iot-telemetry-small-2core --set load.rate=500 --set applications.pods=2
  GEMINGA_PERF_SET_load__rate=500 geminga perf run iot-telemetry-small-2core

Exit codes: 0 the run is valid, 1 it is not or could not be made, 2 the command line was not understood, 3 the scenario is wrong,
130 it was interrupted: Ctrl-C stops a broker that was started here and removes its directory.")]
pub struct RunArgs {
    /// Which one, and what is changed in it.
    #[command(flatten)]
    pub scenario: Chosen,
    /// Which broker.
    #[command(flatten)]
    pub target: Target,
    /// Directory for the report of the run; it must not hold one already [default: one of its own in perf-runs]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// From which everything random is derived
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Keep in the directory what each device sent and each application saw
    #[arg(long)]
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
        Command::Broker(keep) => match keep.run(&mut std::io::stdout().lock()) {
            Ok(()) => VALID,
            Err(error) => refuse(&error, FAILED),
        },
        Command::Report(again) => match again.run(&mut std::io::stdout().lock()) {
            Ok(()) => VALID,
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
    if error.is::<Interrupted>() { Interrupted::CODE } else { code }
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

impl Restart for Started {
    fn kill(&mut self) -> anyhow::Result<()> {
        Self::kill(self);
        Ok(())
    }

    fn start_again(&mut self) -> anyhow::Result<u32> {
        self.restart()?;
        Ok(self.pid())
    }
}

impl Target {
    /// What a report says of the broker.
    async fn about(&self, started: Option<&Started>) -> anyhow::Result<BrokerUnderTest> {
        if let Some(started) = started {
            return Ok(started.about().clone());
        }
        let admin = Admin::new(&self.admin_url, &self.access)?;
        let told = |answer: anyhow::Result<bytes::Bytes>| answer.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        let version = told(admin.get("/admin/v2/brokers/version").await).unwrap_or_default();
        let metrics = told(admin.get("/metrics").await).unwrap_or_default();
        let product = if metrics.contains("\ngeminga_") { "Geminga" } else { "unknown" };
        Ok(self.choice.elsewhere(&self.service_url, &self.admin_url, product, &version))
    }

    /// Runs against it.
    fn play(&self, mut run: Run) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let interrupt = Interrupt::listen()?;
        run.scenario.broker.tls |= self.choice.tls;
        let mut started = BrokerChoice { tls: run.scenario.broker.tls, ..self.choice.clone() }.start(&interrupt)?;
        let kept = self.broker.as_deref().map(Kept::read).transpose()?;
        let mut access = self.access.clone();
        let trust = started.as_ref().and_then(Started::trust).or_else(|| kept.as_ref()?.trust.as_deref());
        if let Some(trust) = trust {
            access.tls_trust = Some(trust.to_owned());
        }
        let (broker, broker_pids) = match kept {
            Some(kept) => (kept.about, vec![kept.pid]),
            None => {
                let pids = started.as_ref().map_or_else(|| self.pid.clone(), |started| vec![started.pid()]);
                (runtime.block_on(self.about(started.as_ref()))?, pids)
            }
        };
        let run = Run { broker, broker_pids, access, ..run };
        anyhow::ensure!(
            started.is_some() || run.scenario.broker.restart_at_seconds.is_none(),
            "scenario {} restarts the broker, so it must be started here: add --start geminga",
            run.name
        );
        let outcome = runtime.block_on(run.run(started.as_mut().map(|started| started as &mut dyn Restart), &interrupt));
        // After an interrupt nobody wants to wait for an orderly end.
        if let Some(started) = &mut started
            && interrupt.check().is_ok()
        {
            started.stop()?;
        }
        outcome
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
            broker: BrokerUnderTest::default(),
            access: Access::default(),
            broker_pids: Vec::new(),
            namespace: self.namespace.clone(),
            shows_progress: !self.quiet,
        };
        match self.play(run) {
            Ok(true) => VALID,
            Ok(false) => FAILED,
            Err(error) => refuse(&error, FAILED),
        }
    }

    fn play(&self, run: Run) -> anyhow::Result<bool> {
        if let Some(out) = &self.out {
            anyhow::ensure!(!out.join("result.json").exists(), "{} already holds a run: choose another directory", out.display());
        }
        let outcome = self.target.play(run)?;
        print(&summary(&outcome.result));
        let out = self.out.clone().unwrap_or_else(|| report::directory_for(Path::new("perf-runs"), &outcome.result));
        self.keep(&outcome, &out)?;
        Ok(outcome.result.correctness.verdict().is_valid())
    }

    fn keep(&self, outcome: &Outcome, out: &Path) -> anyhow::Result<()> {
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
            broker: BrokerUnderTest::default(),
            access: Access::default(),
            broker_pids: Vec::new(),
            namespace: None,
            shows_progress: false,
        };
        let outcome = self.target.play(run)?;
        print(&bench::line(&outcome.result));
        Ok(outcome.result.correctness.verdict().is_valid())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
