//! Policies that act: what is said of a topic, its namespace or the whole broker holds for clients at once.

use std::time::Duration;

use client::{Client, Consumer, ConsumerOptions, Error, Message, Producer, ProducerOptions};
use geminga_tests::harness::{Broker, Setup, eventually, soon};
use wire::{Command, SubscriptionType, proto};

use crate::admin::{json, told, topic_stats};
use crate::talk::{Wire, by_hand, consume, next, numbers, persistent, plain, produce, publish, settle, subscribe};

const NAMESPACE: &str = "/admin/v2/namespaces/public/default";
const TOPIC: &str = "/admin/v2/persistent/public/default/t";

fn done() -> (u16, String) {
    (204, String::new())
}

fn say(broker: &Broker, path: &str, body: &str) {
    assert_eq!(told(broker, "POST", path, body), done(), "{path} {body}");
}

fn unsay(broker: &Broker, path: &str) {
    assert_eq!(told(broker, "DELETE", path, ""), done(), "{path}");
}

async fn try_produce(client: &Client, topic: &str) -> Result<Producer, Error> {
    soon("an answer", client.producer(topic, ProducerOptions::default())).await
}

async fn try_consume(client: &Client, topic: &str, options: ConsumerOptions) -> Result<Consumer, Error> {
    soon("an answer", client.consumer(topic, options)).await
}

#[track_caller]
fn refused<T>(outcome: Result<T, Error>, saying: &str) {
    match outcome {
        Ok(_) => panic!("not refused: {saying}"),
        Err(error) => assert!(error.to_string().contains(saying), "{error}"),
    }
}

#[tokio::test]
async fn producers_are_limited_by_broker_namespace_and_topic_the_nearest_first() {
    let broker = Setup::default().set("maxProducersPerTopic", 1).start();
    let client = plain(&broker).await;
    let _first = produce(&client, "t").await;
    refused(try_produce(&client, "t").await, "max producers");
    say(&broker, &format!("{NAMESPACE}/maxProducersPerTopic"), "2");
    let _second = produce(&client, "t").await;
    refused(try_produce(&client, "t").await, "max producers");
    say(&broker, &format!("{TOPIC}/maxProducers"), "3");
    let _third = produce(&client, "t").await;
    refused(try_produce(&client, "t").await, "max producers");
    unsay(&broker, &format!("{TOPIC}/maxProducers"));
    unsay(&broker, &format!("{NAMESPACE}/maxProducersPerTopic"));
    refused(try_produce(&client, "t").await, "max producers");
    let _elsewhere = produce(&client, "other").await;
    say(&broker, &format!("{TOPIC}/maxProducers"), "0");
    let _unlimited = produce(&client, "t").await;
}

#[tokio::test]
async fn consumers_and_subscriptions_are_limited_at_once() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let _first = consume(&client, "t", ConsumerOptions::shared("a")).await;
    say(&broker, &format!("{TOPIC}/maxConsumersPerSubscription"), "1");
    refused(try_consume(&client, "t", ConsumerOptions::shared("a")).await, "Subscription reached max consumers");
    unsay(&broker, &format!("{TOPIC}/maxConsumersPerSubscription"));
    say(&broker, &format!("{NAMESPACE}/maxConsumersPerTopic"), "2");
    let _second = consume(&client, "t", ConsumerOptions::shared("a")).await;
    refused(try_consume(&client, "t", ConsumerOptions::shared("a")).await, "Topic reached max consumers");
    unsay(&broker, &format!("{NAMESPACE}/maxConsumersPerTopic"));
    say(&broker, &format!("{TOPIC}/maxSubscriptionsPerTopic"), "1");
    refused(try_consume(&client, "t", ConsumerOptions::shared("b")).await, "number of subscriptions");
    say(&broker, &format!("{TOPIC}/maxSubscriptionsPerTopic"), "2");
    let _other = consume(&client, "t", ConsumerOptions::shared("b")).await;
}

#[tokio::test]
async fn a_topic_that_stores_nothing_knows_the_same_limits() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let topic = "non-persistent://public/default/v";
    let _producer = produce(&client, topic).await;
    say(&broker, "/admin/v2/non-persistent/public/default/v/maxProducers", "1");
    refused(try_produce(&client, topic).await, "max producers");
    say(&broker, &format!("{NAMESPACE}/maxSubscriptionsPerTopic"), "1");
    let _consumer = consume(&client, topic, ConsumerOptions::shared("a")).await;
    refused(try_consume(&client, topic, ConsumerOptions::shared("b")).await, "number of subscriptions");
    unsay(&broker, "/admin/v2/non-persistent/public/default/v/maxProducers");
    let _second = produce(&client, topic).await;
}

