use proptest::prelude::*;

use super::*;
use crate::cache::host::ReadPurpose;

fn every_kind() -> Vec<Timed> {
    let records = [
        Record::Published { topic: 1, first: 2, sizes: vec![3, u32::MAX] },
        Record::Read { topic: 1, cursor: 2, first: 3, count: 9, purpose: ReadPurpose::Look, bytes: u64::MAX, hits: vec![255, 1] },
        Record::Read { topic: 1, cursor: 2, first: 3, count: 1, purpose: ReadPurpose::Replay, bytes: 7, hits: vec![0] },
        Record::Read { topic: 1, cursor: 2, first: 3, count: 8, purpose: ReadPurpose::Cursor, bytes: 7, hits: vec![9] },
        Record::Cursor { topic: u32::MAX, cursor: u32::MAX, at: 5, mark_delete: 4, active: true },
        Record::Cursor { topic: 1, cursor: 2, at: 5, mark_delete: 4, active: false },
        Record::Moved { topic: 1, cursor: 2, at: 5 },
        Record::MarkDeleted { topic: 1, cursor: 2, at: 5 },
        Record::CursorGone { topic: 1, cursor: 2 },
        Record::Invalidated { topic: 1, first: 2, until: u64::MAX, cause: Cause::Trimmed },
        Record::Invalidated { topic: 1, first: 2, until: 3, cause: Cause::Truncated },
        Record::Invalidated { topic: 1, first: 0, until: 0, cause: Cause::Closed },
        Record::Restart,
        Record::Replay { topic: 1, cursor: 2, first: 3, count: 4, more: true },
        Record::Replay { topic: 1, cursor: 2, first: 3, count: 4, more: false },
        Record::Lost(5),
    ];
    (0..).zip(records).map(|(at, record)| (at * 1_000_000_000, record)).collect()
}

fn written(records: &[Timed]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new()).expect("a header");
    for (time, record) in records {
        writer.push(*time, record).expect("within bounds");
    }
    writer.finish().expect("written")
}

fn read(bytes: &[u8]) -> Trace {
    read_trace(bytes, 1 << 20).expect("a trace")
}

#[test]
fn every_kind_comes_back_as_it_was_written() {
    // A billion microseconds apart: blocks end before their times overflow.
    let records = every_kind();
    let trace = read(&written(&records));
    assert_eq!((&trace.records, &trace.damage, trace.lost()), (&records, &None, 5));
    assert_eq!(read(&written(&[])).records, []);
}

#[test]
fn a_trace_cut_anywhere_gives_whole_blocks_and_says_where_it_stops() {
    let mut writer = TraceWriter::new(Vec::new()).expect("a header");
    let mut ends = vec![HEADER_BYTES];
    for (time, record) in every_kind() {
        writer.push(time, &record).expect("within bounds");
        writer.flush().expect("written");
        ends.push(writer.out.len());
    }
    let whole = writer.finish().expect("written");
    for cut in HEADER_BYTES..whole.len() {
        let trace = read(&whole[..cut]);
        let blocks = ends.iter().filter(|end| **end <= cut).count() - 1;
        assert_eq!(trace.records, every_kind()[..blocks]);
        let damage = trace.damage.map(|damage| damage.at as usize);
        assert_eq!(damage, (!ends.contains(&cut)).then_some(ends[blocks]));
    }
    for cut in 0..HEADER_BYTES {
        assert!(matches!(read_trace(&whole[..cut], 9), Err(TraceReadError::NotATrace)));
    }
}

#[test]
fn a_changed_bit_anywhere_is_noticed() {
    let whole = written(&every_kind());
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        match read_trace(&bytes[..], 1 << 20) {
            Ok(trace) => assert!(trace.damage.is_some() && at >= HEADER_BYTES, "byte {at}"),
            Err(TraceReadError::Version(_)) => assert!((8..10).contains(&at)),
            Err(TraceReadError::NotATrace) => assert!(at < HEADER_BYTES),
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
}

/// A block with a right checksum around whatever is in it.
fn sealed(records: u32, base: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = written(&[]);
    let mut header = BLOCK.to_vec();
    header.extend((body.len() as u32).to_le_bytes());
    header.extend(records.to_le_bytes());
    header.extend(base.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&header), body);
    header.extend(checksum.to_le_bytes());
    bytes.extend(header);
    bytes.extend(body);
    bytes
}

