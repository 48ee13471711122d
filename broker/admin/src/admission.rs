//! Who calls, and whether they may: asked of the server before a handler runs, from what the route table says of the row.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use server::{Access, Caller, Credentials, Denied, Handle, Identity};

use crate::address::topic;
use crate::errors::Refusal;
use crate::request::Params;
use crate::routes::{Class, Route};

/// Lets a call through, or says why not.
///
/// # Errors
/// 401 for those who are not known, 403 for those who may not.
pub(crate) async fn admit(
    handle: &Handle,
    caller: &Caller,
    headers: &HeaderMap,
    route: &Route,
    params: &Params,
    ticket: Option<Option<Identity>>,
) -> Result<Option<Identity>, Refusal> {
    if route.class == Class::Anyone || !handle.asks_who() {
        return Ok(None);
    }
    // Whoever has a ticket was let in when it was given.
    if let Some(who) = ticket {
        return Ok(who);
    }
    let access = match route.class {
        Class::Known => Access::Known,
        Class::Anyone | Class::Superuser => Access::Everything,
        Class::TenantAdmin => Access::Tenant(params.get("tenant").to_owned()),
        Class::TopicUser => Access::Topic(topic(params)?),
    };
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let original = text("x-original-principal");
    match handle.admit(caller.address.ip(), shown(caller, headers), original, access).await {
        Ok(who) => Ok(who),
        Err(Denied::Unproven(reason)) => Err(Refusal::unauthorized(reason)),
        Err(Denied::Forbidden(reason)) => Err(Refusal::forbidden(reason)),
        Err(again @ Denied::Again(seconds)) => Err(Refusal::too_many(again.to_string(), seconds).coded("failed-logins")),
        Err(Denied::Failed(reason)) => Err(Refusal::internal(reason)),
    }
}

fn shown(caller: &Caller, headers: &HeaderMap) -> Credentials {
    let certificate = caller.certificate.clone();
    let nothing = || Credentials { method: None, data: Vec::new(), certificate: certificate.clone() };
    let Some(header) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else { return nothing() };
    let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
    let (method, data) = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => ("token", Some(rest.trim().as_bytes().to_vec())),
        "basic" => ("basic", BASE64_STANDARD.decode(rest.trim()).ok()),
        _ => return nothing(),
    };
    // What cannot be read is shown as it is, and refused as bad rather than taken for nothing.
    Credentials { method: Some(method.to_owned()), data: data.unwrap_or_else(|| rest.as_bytes().to_vec()), certificate }
}
