//! The one task that looks at the broker by itself: once a second while somebody listens, every ten seconds once anybody has looked
//! at all, and never before.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::alarms;
use super::overview;
use crate::Site;
use crate::errors::Refusal;
use crate::process::ProcessStats;

const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(10);
/// Topics are counted no more often than this for those who only listen.
const COUNTED: Duration = Duration::from_secs(5);

/// Begins looking, on this loop, unless that has begun.
pub(crate) fn begin(site: &Arc<Site>) {
    if !site.own.sampling.swap(true, Ordering::AcqRel) {
        tokio::task::spawn_local(run(site.clone()));
    }
}

async fn run(site: Arc<Site>) {
    let mut look = 0;
    loop {
        let wanted = site.own.events.wanted();
        let often = !wanted.is_empty() || site.own.series.is_watched();
        // Where nobody was told anything yet, the first look is at once.
        if let Ok(stats) = site.handle.stats(false).await {
            site.own.series.record(&stats);
        }
        for channel in wanted {
            match state(&site, &channel).await {
                Ok(state) => site.own.events.tell_state(&channel, look, state),
                Err(refusal) => tracing::debug!(channel, reason = refusal.reason, "a channel of events has no state"),
            }
        }
        look += 1;
        let pause = if often { OFTEN } else { SELDOM };
        if timeout(pause, site.own.pulse.notified()).await.is_ok() && often {
            // Somebody new listens: a moment later everybody is told, and no sooner than the rates can be told.
            tokio::time::sleep(OFTEN / 2).await;
        }
    }
}

async fn state(site: &Arc<Site>, channel: &str) -> Result<Value, Refusal> {
    let spelt = |error: serde_json::Error| Refusal::internal(error.to_string());
    match channel {
        "overview" => serde_json::to_value(overview::look(site, COUNTED).await?).map_err(spelt),
        "connections" => {
            let stats = site.handle.stats(false).await?;
            let sum = |of: fn(&server::WorkerStats) -> u64| stats.workers.iter().map(of).sum::<u64>();
            Ok(json!({
                "connections": sum(|w| w.connections),
                "connectionsTotal": sum(|w| w.connections_total),
                "authenticationFailures": sum(|w| w.authentication_failures),
                "protocolErrors": sum(|w| w.protocol_errors),
                "refused": stats.connections_refused,
            }))
        }
        "alarms" => {
            let stats = site.handle.stats(false).await?;
            let process = site.handle.control(|_| ProcessStats::read()).await?;
            Ok(json!({ "alarms": alarms::look(site, &stats, &process) }))
        }
        topic => {
            let name = topic.strip_prefix("topic:").unwrap_or(topic);
            let topics = site.own.inventory.topics(&site.handle, OFTEN).await?;
            let found = topics.topics.binary_search_by(|row| row.name.as_str().cmp(name)).ok().and_then(|at| topics.topics.get(at));
            let row = found.ok_or_else(|| Refusal::not_found(format!("Topic {name} not found")))?;
            serde_json::to_value(row).map_err(spelt)
        }
    }
}
