//! A subscription: a named cursor, its type, its consumers, and what is being done to it as a whole.

use ledger::{Cursor, Position};
use wire::ServerError;

use crate::consumer::ConsumerIndex;
use crate::dispatch_rate::SubscriptionPace;
use crate::dispatcher::{Dispatcher, Lane, Part, Step};
use crate::errand::SubscriptionIndex;
use crate::event::{AckIds, AttachConsumer, AttachProducer};
use crate::lent::Lent;
use crate::persistence::Persistence;
use crate::seek::TimeSearch;
use crate::stats::SubscriptionStats;
use crate::{ConnectionKey, Effect, Reply, SubscriptionKind, TopicSettings, Turn};

/// One subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) name: String,
    /// None while no consumer ever attached.
    pub(crate) kind: Option<SubscriptionKind>,
    pub(crate) lane: Lane,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) phase: Phase,
    /// Whether its cursor survives its consumers and restarts.
    pub(crate) durable: bool,
    /// Where a durable cursor is kept; none before its first record is asked for.
    pub(crate) persistence: Option<Persistence>,
    /// What is noted on it, until it has a record.
    pub(crate) properties: Vec<(String, String)>,
    /// Who waits for the subscription to exist.
    pub(crate) waiters: Vec<Waiter>,
    /// When a cursor that only lives in memory is dropped for want of consumers.
    pub(crate) expires_at: Option<u64>,
    /// Whether it is on the topic's list of those to look at.
    pub(crate) wanted: bool,
    /// When it had its last consumer, or was loaded.
    pub(crate) used_at_ms: u64,
    /// Whether it is on the topic's list of those with work left.
    pub(crate) queued: bool,
    /// What holds it to rates; none if nothing ever did.
    pub(crate) pace_out: Option<Box<SubscriptionPace>>,
}

/// What is going on with a subscription. Only an open one dispatches.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Where it starts is being looked for.
    Locating(TimeSearch),
    /// Its first record is being written.
    Creating,
    Open,
    /// Its consumers were closed; the cursor is being moved, then written.
    Seeking {
        asked: Asked,
        search: Option<TimeSearch>,
    },
    /// Its record is being removed.
    Deleting {
        /// None if nobody asked: it was not used for too long.
        asked: Option<Asked>,
    },
}

/// A request to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who asked.
    pub to: ConnectionKey,
    /// The request, as they chose it.
    pub request: u64,
}

impl Asked {
    /// Answers that it cannot be.
    pub(crate) fn refuse(self, turn: &mut Turn<'_>, error: ServerError, message: &str) {
        let reply = Reply::Error { request: self.request, error, message: message.to_owned() };
        turn.out.push(Effect::Reply { to: self.to, reply });
    }
}

/// Who waits for a subscription to exist.
#[derive(Debug)]
pub(crate) enum Waiter {
    Consumer(AttachConsumer),
    Producer(AttachProducer),
    /// An administrator, and what it wants to be noted on the subscription.
    Admin(Asked, Vec<(String, String)>),
}

impl Waiter {
    pub(crate) fn asked(&self) -> Asked {
        match self {
            Waiter::Consumer(attach) => Asked { to: attach.key.connection, request: attach.request },
            Waiter::Producer(attach) => Asked { to: attach.key.connection, request: attach.request },
            Waiter::Admin(asked, _) => *asked,
        }
    }
}

impl Waiter {
    /// What it wants to be noted on the subscription.
    pub(crate) fn properties(&self) -> Vec<(String, String)> {
        match self {
            Waiter::Consumer(attach) => attach.subscription_properties.clone(),
            Waiter::Admin(_, properties) => properties.clone(),
            Waiter::Producer(_) => Vec::new(),
        }
    }
}

