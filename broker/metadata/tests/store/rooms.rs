//! Clusters, tenants, namespaces, topics and owners, and what keeps each of them from being deleted.

use std::time::{Duration, Instant};

use metadata::Expected::{Absent, Any};
use metadata::clusters::{self, Cluster, ClusterError};
use metadata::namespaces::{self, Bundles, NamespaceError, NewNamespace, Policies, Retention};
use metadata::ownership::{self, Owner, OwnershipError};
use metadata::partitioned::{self, PartitionedError, PartitionedTopic};
use metadata::paths::{Domain, NamespacePath, TopicPath};
use metadata::tenants::{self, Tenant, TenantError};
use metadata::topics::{self, TopicError};
use metadata::{Bootstrap, MemoryStore, MetadataStore, Transaction, bootstrap};
use serde_json::json;

const DEFAULT: NamespacePath<'_> = NamespacePath { tenant: "public", namespace: "default" };
const NEW: NewNamespace<'_> = NewNamespace { local_cluster: "standalone", bundles: 4, limit: None };

fn start() -> Bootstrap<'static> {
    let reached_at = Cluster { service_url: Some("http://localhost:8080".into()), ..Cluster::default() };
    Bootstrap { cluster: "standalone", reached_at, bundles: 4, system_bundles: 1 }
}

fn started() -> MemoryStore {
    let store = MemoryStore::new();
    bootstrap(&store, &start()).unwrap();
    store
}

fn tenant(clusters: &[&str]) -> Tenant {
    Tenant { allowed_clusters: clusters.iter().map(|&cluster| cluster.to_owned()).collect(), ..Tenant::default() }
}

fn topic(name: &str) -> TopicPath<'_> {
    DEFAULT.topic(Domain::Persistent, name)
}

#[test]
fn the_first_start_makes_what_clients_expect_and_the_second_nothing() {
    let store = MemoryStore::new();
    let created = bootstrap(&store, &start()).unwrap();
    assert_eq!(created.len(), 5);
    assert_eq!(clusters::list(&store).unwrap(), ["standalone"]);
    assert_eq!(tenants::list(&store).unwrap(), ["public", "pulsar"]);
    assert_eq!(namespaces::list(&store, "public").unwrap(), ["default"]);
    assert_eq!(namespaces::list(&store, "pulsar").unwrap(), ["system"]);
    assert_eq!(tenants::get(&store, "public").unwrap().0.allowed_clusters, ["standalone"]);
    let (policies, _) = namespaces::get(&store, DEFAULT).unwrap();
    assert_eq!(policies.bundles(), Some(Bundles::even(4).unwrap()));
    assert_eq!(policies.replication_clusters(), ["standalone"]);

    namespaces::update(&store, DEFAULT, |policies| Ok(policies.set("message_ttl_in_seconds", 60)?)).unwrap();
    store.delete(&NamespacePath::new("pulsar", "system").policies(), Any).unwrap();
    assert_eq!(bootstrap(&store, &start()).unwrap(), ["/admin/policies/pulsar/system"]);
    assert_eq!(bootstrap(&store, &start()).unwrap(), Vec::<String>::new());
    assert_eq!(namespaces::get(&store, DEFAULT).unwrap().0.message_ttl_seconds(), Some(60), "what is there stays");
    assert!(bootstrap(&store, &Bootstrap { cluster: "a/b", ..start() }).is_err());
    assert!(bootstrap(&store, &Bootstrap { bundles: 0, ..start() }).is_err());
}

#[test]
fn a_cluster_comes_changes_and_goes() {
    let store = started();
    let stored = br#"{"serviceUrl":"http://a","proxyProtocol":"SNI","peerClusterNames":["x"]}"#;
    let cluster: Cluster = serde_json::from_slice(stored).unwrap();
    assert_eq!(clusters::create(&store, "a/b", &cluster), Err(ClusterError::BadName("a/b".into())));
    clusters::create(&store, "far", &cluster).unwrap();
    assert_eq!(clusters::create(&store, "far", &cluster), Err(ClusterError::Exists("far".into())));
    let (mut read, version) = clusters::get(&store, "far").unwrap();
    assert_eq!((&read, version), (&cluster, 0));
    assert_eq!(serde_json::to_vec(&read).unwrap(), stored, "what we do not know is kept, in its order");
    read.broker_service_url = Some("pulsar://a".into());
    clusters::update(&store, "far", &read).unwrap();
    assert_eq!(clusters::get(&store, "far").unwrap(), (read.clone(), 1));
    assert_eq!(clusters::update(&store, "near", &read), Err(ClusterError::NotFound("near".into())));
    clusters::delete(&store, "far").unwrap();
    assert_eq!(clusters::get(&store, "far"), Err(ClusterError::NotFound("far".into())));
    assert_eq!(clusters::delete(&store, "far"), Err(ClusterError::NotFound("far".into())));
}

