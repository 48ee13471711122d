//! Subscriptions that are behind the cache, and what a loop spends on them while it has others to serve.
//!
//! What storage answers is hundreds of entries at once. A loop with publishes to serve reads such answers behind everything else, a
//! share of its time: who is at the tail does not notice those who catch up, and they catch up several times as fast as is published. A
//! loop without publishes gives them all of it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::letter::{Letter, TopicEvent};
use crate::worker::Worker;

/// Answers with fewer entries are read at once: a redelivery, a look at a single entry.
const MANY: usize = 32;
/// One part in so many of a loop's time.
const SHARE: u32 = 10;
/// What is saved up at most while nothing waits.
const SAVED: Duration = Duration::from_millis(1);
/// How long a loop that served publishes counts as one that has publishes to serve, in milliseconds.
const LIVE_MS: u64 = 50;

/// The answers of storage that wait, and the time there is for them.
#[derive(Debug)]
pub(crate) struct CatchUp<T = Letter> {
    waiting: VecDeque<T>,
    /// Time that may be spent, less what was overspent: the last answer is read whole.
    earned: Duration,
    owed: Duration,
    looked_at: Instant,
    live_until_ms: u64,
}

impl<T> CatchUp<T> {
    pub(crate) fn new(now: Instant) -> CatchUp<T> {
        CatchUp { waiting: VecDeque::new(), earned: SAVED, owed: Duration::ZERO, looked_at: now, live_until_ms: 0 }
    }

    pub(crate) fn push(&mut self, letter: T) {
        self.waiting.push_back(letter);
    }

    /// Publishes were served.
    pub(crate) fn live(&mut self, now_ms: u64) {
        self.live_until_ms = now_ms + LIVE_MS;
    }

    /// Time has passed, and a share of it is earned.
    fn pass(&mut self, now: Instant) {
        let earned = now.saturating_duration_since(self.looked_at) / SHARE;
        self.looked_at = now;
        let paid = earned.min(self.owed);
        self.owed -= paid;
        self.earned = (self.earned + earned - paid).min(SAVED);
    }

    fn spend(&mut self, spent: Duration) {
        self.owed += spent.saturating_sub(self.earned);
        self.earned = self.earned.saturating_sub(spent);
    }

    fn is_live(&self, now_ms: u64) -> bool {
        now_ms < self.live_until_ms
    }

    /// The next to be read now, if it is time for one.
    fn take(&mut self, now_ms: u64) -> Option<T> {
        if self.is_live(now_ms) && !self.owed.is_zero() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// When there is time for the next one.
    pub(crate) fn next(&self, now_ms: u64) -> Option<u64> {
        if self.waiting.is_empty() {
            return None;
        }
        let debt = u64::try_from((self.owed * SHARE).as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        Some(now_ms.saturating_add(if self.is_live(now_ms) { debt } else { 0 }))
    }
}

/// Whether a letter may wait for time that is left over.
pub(crate) fn may_wait(letter: &Letter) -> bool {
    match letter {
        Letter::ToTopic { event: TopicEvent::ReadDone(outcome), .. } => outcome.entries.as_ref().is_ok_and(|found| found.len() >= MANY),
        _ => false,
    }
}

impl Worker {
    /// Reads answers of storage for as long as there is time for them.
    pub(crate) fn read_catch_up(&mut self, me: &Rc<RefCell<Worker>>) {
        if self.catch_up.waiting.is_empty() {
            return;
        }
        let mut now = Instant::now();
        self.catch_up.pass(now);
        while let Some(letter) = self.catch_up.take(self.now.monotonic_ms) {
            self.read(letter, me);
            self.read_local(me);
            let began = std::mem::replace(&mut now, Instant::now());
            self.catch_up.spend(now - began);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_with_publishes_spends_its_share_and_no_more() {
        let start = Instant::now();
        let mut catch_up = CatchUp::new(start);
        (0..1000).for_each(|letter| catch_up.push(letter));
        let mut read = 0;
        for ms in 1..=1000 {
            catch_up.live(ms);
            catch_up.pass(start + Duration::from_millis(ms));
            while catch_up.take(ms).is_some() {
                catch_up.spend(Duration::from_millis(1));
                read += 1;
            }
        }
        assert!((98..=104).contains(&read), "{read} ms of 1,000");
        assert!(catch_up.next(1000).is_some_and(|at| at > 1000));
    }

    #[test]
    fn a_loop_without_publishes_spends_all() {
        let mut catch_up = CatchUp::new(Instant::now());
        (0..10).for_each(|letter| catch_up.push(letter));
        catch_up.live(0);
        while catch_up.take(LIVE_MS).is_some() {
            catch_up.spend(Duration::from_millis(1));
        }
        assert_eq!(catch_up.next(LIVE_MS), None);
    }
}
