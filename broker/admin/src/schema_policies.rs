//! Policies of a namespace on schemas, one by one.

use metadata::schemas::Strategy;
use serde_json::Value;

use crate::errors::Refusal;
use crate::namespaces::policies;
use crate::policies::set;
use crate::reply::Reply;
use crate::request::{Call, word};

/// GET: what may follow what.
pub(crate) async fn strategy(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&policies(&call).await?.schema_strategy().name())
}

/// PUT: sets what may follow what.
pub(crate) async fn set_strategy(call: Call) -> Result<Reply, Refusal> {
    let strategy = Strategy::from_name(&word(&call.body)?).map_err(|error| Refusal::bad_request(error.to_string()))?;
    set(&call, "schema_compatibility_strategy", Value::from(strategy.name())).await
}

/// GET: the same in the words of an older policy, which counts where neither the newer one nor the configuration says anything.
pub(crate) async fn auto_update_strategy(call: Call) -> Result<Reply, Refusal> {
    let policies = policies(&call).await?;
    Reply::json(policies.field("schema_auto_update_compatibility_strategy").unwrap_or(&Value::from("Full")))
}

/// PUT: sets the older policy.
pub(crate) async fn set_auto_update_strategy(call: Call) -> Result<Reply, Refusal> {
    let word = word(&call.body)?;
    Strategy::from_auto_update(&word).map_err(|error| Refusal::bad_request(error.to_string()))?;
    set(&call, "schema_auto_update_compatibility_strategy", Value::from(word)).await
}

/// GET: whether producers without a schema are kept from topics that have one; `?applied=true` asks for what comes of it.
pub(crate) async fn validation(call: Call) -> Result<Reply, Refusal> {
    let policies = policies(&call).await?;
    let applied = call.query.flag("applied") && call.handle().settings().schemas.enforced;
    Reply::json(&(policies.schema_validation().unwrap_or(false) || applied))
}

/// POST: sets whether they are.
pub(crate) async fn set_validation(call: Call) -> Result<Reply, Refusal> {
    set(&call, "schema_validation_enforced", Value::Bool(switch(&call.body)?)).await
}

/// GET: whether producers and consumers add versions by bringing them along.
pub(crate) async fn auto_update(call: Call) -> Result<Reply, Refusal> {
    let policies = policies(&call).await?;
    Reply::json(&policies.allow_schema_update().unwrap_or(call.handle().settings().schemas.auto_update))
}

/// POST: sets whether they do.
pub(crate) async fn set_auto_update(call: Call) -> Result<Reply, Refusal> {
    set(&call, "is_allow_auto_update_schema", Value::Bool(switch(&call.body)?)).await
}

/// `true` or `false`, which some clients put in quotes.
fn switch(body: &[u8]) -> Result<bool, Refusal> {
    word(body)?.parse().map_err(|_| Refusal::bad_request("The body is true or false"))
}