impl Subscription {
    pub(crate) fn new(name: String, index: SubscriptionIndex, cursor: Cursor, durable: bool) -> Subscription {
        Subscription {
            name,
            kind: None,
            lane: Lane::new(index, cursor),
            dispatcher: Dispatcher::new(SubscriptionKind::Exclusive),
            phase: Phase::Open,
            durable,
            persistence: None,
            properties: Vec::new(),
            waiters: Vec::new(),
            expires_at: None,
            wanted: false,
            used_at_ms: 0,
            queued: false,
            pace_out: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Makes it one of `kind`; only without consumers.
    pub(crate) fn become_kind(&mut self, kind: SubscriptionKind, lent: &Lent<'_>) {
        if self.kind != Some(kind) {
            self.kind = Some(kind);
            self.start_over();
            self.lane.rewind(lent.ledger);
        }
    }

    /// Forgets what consumers held and what is being read; the cursor is about to be elsewhere.
    pub(crate) fn start_over(&mut self) {
        self.dispatcher = Dispatcher::new(self.kind.unwrap_or(SubscriptionKind::Exclusive));
        self.lane.reads.forget();
        self.lane.delayed.clear();
    }

    pub(crate) fn move_to(&mut self, next: Position, lent: &Lent<'_>) {
        self.start_over();
        self.lane.cursor.seek(next, lent.ledger);
    }

    pub(crate) fn dispatch(&mut self, lent: &mut Lent<'_>, turn: &mut Turn<'_>) -> Step {
        if self.is_open() && !self.lane.consumers.is_empty() { self.dispatcher.dispatch(&mut self.lane, lent, turn) } else { Step::Idle }
    }

    /// Takes acks. Returns whether that lifted a limit that held dispatch back; errs if this type does not take such acks.
    pub(crate) fn ack(&mut self, by: ConsumerIndex, ids: AckIds, lent: &Lent<'_>) -> Result<bool, NotCumulative> {
        match ids {
            AckIds::One(at) => Ok(self.dispatcher.ack(&mut self.lane, by, at, lent)),
            AckIds::Many(ids) => {
                let mut lifted = false;
                for (at, remaining, messages) in &ids {
                    lifted |= match remaining {
                        Some(left) if left.0.iter().any(|word| *word != 0) => {
                            let part = Part { at: *at, remaining: left, messages: *messages };
                            lent.settings.batch_index_ack && self.dispatcher.ack_part(&mut self.lane, by, part, lent)
                        }
                        _ => self.dispatcher.ack(&mut self.lane, by, *at, lent),
                    };
                }
                Ok(lifted)
            }
            AckIds::Cumulative(at, remaining, messages) => {
                if !self.dispatcher.acks_cumulatively() {
                    return Err(NotCumulative);
                }
                if at <= lent.ledger.last_confirmed() {
                    self.ack_cumulative(at, remaining, messages, lent);
                }
                Ok(false)
            }
        }
    }

    fn ack_cumulative(&mut self, at: Position, remaining: Option<ledger::AckSet>, messages: Option<u32>, lent: &Lent<'_>) {
        if at < lent.ledger.first() {
            self.lane.raise_floor(if remaining.is_none() { at } else { before(at) });
        }
        let cursor = &mut self.lane.cursor;
        match remaining.filter(|left| left.0.iter().any(|word| *word != 0)) {
            None => cursor.ack_cumulative(at, lent.ledger),
            Some(left) if lent.settings.batch_index_ack => {
                let bits = u32::try_from(left.0.len()).unwrap_or(1).saturating_mul(64);
                cursor.ack_cumulative_in_batch(at, &left, messages.unwrap_or(bits), lent.ledger)
            }
            Some(_) => cursor.ack_cumulative(lent.ledger.previous(at), lent.ledger),
        };
    }

    /// When it wants to be looked at.
    pub(crate) fn deadline(&self, settings: &TopicSettings) -> Option<u64> {
        let search = match &self.phase {
            Phase::Locating(search) | Phase::Seeking { search: Some(search), .. } => search.retry_at(),
            _ => None,
        };
        let write = self.persistence.as_ref().and_then(|persistence| persistence.deadline(&self.lane.cursor, settings));
        let expiry = self.expires_at.filter(|_| self.is_open());
        let due = self.lane.delayed.deadline().filter(|_| !self.lane.consumers.is_empty());
        let expiry = expiry.or_else(|| self.desertion_deadline(settings));
        let view = self.lane.view.as_ref().and_then(|view| view.reads.retry_at());
        let rated = self.waits_until();
        let own = [search, write, self.lane.reads.retry_at(), view, self.dispatcher.deadline(), expiry, due, rated];
        own.into_iter().flatten().min()
    }

    /// When it may be sent something again, if a rate holds it back.
    pub(crate) fn waits_until(&self) -> Option<u64> {
        self.pace_out.as_ref().and_then(|pace| pace.until()).filter(|_| self.is_open() && !self.lane.consumers.is_empty())
    }

    pub(crate) fn stats(&self, lent_ledger: &ledger::ManagedLedger, settings: &TopicSettings, max_held: u64) -> SubscriptionStats {
        let backlog = self.lane.cursor.backlog(lent_ledger);
        let kind = self.kind.map_or("", SubscriptionKind::name);
        let max_unacked = settings.max_unacked_per_consumer;
        let unacked = self.dispatcher.unacked(&self.lane, lent_ledger);
        let mut consumers: Vec<_> = self.lane.consumers.iter().map(|(_, consumer)| consumer.stats(kind, max_unacked, backlog)).collect();
        let active = self.dispatcher.active();
        let place = self.lane.consumers.iter().position(|(index, _)| active.is_some_and(|active| active as usize == index));
        let active_consumer = place.and_then(|place| consumers.get_mut(place)).map(|holder| {
            holder.unacked_messages = unacked;
            holder.blocked_on_unacked = false;
            holder.name.clone()
        });
        SubscriptionStats {
            name: self.name.clone(),
            kind,
            durable: self.durable,
            backlog,
            unacked_messages: unacked,
            blocked_on_unacked: self.dispatcher.held_messages() >= max_held,
            messages_out: self.lane.messages_out,
            bytes_out: self.lane.bytes_out,
            messages_redelivered: self.lane.messages_redelivered,
            delayed: self.lane.delayed.len(),
            messages_expired: self.lane.messages_expired,
            messages_dropped: 0,
            backlog_bytes: lent_ledger.bytes_after(self.lane.cursor.mark_delete()),
            stopped: self.pace_out.as_ref().map(|pace| pace.stopped()).unwrap_or_default(),
            rates: self.lane.rates(),
            mark_delete: self.lane.cursor.mark_delete().to_string(),
            read_position: self.lane.cursor.read_position().to_string(),
            acked_ranges: self.lane.cursor.ranges() as u64,
            active_consumer,
            consumers,
            properties: self.persistence.as_ref().map_or(&self.properties[..], |persistence| persistence.properties()).to_vec(),
        }
    }
}

/// The place before an entry, whether or not there is one.
pub(crate) fn before(at: Position) -> Position {
    Position { entry: at.entry.previous(), ..at }
}

/// A cumulative ack on a subscription whose consumers share the entries.
#[derive(Debug, thiserror::Error)]
#[error("cumulative acknowledgement is not allowed on a Shared or Key_Shared subscription")]
pub(crate) struct NotCumulative;

impl SubscriptionKind {
    /// Whether one consumer at a time gets everything.
    pub(crate) fn has_one_active(self) -> bool {
        matches!(self, SubscriptionKind::Exclusive | SubscriptionKind::Failover)
    }

    /// As Pulsar spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SubscriptionKind::Exclusive => "Exclusive",
            SubscriptionKind::Shared => "Shared",
            SubscriptionKind::Failover => "Failover",
            SubscriptionKind::KeyShared => "Key_Shared",
        }
    }
}
