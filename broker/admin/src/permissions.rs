//! Who may do what in a namespace: grants kept in its policies, under `auth_policies.namespace_auth`.

use std::collections::BTreeMap;

use metadata::namespaces::{self, NamespaceError, Policies, PolicyError};
use serde_json::{Map, Value, json};

use crate::address::path;
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::{Call, optional};

/// What can be granted.
const ACTIONS: [&str; 6] = ["produce", "consume", "functions", "sources", "sinks", "packages"];

/// GET: grants by role.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    let policies = crate::namespaces::policies(&call).await?;
    let grants: BTreeMap<&String, &Value> =
        policies.field(AUTH).and_then(|auth| auth.get(GRANTS)?.as_object()).into_iter().flatten().collect();
    Reply::json(&grants)
}

/// POST: replaces what a role is granted.
pub(crate) async fn grant(call: Call) -> Result<Reply, Refusal> {
    let actions: Vec<String> = optional(&call.body)?.unwrap_or_default();
    if let Some(unknown) = actions.iter().find(|action| !ACTIONS.contains(&action.as_str())) {
        return Err(Refusal::bad_request(format!("{unknown:?} cannot be granted; what can is {}", ACTIONS.join(", "))));
    }
    change(&call, move |grants, role| drop(grants.insert(role.to_owned(), json!(actions)))).await
}

/// DELETE: takes everything from a role.
pub(crate) async fn revoke(call: Call) -> Result<Reply, Refusal> {
    change(&call, |grants, role| drop(grants.shift_remove(role))).await
}

const AUTH: &str = "auth_policies";
const GRANTS: &str = "namespace_auth";

async fn change(call: &Call, change: impl Fn(&mut Map<String, Value>, &str) + Send + 'static) -> Result<Reply, Refusal> {
    let (namespace, role) = (call.namespace()?, call.param("role").to_owned());
    let update = move |m: &dyn metadata::MetadataStore| {
        namespaces::update(m, path(&namespace), |policies| {
            with_grants(policies, |grants| change(grants, &role))?;
            Ok::<_, NamespaceError>(())
        })
    };
    call.handle().control(update).await??;
    Ok(Reply::done())
}

fn with_grants(policies: &mut Policies, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), PolicyError> {
    let mut auth = policies.field(AUTH).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut grants = auth.get(GRANTS).and_then(Value::as_object).cloned().unwrap_or_default();
    change(&mut grants);
    auth.insert(GRANTS.to_owned(), grants.into());
    policies.set(AUTH, auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_leaves_everything_else_as_it_was() {
        let stored = r#"{"auth_policies":{"namespace_auth":{"a":["consume"]},"destination_auth":{"t":{}}},"mine":1}"#;
        let mut policies = Policies::from_json(stored.as_bytes()).unwrap();
        with_grants(&mut policies, |grants| drop(grants.insert("b".into(), json!(["produce"])))).unwrap();
        let expected = r#"{"auth_policies":{"namespace_auth":{"a":["consume"],"b":["produce"]},"destination_auth":{"t":{}}},"mine":1}"#;
        assert_eq!(String::from_utf8(policies.to_json()).unwrap(), expected);
        with_grants(&mut policies, |grants| drop(grants.shift_remove("b"))).unwrap();
        assert_eq!(String::from_utf8(policies.to_json()).unwrap(), stored);
    }

    #[test]
    fn the_first_grant_makes_its_place() {
        let mut policies = Policies::new();
        with_grants(&mut policies, |grants| drop(grants.insert("b".into(), json!(["produce"])))).unwrap();
        assert_eq!(policies.to_json(), br#"{"auth_policies":{"namespace_auth":{"b":["produce"]}}}"#);
    }
}
