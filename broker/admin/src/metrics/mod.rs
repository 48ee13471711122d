//! `/metrics`: the names that dashboards for Pulsar ask for, and our own beside them.

mod broker;
mod loops;
mod topics;

use server::ServerStats;

use crate::AdminOptions;
use crate::errors::Refusal;
use crate::exposition::{Exposition, Family, label};
use crate::process::ProcessStats;
use crate::reply::Reply;
use crate::request::Call;

/// GET: everything, as text.
pub(crate) async fn scrape(call: Call) -> Result<Reply, Refusal> {
    let stats = call.handle().stats(true).await?;
    let process = call.handle().control(|_| ProcessStats::read()).await?;
    let settings = call.handle().settings();
    let scrape = Scrape {
        cluster: settings.cluster.clone(),
        broker: crate::brokers::id(call.handle()).to_owned(),
        cache_limit: settings.cache_bytes,
        memory_limit: call.options().metrics.memory_limit,
        stats,
        process,
    };
    Ok(Reply::exposition(render(&scrape, call.options()).await))
}

/// What a page is made of.
struct Scrape {
    cluster: String,
    /// Its name among brokers.
    broker: String,
    cache_limit: usize,
    memory_limit: usize,
    stats: ServerStats,
    process: ProcessStats,
}

/// Samples written between two moments when others on this loop get their turn.
const SAMPLES_PER_TURN: usize = 2000;

async fn render(scrape: &Scrape, options: &AdminOptions) -> String {
    let mut out = Exposition::default();
    let cluster = label("cluster", &scrape.cluster);
    let version = [&*cluster, &label("version", &options.pulsar_level), &label("commit", &options.commit)].join(",");
    out.single(Family::gauge("pulsar_version_info", "The Pulsar level served; always 1."), &version, 1);
    broker::tell(&mut out, &cluster, scrape);
    topics::tell(&mut out, &cluster, &scrape.stats, &options.metrics).await;
    loops::tell(&mut out, &cluster, &scrape.stats);
    out.into_text()
}

/// A family and where its number comes from.
type FamilyOf<T> = (Family, fn(&T) -> f64);

fn count<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}

/// Exact up to 2^53, which is as far as who reads the page counts.
fn as_number(count: u64) -> f64 {
    count as f64
}

/// Gives way to others on this loop now and then.
#[derive(Default)]
struct Turn(usize);

