//! A data directory belongs to one broker at a time.

use geminga_tests::harness::{Broker, run};

use crate::talk::{numbers, plain, produce, publish};

#[tokio::test]
async fn a_second_broker_on_the_same_directory_is_refused_with_a_reason() {
    let mut broker = Broker::start();
    let client = plain(&broker).await;
    let producer = produce(&client, "t").await;
    let elsewhere = tempfile::tempdir().unwrap();
    let data = broker.data().to_str().unwrap().to_owned();
    let arguments = ["--data", &data, "--set", "brokerServicePort=0", "--set", "webServicePort=0"];
    let (status, printed) = run(&arguments, elsewhere.path());
    assert_eq!(status.code(), Some(4), "{printed}");
    assert!(printed.contains(&data) || printed.to_lowercase().contains("data directory"), "no word about the directory in: {printed}");
    assert!(broker.is_alive());
    publish(&producer, numbers(0..10)).await;
    assert_eq!(broker.endpoints().pid, broker.pid(), "the endpoints are still the first broker's");
    assert!(broker.data().join("endpoints.json").exists(), "the refused broker removed the endpoints of the running one");
}

#[tokio::test]
async fn the_directory_of_a_killed_broker_is_free() {
    let mut broker = Broker::start();
    broker.kill();
    broker.restart();
    let client = plain(&broker).await;
    publish(&produce(&client, "t").await, numbers(0..1)).await;
}
