//! Where things stand: the newest message, a consumer's numbers, the topic's.

use ledger::{LedgerState, Position, StoredEntry};
use wire::ServerError;
use wire::payload::RawMessage;

use crate::compaction::{COMPACTION_CURSOR, Compacted, last_index};
use crate::dedup::DEDUPLICATION_CURSOR;
use crate::errand::Errand;
use crate::peek::last_batch_index;
use crate::stats::TopicStats;
use crate::subscription::{Asked, Subscription};
use crate::{ConsumerKey, Effect, Reply, Topic, Turn};

impl Topic {
    /// Answers with `LastMessageId` or `Error`; an entry that is not in the cache is read for its batch size.
    pub fn last_message_id(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64) {
        let asked = Asked { to: key.connection, request };
        let Some(subscription) = self.seat_of(key).and_then(|seat| self.subscriptions.get(seat.subscription)) else {
            return self.error(turn, asked, ServerError::MetadataError, "the consumer is not attached");
        };
        let mark_delete = subscription.lane.cursor.mark_delete();
        let last = self.ledgers.chain.last_confirmed();
        let reads_compacted = self.seat_of(key).is_some_and(|seat| {
            self.subscriptions.get(seat.subscription).and_then(|s| s.lane.consumer(seat.consumer)).is_some_and(|c| c.read_compacted)
        });
        if let Some(compacted) = self.compaction.current.filter(|_| reads_compacted)
            && self.ledgers.chain.count(compacted.horizon, last) == 0
        {
            return self.last_compacted(turn, asked, compacted, mark_delete);
        }
        if !self.ledgers.chain.contains(last) {
            return self.answer_last_message(turn, asked, Position::EARLIEST, -1, mark_delete);
        }
        match turn.cache.get(self.cache, last).map(|entry| last_batch_index(&entry.bytes)) {
            Some(batch_index) => self.answer_last_message(turn, asked, last, batch_index, mark_delete),
            None => {
                let tag = self.errands.begin(Errand::LastMessage { to: asked.to, request, mark_delete });
                let max_bytes = self.settings.max_read_bytes;
                turn.out.push(Effect::Read { tag, from: last, last, max_entries: 1, max_bytes });
            }
        }
    }

    /// All that there is, for who reads no more, is in the compacted ledger.
    fn last_compacted(&mut self, turn: &mut Turn<'_>, asked: Asked, compacted: Compacted, mark_delete: Position) {
        if compacted.last.0 < 0 {
            return self.answer_last_message(turn, asked, Position::EARLIEST, -1, mark_delete);
        }
        let tag = self.errands.begin(Errand::LastCompacted { to: asked.to, request: asked.request, mark_delete });
        let at = Position { ledger: compacted.ledger, entry: compacted.last };
        turn.out.push(Effect::Read { tag, from: at, last: at, max_entries: 1, max_bytes: self.settings.max_read_bytes });
    }

    pub(crate) fn answer_last_compacted(&self, turn: &mut Turn<'_>, asked: Asked, entry: Option<StoredEntry>, mark_delete: Position) {
        match entry.and_then(|entry| RawMessage::decode(&entry.bytes).ok()) {
            Some(raw) => {
                let at = Position::new(raw.ledger, raw.entry);
                self.answer_last_message(turn, asked, at, last_index(&raw.payload), mark_delete);
            }
            None => self.error(turn, asked, ServerError::PersistenceError, "the last compacted message could not be read"),
        }
    }

    pub(crate) fn answer_last_message(&self, turn: &mut Turn<'_>, asked: Asked, at: Position, batch_index: i32, mark_delete: Position) {
        let partition = self.name.partition_index().and_then(|index| i32::try_from(index).ok()).unwrap_or(-1);
        let reply = Reply::LastMessageId { request: asked.request, at, partition, batch_index, mark_delete };
        turn.out.push(Effect::Reply { to: asked.to, reply });
    }

