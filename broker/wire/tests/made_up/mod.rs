//! Commands made up at random from the protocol's description, encoded by a codec that is not ours.

use fastrand::Rng;
use prost_reflect::{Cardinality, DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};

/// The envelope, as the protocol's description has it.
pub(crate) fn described() -> MessageDescriptor {
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let files = protox::compile(["pulsar.proto"], [proto]).expect("the description compiles");
    DescriptorPool::from_file_descriptor_set(files)
        .expect("it is complete")
        .get_message_by_name("pulsar.BaseCommand")
        .expect("it has commands")
}

/// The fields of the envelope that hold a command.
pub(crate) fn bodies(base: &MessageDescriptor) -> impl Iterator<Item = FieldDescriptor> {
    base.fields().filter(|field| field.number() > 1)
}

fn any_number(rng: &mut Rng) -> u64 {
    // All lengths of varints are equally likely.
    rng.u64(..) >> rng.u32(..64)
}

fn any_text(rng: &mut Rng) -> String {
    (0..rng.usize(..12)).map(|_| rng.char(..)).collect()
}

fn any_value(rng: &mut Rng, kind: &Kind, depth: u32) -> Value {
    match kind {
        Kind::Double => Value::F64(f64::from(rng.i32(..)) / 3.0),
        Kind::Int32 => Value::I32(any_number(rng) as i32),
        Kind::Uint32 => Value::U32(any_number(rng) as u32),
        Kind::Int64 => Value::I64(any_number(rng) as i64),
        Kind::Uint64 => Value::U64(any_number(rng)),
        Kind::Bool => Value::Bool(rng.bool()),
        Kind::String => Value::String(any_text(rng)),
        Kind::Bytes => Value::Bytes((0..rng.usize(..12)).map(|_| rng.u8(..)).collect()),
        Kind::Enum(numbers) => Value::EnumNumber(rng.choice(numbers.values()).expect("an enum has values").number()),
        Kind::Message(part) => Value::Message(any_message(rng, part, depth + 1)),
        other => panic!("the protocol has no {other:?}"),
    }
}

fn any_message(rng: &mut Rng, described: &MessageDescriptor, depth: u32) -> DynamicMessage {
    let mut message = DynamicMessage::new(described.clone());
    // Both halves of a transaction, or none: one alone is completed when it is sent on.
    let txn = rng.bool();
    for field in described.fields() {
        let wanted = match field.name() {
            "txnid_least_bits" | "txnid_most_bits" => txn,
            _ => rng.bool() && (depth < 4 || !matches!(field.kind(), Kind::Message(_))),
        };
        if field.is_list() {
            let count = if wanted { rng.usize(..4) } else { 0 };
            message.set_field(&field, Value::List((0..count).map(|_| any_value(rng, &field.kind(), depth)).collect()));
        } else if wanted || field.cardinality() == Cardinality::Required {
            message.set_field(&field, any_value(rng, &field.kind(), depth));
        }
    }
    message
}

/// A command with everything that must be there, and half of what may be.
pub(crate) fn any_command(rng: &mut Rng, base: &MessageDescriptor, body: &FieldDescriptor) -> DynamicMessage {
    let Kind::Message(described) = body.kind() else { panic!("{} is no message", body.name()) };
    let mut command = DynamicMessage::new(base.clone());
    command.set_field_by_number(1, Value::I32(body.number() as i32));
    command.set_field(body, Value::Message(any_message(rng, &described, 0)));
    command
}
