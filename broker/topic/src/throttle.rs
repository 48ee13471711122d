//! Publishing at a limited rate: what comes faster is held here, per producer, and goes on when its time has come.
//!
//! Nothing is refused and nobody's order changes. The connection that a held publish came over goes on being read, since others use it
//! too; it is told what is held of it, so that it can stop when that is too much.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::event::Publish;
use crate::producers::Producers;
use crate::rate::{Chance, Limiter, SharedLimiter, Waiting};
use crate::rates::PublishRates;
use crate::{Effect, Effects, NonPersistentTopic, Now, ProducerSlot, Topic, TopicSettings, Turn};

/// Publishes larger than this are held as they are; smaller ones are copied, so that they do not keep the buffer that they were read into.
const COPIED: usize = 4 * 1024;

/// A topic's limit on publishes, and whose publishes wait for it.
#[derive(Debug)]
pub(crate) struct Throttle {
    limiter: Option<Limiter>,
    /// The rate of all topics together.
    broker: Option<Arc<SharedLimiter>>,
    /// Held while it waits for that.
    waiting: Option<Waiting>,
    chance: Chance,
    /// When the next publish may go through, as of the last time that none might.
    opens_at: u64,
    /// Producers with held publishes; each in turn gets one through, so that a loud one does not keep the others waiting.
    turns: VecDeque<ProducerSlot>,
    /// How often publishes began to be held.
    times: u64,
}

impl Throttle {
    /// None without limits.
    pub(crate) fn new(limits: &PublishRates, now: Now) -> Option<Box<Throttle>> {
        let (limiter, broker) = (Limiter::new(limits.topic, now), limits.broker.clone());
        let is_limited = limiter.is_some() || broker.is_some();
        let chance = broker.as_ref().map_or_else(Chance::default, |broker| broker.enrol());
        let (opens_at, turns, times) = (0, VecDeque::new(), 0);
        is_limited.then(|| Box::new(Throttle { limiter, broker, waiting: None, chance, opens_at, turns, times }))
    }

    /// Other limits hold from now on; false if there are none any more.
    fn change(&mut self, limits: &PublishRates, now: Now) -> bool {
        self.limiter = Limiter::changed(self.limiter.take(), limits.topic, now);
        self.broker.clone_from(&limits.broker);
        self.waiting = None;
        self.limiter.is_some() || self.broker.is_some()
    }

    /// How often publishes began to be held.
    pub(crate) fn times(&self) -> u64 {
        self.times
    }

    /// Whether a publish that comes now has to wait.
    pub(crate) fn is_shut(&mut self, now: Now) -> bool {
        !self.turns.is_empty() || !self.is_open(now)
    }

    fn is_open(&mut self, now: Now) -> bool {
        let mut opens_at = None;
        if let Some(limiter) = &mut self.limiter
            && !limiter.is_open(now)
        {
            opens_at = Some(limiter.opens_at());
        }
        if let Some(broker) = &self.broker {
            if broker.allowance(now).is_none() {
                opens_at = opens_at.max(Some(broker.turn_at(&mut self.waiting, &mut self.chance, now)));
            } else {
                self.waiting = None;
            }
        }
        self.opens_at = opens_at.unwrap_or(0).max(now.monotonic_ms);
        opens_at.is_none()
    }

    /// So much went through.
    pub(crate) fn passed(&mut self, messages: u64, bytes: u64) {
        if let Some(limiter) = &mut self.limiter {
            limiter.take(messages, bytes);
        }
        if let Some(broker) = &self.broker {
            broker.take(messages, bytes);
        }
    }

    /// When the next publish may go through, if one waits.
    pub(crate) fn deadline(&self) -> Option<u64> {
        (!self.turns.is_empty()).then_some(self.opens_at)
    }

    /// Holds a publish; gives it back if its producer is not there.
    pub(crate) fn hold(&mut self, mut publish: Publish, producers: &mut Producers, out: &mut Effects) -> Result<(), Publish> {
        let (key, slot) = (publish.key, publish.slot);
        let Some(producer) = producers.on_road(key, slot) else { return Err(publish) };
        if publish.bytes.len() <= COPIED {
            publish.bytes = Bytes::copy_from_slice(&publish.bytes);
        }
        self.times += u64::from(self.turns.is_empty());
        if producer.held.is_empty() {
            self.turns.push_back(slot);
        }
        out.push(Effect::Held { to: key, bytes: size(&publish) });
        producer.pending += 1;
        producer.held.push_back(publish);
        Ok(())
    }

    /// The next publish that may go through now.
    pub(crate) fn next(&mut self, producers: &mut Producers, now: Now, out: &mut Effects) -> Option<Publish> {
        if self.turns.is_empty() || !self.is_open(now) {
            return None;
        }
        self.take_next(producers, out)
    }

    /// The next publish, whatever the rate.
    pub(crate) fn take_next(&mut self, producers: &mut Producers, out: &mut Effects) -> Option<Publish> {
        while let Some(slot) = self.turns.pop_front() {
            let Some(producer) = producers.at(slot) else { continue };
            let Some(publish) = producer.held.pop_front() else { continue };
            if !producer.held.is_empty() {
                self.turns.push_back(slot);
            }
            out.push(Effect::Released { to: publish.key, bytes: size(&publish) });
            return Some(publish);
        }
        None
    }

