//! Producers and consumers coming and going.

use wire::ServerError;

use crate::compaction::COMPACTION_CURSOR;
use crate::compaction::view::View;
use crate::consumer::Consumer;
use crate::dedup::DEDUPLICATION_CURSOR;
use crate::errand::SubscriptionIndex;
use crate::event::{AttachConsumer, AttachProducer, StartAt};
use crate::subscription::{Asked, Phase, Waiter};
use crate::terminate::TERMINATED;
use crate::topic::Seat;
use crate::{AccessMode, ConsumerKey, ConsumerSlot, Effect, ProducerKey, ProducerSlot, Reply, SubscriptionKind, Topic, Turn};

/// An answer that is an error.
pub(crate) type Refusal = (ServerError, String);

impl Topic {
    /// Answers with `ProducerReady` or `Error` (ProducerBusy, TopicTerminated, ServiceNotReady while unloading).
    pub fn attach_producer(&mut self, turn: &mut Turn<'_>, attach: AttachProducer) {
        let asked = Asked { to: attach.key.connection, request: attach.request };
        if self.is_going_away(turn, asked) {
            return;
        }
        if self.end.is_near {
            return self.error(turn, asked, ServerError::TopicTerminatedError, TERMINATED);
        }
        if self.producers.attached(attach.key).is_none() && self.is_over_quota(turn, asked) {
            return;
        }
        match attach.initial_subscription.clone() {
            Some(name) => match self.by_name.get(&name).copied() {
                Some(index)
                    if self.subscriptions.get(index).is_some_and(|found| !matches!(found.phase, Phase::Locating(_) | Phase::Creating)) =>
                {
                    self.admit_producer(turn, attach);
                }
                Some(index) => self.wait_for(index, Waiter::Producer(attach)),
                None if !self.settings.auto_subscription => {
                    let message = "the initial subscription does not exist and subscriptions are not created automatically";
                    self.error(turn, asked, ServerError::NotAllowedError, message);
                }
                None => match self.settings.limits.subscription(self.subscriptions()) {
                    Ok(()) => self.open_subscription(turn, name, true, StartAt::Earliest, Waiter::Producer(attach)),
                    Err((error, message)) => self.error(turn, asked, error, &message),
                },
            },
            None => self.admit_producer(turn, attach),
        }
    }

    /// Lets in a producer that nothing stands against but perhaps its name.
    pub(crate) fn let_in(&mut self, turn: &mut Turn<'_>, attach: AttachProducer) {
        let (key, asked, mode) = (attach.key, Asked { to: attach.key.connection, request: attach.request }, attach.access);
        match self.producers.attach(attach, &self.settings.producer_name_prefix, turn.now) {
            Ok((slot, name)) => self.producer_ready(turn, key, asked, slot, name, mode),
            Err(taken) => self.error(turn, asked, ServerError::ProducerBusy, &taken.to_string()),
        }
        self.forget_held(turn, false);
    }

    pub(crate) fn producer_ready(
        &mut self,
        turn: &mut Turn<'_>,
        producer: ProducerKey,
        asked: Asked,
        slot: ProducerSlot,
        name: String,
        mode: AccessMode,
    ) {
        let topic_epoch = self.access.epoch_of(mode);
        let known = self.dedup.as_mut().map(|dedup| dedup.know(&name, turn.now));
        self.producers.set_known(slot, known.map(|(known, _)| known));
        let last_sequence = known.map_or(-1, |(_, last)| last);
        let reply = Reply::ProducerReady { request: asked.request, producer, slot, name, last_sequence, topic_epoch };
        turn.out.push(Effect::Reply { to: asked.to, reply });
    }

    /// Frees the name once pending publishes are answered; `request` none when the connection is gone (publishes go on, unanswered).
    pub fn detach_producer(&mut self, turn: &mut Turn<'_>, key: ProducerKey, request: Option<u64>) {
        self.withdraw(turn, |waiter| matches!(waiter, Waiter::Producer(attach) if attach.key == key));
        let gone = self.access.withdraw(key) || self.producers.detach(key, request);
        self.forget_held(turn, false);
        self.was_used(turn);
        if let Some(request) = request.filter(|_| gone) {
            turn.out.push(Effect::Reply { to: key.connection, reply: Reply::Success { request } });
        }
        self.promote(turn);
    }

    /// Answers with `ConsumerReady` or `Error` (ConsumerBusy, SubscriptionNotFound, NotAllowed, ServiceNotReady while fenced).
    pub fn attach_consumer(&mut self, turn: &mut Turn<'_>, attach: AttachConsumer) {
        let asked = Asked { to: attach.key.connection, request: attach.request };
        if self.is_going_away(turn, asked) {
            return;
        }
        if let Some(slot) = self.by_key.get(&attach.key).copied() {
            let reply = Reply::ConsumerReady { request: attach.request, consumer: attach.key, slot };
            return turn.out.push(Effect::Reply { to: asked.to, reply });
        }
        if !self.may_subscribe(&attach, turn.now) {
            return self.error(turn, asked, ServerError::NotAllowedError, "Subscribe limited by subscribe rate limit per consumer.");
        }
        if let Err((error, message)) = self.subscribe(turn, attach) {
            self.error(turn, asked, error, &message);
        }
    }

