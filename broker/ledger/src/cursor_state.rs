//! What is persisted of a cursor, and how it is spelt: Pulsar's `PositionInfo` and `ManagedCursorInfo`.

use prost::Message;
use prost::encoding::encoded_len_varint;

use crate::ledger_list::{nested, position};
use crate::proto::{
    BatchedEntryDeletionIndexInfo, LongListMap, LongProperty, ManagedCursorInfo, MessageRange, NestedPositionInfo, PositionInfo,
    StringProperty,
};
use crate::{LedgerId, Position, envelope};

/// The messages of one batch that are still to be acked: bit i of the words (low bit first) is message i, set = not acked.
/// A missing word is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckSet(pub Vec<u64>);

impl AckSet {
    /// Messages not acked.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Keeps the bits of the first `messages` messages that are also set in `other`.
    pub(crate) fn intersect(&mut self, other: &AckSet, messages: u32) {
        self.0.truncate(other.0.len());
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
        self.trim(messages);
    }

    /// Clears the bits beyond the first `messages`; no zero word is left at the end, as in Java's `BitSet`.
    pub(crate) fn trim(&mut self, messages: u32) {
        let (full, rest) = ((messages / 64) as usize, messages % 64);
        self.0.truncate(full + usize::from(rest > 0));
        if rest > 0
            && let Some(word) = self.0.get_mut(full)
        {
            *word &= (1 << rest) - 1;
        }
        while self.0.pop_if(|word| *word == 0).is_some() {}
    }
}

/// What is persisted of a cursor; `properties` travel with the mark-delete position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CursorState {
    /// Everything at or below is acked.
    pub mark_delete: Position,
    /// Ranges (lower, upper] acked beyond it.
    pub acked: Vec<(Position, Position)>,
    /// Partly acked batches.
    pub batches: Vec<(Position, AckSet)>,
    /// Pulsar's (string, int64) properties.
    pub properties: Vec<(String, i64)>,
}

impl CursorState {
    /// `PositionInfo` bytes. Acks go as ranges or as bitmaps, one or the other, whichever is smaller: Pulsar reads both.
    pub(crate) fn encode_position(&self) -> Vec<u8> {
        let bitmaps = bitmaps(&self.acked);
        let stored = PositionInfo {
            ledger_id: self.mark_delete.ledger.0,
            entry_id: self.mark_delete.entry.0,
            individual_deleted_messages: if bitmaps.is_some() { Vec::new() } else { ranges(&self.acked) },
            properties: long_properties(&self.properties),
            batched_entry_deletion_index_info: batches(&self.batches),
            individual_deleted_message_ranges: bitmaps.unwrap_or_default(),
        };
        stored.encode_to_vec()
    }

    /// From `PositionInfo` bytes. If there are ranges, bitmaps are not looked at.
    pub(crate) fn decode_position(bytes: &[u8]) -> Result<CursorState, String> {
        let stored = PositionInfo::decode(bytes).map_err(|error| format!("cursor position: {error}"))?;
        let acked = match stored.individual_deleted_messages.as_slice() {
            [] => stored.individual_deleted_message_ranges.iter().flat_map(from_bitmap).collect(),
            ranges => ranges.iter().map(from_range).collect(),
        };
        Ok(CursorState {
            mark_delete: Position::new(stored.ledger_id, stored.entry_id),
            acked,
            batches: stored.batched_entry_deletion_index_info.into_iter().map(from_batch).collect(),
            properties: stored.properties.into_iter().map(|pair| (pair.name, pair.value)).collect(),
        })
    }

    /// `ManagedCursorInfo` bytes. With a cursor ledger the acks are there, and the mark-delete position in the record
    /// is only what to fall back to.
    pub(crate) fn encode_record(&self, cursor_ledger: Option<LedgerId>, properties: &[(String, String)], now_ms: u64) -> Vec<u8> {
        let inline = cursor_ledger.is_none();
        let stored = ManagedCursorInfo {
            cursors_ledger_id: cursor_ledger.map_or(NO_LEDGER, |ledger| ledger.0),
            mark_delete_ledger_id: Some(self.mark_delete.ledger.0),
            mark_delete_entry_id: Some(self.mark_delete.entry.0),
            individual_deleted_messages: if inline { ranges(&self.acked) } else { Vec::new() },
            properties: long_properties(&self.properties),
            last_active: Some(i64::try_from(now_ms).unwrap_or(i64::MAX)),
            batched_entry_deletion_index_info: if inline { batches(&self.batches) } else { Vec::new() },
            cursor_properties: properties.iter().map(|(name, value)| StringProperty { name: name.clone(), value: value.clone() }).collect(),
        };
        stored.encode_to_vec()
    }

    /// From `ManagedCursorInfo` bytes, plain or in an envelope.
    pub(crate) fn decode_record(bytes: &[u8]) -> Result<Record, String> {
        let plain = envelope::open(bytes)?;
        let stored = ManagedCursorInfo::decode(plain.as_ref()).map_err(|error| format!("cursor record: {error}"))?;
        let state = CursorState {
            mark_delete: Position::new(stored.mark_delete_ledger_id.unwrap_or(-1), stored.mark_delete_entry_id.unwrap_or(-1)),
            acked: stored.individual_deleted_messages.iter().map(from_range).collect(),
            batches: stored.batched_entry_deletion_index_info.into_iter().map(from_batch).collect(),
            properties: stored.properties.into_iter().map(|pair| (pair.name, pair.value)).collect(),
        };
        let cursor_ledger = (stored.cursors_ledger_id >= 0).then_some(LedgerId(stored.cursors_ledger_id));
        let properties = stored.cursor_properties.into_iter().map(|pair| (pair.name, pair.value)).collect();
        Ok((state, cursor_ledger, properties))
    }
}

