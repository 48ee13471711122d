//! The tree in memory, for tests and simulation: no thread, no clock, and faults on demand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::delivery::delivering;
use crate::plan::{self, Plan, Record, View};
use crate::sessions::Sessions;
use crate::watch::Watchers;
use crate::{Done, MetadataError, MetadataStore, OnChange, Outcome, Session, Transaction, Versioned, Watch, key};

/// How a commit fails. Either way its submitter hears [`MetadataError::Unknown`] and watchers are told to resync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It was not done.
    Lost,
    /// It was done, and the answer got lost.
    Applied,
}

/// A store in memory. Transactions take effect inside `submit`; completions run there too, unless they are [held](Self::hold).
///
/// Unlike the embedded store it goes on after a failed commit, as a store behind a network does.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    sessions: Sessions,
    watchers: Arc<Watchers>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<Vec<u8>, Record>,
    sequences: BTreeMap<String, i64>,
    faults: VecDeque<Fault>,
    completions: VecDeque<Completion>,
    held: bool,
    delivering: bool,
}

struct Completion {
    changed: Vec<String>,
    outcome: Outcome,
    done: Done,
}

impl std::fmt::Debug for Completion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Completion").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> MemoryStore {
        MemoryStore { state: Mutex::default(), sessions: Sessions::new(1), watchers: Arc::default() }
    }

    /// The next `commits` transactions that would be done fail with `fault`; refused ones do not count.
    pub fn fail_next(&self, commits: usize, fault: Fault) {
        self.lock().faults.extend(std::iter::repeat_n(fault, commits));
    }

    /// From now on completions and watch events wait, in order, for [`release`](Self::release) or
    /// [`release_one`](Self::release_one); readers see the changes at once. Blocking methods then block until released by another thread.
    pub fn hold(&self) {
        self.lock().held = true;
    }

    /// Tells everything that waits and holds no more.
    pub fn release(&self) {
        self.lock().held = false;
        self.deliver();
    }

    /// Tells the outcome that waits longest; false when none waits.
    pub fn release_one(&self) -> bool {
        let completion = self.lock().completions.pop_front();
        let waited = completion.is_some();
        completion.into_iter().for_each(|completion| self.complete(completion));
        waited
    }

    /// How many outcomes wait to be told.
    pub fn waiting(&self) -> usize {
        self.lock().completions.len()
    }

    fn end(&self, session: u64) {
        let mut state = self.lock();
        let changed = state.remove_ephemerals(session);
        state.completions.push_back(Completion { changed, outcome: Ok(Vec::new()), done: Box::new(|_| ()) });
        drop(state);
        self.deliver();
    }

    // One thread tells at a time, in order; whoever submits meanwhile leaves its completion to that one.
    fn deliver(&self) {
        loop {
            let mut state = self.lock();
            if state.held || state.delivering {
                return;
            }
            let Some(completion) = state.completions.pop_front() else { return };
            state.delivering = true;
            drop(state);
            self.complete(completion);
            self.lock().delivering = false;
        }
    }

    fn complete(&self, Completion { changed, outcome, done }: Completion) {
        delivering(|| {
            match &outcome {
                Err(MetadataError::Unknown(_)) => self.watchers.resync(),
                _ => changed.iter().for_each(|path| self.watchers.changed(path)),
            }
            done(outcome);
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetadataStore for MemoryStore {
    fn get(&self, path: &str) -> Result<Option<Versioned>, MetadataError> {
        key::check(path)?;
        let state = self.lock();
        Ok(state.nodes.get(&key::key(path)).map(|record| Versioned { value: record.value.clone(), version: record.version }))
    }

    fn children(&self, path: &str) -> Result<Vec<String>, MetadataError> {
        key::check_or_root(path)?;
        let state = self.lock();
        let children = state.nodes.range(key::children(path));
        Ok(children.filter_map(|(key, _)| key::path_of(key)).map(|path| key::name_of(path).to_owned()).collect())
    }

    fn exists(&self, path: &str) -> Result<bool, MetadataError> {
        key::check(path)?;
        Ok(self.lock().nodes.contains_key(&key::key(path)))
    }

    fn submit(&self, transaction: Transaction, done: Done) {
        let mut state = self.lock();
        // Executed and queued under one lock: the order of effects is the order of completions.
        let (changed, outcome) = state.execute(&self.sessions, transaction);
        state.completions.push_back(Completion { changed, outcome, done });
        drop(state);
        self.deliver();
    }

    fn watch(&self, prefix: &str, on_change: OnChange) -> Result<Watch, MetadataError> {
        key::check_or_root(prefix)?;
        Ok(self.watchers.add(prefix, on_change))
    }

    fn open_session(&self, ttl: Duration, now: Instant) -> Result<Session, MetadataError> {
        Ok(self.sessions.open(ttl, now))
    }

    fn renew_session(&self, session: &Session, now: Instant) -> Result<(), MetadataError> {
        Ok(self.sessions.renew(session.id(), now)?)
    }

    fn close_session(&self, session: &Session) -> Result<(), MetadataError> {
        if self.sessions.end(session.id()) {
            self.end(session.id());
        }
        Ok(())
    }

    fn expire_sessions(&self, now: Instant) -> Vec<u64> {
        let ended = self.sessions.expire(now);
        ended.iter().for_each(|id| self.end(*id));
        ended
    }
}

impl State {
    fn execute(&mut self, sessions: &Sessions, transaction: Transaction) -> (Vec<String>, Outcome) {
        let plan = match plan::plan(&Viewed { state: self, sessions }, transaction) {
            Ok(plan) => plan,
            Err(refused) => return (Vec::new(), Err(refused)),
        };
        let fault = if plan.changes_nothing() { None } else { self.faults.pop_front() };
        let unknown = || Err(MetadataError::Unknown("the fault that was asked for".into()));
        if fault == Some(Fault::Lost) {
            return (Vec::new(), unknown());
        }
        let changed = plan.nodes.keys().cloned().collect();
        let outcomes = self.apply(plan);
        (changed, if fault.is_some() { unknown() } else { Ok(outcomes) })
    }

    fn apply(&mut self, plan: Plan) -> Vec<i64> {
        for (path, record) in plan.nodes {
            match record {
                Some(record) => self.nodes.insert(key::key(&path), record),
                None => self.nodes.remove(&key::key(&path)),
            };
        }
        self.sequences.extend(plan.sequences);
        plan.outcomes
    }

    fn remove_ephemerals(&mut self, session: u64) -> Vec<String> {
        let gone = self.nodes.extract_if(.., |_, record| record.session == session);
        gone.filter_map(|(key, _)| key::path_of(&key).map(str::to_owned)).collect()
    }
}

struct Viewed<'s> {
    state: &'s State,
    sessions: &'s Sessions,
}

impl View for Viewed<'_> {
    fn record(&self, path: &str) -> Result<Option<Record>, MetadataError> {
        Ok(self.state.nodes.get(&key::key(path)).cloned())
    }

    fn any_child(&self, path: &str, ignored: &dyn Fn(&str) -> bool) -> Result<bool, MetadataError> {
        let mut children = self.state.nodes.range(key::children(path)).filter_map(|(key, _)| key::path_of(key));
        Ok(children.any(|child| !ignored(child)))
    }

    fn next_number(&self, path: &str) -> Result<i64, MetadataError> {
        Ok(self.state.sequences.get(path).copied().unwrap_or(0))
    }

    fn session_is_open(&self, session: u64) -> bool {
        self.sessions.is_open(session)
    }
}
