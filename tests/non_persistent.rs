//! Topics that store nothing: whoever is there gets the message, and then it is gone.

use std::time::Duration;

use client::{Client, ConsumerOptions, MessageId, Options, ProducerAccessMode, ProducerOptions};
use geminga_tests::harness::{Broker, Setup, eventually, soon};
use wire::proto::{CommandGetTopicsOfNamespace, TopicsMode};
use wire::{Command, ServerError, proto};

use crate::admin::{json, told};
use crate::talk::{Wire, by_hand, consume, next, numbers, persistent, plain, produce, publish, texts};

const TOPIC: &str = "non-persistent://public/default/n";

#[tokio::test]
async fn connected_consumers_get_everything_and_every_id_is_the_same() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, TOPIC).await;
    let exclusive = consume(&client, TOPIC, ConsumerOptions::new("exclusive")).await;
    let shared = [
        consume(&client, TOPIC, ConsumerOptions::shared("shared")).await,
        consume(&client, TOPIC, ConsumerOptions::shared("shared")).await,
    ];
    tokio::time::sleep(Duration::from_millis(200)).await;
    let ids = publish(&producer, numbers(0..100)).await;
    assert!(ids.iter().all(|id| (id.ledger, id.entry) == (0, 0)), "{ids:?}");
    for n in 0..100 {
        let message = next(&exclusive).await;
        assert_eq!(message.payload, n.to_string());
        assert_eq!((message.id.ledger, message.id.entry), (0, 0));
        exclusive.ack(&message);
    }
    eventually("the other half", || async { shared[0].waiting() + shared[1].waiting() == 100 }).await;
    assert!((30..=70).contains(&shared[0].waiting()), "turns are uneven: {}", shared[0].waiting());
}

#[tokio::test]
async fn what_nobody_takes_is_dropped_and_does_not_come_later() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, TOPIC).await;
    publish(&producer, ["nobody is there"]).await;
    let consumer = consume(&client, TOPIC, by_hand(ConsumerOptions::new("s"))).await;
    publish(&producer, ["no permits"]).await;
    consumer.flow(2);
    tokio::time::sleep(Duration::from_millis(200)).await;
    publish(&producer, numbers(0..5)).await;
    assert_eq!(texts(&consumer, 2).await, numbers(0..2));
    consumer.flow(10);
    tokio::time::sleep(Duration::from_millis(200)).await;
    publish(&producer, ["last"]).await;
    assert_eq!(texts(&consumer, 1).await, ["last"]);
}

#[tokio::test]
async fn of_failover_consumers_the_active_one_gets_everything_and_all_are_told_who_it_is() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, TOPIC).await;
    let consumers = [
        consume(&client, TOPIC, ConsumerOptions::failover("s")).await,
        consume(&client, TOPIC, ConsumerOptions { priority: 1, ..ConsumerOptions::failover("s") }).await,
    ];
    eventually("both know", || async { consumers.iter().map(client::Consumer::is_active).eq([Some(true), Some(false)]) }).await;
    publish(&producer, ["one"]).await;
    assert_eq!(texts(&consumers[0], 1).await, ["one"]);
    let [first, second] = consumers;
    soon("closing", first.close()).await.expect("closed");
    eventually("the other one takes over", || async { second.is_active() == Some(true) }).await;
    publish(&producer, ["two"]).await;
    assert_eq!(texts(&second, 1).await, ["two"]);
}

#[tokio::test]
async fn a_producer_may_have_the_topic_to_itself() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let alone = |access| client.producer(TOPIC, ProducerOptions { access, ..ProducerOptions::default() });
    let owner = soon("an answer", alone(ProducerAccessMode::Exclusive)).await.expect("let in");
    assert_eq!(owner.topic_epoch(), Some(0));
    let refused = soon("an answer", alone(ProducerAccessMode::Shared)).await.expect_err("refused");
    assert_eq!(refused.code(), Some(ServerError::ProducerBusy));
    let waiting = tokio::spawn({
        let client = plain(&broker).await;
        let options = ProducerOptions { access: ProducerAccessMode::WaitForExclusive, ..ProducerOptions::default() };
        async move { client.producer(TOPIC, options).await }
    });
    soon("closing", owner.close()).await.expect("closed");
    let next = soon("its turn", waiting).await.expect("no panic").expect("let in");
    assert!(next.topic_epoch().is_some());
    publish(&next, ["mine"]).await;
}

