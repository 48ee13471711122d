//! Runs made by hand: no broker, the shape of a real one.

use std::f64::consts::TAU;

use geminga_perf::result::{
    ApplicationCheck, Backlog, BacklogPoint, BrokerUnderTest, CacheUse, CatchUp, Correctness, Disk, Durability, FORMAT, HostUse, Latencies,
    LatencyPoint, LatencySummary, Machine, ProcessPoint, ProcessUse, ReconnectStorm, RunResult, Settings, ThreadKind, ThreadShare,
    ThreadShares, Throughput, ThroughputPoint, Window, new_histogram,
};
use serde_json::json;

const WARM_UP: i32 = 10;
const MEASURED: i32 = 60;
const DRAIN: i32 = 5;

/// What may be chosen about a run made by hand.
pub(crate) struct Made {
    pub(crate) product: &'static str,
    /// Published a second.
    pub(crate) rate: f64,
    /// Microseconds, about the median of a receipt.
    pub(crate) latency: f64,
    /// CPU seconds of the broker per million.
    pub(crate) cpu: f64,
    pub(crate) loops: usize,
    pub(crate) busy_loops: usize,
    /// What is worth a different value in each run of a set.
    pub(crate) seed: u64,
    pub(crate) precreate: u64,
}

impl Default for Made {
    fn default() -> Self {
        Self { product: "Geminga", rate: 400_000.0, latency: 1_500.0, cpu: 1.1, loops: 4, busy_loops: 4, seed: 1, precreate: 32 }
    }
}

/// A valid run with everything in it.
pub(crate) fn run(made: &Made) -> RunResult {
    let mut random = fastrand::Rng::with_seed(made.seed);
    let published = made.rate * f64::from(MEASURED);
    let (publish, end_to_end) = (latency(made.latency, &mut random), latency(made.latency * 1.6, &mut random));
    let applications = ["billing", "alerts", "archive"];
    RunResult {
        format: FORMAT,
        scenario: "iot-telemetry-catch-up-2core".to_owned(),
        started_at_ms: 1_796_051_045_000,
        settings: settings(made),
        correctness: Correctness {
            published: published as u64,
            applications: applications.map(|name| check(name, published as u64)).to_vec(),
            ..Correctness::default()
        },
        throughput: throughput(made, &mut random),
        latency: Latencies {
            applications: applications.map(|name| (name.to_owned(), latency(made.latency * 1.6, &mut random))).to_vec(),
            publish,
            end_to_end,
        },
        backlog: backlog(made, &applications),
        catch_up: vec![
            CatchUp {
                application: "alerts".to_owned(),
                joined: 20.0,
                backlog_at_join: 600_000,
                since_run_start: Some(31.4),
                since_join: Some(11.4),
            },
            CatchUp {
                application: "archive".to_owned(),
                joined: 50.0,
                backlog_at_join: 1_500_000,
                since_run_start: None,
                since_join: None,
            },
        ],
        brokers: vec![broker(made, published, &mut random)],
        generator: Some(generator(&mut random)),
        cache: Some(CacheUse {
            source: "/metrics".to_owned(),
            hits: 23_000_000,
            misses: 120_000,
            storage_reads: Some(1_300),
            storage_entries: Some(120_000),
            storage_bytes: None,
        }),
        host: Some(HostUse { processors: 2, load_before: 0.4, busy_cores: 1.9, other_cores: 0.02, ..HostUse::default() }),
        reconnect: Some(storm(&mut random)),
        remarks: Vec::new(),
    }
}

fn settings(made: &Made) -> Settings {
    let precreate = made.precreate;
    Settings {
        scenario: json!({"gateways": {"count": 500, "producer": {"precreate": true, "precreateConcurrency": precreate}}, "topics": 30}),
        overrides: vec!["topics=30".to_owned()],
        seed: 7,
        program: "geminga perf 0.1.0".to_owned(),
        broker: BrokerUnderTest {
            product: made.product.to_owned(),
            version: "0.1.0".to_owned(),
            service_url: "pulsar://127.0.0.1:6650".to_owned(),
            admin_url: "http://127.0.0.1:8080".to_owned(),
            command: vec!["geminga".to_owned(), "--data".to_owned(), "/tmp/x".to_owned()],
            chosen: [("numIOThreads".to_owned(), made.loops.to_string())].into(),
            cpus: Some("0-1".to_owned()),
            disk: Disk { file_system: "ext4".to_owned(), ..Disk::default() },
            durability: Durability::Durable,
            receipts: "a sync of the log".to_owned(),
        },
        machine: Machine { processor: "AMD EPYC".to_owned(), processors: 2, memory: 24 << 30, kernel: "Linux 6.18".to_owned() },
    }
}

fn check(name: &str, received: u64) -> ApplicationCheck {
    ApplicationCheck { name: name.to_owned(), received, duplicates: 3, ..ApplicationCheck::default() }
}

fn jitter(random: &mut fastrand::Rng, share: f64) -> f64 {
    1.0 + (random.f64() - 0.5) * 2.0 * share
}

