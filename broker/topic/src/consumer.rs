//! An attached consumer: its permits, what it holds, and whether it takes more.

use ledger::Position;

use crate::event::{AttachConsumer, KeySharedPolicy};
use crate::growth::Growth;
use crate::stats::ConsumerRates;
use crate::stats::ConsumerStats;
use crate::{ConsumerKey, Now, Reply};

/// A consumer's index in its subscription.
pub(crate) type ConsumerIndex = u32;

/// One consumer of a subscription.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) key: ConsumerKey,
    pub(crate) priority: i32,
    /// The client's epoch; messages of an older one are ignored by it.
    pub(crate) epoch: Option<u64>,
    /// Messages it will still take; negative by at most one batch.
    pub(crate) permits: i64,
    /// Permits that it gave last, at once.
    pub(crate) last_grant: u32,
    /// Messages delivered and not acked.
    pub(crate) unacked: u64,
    /// When it was sent something last, by the monotonic clock; only where keys have owners.
    pub(crate) sent_at_ms: u64,
    /// Whether its connection takes more.
    pub(crate) writable: bool,
    /// Until when nothing is said of its own accord that a FLOW has not shown to be expected: some clients drop what comes before
    /// they have seen that they are attached.
    pub(crate) silent_until: Option<u64>,
    /// Whether it was told last that it is the active one, or is to be told when the silence ends; none if there was nothing to tell.
    told_active: Option<bool>,
    /// Whether it wants only the newest message of each key, as far as the topic is compacted.
    pub(crate) read_compacted: bool,
    /// Whether it was told that the topic has ended.
    told_end: bool,
    /// How it wants keys to be split.
    pub(crate) key_shared: KeySharedPolicy,
    name: String,
    address: String,
    client_version: String,
    properties: Vec<(String, String)>,
    connected_since_ms: u64,
    last_flow_ms: u64,
    messages_out: u64,
    bytes_out: u64,
    messages_redelivered: u64,
    messages_acked: u64,
    growth: Growth<4>,
}

impl Consumer {
    pub(crate) fn new(attach: AttachConsumer, now: Now) -> Consumer {
        Consumer {
            key: attach.key,
            priority: attach.priority,
            epoch: attach.epoch,
            permits: 0,
            last_grant: 0,
            unacked: 0,
            sent_at_ms: 0,
            writable: true,
            silent_until: Some(now.monotonic_ms + SILENCE_MS),
            told_active: None,
            read_compacted: attach.read_compacted,
            told_end: false,
            key_shared: attach.key_shared,
            name: attach.name,
            address: attach.address,
            client_version: attach.client_version,
            properties: attach.properties,
            connected_since_ms: now.wall_ms,
            last_flow_ms: 0,
            messages_out: 0,
            bytes_out: 0,
            messages_redelivered: 0,
            messages_acked: 0,
            growth: Growth::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn flow(&mut self, permits: u32, now: Now) {
        self.permits = self.permits.saturating_add(i64::from(permits));
        self.last_grant = permits;
        self.last_flow_ms = now.wall_ms;
    }

    /// Whether it knows, or is about to hear, that it is the active one; none if it was told nothing.
    pub(crate) fn told_active(&self) -> Option<bool> {
        self.told_active
    }

    /// Tells it whether it is the active one, if it listens already.
    pub(crate) fn tell_active(&mut self, active: bool) -> Option<Reply> {
        self.told_active = Some(active);
        let reply = Reply::ActiveChange { consumer: self.key, active };
        self.silent_until.is_none().then_some(reply)
    }

    /// It listens from now on; returns what it was to be told meanwhile.
    pub(crate) fn end_silence(&mut self) -> Option<Reply> {
        self.silent_until.take()?;
        let active = self.told_active?;
        Some(Reply::ActiveChange { consumer: self.key, active })
    }

    /// Whether it is to be told now that the topic has ended. Some clients know no such command, and would come back for ever.
    pub(crate) fn hears_of_the_end(&mut self) -> bool {
        let understands = UNDERSTAND_THE_END.iter().any(|client| self.client_version.starts_with(client));
        let now = understands && !self.told_end && self.silent_until.is_none();
        self.told_end |= now;
        now
    }

    /// Whether it would take an entry now; `max_unacked` 0 is no limit.
    pub(crate) fn takes(&self, max_unacked: u32) -> bool {
        self.permits > 0 && self.writable && !self.is_over(max_unacked)
    }

    /// Whether it holds as much as it may.
    pub(crate) fn is_over(&self, max_unacked: u32) -> bool {
        max_unacked > 0 && self.unacked >= u64::from(max_unacked)
    }

    /// Counts an entry sent to it.
    pub(crate) fn sent(&mut self, messages: u32, bytes: usize, redelivered: bool) {
        self.messages_out += u64::from(messages);
        self.bytes_out += bytes as u64;
        if redelivered {
            self.messages_redelivered += u64::from(messages);
        }
    }

    /// Counts messages acked.
    pub(crate) fn acked(&mut self, messages: u64) {
        self.messages_acked += messages;
    }

    /// Messages it acked in a second of the last period.
    pub(crate) fn acks_per_second(&self) -> f64 {
        self.growth.rates()[3]
    }

    /// A period of statistics has ended.
    pub(crate) fn period_ended(&mut self, seconds: f64) {
        let totals = [self.messages_out, self.bytes_out, self.messages_redelivered, self.messages_acked];
        self.growth.period_ended(totals, seconds);
    }

    pub(crate) fn stats(&self, kind: &'static str, max_unacked: u32, backlog: u64) -> ConsumerStats {
        let [messages_out, bytes_out, messages_redelivered, messages_acked] = self.growth.rates();
        let rates = ConsumerRates { messages_out, bytes_out, messages_redelivered, messages_acked };
        ConsumerStats {
            rates,
            name: self.name.clone(),
            id: self.key.id,
            available_permits: self.permits,
            unacked_messages: self.unacked,
            blocked_on_unacked: self.is_over(max_unacked),
            messages_out: self.messages_out,
            bytes_out: self.bytes_out,
            messages_redelivered: self.messages_redelivered,
            messages_acked: self.messages_acked,
            address: self.address.clone(),
            client_version: self.client_version.clone(),
            connected_since_ms: self.connected_since_ms,
            last_flow_ms: self.last_flow_ms,
            properties: self.properties.clone(),
            kind,
            backlog,
        }
    }
}

/// Clients that know what the end of a topic is, by the beginning of their version.
const UNDERSTAND_THE_END: [&str; 3] = ["Pulsar-Java", "pulsar-rs", "geminga-client"];

/// How long a consumer that asks for nothing is waited for before it is told something.
const SILENCE_MS: u64 = 1_000;

/// One entry on its way to a consumer.
pub(crate) struct Parcel {
    pub(crate) at: Position,
    /// Messages in it that are not acked.
    pub(crate) messages: u32,
    pub(crate) redeliveries: u32,
    pub(crate) bytes: bytes::Bytes,
}
