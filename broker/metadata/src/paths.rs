//! Where things are in the tree: Pulsar's own paths, so that tools and stores that know Pulsar find them.
//!
//! ```text
//! /admin/clusters/{cluster}                                        cluster, JSON
//! /admin/resourcegroups/{group}                                    rates that namespaces share, JSON
//! /admin/policies/{tenant}                                         tenant, JSON
//! /admin/policies/{tenant}/{namespace}                             namespace policies, JSON
//! /admin/local-policies/{tenant}/{namespace}                       bundles after splits, JSON
//! /admin/partitioned-topics/{tenant}/{namespace}/{domain}/{topic}  number of partitions, JSON
//! /admin/topic-policies/{tenant}/{namespace}/{domain}/{topic}      policies of one topic, JSON; Pulsar has them in a topic
//! /managed-ledgers/{tenant}/{namespace}/{domain}/{topic}           ledgers of a topic, protobuf
//! /managed-ledgers/{tenant}/{namespace}/{domain}/{topic}/{cursor}  cursor, protobuf
//! /namespace/{tenant}/{namespace}/{0xfirst_0xlast}                 owner of a bundle, JSON, ephemeral
//! /loadbalance/brokers/{host:port}                                 a broker that is up, JSON, ephemeral
//! /loadbalance/leader                                              the broker that leads, JSON, ephemeral
//! /schemas/{tenant}/{namespace}/{topic}                            versions of a topic's schema, protobuf
//! /schemas/{tenant}/{namespace}/{topic}/{version}                  a schema, protobuf
//! /counters/bundle-owners/{tenant}/{namespace}/{0xfirst_0xlast}    its version is the epoch of the owner
//! /counters/{name}                                                 the name of a sequence
//! ```
//!
//! Topics and cursors are spelt by [`component::encode`]; the others are entity names and stand as they are.

use crate::component;

/// Clusters are below this.
pub const CLUSTERS: &str = "/admin/clusters";
/// Tenants are below this, and namespaces below their tenants.
pub const POLICIES: &str = "/admin/policies";
/// Groups of namespaces that share rates are below this.
pub const RESOURCE_GROUPS: &str = "/admin/resourcegroups";
/// Brokers that are up are below this.
pub const BROKERS: &str = "/loadbalance/brokers";
/// The broker that leads.
pub const LEADER: &str = "/loadbalance/leader";
/// Numbers for the names of producers that brought none.
pub const PRODUCER_NAMES: &str = "/counters/producer-name";
/// Numbers of ledgers, for engines that do not number them themselves.
pub const LEDGER_IDS: &str = "/counters/ledger-id";
/// Dynamic configuration.
pub const CONFIGURATION: &str = "/admin/configuration";

const LOCAL_POLICIES: &str = "/admin/local-policies";
const PARTITIONED_TOPICS: &str = "/admin/partitioned-topics";
/// Policies of single topics are below this.
pub const TOPIC_POLICIES: &str = "/admin/topic-policies";
/// The parent of every tenant's topics.
pub const MANAGED_LEDGERS: &str = "/managed-ledgers";
const OWNERS: &str = "/namespace";
const OWNER_EPOCHS: &str = "/counters/bundle-owners";
const SCHEMAS: &str = "/schemas";

/// A cluster's node.
pub fn cluster(name: &str) -> String {
    format!("{CLUSTERS}/{name}")
}

/// A tenant's node.
pub fn tenant(name: &str) -> String {
    format!("{POLICIES}/{name}")
}

/// The node of a group of namespaces.
pub fn resource_group(name: &str) -> String {
    format!("{RESOURCE_GROUPS}/{name}")
}

/// A broker's node, by its address `host:port`.
pub fn broker(address: &str) -> String {
    format!("{BROKERS}/{address}")
}

/// The first component of a topic's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Domain {
    /// Kept in ledgers.
    Persistent,
    /// Kept nowhere.
    NonPersistent,
}

impl Domain {
    /// Both.
    pub const ALL: [Domain; 2] = [Domain::Persistent, Domain::NonPersistent];

    /// As it stands in names and paths.
    pub fn as_str(self) -> &'static str {
        match self {
            Domain::Persistent => "persistent",
            Domain::NonPersistent => "non-persistent",
        }
    }
    fn parse(text: &str) -> Option<Domain> {
        Domain::ALL.into_iter().find(|domain| domain.as_str() == text)
    }
}

/// A namespace, by the two parts of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacePath<'n> {
    /// Its tenant.
    pub tenant: &'n str,
    /// Its name within the tenant.
    pub namespace: &'n str,
}

