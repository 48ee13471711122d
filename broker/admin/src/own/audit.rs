//! Who did what: a line for every request that changes something and for everyone who was turned away. Lines are only added; each
//! carries the hash of the one before it, so that one that was changed or taken out shows. The file has a bound: when it is full it
//! becomes the old one, and the old one before it goes.
//!
//! A line is written before its request is answered, but not synced: a loss of power may lose the last few seconds.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::Call;

/// Where the log is, and how large one of its two files may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFiles {
    /// A directory of its own.
    pub directory: PathBuf,
    /// Bytes of one file.
    pub max_bytes: u64,
}

const NEWEST: &str = "audit.log";
const OLD: &str = "audit.old.log";

/// How much of the files one question reads.
const READ_AT_ONCE: u64 = 4 << 20;
/// The longest line: what callers choose is cut long before.
const LONGEST_LINE: usize = 8 * 1024;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    /// SHA-256 of the line before.
    pub(crate) prev: String,
    pub(crate) time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) principal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,
    pub(crate) addr: String,
    /// The row of the route table.
    pub(crate) route: String,
    /// What it was about.
    pub(crate) resource: String,
    pub(crate) status: u16,
    pub(crate) ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etag_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etag_after: Option<String>,
    /// Of the body, which itself is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
    pub(crate) request_id: String,
    /// Others who were turned away before, and for whom there was no room.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) unwritten: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Lines a minute for those who are turned away: whoever cannot come in shall not push out what others did.
const TURNED_AWAY: u32 = 120;

/// See the module. All of it blocks: for control threads.
#[derive(Default)]
pub(crate) struct Audit {
    log: Mutex<Option<Log>>,
    trouble: Mutex<Option<String>>,
    turned_away: Mutex<TurnedAway>,
}

#[derive(Default)]
struct TurnedAway {
    since: Option<Instant>,
    written: u32,
    unwritten: u64,
}

struct Log {
    files: AuditFiles,
    newest: File,
    bytes: u64,
    seq: u64,
    last: String,
}

impl Audit {
    /// What keeps it from being written, if anything does.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there is room for one more who was turned away; else it is counted, and told of with the next one.
    pub(crate) fn has_room(&self, now: Instant) -> Option<u64> {
        let mut away = self.turned_away.lock().unwrap_or_else(PoisonError::into_inner);
        if away.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(60)) {
            (away.since, away.written) = (Some(now), 0);
        }
        if away.written >= TURNED_AWAY {
            away.unwritten += 1;
            return None;
        }
        away.written += 1;
        Some(std::mem::take(&mut away.unwritten))
    }

    /// Adds a line; its number and what it follows are set here. Returns it as it was written.
    pub(crate) fn add(&self, files: &AuditFiles, entry: Entry) -> Option<Entry> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = match &mut *log {
            Some(log) => log.add(entry),
            none => Log::open(files.clone()).and_then(|opened| none.insert(opened).add(entry)),
        };
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(entry) => {
                *trouble = None;
                Some(entry)
            }
            Err(error) => {
                if trouble.is_none() {
                    tracing::error!(%error, directory = %files.directory.display(), "the audit log cannot be written");
                }
                *trouble = Some(error.to_string());
                // Opened anew next time: what is in the file then is known again.
                *log = None;
                None
            }
        }
    }
}

impl Log {
    fn open(files: AuditFiles) -> io::Result<Self> {
        std::fs::create_dir_all(&files.directory)?;
        let path = files.directory.join(NEWEST);
        let mut newest = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        let bytes = newest.metadata()?.len();
        let mut last = last_line(&mut newest, bytes)?;
        if !last.is_empty() && !last.ends_with(b"\n") {
            // The process ended in the middle of it: the line is closed, so that the next one is whole.
            newest.write_all(b"\n")?;
            last.push(b'\n');
        }
        let mut log = Self { bytes: newest.metadata()?.len(), files, newest, seq: 0, last: String::new() };
        if last.is_empty()
            && let Ok(mut old) = File::open(log.files.directory.join(OLD))
        {
            let bytes = old.metadata()?.len();
            last = last_line(&mut old, bytes)?;
        }
        let line = last.trim_ascii_end();
        if !line.is_empty() {
            // A line that cannot be read is followed like any other; only its number is lost.
            log.seq = serde_json::from_slice::<Entry>(line).map_or_else(|_| line.len() as u64, |entry| entry.seq + 1);
            log.last = hash(line);
        }
        Ok(log)
    }

    fn add(&mut self, entry: Entry) -> io::Result<Entry> {
        let entry = Entry { seq: self.seq, prev: self.last.clone(), ..entry };
        let mut line = serde_json::to_vec(&entry).map_err(io::Error::other)?;
        if self.bytes > 0 && self.bytes + line.len() as u64 >= self.files.max_bytes {
            self.begin_another()?;
        }
        self.last = hash(&line);
        line.push(b'\n');
        self.newest.write_all(&line)?;
        self.bytes += line.len() as u64;
        self.seq += 1;
        Ok(entry)
    }

