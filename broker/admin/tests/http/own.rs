//! Our own API: the frame that every resource stands in, and the lists, documents and settings in it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use geminga_admin::{AdminOptions, AuditFiles, ConfigChanges, ConfigItem, ConfigRefusal, Configuration};
use serde_json::{Value, json};

use super::{Answer, answer, ask, ask_at, connect, done, get, shared, start, told};

/// A configuration of two settings, of which one can be changed.
#[derive(Default)]
pub(crate) struct TwoSettings(Mutex<(BTreeMap<String, String>, i64)>);

impl Configuration for TwoSettings {
    fn items(&self) -> Vec<ConfigItem> {
        let changed = self.0.lock().unwrap().0.get("soft").cloned();
        let source = if changed.is_some() { "dynamic" } else { "default" };
        let soft = ConfigItem { value: changed.unwrap_or_else(|| "1".into()), default: "1".into(), source, dynamic: true, ..item("soft") };
        vec![soft, ConfigItem { value: "2".into(), default: "2".into(), restart_required: true, ..item("hard") }]
    }

    fn changed(&self) -> (BTreeMap<String, String>, i64) {
        self.0.lock().unwrap().clone()
    }

    fn change(&self, changes: ConfigChanges, revision: Option<i64>, trial: bool) -> Result<i64, ConfigRefusal> {
        let mut kept = self.0.lock().unwrap();
        if revision.is_some_and(|revision| revision != kept.1) {
            return Err(ConfigRefusal::Stale { revision: kept.1 });
        }
        for (key, value) in &changes {
            match (key.as_str(), value) {
                ("soft", Some(value)) if value.parse::<u32>().is_err() => {
                    return Err(ConfigRefusal::Wrong(vec![(key.clone(), "a number".into())]));
                }
                ("soft", _) => {}
                ("hard", _) => return Err(ConfigRefusal::Static("hard takes a new start".into())),
                _ => return Err(ConfigRefusal::Unknown(format!("there is no setting {key}"))),
            }
        }
        if !trial {
            for (key, value) in changes {
                match value {
                    Some(value) => drop(kept.0.insert(key, value)),
                    None => drop(kept.0.remove(&key)),
                }
            }
            kept.1 += 1;
        }
        Ok(kept.1)
    }

    fn check(&self, text: &str) -> Vec<(String, String)> {
        text.lines().filter(|line| !line.starts_with("soft=")).map(|line| (line.to_owned(), "not known".to_owned())).collect()
    }
}

fn item(key: &str) -> ConfigItem {
    ConfigItem { key: key.into(), state: "honoured", source: "default", ..ConfigItem::default() }
}

/// A request with headers of its own.
fn asked(to: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let mut stream = connect(to);
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let told = answer(&mut stream).unwrap();
    super::noted(method, path, told.status);
    told
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn problem(&self, code: &str) -> Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(self.status)), "{problem}");
        assert_eq!(problem["reason"], problem["detail"]);
        assert_eq!(self.header("x-request-id"), problem["requestId"].as_str());
        problem
    }
}

fn own(change: impl FnOnce(&mut AdminOptions)) -> SocketAddr {
    let mut options = AdminOptions::default();
    change(&mut options);
    start(options, |_| ())
}

#[test]
fn the_front_door_says_what_there_is() {
    let all = get("/geminga/v1").json();
    assert_eq!((&all["product"], &all["pulsarLevel"]), (&json!("Geminga"), &json!("4.0.0")));
    for link in all["links"].as_object().unwrap().values().filter_map(Value::as_str).filter(|link| !link.ends_with("events")) {
        assert_eq!(get(link).status, 200, "{link}");
    }
    let who = get("/geminga/v1/whoami").json();
    assert_eq!((&who["principal"], &who["roles"], &who["allowed"]["write"]), (&Value::Null, &json!(["superuser"]), &json!(true)));
    let document = get("/geminga/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/geminga/v1/config:apply"]["post"].is_object());
    assert!(get("/geminga/openapi/pulsar-v2.json").json()["paths"]["/admin/v2/clusters"]["get"]["tags"] == json!(["C"]));
}

