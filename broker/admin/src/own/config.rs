//! The configuration while the broker runs: what is set and where, what can be changed without a new start, and changing it. Ours and
//! Pulsar's calls are two views of the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::page::{Cell, Listing, columns};
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::{Call, optional, word};

/// A setting, as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigItem {
    /// Its name.
    pub key: String,
    /// As it would be written; a secret is hidden.
    pub value: String,
    /// What it would be if nobody had set it.
    pub default: String,
    /// `default`, `file`, `env`, `cli` or `dynamic`.
    pub source: &'static str,
    /// Where exactly, when somebody has set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Whether it can be changed while the broker runs.
    pub dynamic: bool,
    /// From when on a change acts, where it can be changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acts: Option<&'static str>,
    /// Whether a change acts only after a new start.
    pub restart_required: bool,
    /// Whether its value is never shown.
    pub secret: bool,
    /// `honoured`, `not yet`, `kept` or `ignored`.
    pub state: &'static str,
    /// What it does.
    pub description: String,
    /// What may be written.
    pub allowed: String,
}

columns!(ConfigItem, key, {
    "key" => |row| Cell::Text(&row.key),
    "value" => |row| Cell::Text(&row.value),
    "source" => |row| Cell::Text(row.source),
    "dynamic" => |row| Cell::Flag(row.dynamic),
    "secret" => |row| Cell::Flag(row.secret),
    "state" => |row| Cell::Text(row.state),
});

/// Why a change of the configuration was not made. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigRefusal {
    /// There is no such setting; perhaps another one was meant.
    Unknown(String),
    /// It takes a new start.
    Static(String),
    /// Values that cannot be, by key.
    Wrong(Vec<(String, String)>),
    /// Somebody was faster.
    Stale {
        /// The revision now.
        revision: i64,
    },
    /// The store failed.
    Failed(String),
}

/// What changes what: settings by key; none takes the change back.
pub type ConfigChanges = Vec<(String, Option<String>)>;

/// The configuration of a running broker. Its calls block: they are made on control threads.
pub trait Configuration: Send + Sync + 'static {
    /// Every setting that is acted on, and whatever else was set.
    fn items(&self) -> Vec<ConfigItem>;
    /// What was changed while the broker ran, by key, and how often that was changed; -1 for never.
    fn changed(&self) -> (BTreeMap<String, String>, i64);
    /// Changes all of these, or nothing. With a revision, only if that is the one now. Returns the new one; a trial changes nothing.
    ///
    /// # Errors
    /// [`ConfigRefusal`]
    fn change(&self, changes: ConfigChanges, revision: Option<i64>, trial: bool) -> Result<i64, ConfigRefusal>;
    /// What is wrong with a file of settings: keys and sentences.
    fn check(&self, text: &str) -> Vec<(String, String)>;
}

impl From<ConfigRefusal> for Refusal {
    fn from(refusal: ConfigRefusal) -> Self {
        match refusal {
            ConfigRefusal::Unknown(reason) => Self::not_found(reason).coded("unknown-setting"),
            ConfigRefusal::Static(reason) => Self::conflict(reason).coded("restart-required"),
            ConfigRefusal::Wrong(flaws) => {
                let reason = flaws.iter().map(|(key, why)| format!("{key}: {why}")).collect::<Vec<_>>().join("; ");
                let flaws = flaws.into_iter().map(|(key, why)| (format!("/{key}"), why)).collect();
                Self::unprocessable(reason).coded("wrong-value").with_flaws(flaws)
            }
            ConfigRefusal::Stale { revision } => {
                Self::precondition(format!("The configuration is at revision {revision}, the request names another"))
                    .coded("stale-revision")
            }
            ConfigRefusal::Failed(reason) => Self::internal(reason),
        }
    }
}

async fn asked<T: Send + 'static>(call: &Call, ask: impl FnOnce(&dyn Configuration) -> T + Send + 'static) -> Result<T, Refusal> {
    let configuration = call.site.configuration.clone();
    Ok(call.handle().control(move |_| ask(&*configuration)).await?)
}