#[test]
fn a_cluster_in_use_is_not_deleted() {
    let store = started();
    let by = |user: &str| Err(ClusterError::InUse { cluster: "standalone".into(), user: user.into() });
    assert_eq!(clusters::delete(&store, "standalone"), by("tenant public"));
    clusters::create(&store, "other", &Cluster::default()).unwrap();
    for name in ["public", "pulsar"] {
        tenants::update(&store, name, &tenant(&["other"])).unwrap();
    }
    assert_eq!(clusters::delete(&store, "standalone"), by("namespace public/default"));
}

#[test]
fn a_tenant_needs_clusters_that_exist() {
    let store = started();
    assert_eq!(tenants::create(&store, "a b", &tenant(&["standalone"]), None), Err(TenantError::BadName("a b".into())));
    assert_eq!(tenants::create(&store, "t", &tenant(&[]), None), Err(TenantError::NoClusters));
    assert_eq!(tenants::create(&store, "t", &tenant(&["standalone", "x"]), None), Err(TenantError::UnknownCluster("x".into())));
    assert_eq!(tenants::create(&store, "t", &tenant(&["../x"]), None), Err(TenantError::UnknownCluster("../x".into())));
    assert_eq!(tenants::create(&store, "t", &tenant(&["standalone"]), Some(2)), Err(TenantError::TooMany(2)));
    tenants::create(&store, "t", &tenant(&["standalone"]), Some(3)).unwrap();
    assert_eq!(tenants::create(&store, "t", &tenant(&["standalone"]), None), Err(TenantError::Exists("t".into())));
    let mut changed = tenant(&["standalone"]);
    changed.admin_roles.push("me".into());
    tenants::update(&store, "t", &changed).unwrap();
    assert_eq!(tenants::get(&store, "t").unwrap(), (changed.clone(), 1));
    assert_eq!(tenants::update(&store, "t", &tenant(&["x"])), Err(TenantError::UnknownCluster("x".into())));
    assert_eq!(tenants::update(&store, "u", &changed), Err(TenantError::NotFound("u".into())));
    assert_eq!(tenants::get(&store, "a/b"), Err(TenantError::NotFound("a/b".into())));
}

#[test]
fn a_tenant_with_namespaces_is_not_deleted() {
    let store = started();
    assert_eq!(tenants::delete(&store, "public"), Err(TenantError::NotEmpty("public".into())));
    topics::create(&store, topic("t")).unwrap();
    topics::delete(&store, topic("t")).unwrap();
    namespaces::delete(&store, DEFAULT).unwrap();
    tenants::delete(&store, "public").unwrap();
    assert_eq!(tenants::delete(&store, "public"), Err(TenantError::NotFound("public".into())));
    assert_eq!(store.children("/managed-ledgers").unwrap(), Vec::<String>::new(), "nothing of it is left");
}

#[test]
fn a_namespace_needs_a_tenant_that_may_use_its_clusters() {
    let store = started();
    let create = |name, json: serde_json::Value| {
        let policies = Policies::from_json(json.to_string().as_bytes()).unwrap();
        namespaces::create(&store, NamespacePath::parse(name).unwrap(), policies, NEW)
    };
    clusters::create(&store, "far", &Cluster::default()).unwrap();
    assert_eq!(create("nobody/ns", json!(null)), Err(NamespaceError::UnknownTenant("nobody".into())));
    let far = NamespaceError::ClusterNotAllowed { tenant: "public".into(), cluster: "far".into() };
    assert_eq!(create("public/ns", json!({"replication_clusters": ["standalone", "far"]})), Err(far.clone()));
    let policies = create("public/ns", json!({"bundles": {"numBundles": 2}, "of_the_future": [1]})).unwrap();
    assert_eq!(policies.bundles(), Some(Bundles::even(2).unwrap()));
    assert_eq!(policies.field("bundles").unwrap()["boundaries"], json!(["0x00000000", "0x80000000", "0xffffffff"]));
    assert_eq!(policies.field("of_the_future"), Some(&json!([1])));
    assert_eq!(create("public/ns", json!({})), Err(NamespaceError::Exists("public/ns".into())));
    assert_eq!(namespaces::list(&store, "public").unwrap(), ["default", "ns"]);
    assert_eq!(namespaces::list(&store, "nobody"), Err(NamespaceError::UnknownTenant("nobody".into())));
    let bad = namespaces::create(&store, NamespacePath::new("public", "a b"), Policies::new(), NEW);
    assert_eq!(bad, Err(NamespaceError::BadName("public/a b".into())));
    let many = namespaces::create(&store, NamespacePath::new("public", "x"), Policies::new(), NewNamespace { limit: Some(2), ..NEW });
    assert_eq!(many, Err(NamespaceError::TooMany(2)));

    assert_eq!(namespaces::set_clusters(&store, DEFAULT, &["far".into()]), Err(far));
    tenants::update(&store, "public", &tenant(&["standalone", "far"])).unwrap();
    namespaces::set_clusters(&store, DEFAULT, &["far".into()]).unwrap();
    assert_eq!(namespaces::get(&store, DEFAULT).unwrap().0.replication_clusters(), ["far"]);
}