#[test]
fn a_refusal_is_a_problem_document_and_names_the_request() {
    let missing = asked(shared(), "GET", "/geminga/v1/nothing", "X-Request-Id: mine\r\n", "");
    let problem = missing.problem("not-found");
    assert_eq!((missing.status, &problem["requestId"], &problem["instance"]), (404, &json!("mine"), &json!("/geminga/v1/nothing")));
    assert_eq!(get("/geminga/v1/topics?limit=0").problem("bad-request")["status"], 400);
    assert_eq!(ask("PUT", "/geminga/v1/overview", "").problem("not-allowed")["status"], 405);
    let made = get("/geminga/v1/whoami");
    assert!(made.header("x-request-id").is_some_and(|id| !id.is_empty()), "{made:?}");
    assert_ne!(made.header("x-request-id"), get("/geminga/v1/whoami").header("x-request-id"));
    let strange = asked(shared(), "GET", "/geminga/v1/whoami", "X-Request-Id: a b\r\n", "");
    assert_ne!(strange.header("x-request-id"), Some("a b"), "what could be taken for something else is not repeated");
    assert!(get("/admin/v2/clusters").header("x-request-id").is_some());
    assert_eq!(get("/admin/v2/clusters").body, r#"["standalone"]"#);
}

#[test]
fn topics_are_listed_page_by_page_with_partitions_folded() {
    let own = own(|_| ());
    let put = |path: &str, body: &str| assert_eq!(ask_at(own, "PUT", path, body).status, 204, "{path}");
    for n in 0..5 {
        put(&format!("/admin/v2/persistent/public/default/plain{n}"), "");
    }
    put("/admin/v2/persistent/public/default/parted/partitions", "3");
    let page = |query: &str| ask_at(own, "GET", &format!("/geminga/v1/topics?{query}"), "").json();
    let all = page("");
    assert_eq!(all["approxTotal"], 6, "{all}");
    let parted = &page("q=parted")["items"][0];
    assert_eq!((&parted["partitions"], &parted["loaded"]), (&json!(3), &json!(0)), "{parted}");
    let first = page("limit=4&sort=-name&fields=name");
    assert_eq!(first["items"][0], json!({"name": "persistent://public/default/plain4"}));
    let second = page(&format!("limit=4&sort=-name&fields=name&cursor={}", first["nextCursor"].as_str().unwrap()));
    assert_eq!(second["items"].as_array().unwrap().len(), 2);
    assert!(second.get("nextCursor").is_none());
    // A look at one topic loads it; the list knows at the next look.
    let detail = ask_at(own, "GET", "/geminga/v1/topics/persistent/public/default/parted", "").json();
    assert_eq!((&detail["partitions"], detail["parts"].as_object().unwrap().len()), (&json!(3), 3), "{detail}");
    assert_eq!(ask_at(own, "GET", "/geminga/v1/topics/persistent/public/default/nowhere", "").status, 404);
    assert_eq!(ask_at(own, "DELETE", "/admin/v2/persistent/public/default/plain0", "").status, 204);
    assert_eq!(page("")["approxTotal"], 5, "what was deleted is not listed any more");
    for list in ["subscriptions", "producers", "consumers", "connections", "alarms", "operations"] {
        let empty = ask_at(own, "GET", &format!("/geminga/v1/{list}"), "").json();
        assert_eq!((&empty["items"], &empty["approxTotal"]), (&json!([]), &json!(0)), "{list}");
    }
    assert_eq!(ask_at(own, "POST", "/geminga/v1/connections/0-0-7/close", "").problem("not-found")["status"], 404);
}

#[test]
fn a_connection_is_listed_and_closed() {
    let own = own(|_| ());
    let lookup = ask_at(own, "GET", "/lookup/v2/topic/persistent/public/default/t", "").json();
    let broker = lookup["brokerUrl"].as_str().unwrap().strip_prefix("pulsar://").unwrap().to_owned();
    let mut client = TcpStream::connect(broker).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let listed = || ask_at(own, "GET", "/geminga/v1/connections", "").json()["items"].as_array().unwrap().clone();
    while listed().is_empty() {}
    let connection = &listed()[0];
    assert_eq!(connection["address"], client.local_addr().unwrap().to_string());
    assert!(connection.get("clientVersion").is_none(), "it has not introduced itself: {connection}");
    let id = connection["id"].as_str().unwrap();
    assert_eq!(ask_at(own, "POST", &format!("/geminga/v1/connections/{id}/close"), "").status, 204);
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "its end is seen at once");
    while !listed().is_empty() {}
    assert_eq!(ask_at(own, "POST", &format!("/geminga/v1/connections/{id}/close"), "").problem("not-found")["status"], 404);
}

