//! Who may do what in a namespace, on a topic and with a subscription: grants kept in the namespace's policies, under `auth_policies`.

use std::collections::{BTreeMap, BTreeSet};

use metadata::namespaces::{self, NamespaceError, Policies, PolicyError};
use serde_json::{Map, Value, json};

use crate::address::{self, path};
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
    let (actions, role) = (actions(&call)?, call.param("role").to_owned());
    change(&call, GRANTS, move |grants| drop(grants.insert(role.clone(), json!(actions)))).await
}

/// DELETE: takes everything from a role.
pub(crate) async fn revoke(call: Call) -> Result<Reply, Refusal> {
    let role = call.param("role").to_owned();
    change(&call, GRANTS, move |grants| drop(grants.shift_remove(&role))).await
}

/// GET: grants on a topic by role, those of its namespace included.
pub(crate) async fn list_of_topic(call: Call) -> Result<Reply, Refusal> {
    let (policies, topic) = (crate::namespaces::policies(&call).await?, address::topic(&call.params)?);
    let auth = policies.field(AUTH);
    let of_namespace = auth.and_then(|auth| auth.get(GRANTS)?.as_object());
    let of_topic = auth.and_then(|auth| auth.get(ON_TOPICS)?.get(topic.as_str())?.as_object());
    let mut union: BTreeMap<&String, BTreeSet<&str>> = BTreeMap::new();
    for (role, actions) in of_namespace.into_iter().chain(of_topic).flatten() {
        union.entry(role).or_default().extend(actions.as_array().into_iter().flatten().filter_map(Value::as_str));
    }
    Reply::json(&union)
}

/// POST: replaces what a role is granted on a topic.
pub(crate) async fn grant_on_topic(call: Call) -> Result<Reply, Refusal> {
    let (actions, role, topic) = (actions(&call)?, call.param("role").to_owned(), address::topic(&call.params)?);
    let grant = move |topics: &mut Map<String, Value>| {
        let grants = topics.entry(topic.as_str()).or_insert_with(|| json!({}));
        if let Some(grants) = grants.as_object_mut() {
            grants.insert(role.clone(), json!(actions));
        }
    };
    change(&call, ON_TOPICS, grant).await
}

/// DELETE: takes from a role what it is granted on a topic.
pub(crate) async fn revoke_on_topic(call: Call) -> Result<Reply, Refusal> {
    let (role, topic) = (call.param("role").to_owned(), address::topic(&call.params)?);
    let policies = crate::namespaces::policies(&call).await?;
    let granted = policies.field(AUTH).and_then(|auth| auth.get(ON_TOPICS)?.get(topic.as_str())?.get(&role));
    if granted.is_none() {
        return Err(Refusal::precondition("Permissions are not set at the topic level"));
    }
    let revoke = move |topics: &mut Map<String, Value>| {
        let Some(grants) = topics.get_mut(topic.as_str()).and_then(Value::as_object_mut) else { return };
        grants.shift_remove(&role);
        if grants.is_empty() {
            topics.shift_remove(topic.as_str());
        }
    };
    change(&call, ON_TOPICS, revoke).await
}

/// GET: roles by subscription that is theirs alone.
pub(crate) async fn list_of_subscriptions(call: Call) -> Result<Reply, Refusal> {
    let policies = crate::namespaces::policies(&call).await?;
    let roles = policies.field(AUTH).and_then(|auth| auth.get(OF_SUBSCRIPTIONS)).cloned();
    Reply::json(&roles.unwrap_or_else(|| json!({})))
}

/// POST: adds roles to those that a subscription is for.
pub(crate) async fn grant_subscription(call: Call) -> Result<Reply, Refusal> {
    let (added, subscription) = (optional::<Vec<String>>(&call.body)?.unwrap_or_default(), call.param("subscription").to_owned());
    let grant = move |all: &mut Map<String, Value>| {
        let roles = all.entry(&subscription).or_insert_with(|| json!([]));
        if let Some(roles) = roles.as_array_mut() {
            let new = added.iter().filter(|role| !roles.iter().any(|known| known == *role)).map(|role| json!(role)).collect::<Vec<_>>();
            roles.extend(new);
        }
    };
    change(&call, OF_SUBSCRIPTIONS, grant).await
}

