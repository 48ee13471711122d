//! Why a request was not carried out, as an HTTP status and a reason; the only place where errors of the rooms below become
//! statuses.

use hyper::StatusCode;
use metadata::clusters::ClusterError;
use metadata::namespaces::{NamespaceError, PolicyError};
use metadata::resource_groups::ResourceGroupError;
use metadata::schemas::SchemaError;
use metadata::tenants::TenantError;
use metadata::topic_policies::TopicPolicyError;
use metadata::{MetadataError, Rejected};
use server::TopicError;

/// A status of 4xx or 5xx and the sentence that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) reason: String,
    /// The methods that would have been allowed, when the method was the mistake.
    pub(crate) allow: Option<String>,
    /// What programs tell it apart by, in our own API; none for the usual one of its status.
    pub(crate) code: Option<&'static str>,
    /// What is wrong where in the body, in our own API: JSON pointers and sentences.
    pub(crate) flaws: Vec<(String, String)>,
    /// After how many seconds to try again.
    pub(crate) retry_after: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), allow: None, code: None, flaws: Vec::new(), retry_after: None }
    }

    /// The same, with a code of its own.
    pub(crate) fn coded(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The same, with what is wrong where.
    pub(crate) fn with_flaws(self, flaws: Vec<(String, String)>) -> Self {
        Self { flaws, ..self }
    }

    /// Too much of something; to be tried again after so many seconds.
    pub(crate) fn too_many(reason: impl Into<String>, retry_after: u64) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(StatusCode::TOO_MANY_REQUESTS, reason) }
    }

    pub(crate) fn bad_request(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    /// Nobody knows who asks.
    pub(crate) fn unauthorized(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, reason)
    }

    pub(crate) fn forbidden(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, reason)
    }

    pub(crate) fn not_found(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, reason)
    }

    /// Wrong kind of topic, or a feature that is switched off.
    pub(crate) fn not_allowed(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, reason)
    }

    /// The path is there, but not for this method.
    pub(crate) fn wrong_method(reason: impl Into<String>, allow: String) -> Self {
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, reason) }
    }

    pub(crate) fn not_acceptable(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, reason)
    }

    pub(crate) fn conflict(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, reason)
    }

    /// A bad name, or something that must be done first.
    pub(crate) fn precondition(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, reason)
    }

    pub(crate) fn unprocessable(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, reason)
    }

    /// A policy with a value that cannot be.
    pub(crate) fn policy(error: PolicyError) -> Self {
        Self::precondition(error.to_string())
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, format!("The body is larger than {limit} bytes"))
    }

    pub(crate) fn internal(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason)
    }

    /// Something that is switched off, or that there is not.
    pub(crate) fn not_implemented(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, reason)
    }

    /// Not now; the client may try again.
    pub(crate) fn busy(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    }
}

impl From<TopicError> for Refusal {
    fn from(error: TopicError) -> Self {
        match error {
            TopicError::NotFound(name) => Self::not_found(format!("Topic {name} not found")),
            TopicError::NoSuchNamespace(_) => no_such_namespace(),
            TopicError::Exists(_) => Self::conflict("This topic already exists"),
            TopicError::InUse { topic, producers, consumers, subscriptions } => Self::precondition(format!(
                "Topic has active producers/subscriptions: {topic} has {producers} producers, {consumers} consumers, {subscriptions} subscriptions"
            )),
            TopicError::NoSubscription { .. } => Self::not_found(error.to_string()),
            TopicError::SubscriptionExists { .. } => Self::conflict("Subscription already exists for topic"),
            TopicError::SubscriptionInUse { .. } => Self::precondition("Subscription has active connected consumers"),
            TopicError::NoStorage(name) => Self::not_allowed(format!("Not allowed on a non-persistent topic: {name} stores no messages")),
            TopicError::BadName(reason) => Self::precondition(reason),
            TopicError::Busy(reason) => Self::busy(reason),
            TopicError::NotAllowed(reason) => Self::conflict(reason),
            TopicError::TooMany(reason) => Self::precondition(reason),
            TopicError::Metadata(error) => error.into(),
            TopicError::Storage(_) => Self::internal(error.to_string()),
            TopicError::Gone => Self::busy(error.to_string()),
        }
    }
}