fn throughput(made: &Made, random: &mut fastrand::Rng) -> Throughput {
    let timeline = (1 - WARM_UP..=MEASURED + DRAIN).map(|second| {
        let published = if (-2..0).contains(&second) || second > MEASURED { 0.0 } else { made.rate * jitter(random, 0.04) };
        let delivered = if second > MEASURED { made.rate } else { published * 2.4 * jitter(random, 0.05) };
        ThroughputPoint { second: f64::from(second), published, delivered }
    });
    let timeline: Vec<_> = timeline.collect();
    let count = (made.rate * f64::from(MEASURED) * jitter(random, 0.01)) as u64;
    let window = Window {
        seconds: f64::from(MEASURED),
        published: count,
        published_bytes: count * 128,
        delivered: count * 3,
        offered_per_second: None,
        applications: 3,
    };
    Throughput { window, timeline }
}

fn latency(median: f64, random: &mut fastrand::Rng) -> LatencySummary {
    let mut all = new_histogram();
    let timeline = (1..=MEASURED).map(|second| {
        let mut one = new_histogram();
        for _ in 0..2_000 {
            let normal = (-2.0 * random.f64().max(1e-12).ln()).sqrt() * (TAU * random.f64()).cos();
            let stall = if second == 31 { 4.0 } else { 1.0 };
            one.saturating_record((median * stall * (normal * 0.4).exp()) as u64);
        }
        all.add(&one).expect("the same bounds");
        LatencyPoint::of(f64::from(second), &one)
    });
    let timeline = timeline.collect();
    LatencySummary::of(&all, timeline)
}

fn backlog(made: &Made, applications: &[&str]) -> Backlog {
    let waiting = |second: f64, joined: f64| {
        let caught_up = joined * 1.6;
        if second < joined { second * made.rate / 10.0 } else { (caught_up - second).max(0.0) * made.rate / 6.0 }
    };
    let point = |second| BacklogPoint {
        second: f64::from(second),
        messages: [0.0, 20.0, 50.0].map(|joined| waiting(f64::from(second), joined) as u64 + 900).to_vec(),
    };
    let applications = applications.iter().map(|&name| name.to_owned()).collect();
    Backlog { applications, timeline: (0..=MEASURED + DRAIN).map(point).collect() }
}

fn broker(made: &Made, published: f64, random: &mut fastrand::Rng) -> ProcessUse {
    let cpu_seconds = made.cpu * published / 1e6 * jitter(random, 0.02);
    let cores = cpu_seconds / f64::from(MEASURED);
    let thread =
        |name: String, kind, share: f64| ThreadShare { name, kind, share, voluntary_switches: 4_000.0, involuntary_switches: 90.0 };
    let mut threads: Vec<ThreadShare> = (0..made.loops)
        .map(|at| {
            let share = if at % made.loops.div_ceil(made.busy_loops) == 0 { cores * 0.8 / made.busy_loops as f64 } else { 0.01 };
            thread(format!("geminga-io-{at}"), ThreadKind::Loop, share)
        })
        .collect();
    threads.push(thread("log-writer".to_owned(), ThreadKind::LogWriter, cores * 0.18));
    threads.push(thread("geminga-ctl-0".to_owned(), ThreadKind::Helper, 0.008));
    threads.push(thread("log-read-0".to_owned(), ThreadKind::Helper, 0.002));
    let timeline = (-WARM_UP..=MEASURED + DRAIN).map(|second| ProcessPoint {
        second: f64::from(second),
        cores: cores * jitter(random, 0.08),
        rss: 60_000_000 + (second + WARM_UP) as u64 * 400_000,
    });
    ProcessUse {
        name: "broker".to_owned(),
        age_seconds: Some(31.0),
        cpu_seconds_before: Some(24.0),
        seconds: f64::from(MEASURED),
        cpu_seconds,
        system_seconds: cpu_seconds * 0.6,
        rss_mean: 72_000_000,
        rss_max: 90_000_000,
        voluntary_switches: 900_000,
        involuntary_switches: 40_000,
        written_bytes: Some(6_000_000_000),
        threads: Some(ThreadShares { from: 22.5, seconds: 15.0, loops: made.loops as u64, busy_loops: made.busy_loops as u64, threads }),
        timeline: timeline.collect(),
    }
}

fn generator(random: &mut fastrand::Rng) -> ProcessUse {
    let timeline = (-WARM_UP..=MEASURED + DRAIN).map(|second| ProcessPoint {
        second: f64::from(second),
        cores: 0.9 * jitter(random, 0.08),
        rss: 300_000_000,
    });
    ProcessUse {
        name: "load generator".to_owned(),
        seconds: f64::from(MEASURED),
        cpu_seconds: 54.0,
        rss_max: 300_000_000,
        rss_mean: 300_000_000,
        timeline: timeline.collect(),
        ..ProcessUse::default()
    }
}

fn storm(random: &mut fastrand::Rng) -> ReconnectStorm {
    let mut publish_again: Vec<f64> = (0..500).map(|_| 0.2 + random.f64() * random.f64() * 1.3).collect();
    publish_again.sort_by(f64::total_cmp);
    let all_publish = publish_again.last().copied();
    ReconnectStorm { gateways: 500, stopped: 30.0, ready: 30.4, all_attached: Some(0.9), all_publish, publish_again, acknowledged_lost: 0 }
}

/// Addresses in a page that a browser would ask somebody for.
pub(crate) fn references(page: &str) -> Vec<String> {
    let asking = regex_lite::Regex::new(r#"(?i)(?:src|href|srcset|action|xlink:href)\s*=\s*"([^"]*)"|url\(([^)]*)\)|@import"#).unwrap();
    let found = asking.captures_iter(page).map(|found| found.get(1).or_else(|| found.get(2)).map_or("@import", |m| m.as_str()).to_owned());
    found.filter(|address| address != "data:,").collect()
}
