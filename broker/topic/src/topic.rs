//! The front door: what happens to a topic, and who in it deals with it.

use std::collections::{HashMap, VecDeque};

use ledger::{CacheKey, Cursor, LedgerId, ManagedLedger, Position, Retention, StoreError};
use slab::Slab;
use wire::{ServerError, TopicName};

use crate::access::{Access, EPOCH_PROPERTY};
use crate::compaction::Compaction;
use crate::consumer::ConsumerIndex;
use crate::crowding::max_held;
use crate::dedup::Dedup;
use crate::dispatch_rate::TopicPace;
use crate::dispatcher::Step;
use crate::errand::{Errand, Errands, SubscriptionIndex};
use crate::event::{Ack, ReadOutcome, StoredCursor, TopicSettings, Turn};
use crate::expiry::Expiry;
use crate::faults::Faults;
use crate::finding::Finding;
use crate::idle::LastUse;
use crate::ledgers::{Ledgers, Recorded};
use crate::lent::{Lent, Tally};
use crate::pace::Pace;
use crate::peek::last_batch_index;
use crate::persistence::Persistence;
use crate::producers::Producers;
use crate::publishing::Publishes;
use crate::quota::QuotaWatch;
use crate::rate::Allowance;
use crate::subscribe_rate::Visits;
use crate::subscription::{Asked, Phase, Subscription};
use crate::terminate::End;
use crate::throttle::Throttle;
use crate::{ConsumerKey, ConsumerSlot, Effect, Now, Reply, SubscriptionKind, Tag};

/// One topic. Every call may add effects to the turn; none waits.
#[derive(Debug)]
pub struct Topic {
    pub(crate) name: TopicName,
    pub(crate) settings: TopicSettings,
    pub(crate) cache: CacheKey,
    pub(crate) ledgers: Ledgers,
    pub(crate) producers: Producers,
    pub(crate) access: Access,
    /// What was published before, if that matters.
    pub(crate) dedup: Option<Dedup>,
    pub(crate) publishes: Publishes,
    pub(crate) subscriptions: Slab<Subscription>,
    pub(crate) by_name: HashMap<String, SubscriptionIndex>,
    pub(crate) seats: Slab<Seat>,
    pub(crate) by_key: HashMap<ConsumerKey, ConsumerSlot>,
    pub(crate) errands: Errands,
    pub(crate) tally: Tally,
    pub(crate) expiry: Expiry,
    pub(crate) last_use: LastUse,
    pub(crate) pace: Pace,
    /// Subscriptions to which something happened since consumers were last served.
    wanted: Vec<SubscriptionIndex>,
    pub(crate) compaction: Compaction,
    pub(crate) end: End,
    /// Searches of administrators.
    pub(crate) findings: Slab<Finding>,
    /// Who waits for a revision of the topic's properties to be recorded.
    pub(crate) noted: Vec<(u64, Asked)>,
    /// What holds publishes to a rate, if there is one.
    pub(crate) throttle: Option<Box<Throttle>>,
    /// What holds delivery to rates, if there are any.
    pub(crate) pace_out: Option<Box<TopicPace>>,
    pub(crate) visits: Option<Box<Visits>>,
    pub(crate) quota_watch: QuotaWatch,
    /// Subscriptions whose last dispatch step ran out of budget.
    ready: VecDeque<SubscriptionIndex>,
    /// Cache entries below this were released.
    released: Position,
    /// Held messages beyond which a subscription stops while the owner's topics together hold too much.
    pub(crate) crowded: Option<u64>,
    /// Held messages at which a subscription stops, from that and from the settings.
    pub(crate) max_held: u64,
    /// Why publishes are refused, if they are.
    pub(crate) refusal: Option<String>,
    /// Set once the topic cannot go on.
    pub(crate) fenced: Option<Fenced>,
    /// Set once it is being unloaded.
    pub(crate) closing: bool,
    pub(crate) faults: Faults,
    now: Now,
}

/// A consumer's place on the road: its slot says which subscription to go to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) key: ConsumerKey,
    pub(crate) subscription: SubscriptionIndex,
    pub(crate) consumer: ConsumerIndex,
}

/// Why a topic cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fenced {
    /// Somebody else may own it: nothing more is written.
    Lost,
    /// Storage failed; cursors may still be written.
    Broken,
}