#[test]
fn ten_thousand_topics_are_listed_in_no_time() {
    let own = own(|_| ());
    let topics: Vec<Value> = (0..10_000).map(|n| json!({"name": format!("persistent://public/default/t{n}")})).collect();
    let made = asked(own, "POST", "/geminga/v1/definitions", "Prefer: wait=30\r\n", &json!({ "topics": topics }).to_string());
    assert!(matches!(made.status, 200 | 202), "{made:?}");
    let place = made.header("location").unwrap().to_owned();
    while ask_at(own, "GET", &place, "").json()["state"] == "running" {}
    let page = || ask_at(own, "GET", "/geminga/v1/topics?limit=100&sort=-msgBacklog", "");
    assert_eq!(page().json()["approxTotal"], 10_000);
    let timed = |_| {
        let began = Instant::now();
        assert_eq!(page().status, 200);
        began.elapsed()
    };
    let times: Vec<Duration> = (0..9).map(timed).collect();
    // Told, not judged: how fast a machine is does not decide a test.
    writeln!(std::io::stderr(), "a page of 10,000 topics, in the profile of tests: {:?}", times.iter().min().unwrap()).unwrap();
}

#[test]
fn the_overview_counts_and_alarms_say_what_to_do() {
    let own = own(|options| options.warning = Some("whoever reaches this broker may do everything".into()));
    let overview = ask_at(own, "GET", "/geminga/v1/overview", "").json();
    assert_eq!((&overview["cluster"], &overview["storage"]["writable"]), (&json!("standalone"), &json!(true)), "{overview}");
    assert_eq!(overview["loops"].as_array().unwrap().len(), 2);
    let alarms = ask_at(own, "GET", "/geminga/v1/alarms", "").json();
    assert_eq!(alarms["items"][0]["id"], "open-to-all", "{alarms}");
    assert!(alarms["items"][0]["advice"].as_str().unwrap().contains("authenticationEnabled"));
    assert_eq!(overview["alarms"], alarms["items"]);
    let series = ask_at(own, "GET", "/geminga/v1/series?metric=connections,msgRateIn&range=5m", "").json();
    assert_eq!(series["series"].as_array().unwrap().len(), 2, "{series}");
    assert_eq!(ask_at(own, "GET", "/geminga/v1/series?metric=weather", "").problem("bad-request")["status"], 400);
    assert_eq!(ask_at(own, "GET", "/geminga/v1/series?range=2d", "").status, 400);
}

