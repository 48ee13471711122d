//! The tables of a run, as titles, heads and rows: the page and the README show the same.

use serde_json::Value;

use super::figures::{megabytes, micros, number, percentile, seconds, whole};
use crate::result::{BUSY_SHARE, Durability, LatencySummary, PERCENTILES, ProcessUse, RunResult, ThreadKind, Verdict};

/// A table under its title.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    /// How to read it.
    pub(crate) note: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Section {
    fn new(title: &'static str, note: &str, head: &[&str], rows: Vec<Vec<String>>) -> Option<Self> {
        (!rows.is_empty()).then(|| Self { title, note: note.to_owned(), head: head.iter().map(|&name| name.to_owned()).collect(), rows })
    }
}

/// Everything that has a table, without what the run has nothing for.
pub(crate) fn sections(run: &RunResult) -> Vec<Section> {
    let all = [latency(run), catch_up(run), processes(run), kinds(run), cache(run), reconnect(run), host(run), correctness(run)];
    all.into_iter().flatten().collect()
}

/// The figures to begin with: name and value.
pub(crate) fn key_figures(run: &RunResult) -> Vec<(&'static str, String)> {
    let window = &run.throughput.window;
    let mut figures = vec![
        ("messages published per second", whole(window.published_per_second())),
        ("messages delivered per second", whole(window.delivered_per_second())),
    ];
    let mut latency = |name, summary: &LatencySummary, at| {
        figures.extend(summary.percentile(at).map(|value| (name, micros(value as f64))));
    };
    latency("publish latency p50", &run.latency.publish, 50.0);
    latency("publish latency p99", &run.latency.publish, 99.0);
    match slowest_from_the_start(run) {
        // What waited for late applications says nothing of how long a message takes.
        Some(summary) => {
            latency("end to end latency p50, there from the start", summary, 50.0);
            latency("end to end latency p99, there from the start", summary, 99.0);
        }
        None => {
            latency("end to end latency p50", &run.latency.end_to_end, 50.0);
            latency("end to end latency p99", &run.latency.end_to_end, 99.0);
        }
    }
    figures.extend(run.broker_cpu_per_million().map(|cpu| ("broker CPU per million published", seconds(cpu))));
    figures.extend(run.brokers.first().map(|broker| ("broker memory at most", megabytes(broker.rss_max as f64))));
    figures
}

/// Where applications joined late: of those that did not, the one with the highest p99.
pub(crate) fn slowest_from_the_start(run: &RunResult) -> Option<&LatencySummary> {
    let is_late = |name: &String| run.catch_up.iter().any(|late| late.application == *name);
    let of_those = run.latency.applications.iter().filter(|(name, _)| !run.catch_up.is_empty() && !is_late(name));
    of_those.map(|(_, summary)| summary).max_by_key(|summary| summary.percentile(99.0))
}

/// `VALID` or `INVALID`, and why.
pub(crate) fn verdict(run: &RunResult) -> (&'static str, Vec<String>) {
    match run.correctness.verdict() {
        Verdict::Valid => ("VALID", Vec::new()),
        Verdict::Invalid(reasons) => ("INVALID", reasons),
    }
}

fn latency(run: &RunResult) -> Option<Section> {
    let head: Vec<String> = ["", "messages", "mean"].iter().map(|&name| name.to_owned()).collect();
    let head = head.into_iter().chain(PERCENTILES.map(percentile)).chain(["max".to_owned()]).collect();
    let row = |name: &str, summary: &LatencySummary| {
        let begin = [name.to_owned(), whole(summary.count as f64), micros(summary.mean)];
        let value = |at| summary.percentile(at).map_or_else(|| "–".to_owned(), |value| micros(value as f64));
        begin.into_iter().chain(PERCENTILES.map(value)).chain([micros(summary.max as f64)]).collect()
    };
    let mut rows = vec![row("publish", &run.latency.publish), row("end to end", &run.latency.end_to_end)];
    rows.extend(run.latency.applications.iter().map(|(name, summary)| row(name, summary)));
    let from = match run.throughput.window.offered_per_second {
        Some(_) => "from the moment when a message was due",
        None => "from the moment when a message was sent",
    };
    let note = format!(
        "Publish: {from} to its receipt. End to end: from the same moment to the application. All messages of the window count, also those \
         whose receipt or delivery came after it."
    );
    Some(Section { title: "Latency", note, head, rows })
}

fn catch_up(run: &RunResult) -> Option<Section> {
    let since = |seconds: Option<f64>| seconds.map_or_else(|| "never while publishing".to_owned(), |at| format!("{at:.1} s"));
    let row = |one: &crate::result::CatchUp| {
        let backlog = whole(one.backlog_at_join as f64);
        vec![one.application.clone(), format!("{:.1} s", one.joined), backlog, since(one.since_run_start), since(one.since_join)]
    };
    let head = ["application", "joined at", "backlog then", "caught up, since the run's start", "caught up, since it joined"];
    let note = "Two clocks: since the measured window began, and since the application joined. An application has caught up when no more \
                waits for it than is published in 0.2 s.";
    Section::new("Catching up", note, &head, run.catch_up.iter().map(row).collect())
}