#[test]
fn policies_keep_every_field_and_refuse_wrong_values() {
    let stored = json!({
        "auth_policies": {"namespace_auth": {"me": ["produce"]}}, "replication_clusters": ["c"],
        "bundles": {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1},
        "retention_policies": {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1},
        "message_ttl_in_seconds": 5, "subscription_expiration_time_minutes": null, "deduplicationEnabled": true,
        "autoTopicCreationOverride": {"allowAutoTopicCreation": true, "topicType": "partitioned", "defaultNumPartitions": 3},
        "autoSubscriptionCreationOverride": {"allowAutoSubscriptionCreation": false},
        "max_unacked_messages_per_consumer": -1, "offload_threshold": -1, "deleted": false, "unknown": {"z": 1, "a": 2}
    });
    let policies = Policies::from_json(stored.to_string().as_bytes()).unwrap();
    assert_eq!(policies.to_json(), stored.to_string().as_bytes());
    assert_eq!(policies.retention(), Some(Retention { time_minutes: 10, size_mb: -1 }));
    assert_eq!(policies.message_ttl_seconds(), Some(5));
    assert_eq!(policies.subscription_expiration_minutes(), None);
    assert_eq!(policies.deduplication(), Some(true));
    let creation = policies.auto_topic_creation().unwrap();
    assert_eq!((creation.allow, creation.default_num_partitions), (true, Some(3)));
    assert!(!policies.auto_subscription_creation().unwrap().allow);
    assert_eq!(policies.number("max_unacked_messages_per_consumer"), Some(-1));

    for (field, value) in [
        ("message_ttl_in_seconds", json!(-1)),
        ("message_ttl_in_seconds", json!("5")),
        ("retention_policies", json!({"retentionTimeInMinutes": 0, "retentionSizeInMB": 1})),
        ("retention_policies", json!({"retentionTimeInMinutes": -2, "retentionSizeInMB": 1})),
        ("autoTopicCreationOverride", json!({"allowAutoTopicCreation": true, "topicType": "partitioned"})),
        ("autoTopicCreationOverride", json!({"allowAutoTopicCreation": true, "topicType": "round"})),
        ("bundles", json!({"boundaries": ["0x00000000"]})),
        ("deduplicationEnabled", json!(1)),
        ("replication_clusters", json!("c")),
    ] {
        let mut changed = policies.clone();
        let error = changed.set(field, &value).unwrap_err();
        assert_eq!(error.field, field);
        assert_eq!(changed, policies);
        assert!(Policies::from_json(json!({field: value}).to_string().as_bytes()).is_err());
    }
    assert!(Policies::from_json(b"[]").is_err());
    assert!(Policies::from_json(b"{").is_err());
    let mut changed = policies.clone();
    assert!(changed.unset("message_ttl_in_seconds"));
    assert!(!changed.unset("message_ttl_in_seconds"));
    assert_eq!(changed.message_ttl_seconds(), None);
}

#[test]
fn changes_of_policies_do_not_overwrite_each_other() {
    let store = started();
    let mut interrupted = false;
    namespaces::update(&store, DEFAULT, |policies| {
        if !std::mem::replace(&mut interrupted, true) {
            namespaces::update(&store, DEFAULT, |policies| Ok(policies.set("max_producers_per_topic", 7)?)).unwrap();
        }
        Ok(policies.set("message_ttl_in_seconds", 9)?)
    })
    .unwrap();
    let (policies, version) = namespaces::get(&store, DEFAULT).unwrap();
    assert_eq!((policies.message_ttl_seconds(), policies.number("max_producers_per_topic"), version), (Some(9), Some(7), 2));
    let refused = namespaces::update(&store, DEFAULT, |policies| Ok(policies.set("message_ttl_in_seconds", -1)?));
    assert!(matches!(refused, Err(NamespaceError::Policy(_))));
    let nowhere = namespaces::update(&store, NamespacePath::new("public", "no"), |_| Ok(()));
    assert_eq!(nowhere, Err(NamespaceError::NotFound("public/no".into())));
}