impl<'n> NamespacePath<'n> {
    /// Of `tenant/namespace`.
    pub fn new(tenant: &'n str, namespace: &'n str) -> NamespacePath<'n> {
        NamespacePath { tenant, namespace }
    }
    /// From `tenant/namespace`, both of them entity names.
    pub fn parse(name: &'n str) -> Option<NamespacePath<'n>> {
        let (tenant, namespace) = name.split_once('/')?;
        (component::is_entity_name(tenant) && component::is_entity_name(namespace)).then_some(NamespacePath { tenant, namespace })
    }
    /// Its policies.
    pub fn policies(self) -> String {
        self.below(POLICIES)
    }
    /// Its bundles as they were split.
    pub fn local_policies(self) -> String {
        self.below(LOCAL_POLICIES)
    }
    /// Everything that is kept of its topics.
    pub fn managed_ledgers(self) -> String {
        self.below(MANAGED_LEDGERS)
    }
    /// The parent of its topics of one domain.
    pub fn topics(self, domain: Domain) -> String {
        format!("{}/{}", self.managed_ledgers(), domain.as_str())
    }
    /// Everything that is kept of its partitioned topics.
    pub fn all_partitioned(self) -> String {
        self.below(PARTITIONED_TOPICS)
    }
    /// The parent of its partitioned topics of one domain.
    pub fn partitioned_topics(self, domain: Domain) -> String {
        format!("{}/{}", self.all_partitioned(), domain.as_str())
    }
    /// Everything that is said of its topics one by one.
    pub fn topic_policies(self) -> String {
        self.below(TOPIC_POLICIES)
    }
    /// The parent of the owners of its bundles.
    pub fn owners(self) -> String {
        self.below(OWNERS)
    }
    /// The owner of one bundle, written `0xfirst_0xlast`.
    pub fn owner(self, bundle: &str) -> String {
        format!("{}/{bundle}", self.owners())
    }
    /// What counts the owners that a bundle has had; stays when the namespace is deleted, so that no epoch comes twice.
    pub fn owner_epoch(self, bundle: &str) -> String {
        format!("{}/{bundle}", self.below(OWNER_EPOCHS))
    }
    /// The parent of its topics' schemas.
    pub fn schemas(self) -> String {
        self.below(SCHEMAS)
    }
    /// One of its topics.
    pub fn topic(self, domain: Domain, topic: &'n str) -> TopicPath<'n> {
        TopicPath { namespace: self, domain, topic }
    }

    fn below(self, root: &str) -> String {
        format!("{root}/{}/{}", self.tenant, self.namespace)
    }
}

impl std::fmt::Display for NamespacePath<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.tenant, self.namespace)
    }
}

/// The nodes of `tenant` that its namespaces leave behind, and its own; parents after children.
pub(crate) fn of_tenant(tenant: &str) -> Vec<String> {
    [LOCAL_POLICIES, PARTITIONED_TOPICS, TOPIC_POLICIES, MANAGED_LEDGERS, OWNERS, SCHEMAS]
        .iter()
        .map(|root| format!("{root}/{tenant}"))
        .collect()
}

/// A topic, by the parts of its name; a partition is a topic of its own. The name is as the user wrote it, not encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPath<'n> {
    /// Where it lives.
    pub namespace: NamespacePath<'n>,
    /// How it is kept.
    pub domain: Domain,
    /// Its name within the namespace.
    pub topic: &'n str,
}

impl TopicPath<'_> {
    /// Its list of ledgers; its cursors are the children.
    pub fn managed_ledger(self) -> String {
        format!("{}/{}", self.namespace.topics(self.domain), component::encode(self.topic))
    }
    /// One of its cursors.
    pub fn cursor(self, cursor: &str) -> String {
        format!("{}/{}", self.managed_ledger(), component::encode(cursor))
    }
    /// How many partitions it has.
    pub fn partitioned(self) -> String {
        format!("{}/{}", self.namespace.partitioned_topics(self.domain), component::encode(self.topic))
    }
    /// What is said of it alone.
    pub fn policies(self) -> String {
        format!("{}/{}/{}", self.namespace.topic_policies(), self.domain.as_str(), component::encode(self.topic))
    }
    /// Its schemas, which partitions share.
    pub fn schemas(self) -> String {
        format!("{}/{}", self.namespace.schemas(), component::encode(self.topic))
    }
}

impl std::fmt::Display for TopicPath<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}/{}", self.domain.as_str(), self.namespace, self.topic)
    }
}

