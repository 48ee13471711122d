//! A broker that is started once for several runs: a Java process keeps what it has compiled, and one warm-up serves all of them.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{BrokerChoice, Started};
use crate::{interrupt::Interrupt, result::BrokerUnderTest};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// `geminga perf broker`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  geminga perf broker --start pulsar                       in one terminal, until Ctrl-C, and in another:
  geminga perf run iot-telemetry-max-rate-2core --broker perf-broker.json --set measure.messages=2000000

The first run of a Java process is its warm-up: make one that is not counted.")]
pub struct Keep {
    /// Which broker.
    #[command(flatten)]
    pub choice: BrokerChoice,
    /// File that says where it is and how it was started, for --broker of runs; gone when the broker is
    #[arg(long, value_name = "FILE", default_value = "perf-broker.json")]
    pub out: PathBuf,
}

/// Where a broker is that was started for several runs, and how it was started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// Its process.
    pub pid: u32,
    /// The authority that vouches for it, when it speaks TLS.
    #[serde(default)]
    pub trust: Option<PathBuf>,
    /// What reports say of it.
    pub about: BrokerUnderTest,
}

impl Kept {
    /// Reads the file that [`Keep`] wrote.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let hint = || format!("{} cannot be used: give the file that a running `geminga perf broker` wrote", path.display());
        let kept: Self = serde_json::from_slice(&fs::read(path).with_context(hint)?).with_context(hint)?;
        anyhow::ensure!(
            Path::new("/proc").join(kept.pid.to_string()).exists(),
            "the broker of {} (process {}) is gone: start another with `geminga perf broker`",
            path.display(),
            kept.pid
        );
        Ok(kept)
    }
}

impl Keep {
    /// Starts the broker and keeps it until this program is asked to end; errs when the broker ends by itself.
    pub fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let interrupt = Interrupt::listen()?;
        let started = self.choice.start(&interrupt)?;
        let mut started = started.context("it is not said which broker: add --start pulsar or --start geminga")?;
        let kept = Kept { pid: started.pid(), trust: started.trust().map(Path::to_owned), about: started.about().clone() };
        fs::write(&self.out, serde_json::to_vec_pretty(&kept)?).with_context(|| format!("{} cannot be written", self.out.display()))?;
        let about = &kept.about;
        writeln!(out, "{} {} serves {} and {} until Ctrl-C", about.product, about.version, about.service_url, about.admin_url)?;
        writeln!(out, "runs use it by --broker {}", self.out.display())?;
        let ended = wait(&mut started, &interrupt);
        fs::remove_file(&self.out).with_context(|| format!("{} cannot be removed", self.out.display()))?;
        ended
    }
}

fn wait(started: &mut Started, interrupt: &Interrupt) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                _ = interrupt.asked() => return Ok(()),
                _ = looks.tick() => anyhow::ensure!(!started.has_ended(), "the broker ended by itself; its log was {}", started.log().display()),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_gone_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.json");
        assert!(format!("{:#}", Kept::read(&path).unwrap_err()).contains("geminga perf broker"));
        // Greater than any process id can be.
        let kept = Kept { pid: u32::MAX, trust: None, about: BrokerUnderTest::default() };
        fs::write(&path, serde_json::to_vec(&kept).unwrap()).unwrap();
        assert!(Kept::read(&path).unwrap_err().to_string().contains("is gone"));
    }
}