#[test]
fn a_namespace_with_topics_is_not_deleted() {
    let store = started();
    let not_empty = Err(NamespaceError::NotEmpty("public/default".into()));
    topics::create(&store, topic("t")).unwrap();
    assert_eq!(namespaces::delete(&store, DEFAULT), not_empty);
    topics::delete(&store, topic("t")).unwrap();
    let volatile = DEFAULT.topic(Domain::NonPersistent, "v");
    partitioned::create(&store, volatile, &PartitionedTopic { partitions: 2, ..Default::default() }).unwrap();
    assert_eq!(namespaces::delete(&store, DEFAULT), not_empty);
    partitioned::delete(&store, volatile).unwrap();
    store.put(&topic("t").schemas(), b"", Any).unwrap();
    store.put(&DEFAULT.local_policies(), b"{}", Any).unwrap();
    namespaces::delete(&store, DEFAULT).unwrap();
    assert_eq!(namespaces::delete(&store, DEFAULT), Err(NamespaceError::NotFound("public/default".into())));
    for left in [DEFAULT.managed_ledgers(), DEFAULT.all_partitioned(), DEFAULT.local_policies(), DEFAULT.schemas(), DEFAULT.owners()] {
        assert!(!store.exists(&left).unwrap(), "{left}");
    }
    assert_eq!(topics::create(&store, topic("t")), Err(TopicError::UnknownNamespace("public/default".into())));
}

#[test]
fn topics_are_listed_by_the_names_users_gave() {
    let store = started();
    for name in ["b", "a/b c", "ü+%"] {
        topics::create(&store, topic(name)).unwrap();
    }
    assert_eq!(topics::create(&store, topic("b")), Err(TopicError::Exists("persistent://public/default/b".into())));
    assert_eq!(topics::create(&store, topic("")), Err(TopicError::BadName(String::new())));
    let mut names = topics::list(&store, DEFAULT, Domain::Persistent).unwrap();
    names.sort();
    assert_eq!(names, ["a/b c", "b", "ü+%"]);
    assert_eq!(topics::list(&store, DEFAULT, Domain::NonPersistent).unwrap(), Vec::<String>::new());
    for cursor in ["s/1", "s 2"] {
        store.put(&topic("b").cursor(cursor), b"", Absent).unwrap();
    }
    let mut cursors = topics::cursors(&store, topic("b")).unwrap();
    cursors.sort();
    assert_eq!(cursors, ["s 2", "s/1"]);
    assert!(topics::exists(&store, topic("b")).unwrap());
    topics::delete(&store, topic("b")).unwrap();
    assert!(!topics::exists(&store, topic("b")).unwrap());
    assert_eq!(topics::delete(&store, topic("b")), Err(TopicError::NotFound("persistent://public/default/b".into())));
}