async fn topics(wire: &mut Wire, mode: TopicsMode) -> Vec<String> {
    let namespace = "public/default".to_owned();
    let get = |request_id| CommandGetTopicsOfNamespace { request_id, namespace, mode: Some(mode.into()), ..Default::default() }.into();
    match wire.request(get).await {
        Command::GetTopicsOfNamespaceResponse(response) => response.topics,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_topic_is_there_while_somebody_uses_it_and_is_listed_by_its_mode() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let mut wire = Wire::connect(&broker).await;
    let kept = produce(&client, "kept").await;
    let producer = produce(&client, TOPIC).await;
    let consumer = consume(&client, TOPIC, ConsumerOptions::new("s")).await;
    assert_eq!(topics(&mut wire, TopicsMode::Persistent).await, ["persistent://public/default/kept"]);
    assert_eq!(topics(&mut wire, TopicsMode::NonPersistent).await, [TOPIC]);
    assert_eq!(topics(&mut wire, TopicsMode::All).await, [TOPIC, "persistent://public/default/kept"]);
    soon("closing", producer.close()).await.expect("closed");
    assert_eq!(topics(&mut wire, TopicsMode::NonPersistent).await, [TOPIC]);
    soon("closing", consumer.close()).await.expect("closed");
    assert!(topics(&mut wire, TopicsMode::NonPersistent).await.is_empty());
    drop(kept);
    // It can be used again.
    let producer = produce(&client, TOPIC).await;
    publish(&producer, ["again"]).await;
}

#[tokio::test]
async fn seeking_is_refused_and_subscriptions_can_be_removed() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let consumer = consume(&client, TOPIC, ConsumerOptions::new("s")).await;
    assert!(soon("an answer", consumer.seek(MessageId::EARLIEST)).await.is_err());
    let second = soon("an answer", client.consumer(TOPIC, ConsumerOptions::new("s"))).await;
    assert!(second.is_err(), "an Exclusive subscription has one consumer");
    soon("an answer", consumer.unsubscribe()).await.expect("removed");
}

