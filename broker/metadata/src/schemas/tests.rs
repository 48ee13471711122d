use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};
use serde_json::json;

use super::*;
use crate::paths::{Domain, NamespacePath, TopicPath};
use crate::{Expected, MemoryStore, MetadataStore};

const TOPIC: TopicPath<'_> =
    TopicPath { namespace: NamespacePath { tenant: "public", namespace: "default" }, domain: Domain::Persistent, topic: "t 1" };
const FULL: Rules = Rules { strategy: Strategy::Full, auto_update: true, enforced: false };

fn store() -> MemoryStore {
    let store = MemoryStore::new();
    store.put(&TOPIC.namespace.policies(), b"{}", Expected::Absent).unwrap();
    store
}

fn schema(kind: SchemaKind, data: impl ToString) -> Schema {
    Schema { kind, data: data.to_string().into_bytes(), properties: BTreeMap::new() }
}

fn avro(fields: serde_json::Value) -> Schema {
    schema(SchemaKind::Avro, json!({"type": "record", "name": "User", "namespace": "n", "fields": fields}))
}

fn name_only() -> Schema {
    avro(json!([{"name": "name", "type": "string"}]))
}

fn with_age(default: bool) -> Schema {
    let mut age = json!({"name": "age", "type": ["null", "int"]});
    if default {
        age["default"] = serde_json::Value::Null;
    }
    avro(json!([{"name": "name", "type": "string"}, age]))
}

fn under(strategy: Strategy) -> Rules {
    Rules { strategy, ..FULL }
}

fn why<T: std::fmt::Debug>(outcome: Result<T, SchemaError>) -> String {
    outcome.unwrap_err().to_string()
}

#[test]
fn the_same_schema_has_the_same_version_however_it_is_written() {
    let store = store();
    assert_eq!(offer(&store, TOPIC, &name_only(), FULL, 1), Ok(0));
    assert_eq!(offer(&store, TOPIC, &name_only(), FULL, 2), Ok(0));
    let told = avro(json!([{"doc": "the name", "type": {"type": "string"}, "name": "name", "aliases": ["called"]}]));
    assert_eq!(offer(&store, TOPIC, &told, FULL, 3), Ok(0));
    assert_eq!(offer(&store, TOPIC, &with_age(true), FULL, 4), Ok(1));
    assert_eq!(offer(&store, TOPIC, &name_only(), FULL, 5), Ok(0));
    assert_eq!(find_version(&store, TOPIC, &with_age(true)), Ok(Some(1)));
    assert_eq!(find_version(&store, TOPIC, &schema(SchemaKind::Json, "x")), Ok(None));
    assert_eq!(get(&store, TOPIC, Some(0)).unwrap().unwrap().timestamp_ms, 1);
}

#[test]
fn each_strategy_lets_its_own_follow() {
    use Strategy::*;
    // Added with a default, added without, removed with, removed without.
    let (bare, defaulted, required) = (name_only(), with_age(true), with_age(false));
    for (strategy, expected) in [
        (AlwaysCompatible, [true, true, true, true]),
        (AlwaysIncompatible, [false, false, false, false]),
        (Backward, [true, false, true, true]),
        (Forward, [true, true, true, false]),
        (Full, [true, false, true, false]),
        (BackwardTransitive, [true, false, true, true]),
        (ForwardTransitive, [true, true, true, false]),
        (FullTransitive, [true, false, true, false]),
    ] {
        for ((old, new), expected) in
            [(&bare, &defaulted), (&bare, &required), (&defaulted, &bare), (&required, &bare)].into_iter().zip(expected)
        {
            let store = store();
            offer(&store, TOPIC, old, FULL, 1).unwrap();
            assert_eq!(check(&store, TOPIC, new, strategy).is_ok(), expected, "{strategy}: {new:?} after {old:?}");
            assert_eq!(offer(&store, TOPIC, new, under(strategy), 2).is_ok(), expected);
        }
    }
}

