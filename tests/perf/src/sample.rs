//! Watches a process while a run is measured: CPU time of every thread, memory and context switches, as the kernel counts them.

mod threads;

use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Context;

use self::threads::Look;
pub use self::threads::kind_of;
use crate::result::{ProcessPoint, ProcessUse, ThreadShares};

/// How often a process is looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// For how long threads are compared, in the middle of the window.
const THREADS_OVER: f64 = 15.0;

/// A process that is being looked at, once a second and at both ends of the window, until [`stop`](Self::stop).
#[derive(Debug)]
pub struct Watch {
    name: String,
    seen: Arc<Mutex<Seen>>,
    stop: mpsc::Sender<()>,
    looking: JoinHandle<()>,
}

/// What was seen of a process.
#[derive(Debug)]
struct Seen {
    pid: u32,
    looks: Vec<Look>,
    window: Option<Instant>,
    window_end: Option<Instant>,
}

impl Watch {
    /// Begins to look at a process; errs when it is not there.
    pub fn start(name: &str, pid: u32) -> anyhow::Result<Self> {
        let mut seen = Seen { pid, looks: Vec::new(), window: None, window_end: None };
        seen.look().with_context(|| format!("process {pid} ({name}) cannot be watched: it is gone or on another machine"))?;
        let seen = Arc::new(Mutex::new(seen));
        let (stop, stopped) = mpsc::channel();
        let shared = seen.clone();
        let looking = thread::Builder::new().name("watch".to_owned()).spawn(move || look_until(&stopped, &shared))?;
        Ok(Self { name: name.to_owned(), seen, stop, looking })
    }

    /// The measured window begins now.
    pub fn begin_window(&self) {
        let mut seen = lock(&self.seen);
        seen.window = seen.look().or(Some(Instant::now()));
    }

    /// The measured window ends now; what follows is kept for the charts.
    pub fn end_window(&self) {
        let mut seen = lock(&self.seen);
        seen.window_end = seen.look().or(Some(Instant::now()));
    }

    /// Goes on with another process under the same name, such as the broker after a restart.
    pub fn follow(&self, pid: u32) {
        let mut seen = lock(&self.seen);
        seen.pid = pid;
        seen.look();
    }

    /// Ends, and tells what was used in the window; a window that was not given is all that was seen.
    pub fn stop(self) -> ProcessUse {
        drop(self.stop);
        // A panic of the thread that looked has been printed; what it saw before is told.
        let _ = self.looking.join();
        let mut seen = lock(&self.seen);
        if seen.window_end.is_none() {
            seen.look();
        }
        seen.told(self.name)
    }
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look_until(stopped: &mpsc::Receiver<()>, seen: &Mutex<Seen>) {
    while stopped.recv_timeout(INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
        lock(seen).look();
    }
}

impl Seen {
    /// Looks now; nothing when the process is gone.
    fn look(&mut self) -> Option<Instant> {
        let look = Look::at(self.pid).ok()?;
        let at = look.at;
        self.looks.push(look);
        Some(at)
    }

    fn told(&self, name: String) -> ProcessUse {
        let (Some(first), Some(last)) = (self.looks.first(), self.looks.last()) else {
            return ProcessUse { name, ..ProcessUse::default() };
        };
        let zero = self.window.unwrap_or(first.at);
        let end = self.window_end.unwrap_or(last.at);
        let inside: Vec<&Look> = self.looks.iter().filter(|look| look.at >= zero && look.at <= end).collect();
        let mut told = ProcessUse { name, timeline: self.timeline(zero), ..ProcessUse::default() };
        // A process that was replaced meanwhile is counted on both sides of the gap.
        for pair in inside.windows(2) {
            if let [before, after] = pair {
                told.add(before, after);
            }
        }
        let first = inside.first();
        (told.age_seconds, told.cpu_seconds_before) = (first.and_then(|look| look.age), first.map(|look| look.cpu));
        let rss = |look: &&Look| look.rss;
        told.rss_max = inside.iter().map(rss).max().unwrap_or(0);
        told.rss_mean = inside.iter().map(rss).sum::<u64>().checked_div(inside.len() as u64).unwrap_or(0);
        told.threads =
            middle(&inside).map(|(before, after)| ThreadShares { from: seconds_since(before.at, zero), ..threads::shares(before, after) });
        told
    }

