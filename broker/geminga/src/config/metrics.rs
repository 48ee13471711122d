//! What metrics tell, and how often their rates are made anew.

use std::time::Duration;

use super::amounts::seconds;
use super::forms::{Flag, Number};
use super::table::settings;

settings! {
    /// What metrics tell.
    pub struct Metrics, "Metrics" {
        /// Rates and statistics are made anew this often. Scrape metrics at the same interval.
        interval: Duration = "statsUpdateFrequencyInSecs", seconds(1, 3_600), default Duration::from_secs(60);
        /// Time until the first of them.
        delay: Duration = "statsUpdateInitialDelayInSecs", seconds(0, 3_600), default Duration::from_secs(60);
        /// Topics are told one by one, with their subscriptions; otherwise by namespace.
        topics: bool = "exposeTopicLevelMetricsInPrometheus", Flag, default true;
        /// With more topics than this, they are told by namespace whatever the key above says.
        max_topics: usize = "metricsMaxTopicSeries", Number(0, 1_000_000), default 10_000;
        /// Consumers are told one by one, where topics are.
        consumers: bool = "exposeConsumerLevelMetricsInPrometheus", Flag, default false;
        /// Producers are told one by one, where topics are.
        producers: bool = "exposeProducerLevelMetricsInPrometheus", Flag, default false;
        /// What is stored is told, by namespace.
        managed_ledgers: bool = "exposeManagedLedgerMetricsInPrometheus", Flag, default true;
        /// A partition's number is a label of its own instead of part of the topic's name.
        split_partitions: bool = "splitTopicAndPartitionLabelInPrometheus", Flag, default false;
    }
}
