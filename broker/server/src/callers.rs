//! Who asks a topic something without a connection, and waits for its answer: the admin API.

use std::collections::HashMap;

use tokio::sync::oneshot;
use topic::{Asked, ConnectionKey, Reply};

use crate::letter::TopicRef;

/// Those who wait for topics of one worker.
#[derive(Debug)]
pub(crate) struct Callers {
    desk: ConnectionKey,
    next: u64,
    waiting: HashMap<u64, (TopicRef, oneshot::Sender<Reply>)>,
}

impl Callers {
    pub(crate) fn new(worker: u16) -> Callers {
        // No slot is ever so high: connections are counted.
        let desk = ConnectionKey { worker, slot: u32::MAX, generation: u32::MAX };
        Callers { desk, next: 0, waiting: HashMap::new() }
    }

    /// Whom the topic answers.
    pub(crate) fn ask(&mut self, topic: TopicRef, tell: oneshot::Sender<Reply>) -> Asked {
        let request = self.next;
        self.next += 1;
        self.waiting.insert(request, (topic, tell));
        Asked { to: self.desk, request }
    }

    /// Whether an answer is for one of them.
    pub(crate) fn is_for(&self, to: ConnectionKey) -> bool {
        to == self.desk
    }

    pub(crate) fn answer(&mut self, reply: Reply) {
        let (Reply::Success { request } | Reply::Error { request, .. } | Reply::Place { request, .. }) = &reply else { return };
        if let Some((_, tell)) = self.waiting.remove(request) {
            // Whoever gave up does not mind.
            let _ = tell.send(reply);
        }
    }

    /// A topic was let go of: nobody will answer for it.
    pub(crate) fn forget(&mut self, topic: TopicRef) {
        self.waiting.retain(|_, (asked, _)| *asked != topic);
    }

    /// It will not be answered after all.
    pub(crate) fn withdraw(&mut self, asked: Asked) {
        self.waiting.remove(&asked.request);
    }
}
