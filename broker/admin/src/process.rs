//! What the operating system says of this process. Reading it blocks for a moment, so that it is done on the control pool.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Numbers of the process; absent ones could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessStats {
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) open_fds: Option<usize>,
    pub(crate) max_fds: Option<u64>,
    pub(crate) start_seconds: Option<f64>,
}

/// The unit of times in `/proc`: 100 on every architecture this is built for.
const TICKS_PER_SECOND: f64 = 100.0;

impl ProcessStats {
    pub(crate) fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").ok();
        let times = stat.as_deref().and_then(times);
        Self {
            cpu_seconds: times.map(|t| t.cpu),
            resident_bytes: kilobytes(&status, "VmRSS:"),
            virtual_bytes: kilobytes(&status, "VmSize:"),
            open_fds: fs::read_dir("/proc/self/fd").ok().map(Iterator::count),
            max_fds: limits.lines().find_map(|l| l.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok()),
            start_seconds: times.and_then(|t| started(t.start)),
        }
    }
}

#[derive(Clone, Copy)]
struct Times {
    cpu: f64,
    /// Seconds from the machine's start to the process's.
    start: f64,
}

fn times(stat: &str) -> Option<Times> {
    // The name before may hold anything, even parentheses.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let seconds = |index: usize| Some(fields.get(index)?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    Some(Times { cpu: seconds(11)? + seconds(12)?, start: seconds(19)? })
}

fn started(since_boot: f64) -> Option<f64> {
    let uptime: f64 = fs::read_to_string("/proc/uptime").ok()?.split(' ').next()?.parse().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64();
    Some(now - (uptime - since_boot).max(0.0))
}

fn kilobytes(status: &str, key: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_numbers() {
        let stats = ProcessStats::read();
        assert!(stats.cpu_seconds.is_some_and(|s| s >= 0.0), "{stats:?}");
        assert!(stats.resident_bytes.is_some_and(|b| b > 100_000), "{stats:?}");
        assert!(stats.open_fds.is_some_and(|n| n > 2), "{stats:?}");
        assert!(stats.max_fds.is_some_and(|n| n > 2), "{stats:?}");
        assert!(stats.start_seconds.is_some_and(|s| s > 1_700_000_000.0), "{stats:?}");
    }

    #[test]
    fn a_strange_process_name_does_not_shift_the_fields() {
        let stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 150 13 14 15 16 17 18 1000 20 21";
        let times = times(stat).unwrap();
        assert!((times.cpu - 4.0).abs() < 1e-9);
        assert!((times.start - 10.0).abs() < 1e-9);
    }
}