impl Turn {
    async fn step(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(SAMPLES_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use server::WorkerStats;
    use server::stats::{ConsumerRates, ConsumerStats, ProducerStats, SubscriptionStats, TopicRates, TopicStats};

    use super::*;
    use crate::exposition::parser;

    fn topic(messages: u64, subscriptions: &[&str]) -> TopicStats {
        let subscription = |name: &&str| SubscriptionStats {
            name: (*name).to_owned(),
            backlog: 2,
            messages_out: messages,
            consumers: vec![ConsumerStats { rates: ConsumerRates { messages_out: 1.5, ..Default::default() }, ..Default::default() }],
            ..SubscriptionStats::default()
        };
        TopicStats {
            messages_in: messages,
            messages_out: messages,
            rates: TopicRates { messages_in: 2.5, entry_sizes: [1, 2, 0, 0, 0, 0, 0, 0, 4], ..TopicRates::default() },
            storage_bytes: 100,
            storage_entries: 10,
            backlog_bytes: 20,
            quota_evictions: (3, 0),
            publish_rate_limited: 1,
            producers: vec![ProducerStats::default()],
            subscriptions: subscriptions.iter().map(subscription).collect(),
            ..TopicStats::default()
        }
    }

    fn page(topics: Vec<(&str, TopicStats)>, options: &AdminOptions) -> parser::Parsed {
        let topics = topics.into_iter().map(|(name, stats)| (name.parse().unwrap(), stats)).collect();
        let worker = |worker| WorkerStats { worker, turns: 5, connections: 2, cache_bytes: 7, ..WorkerStats::default() };
        let stats = ServerStats { workers: vec![worker(0), worker(1)], topics, ..ServerStats::default() };
        let (cluster, broker) = ("standalone".into(), "localhost:8080".into());
        let scrape = Scrape { cluster, broker, cache_limit: 99, memory_limit: 1 << 30, stats, process: ProcessStats::read() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        parser::parse(&runtime.block_on(render(&scrape, options)))
    }

    fn with(change: impl FnOnce(&mut crate::options::MetricsOptions)) -> AdminOptions {
        let mut options = AdminOptions::default();
        change(&mut options.metrics);
        options
    }

    fn three_topics() -> Vec<(&'static str, TopicStats)> {
        vec![
            ("persistent://public/default/a", topic(3, &["s", "t"])),
            ("persistent://public/default/b-partition-0", topic(4, &[])),
            ("persistent://public/other/c", topic(5, &["s"])),
        ]
    }

    #[test]
    fn every_sample_carries_the_cluster_and_every_family_has_samples() {
        for topics in [vec![], three_topics()] {
            for (name, samples) in page(topics, &AdminOptions::default()) {
                assert!(!samples.is_empty(), "{name}");
                assert!(samples.keys().all(|labels| labels.starts_with("cluster=\"standalone\"")), "{name} {samples:?}");
            }
        }
    }

    #[test]
    fn an_empty_broker_still_tells_the_counts_boards_select_by() {
        let page = page(vec![], &AdminOptions::default());
        for name in ["pulsar_producers_count", "pulsar_topics_count", "pulsar_storage_size", "pulsar_out_messages_total"] {
            assert_eq!(page[name]["cluster=\"standalone\""], 0.0, "{name}");
        }
        let version = &page["pulsar_version_info"];
        assert_eq!(version.len(), 1);
        assert!(version.keys().all(|labels| labels.contains("version=\"") && labels.contains("commit=\"")), "{version:?}");
    }

    #[test]
    fn topics_are_told_one_by_one_with_their_subscriptions() {
        let page = page(three_topics(), &AdminOptions::default());
        let a = r#"cluster="standalone",namespace="public/default",topic="persistent://public/default/a""#;
        assert_eq!(page["pulsar_in_messages_total"][a], 3.0);
        assert_eq!(page["pulsar_in_messages_total"].len(), 3);
        assert_eq!(page["pulsar_msg_backlog"][a], 4.0);
        assert_eq!(page["pulsar_storage_backlog_size"][a], 20.0);
        assert_eq!((page["pulsar_publish_rate_limit_times"][a], page["pulsar_storage_backlog_quota_limit"][a]), (1.0, -1.0));
        let evictions = &page["pulsar_storage_backlog_quota_exceeded_evictions_total"];
        assert_eq!(evictions[&format!("{a},quota_type=\"destination_storage\"")], 3.0);
        assert_eq!(page["pulsar_out_messages_total"][&format!("{a},subscription=\"t\"")], 3.0);
        assert_eq!(page["pulsar_subscription_back_log"].len(), 3);
        assert_eq!(page["pulsar_topics_count"][r#"cluster="standalone",namespace="public/default""#], 2.0);
        assert_eq!(page["pulsar_broker_topics_count"]["cluster=\"standalone\""], 3.0);
        assert_eq!(page["pulsar_active_connections"]["cluster=\"standalone\""], 4.0);
        assert_eq!(page["geminga_loop_turns_total"].len(), 2);
    }

    #[test]
    fn too_many_topics_are_told_by_namespace() {
        for options in [with(|metrics| metrics.max_topics = 2), with(|metrics| metrics.topics = false)] {
            let page = page(three_topics(), &options);
            let namespace = r#"cluster="standalone",namespace="public/default""#;
            assert_eq!(page["pulsar_in_messages_total"].len(), 2);
            assert_eq!(page["pulsar_in_messages_total"][namespace], 7.0);
            assert_eq!(page["pulsar_out_messages_total"][namespace], 7.0);
            assert!(!page.contains_key("pulsar_subscription_back_log"));
        }
    }

    #[test]
    fn the_process_is_told() {
        let page = page(vec![], &AdminOptions::default());
        for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
            assert!(page[name]["cluster=\"standalone\""] >= 0.0, "{name}");
        }
    }

    #[test]
    fn rates_are_those_of_the_last_period_and_add_up_by_namespace() {
        let a = r#"cluster="standalone",namespace="public/default",topic="persistent://public/default/a""#;
        let one_by_one = page(three_topics(), &AdminOptions::default());
        assert_eq!(one_by_one["pulsar_rate_in"][a], 2.5);
        assert_eq!(one_by_one["pulsar_entry_size_le_512"][a], 2.0);
        assert_eq!(one_by_one["pulsar_entry_size_count"][a], 7.0);
        let by_namespace = page(three_topics(), &with(|metrics| metrics.topics = false));
        assert_eq!(by_namespace["pulsar_rate_in"][r#"cluster="standalone",namespace="public/default""#], 5.0);
        assert_eq!(by_namespace["pulsar_broker_rate_in"]["cluster=\"standalone\""], 7.5);
    }

    #[test]
    fn consumers_and_producers_are_told_one_by_one_only_where_that_is_wanted() {
        assert!(!page(three_topics(), &AdminOptions::default()).contains_key("pulsar_consumer_msg_rate_out"));
        let page = page(
            three_topics(),
            &with(|metrics| {
                (metrics.consumers, metrics.producers) = (true, true);
            }),
        );
        assert_eq!(page["pulsar_consumer_msg_rate_out"].len(), 3);
        assert!(page["pulsar_consumer_msg_rate_out"].values().all(|rate| *rate == 1.5));
        assert_eq!(page["pulsar_producer_msg_rate_in"].len(), 3);
    }

    #[test]
    fn a_partition_may_be_a_label_of_its_own() {
        let page = page(three_topics(), &with(|metrics| metrics.split_partitions = true));
        let b = r#"cluster="standalone",namespace="public/default",topic="persistent://public/default/b",partition="0""#;
        assert_eq!(page["pulsar_in_messages_total"][b], 4.0);
        assert!(page["pulsar_in_messages_total"].keys().any(|labels| labels.ends_with("partition=\"-1\"")));
    }

    #[test]
    fn writes_are_a_histogram_of_ours_and_a_summary_of_pulsars() {
        let page = page(three_topics(), &AdminOptions::default());
        let histogram = &page["geminga_storage_append_seconds"];
        assert!(histogram.contains_key(r#"cluster="standalone",le="0.0005"_bucket"#), "{histogram:?}");
        assert!(histogram.contains_key(r#"cluster="standalone",le="+Inf"_bucket"#), "{histogram:?}");
        assert_eq!(page["pulsar_broker_publish_latency"].len(), 10);
    }
}
