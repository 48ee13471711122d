//! What is in a message, as its schema says it: for people who look at it.

use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value as AvroValue;
use serde_json::Value;

use super::{Schema, SchemaKind, avro};

/// The value of a message as JSON.
///
/// # Errors
/// Why it cannot be read so; also for kinds of schemas that only their own libraries read.
pub fn decode(schema: &Schema, bytes: &[u8]) -> Result<Value, String> {
    let whole = |_: std::array::TryFromSliceError| format!("{} bytes are not what the schema says", bytes.len());
    Ok(match schema.kind {
        SchemaKind::Json => serde_json::from_slice(bytes).map_err(|error| error.to_string())?,
        SchemaKind::Avro => avro_value(&schema.data, bytes)?,
        SchemaKind::String => std::str::from_utf8(bytes).map_err(|error| error.to_string())?.into(),
        SchemaKind::Boolean => (bytes.first().is_some_and(|byte| *byte != 0)).into(),
        SchemaKind::Int8 => i8::from_be_bytes(bytes.try_into().map_err(whole)?).into(),
        SchemaKind::Int16 => i16::from_be_bytes(bytes.try_into().map_err(whole)?).into(),
        SchemaKind::Int32 => i32::from_be_bytes(bytes.try_into().map_err(whole)?).into(),
        SchemaKind::Int64 => i64::from_be_bytes(bytes.try_into().map_err(whole)?).into(),
        SchemaKind::Float => f32::from_be_bytes(bytes.try_into().map_err(whole)?).into(),
        SchemaKind::Double => f64::from_be_bytes(bytes.try_into().map_err(whole)?).into(),
        other => return Err(format!("messages of {} are not read here", other.name())),
    })
}

fn avro_value(definition: &[u8], bytes: &[u8]) -> Result<Value, String> {
    let schema = avro::parse(definition)?.schema;
    let reader = GenericDatumReader::builder(&schema).build().map_err(|error| error.to_string())?;
    let read = reader.read_value(&mut &*bytes).map_err(|error| error.to_string())?;
    Ok(spelt(read))
}

/// As JSON has it; what JSON has no word for becomes text.
fn spelt(value: AvroValue) -> Value {
    match value {
        AvroValue::Null => Value::Null,
        AvroValue::Boolean(flag) => flag.into(),
        AvroValue::Int(number) => number.into(),
        AvroValue::Long(number) => number.into(),
        AvroValue::Float(number) => number.into(),
        AvroValue::Double(number) => number.into(),
        AvroValue::String(text) | AvroValue::Enum(_, text) => text.into(),
        AvroValue::Bytes(bytes) | AvroValue::Fixed(_, bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        AvroValue::Union(_, value) => spelt(*value),
        AvroValue::Array(values) => values.into_iter().map(spelt).collect(),
        AvroValue::Map(fields) => fields.into_iter().map(|(name, value)| (name, spelt(value))).collect(),
        AvroValue::Record(fields) => fields.into_iter().map(|(name, value)| (name, spelt(value))).collect(),
        other => format!("{other:?}").into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(kind: SchemaKind, data: &str) -> Schema {
        Schema { kind, data: data.as_bytes().to_vec(), properties: std::collections::BTreeMap::new() }
    }

    #[test]
    fn values_are_read_as_their_schema_says() {
        let record = r#"{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","string"]}]}"#;
        // 3 as a zigzag number, branch 1 of the union, a text of 2 letters.
        assert_eq!(decode(&schema(SchemaKind::Avro, record), &[6, 2, 4, b'h', b'i']), Ok(json!({"a": 3, "b": "hi"})));
        assert_eq!(decode(&schema(SchemaKind::Json, record), br#"{"a":3}"#), Ok(json!({"a": 3})));
        assert_eq!(decode(&schema(SchemaKind::Int32, ""), &[0, 0, 1, 0]), Ok(json!(256)));
        assert_eq!(decode(&schema(SchemaKind::String, ""), "ä".as_bytes()), Ok(json!("ä")));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_large_is_made_of_little() {
        let text = r#"{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}"#;
        // A text that says it has 2^40 letters.
        assert!(decode(&schema(SchemaKind::Avro, text), &[0x80, 0x80, 0x80, 0x80, 0x80, 0x40, b'x']).is_err());
        assert!(decode(&schema(SchemaKind::Avro, text), &[]).is_err());
        assert!(decode(&schema(SchemaKind::Int64, ""), &[1]).is_err());
        assert!(decode(&schema(SchemaKind::Protobuf, ""), &[1]).is_err());
    }
}
