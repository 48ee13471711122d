//! The client against a fake broker: what it sends, what it makes of what it gets, and how it comes back.

mod fake;

use std::time::Duration;

use fake::Fake;
use geminga_client::{
    Client, ConsumerOptions, Error, Inbox, Item, Message, MessageId, Options, ProducerOptions, Receipts, Start, TrySendError,
};
use wire::Command;

async fn connect(fake: &Fake) -> Client {
    Client::connect(&fake.url, Options::default()).await.expect("the fake answers")
}

fn options(max_pending: usize) -> ProducerOptions {
    ProducerOptions { max_pending, ..ProducerOptions::default() }
}

#[tokio::test]
async fn messages_come_back_in_order_with_all_that_was_said_about_them() {
    let fake = Fake::start().await;
    let client = connect(&fake).await;
    let producer = client.producer("t", options(10)).await.unwrap();
    assert_eq!((producer.name().as_ref(), producer.topic()), ("fake-1", "persistent://public/default/t"));
    producer.send(Message::new("one").key("k").property("colour", "green")).await.unwrap();
    let id = producer.send_batch(vec![Message::new("two"), Message::new("three").key("b")]).await.unwrap();
    assert_eq!(id, MessageId::new(1, 1));
    let consumer = client.consumer("t", ConsumerOptions::new("s")).await.unwrap();
    let one = consumer.recv().await.unwrap();
    assert_eq!((&one.payload[..], one.id), (&b"one"[..], MessageId::new(1, 0)));
    let metadata = one.metadata();
    assert_eq!((metadata.key.as_deref(), metadata.sequence), (Some("k"), 0));
    assert_eq!(metadata.properties, [("colour".to_owned(), "green".to_owned())]);
    let two = consumer.recv().await.unwrap();
    let three = consumer.recv().await.unwrap();
    assert_eq!((&two.payload[..], &three.payload[..]), (&b"two"[..], &b"three"[..]));
    assert_eq!((two.id.batch_index, three.id.batch_index, three.id.batch_size), (0, 1, 2));
    assert_eq!((two.metadata().sequence, three.metadata().sequence, three.metadata().key.as_deref()), (1, 2, Some("b")));
    producer.close().await.unwrap();
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn a_batch_is_acked_with_its_last_message_and_all_acks_of_a_turn_are_one_command() {
    let fake = Fake::start().await;
    let client = connect(&fake).await;
    let producer = client.producer("t", options(10)).await.unwrap();
    producer.send_batch((0..3).map(|n| Message::new(format!("{n}"))).collect()).await.unwrap();
    for _ in 0..5 {
        producer.send(Message::new("single")).await.unwrap();
    }
    let consumer = client.consumer("t", ConsumerOptions::new("s")).await.unwrap();
    let mut messages = Vec::new();
    for _ in 0..8 {
        messages.push(consumer.recv().await.unwrap());
    }
    messages[..2].iter().for_each(|message| consumer.ack(message));
    consumer.last_message().await.unwrap();
    assert_eq!(fake.count("ACK"), 0);
    messages[2..].iter().for_each(|message| consumer.ack(message));
    consumer.last_message().await.unwrap();
    let seen = fake.seen.lock().unwrap();
    let acks: Vec<_> = seen.iter().filter_map(|command| if let Command::Ack(ack) = command { Some(ack) } else { None }).collect();
    assert_eq!(acks.len(), 1);
    let entries: Vec<_> = acks[0].ids.as_slice().iter().map(|id| id.entry).collect();
    assert_eq!(entries, [0, 1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn permits_are_given_back_when_half_the_queue_was_taken() {
    let fake = Fake::start().await;
    let client = connect(&fake).await;
    let producer = client.producer("t", options(100)).await.unwrap();
    for n in 0..30 {
        producer.enqueue(Message::new(format!("{n}"))).await.unwrap();
    }
    producer.flush().await;
    let consumer = client.consumer("t", ConsumerOptions { receiver_queue: 10, ..ConsumerOptions::new("s") }).await.unwrap();
    for n in 0..30 {
        assert_eq!(consumer.recv().await.unwrap().payload, format!("{n}"));
    }
    consumer.last_message().await.unwrap();
    let seen = fake.seen.lock().unwrap();
    let flows: Vec<_> =
        seen.iter().filter_map(|command| if let Command::Flow(flow) = command { Some(flow.permits) } else { None }).collect();
    assert_eq!(flows[0], 10);
    assert_eq!(flows[1..].iter().sum::<u32>(), 30);
    assert!(flows[1..].iter().all(|permits| *permits == 5));
}

#[tokio::test]
async fn with_manual_permits_nothing_flows_unasked() {
    let fake = Fake::start().await;
    let client = connect(&fake).await;
    let producer = client.producer("t", options(10)).await.unwrap();
    for n in 0..3 {
        producer.send(Message::new(format!("{n}"))).await.unwrap();
    }
    let consumer = client.consumer("t", ConsumerOptions { manual_permits: true, ..ConsumerOptions::new("s") }).await.unwrap();
    consumer.last_message().await.unwrap();
    assert!(consumer.try_recv().is_none());
    consumer.flow(2);
    consumer.recv().await.unwrap();
    consumer.recv().await.unwrap();
    consumer.last_message().await.unwrap();
    assert!(consumer.try_recv().is_none());
}

#[tokio::test]
async fn receipts_carry_tokens_in_order_and_the_window_is_kept() {
    let fake = Fake::start().await;
    let client = connect(&fake).await;
    let receipts = Receipts::new();
    let producer = client.producer("t", ProducerOptions { receipts: receipts.clone(), tag: 7, ..options(2) }).await.unwrap();
    producer.try_send(Message::new("a"), 100).unwrap();
    producer.try_send(Message::new("b"), 101).unwrap();
    let Err(TrySendError::Full(back)) = producer.try_send(Message::new("c"), 102) else { panic!("there was room for a third") };
    assert_eq!(back.payload, "c");
    let mut got = Vec::new();
    while got.len() < 2 {
        receipts.next(&mut got).await;
    }
    assert_eq!(
        got.iter().map(|receipt| (receipt.producer, receipt.token, receipt.sequence)).collect::<Vec<_>>(),
        [(7, 100, 0), (7, 101, 1)]
    );
    assert_eq!(*got[1].outcome.as_ref().unwrap(), MessageId::new(1, 1));
    producer.try_send(back, 102).unwrap();
}

#[tokio::test]
async fn consumers_may_share_an_inbox() {
    let fake = Fake::start().await;
    let (first, second) = (connect(&fake).await, connect(&fake).await);
    let producer = first.producer("t", options(10)).await.unwrap();
    producer.send(Message::new("x")).await.unwrap();
    let inbox = Inbox::new();
    let shared = |tag| ConsumerOptions { inbox: inbox.clone(), tag, ..ConsumerOptions::shared("s") };
    let _one = first.consumer("t", shared(1)).await.unwrap();
    let _two = second.consumer("t", shared(2)).await.unwrap();
    let (mut items, mut tags) = (Vec::new(), Vec::new());
    while tags.len() < 2 {
        inbox.next_many(&mut items, 10).await;
        tags.extend(items.drain(..).map(|item| match item {
            Item::Message(message) => message.consumer(),
            Item::Ended { error, .. } => panic!("{error}"),
        }));
    }
    tags.sort_unstable();
    assert_eq!(tags, [1, 2]);
}

#[tokio::test]
async fn what_has_no_receipt_is_sent_again_in_order_after_a_cut() {
    let fake = Fake::start().await;
    let client = connect(&fake).await;
    let producer = client.producer("t", options(1000)).await.unwrap();
    let mut sending = Vec::new();
    for n in 0..50 {
        sending.push(producer.enqueue(Message::new(format!("{n}"))).await.unwrap());
        if n % 10 == 5 {
            fake.cut();
            tokio::task::yield_now().await;
        }
    }
    for sent in sending {
        tokio::time::timeout(Duration::from_secs(10), sent).await.expect("in time").expect("sent");
    }
    let consumer = client.consumer("t", ConsumerOptions::new("s")).await.unwrap();
    let mut expected = 0;
    while expected < 50 {
        let n: u32 = String::from_utf8_lossy(&consumer.recv().await.unwrap().payload).parse().unwrap();
        assert!(n <= expected, "{n} came before {expected}");
        expected = expected.max(n + 1);
    }
    assert!(fake.count("PRODUCER") > 1);
}

#[tokio::test]
async fn a_reader_goes_on_after_the_last_message_it_took() {
    let fake = Fake::start().await;
    let client = connect(&fake).await;
    let producer = client.producer("t", options(10)).await.unwrap();
    for n in 0..5 {
        producer.send(Message::new(format!("{n}"))).await.unwrap();
    }
    let reader = client.consumer("t", ConsumerOptions::reader(Start::Earliest)).await.unwrap();
    for n in 0..3 {
        assert_eq!(reader.recv().await.unwrap().payload, format!("{n}"));
    }
    fake.cut();
    while fake.count("SUBSCRIBE") < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The fake starts from the beginning whatever it is told; what was taken before must not come again.
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), reader.recv()).await.unwrap().unwrap().payload, "3");
    let seen = fake.seen.lock().unwrap();
    let starts: Vec<_> = seen
        .iter()
        .filter_map(|command| if let Command::Subscribe(it) = command { it.start_message_id.as_ref().map(|id| id.entry_id) } else { None })
        .collect();
    assert_eq!(starts, [u64::MAX, 2]);
}

#[tokio::test]
async fn a_seek_returns_when_the_consumer_is_back_and_drops_what_waited() {
    let fake = Fake::start().await;
    let client = connect(&fake).await;
    let producer = client.producer("t", options(10)).await.unwrap();
    for n in 0..5 {
        producer.send(Message::new(format!("{n}"))).await.unwrap();
    }
    let consumer = client.consumer("t", ConsumerOptions::new("s")).await.unwrap();
    consumer.recv().await.unwrap();
    consumer.seek(MessageId::EARLIEST).await.unwrap();
    for n in 0..5 {
        assert_eq!(consumer.recv().await.unwrap().payload, format!("{n}"));
    }
    assert_eq!(fake.count("SUBSCRIBE"), 2);
}

#[tokio::test]
async fn without_reconnecting_a_cut_ends_everything_with_its_reason() {
    let fake = Fake::start().await;
    let client = Client::connect(&fake.url, Options::without_reconnect()).await.unwrap();
    let producer = client.producer("t", options(10)).await.unwrap();
    let consumer = client.consumer("t", ConsumerOptions::new("s")).await.unwrap();
    fake.cut();
    assert!(matches!(consumer.recv().await, Err(Error::Disconnected { .. })));
    assert!(matches!(consumer.recv().await, Err(Error::Disconnected { .. })), "the reason stays");
    assert!(matches!(producer.send(Message::new("x")).await, Err(Error::Disconnected { .. })));
}

#[tokio::test]
async fn a_refused_connection_says_how_to_start_a_broker() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("pulsar://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = Client::connect(&url, Options::default()).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    assert!(error.advice().unwrap().contains("geminga"));
}

#[tokio::test]
async fn the_next_host_of_the_service_url_is_tried() {
    let fake = Fake::start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("pulsar://{},{}", listener.local_addr().unwrap(), fake.url.trim_start_matches("pulsar://"));
    drop(listener);
    let client = Client::connect(&url, Options::default()).await.unwrap();
    client.producer("t", options(1)).await.unwrap().send(Message::new("x")).await.unwrap();
    assert_eq!(fake.entries(), 1);
}

#[tokio::test]
async fn a_client_that_lets_go_of_everything_closes_its_connection_after_the_last_word() {
    let fake = Fake::start().await;
    let client = connect(&fake).await;
    let producer = client.producer("t", options(10)).await.unwrap();
    drop(producer);
    drop(client);
    for _ in 0..200 {
        if fake.count("CLOSE_PRODUCER") == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the broker was not told that the producer is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_may_use_one_producer() {
    let fake = Fake::start().await;
    let client = connect(&fake).await;
    let producer = std::sync::Arc::new(client.producer("t", options(64)).await.unwrap());
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let producer = producer.clone();
            tokio::spawn(async move {
                for n in 0..500 {
                    producer.send(Message::new(format!("{task}-{n}"))).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(30), task).await.expect("in time").unwrap();
    }
    assert_eq!(fake.entries(), 4000);
    assert_eq!((producer.pending(), producer.next_sequence()), (0, 4000));
}
