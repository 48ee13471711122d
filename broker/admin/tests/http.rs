//! The HTTP side of a whole server in this process, its stores in memory: what tools ask, byte by byte, and what happens to
//! peers that ask badly.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use geminga_admin::AdminOptions;
use ledger::{LedgerLimits, Retention};
use metadata::clusters::Cluster;
use metadata::{Bootstrap, MetadataStore};
use serde_json::{Value, json};
use server::{Endpoints, Listen, ServerSettings};
use topic::TopicSettings;

#[path = "http/actions.rs"]
mod actions;
#[path = "http/coverage.rs"]
mod coverage;
#[path = "http/events.rs"]
mod events;
#[path = "http/grants.rs"]
mod grants;
#[path = "http/own.rs"]
mod own;
#[path = "http/policies.rs"]
mod policies;
#[path = "http/schemas.rs"]
mod schemas;

fn settings() -> ServerSettings {
    let any = Listen { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), optional: false };
    ServerSettings {
        cluster: "standalone".into(),
        io_threads: NonZeroUsize::new(2).unwrap(),
        working_loops: NonZeroUsize::new(2).unwrap(),
        pulsar_tls: Vec::new(),
        https: Vec::new(),
        tls: None,
        auth: None,
        stats_interval: Duration::from_secs(60),
        stats_delay: Duration::from_secs(60),
        turn_interval: Duration::ZERO,
        pulsar: vec![any],
        http: vec![any],
        max_message_bytes: 1 << 20,
        keep_alive: Duration::from_secs(30),
        handshake_timeout: Duration::from_secs(10),
        max_connections: 0,
        max_connections_per_ip: 0,
        max_pending_publishes: 1000,
        publish_buffer_bytes: 1 << 20,
        held_publish_bytes: 1 << 20,
        log_queue_bytes: 1 << 20,
        cache_bytes: 1 << 20,
        out_buffer_bytes: 1 << 20,
        out_buffers_bytes: 16 << 20,
        write_stall_timeout: Duration::from_secs(60),
        max_clients_per_connection: 1000,
        max_lookups: 1000,
        max_topic_loads: 100,
        persistent_topics: true,
        control_threads: 2,
        max_http_connections: 100,
        auto_topic_creation: true,
        auto_topic_partitions: None,
        max_partitions: 8,
        non_persistent_topics: true,
        topic_watchers: true,
        pattern_evaluation: true,
        pattern_max_length: 50,
        default_bundles: 4,
        schemas: metadata::schemas::Defaults::default(),
        shutdown_timeout: Duration::from_secs(5),
        unacked: None,
        topic: TopicSettings {
            ledger: LedgerLimits { max_entries: 1000, max_bytes: 1 << 20, min_age_ms: 0, max_age_ms: 0 },
            retention: Retention::default(),
            max_entry_bytes: 0,
            max_read_entries: 100,
            min_read_entries: 1,
            max_read_bytes: 1 << 20,
            max_round_robin: 20,
            failover_delay_ms: 1_000,
            max_unacked_per_consumer: 0,
            max_unacked_per_subscription: 0,
            max_look_ahead_per_consumer: 0,
            max_look_ahead_per_subscription: 0,
            key_shared_points: 0,
            mark_delete_rate: 1.0,
            cursor_flush_ms: 1000,
            max_ranges: 1000,
            max_batches: 1000,
            cursor_ledger_max_entries: 1000,
            batch_index_ack: true,
            non_durable_grace_ms: 1000,
            retention_check_ms: 60_000,
            deduplication: topic::Deduplication::default(),
            delayed_tick_ms: 1_000,
            max_delay_ms: 0,
            message_ttl_ms: 0,
            expiry_check_ms: 300_000,
            limits: topic::Limits::default(),
            idle: topic::Idleness::default(),
            compaction: topic::CompactionRules::default(),
            auto_subscription: true,
            rates: topic::Rates::default(),
            quota: topic::Quotas::default(),
            producer_name_prefix: "standalone-1".into(),
        },
        policies: metadata::namespaces::Policies::from_json(br#"{"is_allow_auto_update_schema":true}"#).unwrap(),
    }
}

/// Starts a server and returns the address of its HTTP side. It lives as long as the test's process.
fn start(options: AdminOptions, change: impl FnOnce(&mut ServerSettings)) -> SocketAddr {
    let mut settings = settings();
    change(&mut settings);
    let metadata: Arc<dyn MetadataStore> = Arc::new(metadata::MemoryStore::new());
    let bootstrap = Bootstrap { cluster: "standalone", reached_at: Cluster::default(), bundles: 4, system_bundles: 4 };
    metadata::bootstrap(&*metadata, &bootstrap).unwrap();
    let bound = server::bind(settings).unwrap();
    let (pulsar, http) = (bound.pulsar_port.unwrap(), bound.http_port.unwrap());
    let endpoints = Endpoints {
        pulsar: format!("pulsar://127.0.0.1:{pulsar}"),
        pulsar_tls: None,
        http: format!("http://127.0.0.1:{http}"),
        https: None,
        listeners: Vec::new(),
    };
    let store = Arc::new(ledger::MemoryStore::new());
    let server = bound.start(endpoints, store, metadata, |handle| geminga_admin::service(handle, options, own::configuration())).unwrap();
    std::mem::forget(server);
    SocketAddr::from((Ipv4Addr::LOCALHOST, http))
}

