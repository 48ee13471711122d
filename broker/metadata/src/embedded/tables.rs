//! The tables of the file, byte by byte.
//!
//! | table | key | value |
//! | --- | --- | --- |
//! | `meta` | `format`, `opened` | u64: the format number; how many times the file was opened |
//! | `nodes` | depth (1 byte), path | version (i64 LE), session (u64 LE, 0 = stays), the node's value |
//! | `ephemerals` | session (u64), path | nothing |
//! | `sequences` | path | u64: the next number |

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError, TableHandle, WriteTransaction};

use crate::plan::{self, Plan, Record, View};
use crate::sessions::Sessions;
use crate::{MetadataError, OpenError, Rejected, Transaction, key};

/// The format this version writes.
pub(super) const FORMAT: u64 = 1;
/// The oldest format this version reads.
const OLDEST_FORMAT: u64 = 1;

pub(super) const NODES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("nodes");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const EPHEMERALS: TableDefinition<'_, (u64, &str), ()> = TableDefinition::new("ephemerals");
const SEQUENCES: TableDefinition<'_, &str, u64> = TableDefinition::new("sequences");

/// Checks the format, removes what sessions of earlier runs left, counts the opening. Returns that count.
pub(super) fn prepare(database: &Database, path: &Path) -> Result<u64, OpenError> {
    let damaged = |reason: String| OpenError::Damaged { path: path.to_owned(), reason };
    check_format(database, path)?;
    let write = || -> Result<u64, redb::Error> {
        let transaction = database.begin_write()?;
        let opened = {
            let mut meta = transaction.open_table(META)?;
            meta.insert("format", FORMAT)?;
            let opened = meta.get("opened")?.map_or(0, |opened| opened.value()) + 1;
            meta.insert("opened", opened)?;
            let mut tables = Tables::open(&transaction)?;
            tables.remove_all_ephemerals()?;
            opened
        };
        transaction.commit()?;
        Ok(opened)
    };
    write().map_err(|error| damaged(error.to_string()))
}

fn check_format(database: &Database, path: &Path) -> Result<(), OpenError> {
    let damaged = |reason: String| OpenError::Damaged { path: path.to_owned(), reason };
    let foreign = |reason: String| OpenError::Foreign { path: path.to_owned(), reason };
    let snapshot = database.begin_read().map_err(|error| damaged(error.to_string()))?;
    let meta = match snapshot.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::TableDoesNotExist(_)) => {
            let mut tables = snapshot.list_tables().map_err(|error| damaged(error.to_string()))?;
            // Created and never written, or somebody else's.
            return match tables.next() {
                None => Ok(()),
                Some(table) => Err(foreign(format!("it has a table {:?} and no format number", table.name()))),
            };
        }
        Err(TableError::Storage(error)) => return Err(damaged(error.to_string())),
        Err(other) => return Err(foreign(other.to_string())),
    };
    let format = meta.get("format").map_err(|error| damaged(error.to_string()))?.map(|format| format.value());
    match format {
        Some(found) if found > FORMAT => Err(OpenError::NewerFormat { path: path.to_owned(), found, known: FORMAT }),
        Some(found) if found < OLDEST_FORMAT => Err(OpenError::OlderFormat { path: path.to_owned(), found, known: FORMAT }),
        Some(_) => Ok(()),
        None => Err(foreign("it has no format number".into())),
    }
}

/// A failure of the storage, as the caller hears it.
pub(super) fn unknown(error: impl std::fmt::Display) -> MetadataError {
    MetadataError::Unknown(error.to_string())
}

/// The path in a key of the file.
pub(super) fn path_of(key: &[u8]) -> Result<&str, MetadataError> {
    key::path_of(key).ok_or_else(|| unknown("a key in the store is not a path"))
}

/// A node from its bytes.
pub(super) fn decode(path: &str, bytes: &[u8]) -> Result<Record, MetadataError> {
    let parts = || {
        let (version, rest) = bytes.split_first_chunk::<8>()?;
        let (session, value) = rest.split_first_chunk::<8>()?;
        Some(Record { version: i64::from_le_bytes(*version), session: u64::from_le_bytes(*session), value: value.to_vec() })
    };
    parts().ok_or_else(|| unknown(format!("{path} has only {} bytes in the store", bytes.len())))
}

fn encode(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + record.value.len());
    bytes.extend_from_slice(&record.version.to_le_bytes());
    bytes.extend_from_slice(&record.session.to_le_bytes());
    bytes.extend_from_slice(&record.value);
    bytes
}

/// The tables of one write transaction.
pub(super) struct Tables<'t> {
    nodes: Table<'t, &'static [u8], &'static [u8]>,
    ephemerals: Table<'t, (u64, &'static str), ()>,
    sequences: Table<'t, &'static str, u64>,
}