#[test]
fn partitions_are_topics_and_only_grow() {
    let store = started();
    let three = PartitionedTopic { partitions: 3, ..Default::default() };
    topics::create(&store, topic("p-partition-1")).unwrap();
    partitioned::create(&store, topic("p"), &three).unwrap();
    assert_eq!(store.get(&topic("p").partitioned()).unwrap().unwrap().value, br#"{"partitions":3,"properties":{}}"#);
    let partitions = ["p-partition-0", "p-partition-1", "p-partition-2"];
    assert_eq!(topics::list(&store, DEFAULT, Domain::Persistent).unwrap(), partitions);
    assert_eq!(partitioned::list(&store, DEFAULT, Domain::Persistent).unwrap(), ["p"]);
    let name = || "persistent://public/default/p".to_owned();
    assert_eq!(partitioned::create(&store, topic("p"), &three), Err(PartitionedError::Exists(name())));
    let taken = "persistent://public/default/p-partition-1".to_owned();
    assert_eq!(partitioned::create(&store, topic("p-partition-1"), &three), Err(PartitionedError::Exists(taken)));
    assert_eq!(partitioned::create(&store, topic("q"), &PartitionedTopic::default()), Err(PartitionedError::NoPartitions));
    assert_eq!(partitioned::grow(&store, topic("p"), 2), Err(PartitionedError::Fewer { now: 3, asked: 2 }));
    partitioned::grow(&store, topic("p"), 5).unwrap();
    assert_eq!(topics::list(&store, DEFAULT, Domain::Persistent).unwrap().len(), 5);
    partitioned::update_properties(&store, topic("p"), |properties| drop(properties.insert("k".into(), "v".into()))).unwrap();
    let (document, version) = partitioned::get(&store, topic("p")).unwrap();
    assert_eq!((document.partitions, document.properties["k"].as_str(), version), (5, "v", 2));
    partitioned::delete(&store, topic("p")).unwrap();
    assert_eq!(partitioned::get(&store, topic("p")), Err(PartitionedError::NotFound(name())));
    assert_eq!(partitioned::delete(&store, topic("p")), Err(PartitionedError::NotFound(name())));
    let nowhere = NamespacePath::new("public", "no").topic(Domain::Persistent, "p");
    assert_eq!(partitioned::create(&store, nowhere, &three), Err(PartitionedError::UnknownNamespace("public/no".into())));
}

#[test]
fn other_writers_of_partition_counts_are_understood() {
    let store = started();
    let stored = br#"{"partitions":4,"properties":null,"deleted":false}"#;
    store.put(&topic("p").partitioned(), stored, Absent).unwrap();
    let (document, _) = partitioned::get(&store, topic("p")).unwrap();
    assert_eq!((document.partitions, document.properties.len(), &document.other["deleted"]), (4, 0, &json!(false)));
    store.put(&topic("q").partitioned(), b"not json", Absent).unwrap();
    let error = partitioned::get(&store, topic("q")).unwrap_err();
    assert!(error.to_string().contains("/admin/partitioned-topics/public/default/persistent/q"), "{error}");
}

#[test]
fn a_bundle_has_one_owner_and_a_new_epoch_with_each() {
    const BUNDLE: &str = "0x00000000_0x40000000";
    const TTL: Duration = Duration::from_secs(30);
    let store = started();
    let now = Instant::now();
    let owner = |url: &str| Owner { native_url: Some(url.to_owned()), ..Owner::default() };
    let (first, second) = (store.open_session(TTL, now).unwrap(), store.open_session(TTL, now).unwrap());
    assert_eq!(ownership::current(&store, DEFAULT, BUNDLE).unwrap(), None);
    let claimed = ownership::claim(&store, DEFAULT, BUNDLE, &owner("pulsar://1"), &first).unwrap();
    assert_eq!(claimed.epoch, 0);
    let refused = ownership::claim(&store, DEFAULT, BUNDLE, &owner("pulsar://2"), &second);
    assert_eq!(refused, Err(OwnershipError::Owned(Box::new(owner("pulsar://1")))));

    store.close_session(&first).unwrap();
    let late = ownership::claim(&store, DEFAULT, BUNDLE, &owner("pulsar://1"), &first);
    assert_eq!(late, Err(OwnershipError::SessionEnded));
    let next = ownership::claim(&store, DEFAULT, BUNDLE, &owner("pulsar://2"), &second).unwrap();
    assert_eq!(next.epoch, 1);
    assert!(store.commit(claimed.guard(Transaction::new().put("/x", b"", Any))).is_err(), "the old owner can write nothing that it guards");
    assert_eq!(ownership::release(&store, &claimed), Err(OwnershipError::Lost));
    assert_eq!(ownership::current(&store, DEFAULT, BUNDLE).unwrap(), Some(owner("pulsar://2")));
    store.commit(next.guard(Transaction::new().put("/x", b"", Any))).unwrap();
    ownership::release(&store, &next).unwrap();
    assert_eq!(ownership::current(&store, DEFAULT, BUNDLE).unwrap(), None);
    assert_eq!(ownership::release(&store, &next), Err(OwnershipError::Lost));
}

#[test]
fn faults_and_delays_come_when_they_are_asked_for() {
    use metadata::{Fault, MetadataError};
    let store = MemoryStore::new();
    store.fail_next(1, Fault::Lost);
    store.fail_next(1, Fault::Applied);
    assert!(store.put("/refused", b"", metadata::Expected::Version(3)).unwrap_err().rejected().is_some());
    assert!(matches!(store.put("/lost", b"", Any), Err(MetadataError::Unknown(_))));
    assert!(matches!(store.put("/applied", b"", Any), Err(MetadataError::Unknown(_))));
    assert_eq!(store.children("/").unwrap(), ["applied"]);
    store.put("/fine", b"", Any).unwrap();

    let (tell, told) = std::sync::mpsc::channel();
    store.hold();
    for number in 0..3 {
        let tell = tell.clone();
        store.submit(Transaction::new().put("/held", b"", Any), Box::new(move |_| tell.send(number).unwrap()));
    }
    assert_eq!((store.waiting(), told.try_iter().count()), (3, 0));
    assert!(store.release_one());
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [0]);
    store.release();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [1, 2]);
    assert!(!store.release_one());
}