    fn begin_another(&mut self) -> io::Result<()> {
        let path = self.files.directory.join(NEWEST);
        self.newest.sync_data()?;
        std::fs::rename(&path, self.files.directory.join(OLD))?;
        self.newest = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        self.bytes = 0;
        Ok(())
    }
}

fn last_line(file: &mut File, bytes: u64) -> io::Result<Vec<u8>> {
    let begin = bytes.saturating_sub(LONGEST_LINE as u64);
    file.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    file.take(LONGEST_LINE as u64).read_to_end(&mut end)?;
    let body = end.strip_suffix(b"\n").unwrap_or(&end);
    let from = body.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    Ok(end.split_off(from))
}

/// As it is written.
pub(crate) fn hash(bytes: &[u8]) -> String {
    hex(&digest(bytes))
}

pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// What a reader of the log asks for.
struct Question {
    since: Option<String>,
    principal: Option<String>,
    resource: Option<String>,
    limit: usize,
    /// Entries before this number.
    before: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    items: Vec<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// GET: the newest lines first: `since` (a time), `principal`, `resource` (a part of it), `limit`, `cursor`.
pub(crate) async fn list(call: Call) -> Result<Reply, Refusal> {
    let Some(files) = call.options().audit.clone() else {
        return Err(Refusal::not_found("There is no audit log: this broker was started without a directory for it"));
    };
    let number = |name: &str, usual: usize| match call.query.get(name) {
        None => Ok(usual),
        Some(text) => text.parse().map_err(|_| Refusal::bad_request(format!("{name} is a number, not {text:?}"))),
    };
    let owned = |name: &str| call.query.get(name).map(str::to_owned);
    let before = match call.query.get("cursor") {
        None => None,
        Some(text) => {
            Some(text.parse().map_err(|_| Refusal::bad_request("cursor: this is not the nextCursor of a page of the audit log"))?)
        }
    };
    let limit = number("limit", 100)?.clamp(1, 1_000);
    let question = Question { since: owned("since"), principal: owned("principal"), resource: owned("resource"), limit, before };
    let found = call.handle().control(move |_| find(&files.directory, &question)).await?;
    Reply::json(&found.map_err(|error| Refusal::internal(format!("the audit log cannot be read: {error}")))?)
}

fn find(directory: &Path, question: &Question) -> io::Result<Found> {
    let mut found = Found { items: Vec::new(), next_cursor: None };
    let mut budget = READ_AT_ONCE;
    for name in [NEWEST, OLD] {
        let mut lines = match File::open(directory.join(name)) {
            Ok(file) => Backwards::new(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        while let Some(line) = lines.next()? {
            let Ok(entry) = serde_json::from_slice::<Entry>(&line) else { continue };
            if question.before.is_some_and(|before| entry.seq >= before) {
                continue;
            }
            if question.since.as_ref().is_some_and(|since| entry.time < *since) {
                return Ok(found);
            }
            let seq = entry.seq;
            if question.is_met_by(&entry) {
                found.items.push(entry);
            }
            budget = budget.saturating_sub(line.len() as u64);
            if found.items.len() >= question.limit || budget == 0 {
                found.next_cursor = (seq > 0).then(|| seq.to_string());
                return Ok(found);
            }
        }
    }
    Ok(found)
}

impl Question {
    fn is_met_by(&self, entry: &Entry) -> bool {
        self.principal.as_ref().is_none_or(|wanted| entry.principal.as_ref() == Some(wanted))
            && self.resource.as_ref().is_none_or(|wanted| entry.resource.contains(wanted.as_str()))
    }
}

/// The lines of a file, the last first, a block at a time.
struct Backwards {
    file: File,
    /// Where the block begins that was read last.
    at: u64,
    /// What was read and not yet given, in the file's order.
    block: Vec<u8>,
}

impl Backwards {
    const BLOCK: u64 = 64 * 1024;

    fn new(file: File) -> io::Result<Self> {
        let at = file.metadata()?.len();
        Ok(Self { file, at, block: Vec::new() })
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let body = self.block.strip_suffix(b"\n").unwrap_or(&self.block).len();
            let line = self.block.get(..body).and_then(|body| body.iter().rposition(|byte| *byte == b'\n'));
            match line {
                Some(at) => {
                    self.block.truncate(body);
                    let line = self.block.split_off(at + 1);
                    return Ok(Some(line));
                }
                None if self.at == 0 && body == 0 => return Ok(None),
                None if self.at == 0 => {
                    self.block.truncate(body);
                    return Ok(Some(std::mem::take(&mut self.block)));
                }
                None => self.read_on()?,
            }
        }
    }

    fn read_on(&mut self) -> io::Result<()> {
        let from = self.at.saturating_sub(Self::BLOCK);
        self.file.seek(SeekFrom::Start(from))?;
        let mut block = Vec::new();
        (&mut self.file).take(self.at - from).read_to_end(&mut block)?;
        block.append(&mut self.block);
        self.block = block;
        self.at = from;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u64) -> Entry {
        Entry {
            seq: 0,
            prev: String::new(),
            time: format!("2026-01-05T10:00:{:02}.000Z", n % 60),
            principal: Some(if n.is_multiple_of(2) { "even" } else { "odd" }.into()),
            method: None,
            addr: "192.0.2.7".into(),
            route: "PUT /x/{y}".into(),
            resource: format!("y{n}"),
            status: 204,
            ms: 1,
            etag_before: None,
            etag_after: None,
            body_sha256: None,
            idempotency_key: None,
            request_id: "r".into(),
            unwritten: 0,
        }
    }

    fn files(max_bytes: u64) -> (tempfile::TempDir, AuditFiles) {
        let directory = tempfile::tempdir().unwrap();
        let files = AuditFiles { directory: directory.path().join("audit"), max_bytes };
        (directory, files)
    }

    fn question(limit: usize) -> Question {
        Question { since: None, principal: None, resource: None, limit, before: None }
    }

    /// All lines there are, the oldest first, and that each follows the one before it.
    fn chain(files: &AuditFiles) -> Vec<Entry> {
        let read = |name| std::fs::read_to_string(files.directory.join(name)).unwrap_or_default();
        let text = read(OLD) + &read(NEWEST);
        let entries: Vec<Entry> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for (line, next) in text.lines().zip(entries.iter().skip(1)) {
            assert_eq!(next.prev, hash(line.as_bytes()));
        }
        entries
    }

    #[test]
    fn each_line_carries_the_hash_of_the_one_before_it_across_files_and_restarts() {
        let (_keep, files) = files(2_000);
        for n in 0..30 {
            assert_eq!(Audit::default().add(&files, entry(n)).unwrap().seq, n, "opened anew each time");
        }
        let entries = chain(&files);
        assert!(entries.len() < 20, "the oldest are gone");
        assert_eq!(entries.last().unwrap().resource, "y29");
        for name in [NEWEST, OLD] {
            assert!(std::fs::metadata(files.directory.join(name)).unwrap().len() < 2_000, "{name}");
        }
    }

    #[test]
    fn a_line_that_was_changed_breaks_the_chain() {
        let (_keep, files) = files(1 << 20);
        let audit = Audit::default();
        for n in 0..3 {
            audit.add(&files, entry(n)).unwrap();
        }
        let path = files.directory.join(NEWEST);
        let forged = std::fs::read_to_string(&path).unwrap().replace("y1", "y7");
        std::fs::write(&path, forged).unwrap();
        assert!(std::panic::catch_unwind(|| chain(&files)).is_err());
    }

    #[test]
    fn a_torn_last_line_is_closed_and_followed() {
        let (_keep, files) = files(1 << 20);
        Audit::default().add(&files, entry(0)).unwrap();
        let path = files.directory.join(NEWEST);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        Audit::default().add(&files, entry(1)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let next: Entry = serde_json::from_str(lines[1]).unwrap();
        assert_eq!((lines.len(), next.prev), (2, hash(lines[0].as_bytes())));
    }

    #[test]
    fn the_newest_come_first_and_pages_go_back_through_both_files() {
        let (_keep, files) = files(40_000);
        let audit = Audit::default();
        for n in 0..150 {
            audit.add(&files, entry(n)).unwrap();
        }
        let all = chain(&files);
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let found = find(&files.directory, &Question { before, ..question(7) }).unwrap();
            seen.extend(found.items);
            match found.next_cursor {
                Some(cursor) => before = Some(cursor.parse().unwrap()),
                None => break,
            }
        }
        assert_eq!(seen, all.iter().rev().cloned().collect::<Vec<_>>());
        let odd = find(&files.directory, &Question { principal: Some("odd".into()), ..question(3) }).unwrap();
        assert!(odd.items.iter().all(|entry| entry.principal.as_deref() == Some("odd")) && odd.items.len() == 3);
        let one = find(&files.directory, &Question { resource: Some("y149".into()), ..question(9) }).unwrap();
        assert_eq!(one.items.len(), 1);
    }

    #[test]
    fn those_who_are_turned_away_do_not_push_out_what_others_did() {
        let (audit, now) = (Audit::default(), Instant::now());
        let written = (0..1_000).filter(|_| audit.has_room(now).is_some()).count();
        assert_eq!(written, 120);
        assert_eq!(audit.has_room(now + Duration::from_secs(61)), Some(880), "how many there was no room for is told");
        assert_eq!(audit.has_room(now + Duration::from_secs(61)), Some(0));
    }

    #[test]
    fn a_log_that_cannot_be_written_is_told_of() {
        let (_keep, files) = files(1 << 20);
        std::fs::write(&files.directory, "a file where the directory should be").unwrap();
        let audit = Audit::default();
        assert_eq!(audit.add(&files, entry(0)), None);
        assert!(audit.trouble().is_some());
        std::fs::remove_file(&files.directory).unwrap();
        assert!(audit.add(&files, entry(0)).is_some());
        assert_eq!(audit.trouble(), None);
    }
}