#[tokio::test]
async fn types_of_subscriptions_are_switched_off_per_topic() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let _producer = produce(&client, "t").await;
    say(&broker, &format!("{NAMESPACE}/subscriptionTypesEnabled"), r#"["Exclusive"]"#);
    refused(try_consume(&client, "t", ConsumerOptions::shared("s")).await, "doesn't support Shared sub type");
    let _other = consume(&client, "t", ConsumerOptions::new("x")).await;
    say(&broker, &format!("{TOPIC}/subscriptionTypesEnabled"), r#"["Shared"]"#);
    let _shared = consume(&client, "t", ConsumerOptions::shared("s")).await;
    refused(try_consume(&client, "t", ConsumerOptions::new("y")).await, "doesn't support Exclusive sub type");
}

#[tokio::test]
async fn a_limit_on_unacked_messages_stops_and_frees_a_consumer_at_once() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", by_hand(ConsumerOptions::shared("s"))).await;
    say(&broker, &format!("{TOPIC}/maxUnackedMessagesOnConsumer"), "3");
    publish(&producer, numbers(0..10)).await;
    consumer.flow(10);
    settle(&consumer).await;
    assert_eq!(consumer.waiting(), 3);
    say(&broker, &format!("{TOPIC}/maxUnackedMessagesOnConsumer"), "5");
    settle(&consumer).await;
    assert_eq!(consumer.waiting(), 5);
    // Said before the other limit goes: without any, everything would be sent at once.
    say(&broker, &format!("{NAMESPACE}/maxUnackedMessagesPerSubscription"), "7");
    unsay(&broker, &format!("{TOPIC}/maxUnackedMessagesOnConsumer"));
    settle(&consumer).await;
    assert_eq!(consumer.waiting(), 7);
    unsay(&broker, &format!("{NAMESPACE}/maxUnackedMessagesPerSubscription"));
    settle(&consumer).await;
    assert_eq!(consumer.waiting(), 10);
}

#[tokio::test]
async fn a_topic_refuses_messages_larger_than_it_wants() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let large = || Message::new(vec![0u8; 2_000]);
    let producer = produce(&client, "t").await;
    soon("a receipt", producer.send(large())).await.expect("stored");
    say(&broker, &format!("{TOPIC}/maxMessageSize"), "1000");
    refused(soon("an answer", producer.send(large())).await, "limit of 1000 bytes");
    unsay(&broker, &format!("{TOPIC}/maxMessageSize"));
    let producer = produce(&client, "t").await;
    soon("a receipt", producer.send(large())).await.expect("stored");
}

#[tokio::test]
async fn deduplication_and_expiry_follow_the_topic_over_its_namespace() {
    let broker = Broker::start();
    let client = persistent(&broker).await;
    let _producer = produce(&client, "t").await;
    let status = || topic_stats(&broker, "persistent/public/default/t")["deduplicationStatus"].clone();
    say(&broker, &format!("{TOPIC}/deduplicationEnabled"), "true");
    eventually("it is on", || async { status() == "Enabled" }).await;
    say(&broker, &format!("{NAMESPACE}/deduplication"), "false");
    assert_eq!(status(), "Enabled");
    unsay(&broker, &format!("{TOPIC}/deduplicationEnabled"));
    eventually("it is off", || async { status() == "Disabled" }).await;

    let producer = produce(&client, "old").await;
    soon("closing", consume(&client, "old", ConsumerOptions::new("s")).await.close()).await.expect("closed");
    publish(&producer, numbers(0..20)).await;
    let backlog = || topic_stats(&broker, "persistent/public/default/old")["subscriptions"]["s"]["msgBacklog"].as_u64();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    say(&broker, &format!("{NAMESPACE}/messageTTL"), "3600");
    assert_eq!(backlog(), Some(20));
    assert_eq!(told(&broker, "POST", "/admin/v2/persistent/public/default/old/messageTTL?messageTTL=1", ""), done());
    eventually("the backlog goes", || async { backlog() == Some(0) }).await;
}

