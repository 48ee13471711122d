//! Event loops and the log in `/metrics`.

use std::fmt::Display;

use server::stats::WRITE_LATENCIES;
use server::{ServerStats, WorkerStats};

use super::{FamilyOf, as_number};
use crate::exposition::{Exposition, Family, label};

const FAMILIES: &[FamilyOf<WorkerStats>] = &[
    (Family::gauge("geminga_loop_busy_ratio", "Share of the last period that the loop's thread was running."), |w| w.busy),
    (Family::counter("geminga_loop_cpu_seconds_total", "CPU time of the loop's thread."), |w| w.cpu.as_secs_f64()),
    (Family::counter("geminga_loop_turns_total", "Turns of the event loop."), |w| as_number(w.turns)),
    (Family::counter("geminga_loop_wakeups_total", "Times that the loop had gone to sleep and was woken."), |w| as_number(w.sleeps)),
    (Family::counter("geminga_loop_letters_total", "Letters read."), |w| as_number(w.letters)),
    (Family::counter("geminga_loop_letters_sent_total", "Letters sent to other loops."), |w| as_number(w.letters_sent)),
    (Family::counter("geminga_loop_batches_sent_total", "Batches of letters sent to other loops."), |w| as_number(w.batches_sent)),
    (Family::counter("geminga_loop_blocks_total", "Blocks handed to the log."), |w| as_number(w.blocks)),
    (Family::gauge("geminga_loop_connections", "Connections now."), |w| as_number(w.connections)),
    (Family::counter("geminga_loop_connections_total", "Connections since the start."), |w| as_number(w.connections_total)),
    (Family::counter("geminga_loop_protocol_errors_total", "Connections closed because of what their peer sent."), |w| {
        as_number(w.protocol_errors)
    }),
    (Family::counter("geminga_loop_tls_handshake_failures_total", "TLS handshakes that came to nothing."), |w| as_number(w.tls_failures)),
    (Family::counter("geminga_loop_authentication_failures_total", "Connections closed because their credentials were not good."), |w| {
        as_number(w.authentication_failures)
    }),
    (Family::gauge("geminga_loop_pending_publish_bytes", "Bytes of publishes waiting for the disk."), |w| {
        as_number(w.pending_publish_bytes)
    }),
    (Family::gauge("geminga_loop_held_publish_bytes", "Bytes of publishes waiting for a rate."), |w| as_number(w.held_publish_bytes)),
    (Family::gauge("geminga_loop_out_buffer_bytes", "Bytes waiting for peers that do not take them."), |w| as_number(w.out_buffer_bytes)),
    (Family::gauge("geminga_loop_cache_bytes", "Bytes in the entry cache."), |w| as_number(w.cache_bytes)),
    (Family::gauge("geminga_loop_topics", "Loaded topics."), |w| as_number(w.topics)),
];

pub(super) fn tell(out: &mut Exposition, cluster: &str, stats: &ServerStats) {
    for (family, number) in FAMILIES {
        out.family(*family);
        for worker in &stats.workers {
            out.sample(&format!("{cluster},{}", label("loop", &worker.worker.to_string())), number(worker));
        }
    }
    publishes(out, cluster, &stats.workers);
    log(out, cluster, stats);
}

/// How long publishes took, from the hand-over to the log to its answer: ours as a histogram, Pulsar's as a summary of the last period.
fn publishes(out: &mut Exposition, cluster: &str, workers: &[WorkerStats]) {
    let count: u64 = workers.iter().map(|w| w.writes.count).sum();
    let sum_us: u64 = workers.iter().map(|w| w.writes.sum_us).sum();
    out.family(Family::histogram("geminga_storage_append_seconds", "From the hand-over of an entry to the log until it is durable."));
    let mut so_far = 0;
    for (place, end) in WRITE_LATENCIES.iter().enumerate() {
        so_far += workers.iter().filter_map(|w| w.writes.classes.get(place)).sum::<u64>();
        out.part("_bucket", &format!("{cluster},{}", label("le", &(as_number(*end) / 1e6).to_string())), so_far);
    }
    out.part("_bucket", &format!("{cluster},le=\"+Inf\""), count);
    out.part("_sum", cluster, as_number(sum_us) / 1e6);
    out.part("_count", cluster, count);

    out.family(Family::summary("pulsar_broker_publish_latency", "Milliseconds that writes of the last period took."));
    let mut period = workers.iter().filter_map(|w| w.writes.last_period.clone()).reduce(|mut all, more| {
        // They have the same bounds.
        let _ = all.add(more);
        all
    });
    for quantile in ["0.0", "0.5", "0.75", "0.95", "0.99", "0.999", "0.9999", "1.0"] {
        let of = |period: &mut server::Histogram| period.value_at_quantile(quantile.parse().unwrap_or(1.0)) as f64 / 1e3;
        out.sample(&format!("{cluster},{}", label("quantile", quantile)), period.as_mut().map_or(0.0, of));
    }
    out.part("_sum", cluster, as_number(sum_us) / 1e3);
    out.part("_count", cluster, count);
}

fn log(out: &mut Exposition, cluster: &str, stats: &ServerStats) {
    let Some(log) = &stats.log else { return };
    let mut counter = |name, help, value: &dyn Display| out.single(Family::counter(name, help), cluster, value);
    counter("geminga_log_syncs_total", "Groups of blocks made durable, by one sync each.", &log.syncs);
    counter("geminga_log_sync_seconds_total", "Time spent writing and syncing them.", &log.sync_time.as_secs_f64());
    counter("geminga_log_blocks_total", "Blocks written.", &log.blocks);
    counter("geminga_log_entries_total", "Entries written, moved ones included.", &log.entries);
    counter("geminga_log_bytes_total", "Bytes written, framing included.", &log.bytes);
    counter("geminga_log_reads_total", "Reads from disk.", &log.reads);
    counter("geminga_log_read_entries_total", "Entries they returned.", &log.read_entries);
    counter("geminga_log_damaged_reads_total", "Reads that met a failing checksum.", &log.damaged_reads);
    counter("geminga_log_moved_bytes_total", "Bytes written again to free segments.", &log.moved_bytes);
    counter("geminga_log_segments_freed_total", "Segments given back.", &log.segments_freed);
    let mut gauge = |name, help, value: &dyn Display| out.single(Family::gauge(name, help), cluster, value);
    gauge("geminga_log_longest_sync_seconds", "The longest write and sync since the start.", &log.longest_sync.as_secs_f64());
    gauge("geminga_log_segments", "Segments.", &log.segments);
    gauge("geminga_log_segment_bytes", "Bytes of their files.", &log.segment_bytes);
    gauge("geminga_log_live_bytes", "Bytes in them that are needed.", &log.live_bytes);
    gauge("geminga_log_queued_bytes", "Bytes waiting for the writer.", &log.queued_bytes);
}