#[tokio::test]
async fn switched_off_they_are_refused_at_once() {
    let broker = Setup::default().set("enableNonPersistentTopics", false).start();
    let client = soon("connecting", Client::connect(broker.url(), Options::without_reconnect())).await.expect("connected");
    assert!(soon("an answer", client.consumer(TOPIC, ConsumerOptions::new("s"))).await.is_err());
    let mut wire = Wire::connect(&broker).await;
    let producer = |request_id| proto::CommandProducer { topic: TOPIC.into(), producer_id: 1, request_id, ..Default::default() }.into();
    match wire.request(producer).await {
        Command::Error(error) => assert_eq!(error.error(), ServerError::NotAllowedError, "{}", error.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn they_may_have_partitions() {
    let setup = Setup::default().set("allowAutoTopicCreationType", "partitioned").set("defaultNumPartitions", 3);
    let broker = setup.start();
    let client = plain(&broker).await;
    let partitions = soon("partitions", client.partitions(TOPIC)).await.expect("partitions");
    assert_eq!(partitions, (0..3).map(|n| format!("{TOPIC}-partition-{n}")).collect::<Vec<_>>());
    let consumer = consume(&client, &partitions[1], ConsumerOptions::new("s")).await;
    let producer = produce(&client, &partitions[1]).await;
    publish(&producer, ["one"]).await;
    assert_eq!(texts(&consumer, 1).await, ["one"]);
}

#[tokio::test]
async fn a_topic_in_use_is_administered_over_http_like_any_other() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let (topics, all) = ("/admin/v2/non-persistent/public/default", "/admin/v2/namespaces/public/default/topics?mode=ALL");
    let of = |what: &str| format!("{topics}/n{what}");
    let status = |method, path: &str| told(&broker, method, path, "").0;
    for (method, what) in [("GET", "/stats"), ("GET", "/subscriptions"), ("PUT", "/unload"), ("DELETE", "?force=true"), ("DELETE", "")] {
        assert_eq!(status(method, &of(what)), 404, "{method} {what}: nobody uses it");
    }
    let producer = produce(&client, TOPIC).await;
    let consumer = consume(&client, TOPIC, ConsumerOptions::new("s")).await;
    publish(&producer, numbers(0..3)).await;
    assert_eq!(told(&broker, "GET", topics, ""), (200, format!("[\"{TOPIC}\"]")));
    assert_eq!(told(&broker, "GET", all, ""), (200, format!("[\"{TOPIC}\"]")));
    assert_eq!(told(&broker, "GET", "/admin/v2/persistent/public/default", ""), (200, "[]".into()));
    assert_eq!(told(&broker, "GET", &of("/partitions"), ""), (200, r#"{"partitions":0}"#.into()));
    assert_eq!(told(&broker, "GET", &of("/subscriptions"), ""), (200, r#"["s"]"#.into()));
    let stats = json(&broker, &of("/stats"));
    assert_eq!((&stats["msgInCounter"], &stats["subscriptions"]["s"]["type"]), (&3.into(), &"Exclusive".into()), "{stats}");
    assert_eq!(stats["publishers"][0]["producerName"], producer.name().as_ref(), "{stats}");
    assert_eq!(status("GET", &of("/internalStats")), 200);
    assert_eq!(status("GET", &of("/lastMessageId")), 405, "there are no ids");
    assert_eq!(status("DELETE", &of("")), 412, "it is in use");
    assert_eq!(status("DELETE", "/admin/v2/namespaces/public/default"), 409, "and so is its namespace");
    assert_eq!(status("DELETE", &of("?force=true")), 204);
    // A client that does not come back was closed, and nobody uses the topic any more.
    eventually("it is gone", || async { status("GET", &of("/stats")) == 404 }).await;
    assert_eq!(told(&broker, "GET", all, ""), (200, "[]".into()));
    drop((producer, consumer));
}

#[tokio::test]
async fn clients_come_back_to_a_topic_that_was_unloaded() {
    let broker = Broker::start();
    let client = persistent(&broker).await;
    let producer = produce(&client, TOPIC).await;
    let consumer = consume(&client, TOPIC, ConsumerOptions::new("s")).await;
    publish(&producer, ["before"]).await;
    assert_eq!(next(&consumer).await.payload, "before");
    crate::admin::unload(&broker, "non-persistent/public/default/n");
    eventually("a message after it", || async {
        publish(&producer, ["after"]).await;
        consumer.try_recv().is_some()
    })
    .await;
}

#[tokio::test]
async fn a_partitioned_topic_can_be_made_and_used() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let partitions = "/admin/v2/non-persistent/public/default/n/partitions";
    assert_eq!(told(&broker, "PUT", partitions, "2").0, 204);
    assert!(soon("an answer", client.producer(TOPIC, ProducerOptions::default())).await.is_err(), "it has partitions");
    let part = format!("{TOPIC}-partition-1");
    let producer = produce(&client, &part).await;
    let consumer = consume(&client, &part, ConsumerOptions::new("s")).await;
    publish(&producer, ["m"]).await;
    next(&consumer).await;
    let stats = json(&broker, "/admin/v2/non-persistent/public/default/n/partitioned-stats");
    assert_eq!((&stats["msgInCounter"], &stats["metadata"]["partitions"]), (&1.into(), &2.into()), "{stats}");
    assert_eq!(told(&broker, "GET", "/admin/v2/non-persistent/public/default/n/subscriptions", "").1, r#"["s"]"#);
    assert_eq!(told(&broker, "DELETE", partitions, "").0, 412, "a partition is in use");
    assert_eq!(told(&broker, "DELETE", &format!("{partitions}?force=true"), "").0, 204);
    assert_eq!(told(&broker, "GET", partitions, "").0, 404);
}
