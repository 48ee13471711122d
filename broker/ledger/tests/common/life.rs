//! A random life of a log on simulated files, and the account of what it promised.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use geminga_ledger::log::LogOptions;
use geminga_ledger::log::sim::{SimFiles, SteppedLog};
use geminga_ledger::{BlockBuilder, Done, EntryId, LedgerId, LedgerStore, Position, Purpose, ReadRange, Sealed, StoreError, StoredEntry};

pub(crate) const DIR: &str = "/data/log";

/// What a log was asked and what it answered.
#[derive(Clone, Default)]
pub(crate) struct Account(Arc<Mutex<BTreeMap<i64, Ledger>>>);

#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    purpose: Purpose,
    /// The last entry handed over, and the last one reported durable.
    asked: i64,
    acked: i64,
    end_asked: bool,
    end: Option<Sealed>,
    delete_asked: bool,
    deleted: bool,
}

/// A log and the random sequence it lives through.
pub(crate) struct Life {
    pub(crate) files: SimFiles,
    pub(crate) options: LogOptions,
    pub(crate) account: Account,
    random: fastrand::Rng,
    /// How many calls share a turn, on average.
    pub(crate) calls_per_turn: u32,
    /// Bytes moved and segments freed by compaction.
    pub(crate) moved: u64,
    pub(crate) freed: u64,
}

impl Life {
    pub(crate) fn new(seed: u64, files: SimFiles, options: LogOptions, account: Account) -> Life {
        Life { files, options, account, random: fastrand::Rng::with_seed(seed), calls_per_turn: 3, moved: 0, freed: 0 }
    }

    /// Lives until `steps` are done or the disk is gone.
    pub(crate) fn live(&mut self, steps: usize) {
        let Ok(mut log) = SteppedLog::open(&self.files, Path::new(DIR), self.options.clone()) else { return };
        for _ in 0..steps {
            match self.random.u32(0..100) {
                0..12 => self.create(&log),
                12..70 => self.append(&log),
                70..76 => self.end(&log),
                76..84 => self.delete(&log),
                84..94 => while log.compact() {},
                94..97 => {
                    log.turn();
                    self.note(&log);
                    if self.random.bool() {
                        log.close();
                    } else {
                        drop(log);
                    }
                    let Ok(again) = SteppedLog::open(&self.files, Path::new(DIR), self.options.clone()) else { return };
                    log = again;
                }
                _ => {}
            }
            // Several calls often share a turn, and so a group.
            if self.random.u32(0..self.calls_per_turn) == 0 {
                log.turn();
            }
        }
        log.turn();
        self.note(&log);
    }

    fn note(&mut self, log: &SteppedLog) {
        let counters = log.log().counters();
        self.moved += counters.moved_bytes;
        self.freed += counters.segments_freed;
    }

    fn create(&mut self, log: &SteppedLog) {
        let purpose = if self.random.u32(0..3) == 0 { Purpose::Cursor } else { Purpose::Data };
        let account = self.account.clone();
        log.log().create(
            purpose,
            Box::new(move |created| {
                if let Ok(id) = created {
                    let ledger = Ledger { purpose, asked: -1, acked: -1, end_asked: false, end: None, delete_asked: false, deleted: false };
                    let before = account.lock().insert(id.0, ledger);
                    assert!(before.is_none(), "ledger {id} was created twice");
                }
            }),
        );
    }

    fn append(&mut self, log: &SteppedLog) {
        let mut builder = BlockBuilder::new();
        let mut pushed = Vec::new();
        for _ in 0..self.random.usize(1..4) {
            let Some(id) = self.pick() else { continue };
            for _ in 0..self.random.usize(1..6) {
                let entry = self.account.with(id, |ledger| {
                    ledger.asked += 1;
                    ledger.asked
                });
                builder.push(Position { ledger: LedgerId(id), entry: EntryId(entry) }, entry - 1, &payload(id, entry));
                pushed.push((id, entry));
            }
        }
        let account = self.account.clone();
        log.log().append(
            builder.finish(),
            Box::new(move |appended| {
                for (id, entry) in pushed {
                    match &appended {
                        Ok(()) => account.with(id, |ledger| ledger.acked = ledger.acked.max(entry)),
                        // The owner lets go of the ledger.
                        Err(_) => account.with(id, |ledger| ledger.end_asked = true),
                    }
                }
            }),
        );
    }

    fn end(&mut self, log: &SteppedLog) {
        let Some(id) = self.pick() else { return };
        self.account.with(id, |ledger| ledger.end_asked = true);
        let account = self.account.clone();
        let done: Done<Sealed> = Box::new(move |end| {
            if let Ok(end) = end {
                account.with(id, |ledger| ledger.end = Some(end));
            }
        });
        if self.random.bool() { log.log().seal(LedgerId(id), done) } else { log.log().open_fenced(LedgerId(id), done) }
    }

    fn delete(&mut self, log: &SteppedLog) {
        let Some(id) = self.pick() else { return };
        self.account.with(id, |ledger| (ledger.delete_asked, ledger.end_asked) = (true, true));
        let account = self.account.clone();
        log.log().delete(
            vec![LedgerId(id)],
            Box::new(move |deleted| {
                if deleted.is_ok() {
                    account.with(id, |ledger| ledger.deleted = true);
                }
            }),
        );
    }

