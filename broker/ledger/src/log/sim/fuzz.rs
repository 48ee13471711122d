//! Recovery against a stranger's bytes: whatever they are, it answers, and never panics.

use std::path::Path;

use super::super::footer::Directory;
use super::super::format::{
    BLOCK_HEADER, BlockHeader, DirectoryId, RECORD_HEADER, RecordHeader, SEGMENT_HEADER, SegmentHeader, Stamp, segment_name,
};
use super::super::version::VersionFile;
use super::{LogOptions, SimFiles, SteppedLog};
use crate::store::{LedgerStore, ReadRange};
use crate::{EntryId, LedgerId};

const ID: DirectoryId = DirectoryId([7; 16]);

/// Takes `data` for a segment file, then for the body of a block whose checksums are right, then for a footer's directory.
pub fn fuzz_recovery(data: &[u8]) {
    open(data.to_vec());
    open(as_block(data));
    if let Some(directory) = Directory::decode(data) {
        assert_eq!(directory.encode(), data, "a directory is written as it was read");
    }
    let _ = VersionFile::decode(data);
}

fn open(segment: Vec<u8>) {
    let dir = Path::new("/log");
    let files = SimFiles::new();
    files.put(&dir.join("VERSION"), VersionFile { directory: ID, run: 1 }.encode().into_bytes());
    files.put(&dir.join(segment_name(1)), segment);
    for allow_damage in [false, true] {
        let options = LogOptions { segment_bytes: 64 << 10, reserve_bytes: 0, allow_damage, ..LogOptions::default() };
        let Ok(log) = SteppedLog::open(&files, dir, options) else { continue };
        for id in 0..8 {
            let range = ReadRange { ledger: LedgerId(id), from: EntryId(0), last: EntryId(1 << 40), max_entries: 100, max_bytes: 1 << 20 };
            log.log().read(range, Box::new(|_| {}));
            log.log().open_fenced(LedgerId(id), Box::new(|_| {}));
        }
        log.turn();
        while log.compact() {}
    }
}

/// A segment whose one block has `data` as its records, with the checksums that go with them.
fn as_block(data: &[u8]) -> Vec<u8> {
    let stamp = Stamp::new(ID, 1);
    let mut body = data.to_vec();
    let mut at = 0;
    let (mut count, mut headers_crc) = (0, 0);
    while let Some(header) = body.get(at..).and_then(RecordHeader::decode) {
        let end = at.saturating_add(RECORD_HEADER).saturating_add(header.len as usize);
        let Some(record) = body.get_mut(at..end) else { break };
        let crc = crc32c::crc32c(&record[4..]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
        headers_crc = crc32c::crc32c_append(headers_crc, &record[..RECORD_HEADER]);
        count += 1;
        at = end;
    }
    body.truncate(at);
    let len = 64 << 10;
    let header = SegmentHeader { directory: ID, generation: 1, next_ledger: 3, previous: 0, previous_end: 0, file_len: len };
    let start = SEGMENT_HEADER as u32;
    let block = BlockHeader { records: count, run: 1, body_len: body.len() as u32, group_start: start, headers_crc };
    let mut file = header.encode().to_vec();
    file.extend_from_slice(&block.encode(stamp));
    file.extend_from_slice(&body);
    file.resize((len as usize).max(SEGMENT_HEADER + BLOCK_HEADER + body.len()), 0);
    file
}
