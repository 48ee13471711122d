//! The one table of what is served. Routing, the answers 404 and 405, and `ROUTES.md` come from it.

use std::pin::Pin;

use hyper::Method;

use crate::errors::Refusal;
use crate::own::config::pulsars;
use crate::reply::Reply;
use crate::request::Call;
use crate::{
    backlogs, brokers, bundles, clusters, lookup, messages, metrics, namespaces, own, partitions, permissions, policies, properties,
    resource_groups, schemas, subscriptions, tenants, topic_actions, topic_stats, topics, ui,
};

/// Who may call a row, once callers are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Everybody.
    Anyone,
    /// Whoever is known.
    Known,
    /// Super-users.
    Superuser,
    /// Administrators of the tenant in the path.
    TenantAdmin,
    /// Administrators of the tenant, and whoever may produce to or consume from the topic in the path.
    TopicUser,
}

/// How much a row matters to tools that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Client test suites, probes or widely used tools break without it.
    Core,
    /// Used every day by administrators.
    Common,
    /// Our own API.
    Own,
}

/// A row as the documentation shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteLine {
    /// GET, PUT, POST or DELETE.
    pub method: String,
    /// Parameters in braces; `{domain}` is `persistent` or `non-persistent`.
    pub path: &'static str,
    /// Who may call it.
    pub class: Class,
    /// How much it matters.
    pub mark: Mark,
    /// What it does.
    pub summary: &'static str,
}

/// Everything that is served, in the order of the documentation.
pub fn routes() -> impl Iterator<Item = RouteLine> {
    let line = |r: &Route| RouteLine { method: r.method.to_string(), path: r.path, class: r.class, mark: r.mark, summary: r.summary };
    all().map(line)
}

/// Every row there is: those below, those of the policies, and those of our own API.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().chain(policies::rows()).chain(own::routes::ROUTES)
}

/// Calls that are no GET and change nothing.
const ASKING: [&str; 5] = [
    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/analyzeBacklog",
    "/admin/v2/schemas/{tenant}/{namespace}/{topic}/compatibility",
    "/admin/v2/schemas/{tenant}/{namespace}/{topic}/version",
    "/geminga/v1/config:validate",
    "/geminga/v1/events/tickets",
];

impl Route {
    /// Whether it changes something: then it is written down, and refused where nothing may be changed.
    pub(crate) fn changes(&self) -> bool {
        self.method != Method::GET && !ASKING.contains(&self.path)
    }
}

/// A row.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) handler: Handler,
    pub(crate) class: Class,
    pub(crate) mark: Mark,
    pub(crate) summary: &'static str,
}

/// Who carries a row out.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    Plain(fn(Call) -> Answer),
    /// A slot of the table of policies.
    Policy(policies::Act, &'static policies::Slot, policies::Level),
}

impl Handler {
    pub(crate) fn call(self, call: Call) -> Answer {
        match self {
            Handler::Plain(handler) => handler(call),
            Handler::Policy(act, slot, level) => policies::answer(act, slot, level, call),
        }
    }
}

/// What a handler comes to.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Reply, Refusal>>>>;

/// Writes rows: mark, class, method, path, handler, what it does; names of query parameters behind a semicolon.
macro_rules! rows {
    ($($mark:ident $class:ident $method:ident $path:literal => $handler:path, $summary:literal;)*) => {
        &[$(Route {
            method: Method::$method,
            path: $path,
            handler: Handler::Plain(|call| Box::pin($handler(call))),
            class: Class::$class,
            mark: Mark::$mark,
            summary: $summary,
        }),*]
    };
}
pub(crate) use rows;

