//! The broker as a whole, and its process, in `/metrics`.

use server::WorkerStats;

use super::topics::Numbers;
use super::{Scrape, as_number};
use crate::exposition::{Exposition, Family, label};
use crate::process::ProcessStats;

pub(super) fn tell(out: &mut Exposition, cluster: &str, scrape: &Scrape) {
    let all = Numbers::of(scrape.stats.topics.iter().map(|(_, stats)| stats));
    of_topics(out, cluster, &all);
    connections(out, cluster, scrape);
    cache(out, cluster, scrape, &all);
    load(out, cluster, scrape);
    let writable = u8::from(scrape.stats.storage_problem.is_none());
    let family = Family::gauge("geminga_storage_writable", "1 while publishes are taken, 0 while storage refuses them.");
    out.single(family, cluster, writable);
    process(out, cluster, &scrape.process);
}

fn of_topics(out: &mut Exposition, cluster: &str, all: &Numbers) {
    let rates = &all.rates;
    for (family, value) in [
        (Family::gauge("pulsar_broker_topics_count", "Loaded topics."), as_number(all.topics)),
        (Family::gauge("pulsar_broker_subscriptions_count", "Subscriptions of loaded topics."), as_number(all.subscriptions)),
        (Family::gauge("pulsar_broker_producers_count", "Connected producers."), as_number(all.producers)),
        (Family::gauge("pulsar_broker_consumers_count", "Connected consumers."), as_number(all.consumers)),
        (Family::gauge("pulsar_broker_rate_in", "Messages published in a second, over the last period."), rates.messages_in),
        (Family::gauge("pulsar_broker_rate_out", "Messages delivered in a second, over the last period."), rates.messages_out),
        (Family::gauge("pulsar_broker_throughput_in", "Bytes published in a second, over the last period."), rates.bytes_in),
        (Family::gauge("pulsar_broker_throughput_out", "Bytes delivered in a second, over the last period."), rates.bytes_out),
        (Family::gauge("pulsar_broker_storage_size", "Bytes stored by loaded topics."), as_number(all.storage)),
        (Family::gauge("pulsar_broker_storage_logical_size", "The same; there is one copy."), as_number(all.storage)),
        (Family::gauge("pulsar_broker_storage_write_rate", "Entries written in a second, over the last period."), rates.entries_in),
        (Family::gauge("pulsar_broker_storage_read_rate", "Entries read from storage in a second."), rates.storage_reads),
        (Family::gauge("pulsar_broker_msg_backlog", "Entries not acknowledged, over all subscriptions."), as_number(all.backlog)),
    ] {
        out.single(family, cluster, value);
    }
}

fn connections(out: &mut Exposition, cluster: &str, scrape: &Scrape) {
    let sum = |number: fn(&WorkerStats) -> u64| scrape.stats.workers.iter().map(number).sum::<u64>();
    let (open, accepted) = (sum(|w| w.connections), sum(|w| w.connections_total));
    let refused = scrape.stats.connections_refused;
    let failed = sum(|w| w.authentication_failures) + sum(|w| w.tls_failures);
    for (family, value) in [
        (Family::gauge("pulsar_active_connections", "Connections now."), open),
        (Family::counter("pulsar_connection_created_total_count", "Connections accepted."), accepted),
        (Family::counter("pulsar_connection_create_success_count", "Connections that were let in."), accepted.saturating_sub(failed)),
        (Family::counter("pulsar_connection_create_fail_count", "Connections that were not let in."), failed + refused),
        (Family::counter("pulsar_connection_closed_total_count", "Connections that have ended."), accepted.saturating_sub(open)),
        (Family::counter("geminga_connections_refused_total", "Connections refused because of a limit."), refused),
    ] {
        out.single(family, cluster, value);
    }
}

fn cache_bytes(scrape: &Scrape) -> u64 {
    scrape.stats.workers.iter().map(|w| w.cache_bytes).sum()
}

fn cache(out: &mut Exposition, cluster: &str, scrape: &Scrape, all: &Numbers) {
    let used = cache_bytes(scrape);
    for (family, value) in [
        (Family::gauge("pulsar_ml_cache_used_size", "Bytes in the entry cache."), as_number(used)),
        (Family::gauge("pulsar_ml_cache_hits_rate", "Entries delivered from the cache in a second."), all.rates.cache_hits),
        (Family::gauge("pulsar_ml_cache_misses_rate", "Entries delivered after a read in a second."), all.rates.cache_misses),
        (Family::gauge("jvm_memory_direct_bytes_used", "The entry cache, under the name that boards for Pulsar know."), as_number(used)),
        (
            Family::gauge("jvm_memory_direct_bytes_max", "Its limit, under the name that boards for Pulsar know."),
            as_number(u64::try_from(scrape.cache_limit).unwrap_or(u64::MAX)),
        ),
    ] {
        out.single(family, cluster, value);
    }
}

/// What boards of Pulsar's load balancer ask for, in per cent.
fn load(out: &mut Exposition, cluster: &str, scrape: &Scrape) {
    let labels = [cluster, &label("broker", &scrape.broker), &label("metric", "loadBalancing")].join(",");
    let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    let busy = scrape.stats.workers.iter().map(|w| w.busy).sum::<f64>() * 100.0 / cores;
    let used = cache_bytes(scrape);
    let share = |used: f64, of: f64| if of > 0.0 { used * 100.0 / of } else { 0.0 };
    out.single(Family::gauge("pulsar_lb_cpu_usage", "Per cent of all cores that the event loops used."), &labels, busy);
    let resident = as_number(scrape.process.resident_bytes.unwrap_or(0));
    let memory = share(resident, scrape.memory_limit as f64);
    out.single(Family::gauge("pulsar_lb_memory_usage", "Per cent of the memory budget that is resident."), &labels, memory);
    let direct = share(as_number(used), scrape.cache_limit as f64);
    out.single(Family::gauge("pulsar_lb_directMemory_usage", "Per cent of the entry cache that is used."), &labels, direct);
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
