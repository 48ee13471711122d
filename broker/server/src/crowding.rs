//! Messages that consumers hold unacked, of all topics together. While that is too much, those subscriptions get nothing more that
//! hold most of it.
//!
//! Each worker says once a turn what its own topics' consumers hold, if it is another number than before. The numbers are taken from the
//! topics each time, so there is nothing to come out of step.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::hosting::Hosted;
use crate::letter::{Letter, TopicRef};
use crate::settings::CrowdLimit;
use crate::worker::Worker;

/// What all workers read of it.
#[derive(Debug)]
pub(crate) struct Crowding {
    limit: Option<CrowdLimit>,
    /// By worker.
    held: Vec<AtomicU64>,
    crowded: AtomicBool,
}

impl Crowding {
    pub(crate) fn new(limit: Option<CrowdLimit>, workers: usize) -> Crowding {
        Crowding { limit, held: (0..workers).map(|_| AtomicU64::new(0)).collect(), crowded: AtomicBool::new(false) }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// What a subscription may hold for now, besides its own limit.
    pub(crate) fn most(&self) -> Option<u64> {
        self.limit.filter(|_| self.crowded.load(Ordering::SeqCst)).map(|limit| limit.per_subscription)
    }

    /// What a worker's topics hold now. Tells whether the verdict is another one since, of which all workers have to hear.
    fn weigh(&self, worker: u16, held: u64) -> bool {
        let (Some(limit), Some(own)) = (self.limit, self.held.get(usize::from(worker))) else { return false };
        // One order for all: of two workers that change at once, the later one sees what the earlier one has written.
        own.store(held, Ordering::SeqCst);
        let mut turned = false;
        loop {
            let total: u64 = self.held.iter().map(|held| held.load(Ordering::SeqCst)).sum();
            let before = self.crowded.load(Ordering::SeqCst);
            let after = if before { total * 2 >= limit.messages } else { total >= limit.messages };
            if before == after {
                return turned;
            }
            // Whoever was faster is followed by another look: the sum may be another one too.
            turned |= self.crowded.compare_exchange(before, after, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        }
    }
}

impl Hosted {
    /// Something happened to the topic: what is held of it is counted anew, and its worker's sum follows.
    pub(crate) fn recount(&mut self, sum: &mut u64) {
        let held = self.topic.held_messages();
        *sum = *sum - self.held + held;
        self.held = held;
    }
}

impl Worker {
    /// Once a turn: says what this worker's topics hold, and tells all if that makes it too much, or no longer too much.
    pub(crate) fn weigh_held(&mut self) {
        if self.held == self.weighed {
            return;
        }
        self.weighed = self.held;
        if self.shared.crowding.weigh(self.index, self.held) {
            match self.shared.crowding.most() {
                Some(most) => tracing::warn!(most, "too many messages are unacked: subscriptions that hold more than this get no more"),
                None => tracing::info!("fewer messages are unacked: all subscriptions go on"),
            }
            for worker in (0..self.shared.mailboxes.len()).filter_map(|worker| u16::try_from(worker).ok()) {
                // The letter does not say which way it went: two of them could come in the other order.
                self.send(worker, Letter::Call(Box::new(Worker::heed_crowding)));
            }
        }
    }

    fn heed_crowding(&mut self) {
        let most = self.shared.crowding.most();
        let keys: Vec<TopicRef> = self.topics.iter_mut().map(|(_, _, hosted)| hosted.key).collect();
        for key in keys {
            let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { continue };
            hosted.topic.set_crowded(most);
            self.after_event(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited() -> Crowding {
        Crowding::new(Some(CrowdLimit { messages: 100, per_subscription: 16 }), 3)
    }

    #[test]
    fn the_limit_is_on_the_sum_and_is_lifted_below_half_of_it() {
        let crowding = limited();
        assert!(!crowding.weigh(0, 50));
        assert!(!crowding.weigh(1, 49));
        assert_eq!(crowding.most(), None);
        assert!(crowding.weigh(2, 1), "100 of 100");
        assert_eq!(crowding.most(), Some(16));
        assert!(!crowding.weigh(0, 500), "it was known");
        assert!(!crowding.weigh(0, 0), "50 is not below half");
        assert_eq!(crowding.most(), Some(16));
        assert!(crowding.weigh(1, 48));
        assert_eq!(crowding.most(), None);
        assert!(!crowding.weigh(1, 90), "one more time the whole limit");
    }

    #[test]
    fn without_a_limit_nothing_is_too_much() {
        let crowding = Crowding::new(None, 2);
        assert!(!crowding.is_limited());
        assert!(!crowding.weigh(0, u64::MAX));
        assert_eq!(crowding.most(), None);
    }

    #[test]
    fn workers_that_change_at_once_leave_the_right_verdict_behind() {
        for _ in 0..200 {
            let crowding = limited();
            std::thread::scope(|scope| {
                for worker in 0..3 {
                    let crowding = &crowding;
                    scope.spawn(move || {
                        for held in (0..200).chain((0..10).rev()) {
                            crowding.weigh(worker, held);
                        }
                    });
                }
            });
            assert_eq!(crowding.most(), None, "nothing is held any more");
        }
    }
}
