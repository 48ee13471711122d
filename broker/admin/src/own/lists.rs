//! The lists that people look at: topics, subscriptions, producers, consumers, connections; and one topic as a whole.

use std::collections::BTreeMap;

use serde::Serialize;

use super::inventory::LASTS;
use super::page::{Listing, Page};
use super::rows::{ClientRow, ConnectionRow};
use crate::errors::Refusal;
use crate::json::{InternalStats, Shown, TopicStatsJson};
use crate::reply::Reply;
use crate::request::Call;
use crate::topics::parts;

/// GET: all topics, loaded or not; partitions are folded.
pub(crate) async fn topics(call: Call) -> Result<Reply, Refusal> {
    let (listing, all) = (Listing::read(&call.query)?, call.site.own.inventory.topics(call.handle(), LASTS).await?);
    page(&call, move || listing.of(&all.topics)).await
}

/// GET: subscriptions of all topics that are loaded.
pub(crate) async fn subscriptions(call: Call) -> Result<Reply, Refusal> {
    let (listing, all) = (Listing::read(&call.query)?, call.site.own.inventory.topics(call.handle(), LASTS).await?);
    page(&call, move || listing.of(&all.subscriptions)).await
}

/// GET: producers of all topics, partition by partition.
pub(crate) async fn producers(call: Call) -> Result<Reply, Refusal> {
    let (listing, all) = (Listing::<ClientRow>::read(&call.query)?, call.site.own.inventory.clients(call.handle()).await?);
    page(&call, move || listing.of(&all.producers)).await
}

/// GET: consumers of all topics, partition by partition.
pub(crate) async fn consumers(call: Call) -> Result<Reply, Refusal> {
    let (listing, all) = (Listing::<ClientRow>::read(&call.query)?, call.site.own.inventory.clients(call.handle()).await?);
    page(&call, move || listing.of(&all.consumers)).await
}

/// GET: connections of the Pulsar protocol.
pub(crate) async fn connections(call: Call) -> Result<Reply, Refusal> {
    let (listing, all) = (Listing::<ConnectionRow>::read(&call.query)?, call.handle().connections().await?);
    page(&call, move || listing.of(&all.into_iter().map(ConnectionRow::from).collect::<Vec<_>>())).await
}

/// POST: closes a connection; its client comes back by itself.
pub(crate) async fn close_connection(call: Call) -> Result<Reply, Refusal> {
    let id = call.param("connection");
    match call.handle().close_connection(id).await? {
        true => Ok(Reply::done()),
        false => Err(Refusal::not_found(format!("There is no connection {id} (any more)"))),
    }
}

/// Sorts and cuts where it takes no time from the loop.
async fn page(call: &Call, make: impl FnOnce() -> Result<Page, Refusal> + Send + 'static) -> Result<Reply, Refusal> {
    let spelt = call.handle().control(move |_| {
        let page = make()?;
        serde_json::to_vec(&page).map_err(|error| Refusal::internal(format!("the answer cannot be spelt: {error}")))
    });
    Ok(Reply::spelt(spelt.await??))
}

/// A topic as a whole.
#[derive(Serialize)]
struct Detail {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<usize>,
    /// By name: the topic itself, or each of its partitions.
    parts: BTreeMap<String, Part>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    stats: TopicStatsJson,
    internal_stats: InternalStats,
}

/// GET: numbers, ledgers and cursors of a topic, part by part.
pub(crate) async fn topic(call: Call) -> Result<Reply, Refusal> {
    let name = call.topic()?;
    let names = parts(&call, name.clone()).await?;
    let partitions = (names.first() != Some(&name)).then_some(names.len());
    let mut detail = Detail { name: name.to_string(), partitions, parts: BTreeMap::new() };
    for part in names {
        let stats = call.handle().topic_stats(part.clone()).await?;
        let owner = crate::brokers::id(call.handle());
        let all = Shown { publishers: true, consumers: true };
        let part_of = Part { stats: TopicStatsJson::new(stats.clone(), all, owner), internal_stats: InternalStats::new(stats) };
        detail.parts.insert(part.to_string(), part_of);
    }
    Reply::json(&detail)
}
