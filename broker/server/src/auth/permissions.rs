//! What a role may do, as Pulsar keeps it: super-users in the configuration, administrators with their tenant, grants in the
//! policies of a namespace (`auth_policies`).

use metadata::namespaces::{self, NamespaceError, Policies};
use metadata::paths::NamespacePath;
use metadata::tenants::{self, TenantError};
use metadata::{MetadataError, MetadataStore};
use serde_json::Value;
use wire::{NamespaceName, TopicName};

use super::settings::AuthSettings;

/// What somebody wants.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// To be known, whoever it is.
    Nothing,
    /// To administer everything.
    Everything,
    /// To administer a tenant.
    Tenant(String),
    /// To list the topics of a namespace.
    Namespace(NamespaceName),
    Produce(TopicName),
    Consume(TopicName, String),
    /// To know where a topic is: whoever produces or consumes may.
    Use(TopicName),
}

impl Wanted {
    /// The words of a refusal. Clients look for those about partitions.
    pub(crate) fn refusal(&self, who: &super::Identity) -> String {
        let role = &who.role;
        match self {
            Wanted::Produce(topic) => format!("role {role} is not authorized to produce to {topic}"),
            Wanted::Consume(topic, subscription) => {
                format!("role {role} is not authorized to consume from {topic} with subscription {subscription}")
            }
            Wanted::Use(topic) => format!("role {role} is not authorized to use {topic}"),
            Wanted::Namespace(namespace) => format!("role {role} is not authorized to list the topics of {namespace}"),
            Wanted::Tenant(tenant) => format!("role {role} does not administer tenant {tenant}"),
            Wanted::Nothing => format!("role {role} is not known"),
            Wanted::Everything => format!("role {role} is no super-user"),
        }
    }
}

/// What a caller of the HTTP side wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// To be known, whoever it is.
    Known,
    /// To administer everything.
    Everything,
    /// To administer a tenant.
    Tenant(String),
    /// To use a topic, or to administer its tenant.
    Topic(TopicName),
}

impl From<Access> for Wanted {
    fn from(access: Access) -> Wanted {
        match access {
            Access::Known => Wanted::Nothing,
            Access::Everything => Wanted::Everything,
            Access::Tenant(tenant) => Wanted::Tenant(tenant),
            Access::Topic(topic) => Wanted::Use(topic),
        }
    }
}

/// Why a call is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nobody knows who asks.
    #[error("{0}")]
    Unproven(String),
    /// They are known and may not.
    #[error("{0}")]
    Forbidden(String),
    /// Logins from there failed too often; nothing is looked at for so many seconds.
    #[error("too many logins from this address failed: try again in {0} s")]
    Again(u64),
    /// It could not be found out.
    #[error("{0}")]
    Failed(String),
}

pub(super) fn allows(metadata: &dyn MetadataStore, settings: &AuthSettings, role: &str, wanted: &Wanted) -> Result<bool, MetadataError> {
    if settings.superusers.iter().any(|superuser| superuser == role) {
        return Ok(true);
    }
    let (tenant, namespace) = match wanted {
        Wanted::Nothing => return Ok(true),
        Wanted::Everything => return Ok(false),
        Wanted::Tenant(tenant) => (tenant.clone(), None),
        Wanted::Namespace(namespace) => (namespace.tenant().to_owned(), Some(namespace.clone())),
        Wanted::Produce(topic) | Wanted::Consume(topic, _) | Wanted::Use(topic) => {
            let namespace = topic.namespace();
            (namespace.tenant().to_owned(), Some(namespace))
        }
    };
    if administers(metadata, role, &tenant)? {
        return Ok(true);
    }
    let Some(namespace) = namespace else { return Ok(false) };
    let policies = match namespaces::get(metadata, NamespacePath::new(namespace.tenant(), namespace.local())) {
        Ok((policies, _)) => policies,
        Err(NamespaceError::Store(error)) => return Err(error),
        Err(NamespaceError::NotFound(_)) => return Ok(false),
        Err(other) => return Err(MetadataError::Unknown(other.to_string())),
    };
    let grants = Grants { policies: &policies, role, wildcards: settings.wildcards };
    Ok(match wanted {
        Wanted::Nothing | Wanted::Everything | Wanted::Tenant(_) => false,
        Wanted::Namespace(_) => grants.in_namespace("consume") || grants.in_namespace("produce"),
        Wanted::Produce(topic) => grants.on(topic, "produce"),
        Wanted::Consume(topic, subscription) => grants.may_subscribe(subscription) && grants.on(topic, "consume"),
        Wanted::Use(topic) => grants.on(topic, "produce") || grants.on(topic, "consume"),
    })
}

fn administers(metadata: &dyn MetadataStore, role: &str, tenant: &str) -> Result<bool, MetadataError> {
    match tenants::get(metadata, tenant) {
        Ok((tenant, _)) => Ok(tenant.admin_roles.iter().any(|admin| admin == role)),
        Err(TenantError::Store(error)) => Err(error),
        Err(TenantError::Malformed(error)) => Err(MetadataError::Unknown(error.to_string())),
        Err(_) => Ok(false),
    }
}

/// What a namespace's policies grant one role.
struct Grants<'a> {
    policies: &'a Policies,
    role: &'a str,
    wildcards: bool,
}

impl Grants<'_> {
    fn section(&self, name: &str) -> Option<&serde_json::Map<String, Value>> {
        self.policies.field("auth_policies")?.get(name)?.as_object()
    }

    fn in_namespace(&self, action: &str) -> bool {
        self.section("namespace_auth").is_some_and(|grants| self.grants(grants, action))
    }

    /// In the namespace, on the topic, or on the partitioned topic it is part of.
    fn on(&self, topic: &TopicName, action: &str) -> bool {
        let whole = topic.partitioned();
        let named = |key: &str| key == topic.as_str() || key == whole.as_str() || (self.wildcards && matches(key, topic.as_str()));
        let on_topic = || {
            let mut topics = self.section("destination_auth").into_iter().flatten();
            topics.any(|(key, grants)| named(key) && grants.as_object().is_some_and(|grants| self.grants(grants, action)))
        };
        self.in_namespace(action) || on_topic()
    }

    fn grants(&self, grants: &serde_json::Map<String, Value>, action: &str) -> bool {
        let names_role = |key: &str| key == self.role || (self.wildcards && matches(key, self.role));
        let names_action = |actions: &Value| actions.as_array().is_some_and(|all| all.iter().any(|one| one.as_str() == Some(action)));
        grants.iter().any(|(key, actions)| names_role(key) && names_action(actions))
    }

    /// A subscription with roles of its own is theirs; under `Prefix` its name begins with the role.
    fn may_subscribe(&self, subscription: &str) -> bool {
        let roles = self.section("subscription_auth_roles").and_then(|all| all.get(subscription)?.as_array());
        let roles = roles.filter(|roles| !roles.is_empty());
        let is_theirs = roles.is_none_or(|roles| roles.iter().any(|role| role.as_str() == Some(self.role)));
        let prefixed = self.policies.field("subscription_auth_mode").and_then(Value::as_str) == Some("Prefix");
        is_theirs && (!prefixed || subscription.starts_with(self.role))
    }
}

/// `*` at the beginning or the end of a pattern stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(beginning), _) => text.starts_with(beginning),
        (None, Some(end)) => text.ends_with(end),
        (None, None) => false,
    }
}
