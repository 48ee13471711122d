//! What an administrator does to subscriptions: skips, expires, moves and removes; and to all of the topic at once.

use ledger::{Position, Retention, Run};

use crate::compaction::COMPACTION_CURSOR;
use crate::dedup::DEDUPLICATION_CURSOR;
use crate::errand::SubscriptionIndex;
use crate::event::SeekTo;
use crate::subscription::{Asked, Phase, Subscription};
use crate::{Topic, Turn};

/// Why an administrator's request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmoved {
    /// There is no such subscription.
    #[error("Subscription not found")]
    NotFound,
    /// It has consumers.
    #[error("Subscription has active connected consumers")]
    InUse,
    /// It, or the topic, is being changed: later it may work.
    #[error("the subscription is being changed: try again")]
    Changing,
    /// It is the broker's own.
    #[error("the cursor is the broker's own")]
    Own,
}

impl Topic {
    /// The subscription of this name, if it can be changed now.
    fn at_rest(&self, name: &str) -> Result<SubscriptionIndex, Unmoved> {
        let index = *self.by_name.get(name).ok_or(Unmoved::NotFound)?;
        let open = self.subscriptions.get(index).is_some_and(Subscription::is_open);
        if !open || self.closing || self.fenced.is_some() { Err(Unmoved::Changing) } else { Ok(index) }
    }

    /// The same, unless the broker keeps it for itself.
    fn users_own(&self, name: &str) -> Result<SubscriptionIndex, Unmoved> {
        if name == DEDUPLICATION_CURSOR || name == COMPACTION_CURSOR { Err(Unmoved::Own) } else { self.at_rest(name) }
    }

    /// Leaves the next `entries` unacked entries behind, or all.
    ///
    /// # Errors
    /// [`Unmoved`].
    pub fn skip(&mut self, turn: &mut Turn<'_>, subscription: &str, entries: Option<u64>) -> Result<(), Unmoved> {
        let index = self.users_own(subscription)?;
        let chain = &self.ledgers.chain;
        let cursor = self.subscriptions.get(index).map(|subscription| &subscription.lane.cursor);
        let upto = match entries {
            Some(0) => return Ok(()),
            Some(entries) => cursor.and_then(|cursor| cursor.nth_unacked(entries, chain)).unwrap_or(chain.last_confirmed()),
            None => chain.last_confirmed(),
        };
        self.leave_behind(turn, index, upto);
        self.trim(turn);
        Ok(())
    }

    /// Leaves everything up to `upto` behind, as expired.
    ///
    /// # Errors
    /// [`Unmoved`].
    pub fn expire_through(&mut self, turn: &mut Turn<'_>, subscription: &str, upto: Position) -> Result<(), Unmoved> {
        let index = self.users_own(subscription)?;
        let upto = self.ledgers.chain.at_or_previous(upto);
        self.expire_one(turn, index, upto);
        self.trim(turn);
        Ok(())
    }

    pub(crate) fn expire_one(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex, upto: Position) {
        let passed = self.leave_behind(turn, index, upto);
        if let Some(subscription) = self.subscriptions.get_mut(index) {
            subscription.lane.messages_expired += passed;
        }
    }

    /// Has a subscription take everything up to `upto` as acked; returns how many entries that were.
    pub(crate) fn leave_behind(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex, upto: Position) -> u64 {
        let (subscriptions, mut lent) = self.lend();
        let Some(Subscription { lane, dispatcher, persistence, .. }) = subscriptions.get_mut(index) else { return 0 };
        let before = lane.cursor.backlog(lent.ledger);
        if !lane.cursor.ack_cumulative(upto, lent.ledger) {
            return 0;
        }
        let passed = before.saturating_sub(lane.cursor.backlog(lent.ledger));
        dispatcher.trimmed(lane);
        if let Some(persistence) = persistence {
            persistence.hurry(&lane.cursor, &mut lent, turn);
        }
        self.ledgers.want_trim();
        self.tell_who_has_everything(turn, index);
        self.want(index);
        passed
    }

    /// Moves a subscription: its consumers are closed and come back by themselves. Answers with `Success` or `Error` unless it errs.
    ///
    /// # Errors
    /// [`Unmoved`].
    pub fn reset(&mut self, turn: &mut Turn<'_>, asked: Asked, subscription: &str, to: SeekTo) -> Result<(), Unmoved> {
        let index = self.users_own(subscription)?;
        self.begin_seek(turn, index, asked, to);
        Ok(())
    }