#[test]
fn transitive_strategies_look_at_every_version_the_others_at_the_latest() {
    let store = store();
    // Each follows the one before it; the third cannot read the first, which has no `b`.
    let versions = [
        avro(json!([{"name": "a", "type": "int"}])),
        avro(json!([{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0}])),
        avro(json!([{"name": "a", "type": "int"}, {"name": "b", "type": "int"}])),
    ];
    offer(&store, TOPIC, &versions[0], FULL, 1).unwrap();
    offer(&store, TOPIC, &versions[1], FULL, 2).unwrap();
    assert!(why(offer(&store, TOPIC, &versions[2], under(Strategy::BackwardTransitive), 3)).contains("field b has no default"));
    assert_eq!(offer(&store, TOPIC, &versions[2], under(Strategy::Backward), 4), Ok(2));
}

#[test]
fn another_kind_never_follows_unless_anything_does() {
    let store = store();
    offer(&store, TOPIC, &schema(SchemaKind::String, ""), FULL, 1).unwrap();
    let refused = why(offer(&store, TOPIC, &schema(SchemaKind::Int32, ""), FULL, 2));
    assert_eq!(refused, "Incompatible schema: exists schema type STRING, new schema type INT32");
    assert_eq!(offer(&store, TOPIC, &schema(SchemaKind::Int32, ""), under(Strategy::AlwaysCompatible), 3), Ok(1));
}

#[test]
fn a_deletion_hides_what_was_before_and_force_removes_everything() {
    let store = store();
    offer(&store, TOPIC, &name_only(), FULL, 1).unwrap();
    assert_eq!(delete(&store, TOPIC, 2), Ok(1));
    assert_eq!(get(&store, TOPIC, None), Ok(None));
    assert_eq!(get(&store, TOPIC, Some(0)), Ok(None));
    assert_eq!(live(&store, TOPIC), Ok(Vec::new()));
    assert_eq!(offer(&store, TOPIC, &schema(SchemaKind::Bytes, "").clone(), FULL, 3), Ok(2), "nothing stands against another kind");
    assert_eq!(index(&store, TOPIC).unwrap().unwrap().entries.len(), 3);
    forget(&store, TOPIC).unwrap();
    assert!(!store.exists(&TOPIC.schemas()).unwrap());
    forget(&store, TOPIC).unwrap();
    assert_eq!(offer(&store, TOPIC, &name_only(), FULL, 4), Ok(0));
}

#[test]
fn many_at_once_who_offer_the_same_get_one_version() {
    let store: Arc<dyn MetadataStore> = Arc::new(store());
    let offers: Vec<_> = (0..20)
        .map(|n| {
            let store = store.clone();
            std::thread::spawn(move || offer(&*store, TOPIC, &name_only(), FULL, n).unwrap())
        })
        .collect();
    assert!(offers.into_iter().all(|offer| offer.join().unwrap() == 0));
    assert_eq!(live(&*store, TOPIC).unwrap().len(), 1);
}

#[test]
fn a_namespace_that_is_gone_takes_no_schema() {
    let store = MemoryStore::new();
    assert!(matches!(offer(&store, TOPIC, &name_only(), FULL, 1), Err(SchemaError::Store(_))));
    assert!(!store.exists(&TOPIC.schemas()).unwrap());
}

#[test]
fn without_automatic_updates_only_what_is_there_is_taken() {
    let store = store();
    let closed = Rules { auto_update: false, ..FULL };
    assert_eq!(why(offer(&store, TOPIC, &name_only(), closed, 1)), "Schema not found and schema auto updating is disabled.");
    offer(&store, TOPIC, &name_only(), FULL, 2).unwrap();
    assert_eq!(offer(&store, TOPIC, &name_only(), closed, 3), Ok(0));
}

#[test]
fn consumers_are_held_against_what_they_will_read() {
    let store = store();
    let lets = |schema: &Schema, rules, meets| offer_for_consumer(&store, TOPIC, schema, rules, meets, 1);
    assert!(why(lets(&name_only(), FULL, ForConsumer::InUse)).contains("active topic with empty(BYTES) schema: new schema type AVRO"));
    lets(&name_only(), FULL, ForConsumer::Idle).unwrap();
    assert_eq!(get(&store, TOPIC, None).unwrap().unwrap().version, 0, "an idle topic takes it for its own");
    // Forward would let a producer write this; a consumer could not read what is there.
    assert!(lets(&with_age(false), under(Strategy::Forward), ForConsumer::InUse).is_err());
    lets(&with_age(true), under(Strategy::Forward), ForConsumer::InUse).unwrap();
    lets(&with_age(false), under(Strategy::AlwaysCompatible), ForConsumer::InUse).unwrap();
    lets(&name_only(), under(Strategy::AlwaysIncompatible), ForConsumer::InUse).unwrap();
    assert!(lets(&with_age(true), under(Strategy::AlwaysIncompatible), ForConsumer::InUse).is_err());
    assert_eq!(live(&store, TOPIC).unwrap().len(), 1, "checking adds nothing");
}

