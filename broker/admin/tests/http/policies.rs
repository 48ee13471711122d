//! Policies of namespaces and topics over HTTP: every slot of the table on both levels, read back byte by byte.

use std::collections::BTreeMap;

use geminga_admin::{AdminOptions, DoorLine, PolicyLine, policy_slots};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::{ask, ask_at, done, get, start, told};

/// A namespace of its own, with a topic in it.
struct Place {
    namespace: String,
    topic: String,
}

impl Place {
    fn new(name: &str) -> Place {
        let namespace = format!("/admin/v2/namespaces/public/{name}");
        let topic = format!("/admin/v2/persistent/public/{name}/t");
        assert_eq!(told("PUT", &namespace, ""), done());
        assert_eq!(told("PUT", &topic, ""), done());
        Place { namespace, topic }
    }

    /// Where a slot is: its doors, each with what is in front of it.
    fn doors<'s>(&'s self, slot: &'s PolicyLine) -> impl Iterator<Item = (&'s str, &'s DoorLine)> {
        let namespace = slot.namespace.as_ref().map(|door| (self.namespace.as_str(), door));
        let topic = slot.topic.as_ref().map(|door| (self.topic.as_str(), door));
        namespace.into_iter().chain(topic)
    }
}

/// What reading a slot answers when `body` was set.
fn shown(slot: &PolicyLine, body: &str) -> (u16, String) {
    match slot.field {
        "backlog_quota_map" => (200, format!(r#"{{"destination_storage":{body}}}"#)),
        _ => (200, body.to_owned()),
    }
}

/// What reading a slot answers when nothing was set.
fn unsaid(slot: &PolicyLine, door: &DoorLine) -> (u16, String) {
    match (slot.field, door.unsaid) {
        ("is_allow_auto_update_schema", _) => (200, "true".into()),
        (_, "") => done(),
        (_, unsaid) => (200, unsaid.to_owned()),
    }
}

fn read(at: &str, door: &DoorLine) -> (u16, String) {
    told("GET", &format!("{at}/{}", door.shown_at), "")
}

fn set(at: &str, door: &DoorLine, body: &str) -> (u16, String) {
    let (method, suffix) = door.set_at;
    told(method, &format!("{at}/{suffix}"), body)
}

fn unset(at: &str, door: &DoorLine) -> Option<(u16, String)> {
    door.unset_at.map(|suffix| told("DELETE", &format!("{at}/{suffix}"), ""))
}

#[test]
fn every_slot_is_set_read_back_and_unset_on_both_levels() {
    let place = Place::new("policies-one-by-one");
    for slot in policy_slots() {
        for (at, door) in place.doors(&slot) {
            let name = format!("{at}/{}", door.shown_at);
            assert_eq!(read(at, door), unsaid(&slot, door), "{name} at first");
            for sample in slot.samples {
                assert_eq!(set(at, door, sample), done(), "{name} {sample}");
                assert_eq!(read(at, door), shown(&slot, sample), "{name} {sample}");
            }
            let last = read(at, door);
            for (refused, status) in slot.refused {
                let answer = ask(door.set_at.0, &format!("{at}/{}", door.set_at.1), refused);
                assert_eq!(answer.status, *status, "{name} {refused} {}", answer.body);
                assert!(!answer.reason().is_empty());
                assert_eq!(read(at, door), last, "{name} after {refused}");
            }
            match unset(at, door) {
                Some(answer) => {
                    assert_eq!(answer, done(), "{name} unset");
                    assert_eq!(read(at, door), unsaid(&slot, door), "{name} unset");
                    assert_eq!(unset(at, door), Some(done()), "{name} unset again");
                }
                None => assert_eq!(ask("DELETE", &name, "").status, 405, "{name} is always set"),
            }
        }
    }
    let left = get(&place.namespace).json();
    assert!(left.get("retention_policies").is_none() && left.get("max_producers_per_topic").is_none(), "{left}");
    assert_eq!(left["backlog_quota_map"], json!({}), "tools expect the field");
}

#[test]
fn no_body_and_null_unset_a_policy() {
    let place = Place::new("policies-null");
    for at in [&place.namespace, &place.topic] {
        for nothing in ["", "null"] {
            let path = format!("{at}/maxSubscriptionsPerTopic");
            assert_eq!(told("POST", &path, "3"), done());
            assert_eq!(told("POST", &path, nothing), done());
            assert_eq!(told("GET", &path, ""), done());
        }
    }
}

#[test]
fn values_are_read_as_clients_write_them() {
    let place = Place::new("policies-lenient");
    let ttl = format!("{}/messageTTL", place.topic);
    assert_eq!(told("POST", &format!("{ttl}?messageTTL=7"), ""), done());
    assert_eq!(told("GET", &ttl, ""), (200, "7".into()));
    assert_eq!(ask("POST", &format!("{ttl}?messageTTL=-7"), "").reason(), "Invalid value for message TTL");
    for (path, written, kept) in [
        ("encryptionRequired", "\"true\"", "true"),
        ("antiAffinity", "group-1", "\"group-1\""),
        ("antiAffinity", "\"group-2\"", "\"group-2\""),
        ("maxProducersPerTopic", "\"4\"", "4"),
        ("delayedDelivery", r#"{"active":true,"later":1}"#, r#"{"active":true,"tickTime":0,"maxDeliveryDelayInMillis":0}"#),
        ("schemaCompatibilityStrategy", "FULL", "\"FULL\""),
    ] {
        let method = if path.starts_with("schema") { "PUT" } else { "POST" };
        assert_eq!(told(method, &format!("{}/{path}", place.namespace), written), done(), "{path} {written}");
        assert_eq!(told("GET", &format!("{}/{path}", place.namespace), ""), (200, kept.into()), "{path} {written}");
    }
}

#[test]
fn a_quota_and_retention_that_exclude_each_other_are_refused_whichever_comes_second() {
    let place = Place::new("policies-quotas");
    let kept = r#"{"retentionTimeInMinutes":10,"retentionSizeInMB":1}"#;
    let quota = |bytes: u64| format!(r#"{{"limitSize":{bytes},"limitTime":-1,"policy":"producer_exception"}}"#);
    for at in [&place.namespace, &place.topic] {
        let (retention, backlog) = (format!("{at}/retention"), format!("{at}/backlogQuota"));
        assert_eq!(told("POST", &retention, kept), done());
        let answer = ask("POST", &backlog, &quota(1 << 20));
        assert_eq!(answer.status, 412);
        assert!(answer.reason().starts_with("Backlog Quota exceeds configured retention quota"), "{}", answer.body);
        assert_eq!(told("POST", &backlog, &quota((1 << 20) - 1)), done());
        assert_eq!(told("POST", &format!("{backlog}?backlogQuotaType=message_age"), &quota(1)), done());
        assert_eq!(told("POST", &format!("{backlog}?backlogQuotaType=weight"), &quota(1)).0, 400);
        assert_eq!(get(&format!("{at}/backlogQuotaMap")).json().as_object().unwrap().len(), 2);
        assert_eq!(told("DELETE", &retention, ""), done());
        assert_eq!(told("POST", &backlog, &quota(2 << 20)), done());
        assert!(ask("POST", &retention, kept).reason().starts_with("Retention Quota must exceed"), "the quota is the larger one");
        assert_eq!(told("DELETE", &backlog, ""), done());
        assert_eq!(get(&format!("{at}/backlogQuotaMap")).json().as_object().unwrap().len(), 1);
    }
}

#[test]
fn only_topics_that_are_there_have_policies_and_partitions_share_theirs() {
    let place = Place::new("policies-of-topics");
    let topics = place.topic.trim_end_matches("/t");
    for (method, body) in [("GET", ""), ("POST", "3"), ("DELETE", "")] {
        assert_eq!(ask(method, &format!("{topics}/missing/maxProducers"), body).status, 404, "{method}");
    }
    assert_eq!(ask("GET", "/admin/v2/persistent/public/nowhere/t/maxProducers", "").status, 404);
    let parts = format!("{topics}/parts");
    assert_eq!(told("PUT", &format!("{parts}/partitions"), "2"), done());
    assert_eq!(told("POST", &format!("{parts}/maxProducers"), "3"), done());
    assert_eq!(told("GET", &format!("{parts}-partition-1/maxProducers"), ""), (200, "3".into()));
    assert_eq!(told("DELETE", &format!("{parts}/partitions"), ""), done());
    assert_eq!(told("PUT", &format!("{parts}/partitions"), "2"), done());
    assert_eq!(told("GET", &format!("{parts}/maxProducers"), ""), done(), "a new topic knows nothing of the old one");
}

#[test]
fn topics_have_no_policies_where_that_is_switched_off() {
    let off = start(AdminOptions { topic_policies: false, ..AdminOptions::default() }, |_| ());
    assert_eq!(ask_at(off, "PUT", "/admin/v2/persistent/public/default/t", "").status, 204);
    let answer = ask_at(off, "GET", "/admin/v2/persistent/public/default/t/maxProducers", "");
    assert_eq!(answer.status, 405);
    assert!(answer.reason().starts_with("Topic level policy is disabled"), "{}", answer.body);
}

#[test]
fn clusters_of_a_namespace_and_a_topic_must_be_there() {
    let place = Place::new("policies-clusters");
    let (of_namespace, of_topic) = (format!("{}/replication", place.namespace), format!("{}/replication", place.topic));
    assert_eq!(told("GET", &of_namespace, ""), (200, r#"["standalone"]"#.into()));
    assert_eq!(told("GET", &of_topic, ""), done());
    assert_eq!(told("GET", &format!("{of_topic}?applied=true"), ""), (200, r#"["standalone"]"#.into()));
    for path in [&of_namespace, &of_topic] {
        assert_eq!(told("POST", path, r#"["standalone"]"#), done());
        assert_eq!(ask("POST", path, r#"["nowhere"]"#).status, 403);
        assert_eq!(ask("POST", path, "[]").status, 412);
    }
    assert_eq!(told("GET", &of_topic, ""), (200, r#"["standalone"]"#.into()));
    assert_eq!(told("DELETE", &of_topic, ""), done());
    assert_eq!(told("GET", &of_topic, ""), done());
    let allowed = format!("{}/allowedClusters", place.namespace);
    assert_eq!(told("GET", &allowed, ""), (200, "[]".into()));
    assert_eq!(told("POST", &allowed, r#"["standalone"]"#), done());
    assert_eq!(ask("POST", &allowed, r#"["nowhere"]"#).status, 403);
    assert_eq!(told("GET", &allowed, ""), (200, r#"["standalone"]"#.into()));
}

/// One step of a random story: which slot, on which level, and whether it is set (to which sample) or unset.
type Deed = (usize, bool, Option<usize>);

/// What slots should say, from what was done.
#[derive(Default)]
struct Model {
    said: BTreeMap<(usize, bool), String>,
}

impl Model {
    fn applied(&self, slot: usize) -> Option<&String> {
        self.said.get(&(slot, true)).or_else(|| self.said.get(&(slot, false)))
    }
}

#[test]
fn whatever_is_done_in_whatever_order_each_level_says_what_was_said_and_applied_says_what_holds() {
    // Slots that are on both levels and can be unset on both.
    let slots: Vec<PolicyLine> = policy_slots()
        .filter(|slot| slot.field != "retention_policies" && slot.field != "backlog_quota_map")
        .filter(|slot| [&slot.namespace, &slot.topic].into_iter().all(|door| door.as_ref().is_some_and(|door| door.unset_at.is_some())))
        .collect();
    let place = Place::new("policies-stories");
    let deed = (0..slots.len(), any::<bool>(), prop::option::weighted(0.7, 0..3usize));
    let mut runner = TestRunner::new(Config { cases: 8, failure_persistence: None, ..Config::default() });
    let story = |deeds: Vec<Deed>| {
        let mut model = Model::default();
        for (index, at_topic, what) in deeds {
            let slot = &slots[index];
            let (at, door) = match at_topic {
                true => (&place.topic, slot.topic.as_ref().unwrap()),
                false => (&place.namespace, slot.namespace.as_ref().unwrap()),
            };
            match what.map(|sample| slot.samples[sample % slot.samples.len()]) {
                Some(sample) => {
                    prop_assert_eq!(set(at, door, sample), done());
                    model.said.insert((index, at_topic), sample.to_owned());
                }
                None => {
                    prop_assert_eq!(unset(at, door), Some(done()));
                    model.said.remove(&(index, at_topic));
                }
            }
            let expected = |said: Option<&String>| said.map_or_else(|| unsaid(slot, door), |body| (200, body.clone()));
            prop_assert_eq!(read(at, door), expected(model.said.get(&(index, at_topic))), "{}", door.shown_at);
            let topic = slot.topic.as_ref().unwrap();
            let applied = told("GET", &format!("{}/{}?applied=true", place.topic, topic.shown_at), "");
            prop_assert_eq!(applied, expected(model.applied(index)), "{} applied", topic.shown_at);
        }
        // The next story begins with nothing said.
        for slot in &slots {
            for (at, door) in place.doors(slot) {
                unset(at, door);
            }
        }
        Ok(())
    };
    runner.run(&prop::collection::vec(deed, 1..40), story).unwrap();
}

#[test]
fn what_the_configuration_says_is_applied_where_nothing_else_is_said() {
    let own = start(AdminOptions::default(), |settings| {
        settings.policies.set("max_producers_per_topic", 9).unwrap();
        settings.policies.set("deduplicationEnabled", false).unwrap();
    });
    let told = |method, path: &str, body| {
        let answer = ask_at(own, method, path, body);
        (answer.status, answer.body)
    };
    let (namespace, topic) = ("/admin/v2/namespaces/public/default", "/admin/v2/persistent/public/default/t");
    assert_eq!(told("PUT", topic, ""), done());
    assert_eq!(told("GET", &format!("{topic}/maxProducers"), ""), done());
    assert_eq!(told("GET", &format!("{topic}/maxProducers?applied=true"), ""), (200, "9".into()));
    assert_eq!(told("GET", &format!("{namespace}/maxProducersPerTopic?applied=true"), ""), (200, "9".into()));
    assert_eq!(told("GET", &format!("{topic}/deduplicationEnabled?applied=true"), ""), (200, "false".into()));
    assert_eq!(told("POST", &format!("{namespace}/maxProducersPerTopic"), "5"), done());
    assert_eq!(told("GET", &format!("{topic}/maxProducers?applied=true"), ""), (200, "5".into()));
    assert_eq!(told("POST", &format!("{topic}/maxProducers"), "0"), done());
    assert_eq!(told("GET", &format!("{topic}/maxProducers?applied=true"), ""), (200, "0".into()));
}

#[test]
fn properties_are_noted_on_namespaces() {
    let place = Place::new("policies-properties");
    let (all, one) = (format!("{}/properties", place.namespace), format!("{}/property", place.namespace));
    assert_eq!(told("GET", &all, ""), (200, "{}".into()));
    assert_eq!(told("PUT", &all, r#"{"a":"1","b":"2"}"#), done());
    assert_eq!(told("PUT", &format!("{one}/c/x%2Fy"), ""), done());
    assert_eq!(get(&all).json(), json!({"a": "1", "b": "2", "c": "x/y"}));
    assert_eq!(told("GET", &format!("{one}/c"), ""), (200, "x/y".into()));
    assert_eq!(told("GET", &format!("{one}/d"), ""), done());
    assert_eq!(told("DELETE", &format!("{one}/b"), ""), (200, "2".into()));
    assert_eq!(get(&all).json(), json!({"a": "1", "c": "x/y"}));
    assert_eq!(told("DELETE", &all, ""), done());
    assert_eq!(told("GET", &all, ""), (200, "{}".into()));
    assert_eq!(ask("GET", "/admin/v2/namespaces/public/nowhere/properties", "").status, 404);
}

#[test]
fn resource_groups_are_kept_and_stay_while_a_namespace_is_in_them() {
    let place = Place::new("policies-groups");
    let (groups, of) = ("/admin/v2/resourcegroups", format!("{}/resourcegroup", place.namespace));
    let rates = r#"{"publishRateInMsgs":10,"publishRateInBytes":20,"dispatchRateInMsgs":30,"dispatchRateInBytes":40}"#;
    assert_eq!(told("GET", &of, ""), done());
    assert_eq!(told("POST", &format!("{of}/g1"), "").0, 404, "there is no such group");
    assert_eq!(told("PUT", &format!("{groups}/g1"), rates), done());
    assert_eq!(told("GET", &format!("{groups}/g1"), ""), (200, rates.into()));
    assert_eq!(told("PUT", &format!("{groups}/g1"), r#"{"publishRateInMsgs":11}"#), done(), "what is not said stays");
    assert_eq!(told("GET", &format!("{groups}/g1"), ""), (200, rates.replace(":10", ":11")));
    assert!(get(groups).json().as_array().unwrap().contains(&json!("g1")));
    assert_eq!(told("POST", &format!("{of}/g1"), ""), done());
    assert_eq!(told("GET", &of, ""), (200, "\"g1\"".into()));
    assert_eq!(told("DELETE", &format!("{groups}/g1"), "").0, 409);
    assert_eq!(told("DELETE", &of, ""), done());
    assert_eq!(told("GET", &of, ""), done());
    assert_eq!(told("DELETE", &format!("{groups}/g1"), ""), done());
    assert_eq!(told("GET", &format!("{groups}/g1"), "").0, 404);
    assert_eq!(told("DELETE", &format!("{groups}/g1"), "").0, 404);
}

#[test]
fn what_a_lone_broker_has_no_use_for_is_kept_or_empty() {
    let place = Place::new("policies-alone");
    assert_eq!(told("POST", &format!("{}/antiAffinity", place.namespace), "apart"), done());
    let apart = "/admin/v2/namespaces/standalone/antiAffinity/apart?tenant=public";
    assert_eq!(told("GET", apart, ""), (200, r#"["public/policies-alone"]"#.into()));
    assert_eq!(told("GET", "/admin/v2/namespaces/standalone/antiAffinity/other?tenant=public", ""), (200, "[]".into()));
    assert_eq!(told("POST", &format!("{}/migration?migrated=true", place.namespace), ""), done());
    assert_eq!(get(&place.namespace).json()["migrated"], true);
    for path in ["failureDomains", "namespaceIsolationPolicies"] {
        assert_eq!(told("GET", &format!("/admin/v2/clusters/standalone/{path}"), ""), (200, "{}".into()));
        assert_eq!(told("GET", &format!("/admin/v2/clusters/nowhere/{path}"), "").0, 404);
    }
}

#[test]
fn clusters_have_peers_and_may_have_moved() {
    let own = start(AdminOptions::default(), |_| ());
    let told = |method, path: &str, body| {
        let answer = ask_at(own, method, path, body);
        (answer.status, answer.body)
    };
    let clusters = "/admin/v2/clusters";
    let other = r#"{"serviceUrl":"http://o:8080","brokerServiceUrl":"pulsar://o:6650"}"#;
    assert_eq!(told("PUT", &format!("{clusters}/other"), other), done());
    let peers = format!("{clusters}/standalone/peers");
    assert_eq!(told("GET", &peers, ""), (200, "[]".into()));
    assert_eq!(told("POST", &peers, r#"["nowhere"]"#).0, 412);
    assert_eq!(told("POST", &peers, r#"["standalone"]"#).0, 412, "not its own");
    assert_eq!(told("POST", &peers, r#"["other"]"#), done());
    assert_eq!(told("GET", &peers, ""), (200, r#"["other"]"#.into()));
    let moved = format!("{clusters}/other/migrate");
    assert_eq!(told("GET", &moved, "").0, 404);
    let urls = r#"{"brokerServiceUrl":"pulsar://p:6650"}"#;
    assert_eq!(told("POST", &format!("{moved}?migrated=true"), urls), done());
    assert_eq!(told("GET", &moved, ""), (200, urls.into()));
    assert_eq!(told("POST", &format!("{clusters}/nowhere/migrate?migrated=true"), urls).0, 404);
}

#[test]
fn bundles_are_looked_at_before_they_are_unloaded_or_split() {
    let place = Place::new("policies-bundles");
    let (there, nowhere) = ("0x00000000_0x40000000", "0x00000000_0x20000000");
    assert_eq!(told("PUT", &format!("{}/unload", place.namespace), ""), done());
    for act in ["unload?destinationBroker=h:8080", "split?unload=true", "split?splitAlgorithmName=topic_count_equally_divide"] {
        assert_eq!(told("PUT", &format!("{}/{there}/{act}", place.namespace), ""), done(), "{act}");
        assert_eq!(ask("PUT", &format!("{}/{nowhere}/{act}", place.namespace), "").status, 412, "{act}");
        assert_eq!(ask("PUT", &format!("{}/everything/{act}", place.namespace), "").status, 412, "{act}");
        assert_eq!(ask("PUT", &format!("/admin/v2/namespaces/public/nowhere/{there}/{act}"), "").status, 404, "{act}");
    }
    let split = format!("{}/{there}/split?splitAlgorithmName=", place.namespace);
    assert_eq!(ask("PUT", &format!("{split}by_taste"), "").status, 412);
    assert_eq!(ask("PUT", &format!("{split}specified_positions_divide"), "[4294967295]").status, 412);
    assert_eq!(told("PUT", &format!("{split}specified_positions_divide"), "[1073741823]"), done());
    let hashes = get(&format!("{}/0x00000000_0x40000000/topicHashPositions", place.namespace)).json();
    assert_eq!(hashes["bundle"], there);
}

#[test]
fn a_namespace_shows_what_was_set_in_its_policies() {
    let place = Place::new("policies-shown");
    let rate =
        r#"{"dispatchThrottlingRateInMsg":5,"dispatchThrottlingRateInByte":-1,"ratePeriodInSecond":1,"relativeToPublishRate":false}"#;
    assert_eq!(told("POST", &format!("{}/dispatchRate", place.namespace), rate), done());
    assert_eq!(told("POST", &format!("{}/maxTopicsPerNamespace", place.namespace), "7"), done());
    let policies = get(&place.namespace).json();
    assert_eq!(policies["topicDispatchRate"]["standalone"], serde_json::from_str::<Value>(rate).unwrap());
    assert_eq!(policies["max_topics_per_namespace"], 7);
}