/// A server with all defaults, for tests that keep to a namespace of their own.
fn shared() -> SocketAddr {
    static SHARED: OnceLock<SocketAddr> = OnceLock::new();
    *SHARED.get_or_init(|| start(AdminOptions::default(), |_| ()))
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn reason(&self) -> String {
        assert!(self.head.contains("content-type: application/json\r\n"), "{self:?}");
        self.json()["reason"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Reads one answer; none if the peer has closed.
fn answer(stream: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            Ok(_) | Err(_) if bytes.is_empty() => return None,
            other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&bytes)),
        }
    }
    let head = String::from_utf8(bytes).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    Some(Answer { status, head, body: String::from_utf8(body).unwrap() })
}

fn ask_at(to: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
    let mut stream = connect(to);
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: h\r\n{kind}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let told = answer(&mut stream).unwrap();
    noted(method, path, told.status);
    told
}

/// Notes a call for the table of what is tested, if somebody wants to know.
fn noted(method: &str, path: &str, status: u16) {
    let Some(file) = std::env::var_os(coverage::CALLS) else { return };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
    // One write a line, so that threads do not mix theirs.
    file.write_all(format!("{status} {method} {path}\n").as_bytes()).unwrap();
}

fn ask(method: &str, path: &str, body: &str) -> Answer {
    ask_at(shared(), method, path, body)
}

fn get(path: &str) -> Answer {
    ask("GET", path, "")
}

/// Status and body together, as most expectations want them.
fn told(method: &str, path: &str, body: &str) -> (u16, String) {
    let answer = ask(method, path, body);
    (answer.status, answer.body)
}

fn done() -> (u16, String) {
    (204, String::new())
}

