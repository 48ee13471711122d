//! How much may wait for the slowest durable subscription, in bytes and in time, and what happens when more does.

use ledger::{Position, StoredEntry};
use wire::ServerError;

use crate::errand::{Errand, SubscriptionIndex};
use crate::peek::entry_meta;
use crate::subscription::{Asked, Subscription};
use crate::{Effect, Now, Tag, Topic, Turn};

/// What clients look for in the answer.
const EXCEEDED: &str = "Cannot create producer on topic with backlog quota exceeded";

/// What may wait for the slowest durable subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Bytes (`backlogQuotaDefaultLimitBytes`).
    pub size: Option<Quota>,
    /// The age of the oldest message, in milliseconds (`backlogQuotaDefaultLimitSecond`).
    pub age: Option<Quota>,
    /// How often it is looked at, in milliseconds (`backlogQuotaCheckIntervalInSeconds`); a producer that wants in is always judged anew.
    pub check_ms: u64,
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas { size: None, age: None, check_ms: 60_000 }
    }
}

/// A limit on what waits, and what happens at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// From so much on.
    pub limit: u64,
    /// What happens.
    pub policy: QuotaPolicy,
}

/// What happens when too much waits (`backlogQuotaDefaultRetentionPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaPolicy {
    /// Producers are closed and not let in; their clients keep what they have and try again.
    #[default]
    ProducerRequestHold,
    /// Producers are closed and not let in; their clients fail what they have.
    ProducerException,
    /// What is oldest is taken as acked, until a tenth of the limit is free again.
    ConsumerBacklogEviction,
}

/// What is known of the backlog's age, and when it is looked at.
#[derive(Debug, Default)]
pub(crate) struct QuotaWatch {
    check_at: u64,
    /// The entry that was the oldest one waiting when it was looked at.
    oldest: Option<Oldest>,
    probe: Option<(Tag, Position)>,
    /// How often the oldest entries were dropped: for their size, for their age.
    evictions: (u64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Oldest {
    at: Position,
    published_ms: u64,
}

/// What waits for the slowest durable subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slowest {
    pub(crate) index: SubscriptionIndex,
    mark_delete: Position,
}

impl QuotaWatch {
    /// A first look is taken soon.
    pub(crate) fn look_at(&mut self, now: Now) {
        self.check_at = now.monotonic_ms;
    }

    pub(crate) fn evictions(&self) -> (u64, u64) {
        self.evictions
    }
}

impl Quota {
    /// Whether producers have to pay for it.
    fn stops_producers(self) -> bool {
        self.policy != QuotaPolicy::ConsumerBacklogEviction
    }
}

impl Topic {
    /// The durable subscription that is furthest behind, if one is behind at all.
    pub(crate) fn slowest(&self) -> Option<Slowest> {
        let counts = self.subscriptions.iter().filter(|(_, subscription)| subscription.durable && !subscription.is_internal());
        let behind = counts.map(|(index, subscription)| Slowest { index, mark_delete: subscription.lane.cursor.mark_delete() });
        let behind = behind.filter(|slowest| slowest.mark_delete < self.ledgers.chain.last_confirmed());
        behind.min_by_key(|slowest| slowest.mark_delete)
    }

    /// Bytes that wait for the slowest durable subscription, estimated within a ledger by its average entry.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.slowest().map_or(0, |slowest| self.ledgers.chain.bytes_after(slowest.mark_delete))
    }

    /// When the oldest message that waits was published, by its producer's clock; none if nothing waits or nobody has looked.
    pub(crate) fn oldest_published_ms(&self) -> Option<u64> {
        let first = self.ledgers.chain.next(self.slowest()?.mark_delete);
        self.quota_watch.oldest.filter(|oldest| oldest.at == first).map(|oldest| oldest.published_ms)
    }

    fn is_too_large(&self, quota: Quota) -> bool {
        self.backlog_bytes() >= quota.limit
    }

    fn is_too_old(&self, quota: Quota, now: Now) -> bool {
        self.oldest_published_ms().is_some_and(|published| now.wall_ms.saturating_sub(published) >= quota.limit)
    }

    /// Why no producer is let in for now, if none is.
    pub(crate) fn quota_refusal(&self, now: Now) -> Option<QuotaPolicy> {
        let quotas = self.settings.quota;
        let by_size = quotas.size.filter(|quota| quota.stops_producers() && self.is_too_large(*quota));
        let by_age = || quotas.age.filter(|quota| quota.stops_producers() && self.is_too_old(*quota, now));
        by_size.or_else(by_age).map(|quota| quota.policy)
    }

    /// Refuses a producer if too much waits already; the error tells its client what to do with what it has.
    pub(crate) fn is_over_quota(&self, turn: &mut Turn<'_>, asked: Asked) -> bool {
        let Some(policy) = self.quota_refusal(turn.now) else { return false };
        let error = match policy {
            QuotaPolicy::ProducerException => ServerError::ProducerBlockedQuotaExceededException,
            _ => ServerError::ProducerBlockedQuotaExceededError,
        };
        self.error(turn, asked, error, EXCEEDED);
        true
    }

