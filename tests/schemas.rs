//! Schemas as clients meet them: registered on PRODUCER and SUBSCRIBE, asked for by version, kept over restarts and let go of with
//! their topic.

use geminga_tests::harness::{Broker, Setup};
use serde_json::{Value, json};
use wire::proto::SchemaType;
use wire::{Command, ServerError, SubscriptionType, proto};

use crate::admin::told;
use crate::talk::{Wire, subscribe};

fn schema(kind: SchemaType, definition: &str) -> proto::Schema {
    let (name, schema_data) = ("s".to_owned(), definition.to_owned().into());
    proto::Schema { name, schema_data, r#type: kind.into(), properties: Vec::new() }
}

fn avro(fields: Value) -> proto::Schema {
    schema(SchemaType::Avro, &json!({"type": "record", "name": "User", "fields": fields}).to_string())
}

fn first() -> proto::Schema {
    avro(json!([{"name": "name", "type": "string"}]))
}

fn second() -> proto::Schema {
    avro(json!([{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"], "default": null}]))
}

fn incompatible() -> proto::Schema {
    avro(json!([{"name": "name", "type": "int"}]))
}

type Refusal = (ServerError, String);

fn refused(error: &proto::CommandError) -> Refusal {
    (error.error(), error.message.clone())
}

/// Attaches a producer; gives the version it is told.
async fn produce(wire: &mut Wire, topic: &str, id: u64, schema: Option<proto::Schema>) -> Result<Vec<u8>, Refusal> {
    let producer =
        |request_id| proto::CommandProducer { topic: topic.to_owned(), producer_id: id, request_id, schema, ..Default::default() }.into();
    match wire.request(producer).await {
        Command::ProducerSuccess(success) => Ok(success.schema_version.expect("always said").to_vec()),
        Command::Error(error) => Err(refused(&error)),
        other => panic!("{other:?}"),
    }
}

async fn consume(wire: &mut Wire, topic: &str, id: u64, schema: Option<proto::Schema>) -> Result<(), Refusal> {
    let asked = proto::CommandSubscribe { schema, ..subscribe(topic, &format!("s{id}"), SubscriptionType::Shared, id) };
    match wire.request(|request_id| proto::CommandSubscribe { request_id, ..asked }.into()).await {
        Command::Success(_) => Ok(()),
        Command::Error(error) => Err(refused(&error)),
        other => panic!("{other:?}"),
    }
}

/// Definition and version of the schema asked for.
async fn get(wire: &mut Wire, topic: &str, version: Option<&[u8]>) -> Result<(String, Vec<u8>), Refusal> {
    let schema_version = version.map(|version| version.to_vec().into());
    match wire.request(|request_id| proto::CommandGetSchema { request_id, topic: topic.to_owned(), schema_version }.into()).await {
        Command::GetSchemaResponse(found) => match found.schema.clone() {
            Some(schema) => {
                let version = found.schema_version.clone().expect("beside the schema").to_vec();
                Ok((String::from_utf8(schema.schema_data.to_vec()).expect("text"), version))
            }
            None => Err((found.error_code(), found.error_message().to_owned())),
        },
        other => panic!("{other:?}"),
    }
}

fn text(schema: &proto::Schema) -> String {
    String::from_utf8(schema.schema_data.to_vec()).expect("text")
}

fn version(n: i64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

#[tokio::test]
async fn a_producers_schema_is_registered_once_and_survives_a_restart() {
    let mut broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    assert_eq!(produce(&mut wire, "t", 1, None).await, Ok(Vec::new()));
    assert_eq!(produce(&mut wire, "t", 2, Some(first())).await, Ok(version(0)));
    assert_eq!(produce(&mut wire, "t", 3, Some(first())).await, Ok(version(0)));
    assert_eq!(produce(&mut wire, "t", 4, Some(second())).await, Ok(version(1)));
    let (error, message) = produce(&mut wire, "t", 5, Some(incompatible())).await.unwrap_err();
    assert_eq!(error, ServerError::IncompatibleSchema);
    assert!(message.contains("field name: the reader expects int, the writer wrote string"), "{message}");
    // Its id is free again.
    assert_eq!(produce(&mut wire, "t", 5, Some(second())).await, Ok(version(1)));
    broker.restart();
    let mut wire = Wire::connect(&broker).await;
    assert_eq!(get(&mut wire, "t", None).await, Ok((text(&second()), version(1))));
    assert_eq!(get(&mut wire, "t", Some(&version(0))).await, Ok((text(&first()), version(0))));
    assert_eq!(produce(&mut wire, "t", 1, Some(first())).await, Ok(version(0)));
}

#[tokio::test]
async fn what_is_not_there_is_told_by_the_code_that_clients_know() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    produce(&mut wire, "t", 1, Some(first())).await.unwrap();
    assert_eq!(get(&mut wire, "other", None).await.unwrap_err().0, ServerError::TopicNotFound);
    assert_eq!(get(&mut wire, "t", Some(&version(7))).await.unwrap_err().0, ServerError::TopicNotFound);
    assert_eq!(get(&mut wire, "t", Some(&version(-1))).await.unwrap_err().0, ServerError::TopicNotFound);
    assert_eq!(get(&mut wire, "t", Some(b"")).await.unwrap_err().0, ServerError::IncompatibleSchema);
    assert_eq!(get(&mut wire, "t", Some(b"short")).await.unwrap_err().0, ServerError::IncompatibleSchema);
}

#[tokio::test]
async fn broken_schemas_are_refused_and_the_connection_goes_on() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let nested = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(5_000), "}".repeat(5_000));
    let broken = [
        schema(SchemaType::Avro, "{"),
        schema(SchemaType::Json, "\u{0}"),
        schema(SchemaType::Avro, &nested),
        schema(SchemaType::Avro, &" ".repeat(600 * 1024)),
        schema(SchemaType::Int32, "x"),
        schema(SchemaType::AutoConsume, ""),
        schema(SchemaType::KeyValue, "\u{7f}\u{7f}\u{7f}\u{7f}"),
        schema(SchemaType::ProtobufNative, r#"{"fileDescriptorSet":"AAAA"}"#),
        proto::Schema { r#type: 99, ..schema(SchemaType::None, "") },
    ];
    for (id, schema) in (0..).zip(broken) {
        let kind = schema.r#type;
        assert_eq!(produce(&mut wire, "t", id, Some(schema)).await.unwrap_err().0, ServerError::IncompatibleSchema, "of type {kind}");
    }
    assert_eq!(get(&mut wire, "t", None).await.unwrap_err().0, ServerError::TopicNotFound);
    assert_eq!(produce(&mut wire, "t", 99, Some(first())).await, Ok(version(0)));
}

#[tokio::test]
async fn twenty_at_once_that_bring_the_same_schema_get_the_same_version() {
    let broker = Broker::start();
    let mut wires = Vec::new();
    for _ in 0..20 {
        wires.push(Wire::connect(&broker).await);
    }
    for (id, wire) in (0..).zip(&mut wires) {
        let (topic, schema) = ("t".to_owned(), Some(first()));
        let producer = proto::CommandProducer { topic, producer_id: id, request_id: 1, schema, ..Default::default() };
        wire.raw.send(producer).await.expect("sent");
    }
    for wire in &mut wires {
        match wire.next().await.command {
            Command::ProducerSuccess(success) => assert_eq!(success.schema_version.as_deref(), Some(&version(0)[..])),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(get(&mut wires[0], "t", Some(&version(1))).await.unwrap_err().0, ServerError::TopicNotFound);
}

#[tokio::test]
async fn consumers_must_be_able_to_read_the_topic() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    consume(&mut wire, "t", 1, Some(first())).await.unwrap();
    assert_eq!(get(&mut wire, "t", None).await, Ok((text(&first()), version(0))), "a consumer's schema is that of an idle topic");
    assert_eq!(consume(&mut wire, "t", 2, Some(incompatible())).await.unwrap_err().0, ServerError::IncompatibleSchema);
    consume(&mut wire, "t", 3, Some(second())).await.unwrap();
    consume(&mut wire, "t", 4, Some(schema(SchemaType::AutoConsume, ""))).await.unwrap();
    consume(&mut wire, "t", 5, Some(schema(SchemaType::None, ""))).await.unwrap();
    consume(&mut wire, "t", 6, None).await.unwrap();
    assert_eq!(consume(&mut wire, "t", 7, Some(schema(SchemaType::String, ""))).await.unwrap_err().0, ServerError::IncompatibleSchema);
}

#[tokio::test]
async fn a_consumer_with_a_schema_comes_too_late_to_a_topic_in_use_without_one() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    produce(&mut wire, "used", 1, None).await.unwrap();
    let (error, message) = consume(&mut wire, "used", 1, Some(first())).await.unwrap_err();
    assert_eq!(error, ServerError::IncompatibleSchema);
    assert!(message.contains("empty(BYTES) schema"), "{message}");
    // One that takes what it finds does not count.
    consume(&mut wire, "watched", 2, Some(schema(SchemaType::AutoConsume, ""))).await.unwrap();
    consume(&mut wire, "watched", 3, Some(first())).await.unwrap();
}

#[tokio::test]
async fn partitions_share_the_schemas_of_their_topic() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    assert_eq!(told(&broker, "PUT", "/admin/v2/persistent/public/default/p/partitions", "2").0, 204);
    assert_eq!(produce(&mut wire, "p-partition-0", 1, Some(first())).await, Ok(version(0)));
    assert_eq!(produce(&mut wire, "p-partition-1", 2, Some(second())).await, Ok(version(1)));
    assert_eq!(get(&mut wire, "p", None).await, Ok((text(&second()), version(1))));
    assert_eq!(get(&mut wire, "p-partition-0", None).await, Ok((text(&second()), version(1))));
    assert_eq!(told(&broker, "DELETE", "/admin/v2/persistent/public/default/p/partitions?force=true", "").0, 204);
    let mut wire = Wire::connect(&broker).await;
    assert_eq!(get(&mut wire, "p", None).await.unwrap_err().0, ServerError::TopicNotFound);
}

#[tokio::test]
async fn a_topics_schemas_go_with_it() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    produce(&mut wire, "t", 1, Some(first())).await.unwrap();
    assert_eq!(told(&broker, "DELETE", "/admin/v2/persistent/public/default/t?force=true", "").0, 204);
    let mut wire = Wire::connect(&broker).await;
    assert_eq!(get(&mut wire, "t", None).await.unwrap_err().0, ServerError::TopicNotFound);
    assert_eq!(produce(&mut wire, "t", 1, Some(incompatible())).await, Ok(version(0)));
}

#[tokio::test]
async fn a_schema_for_single_messages_is_registered_without_a_new_producer() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    let ask = |schema| {
        move |request_id| proto::CommandGetOrCreateSchema { request_id, topic: "t".to_owned(), schema, ..Default::default() }.into()
    };
    let Command::GetOrCreateSchemaResponse(absent) = wire.request(ask(first())).await else { panic!("another answer") };
    assert_eq!(absent.error_code(), ServerError::TopicNotFound);
    produce(&mut wire, "t", 1, Some(first())).await.unwrap();
    let Command::GetOrCreateSchemaResponse(made) = wire.request(ask(second())).await else { panic!("another answer") };
    assert_eq!((made.error_code, made.schema_version.as_deref()), (None, Some(&version(1)[..])));
    let Command::GetOrCreateSchemaResponse(refused) = wire.request(ask(incompatible())).await else { panic!("another answer") };
    assert_eq!(refused.error_code(), ServerError::IncompatibleSchema);
}

#[tokio::test]
async fn enforced_validation_keeps_producers_without_a_schema_away() {
    let broker = Broker::start();
    let mut wire = Wire::connect(&broker).await;
    produce(&mut wire, "t", 1, Some(first())).await.unwrap();
    produce(&mut wire, "t", 2, None).await.unwrap();
    assert_eq!(told(&broker, "POST", "/admin/v2/namespaces/public/default/schemaValidationEnforced", "true").0, 204);
    let (error, message) = produce(&mut wire, "t", 3, None).await.unwrap_err();
    assert_eq!(error, ServerError::IncompatibleSchema);
    assert!(message.contains("SchemaValidationEnforced"), "{message}");
    produce(&mut wire, "no-schema", 4, None).await.unwrap();
    consume(&mut wire, "t", 5, None).await.unwrap();
    assert_eq!(told(&broker, "POST", "/admin/v2/namespaces/public/default/schemaValidationEnforced", "false").0, 204);
    produce(&mut wire, "t", 6, None).await.unwrap();
}

#[tokio::test]
async fn settings_hold_where_a_namespace_says_nothing() {
    let broker = Setup::default()
        .set("schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
        .set("isSchemaValidationEnforced", true)
        .set("isAllowAutoUpdateSchemaEnabled", true)
        .start();
    let mut wire = Wire::connect(&broker).await;
    produce(&mut wire, "t", 1, Some(first())).await.unwrap();
    assert_eq!(produce(&mut wire, "t", 2, Some(incompatible())).await, Ok(version(1)));
    assert_eq!(produce(&mut wire, "t", 3, None).await.unwrap_err().0, ServerError::IncompatibleSchema);
    let policy = |policy: &str| format!("/admin/v2/namespaces/public/default/{policy}");
    assert_eq!(told(&broker, "PUT", &policy("schemaCompatibilityStrategy"), r#""FULL""#).0, 204);
    assert_eq!(produce(&mut wire, "t", 4, Some(avro(json!([])))).await.unwrap_err().0, ServerError::IncompatibleSchema);
    assert_eq!(told(&broker, "POST", &policy("isAllowAutoUpdateSchema"), "false").0, 204);
    let (_, message) = produce(&mut wire, "t", 5, Some(second())).await.unwrap_err();
    assert_eq!(message, "Schema not found and schema auto updating is disabled.");
    assert_eq!(produce(&mut wire, "t", 6, Some(first())).await, Ok(version(0)));
}
