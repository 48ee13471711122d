//! Loading a topic: its chain is read, the last ledger fenced, a new one created and recorded, and its cursors recovered.
//!
//! Runs on a control thread and may block. Safety comes from fencing and from the compare-and-set of the list: whoever
//! loses either has not loaded the topic.

use std::sync::mpsc;

use ledger::{
    Cursor, CursorState, Done, LedgerId, LedgerList, LedgerStore, ManagedLedger, Position, Purpose, ReadRange, Sealed, StoreError,
};
use metadata::namespaces::Policies;
use metadata::{Expected, MetadataError, MetadataStore, Rejected, Transaction};
use topic::{COMPACTION_CURSOR, Compacted, DEDUPLICATION_CURSOR, Sequences, StoredCursor, TopicSettings};
use wire::{ServerError, TopicName};

use crate::catalog;
use crate::clock::wall_ms;
use crate::handle::TopicError;
use crate::policies;
use crate::settings::ServerSettings;

/// What one read of a replay asks for at most.
const REPLAY_ENTRIES: usize = 1_000;
const REPLAY_BYTES: usize = 4 << 20;

/// What to load.
pub(crate) struct LoadRequest {
    pub(crate) name: TopicName,
    /// Whether somebody wants it to come into being by this.
    pub(crate) create: bool,
}

/// A topic ready to be hosted.
pub(crate) struct LoadedTopic {
    pub(crate) ledger: ManagedLedger,
    pub(crate) version: i64,
    pub(crate) cursors: Vec<StoredCursor>,
    pub(crate) settings: TopicSettings,
    /// What is said of it alone.
    pub(crate) own: Policies,
    /// What an earlier compaction left.
    pub(crate) compacted: Option<Compacted>,
    /// What producers have published, if messages that are sent twice are to be recognised.
    pub(crate) sequences: Option<Sequences>,
}

/// A topic that stores nothing, ready to be hosted.
pub(crate) struct LoadedVolatile {
    pub(crate) settings: TopicSettings,
    /// What is said of it alone.
    pub(crate) own: Policies,
}

/// Why it was not loaded.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("namespace {0} does not exist: create it first")]
    NoSuchNamespace(String),
    #[error("topic {0} does not exist, and neither the client nor allowAutoTopicCreation asks for it: create it first")]
    NotFound(String),
    #[error("there is no {topic}: the topic has {partitions} partitions; raise their number first")]
    NoSuchPartition { topic: String, partitions: u32 },
    #[error("topic {0} was deleted while it was waited for")]
    Deleted(String),
    #[error("{0} is a partitioned topic: use its partitions")]
    Partitioned(String),
    #[error("{0}")]
    TooMany(String),
    #[error("another owner took {0}")]
    Conflict(String),
    #[error("metadata of {topic}: {error}")]
    Metadata { topic: String, error: MetadataError },
    #[error("metadata of {topic} cannot be read: {reason}")]
    Unreadable { topic: String, reason: String },
    #[error("storage of {topic}: {error}")]
    Storage { topic: String, error: StoreError },
    #[error("{0}")]
    Forbidden(String),
    #[error("the broker is shutting down")]
    Draining,
}

impl LoadError {
    /// As the protocol says it. ServiceNotReady makes clients try again.
    pub(crate) fn code(&self) -> ServerError {
        match self {
            LoadError::NoSuchNamespace(_) | LoadError::NotFound(_) | LoadError::NoSuchPartition { .. } | LoadError::Deleted(_) => {
                ServerError::TopicNotFound
            }
            LoadError::Partitioned(_) | LoadError::TooMany(_) => ServerError::NotAllowedError,
            LoadError::Forbidden(_) => ServerError::AuthorizationError,
            LoadError::Unreadable { .. } => ServerError::PersistenceError,
            LoadError::Conflict(_) | LoadError::Metadata { .. } | LoadError::Storage { .. } | LoadError::Draining => {
                ServerError::ServiceNotReady
            }
        }
    }
}

