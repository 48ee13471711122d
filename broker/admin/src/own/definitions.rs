//! What a broker is told to have, as one document: tenants, namespaces with their policies, and topics. It can be taken out, kept
//! somewhere, changed and put back, here or elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use metadata::MetadataStore;
use metadata::namespaces::{self, NamespaceError, NewNamespace, Policies};
use metadata::paths::{Domain, NamespacePath};
use metadata::tenants::{self, Tenant, TenantError};
use metadata::{partitioned, topics};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use server::Handle;
use wire::{NamespaceName, TopicName};

use super::operations::Reporter;
use crate::address::is_system;
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::{Call, optional};

/// The document. Lists are in the order of names, so that two of them can be compared line by line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Definitions {
    /// Of the format: 1.
    #[serde(default = "first")]
    version: u32,
    #[serde(default)]
    tenants: Vec<TenantDefinition>,
    #[serde(default)]
    namespaces: Vec<NamespaceDefinition>,
    #[serde(default)]
    topics: Vec<TopicDefinition>,
}

fn first() -> u32 {
    1
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TenantDefinition {
    name: String,
    #[serde(default)]
    admin_roles: Vec<String>,
    /// This broker's cluster, where none is named.
    #[serde(default)]
    allowed_clusters: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NamespaceDefinition {
    /// `tenant/namespace`
    name: String,
    /// As Pulsar's admin API spells them; `null` leaves one to the configuration.
    #[serde(default)]
    policies: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TopicDefinition {
    /// `persistent://tenant/namespace/topic`
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partitions: Option<u32>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, String>,
}

/// GET: all of it, without what the broker keeps for itself; `tenant` takes one tenant's part.
pub(crate) async fn export(call: Call) -> Result<Reply, Refusal> {
    let tenant = call.query.get("tenant").map(str::to_owned);
    let (definitions, revision) = call
        .handle()
        .control(move |m| {
            let definitions = read(m, tenant.as_deref())?;
            let bytes = serde_json::to_vec(&definitions).map_err(|error| Refusal::internal(error.to_string()))?;
            Ok::<_, Refusal>((definitions, super::audit::hash(&bytes).get(..16).unwrap_or_default().to_owned()))
        })
        .await??;
    call.shown_at(&revision, &definitions)
}

fn read(m: &dyn MetadataStore, only: Option<&str>) -> Result<Definitions, Refusal> {
    let mut all = Definitions { version: 1, ..Definitions::default() };
    for name in tenants::list(m)?.into_iter().filter(|name| only.is_none_or(|only| only == name)) {
        let (tenant, _) = match tenants::get(m, &name) {
            Err(TenantError::NotFound(_)) => continue,
            found => found?,
        };
        let locals = match namespaces::list(m, &name) {
            Err(NamespaceError::UnknownTenant(_)) => continue,
            locals => locals?,
        };
        for local in locals {
            read_namespace(m, NamespacePath::new(&name, &local), &mut all)?;
        }
        all.tenants.push(TenantDefinition { name, admin_roles: tenant.admin_roles, allowed_clusters: tenant.allowed_clusters });
    }
    all.topics.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn read_namespace(m: &dyn MetadataStore, at: NamespacePath<'_>, all: &mut Definitions) -> Result<(), Refusal> {
    let policies = match namespaces::get(m, at) {
        Err(NamespaceError::NotFound(_)) => return Ok(()),
        found => found?.0,
    };
    // Bundles are how this broker divides the namespace, and no wish of anybody's.
    let told = policies.fields().iter().filter(|(field, value)| *field != "bundles" && !value.is_null());
    let policies = told.map(|(field, value)| (field.clone(), value.clone())).collect();
    all.namespaces.push(NamespaceDefinition { name: at.to_string(), policies });
    let failed = |error: &dyn std::fmt::Display| Refusal::internal(format!("metadata: {error}"));
    let namespace = NamespaceName::new(at.tenant, at.namespace).map_err(|error| failed(&error))?;
    let mut whole = BTreeSet::new();
    for (domain, kept_as) in [(wire::Domain::Persistent, Domain::Persistent), (wire::Domain::NonPersistent, Domain::NonPersistent)] {
        for local in partitioned::list(m, at, kept_as).map_err(|error| failed(&error))? {
            let (Ok(name), Ok((topic, _))) = (TopicName::new(domain, &namespace, &local), partitioned::get(m, at.topic(kept_as, &local)))
            else {
                continue;
            };
            if !is_system(&name) {
                let properties = topic.properties.into_iter().collect();
                all.topics.push(TopicDefinition { name: name.to_string(), partitions: Some(topic.partitions), properties });
            }
            whole.insert(name);
        }
    }
    for local in topics::list(m, at, Domain::Persistent).map_err(|error| failed(&error))? {
        let Ok(name) = TopicName::new(wire::Domain::Persistent, &namespace, &local) else { continue };
        let is_part = name.is_partition() && whole.contains(&name.partitioned());
        if !is_system(&name) && !is_part {
            all.topics.push(TopicDefinition { name: name.to_string(), partitions: None, properties: BTreeMap::new() });
        }
    }
    Ok(())
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    action: Action,
    kind: &'static str,
    name: String,
    /// What differs, where something is changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Create,
    Update,
    Delete,
}

/// POST: brings the broker to what the document says. `mode=merge` leaves alone what it does not name; `mode=replace` removes, in the
/// namespaces that it names, policies and topics that it does not, and in the tenants that it names, empty namespaces that it does
/// not. `dryRun=true` only tells what would be done.
pub(crate) async fn import(call: Call) -> Result<Reply, Refusal> {
    let replace = match call.query.get("mode").unwrap_or("merge") {
        "merge" => false,
        "replace" => true,
        other => return Err(Refusal::bad_request(format!("mode is merge or replace, not {other:?}"))),
    };
    let wanted: Definitions = optional(&call.body)?.ok_or_else(|| Refusal::bad_request("The body is a document as GET gives it"))?;
    if wanted.version != 1 {
        return Err(Refusal::bad_request(format!("version {} of the document is not known here, only 1", wanted.version)));
    }
    let cluster = call.handle().settings().cluster.clone();
    let steps = call.handle().control(move |m| plan(m, wanted, replace, &cluster)).await??;
    if call.query.flag("dryRun") {
        return Reply::json(&json!({ "dryRun": true, "steps": steps.iter().map(|(step, _)| step).collect::<Vec<_>>() }));
    }
    let handle = call.handle().clone();
    call.operate("definitions-import", move |reporter| carry_out(handle, steps, reporter)).await
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
enum Deed {
    SetTenant(TenantDefinition),
    AddNamespace(NamespaceDefinition),
    /// What to set, and what to take away.
    SetPolicies(NamespaceDefinition, Vec<String>),
    DeleteNamespace(String),
    AddTopic(TopicDefinition),
    Grow(TopicName, u32),
    DeleteTopic(TopicName, bool),
}

type Steps = Vec<(Step, Deed)>;

fn plan(m: &dyn MetadataStore, wanted: Definitions, replace: bool, cluster: &str) -> Result<Steps, Refusal> {
    let now = read(m, None)?;
    let mut steps = Steps::new();
    let step = |action, kind, name: &str, changes| Step { action, kind, name: name.to_owned(), changes };
    check(&wanted, &now)?;
    let known_topics: BTreeMap<&str, &TopicDefinition> = now.topics.iter().map(|topic| (topic.name.as_str(), topic)).collect();
    let known_spaces: BTreeMap<&str, &NamespaceDefinition> = now.namespaces.iter().map(|space| (space.name.as_str(), space)).collect();
    let known_tenants: BTreeMap<&str, &TenantDefinition> = now.tenants.iter().map(|tenant| (tenant.name.as_str(), tenant)).collect();
    for mut tenant in wanted.tenants.clone() {
        if tenant.allowed_clusters.is_empty() {
            tenant.allowed_clusters.push(cluster.to_owned());
        }
        match known_tenants.get(tenant.name.as_str()) {
            None => steps.push((step(Action::Create, "tenant", &tenant.name, Vec::new()), Deed::SetTenant(tenant))),
            Some(known) if **known != tenant => {
                let mut changes = Vec::new();
                if known.admin_roles != tenant.admin_roles {
                    changes.push("adminRoles".to_owned());
                }
                if known.allowed_clusters != tenant.allowed_clusters {
                    changes.push("allowedClusters".to_owned());
                }
                steps.push((step(Action::Update, "tenant", &tenant.name, changes), Deed::SetTenant(tenant)));
            }
            Some(_) => {}
        }
    }
    for namespace in &wanted.namespaces {
        match known_spaces.get(namespace.name.as_str()) {
            None => steps.push((step(Action::Create, "namespace", &namespace.name, Vec::new()), Deed::AddNamespace(namespace.clone()))),
            Some(known) => {
                let differs = |(field, value): &(&String, &Value)| known.policies.get(*field).unwrap_or(&Value::Null) != *value;
                let mut changes: Vec<String> = namespace.policies.iter().filter(differs).map(|(field, _)| field.clone()).collect();
                // Where a namespace lives is settled when it is made.
                let gone = |field: &&String| replace && !namespace.policies.contains_key(*field) && *field != "replication_clusters";
                let gone: Vec<String> = known.policies.keys().filter(gone).cloned().collect();
                changes.extend(gone.iter().map(|field| format!("-{field}")));
                if !changes.is_empty() {
                    steps.push((step(Action::Update, "namespace", &namespace.name, changes), Deed::SetPolicies(namespace.clone(), gone)));
                }
            }
        }
    }
    for topic in &wanted.topics {
        let partitions = |topic: &TopicDefinition| topic.partitions.map_or_else(|| "none".to_owned(), |count| count.to_string());
        match known_topics.get(topic.name.as_str()) {
            None => steps.push((step(Action::Create, "topic", &topic.name, Vec::new()), Deed::AddTopic(topic.clone()))),
            Some(known) => match (known.partitions, topic.partitions) {
                (before, after) if before == after => {}
                (Some(before), Some(after)) if after > before => {
                    let change = format!("partitions {before} -> {after}");
                    steps.push((step(Action::Update, "topic", &topic.name, vec![change]), Deed::Grow(parsed(&topic.name)?, after)));
                }
                _ => {
                    let (has, wants) = (partitions(known), partitions(topic));
                    return Err(Refusal::conflict(format!("{} has {has} partitions and cannot get {wants}: delete it first", topic.name)));
                }
            },
        }
    }
    if replace {
        remove(&now, &wanted, &mut steps)?;
    }
    Ok(steps)
}

/// Removes what `replace` removes; topics go before their namespaces.
fn remove(now: &Definitions, wanted: &Definitions, steps: &mut Steps) -> Result<(), Refusal> {
    let named: BTreeSet<&str> = wanted.namespaces.iter().map(|space| space.name.as_str()).collect();
    let wanted_topics: BTreeSet<&str> = wanted.topics.iter().map(|topic| topic.name.as_str()).collect();
    let mut kept = BTreeSet::new();
    for topic in &now.topics {
        let name = parsed(&topic.name)?;
        let goes = named.contains(name.namespace_str()) && !wanted_topics.contains(topic.name.as_str());
        if goes {
            let step = Step { action: Action::Delete, kind: "topic", name: topic.name.clone(), changes: Vec::new() };
            steps.push((step, Deed::DeleteTopic(name, topic.partitions.is_some())));
        } else {
            kept.insert(name.namespace_str().to_owned());
        }
    }
    for namespace in &now.namespaces {
        let tenant = namespace.name.split('/').next().unwrap_or_default();
        let of_named_tenant = wanted.tenants.iter().any(|wanted| wanted.name == tenant);
        if of_named_tenant && !named.contains(namespace.name.as_str()) && !kept.contains(&namespace.name) {
            let step = Step { action: Action::Delete, kind: "namespace", name: namespace.name.clone(), changes: Vec::new() };
            steps.push((step, Deed::DeleteNamespace(namespace.name.clone())));
        }
    }
    Ok(())
}

/// Everything that is wrong with a document, before anything is done.
fn check(wanted: &Definitions, now: &Definitions) -> Result<(), Refusal> {
    let mut flaws = Vec::new();
    let tenants: BTreeSet<&str> = wanted.tenants.iter().chain(&now.tenants).map(|tenant| tenant.name.as_str()).collect();
    let spaces: BTreeSet<&str> = wanted.namespaces.iter().chain(&now.namespaces).map(|space| space.name.as_str()).collect();
    for (n, space) in wanted.namespaces.iter().enumerate() {
        match space.name.parse::<NamespaceName>() {
            Err(error) => flaws.push((format!("/namespaces/{n}/name"), error.to_string())),
            Ok(name) if !tenants.contains(name.tenant()) => {
                flaws.push((format!("/namespaces/{n}/name"), format!("there is no tenant {}", name.tenant())));
            }
            Ok(_) => {}
        }
        let mut policies = Policies::new();
        for (field, value) in &space.policies {
            if let Err(error) = policies.set(field, value) {
                flaws.push((format!("/namespaces/{n}/policies/{field}"), error.reason));
            }
        }
    }
    for (n, topic) in wanted.topics.iter().enumerate() {
        match topic.name.parse::<TopicName>() {
            Err(error) => flaws.push((format!("/topics/{n}/name"), error.to_string())),
            Ok(name) if !spaces.contains(name.namespace_str()) => {
                flaws.push((format!("/topics/{n}/name"), format!("there is no namespace {}", name.namespace_str())));
            }
            Ok(name) if topic.partitions.is_none() && !name.is_persistent() => {
                flaws.push((format!("/topics/{n}"), "a non-persistent topic without partitions is there while it is used".to_owned()));
            }
            Ok(_) if topic.partitions == Some(0) => flaws.push((format!("/topics/{n}/partitions"), "at least 1".to_owned())),
            Ok(_) => {}
        }
    }
    match flaws.first() {
        None => Ok(()),
        Some((at, why)) => {
            let reason = format!("{} parts of the document cannot be: {at}: {why}", flaws.len());
            Err(Refusal::unprocessable(reason).coded("wrong-definitions").with_flaws(flaws))
        }
    }
}

fn parsed(name: &str) -> Result<TopicName, Refusal> {
    name.parse::<TopicName>().map_err(|error| Refusal::unprocessable(format!("{name}: {error}")))
}

async fn carry_out(handle: Handle, steps: Steps, reporter: Reporter) -> Result<Value, Refusal> {
    let total = steps.len();
    let told: Vec<Step> = steps.iter().map(|(step, _)| step.clone()).collect();
    for (done, (step, deed)) in steps.into_iter().enumerate() {
        reporter.progress(done, total);
        let named = |refusal: Refusal| Refusal {
            reason: format!("{} {}: {} ({done} of {total} steps were done)", step.kind, step.name, refusal.reason),
            ..refusal
        };
        act(&handle, deed).await.map_err(named)?;
    }
    reporter.progress(total, total);
    Ok(json!({ "steps": told }))
}

async fn act(handle: &Handle, deed: Deed) -> Result<(), Refusal> {
    let cluster = handle.settings().cluster.clone();
    let bundles = handle.live().default_bundles;
    match deed {
        Deed::SetTenant(wanted) => {
            let set = move |m: &dyn MetadataStore| {
                let tenant = Tenant { admin_roles: wanted.admin_roles, allowed_clusters: wanted.allowed_clusters, ..Tenant::default() };
                match tenants::create(m, &wanted.name, &tenant, None) {
                    Err(TenantError::Exists(_)) => tenants::update(m, &wanted.name, &tenant),
                    outcome => outcome,
                }
            };
            handle.control(set).await??;
        }
        Deed::AddNamespace(wanted) => {
            let add = move |m: &dyn MetadataStore| {
                let at = NamespacePath::parse(&wanted.name).ok_or_else(|| NamespaceError::BadName(wanted.name.clone()))?;
                let mut policies = Policies::new();
                for (field, value) in &wanted.policies {
                    policies.set(field, value)?;
                }
                namespaces::create(m, at, policies, NewNamespace { local_cluster: &cluster, bundles, limit: None }).map(drop)
            };
            handle.control(add).await??;
        }
        Deed::SetPolicies(wanted, gone) => {
            let set = move |m: &dyn MetadataStore| {
                let at = NamespacePath::parse(&wanted.name).ok_or_else(|| NamespaceError::BadName(wanted.name.clone()))?;
                namespaces::update(m, at, |policies| {
                    for field in &gone {
                        policies.unset(field);
                    }
                    for (field, value) in &wanted.policies {
                        if value.is_null() {
                            policies.unset(field);
                        } else {
                            policies.set(field, value)?;
                        }
                    }
                    Ok(())
                })
                .map(drop)
            };
            handle.control(set).await??;
        }
        Deed::DeleteNamespace(name) => {
            let delete = move |m: &dyn MetadataStore| match NamespacePath::parse(&name) {
                Some(at) => namespaces::delete(m, at),
                None => Err(NamespaceError::BadName(name.clone())),
            };
            handle.control(delete).await??;
        }
        Deed::AddTopic(wanted) => {
            let (name, properties) = (parsed(&wanted.name)?, wanted.properties.into_iter().collect());
            match wanted.partitions {
                Some(count) => handle.create_partitioned(name, count, properties).await?,
                None => handle.create_topic(name, properties).await?,
            }
        }
        Deed::Grow(name, partitions) => handle.update_partitions(name, partitions).await?,
        Deed::DeleteTopic(name, true) => handle.delete_partitioned(name, false).await?,
        Deed::DeleteTopic(name, false) => handle.delete_topic(name, false).await?,
    }
    Ok(())
}