fn processes(run: &RunResult) -> Option<Section> {
    let published = run.throughput.window.published as f64 / 1e6;
    let per_million = |value: f64| if published > 0.0 { number(value / published) } else { "–".to_owned() };
    let row = |process: &ProcessUse| {
        let cores = if process.seconds > 0.0 { process.cpu_seconds / process.seconds } else { 0.0 };
        let written = process.written_bytes.map_or_else(|| "–".to_owned(), |bytes| megabytes(bytes as f64));
        vec![
            process.name.clone(),
            seconds(process.cpu_seconds),
            number(cores),
            per_million(process.cpu_seconds),
            per_million(process.system_seconds),
            megabytes(process.rss_mean as f64),
            megabytes(process.rss_max as f64),
            per_million(process.voluntary_switches as f64),
            per_million(process.involuntary_switches as f64),
            written,
        ]
    };
    let head = [
        "process",
        "CPU",
        "cores busy",
        "CPU s per million published",
        "of it in the kernel",
        "RSS mean",
        "RSS max",
        "voluntary switches per million",
        "involuntary switches per million",
        "written to storage",
    ];
    let note = match run.throughput.window.applications {
        0 | 1 => "Per million: for each million of messages that were published.".to_owned(),
        several => format!("Per million: for each million of messages that were published, each of which was delivered {several} times."),
    };
    Section::new("Processes, in the measured window", &note, &head, run.brokers.iter().chain(&run.generator).map(row).collect())
}

fn kinds(run: &RunResult) -> Option<Section> {
    let threads = run.brokers.first()?.threads.as_ref()?;
    let row = |(kind, name): (ThreadKind, &str)| {
        let of_kind: Vec<_> = threads.threads.iter().filter(|thread| thread.kind == kind).collect();
        let total: f64 = of_kind.iter().map(|thread| thread.share).sum();
        let most = of_kind.iter().map(|thread| thread.share).fold(0.0, f64::max);
        let switches: f64 = of_kind.iter().map(|thread| thread.voluntary_switches).sum();
        let (total, most) = (format!("{:.1} %", total * 100.0), format!("{:.1} %", most * 100.0));
        let busy = of_kind.iter().filter(|thread| thread.share > BUSY_SHARE).count();
        vec![name.to_owned(), of_kind.len().to_string(), busy.to_string(), total, most, whole(switches)]
    };
    let kinds = [(ThreadKind::Loop, "I/O loops"), (ThreadKind::LogWriter, "log writer, storage"), (ThreadKind::Helper, "helpers")];
    let head = [
        "broker threads",
        "threads",
        "above 5 % of a core",
        "share of a core, all",
        "share of a core, the busiest",
        "voluntary switches per second",
    ];
    let note = format!("CPU time over {:.0} s inside the window.", threads.seconds);
    Section::new("Broker threads by kind", &note, &head, kinds.map(row).to_vec())
}

fn cache(run: &RunResult) -> Option<Section> {
    let cache = run.cache.as_ref()?;
    let count = |count: u64| whole(count as f64);
    let columns = [
        ("source", Some(cache.source.clone())),
        ("hit ratio", cache.hit_ratio().map(|ratio| format!("{:.2} %", ratio * 100.0))),
        ("hits", Some(count(cache.hits))),
        ("misses", Some(count(cache.misses))),
        ("storage reads", cache.storage_reads.map(count)),
        ("entries read from storage", cache.storage_entries.map(count)),
        ("bytes read from storage", cache.storage_bytes.map(|bytes| megabytes(bytes as f64))),
    ];
    // What a broker does not tell has no column.
    let (head, row): (Vec<&str>, Vec<String>) = columns.into_iter().filter_map(|(name, value)| Some((name, value?))).unzip();
    let note = "Entries that consumers were given, from the window's beginning until everything had arrived: from memory (hits), or read \
                from storage.";
    Section::new("Entry cache", note, &head, vec![row])
}

fn reconnect(run: &RunResult) -> Option<Section> {
    let storm = run.reconnect.as_ref()?;
    let since = |seconds: Option<f64>| seconds.map_or_else(|| "never".to_owned(), |at| format!("{at:.2} s"));
    let row = vec![
        whole(storm.gateways as f64),
        format!("{:.2} s", storm.ready - storm.stopped),
        since(storm.all_attached),
        since(storm.all_publish),
        whole(storm.acknowledged_lost as f64),
    ];
    let head = ["gateways", "broker away", "all attached after", "all publish after", "acknowledged and lost"];
    let note = "Seconds since the broker took connections again.";
    Section::new("Reconnect storm", note, &head, vec![row])
}