impl From<MetadataError> for Refusal {
    fn from(error: MetadataError) -> Self {
        let reason = error.to_string();
        match error {
            MetadataError::Rejected(Rejected::NotFound { .. }) => Self::not_found(reason),
            MetadataError::Rejected(Rejected::VersionConflict { .. } | Rejected::Exists { .. } | Rejected::NotEmpty { .. }) => {
                Self::conflict(reason)
            }
            MetadataError::Rejected(Rejected::BadPath { .. } | Rejected::TooLarge { .. }) => Self::precondition(reason),
            MetadataError::Rejected(Rejected::Overloaded { .. }) => Self::busy(reason),
            MetadataError::Rejected(Rejected::SessionEnded { .. } | Rejected::Reentrant) | MetadataError::Unknown(_) => {
                Self::internal(format!("metadata: {reason}"))
            }
        }
    }
}

// Tools compare the sentences below, so that they are Pulsar's.

impl From<ClusterError> for Refusal {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::BadName(_) => Self::precondition("Cluster name is not valid"),
            ClusterError::Exists(_) => Self::conflict("Cluster already exists"),
            ClusterError::NotFound(_) => Self::not_found("Cluster does not exist"),
            ClusterError::InUse { .. } => Self::precondition(format!("Cluster not empty: {error}")),
            ClusterError::Malformed(_) => Self::internal(error.to_string()),
            ClusterError::Store(error) => error.into(),
        }
    }
}

impl From<TenantError> for Refusal {
    fn from(error: TenantError) -> Self {
        match error {
            TenantError::BadName(_) => Self::precondition("Tenant name is not valid"),
            TenantError::Exists(_) => Self::conflict("Tenant already exist"),
            TenantError::NotFound(_) => no_such_tenant(),
            TenantError::NoClusters => Self::precondition("Clusters can not be empty"),
            TenantError::UnknownCluster(cluster) => Self::precondition(format!("Clusters do not exist: {cluster}")),
            TenantError::NotEmpty(_) => Self::conflict("The tenant still has active namespaces"),
            TenantError::TooMany(_) => Self::precondition(error.to_string()),
            TenantError::Malformed(_) => Self::internal(error.to_string()),
            TenantError::Store(error) => error.into(),
        }
    }
}

impl From<NamespaceError> for Refusal {
    fn from(error: NamespaceError) -> Self {
        match error {
            NamespaceError::BadName(_) => Self::precondition("Namespace name is not valid"),
            NamespaceError::Exists(_) => Self::conflict("Namespace already exists"),
            NamespaceError::NotFound(_) => no_such_namespace(),
            NamespaceError::UnknownTenant(_) => no_such_tenant(),
            NamespaceError::UnknownCluster(cluster) => Self::forbidden(format!("Invalid cluster id: {cluster}")),
            NamespaceError::ClusterNotAllowed { tenant, .. } => {
                Self::forbidden(format!("Cluster name is not in the list of allowed clusters list for tenant [{tenant}]"))
            }
            NamespaceError::NotEmpty(_) => Self::conflict("Cannot delete non empty namespace"),
            NamespaceError::TooMany(_) => Self::precondition(error.to_string()),
            NamespaceError::Policy(error) => Self::policy(error),
            NamespaceError::Malformed(_) => Self::internal(error.to_string()),
            NamespaceError::Store(error) => error.into(),
        }
    }
}

impl From<ResourceGroupError> for Refusal {
    fn from(error: ResourceGroupError) -> Self {
        match error {
            ResourceGroupError::BadName(_) => Self::precondition(error.to_string()),
            ResourceGroupError::NotFound(_) => Self::not_found("ResourceGroup does not exist"),
            ResourceGroupError::InUse { .. } => Self::conflict(error.to_string()),
            ResourceGroupError::Malformed(_) => Self::internal(error.to_string()),
            ResourceGroupError::Store(error) => error.into(),
        }
    }
}

impl From<TopicPolicyError> for Refusal {
    fn from(error: TopicPolicyError) -> Self {
        match error {
            TopicPolicyError::NotFound(name) => Self::not_found(format!("Topic {name} not found")),
            TopicPolicyError::Policy(error) => Self::policy(error),
            TopicPolicyError::Malformed(_) => Self::internal(error.to_string()),
            TopicPolicyError::Store(error) => error.into(),
        }
    }
}

impl From<SchemaError> for Refusal {
    fn from(error: SchemaError) -> Self {
        match error {
            SchemaError::Invalid(reason) => Self::unprocessable(reason),
            SchemaError::Incompatible(reason) => Self::conflict(reason),
            SchemaError::Malformed(_) => Self::internal(error.to_string()),
            SchemaError::Store(error) => error.into(),
        }
    }
}

fn no_such_tenant() -> Refusal {
    Refusal::not_found("Tenant does not exist")
}

fn no_such_namespace() -> Refusal {
    Refusal::not_found("Namespace does not exist")
}