    /// A ledger that takes entries.
    fn pick(&mut self) -> Option<i64> {
        let account = self.account.lock();
        let open: Vec<i64> = account.iter().filter(|(_, ledger)| !ledger.end_asked).map(|(id, _)| *id).collect();
        self.random.choice(open)
    }
}

impl Account {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<i64, Ledger>> {
        self.0.lock().expect("no panic")
    }

    fn with<T>(&self, id: i64, change: impl FnOnce(&mut Ledger) -> T) -> T {
        change(self.lock().get_mut(&id).expect("a known ledger"))
    }

    pub(crate) fn acked(&self) -> i64 {
        self.lock().values().map(|ledger| ledger.acked + 1).sum()
    }

    /// Opens the log on `files` and compares; says what is wrong. What was found becomes what is promised from now on.
    pub(crate) fn check(&self, files: &SimFiles, options: &LogOptions) -> Result<(), String> {
        let log = SteppedLog::open(files, Path::new(DIR), options.clone()).map_err(|error| format!("it does not open: {error}"))?;
        let listed = ask(&log, LedgerStore::list).map_err(|error| error.to_string())?;
        let mut account = self.lock();
        for (id, ledger) in account.iter_mut() {
            ledger.check(*id, &log, listed.contains(&LedgerId(*id)))?;
        }
        for id in &listed {
            if !account.contains_key(&id.0) && !read(&log, *id, 0, 1 << 40)?.is_empty() {
                return Err(format!("ledger {id} was never reported and has entries"));
            }
        }
        let highest = account.keys().next_back().copied().unwrap_or(-1);
        drop(account);
        let next = ask(&log, |log, done| log.create(Purpose::Data, done)).map_err(|error| error.to_string())?;
        if next.0 <= highest { Err(format!("id {next} is given again")) } else { Ok(()) }
    }
}

impl Ledger {
    fn check(&mut self, id: i64, log: &SteppedLog, listed: bool) -> Result<(), String> {
        if self.deleted {
            return if listed { Err(format!("ledger {id} was deleted and is back")) } else { Ok(()) };
        }
        if !listed {
            self.deleted = true;
            return if self.delete_asked { Ok(()) } else { Err(format!("ledger {id} is gone")) };
        }
        self.delete_asked = false;
        let last = match self.purpose {
            Purpose::Data => self.check_all(id, log)?,
            Purpose::Cursor => self.check_last(id, log)?,
        };
        if last < self.acked || last > self.asked {
            return Err(format!("ledger {id} ends at {last}, acked {}, asked {}", self.acked, self.asked));
        }
        (self.acked, self.asked) = (last, last);
        if let Some(end) = self.end {
            let found = ask(log, |log, done| log.open_fenced(LedgerId(id), done)).map_err(|error| error.to_string())?;
            if found != end {
                return Err(format!("ledger {id} was sealed at {end:?} and is now {found:?}"));
            }
        }
        Ok(())
    }

    /// Everything that is there is what was handed over, without a hole.
    fn check_all(&self, id: i64, log: &SteppedLog) -> Result<i64, String> {
        let mut next = 0;
        loop {
            let found = read(log, LedgerId(id), next, i64::MAX - 1)?;
            if found.is_empty() {
                return Ok(next - 1);
            }
            for entry in found {
                if entry.id.0 != next || entry.bytes != payload(id, next) {
                    return Err(format!("ledger {id}: entry {} is not what was written as {next}", entry.id.0));
                }
                next += 1;
            }
        }
    }

    fn check_last(&self, id: i64, log: &SteppedLog) -> Result<i64, String> {
        let found = read(log, LedgerId(id), self.acked.max(0), i64::MAX - 1)?;
        match found.last() {
            Some(entry) if entry.bytes == payload(id, entry.id.0) => Ok(entry.id.0),
            Some(entry) => Err(format!("cursor ledger {id}: entry {} is not what was written", entry.id.0)),
            None => Ok(-1),
        }
    }
}

fn read(log: &SteppedLog, ledger: LedgerId, from: i64, last: i64) -> Result<Vec<StoredEntry>, String> {
    let range = ReadRange { ledger, from: EntryId(from), last: EntryId(last), max_entries: 64, max_bytes: 1 << 20 };
    ask(log, |log, done| log.read(range, done)).map_err(|error| format!("reading {range:?}: {error}"))
}

pub(crate) fn ask<T: Send + 'static>(log: &SteppedLog, call: impl FnOnce(&dyn LedgerStore, Done<T>)) -> Result<T, StoreError> {
    let (sender, receiver) = std::sync::mpsc::channel();
    call(log.log(), Box::new(move |result| drop(sender.send(result))));
    log.turn();
    receiver.try_recv().expect("a turn answers every call")
}

/// Mostly small, sometimes larger than a sector, rarely many sectors.
pub(crate) fn payload(ledger: i64, entry: i64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed((ledger as u64) << 32 | entry as u64);
    let len = match random.u32(0..20) {
        0 => random.usize(0..6000),
        1..5 => random.usize(0..900),
        _ => random.usize(0..120),
    };
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}
