//! Which non-persistent topics there are: no metadata tells, since they are there only while they are used.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::{NamespaceName, TopicName};

/// Their names, told by the workers that host them; read when somebody lists topics or asks for one.
#[derive(Debug, Default)]
pub(crate) struct VolatileTopics(Mutex<HashSet<TopicName>>);

impl VolatileTopics {
    pub(crate) fn note(&self, name: &TopicName) {
        self.names().insert(name.clone());
    }

    pub(crate) fn forget(&self, name: &TopicName) {
        self.names().remove(name);
    }

    pub(crate) fn contains(&self, name: &TopicName) -> bool {
        self.names().contains(name)
    }

    /// Those of a namespace, in no order.
    pub(crate) fn of(&self, namespace: &NamespaceName) -> Vec<TopicName> {
        self.names().iter().filter(|name| name.namespace() == *namespace).cloned().collect()
    }

    fn names(&self) -> MutexGuard<'_, HashSet<TopicName>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
