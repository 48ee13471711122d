//! What a process has used, as the kernel counts it.

use std::{fs, path::Path, time::Duration};

use anyhow::Context;

/// CPU time of a process since it started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    /// Of each thread that is there, to the nanosecond.
    pub(crate) threads: Vec<Thread>,
}

#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) time: Duration,
    /// How often it went to sleep by itself.
    pub(crate) switches: u64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let home = Path::new("/proc").join(pid.to_string());
        let mut threads = Vec::new();
        for task in fs::read_dir(home.join("task")).with_context(|| format!("process {pid} is gone"))? {
            let task = task?.path();
            // A thread may end while the list is walked.
            let (Ok(name), Ok(times)) = (fs::read_to_string(task.join("comm")), fs::read_to_string(task.join("schedstat"))) else {
                continue;
            };
            let nanos = times.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).context("schedstat has no time")?;
            let id = task.file_name().map(|id| id.to_string_lossy().into_owned()).unwrap_or_default();
            let switches = fs::read_to_string(task.join("status")).ok().and_then(|status| voluntary_switches(&status)).unwrap_or(0);
            threads.push(Thread { id, name: name.trim().to_owned(), time: Duration::from_nanos(nanos), switches });
        }
        Ok(Self { threads })
    }

    /// What was used since an earlier look.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let earlier = |id: &str| before.threads.iter().find(|thread| thread.id == id).map_or((Duration::ZERO, 0), |t| (t.time, t.switches));
        let threads = self.threads.iter().map(|thread| {
            let (time, switches) = earlier(&thread.id);
            Thread { time: thread.time - time, switches: thread.switches - switches, ..thread.clone() }
        });
        Self { threads: threads.collect() }
    }

    /// The threads' times, summed: to the nanosecond, where the process's own is in ticks. A thread that has ended is left out.
    pub(crate) fn of_threads(&self) -> Duration {
        self.threads.iter().map(|thread| thread.time).sum()
    }

    /// How often its threads went to sleep by themselves.
    pub(crate) fn switches(&self) -> u64 {
        self.threads.iter().map(|thread| thread.switches).sum()
    }
}

fn voluntary_switches(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// Resident memory in bytes: now, and at most so far.
pub(crate) fn memory(pid: u32) -> anyhow::Result<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("status without memory")?;
        Ok::<u64, anyhow::Error>(line.split_whitespace().next().context("no number")?.parse::<u64>()? * 1024)
    };
    Ok((line("VmRSS:")?, line("VmHWM:")?))
}
