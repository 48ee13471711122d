//! The road of a message through the topic alone: publish, durable, deliver to four consumers, ack. One number each, for Shared
//! and for Key_Shared with a thousand keys. `road FLOOR COUNT` goes it so often, so that instructions can be counted.

extern crate geminga_topic as topic;

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use ledger::{EntryCache, LedgerId, LedgerLimits, LedgerList, ManagedLedger, Position, Retention};
use topic::{
    Ack, AckIds, AttachConsumer, AttachProducer, ConnectionKey, ConsumerKey, ConsumerSlot, Effect, Effects, KeySharedPolicy, Now,
    ProducerKey, ProducerSlot, Publish, Reply, StartAt, SubscriptionKind, Topic, TopicSettings, Turn,
};

const BATCH: usize = 500;

struct Bench {
    topic: Topic,
    cache: EntryCache,
    effects: Effects,
    now: Now,
    producer: (ProducerKey, ProducerSlot),
    consumers: Vec<(ConsumerKey, ConsumerSlot)>,
    /// One per key.
    bytes: Vec<Bytes>,
    last: Position,
    delivered: VecDeque<(ConsumerKey, Position)>,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let floor = arguments.next().unwrap_or_default();
    if let Some(count) = arguments.next().and_then(|count| count.parse().ok()) {
        return walk(&floor, count);
    }
    for in_flight in [1_000, 100_000] {
        // By turns, so that what else the machine does hits both alike; the best round counts.
        let mut best = [u128::MAX; 2];
        let kinds = [SubscriptionKind::Shared, SubscriptionKind::KeyShared];
        for _ in 0..3 {
            for (kind, best) in kinds.into_iter().zip(&mut best) {
                *best = round(kind, in_flight).min(*best);
            }
        }
        for (kind, each) in kinds.into_iter().zip(best) {
            let rate = 1_000_000_000 / each.max(1);
            eprintln!("{:>10}, {in_flight:>7} in flight: {each} ns per message from publish to ack, {rate} messages/s", kind.name());
        }
    }
}

fn walk(floor: &str, count: usize) {
    let kind = match floor {
        "publish" => None,
        "shared" => Some(SubscriptionKind::Shared),
        "key_shared" => Some(SubscriptionKind::KeyShared),
        other => panic!("there is no floor {other}"),
    };
    Bench::new(kind, 1_000).run(count, 1_000);
}

fn round(kind: SubscriptionKind, in_flight: usize) -> u128 {
    let mut bench = Bench::new(Some(kind), in_flight);
    bench.run(200_000, in_flight);
    let count = 1_000_000;
    #[allow(clippy::disallowed_methods, reason = "a bench has a clock")]
    let start = Instant::now();
    bench.run(count, in_flight);
    start.elapsed().as_nanos() / count as u128
}

impl Bench {
    /// Without a kind nobody consumes.
    fn new(kind: Option<SubscriptionKind>, in_flight: usize) -> Bench {
        let now = Now { monotonic_ms: 0, wall_ms: 1 };
        let limits = LedgerLimits { max_entries: u64::MAX, max_bytes: u64::MAX, min_age_ms: 0, max_age_ms: 0 };
        let settings = TopicSettings {
            ledger: limits,
            retention: Retention::default(),
            max_entry_bytes: 0,
            max_read_entries: 100_000,
            min_read_entries: 1,
            max_read_bytes: 5 << 20,
            max_round_robin: 20,
            failover_delay_ms: 1_000,
            max_unacked_per_consumer: 0,
            max_unacked_per_subscription: 200_000,
            max_look_ahead_per_consumer: 2_000,
            max_look_ahead_per_subscription: 20_000,
            key_shared_points: 0,
            mark_delete_rate: 1.0,
            cursor_flush_ms: 60_000,
            max_ranges: 10_000,
            max_batches: 10_000,
            cursor_ledger_max_entries: 50_000,
            batch_index_ack: true,
            non_durable_grace_ms: 5_000,
            retention_check_ms: 120_000,
            deduplication: topic::Deduplication::default(),
            delayed_tick_ms: 1_000,
            max_delay_ms: 0,
            message_ttl_ms: 0,
            expiry_check_ms: 300_000,
            limits: topic::Limits::default(),
            idle: topic::Idleness::default(),
            compaction: topic::CompactionRules::default(),
            auto_subscription: true,
            rates: topic::Rates::default(),
            quota: topic::Quotas::default(),
            producer_name_prefix: "bench".to_owned(),
        };
        let chain = ManagedLedger::recover(LedgerList::default(), None, LedgerId(1), limits, 1);
        let mut cache = EntryCache::new(256 << 20);
        let key = cache.open();
        let name = "persistent://public/default/bench".parse().expect("a valid name");
        let topic = Topic::new(name, chain, 0, Vec::new(), settings, key, now);
        let connection = ConnectionKey { worker: 0, slot: 0, generation: 0 };
        let producer = (ProducerKey { connection, id: 0 }, ProducerSlot(0));
        let mut bench = Bench {
            topic,
            cache,
            effects: Vec::new(),
            now,
            producer,
            consumers: Vec::new(),
            bytes: (0..1_000).map(payload).collect(),
            last: Position::EARLIEST,
            delivered: VecDeque::new(),
        };
        bench.attach(kind, in_flight);
        bench
    }

