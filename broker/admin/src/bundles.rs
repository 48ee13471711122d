//! Bundles of a namespace: what they are, and letting go of what is in them.

use std::collections::BTreeMap;

use metadata::namespaces::Bundles;
use wire::{BundleRange, Domain, TopicName, names};

use crate::errors::Refusal;
use crate::namespaces::policies;
use crate::reply::Reply;
use crate::request::{Call, optional};

/// GET: the hash ranges the namespace is divided into.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&bundles(&call).await?)
}

/// PUT: lets go of every topic of the namespace; clients come back by themselves.
pub(crate) async fn unload_all(call: Call) -> Result<Reply, Refusal> {
    policies(&call).await?;
    call.handle().unload_namespace(call.namespace()?, None).await?;
    Ok(Reply::done())
}

/// PUT: lets go of every topic of a bundle. There is one broker to come back to, whatever `destinationBroker` says.
pub(crate) async fn unload(call: Call) -> Result<Reply, Refusal> {
    let bundle = bundle(&call).await?;
    call.handle().unload_namespace(call.namespace()?, Some(bundle)).await?;
    Ok(Reply::done())
}

/// PUT: would divide a bundle. One broker serves all of them whatever their size, so that nothing is divided; the call is looked at
/// and answered as if it had been.
pub(crate) async fn split(call: Call) -> Result<Reply, Refusal> {
    let bundle = bundle(&call).await?;
    let algorithm = call.query.get("splitAlgorithmName").filter(|name| !name.is_empty()).unwrap_or(ALGORITHMS[0]);
    if !ALGORITHMS.contains(&algorithm) {
        let known = ALGORITHMS.join(", ");
        return Err(Refusal::precondition(format!("Unsupported namespace bundle split algorithm {algorithm}, supported are {known}")));
    }
    let boundaries: Vec<i64> = optional(&call.body)?.unwrap_or_default();
    let outside = boundaries.iter().find(|hash| !u32::try_from(**hash).is_ok_and(|hash| bundle.contains(hash)));
    match outside {
        Some(hash) => Err(Refusal::precondition(format!("{hash} is no hash of this bundle"))),
        None => Ok(Reply::done()),
    }
}

/// GET: hashes of the topics of a bundle, all or those asked for.
pub(crate) async fn hash_positions(call: Call) -> Result<Reply, Refusal> {
    let bundle = bundle(&call).await?;
    let asked: Vec<String> = call.query.all("topics").map(str::to_owned).collect();
    let topics = match asked.is_empty() {
        true => call.handle().topics(call.namespace()?, Domain::Persistent).await?,
        false => asked.iter().filter_map(|name| name.parse::<TopicName>().ok()).collect(),
    };
    let hashed = topics.into_iter().map(|name| (names::hash_of_topic(&name), name)).filter(|(hash, _)| bundle.contains(*hash));
    let positions: BTreeMap<String, u32> = hashed.map(|(hash, name)| (name.to_string(), hash)).collect();
    Reply::json(&serde_json::json!({
        "namespace": call.namespace()?.as_str(),
        "bundle": call.param("bundle"),
        "topicHashPositions": positions,
    }))
}

const ALGORITHMS: [&str; 4] =
    ["range_equally_divide", "topic_count_equally_divide", "specified_positions_divide", "flow_or_qps_equally_divide"];

async fn bundles(call: &Call) -> Result<Bundles, Refusal> {
    policies(call).await?.bundles().ok_or_else(|| Refusal::internal("The namespace has no bundles"))
}

/// The bundle in the path, which is one of the namespace.
pub(crate) async fn bundle(call: &Call) -> Result<BundleRange, Refusal> {
    let asked = call.param("bundle");
    let range: BundleRange = match asked {
        "LARGEST" | "HOT" => return first(&bundles(call).await?),
        text => text.parse().map_err(|error: names::BundleRangeError| Refusal::precondition(error.to_string()))?,
    };
    let known = bundles(call).await?;
    match known.of(range.lower()) == (range.lower(), range.upper()) {
        true => Ok(range),
        false => Err(Refusal::precondition(format!("Failed to find bundle {asked} in the bundles of {}", call.namespace()?))),
    }
}

/// Which one is the largest makes no difference where nothing is divided.
fn first(bundles: &Bundles) -> Result<BundleRange, Refusal> {
    let (lower, upper) = bundles.of(0);
    BundleRange::new(lower, upper).map_err(|error| Refusal::internal(error.to_string()))
}
