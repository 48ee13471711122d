//! What is done to topics and subscriptions, here without messages; with them it is done from outside, in `tests/topic_administration.rs`.

use serde_json::{Value, json};

use super::{ask, done, get, told};

const EARLIEST: &str = r#"{"ledgerId":-1,"entryId":-1,"partitionIndex":-1}"#;
const BUNDLE: &str = "0x00000000_0x40000000";

/// A namespace of its own.
fn namespace(name: &str) -> (String, String) {
    let namespace = format!("/admin/v2/namespaces/public/{name}");
    assert_eq!(told("PUT", &namespace, ""), done());
    (namespace, format!("/admin/v2/persistent/public/{name}"))
}

fn answered(method: &str, path: &str, body: &str) -> Value {
    let answer = ask(method, path, body);
    assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
    answer.json()
}

#[test]
fn everything_that_is_done_to_a_topic_can_be_done_to_one_without_messages() {
    let (_, topics) = namespace("actions-topic");
    let topic = format!("{topics}/t");
    assert_eq!(told("PUT", &topic, ""), done());
    assert_eq!(told("PUT", &format!("{topic}/properties"), r#"{"a":"1","b":"2"}"#), done());
    assert_eq!(told("DELETE", &format!("{topic}/properties?key=b"), ""), done());
    assert_eq!(get(&format!("{topic}/properties")).json(), json!({"a": "1"}));
    assert_eq!(ask("DELETE", &format!("{topic}/properties"), "").status, 412, "which one?");
    assert_eq!(get(&format!("{topic}/compaction")).json()["status"], "NOT_RUN");
    assert_eq!(told("PUT", &format!("{topic}/compaction"), ""), done());
    assert_eq!(ask("PUT", &format!("{topic}/offload"), "").status, 405);
    assert_eq!(get(&format!("{topic}/offload")).json()["status"], "NOT_RUN");
    assert_eq!(answered("PUT", &format!("{topic}/backlogSize"), EARLIEST), json!(0));
    assert_eq!(ask("PUT", &format!("{topic}/backlogSize"), "").status, 400);
    assert!(get(&format!("{topic}/internal-info")).json()["ledgers"].is_array());
    assert_eq!(told("POST", &format!("{topic}/trim"), ""), done());
    assert_eq!(told("DELETE", &format!("{topic}/truncate"), ""), done());
    assert!(answered("POST", &format!("{topic}/terminate"), "")["ledgerId"].is_i64());
    assert_eq!(get(&format!("{topic}/internalStats")).json()["state"], "Terminated");
    for (method, call) in [("POST", "terminate"), ("POST", "trim"), ("DELETE", "truncate"), ("PUT", "compaction"), ("GET", "properties")] {
        assert_eq!(ask(method, &format!("{topics}/nowhere/{call}"), "").status, 404, "{call}");
    }
}

#[test]
fn everything_that_is_done_to_a_partitioned_topic_is_done_to_its_partitions() {
    let (_, topics) = namespace("actions-partitions");
    let topic = format!("{topics}/p");
    assert_eq!(told("PUT", &format!("{topic}/partitions"), "2"), done());
    assert_eq!(told("POST", &format!("{topic}/createMissedPartitions"), ""), done());
    assert_eq!(get(&format!("{topic}/partitioned-internalStats")).json()["partitions"].as_object().unwrap().len(), 2);
    assert_eq!(ask("POST", &format!("{topic}/terminate"), "").status, 405);
    let ends = answered("POST", &format!("{topic}/terminate/partitions"), "");
    assert_eq!((&ends["0"]["partitionIndex"], &ends["1"]["partitionIndex"]), (&json!(0), &json!(1)));
    assert_eq!(ask("POST", &format!("{topics}/nowhere/createMissedPartitions"), "").status, 404);
}

#[test]
fn everything_that_is_done_to_a_subscription_can_be_done_where_nothing_waits() {
    let (_, topics) = namespace("actions-subscription");
    let topic = format!("{topics}/t");
    let of = format!("{topic}/subscription/s");
    assert_eq!(told("PUT", &topic, ""), done());
    assert_eq!(told("PUT", &of, EARLIEST), done());
    assert_eq!(ask("PUT", &of, EARLIEST).status, 409);
    for (call, body) in [
        ("skip_all", ""),
        ("skip/1", ""),
        ("expireMessages/1", ""),
        ("expireMessages", EARLIEST),
        ("resetcursor/1", ""),
        ("resetcursor", EARLIEST),
        ("replicatedSubscriptionStatus", "true"),
    ] {
        assert_eq!(told("POST", &format!("{of}/{call}"), body), done(), "{call}");
        assert_eq!(ask("POST", &format!("{topic}/subscription/none/{call}"), body).status, 404, "{call}");
    }
    assert_eq!(told("POST", &format!("{topic}/all_subscription/expireMessages/1"), ""), done());
    assert_eq!(told("PUT", &format!("{of}/properties"), r#"{"a":"1"}"#), done());
    assert_eq!(get(&format!("{of}/properties")).json(), json!({"a": "1"}));
    assert_eq!(answered("POST", &format!("{of}/analyzeBacklog"), "")["entries"], 0);
    let status = get(&format!("{of}/replicatedSubscriptionStatus")).json();
    assert_eq!(status, json!({"persistent://public/actions-subscription/t": false}));
    assert_eq!(told("DELETE", &of, ""), done());
    assert_eq!(ask("DELETE", &of, "").status, 404);
}

#[test]
fn backlogs_and_subscriptions_of_a_namespace_or_a_bundle_go_from_all_its_topics() {
    let (namespace, topics) = namespace("actions-namespace");
    for n in 0..4 {
        assert_eq!(told("PUT", &format!("{topics}/t{n}"), ""), done());
        assert_eq!(told("PUT", &format!("{topics}/t{n}/subscription/s"), EARLIEST), done());
    }
    let subscribed = || (0..4).filter(|n| get(&format!("{topics}/t{n}/subscriptions")).json() == json!(["s"])).count();
    let in_bundle = get(&format!("{topics}/{BUNDLE}")).json().as_array().unwrap().len();
    for call in ["clearBacklog", "clearBacklog/s"] {
        assert_eq!(told("POST", &format!("{namespace}/{call}"), ""), done());
        assert_eq!(told("POST", &format!("{namespace}/{BUNDLE}/{call}"), ""), done());
    }
    assert_eq!(subscribed(), 4, "what is left behind is no reason to leave");
    assert_eq!(told("POST", &format!("{namespace}/{BUNDLE}/unsubscribe/s"), ""), done());
    assert_eq!(subscribed(), 4 - in_bundle);
    assert_eq!(told("POST", &format!("{namespace}/unsubscribe/s"), ""), done());
    assert_eq!(subscribed(), 0);
    assert_eq!(ask("POST", &format!("{namespace}/0x00000000_0x20000000/clearBacklog"), "").status, 412, "no such bundle");
}
