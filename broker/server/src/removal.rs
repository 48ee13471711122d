//! Letting go of topics on request, and deleting them.
//!
//! While a topic is being deleted its name is taken on its owner, so that no client that comes back loads it again before
//! its metadata is gone.

use std::future::Future;
use std::sync::Arc;

use metadata::MetadataStore;
use tokio::sync::oneshot;
use wire::TopicName;

use crate::catalog;
use crate::handle::{Handle, TopicError};
use crate::hosting::Named;
use crate::letter::{Letter, Opener, TopicRef};
use crate::loader::LoadError;
use crate::shared::Shared;
use crate::worker::Worker;

type Tell = oneshot::Sender<Result<(), TopicError>>;

/// Runs `call` on the worker that owns `name`.
async fn on_owner<T: Send + 'static>(
    shared: &Shared,
    name: &TopicName,
    call: impl FnOnce(&mut Worker, oneshot::Sender<T>) + Send + 'static,
) -> Result<T, TopicError> {
    let (tell, told) = oneshot::channel();
    shared.post(shared.owner(name), Letter::Call(Box::new(move |worker| call(worker, tell))));
    told.await.map_err(|_| TopicError::Gone)
}

pub(crate) async fn unload_topic(shared: &Arc<Shared>, name: TopicName) -> Result<(), TopicError> {
    let wanted = name.clone();
    on_owner(shared, &name, move |worker, tell| {
        worker.unload_then(&wanted, move || {
            let _ = tell.send(());
        });
    })
    .await
}

pub(crate) async fn delete_topic(shared: &Arc<Shared>, name: TopicName, force: bool) -> Result<(), TopicError> {
    // Nothing tells of a topic that stores nothing but that it is used.
    if !name.is_persistent() && !shared.volatile_topics.contains(&name) {
        return Err(TopicError::NotFound(name));
    }
    let removal = Removal { topics: vec![name], parent: None, force: Force::from(force) };
    to_the_end(shared, removal.run(shared.clone())).await
}

/// Deletes a topic that nobody uses, unless somebody comes first. Nobody waits for it.
pub(crate) fn delete_deserted(shared: &Arc<Shared>, name: TopicName) {
    let removal = Removal { topics: vec![name.clone()], parent: None, force: Force::Subscriptions };
    let work = removal.run(shared.clone());
    tokio::task::spawn_local(async move {
        match work.await {
            Ok(()) => tracing::info!(topic = %name, "an inactive topic was deleted"),
            Err(error) => tracing::debug!(topic = %name, %error, "an inactive topic was not deleted"),
        }
    });
}

pub(crate) async fn delete_partitioned(shared: &Arc<Shared>, name: TopicName, force: bool) -> Result<(), TopicError> {
    let handle = Handle { shared: shared.clone() };
    let Some(count) = handle.partitions(name.clone()).await? else { return Err(TopicError::NotFound(name)) };
    let partitions = (0..count).map(|index| name.partition(index).map_err(|e| TopicError::NotAllowed(e.to_string())));
    let removal = Removal { topics: partitions.collect::<Result<_, _>>()?, parent: Some(name), force: Force::from(force) };
    to_the_end(shared, removal.run(shared.clone())).await
}

/// Does work that must not stop half-way when whoever asked for it no longer waits.
async fn to_the_end<T: Send + 'static>(
    shared: &Shared,
    work: impl Future<Output = Result<T, TopicError>> + Send + 'static,
) -> Result<T, TopicError> {
    let (tell, told) = oneshot::channel();
    let spawn = move |_: &mut Worker| drop(tokio::task::spawn_local(async move { drop(tell.send(work.await)) }));
    shared.post(0, Letter::Call(Box::new(spawn)));
    told.await.map_err(|_| TopicError::Gone)?
}

/// One request to delete: a topic, or all partitions of one.
struct Removal {
    topics: Vec<TopicName>,
    /// The partitioned topic whose partitions these are.
    parent: Option<TopicName>,
    force: Force,
}

/// What does not keep a topic from being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Force {
    Nothing,
    /// Subscriptions without consumers.
    Subscriptions,
    Anything,
}

impl From<bool> for Force {
    fn from(force: bool) -> Force {
        if force { Force::Anything } else { Force::Nothing }
    }
}

impl Removal {
    async fn run(self, shared: Arc<Shared>) -> Result<(), TopicError> {
        let mut taken = Vec::new();
        let outcome = self.remove(&shared, &mut taken).await;
        // Partitions without their topic must not come back by themselves.
        let refuse = outcome.is_ok() && self.parent.is_some();
        for name in taken {
            shared.post(shared.owner(&name), Letter::Call(Box::new(move |worker| worker.end_delete(&name, refuse))));
        }
        outcome
    }

