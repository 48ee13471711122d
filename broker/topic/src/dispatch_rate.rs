//! Delivering at a limited rate: of each subscription, of the topic, of all topics together. A subscription that is over sends nothing
//! and asks again when its time has come; what waits for it stays where it is, so no order and no permit is touched.

use crate::dispatcher::Lane;
use crate::errand::SubscriptionIndex;
use crate::rate::{Allowance, Chance, Limiter, Waiting};
use crate::rates::DispatchRates;
use crate::{Effect, Now, Topic, Turn};

/// A subscription that has more entries than this before it is far behind (Pulsar's `managedLedgerCursorBackloggedThreshold`).
const FAR_BEHIND: u64 = 1_000;
/// The topic's part of it.
#[derive(Debug)]
pub(crate) struct TopicPace {
    limiter: Option<Limiter>,
    /// Whose turn it is among subscriptions that wait for the same rate.
    turn: SubscriptionIndex,
    chance: Chance,
}

/// A subscription's part of it.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionPace {
    limiter: Option<Limiter>,
    /// Sends nothing until then.
    until: Option<u64>,
    /// Held while it waits for the broker's rate.
    waiting: Option<Waiting>,
    stopped: Stopped,
}

/// How often a subscription that had something to send was over a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Over its own: on messages, on bytes.
    pub by_subscription: (u64, u64),
    /// Over its topic's.
    pub by_topic: (u64, u64),
    /// Over the broker's.
    pub by_broker: (u64, u64),
}

impl TopicPace {
    /// None without limits.
    pub(crate) fn new(limits: &DispatchRates, now: Now) -> Option<Box<TopicPace>> {
        let chance = limits.broker.as_ref().map_or_else(Chance::default, |broker| broker.enrol());
        limits.are_set().then(|| Box::new(TopicPace { limiter: Limiter::new(limits.topic, now), turn: 0, chance }))
    }

    fn changed(before: Option<Box<TopicPace>>, limits: &DispatchRates, now: Now) -> Option<Box<TopicPace>> {
        let mut after = TopicPace::new(limits, now)?;
        after.limiter = Limiter::changed(before.and_then(|before| before.limiter), limits.topic, now);
        Some(after)
    }
}

impl SubscriptionPace {
    fn is_waiting(&self, now: Now) -> bool {
        self.until.is_some_and(|until| until > now.monotonic_ms)
    }

    /// When the subscription asks again, if it is over a limit.
    pub(crate) fn until(&self) -> Option<u64> {
        self.until
    }

    pub(crate) fn stopped(&self) -> Stopped {
        self.stopped
    }

    /// What may be sent under all limits; if that is nothing, when to ask again.
    fn allowance(&mut self, topic: &mut TopicPace, limits: &DispatchRates, now: Now) -> Result<Allowance, u64> {
        let mut allowed = Allowance::ANY;
        let mut opens_at = None;
        for (limiter, count) in [(&mut self.limiter, &mut self.stopped.by_subscription), (&mut topic.limiter, &mut self.stopped.by_topic)] {
            let Some(limiter) = limiter else { continue };
            let own = limiter.allowance(now);
            count_shut(own, count);
            if own.is_none() {
                opens_at = opens_at.max(Some(limiter.opens_at()));
            }
            allowed = allowed.and(own);
        }
        if let Some(broker) = &limits.broker {
            let own = broker.allowance(now);
            count_shut(own, &mut self.stopped.by_broker);
            if own.is_none() {
                opens_at = opens_at.max(Some(broker.turn_at(&mut self.waiting, &mut topic.chance, now)));
            } else {
                self.waiting = None;
            }
            allowed = allowed.and(own);
        }
        opens_at.map_or(Ok(allowed), Err)
    }
}

fn count_shut(allowed: Allowance, count: &mut (u64, u64)) {
    count.0 += u64::from(allowed.messages == 0);
    count.1 += u64::from(allowed.bytes == 0);
}

impl Topic {
    /// Other limits hold from now on.
    pub(crate) fn change_dispatch_limits(&mut self, now: Now) {
        let limits = &self.settings.rates.dispatch;
        self.pace_out = TopicPace::changed(self.pace_out.take(), limits, now);
        for (_, subscription) in &mut self.subscriptions {
            let Some(pace) = &mut subscription.pace_out else { continue };
            (pace.until, pace.waiting) = (None, None);
            pace.limiter = Limiter::changed(pace.limiter.take(), limits.subscription, now);
        }
    }

    /// One dispatch step of a subscription, as far as its rates allow.
    pub(crate) fn dispatch_in_time(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        let (now, limits) = (turn.now, &self.settings.rates.dispatch);
        let (Some(topic), Some(subscription)) = (self.pace_out.as_deref_mut(), self.subscriptions.get_mut(index)) else { return };
        if let Some(pace) = &mut subscription.pace_out {
            if pace.is_waiting(now) {
                return;
            }
            pace.until = None;
        }
        let ledger = &self.ledgers.chain;
        let is_far = |lane: &Lane| ledger.count(ledger.previous(lane.cursor.read_position()), ledger.last_confirmed()) > FAR_BEHIND;
        if limits.spares_followers && !is_far(&subscription.lane) {
            return self.dispatch_step(turn, index, Allowance::ANY);
        }
        let new = || Box::new(SubscriptionPace { limiter: Limiter::new(limits.subscription, now), ..SubscriptionPace::default() });
        let pace = subscription.pace_out.get_or_insert_with(new);
        if !subscription.lane.has_backlog(ledger) {
            pace.waiting = None;
            return;
        }
        let allowed = match pace.allowance(topic, limits, now) {
            Ok(allowed) => allowed,
            Err(opens_at) => {
                let opens_at = if self.faults.rate_never_ends { u64::MAX } else { opens_at };
                pace.until = Some(opens_at.max(now.monotonic_ms + 1));
                return;
            }
        };
        let (effects, messages, bytes) = (turn.out.len(), subscription.lane.messages_out, subscription.lane.bytes_out);
        self.dispatch_step(turn, index, allowed);
        let Some(subscription) = self.subscriptions.get_mut(index) else { return };
        let bytes = subscription.lane.bytes_out - bytes;
        let messages = match self.settings.rates.dispatch.batch_counts_once {
            true => turn.out.iter().skip(effects).filter(|effect| matches!(effect, Effect::Deliver { .. })).count() as u64,
            false => subscription.lane.messages_out - messages,
        };
        self.count_sent(index, messages, bytes);
    }

    fn count_sent(&mut self, index: SubscriptionIndex, messages: u64, bytes: u64) {
        if messages == 0 && bytes == 0 {
            return;
        }
        if let Some(topic) = &mut self.pace_out {
            topic.turn = index + 1;
            topic.limiter.iter_mut().for_each(|limiter| limiter.take(messages, bytes));
        }
        if let Some(broker) = &self.settings.rates.dispatch.broker {
            broker.take(messages, bytes);
        }
        if let Some(pace) = self.subscriptions.get_mut(index).and_then(|subscription| subscription.pace_out.as_mut()) {
            pace.limiter.iter_mut().for_each(|limiter| limiter.take(messages, bytes));
        }
    }

    /// Of subscriptions that wait for the same rate the one behind the last that got something goes first.
    pub(crate) fn in_turns(&self, indices: &mut [SubscriptionIndex]) {
        if let Some(topic) = &self.pace_out {
            let first = indices.partition_point(|index| *index < topic.turn);
            indices.rotate_left(first);
        }
    }
}
