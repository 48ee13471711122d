//! Policies of a namespace, one by one: what is stored, and null for what is left to the configuration.

use metadata::namespaces::{self, DelayedDelivery, NamespaceError, Policies};
use serde_json::Value;

use crate::address::path;
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::{Call, integer, optional};

const DEDUPLICATION: &str = "deduplicationEnabled";
const MESSAGE_TTL: &str = "message_ttl_in_seconds";
const DELAYED_DELIVERY: &str = "delayed_delivery_policies";

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
    unset(&call, DEDUPLICATION).await
}

/// GET: after how many seconds messages expire that nobody acks; 0 is never.
pub(crate) async fn message_ttl(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&crate::namespaces::policies(&call).await?.message_ttl_seconds())
}

/// POST: has messages expire, in loaded topics too.
pub(crate) async fn set_message_ttl(call: Call) -> Result<Reply, Refusal> {
    let seconds = u32::try_from(integer(&call.body)?).map_err(|_| Refusal::precondition("Invalid value for message TTL"))?;
    change(&call, move |policies| policies.set(MESSAGE_TTL, seconds).map_err(Into::into)).await
}

/// DELETE: leaves it to the configuration.
pub(crate) async fn unset_message_ttl(call: Call) -> Result<Reply, Refusal> {
    unset(&call, MESSAGE_TTL).await
}

/// GET: whether messages may be delivered later than they come, and how late.
pub(crate) async fn delayed_delivery(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&crate::namespaces::policies(&call).await?.delayed_delivery())
}

/// POST: replaces that, for loaded topics too.
pub(crate) async fn set_delayed_delivery(call: Call) -> Result<Reply, Refusal> {
    let wanted: DelayedDelivery = optional(&call.body)?.ok_or_else(|| Refusal::bad_request("The body is an object"))?;
    change(&call, move |policies| policies.set(DELAYED_DELIVERY, wanted).map_err(Into::into)).await
}

/// DELETE: leaves it to the configuration.
pub(crate) async fn unset_delayed_delivery(call: Call) -> Result<Reply, Refusal> {
    unset(&call, DELAYED_DELIVERY).await
}

async fn unset(call: &Call, field: &'static str) -> Result<Reply, Refusal> {
    change(call, move |policies| {
        policies.unset(field);
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
