//! Subscriptions being created, moved and removed: each step waits for storage or metadata, and the subscription is closed to
//! consumers meanwhile.

use ledger::{Cursor, Position};
use wire::ServerError;

use crate::compaction::COMPACTION_CURSOR;
use crate::errand::{Errand, SubscriptionIndex};
use crate::event::{SeekTo, StartAt};
use crate::persistence::Persistence;
use crate::seek::TimeSearch;
use crate::subscription::{Asked, Phase, Subscription, Waiter, before};
use crate::{ConsumerKey, Effect, Reply, Topic, Turn};

impl Topic {
    /// Begins a subscription that starts at `start`; `waiter` is told when it is there.
    pub(crate) fn open_subscription(&mut self, turn: &mut Turn<'_>, name: String, durable: bool, start: StartAt, waiter: Waiter) {
        self.begin_subscription(turn, name, durable, start, vec![waiter]);
    }

    /// Begins a subscription; `waiters` are told when it is there.
    pub(crate) fn begin_subscription(
        &mut self,
        turn: &mut Turn<'_>,
        name: String,
        durable: bool,
        start: StartAt,
        waiters: Vec<Waiter>,
    ) -> SubscriptionIndex {
        let entry = self.subscriptions.vacant_entry();
        let index = entry.key();
        let cursor = Cursor::new(self.ledgers.chain.before_first(), &self.ledgers.chain);
        let mut subscription = Subscription::new(name.clone(), index, cursor, durable);
        subscription.used_at_ms = turn.now.monotonic_ms;
        subscription.properties = waiters.first().map(Waiter::properties).unwrap_or_default();
        subscription.lane.floor = floor_of(start);
        subscription.waiters = waiters;
        entry.insert(subscription);
        self.by_name.insert(name, index);
        self.start_at(turn, index, start);
        index
    }

    /// Moves the cursor of a subscription without consumers, at once or after a search, then lets in who waits.
    pub(crate) fn start_at(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex, start: StartAt) {
        let place = self.place(start);
        let (subscriptions, lent) = self.lend();
        let Some(subscription) = subscriptions.get_mut(index) else { return };
        match place {
            Ok(next) => {
                subscription.move_to(next, &lent);
                self.located(turn, index);
            }
            Err(time) => {
                subscription.phase = Phase::Locating(TimeSearch::new(time, lent.ledger));
                self.advance(turn, index);
            }
        }
    }

    /// Where a start or a seek goes; a time that has to be searched for comes back as it is.
    fn place(&self, start: StartAt) -> Result<Position, u64> {
        let chain = &self.ledgers.chain;
        let latest = chain.next(chain.last_confirmed());
        match start {
            StartAt::Earliest => Ok(chain.first()),
            StartAt::Latest => Ok(latest),
            StartAt::At(at) if at.ledger < Position::new(0, 0).ledger => Ok(chain.first()),
            StartAt::At(at) if at.ledger == Position::LATEST.ledger => Ok(latest),
            StartAt::At(at) => Ok(chain.at_or_next(at).min(latest)),
            StartAt::Time(time) => Err(time),
        }
    }

    /// The start is known: a durable cursor is recorded first, one in memory is open.
    fn located(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        let (subscriptions, mut lent) = self.lend();
        let Some(subscription) = subscriptions.get_mut(index) else { return };
        if subscription.durable {
            subscription.phase = Phase::Creating;
            let (name, properties) = (subscription.name.clone(), std::mem::take(&mut subscription.properties));
            subscription.persistence = Some(Persistence::create(name, properties, index, &subscription.lane.cursor, &mut lent, turn));
        } else {
            subscription.phase = Phase::Open;
            self.admit_waiters(turn, index);
        }
    }

    /// Something that a subscription waited for has happened.
    pub(crate) fn advance(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        let grace = turn.now.monotonic_ms + self.settings.non_durable_grace_ms;
        let (subscriptions, mut lent) = self.lend();
        let Some(subscription) = subscriptions.get_mut(index) else { return };
        let Subscription { phase, persistence, lane, expires_at, durable, .. } = subscription;
        match phase {
            Phase::Locating(search) => {
                if let Some(next) = search.poll(Errand::Probe(index), &mut lent, turn) {
                    subscription.move_to(next, &lent);
                    self.located(turn, index);
                }
            }
            Phase::Creating => {
                *phase = Phase::Open;
                self.admit_waiters(turn, index);
                self.compaction_cursor_opened(turn);
            }
            Phase::Open => {
                if let Some(persistence) = persistence {
                    persistence.poll(&lane.cursor, &mut lent, turn);
                }
            }
            Phase::Seeking { search: Some(search), .. } => {
                if let Some(next) = search.poll(Errand::Probe(index), &mut lent, turn) {
                    self.moved(turn, index, next);
                }
            }
            Phase::Seeking { asked, search: None } => {
                let asked = *asked;
                if let Some(persistence) = persistence {
                    persistence.hurry(&lane.cursor, &mut lent, turn);
                    if !persistence.is_settled(&lane.cursor) {
                        return;
                    }
                }
                *phase = Phase::Open;
                // Its consumers come back by themselves, and expect to find the cursor.
                *expires_at = (!*durable).then_some(grace);
                self.success(turn, asked);
            }
            Phase::Deleting { .. } => {
                if let Some(persistence) = persistence {
                    persistence.delete(&mut lent, turn);
                }
            }
        }
    }