async fn change(call: &Call, changes: ConfigChanges, revision: Option<i64>, trial: bool) -> Result<i64, Refusal> {
    Ok(asked(call, move |configuration| configuration.change(changes, revision, trial)).await??)
}

async fn items(call: &Call) -> Result<Vec<ConfigItem>, Refusal> {
    asked(call, Configuration::items).await
}

async fn item(call: &Call) -> Result<(ConfigItem, i64), Refusal> {
    let key = call.param("key").to_owned();
    let wanted = key.clone();
    let found = asked(call, move |c| (c.items().into_iter().find(|item| item.key == wanted), c.changed().1)).await?;
    match found {
        (Some(item), revision) => Ok((item, revision)),
        (None, _) => Err(Refusal::not_found(format!("There is no setting {key}, or nobody has set it")).coded("unknown-setting")),
    }
}

/// The revision as it is written in a tag.
fn tag(revision: i64) -> String {
    format!("config-{revision}")
}

/// GET: settings: `source`, `dynamic`, and what every list takes.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    let listing = Listing::<ConfigItem>::read(&call.query)?;
    let (source, dynamic) = (call.query.get("source"), call.query.get("dynamic").map(|_| call.query.flag("dynamic")));
    let fits = |item: &&ConfigItem| source.is_none_or(|s| item.source == s) && dynamic.is_none_or(|d| item.dynamic == d);
    let items = items(&call).await?;
    Reply::json(&listing.of(items.iter().filter(fits))?)
}

/// GET: one setting.
pub(crate) async fn get(call: Call) -> Result<Reply, Refusal> {
    let (item, revision) = item(&call).await?;
    call.shown_at(&tag(revision), &item)
}

#[derive(Deserialize)]
struct NewValue {
    value: Value,
}

/// A value as it would be written in a file.
fn written(value: &Value) -> Result<String, Refusal> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err(Refusal::bad_request("The value is text, a number, true or false")),
    }
}

/// PUT: changes a setting while the broker runs.
pub(crate) async fn put(call: Call) -> Result<Reply, Refusal> {
    let wanted: NewValue = optional(&call.body)?.ok_or_else(|| Refusal::bad_request("The body is {\"value\": …}"))?;
    let value = written(&wanted.value)?;
    set(&call, Some(value)).await
}

/// DELETE: takes back what was changed while the broker ran.
pub(crate) async fn delete(call: Call) -> Result<Reply, Refusal> {
    set(&call, None).await
}

async fn set(call: &Call, value: Option<String>) -> Result<Reply, Refusal> {
    let (before, revision) = item(call).await?;
    call.means(&before.key, Some(&tag(revision)))?;
    let revision = change(call, vec![(before.key, value)], Some(revision), false).await?;
    let (after, _) = item(call).await?;
    Ok(Reply::json(&after)?.tagged(&tag(revision)))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changes {
    changes: Vec<OneChange>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize)]
struct OneChange {
    key: String,
    /// Absent or null takes the change back.
    #[serde(default)]
    value: Option<Value>,
}

/// POST: changes several settings, all or none; `dryRun` only says whether they could be.
pub(crate) async fn apply(call: Call) -> Result<Reply, Refusal> {
    let wanted: Changes =
        optional(&call.body)?.ok_or_else(|| Refusal::bad_request("The body is {\"changes\": [{\"key\": …, \"value\": …}]}"))?;
    let spelt = |one: OneChange| Ok((one.key, one.value.map(|value| written(&value)).transpose()?));
    let changes: ConfigChanges = wanted.changes.into_iter().map(spelt).collect::<Result<_, Refusal>>()?;
    let keys: Vec<String> = changes.iter().map(|(key, _)| key.clone()).collect();
    let revision = change(&call, changes, None, wanted.dry_run).await?;
    Ok(Reply::json(&json!({ "revision": revision, "changed": keys, "dryRun": wanted.dry_run }))?.tagged(&tag(revision)))
}