/// What a path is about, read back from it: what a watcher asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place<'p> {
    /// A cluster.
    Cluster(&'p str),
    /// A tenant.
    Tenant(&'p str),
    /// The policies of a namespace.
    Policies(NamespacePath<'p>),
    /// The bundles of a namespace.
    LocalPolicies(NamespacePath<'p>),
    /// The number of partitions of a topic, its name decoded.
    PartitionedTopic(NamespacePath<'p>, Domain, String),
    /// What is said of one topic, its name decoded.
    TopicPolicies(NamespacePath<'p>, Domain, String),
    /// A topic's list of ledgers, its name decoded.
    ManagedLedger(NamespacePath<'p>, Domain, String),
    /// A cursor of a topic, both names decoded.
    Cursor(NamespacePath<'p>, Domain, String, String),
    /// The owner of a bundle.
    Owner(NamespacePath<'p>, &'p str),
    /// A broker.
    Broker(&'p str),
}

impl<'p> Place<'p> {
    /// None for a path that is only a parent, or that this version does not know.
    pub fn parse(path: &'p str) -> Option<Place<'p>> {
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let place = match *parts.as_slice() {
            ["admin", "clusters", cluster] => Place::Cluster(cluster),
            ["admin", "policies", tenant] => Place::Tenant(tenant),
            ["admin", "policies", tenant, namespace] => Place::Policies(NamespacePath { tenant, namespace }),
            ["admin", "local-policies", tenant, namespace] => Place::LocalPolicies(NamespacePath { tenant, namespace }),
            ["admin", "partitioned-topics", tenant, namespace, domain, topic] => {
                Place::PartitionedTopic(NamespacePath { tenant, namespace }, Domain::parse(domain)?, component::decode(topic)?)
            }
            ["admin", "topic-policies", tenant, namespace, domain, topic] => {
                Place::TopicPolicies(NamespacePath { tenant, namespace }, Domain::parse(domain)?, component::decode(topic)?)
            }
            ["managed-ledgers", tenant, namespace, domain, topic] => {
                Place::ManagedLedger(NamespacePath { tenant, namespace }, Domain::parse(domain)?, component::decode(topic)?)
            }
            ["managed-ledgers", tenant, namespace, domain, topic, cursor] => {
                let domain = Domain::parse(domain)?;
                Place::Cursor(NamespacePath { tenant, namespace }, domain, component::decode(topic)?, component::decode(cursor)?)
            }
            ["namespace", tenant, namespace, bundle] => Place::Owner(NamespacePath { tenant, namespace }, bundle),
            ["loadbalance", "brokers", broker] => Place::Broker(broker),
            _ => return None,
        };
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: NamespacePath<'_> = NamespacePath { tenant: "public", namespace: "default" };

    #[test]
    fn paths_are_pulsars() {
        let topic = NS.topic(Domain::Persistent, "a/b c");
        assert_eq!(cluster("standalone"), "/admin/clusters/standalone");
        assert_eq!(tenant("public"), "/admin/policies/public");
        assert_eq!(NS.policies(), "/admin/policies/public/default");
        assert_eq!(NS.local_policies(), "/admin/local-policies/public/default");
        assert_eq!(NS.owner("0x00000000_0x40000000"), "/namespace/public/default/0x00000000_0x40000000");
        assert_eq!(topic.managed_ledger(), "/managed-ledgers/public/default/persistent/a%2Fb+c");
        assert_eq!(topic.cursor("s:1"), "/managed-ledgers/public/default/persistent/a%2Fb+c/s%3A1");
        assert_eq!(topic.partitioned(), "/admin/partitioned-topics/public/default/persistent/a%2Fb+c");
        assert_eq!(topic.schemas(), "/schemas/public/default/a%2Fb+c");
        assert_eq!(topic.policies(), "/admin/topic-policies/public/default/persistent/a%2Fb+c");
        let volatile = NS.topic(Domain::NonPersistent, "t");
        assert_eq!(volatile.partitioned(), "/admin/partitioned-topics/public/default/non-persistent/t");
    }

    #[test]
    fn a_place_is_read_back_from_its_path() {
        let topic = NS.topic(Domain::Persistent, "a/b c");
        let name = || "a/b c".to_owned();
        for (path, place) in [
            (cluster("c"), Place::Cluster("c")),
            (tenant("public"), Place::Tenant("public")),
            (NS.policies(), Place::Policies(NS)),
            (NS.local_policies(), Place::LocalPolicies(NS)),
            (topic.partitioned(), Place::PartitionedTopic(NS, Domain::Persistent, name())),
            (topic.policies(), Place::TopicPolicies(NS, Domain::Persistent, name())),
            (topic.managed_ledger(), Place::ManagedLedger(NS, Domain::Persistent, name())),
            (topic.cursor("s 1"), Place::Cursor(NS, Domain::Persistent, name(), "s 1".into())),
            (NS.owner("0x0_0x1"), Place::Owner(NS, "0x0_0x1")),
            (broker("h:8080"), Place::Broker("h:8080")),
        ] {
            assert_eq!(Place::parse(&path), Some(place), "{path}");
        }
        for unknown in ["/", "", "/admin", "/managed-ledgers/a/b/persistent", "/managed-ledgers/a/b/other/t", "/x/%/y"] {
            assert_eq!(Place::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_namespace_name_has_two_parts() {
        assert_eq!(NamespacePath::parse("public/default"), Some(NS));
        for bad in ["public", "a/b/c", "/b", "a/", "a b/c"] {
            assert_eq!(NamespacePath::parse(bad), None, "{bad}");
        }
    }
}
