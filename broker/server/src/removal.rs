//! Letting go of topics on request, and deleting them.

use std::sync::Arc;

use tokio::sync::oneshot;
use wire::TopicName;

use crate::catalog;
use crate::handle::{Handle, TopicError};
use crate::hosting::Named;
use crate::letter::Letter;
use crate::shared::Shared;
use crate::worker::Worker;

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
        })
    })
    .await
}

pub(crate) async fn delete_topic(shared: &Arc<Shared>, name: TopicName, force: bool) -> Result<(), TopicError> {
    let wanted = name.clone();
    let users = on_owner(shared, &name, move |worker, tell| {
        let _ = tell.send(worker.users(&wanted));
    })
    .await?;
    if let Some((producers, consumers, subscriptions)) = users
        && !force
        && producers + consumers + subscriptions > 0
    {
        return Err(TopicError::InUse { topic: name, producers, consumers, subscriptions });
    }
    unload_topic(shared, name.clone()).await?;
    let handle = Handle { shared: shared.clone() };
    let store = shared.store.clone();
    handle
        .control(move |metadata| {
            let ledgers = catalog::forget_topic(metadata, &name)?;
            // A leak is found as an orphan at the next start, so nobody waits for this.
            store.delete(ledgers, Box::new(|_| ()));
            Ok(())
        })
        .await?
}

pub(crate) async fn delete_partitioned(shared: &Arc<Shared>, name: TopicName, force: bool) -> Result<(), TopicError> {
    let handle = Handle { shared: shared.clone() };
    let Some(count) = handle.partitions(name.clone()).await? else { return Err(TopicError::NotFound(name)) };
    for index in 0..count {
        let partition = name.partition(index).map_err(|e| TopicError::NotAllowed(e.to_string()))?;
        match delete_topic(shared, partition, force).await {
            Ok(()) | Err(TopicError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    handle.control(move |metadata| catalog::forget_partitioned(metadata, &name)).await?
}

impl Worker {
    /// Producers, consumers and subscriptions of a loaded topic.
    fn users(&mut self, name: &TopicName) -> Option<(usize, usize, usize)> {
        let Some(Named::Loaded(key)) = self.names.get(name) else { return None };
        let key = *key;
        let hosted = self.topics.get_mut(key.slot, key.generation)?;
        Some((hosted.topic.producers(), hosted.topic.consumers(), hosted.topic.stats().subscriptions.len()))
    }

    /// Lets go of a topic, then calls `told`; at once if it is not loaded.
    fn unload_then(&mut self, name: &TopicName, told: impl FnOnce() + Send + 'static) {
        let key = match self.names.get(name) {
            Some(Named::Loaded(key) | Named::Unloading(key, _)) => *key,
            // What is being loaded was asked for after this call, or it would be loaded by now: nothing to let go of.
            Some(Named::Loading(_)) | None => return told(),
        };
        if let Some(hosted) = self.topics.get_mut(key.slot, key.generation) {
            hosted.leaving.push(Box::new(told));
        }
        self.begin_unload(key);
    }
}