    /// Takes the names, then removes what they stand for. All or nothing, unless forced.
    async fn remove(&self, shared: &Arc<Shared>, taken: &mut Vec<TopicName>) -> Result<(), TopicError> {
        for name in &self.topics {
            let (wanted, force) = (name.clone(), self.force);
            on_owner(shared, name, move |worker, tell| worker.begin_delete(wanted, force, tell)).await??;
            taken.push(name.clone());
        }
        let handle = Handle { shared: shared.clone() };
        let store = shared.store.clone();
        let (topics, parent, force) = (self.topics.clone(), self.parent.clone(), self.force);
        handle
            .control(move |metadata| {
                let ledgers = forget(metadata, &topics, parent.as_ref(), force)?;
                // A leak is found as an orphan at the next start, so nobody waits for this.
                store.delete(ledgers, Box::new(|_| ()));
                Ok(())
            })
            .await?
    }
}

/// Removes the records; returns the ledgers that nothing refers to any more.
fn forget(
    metadata: &dyn MetadataStore,
    topics: &[TopicName],
    parent: Option<&TopicName>,
    force: Force,
) -> Result<Vec<ledger::LedgerId>, TopicError> {
    if force == Force::Nothing {
        for name in topics {
            let subscriptions = catalog::subscriptions(metadata, name)?;
            if subscriptions > 0 {
                return Err(TopicError::InUse { topic: name.clone(), producers: 0, consumers: 0, subscriptions });
            }
        }
    }
    let mut ledgers = Vec::new();
    for name in topics {
        match catalog::forget_topic(metadata, name) {
            Ok(found) => ledgers.extend(found),
            // A partition that was never used, or that an earlier attempt has removed.
            Err(TopicError::NotFound(_)) if parent.is_some() => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(parent) = parent {
        catalog::forget_partitioned(metadata, parent)?;
    }
    Ok(ledgers)
}

impl Worker {
    /// Takes a topic's name so that it can be deleted: answers when nothing of the topic is loaded and nothing will be, or
    /// why not. Ended by [`end_delete`](Self::end_delete).
    fn begin_delete(&mut self, name: TopicName, force: Force, tell: Tell) {
        let (key, waiting) = match self.names.get_mut(&name) {
            None => {
                self.names.insert(name, Named::Deleting(Vec::new()));
                return drop(tell.send(Ok(())));
            }
            Some(Named::Deleting(_)) => return drop(tell.send(Err(being_deleted(&name)))),
            // Whoever asked for it comes first; then it is decided whether it may go.
            Some(Named::Loading(waiting)) => {
                let (shared, owner, wanted) = (self.shared.clone(), self.index, name.clone());
                let again = move |_: Result<(&mut Worker, TopicRef), LoadError>| {
                    shared.post(owner, Letter::Call(Box::new(move |worker| worker.begin_delete(wanted, force, tell))));
                };
                return waiting.push(Opener::Caller(Box::new(again)));
            }
            Some(Named::Loaded(key)) => (*key, 0),
            Some(Named::Unloading(key, waiting)) => (*key, waiting.iter().filter(|opener| opener.is_client()).count()),
        };
        let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { return };
        if hosted.deleting {
            return drop(tell.send(Err(being_deleted(&name))));
        }
        let (producers, consumers) = (hosted.topic.producers(), hosted.topic.consumers() + waiting);
        let subscriptions = hosted.topic.subscriptions();
        let in_the_way = match force {
            Force::Anything => 0,
            Force::Subscriptions => producers + consumers,
            Force::Nothing => producers + consumers + subscriptions,
        };
        if in_the_way > 0 {
            return drop(tell.send(Err(TopicError::InUse { topic: name, producers, consumers, subscriptions })));
        }
        hosted.deleting = true;
        hosted.leaving.push(Box::new(move || drop(tell.send(Ok(())))));
        self.begin_unload(key);
    }

    /// The deletion has ended, well or not. Who came meanwhile is heard now, or told that there is no such topic.
    fn end_delete(&mut self, name: &TopicName, refuse: bool) {
        let Some(Named::Deleting(waiting)) = self.names.get_mut(name) else { return };
        let waiting = std::mem::take(waiting);
        self.names.remove(name);
        for opener in waiting {
            match refuse {
                true => self.refuse(opener, &LoadError::Deleted(name.to_string())),
                false => self.open(name.clone(), opener),
            }
        }
    }

    /// Lets go of a topic, then calls `told`; at once if it is not loaded.
    fn unload_then(&mut self, name: &TopicName, told: impl FnOnce() + Send + 'static) {
        let key = match self.names.get(name) {
            Some(Named::Loaded(key) | Named::Unloading(key, _)) => *key,
            // What is being loaded starts afresh anyway: nothing to let go of.
            Some(Named::Loading(_) | Named::Deleting(_)) | None => return told(),
        };
        if let Some(hosted) = self.topics.get_mut(key.slot, key.generation) {
            hosted.leaving.push(Box::new(told));
        }
        self.begin_unload(key);
    }
}

fn being_deleted(name: &TopicName) -> TopicError {
    TopicError::NotAllowed(format!("{name} is being deleted already"))
}
