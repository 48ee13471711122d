//! Clusters that a namespace or a topic is replicated to, and those that a namespace may be used from: kept, as there is no
//! replication, but only if there are such clusters.

use metadata::clusters;
use metadata::namespaces::{self, Policies};
use serde_json::json;
use server::Said;

use super::doors::{Refused, change_topic, require_topic};
use crate::address::path;
use crate::errors::Refusal;
use crate::policies::change_namespace;
use crate::reply::Reply;
use crate::request::{Call, optional};

/// GET: where a namespace is replicated to.
pub(crate) async fn of_namespace(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&crate::namespaces::policies(&call).await?.replication_clusters())
}

/// POST: replaces that.
pub(crate) async fn set_of_namespace(call: Call) -> Result<Reply, Refusal> {
    let (namespace, wanted) = (call.namespace()?, wanted(&call)?);
    call.handle().control(move |m| namespaces::set_clusters(m, path(&namespace), &wanted)).await??;
    Ok(Reply::done())
}

/// GET: the clusters that a namespace may be used from; all that it is replicated to, if nothing else is said.
pub(crate) async fn allowed(call: Call) -> Result<Reply, Refusal> {
    let policies = crate::namespaces::policies(&call).await?;
    Reply::json(&policies.field("allowed_clusters").cloned().unwrap_or_else(|| json!([])))
}

/// POST: replaces them.
pub(crate) async fn set_allowed(call: Call) -> Result<Reply, Refusal> {
    let wanted = wanted(&call)?;
    require_known(&call, &wanted).await?;
    let replicated = crate::namespaces::policies(&call).await?.replication_clusters();
    if let Some(missing) = replicated.iter().find(|cluster| !wanted.contains(cluster)) {
        return Err(Refusal::bad_request(format!("Allowed clusters do not contain the replication cluster {missing}")));
    }
    change_namespace(&call, move |policies| policies.set("allowed_clusters", &wanted)).await?;
    Ok(Reply::done())
}

/// GET: where a topic is replicated to; `applied` asks for what its namespace says, too.
pub(crate) async fn of_topic(call: Call) -> Result<Reply, Refusal> {
    let Said { topic, namespace } = call.handle().policies_of(require_topic(&call).await?).await?;
    let said = if call.query.flag("applied") { topic.over(&namespace) } else { topic };
    match said.field(FIELD) {
        Some(clusters) => Reply::json(clusters),
        None => Ok(Reply::done()),
    }
}

/// POST: replaces that.
pub(crate) async fn set_of_topic(call: Call) -> Result<Reply, Refusal> {
    let wanted = wanted(&call)?;
    require_known(&call, &wanted).await?;
    change_of_topic(&call, move |policies| policies.set_replication_clusters(&wanted)).await
}

/// DELETE: leaves it to the namespace.
pub(crate) async fn unset_of_topic(call: Call) -> Result<Reply, Refusal> {
    let unset = |policies: &mut Policies| {
        policies.unset(FIELD);
    };
    change_of_topic(&call, unset).await
}

const FIELD: &str = "replication_clusters";

async fn change_of_topic(call: &Call, change: impl Fn(&mut Policies) + Send + 'static) -> Result<Reply, Refusal> {
    let changed = change_topic(call, move |policies| {
        change(policies);
        Ok(())
    });
    changed.await.map_err(Refused::into_refusal)?;
    Ok(Reply::done())
}

fn wanted(call: &Call) -> Result<Vec<String>, Refusal> {
    match optional::<Vec<String>>(&call.body)?.filter(|clusters| !clusters.is_empty()) {
        Some(clusters) if clusters.iter().any(|cluster| cluster == "global") => {
            Err(Refusal::precondition("Cannot specify global in the list of replication clusters"))
        }
        Some(clusters) => Ok(clusters),
        None => Err(Refusal::precondition("ClusterIds should not be null or empty")),
    }
}

async fn require_known(call: &Call, wanted: &[String]) -> Result<(), Refusal> {
    let known = call.handle().control(clusters::list).await??;
    match wanted.iter().find(|cluster| !known.contains(cluster)) {
        Some(stranger) => Err(Refusal::forbidden(format!("Invalid cluster id: {stranger}"))),
        None => Ok(()),
    }
}
