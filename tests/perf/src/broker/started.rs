//! A broker that was started here: its process, its directory, its addresses.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::cpus::{Cpus, spawn};
use crate::{
    interrupt::{Interrupt, Interrupted},
    result::BrokerUnderTest,
};

/// How long an orderly stop may take before the process is killed.
const STOP: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// Where a broker can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) service_url: String,
    pub(super) admin_url: String,
}

/// Asks a broker that is starting whether it is ready, given its process id.
pub(super) type Ready = Box<dyn Fn(u32) -> Option<Addresses> + Send>;

/// Makes the command line of a broker; given the addresses that it had before, if it had.
pub(super) type CommandLine = Box<dyn Fn(Option<&Addresses>) -> Command + Send>;

/// How a broker is started, each time in the same way.
pub(super) struct Recipe {
    pub(super) command: CommandLine,
    pub(super) ready: Ready,
    pub(super) patience: Duration,
    pub(super) cpus: Option<Cpus>,
    /// Ends the wait for it.
    pub(super) interrupt: Interrupt,
    /// The authority that vouches for it, when it speaks TLS.
    pub(super) trust: Option<PathBuf>,
}

/// A running broker. It is killed when dropped.
pub struct Started {
    child: Child,
    recipe: Recipe,
    home: TempDir,
    starts: u32,
    addresses: Addresses,
    about: BrokerUnderTest,
}

impl std::fmt::Debug for Started {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Started").field("pid", &self.pid()).field("about", &self.about).finish_non_exhaustive()
    }
}

impl Started {
    pub(super) fn new(recipe: Recipe, home: TempDir, about: BrokerUnderTest) -> anyhow::Result<Self> {
        let (child, addresses) = begin(&recipe, home.path(), 1, None)?;
        let about = BrokerUnderTest {
            service_url: addresses.service_url.clone(),
            admin_url: addresses.admin_url.clone(),
            cpus: recipe.cpus.as_ref().map(ToString::to_string),
            ..about
        };
        Ok(Self { child, recipe, home, starts: 1, addresses, about })
    }

    /// Where messages go.
    pub fn service_url(&self) -> &str {
        &self.addresses.service_url
    }

    /// Where it is administered.
    pub fn admin_url(&self) -> &str {
        &self.addresses.admin_url
    }

    /// The authority (PEM) that vouches for it, when it speaks TLS.
    pub fn trust(&self) -> Option<&Path> {
        self.recipe.trust.as_deref()
    }

    /// Its process, for [`Watch`](crate::sample::Watch).
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What a report says of it.
    pub fn about(&self) -> &BrokerUnderTest {
        &self.about
    }

    /// Its directory, with its data and its logs.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Whether its process is gone.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// `kill -9`, and waits until the process is gone. Does nothing to one that has ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same data and the same addresses, after a kill or a stop; returns when it takes connections.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill();
        self.starts += 1;
        (self.child, self.addresses) = begin(&self.recipe, self.home.path(), self.starts, Some(&self.addresses))?;
        Ok(())
    }

    /// Asks it to stop in order, and waits; kills it when it takes longer than a minute, which is an error.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let deadline = Instant::now() + STOP;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                self.kill();
                anyhow::bail!("the broker did not stop within {STOP:?} and was killed; its log is {}", self.log().display());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// What it printed since it was last started.
    pub fn log(&self) -> PathBuf {
        log_file(self.home.path(), self.starts)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
    }
}

fn log_file(home: &Path, start: u32) -> PathBuf {
    home.join(format!("broker-{start}.log"))
}

fn begin(recipe: &Recipe, home: &Path, start: u32, again: Option<&Addresses>) -> anyhow::Result<(Child, Addresses)> {
    let path = log_file(home, start);
    let log = File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?;
    let mut command = (recipe.command)(again);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = spawn(&mut command, recipe.cpus.as_ref())?;
    match wait_until_ready(recipe, &mut child) {
        Ok(addresses) => Ok((child, addresses)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            if error.is::<Interrupted>() {
                return Err(error);
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n");
            Err(error.context(format!("the broker did not start; the end of what it printed:\n{last}")))
        }
    }
}

fn wait_until_ready(recipe: &Recipe, child: &mut Child) -> anyhow::Result<Addresses> {
    let deadline = Instant::now() + recipe.patience;
    loop {
        recipe.interrupt.check()?;
        if let Some(addresses) = (recipe.ready)(child.id()) {
            return Ok(addresses);
        }
        if let Some(status) = child.try_wait()? {
            anyhow::bail!("it ended with {status}");
        }
        anyhow::ensure!(Instant::now() < deadline, "it was not ready within {:?}", recipe.patience);
        thread::sleep(POLL);
    }
}
