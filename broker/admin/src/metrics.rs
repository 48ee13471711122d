//! `/metrics`: the names that dashboards for Pulsar ask for, and our own beside them.

use std::collections::BTreeMap;

use server::stats::{SubscriptionStats, TopicStats};
use server::{ServerStats, WorkerStats};

use crate::AdminOptions;
use crate::errors::Refusal;
use crate::exposition::{Exposition, Family, label};
use crate::json::{age_seconds, now_ms};
use crate::process::ProcessStats;
use crate::reply::Reply;
use crate::request::Call;

/// GET: everything, as text.
pub(crate) async fn scrape(call: Call) -> Result<Reply, Refusal> {
    let stats = call.handle().stats(true).await?;
    let process = call.handle().control(|_| ProcessStats::read()).await?;
    let settings = call.handle().settings();
    let scrape = Scrape { cluster: settings.cluster.clone(), cache_limit: settings.cache_bytes, stats, process };
    Ok(Reply::exposition(render(&scrape, call.options()).await))
}

/// What a page is made of.
struct Scrape {
    cluster: String,
    cache_limit: usize,
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
    broker(&mut out, &cluster, scrape);
    topics(&mut out, &cluster, &scrape.stats, options).await;
    workers(&mut out, &cluster, &scrape.stats);
    process(&mut out, &cluster, &scrape.process);
    out.into_text()
}

/// The numbers of a topic or of all topics of a namespace.
#[derive(Clone, Debug, Default)]
struct Numbers {
    topics: u64,
    producers: u64,
    consumers: u64,
    subscriptions: u64,
    messages_in: u64,
    bytes_in: u64,
    messages_out: u64,
    bytes_out: u64,
    storage: u64,
    backlog: u64,
    backlog_bytes: u64,
    backlog_age: u64,
    quota_bytes: u64,
    quota_seconds: u64,
    rate_limited: u64,
    cache_hits: u64,
    cache_misses: u64,
    storage_reads: u64,
}

impl Numbers {
    fn add(&mut self, stats: &TopicStats) {
        self.topics += 1;
        self.producers += count(&stats.producers);
        self.consumers += stats.subscriptions.iter().map(|s| count(&s.consumers)).sum::<u64>();
        self.subscriptions += count(&stats.subscriptions);
        self.messages_in += stats.messages_in;
        self.bytes_in += stats.bytes_in;
        self.messages_out += stats.messages_out;
        self.bytes_out += stats.bytes_out;
        self.storage += stats.storage_bytes;
        self.backlog += stats.subscriptions.iter().map(|s| s.backlog).sum::<u64>();
        self.backlog_bytes += stats.backlog_bytes;
        self.backlog_age = self.backlog_age.max(stats.oldest_backlog_ms.map_or(0, |published| age_seconds(published, now_ms())));
        self.quota_bytes += stats.quota_bytes.unwrap_or(0);
        self.quota_seconds = self.quota_seconds.max(stats.quota_age_ms.unwrap_or(0) / 1_000);
        self.rate_limited += stats.publish_rate_limited;
        self.cache_hits += stats.cache_hits;
        self.cache_misses += stats.cache_misses;
        self.storage_reads += stats.storage_reads;
    }

    fn of<'a>(stats: impl IntoIterator<Item = &'a TopicStats>) -> Self {
        let mut numbers = Self::default();
        stats.into_iter().for_each(|stats| numbers.add(stats));
        numbers
    }
}

/// A family and where its number comes from.
type FamilyOf<T> = (Family, fn(&T) -> u64);

