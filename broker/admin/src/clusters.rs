//! Clusters.

use metadata::clusters::{self, Cluster};

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

fn named(call: &Call) -> Result<(String, Cluster), Refusal> {
    Ok((call.param("cluster").to_owned(), optional(&call.body)?.unwrap_or_default()))
}
