//! What a slot is: a policy's field, where its value is kept in it, and its doors on both levels.

use hyper::Method;
use metadata::namespaces::{Policies, PolicyError};
use serde_json::{Map, Value};

use super::DoorLine;
use super::shape::Shape;
use crate::routes::Mark;

/// A policy that can be read, set and unset under a namespace, a topic, or both.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) mark: Mark,
    /// Its field in the stored policies, the same on both levels.
    pub(crate) field: &'static str,
    pub(crate) kept: Kept,
    pub(crate) shape: Shape,
    pub(crate) namespace: Option<Door>,
    pub(crate) topic: Option<Door>,
    /// What it says, for people.
    pub(crate) what: &'static str,
}

/// Where a value is in its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is the field.
    Whole,
    /// Under the name of this cluster.
    ByCluster,
    /// Under the kind that the query asks for; read as a whole.
    ByKind,
}

/// A level of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Namespace,
    Topic,
}

/// Where a slot is under a level.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) suffix: &'static str,
    /// Where it is read, if not there.
    pub(crate) shown_at: Option<&'static str>,
    pub(crate) set: Set,
    pub(crate) unset: Unset,
    /// What is answered while it is not set; nothing for 204.
    pub(crate) unsaid: &'static str,
}

/// How a slot is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    Post,
    Put,
}

/// Where a slot is unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unset {
    There,
    Nowhere,
    At(&'static str),
}

/// A door that is read, set by POST and unset at one place.
pub(crate) const fn post(suffix: &'static str) -> Door {
    Door { suffix, shown_at: None, set: Set::Post, unset: Unset::There, unsaid: "" }
}

/// A door that is set by PUT.
pub(crate) const fn put(suffix: &'static str) -> Door {
    Door { set: Set::Put, ..post(suffix) }
}

impl Door {
    /// It is always set, to `unsaid` at first.
    pub(crate) const fn always(self, unsaid: &'static str) -> Door {
        Door { unset: Unset::Nowhere, unsaid, ..self }
    }
    /// What is answered while it is not set.
    pub(crate) const fn or(self, unsaid: &'static str) -> Door {
        Door { unsaid, ..self }
    }
    pub(crate) const fn shown_at(self, suffix: &'static str) -> Door {
        Door { shown_at: Some(suffix), ..self }
    }
    pub(crate) const fn unset_at(self, suffix: &'static str) -> Door {
        Door { unset: Unset::At(suffix), ..self }
    }

    pub(crate) fn shown(&self) -> &'static str {
        self.shown_at.unwrap_or(self.suffix)
    }

    pub(crate) fn set_by(&self) -> Method {
        match self.set {
            Set::Post => Method::POST,
            Set::Put => Method::PUT,
        }
    }

    pub(crate) fn unset_suffix(&self) -> Option<&'static str> {
        match self.unset {
            Unset::There => Some(self.suffix),
            Unset::Nowhere => None,
            Unset::At(suffix) => Some(suffix),
        }
    }

    pub(super) fn line(&self) -> DoorLine {
        let by = match self.set {
            Set::Post => "POST",
            Set::Put => "PUT",
        };
        DoorLine { shown_at: self.shown(), set_at: (by, self.suffix), unset_at: self.unset_suffix(), unsaid: self.unsaid }
    }
}

impl Slot {
    pub(crate) fn door(&self, level: Level) -> Option<&Door> {
        match level {
            Level::Namespace => self.namespace.as_ref(),
            Level::Topic => self.topic.as_ref(),
        }
    }

    /// The value in policies; none when it is not set.
    pub(crate) fn read<'p>(&self, policies: &'p Policies, cluster: &str) -> Option<&'p Value> {
        let field = policies.field(self.field)?;
        match self.kept {
            Kept::Whole | Kept::ByKind => Some(field),
            Kept::ByCluster => field.get(cluster).filter(|value| !value.is_null()),
        }
    }

    /// Sets the value, or unsets it by null; `key` is the cluster or the kind.
    pub(crate) fn write(&self, policies: &mut Policies, key: &str, value: Value) -> Result<(), PolicyError> {
        match (self.kept, value) {
            (Kept::Whole, Value::Null) => drop(policies.unset(self.field)),
            (Kept::Whole, value) => policies.set(self.field, value)?,
            (_, value) => {
                let mut all = policies.field(self.field).and_then(Value::as_object).cloned().unwrap_or_default();
                match value {
                    Value::Null => drop(all.shift_remove(key)),
                    value => drop(all.insert(key.to_owned(), value)),
                }
                self.write_all(policies, all)?;
            }
        }
        consistent(policies, self.field)
    }

    fn write_all(&self, policies: &mut Policies, all: Map<String, Value>) -> Result<(), PolicyError> {
        // A namespace shows the field even without entries; a topic does not keep what says nothing.
        let born_with = policies.field("bundles").is_some();
        match all.is_empty() && !born_with {
            true => drop(policies.unset(self.field)),
            false => policies.set(self.field, all)?,
        }
        Ok(())
    }
}

/// Policies that say something about each other. Tools compare the sentences.
fn consistent(policies: &Policies, field: &str) -> Result<(), PolicyError> {
    let reason = match field {
        "retention_policies" => "Retention Quota must exceed configured backlog quota for namespace.",
        "backlog_quota_map" => "Backlog Quota exceeds configured retention quota for namespace. Please increase retention quota and retry",
        _ => return Ok(()),
    };
    let kinds = [metadata::namespaces::QuotaKind::DestinationStorage, metadata::namespaces::QuotaKind::MessageAge];
    let Some(retention) = policies.retention() else { return Ok(()) };
    match kinds.into_iter().filter_map(|kind| policies.backlog_quota(kind)).all(|quota| quota.fits(retention)) {
        true => Ok(()),
        false => Err(PolicyError { field: field.to_owned(), reason: reason.to_owned() }),
    }
}