impl Topic {
    /// A topic that was just loaded: its chain is open and recorded under `version`.
    pub fn new(
        name: TopicName,
        ledger: ManagedLedger,
        version: i64,
        cursors: Vec<StoredCursor>,
        settings: TopicSettings,
        cache: CacheKey,
        now: Now,
    ) -> Topic {
        let released = ledger.first();
        let max_held = max_held(&settings, None);
        let access = Access::loaded(ledger.property(EPOCH_PROPERTY));
        let end = End::loaded(ledger.terminated().is_some());
        let check_at = now.monotonic_ms + settings.retention_check_ms;
        let throttle = Throttle::new(&settings.rates.publish, now);
        let pace_out = TopicPace::new(&settings.rates.dispatch, now);
        let mut topic = Topic {
            name,
            settings,
            cache,
            ledgers: Ledgers::new(ledger, version, check_at),
            producers: Producers::default(),
            access,
            dedup: None,
            publishes: Publishes::default(),
            subscriptions: Slab::new(),
            by_name: HashMap::new(),
            seats: Slab::new(),
            by_key: HashMap::new(),
            errands: Errands::default(),
            tally: Tally::default(),
            expiry: Expiry::new(now.monotonic_ms),
            last_use: LastUse::new(now.monotonic_ms),
            pace: Pace::new(now),
            wanted: Vec::new(),
            compaction: Compaction::default(),
            end,
            findings: Slab::new(),
            noted: Vec::new(),
            throttle,
            pace_out,
            visits: None,
            quota_watch: QuotaWatch::default(),
            ready: VecDeque::new(),
            released,
            crowded: None,
            max_held,
            refusal: None,
            fenced: None,
            closing: false,
            faults: Faults::default(),
            now,
        };
        for stored in cursors {
            topic.restore(stored);
        }
        topic
    }

    fn restore(&mut self, stored: StoredCursor) {
        let entry = self.subscriptions.vacant_entry();
        let index = entry.key();
        let cursor = Cursor::restore(stored.state.clone(), &self.ledgers.chain);
        let mut subscription = Subscription::new(stored.subscription.clone(), index, cursor, true);
        subscription.used_at_ms = self.now.monotonic_ms;
        self.by_name.insert(stored.subscription.clone(), index);
        subscription.persistence = Some(Persistence::loaded(stored, index, &subscription.lane.cursor));
        entry.insert(subscription);
    }

    /// Its full name.
    pub fn name(&self) -> &TopicName {
        &self.name
    }

