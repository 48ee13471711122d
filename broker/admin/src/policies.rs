//! Policies of a namespace, one by one: what is stored, and null for what is left to the configuration.

use metadata::namespaces::{self, NamespaceError, Policies};
use serde_json::Value;

use crate::address::path;
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::{Call, optional};

const DEDUPLICATION: &str = "deduplicationEnabled";

/// GET: whether messages that are sent twice are stored once.
pub(crate) async fn deduplication(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&crate::namespaces::policies(&call).await?.deduplication())
}

/// POST: switches deduplication on or off, for loaded topics too.
pub(crate) async fn set_deduplication(call: Call) -> Result<Reply, Refusal> {
    let enabled: bool = optional(&call.body)?.ok_or_else(|| Refusal::bad_request("The body is true or false"))?;
    set(&call, DEDUPLICATION, Value::Bool(enabled)).await
}

/// DELETE: leaves deduplication to the configuration.
pub(crate) async fn unset_deduplication(call: Call) -> Result<Reply, Refusal> {
    change(&call, |policies| {
        policies.unset(DEDUPLICATION);
        Ok(())
    })
    .await
}

/// Sets a policy, by its name in the JSON.
pub(crate) async fn set(call: &Call, field: &'static str, value: Value) -> Result<Reply, Refusal> {
    change(call, move |policies| policies.set(field, &value).map_err(Into::into)).await
}

async fn change(call: &Call, change: impl Fn(&mut Policies) -> Result<(), NamespaceError> + Send + 'static) -> Result<Reply, Refusal> {
    let namespace = call.namespace()?;
    call.handle().control(move |m| namespaces::update(m, path(&namespace), change)).await??;
    Ok(Reply::done())
}