/// Told for each topic, or for each namespace.
const TOPIC_FAMILIES: &[FamilyOf<Numbers>] = &[
    (Family::gauge("pulsar_subscriptions_count", "Subscriptions."), |n| n.subscriptions),
    (Family::gauge("pulsar_producers_count", "Connected producers."), |n| n.producers),
    (Family::gauge("pulsar_consumers_count", "Connected consumers."), |n| n.consumers),
    (Family::counter("pulsar_in_messages_total", "Messages published since the topic was loaded."), |n| n.messages_in),
    (Family::counter("pulsar_in_bytes_total", "Bytes published since the topic was loaded."), |n| n.bytes_in),
    (Family::gauge("pulsar_storage_size", "Bytes stored."), |n| n.storage),
    (Family::gauge("pulsar_msg_backlog", "Entries not acknowledged, over all subscriptions."), |n| n.backlog),
    (Family::gauge("pulsar_storage_backlog_size", "Bytes of the slowest subscription's backlog."), |n| n.backlog_bytes),
    (Family::gauge("pulsar_storage_backlog_age_seconds", "Age of the oldest message that waits; 0 without a limit on it."), |n| {
        n.backlog_age
    }),
    (Family::gauge("pulsar_storage_backlog_quota_limit", "Bytes that may wait; 0 without a limit."), |n| n.quota_bytes),
    (Family::gauge("pulsar_storage_backlog_quota_limit_time", "Seconds that a message may wait; 0 without a limit."), |n| n.quota_seconds),
    (Family::gauge("pulsar_publish_rate_limit_times", "How often publishes began to wait for a rate."), |n| n.rate_limited),
    (Family::counter("geminga_cache_hits_total", "Entries delivered from the cache since the topic was loaded."), |n| n.cache_hits),
    (Family::counter("geminga_storage_read_entries_total", "Entries read from storage since the topic was loaded."), |n| n.storage_reads),
    (Family::counter("geminga_cache_misses_total", "Entries delivered after a read since the topic was loaded."), |n| n.cache_misses),
];

const MESSAGES_OUT: Family = Family::counter("pulsar_out_messages_total", "Messages delivered since the topic was loaded.");
const BYTES_OUT: Family = Family::counter("pulsar_out_bytes_total", "Bytes delivered since the topic was loaded.");

/// Told for each namespace where subscriptions are not told one by one.
const OUT_FAMILIES: &[FamilyOf<Numbers>] = &[(MESSAGES_OUT, |n| n.messages_out), (BYTES_OUT, |n| n.bytes_out)];

const SUBSCRIPTION_FAMILIES: &[FamilyOf<SubscriptionStats>] = &[
    (MESSAGES_OUT, |s| s.messages_out),
    (BYTES_OUT, |s| s.bytes_out),
    (Family::gauge("pulsar_subscription_back_log", "Entries not acknowledged."), |s| s.backlog),
    (Family::gauge("pulsar_subscription_unacked_messages", "Messages delivered and not acknowledged."), |s| s.unacked_messages),
    (Family::gauge("pulsar_subscription_consumers_count", "Connected consumers."), |s| count(&s.consumers)),
];

fn broker(out: &mut Exposition, cluster: &str, scrape: &Scrape) {
    let stats = &scrape.stats;
    let all = Numbers::of(stats.topics.iter().map(|(_, stats)| stats));
    let sum = |number: fn(&WorkerStats) -> u64| stats.workers.iter().map(number).sum::<u64>();
    let cache = sum(|w| w.cache_bytes);
    let writable = u8::from(stats.storage_problem.is_none());
    for (family, value) in [
        (Family::gauge("pulsar_broker_topics_count", "Loaded topics."), all.topics),
        (Family::gauge("pulsar_broker_subscriptions_count", "Subscriptions of loaded topics."), all.subscriptions),
        (Family::gauge("pulsar_broker_producers_count", "Connected producers."), all.producers),
        (Family::gauge("pulsar_broker_consumers_count", "Connected consumers."), all.consumers),
        (Family::gauge("pulsar_broker_storage_size", "Bytes stored by loaded topics."), all.storage),
        (Family::gauge("pulsar_broker_msg_backlog", "Entries not acknowledged, over all subscriptions."), all.backlog),
        (Family::gauge("pulsar_active_connections", "Connections now."), sum(|w| w.connections)),
        (Family::counter("pulsar_connection_created_total_count", "Connections accepted."), sum(|w| w.connections_total)),
        (Family::counter("geminga_connections_refused_total", "Connections refused because of a limit."), stats.connections_refused),
        (Family::gauge("pulsar_ml_cache_used_size", "Bytes in the entry cache."), cache),
        (Family::gauge("jvm_memory_direct_bytes_used", "The entry cache, under the name that boards for Pulsar know."), cache),
        (
            Family::gauge("jvm_memory_direct_bytes_max", "Its limit, under the name that boards for Pulsar know."),
            u64::try_from(scrape.cache_limit).unwrap_or(u64::MAX),
        ),
        (Family::gauge("geminga_storage_writable", "1 while publishes are taken, 0 while storage refuses them."), writable.into()),
    ] {
        out.single(family, cluster, value);
    }
}

