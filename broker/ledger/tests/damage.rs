//! Flipped bits, torn ends and leftovers: what is damaged is cut if it was never promised, reported if it was, and never served.

mod common;

use std::path::Path;

use common::life::{DIR, ask};
use common::sim::{append, create, delete, even, fence, open, read, segment, served, small};
use geminga_ledger::log::sim::{SimFiles, SteppedLog};
use geminga_ledger::log::{LogOptions, OpenError};
use geminga_ledger::{BlockBuilder, EntryId, LedgerId, LedgerStore, Position, Purpose, StoreError, StoreHealth};

/// One block per group, so that each is durable before the next is written.
fn ten_entries(files: &SimFiles) -> LedgerId {
    let log = open(files);
    let ledger = create(&log, Purpose::Data);
    for entry in 0..10 {
        append(&log, even(ledger, entry)).expect("appended");
    }
    ledger
}

/// Where the bytes of an entry lie in a file.
fn place_of(files: &SimFiles, generation: u64, ledger: LedgerId, entry: i64) -> usize {
    let content = files.content(&segment(generation));
    let bytes = common::sim::even_bytes(ledger, entry);
    content.windows(bytes.len()).position(|window| window == bytes).expect("the entry is in the file")
}

fn reopen(files: &SimFiles, allow_damage: bool) -> Result<SteppedLog, OpenError> {
    SteppedLog::open(files, Path::new(DIR), LogOptions { allow_damage, ..small() })
}

#[test]
fn a_torn_tail_is_cut_at_the_last_whole_block() {
    let files = SimFiles::new();
    let ledger = ten_entries(&files);
    files.flip(&segment(1), place_of(&files, 1, ledger, 9), 1);
    let log = open(&files);
    assert!(log.log().recovered().cut.is_some());
    assert_eq!(served(&log, ledger, 10), 9);
    append(&log, even(ledger, 9)).expect("the log goes on where it was cut");
    drop(log);
    let log = open(&files);
    assert!(log.log().recovered().cut.is_none());
    assert_eq!(served(&log, ledger, 10), 10);
}

#[test]
fn a_damaged_block_in_front_of_durable_ones_refuses_the_start_and_is_named() {
    let files = SimFiles::new();
    let ledger = ten_entries(&files);
    let place = place_of(&files, 1, ledger, 4);
    files.flip(&segment(1), place, 0x10);
    let refused = reopen(&files, false).err().expect("refused");
    let OpenError::Damaged { file, offset, ledgers, .. } = &refused else { panic!("{refused}") };
    assert_eq!((file, ledgers), (&segment(1), &vec![ledger]));
    assert!(*offset < place as u64 && *offset + 100 > place as u64, "{refused}");
    // With the operator's word the rest is served.
    let log = reopen(&files, true).expect("opened");
    assert_eq!(log.log().recovered().damage.len(), 1);
    assert!(matches!(read(&log, ledger, 4, 9), Err(StoreError::Damaged { entry: EntryId(4), .. })));
    assert_eq!(served(&log, ledger, 10), 9);
    assert_eq!(read(&log, ledger, 0, 9).expect("what lies in front").len(), 4);
}

#[test]
fn a_damaged_block_header_is_damage_too() {
    let files = SimFiles::new();
    let ledger = ten_entries(&files);
    // The block header lies in front of the record header.
    files.flip(&segment(1), place_of(&files, 1, ledger, 4) - 32 - 40 + 9, 1);
    assert!(matches!(reopen(&files, false), Err(OpenError::Damaged { .. })));
    let log = reopen(&files, true).expect("opened");
    assert_eq!(log.log().recovered().damage.len(), 2, "the block, and the hole it leaves");
    assert_eq!(served(&log, ledger, 10), 9);
    assert_eq!(fence(&log, ledger).expect("fenced").last, EntryId(9));
}

#[test]
fn after_an_orderly_close_even_the_last_block_is_known_to_be_durable() {
    let files = SimFiles::new();
    let ledger = ten_entries(&files);
    open(&files).close();
    files.flip(&segment(1), place_of(&files, 1, ledger, 9), 1);
    assert!(matches!(reopen(&files, false), Err(OpenError::Damaged { ledgers, .. }) if ledgers == [ledger]));
}

#[test]
fn a_flipped_bit_is_never_served() {
    let files = SimFiles::new();
    let log = open(&files);
    let ledger = create(&log, Purpose::Data);
    // Enough to fill one segment and begin another.
    for entry in 0..120 {
        append(&log, even(ledger, entry)).expect("appended");
    }
    for generation in [1, 2] {
        let len = files.content(&segment(generation)).len();
        for at in (0..len).step_by(131) {
            let bits = 1 << (at % 8);
            files.flip(&segment(generation), at, bits);
            assert!(served(&log, ledger, 120) >= 119 || at > 8192, "one flip damages one entry, unless it hits a footer");
            if let Ok(log) = reopen(&files.after(geminga_ledger::log::sim::Crash::Keep), true) {
                served(&log, ledger, 120);
            }
            files.flip(&segment(generation), at, bits);
        }
    }
    assert_eq!(served(&log, ledger, 120), 120);
}

