//! Whether a schema says what its kind asks for.

use serde_json::Value;

use super::{MAX_SCHEMA, Schema, SchemaError, SchemaKind, avro, key_value, protobuf};

/// Refuses a schema that does not.
pub fn check(schema: &Schema) -> Result<(), SchemaError> {
    let size = schema.data.len();
    if size > MAX_SCHEMA {
        return Err(SchemaError::Invalid(format!("a schema of {size} bytes is over the limit of {MAX_SCHEMA} bytes")));
    }
    check_one(schema)?;
    if schema.kind == SchemaKind::KeyValue {
        let (key, value) = key_value::parts(schema)?;
        for part in [key, value] {
            if part.kind == SchemaKind::KeyValue {
                return Err(SchemaError::Invalid("Invalid KEY_VALUE schema: a part of it is a KEY_VALUE schema itself".into()));
            }
            check_one(&part)?;
        }
    }
    Ok(())
}

fn check_one(schema: &Schema) -> Result<(), SchemaError> {
    let kind = schema.kind;
    match kind {
        SchemaKind::Json if is_older_json(schema) => Ok(()),
        SchemaKind::Avro | SchemaKind::Json | SchemaKind::Protobuf => {
            let invalid = |reason| SchemaError::Invalid(format!("Invalid schema definition data for {kind} schema: {reason}"));
            avro::parse(&schema.data).map(drop).map_err(invalid)
        }
        SchemaKind::ProtobufNative => protobuf::root_message(&schema.data).map(drop),
        SchemaKind::AutoConsume | SchemaKind::AutoPublish | SchemaKind::Auto => {
            Err(SchemaError::Invalid(format!("Schema {kind} is a client-side schema type")))
        }
        // One of the clients spells nothing as null.
        SchemaKind::String if schema.data == b"null" => Ok(()),
        // What is bytes, and what others look after, says nothing here; the parts of a pair are looked at by the caller.
        SchemaKind::KeyValue | SchemaKind::None | SchemaKind::Bytes | SchemaKind::External => Ok(()),
        _ if schema.data.is_empty() => Ok(()),
        _ => Err(SchemaError::Invalid(format!(
            "Invalid schema definition data for {kind} schema: length of schema data should be zero, but {} bytes is found",
            schema.data.len()
        ))),
    }
}

/// Whether a JSON schema is written in the language that Pulsar's first clients had for it, instead of Avro's.
pub(crate) fn is_older_json(schema: &Schema) -> bool {
    const TYPES: [&str; 8] = ["object", "array", "string", "number", "integer", "boolean", "null", "any"];
    if schema.kind != SchemaKind::Json || avro::parse(&schema.data).is_ok() {
        return false;
    }
    let Ok(Value::Object(older)) = serde_json::from_slice(&schema.data) else { return false };
    older.get("type").and_then(Value::as_str).is_some_and(|kind| TYPES.contains(&kind))
}