    /// Finds the subscription, or begins one, and lets the consumer in as soon as it is open.
    fn subscribe(&mut self, turn: &mut Turn<'_>, attach: AttachConsumer) -> Result<(), Refusal> {
        if attach.subscription == DEDUPLICATION_CURSOR || attach.subscription == COMPACTION_CURSOR {
            return Err((ServerError::NotAllowedError, format!("the name '{}' is the broker's own", attach.subscription)));
        }
        if attach.read_compacted && !attach.kind.has_one_active() {
            return Err((ServerError::NotAllowedError, "readCompacted only allowed on failover or exclusive subscriptions".to_owned()));
        }
        let Some(index) = self.by_name.get(&attach.subscription).copied() else {
            if attach.durable && !self.settings.auto_subscription {
                let message = format!("subscription '{}' does not exist and is not created automatically", attach.subscription);
                return Err((ServerError::SubscriptionNotFound, message));
            }
            self.settings.limits.subscription(self.subscriptions())?;
            self.settings.limits.kind(attach.kind, &self.name)?;
            let start = attach.start.unwrap_or(StartAt::Latest);
            self.open_subscription(turn, attach.subscription.clone(), attach.durable, start, Waiter::Consumer(attach));
            return Ok(());
        };
        let Some(subscription) = self.subscriptions.get_mut(index) else { return Ok(()) };
        if subscription.durable != attach.durable {
            let kept = if subscription.durable { "durable" } else { "non-durable" };
            return Err((ServerError::NotAllowedError, format!("a {kept} subscription with the name '{}' exists", subscription.name)));
        }
        match &subscription.phase {
            // A start that is asked for is the one of the first time: some clients repeat it when a seek made them come back.
            Phase::Open => self.admit_consumer(turn, index, attach),
            Phase::Locating(_) | Phase::Creating if !waits(&subscription.waiters, attach.key) => {
                subscription.waiters.push(Waiter::Consumer(attach));
                Ok(())
            }
            _ => Err((ServerError::ServiceNotReady, format!("subscription '{}' is being changed", subscription.name))),
        }
    }

    /// Lets a consumer into an open subscription.
    fn admit_consumer(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex, mut attach: AttachConsumer) -> Result<(), Refusal> {
        // Where entries are shared, what was sent before a redelivery request stays valid: there is no epoch to keep.
        attach.epoch = attach.epoch.filter(|_| attach.kind.has_one_active());
        let limits = &self.settings.limits;
        limits.kind(attach.kind, &self.name)?;
        let there = self.subscriptions.get(index).map_or(0, |subscription| subscription.lane.consumers.len());
        limits.consumer(&attach, there, self.consumer_addresses())?;
        let slot = ConsumerSlot(u32::try_from(self.seats.vacant_key()).unwrap_or(u32::MAX));
        let (subscriptions, lent) = self.lend();
        let Some(subscription) = subscriptions.get_mut(index) else { return Ok(()) };
        if subscription.lane.consumers.is_empty() {
            subscription.become_kind(attach.kind, &lent);
        } else if subscription.kind != Some(attach.kind) {
            let kind = subscription.kind.map_or("", SubscriptionKind::name);
            return Err((ServerError::ConsumerBusy, format!("subscription '{}' is in use as {kind}", subscription.name)));
        } else if attach.kind == SubscriptionKind::Exclusive {
            return Err((ServerError::ConsumerBusy, format!("the Exclusive subscription '{}' has a consumer", subscription.name)));
        }
        subscription.dispatcher.admits(&attach)?;
        if attach.read_compacted && subscription.lane.view.is_none() {
            subscription.lane.view = Some(Box::new(View::default()));
            // A durable cursor does not tell whether it began before all there is now, or there.
            if subscription.lane.floor.is_none() && attach.start == Some(StartAt::Earliest) {
                subscription.lane.floor = Some(ledger::Position::EARLIEST);
            }
            if subscription.lane.consumers.is_empty() {
                subscription.lane.rewind(lent.ledger);
            }
        }
        let (key, request) = (attach.key, attach.request);
        let consumer = u32::try_from(subscription.lane.consumers.insert(Consumer::new(attach, turn.now))).unwrap_or(u32::MAX);
        subscription.expires_at = None;
        subscription.dispatcher.joined(&subscription.lane, consumer, &lent);
        self.seats.insert(Seat { key, subscription: index, consumer });
        self.by_key.insert(key, slot);
        turn.out.push(Effect::Reply { to: key.connection, reply: Reply::ConsumerReady { request, consumer: key, slot } });
        self.appoint(turn, index);
        self.tell_who_has_everything(turn, index);
        // The more consumers, the more may wait while others are served.
        self.want(index);
        Ok(())
    }