pub(crate) fn load(
    metadata: &dyn MetadataStore,
    store: &dyn LedgerStore,
    settings: &ServerSettings,
    request: &LoadRequest,
) -> Result<LoadedTopic, LoadError> {
    let load = Load { metadata, store, settings, name: &request.name };
    let loaded = load.run(request.create);
    if let Err(error @ (LoadError::Metadata { .. } | LoadError::Storage { .. } | LoadError::Unreadable { .. } | LoadError::Conflict(_))) =
        &loaded
    {
        tracing::warn!(topic = %request.name, %error, "topic not loaded");
    }
    loaded
}

/// A topic that stores nothing only needs a namespace, and a name that is free for it.
pub(crate) fn load_non_persistent(
    metadata: &dyn MetadataStore,
    settings: &ServerSettings,
    request: &LoadRequest,
) -> Result<Box<LoadedVolatile>, LoadError> {
    let failed = |error| LoadError::Metadata { topic: request.name.to_string(), error };
    if !catalog::namespace_exists(metadata, &request.name.namespace()).map_err(failed)? {
        return Err(LoadError::NoSuchNamespace(request.name.namespace_str().to_owned()));
    }
    let partitions = catalog::partition_count(metadata, &request.name.partitioned()).map_err(failed)?;
    let said = policies::said(metadata, &request.name).map_err(failed)?;
    may_be_created(&request.name, partitions, request.create && creates(settings, &said.namespace))?;
    Ok(Box::new(LoadedVolatile { settings: said.settings(settings, &request.name), own: said.topic }))
}

/// Whether topics of a namespace come into being by being used.
fn creates(settings: &ServerSettings, namespace: &Policies) -> bool {
    namespace.auto_topic_creation().map_or(settings.auto_topic_creation, |creation| creation.allow)
}

/// A missing topic comes into being only if its name is free: not a partitioned topic's, nor that of a partition beyond the count.
fn may_be_created(name: &TopicName, partitions: Option<u32>, create: bool) -> Result<(), LoadError> {
    match (name.partition_index(), partitions) {
        (None, Some(_)) => Err(LoadError::Partitioned(name.to_string())),
        (Some(index), Some(partitions)) if index >= partitions => Err(LoadError::NoSuchPartition { topic: name.to_string(), partitions }),
        // A partition of a partitioned topic exists by its parent's word, whoever asks.
        (Some(_), Some(_)) => Ok(()),
        (_, None) if create => Ok(()),
        (_, None) => Err(LoadError::NotFound(name.to_string())),
    }
}

struct Load<'a> {
    metadata: &'a dyn MetadataStore,
    store: &'a dyn LedgerStore,
    settings: &'a ServerSettings,
    name: &'a TopicName,
}

