//! What a process has used, as the kernel counts it.

use std::{fs, path::Path, time::Duration};

use anyhow::Context;

/// CPU time of a process since it started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    /// Of the whole process, with threads that have ended, in steps of the scheduler's clock.
    pub(crate) process: Duration,
    /// Of each thread that is there, to the nanosecond.
    pub(crate) threads: Vec<Thread>,
}

#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) time: Duration,
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
            threads.push(Thread { id, name: name.trim().to_owned(), time: Duration::from_nanos(nanos) });
        }
        Ok(Self { process: process_time(&home)?, threads })
    }

    /// What was used since an earlier look.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let earlier = |id: &str| before.threads.iter().find(|thread| thread.id == id).map_or(Duration::ZERO, |thread| thread.time);
        let threads = self.threads.iter().map(|thread| Thread { time: thread.time - earlier(&thread.id), ..thread.clone() });
        Self { process: self.process - before.process, threads: threads.collect() }
    }

    /// The threads' times, summed: finer than the process's own.
    pub(crate) fn of_threads(&self) -> Duration {
        self.threads.iter().map(|thread| thread.time).sum()
    }
}

fn process_time(home: &Path) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(home.join("stat"))?;
    // The name, in brackets, may hold anything; what follows the last one is numbers.
    let fields: Vec<&str> = stat.rsplit_once(')').context("stat without a name")?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<u64>().ok()).context("stat without times");
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64((ticks(11)? + ticks(12)?) as f64 / ticks_per_second as f64))
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