    /// When the quotas are to be looked at.
    pub(crate) fn quota_deadline(&self) -> Option<u64> {
        let quotas = self.settings.quota;
        let wanted = |quota: Quota| !quota.stops_producers() || self.producers.has_any() || self.access.waiting() > 0;
        let is_wanted = quotas.age.is_some() || quotas.size.is_some_and(wanted);
        (is_wanted && self.ledgers.chain.totals().0 > 0).then_some(self.quota_watch.check_at)
    }

    /// Looks at the quotas if it is time to.
    pub(crate) fn tick_quota(&mut self, turn: &mut Turn<'_>) {
        let quotas = self.settings.quota;
        if self.quota_deadline().is_none_or(|at| at > turn.now.monotonic_ms) {
            return;
        }
        self.quota_watch.check_at = turn.now.monotonic_ms + quotas.check_ms.max(1_000);
        if let Some(quota) = quotas.size.filter(|quota| !quota.stops_producers() && self.is_too_large(*quota)) {
            self.evict_by_size(turn, quota.limit);
        }
        if quotas.age.is_some() {
            self.look_for_oldest(turn);
        }
        self.heed_quota(turn);
    }

    /// Producers are closed while too much waits, and who waits to have the topic alone may try when it does not.
    fn heed_quota(&mut self, turn: &mut Turn<'_>) {
        match self.quota_refusal(turn.now) {
            Some(_) => self.dismiss_producers(turn),
            None => self.promote(turn),
        }
    }

    /// Closes the producers, each after its last receipt, so that its client need not send anything twice.
    fn dismiss_producers(&mut self, turn: &mut Turn<'_>) {
        if !self.producers.is_empty() {
            turn.out.push(Effect::Report { message: "the backlog quota is exceeded: producers are closed until it is not".to_owned() });
        }
        self.producers.dismiss(turn.out);
        self.forget_held(turn, true);
    }

    /// Finds out when the oldest entry that waits was published.
    fn look_for_oldest(&mut self, turn: &mut Turn<'_>) {
        let Some(slowest) = self.slowest() else { return };
        let first = self.ledgers.chain.next(slowest.mark_delete);
        if self.quota_watch.oldest.is_some_and(|oldest| oldest.at == first) {
            return self.oldest_known(turn);
        }
        if let Some(published_ms) = turn.cache.get(self.cache, first).map(|entry| entry.meta.publish_time_ms) {
            self.quota_watch.oldest = Some(Oldest { at: first, published_ms });
            return self.oldest_known(turn);
        }
        let tag = self.errands.begin(Errand::QuotaProbe);
        self.quota_watch.probe = Some((tag, first));
        turn.out.push(Effect::Read { tag, from: first, last: first, max_entries: 1, max_bytes: self.settings.max_read_bytes });
    }

    /// The oldest entry was read, or could not be: then the next look reads it again.
    pub(crate) fn oldest_read(&mut self, turn: &mut Turn<'_>, tag: Tag, entry: Option<StoredEntry>) {
        let Some((_, at)) = self.quota_watch.probe.take_if(|(asked, _)| *asked == tag) else { return };
        if self.closing || self.fenced.is_some() {
            return;
        }
        if let Some(entry) = entry.filter(|entry| entry.id == at.entry) {
            self.quota_watch.oldest = Some(Oldest { at, published_ms: entry_meta(&entry.bytes).publish_time_ms });
            self.oldest_known(turn);
            self.heed_quota(turn);
        }
    }

    fn oldest_known(&mut self, turn: &mut Turn<'_>) {
        let Some(quota) = self.settings.quota.age else { return };
        if !quota.stops_producers() && self.is_too_old(quota, turn.now) {
            self.quota_watch.evictions.1 += 1;
            self.search_older_than(turn, ninety_percent(quota.limit));
        }
    }

    /// Drops the oldest entries for all subscriptions that have not had them, until a tenth of the limit is free.
    fn evict_by_size(&mut self, turn: &mut Turn<'_>, limit: u64) {
        let Some(Slowest { mark_delete, .. }) = self.slowest() else { return };
        let chain = &self.ledgers.chain;
        let keep = ninety_percent(limit);
        let (mut fewer, mut enough) = (0, chain.count(mark_delete, chain.last_confirmed()));
        while fewer + 1 < enough {
            let middle = fewer + (enough - fewer) / 2;
            if chain.bytes_after(chain.skip(mark_delete, middle)) <= keep { enough = middle } else { fewer = middle }
        }
        self.quota_watch.evictions.0 += 1;
        let upto = chain.skip(mark_delete, enough);
        self.expire_all(turn, upto);
    }
}

impl Subscription {
    /// Whether it is the broker's own.
    pub(crate) fn is_internal(&self) -> bool {
        self.name.starts_with("__") || self.name == crate::DEDUPLICATION_CURSOR
    }
}

fn ninety_percent(limit: u64) -> u64 {
    limit - limit.div_ceil(10)
}