async fn topics(out: &mut Exposition, cluster: &str, stats: &ServerStats, options: &AdminOptions) {
    let mut namespaces: BTreeMap<String, Numbers> = BTreeMap::new();
    for (name, stats) in &stats.topics {
        namespaces.entry(name.namespace_str().to_owned()).or_default().add(stats);
    }
    let by_namespace = || namespaces.iter().map(|(name, numbers)| (format!("{cluster},{}", label("namespace", name)), numbers.clone()));
    out.family(Family::gauge("pulsar_topics_count", "Loaded topics."));
    by_namespace().for_each(|(labels, numbers)| out.sample(&labels, numbers.topics));
    if namespaces.is_empty() {
        out.sample(cluster, 0);
    }
    // Boards add up by namespace, so that a topic must never be told on both levels.
    let one_by_one = options.topic_metrics && stats.topics.len() <= options.max_topic_series;
    let mut series: Vec<(String, Numbers)> = if one_by_one {
        stats.topics.iter().map(|(name, stats)| (topic_labels(cluster, name), Numbers::of([stats]))).collect()
    } else {
        by_namespace().collect()
    };
    if series.is_empty() {
        // Selectors of boards are filled from these, even before there is a topic.
        series.push((cluster.to_owned(), Numbers::default()));
    }
    let by_subscription = one_by_one && stats.topics.iter().any(|(_, stats)| !stats.subscriptions.is_empty());
    let families = TOPIC_FAMILIES.iter().chain(OUT_FAMILIES.iter().filter(|_| !by_subscription));
    let mut turn = Turn::default();
    for (family, number) in families {
        out.family(*family);
        for (labels, numbers) in &series {
            out.sample(labels, number(numbers));
            turn.step().await;
        }
    }
    if !by_subscription {
        return;
    }
    for (family, number) in SUBSCRIPTION_FAMILIES {
        out.family(*family);
        for ((_, stats), (labels, _)) in stats.topics.iter().zip(&series) {
            for subscription in &stats.subscriptions {
                out.sample(&format!("{labels},{}", label("subscription", &subscription.name)), number(subscription));
                turn.step().await;
            }
        }
    }
}

fn count<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}

