//! What becomes of a group: written, synced, made readable and reported, in this order.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

use super::Shared;
use super::files::{WriteFailed, write_all};
use super::format::{Extent, RECORD_HEADER};
use super::group::{Change, Group, Outcome};
use super::pages::Pages;
use super::segment::Segment;
use crate::{BlockEntry, StoreError, StoreHealth};

/// A group that is written, or about to be, and not known to be durable.
pub(crate) struct Landing {
    pub(crate) segment: Arc<Segment>,
    pub(crate) group: Group,
    pub(crate) outcomes: Vec<Outcome>,
    /// Bytes of the queue that it took with it.
    pub(crate) queued: usize,
}

/// Brings groups to the disk, one after the other.
pub(crate) struct Lander {
    shared: Arc<Shared>,
    /// When the first write of the group began.
    began: Option<Instant>,
    /// Why the group is lost.
    lost: Option<StoreError>,
}

impl Lander {
    pub(crate) fn new(shared: Arc<Shared>) -> Lander {
        Lander { shared, began: None, lost: None }
    }

    /// Writes pages of a group; whether that went well is told when it lands.
    pub(crate) fn write(&mut self, segment: &Segment, pages: &mut Pages) {
        if self.may_write() {
            self.written(pages.write(segment.file()));
        }
    }

    /// Writes a group through the system's cache, at `end`.
    pub(crate) fn write_cached(&mut self, segment: &Segment, group: &Group, end: u64) {
        if !self.may_write() {
            return;
        }
        let mut parts: Vec<IoSlice<'_>> =
            group.headers.iter().zip(&group.bodies).flat_map(|(header, body)| [IoSlice::new(header), IoSlice::new(body)]).collect();
        self.written(write_all(segment.file(), &mut parts, end));
    }

    /// Tells the writer that it can go on.
    pub(crate) fn nudge(&self) {
        self.shared.queue.nudge();
    }

    /// Behind what is lost nothing may follow.
    fn may_write(&mut self) -> bool {
        self.began.get_or_insert_with(Instant::now);
        self.lost.is_none() && self.shared.poisoned().is_none()
    }

    fn written(&mut self, outcome: Result<(), WriteFailed>) {
        let Err(failed) = outcome else { return };
        let reason = format!("writing: {}", failed.error);
        self.lost = Some(if failed.changed_nothing() {
            self.shared.set_health(StoreHealth::DiskNearlyFull(reason.clone()));
            StoreError::DiskNearlyFull(reason)
        } else {
            self.shared.poison(&reason);
            StoreError::Unknown(reason)
        });
    }

    /// Makes the group that was written durable and reports every outcome, in order. Returns whether it is durable; its vectors
    /// are empty then, to be used again.
    pub(crate) fn land(&mut self, landing: &mut Landing) -> bool {
        let landed = self.sync(landing);
        match &landed {
            Ok(()) => self.publish(landing),
            Err(error) => landing.outcomes.iter_mut().for_each(|outcome| outcome.fail(error)),
        }
        landing.group.clear();
        self.shared.queue.done(landing.queued);
        for outcome in landing.outcomes.drain(..) {
            outcome.report();
        }
        landed.is_ok()
    }

    fn sync(&mut self, landing: &Landing) -> Result<(), StoreError> {
        let began = self.began.take().unwrap_or_else(Instant::now);
        if let Some(lost) = self.lost.take() {
            return Err(lost);
        }
        if let Some(reason) = self.shared.poisoned() {
            return Err(StoreError::Closed(reason));
        }
        if let Err(error) = self.shared.files.sync(landing.segment.file()) {
            // A second sync may report success for pages the first one lost: never retry.
            let reason = format!("syncing: {error}");
            self.shared.poison(&reason);
            return Err(StoreError::Unknown(reason));
        }
        let group = &landing.group;
        self.shared.counters.synced(began.elapsed(), group.blocks, group.entries, group.bytes);
        Ok(())
    }

    fn publish(&self, landing: &mut Landing) {
        let generation = landing.segment.generation();
        let mut deleted = false;
        let mut index = self.shared.index();
        for change in landing.group.changes.drain(..) {
            match change {
                Change::Entries { entries, body_at } => {
                    // Entries of a block follow each other in their ledger.
                    for run in entries.chunk_by(|a, b| a.at.ledger == b.at.ledger) {
                        let extents = run.iter().map(|entry| extent(entry, body_at));
                        index.add_entries(run[0].at.ledger.0, run[0].at.entry.0, extents, generation);
                    }
                }
                Change::Moved { entries, body_at } => {
                    for entry in &entries {
                        index.move_entry(entry.at.ledger.0, entry.at.entry.0, extent(entry, body_at), generation);
                    }
                }
                Change::State(id, state) => index.set_state(id, state, generation),
                Change::Deleted(id) => {
                    index.delete(id, generation);
                    deleted = true;
                }
            }
        }
        drop(index);
        if deleted {
            self.shared.wake_compactor();
        }
    }
}

fn extent(entry: &BlockEntry, body_at: u32) -> Extent {
    Extent { offset: body_at + entry.offset - RECORD_HEADER as u32, len: entry.len }
}