/// DELETE: takes a role from those that a subscription is for; with the last one it is everybody's again.
pub(crate) async fn revoke_subscription(call: Call) -> Result<Reply, Refusal> {
    let (role, subscription) = (call.param("role").to_owned(), call.param("subscription").to_owned());
    let revoke = move |all: &mut Map<String, Value>| {
        let Some(roles) = all.get_mut(&subscription).and_then(Value::as_array_mut) else { return };
        roles.retain(|known| known != &role);
        if roles.is_empty() {
            all.shift_remove(&subscription);
        }
    };
    change(&call, OF_SUBSCRIPTIONS, revoke).await
}

const AUTH: &str = "auth_policies";
const GRANTS: &str = "namespace_auth";
const ON_TOPICS: &str = "destination_auth";
const OF_SUBSCRIPTIONS: &str = "subscription_auth_roles";

fn actions(call: &Call) -> Result<Vec<String>, Refusal> {
    let actions: Vec<String> = optional(&call.body)?.unwrap_or_default();
    match actions.iter().find(|action| !ACTIONS.contains(&action.as_str())) {
        Some(unknown) => Err(Refusal::bad_request(format!("{unknown:?} cannot be granted; what can is {}", ACTIONS.join(", ")))),
        None => Ok(actions),
    }
}

async fn change(call: &Call, section: &'static str, change: impl Fn(&mut Map<String, Value>) + Send + 'static) -> Result<Reply, Refusal> {
    // A grant that is kept and not asked for would be taken for protection.
    if !call.handle().authorizes() {
        return Err(Refusal::not_implemented("Authorization is not enabled"));
    }
    let namespace = call.namespace()?;
    let update = move |m: &dyn metadata::MetadataStore| {
        namespaces::update(m, path(&namespace), |policies| {
            with_section(policies, section, |grants| change(grants))?;
            Ok::<_, NamespaceError>(())
        })
    };
    call.handle().control(update).await??;
    Ok(Reply::done())
}

fn with_section(policies: &mut Policies, section: &str, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), PolicyError> {
    let mut auth = policies.field(AUTH).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut grants = auth.get(section).and_then(Value::as_object).cloned().unwrap_or_default();
    change(&mut grants);
    auth.insert(section.to_owned(), grants.into());
    policies.set(AUTH, auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_leaves_everything_else_as_it_was() {
        let stored = r#"{"auth_policies":{"namespace_auth":{"a":["consume"]},"destination_auth":{"t":{}}},"mine":1}"#;
        let mut policies = Policies::from_json(stored.as_bytes()).unwrap();
        with_section(&mut policies, GRANTS, |grants| drop(grants.insert("b".into(), json!(["produce"])))).unwrap();
        let expected = r#"{"auth_policies":{"namespace_auth":{"a":["consume"],"b":["produce"]},"destination_auth":{"t":{}}},"mine":1}"#;
        assert_eq!(String::from_utf8(policies.to_json()).unwrap(), expected);
        with_section(&mut policies, GRANTS, |grants| drop(grants.shift_remove("b"))).unwrap();
        assert_eq!(String::from_utf8(policies.to_json()).unwrap(), stored);
    }

    #[test]
    fn the_first_grant_makes_its_place() {
        let mut policies = Policies::new();
        with_section(&mut policies, GRANTS, |grants| drop(grants.insert("b".into(), json!(["produce"])))).unwrap();
        assert_eq!(policies.to_json(), br#"{"auth_policies":{"namespace_auth":{"b":["produce"]}}}"#);
    }
}