#[tokio::test]
async fn a_namespace_says_whether_and_how_topics_come_into_being() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let path = format!("{NAMESPACE}/autoTopicCreation");
    say(&broker, &path, r#"{"allowAutoTopicCreation":false}"#);
    assert!(try_produce(&client, "new").await.is_err());
    assert_eq!(told(&broker, "GET", "/lookup/v2/topic/persistent/public/default/new", "").0, 404);
    say(&broker, &path, r#"{"allowAutoTopicCreation":true,"topicType":"partitioned","defaultNumPartitions":3}"#);
    assert_eq!(soon("partitions", client.partitions("parted")).await.expect("created").len(), 3);
    unsay(&broker, &path);
    let _producer = produce(&client, "plain").await;
    assert_eq!(soon("partitions", client.partitions("plain")).await.expect("there").len(), 1);
    let mut broker_off = Setup::default().set("allowAutoTopicCreation", false).start();
    say(&broker_off, &path, r#"{"allowAutoTopicCreation":true}"#);
    let client = plain(&broker_off).await;
    let _producer = produce(&client, "new").await;
    assert!(broker_off.stop().success());
}

#[tokio::test]
async fn a_topic_says_whether_subscriptions_come_into_being() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let _producer = produce(&client, "t").await;
    say(&broker, &format!("{NAMESPACE}/autoSubscriptionCreation"), r#"{"allowAutoSubscriptionCreation":false}"#);
    refused(try_consume(&client, "t", ConsumerOptions::new("s")).await, "does not exist");
    say(&broker, &format!("{TOPIC}/autoSubscriptionCreation"), r#"{"allowAutoSubscriptionCreation":true}"#);
    let _consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
}

#[tokio::test]
async fn a_namespace_takes_so_many_topics_and_no_more() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    say(&broker, &format!("{NAMESPACE}/maxTopicsPerNamespace"), "3");
    let topics = "/admin/v2/persistent/public/default";
    assert_eq!(told(&broker, "PUT", &format!("{topics}/parts/partitions"), "4").0, 412);
    assert_eq!(told(&broker, "PUT", &format!("{topics}/parts/partitions"), "2"), done());
    let _producer = produce(&client, "third").await;
    refused(try_produce(&client, "fourth").await, "Exceed maximum number of topics in namespace");
    assert_eq!(told(&broker, "PUT", &format!("{topics}/fourth"), "").0, 412);
    let _partition = produce(&client, "parts-partition-1").await;
    unsay(&broker, &format!("{NAMESPACE}/maxTopicsPerNamespace"));
    let _producer = produce(&client, "fourth").await;
}

#[tokio::test]
async fn a_topic_that_nobody_uses_is_deleted_and_one_with_a_subscription_is_not() {
    let broker = Setup::default().set("brokerDeleteInactiveTopicsMaxInactiveDurationSeconds", 1).start();
    let client = plain(&broker).await;
    for topic in ["left", "read", "kept"] {
        let producer = produce(&client, topic).await;
        publish(&producer, ["m"]).await;
        soon("closing", producer.close()).await.expect("closed");
    }
    let consumer = consume(&client, "read", ConsumerOptions::new("s")).await;
    next(&consumer).await;
    soon("closing", consumer.close()).await.expect("closed");
    let rule = r#"{"inactiveTopicDeleteMode":"delete_when_no_subscriptions","maxInactiveDurationSeconds":0,"deleteWhileInactive":false}"#;
    say(&broker, "/admin/v2/persistent/public/default/kept/inactiveTopicPolicies", rule);
    let expected = serde_json::json!(["persistent://public/default/kept", "persistent://public/default/read"]);
    eventually("one of them is gone", || async { json(&broker, "/admin/v2/persistent/public/default") == expected }).await;
    let _again = produce(&client, "left").await;
    let caught_up =
        r#"{"inactiveTopicDeleteMode":"delete_when_subscriptions_caught_up","maxInactiveDurationSeconds":1,"deleteWhileInactive":true}"#;
    say(&broker, "/admin/v2/persistent/public/default/read/inactiveTopicPolicies", caught_up);
    assert_eq!(topic_stats(&broker, "persistent/public/default/read")["subscriptions"]["s"]["msgBacklog"], 1, "it has not read all");
    let consumer = consume(&client, "read", ConsumerOptions::new("s")).await;
    let message = next(&consumer).await;
    soon("an answer", consumer.ack_confirmed(message.id)).await.expect("acked");
    soon("closing", consumer.close()).await.expect("closed");
    let expected = serde_json::json!(["persistent://public/default/kept", "persistent://public/default/left"]);
    eventually("it is gone, too", || async { json(&broker, "/admin/v2/persistent/public/default") == expected }).await;
}

#[tokio::test]
async fn a_topic_says_which_schemas_it_takes() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let schema = |kind: &str| {
        let definition = format!(r#"{{"type":"record","name":"R","fields":[{{"name":"a","type":"{kind}"}}]}}"#);
        proto::Schema { schema_data: definition.into_bytes().into(), r#type: 4, ..Default::default() }
    };
    let mut producers = 0;
    let mut attach = async |schema: Option<proto::Schema>| {
        producers += 1;
        let command = proto::CommandProducer { topic: "t".to_owned(), producer_id: producers, schema, ..Default::default() };
        wire.request(|request_id| proto::CommandProducer { request_id, ..command }.into()).await
    };
    assert!(matches!(attach(Some(schema("int"))).await, Command::ProducerSuccess(_)));
    assert!(matches!(attach(Some(schema("string"))).await, Command::Error(_)));
    assert_eq!(told(&broker, "PUT", &format!("{TOPIC}/schemaCompatibilityStrategy"), "ALWAYS_COMPATIBLE"), done());
    assert!(matches!(attach(Some(schema("string"))).await, Command::ProducerSuccess(_)));
    assert!(matches!(attach(None).await, Command::ProducerSuccess(_)));
    say(&broker, &format!("{TOPIC}/schemaValidationEnforced"), "true");
    assert!(matches!(attach(None).await, Command::Error(_)), "nothing is a schema");
    unsay(&broker, &format!("{TOPIC}/schemaValidationEnforced"));
    assert!(matches!(attach(None).await, Command::ProducerSuccess(_)));
    wire.subscribe(subscribe("t", "s", SubscriptionType::Shared, 1)).await;
}

#[tokio::test]
async fn policies_of_topics_outlive_restarts_and_not_their_topics() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let _producer = produce(&client, "t").await;
    say(&broker, &format!("{TOPIC}/maxProducers"), "1");
    broker.restart();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    refused(try_produce(&client, "t").await, "max producers");
    soon("closing", producer.close()).await.expect("closed");
    assert_eq!(told(&broker, "DELETE", TOPIC, ""), done());
    let _first = produce(&client, "t").await;
    let _second = produce(&client, "t").await;
    assert_eq!(told(&broker, "GET", &format!("{TOPIC}/maxProducers"), ""), done());
}

#[tokio::test]
async fn a_namespace_is_unloaded_and_its_clients_come_back() {
    let broker = Broker::start();
    let client = persistent(&broker).await;
    let producer = produce(&client, "t").await;
    publish(&producer, ["before"]).await;
    assert_eq!(told(&broker, "PUT", &format!("{NAMESPACE}/unload"), ""), done());
    publish(&producer, ["after"]).await;
    let bundle = json(&broker, "/lookup/v2/topic/persistent/public/default/t");
    assert!(bundle["brokerUrl"].is_string());
    for bundle in ["0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff"] {
        assert_eq!(told(&broker, "PUT", &format!("{NAMESPACE}/{bundle}/unload"), ""), done());
    }
    publish(&producer, ["at last"]).await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    assert_eq!(crate::talk::texts(&consumer, 3).await, ["before", "after", "at last"]);
}

#[tokio::test]
async fn backlogs_and_subscriptions_of_a_whole_namespace_are_cleared() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let backlog = |topic: &str, of: &str| {
        topic_stats(&broker, &format!("persistent/public/default/{topic}"))["subscriptions"][of]["msgBacklog"].as_u64()
    };
    for topic in ["t", "u"] {
        for name in ["a b", "c"] {
            soon("closing", consume(&client, topic, ConsumerOptions::new(name)).await.close()).await.expect("closed");
        }
        publish(&produce(&client, topic).await, numbers(0..5)).await;
    }
    assert_eq!(told(&broker, "POST", &format!("{NAMESPACE}/clearBacklog/a+b"), ""), done());
    assert_eq!([backlog("t", "a b"), backlog("u", "a b"), backlog("t", "c"), backlog("u", "c")], [Some(0), Some(0), Some(5), Some(5)]);
    assert_eq!(told(&broker, "POST", &format!("{NAMESPACE}/clearBacklog"), ""), done());
    assert_eq!([backlog("t", "c"), backlog("u", "c")], [Some(0), Some(0)]);
    let held = consume(&client, "u", ConsumerOptions::new("c")).await;
    assert_eq!(told(&broker, "POST", &format!("{NAMESPACE}/unsubscribe/c"), "").0, 412, "it has a consumer");
    soon("closing", held.close()).await.expect("closed");
    assert_eq!(told(&broker, "POST", &format!("{NAMESPACE}/unsubscribe/c"), ""), done());
    assert_eq!([backlog("t", "c"), backlog("u", "c"), backlog("u", "a b")], [None, None, Some(0)]);
    assert_eq!(told(&broker, "POST", "/admin/v2/namespaces/public/nowhere/clearBacklog", "").0, 404);
    assert_eq!(told(&broker, "POST", &format!("{NAMESPACE}/0x00000000_0x20000000/clearBacklog"), "").0, 412, "no such bundle");
}