#[test]
fn what_says_nothing_is_refused_with_the_reason() {
    for (kind, data, word) in [
        (SchemaKind::Avro, "not json", "Invalid schema definition data for AVRO schema: expected"),
        (SchemaKind::Avro, r#"{"type":"record","name":"R"}"#, "fields"),
        (SchemaKind::Avro, r#"{"type":"record","name":"R","fields":[{"name":"a","type":"Unknown"}]}"#, "Unknown"),
        (SchemaKind::Avro, "", "EOF"),
        (SchemaKind::Json, "[1]", "JSON schema"),
        (SchemaKind::Int32, "x", "length of schema data should be zero, but 1 bytes"),
        (SchemaKind::String, "x", "STRING"),
        (SchemaKind::AutoConsume, "", "client-side"),
        (SchemaKind::KeyValue, "\0\0", "KEY_VALUE"),
        (SchemaKind::ProtobufNative, "{}", "fileDescriptorSet"),
    ] {
        let refused = why(check_validity(&schema(kind, data)));
        assert!(refused.contains(word), "{kind} {data:?}: {refused}");
    }
    assert!(why(check_validity(&schema(SchemaKind::Avro, " ".repeat(MAX_SCHEMA + 1)))).contains("over the limit"));
    check_validity(&schema(SchemaKind::String, "null")).unwrap();
    check_validity(&schema(SchemaKind::Json, r#"{"type":"object","id":"urn:jsonschema:A"}"#)).unwrap();
}

#[test]
fn names_defaults_and_logical_types_are_taken_as_leniently_as_in_pulsar() {
    for fields in [
        json!([{"name": "a$b", "type": {"type": "enum", "name": "o.Outer$Inner", "symbols": ["A$", "Ä"]}}]),
        json!([{"name": "a", "type": ["null", "string"], "default": "text"}]),
        json!([{"name": "a", "type": "int", "default": "not a number"}]),
        json!([{"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": -1}}]),
        json!([{"name": "a", "type": ["null", "User"], "default": null}, {"name": "default", "type": "string"}]),
    ] {
        check_validity(&avro(fields)).unwrap();
    }
}

fn key_value(key: &str, value: &str, kinds: [&str; 2]) -> Schema {
    let mut pair = schema(SchemaKind::KeyValue, "");
    pair.data = key_value_from_json(&json!({"key": key, "value": value}).to_string()).unwrap();
    pair.properties = [("key.schema.type", kinds[0]), ("value.schema.type", kinds[1])].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    pair
}

#[test]
fn key_and_value_are_looked_at_each_for_itself() {
    let text = |schema: &Schema| String::from_utf8(schema.data.clone()).unwrap();
    let store = store();
    let first = key_value("", &text(&name_only()), ["STRING", "AVRO"]);
    offer(&store, TOPIC, &first, FULL, 1).unwrap();
    assert!(why(check(&store, TOPIC, &key_value("", &text(&with_age(false)), ["STRING", "AVRO"]), Strategy::Full)).starts_with("value: "));
    assert!(why(check(&store, TOPIC, &key_value("", &text(&name_only()), ["INT8", "AVRO"]), Strategy::Full)).starts_with("key: "));
    check(&store, TOPIC, &key_value("", &text(&with_age(true)), ["STRING", "AVRO"]), Strategy::Full).unwrap();
    assert!(check_validity(&key_value("", "not json", ["STRING", "AVRO"])).is_err());
    let shown: serde_json::Value = serde_json::from_str(&key_value_to_json(&first).unwrap()).unwrap();
    assert_eq!(shown["key"], "");
    assert_eq!(shown["value"]["name"], "User");
    assert_eq!(key_value_from_json(&key_value_to_json(&first).unwrap()).unwrap(), first.data);
}

fn native(package: &str, message: &str, root: &str) -> Schema {
    let inner = DescriptorProto { name: Some("Inner".into()), ..Default::default() };
    let message = DescriptorProto { name: Some(message.into()), nested_type: vec![inner], ..Default::default() };
    let file = FileDescriptorProto {
        name: Some("f.proto".into()),
        package: (!package.is_empty()).then(|| package.to_owned()),
        message_type: vec![message],
        ..Default::default()
    };
    let set = STANDARD.encode(FileDescriptorSet { file: vec![file] }.encode_to_vec());
    schema(SchemaKind::ProtobufNative, json!({"fileDescriptorSet": set, "rootMessageTypeName": root, "rootFileDescriptorName": "f.proto"}))
}

#[test]
fn the_root_message_of_a_descriptor_stays() {
    let store = store();
    offer(&store, TOPIC, &native("p.q", "M", "p.q.M"), FULL, 1).unwrap();
    assert!(why(offer(&store, TOPIC, &native("p.q", "N", "p.q.N"), FULL, 2)).contains("p.q.M"));
    check_validity(&native("", "M", "M.Inner")).unwrap();
    for root in ["M", "p.M", "p.q.M.Other", "p.qM", ""] {
        assert!(check_validity(&native("p.q", "M", root)).is_err(), "{root:?}");
    }
}

#[test]
fn stored_bytes_are_pulsars() {
    let store = store();
    let mut said = schema(SchemaKind::Avro, "\"int\"");
    said.properties.insert("k".into(), "v".into());
    offer(&store, TOPIC, &said, FULL, 7).unwrap();
    let bytes = store.get("/schemas/public/default/t+1/0").unwrap().unwrap().value;
    let expected = b"\x0a\x12public/default/t+1\x12\x00\x18\x05\x22\x05\"int\"\x28\x07\x30\x00\x3a\x06\x0a\x01k\x12\x01v";
    assert_eq!(bytes, expected);
    let index = store.get("/schemas/public/default/t+1").unwrap().unwrap().value;
    // Version 0 at (-1, -1) with a hash of 32 bytes, as the latest and in the list.
    assert_eq!(index[..2], [0x0a, 0x3c]);
    assert_eq!(index.len(), 2 * (2 + 0x3c));
}

#[test]
fn what_cannot_be_read_is_told_by_its_place() {
    let store = store();
    offer(&store, TOPIC, &name_only(), FULL, 1).unwrap();
    store.put("/schemas/public/default/t+1/0", b"\xff", Expected::Any).unwrap();
    assert!(why(get(&store, TOPIC, None)).starts_with("/schemas/public/default/t+1/0 holds something else"));
    store.put(&TOPIC.schemas(), b"\xff", Expected::Any).unwrap();
    assert!(matches!(offer(&store, TOPIC, &name_only(), FULL, 1), Err(SchemaError::Malformed(_))));
}

#[test]
fn policies_go_before_settings_and_the_brokers_own_topics_before_both() {
    let policies = |json: &str| crate::namespaces::Policies::from_json(json.as_bytes()).unwrap();
    let defaults = Defaults::default();
    let nothing = policies("{}");
    assert_eq!(defaults.under(&nothing, false), FULL);
    assert_eq!(defaults.under(&nothing, true).strategy, Strategy::AlwaysCompatible);
    let said =
        policies(r#"{"schema_compatibility_strategy":"FORWARD","is_allow_auto_update_schema":false,"schema_validation_enforced":true}"#);
    assert_eq!(defaults.under(&said, false), Rules { strategy: Strategy::Forward, auto_update: false, enforced: true });
    let older = policies(r#"{"schema_auto_update_compatibility_strategy":"Backward"}"#);
    assert_eq!(defaults.under(&older, false).strategy, Strategy::Full);
    let open = Defaults { strategy: Strategy::Undefined, ..defaults };
    assert_eq!(open.under(&older, false).strategy, Strategy::Backward);
    assert_eq!(open.under(&nothing, false).strategy, Strategy::Full);
    assert!(crate::namespaces::Policies::from_json(br#"{"schema_compatibility_strategy":"SIDEWAYS"}"#).is_err());
}