impl<'t> Tables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Tables<'t>, TableError> {
        Ok(Tables {
            nodes: transaction.open_table(NODES)?,
            ephemerals: transaction.open_table(EPHEMERALS)?,
            sequences: transaction.open_table(SEQUENCES)?,
        })
    }

    /// Evaluates a transaction against everything written so far and, unless it is refused, writes it.
    /// Returns its outcomes and the nodes it changed; whether anything changed comes third.
    pub(super) fn execute(&mut self, sessions: &Sessions, transaction: Transaction) -> Result<Executed, MetadataError> {
        let plan = match plan::plan(&Viewed { tables: self, sessions }, transaction) {
            Ok(plan) => plan,
            Err(MetadataError::Rejected(refused)) => return Ok(Executed::refused(refused)),
            Err(failed) => return Err(failed),
        };
        let writes = !plan.changes_nothing();
        let changed = plan.nodes.keys().cloned().collect();
        let outcomes = self.write(plan).map_err(unknown)?;
        Ok(Executed { outcome: Ok(outcomes), changed, writes })
    }

    fn write(&mut self, plan: Plan) -> Result<Vec<i64>, redb::Error> {
        for (path, record) in plan.nodes {
            self.write_node(&path, record)?;
        }
        for (path, next) in plan.sequences {
            self.sequences.insert(path.as_str(), next.unsigned_abs())?;
        }
        Ok(plan.outcomes)
    }

    fn write_node(&mut self, path: &str, record: Option<Record>) -> Result<(), redb::Error> {
        let key = key::key(path);
        match record {
            Some(record) => {
                self.nodes.insert(key.as_slice(), encode(&record).as_slice())?;
                if record.session != 0 {
                    self.ephemerals.insert((record.session, path), ())?;
                }
            }
            None => {
                let removed = self.nodes.remove(key.as_slice())?;
                let session = removed.and_then(|bytes| decode(path, bytes.value()).ok()).map_or(0, |record| record.session);
                if session != 0 {
                    self.ephemerals.remove((session, path))?;
                }
            }
        }
        Ok(())
    }

    /// Removes the ephemeral nodes of a session.
    pub(super) fn end_session(&mut self, session: u64) -> Result<Executed, MetadataError> {
        let changed = self.remove_ephemerals(session, session).map_err(unknown)?;
        Ok(Executed { outcome: Ok(Vec::new()), writes: !changed.is_empty(), changed })
    }

    fn remove_all_ephemerals(&mut self) -> Result<(), redb::Error> {
        self.remove_ephemerals(0, u64::MAX).map(drop)
    }

    fn remove_ephemerals(&mut self, first: u64, last: u64) -> Result<Vec<String>, redb::Error> {
        let mut gone = Vec::new();
        for entry in self.ephemerals.range((first, "")..)? {
            let entry = entry?.0;
            let (session, path) = entry.value();
            if session > last {
                break;
            }
            gone.push((session, path.to_owned()));
        }
        let mut changed = Vec::with_capacity(gone.len());
        for (session, path) in gone {
            self.ephemerals.remove((session, path.as_str()))?;
            self.nodes.remove(key::key(&path).as_slice())?;
            changed.push(path);
        }
        Ok(changed)
    }
}

/// What one task came to, before it is durable.
pub(super) struct Executed {
    pub(super) outcome: Result<Vec<i64>, Rejected>,
    pub(super) changed: Vec<String>,
    /// Whether it wrote anything: without, there is nothing to sync.
    pub(super) writes: bool,
}

impl Executed {
    fn refused(refused: Rejected) -> Executed {
        Executed { outcome: Err(refused), changed: Vec::new(), writes: false }
    }
}

struct Viewed<'v, 't> {
    tables: &'v Tables<'t>,
    sessions: &'v Sessions,
}

impl View for Viewed<'_, '_> {
    fn record(&self, path: &str) -> Result<Option<Record>, MetadataError> {
        let found = self.tables.nodes.get(key::key(path).as_slice()).map_err(unknown)?;
        found.map(|bytes| decode(path, bytes.value())).transpose()
    }

    fn any_child(&self, path: &str, ignored: &dyn Fn(&str) -> bool) -> Result<bool, MetadataError> {
        let range = key::children(path);
        for child in self.tables.nodes.range::<&[u8]>(range.start.as_slice()..range.end.as_slice()).map_err(unknown)? {
            let (key, _) = child.map_err(unknown)?;
            if !ignored(path_of(key.value())?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next_number(&self, path: &str) -> Result<i64, MetadataError> {
        let next = self.tables.sequences.get(path).map_err(unknown)?;
        let next = next.map_or(0, |next| next.value());
        i64::try_from(next).map_err(|_| unknown(format!("the sequence {path} is used up")))
    }

    fn session_is_open(&self, session: u64) -> bool {
        self.sessions.is_open(session)
    }
}