    /// What is held of producers that are gone goes with them, or what is held of `everybody`: it was never stored, and a client that
    /// comes back sends it again.
    pub(crate) fn forget(&mut self, everybody: bool, producers: &mut Producers, out: &mut Effects) {
        self.turns.retain(|slot| {
            let Some(producer) = producers.at(*slot).filter(|producer| everybody || producer.is_gone()) else { return true };
            for publish in std::mem::take(&mut producer.held) {
                let bytes = size(&publish);
                out.push(Effect::Released { to: publish.key, bytes });
                out.push(Effect::Forgotten { to: publish.key, bytes });
                producers.answered(*slot).close(out);
            }
            false
        });
        if self.turns.is_empty() {
            self.waiting = None;
        }
    }
}

impl NonPersistentTopic {
    /// A publish to a topic with a rate: it goes on, or is held.
    pub(crate) fn publish_in_time(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        let Some(throttle) = self.throttle.as_deref_mut() else { return self.publish_now(turn, publish) };
        if self.closing || !throttle.is_shut(turn.now) {
            return self.publish_and_count(turn, publish);
        }
        if let Err(publish) = throttle.hold(publish, &mut self.producers, turn.out) {
            self.publish_now(turn, publish);
        }
    }

    fn publish_and_count(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        let (messages, bytes) = (self.tally.messages_in, self.tally.bytes_in);
        self.publish_now(turn, publish);
        if let Some(throttle) = &mut self.throttle {
            throttle.passed(self.tally.messages_in - messages, self.tally.bytes_in - bytes);
        }
    }

    /// When [`tick`](Self::tick) wants to be called, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        self.throttle.as_ref().and_then(|throttle| throttle.deadline())
    }

    /// Goes on with held publishes whose time has come.
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        while let Some(publish) = self.throttle.as_deref_mut().and_then(|t| t.next(&mut self.producers, turn.now, turn.out)) {
            self.publish_and_count(turn, publish);
        }
    }

    /// Settings changed; who is there stays. Without a rate, all that is held goes on at once.
    pub fn update_settings(&mut self, turn: &mut Turn<'_>, settings: TopicSettings) {
        self.settings = settings;
        let limits = &self.settings.rates.publish;
        let Some(throttle) = &mut self.throttle else {
            self.throttle = Throttle::new(limits, turn.now);
            return;
        };
        if throttle.change(limits, turn.now) {
            return self.tick(turn);
        }
        let Some(mut throttle) = self.throttle.take() else { return };
        while let Some(publish) = throttle.take_next(&mut self.producers, turn.out) {
            self.publish_now(turn, publish);
        }
    }

    /// Forgets what is held of producers that are gone.
    pub(crate) fn forget_held(&mut self, turn: &mut Turn<'_>) {
        if let Some(throttle) = &mut self.throttle {
            throttle.forget(false, &mut self.producers, turn.out);
        }
    }
}

impl Topic {
    /// A publish to a topic with a rate: it goes on, or is held.
    pub(crate) fn publish_in_time(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        let Some(throttle) = self.throttle.as_deref_mut() else { return self.publish_now(turn, publish) };
        let passes = self.faults.held_overtaken && throttle.deadline().is_some();
        if self.closing || self.fenced.is_some() || passes || !throttle.is_shut(turn.now) {
            return self.publish_and_count(turn, publish);
        }
        if let Err(publish) = throttle.hold(publish, &mut self.producers, turn.out) {
            self.publish_now(turn, publish);
        }
    }

    fn publish_and_count(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        let (messages, bytes) = (self.tally.messages_in, self.tally.bytes_in);
        self.publish_now(turn, publish);
        if let Some(throttle) = &mut self.throttle {
            throttle.passed(self.tally.messages_in - messages, self.tally.bytes_in - bytes);
        }
    }

    /// Goes on with held publishes whose time has come.
    pub(crate) fn release_held(&mut self, turn: &mut Turn<'_>) {
        while let Some(publish) = self.throttle.as_deref_mut().and_then(|t| t.next(&mut self.producers, turn.now, turn.out)) {
            let slot = publish.slot;
            self.publish_and_count(turn, publish);
            self.producers.answered(slot).close(turn.out);
        }
    }

    /// Forgets held publishes: of producers that are gone, or all.
    pub(crate) fn forget_held(&mut self, turn: &mut Turn<'_>, everybody: bool) {
        if let Some(throttle) = &mut self.throttle {
            throttle.forget(everybody, &mut self.producers, turn.out);
        }
    }

    /// Another rate holds from now on; without one, all that is held goes on at once.
    pub(crate) fn change_publish_rate(&mut self, turn: &mut Turn<'_>) {
        let limits = &self.settings.rates.publish;
        let Some(throttle) = &mut self.throttle else {
            self.throttle = Throttle::new(limits, turn.now);
            return;
        };
        if throttle.change(limits, turn.now) {
            return self.release_held(turn);
        }
        let Some(mut throttle) = self.throttle.take() else { return };
        while let Some(publish) = throttle.take_next(&mut self.producers, turn.out) {
            let slot = publish.slot;
            self.publish_now(turn, publish);
            self.producers.answered(slot).close(turn.out);
        }
    }
}

fn size(publish: &Publish) -> u32 {
    u32::try_from(publish.bytes.len()).unwrap_or(u32::MAX)
}