#[test]
fn frames_of_an_earlier_life_of_the_file_are_not_believed() {
    // In pages the rest of the last one is zeros.
    let files = SimFiles::through_cache();
    let log = open(&files);
    // Every block is equally long, so that old and new frames begin at the same offsets: the worst case.
    let old = create(&log, Purpose::Data);
    let mut entry = 0;
    while log.log().counters().segments < 3 {
        append(&log, even(old, entry)).expect("appended");
        entry += 1;
    }
    delete(&log, old);
    while log.compact() {}
    let new = create(&log, Purpose::Data);
    // Goes on until the newest block ends exactly where a frame of the file's earlier life begins.
    let seamless = (0..1000).find(|entry| {
        append(&log, even(new, *entry)).expect("appended");
        let newest = (1..20).rev().find(|generation| files.exists(&segment(*generation))).expect("a segment");
        let end = place_of(&files, newest, new, *entry) + common::sim::even_bytes(new, *entry).len();
        files.content(&segment(newest))[end..].starts_with(b"GBlk")
    });
    let count = seamless.expect("an old frame right behind the newest block");
    drop(log);
    let log = open(&files);
    assert_eq!(fence(&log, new).expect("fenced").last, EntryId(count));
    assert!(matches!(read(&log, old, 0, 0), Err(StoreError::NoSuchLedger(_))));
    assert_eq!(served(&log, new, count + 1) as i64, count + 1);
}

#[test]
fn blocks_that_were_cut_do_not_come_back_behind_a_new_one() {
    let files = SimFiles::new();
    let log = open(&files);
    let ledger = create(&log, Purpose::Data);
    for entry in 0..3 {
        log.log().append(even(ledger, entry), Box::new(|_| {}));
    }
    log.turn();
    drop(log);
    // The group was torn: its first block is bad, the others are whole. None was durable for certain.
    files.flip(&segment(1), place_of(&files, 1, ledger, 0), 1);
    let log = open(&files);
    assert_eq!(served(&log, ledger, 3), 0);
    // A new block, exactly as long as the bad one, makes the old ones follow it seamlessly.
    append(&log, even(ledger, 0)).expect("appended");
    drop(log);
    let log = open(&files);
    assert_eq!(fence(&log, ledger).expect("fenced").last, EntryId(0));
}

#[test]
fn a_lost_segment_is_noticed() {
    let files = SimFiles::new();
    let log = open(&files);
    let ledger = create(&log, Purpose::Data);
    let mut entry = 0;
    while log.log().counters().segments < 4 {
        append(&log, even(ledger, entry)).expect("appended");
        entry += 1;
    }
    drop(log);
    files.lose(&segment(2));
    assert!(matches!(reopen(&files, false), Err(OpenError::Damaged { ledgers, .. }) if ledgers == [ledger]));
    let log = reopen(&files, true).expect("opened");
    assert!(served(&log, ledger, entry) > 0);
}

#[test]
fn a_lost_footer_is_replaced_by_walking_the_segment() {
    let files = SimFiles::new();
    let log = open(&files);
    let ledger = create(&log, Purpose::Data);
    let mut entry = 0;
    while log.log().counters().segments < 3 {
        append(&log, even(ledger, entry)).expect("appended");
        entry += 1;
    }
    drop(log);
    files.flip(&segment(1), (16 << 10) - 3, 1);
    let log = open(&files);
    assert_eq!(log.log().recovered().walked, 2);
    assert_eq!(served(&log, ledger, entry) as i64, entry);
}

#[test]
fn a_directory_of_a_newer_release_is_refused_by_name() {
    let files = SimFiles::new();
    ten_entries(&files);
    let version = Path::new(DIR).join("VERSION");
    let text = String::from_utf8(files.content(&version)).expect("text").replace("format 1", "format 7");
    files.put(&version, text.into_bytes());
    let refused = reopen(&files, true).err().expect("refused");
    assert!(matches!(refused, OpenError::Newer { found: 7, .. }));
    assert!(refused.to_string().contains("newer release"), "{refused}");
}

#[test]
fn a_damaged_or_missing_version_file_is_refused() {
    let files = SimFiles::new();
    ten_entries(&files);
    let version = Path::new(DIR).join("VERSION");
    files.flip(&version, 30, 1);
    assert!(matches!(reopen(&files, false), Err(OpenError::NotALog { .. })));
    files.lose(&version);
    let refused = reopen(&files, false).err().expect("refused");
    assert!(refused.to_string().contains("no VERSION"), "{refused}");
}

#[test]
fn a_segment_of_another_directory_is_refused() {
    let (files, others) = (SimFiles::new(), SimFiles::new());
    ten_entries(&files);
    ten_entries(&others);
    files.put(&segment(2), others.content(&segment(1)));
    let refused = reopen(&files, false).err().expect("refused");
    assert!(refused.to_string().contains("another directory"), "{refused}");
}