    /// Moves a subscription. Its consumers are closed before the answer, because clients take what comes after the answer as
    /// messages of the new place; they come back by themselves and find the cursor moved.
    pub fn seek(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64, to: SeekTo) {
        let asked = Asked { to: key.connection, request };
        if let Some(index) = self.ask_change(turn, key, asked) {
            self.begin_seek(turn, index, asked, to);
        }
    }

    pub(crate) fn begin_seek(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex, asked: Asked, to: SeekTo) {
        let start = match to {
            SeekTo::Message(at) => StartAt::At(at),
            SeekTo::Time(time) => StartAt::Time(time),
        };
        let place = self.place(start);
        self.close_consumers(turn, index, None);
        let (subscriptions, lent) = self.lend();
        let Some(subscription) = subscriptions.get_mut(index) else { return };
        subscription.start_over();
        subscription.lane.floor = floor_of(start);
        match place {
            Ok(next) => {
                subscription.phase = Phase::Seeking { asked, search: None };
                self.moved(turn, index, next);
            }
            Err(time) => {
                subscription.phase = Phase::Seeking { asked, search: Some(TimeSearch::new(time, lent.ledger)) };
                self.advance(turn, index);
            }
        }
    }

    fn moved(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex, next: Position) {
        let (subscriptions, lent) = self.lend();
        let Some(subscription) = subscriptions.get_mut(index) else { return };
        subscription.move_to(next, &lent);
        if let Phase::Seeking { search, .. } = &mut subscription.phase {
            *search = None;
        }
        self.advance(turn, index);
    }

    /// Removes a subscription: its record first, then all else. Other consumers are a reason to refuse, or are closed by `force`.
    pub fn unsubscribe(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, request: u64, force: bool) {
        let asked = Asked { to: key.connection, request };
        let Some(index) = self.ask_change(turn, key, asked) else { return };
        let Some(subscription) = self.subscriptions.get_mut(index) else { return };
        if subscription.lane.consumers.len() > 1 && !force {
            let message = "other consumers are attached to the subscription";
            return self.error(turn, asked, ServerError::MetadataError, message);
        }
        subscription.phase = Phase::Deleting { asked: Some(asked) };
        let durable = subscription.durable;
        self.close_consumers(turn, index, Some(key));
        if durable {
            self.advance(turn, index);
        } else {
            self.subscription_deleted(turn, index);
        }
    }

    /// The open subscription of an attached consumer; answers with an error if there is none.
    fn ask_change(&mut self, turn: &mut Turn<'_>, key: ConsumerKey, asked: Asked) -> Option<SubscriptionIndex> {
        let index = self.seat_of(key).map(|seat| seat.subscription);
        let open = index.and_then(|index| self.subscriptions.get(index)).map(Subscription::is_open);
        match open {
            Some(true) if !self.closing && self.fenced.is_none() => index,
            Some(_) => {
                self.error(turn, asked, ServerError::ServiceNotReady, "the subscription is being changed");
                None
            }
            None => {
                self.error(turn, asked, ServerError::MetadataError, "the consumer is not attached");
                None
            }
        }
    }

    /// Closes the consumers of a subscription. `except` is not told, because it asked for what is going on.
    pub(crate) fn close_consumers(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex, except: Option<ConsumerKey>) {
        let Some(subscription) = self.subscriptions.get_mut(index) else { return };
        let consumers = std::mem::take(&mut subscription.lane.consumers);
        subscription.used_at_ms = turn.now.monotonic_ms;
        subscription.start_over();
        for (_, consumer) in consumers {
            if Some(consumer.key) != except {
                let reply = Reply::CloseConsumer { consumer: consumer.key };
                turn.out.push(Effect::Reply { to: consumer.key.connection, reply });
            }
            self.leave_seat(consumer.key);
        }
    }

    /// The record of a subscription is gone: the rest goes, too.
    pub(crate) fn subscription_deleted(&mut self, turn: &mut Turn<'_>, index: SubscriptionIndex) {
        let Some(subscription) = self.subscriptions.get_mut(index) else { return };
        if let Some(persistence) = &mut subscription.persistence {
            persistence.deleted(turn);
        }
        let compacts = subscription.name == COMPACTION_CURSOR;
        if let Phase::Deleting { asked: Some(asked) } = subscription.phase {
            self.success(turn, asked);
        }
        self.was_used(turn);
        self.remove_subscription(index);
        if compacts {
            self.forget_compaction(turn);
        }
        self.ledgers.want_trim();
        self.trim(turn);
    }

    pub(crate) fn remove_subscription(&mut self, index: SubscriptionIndex) {
        if let Some(subscription) = self.subscriptions.try_remove(index) {
            self.by_name.remove(&subscription.name);
            self.errands.forget(index);
        }
    }
}

/// What a subscription that starts there does not ask for, also of what only a compacted ledger has.
fn floor_of(start: StartAt) -> Option<Position> {
    match start {
        StartAt::Earliest => Some(Position::EARLIEST),
        StartAt::At(at) if at.ledger == Position::LATEST.ledger => None,
        StartAt::At(at) if at.ledger < Position::new(0, 0).ledger => Some(Position::EARLIEST),
        StartAt::At(at) => Some(before(at)),
        StartAt::Latest | StartAt::Time(_) => None,
    }
}
