//! Once a period of statistics, each worker looks at how its counters grew. Between two looks nothing is computed.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use topic::stats::WRITE_LATENCIES;

use crate::worker::Worker;

/// What a worker keeps from one look to the next.
#[derive(Debug)]
pub(crate) struct Period {
    every: Duration,
    /// On the worker's clock.
    ends_ms: u64,
    began: Instant,
    cpu_before: Duration,
    busy: f64,
    writes: Writes,
}

impl Period {
    pub(crate) fn new(every: Duration, first: Duration) -> Self {
        let ends_ms = millis(first);
        Self { every, ends_ms, began: Instant::now(), cpu_before: Duration::ZERO, busy: 0.0, writes: Writes::default() }
    }

    /// When the next look is due, by the worker's clock.
    pub(crate) fn ends_ms(&self) -> u64 {
        self.ends_ms
    }

    /// The share of the last period that the loop's thread was running.
    pub(crate) fn busy(&self) -> f64 {
        self.busy
    }

    /// Counts entries that became durable, or did not, after so many microseconds.
    pub(crate) fn written(&mut self, entries: u64, micros: u64) {
        self.writes.count(entries, micros);
    }

    pub(crate) fn writes(&self) -> WriteLatency {
        WriteLatency {
            count: self.writes.count,
            sum_us: self.writes.sum_us,
            classes: self.writes.classes,
            last_period: self.writes.last.clone(),
        }
    }
}

/// How long writes took.
#[derive(Clone, Debug, Default)]
pub struct WriteLatency {
    /// Entries written.
    pub count: u64,
    /// Their microseconds together, from the hand-over to the log to its answer.
    pub sum_us: u64,
    /// Entries by class: up to each of [`WRITE_LATENCIES`](topic::stats::WRITE_LATENCIES), and longer.
    pub classes: [u64; 10],
    /// Microseconds of the entries of the last period; none if nothing was written.
    pub last_period: Option<Histogram<u32>>,
}

#[derive(Debug, Default)]
struct Writes {
    count: u64,
    sum_us: u64,
    classes: [u64; 10],
    current: Option<Histogram<u32>>,
    last: Option<Histogram<u32>>,
}

/// Longer ones count as this long.
const LONGEST_US: u64 = 60_000_000;

impl Writes {
    fn count(&mut self, entries: u64, micros: u64) {
        self.count += entries;
        self.sum_us += entries * micros;
        let class = WRITE_LATENCIES.partition_point(|end| *end < micros);
        if let Some(count) = self.classes.get_mut(class) {
            *count += entries;
        }
        if self.current.is_none() {
            self.current = Histogram::new_with_bounds(1, LONGEST_US, 2).ok();
        }
        if let Some(current) = &mut self.current {
            current.saturating_record_n(micros.min(LONGEST_US), u32::try_from(entries).unwrap_or(u32::MAX));
        }
    }
}

impl Worker {
    /// Looks, if the period has ended.
    pub(crate) fn look_at_growth(&mut self) {
        let now = self.now.monotonic_ms;
        if now < self.period.ends_ms {
            return;
        }
        let cpu = thread_cpu();
        let period = &mut self.period;
        // The first period may be as short as a turn.
        let seconds = period.began.elapsed().as_secs_f64().max(0.001);
        period.began = Instant::now();
        period.ends_ms = now + millis(period.every);
        period.busy = (cpu.saturating_sub(period.cpu_before).as_secs_f64() / seconds).min(1.0);
        period.cpu_before = cpu;
        period.writes.last = period.writes.current.take();
        for (_, _, hosted) in self.topics.iter_mut() {
            hosted.topic.period_ended(seconds);
        }
    }
}

/// CPU time of the thread that asks.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
