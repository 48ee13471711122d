//! Topics that store nothing: who is active, and who may produce.

use ledger::EntryCache;
use topic::{AccessMode, AttachProducer, Effect, NonPersistentTopic, Now, Publish, Reply, SubscriptionKind, Turn};
use wire::ServerError;

use crate::client::{attach, attach_producer, entry};
use crate::sim::owner::small_settings;

struct Played {
    topic: NonPersistentTopic,
    cache: EntryCache,
}

impl Played {
    fn new() -> Played {
        let name = "non-persistent://public/default/n".parse().expect("a name");
        Played { topic: NonPersistentTopic::new(name, small_settings(), Now { monotonic_ms: 1, wall_ms: 1 }), cache: EntryCache::new(0) }
    }

    fn call(&mut self, work: impl FnOnce(&mut NonPersistentTopic, &mut Turn<'_>)) -> Vec<String> {
        let mut out = Vec::new();
        work(&mut self.topic, &mut Turn { now: Now { monotonic_ms: 1, wall_ms: 1 }, cache: &mut self.cache, out: &mut out });
        let word = |effect| match effect {
            Effect::Reply { reply: Reply::ProducerReady { producer, topic_epoch: Some(epoch), .. }, .. } => {
                format!("ready {} under {epoch}", producer.id)
            }
            Effect::Reply { reply: Reply::ProducerReady { producer, .. }, .. } => format!("ready {}", producer.id),
            Effect::Reply { reply: Reply::ProducerWaiting { producer, .. }, .. } => format!("waits {}", producer.id),
            Effect::Reply { reply: Reply::CloseProducer { producer }, .. } => format!("closed {}", producer.id),
            Effect::Reply { reply: Reply::Error { request, error, .. }, .. } => format!("refused {request} {error:?}"),
            Effect::Reply { reply: Reply::ConsumerReady { consumer, .. }, .. } => format!("attached {}", consumer.id),
            Effect::Reply { reply: Reply::ActiveChange { consumer, active }, .. } => format!("{} is active: {active}", consumer.id),
            Effect::Deliver { to, .. } => format!("delivered to {}", to.id),
            Effect::Receipt { .. } => "receipt".to_owned(),
            other => panic!("unexpected {other:?}"),
        };
        out.into_iter().map(word).collect()
    }

    fn produces(&mut self, id: u64, access: AccessMode) -> Vec<String> {
        let asks = AttachProducer { access, ..attach_producer(id, None) };
        self.call(|topic, turn| topic.attach_producer(turn, asks))
    }

    fn stops(&mut self, id: u64) -> Vec<String> {
        self.call(|topic, turn| topic.detach_producer(turn, attach_producer(id, None).key, None))
    }

    /// A consumer comes and asks for messages: before that it is told nothing.
    fn consumes(&mut self, id: u64) -> Vec<String> {
        self.call(|topic, turn| {
            topic.attach_consumer(turn, attach(id, SubscriptionKind::Failover));
            topic.flow(turn, attach(id, SubscriptionKind::Failover).key, topic::ConsumerSlot(id as u32 - 1), 1);
        })
    }
}

#[test]
fn of_failover_consumers_each_is_told_whether_it_is_the_active_one_and_only_that_one_gets_messages() {
    let mut played = Played::new();
    assert_eq!(played.consumes(1), ["attached 1", "1 is active: true"]);
    let joined = played.consumes(2);
    let active = if joined.len() == 2 { 1 } else { 2 };
    match active {
        1 => assert_eq!(joined, ["attached 2", "2 is active: false"]),
        _ => assert_eq!(joined, ["attached 2", "1 is active: false", "2 is active: true"]),
    }
    played.produces(7, AccessMode::Shared);
    let publish = |played: &mut Played| {
        played.call(|topic, turn| {
            for (id, slot) in [(1, 0), (2, 1)] {
                topic.flow(turn, attach(id, SubscriptionKind::Failover).key, topic::ConsumerSlot(slot), 10);
            }
            let key = attach_producer(7, None).key;
            topic.publish(turn, Publish { key, slot: topic::ProducerSlot(0), sequence: 0, highest_sequence: 0, bytes: entry(1, 1) });
        })
    };
    assert_eq!(publish(&mut played), ["receipt".to_owned(), format!("delivered to {active}")]);
    let other = 3 - active;
    let left = played.call(|topic, turn| topic.detach_consumer(turn, attach(active, SubscriptionKind::Failover).key, None));
    assert_eq!(left, [format!("{other} is active: true")]);
    assert_eq!(publish(&mut played), ["receipt".to_owned(), format!("delivered to {other}")]);
}

#[test]
fn producers_share_the_topic_or_have_it_alone_as_on_any_other() {
    let mut played = Played::new();
    assert_eq!(played.produces(1, AccessMode::Exclusive), ["ready 1 under 0"]);
    assert_eq!(played.produces(2, AccessMode::Shared), [format!("refused 102 {:?}", ServerError::ProducerBusy)]);
    assert_eq!(played.produces(3, AccessMode::Exclusive), [format!("refused 103 {:?}", ServerError::ProducerFenced)]);
    assert_eq!(played.produces(4, AccessMode::WaitForExclusive), ["waits 4"]);
    assert_eq!(played.produces(5, AccessMode::WaitForExclusive), ["waits 5"]);
    assert_eq!(played.topic.stats().waiting_producers, 2);
    assert_eq!(played.stops(1), ["ready 4 under 1"]);
    assert!(!played.topic.is_deserted());
    let taken = played.produces(6, AccessMode::ExclusiveWithFencing);
    assert_eq!(taken, [format!("refused 105 {:?}", ServerError::ProducerFenced), "closed 4".to_owned(), "ready 6 under 2".to_owned()]);
    assert_eq!(played.stops(6), [""; 0]);
    assert!(played.topic.is_deserted());
    assert_eq!(played.produces(7, AccessMode::Shared), ["ready 7"]);
}

#[test]
fn a_producer_that_waits_keeps_the_topic_and_hears_when_it_is_let_go_of() {
    let mut played = Played::new();
    played.produces(1, AccessMode::Exclusive);
    played.produces(2, AccessMode::WaitForExclusive);
    played.produces(3, AccessMode::WaitForExclusive);
    assert_eq!(played.stops(2), [""; 0], "one that waits may give up");
    let ends = played.call(NonPersistentTopic::unload);
    assert_eq!(ends, [format!("refused 103 {:?}", ServerError::ServiceNotReady), "closed 1".to_owned()]);
}