#[test]
fn records_that_lie_about_themselves_are_refused_whatever_the_checksum_says() {
    let record = |kind: u8, rest: &[&[u8]]| [&[kind, 0, 0, 0, 0], &rest.concat()[..]].concat();
    let (topic, first) = (1u32.to_le_bytes(), 2u64.to_le_bytes());
    let huge = (u64::MAX - 3).to_le_bytes();
    for (what, count, base, body) in [
        ("an unknown kind", 1, 0, record(99, &[])),
        ("no entries", 1, 0, record(1, &[&topic, &first, &[0, 0]])),
        ("more entries than bytes", 1, 0, record(1, &[&topic, &first, &[255, 255], &[0; 8]])),
        ("more entries than allowed", 1, 0, record(1, &[&topic, &first, &5000u16.to_le_bytes(), &[0; 20_000]])),
        ("a position that overflows", 1, 0, record(1, &[&topic, &huge, &[1, 0], &[0; 4]])),
        ("a purpose that is none", 1, 0, record(2, &[&topic, &topic, &first, &[1, 0], &[3], &first, &[0]])),
        ("a switch that is none", 1, 0, record(9, &[&topic, &topic, &first, &[1, 0], &[2]])),
        ("fewer records than told", 2, 0, record(8, &[])),
        ("more bytes than records", 1, 0, record(8, &[b"x"])),
        ("a time that overflows", 1, u64::MAX, [8, 1, 0, 0, 0].to_vec()),
    ] {
        let trace = read(&sealed(count, base, &body));
        assert_eq!((trace.records.len(), trace.damage.map(|damage| damage.at)), (0, Some(16)), "{what}");
    }
    assert_eq!(read(&sealed(1, 0, &record(8, &[]))).records, [(0, Record::Restart)]);
}

#[test]
fn blocks_do_not_go_back_in_time() {
    let mut bytes = sealed(1, 100, &[8, 0, 0, 0, 0]);
    bytes.extend_from_slice(&sealed(1, 99, &[8, 0, 0, 0, 0])[HEADER_BYTES..]);
    let trace = read(&bytes);
    assert!(trace.records.len() == 1 && trace.damage.is_some());
    // The writer does not either.
    assert_eq!(read(&written(&[(5, Record::Restart), (3, Record::Restart)])).records, [(5, Record::Restart), (5, Record::Restart)]);
}

#[test]
fn bounds_are_kept_by_reader_and_writer() {
    let mut writer = TraceWriter::new(Vec::new()).expect("a header");
    let wrong = [
        Record::Published { topic: 0, first: 0, sizes: vec![] },
        Record::Published { topic: 0, first: 0, sizes: vec![1; MOST_ENTRIES + 1] },
        Record::Read { topic: 0, cursor: 0, first: 0, count: 9, purpose: ReadPurpose::Cursor, bytes: 0, hits: vec![0] },
        Record::Moved { topic: 0, cursor: 0, at: u64::MAX },
    ];
    for record in wrong {
        assert!(matches!(writer.push(0, &record), Err(TraceWriteError::Bounds(_))), "{record:?}");
    }
    assert_eq!(writer.finish().expect("written").len(), HEADER_BYTES);
    let many = written(&every_kind());
    assert!(matches!(read_trace(&many[..], 3), Err(TraceReadError::TooMany(3))));
    let mut later = written(&[]);
    later[8] = 2;
    assert!(matches!(read_trace(&later[..], 3), Err(TraceReadError::Version(2))));
}

proptest! {
    #[test]
    fn hostile_bytes_neither_panic_nor_take_memory(body in proptest::collection::vec(any::<u8>(), 0..400), records in 0u32..50, raw in any::<bool>()) {
        let bytes = if raw { [&written(&[])[..], &body].concat() } else { sealed(records, 0, &body) };
        let trace = read(&bytes);
        prop_assert!(trace.records.len() <= body.len() / 5);
    }
}