fn host(run: &RunResult) -> Option<Section> {
    let host = run.host.as_ref()?;
    let row = vec![
        host.processors.to_string(),
        number(host.busy_cores),
        number(host.other_cores),
        number(host.steal_cores),
        number(host.iowait_cores),
        number(host.load_before),
        if host.is_noisy() { "noisy" } else { "quiet" }.to_owned(),
    ];
    let head =
        ["processors", "busy", "busy with other processes", "taken away by the host", "waiting for storage", "load average before", "host"];
    let note = "Processors on average over the window. A host is noisy when other processes use more than 5 % of it, or more than 1 % is taken away.";
    Section::new("Host", note, &head, vec![row])
}

fn correctness(run: &RunResult) -> Option<Section> {
    let row = |application: &crate::result::ApplicationCheck| {
        let counts =
            [application.received, application.duplicates, application.ordering_violations, application.invalid, application.missing];
        std::iter::once(application.name.clone()).chain(counts.map(|count| whole(count as f64))).collect()
    };
    let head = ["application", "received", "duplicates", "out of order", "invalid", "missing"];
    let note = "A run is valid when nothing is out of order, invalid or missing. Duplicates are counted and allowed.";
    Section::new("Correctness, warm-up included", note, &head, run.correctness.applications.iter().map(row).collect())
}

/// The broker, the disk and the machine: name and value.
pub(crate) fn conditions(run: &RunResult) -> Vec<(String, String)> {
    let (settings, broker) = (&run.settings, &run.settings.broker);
    let machine = &settings.machine;
    let mut rows = vec![
        ("broker", format!("{} {}", broker.product, broker.version)),
        ("durability", durability(&broker.durability)),
        ("a receipt waits for", broker.receipts.clone()),
        ("storage", disk(run)),
        ("service URL", broker.service_url.clone()),
        ("chosen settings", chosen(run)),
        ("broker's processors", broker.cpus.clone().unwrap_or_else(|| "all".to_owned())),
        ("started as", broker.command.join(" ")),
        ("warm-up", warm_up(&settings.scenario)),
        ("the broker when the window began", age(run)),
        ("entry cache", if run.cache.is_none() { "the broker does not tell of it".to_owned() } else { String::new() }),
        (
            "machine",
            format!(
                "{}, {} processors, {} of memory, {}",
                machine.processor,
                machine.processors,
                megabytes(machine.memory as f64),
                machine.kernel
            ),
        ),
        ("load generator", settings.program.clone()),
        ("seed", settings.seed.to_string()),
        ("changed on the command line", settings.overrides.join(", ")),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What was sent before the window; nothing for a record that does not tell.
fn warm_up(scenario: &Value) -> String {
    let field = |name: &str| scenario.pointer(&format!("/warmUp/{name}")).and_then(Value::as_f64).filter(|value| *value > 0.0);
    let length = [field("seconds").map(seconds), field("messages").map(|messages| format!("{} messages", whole(messages)))];
    let length = length.into_iter().flatten().collect::<Vec<_>>().join(" or ");
    match (length.is_empty(), field("rounds")) {
        (true, Some(_)) => "none".to_owned(),
        (false, Some(rounds)) => {
            let rounds = if rounds > 1.0 { format!(" in {rounds:.0} rounds") } else { String::new() };
            let pause = field("pauseSeconds").map(|pause| format!(", then {} without load", seconds(pause))).unwrap_or_default();
            format!("{length} of the same load{rounds}, received in full{pause}; checked and not measured")
        }
        _ => String::new(),
    }
}

fn age(run: &RunResult) -> String {
    let Some(broker) = run.brokers.first() else { return String::new() };
    let aged = broker.age_seconds.zip(broker.cpu_seconds_before);
    aged.map(|(age, cpu)| format!("its process was {} old and had used {} of CPU", seconds(age), seconds(cpu))).unwrap_or_default()
}

fn durability(durability: &Durability) -> String {
    match durability {
        Durability::NotDurable(reasons) => format!("{}: {}", durability.label(), reasons.join("; ")),
        _ => durability.label().to_owned(),
    }
}

fn disk(run: &RunResult) -> String {
    let disk = &run.settings.broker.disk;
    let limit = disk.write_limit.map(|bytes| format!("writes held to {} a second", megabytes(bytes as f64)));
    let delay = disk.added_sync_ms.map(|ms| format!("{ms} ms added to each sync"));
    let off = disk.sync_off.then(|| "sync switched off".to_owned());
    let file_system = (!disk.file_system.is_empty()).then(|| disk.file_system.clone());
    [file_system, off, limit, delay].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn chosen(run: &RunResult) -> String {
    let chosen = run.settings.broker.chosen.iter().map(|(key, value)| format!("{key}={value}"));
    let chosen: Vec<String> = chosen.collect();
    if chosen.is_empty() { "none, all defaults".to_owned() } else { chosen.join(", ") }
}
