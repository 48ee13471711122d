//! What has to be done so that a broker is as a document says.

use std::fmt;

use anyhow::Context;
use client::{Http, Method};
use serde_json::{Map, Value, json};

use super::document::Document;
use crate::remote::{encoded, explained, is_put, namespace_path, refuse_failures, topic_path};

/// One change.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Value>,
    /// What is changed, from what, to what.
    told: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

/// All changes, in an order in which they work.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// What cannot be made so.
    pub(super) refusals: Vec<String>,
    pub(super) as_wanted: usize,
}

impl Plan {
    /// Looks at the broker and compares.
    pub(super) async fn of(document: &Document, http: &Http) -> anyhow::Result<Self> {
        let mut plan = Self::default();
        for (name, wanted) in &document.tenants {
            let path = format!("/admin/v2/tenants/{}", encoded(name));
            let wanted = json!({"adminRoles": wanted.admin_roles, "allowedClusters": wanted.allowed_clusters});
            let is = current(http, &path).await?;
            let method = if is.is_some() { Method::POST } else { Method::PUT };
            plan.settle(&format!("tenant {name}"), is, &wanted, method, path);
        }
        for (name, wanted) in &document.namespaces {
            let path = namespace_path(name).map_err(anyhow::Error::msg)?;
            let exists = current(http, &path).await?.is_some();
            if !exists {
                plan.add(&format!("namespace {name}"), Method::PUT, path.clone(), Some(json!({})));
            }
            plan.policies(http, &format!("namespace {name}"), &path, wanted, exists).await?;
        }
        for (name, wanted) in &document.topics {
            let path = topic_path(name).map_err(anyhow::Error::msg)?;
            let exists = plan.topic(http, name, &path, wanted).await?;
            plan.policies(http, &format!("topic {name}"), &path, wanted, exists).await?;
        }
        Ok(plan)
    }

    /// A topic with its partitions. Whether it is there already.
    async fn topic(&mut self, http: &Http, name: &str, path: &str, wanted: &Map<String, Value>) -> anyhow::Result<bool> {
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        let wanted = wanted.get("partitions").map_or(0, count);
        let partitions = format!("{path}/partitions");
        let Some(is) = current(http, &format!("{partitions}?checkAllowAutoCreation=false")).await? else {
            match wanted {
                0 => self.add(&format!("topic {name}"), Method::PUT, path.to_owned(), None),
                n => self.add(&format!("topic {name} of {n} partitions"), Method::PUT, partitions, Some(json!(n))),
            }
            return Ok(false);
        };
        match count(&is["partitions"]) {
            is if is == wanted => self.as_wanted += 1,
            0 => self.refusals.push(format!("topic {name} has no partitions, and cannot be given {wanted}")),
            is if is > wanted => self.refusals.push(format!("topic {name} has {is} partitions; they cannot be made {wanted}")),
            is => self.change(&format!("topic {name} partitions"), &json!(is), &json!(wanted), Method::POST, partitions),
        }
        Ok(true)
    }

    async fn policies(&mut self, http: &Http, whose: &str, path: &str, wanted: &Map<String, Value>, exists: bool) -> anyhow::Result<()> {
        for (key, value) in wanted.iter().filter(|(key, _)| *key != "partitions") {
            let path = format!("{path}/{key}");
            let is = if exists { current(http, &readable(&path)).await? } else { None };
            match (key.as_str(), value) {
                ("permissions", Value::Object(roles)) => {
                    for (role, actions) in roles {
                        let is = is.as_ref().and_then(|is| is.get(role)).map(sorted);
                        let path = format!("{path}/{}", encoded(role));
                        self.settle(&format!("{whose} permissions of {role}"), is, &sorted(actions), Method::POST, path);
                    }
                }
                ("backlogQuota", Value::Object(kinds)) if kinds.values().all(Value::is_object) => {
                    for (kind, quota) in kinds {
                        let is = is.as_ref().and_then(|is| is.get(kind)).cloned();
                        let path = format!("{path}?backlogQuotaType={}", encoded(kind));
                        self.settle(&format!("{whose} backlogQuota of {kind}"), is, quota, Method::POST, path);
                    }
                }
                _ => self.policy(whose, key, is, value, path),
            }
        }
        Ok(())
    }

    fn policy(&mut self, whose: &str, key: &str, is: Option<Value>, wanted: &Value, path: String) {
        let is_topic = whose.starts_with("topic");
        let method = if key == "properties" || is_put(key, is_topic) { Method::PUT } else { Method::POST };
        let path = match key {
            // Of all policies this one alone is sent in the query, and only for topics.
            "messageTTL" if is_topic => format!("{path}?messageTTL={wanted}"),
            _ => path,
        };
        self.settle(&format!("{whose} {key}"), is, wanted, method, path);
    }

    fn settle(&mut self, what: &str, is: Option<Value>, wanted: &Value, method: Method, path: String) {
        match is {
            Some(is) if covers(&is, wanted) => self.as_wanted += 1,
            Some(is) => self.change(what, &is, wanted, method, path),
            None => self.add(&format!("{what}: {wanted}"), method, path, Some(wanted.clone())),
        }
    }

    fn change(&mut self, what: &str, is: &Value, wanted: &Value, method: Method, path: String) {
        self.steps.push(Step { method, path, body: Some(wanted.clone()), told: format!("~ {what}: {is} -> {wanted}") });
    }

    fn add(&mut self, what: &str, method: Method, path: String, body: Option<Value>) {
        self.steps.push(Step { method, path, body, told: format!("+ {what}") });
    }
}

/// Quotas are written one by one and read all together.
fn readable(path: &str) -> String {
    match path.strip_suffix("/backlogQuota") {
        Some(path) => format!("{path}/backlogQuotaMap"),
        None => path.to_owned(),
    }
}

fn sorted(actions: &Value) -> Value {
    let mut actions: Vec<String> = actions.as_array().into_iter().flatten().filter_map(|a| a.as_str().map(str::to_owned)).collect();
    actions.sort();
    json!(actions)
}

/// Whether `is` has all that is wanted; it may have more.
fn covers(is: &Value, wanted: &Value) -> bool {
    match (is, wanted) {
        (Value::Object(is), Value::Object(wanted)) => wanted.iter().all(|(key, value)| is.get(key).is_some_and(|is| covers(is, value))),
        (Value::Number(is), Value::Number(wanted)) => is.as_f64() == wanted.as_f64(),
        _ => is == wanted,
    }
}

/// What is there; none when it is not there, or not set.
async fn current(http: &Http, path: &str) -> anyhow::Result<Option<Value>> {
    let answer = http.ask(Method::GET, path, None).await.map_err(explained)?;
    if answer.status == 404 || (answer.is_success() && answer.body.is_empty()) {
        return Ok(None);
    }
    refuse_failures(http, &Method::GET, path, &answer)?;
    serde_json::from_slice(&answer.body).map(Some).with_context(|| format!("{path} was not answered with JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_may_say_more_than_what_is_wanted() {
        assert!(covers(&json!({"a": 1, "b": 2}), &json!({"a": 1.0})));
        assert!(!covers(&json!({"a": 1}), &json!({"a": 2})));
        assert!(!covers(&json!({}), &json!({"a": null})));
        assert!(!covers(&json!([1, 2]), &json!([1])));
    }
}
