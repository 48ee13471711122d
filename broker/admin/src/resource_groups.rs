//! Groups of namespaces that share rates, and which group a namespace is in.

use metadata::resource_groups::{self, ResourceGroup};

use crate::errors::Refusal;
use crate::policies::{Refused, change_namespace};
use crate::reply::Reply;
use crate::request::{Call, optional};

/// GET: names.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&call.handle().control(resource_groups::list).await??)
}

/// GET: the rates of a group.
pub(crate) async fn get(call: Call) -> Result<Reply, Refusal> {
    let name = call.param("group").to_owned();
    Reply::json(&call.handle().control(move |m| resource_groups::get(m, &name)).await??)
}

/// PUT: adds a group, or changes what the body says.
pub(crate) async fn put(call: Call) -> Result<Reply, Refusal> {
    let (name, rates) = (call.param("group").to_owned(), optional::<ResourceGroup>(&call.body)?.unwrap_or_default());
    call.handle().control(move |m| resource_groups::put(m, &name, &rates)).await??;
    Ok(Reply::done())
}

/// DELETE: removes a group that no namespace is in.
pub(crate) async fn delete(call: Call) -> Result<Reply, Refusal> {
    let name = call.param("group").to_owned();
    call.handle().control(move |m| resource_groups::delete(m, &name)).await??;
    Ok(Reply::done())
}

/// GET: the group a namespace is in.
pub(crate) async fn of_namespace(call: Call) -> Result<Reply, Refusal> {
    match crate::namespaces::policies(&call).await?.field(FIELD) {
        Some(group) => Reply::json(group),
        None => Ok(Reply::done()),
    }
}

/// POST: puts a namespace into a group that is there.
pub(crate) async fn join(call: Call) -> Result<Reply, Refusal> {
    let name = call.param("group").to_owned();
    let asked = name.clone();
    call.handle().control(move |m| resource_groups::get(m, &asked)).await??;
    change_namespace(&call, move |policies| policies.set(FIELD, &name)).await.map_err(Refused::into_refusal)?;
    Ok(Reply::done())
}

/// DELETE: takes it out.
pub(crate) async fn leave(call: Call) -> Result<Reply, Refusal> {
    let changed = change_namespace(&call, |policies| {
        policies.unset(FIELD);
        Ok(())
    });
    changed.await.map_err(Refused::into_refusal)?;
    Ok(Reply::done())
}

const FIELD: &str = "resource_group_name";