    /// Switches deliberate mistakes on, for tests of the tests.
    #[doc(hidden)]
    pub fn inject(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// The subscriptions, and what the topic lends them.
    pub(crate) fn lend(&mut self) -> (&mut Slab<Subscription>, Lent<'_>) {
        let lent = Lent {
            max_held: self.max_held,
            allowance: Allowance::ANY,
            topic: &self.name,
            ledger: &self.ledgers.chain,
            compacted: self.compaction.current,
            settings: &self.settings,
            errands: &mut self.errands,
            tally: &mut self.tally,
            cache: self.cache,
            faults: self.faults,
        };
        (&mut self.subscriptions, lent)
    }

    pub(crate) fn seat(&self, key: ConsumerKey, slot: ConsumerSlot) -> Option<Seat> {
        self.seats.get(slot.0 as usize).copied().filter(|seat| seat.key == key)
    }

    pub(crate) fn seat_of(&self, key: ConsumerKey) -> Option<Seat> {
        self.seat(key, *self.by_key.get(&key)?)
    }

    /// A subscription may have something to send: it is looked at when consumers are served next.
    pub(crate) fn want(&mut self, index: SubscriptionIndex) {
        if let Some(subscription) = self.subscriptions.get_mut(index)
            && !std::mem::replace(&mut subscription.wanted, true)
        {
            self.wanted.push(index);
        }
    }

    pub(crate) fn want_all(&mut self) {
        for (index, subscription) in self.subscriptions.iter_mut().filter(|(_, subscription)| !subscription.queued) {
            if !std::mem::replace(&mut subscription.wanted, true) {
                self.wanted.push(index);
            }
        }
    }

    /// Sends consumers what they can be sent since the last call. To be called once when a turn has told everything that happened: then
    /// it is known what all consumers take, and entries go straight to them instead of being put aside for some of them in between.
    pub fn serve(&mut self, turn: &mut Turn<'_>) {
        if self.wanted.is_empty() {
            return;
        }
        let mut wanted = std::mem::take(&mut self.wanted);
        for index in wanted.drain(..) {
            if let Some(subscription) = self.subscriptions.get_mut(index) {
                subscription.wanted = false;
                self.dispatch(turn, index);
            }
        }
        self.wanted = wanted;
        self.release_cache(turn);
    }

    /// One dispatch step of a subscription; if it runs out of budget it goes on the list, behind others.
    fn dispatch(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        if self.closing || self.fenced.is_some() {
            return;
        }
        self.now = turn.now;
        if self.pace_out.is_some() { self.dispatch_in_time(turn, index) } else { self.dispatch_step(turn, index, Allowance::ANY) }
    }

    /// The step itself, in which no more is sent than is allowed.
    pub(crate) fn dispatch_step(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex, allowance: Allowance) {
        let (subscriptions, mut lent) = self.lend();
        lent.allowance = allowance;
        let Some(subscription) = subscriptions.get_mut(index) else { return };
        if subscription.dispatch(&mut lent, turn) == Step::More && !subscription.queued {
            subscription.queued = true;
            self.ready.push_back(index);
        }
    }

    /// Lets go of cached entries that every attached consumer has been sent or will not need.
    fn release_cache(&mut self, turn: &mut Turn<'_>) {
        let active = self.subscriptions.iter().filter(|(_, subscription)| !subscription.lane.consumers.is_empty());
        let slowest = active.map(|(_, subscription)| subscription.dispatcher.needs_from(&subscription.lane)).min();
        let before = slowest.unwrap_or_else(|| self.ledgers.chain.next(self.ledgers.chain.last_confirmed()));
        if before > self.released {
            self.released = before;
            turn.cache.release(self.cache, before);
        }
    }

    /// `permits` more messages may be sent to the consumer.
    pub fn flow(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, slot: ConsumerSlot, permits: u32) {
        let Some(seat) = self.seat(key, slot) else { return };
        if let Some(consumer) = self.subscriptions.get_mut(seat.subscription).and_then(|s| s.lane.consumer_mut(seat.consumer)) {
            consumer.flow(permits, turn.now);
            if let Some(reply) = consumer.end_silence() {
                turn.out.push(Effect::Reply { to: key.connection, reply });
            }
            self.want(seat.subscription);
            self.tell_who_has_everything(turn, seat.subscription);
        }
    }

    /// The consumer's connection takes no more for now (its out buffer is full), or takes again.
    pub fn set_writable(&mut self, key: ConsumerKey, slot: ConsumerSlot, writable: bool) {
        let Some(seat) = self.seat(key, slot) else { return };
        if let Some(consumer) = self.subscriptions.get_mut(seat.subscription).and_then(|s| s.lane.consumer_mut(seat.consumer)) {
            consumer.writable = writable;
            if writable {
                self.want(seat.subscription);
            }
        }
    }

    /// Takes acks; answered at once if an answer is wanted. They are durable within the cursor's write rate.
    pub fn ack(&mut self, turn: &mut Turn<'_>, ack: Ack) {
        let error = match self.seat(ack.key, ack.slot) {
            Some(seat) => self.take_ack(turn, seat, ack.ids).err(),
            None => Some((ServerError::ConsumerNotFound, "the consumer is not attached".to_owned())),
        };
        if let Some(request) = ack.request {
            turn.out.push(Effect::Reply { to: ack.key.connection, reply: Reply::AckDone { request, consumer: ack.key, error } });
        }
    }

    fn take_ack(&mut self, turn: &mut Turn<'_>, seat: Seat, ids: crate::AckIds) -> Result<(), (ServerError, String)> {
        let (subscriptions, mut lent) = self.lend();
        let Some(subscription) = subscriptions.get_mut(seat.subscription).filter(|subscription| subscription.is_open()) else {
            return Err((ServerError::ServiceNotReady, "the subscription is being changed".to_owned()));
        };
        let before = subscription.lane.cursor.mark_delete();
        let lifted = subscription.ack(seat.consumer, ids, &lent).map_err(|error| (ServerError::NotAllowedError, error.to_string()))?;
        let Subscription { persistence, lane, .. } = subscription;
        let left_ledger = before.ledger != lane.cursor.mark_delete().ledger;
        if let Some(persistence) = persistence {
            persistence.poll(&lane.cursor, &mut lent, turn);
        }
        if left_ledger {
            self.ledgers.want_trim();
            self.trim(turn);
        }
        if lifted {
            self.want(seat.subscription);
        }
        self.tell_who_has_everything(turn, seat.subscription);
        Ok(())
    }

    /// Delivers again what the consumer names; empty `ids`: all that it holds. Older than its epoch: dropped.
    pub fn redeliver(&mut self, key: ConsumerKey, slot: ConsumerSlot, ids: Vec<Position>, epoch: Option<u64>) {
        let Some(seat) = self.seat(key, slot) else { return };
        let (subscriptions, lent) = self.lend();
        let Some(subscription) = subscriptions.get_mut(seat.subscription).filter(|subscription| subscription.is_open()) else { return };
        let Some(consumer) = subscription.lane.consumer_mut(seat.consumer) else { return };
        if let Some(epoch) = epoch.filter(|_| subscription.kind.is_some_and(SubscriptionKind::has_one_active)) {
            if consumer.epoch.is_some_and(|current| epoch < current) {
                return;
            }
            consumer.epoch = Some(epoch);
        }
        subscription.dispatcher.redeliver(&mut subscription.lane, seat.consumer, &ids, &lent);
        self.want(seat.subscription);
    }

    /// A cursor's state is durable, or not.
    pub fn cursor_appended(&mut self, turn: &mut Turn<'_>, tag: Tag, outcome: Result<(), StoreError>) {
        let Some(Errand::CursorState(index)) = self.errands.finish(tag) else { return };
        self.with_persistence(index, |persistence, cursor, lent| persistence.appended(outcome, cursor, lent, turn));
        self.advance(turn, index);
        self.finish_unload(turn);
    }

    /// A ledger was created, or could not be.
    pub fn ledger_created(&mut self, turn: &mut Turn<'_>, tag: Tag, outcome: Result<LedgerId, StoreError>) {
        match self.errands.finish(tag) {
            Some(Errand::NextLedger) if !self.closing && self.fenced.is_none() => {
                self.ledgers.created(outcome, &mut self.errands, turn);
                self.flush_publishes(turn);
            }
            Some(Errand::CursorLedger(index)) => {
                self.with_persistence(index, |persistence, cursor, lent| persistence.ledger_created(outcome, cursor, lent, turn));
            }
            // Nobody has a use for it any more.
            _ => turn.out.extend(outcome.ok().map(|ledger| Effect::DeleteLedgers(vec![ledger]))),
        }
        self.finish_unload(turn);
    }

    /// A metadata change is recorded under a new version, or was refused (a version conflict fences the topic).
    pub fn changed(&mut self, turn: &mut Turn<'_>, tag: Tag, outcome: Result<i64, String>) {
        let Some(errand) = self.errands.finish(tag) else { return };
        let version = match outcome {
            Ok(version) => version,
            Err(error) => return self.fence(turn, format!("a change of the topic's metadata was refused: {error}"), true),
        };
        match errand {
            Errand::LedgerList => self.list_recorded(turn, version),
            Errand::CursorRecord(index) | Errand::NewCursor(index) => {
                self.with_persistence(index, |persistence, _, _| persistence.recorded(version, turn));
                self.compaction_recorded(turn, index);
                self.advance(turn, index);
            }
            Errand::GoneCursor(index) => self.subscription_deleted(turn, index),
            _ => {}
        }
        self.finish_unload(turn);
    }

    fn list_recorded(&mut self, turn: &mut Turn<'_>, version: i64) {
        match self.ledgers.recorded(version, turn) {
            Recorded::RolledOver if !self.closing => self.flush_publishes(turn),
            Recorded::Ended => self.ended(turn),
            Recorded::RolledOver | Recorded::Trimmed => {}
        }
        self.ledgers.advance(&mut self.errands, turn);
        self.settle_notes(turn);
        self.settle_claim(turn);
        self.trim(turn);
    }

    fn with_persistence(&mut self, index: SubscriptionIndex, work: impl FnOnce(&mut Persistence, &Cursor, &mut Lent<'_>)) {
        let (subscriptions, mut lent) = self.lend();
        if let Some(Subscription { persistence: Some(persistence), lane, .. }) = subscriptions.get_mut(index) {
            work(persistence, &lane.cursor, &mut lent);
        }
    }

    /// A read has ended.
    pub fn read_done(&mut self, turn: &mut Turn<'_>, outcome: ReadOutcome) {
        self.tally.storage_reads += outcome.entries.as_ref().map_or(0, Vec::len) as u64;
        match self.errands.finish(outcome.tag) {
            Some(Errand::Read(index)) => {
                let Some(Subscription { dispatcher, lane, .. }) = self.subscriptions.get_mut(index) else { return };
                if dispatcher.read_done(lane, outcome, turn) {
                    self.want(index);
                }
            }
            Some(Errand::Probe(index)) => {
                let entry = outcome.entries.ok().and_then(|entries| entries.into_iter().next());
                if let Some(Phase::Locating(search) | Phase::Seeking { search: Some(search), .. }) =
                    self.subscriptions.get_mut(index).map(|subscription| &mut subscription.phase)
                    && search.arrived(outcome.tag, entry, turn)
                {
                    self.advance(turn, index);
                }
            }
            Some(Errand::ExpiryProbe) => {
                let entry = outcome.entries.ok().and_then(|entries| entries.into_iter().next());
                if self.expiry.search().is_some_and(|search| search.arrived(outcome.tag, entry, turn)) {
                    self.search_expired(turn);
                }
            }
            Some(Errand::Finding(index)) => self.finding_arrived(turn, index, outcome),
            Some(Errand::LastCompacted { to, request, mark_delete }) => {
                let entry = outcome.entries.ok().and_then(|entries| entries.into_iter().next());
                self.answer_last_compacted(turn, Asked { to, request }, entry, mark_delete);
            }
            Some(Errand::QuotaProbe) => {
                let entry = outcome.entries.ok().and_then(|entries| entries.into_iter().next());
                self.oldest_read(turn, outcome.tag, entry);
            }
            Some(Errand::LastMessage { to, request, mark_delete }) => {
                let asked = Asked { to, request };
                match outcome.entries.ok().and_then(|entries| entries.into_iter().next()) {
                    Some(entry) => {
                        let at = Position { ledger: outcome.ledger, entry: entry.id };
                        self.answer_last_message(turn, asked, at, last_batch_index(&entry.bytes), mark_delete);
                    }
                    None => self.error(turn, asked, ServerError::PersistenceError, "the last message could not be read"),
                }
            }
            _ => {}
        }
    }

    /// Drops ledgers that every durable cursor has passed and retention lets go.
    pub(crate) fn trim(&mut self, turn: &mut Turn<'_>) {
        if self.closing || self.fenced.is_some() || !self.ledgers.may_trim() {
            return;
        }
        let durable = self.subscriptions.iter().filter(|(_, subscription)| subscription.durable);
        let slowest = durable.map(|(_, subscription)| subscription.lane.cursor.mark_delete()).min();
        self.trim_to(turn, slowest, self.settings.retention);
    }

    /// Drops ledgers that retention lets go, up to `slowest`, or all.
    pub(crate) fn trim_to(&mut self, turn: &mut Turn<'_>, slowest: Option<Position>, retention: Retention) {
        if !self.ledgers.may_trim() {
            return;
        }
        for (_, subscription) in self.subscriptions.iter_mut().filter(|(_, subscription)| !subscription.durable) {
            subscription.lane.before_trim(&self.ledgers.chain);
        }
        if !self.ledgers.trim(slowest, retention, &mut self.errands, turn) {
            return;
        }
        let (subscriptions, lent) = self.lend();
        for (_, subscription) in subscriptions.iter_mut().filter(|(_, subscription)| !subscription.durable) {
            let Subscription { lane, dispatcher, .. } = subscription;
            let in_view = lane.view.is_some().then_some(lane.cursor.read_position());
            lane.cursor.trimmed(lent.ledger);
            if let Some(at) = in_view {
                // The compacted ledger has what the topic has no more.
                lane.cursor.read_from(at);
            }
            dispatcher.trimmed(lane);
        }
        let first = self.ledgers.chain.first();
        turn.cache.release(self.cache, first);
    }

    /// When [`tick`](Self::tick) wants to be called, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.closing || self.fenced.is_some() {
            return None;
        }
        if !self.ready.is_empty() || !self.wanted.is_empty() {
            return Some(self.now.monotonic_ms);
        }
        let subscriptions = self.subscriptions.iter().filter_map(|(_, subscription)| subscription.deadline(&self.settings));
        let dedup = self.dedup.as_ref().and_then(Dedup::deadline);
        let others = [
            self.ledgers.deadline(),
            dedup,
            self.throttle.as_ref().and_then(|throttle| throttle.deadline()),
            self.expiry_deadline(),
            self.quota_deadline(),
            self.compaction_deadline(),
            self.findings_deadline(),
            self.desertion_deadline(),
        ];
        subscriptions.chain(others.into_iter().flatten()).min()
    }

