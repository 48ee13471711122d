//! Brokers that the performance framework starts: fresh, with the conditions that were chosen, and said so in the record.

use std::{
    fs,
    time::{Duration, Instant},
};

use client::{Client, Message, Options, ProducerOptions};
use geminga_tests::harness;
use perf::{
    broker::{BrokerChoice, Product, Started},
    interrupt::Interrupt,
    result::Durability,
    sample::Watch,
};

const TOPIC: &str = "persistent://public/default/perf-brokers";

fn started(choice: BrokerChoice) -> Started {
    let executable = Some(harness::binary().to_owned());
    let choice = BrokerChoice { start: Some(Product::Geminga), executable, ..choice };
    choice.start(&Interrupt::never()).expect("geminga can be started").expect("it was asked for")
}

async fn send(broker: &Started) -> Duration {
    let client = Client::connect(broker.service_url(), Options::without_reconnect()).await.expect("the broker takes connections");
    let producer = client.producer(TOPIC, ProducerOptions::default()).await.expect("a producer");
    let sent = Instant::now();
    producer.send(Message::new("x")).await.expect("a receipt");
    sent.elapsed()
}

#[tokio::test]
async fn a_broker_under_test_has_a_fresh_directory_and_tells_its_conditions() {
    let mut broker = started(BrokerChoice { settings: vec![("numIOThreads".to_owned(), "3".to_owned())], ..BrokerChoice::default() });
    send(&broker).await;
    let about = broker.about().clone();
    assert_eq!((about.product.as_str(), about.chosen["numIOThreads"].as_str()), ("Geminga", "3"));
    assert_eq!(about.service_url, broker.service_url());
    assert!(!about.version.is_empty() && about.version != "unknown", "{about:?}");
    let watch = Watch::start("broker", broker.pid()).unwrap();
    watch.begin_window();
    send(&broker).await;
    watch.end_window();
    let used = watch.stop();
    assert_eq!(used.threads.expect("threads were seen").loops, 3);
    let home = broker.home().to_owned();
    broker.stop().expect("it stops in order");
    drop(broker);
    assert!(!home.exists(), "{} is left", home.display());
}

#[tokio::test]
async fn a_broker_under_test_comes_back_on_the_same_addresses_with_its_data() {
    let mut broker = started(BrokerChoice::default());
    send(&broker).await;
    let (url, pid) = (broker.service_url().to_owned(), broker.pid());
    broker.kill();
    broker.restart().expect("it starts again");
    assert_eq!(broker.service_url(), url);
    assert_ne!(broker.pid(), pid);
    send(&broker).await;
    assert!(broker.home().join("data").exists());
}

#[tokio::test]
async fn a_broker_that_does_not_sync_is_not_durable_in_record_and_log() {
    let broker = started(BrokerChoice { sync_off: true, ..BrokerChoice::default() });
    send(&broker).await;
    let about = broker.about();
    assert!(matches!(&about.durability, Durability::NotDurable(reasons) if reasons.iter().any(|why| why.contains("sync"))), "{about:?}");
    assert!(about.disk.sync_off);
    let log = fs::read_to_string(broker.log()).unwrap();
    assert!(log.contains("NOT DURABLE"), "{log}");
}

#[tokio::test]
async fn a_broker_on_tmpfs_is_not_durable() {
    let broker = started(BrokerChoice { tmpfs: true, ..BrokerChoice::default() });
    assert_eq!(broker.about().disk.file_system, "tmpfs");
    assert!(matches!(broker.about().durability, Durability::NotDurable(_)));
}

#[tokio::test]
async fn a_receipt_waits_for_a_slow_disk() {
    const DELAY: u32 = 40;
    let broker = started(BrokerChoice { added_sync_ms: Some(DELAY), ..BrokerChoice::default() });
    assert_eq!(broker.about().disk.added_sync_ms, Some(f64::from(DELAY)));
    let took = send(&broker).await;
    assert!(took >= Duration::from_millis(DELAY.into()), "{took:?}");
}

#[test]
fn a_broker_that_does_not_start_tells_what_it_printed() {
    let settings = vec![("numIOThreads".to_owned(), "many".to_owned())];
    let executable = Some(harness::binary().to_owned());
    let error = BrokerChoice { start: Some(Product::Geminga), settings, executable, ..BrokerChoice::default() }
        .start(&Interrupt::never())
        .unwrap_err();
    let told = format!("{error:#}");
    assert!(told.contains("numIOThreads") && told.contains("many"), "{told}");
}

#[tokio::test]
#[ignore = "needs Maven, a JDK of 21 or newer and some hundred megabytes of jars"]
async fn apache_pulsar_can_be_started_and_takes_messages() {
    let mut broker = BrokerChoice { start: Some(Product::Pulsar), ..BrokerChoice::default() }.start(&Interrupt::never()).unwrap().unwrap();
    send(&broker).await;
    let about = broker.about();
    assert_eq!((about.product.as_str(), about.chosen["journalSyncData"].as_str()), ("Apache Pulsar", "true"));
    assert_eq!(about.durability, Durability::Durable);
    let watch = Watch::start("broker", broker.pid()).unwrap();
    watch.begin_window();
    send(&broker).await;
    watch.end_window();
    assert!(watch.stop().threads.is_some_and(|threads| threads.loops > 0));
    broker.stop().expect("it stops in order");
}