    /// Consumers came or went: another may be the active one now.
    fn appoint(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        let (subscriptions, lent) = self.lend();
        if let Some(subscription) = subscriptions.get_mut(index) {
            subscription.dispatcher.appoint(&mut subscription.lane, &lent, turn);
        }
    }

    /// Lets in who waited for a subscription that is open now.
    pub(crate) fn admit_waiters(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        let Some(subscription) = self.subscriptions.get_mut(index) else { return };
        for waiter in std::mem::take(&mut subscription.waiters) {
            let asked = waiter.asked();
            match waiter {
                Waiter::Consumer(attach) => {
                    if let Err((error, message)) = self.admit_consumer(turn, index, attach) {
                        self.error(turn, asked, error, &message);
                    }
                }
                Waiter::Producer(attach) => self.admit_producer(turn, attach),
                Waiter::Admin(asked, _) => self.success(turn, asked),
            }
        }
    }

    /// Creates a durable subscription; answers with `Success` or `Error`.
    pub fn create_subscription(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked,
        subscription: String,
        start: StartAt,
        properties: Vec<(String, String)>,
    ) {
        if self.is_going_away(turn, asked) {
            return;
        }
        if subscription == DEDUPLICATION_CURSOR || subscription == COMPACTION_CURSOR || self.by_name.contains_key(&subscription) {
            let message = format!("subscription '{subscription}' exists already");
            return self.error(turn, asked, ServerError::NotAllowedError, &message);
        }
        if let Err((error, message)) = self.settings.limits.subscription(self.subscriptions()) {
            return self.error(turn, asked, error, &message);
        }
        self.open_subscription(turn, subscription, true, start, Waiter::Admin(asked, properties));
    }

    /// The consumer is gone; what it held goes to others. Answers with `Success` if there is a request.
    pub fn detach_consumer(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: Option<u64>) {
        self.withdraw(turn, |waiter| matches!(waiter, Waiter::Consumer(attach) if attach.key == key));
        if let Some(seat) = self.leave_seat(key) {
            self.was_used(turn);
            self.leave(turn, seat);
        }
        if let Some(request) = request {
            turn.out.push(Effect::Reply { to: key.connection, reply: Reply::Success { request } });
        }
    }

    pub(crate) fn leave_seat(&mut self, key: ConsumerKey) -> Option<Seat> {
        let slot = self.by_key.remove(&key)?;
        self.seats.try_remove(slot.0 as usize)
    }

    fn leave(&mut self, turn: &mut Turn<'_>, seat: Seat) {
        let (subscriptions, lent) = self.lend();
        let Some(subscription) = subscriptions.get_mut(seat.subscription) else { return };
        subscription.lane.consumers.try_remove(seat.consumer as usize);
        subscription.used_at_ms = turn.now.monotonic_ms;
        subscription.dispatcher.left(&mut subscription.lane, seat.consumer, &lent);
        subscription.dispatcher.appoint(&mut subscription.lane, &lent, turn);
        if !subscription.durable && subscription.is_open() && subscription.lane.consumers.is_empty() {
            return self.remove_subscription(seat.subscription);
        }
        self.want(seat.subscription);
    }

    /// Those who no longer wait to be let in are told that they are not.
    fn withdraw(&mut self, turn: &mut Turn<'_>, gone: impl Fn(&Waiter) -> bool) {
        for (_, subscription) in &mut self.subscriptions {
            for waiter in subscription.waiters.extract_if(.., |waiter| gone(waiter)) {
                let Asked { to, request } = waiter.asked();
                let message = "closed before it was attached".to_owned();
                turn.out.push(Effect::Reply { to, reply: Reply::Error { request, error: ServerError::ServiceNotReady, message } });
            }
        }
    }

    fn wait_for(&mut self, index: SubscriptionIndex, waiter: Waiter) {
        if let Some(subscription) = self.subscriptions.get_mut(index) {
            subscription.waiters.push(waiter);
        }
    }

    /// Refuses a request of a topic that is being let go of.
    pub(crate) fn is_going_away(&self, turn: &mut Turn<'_>, asked: Asked) -> bool {
        let going = self.closing || self.fenced.is_some();
        if going {
            self.error(turn, asked, ServerError::ServiceNotReady, "the topic is being unloaded");
        }
        going
    }

    pub(crate) fn error(&self, turn: &mut Turn<'_>, asked: Asked, error: ServerError, message: &str) {
        asked.refuse(turn, error, message);
    }

    pub(crate) fn success(&self, turn: &mut Turn<'_>, asked: Asked) {
        turn.out.push(Effect::Reply { to: asked.to, reply: Reply::Success { request: asked.request } });
    }
}

fn waits(waiters: &[Waiter], key: ConsumerKey) -> bool {
    waiters.iter().any(|waiter| matches!(waiter, Waiter::Consumer(attach) if attach.key == key))
}