#[test]
fn the_list_of_clusters_is_exact_to_the_byte() {
    for path in ["/admin/v2/clusters", "/admin/v2/clusters/", "//admin/v2/clusters", "/admin//v2///clusters"] {
        let answer = get(path);
        assert_eq!((answer.status, answer.body.as_str()), (200, r#"["standalone"]"#), "{path}");
        assert!(answer.head.contains("content-type: application/json\r\n"), "{}", answer.head);
    }
}

#[test]
fn clusters_come_and_go() {
    let path = "/admin/v2/clusters/other";
    let other = r#"{"serviceUrl":"http://o:8080","brokerServiceUrl":"pulsar://o:6650"}"#;
    let own = start(AdminOptions::default(), |_| ());
    let told = |method, path, body| {
        let answer = ask_at(own, method, path, body);
        (answer.status, answer.body)
    };
    assert_eq!(told("GET", path, ""), (404, r#"{"reason":"Cluster does not exist"}"#.into()));
    assert_eq!(told("POST", path, other).0, 404);
    assert_eq!(told("PUT", path, other), done());
    assert_eq!(told("PUT", path, other).0, 409);
    assert_eq!(told("GET", path, ""), (200, other.into()));
    assert_eq!(told("POST", path, r#"{"serviceUrl":"http://p"}"#), done());
    assert_eq!(told("GET", path, ""), (200, r#"{"serviceUrl":"http://p"}"#.into()));
    assert_eq!(told("GET", "/admin/v2/brokers/other", ""), (200, "[]".into()));
    assert_eq!(told("DELETE", path, ""), done());
    assert_eq!(told("DELETE", path, "").0, 404);
    assert_eq!(told("PUT", "/admin/v2/clusters/a%20b", other).0, 412);
    assert_eq!(told("DELETE", "/admin/v2/clusters/standalone", "").0, 412);
}

#[test]
fn tenants_come_and_go() {
    let path = "/admin/v2/tenants/t1";
    let tenant = r#"{"adminRoles":["anonymous"],"allowedClusters":["standalone"]}"#;
    assert_eq!(told("GET", path, ""), (404, r#"{"reason":"Tenant does not exist"}"#.into()));
    assert_eq!(told("PUT", path, tenant), done());
    assert!(ask("PUT", path, tenant).reason().starts_with("Tenant already exist"));
    assert_eq!(told("GET", path, ""), (200, tenant.into()));
    assert_eq!(told("PUT", "/admin/v2/tenants/t2", "").0, 412);
    assert_eq!(told("PUT", "/admin/v2/tenants/t2", r#"{"allowedClusters":["nowhere"]}"#).0, 412);
    assert_eq!(told("PUT", "/admin/v2/tenants/t2", "{").0, 400);
    assert_eq!(told("POST", path, r#"{"adminRoles":null,"allowedClusters":["standalone"]}"#), done());
    assert_eq!(told("GET", path, "").1, r#"{"adminRoles":[],"allowedClusters":["standalone"]}"#);
    assert!(get("/admin/v2/tenants").json().as_array().unwrap().contains(&json!("public")));
    assert_eq!(told("PUT", "/admin/v2/namespaces/t1/n", ""), done());
    assert_eq!(ask("DELETE", path, "").reason(), "The tenant still has active namespaces");
    assert_eq!(told("DELETE", &format!("{path}?force=true"), "").0, 405);
    assert_eq!(told("DELETE", "/admin/v2/namespaces/t1/n", ""), done());
    assert_eq!(told("DELETE", path, ""), done());
    assert_eq!(told("DELETE", path, "").0, 404);
}

#[test]
fn namespaces_come_and_go() {
    let path = "/admin/v2/namespaces/public/ns1";
    assert_eq!(ask("GET", path, "").reason(), "Namespace does not exist");
    assert_eq!(ask("PUT", "/admin/v2/namespaces/nobody/ns1", "").reason(), "Tenant does not exist");
    let body = r#"{"auth_policies":{"namespace_auth":{"anonymous":["produce","consume"]}},"replication_clusters":["standalone"]}"#;
    assert_eq!(told("PUT", path, body), done());
    assert_eq!(ask("PUT", path, body).reason(), "Namespace already exists");
    assert_eq!(ask("PUT", "/admin/v2/namespaces/public/ns2", r#"{"replication_clusters":["other"]}"#).status, 403);
    let policies = get(path).json();
    assert_eq!(policies["replication_clusters"], json!(["standalone"]));
    assert_eq!(policies["bundles"]["numBundles"], 4);
    assert_eq!(policies["auth_policies"]["namespace_auth"]["anonymous"], json!(["produce", "consume"]));
    assert_eq!(told("PUT", "/admin/v2/namespaces/public/ns3?bundles=1", ""), done());
    assert_eq!(
        told("GET", "/admin/v2/namespaces/public/ns3/bundles", "").1,
        r#"{"boundaries":["0x00000000","0xffffffff"],"numBundles":1}"#
    );
    for (query, body, status) in [
        ("?bundles=0", "", 412),
        ("?bundles=many", "", 412),
        ("", r#"{"bundles":{"numBundles":0}}"#, 412),
        ("", r#"{"retention_policies":7}"#, 412),
        ("", "{", 400),
        ("", "[]", 400),
    ] {
        assert_eq!(ask("PUT", &format!("/admin/v2/namespaces/public/ns4{query}"), body).status, status, "{query} {body}");
    }
    assert!(get("/admin/v2/namespaces/public").json().as_array().unwrap().contains(&json!("public/ns1")));
    assert_eq!(get("/admin/v2/namespaces/nobody").reason(), "Tenant does not exist");
    assert_eq!(told("PUT", "/admin/v2/persistent/public/ns1/t", ""), done());
    assert_eq!(ask("DELETE", path, "").reason(), "Cannot delete non empty namespace");
    assert_eq!(ask("DELETE", &format!("{path}?force=true"), "").status, 405);
    assert_eq!(told("DELETE", "/admin/v2/persistent/public/ns1/t", ""), done());
    assert_eq!(told("DELETE", path, ""), done());
    assert_eq!(told("DELETE", path, "").0, 404);
}

#[test]
fn forced_deletion_takes_topics_along_where_it_is_allowed() {
    let options = AdminOptions { force_delete_namespaces: true, force_delete_tenants: true, ..AdminOptions::default() };
    let own = start(options, |_| ());
    let status = |method, path, body| ask_at(own, method, path, body).status;
    assert_eq!(status("PUT", "/admin/v2/tenants/t", r#"{"allowedClusters":["standalone"]}"#), 204);
    assert_eq!(status("PUT", "/admin/v2/namespaces/t/a", ""), 204);
    assert_eq!(status("PUT", "/admin/v2/namespaces/t/b", ""), 204);
    assert_eq!(status("PUT", "/admin/v2/persistent/t/a/parts/partitions", "3"), 204);
    assert_eq!(status("PUT", "/admin/v2/persistent/t/b/plain", ""), 204);
    assert_eq!(status("DELETE", "/admin/v2/namespaces/t/a?force=true", ""), 204);
    assert_eq!(status("GET", "/admin/v2/namespaces/t/a", ""), 404);
    assert_eq!(status("DELETE", "/admin/v2/tenants/t?force=true", ""), 204);
    assert_eq!(status("GET", "/admin/v2/tenants/t", ""), 404);
}

#[test]
fn grants_without_anybody_asking_for_them_are_refused() {
    assert_eq!(told("PUT", "/admin/v2/namespaces/public/unasked", "null"), done());
    for path in ["namespaces/public/unasked/permissions/r", "persistent/public/unasked/t/permissions/r"] {
        let answer = ask("POST", &format!("/admin/v2/{path}"), r#"["produce"]"#);
        assert_eq!((answer.status, answer.reason().as_str()), (501, "Authorization is not enabled"));
    }
    assert_eq!(told("GET", "/admin/v2/namespaces/public/unasked/permissions", ""), (200, "{}".into()));
}

#[test]
fn permissions_are_kept_in_the_policies() {
    let own = grants::asking();
    let told = |method, path: &str, body| {
        let answer = ask_at(own, method, path, body);
        (answer.status, answer.body)
    };
    let get = |path| ask_at(own, "GET", path, "");
    let path = "/admin/v2/namespaces/public/perm/permissions";
    assert_eq!(told("PUT", "/admin/v2/namespaces/public/perm", "null"), done());
    assert_eq!(told("GET", path, ""), (200, "{}".into()));
    assert_eq!(told("POST", &format!("{path}/a%2Fb"), r#"["produce","consume"]"#), done());
    assert_eq!(told("POST", &format!("{path}/z"), r#"["consume"]"#), done());
    assert_eq!(told("GET", path, ""), (200, r#"{"a/b":["produce","consume"],"z":["consume"]}"#.into()));
    assert_eq!(told("POST", &format!("{path}/z"), r#"["fly"]"#).0, 400);
    assert_eq!(told("DELETE", &format!("{path}/a%2Fb"), ""), done());
    assert_eq!(told("GET", path, ""), (200, r#"{"z":["consume"]}"#.into()));
    assert_eq!(get("/admin/v2/namespaces/public/nowhere/permissions").status, 404);
}

#[test]
fn partitioned_topics_come_grow_and_go() {
    let topics = "/admin/v2/persistent/public/parts";
    let path = format!("{topics}/t/partitions");
    assert_eq!(ask("PUT", &path, "3").reason(), "Namespace does not exist");
    assert_eq!(told("PUT", "/admin/v2/namespaces/public/parts", "{}"), done());
    assert_eq!(told("GET", &path, "").0, 404);
    assert_eq!(told("GET", &format!("{path}?checkAllowAutoCreation=true"), ""), (200, r#"{"partitions":0}"#.into()));
    assert_eq!(told("PUT", &path, "3"), done());
    assert_eq!(ask("PUT", &path, "3").reason(), "This topic already exists");
    assert_eq!(told("GET", &path, ""), (200, r#"{"partitions":3}"#.into()));
    assert_eq!(told("PUT", &format!("{topics}/u/partitions"), "\"2\""), done());
    assert_eq!(told("PUT", &format!("{topics}/v/partitions"), r#"{"partitions":1,"properties":{"a":"b"}}"#), done());
    assert_eq!(told("GET", &format!("{topics}/v/partitions"), "").1, r#"{"partitions":1,"properties":{"a":"b"}}"#);
    assert_eq!(
        told("GET", &format!("{topics}/partitioned"), "").1,
        r#"["persistent://public/parts/t","persistent://public/parts/u","persistent://public/parts/v"]"#
    );
    assert_eq!(ask("PUT", &format!("{topics}/t"), "").status, 409);
    for (body, status) in [("0", 406), ("-1", 406), ("9", 406), ("many", 400), ("", 400)] {
        assert_eq!(ask("PUT", &format!("{topics}/w/partitions"), body).status, status, "{body}");
    }
    assert_eq!(ask("PUT", &format!("{topics}/w-partition-0/partitions"), "3").status, 412);
    assert_eq!(told("POST", &path, "2").0, 422);
    assert_eq!(told("POST", &path, "3"), done());
    assert_eq!(told("POST", &path, "5"), done());
    assert_eq!(told("GET", &path, "").1, r#"{"partitions":5}"#);
    let all = get(&format!("{topics}?bundle=x")).json();
    assert_eq!(all.as_array().unwrap().len(), 8, "{all}");
    assert!(all.as_array().unwrap().contains(&json!("persistent://public/parts/t-partition-4")));
    assert_eq!(get("/admin/v2/namespaces/public/parts/topics?mode=ALL").json(), all);
    assert_eq!(get("/admin/v2/namespaces/public/parts/topics?mode=NON_PERSISTENT").json(), json!([]));
    assert_eq!(get("/admin/v2/non-persistent/public/parts").json(), json!([]));
    assert_eq!(ask("DELETE", &format!("{topics}/t"), "").status, 409);
    assert_eq!(told("DELETE", &path, "{}"), done());
    assert!(ask("DELETE", &path, "").reason().starts_with("Partitioned Topic persistent://public/parts/t not found"));
}

#[test]
fn plain_topics_come_and_go() {
    let topics = "/admin/v2/persistent/public/plain";
    assert_eq!(told("PUT", "/admin/v2/namespaces/public/plain", ""), done());
    for (name, body) in [("a", ""), ("b", "null"), ("c", "{}"), ("d", r#"{"owner":"me"}"#), ("e%3F%23+%20%25", "")] {
        assert_eq!(told("PUT", &format!("{topics}/{name}"), body), done(), "{name}");
        assert_eq!(told("PUT", &format!("{topics}/{name}"), body).0, 409, "{name}");
        assert_eq!(told("GET", &format!("{topics}/{name}/partitions"), "").1, r#"{"partitions":0}"#);
    }
    assert!(get(topics).json().as_array().unwrap().contains(&json!("persistent://public/plain/e?#+ %")));
    assert_eq!(told("POST", &format!("{topics}/a/partitions"), "3"), (409, r#"{"reason":"Topic is not partitioned topic"}"#.into()));
    assert_eq!(told("PUT", &format!("{topics}/a/unload"), ""), done());
    assert_eq!(told("PUT", &format!("{topics}/nowhere/unload"), "").0, 404);
    assert_eq!(told("DELETE", &format!("{topics}/a?force=true"), ""), done());
    assert!(ask("DELETE", &format!("{topics}/a"), "").reason().starts_with("Topic persistent://public/plain/a not found"));
    assert_eq!(get("/admin/v2/persistent/public/nowhere").reason(), "Namespace does not exist");
}

#[test]
fn non_persistent_topics_get_partitions_of_their_own() {
    let (topics, kept) = ("/admin/v2/non-persistent/public/volatile", "/admin/v2/persistent/public/volatile");
    assert_eq!(ask("GET", topics, "").reason(), "Namespace does not exist");
    assert_eq!(told("PUT", "/admin/v2/namespaces/public/volatile", ""), done());
    let path = format!("{topics}/t/partitions");
    assert_eq!(told("GET", &path, "").0, 404);
    assert_eq!(told("GET", &format!("{path}?checkAllowAutoCreation=true"), ""), (200, r#"{"partitions":0}"#.into()));
    assert_eq!(told("PUT", &path, r#"{"partitions":2,"properties":{"a":"b"}}"#), done());
    assert_eq!(ask("PUT", &path, "2").reason(), "This topic already exists");
    assert_eq!(told("GET", &path, ""), (200, r#"{"partitions":2,"properties":{"a":"b"}}"#.into()));
    assert_eq!(told("POST", &path, "3"), done());
    assert_eq!(get(&format!("{topics}/partitioned")).json(), json!(["non-persistent://public/volatile/t"]));
    assert_eq!(get(topics).json(), json!([]), "nobody uses them");
    assert_eq!(get(&format!("{kept}/partitioned")).json(), json!([]));
    // The same name of the other kind is another topic.
    assert_eq!(told("PUT", &format!("{kept}/t"), ""), done());
    assert_eq!(told("GET", &format!("{kept}/t/partitions"), "").1, r#"{"partitions":0}"#);
    assert_eq!(ask("PUT", &format!("{topics}/t"), "").status, 409, "it is a partitioned topic's");
    assert_eq!(told("PUT", &format!("{topics}/plain"), ""), done());
    let stats = get(&format!("{topics}/t/partitioned-stats")).json();
    assert_eq!(stats["metadata"]["partitions"], 3);
    assert_eq!(stats["partitions"]["non-persistent://public/volatile/t-partition-2"]["msgInCounter"], 0);
    assert_eq!(told("GET", &format!("{topics}/t-partition-2/stats"), "").0, 200);
    assert_eq!(told("GET", &format!("{topics}/t-partition-3/stats"), "").0, 404);
    assert_eq!(told("PUT", &format!("{topics}/t/unload"), ""), done());
    assert_eq!(get("/lookup/v2/topic/non-persistent/public/volatile/t").status, 200);
    assert!(get("/lookup/v2/topic/non-persistent/public/volatile/t/bundle").body.starts_with("0x"));
    assert_eq!(told("DELETE", &format!("{kept}/t"), ""), done());
    assert_eq!(ask("DELETE", "/admin/v2/namespaces/public/volatile", "").reason(), "Cannot delete non empty namespace");
    assert_eq!(told("DELETE", &path, ""), done());
    assert!(ask("DELETE", &path, "").reason().starts_with("Partitioned Topic non-persistent://public/volatile/t not found"));
    assert_eq!(told("DELETE", "/admin/v2/namespaces/public/volatile", ""), done());
}

#[test]
fn a_subscription_of_a_persistent_namesake_does_not_keep_a_partition_alive() {
    let (topics, kept) = ("/admin/v2/non-persistent/public/twins", "/admin/v2/persistent/public/twins");
    assert_eq!(told("PUT", "/admin/v2/namespaces/public/twins", ""), done());
    assert_eq!(told("PUT", &format!("{topics}/t/partitions"), "1"), done());
    assert_eq!(told("PUT", &format!("{kept}/t-partition-0"), ""), done());
    assert_eq!(told("DELETE", &format!("{topics}/t/partitions"), ""), done());
    assert_eq!(told("GET", &format!("{kept}/t-partition-0/partitions"), "").0, 200, "the namesake is still there");
}

#[test]
fn policies_on_time_are_set_read_and_left_to_the_configuration_again() {
    let namespace = "/admin/v2/namespaces/public/timing";
    assert_eq!(told("PUT", namespace, ""), done());
    let ttl = format!("{namespace}/messageTTL");
    assert_eq!(told("GET", &ttl, ""), done());
    assert_eq!(told("POST", &ttl, "60"), done());
    assert_eq!(told("GET", &ttl, ""), (200, "60".into()));
    assert_eq!(get(namespace).json()["message_ttl_in_seconds"], 60);
    assert_eq!(ask("POST", &ttl, "-1").reason(), "Invalid value for message TTL");
    assert_eq!(told("POST", &ttl, "-1").0, 412);
    assert_eq!(told("POST", &ttl, "soon").0, 400);
    assert_eq!(told("DELETE", &ttl, ""), done());
    assert_eq!(told("GET", &ttl, ""), done());
    let delays = format!("{namespace}/delayedDelivery");
    let body = r#"{"active":true,"tickTime":500,"maxDeliveryDelayInMillis":60000}"#;
    assert_eq!(told("GET", &delays, ""), done());
    assert_eq!(told("POST", &delays, body), done());
    assert_eq!(told("GET", &delays, ""), (200, body.into()));
    assert_eq!(told("POST", &delays, r#"{"active":"perhaps"}"#).0, 400);
    assert_eq!(told("POST", &delays, ""), done(), "nothing is the default");
    assert_eq!(told("DELETE", &delays, ""), done());
    assert_eq!(told("GET", &delays, ""), done());
    assert_eq!(get("/admin/v2/namespaces/public/nowhere/messageTTL").status, 404);
}

#[test]
fn the_brokers_own_topics_are_hidden_until_asked_for() {
    assert_eq!(told("PUT", "/admin/v2/namespaces/public/system", ""), done());
    assert_eq!(told("PUT", "/admin/v2/persistent/public/system/__change_events", ""), done());
    assert_eq!(get("/admin/v2/persistent/public/system").json(), json!([]));
    assert_eq!(get("/admin/v2/namespaces/public/system/topics").json(), json!([]));
    let all = get("/admin/v2/persistent/public/system?includeSystemTopic=true").json();
    assert_eq!(all, json!(["persistent://public/system/__change_events"]));
    assert_eq!(told("DELETE", "/admin/v2/namespaces/public/system", ""), done());
}

#[test]
fn topics_tell_their_numbers() {
    let topics = "/admin/v2/persistent/public/stats";
    assert_eq!(told("PUT", "/admin/v2/namespaces/public/stats", ""), done());
    assert!(get(&format!("{topics}/nowhere/stats")).reason().starts_with("Topic persistent://public/stats/nowhere not found"));
    assert_eq!(told("PUT", &format!("{topics}/t"), ""), done());
    assert_eq!(told("PUT", &format!("{topics}/p/partitions"), "2"), done());
    let stats = get(&format!("{topics}/t/stats?getPreciseBacklog=true&subscriptionBacklogSize=true")).json();
    assert_eq!((&stats["publishers"], &stats["subscriptions"]), (&json!([]), &json!({})));
    assert_eq!(stats["msgInCounter"], 0);
    assert!(stats["ownerBroker"].as_str().unwrap().starts_with("127.0.0.1:"), "{stats}");
    assert_eq!(get(&format!("{topics}/p/stats")).status, 404);
    let stats = get(&format!("{topics}/p/partitioned-stats")).json();
    assert_eq!(stats["metadata"], json!({"partitions": 2}));
    assert_eq!(stats["partitions"]["persistent://public/stats/p-partition-1"]["msgInCounter"], 0);
    assert_eq!(get(&format!("{topics}/p/partitioned-stats?perPartition=false")).json()["partitions"], json!({}));
    assert_eq!(get(&format!("{topics}/t/partitioned-stats")).status, 404);
    assert_eq!(get(&format!("{topics}/p-partition-0/internalStats")).json()["cursors"], json!({}));
    assert_eq!(get(&format!("{topics}/p/subscriptions")).json(), json!([]));
    assert_eq!(get(&format!("{topics}/p/lastMessageId")).status, 405);
    let last = get(&format!("{topics}/p-partition-1/lastMessageId")).json();
    assert_eq!((&last["entryId"], &last["partitionIndex"]), (&json!(-1), &json!(1)), "{last}");
}

#[test]
fn a_lookup_always_has_its_four_urls() {
    let lookup = get("/lookup/v2/topic/persistent/public/default/some%20topic?authoritative=false").json();
    let keys: Vec<_> = lookup.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["brokerUrl", "brokerUrlTls", "httpUrl", "httpUrlTls", "nativeUrl"]);
    assert!(lookup["brokerUrl"].as_str().unwrap().starts_with("pulsar://127.0.0.1:"), "{lookup}");
    assert_eq!((&lookup["brokerUrlTls"], &lookup["httpUrlTls"]), (&json!(""), &json!("")));
    assert_eq!(get("/lookup/v2/topic/persistent/public/nowhere/t").reason(), "Namespace does not exist");
    assert_eq!(get("/lookup/v2/topic/persistent/public/default/t?listenerName=outside").status, 400);
    let bundle = get("/lookup/v2/topic/persistent/public/default/t/bundle").body;
    assert!(bundle.starts_with("0x") && bundle.len() == 21, "{bundle}");
    let strict = start(AdminOptions::default(), |settings| settings.auto_topic_creation = false);
    assert_eq!(ask_at(strict, "GET", "/lookup/v2/topic/persistent/public/default/t", "").status, 404);
    assert_eq!(ask_at(strict, "GET", "/admin/v2/persistent/public/default/t/partitions?checkAllowAutoCreation=true", "").status, 404);
}

#[test]
fn a_topic_that_would_get_partitions_gets_them_when_a_client_asks() {
    let own = start(AdminOptions::default(), |settings| settings.auto_topic_partitions = Some(2));
    let path = "/admin/v2/persistent/public/default/t/partitions";
    assert_eq!(ask_at(own, "GET", path, "").status, 404);
    assert_eq!(ask_at(own, "GET", &format!("{path}?checkAllowAutoCreation=true"), "").body, r#"{"partitions":2}"#);
    assert_eq!(ask_at(own, "GET", path, "").body, r#"{"partitions":2}"#);
}

#[test]
fn brokers_say_who_they_are_and_how_they_feel() {
    assert_eq!(told("GET", "/admin/v2/brokers/health", ""), (200, "ok".into()));
    assert_eq!(told("GET", "/admin/v2/brokers/health?topicVersion=V2", "").0, 200);
    assert_eq!(told("GET", "/admin/v2/brokers/ready", ""), (200, "ok".into()));
    assert_eq!(told("GET", "/admin/v2/brokers/version", ""), (200, "4.0.0".into()));
    assert_eq!(told("GET", "/status.html", ""), (200, "OK".into()));
    let address = format!("127.0.0.1:{}", shared().port());
    assert_eq!(told("GET", "/admin/v2/brokers", ""), (200, format!("[\"{address}\"]")));
    assert_eq!(told("GET", "/admin/v2/brokers/standalone", ""), (200, format!("[\"{address}\"]")));
    assert_eq!(told("GET", "/admin/v2/brokers/nowhere", "").0, 404);
    let leader = get("/admin/v2/brokers/leaderBroker").json();
    assert_eq!(leader, json!({"brokerId": address, "serviceUrl": format!("http://{address}")}));
    let off = start(AdminOptions { status_file: Some("/nonexistent/status".into()), ..AdminOptions::default() }, |_| ());
    assert_eq!(ask_at(off, "GET", "/status.html", "").status, 404);
}

#[test]
fn metrics_and_the_first_page_are_there() {
    for path in ["/metrics", "/metrics/"] {
        let metrics = get(path);
        assert_eq!(metrics.status, 200);
        assert!(metrics.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{}", metrics.head);
        assert!(metrics.body.contains("\npulsar_version_info{cluster=\"standalone\","), "{}", metrics.body);
    }
    let page = get("/");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-type: text/html; charset=utf-8\r\n"), "{}", page.head);
    assert!(page.body.contains("/admin/v2/brokers/health") && page.body.contains("pulsar://127.0.0.1:"));
}

#[test]
fn what_is_not_there_says_so_in_json() {
    let missing = get("/admin/v2/persistent/public/default/t/noSuchPolicy");
    assert_eq!(missing.status, 404);
    assert!(missing.reason().contains("does not serve it yet"), "{missing:?}");
    let wrong = ask("PATCH", "/admin/v2/tenants/public", "");
    assert_eq!(wrong.status, 405);
    assert!(wrong.head.contains("allow: DELETE, GET, POST, PUT\r\n") && !wrong.reason().is_empty(), "{wrong:?}");
    assert_eq!(get("/favicon.ico").status, 404);
}

#[test]
fn requests_in_a_row_are_answered_in_a_row() {
    let mut stream = connect(shared());
    let ready = "GET /admin/v2/brokers/ready HTTP/1.1\r\nHost: h\r\n\r\n";
    let clusters = "GET /admin/v2/clusters HTTP/1.1\r\nHost: h\r\n\r\n";
    let head = "HEAD /admin/v2/clusters HTTP/1.1\r\nHost: h\r\n\r\n";
    write!(stream, "{clusters}{ready}{clusters}").unwrap();
    let bodies: Vec<_> = (0..3).map(|_| answer(&mut stream).unwrap().body).collect();
    assert_eq!(bodies, [r#"["standalone"]"#, "ok", r#"["standalone"]"#]);
    // The answer to HEAD has a length and no body: what follows it is the next answer.
    write!(stream, "{head}{ready}").unwrap();
    let mut text = [0; 1024];
    let mut got = String::new();
    while !got.ends_with("ok") {
        let n = stream.read(&mut text).unwrap();
        assert!(n > 0, "{got}");
        got.push_str(std::str::from_utf8(&text[..n]).unwrap());
    }
    assert_eq!(got.matches("HTTP/1.1 200 OK").count(), 2);
    assert!(!got.contains("standalone"), "{got}");
}

#[test]
fn bodies_and_headers_have_limits() {
    let own = start(AdminOptions { max_body_bytes: 100, max_header_bytes: 1000, ..AdminOptions::default() }, |_| ());
    let large = "x".repeat(101);
    let told = ask_at(own, "PUT", "/admin/v2/tenants/t", &large);
    assert_eq!(told.status, 413);
    assert!(told.head.contains("connection: close\r\n") && told.reason().contains("100 bytes"), "{told:?}");
    let mut stream = connect(own);
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(1000)).unwrap();
    assert_eq!(answer(&mut stream).unwrap().status, 431);
    // A body that nobody wants is not waited for.
    let mut stream = connect(own);
    write!(stream, "POST /admin/v3/functions/a/b/c HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n").unwrap();
    assert_eq!(answer(&mut stream).unwrap().status, 404);
}

#[test]
fn slow_peers_are_let_go() {
    let short = Duration::from_millis(300);
    let options = AdminOptions { header_timeout: short, body_timeout: short, idle_timeout: 3 * short, ..AdminOptions::default() };
    let own = start(options, |_| ());
    let lasts = |begin: &str| {
        let mut stream = connect(own);
        stream.write_all(begin.as_bytes()).unwrap();
        let began = Instant::now();
        let status = answer(&mut stream).map(|a| a.status);
        (status, began.elapsed())
    };
    let (status, time) = lasts("GET /metrics HTTP/1.1\r\nHost:");
    assert!(status.is_none() && time >= short && time < 10 * short, "header: {status:?} {time:?}");
    let (status, time) = lasts("PUT /admin/v2/tenants/t HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{");
    assert!(status == Some(408) && time >= short && time < 10 * short, "body: {status:?} {time:?}");
    let (status, time) = lasts("");
    assert!(status.is_none() && time >= 2 * short && time < 20 * short, "idle: {status:?} {time:?}");
    let mut stream = connect(own);
    for _ in 0..4 {
        write!(stream, "GET /admin/v2/brokers/ready HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(answer(&mut stream).unwrap().status, 200, "a connection in use stays");
        std::thread::sleep(short);
    }
}

#[test]
fn too_many_requests_at_once_are_told_to_come_back() {
    let own = start(AdminOptions { max_concurrent_requests: 1, ..AdminOptions::default() }, |_| ());
    let deadline = Instant::now() + Duration::from_secs(10);
    let (first, busy) = loop {
        // Occupies the only place with a body that does not end, unless one of those below has it just then: then it is sent again.
        let mut first = connect(own);
        write!(first, "PUT /admin/v2/tenants/t HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{{").unwrap();
        let mut asked = (0..50).map(|_| ask_at(own, "GET", "/admin/v2/brokers/ready", ""));
        if let Some(busy) = asked.find(|told| told.status != 200) {
            break (first, busy);
        }
        assert!(Instant::now() < deadline, "the place is never taken");
    };
    assert_eq!(busy.status, 503);
    assert!(busy.head.contains("retry-after: 1\r\n"), "{busy:?}");
    drop(first);
    while ask_at(own, "GET", "/admin/v2/brokers/ready", "").status == 503 {
        assert!(Instant::now() < deadline, "the place is never given back");
    }
}