/// State, cursor ledger, cursor properties.
pub(crate) type Record = (CursorState, Option<LedgerId>, Vec<(String, String)>);

/// Pulsar's id for "the state is in this very record".
const NO_LEDGER: i64 = -1;

fn ranges(acked: &[(Position, Position)]) -> Vec<MessageRange> {
    acked.iter().map(|&(lower, upper)| MessageRange { lower_endpoint: nested(lower), upper_endpoint: nested(upper) }).collect()
}

fn from_range(range: &MessageRange) -> (Position, Position) {
    (position(&range.lower_endpoint), position(&range.upper_endpoint))
}

/// The bitmaps of ranges, if they are shorter than the ranges; none also for ranges that a bitmap cannot hold.
fn bitmaps(acked: &[(Position, Position)]) -> Option<Vec<LongListMap>> {
    let size_of_ranges: usize = acked.iter().map(encoded_range_len).sum();
    // A word takes two bytes at least. To ask before building them bounds what a far entry can cost.
    let mut words_left = size_of_ranges / 2;
    let mut maps: Vec<LongListMap> = Vec::new();
    for &(lower, upper) in acked {
        let (first, end) = (u64::try_from(lower.entry.0.checked_add(1)?).ok()?, u64::try_from(upper.entry.0.checked_add(1)?).ok()?);
        if lower.ledger != upper.ledger || first >= end {
            return None;
        }
        if maps.last().is_none_or(|map| map.key != lower.ledger.0) {
            maps.push(LongListMap { key: lower.ledger.0, values: Vec::new() });
        }
        let words = &mut maps.last_mut()?.values;
        let more = usize::try_from(end.div_ceil(64)).ok()?.saturating_sub(words.len());
        words_left = words_left.checked_sub(more)?;
        words.resize(words.len() + more, 0);
        set_bits(words, first, end);
    }
    if !maps.is_sorted_by_key(|map| map.key) {
        return None;
    }
    let size = PositionInfo { individual_deleted_message_ranges: maps, ..PositionInfo::default() };
    let empty = PositionInfo::default().encoded_len();
    (size.encoded_len() - empty < size_of_ranges).then_some(size.individual_deleted_message_ranges)
}

fn set_bits(words: &mut [i64], first: u64, end: u64) {
    let (mut from, end) = (first, end);
    while from < end
        && let Some(word) = words.get_mut((from / 64) as usize)
    {
        let bit = (from % 64) as u32;
        let n = (end - from).min(u64::from(64 - bit));
        *word |= ((u64::MAX >> (64 - n)) << bit) as i64;
        from += n;
    }
}

fn from_bitmap(map: &LongListMap) -> impl Iterator<Item = (Position, Position)> + '_ {
    let bits = map.values.len() as u64 * 64;
    let find = move |from: u64, set: bool| {
        let words = map.values.iter().enumerate().skip((from / 64) as usize);
        let mut masked = words.map(|(index, &word)| {
            let word = if set { word as u64 } else { !(word as u64) };
            let base = index as u64 * 64;
            (base, if base < from { word & (u64::MAX << (from - base)) } else { word })
        });
        masked.find(|&(_, word)| word != 0).map_or(bits, |(base, word)| base + u64::from(word.trailing_zeros()))
    };
    let mut from = 0;
    std::iter::from_fn(move || {
        let first = find(from, true);
        from = find(first, false);
        (first < bits).then(|| (Position::new(map.key, first as i64 - 1), Position::new(map.key, from as i64 - 1)))
    })
}

/// How long a range is as a field of its message.
fn encoded_range_len(&(lower, upper): &(Position, Position)) -> usize {
    let field = |value: i64| 1 + encoded_len_varint(value as u64);
    let endpoint = |at: Position| 2 + field(at.ledger.0) + field(at.entry.0);
    2 + endpoint(lower) + endpoint(upper)
}

fn batches(batches: &[(Position, AckSet)]) -> Vec<BatchedEntryDeletionIndexInfo> {
    let stored = |(at, set): &(Position, AckSet)| BatchedEntryDeletionIndexInfo {
        position: nested(*at),
        delete_set: set.0.iter().map(|&word| word as i64).collect(),
    };
    batches.iter().map(stored).collect()
}

fn from_batch(stored: BatchedEntryDeletionIndexInfo) -> (Position, AckSet) {
    let NestedPositionInfo { ledger_id, entry_id } = stored.position;
    (Position::new(ledger_id, entry_id), AckSet(stored.delete_set.into_iter().map(|word| word as u64).collect()))
}

fn long_properties(properties: &[(String, i64)]) -> Vec<LongProperty> {
    properties.iter().map(|(name, value)| LongProperty { name: name.clone(), value: *value }).collect()
}

#[cfg(test)]
mod tests;