#[rustfmt::skip]
pub(crate) static ROUTES: &[Route] = rows![
    Core   Anyone      GET    "/" => ui::front_page, "The first page: links and a quick start";
    Core   Anyone      GET    "/metrics" => metrics::scrape, "Metrics in Prometheus' text format 0.0.4";
    Core   Anyone      GET    "/status.html" => brokers::status_page, "`OK`, or 404 while the status file is not there";

    Core   Anyone      GET    "/admin/v2/clusters" => clusters::list, "Names of the clusters";
    Core   Superuser   GET    "/admin/v2/clusters/{cluster}" => clusters::get, "Where a cluster is reached";
    Core   Superuser   PUT    "/admin/v2/clusters/{cluster}" => clusters::create, "Add a cluster";
    Core   Superuser   POST   "/admin/v2/clusters/{cluster}" => clusters::update, "Replace a cluster";
    Common Superuser   DELETE "/admin/v2/clusters/{cluster}" => clusters::delete, "Remove a cluster that nobody uses";

    Common Superuser   GET    "/admin/v2/clusters/{cluster}/peers" => clusters::peers, "Clusters that a tenant may use in its place; kept, not acted on";
    Common Superuser   POST   "/admin/v2/clusters/{cluster}/peers" => clusters::set_peers, "Replace them";
    Common Superuser   GET    "/admin/v2/clusters/{cluster}/migrate" => clusters::migrated_to, "Where a cluster has moved to";
    Common Superuser   POST   "/admin/v2/clusters/{cluster}/migrate" => clusters::migrate, "Note that a cluster has moved to the addresses in the body; `migrated`; kept, not acted on";
    Common Superuser   GET    "/admin/v2/clusters/{cluster}/failureDomains" => clusters::nothing_by_name, "Always empty: one broker fails as a whole";
    Common Superuser   GET    "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies" => clusters::nothing_by_name, "Always empty: there is one broker for all";

    Common Superuser   GET    "/admin/v2/resourcegroups" => resource_groups::list, "Names of the groups that share rates";
    Common Superuser   GET    "/admin/v2/resourcegroups/{group}" => resource_groups::get, "The rates of a group";
    Common Superuser   PUT    "/admin/v2/resourcegroups/{group}" => resource_groups::put, "Add a group, or change it; kept, not acted on";
    Common Superuser   DELETE "/admin/v2/resourcegroups/{group}" => resource_groups::delete, "Remove a group that no namespace is in";

    Core   Superuser   GET    "/admin/v2/tenants" => tenants::list, "Names of the tenants";
    Core   Superuser   GET    "/admin/v2/tenants/{tenant}" => tenants::get, "Who administers a tenant, and where it lives";
    Core   Superuser   PUT    "/admin/v2/tenants/{tenant}" => tenants::create, "Add a tenant";
    Core   Superuser   POST   "/admin/v2/tenants/{tenant}" => tenants::update, "Replace a tenant";
    Core   Superuser   DELETE "/admin/v2/tenants/{tenant}" => tenants::delete, "Remove a tenant without namespaces; `force`";

    Core   TenantAdmin GET    "/admin/v2/namespaces/{tenant}" => namespaces::list, "Names of a tenant's namespaces";
    Core   TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}" => namespaces::get, "All policies";
    Core   TenantAdmin PUT    "/admin/v2/namespaces/{tenant}/{namespace}" => namespaces::create, "Add a namespace; the body may hold policies; `bundles`";
    Core   TenantAdmin DELETE "/admin/v2/namespaces/{tenant}/{namespace}" => namespaces::delete, "Remove a namespace without topics; `force`";
    Core   TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}/topics" => namespaces::topics, "Names of its topics, partitions one by one; `mode`, `includeSystemTopic`";
    Common TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}/bundles" => bundles::list, "Its bundles";
    Common TenantAdmin PUT    "/admin/v2/namespaces/{tenant}/{namespace}/unload" => bundles::unload_all, "Let go of all its topics; clients come back";
    Common TenantAdmin PUT    "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/unload" => bundles::unload, "Let go of the topics of a bundle; `destinationBroker`";
    Common TenantAdmin PUT    "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/split" => bundles::split, "Would divide a bundle; with one broker there is nothing to divide; `splitAlgorithmName`, `unload`";
    Common TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/topicHashPositions" => bundles::hash_positions, "Hashes of a bundle's topics; `topics`";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/clearBacklog" => backlogs::clear, "Have all subscriptions leave everything behind";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/clearBacklog/{subscription}" => backlogs::clear, "Have one subscription leave everything behind, in every topic";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/clearBacklog" => backlogs::clear_bundle, "The same in the topics of a bundle";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/clearBacklog/{subscription}" => backlogs::clear_bundle, "The same in the topics of a bundle";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/unsubscribe/{subscription}" => backlogs::unsubscribe, "Remove a subscription from every topic";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}/unsubscribe/{subscription}" => backlogs::unsubscribe_bundle, "Remove a subscription from the topics of a bundle";
    Common TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}/properties" => properties::of_namespace, "What is noted on it";
    Common TenantAdmin PUT    "/admin/v2/namespaces/{tenant}/{namespace}/properties" => properties::add_to_namespace, "Note more on it";
    Common TenantAdmin DELETE "/admin/v2/namespaces/{tenant}/{namespace}/properties" => properties::clear_namespace, "Forget all that is noted on it";
    Common TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}/property/{key}" => properties::one_of_namespace, "One value that is noted on it, as text";
    Common TenantAdmin PUT    "/admin/v2/namespaces/{tenant}/{namespace}/property/{key}/{value}" => properties::set_one_of_namespace, "Note one value on it";
    Common TenantAdmin DELETE "/admin/v2/namespaces/{tenant}/{namespace}/property/{key}" => properties::remove_one_of_namespace, "Forget one value that is noted on it";
    Common TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}/resourcegroup" => resource_groups::of_namespace, "The group that it shares its rates with; kept, not acted on";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/resourcegroup/{group}" => resource_groups::join, "Have it share rates with a group";
    Common TenantAdmin DELETE "/admin/v2/namespaces/{tenant}/{namespace}/resourcegroup" => resource_groups::leave, "Take it from its group";
    Common TenantAdmin GET    "/admin/v2/namespaces/{cluster}/antiAffinity/{group}" => namespaces::of_anti_affinity_group, "Namespaces of a tenant that should not share a broker; `tenant`";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/migration" => namespaces::migrate, "Note that it has moved to another cluster; `migrated`; kept, not acted on";
    Common TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}/replication" => policies::clusters::of_namespace, "Clusters it is replicated to";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/replication" => policies::clusters::set_of_namespace, "Replace them";
    Common TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}/allowedClusters" => policies::clusters::allowed, "Clusters it may be used from";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/allowedClusters" => policies::clusters::set_allowed, "Replace them";
    Core   TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}/permissions" => permissions::list, "Grants by role";
    Core   TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/permissions/{role}" => permissions::grant, "Replace what a role is granted";
    Core   TenantAdmin DELETE "/admin/v2/namespaces/{tenant}/{namespace}/permissions/{role}" => permissions::revoke, "Take everything from a role";
    Common TenantAdmin GET    "/admin/v2/namespaces/{tenant}/{namespace}/permissions/subscription" => permissions::list_of_subscriptions, "Roles by subscription that is theirs alone";
    Common TenantAdmin POST   "/admin/v2/namespaces/{tenant}/{namespace}/permissions/subscription/{subscription}" => permissions::grant_subscription, "Add roles to those that a subscription is for";
    Common TenantAdmin DELETE "/admin/v2/namespaces/{tenant}/{namespace}/permissions/subscription/{subscription}/{role}" => permissions::revoke_subscription, "Take a role from those that a subscription is for";
    Common TenantAdmin DELETE "/admin/v2/namespaces/{tenant}/{namespace}/permissions/{subscription}/{role}" => permissions::revoke_subscription, "The same, as some tools write it";

    Core   TenantAdmin GET    "/admin/v2/{domain}/{tenant}/{namespace}" => topics::list, "Names of the topics, partitions one by one; `includeSystemTopic`";
    Core   TenantAdmin GET    "/admin/v2/{domain}/{tenant}/{namespace}/partitioned" => topics::list_partitioned, "Names of the partitioned topics";
    Core   TenantAdmin PUT    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}" => topics::create, "Add a topic without partitions; the body may hold properties";
    Core   TenantAdmin DELETE "/admin/v2/{domain}/{tenant}/{namespace}/{topic}" => topics::delete, "Remove a topic without partitions, or one partition; `force`";
    Core   TenantAdmin PUT    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions" => partitions::create, "Add a partitioned topic";
    Core   TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions" => partitions::update, "Raise the number of partitions";
    Core   TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions" => partitions::get, "The number of partitions; `checkAllowAutoCreation`";
    Core   TenantAdmin DELETE "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions" => partitions::delete, "Remove a partitioned topic; `force`";
    Core   TenantAdmin PUT    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/unload" => topics::unload, "Let go of a topic; its clients come back";
    Core   TenantAdmin GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/permissions" => permissions::list_of_topic, "Grants on a topic by role, those of its namespace included";
    Core   TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/permissions/{role}" => permissions::grant_on_topic, "Replace what a role is granted on a topic";
    Core   TenantAdmin DELETE "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/permissions/{role}" => permissions::revoke_on_topic, "Take from a role what it is granted on a topic";
    Common TenantAdmin GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/replication" => policies::clusters::of_topic, "Clusters a topic is replicated to; `applied`";
    Common TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/replication" => policies::clusters::set_of_topic, "Replace them";
    Common TenantAdmin DELETE "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/replication" => policies::clusters::unset_of_topic, "Leave them to the namespace";
    Core   TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/stats" => topic_stats::stats, "Numbers of a topic; `excludePublishers`, `excludeConsumers`";
    Core   TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitioned-stats" => topic_stats::partitioned, "Numbers of a partitioned topic; `perPartition`";
    Core   TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/internalStats" => topic_stats::internal, "Ledgers and cursors of a topic";
    Core   TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/lastMessageId" => topic_stats::last_message_id, "The place of the last message";
    Core   TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscriptions" => topics::subscriptions, "Names of the subscriptions";

    Common TenantAdmin GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}" => topic_actions::of_bundle, "Names of the topics in a bundle, which is named in place of a topic";
    Common TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/createMissedPartitions" => topic_actions::create_missed_partitions, "Give partitions a record that have none";
    Common TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/properties" => topic_actions::properties, "What is noted on a topic";
    Common TenantAdmin PUT    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/properties" => topic_actions::set_properties, "Note more on a topic";
    Common TenantAdmin DELETE "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/properties" => topic_actions::remove_property, "Take one note away; `key`";
    Core   TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/terminate" => topic_actions::terminate, "End a topic: nothing is published any more";
    Common TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/terminate/partitions" => topic_actions::terminate_partitions, "End all partitions";
    Core   TenantAdmin PUT    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/compaction" => topic_actions::compact, "Begin to compact";
    Core   TenantAdmin GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/compaction" => topic_actions::compaction, "How far that is";
    Common TenantAdmin PUT    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/offload" => topic_actions::offload, "Always 405: there is nowhere to offload to";
    Common TenantAdmin GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/offload" => topic_actions::offload_status, "Always `NOT_RUN`";
    Common TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/trim" => topic_actions::trim, "Delete ledgers that nobody needs, now";
    Common TenantAdmin DELETE "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/truncate" => topic_actions::truncate, "Delete all messages but those of the ledger that is written to";
    Common TenantAdmin PUT    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/backlogSize" => topic_actions::backlog_size, "Bytes published after the message in the body";
    Common TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitioned-internalStats" => topic_stats::partitioned_internal, "Ledgers and cursors of each partition";
    Common TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/internal-info" => topic_stats::recorded, "What is recorded of ledgers and cursors";
    Core   TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/messageid/{timestamp}" => messages::id_at_time, "Where the first message since a time is";
    Common TenantAdmin GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/ledger/{ledger}/entry/{entry}" => messages::by_id, "The message of this id";
    Common TenantAdmin GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/examinemessage" => messages::examine, "The n-th message from either end; `initialPosition`, `messagePosition`";
    Core   TenantAdmin PUT    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}" => subscriptions::create, "Make a subscription; the body may say where it begins";
    Core   TenantAdmin DELETE "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}" => subscriptions::delete, "Remove a subscription; `force`";
    Core   TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/skip_all" => subscriptions::skip_all, "Leave everything behind";
    Core   TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/skip/{count}" => subscriptions::skip, "Leave the next messages behind";
    Core   TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/expireMessages/{seconds}" => subscriptions::expire_older, "Leave behind what is older";
    Core   TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/expireMessages" => subscriptions::expire_through, "Leave behind everything up to the message in the body";
    Core   TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/all_subscription/expireMessages/{seconds}" => subscriptions::expire_older_of_all, "Have all subscriptions leave behind what is older";
    Core   TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/resetcursor/{timestamp}" => subscriptions::reset_to_time, "Go to the first message since a time";
    Core   TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/resetcursor" => subscriptions::reset_to_message, "Go to the message in the body";
    Core   TenantAdmin GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/position/{position}" => messages::peek, "The n-th message that is not acked";
    Common TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/properties" => subscriptions::properties, "What is noted on a subscription";
    Common TenantAdmin PUT    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/properties" => subscriptions::set_properties, "Replace what is noted on a subscription";
    Common TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/analyzeBacklog" => subscriptions::scan_backlog, "Count what is not acked, entry by entry";
    Common TopicUser   GET    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/replicatedSubscriptionStatus" => subscriptions::replicated, "Always `false`: there is one cluster";
    Common TenantAdmin POST   "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}/replicatedSubscriptionStatus" => subscriptions::set_replicated, "Taken without effect";

    Core   TopicUser   GET    "/admin/v2/schemas/{tenant}/{namespace}/{topic}/schema" => schemas::latest, "The latest version of a topic's schema";
    Core   TopicUser   GET    "/admin/v2/schemas/{tenant}/{namespace}/{topic}/schema/{version}" => schemas::version, "A version of a topic's schema";
    Common TopicUser   GET    "/admin/v2/schemas/{tenant}/{namespace}/{topic}/schemas" => schemas::all, "All versions since the latest deletion";
    Common TopicUser   GET    "/admin/v2/schemas/{tenant}/{namespace}/{topic}/metadata" => schemas::index, "Numbers and hashes of all versions";
    Core   TenantAdmin POST   "/admin/v2/schemas/{tenant}/{namespace}/{topic}/schema" => schemas::post, "Add a version, unless it is there";
    Common TenantAdmin DELETE "/admin/v2/schemas/{tenant}/{namespace}/{topic}/schema" => schemas::delete, "Hide all versions; `force` removes them";
    Common TenantAdmin POST   "/admin/v2/schemas/{tenant}/{namespace}/{topic}/compatibility" => schemas::compatibility, "Whether a schema might be added";
    Common TenantAdmin POST   "/admin/v2/schemas/{tenant}/{namespace}/{topic}/version" => schemas::find, "The version of a schema, -1 if the topic does not have it";

    Core   TopicUser   GET    "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}" => lookup::topic, "Where a topic is served";
    Common TopicUser   GET    "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}/bundle" => lookup::bundle, "The bundle a topic is in";

    Core   Superuser   GET    "/admin/v2/brokers" => brokers::list, "Addresses of the brokers";
    Core   Superuser   GET    "/admin/v2/brokers/{cluster}" => brokers::of_cluster, "Addresses of a cluster's brokers";
    Core   Anyone      GET    "/admin/v2/brokers/health" => brokers::health, "`ok` when a message could be written and read back";
    Core   Anyone      GET    "/admin/v2/brokers/ready" => brokers::ready, "`ok` as soon as requests are served";
    Core   Anyone      GET    "/admin/v2/brokers/version" => brokers::version, "The level of Pulsar's API that is served";
    Common Superuser   GET    "/admin/v2/brokers/leaderBroker" => brokers::leader, "The broker that leads the cluster";
    Common Superuser   GET    "/admin/v2/brokers/configuration" => pulsars::dynamic, "Settings that can be changed while the broker runs";
    Common Superuser   GET    "/admin/v2/brokers/configuration/values" => pulsars::values, "What was changed while the broker ran";
    Common Superuser   GET    "/admin/v2/brokers/configuration/runtime" => pulsars::runtime, "Every setting as it is";
    Common Superuser   POST   "/admin/v2/brokers/configuration/{key}/{value}" => pulsars::update, "Change a setting while the broker runs";
    Common Superuser   DELETE "/admin/v2/brokers/configuration/{key}" => pulsars::delete, "Take a change of a setting back";
    Common Superuser   GET    "/admin/v2/brokers/internal-configuration" => pulsars::internal, "Where metadata and ledgers are kept";
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fmt::Write;

    use super::*;

    /// The page as it must be; the test below says how to write it.
    fn page() -> String {
        let mut page = String::from(concat!(
            "# What is served over HTTP\n\n",
            "Written from the tables in `src/routes.rs` and `src/policies/table.rs`; after a change there, run the tests of this crate with `GEMINGA_WRITE_DOCS=1`.\n",
            "`{domain}` is `persistent` or `non-persistent`; names after a semicolon are query parameters.\n",
            "Mark: C is core (clients, probes and widely used tools need it), M is common, G is our own API.\n",
            "Who: who may call it once callers are authenticated.\n\n",
            "| Mark | Who | Call | What |\n|---|---|---|---|\n",
        ));
        for RouteLine { method, path, class, mark, summary } in routes() {
            let mark = match mark {
                Mark::Core => "C",
                Mark::Common => "M",
                Mark::Own => "G",
            };
            writeln!(page, "| {mark} | {class:?} | `{method} {path}` | {summary} |").unwrap();
        }
        page
    }

    #[test]
    fn the_page_of_routes_is_up_to_date() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/ROUTES.md");
        if std::env::var_os("GEMINGA_WRITE_DOCS").is_some() {
            std::fs::write(file, page()).unwrap();
        }
        let written = std::fs::read_to_string(file).unwrap_or_default();
        assert!(written == page(), "ROUTES.md differs from the table; run the tests with GEMINGA_WRITE_DOCS=1 to write it");
    }

    #[test]
    fn no_two_rows_serve_the_same() {
        let mut seen = HashSet::new();
        for route in all() {
            // Names of parameters make no difference to a caller.
            let shape: Vec<_> = route.path.split('/').map(|s| if s.starts_with('{') && s != "{domain}" { "{}" } else { s }).collect();
            assert!(seen.insert((route.method.clone(), shape)), "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn every_write_to_clusters_and_tenants_needs_a_superuser() {
        for route in all().filter(|r| r.method != Method::GET && !r.path.starts_with("/geminga")) {
            let of_all = ["clusters", "tenants", "brokers", "resourcegroups"]
                .iter()
                .any(|part| route.path.starts_with(&format!("/admin/v2/{part}")));
            let expected = if of_all { Class::Superuser } else { Class::TenantAdmin };
            assert_eq!(route.class, expected, "{} {}", route.method, route.path);
        }
    }
}