    fn timeline(&self, zero: Instant) -> Vec<ProcessPoint> {
        let mut points = Vec::new();
        let mut before = self.looks.first();
        for after in self.looks.iter().skip(1) {
            let Some(earlier) = before else { break };
            // The ends of the window are looked at whenever they come: what lies between two looks may be too short to be divided by.
            if earlier.pid == after.pid && after.at < earlier.at + INTERVAL / 4 {
                continue;
            }
            if earlier.pid == after.pid {
                let cores = after.cpu_since(earlier) / (after.at - earlier.at).as_secs_f64();
                points.push(ProcessPoint { second: seconds_since(after.at, zero), cores, rss: after.rss });
            }
            before = Some(after);
        }
        points
    }
}

impl ProcessUse {
    fn add(&mut self, before: &Look, after: &Look) {
        self.seconds += (after.at - before.at).as_secs_f64();
        if before.pid != after.pid {
            return;
        }
        self.cpu_seconds += after.cpu_since(before);
        self.system_seconds += (after.system - before.system).max(0.0);
        let (voluntary, involuntary) = after.switches_since(before);
        self.voluntary_switches += voluntary;
        self.involuntary_switches += involuntary;
        let written = after.written.zip(before.written).map(|(now, then)| now.saturating_sub(then));
        self.written_bytes = written.map(|bytes| bytes + self.written_bytes.unwrap_or(0)).or(self.written_bytes);
    }
}

/// Two looks about [`THREADS_OVER`] apart around the middle of the window, at one process; the ends of a shorter window.
fn middle<'a>(inside: &[&'a Look]) -> Option<(&'a Look, &'a Look)> {
    let (first, last) = (inside.first()?, inside.last()?);
    let spare = ((last.at - first.at).as_secs_f64() - THREADS_OVER).max(0.0);
    let from = first.at + Duration::from_secs_f64(spare / 2.0);
    let before = inside.iter().rev().find(|look| look.at <= from)?;
    let until = before.at + Duration::from_secs_f64(THREADS_OVER);
    let after = inside.iter().find(|look| look.at >= until).unwrap_or(last);
    (before.pid == after.pid && after.at > before.at).then_some((before, after))
}

fn seconds_since(at: Instant, zero: Instant) -> f64 {
    if at >= zero { (at - zero).as_secs_f64() } else { -(zero - at).as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ThreadKind;

    /// Works until it has used this much of a processor, by its own clock of CPU time.
    fn burn(seconds: f64) {
        let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let spent = |from: rustix::time::Timespec| {
            let now = used();
            (now.tv_sec - from.tv_sec) as f64 + (now.tv_nsec - from.tv_nsec) as f64 / 1e9
        };
        let from = used();
        while spent(from) < seconds {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_busy_thread_is_seen_as_busy_and_a_sleeping_one_is_not() {
        let watch = Watch::start("test", std::process::id()).unwrap();
        let (wake, sleep) = mpsc::channel::<()>();
        let sleeper = thread::Builder::new().name("geminga-io-1".to_owned()).spawn(move || sleep.recv().is_err()).unwrap();
        watch.begin_window();
        let busy = thread::Builder::new().name("geminga-io-0".to_owned());
        // The thread is there when the window ends, so that it is counted.
        let (done, go_on) = (Arc::new(std::sync::Barrier::new(2)), Arc::new(std::sync::Barrier::new(2)));
        let both = (done.clone(), go_on.clone());
        let busy = busy
            .spawn(move || {
                burn(0.3);
                both.0.wait();
                both.1.wait();
            })
            .unwrap();
        done.wait();
        watch.end_window();
        go_on.wait();
        drop(wake);
        busy.join().unwrap();
        sleeper.join().unwrap();
        let told = watch.stop();
        assert!(told.cpu_seconds >= 0.25 && told.rss_max > 0, "{told:?}");
        let threads = told.threads.unwrap();
        let busy = threads.threads.iter().find(|thread| thread.name == "geminga-io-0").unwrap();
        assert_eq!(busy.kind, ThreadKind::Loop);
        assert!(busy.share * threads.seconds >= 0.29 && busy.share <= 1.05, "{threads:?}");
        assert!(threads.threads.iter().all(|thread| thread.name != "geminga-io-1" || thread.share < busy.share / 10.0), "{threads:?}");
        assert_eq!(threads.loops, 2);
    }

    #[test]
    fn a_process_that_is_not_there_is_told() {
        let error = Watch::start("broker", u32::MAX - 1).unwrap_err().to_string();
        assert!(error.contains("gone"), "{error}");
    }
}
