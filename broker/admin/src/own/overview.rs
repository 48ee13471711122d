//! The broker at one glance, and what this API can do.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::alarms::{self, Alarm};
use super::inventory::LASTS;
use super::series::Rates;
use crate::Site;
use crate::errors::Refusal;
use crate::process::ProcessStats;
use crate::reply::Reply;
use crate::request::Call;

/// See the module.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    cluster: String,
    version: &'static str,
    uptime_ms: u64,
    /// None until two samples were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<Rates>,
    counts: Counts,
    msg_backlog: u64,
    storage: Storage,
    cache: Cache,
    process: Process,
    loops: Vec<Loop>,
    alarms: Vec<Alarm>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    topics: u64,
    topics_loaded: u64,
    subscriptions: u64,
    producers: u64,
    consumers: u64,
    /// Pulsar and HTTP.
    connections: u64,
    connections_refused: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Storage {
    bytes: u64,
    writable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cache {
    bytes: u64,
    limit_bytes: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_files: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_open_files: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Loop {
    worker: u16,
    turns: u64,
    letters: u64,
    connections: u64,
    topics: u64,
    pending_publish_bytes: u64,
    out_buffer_bytes: u64,
}

/// What there is to see now; numbers of topics may be as old as `lasts`.
///
/// # Errors
/// A broker that stops, a store that fails.
pub(crate) async fn look(site: &Site, lasts: Duration) -> Result<Overview, Refusal> {
    let topics = site.own.inventory.topics(&site.handle, lasts).await?;
    let stats = site.handle.stats(false).await?;
    let process = site.handle.control(|_| ProcessStats::read()).await?;
    let alarms = alarms::look(site, &stats, &process);
    let sum = |of: fn(&server::WorkerStats) -> u64| stats.workers.iter().map(of).sum::<u64>();
    let of_topics = |of: fn(&super::rows::TopicRow) -> u64| topics.topics.iter().map(of).sum::<u64>();
    let loops = stats.workers.iter().map(|w| Loop {
        worker: w.worker,
        turns: w.turns,
        letters: w.letters,
        connections: w.connections,
        topics: w.topics,
        pending_publish_bytes: w.pending_publish_bytes,
        out_buffer_bytes: w.out_buffer_bytes,
    });
    Ok(Overview {
        cluster: site.handle.settings().cluster.clone(),
        version: env!("CARGO_PKG_VERSION"),
        uptime_ms: u64::try_from(site.own.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        rates: site.own.series.rates(),
        counts: Counts {
            topics: topics.topics.len() as u64,
            topics_loaded: sum(|w| w.topics),
            subscriptions: topics.subscriptions.len() as u64,
            producers: of_topics(|row| row.producers),
            consumers: of_topics(|row| row.consumers),
            connections: sum(|w| w.connections),
            connections_refused: stats.connections_refused,
        },
        msg_backlog: of_topics(|row| row.msg_backlog),
        storage: Storage {
            bytes: of_topics(|row| row.storage_size),
            writable: stats.storage_problem.is_none(),
            problem: stats.storage_problem.clone(),
        },
        cache: Cache { bytes: sum(|w| w.cache_bytes), limit_bytes: site.handle.settings().cache_bytes },
        process: Process {
            cpu_seconds: process.cpu_seconds,
            resident_bytes: process.resident_bytes,
            open_files: process.open_fds,
            max_open_files: process.max_fds,
        },
        loops: loops.collect(),
        alarms,
    })
}

/// GET: the broker at one glance.
pub(crate) async fn overview(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&look(&call.site, LASTS).await?)
}

/// GET: what this API can do, and where.
pub(crate) async fn capabilities(call: Call) -> Result<Reply, Refusal> {
    let options = call.options();
    let features: Value = json!({
        "authentication": call.handle().asks_who(),
        "readOnly": options.read_only,
        "runtimeConfiguration": true,
        "events": true,
        "audit": options.audit.is_some(),
        "definitions": true,
    });
    Reply::json(&json!({
        "product": "Geminga",
        "version": env!("CARGO_PKG_VERSION"),
        "commit": options.commit,
        "pulsarLevel": options.pulsar_level,
        "cluster": call.handle().settings().cluster,
        "features": features,
        "limits": {
            "bodyBytes": options.max_body_bytes,
            "pageSize": 1000,
            "eventStreams": super::events::MOST_STREAMS,
        },
        "links": {
            "openapi": "/geminga/openapi.json",
            "pulsarOpenapi": "/geminga/openapi/pulsar-v2.json",
            "overview": "/geminga/v1/overview",
            "events": "/geminga/v1/events",
            "whoami": "/geminga/v1/whoami",
        },
    }))
}
