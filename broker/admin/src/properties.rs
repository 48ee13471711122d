//! What users note on namespaces: names with values.

use std::collections::BTreeMap;

use metadata::namespaces::Policies;
use serde_json::{Map, Value};

use crate::errors::Refusal;
use crate::namespaces::policies;
use crate::policies::{Refused, change_namespace};
use crate::reply::Reply;
use crate::request::{Call, optional};

/// GET: everything that is noted on a namespace.
pub(crate) async fn of_namespace(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&noted(&policies(&call).await?))
}

/// PUT: adds to that.
pub(crate) async fn add_to_namespace(call: Call) -> Result<Reply, Refusal> {
    let added = body(&call)?;
    note_on_namespace(&call, move |noted| noted.extend(added.clone())).await
}

/// DELETE: forgets all of it.
pub(crate) async fn clear_namespace(call: Call) -> Result<Reply, Refusal> {
    note_on_namespace(&call, Map::clear).await
}

/// GET: one value, as text.
pub(crate) async fn one_of_namespace(call: Call) -> Result<Reply, Refusal> {
    match noted(&policies(&call).await?).get(call.param("key")).and_then(Value::as_str) {
        Some(value) => Ok(Reply::text(value.to_owned())),
        None => Ok(Reply::done()),
    }
}

/// PUT: notes one value.
pub(crate) async fn set_one_of_namespace(call: Call) -> Result<Reply, Refusal> {
    let (key, value) = (call.param("key").to_owned(), call.param("value").to_owned());
    note_on_namespace(&call, move |noted| drop(noted.insert(key.clone(), value.clone().into()))).await
}

/// DELETE: forgets one value, and tells it.
pub(crate) async fn remove_one_of_namespace(call: Call) -> Result<Reply, Refusal> {
    let key = call.param("key").to_owned();
    let before = noted(&policies(&call).await?).get(&key).and_then(Value::as_str).map(str::to_owned);
    note_on_namespace(&call, move |noted| drop(noted.shift_remove(&key))).await?;
    Ok(before.map_or_else(Reply::done, Reply::text))
}

async fn note_on_namespace(call: &Call, change: impl Fn(&mut Map<String, Value>) + Send + 'static) -> Result<Reply, Refusal> {
    let changed = change_namespace(call, move |policies| {
        let mut noted = noted(policies);
        change(&mut noted);
        policies.set(FIELD, noted)
    });
    changed.await.map_err(Refused::into_refusal)?;
    Ok(Reply::done())
}

fn noted(policies: &Policies) -> Map<String, Value> {
    policies.field(FIELD).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn body(call: &Call) -> Result<Map<String, Value>, Refusal> {
    let given: BTreeMap<String, String> = optional(&call.body)?.unwrap_or_default();
    Ok(given.into_iter().map(|(key, value)| (key, value.into())).collect())
}

const FIELD: &str = "properties";