    /// Removes a subscription; consumers are a reason not to, or are closed by `force`. Answers with `Success` unless it errs.
    ///
    /// # Errors
    /// [`Unmoved`].
    pub fn delete_subscription(&mut self, turn: &mut Turn<'_>, asked: Asked, subscription: &str, force: bool) -> Result<(), Unmoved> {
        if subscription == DEDUPLICATION_CURSOR {
            return Err(Unmoved::Own);
        }
        let index = self.at_rest(subscription)?;
        let Some(found) = self.subscriptions.get_mut(index) else { return Err(Unmoved::NotFound) };
        if !found.lane.consumers.is_empty() && !force {
            return Err(Unmoved::InUse);
        }
        let durable = found.durable;
        found.phase = Phase::Deleting { asked: Some(asked) };
        self.close_consumers(turn, index, None);
        if durable {
            self.advance(turn, index);
        } else {
            self.subscription_deleted(turn, index);
        }
        Ok(())
    }

    /// Whether there is a subscription of this name.
    #[must_use]
    pub fn has_subscription(&self, subscription: &str) -> bool {
        self.by_name.contains_key(subscription)
    }

    /// Where the `n`th entry is that a subscription has not acked, from 1; none if it has fewer. One that does not exist has acked
    /// nothing: tools peek under names of their own.
    ///
    /// # Errors
    /// [`Unmoved::Changing`].
    pub fn nth_unacked(&self, subscription: &str, n: u64) -> Result<Option<Position>, Unmoved> {
        let index = match self.at_rest(subscription) {
            Ok(index) => index,
            Err(Unmoved::NotFound) => return Ok(self.nth_entry(n, false).filter(|_| n <= self.ledgers.chain.totals().0)),
            Err(error) => return Err(error),
        };
        let cursor = self.subscriptions.get(index).map(|subscription| &subscription.lane.cursor);
        Ok(cursor.and_then(|cursor| cursor.nth_unacked(n, &self.ledgers.chain)))
    }

    /// The entries that a subscription has not acked, in order.
    ///
    /// # Errors
    /// [`Unmoved`].
    pub fn unacked_runs(&self, subscription: &str) -> Result<Vec<Run>, Unmoved> {
        let index = self.at_rest(subscription)?;
        let cursor = self.subscriptions.get(index).map(|subscription| &subscription.lane.cursor);
        Ok(cursor.map(|cursor| cursor.unacked_runs(&self.ledgers.chain)).unwrap_or_default())
    }

    /// Whether there is such an entry.
    #[must_use]
    pub fn holds(&self, at: Position) -> bool {
        self.ledgers.chain.contains(at)
    }

    /// The `n`th entry from the first, or back from the last, from 1; of fewer the last, or the first.
    #[must_use]
    pub fn nth_entry(&self, n: u64, from_the_last: bool) -> Option<Position> {
        let chain = &self.ledgers.chain;
        let all = chain.totals().0;
        if all == 0 {
            return None;
        }
        let n = n.clamp(1, all);
        Some(chain.skip(chain.before_first(), if from_the_last { all + 1 - n } else { n }))
    }

    /// Bytes published after `at`, which need not exist; within its ledger by the average.
    #[must_use]
    pub fn bytes_after(&self, at: Position) -> u64 {
        self.ledgers.chain.bytes_after(at)
    }

    /// The entry at or after a position, or where the next one will be.
    #[must_use]
    pub fn at_or_next(&self, at: Position) -> Position {
        self.ledgers.chain.at_or_next(at)
    }

    /// The entry after a position, or where it will be.
    #[must_use]
    pub fn next_after(&self, at: Position) -> Position {
        self.ledgers.chain.next(at)
    }

    /// The entry before a position, or the place before the first.
    #[must_use]
    pub fn before(&self, at: Position) -> Position {
        self.ledgers.chain.previous(at)
    }

    /// Deletes ledgers that nobody needs, now.
    pub fn trim_now(&mut self, turn: &mut Turn<'_>) {
        self.ledgers.want_trim();
        self.trim(turn);
    }

    /// Has every subscription leave everything behind and deletes all ledgers but the one that takes appends, whatever retention says.
    pub fn truncate(&mut self, turn: &mut Turn<'_>) {
        if self.closing || self.fenced.is_some() {
            return;
        }
        let last = self.ledgers.chain.last_confirmed();
        let indices: Vec<SubscriptionIndex> = self.subscriptions.iter().map(|(index, _)| index).collect();
        for index in indices {
            let ours =
                self.subscriptions.get(index).is_none_or(|s| !s.is_open() || s.name == DEDUPLICATION_CURSOR || s.name == COMPACTION_CURSOR);
            if !ours {
                self.leave_behind(turn, index, last);
            }
        }
        self.save_sequences_now(turn);
        self.ledgers.want_trim();
        self.trim_to(turn, None, Retention::default());
    }
}
