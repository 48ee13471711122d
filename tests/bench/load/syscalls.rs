//! The system calls of a process, counted by `perf`.

use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// A count that is under way.
pub(super) struct Syscalls(Child);

impl Syscalls {
    /// Counts what a process calls for some seconds.
    pub(super) fn count(pid: u32, seconds: f64) -> anyhow::Result<Self> {
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x,", "-e", "raw_syscalls:sys_enter", "-p", &pid.to_string(), "--", "sleep", &seconds.to_string()]);
        let child = perf.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("--syscalls needs perf")?;
        Ok(Self(child))
    }

    /// Waits for the end and returns the count.
    pub(super) fn counted(self) -> anyhow::Result<u64> {
        let output = self.0.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        let count = text.lines().find(|line| line.contains("sys_enter")).and_then(|line| line.split(',').next()?.parse().ok());
        count.with_context(|| format!("perf counted nothing: {text}"))
    }
}