impl Load<'_> {
    fn run(&self, create: bool) -> Result<LoadedTopic, LoadError> {
        let said = policies::said(self.metadata, self.name).map_err(|e| self.metadata(e))?;
        let (list, expected) = self.stored_list(create && creates(self.settings, &said.namespace))?;
        let sealed = match list.ledgers.last() {
            Some(last) => self.fence(last.id)?,
            None => None,
        };
        let fresh = wait(|done| self.store.create(Purpose::Data, done)).map_err(|e| self.storage(e))?;
        let mut ledger = ManagedLedger::recover(list, sealed, fresh, self.settings.topic.ledger, wall_ms());
        let version = self
            .metadata
            .put(&catalog::managed_ledger(self.name), &ManagedLedger::encode_list(&ledger.list()), expected)
            .map_err(|e| self.not_recorded(fresh, e))?;
        let dropped = ledger.take_dropped();
        if !dropped.is_empty() {
            self.store.delete(dropped, Box::new(|_| ()));
        }
        let mut cursors = self.cursors()?;
        let compacted = self.compacted(&cursors)?;
        let settings = said.settings(self.settings, self.name);
        let sequences = match settings.deduplication.enabled {
            true => Some(self.sequences(&ledger, &cursors)?),
            false => {
                self.forget_sequences(&mut cursors)?;
                None
            }
        };
        Ok(LoadedTopic { ledger, version, cursors, settings, own: said.topic, compacted, sequences })
    }

    fn stored_list(&self, create: bool) -> Result<(LedgerList, Expected), LoadError> {
        let path = catalog::managed_ledger(self.name);
        if let Some(stored) = self.metadata.get(&path).map_err(|e| self.metadata(e))? {
            let list = ManagedLedger::decode_list(&stored.value).map_err(|reason| self.unreadable(reason))?;
            return Ok((list, Expected::Version(stored.version)));
        }
        if !catalog::namespace_exists(self.metadata, &self.name.namespace()).map_err(|e| self.metadata(e))? {
            return Err(LoadError::NoSuchNamespace(self.name.namespace_str().to_owned()));
        }
        let partitions = catalog::partition_count(self.metadata, &self.name.partitioned()).map_err(|e| self.metadata(e))?;
        may_be_created(self.name, partitions, create)?;
        // The partitions of a topic were counted when it was created.
        if partitions.is_none() {
            policies::require_room(self.metadata, self.settings, self.name, 1).map_err(|error| match error {
                TopicError::Metadata(error) => self.metadata(error),
                other => LoadError::TooMany(other.to_string()),
            })?;
        }
        Ok((LedgerList::default(), Expected::Absent))
    }

    /// The true end of a ledger; none if it is gone, which then is as good as empty.
    fn fence(&self, ledger: LedgerId) -> Result<Option<Sealed>, LoadError> {
        match wait(|done| self.store.open_fenced(ledger, done)) {
            Ok(sealed) => Ok(Some(sealed)),
            Err(StoreError::NoSuchLedger(_)) => Ok(None),
            Err(error) => Err(self.storage(error)),
        }
    }

    fn cursors(&self) -> Result<Vec<StoredCursor>, LoadError> {
        let names = self.metadata.children(&catalog::managed_ledger(self.name)).map_err(|e| self.metadata(e))?;
        names.iter().filter_map(|encoded| self.cursor(encoded).transpose()).collect()
    }

    fn cursor(&self, encoded: &str) -> Result<Option<StoredCursor>, LoadError> {
        let subscription = wire::names::decode_name(encoded).map_err(|e| self.unreadable(e.to_string()))?.into_owned();
        let path = format!("{}/{encoded}", catalog::managed_ledger(self.name));
        let Some(record) = self.metadata.get(&path).map_err(|e| self.metadata(e))? else { return Ok(None) };
        let (inline, ledger, properties) = Cursor::decode_record(&record.value).map_err(|reason| self.unreadable(reason))?;
        let state = match ledger {
            Some(ledger) => self.newest_state(ledger)?.unwrap_or(inline),
            None => inline,
        };
        Ok(Some(StoredCursor { subscription, state, version: record.version, ledger, properties }))
    }

    /// The last entry of a cursor ledger; none if there is no ledger or nothing in it: then the record's snapshot counts.
    fn newest_state(&self, ledger: LedgerId) -> Result<Option<CursorState>, LoadError> {
        let Some(sealed) = self.fence(ledger)? else { return Ok(None) };
        if sealed.last.0 < 0 {
            return Ok(None);
        }
        let last = Position { ledger, entry: sealed.last };
        let range = ReadRange { ledger, from: last.entry, last: last.entry, max_entries: 1, max_bytes: usize::MAX };
        let entries = wait(|done| self.store.read(range, done)).map_err(|e| self.storage(e))?;
        let entry = entries.first().ok_or_else(|| self.unreadable(format!("cursor state {last} is missing")))?;
        Cursor::decode_position(&entry.bytes).map(Some).map_err(|reason| self.unreadable(reason))
    }

    /// What the cursor of compactions names; none if there is no such cursor, or the ledger is gone.
    fn compacted(&self, cursors: &[StoredCursor]) -> Result<Option<Compacted>, LoadError> {
        let Some(cursor) = cursors.iter().find(|cursor| cursor.subscription == COMPACTION_CURSOR) else { return Ok(None) };
        let Some(ledger) = topic::compacted_ledger(&cursor.state.properties) else { return Ok(None) };
        match self.fence(ledger)? {
            Some(Sealed { last, bytes }) => Ok(Some(Compacted { ledger, last, horizon: cursor.state.mark_delete, bytes })),
            None => {
                tracing::error!(topic = %self.name, %ledger, "the compacted ledger is gone: its messages are lost unless the topic still has them");
                Ok(None)
            }
        }
    }

    /// The sequence ids that were saved, and those of the entries stored since, read a batch at a time.
    fn sequences(&self, ledger: &ManagedLedger, cursors: &[StoredCursor]) -> Result<Sequences, LoadError> {
        let saved = cursors.iter().find(|cursor| cursor.subscription == DEDUPLICATION_CURSOR);
        let mut sequences = saved.map(|cursor| Sequences::from_snapshot(&cursor.state.properties)).unwrap_or_default();
        let mut at = saved.map_or(ledger.first(), |cursor| ledger.at_or_next(ledger.next(cursor.state.mark_delete)));
        while at <= ledger.last_confirmed() {
            let range = ReadRange {
                ledger: at.ledger,
                from: at.entry,
                last: ledger.last_of(at.ledger),
                max_entries: REPLAY_ENTRIES,
                max_bytes: REPLAY_BYTES,
            };
            let entries = wait(|done| self.store.read(range, done)).map_err(|e| self.storage(e))?;
            let last = entries.last().ok_or_else(|| self.unreadable(format!("entry {at} is missing")))?;
            let next = ledger.next(Position { ledger: at.ledger, entry: last.id });
            for entry in &entries {
                sequences.replay(&entry.bytes);
            }
            at = next;
        }
        Ok(sequences)
    }

    /// Deduplication is off: what was saved for it would hold back trimming, and be out of date when it is switched on again.
    fn forget_sequences(&self, cursors: &mut Vec<StoredCursor>) -> Result<(), LoadError> {
        let Some(place) = cursors.iter().position(|cursor| cursor.subscription == DEDUPLICATION_CURSOR) else { return Ok(()) };
        let cursor = cursors.swap_remove(place);
        let path = catalog::cursor(self.name, &cursor.subscription);
        self.metadata.commit(Transaction::new().delete(path, Expected::Version(cursor.version))).map_err(|e| self.metadata(e))?;
        if let Some(ledger) = cursor.ledger {
            self.store.delete(vec![ledger], Box::new(|_| ()));
        }
        Ok(())
    }

    /// Nothing refers to the ledger that was just created. When the outcome is unknown, something may: then it is kept.
    fn not_recorded(&self, fresh: LedgerId, error: MetadataError) -> LoadError {
        if error.rejected().is_some() {
            self.store.delete(vec![fresh], Box::new(|_| ()));
        }
        self.metadata(error)
    }

    fn metadata(&self, error: MetadataError) -> LoadError {
        let topic = self.name.to_string();
        match error.rejected() {
            Some(Rejected::VersionConflict { .. } | Rejected::Exists { .. }) => LoadError::Conflict(topic),
            _ => LoadError::Metadata { topic, error },
        }
    }

    fn storage(&self, error: StoreError) -> LoadError {
        LoadError::Storage { topic: self.name.to_string(), error }
    }

    fn unreadable(&self, reason: impl Into<String>) -> LoadError {
        LoadError::Unreadable { topic: self.name.to_string(), reason: reason.into() }
    }
}

/// Calls the store and waits. Not on a thread of the store's, nor on an event loop.
pub(crate) fn wait<T: Send + 'static>(call: impl FnOnce(Done<T>)) -> Result<T, StoreError> {
    let (tell, told) = mpsc::sync_channel(1);
    call(Box::new(move |outcome| drop(tell.send(outcome))));
    told.recv().unwrap_or_else(|_| Err(StoreError::Closed("the store went away".to_owned())))
}
