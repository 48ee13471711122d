//! Clusters.

use metadata::clusters::{self, Cluster};
use serde_json::{Map, Value, json};

use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::{Call, optional};

/// GET: names. Tools compare the answer byte by byte.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&call.handle().control(clusters::list).await??)
}

/// GET: where a cluster is reached.
pub(crate) async fn get(call: Call) -> Result<Reply, Refusal> {
    let name = call.param("cluster").to_owned();
    let (cluster, _) = call.handle().control(move |m| clusters::get(m, &name)).await??;
    Reply::json(&cluster)
}

/// PUT: adds a cluster.
pub(crate) async fn create(call: Call) -> Result<Reply, Refusal> {
    let (name, cluster) = named(&call)?;
    call.handle().control(move |m| clusters::create(m, &name, &cluster)).await??;
    Ok(Reply::done())
}

/// POST: replaces a cluster.
pub(crate) async fn update(call: Call) -> Result<Reply, Refusal> {
    let (name, cluster) = named(&call)?;
    call.handle().control(move |m| clusters::update(m, &name, &cluster)).await??;
    Ok(Reply::done())
}

/// DELETE: removes a cluster that nobody uses.
pub(crate) async fn delete(call: Call) -> Result<Reply, Refusal> {
    let name = call.param("cluster").to_owned();
    if name == call.handle().settings().cluster {
        return Err(Refusal::precondition("The cluster of this broker cannot be deleted"));
    }
    call.handle().control(move |m| clusters::delete(m, &name)).await??;
    Ok(Reply::done())
}

/// GET: clusters that a tenant may use in the place of this one.
pub(crate) async fn peers(call: Call) -> Result<Reply, Refusal> {
    let cluster = known(&call).await?;
    Reply::json(cluster.other.get(PEERS).unwrap_or(&json!([])))
}

/// POST: replaces them by others that are there.
pub(crate) async fn set_peers(call: Call) -> Result<Reply, Refusal> {
    let mut cluster = known(&call).await?;
    let peers: Vec<String> = optional(&call.body)?.unwrap_or_default();
    let there = call.handle().control(clusters::list).await??;
    let name = call.param("cluster");
    match peers.iter().find(|peer| !there.contains(peer) || *peer == name) {
        Some(peer) if peer == name => return Err(Refusal::precondition(format!("{name} itself can't be part of peer-list"))),
        Some(peer) => return Err(Refusal::precondition(format!("Peer cluster {peer} does not exist"))),
        None => drop(cluster.other.insert(PEERS.to_owned(), json!(peers))),
    }
    replace(&call, cluster).await
}

/// GET: where a cluster has moved to.
pub(crate) async fn migrated_to(call: Call) -> Result<Reply, Refusal> {
    match known(&call).await?.other.get(MIGRATED_TO) {
        Some(urls) if !urls.is_null() => Reply::json(urls),
        _ => Err(Refusal::not_found("Cluster has not been migrated")),
    }
}

/// POST: notes that a cluster has moved, or has not.
pub(crate) async fn migrate(call: Call) -> Result<Reply, Refusal> {
    let mut cluster = known(&call).await?;
    let urls: Map<String, Value> = optional(&call.body)?.unwrap_or_default();
    cluster.other.insert("migrated".to_owned(), call.query.flag("migrated").into());
    cluster.other.insert(MIGRATED_TO.to_owned(), urls.into());
    replace(&call, cluster).await
}

/// GET: none of what only several brokers need.
pub(crate) async fn nothing_by_name(call: Call) -> Result<Reply, Refusal> {
    known(&call).await?;
    Reply::json(&json!({}))
}

const PEERS: &str = "peerClusterNames";
const MIGRATED_TO: &str = "migratedClusterUrl";

async fn known(call: &Call) -> Result<Cluster, Refusal> {
    let name = call.param("cluster").to_owned();
    Ok(call.handle().control(move |m| clusters::get(m, &name)).await??.0)
}

async fn replace(call: &Call, cluster: Cluster) -> Result<Reply, Refusal> {
    let name = call.param("cluster").to_owned();
    call.handle().control(move |m| clusters::update(m, &name, &cluster)).await??;
    Ok(Reply::done())
}

fn named(call: &Call) -> Result<(String, Cluster), Refusal> {
    Ok((call.param("cluster").to_owned(), optional(&call.body)?.unwrap_or_default()))
}
