use proptest::prelude::*;

use super::*;

fn at(ledger: i64, entry: i64) -> Position {
    Position::new(ledger, entry)
}

fn state(acked: Vec<(Position, Position)>) -> CursorState {
    CursorState { mark_delete: at(3, 4), acked, batches: Vec::new(), properties: Vec::new() }
}

/// Ranges as a cursor lists them: growing, apart, each within its ledger.
fn disjoint_ranges() -> impl Strategy<Value = Vec<(Position, Position)>> {
    let gaps = proptest::collection::vec((1i64..200, 1i64..200), 0..30);
    proptest::collection::vec((1i64..1 << 40, gaps), 0..4).prop_map(|ledgers| {
        let mut id = 0;
        let mut ranges = Vec::new();
        for (step, gaps) in ledgers {
            id += step;
            let mut entry = -2;
            for (gap, len) in gaps {
                let lower = entry + gap;
                entry = lower + len;
                ranges.push((at(id, lower), at(id, entry)));
            }
        }
        ranges
    })
}

fn any_state() -> impl Strategy<Value = CursorState> {
    let place = (any::<i64>(), any::<i64>()).prop_map(|(ledger, entry)| at(ledger, entry));
    let batch = (place.clone(), proptest::collection::vec(any::<u64>(), 0..3)).prop_map(|(at, words)| (at, AckSet(words)));
    let acked = prop_oneof![disjoint_ranges(), proptest::collection::vec((place.clone(), place.clone()), 0..5)];
    (place, acked, proptest::collection::vec(batch, 0..4), proptest::collection::vec((".{0,9}", any::<i64>()), 0..3))
        .prop_map(|(mark_delete, acked, batches, properties)| CursorState { mark_delete, acked, batches, properties })
}

proptest! {
    #[test]
    fn a_position_reads_back_as_written(state in any_state()) {
        // Two ranges that touch are one in a bitmap; a cursor never lists such.
        prop_assume!(state.acked.windows(2).all(|pair| pair[0].1 != pair[1].0));
        prop_assert_eq!(CursorState::decode_position(&state.encode_position()), Ok(state));
    }

    #[test]
    fn a_record_reads_back_as_written(state in any_state(), keys in proptest::collection::vec((".{0,9}", ".{0,9}"), 0..3)) {
        prop_assert_eq!(CursorState::decode_record(&state.encode_record(None, &keys, 7)), Ok((state.clone(), None, keys.clone())));
        let elsewhere = CursorState { acked: Vec::new(), batches: Vec::new(), ..state.clone() };
        let ledger = Some(LedgerId(12));
        prop_assert_eq!(CursorState::decode_record(&state.encode_record(ledger, &keys, 7)), Ok((elsewhere, ledger, keys)));
    }

    #[test]
    fn bitmaps_are_written_only_when_they_are_shorter(acked in disjoint_ranges()) {
        let as_ranges = PositionInfo { ledger_id: 3, entry_id: 4, individual_deleted_messages: ranges(&acked), ..Default::default() };
        let written = state(acked.clone()).encode_position();
        prop_assert!(written.len() <= as_ranges.encoded_len());
        prop_assert_eq!(as_ranges.encoded_len() - 4, acked.iter().map(encoded_range_len).sum::<usize>());
        let written = PositionInfo::decode(written.as_slice()).expect("our own bytes");
        prop_assert!(written.individual_deleted_messages.is_empty() || written.individual_deleted_message_ranges.is_empty());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = CursorState::decode_position(&bytes);
        let _ = CursorState::decode_record(&bytes);
        let _ = CursorState::decode_record(&[b"\x47\x78\x00\x00\x00\x04\x08\x01\x10\x7f".as_slice(), &bytes].concat());
    }

    #[test]
    fn a_torn_position_never_panics(state in any_state(), cut in 0usize..500, flip in 0usize..500, mask: u8) {
        let mut bytes = state.encode_position();
        bytes.truncate(cut);
        if let Some(byte) = bytes.get_mut(flip) {
            *byte ^= mask;
        }
        let _ = CursorState::decode_position(&bytes).map(|state| state.encode_position());
    }
}

#[test]
fn the_bytes_are_pulsars() {
    let mut state = state(vec![(at(3, 5), at(3, 6))]);
    let ranges = b"\x08\x03\x10\x04\x1a\x0c\x0a\x04\x08\x03\x10\x05\x12\x04\x08\x03\x10\x06";
    let bitmap = b"\x08\x03\x10\x04\x32\x04\x08\x03\x10\x40";
    assert_eq!(state.encode_position(), bitmap);
    assert_eq!(CursorState::decode_position(ranges).as_ref(), Ok(&state));
    assert_eq!(CursorState::decode_position(bitmap).as_ref(), Ok(&state));
    state.acked.clear();
    state.batches = vec![(at(3, 9), AckSet(vec![5]))];
    state.properties = vec![("k".into(), 2)];
    assert_eq!(state.encode_position(), b"\x08\x03\x10\x04\x22\x05\x0a\x01k\x10\x02\x2a\x08\x0a\x04\x08\x03\x10\x09\x10\x05");
}

#[test]
fn ranges_come_before_bitmaps() {
    let bitmap = LongListMap { key: 9, values: vec![-1] };
    let both = PositionInfo {
        individual_deleted_messages: ranges(&[(at(3, 5), at(3, 6))]),
        individual_deleted_message_ranges: vec![bitmap.clone()],
        ..Default::default()
    };
    assert_eq!(CursorState::decode_position(&both.encode_to_vec()).unwrap().acked, [(at(3, 5), at(3, 6))]);
    let only = PositionInfo { individual_deleted_message_ranges: vec![bitmap], ..Default::default() };
    assert_eq!(CursorState::decode_position(&only.encode_to_vec()).unwrap().acked, [(at(9, -1), at(9, 63))]);
}

#[test]
fn packed_bitmap_words_are_read_too() {
    let packed = b"\x08\x03\x10\x04\x32\x06\x08\x05\x12\x02\x03\x01";
    assert_eq!(CursorState::decode_position(packed).unwrap().acked, [(at(5, -1), at(5, 1)), (at(5, 63), at(5, 64))]);
}

#[test]
fn a_far_or_endless_range_costs_no_bitmap() {
    for acked in
        [vec![(at(1, 0), at(1, i64::MAX))], vec![(at(1, 0), at(1, i64::MAX - 1))], vec![(at(1, i64::MAX - 9), at(1, i64::MAX - 1))]]
    {
        let state = state(acked);
        assert_eq!(CursorState::decode_position(&state.encode_position()), Ok(state));
    }
}

#[test]
fn compressed_records_are_opened() {
    let state = state((0..2000).map(|n| (at(3, 2 * n + 8), at(3, 2 * n + 9))).collect());
    let plain = state.encode_record(None, &[], 1);
    let header = crate::proto::EnvelopeHeader { compression_type: 1, uncompressed_size: plain.len() as i32 }.encode_to_vec();
    let body = lz4_flex::block::compress(&plain);
    let value = [b"\x47\x78".as_slice(), &(header.len() as u32).to_be_bytes(), &header, &body].concat();
    assert!(value.len() < plain.len());
    assert_eq!(CursorState::decode_record(&value).unwrap().0, state);
}
