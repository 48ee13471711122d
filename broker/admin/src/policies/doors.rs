//! Reading and writing slots: at a namespace, in its policies; at a topic, in a node of its own. Whoever set a policy is answered when
//! every loaded topic follows it.

use metadata::namespaces::{self, NamespaceError, Policies, PolicyError};
use metadata::paths::Domain;
use metadata::topic_policies::{self, TopicPolicyError};
use serde_json::Value;
use server::{Said, TopicError};
use wire::TopicName;

use super::slot::{Kept, Level, Slot};
use crate::address::path;
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::Call;

/// GET. `applied` asks for what holds, level over level.
pub(super) async fn show(call: Call, slot: &'static Slot, level: Level) -> Result<Reply, Refusal> {
    let applied = call.query.flag("applied");
    let said = match level {
        Level::Namespace => Said { topic: Policies::new(), namespace: crate::namespaces::policies(&call).await? },
        Level::Topic => call.handle().policies_of(require_topic(&call).await?).await?,
    };
    let unsaid = slot.door(level).map_or("", |door| door.unsaid);
    let settings = call.handle().live();
    let own = match level {
        Level::Namespace => &said.namespace,
        Level::Topic => &said.topic,
    };
    let always_set = slot.door(level).is_some_and(|door| door.unset_suffix().is_none() && unsaid.is_empty());
    let value = match applied || always_set {
        true => slot.read(&said.over(&settings.policies), &settings.cluster).cloned(),
        false => slot.read(own, &settings.cluster).cloned(),
    };
    match value {
        // The configuration can only add to it.
        Some(Value::Bool(_)) if applied && slot.field == "schema_validation_enforced" && settings.schemas.enforced => Reply::json(&true),
        Some(value) => Reply::json(&value),
        None if unsaid.is_empty() => Ok(Reply::done()),
        None => Ok(Reply::spelt(unsaid)),
    }
}

/// POST or PUT.
pub(super) async fn set(call: Call, slot: &'static Slot, level: Level) -> Result<Reply, Refusal> {
    let value = slot.shape.read(&call)?;
    change(&call, slot, level, value).await
}

/// DELETE.
pub(super) async fn unset(call: Call, slot: &'static Slot, level: Level) -> Result<Reply, Refusal> {
    change(&call, slot, level, Value::Null).await
}

async fn change(call: &Call, slot: &'static Slot, level: Level, value: Value) -> Result<Reply, Refusal> {
    let key = match slot.kept {
        Kept::Whole => String::new(),
        Kept::ByCluster => call.handle().settings().cluster.clone(),
        Kept::ByKind => quota_kind(call)?,
    };
    let write = move |policies: &mut Policies| slot.write(policies, &key, value.clone());
    let changed = match level {
        Level::Namespace => change_namespace(call, write).await,
        Level::Topic => change_topic(call, write).await,
    };
    changed.map_err(|refused| match refused {
        Refused::Policy(error) => slot.shape.refuse(error.reason),
        Refused::Otherwise(refusal) => refusal,
    })?;
    Ok(Reply::done())
}

/// What a quota is about, as the query says it.
fn quota_kind(call: &Call) -> Result<String, Refusal> {
    match call.query.get("backlogQuotaType").unwrap_or("destination_storage") {
        kind @ ("destination_storage" | "message_age") => Ok(kind.to_owned()),
        other => Err(Refusal::bad_request(format!("backlogQuotaType is destination_storage or message_age, not {other:?}"))),
    }
}

/// Why a change was not made.
pub(crate) enum Refused {
    Policy(PolicyError),
    Otherwise(Refusal),
}

impl Refused {
    pub(crate) fn into_refusal(self) -> Refusal {
        match self {
            Refused::Policy(error) => Refusal::policy(error),
            Refused::Otherwise(refusal) => refusal,
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        refused.into_refusal()
    }
}

impl From<TopicError> for Refused {
    fn from(error: TopicError) -> Refused {
        Refused::Otherwise(error.into())
    }
}

/// Changes the policies of the namespace in the path, for loaded topics too.
pub(crate) async fn change_namespace(
    call: &Call,
    change: impl Fn(&mut Policies) -> Result<(), PolicyError> + Send + 'static,
) -> Result<(), Refused> {
    let namespace = call.namespace().map_err(Refused::Otherwise)?;
    let stored = namespace.clone();
    let update = move |m: &dyn metadata::MetadataStore| namespaces::update(m, path(&stored), |policies| Ok(change(policies)?));
    match call.handle().control(update).await? {
        Ok(_) => Ok(call.handle().settle_namespace(namespace).await?),
        Err(NamespaceError::Policy(error)) => Err(Refused::Policy(error)),
        Err(other) => Err(Refused::Otherwise(other.into())),
    }
}

/// Changes what is said of the topic in the path.
pub(crate) async fn change_topic(
    call: &Call,
    change: impl Fn(&mut Policies) -> Result<(), PolicyError> + Send + 'static,
) -> Result<(), Refused> {
    let whole = require_topic(call).await.map_err(Refused::Otherwise)?;
    let stored = whole.clone();
    let update = move |m: &dyn metadata::MetadataStore| {
        let (namespace, domain) = (stored.namespace(), if stored.is_persistent() { Domain::Persistent } else { Domain::NonPersistent });
        topic_policies::update(m, path(&namespace).topic(domain, stored.local()), |policies| change(policies))
    };
    match call.handle().control(update).await? {
        Ok(_) => Ok(call.handle().settle_topic(whole).await?),
        Err(TopicPolicyError::Policy(error)) => Err(Refused::Policy(error)),
        Err(other) => Err(Refused::Otherwise(other.into())),
    }
}

/// The topic in the path, or the one that a partition is a part of; it is there, and topics have policies here.
pub(crate) async fn require_topic(call: &Call) -> Result<TopicName, Refusal> {
    if !call.options().topic_policies {
        return Err(Refusal::not_allowed("Topic level policy is disabled, to enable the topic level policy and retry."));
    }
    let topic = call.topic()?;
    call.handle().partitions(topic.clone()).await?;
    Ok(topic.partitioned())
}
