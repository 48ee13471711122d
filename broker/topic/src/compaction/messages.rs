//! What a compaction sees of an entry: its messages, by key. Entries that nobody here can read stay as they are.

use bytes::{BufMut, Bytes, BytesMut};
use wire::payload::{self, PayloadError, Peek, SingleMessages};
use wire::proto::SingleMessageMetadata;

/// Batches that are larger than this when unpacked are kept as they are.
const MOST_UNPACKED: usize = 64 << 20;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The newest of its key counts; without a value it says that the key has none any more.
    Keyed { key: u128, has_value: bool },
    /// Part of a larger message.
    Part { key: u128, uuid: Box<[u8]>, is_first: bool, is_last: bool },
    /// Nothing supersedes it.
    NoKey,
    /// It cannot be read: it stays.
    Unread,
    /// An earlier compaction took it out of its batch.
    Gone,
}

/// Whether the messages lie in a batch, where some can go while others stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Whole,
    Batch,
}

/// Looks at the messages of an entry, in order; `seen` is emptied first.
pub(crate) fn look(entry: &Bytes, hash: impl Fn(&[u8]) -> u128, seen: &mut Vec<Seen>) -> Shape {
    seen.clear();
    let Ok(peek) = payload::peek(entry) else {
        seen.push(Seen::Unread);
        return Shape::Whole;
    };
    if peek.is_batch && !peek.encrypted && peek.chunk.is_none() {
        if look_into_batch(&peek, &hash, seen).is_ok() {
            return Shape::Batch;
        }
        seen.clear();
    }
    seen.push(whole(&peek, hash));
    Shape::Whole
}

fn whole(peek: &Peek<'_>, hash: impl Fn(&[u8]) -> u128) -> Seen {
    let Some(key) = peek.partition_key.filter(|_| !peek.is_batch && peek.marker_type.is_none()) else {
        return if peek.is_batch || peek.marker_type.is_some() { Seen::Unread } else { Seen::NoKey };
    };
    let key = hash(key);
    if let Some(chunk) = peek.chunk {
        return Seen::Part { key, uuid: chunk.uuid.into(), is_first: chunk.id == 0, is_last: chunk.is_last() };
    }
    let size = if peek.compression == 0 { peek.message.len() } else { peek.uncompressed_size as usize };
    Seen::Keyed { key, has_value: size > 0 && !peek.null_value }
}

fn look_into_batch(peek: &Peek<'_>, hash: &impl Fn(&[u8]) -> u128, seen: &mut Vec<Seen>) -> Result<(), PayloadError> {
    for message in messages(peek)? {
        let (metadata, bytes) = message?;
        seen.push(match &metadata.partition_key {
            _ if metadata.compacted_out() => Seen::Gone,
            Some(key) => Seen::Keyed { key: hash(key.as_bytes()), has_value: !bytes.is_empty() && !metadata.null_value() },
            None => Seen::NoKey,
        });
    }
    Ok(())
}

fn messages(peek: &Peek<'_>) -> Result<SingleMessages, PayloadError> {
    let batch = payload::decompress(peek.compression, peek.message, peek.uncompressed_size, MOST_UNPACKED)?;
    Ok(SingleMessages::new(batch.into(), peek.messages))
}

/// The batch without the messages that `stays` is against. They keep their places, empty and marked, so that the others keep
/// their index.
pub(crate) fn without(entry: &Bytes, stays: impl Fn(usize) -> bool) -> Result<Bytes, PayloadError> {
    let peek = payload::peek(entry)?;
    let mut batch = BytesMut::new();
    for (index, message) in messages(&peek)?.enumerate() {
        let (mut metadata, bytes) = message?;
        if stays(index) {
            payload::push_single_message(&mut batch, &mut metadata, &bytes);
        } else {
            let mut gone = SingleMessageMetadata { compacted_out: Some(true), ..SingleMessageMetadata::default() };
            payload::push_single_message(&mut batch, &mut gone, b"");
        }
    }
    let mut metadata = payload::metadata(entry)?;
    metadata.uncompressed_size = Some(u32::try_from(batch.len()).unwrap_or(u32::MAX));
    let packed = payload::compress(peek.compression, &batch)?;
    let mut out = BytesMut::new();
    let parts = payload::parts(entry)?;
    let in_front = if parts.broker_entry.is_some() { entry.len() - parts.covered.len() - parts.checksum.map_or(0, |_| 6) } else { 0 };
    out.put_slice(entry.get(..in_front).unwrap_or_default());
    payload::build(&metadata, &packed, &mut out);
    Ok(out.freeze())
}

/// The index of the last message of a batch that is still there; -1 if the entry is no batch.
pub(crate) fn last_index(entry: &Bytes) -> i32 {
    let mut seen = Vec::new();
    match look(entry, |_| 0, &mut seen) {
        Shape::Whole => crate::peek::last_batch_index(entry),
        Shape::Batch => {
            let last = seen.iter().rposition(|message| *message != Seen::Gone).unwrap_or(0);
            i32::try_from(last).unwrap_or(i32::MAX)
        }
    }
}
