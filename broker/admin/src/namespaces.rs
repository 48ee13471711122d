//! Namespaces: their life cycle, their policies as a whole, their topics and bundles.

use metadata::namespaces::{self, Bundles, NewNamespace, Policies};
use serde_json::{Map, Value};
use server::TopicError;
use wire::{Domain, NamespaceName, TopicName};

use crate::address::{is_system, path};
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::{Call, optional};
use crate::topics::names;

const DOMAINS: [Domain; 2] = [Domain::Persistent, Domain::NonPersistent];

/// GET: full names of a tenant's namespaces.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    let tenant = call.param("tenant").to_owned();
    let asked = tenant.clone();
    let names = call.handle().control(move |m| namespaces::list(m, &asked)).await??;
    Reply::json(&names.iter().map(|name| format!("{tenant}/{name}")).collect::<Vec<_>>())
}

/// GET: all policies.
pub(crate) async fn get(call: Call) -> Result<Reply, Refusal> {
    Reply::json(&policies(&call).await?)
}

/// PUT: adds a namespace; the body says what differs from the defaults. `?bundles=N` is how some clients ask for bundles.
pub(crate) async fn create(call: Call) -> Result<Reply, Refusal> {
    let namespace = call.namespace()?;
    let wanted: Map<String, Value> = optional(&call.body)?.unwrap_or_default();
    let mut policies = Policies::new();
    for (field, value) in wanted {
        policies.set(&field, value).map_err(Refusal::policy)?;
    }
    if let Some(count) = call.query.get("bundles") {
        let count =
            count.parse().map_err(|_| Refusal::precondition(format!("The number of bundles must be a whole number, not {count:?}")))?;
        let bundles = Bundles::even(count).map_err(|error| Refusal::precondition(error.to_string()))?;
        policies.set("bundles", bundles).map_err(Refusal::policy)?;
    }
    let (cluster, bundles) = (call.handle().settings().cluster.clone(), call.handle().live().default_bundles);
    let limit = call.options().max_namespaces_per_tenant;
    let create = move |m: &dyn metadata::MetadataStore| {
        namespaces::create(m, path(&namespace), policies, NewNamespace { local_cluster: &cluster, bundles, limit }).map(drop)
    };
    call.handle().control(create).await??;
    Ok(Reply::done())
}

/// DELETE: removes a namespace without topics; with `force=true` and leave of the configuration, with its topics.
pub(crate) async fn delete(call: Call) -> Result<Reply, Refusal> {
    let namespace = call.namespace()?;
    let force = call.query.flag("force");
    if force && !call.options().force_delete_namespaces {
        return Err(Refusal::not_allowed("Broker doesn't allow forced deletion of namespaces"));
    }
    remove(&call, namespace, force).await?;
    Ok(Reply::done())
}

/// Removes every namespace of a tenant, topics and all.
pub(crate) async fn delete_all_of(call: &Call, tenant: &str) -> Result<(), Refusal> {
    let asked = tenant.to_owned();
    for name in call.handle().control(move |m| namespaces::list(m, &asked)).await?? {
        let namespace = NamespaceName::new(tenant, &name).map_err(|error| Refusal::precondition(error.to_string()))?;
        remove(call, namespace, true).await?;
    }
    Ok(())
}

async fn remove(call: &Call, namespace: NamespaceName, with_topics: bool) -> Result<(), Refusal> {
    let handle = call.handle();
    let mut partitioned = Vec::new();
    for domain in DOMAINS {
        partitioned.extend(handle.partitioned_topics(namespace.clone(), domain).await?);
        let topics = handle.topics(namespace.clone(), domain).await?;
        // The broker's own topics do not keep a namespace alive.
        let users = |name: &TopicName| with_topics || is_system(name);
        if !partitioned.iter().chain(&topics).all(users) {
            return Err(Refusal::conflict("Cannot delete non empty namespace"));
        }
    }
    for name in partitioned {
        gone_is_fine(handle.delete_partitioned(name, true).await)?;
    }
    for domain in DOMAINS {
        for name in handle.topics(namespace.clone(), domain).await? {
            gone_is_fine(handle.delete_topic(name, true).await)?;
        }
    }
    handle.control(move |m| namespaces::delete(m, path(&namespace))).await??;
    Ok(())
}

fn gone_is_fine(result: Result<(), TopicError>) -> Result<(), TopicError> {
    match result {
        Err(TopicError::NotFound(_)) => Ok(()),
        other => other,
    }
}

/// GET: full names of the topics, partitions one by one.
pub(crate) async fn topics(call: Call) -> Result<Reply, Refusal> {
    let domains: &[Domain] = match call.query.get("mode").unwrap_or("PERSISTENT").to_ascii_uppercase().as_str() {
        "PERSISTENT" => &[Domain::Persistent],
        "NON_PERSISTENT" => &[Domain::NonPersistent],
        "ALL" => &DOMAINS,
        other => return Err(Refusal::bad_request(format!("mode is PERSISTENT, NON_PERSISTENT or ALL, not {other:?}"))),
    };
    let mut topics = Vec::new();
    for domain in domains {
        topics.extend(visible(call.handle().topics(call.namespace()?, *domain).await?, &call));
    }
    names(topics)
}

/// GET: namespaces of a tenant that are in an anti-affinity group.
pub(crate) async fn of_anti_affinity_group(call: Call) -> Result<Reply, Refusal> {
    let (group, tenant) = (call.param("group").to_owned(), call.query.get("tenant").unwrap_or_default().to_owned());
    let find = move |m: &dyn metadata::MetadataStore| {
        let mut found = Vec::new();
        for name in namespaces::list(m, &tenant)? {
            let (policies, _) = namespaces::get(m, metadata::paths::NamespacePath::new(&tenant, &name))?;
            if policies.field("namespaceAntiAffinityGroup").is_some_and(|known| *known == *group) {
                found.push(format!("{tenant}/{name}"));
            }
        }
        Ok::<_, namespaces::NamespaceError>(found)
    };
    Reply::json(&call.handle().control(find).await??)
}

/// POST: notes that a namespace has moved to another cluster, or has not.
pub(crate) async fn migrate(call: Call) -> Result<Reply, Refusal> {
    let migrated = call.query.flag("migrated");
    crate::policies::change_namespace(&call, move |policies| policies.set("migrated", migrated)).await?;
    Ok(Reply::done())
}

/// Leaves the broker's own topics out unless they are asked for.
pub(crate) fn visible(names: Vec<TopicName>, call: &Call) -> Vec<TopicName> {
    let all = call.query.flag("includeSystemTopic");
    names.into_iter().filter(|name| all || !is_system(name)).collect()
}

/// The policies of the namespace in the path.
pub(crate) async fn policies(call: &Call) -> Result<Policies, Refusal> {
    let namespace = call.namespace()?;
    let (policies, _) = call.handle().control(move |m| namespaces::get(m, path(&namespace))).await??;
    Ok(policies)
}
