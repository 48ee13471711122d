//! Two schemas in one: that of the key and that of the value, each behind its length.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Schema, SchemaError, SchemaKind};

/// The schemas of key and value.
pub(crate) fn parts(schema: &Schema) -> Result<(Schema, Schema), SchemaError> {
    let (key, value) = definitions(&schema.data)?;
    Ok((part(schema, "key", key)?, part(schema, "value", value)?))
}

/// The definition as the admin API shows it: an object with `key` and `value`.
pub fn split(schema: &Schema) -> Result<String, SchemaError> {
    let (key, value) = parts(schema)?;
    let shown = |part: &Schema| match part.data.is_empty() {
        true => Value::String(String::new()),
        false => serde_json::from_slice(&part.data).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&part.data).into_owned())),
    };
    Ok(json!({"key": shown(&key), "value": shown(&value)}).to_string())
}

/// The definition from what the admin API takes.
pub fn join(text: &str) -> Result<Vec<u8>, SchemaError> {
    let invalid =
        || SchemaError::Invalid("Invalid schema definition data for KEY_VALUE schema: it is an object with `key` and `value`".into());
    let Ok(Value::Object(both)) = serde_json::from_str(text) else { return Err(invalid()) };
    let mut data = Vec::new();
    for name in ["key", "value"] {
        let definition = match both.get(name).ok_or_else(invalid)? {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let length = i32::try_from(definition.len()).map_err(|_| invalid())?;
        data.extend_from_slice(&length.to_be_bytes());
        data.extend_from_slice(definition.as_bytes());
    }
    Ok(data)
}

fn definitions(data: &[u8]) -> Result<(&[u8], &[u8]), SchemaError> {
    let broken = || SchemaError::Invalid("Invalid schema definition data for KEY_VALUE schema: lengths and bytes do not fit".into());
    let (key, rest) = cut(data).ok_or_else(broken)?;
    let (value, rest) = cut(rest).ok_or_else(broken)?;
    if rest.is_empty() { Ok((key, value)) } else { Err(broken()) }
}

/// A length of four bytes, -1 for nothing, and as many bytes.
fn cut(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let length = i32::from_be_bytes(*length).max(0);
    rest.split_at_checked(usize::try_from(length).ok()?)
}

fn part(schema: &Schema, name: &str, data: &[u8]) -> Result<Schema, SchemaError> {
    let kind = match schema.properties.get(&format!("{name}.schema.type")) {
        Some(kind) => SchemaKind::from_name(kind)
            .ok_or_else(|| SchemaError::Invalid(format!("Invalid KEY_VALUE schema: {kind:?} is not a kind of schema")))?,
        None => SchemaKind::Bytes,
    };
    let properties = schema.properties.get(&format!("{name}.schema.properties"));
    let properties = properties.and_then(|json| serde_json::from_str::<BTreeMap<String, String>>(json).ok()).unwrap_or_default();
    Ok(Schema { kind, data: data.to_vec(), properties })
}