/// POST: says what is wrong with a file of settings, without touching anything.
pub(crate) async fn validate(call: Call) -> Result<Reply, Refusal> {
    let text = String::from_utf8(call.body.to_vec()).map_err(|_| Refusal::bad_request("The body is not text"))?;
    let flaws = asked(&call, move |configuration| configuration.check(&text)).await?;
    let errors: Vec<Value> = flaws.iter().map(|(key, detail)| json!({ "key": key, "detail": detail })).collect();
    Reply::json(&json!({ "valid": errors.is_empty(), "errors": errors }))
}

/// GET: what is set, for a file (`format=properties`) or for a program (`format=json`).
pub(crate) async fn export(call: Call) -> Result<Reply, Refusal> {
    let set: Vec<ConfigItem> = items(&call).await?.into_iter().filter(|item| item.source != "default").collect();
    match call.query.get("format").unwrap_or("properties") {
        "json" => Reply::json(&set.iter().map(|item| (item.key.as_str(), item.value.as_str())).collect::<BTreeMap<_, _>>()),
        "properties" => {
            let line = |item: &ConfigItem| match item.secret {
                true => format!("# {} is a secret and not exported\n", item.key),
                false => format!("{}={}\n", item.key, item.value.replace('\\', "\\\\")),
            };
            Ok(Reply::text(set.iter().map(line).collect::<String>()))
        }
        other => Err(Refusal::bad_request(format!("format is properties or json, not {other:?}"))),
    }
}

/// Pulsar's view of the same.
pub(crate) mod pulsars {
    use super::*;

    /// GET: the keys that can be changed.
    pub(crate) async fn dynamic(call: Call) -> Result<Reply, Refusal> {
        let items = items(&call).await?;
        Reply::json(&items.iter().filter(|item| item.dynamic).map(|item| item.key.as_str()).collect::<Vec<_>>())
    }

    /// GET: what was changed.
    pub(crate) async fn values(call: Call) -> Result<Reply, Refusal> {
        Reply::json(&asked(&call, |configuration| configuration.changed().0).await?)
    }

    /// GET: every setting as it is.
    pub(crate) async fn runtime(call: Call) -> Result<Reply, Refusal> {
        let items = items(&call).await?;
        Reply::json(&items.iter().map(|item| (item.key.as_str(), item.value.as_str())).collect::<BTreeMap<_, _>>())
    }

    /// GET: where the parts are that Pulsar's tools look for.
    pub(crate) async fn internal(_call: Call) -> Result<Reply, Refusal> {
        let store = "embedded";
        Reply::json(&json!({
            "metadataStoreUrl": store,
            "configurationMetadataStoreUrl": store,
            "zookeeperServers": "",
            "configurationStoreServers": "",
            "ledgersRootPath": "/ledgers",
            "bookkeeperMetadataServiceUri": "",
            "stateStorageServiceUrl": "",
        }))
    }

    /// POST: changes a setting.
    pub(crate) async fn update(call: Call) -> Result<Reply, Refusal> {
        let value = word(call.param("value").as_bytes()).unwrap_or_default();
        changed(&call, Some(value)).await
    }

    /// DELETE: takes a change back.
    pub(crate) async fn delete(call: Call) -> Result<Reply, Refusal> {
        changed(&call, None).await
    }

    async fn changed(call: &Call, value: Option<String>) -> Result<Reply, Refusal> {
        let configuration: Arc<dyn Configuration> = call.site.configuration.clone();
        let changes = vec![(call.param("key").to_owned(), value)];
        let outcome = call.handle().control(move |_| configuration.change(changes, None, false)).await?;
        match outcome {
            Ok(_) => Ok(Reply::done()),
            // The blank in front is Pulsar's, and tools compare it.
            Err(ConfigRefusal::Unknown(_) | ConfigRefusal::Static(_)) => {
                Err(Refusal::precondition(" Can't update non-dynamic configuration"))
            }
            Err(ConfigRefusal::Wrong(flaws)) => {
                let why = flaws.into_iter().map(|(key, why)| format!("{key}: {why}")).collect::<Vec<_>>().join("; ");
                Err(Refusal::new(StatusCode::PRECONDITION_FAILED, format!(" Invalid dynamic-config value: {why}")))
            }
            Err(other) => Err(other.into()),
        }
    }
}
