//! What the admin API may ask about policies.

use std::sync::Arc;

use tokio::sync::oneshot;
use wire::{NamespaceName, TopicName};

use crate::handle::{Handle, TopicError};
use crate::letter::Letter;
use crate::policies::{AutoCreation, Said, auto_creation, said, tell_namespace, tell_topic};
use crate::shared::Shared;

impl Handle {
    /// What is said of a topic, level by level; partitions are spoken of by the name of their topic.
    ///
    /// # Errors
    /// Metadata errors.
    pub async fn policies_of(&self, topic: TopicName) -> Result<Said, TopicError> {
        Ok(self.control(move |metadata| said(metadata, &topic)).await??)
    }

    /// Returns when a topic, and each of its partitions, follows the policies that are stored now.
    ///
    /// # Errors
    /// [`TopicError::Gone`].
    pub async fn settle_topic(&self, whole: TopicName) -> Result<(), TopicError> {
        self.settle(move |shared| tell_topic(shared, &whole)).await
    }

    /// Returns when every topic of a namespace follows the policies that are stored now.
    ///
    /// # Errors
    /// [`TopicError::Gone`].
    pub async fn settle_namespace(&self, namespace: NamespaceName) -> Result<(), TopicError> {
        self.settle(move |shared| tell_namespace(shared, &namespace)).await
    }

    async fn settle(&self, tell: impl FnOnce(&Arc<Shared>) + Send + 'static) -> Result<(), TopicError> {
        let (done, told) = oneshot::channel();
        let shared = self.shared.clone();
        self.shared.control.run(move || {
            tell(&shared);
            let answers: Vec<_> = shared
                .mailboxes
                .iter()
                .map(|mailbox| {
                    let (heard, answer) = oneshot::channel();
                    mailbox.post(Letter::Call(Box::new(move |_| {
                        let _ = heard.send(());
                    })));
                    answer
                })
                .collect();
            let _ = done.send(answers);
        });
        for answer in told.await.map_err(|_| TopicError::Gone)? {
            answer.await.map_err(|_| TopicError::Gone)?;
        }
        Ok(())
    }

    /// What becomes of topics of a namespace that are used before they are there.
    ///
    /// # Errors
    /// Metadata errors.
    pub async fn auto_creation(&self, namespace: NamespaceName) -> Result<AutoCreation, TopicError> {
        let shared = self.shared.clone();
        Ok(self.control(move |metadata| auto_creation(metadata, &shared.live(), &namespace)).await??)
    }
}