    /// Answers with `ConsumerStats` or `Error` (ConsumerNotFound).
    pub fn consumer_stats(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64) {
        let asked = Asked { to: key.connection, request };
        let subscription = self.seat_of(key).and_then(|seat| self.subscriptions.get(seat.subscription));
        let stats = subscription.map(|subscription| subscription.stats(&self.ledgers.chain, &self.settings, self.max_held));
        let consumer = self.seat_of(key).and_then(|seat| {
            let consumers = &self.subscriptions.get(seat.subscription)?.lane.consumers;
            consumers.iter().position(|(_, consumer)| consumer.key == key)
        });
        match stats.zip(consumer).and_then(|(mut stats, place)| (place < stats.consumers.len()).then(|| stats.consumers.swap_remove(place)))
        {
            Some(stats) => turn.out.push(Effect::Reply { to: asked.to, reply: Reply::ConsumerStats { request, stats: Box::new(stats) } }),
            None => self.error(turn, asked, ServerError::ConsumerNotFound, "the consumer is not attached"),
        }
    }

    /// A period of statistics of so many seconds has ended: from now on its rates are told.
    pub fn period_ended(&mut self, seconds: f64) {
        self.tally.period_ended(seconds);
        self.producers.period_ended(seconds);
        self.subscriptions.iter_mut().for_each(|(_, subscription)| subscription.lane.period_ended(seconds));
    }

    /// Counters are plain integers: this copies them.
    pub fn stats(&self) -> TopicStats {
        let chain = &self.ledgers.chain;
        let (storage_entries, storage_bytes) = chain.totals();
        let stats = |subscription: &Subscription| subscription.stats(chain, &self.settings, self.max_held);
        TopicStats {
            messages_in: self.tally.messages_in,
            bytes_in: self.tally.bytes_in,
            entries_in: self.tally.entries_in,
            messages_out: self.tally.messages_out,
            bytes_out: self.tally.bytes_out,
            storage_bytes,
            storage_entries,
            last_confirmed: chain.last_confirmed().to_string(),
            cache_hits: self.tally.cache_hits,
            cache_misses: self.tally.cache_misses,
            storage_reads: self.tally.storage_reads,
            rates: self.tally.rates(),
            ledgers: chain.ledgers().into_iter().map(|ledger| (ledger.id.0, ledger.entries, ledger.bytes)).collect(),
            publish_rate_limited: self.throttle.as_ref().map_or(0, |throttle| throttle.times()),
            backlog_bytes: self.backlog_bytes(),
            quota_bytes: self.settings.quota.size.map(|quota| quota.limit),
            quota_age_ms: self.settings.quota.age.map(|quota| quota.limit),
            oldest_backlog_ms: self.oldest_published_ms(),
            slowest_subscription: self.slowest().and_then(|slowest| Some(self.subscriptions.get(slowest.index)?.name.clone())),
            quota_evictions: self.quota_watch.evictions(),
            waiting_producers: self.access.waiting(),
            producers: self.producers.stats(),
            deduplication: self.dedup.is_some(),
            own_cursors: self.subscriptions.iter().map(|(_, s)| s).filter(|s| is_own(s)).map(stats).collect(),
            subscriptions: self.subscriptions.iter().map(|(_, s)| s).filter(|s| !is_own(s)).map(stats).collect(),
            compaction: self.compaction_stats(),
            state: match chain.state() {
                LedgerState::Open => "LedgerOpened",
                LedgerState::RollingOver => "CreatingLedger",
                LedgerState::Terminated => "Terminated",
                LedgerState::Fenced => "Fenced",
            },
            properties: self.properties().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }
    }
}

/// Whether a cursor is the broker's own and no subscription.
fn is_own(subscription: &Subscription) -> bool {
    subscription.name == DEDUPLICATION_CURSOR || subscription.name == COMPACTION_CURSOR
}
