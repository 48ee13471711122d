//! One consumer per Exclusive subscription, one producer per name.

use client::{ConsumerOptions, ProducerOptions, ServerError};
use geminga_tests::harness::{Broker, eventually, soon};

use crate::talk::{consume, numbers, plain, produce, publish, texts};

#[tokio::test]
async fn a_second_consumer_is_refused_while_the_first_is_there() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let first = consume(&client, "t", ConsumerOptions::new("s")).await;
    for options in [ConsumerOptions::new("s"), ConsumerOptions::shared("s")] {
        let refused = soon("an answer", client.consumer("t", options)).await.unwrap_err();
        assert_eq!(refused.code(), Some(ServerError::ConsumerBusy), "{refused}");
    }
    publish(&produce(&client, "t").await, numbers(0..3)).await;
    assert_eq!(texts(&first, 3).await, numbers(0..3), "the first consumer goes on undisturbed");
}

#[tokio::test]
async fn the_place_is_free_as_soon_as_closing_is_answered() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    for _ in 0..20 {
        let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
        soon("closing", consumer.close()).await.unwrap();
    }
    // With nobody connected the type may change.
    consume(&client, "t", ConsumerOptions::shared("s")).await;
}

#[tokio::test]
async fn the_place_is_free_when_the_connection_is_gone() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let other = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..3)).await;
    let consumer = consume(&other, "t", ConsumerOptions::new("s")).await;
    assert_eq!(texts(&consumer, 2).await, numbers(0..2));
    drop((consumer, other));
    let found = tokio::sync::OnceCell::new();
    eventually("the subscription is free", || async {
        match client.consumer("t", ConsumerOptions::new("s")).await {
            Ok(consumer) => found.set(consumer).is_ok(),
            Err(error) => {
                assert_eq!(error.code(), Some(ServerError::ConsumerBusy), "{error}");
                false
            }
        }
    })
    .await;
    assert_eq!(texts(found.get().unwrap(), 3).await, numbers(0..3));
}

#[tokio::test]
async fn a_taken_producer_name_is_refused_and_free_after_closing() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let named = || ProducerOptions { name: Some("me".into()), ..ProducerOptions::default() };
    let first = soon("a producer", client.producer("t", named())).await.unwrap();
    assert_eq!(&*first.name(), "me");
    let other = plain(&broker).await;
    let refused = soon("an answer", other.producer("t", named())).await.unwrap_err();
    assert_eq!(refused.code(), Some(ServerError::ProducerBusy), "{refused}");
    soon("the same name on another topic", other.producer("u", named())).await.unwrap();
    soon("closing", first.close()).await.unwrap();
    soon("the name again", other.producer("t", named())).await.unwrap();
}

#[tokio::test]
async fn names_that_the_broker_gives_differ() {
    let broker = Broker::start();
    let client = plain(&broker).await;
    let (one, two) = (produce(&client, "t").await, produce(&client, "t").await);
    assert!(!one.name().is_empty());
    assert_ne!(one.name(), two.name());
}
