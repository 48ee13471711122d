//! What the metadata store keeps of a managed ledger, and how it is spelt: Pulsar's `ManagedLedgerInfo`.

use prost::Message;

use crate::proto::{KeyValue, ManagedLedgerInfo, NestedPositionInfo, managed_ledger_info::LedgerInfo};
use crate::{LedgerId, Position, envelope};

/// One ledger of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerSummary {
    /// Its id.
    pub id: LedgerId,
    /// Confirmed entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When it was closed, in milliseconds since the epoch; 0 while open.
    pub closed_at_ms: u64,
}

/// What the metadata store keeps of a managed ledger: Pulsar's `ManagedLedgerInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerList {
    /// Oldest first.
    pub ledgers: Vec<LedgerSummary>,
    /// Where the topic was terminated, if it was.
    pub terminated: Option<Position>,
    /// The topic's properties.
    pub properties: Vec<(String, String)>,
}

impl LedgerList {
    /// `ManagedLedgerInfo` bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let stored = ManagedLedgerInfo {
            ledger_info: self.ledgers.iter().map(to_stored).collect(),
            terminated_position: self.terminated.map(nested),
            properties: self.properties.iter().map(|(key, value)| KeyValue { key: key.clone(), value: value.clone() }).collect(),
        };
        stored.encode_to_vec()
    }

    /// From `ManagedLedgerInfo` bytes, plain or in an envelope. Ids must grow and numbers must not be negative.
    pub(crate) fn decode(bytes: &[u8]) -> Result<LedgerList, String> {
        let plain = envelope::open(bytes)?;
        let stored = ManagedLedgerInfo::decode(plain.as_ref()).map_err(|error| format!("ledger list: {error}"))?;
        let mut ledgers: Vec<LedgerSummary> = Vec::with_capacity(stored.ledger_info.len());
        for ledger in &stored.ledger_info {
            let summary = from_stored(ledger)?;
            if let Some(last) = ledgers.last().filter(|last| last.id >= summary.id) {
                return Err(format!("ledger {} is listed after ledger {}", summary.id, last.id));
            }
            ledgers.push(summary);
        }
        let sum = |number: fn(&LedgerSummary) -> u64| ledgers.iter().try_fold(0u64, |sum, ledger| sum.checked_add(number(ledger)));
        let fits = |sum: Option<u64>| sum.is_some_and(|sum| i64::try_from(sum).is_ok());
        if !fits(sum(|ledger| ledger.entries)) || !fits(sum(|ledger| ledger.bytes)) {
            return Err("the ledgers' entries or sizes do not fit 63 bits in sum".into());
        }
        let terminated = stored.terminated_position.as_ref().map(position);
        let properties = stored.properties.into_iter().map(|pair| (pair.key, pair.value)).collect();
        Ok(LedgerList { ledgers, terminated, properties })
    }
}

pub(crate) fn nested(at: Position) -> NestedPositionInfo {
    NestedPositionInfo { ledger_id: at.ledger.0, entry_id: at.entry.0 }
}

pub(crate) fn position(stored: &NestedPositionInfo) -> Position {
    Position::new(stored.ledger_id, stored.entry_id)
}

fn to_stored(ledger: &LedgerSummary) -> LedgerInfo {
    // Pulsar leaves the numbers of the open ledger out.
    let known = |value: u64| (ledger.closed_at_ms != 0 || value != 0).then(|| i64::try_from(value).unwrap_or(i64::MAX));
    LedgerInfo {
        ledger_id: ledger.id.0,
        entries: known(ledger.entries),
        size: known(ledger.bytes),
        timestamp: Some(i64::try_from(ledger.closed_at_ms).unwrap_or(i64::MAX)),
        offload_context: None,
    }
}

fn from_stored(stored: &LedgerInfo) -> Result<LedgerSummary, String> {
    let id = stored.ledger_id;
    let number = |value: Option<i64>, what: &str| {
        let value = value.unwrap_or(0);
        u64::try_from(value).map_err(|_| format!("ledger {id}: {what} is {value}"))
    };
    if id < 0 {
        return Err(format!("ledger id {id} is negative"));
    }
    // To drop the context would lose the data, or leak it: rather not serve the topic.
    if stored.offload_context.as_ref().is_some_and(|context| context.complete() || context.bookkeeper_deleted()) {
        return Err(format!("ledger {id} is offloaded, which is not supported"));
    }
    Ok(LedgerSummary {
        id: LedgerId(id),
        entries: number(stored.entries, "entries")?,
        bytes: number(stored.size, "size")?,
        closed_at_ms: number(stored.timestamp, "timestamp")?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn summary(id: i64, entries: u64, bytes: u64, closed_at_ms: u64) -> LedgerSummary {
        LedgerSummary { id: LedgerId(id), entries, bytes, closed_at_ms }
    }

    #[test]
    fn a_list_reads_back_as_written() {
        let list = LedgerList {
            ledgers: vec![summary(3, 10, 1000, 1_700_000_000_000), summary(9, 0, 0, 0)],
            terminated: Some(Position::new(9, -1)),
            properties: vec![("owner".into(), "café".into())],
        };
        assert_eq!(LedgerList::decode(&list.encode()), Ok(list));
        assert_eq!(LedgerList::decode(&[]), Ok(LedgerList::default()));
    }

    /// Field by field, as the Java broker writes an open ledger 5 after a closed ledger 3.
    #[test]
    fn the_bytes_are_pulsars() {
        let list = LedgerList { ledgers: vec![summary(3, 2, 7, 1), summary(5, 0, 0, 0)], ..LedgerList::default() };
        assert_eq!(list.encode(), b"\x0a\x08\x08\x03\x10\x02\x18\x07\x20\x01\x0a\x04\x08\x05\x20\x00");
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        let list = |info: LedgerInfo| ManagedLedgerInfo { ledger_info: vec![info], ..Default::default() }.encode_to_vec();
        let refused = |info: LedgerInfo| LedgerList::decode(&list(info)).unwrap_err();
        assert!(refused(LedgerInfo { ledger_id: 4, entries: Some(-1), ..Default::default() }).contains("entries is -1"));
        assert!(refused(LedgerInfo { ledger_id: -4, ..Default::default() }).contains("negative"));
        let offloaded = Some(crate::proto::OffloadContext { complete: Some(true), bookkeeper_deleted: None });
        assert!(refused(LedgerInfo { ledger_id: 4, offload_context: offloaded, ..Default::default() }).contains("offloaded"));
        let disorder = LedgerList { ledgers: vec![summary(5, 1, 1, 1), summary(5, 1, 1, 1)], ..LedgerList::default() };
        assert!(LedgerList::decode(&disorder.encode()).unwrap_err().contains("listed after"));
        let huge = LedgerList { ledgers: vec![summary(5, i64::MAX as u64, 1, 1), summary(6, 1, 1, 1)], ..LedgerList::default() };
        assert!(LedgerList::decode(&huge.encode()).unwrap_err().contains("63 bits"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = LedgerList::decode(&bytes);
            let _ = LedgerList::decode(&[b"\x47\x78\x00\x00\x00\x04\x08\x01\x10\x7f".as_slice(), &bytes].concat());
        }
    }
}
