//! The machine that a run was made on: what it is, and what else it did meanwhile.

use std::fs;

use anyhow::Context;

use crate::result::{HostUse, Machine};

/// Others' work, as a share of all processors, that is too much for a figure to be believed.
const NOISY_SHARE: f64 = 0.05;
/// The same for what the host took away.
const NOISY_STEAL: f64 = 0.01;

impl Machine {
    /// This one. What cannot be found out is left empty.
    pub fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: field(&cpuinfo, "model name").unwrap_or_default().to_owned(),
            processors: std::thread::available_parallelism().map_or(0, |n| n.get() as u64),
            memory: field(&meminfo, "MemTotal").and_then(kibibytes).unwrap_or(0),
            kernel: format!("Linux {}", release.trim()),
        }
    }
}

/// The value of the first line `name : value`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Bytes in a value such as `12 kB`.
pub(crate) fn kibibytes(value: &str) -> Option<u64> {
    value.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The load average of one minute.
pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// What the processors have done since the machine was started.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostClock {
    processors: u64,
    /// Of processes, in seconds of one processor.
    processes: f64,
    /// Of the kernel on nobody's behalf: interrupts.
    interrupts: f64,
    iowait: f64,
    steal: f64,
}

impl HostClock {
    /// Reads the kernel's counters.
    pub fn read() -> anyhow::Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("the machine's counters cannot be read")?;
        Self::parse(&text).context("/proc/stat has no line for all processors")
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let seconds = |at: usize| ticks.get(at).map(|ticks| *ticks as f64 / per_second);
        let is_processor = |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        Some(Self {
            processors: text.lines().filter(is_processor).count() as u64,
            processes: seconds(0)? + seconds(1)? + seconds(2)?,
            iowait: seconds(4)?,
            interrupts: seconds(5)? + seconds(6)?,
            steal: seconds(7).unwrap_or(0.0),
        })
    }

    /// What was done in `seconds` that began with an earlier look; `ours` are the CPU seconds that broker and load generator used in them.
    pub fn since(&self, before: &Self, seconds: f64, ours: f64, load_before: f64) -> HostUse {
        let cores = |now: f64, then: f64| if seconds > 0.0 { ((now - then) / seconds).max(0.0) } else { 0.0 };
        let processes = cores(self.processes, before.processes);
        let steal = cores(self.steal, before.steal);
        let other = (processes - ours / seconds.max(f64::MIN_POSITIVE)).max(0.0);
        HostUse {
            processors: self.processors,
            load_before,
            busy_cores: processes + steal + cores(self.interrupts, before.interrupts),
            other_cores: other,
            steal_cores: steal,
            iowait_cores: cores(self.iowait, before.iowait),
            noise: noise(self.processors, other, steal),
        }
    }
}

fn noise(processors: u64, other: f64, steal: f64) -> Vec<String> {
    let share = |cores: f64| cores / (processors.max(1) as f64);
    let mut noise = Vec::new();
    if share(other) > NOISY_SHARE {
        noise.push(format!("other processes used {other:.2} of {processors} processors"));
    }
    if share(steal) > NOISY_STEAL {
        noise.push(format!("the host took {steal:.2} of {processors} processors away"));
    }
    noise
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  100 0 100 1000 5 0 10 0 0 0\ncpu0 50 0 50 500 5 0 5 0 0 0\ncpu1 50 0 50 500 0 0 5 0 0 0\nintr 1\n";
    // Ten seconds later at a hundred ticks a second: 8 s of processes, 1 s of interrupts, 1 s stolen.
    const AFTER: &str = "cpu  700 0 300 2000 5 0 110 100 0 0\ncpu0 1\ncpu1 1\n";

    fn looked(ours: f64) -> HostUse {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let seconds = 10.0 * 100.0 / ticks;
        HostClock::parse(AFTER).unwrap().since(&HostClock::parse(BEFORE).unwrap(), seconds, ours * 100.0 / ticks, 0.5)
    }

    #[test]
    fn work_of_others_makes_a_host_noisy() {
        let host = looked(6.0);
        assert!((host.other_cores - 0.2).abs() < 1e-6, "{host:?}");
        assert!(host.noise.iter().any(|noise| noise.contains("other processes used 0.20 of 2")), "{host:?}");
    }

    #[test]
    fn stolen_time_makes_a_host_noisy() {
        let host = looked(8.0);
        assert_eq!(host.noise, ["the host took 0.10 of 2 processors away"]);
        assert!((host.busy_cores - 1.0).abs() < 1e-6, "{host:?}");
    }

    #[test]
    fn this_machine_can_be_described() {
        let machine = Machine::here();
        assert!(machine.processors > 0 && machine.memory > 1 << 20, "{machine:?}");
        assert!(HostClock::read().unwrap().processors >= machine.processors);
    }
}
