//! Policies of namespaces and topics: one table of slots, from which the routes of both levels, their documentation and their tests
//! come.
//!
//! ```text
//! slot.rs    what a slot is: its field in the stored policies, its doors on both levels
//! table.rs   the table
//! shape.rs   what a value looks like, how leniently it is read, how it is refused
//! doors.rs   reading and writing slots
//! rows.rs    the rows of the route table
//! clusters.rs  the one policy that is not a slot: a namespace's clusters are checked with its tenant's
//! ```
//!
//! To serve another policy is to add a slot. To have it act is to read its field in `server`'s `policies/effective.rs`.

pub(crate) mod clusters;
mod doors;
mod rows;
mod shape;
mod slot;
mod table;

pub(crate) use doors::{Refused, change_namespace};
pub(crate) use rows::{Act, answer, rows};
pub(crate) use slot::{Level, Slot};

/// A slot as tests and documents see it.
#[derive(Clone, Debug)]
pub struct PolicyLine {
    /// Its field in the stored policies.
    pub field: &'static str,
    /// Under a namespace, if it is there.
    pub namespace: Option<DoorLine>,
    /// Under a topic, if it is there.
    pub topic: Option<DoorLine>,
    /// Bodies that set it.
    pub samples: &'static [&'static str],
    /// Bodies that are refused, and with which status.
    pub refused: &'static [(&'static str, u16)],
    /// What it says.
    pub summary: &'static str,
}

/// Where a slot is under one level.
#[derive(Clone, Debug)]
pub struct DoorLine {
    /// Where it is read.
    pub shown_at: &'static str,
    /// Where it is set, and how: POST or PUT.
    pub set_at: (&'static str, &'static str),
    /// Where it is unset, if it can be.
    pub unset_at: Option<&'static str>,
    /// What is answered while it is not set; nothing for 204.
    pub unsaid: &'static str,
}

/// All slots.
pub fn policy_slots() -> impl Iterator<Item = PolicyLine> {
    table::SLOTS.iter().map(|slot| PolicyLine {
        field: slot.field,
        namespace: slot.namespace.as_ref().map(slot::Door::line),
        topic: slot.topic.as_ref().map(slot::Door::line),
        samples: slot.shape.samples(),
        refused: slot.shape.refused(),
        summary: slot.what,
    })
}
