//! Whether publishing runs ahead of consumers that could follow: then it had better wait a moment.
//!
//! A broker that takes publishes as fast as it can leaves its consumers, and their clients beside it, no time; and once they read from
//! storage instead of the cache, they never catch up. So while publishes queue, they give way to subscriptions that have much before them,
//! but two thirds of the time at most, and only to those that take an eighth of what is published: others are slow by themselves and
//! hold nobody up. Nor do they give way to one that came late and gains on them: it will be there soon enough.

use crate::dispatcher::Lane;
use crate::subscription::Subscription;
use crate::{Now, Topic};

/// A subscription that has more entries than this before it is given way to, until it has no more than [`NEAR`]. What was read and waits
/// for a consumer of a Key_Shared subscription that takes what comes counts, too: the others are not to run ahead of it.
const FAR: u64 = 8 * 1024;
const NEAR: u64 = 2 * 1024;
/// How long publishing gives way on end at most, in milliseconds. It earns two of them in each in which it does not.
const PATIENCE_MS: u64 = 50;
/// With less than this it does not begin.
const LEAST_MS: u64 = 10;
/// How often is looked at who takes how much, in milliseconds.
const WINDOW_MS: u64 = 50;
/// A subscription follows if it takes this part of what is published.
const FOLLOWS: u64 = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pace {
    gives_way: bool,
    patience_ms: u64,
    looked_at_ms: u64,
    window_ends_ms: u64,
    messages_in: u64,
}

/// How much a subscription takes.
#[derive(Debug)]
pub(crate) struct Stride {
    messages_out: u64,
    follows: bool,
    /// It was far behind when its consumers came, and still is.
    is_late: bool,
    /// It takes more than is published.
    gains: bool,
}

impl Default for Stride {
    fn default() -> Stride {
        Stride { messages_out: 0, follows: true, is_late: true, gains: false }
    }
}

impl Stride {
    /// Whether publishing may have to wait for it.
    fn is_waited_for(&self) -> bool {
        self.follows && !(self.is_late && self.gains)
    }

    /// In a window, so many messages were published and it took so many; it is `far` behind, or nobody consumes.
    fn measure(&mut self, published: u64, taken: u64, is_far: bool) {
        self.follows = taken > 0 && taken * FOLLOWS >= published;
        self.gains = taken > published;
        self.is_late &= is_far;
    }
}

impl Pace {
    pub(crate) fn new(now: Now) -> Pace {
        Pace { gives_way: false, patience_ms: PATIENCE_MS, looked_at_ms: now.monotonic_ms, window_ends_ms: 0, messages_in: 0 }
    }

    /// Time has passed; returns whether publishing may give way, or go on to.
    fn pass(&mut self, now: Now) -> bool {
        let passed = now.monotonic_ms.saturating_sub(self.looked_at_ms);
        self.looked_at_ms = now.monotonic_ms;
        if self.gives_way {
            self.patience_ms = self.patience_ms.saturating_sub(passed);
            return self.patience_ms > 0;
        }
        self.patience_ms = PATIENCE_MS.min(self.patience_ms + 2 * passed);
        self.patience_ms >= LEAST_MS
    }
}

impl Topic {
    /// Whether its owner had better keep the publishes that queue for it back for now. To be asked again after each turn that the topic had
    /// a part in, and a millisecond later while the answer is yes.
    pub fn gives_way(&mut self, now: Now) -> bool {
        let is_patient = self.pace.pass(now);
        if now.monotonic_ms >= self.pace.window_ends_ms {
            self.measure_strides(now);
        }
        let limit = if self.pace.gives_way { NEAR } else { FAR };
        let ledger = &self.ledgers.chain;
        let is_far = |Subscription { lane, dispatcher, .. }: &Subscription| {
            let unread = ledger.count(ledger.previous(lane.cursor.read_position()), ledger.last_confirmed());
            unread + dispatcher.waiting_for_active(lane, now) > limit
        };
        let mut subscriptions = self.subscriptions.iter().map(|(_, subscription)| subscription);
        self.pace.gives_way = is_patient
            && !self.closing
            && self.fenced.is_none()
            && subscriptions.any(|subscription| {
                let lane = &subscription.lane;
                lane.stride.is_waited_for() && !lane.consumers.is_empty() && is_far(subscription)
            });
        self.pace.gives_way
    }

    fn measure_strides(&mut self, now: Now) {
        self.pace.window_ends_ms = now.monotonic_ms + WINDOW_MS;
        let published = self.tally.messages_in - std::mem::replace(&mut self.pace.messages_in, self.tally.messages_in);
        let ledger = &self.ledgers.chain;
        for (_, subscription) in &mut self.subscriptions {
            let Lane { stride, messages_out, cursor, consumers, .. } = &mut subscription.lane;
            let taken = *messages_out - std::mem::replace(&mut stride.messages_out, *messages_out);
            let is_away = consumers.is_empty();
            stride.is_late |= is_away;
            let is_far = is_away || ledger.count(ledger.previous(cursor.read_position()), ledger.last_confirmed()) > FAR;
            stride.measure(published, taken, is_far);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishing_gives_way_two_thirds_of_the_time_at_most() {
        let at = |monotonic_ms| Now { monotonic_ms, wall_ms: 0 };
        let mut pace = Pace::new(at(0));
        let mut waited = 0;
        for ms in 1..=3_000 {
            pace.gives_way = pace.pass(at(ms));
            waited += u64::from(pace.gives_way);
        }
        assert!((1_800..=2_050).contains(&waited), "{waited} ms of 3,000");
    }

    #[test]
    fn who_came_late_is_waited_for_only_while_it_does_not_gain() {
        let mut stride = Stride::default();
        stride.measure(100, 90, true);
        assert!(stride.is_waited_for());
        stride.measure(100, 300, true);
        assert!(!stride.is_waited_for());
        stride.measure(100, 100, false);
        stride.measure(100, 101, true);
        assert!(stride.is_waited_for(), "it was there, and fell behind");
    }

    #[test]
    fn who_takes_little_is_not_waited_for() {
        let mut stride = Stride::default();
        stride.measure(100, 12, true);
        assert!(!stride.is_waited_for());
    }
}
