//! When messages are due. What is sent late counts from the time it was due, so that a slow broker cannot hide its slowness.

use std::{io, os::fd::OwnedFd};

use rustix::{
    io::read,
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime},
};
use tokio::io::{Interest, unix::AsyncFd};

/// An even schedule: message `n` is due `n / rate` seconds after the start.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    start: u64,
    per_second: f64,
    total: u64,
    taken: u64,
}

impl Schedule {
    /// `total` messages from `start` (microseconds) on.
    #[must_use]
    pub fn new(start: u64, per_second: f64, total: u64) -> Self {
        Self { start, per_second, total, taken: 0 }
    }

    /// When the next message is due; none when all were taken.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        (self.taken < self.total).then(|| self.start + (self.taken as f64 * 1e6 / self.per_second) as u64)
    }

    /// Takes the next message if it is due; returns when it was.
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next_due().filter(|due| *due <= now)?;
        self.taken += 1;
        Some(due)
    }
}

/// Wakes at a time, to some ten microseconds; the runtime's own timers have a grain of a millisecond, which would be most of
/// the latency that is measured.
#[derive(Debug)]
pub struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// An alarm that is not set. Must be called in a runtime.
    ///
    /// # Errors
    /// The kernel has no more timers for this process.
    #[allow(
        deprecated,
        reason = "it is unsound for handles that do not own what they refer to; this one does, and its successor is unsafe"
    )]
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
    }

    /// Sets it to go off once, after so many microseconds; it replaces what was set before.
    ///
    /// # Errors
    /// The kernel refuses the time.
    pub fn set(&self, micros: u64) -> io::Result<()> {
        // Zero would switch it off.
        let nanos = i64::try_from(micros.max(1).saturating_mul(1000)).unwrap_or(i64::MAX);
        let it_value = Timespec { tv_sec: nanos / 1_000_000_000, tv_nsec: nanos % 1_000_000_000 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Waits until it goes off.
    ///
    /// # Errors
    /// The timer cannot be read.
    pub async fn rings(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let mut times = [0; 8];
            match ready.try_io(|timer| read(timer, &mut times).map_err(io::Error::from)) {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                // Set again after it went off and before anybody looked.
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn messages_are_due_evenly_and_counted_from_when_they_were() {
        let mut schedule = Schedule::new(1000, 1000.0, 4);
        assert_eq!((schedule.take(999), schedule.take(1000), schedule.take(1000)), (None, Some(1000), None));
        // Whoever comes late finds all that was missed, each with its own time.
        assert_eq!((schedule.next_due(), schedule.take(9000), schedule.take(9000)), (Some(2000), Some(2000), Some(3000)));
        assert_eq!((schedule.take(9000), schedule.take(9000), schedule.next_due()), (Some(4000), None, None));
    }

    #[test]
    fn rates_that_do_not_divide_a_second_do_not_drift() {
        let mut schedule = Schedule::new(0, 3.0, 300);
        let last = std::iter::from_fn(|| schedule.take(u64::MAX)).last();
        assert_eq!(last, Some(99_666_666));
    }

    #[tokio::test]
    async fn an_alarm_rings_after_its_time_and_again_when_set_again() {
        let alarm = Alarm::new().unwrap();
        let began = Instant::now();
        for _ in 0..2 {
            alarm.set(2000).unwrap();
            alarm.rings().await.unwrap();
        }
        assert!(began.elapsed().as_micros() >= 4000);
    }
}
