//! Messages that nobody acked in time: durable subscriptions leave them behind.
//!
//! The newest entry that is too old is searched for once per topic, from the slowest subscription on, and then all of them move.

use crate::errand::{Errand, SubscriptionIndex};
use crate::seek::TimeSearch;
use crate::subscription::Subscription;
use crate::{Topic, Turn};
use ledger::Position;

/// When expired messages are looked for.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    check_at: u64,
    search: Option<Box<TimeSearch>>,
}

impl Expiry {
    /// A first look is taken soon after the topic was loaded.
    pub(crate) fn new(now_ms: u64) -> Expiry {
        Expiry { check_at: now_ms, search: None }
    }

    /// The limit is another one: what is too old is looked for anew.
    pub(crate) fn look_at(&mut self, now_ms: u64) {
        *self = Expiry::new(now_ms);
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        match &self.search {
            Some(search) => search.retry_at(),
            None => Some(self.check_at),
        }
    }

    pub(crate) fn search(&mut self) -> Option<&mut TimeSearch> {
        self.search.as_deref_mut()
    }
}

impl Topic {
    /// When expired messages are to be looked for.
    pub(crate) fn expiry_deadline(&self) -> Option<u64> {
        let may_expire = self.settings.message_ttl_ms > 0 && self.ledgers.chain.totals().0 > 0;
        self.expiry.deadline().filter(|_| may_expire || self.expiry.search.is_some())
    }

    /// Looks for expired messages if it is time to.
    pub(crate) fn tick_expiry(&mut self, turn: &mut Turn<'_>) {
        let ttl = self.settings.message_ttl_ms;
        match &mut self.expiry.search {
            None if ttl > 0 && self.expiry.check_at <= turn.now.monotonic_ms => {
                self.expiry.check_at = turn.now.monotonic_ms + self.settings.expiry_check_ms.max(1_000);
                self.search_older_than(turn, ttl);
            }
            None => {}
            Some(search) => {
                search.may_retry(turn.now);
                self.search_expired(turn);
            }
        }
    }

    /// Looks for the first message that is younger than `age_ms`, and leaves behind what comes before it.
    pub(crate) fn search_older_than(&mut self, turn: &mut Turn<'_>, age_ms: u64) {
        let may_expire = self.subscriptions.iter().filter(|(_, subscription)| subscription.expires());
        let behind = may_expire.filter(|(_, subscription)| subscription.lane.cursor.backlog(&self.ledgers.chain) > 0);
        if let Some(slowest) = behind.map(|(_, subscription)| subscription.lane.cursor.mark_delete()).min() {
            let time = turn.now.wall_ms.saturating_sub(age_ms);
            self.expiry.search = Some(Box::new(TimeSearch::after(slowest, time, &self.ledgers.chain)));
            self.search_expired(turn);
        }
    }

    /// Goes on with the search for the first message that is young enough.
    pub(crate) fn search_expired(&mut self, turn: &mut Turn<'_>) {
        let Some(mut search) = self.expiry.search.take() else { return };
        let (_, mut lent) = self.lend();
        match search.poll(Errand::ExpiryProbe, &mut lent, turn) {
            Some(young) => {
                let upto = self.ledgers.chain.previous(young);
                self.expire_all(turn, upto);
            }
            None => self.expiry.search = Some(search),
        }
    }

    /// Takes everything up to `upto` as acked by subscriptions that have not had it.
    pub(crate) fn expire_all(&mut self, turn: &mut Turn<'_>, upto: Position) {
        let indices: Vec<SubscriptionIndex> = self.subscriptions.iter().map(|(index, _)| index).collect();
        for index in indices {
            if self.subscriptions.get(index).is_some_and(Subscription::expires) {
                self.expire_one(turn, index, upto);
            }
        }
        self.trim(turn);
    }
}

impl Subscription {
    /// Whether messages expire for it: not for one that goes with its consumers, nor for the broker's own.
    pub(crate) fn expires(&self) -> bool {
        self.durable && self.is_open() && !self.is_internal()
    }
}
