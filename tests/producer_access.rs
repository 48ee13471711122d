//! Who may produce: alone, together, in turn.

use client::{Client, Error, Message, Producer, ProducerAccessMode, ProducerAccessMode::*, ProducerOptions, ServerError};
use geminga_tests::harness::{Broker, eventually, soon};
use wire::{Command, proto};

use crate::talk::{Wire, persistent, plain, produce};

fn mode(access: ProducerAccessMode) -> ProducerOptions {
    ProducerOptions { access, ..ProducerOptions::default() }
}

async fn try_produce(client: &Client, access: ProducerAccessMode) -> Result<Producer, Error> {
    soon("an answer", client.producer("t", mode(access))).await
}

async fn refused(client: &Client, access: ProducerAccessMode) -> Option<ServerError> {
    try_produce(client, access).await.expect_err("refused").code()
}

#[tokio::test]
async fn one_that_has_the_topic_to_itself_keeps_all_others_out() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let owner = try_produce(&client, Exclusive).await.unwrap();
    assert_eq!(owner.topic_epoch(), Some(0));
    assert_eq!(refused(&client, Exclusive).await, Some(ServerError::ProducerFenced));
    assert_eq!(refused(&client, Shared).await, Some(ServerError::ProducerBusy));
    soon("a receipt", owner.send(Message::new("mine"))).await.unwrap();
    soon("closing", owner.close()).await.unwrap();
    let shared = try_produce(&client, Shared).await.unwrap();
    assert_eq!(shared.topic_epoch(), None);
    assert_eq!(refused(&client, Exclusive).await, Some(ServerError::ProducerFenced));
}

#[tokio::test]
async fn whoever_waits_is_let_in_one_after_the_other() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let owner = try_produce(&client, Exclusive).await.unwrap();
    let waiting = |client: Client| tokio::spawn(async move { client.producer("t", mode(WaitForExclusive)).await });
    let first = waiting(client.clone());
    eventually("the first waits", || async { waiting_publishers(&broker) == 1 }).await;
    let second = waiting(plain(&broker).await);
    eventually("both wait", || async { waiting_publishers(&broker) == 2 }).await;
    assert_eq!(refused(&client, Shared).await, Some(ServerError::ProducerBusy));
    soon("closing", owner.close()).await.unwrap();
    let first = soon("the first", first).await.unwrap().unwrap();
    assert_eq!(first.topic_epoch(), Some(1));
    assert!(!second.is_finished());
    soon("a receipt", first.send(Message::new("mine"))).await.unwrap();
    drop(first);
    let second = soon("the second", second).await.unwrap().unwrap();
    assert_eq!(second.topic_epoch(), Some(2));
}

fn waiting_publishers(broker: &Broker) -> u64 {
    crate::admin::topic_stats(broker, "persistent/public/default/t")["waitingPublishers"].as_u64().unwrap()
}

#[tokio::test]
async fn one_that_waits_hears_at_once_that_it_waits_and_can_go() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let _owner = try_produce(&client, Exclusive).await.unwrap();
    let mut wire = Wire::connect(&broker).await;
    let ask = |producer_id, request_id| proto::CommandProducer {
        topic: "t".to_owned(),
        producer_id,
        request_id,
        producer_access_mode: Some(WaitForExclusive.into()),
        ..Default::default()
    };
    for producer_id in [1, 2] {
        let answer = wire.request(|request_id| ask(producer_id, request_id).into()).await;
        let Command::ProducerSuccess(success) = answer else { panic!("{answer:?}") };
        assert!(!success.producer_ready(), "{success:?}");
        assert!(!success.producer_name.is_empty());
    }
    let closed = wire.request(|request_id| proto::CommandCloseProducer { producer_id: 1, request_id, ..Default::default() }.into()).await;
    assert!(matches!(closed, Command::Success(_)), "{closed:?}");
    eventually("one waits", || async { waiting_publishers(&broker) == 1 }).await;
    // The other is gone with its connection.
    drop(wire);
    eventually("nobody waits", || async { waiting_publishers(&broker) == 0 }).await;
}

#[tokio::test]
async fn one_that_takes_the_topic_throws_all_others_out_for_good() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let shared = try_produce(&client, Shared).await.unwrap();
    let owner = try_produce(&client, ExclusiveWithFencing).await.unwrap();
    let lost = soon("an end", shared.send(Message::new("late"))).await;
    assert!(lost.is_err(), "{lost:?}");
    // One that comes back by itself finds that it was fenced, and says so.
    let returning = persistent(&broker).await;
    let waiting = tokio::spawn({
        let client = returning.clone();
        async move { client.producer("t", mode(WaitForExclusive)).await }
    });
    eventually("one waits", || async { waiting_publishers(&broker) == 1 }).await;
    let next = try_produce(&plain(&broker).await, ExclusiveWithFencing).await.unwrap();
    assert_eq!(next.topic_epoch(), Some(1));
    let fenced = soon("an answer", waiting).await.unwrap().expect_err("fenced");
    assert_eq!(fenced.code(), Some(ServerError::ProducerFenced), "{fenced}");
    assert!(soon("an end", owner.send(Message::new("late"))).await.is_err());
    soon("a receipt", next.send(Message::new("mine"))).await.unwrap();
}

#[tokio::test]
async fn epochs_grow_through_restarts_of_any_kind() {
    let mut broker = Broker::start();
    for expected in 0..4 {
        let client = plain(&broker).await;
        let owner = try_produce(&client, Exclusive).await.unwrap();
        assert_eq!(owner.topic_epoch(), Some(expected));
        soon("a receipt", owner.send(Message::new("mine"))).await.unwrap();
        match expected % 2 {
            0 => broker.kill(),
            _ => assert!(broker.stop().success()),
        }
        broker.restart();
    }
}

#[tokio::test]
async fn an_owner_that_comes_back_after_an_unload_keeps_its_epoch() {
    let broker = Broker::start();
    let client = persistent(&broker).await;
    let owner = try_produce(&client, Exclusive).await.unwrap();
    crate::admin::unload(&broker, "persistent/public/default/t");
    soon("a receipt", owner.send(Message::new("again"))).await.unwrap();
    assert_eq!(owner.topic_epoch(), Some(0));
    drop(owner);
    drop(produce(&client, "u").await);
}

/// The initial subscription is the one that is there before a producer's first message, so that a dead letter topic keeps it.
#[tokio::test]
async fn an_empty_initial_subscription_is_none_and_one_with_a_name_is_created() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let produces = |topic: &str, id: u64, initial: &str| proto::CommandProducer {
        topic: topic.to_owned(),
        producer_id: id,
        initial_subscription_name: Some(initial.to_owned()),
        ..Default::default()
    };
    for (id, topic, initial) in [(1, "none", ""), (2, "one", "s")] {
        let answer = wire.request(|request_id| proto::CommandProducer { request_id, ..produces(topic, id, initial) }.into()).await;
        assert!(matches!(answer, Command::ProducerSuccess(_)), "{answer:?}");
        let stats = crate::admin::topic_stats(&broker, &format!("persistent/public/default/{topic}"));
        let names: Vec<_> = stats["subscriptions"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, if initial.is_empty() { vec![] } else { vec![initial] });
    }
}