fn topic_labels(cluster: &str, name: &wire::TopicName) -> String {
    [cluster, &label("namespace", name.namespace_str()), &label("topic", name.as_str())].join(",")
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

const WORKER_FAMILIES: &[FamilyOf<WorkerStats>] = &[
    (Family::counter("geminga_loop_turns_total", "Turns of the event loop."), |w| w.turns),
    (Family::counter("geminga_loop_letters_total", "Letters read."), |w| w.letters),
    (Family::counter("geminga_loop_letters_sent_total", "Letters sent to other loops."), |w| w.letters_sent),
    (Family::counter("geminga_loop_batches_sent_total", "Batches of letters sent to other loops."), |w| w.batches_sent),
    (Family::counter("geminga_loop_blocks_total", "Blocks handed to the log."), |w| w.blocks),
    (Family::gauge("geminga_loop_connections", "Connections now."), |w| w.connections),
    (Family::counter("geminga_loop_connections_total", "Connections since the start."), |w| w.connections_total),
    (Family::counter("geminga_loop_protocol_errors_total", "Connections closed because of what their peer sent."), |w| w.protocol_errors),
    (Family::counter("geminga_loop_tls_handshake_failures_total", "TLS handshakes that came to nothing."), |w| w.tls_failures),
    (Family::counter("geminga_loop_authentication_failures_total", "Connections closed because their credentials were not good."), |w| {
        w.authentication_failures
    }),
    (Family::gauge("geminga_loop_pending_publish_bytes", "Bytes of publishes waiting for the disk."), |w| w.pending_publish_bytes),
    (Family::gauge("geminga_loop_held_publish_bytes", "Bytes of publishes waiting for a rate."), |w| w.held_publish_bytes),
    (Family::gauge("geminga_loop_cache_bytes", "Bytes in the entry cache."), |w| w.cache_bytes),
    (Family::gauge("geminga_loop_topics", "Loaded topics."), |w| w.topics),
];

fn workers(out: &mut Exposition, cluster: &str, stats: &ServerStats) {
    for (family, number) in WORKER_FAMILIES {
        out.family(*family);
        for worker in &stats.workers {
            out.sample(&format!("{cluster},{}", label("loop", &worker.worker.to_string())), number(worker));
        }
    }
}

fn process(out: &mut Exposition, cluster: &str, process: &ProcessStats) {
    let ProcessStats { cpu_seconds, resident_bytes, virtual_bytes, open_fds, max_fds, start_seconds } = *process;
    let mut tell = |family, value: Option<String>| value.into_iter().for_each(|value| out.single(family, cluster, value));
    tell(Family::counter("process_cpu_seconds_total", "CPU time, user and system."), cpu_seconds.map(|v| v.to_string()));
    tell(Family::gauge("process_resident_memory_bytes", "Resident memory."), resident_bytes.map(|v| v.to_string()));
    tell(Family::gauge("process_virtual_memory_bytes", "Virtual memory."), virtual_bytes.map(|v| v.to_string()));
    tell(Family::gauge("process_open_fds", "Open file descriptors."), open_fds.map(|v| v.to_string()));
    tell(Family::gauge("process_max_fds", "Limit of open file descriptors."), max_fds.map(|v| v.to_string()));
    tell(Family::gauge("process_start_time_seconds", "When the process started, since the epoch."), start_seconds.map(|v| v.to_string()));
}

#[cfg(test)]
mod tests {
    use server::stats::{ConsumerStats, ProducerStats};

    use super::*;
    use crate::exposition::parser;

    fn topic(messages: u64, subscriptions: &[&str]) -> TopicStats {
        let subscription = |name: &&str| SubscriptionStats {
            name: (*name).to_owned(),
            backlog: 2,
            messages_out: messages,
            consumers: vec![ConsumerStats::default()],
            ..SubscriptionStats::default()
        };
        TopicStats {
            messages_in: messages,
            messages_out: messages,
            storage_bytes: 100,
            storage_entries: 10,
            backlog_bytes: 20,
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
        let scrape = Scrape { cluster: "standalone".into(), cache_limit: 99, stats, process: ProcessStats::read() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        parser::parse(&runtime.block_on(render(&scrape, options)))
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
        assert_eq!(page["pulsar_publish_rate_limit_times"][a], 1.0);
        assert_eq!(page["pulsar_out_messages_total"][&format!("{a},subscription=\"t\"")], 3.0);
        assert_eq!(page["pulsar_subscription_back_log"].len(), 3);
        assert_eq!(page["pulsar_topics_count"][r#"cluster="standalone",namespace="public/default""#], 2.0);
        assert_eq!(page["pulsar_broker_topics_count"]["cluster=\"standalone\""], 3.0);
        assert_eq!(page["pulsar_active_connections"]["cluster=\"standalone\""], 4.0);
        assert_eq!(page["geminga_loop_turns_total"].len(), 2);
    }

    #[test]
    fn too_many_topics_are_told_by_namespace() {
        for options in [
            AdminOptions { max_topic_series: 2, ..AdminOptions::default() },
            AdminOptions { topic_metrics: false, ..AdminOptions::default() },
        ] {
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
}
