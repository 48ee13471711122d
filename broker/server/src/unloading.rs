//! Letting go of all topics of a namespace, or of one of its bundles.

use tokio::sync::oneshot;
use wire::{BundleRange, NamespaceName, names};

use crate::handle::{Handle, TopicError};
use crate::letter::{Letter, TopicRef};
use crate::worker::Worker;

impl Handle {
    /// Closes the clients of every loaded topic of a namespace, or of one bundle of it, and lets go of the topics; clients come back by
    /// themselves.
    ///
    /// # Errors
    /// [`TopicError::Gone`].
    pub async fn unload_namespace(&self, namespace: NamespaceName, bundle: Option<BundleRange>) -> Result<(), TopicError> {
        let mut leaving = Vec::new();
        for mailbox in &self.shared.mailboxes {
            let (tell, told) = oneshot::channel();
            let namespace = namespace.clone();
            mailbox.post(Letter::Call(Box::new(move |worker| drop(tell.send(worker.unload_all_of(&namespace, bundle))))));
            leaving.push(told);
        }
        for worker in leaving {
            for topic in worker.await.map_err(|_| TopicError::Gone)? {
                topic.await.map_err(|_| TopicError::Gone)?;
            }
        }
        Ok(())
    }
}

impl Worker {
    fn unload_all_of(&mut self, namespace: &NamespaceName, bundle: Option<BundleRange>) -> Vec<oneshot::Receiver<()>> {
        let mut keys: Vec<TopicRef> = Vec::new();
        for (_, _, hosted) in self.topics.iter_mut() {
            let name = hosted.topic.name();
            let in_bundle = || bundle.is_none_or(|bundle| bundle.contains(names::hash_of_topic(name)));
            if name.namespace_str() == namespace.as_str() && in_bundle() {
                keys.push(hosted.key);
            }
        }
        let mut leaving = Vec::new();
        for key in keys {
            let Some(hosted) = self.topics.get_mut(key.slot, key.generation) else { continue };
            let (tell, told) = oneshot::channel();
            hosted.leaving.push(Box::new(move || {
                let _ = tell.send(());
            }));
            leaving.push(told);
            self.begin_unload(key);
        }
        leaving
    }
}
