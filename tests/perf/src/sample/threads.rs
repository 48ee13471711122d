//! One look at a process and its threads.

use std::{collections::HashMap, fs, path::Path, time::Instant};

use anyhow::Context;

use crate::{
    machine::{field, kibibytes},
    result::{BUSY_SHARE, ThreadKind, ThreadShare, ThreadShares},
};

/// Counters of a process at one moment.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) pid: u32,
    /// CPU seconds so far, with threads that have ended.
    pub(super) cpu: f64,
    /// Of those, in the kernel.
    pub(super) system: f64,
    /// Seconds since it was started.
    pub(super) age: Option<f64>,
    pub(super) rss: u64,
    pub(super) written: Option<u64>,
    threads: HashMap<u32, Thread>,
}

#[derive(Clone, Debug)]
struct Thread {
    name: String,
    seconds: f64,
    voluntary: u64,
    involuntary: u64,
}

impl Look {
    pub(super) fn at(pid: u32) -> anyhow::Result<Self> {
        let home = Path::new("/proc").join(pid.to_string());
        let at = Instant::now();
        let stat = fs::read_to_string(home.join("stat"))?;
        let (user, system) = times(&stat).context("a stat line without times")?;
        let status = fs::read_to_string(home.join("status"))?;
        let mut threads = HashMap::new();
        for task in fs::read_dir(home.join("task"))? {
            let task = task?;
            let id = task.file_name().to_string_lossy().parse::<u32>()?;
            // A thread may end while the list is walked.
            if let Some(thread) = Thread::read(&task.path()) {
                threads.insert(id, thread);
            }
        }
        let rss = field(&status, "VmRSS").and_then(kibibytes).unwrap_or(0);
        Ok(Self { at, pid, cpu: user + system, system, age: age(&stat), rss, written: written(&home), threads })
    }

    /// CPU seconds since an earlier look at the same process.
    pub(super) fn cpu_since(&self, before: &Self) -> f64 {
        (self.cpu - before.cpu).max(0.0)
    }

    /// Voluntary and involuntary context switches since an earlier look; those of threads that ended between are not known.
    pub(super) fn switches_since(&self, before: &Self) -> (u64, u64) {
        self.threads.iter().fold((0, 0), |sum, (id, thread)| {
            let earlier = before.threads.get(id);
            let then = earlier.map_or((0, 0), |earlier| (earlier.voluntary, earlier.involuntary));
            (sum.0 + thread.voluntary.saturating_sub(then.0), sum.1 + thread.involuntary.saturating_sub(then.1))
        })
    }
}

impl Thread {
    fn read(task: &Path) -> Option<Self> {
        let status = fs::read_to_string(task.join("status")).ok()?;
        let schedstat = fs::read_to_string(task.join("schedstat")).ok()?;
        let nanos: u64 = schedstat.split_whitespace().next()?.parse().ok()?;
        let count = |name| field(&status, name).and_then(|count| count.parse().ok()).unwrap_or(0);
        Some(Self {
            name: field(&status, "Name").unwrap_or_default().to_owned(),
            seconds: nanos as f64 / 1e9,
            voluntary: count("voluntary_ctxt_switches"),
            involuntary: count("nonvoluntary_ctxt_switches"),
        })
    }
}

/// What every thread used between two looks at the same process, the busiest first.
pub(super) fn shares(before: &Look, after: &Look) -> ThreadShares {
    let seconds = (after.at - before.at).as_secs_f64();
    let share = |(id, thread): (&u32, &Thread)| {
        let earlier = before.threads.get(id);
        let (used, voluntary, involuntary) = earlier.map_or((0.0, 0, 0), |then| (then.seconds, then.voluntary, then.involuntary));
        ThreadShare {
            name: thread.name.clone(),
            kind: kind_of(&thread.name),
            share: (thread.seconds - used).max(0.0) / seconds,
            voluntary_switches: thread.voluntary.saturating_sub(voluntary) as f64 / seconds,
            involuntary_switches: thread.involuntary.saturating_sub(involuntary) as f64 / seconds,
        }
    };
    let mut threads: Vec<ThreadShare> = after.threads.iter().map(share).collect();
    threads.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
    let loops = || threads.iter().filter(|thread| thread.kind == ThreadKind::Loop);
    let (all, busy) = (loops().count() as u64, loops().filter(|thread| thread.share > BUSY_SHARE).count() as u64);
    // An idle loop says something; an idle helper does not.
    threads.retain(|thread| thread.kind == ThreadKind::Loop || thread.share > 0.0);
    ThreadShares { from: 0.0, seconds, loops: all, busy_loops: busy, threads }
}

/// What a thread of this name is there for, in Geminga and in Apache Pulsar with a bookie in the same process.
/// The kernel keeps 15 bytes of a name.
pub fn kind_of(name: &str) -> ThreadKind {
    const LOOPS: [&str; 2] = ["geminga-io-", "pulsar-io-"];
    const LOG: [&str; 11] = [
        "log-writer",
        "log-sync",
        "Bookie",
        "bookie-",
        "ForceWrite",
        "db-storage",
        "SyncThread",
        "rocksdb",
        "DirectIO",
        "BookKeeperClien",
        "bookkeeper-io-",
    ];
    if LOOPS.iter().any(|prefix| name.starts_with(prefix)) {
        ThreadKind::Loop
    } else if LOG.iter().any(|prefix| name.starts_with(prefix)) {
        ThreadKind::LogWriter
    } else {
        ThreadKind::Helper
    }
}

/// User and system seconds in a line of `/proc/PID/stat`.
fn times(stat: &str) -> Option<(f64, f64)> {
    // The name, in brackets, may hold anything; what follows the last one is numbers.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let seconds = |at: usize| fields.get(at)?.parse::<u64>().ok().map(|ticks| ticks as f64 / per_second);
    Some((seconds(11)?, seconds(12)?))
}

/// Seconds since the process of a line of `/proc/PID/stat` was started.
fn age(stat: &str) -> Option<f64> {
    let started: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let uptime: f64 = fs::read_to_string("/proc/uptime").ok()?.split_whitespace().next()?.parse().ok()?;
    Some((uptime - started as f64 / rustix::param::clock_ticks_per_second() as f64).max(0.0))
}

fn written(home: &Path) -> Option<u64> {
    let io = fs::read_to_string(home.join("io")).ok()?;
    field(&io, "write_bytes")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_hide_the_times() {
        let ticks = rustix::param::clock_ticks_per_second();
        let line = format!("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 {ticks} {} 0 0", 2 * ticks);
        assert_eq!(times(&line), Some((1.0, 2.0)));
    }

    #[test]
    fn threads_are_known_by_what_the_kernel_keeps_of_their_names() {
        assert_eq!(kind_of("geminga-io-12"), ThreadKind::Loop);
        assert_eq!(kind_of("pulsar-io-3-12"), ThreadKind::Loop);
        assert_eq!(kind_of("ForceWriteThrea"), ThreadKind::LogWriter);
        assert_eq!(kind_of("log-sync"), ThreadKind::LogWriter);
        assert_eq!(kind_of("bookkeeper-io-3"), ThreadKind::LogWriter);
        assert_eq!(kind_of("bookkeeper-ml-s"), ThreadKind::Helper);
        assert_eq!(kind_of("log-read-0"), ThreadKind::Helper);
        assert_eq!(kind_of("G1 Conc#0"), ThreadKind::Helper);
    }
}
