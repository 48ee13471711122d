//! What nobody uses: topics that are deleted after a while, and subscriptions that are.

use crate::subscription::{Phase, Subscription};
use crate::{Effect, Topic, TopicSettings, Turn};

/// What happens to what nobody uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idleness {
    /// When the topic is to be deleted; none for never.
    pub topic: Option<Desertion>,
    /// After how long without a consumer a durable subscription is deleted, in milliseconds (`subscriptionExpirationTimeMinutes`);
    /// 0 for never.
    pub subscription_ms: u64,
}

/// When a topic is to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desertion {
    /// After how long without producers and consumers, in milliseconds (`brokerDeleteInactiveTopicsMaxInactiveDurationSeconds`).
    pub after_ms: u64,
    /// Whether it may have subscriptions then, if there is nothing left to read for them (`brokerDeleteInactiveTopicsMode`).
    pub caught_up: bool,
}

/// When a topic was used last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastUse {
    at_ms: u64,
}

impl LastUse {
    pub(crate) fn new(now_ms: u64) -> LastUse {
        LastUse { at_ms: now_ms }
    }
}

impl Topic {
    /// Somebody who used the topic is gone: from now on it is counted how long nobody does.
    pub(crate) fn was_used(&mut self, turn: &Turn<'_>) {
        self.last_use = LastUse::new(turn.now.monotonic_ms);
    }

    /// When the topic is to be deleted, if nobody comes.
    pub(crate) fn desertion_deadline(&self) -> Option<u64> {
        let rule = self.settings.idle.topic?;
        if !self.seats.is_empty() || !self.producers.is_empty() || self.access.waiting() > 0 || !self.publishes.is_empty() {
            return None;
        }
        // What is kept for readers of the past keeps the topic.
        let kept_ms = match self.settings.retention {
            ledger::Retention { time_ms, .. } if time_ms < 0 => return None,
            ledger::Retention { time_ms, .. } => u64::try_from(time_ms).unwrap_or(0),
        };
        let kept = !rule.caught_up && self.subscriptions.iter().any(|(_, subscription)| subscription.is_users());
        (!kept).then(|| self.last_use.at_ms.saturating_add(rule.after_ms.max(kept_ms)))
    }

    /// Asks to be deleted if it is time to.
    pub(crate) fn tick_desertion(&mut self, turn: &mut Turn<'_>) {
        if self.desertion_deadline().is_none_or(|at| at > turn.now.monotonic_ms) {
            return;
        }
        // Whatever comes of it: if the topic is still there, it asks again after as long.
        self.was_used(turn);
        let chain = &self.ledgers.chain;
        let reading = |(_, subscription): (usize, &Subscription)| subscription.is_users() && subscription.lane.cursor.backlog(chain) > 0;
        if !self.subscriptions.iter().any(reading) {
            turn.out.push(Effect::Deserted);
        }
    }
}

impl Subscription {
    /// When it is to be deleted, if no consumer comes.
    pub(crate) fn desertion_deadline(&self, settings: &TopicSettings) -> Option<u64> {
        let after_ms = settings.idle.subscription_ms;
        let idle = after_ms > 0 && self.durable && self.is_open() && self.lane.consumers.is_empty() && self.is_users();
        idle.then(|| self.used_at_ms.saturating_add(after_ms))
    }

    /// Begins its deletion if it is time to; whether it did.
    pub(crate) fn tick_desertion(&mut self, settings: &TopicSettings, now_ms: u64) -> bool {
        let due = self.desertion_deadline(settings).is_some_and(|at| at <= now_ms);
        if due {
            self.phase = Phase::Deleting { asked: None };
        }
        due
    }
}
