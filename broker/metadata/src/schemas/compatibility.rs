//! Whether one schema may follow others, and whether a consumer with one may read what was written with others.

use super::{Schema, SchemaError, SchemaKind, Strategy, avro, key_value, protobuf, resolution, validity};

/// Refuses `new` unless it may follow all of `existing`.
pub(crate) fn follow<'e>(existing: impl IntoIterator<Item = &'e Schema>, new: &Schema, strategy: Strategy) -> Result<(), SchemaError> {
    if strategy == Strategy::AlwaysCompatible {
        return Ok(());
    }
    existing.into_iter().try_for_each(|existing| follow_one(existing, new, strategy))
}

fn follow_one(existing: &Schema, new: &Schema, strategy: Strategy) -> Result<(), SchemaError> {
    if existing.kind != new.kind {
        return Err(incompatible(format!("Incompatible schema: exists schema type {}, new schema type {}", existing.kind, new.kind)));
    }
    // The kinds of the parts stand beside the definition.
    if existing.data == new.data && new.kind != SchemaKind::KeyValue {
        return Ok(());
    }
    match new.kind {
        SchemaKind::KeyValue => {
            let ((old_key, old_value), (key, value)) = (key_value::parts(existing)?, key_value::parts(new)?);
            let within = |what: &str, error| match error {
                SchemaError::Incompatible(why) => incompatible(format!("{what}: {why}")),
                other => other,
            };
            follow_one(&old_key, &key, strategy).map_err(|error| within("key", error))?;
            follow_one(&old_value, &value, strategy).map_err(|error| within("value", error))
        }
        kind if strategy == Strategy::AlwaysIncompatible || strategy == Strategy::Undefined => {
            Err(incompatible(format!("Incompatible schema: the strategy {strategy} lets no {kind} schema follow another")))
        }
        SchemaKind::Json if validity::is_older_json(existing) || validity::is_older_json(new) => Ok(()),
        SchemaKind::Avro | SchemaKind::Json => follow_avro(existing, new, strategy),
        SchemaKind::ProtobufNative => {
            let (old, new) = (protobuf::root_message(&existing.data)?, protobuf::root_message(&new.data)?);
            if old == new { Ok(()) } else { Err(incompatible(format!("the root message was {old} and cannot become {new}"))) }
        }
        // Nothing that could be compared.
        _ => Ok(()),
    }
}

fn follow_avro(existing: &Schema, new: &Schema, strategy: Strategy) -> Result<(), SchemaError> {
    let unreadable = |reason| incompatible(format!("Error during schema parsing: {reason}"));
    let (old, fresh) = (avro::parse(&existing.data).map_err(unreadable)?, avro::parse(&new.data).map_err(unreadable)?);
    let failed =
        |who: &str, why: String| incompatible(format!("Error during schema compatibility check with strategy {strategy}: {who}: {why}"));
    if strategy.looks_back() {
        resolution::reads(&fresh, &old).map_err(|why| failed("the new schema cannot read what an earlier one wrote", why))?;
    }
    if strategy.looks_forward() {
        resolution::reads(&old, &fresh).map_err(|why| failed("an earlier schema cannot read what the new one writes", why))?;
    }
    Ok(())
}

fn incompatible(why: String) -> SchemaError {
    SchemaError::Incompatible(why)
}