    /// Does what is due.
    pub fn tick(&mut self, turn: &mut Turn<'_>) {
        if self.closing || self.fenced.is_some() {
            return;
        }
        self.now = turn.now;
        self.release_held(turn);
        self.ledgers.tick(&self.settings, &mut self.errands, turn);
        self.tick_sequences(turn);
        self.tick_expiry(turn);
        self.tick_quota(turn);
        self.tick_desertion(turn);
        self.tick_compaction(turn);
        self.tick_findings(turn);
        let mut indices: Vec<SubscriptionIndex> = self.subscriptions.iter().map(|(index, _)| index).collect();
        self.in_turns(&mut indices);
        for index in indices {
            self.tick_subscription(turn, index);
        }
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.pop_front() else { break };
            if let Some(subscription) = self.subscriptions.get_mut(index) {
                subscription.queued = false;
                self.dispatch(turn, index);
            }
        }
        self.serve(turn);
        self.trim(turn);
        self.release_cache(turn);
    }

    fn tick_subscription(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        let Some(subscription) = self.subscriptions.get_mut(index) else { return };
        if subscription.is_open() && subscription.expires_at.is_some_and(|at| at <= turn.now.monotonic_ms) {
            return self.remove_subscription(index);
        }
        if subscription.tick_desertion(&self.settings, turn.now.monotonic_ms) {
            return self.advance(turn, index);
        }
        let searching = match &mut subscription.phase {
            Phase::Locating(search) | Phase::Seeking { search: Some(search), .. } => search.may_retry(turn.now),
            _ => false,
        };
        let reading = subscription.lane.reads.may_retry(turn.now)
            | subscription.lane.view.as_mut().is_some_and(|view| view.reads.may_retry(turn.now));
        let at = |at: u64| at <= turn.now.monotonic_ms;
        let due = subscription.lane.delayed.deadline().is_some_and(at) || subscription.waits_until().is_some_and(at);
        if searching {
            self.advance(turn, index);
        }
        self.with_persistence(index, |persistence, cursor, lent| persistence.poll(cursor, lent, turn));
        let (subscriptions, lent) = self.lend();
        let ready =
            subscriptions.get_mut(index).is_some_and(|subscription| subscription.dispatcher.tick(&mut subscription.lane, &lent, turn));
        if reading || due || ready {
            self.want(index);
        }
    }

    /// Settings changed.
    pub fn update_settings(&mut self, turn: &mut Turn<'_>, settings: TopicSettings) {
        if settings.message_ttl_ms != self.settings.message_ttl_ms {
            self.expiry.look_at(turn.now.monotonic_ms);
        }
        self.settings = settings;
        self.max_held = max_held(&self.settings, self.crowded);
        self.quota_watch.look_at(turn.now);
        self.change_publish_rate(turn);
        self.change_dispatch_limits(turn.now);
        self.ledgers.chain.set_limits(self.settings.ledger);
        self.ledgers.want_trim();
        self.trim(turn);
        self.want_all();
    }

    /// What is stored of it, in bytes.
    pub fn storage_bytes(&self) -> u64 {
        self.ledgers.chain.totals().1
    }

    /// Producers attached.
    pub fn producers(&self) -> usize {
        self.producers.len()
    }

    /// Consumers attached.
    pub fn consumers(&self) -> usize {
        self.seats.len()
    }
}
