//! `/metrics` under traffic: what boards for Pulsar ask for is there, and our own dashboard finds everything it asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use client::{Client, ConsumerOptions, Http, Message, Method, Options, ProducerOptions};
use geminga_tests::harness::{Broker, Setup, binary};
use serde_json::Value;

/// What public boards for Pulsar's broker ask for, by name, apart from what belongs to parts that are not here: bookies, ZooKeeper, proxies, function
/// workers, geo-replication, transactions, tiered storage, the load balancer's bundles and the JVM.
const ASKED_FOR: &[&str] = &[
    "pulsar_version_info",
    "pulsar_topics_count",
    "pulsar_producers_count",
    "pulsar_consumers_count",
    "pulsar_subscriptions_count",
    "pulsar_rate_in",
    "pulsar_rate_out",
    "pulsar_throughput_in",
    "pulsar_throughput_out",
    "pulsar_average_msg_size",
    "pulsar_in_messages_total",
    "pulsar_in_bytes_total",
    "pulsar_out_messages_total",
    "pulsar_out_bytes_total",
    "pulsar_msg_backlog",
    "pulsar_storage_size",
    "pulsar_storage_logical_size",
    "pulsar_storage_backlog_size",
    "pulsar_storage_write_rate",
    "pulsar_storage_read_rate",
    "pulsar_storage_offloaded_size",
    "pulsar_storage_write_latency_le_0_5",
    "pulsar_storage_write_latency_le_1",
    "pulsar_storage_write_latency_le_5",
    "pulsar_storage_write_latency_le_10",
    "pulsar_storage_write_latency_le_20",
    "pulsar_storage_write_latency_le_50",
    "pulsar_storage_write_latency_le_100",
    "pulsar_storage_write_latency_le_200",
    "pulsar_storage_write_latency_le_1000",
    "pulsar_storage_write_latency_overflow",
    "pulsar_entry_size_le_128",
    "pulsar_entry_size_le_512",
    "pulsar_entry_size_le_1_kb",
    "pulsar_entry_size_le_2_kb",
    "pulsar_entry_size_le_4_kb",
    "pulsar_entry_size_le_16_kb",
    "pulsar_entry_size_le_100_kb",
    "pulsar_entry_size_le_1_mb",
    "pulsar_entry_size_le_overflow",
    "pulsar_subscription_back_log",
    "pulsar_subscription_delayed",
    "pulsar_subscription_unacked_messages",
    "pulsar_subscription_blocked_on_unacked_messages",
    "pulsar_subscription_msg_rate_out",
    "pulsar_subscription_msg_throughput_out",
    "pulsar_subscription_msg_rate_redeliver",
    "pulsar_consumer_msg_rate_redeliver",
    "pulsar_broker_topics_count",
    "pulsar_broker_rate_in",
    "pulsar_broker_publish_latency",
    "pulsar_active_connections",
    "pulsar_connection_created_total_count",
    "pulsar_connection_closed_total_count",
    "pulsar_ml_cache_used_size",
    "pulsar_ml_cache_hits_rate",
    "pulsar_ml_cache_misses_rate",
    "pulsar_lb_cpu_usage",
    "pulsar_lb_memory_usage",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "jvm_memory_direct_bytes_used",
];

/// Families of a page: name to its samples, as `labels value`.
type Page = BTreeMap<String, Vec<String>>;

async fn page(broker: &Broker) -> Page {
    let http = Http::new(broker.http(), &Options::default()).unwrap();
    let answer = http.ask(Method::GET, "/metrics", None).await.unwrap();
    assert_eq!(answer.status, 200);
    let mut page = Page::new();
    for line in std::str::from_utf8(&answer.body).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once('{').unwrap();
        page.entry(name.to_owned()).or_default().push(rest.to_owned());
    }
    page
}

fn sum(page: &Page, name: &str) -> f64 {
    page[name].iter().map(|sample| sample.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// A broker that looks at its rates every second, with traffic on one topic; the page once rates are there.
async fn busy() -> (Broker, Page) {
    let broker = Setup::default()
        .set("statsUpdateFrequencyInSecs", 1)
        .set("statsUpdateInitialDelayInSecs", 1)
        .set("exposeConsumerLevelMetricsInPrometheus", true)
        .start();
    let client = Client::connect(broker.url(), Options::default()).await.unwrap();
    let consumer = client.consumer("orders", ConsumerOptions::shared("workers")).await.unwrap();
    let producer = client.producer("orders", ProducerOptions::default()).await.unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        producer.send(Message::new(vec![7; 200])).await.unwrap();
        let received = consumer.recv().await.unwrap();
        consumer.ack(&received);
        let page = page(&broker).await;
        let is_there = ["pulsar_rate_in", "pulsar_rate_out", "pulsar_consumer_msg_ack_rate"].iter().all(|name| sum(&page, name) > 0.0);
        if is_there {
            return (broker, page);
        }
        assert!(Instant::now() < until, "no rates: {page:?}");
    }
}

#[tokio::test]
async fn boards_for_pulsar_find_what_they_ask_for() {
    let (_broker, page) = busy().await;
    let missing: Vec<_> = ASKED_FOR.iter().filter(|name| !page.contains_key(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for label in ["cluster=\"standalone\"", "namespace=\"public/default\"", "topic=\"persistent://public/default/orders\""] {
        assert!(page["pulsar_rate_in"].iter().any(|sample| sample.contains(label)), "{label}");
    }
    assert!(page["pulsar_subscription_back_log"].iter().any(|sample| sample.contains("subscription=\"workers\"")));
    // 200 bytes and the metadata around them, each entry once.
    assert!(sum(&page, "pulsar_entry_size_le_512") > 0.0);
    assert_eq!(sum(&page, "pulsar_entry_size_count"), sum(&page, "pulsar_entry_size_le_512"));
    assert_eq!(sum(&page, "geminga_storage_append_seconds_count"), sum(&page, "pulsar_in_messages_total"));
}

#[tokio::test]
async fn our_dashboard_asks_for_nothing_that_is_not_there() {
    let (_broker, page) = busy().await;
    let printed = std::process::Command::new(binary()).args(["generate", "grafana"]).output().unwrap();
    let dashboard: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let mut asked = BTreeSet::new();
    for target in dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default())
    {
        let expression = target["expr"].as_str().unwrap().to_owned();
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.contains('_')).map(str::to_owned);
        asked.extend(words.filter(|word| !["__rate_interval", "histogram_quantile"].contains(&&**word)));
    }
    assert!(asked.len() > 15, "{asked:?}");
    let missing: Vec<_> = asked.iter().filter(|name| !page.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test]
async fn rates_go_back_to_nothing_when_nothing_happens() {
    let (broker, _) = busy().await;
    let until = Instant::now() + Duration::from_secs(30);
    while sum(&page(&broker).await, "pulsar_rate_in") > 0.0 {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