#[test]
fn a_nearly_full_disk_refuses_publishes_and_recovers_by_itself() {
    let files = SimFiles::new();
    files.set_capacity(Some(200 << 10));
    let options = LogOptions { reserve_bytes: 64 << 10, ..small() };
    let log = SteppedLog::open(&files, Path::new(DIR), options).expect("opened");
    let (data, cursor) = (create(&log, Purpose::Data), create(&log, Purpose::Cursor));
    let mut entry = 0;
    let refused = loop {
        match append(&log, even(data, entry)) {
            Ok(()) => entry += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, StoreError::DiskNearlyFull(_)), "{refused}");
    assert!(matches!(log.log().health(), StoreHealth::DiskNearlyFull(_)));
    assert!(entry > 300, "only {entry} entries fit");
    for at in 0..100 {
        append(&log, even(cursor, at)).expect("cursors go on");
    }
    assert_eq!(served(&log, data, entry) as i64, entry, "reading goes on");
    // A refused block leaves no trace: the ledger goes on with the same entry.
    fence(&log, data).expect("sealing goes on");
    delete(&log, data);
    while log.compact() {}
    assert_eq!(log.log().health(), StoreHealth::Ready);
    let next = create(&log, Purpose::Data);
    append(&log, even(next, 0)).expect("publishes are taken again");
}

#[test]
fn a_disk_without_any_space_left_changes_nothing_and_poisons_nothing() {
    let files = SimFiles::through_cache();
    let log = open(&files);
    let ledger = create(&log, Purpose::Data);
    files.refuse_writes(true);
    assert!(matches!(append(&log, even(ledger, 0)), Err(StoreError::DiskNearlyFull(_))));
    assert!(matches!(ask(&log, |log, done| log.create(Purpose::Data, done)), Err(StoreError::DiskNearlyFull(_))));
    files.refuse_writes(false);
    append(&log, even(ledger, 0)).expect("the same entry is taken now");
    assert_eq!(fence(&log, ledger).expect("fenced").last, EntryId(0));
}

#[test]
fn pages_that_a_full_disk_refused_may_be_there_in_part_and_poison() {
    let files = SimFiles::new();
    let log = open(&files);
    let ledger = create(&log, Purpose::Data);
    files.refuse_writes(true);
    assert!(matches!(append(&log, even(ledger, 0)), Err(StoreError::Unknown(_))));
    files.refuse_writes(false);
    assert!(matches!(append(&log, even(ledger, 0)), Err(StoreError::Closed(_))));
    assert!(matches!(log.log().health(), StoreHealth::Poisoned(_)));
}

#[test]
fn the_last_of_a_disk_is_used_in_smaller_segments() {
    let files = SimFiles::new();
    let options = LogOptions { segment_bytes: 4 << 20, ..small() };
    files.set_capacity(Some((5 << 20) + 4096));
    let log = SteppedLog::open(&files, Path::new(DIR), options).expect("opened");
    let ledger = create(&log, Purpose::Data);
    let mut entry = 0;
    let mut refused = None;
    while refused.is_none() {
        let mut builder = BlockBuilder::new();
        builder.push(Position { ledger, entry: EntryId(entry) }, entry - 1, &[7; 100_000]);
        refused = append(&log, builder.finish()).err();
        entry += 1;
    }
    assert!(matches!(refused, Some(StoreError::DiskNearlyFull(_))), "{refused:?}");
    assert_eq!(log.log().counters().segment_bytes, 5 << 20);
    assert!(entry > 48, "only {entry} entries of 100 KB in 5 MiB");
}

#[test]
fn a_full_disk_at_the_change_of_segment_is_no_poison() {
    let files = SimFiles::new();
    let log = open(&files);
    let ledger = create(&log, Purpose::Data);
    files.set_capacity(Some(17 << 10));
    let mut entry = 0;
    while append(&log, even(ledger, entry)).is_ok() {
        entry += 1;
    }
    assert!(matches!(append(&log, even(ledger, entry)), Err(StoreError::DiskNearlyFull(_))));
    files.set_capacity(None);
    append(&log, even(ledger, entry)).expect("space is back");
    assert_eq!(served(&log, ledger, entry + 1) as i64, entry + 1);
}

#[test]
fn a_torn_footer_is_not_believed() {
    let files = SimFiles::new();
    let log = open(&files);
    let ledger = create(&log, Purpose::Data);
    let mut entry = 0;
    while log.log().counters().segments < 2 {
        append(&log, even(ledger, entry)).expect("appended");
        entry += 1;
    }
    drop(log);
    // As if power had gone while the footer was being synced: the next segment never was, and of the footer one part is torn,
    // while directory and trailer are whole.
    files.lose(&segment(2));
    let trailer = files.content(&segment(1)).split_off((16 << 10) - 64);
    let parts = u64::from_le_bytes(trailer[16..24].try_into().expect("eight bytes"));
    files.flip(&segment(1), parts as usize + 6, 0xff);
    let log = open(&files);
    assert_eq!(log.log().recovered().walked, 1);
    // The entry that began the second segment went with it.
    assert_eq!(served(&log, ledger, entry - 1) as i64, entry - 1);
}
