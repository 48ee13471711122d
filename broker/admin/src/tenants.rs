//! Tenants.

use metadata::tenants::{self, Tenant};

use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::{Call, optional};

/// GET: names.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&call.handle().control(tenants::list).await??)
}

/// GET: who administers a tenant, and where it lives.
pub(crate) async fn get(call: Call) -> Result<Reply, Refusal> {
    let name = call.param("tenant").to_owned();
    let (tenant, _) = call.handle().control(move |m| tenants::get(m, &name)).await??;
    Reply::json(&tenant)
}

/// PUT: adds a tenant.
pub(crate) async fn create(call: Call) -> Result<Reply, Refusal> {
    let (name, tenant) = named(&call)?;
    let limit = call.options().max_tenants;
    call.handle().control(move |m| tenants::create(m, &name, &tenant, limit)).await??;
    Ok(Reply::done())
}

/// POST: replaces a tenant.
pub(crate) async fn update(call: Call) -> Result<Reply, Refusal> {
    let (name, tenant) = named(&call)?;
    call.handle().control(move |m| tenants::update(m, &name, &tenant)).await??;
    Ok(Reply::done())
}

/// DELETE: removes a tenant without namespaces; with `force=true` and leave of the configuration, with all it has.
pub(crate) async fn delete(call: Call) -> Result<Reply, Refusal> {
    let name = call.param("tenant").to_owned();
    if call.query.flag("force") {
        if !call.options().force_delete_tenants {
            return Err(Refusal::not_allowed("Broker doesn't allow forced deletion of tenants"));
        }
        crate::namespaces::delete_all_of(&call, &name).await?;
    }
    call.handle().control(move |m| tenants::delete(m, &name)).await??;
    Ok(Reply::done())
}

fn named(call: &Call) -> Result<(String, Tenant), Refusal> {
    Ok((call.param("tenant").to_owned(), optional(&call.body)?.unwrap_or_default()))
}
