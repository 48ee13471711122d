//! What a transaction would change: the rules of the tree, without any storage.

use std::collections::BTreeMap;

use crate::key::{self, MAX_VALUE};
use crate::{Expected, MetadataError, Op, Rejected, Transaction};

/// A node as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) version: i64,
    /// The session it ends with; 0 when it stays.
    pub(crate) session: u64,
    pub(crate) value: Vec<u8>,
}

/// The tree as an engine has it. Errors are failures of the storage.
pub(crate) trait View {
    fn record(&self, path: &str) -> Result<Option<Record>, MetadataError>;
    /// Whether the node has a child whose path is not `ignored`.
    fn any_child(&self, path: &str, ignored: &dyn Fn(&str) -> bool) -> Result<bool, MetadataError>;
    /// The next number of a sequence.
    fn next_number(&self, path: &str) -> Result<i64, MetadataError>;
    fn session_is_open(&self, session: u64) -> bool;
}

/// Changes to be made together.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) outcomes: Vec<i64>,
    /// Nodes as they will be; none where one is removed.
    pub(crate) nodes: BTreeMap<String, Option<Record>>,
    /// Next numbers as they will be.
    pub(crate) sequences: BTreeMap<String, i64>,
}

impl Plan {
    pub(crate) fn changes_nothing(&self) -> bool {
        self.nodes.is_empty() && self.sequences.is_empty()
    }
}

/// What `transaction` does to the tree, or why it is refused.
pub(crate) fn plan(view: &dyn View, transaction: Transaction) -> Result<Plan, MetadataError> {
    let mut planner = Planner { view, plan: Plan::default() };
    for op in transaction.ops {
        let outcome = planner.step(op)?;
        planner.plan.outcomes.push(outcome);
    }
    Ok(planner.plan)
}

struct Planner<'v> {
    view: &'v dyn View,
    plan: Plan,
}

impl Planner<'_> {
    fn step(&mut self, op: Op) -> Result<i64, MetadataError> {
        match op {
            Op::Put { path, value, expected, session } => self.put(path, value, expected, session.unwrap_or(0)),
            Op::Delete { path, expected } => self.delete(path, expected),
            Op::Check { path, expected } => Ok(self.expect(&path, expected)?.map_or(-1, |record| record.version)),
            Op::CheckEmpty { path } => self.expect_empty(&path).map(|()| 0),
            Op::Reserve { path, count } => self.reserve(path, count),
        }
    }

    fn put(&mut self, path: String, value: Vec<u8>, expected: Expected, session: u64) -> Result<i64, MetadataError> {
        if value.len() > MAX_VALUE {
            return Err(Rejected::TooLarge { path, size: value.len(), limit: MAX_VALUE }.into());
        }
        if session != 0 && !self.view.session_is_open(session) {
            return Err(Rejected::SessionEnded { session }.into());
        }
        let found = match expected {
            Expected::Any => self.find(&path)?,
            _ => self.expect(&path, expected)?,
        };
        let record = match found {
            Some(found) if session != 0 && found.session != session => return Err(Rejected::Exists { path }.into()),
            Some(found) => Record { version: found.version + 1, session: found.session, value },
            None => {
                self.create_parents(&path)?;
                Record { version: 0, session, value }
            }
        };
        let version = record.version;
        self.plan.nodes.insert(path, Some(record));
        Ok(version)
    }

    fn create_parents(&mut self, path: &str) -> Result<(), MetadataError> {
        let mut above = key::parent(path);
        while let Some(parent) = above {
            match self.find(parent)? {
                Some(found) if found.session != 0 => {
                    return Err(Rejected::BadPath { path: path.to_owned(), reason: "a node above it is ephemeral" }.into());
                }
                Some(_) => return Ok(()),
                None => self.plan.nodes.insert(parent.to_owned(), Some(Record { version: 0, session: 0, value: Vec::new() })),
            };
            above = key::parent(parent);
        }
        Ok(())
    }

    fn delete(&mut self, path: String, expected: Expected) -> Result<i64, MetadataError> {
        let Some(found) = self.expect(&path, expected)? else { return Ok(-1) };
        self.expect_empty(&path)?;
        self.plan.nodes.insert(path, None);
        Ok(found.version)
    }

    fn reserve(&mut self, path: String, count: u32) -> Result<i64, MetadataError> {
        key::check(&path)?;
        let next = match self.plan.sequences.get(&path) {
            Some(next) => *next,
            None => self.view.next_number(&path)?,
        };
        if count > 0 {
            self.plan.sequences.insert(path, next + i64::from(count));
        }
        Ok(next)
    }

    fn expect(&self, path: &str, expected: Expected) -> Result<Option<Record>, MetadataError> {
        let found = self.find(path)?;
        let refused = match (expected, &found) {
            (Expected::Any, Some(_)) | (Expected::Absent, None) => return Ok(found),
            (Expected::Version(expected), Some(record)) if record.version == expected => return Ok(found),
            (Expected::Any | Expected::Version(_), None) => Rejected::NotFound { path: path.to_owned() },
            (Expected::Absent, Some(_)) => Rejected::Exists { path: path.to_owned() },
            (Expected::Version(expected), Some(record)) => {
                Rejected::VersionConflict { path: path.to_owned(), expected, found: record.version }
            }
        };
        Err(refused.into())
    }

    fn expect_empty(&self, path: &str) -> Result<(), MetadataError> {
        key::check_or_root(path)?;
        let planned = |child: &str| matches!(self.plan.nodes.get(child), Some(None));
        // Anything planned below has its parents in place, so it stands for a child.
        let below = format!("{}/", path.trim_end_matches('/'));
        let mut planned_below = self.plan.nodes.range(below.clone()..).take_while(|(other, _)| other.starts_with(&below));
        if planned_below.any(|(_, record)| record.is_some()) || self.view.any_child(path, &planned)? {
            return Err(Rejected::NotEmpty { path: path.to_owned() }.into());
        }
        Ok(())
    }

    fn find(&self, path: &str) -> Result<Option<Record>, MetadataError> {
        key::check(path)?;
        match self.plan.nodes.get(path) {
            Some(planned) => Ok(planned.clone()),
            None => self.view.record(path),
        }
    }
}