#[test]
fn settings_are_changed_by_whoever_has_seen_what_they_change() {
    let own = own(|_| ());
    let soft = ask_at(own, "GET", "/geminga/v1/config/soft", "");
    let tag = soft.header("etag").unwrap().to_owned();
    assert_eq!((soft.json()["value"].as_str(), soft.json()["dynamic"].as_bool()), (Some("1"), Some(true)));
    assert_eq!(asked(own, "GET", "/geminga/v1/config/soft", &format!("If-None-Match: {tag}\r\n"), "").status, 304);
    let put = |headers: &str, body: &str| asked(own, "PUT", "/geminga/v1/config/soft", headers, body);
    assert_eq!(put("", r#"{"value":5}"#).problem("precondition-required")["status"], 428);
    assert_eq!(put("If-Match: \"config-99\"\r\n", r#"{"value":5}"#).problem("stale-revision")["status"], 412);
    assert_eq!(put(&format!("If-Match: {tag}\r\n"), r#"{"value":"many"}"#).problem("wrong-value")["errors"][0]["pointer"], "/soft");
    let changed = put(&format!("If-Match: {tag}\r\n"), r#"{"value":5}"#);
    assert_eq!((changed.status, &changed.json()["value"], &changed.json()["source"]), (200, &json!("5"), &json!("dynamic")));
    assert_eq!(put(&format!("If-Match: {tag}\r\n"), r#"{"value":6}"#).status, 412, "somebody was faster");
    let hard = asked(own, "PUT", "/geminga/v1/config/hard", "If-Match: *\r\n", r#"{"value":"5"}"#);
    assert_eq!(hard.problem("restart-required")["status"], 409);
    assert_eq!(ask_at(own, "GET", "/geminga/v1/config/nothing", "").problem("unknown-setting")["status"], 404);
    // Pulsar's view is of the same.
    let pulsars = |method: &str, path: &str| ask_at(own, method, &format!("/admin/v2/brokers/{path}"), "");
    assert_eq!(pulsars("GET", "configuration").json(), json!(["soft"]));
    assert_eq!(pulsars("GET", "configuration/values").json(), json!({"soft": "5"}));
    assert_eq!(pulsars("GET", "configuration/runtime").json(), json!({"soft": "5", "hard": "2"}));
    assert_eq!(pulsars("GET", "internal-configuration").json()["ledgersRootPath"], "/ledgers");
    assert_eq!(pulsars("POST", "configuration/soft/7").status, 204);
    assert_eq!(pulsars("POST", "configuration/hard/7").reason(), " Can't update non-dynamic configuration");
    assert_eq!(pulsars("POST", "configuration/soft/x").status, 412);
    assert_eq!(pulsars("DELETE", "configuration/soft").status, 204);
    assert_eq!(pulsars("GET", "configuration/values").json(), json!({}));
    let gone = asked(own, "DELETE", "/geminga/v1/config/soft", "If-Match: *\r\n", "");
    assert_eq!((gone.status, &gone.json()["source"]), (200, &json!("default")));
}

#[test]
fn settings_are_changed_together_or_not_at_all() {
    let own = own(|_| ());
    let apply = |body: Value| ask_at(own, "POST", "/geminga/v1/config:apply", &body.to_string());
    let soft = || ask_at(own, "GET", "/geminga/v1/config/soft", "").json()["value"].clone();
    let both = json!([{"key": "soft", "value": "8"}, {"key": "hard", "value": "8"}]);
    assert_eq!(apply(json!({ "changes": both })).problem("restart-required")["status"], 409);
    assert_eq!(soft(), "1");
    assert_eq!(apply(json!({"changes": [{"key": "soft", "value": 8}], "dryRun": true})).status, 200);
    assert_eq!(soft(), "1");
    assert_eq!(apply(json!({"changes": [{"key": "soft", "value": 8}]})).status, 200);
    assert_eq!(soft(), "8");
    let list = |query: &str| ask_at(own, "GET", &format!("/geminga/v1/config?{query}"), "").json();
    assert_eq!(list("dynamic=true")["items"][0]["key"], "soft");
    assert_eq!(list("source=dynamic")["approxTotal"], 1);
    assert_eq!(list("dynamic=false")["items"][0]["key"], "hard");
    assert_eq!(ask_at(own, "GET", "/geminga/v1/config/export", "").body, "soft=8\n");
    assert_eq!(ask_at(own, "GET", "/geminga/v1/config/export?format=json", "").json(), json!({"soft": "8"}));
    let checked = ask_at(own, "POST", "/geminga/v1/config:validate", "soft=1\nwrong=2").json();
    assert_eq!((&checked["valid"], &checked["errors"][0]["key"]), (&json!(false), &json!("wrong=2")));
}

#[test]
fn of_a_hundred_changes_at_once_that_saw_the_same_one_is_made() {
    let own = own(|_| ());
    let tag = ask_at(own, "GET", "/geminga/v1/config/soft", "").header("etag").unwrap().to_owned();
    let put =
        |n: u32| asked(own, "PUT", "/geminga/v1/config/soft", &format!("If-Match: {tag}\r\n"), &json!({ "value": n }).to_string()).status;
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..100).map(|n| scope.spawn(move || put(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 99);
}

#[test]
fn definitions_are_taken_out_and_put_back() {
    let own = own(|_| ());
    let body = json!({
        "tenants": [{"name": "acme", "adminRoles": ["boss"]}],
        "namespaces": [{"name": "acme/shop", "policies": {"message_ttl_in_seconds": 60}}],
        "topics": [{"name": "persistent://acme/shop/orders", "partitions": 2}, {"name": "persistent://acme/shop/log"}],
    });
    let import = |query: &str, body: &Value| {
        asked(own, "POST", &format!("/geminga/v1/definitions?{query}"), "Prefer: wait=30\r\n", &body.to_string())
    };
    let steps = |answer: &Answer| {
        let json = answer.json();
        let steps = json.get("steps").or_else(|| json["result"].get("steps")).unwrap_or_else(|| panic!("{json}")).clone();
        steps
            .as_array()
            .unwrap()
            .iter()
            .map(|s| format!("{} {}", s["action"].as_str().unwrap(), s["name"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    let all = ["create acme", "create acme/shop", "create persistent://acme/shop/orders", "create persistent://acme/shop/log"];
    assert_eq!(steps(&import("dryRun=true", &body)), all);
    assert_eq!(ask_at(own, "GET", "/admin/v2/tenants/acme", "").status, 404, "a trial does nothing");
    let made = import("", &body);
    assert_eq!((made.status, &made.json()["state"], &made.json()["progress"]["done"]), (200, &json!("succeeded"), &json!(4)), "{made:?}");
    assert_eq!(steps(&made), all);
    assert!(steps(&import("dryRun=true", &body)).is_empty(), "what is so already is left alone");
    let taken = ask_at(own, "GET", "/geminga/v1/definitions?tenant=acme", "");
    let document = taken.json();
    assert_eq!(document["tenants"], json!([{"name": "acme", "adminRoles": ["boss"], "allowedClusters": ["standalone"]}]));
    assert_eq!(document["namespaces"][0]["policies"]["message_ttl_in_seconds"], 60);
    assert_eq!(
        document["topics"],
        json!([{"name": "persistent://acme/shop/log"}, {"name": "persistent://acme/shop/orders", "partitions": 2}])
    );
    assert!(steps(&import("mode=replace&dryRun=true", &document)).is_empty());
    let tag = taken.header("etag").unwrap();
    assert_eq!(asked(own, "GET", "/geminga/v1/definitions?tenant=acme", &format!("If-None-Match: {tag}\r\n"), "").status, 304);
    // Less, and more.
    let less = json!({
        "tenants": [{"name": "acme"}],
        "namespaces": [{"name": "acme/shop", "policies": {}}],
        "topics": [{"name": "persistent://acme/shop/orders", "partitions": 3}],
    });
    let replaced = ["update acme", "update acme/shop", "update persistent://acme/shop/orders", "delete persistent://acme/shop/log"];
    assert_eq!(steps(&import("mode=replace", &less)), replaced);
    assert_eq!(ask_at(own, "GET", "/admin/v2/persistent/acme/shop/orders/partitions", "").body, r#"{"partitions":3}"#);
    assert_eq!(ask_at(own, "GET", "/admin/v2/persistent/acme/shop", "").json().as_array().unwrap().len(), 3);
    let fewer = json!({"topics": [{"name": "persistent://acme/shop/orders", "partitions": 1}]});
    assert_eq!(import("", &fewer).problem("conflict")["status"], 409);
}

#[test]
fn wrong_definitions_are_refused_with_every_place_that_is_wrong() {
    let import = |body: &str| ask("POST", "/geminga/v1/definitions", body);
    let wrong = json!({
        "namespaces": [{"name": "no/where"}, {"name": "public/wrong", "policies": {"message_ttl_in_seconds": "soon"}}],
        "topics": [{"name": "persistent://public/default/"}, {"name": "persistent://public/default/t", "partitions": 0}],
    });
    let problem = import(&wrong.to_string()).problem("wrong-definitions");
    let places: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|e| e["pointer"].as_str().unwrap()).collect();
    assert_eq!(places, ["/namespaces/0/name", "/namespaces/1/policies/message_ttl_in_seconds", "/topics/0/name", "/topics/1/partitions"]);
    assert_eq!(import(r#"{"tenant":[]}"#).status, 400, "a misspelt part is not passed over");
    assert_eq!(import(r#"{"version":2}"#).status, 400);
    assert_eq!(import("").status, 400);
    assert_eq!(ask("POST", "/geminga/v1/definitions?mode=destroy", "{}").status, 400);
}

#[test]
fn a_post_that_comes_twice_with_one_key_is_carried_out_once() {
    let own = own(|_| ());
    let body = json!({"tenants": [{"name": "once"}]}).to_string();
    let post = |key: &str, body: &str| {
        asked(own, "POST", "/geminga/v1/definitions", &format!("Prefer: wait=30\r\nIdempotency-Key: {key}\r\n"), body)
    };
    let first = post("k", &body);
    assert_eq!((first.status, first.header("idempotency-replayed")), (200, None), "{first:?}");
    let again = post("k", &body);
    assert_eq!((again.header("idempotency-replayed"), &again.body), (Some("true"), &first.body));
    assert_eq!(post("k", r#"{"tenants":[{"name":"twice"}]}"#).problem("idempotency-key-reused")["status"], 422);
    assert_ne!(post("l", &body).body, first.body);
    assert_eq!(post(&"k".repeat(65), &body).problem("bad-request")["status"], 400);
    let operations = ask_at(own, "GET", "/geminga/v1/operations", "").json();
    assert_eq!(operations["approxTotal"], 2, "{operations}");
    let id = operations["items"][0]["id"].as_str().unwrap();
    let operation = ask_at(own, "GET", &format!("/geminga/v1/operations/{id}"), "").json();
    assert_eq!((&operation["kind"], &operation["state"]), (&json!("definitions-import"), &json!("succeeded")));
    assert_eq!(ask_at(own, "DELETE", &format!("/geminga/v1/operations/{id}"), "").problem("conflict")["status"], 409, "it has ended");
    assert_eq!(ask_at(own, "GET", "/geminga/v1/operations/none", "").status, 404);
}

#[test]
fn long_work_is_accepted_watched_and_called_off() {
    let own = own(|_| ());
    let topics: Vec<Value> = (0..3_000).map(|n| json!({"name": format!("persistent://public/default/t{n}")})).collect();
    let body = json!({ "topics": topics }).to_string();
    let accepted = ask_at(own, "POST", "/geminga/v1/definitions", &body);
    assert_eq!((accepted.status, &accepted.json()["state"]), (202, &json!("running")), "{accepted:?}");
    let place = accepted.header("location").unwrap().to_owned();
    let cancelled = ask_at(own, "DELETE", &place, "");
    let ended = cancelled.json();
    // On a fast machine it may be over before; then it has ended otherwise and cannot be called off.
    if cancelled.status == 200 {
        assert!(ended["progress"]["done"].as_u64().unwrap() < 3_000, "{ended}");
        assert_eq!((&ended["state"], ended["endedAt"].is_string()), (&json!("cancelled"), true));
    } else {
        assert_eq!(cancelled.problem("conflict")["status"], 409);
    }
}

#[test]
fn who_changed_what_is_written_down_before_it_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let files = AuditFiles { directory: directory.path().join("audit"), max_bytes: 1 << 20 };
    let own = own(|options| options.audit = Some(files.clone()));
    assert_eq!(ask_at(own, "GET", "/admin/v2/tenants", "").status, 200);
    let tenant = r#"{"adminRoles":["boss"],"allowedClusters":["standalone"]}"#;
    assert_eq!(asked(own, "PUT", "/admin/v2/tenants/written", "X-Request-Id: first\r\n", tenant).status, 204);
    assert_eq!(ask_at(own, "PUT", "/admin/v2/tenants/written", tenant).status, 409);
    assert_eq!(ask_at(own, "POST", "/geminga/v1/config:validate", "soft=1").status, 200);
    let all = ask_at(own, "GET", "/geminga/v1/audit", "").json();
    let lines = all["items"].as_array().unwrap();
    assert_eq!(lines.len(), 2, "asking is not written down: {all}");
    assert_eq!((&lines[0]["status"], &lines[1]["status"]), (&json!(409), &json!(204)), "the newest first");
    let first = &lines[1];
    assert_eq!((&first["route"], &first["resource"]), (&json!("PUT /admin/v2/tenants/{tenant}"), &json!("written")));
    assert_eq!(
        (&first["requestId"], &first["addr"], first["bodySha256"].as_str().unwrap().len()),
        (&json!("first"), &json!("127.0.0.1"), 64)
    );
    assert!(!all.to_string().contains("boss"), "bodies are not kept");
    let some = |query: &str| ask_at(own, "GET", &format!("/geminga/v1/audit?{query}"), "").json();
    let page = some("limit=1");
    assert_eq!(some(&format!("limit=1&cursor={}", page["nextCursor"].as_str().unwrap()))["items"][0]["requestId"], "first");
    assert_eq!(some("since=2999-01-01T00:00:00Z")["items"], json!([]));
    assert_eq!(some("principal=nobody")["items"], json!([]));
    assert_eq!(ask_at(own, "GET", "/geminga/v1/audit?cursor=x", "").problem("bad-request")["status"], 400);
    assert_eq!(get("/geminga/v1/audit").problem("not-found")["status"], 404, "where there is none");
}

#[test]
fn a_broker_that_is_read_only_refuses_every_change_and_answers_every_question() {
    let own = own(|options| options.read_only = true);
    let mut refused = 0;
    for route in geminga_admin::routes() {
        let path = route.path.replace("{domain}", "persistent").replace(['{', '}'], "");
        let asks = route.method == "GET"
            || ["/compatibility", "/version", "/analyzeBacklog", ":validate", "/tickets"].iter().any(|end| path.ends_with(end));
        if asks {
            continue;
        }
        // The body never comes: nobody waits for it.
        let mut stream = connect(own);
        write!(stream, "{} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n", route.method).unwrap();
        let told = answer(&mut stream).unwrap();
        assert_eq!(told.status, 403, "{} {path}", route.method);
        assert!(told.body.contains("adminReadOnly"), "{told:?}");
        refused += 1;
    }
    assert!(refused > 20);
    assert_eq!(ask_at(own, "GET", "/admin/v2/clusters", "").status, 200);
    assert_eq!(ask_at(own, "POST", "/geminga/v1/config:validate", "soft=1").status, 200);
    assert_eq!(ask_at(own, "GET", "/geminga/v1/whoami", "").json()["readOnly"], true);
}

#[test]
fn messages_of_a_topic_without_any_are_none() {
    assert_eq!(told("PUT", "/admin/v2/persistent/public/default/browsed/partitions", "2"), done());
    let browse = |query: &str| get(&format!("/geminga/v1/messages?{query}"));
    let found = browse("topic=persistent://public/default/browsed&partition=1&from=earliest").json();
    assert_eq!((&found["messages"], &found["topic"]), (&json!([]), &json!("persistent://public/default/browsed-partition-1")));
    assert!(browse("topic=persistent://public/default/browsed").problem("bad-request")["detail"].as_str().unwrap().contains("partition=0"));
    assert_eq!(browse("topic=persistent://public/default/browsed&partition=2").status, 404);
    assert_eq!(browse("topic=persistent://public/default/browsed&partition=0&from=yesterday").status, 400);
    assert_eq!(browse("topic=non-persistent://public/default/x").problem("not-allowed")["status"], 405);
    assert_eq!(browse("topic=%2F%2F").status, 412);
    assert_eq!(browse("").status, 400);
}

pub(crate) fn configuration() -> Arc<dyn Configuration> {
    Arc::new(TwoSettings::default())
}