    fn call<T>(&mut self, work: impl FnOnce(&mut Topic, &mut Turn<'_>) -> T) -> T {
        work(&mut self.topic, &mut Turn { now: self.now, cache: &mut self.cache, out: &mut self.effects })
    }

    fn attach(&mut self, kind: Option<SubscriptionKind>, in_flight: usize) {
        let (key, _) = self.producer;
        let attach = AttachProducer {
            key,
            request: 1,
            name: None,
            user_provided_name: false,
            epoch: 0,
            access: topic::AccessMode::Shared,
            topic_epoch: None,
            initial_subscription: None,
            properties: Vec::new(),
            address: String::new(),
            client_version: String::new(),
        };
        self.call(|topic, turn| topic.attach_producer(turn, attach));
        self.take_effects();
        let Some(kind) = kind else { return };
        for id in 0..4 {
            let attach = AttachConsumer {
                key: ConsumerKey { connection: key.connection, id },
                request: id,
                subscription: "s".to_owned(),
                kind,
                durable: false,
                start: Some(StartAt::Latest),
                name: String::new(),
                priority: 0,
                epoch: None,
                read_compacted: false,
                subscription_properties: Vec::new(),
                key_shared: KeySharedPolicy::default(),
                properties: Vec::new(),
                address: String::new(),
                client_version: String::new(),
            };
            self.call(|topic, turn| topic.attach_consumer(turn, attach));
            self.take_effects();
        }
        for (key, slot) in self.consumers.clone() {
            self.call(|topic, turn| topic.flow(turn, key, slot, in_flight as u32 * 2 + BATCH as u32));
        }
    }

    fn take_effects(&mut self) {
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Append { at, .. } => self.last = at,
                Effect::Deliver { to, at, .. } => self.delivered.push_back((to, at)),
                Effect::Reply { reply: Reply::ProducerReady { producer, slot, .. }, .. } => self.producer = (producer, slot),
                Effect::Reply { reply: Reply::ConsumerReady { consumer, slot, .. }, .. } => self.consumers.push((consumer, slot)),
                _ => {}
            }
        }
    }

    /// Publishes in batches as turns of a loop do; acks trail `in_flight` behind.
    fn run(&mut self, count: usize, in_flight: usize) {
        let (key, slot) = self.producer;
        for turn in 0..count / BATCH {
            for index in 0..BATCH {
                let sequence = (turn * BATCH + index) as u64;
                let publish = Publish {
                    key,
                    slot,
                    sequence,
                    highest_sequence: 0,
                    bytes: self.bytes[(sequence * 7919) as usize % self.bytes.len()].clone(),
                };
                self.call(|topic, turn| topic.publish(turn, publish));
            }
            self.take_effects();
            let upto = self.last;
            self.call(|topic, turn| topic.appended(turn, upto));
            self.call(Topic::serve);
            self.take_effects();
            let excess = self.delivered.len().saturating_sub(in_flight);
            for _ in 0..excess {
                let Some((consumer, at)) = self.delivered.pop_front() else { break };
                let slot = self.consumers[consumer.id as usize].1;
                let ack = Ack { key: consumer, slot, request: None, ids: AckIds::One(at) };
                self.call(|topic, turn| topic.ack(turn, ack));
                self.call(|topic, turn| topic.flow(turn, consumer, slot, 1));
            }
            self.call(Topic::serve);
            self.take_effects();
        }
    }
}

fn payload(key: usize) -> Bytes {
    let partition_key = Some(format!("device-{key}"));
    let metadata =
        wire::proto::MessageMetadata { producer_name: "bench-0".to_owned(), publish_time: 1, partition_key, ..Default::default() };
    let mut bytes = BytesMut::new();
    wire::payload::build(&metadata, &[7; 128], &mut bytes);
    bytes.freeze()
}
