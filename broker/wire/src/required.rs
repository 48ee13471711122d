//! Fields that must not be missing. The generated decoder does not check them and reads zero or nothing instead, which would let a SEEK without a
//! consumer reach consumer 0.

use crate::field::{Fields, Unexpected, Value};

struct Field {
    number: u32,
    name: &'static str,
    required: bool,
    /// Of a field that is a message: which, in [`MESSAGES`].
    message: Option<usize>,
}

include!(concat!(env!("OUT_DIR"), "/required.rs"));

/// What is wrong with a command that the generated decoder accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incomplete {
    /// A required field is missing, here or in a part.
    Missing(&'static str),
    /// It uses an encoding that nobody writes: groups, or fields twice as deep as any real one.
    Unreadable,
}

/// Checks an encoded `BaseCommand` and all its parts.
pub(crate) fn check_command(encoded: &[u8]) -> Result<(), Incomplete> {
    check(BASE_COMMAND, encoded, MAX_DEPTH)
}

/// The protocol nests six deep; chunk ids in message ids may go on, so this is where they end.
const MAX_DEPTH: usize = 12;

fn check(message: usize, encoded: &[u8], depth: usize) -> Result<(), Incomplete> {
    let depth = depth.checked_sub(1).ok_or(Incomplete::Unreadable)?;
    let described = MESSAGES.get(message).copied().unwrap_or_default();
    let mut present = 0u64;
    let mut fields = Fields(encoded);
    while let Some((number, value)) = fields.next().map_err(|Unexpected| Incomplete::Unreadable)? {
        let Some(field) = described.iter().find(|field| field.number == number) else {
            continue;
        };
        present |= 1u64.checked_shl(number).unwrap_or(0);
        if let (Some(part), Value::Bytes(encoded)) = (field.message, value) {
            check(part, encoded, depth)?;
        }
    }
    let missing = described.iter().find(|field| field.required && present & 1u64.checked_shl(field.number).unwrap_or(0) == 0);
    missing.map_or(Ok(()), |field| Err(Incomplete::Missing(field.name)))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto::{BaseCommand, CommandSeek, CommandSubscribe, KeyValue, MessageIdData};

    #[test]
    fn a_whole_command_passes() {
        let seek = CommandSeek { message_id: Some(MessageIdData::default()), ..Default::default() };
        let base = BaseCommand { r#type: 28, seek: Some(seek), ..Default::default() };
        assert_eq!(check_command(&base.encode_to_vec()), Ok(()));
    }

    #[test]
    fn a_missing_field_is_named_wherever_it_is() {
        // A SEEK of consumer 1 without a request id, then one whose message id has no entry.
        assert_eq!(check_command(&[8, 28, 0xe2, 1, 2, 8, 1]), Err(Incomplete::Missing("request_id")));
        assert_eq!(check_command(&[8, 28, 0xe2, 1, 8, 8, 1, 16, 1, 0x1a, 2, 8, 5]), Err(Incomplete::Missing("entry_id")));
        assert_eq!(check_command(&[0x92, 1, 0]), Err(Incomplete::Missing("type")));
    }

    #[test]
    fn parts_of_repeated_fields_are_checked_each() {
        let subscribe = CommandSubscribe { metadata: vec![KeyValue::default(); 2], ..Default::default() };
        let base = BaseCommand { r#type: 4, subscribe: Some(subscribe), ..Default::default() };
        let mut encoded = base.encode_to_vec();
        assert_eq!(check_command(&encoded), Ok(()));
        // The last KeyValue loses its value: its own size, the SUBSCRIBE's and nothing else change.
        encoded.truncate(encoded.len() - 2);
        let size = encoded.len();
        encoded[size - 3] -= 2;
        encoded[3] -= 2;
        assert_eq!(check_command(&encoded), Err(Incomplete::Missing("value")));
    }

    #[test]
    fn endless_nesting_is_cut_off() {
        let mut id = MessageIdData::default();
        for _ in 0..20 {
            id = MessageIdData { first_chunk_message_id: Some(Box::new(id)), ..Default::default() };
        }
        let base = BaseCommand { r#type: 28, seek: Some(CommandSeek { message_id: Some(id), ..Default::default() }), ..Default::default() };
        assert_eq!(check_command(&base.encode_to_vec()), Err(Incomplete::Unreadable));
    }
}
