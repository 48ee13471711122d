//! Where the commands of an attached producer or consumer go.

use crate::id_map::IdMap;
use crate::letter::TopicRef;

/// A producer's or consumer's way to its topic; `S` is its slot there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route<S> {
    /// The topic's partition index, or -1; clients want it in every message id.
    pub(crate) partition: i32,
    pub(crate) stage: Stage<S>,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage<S> {
    /// Not answered yet; the client may have asked to close it meanwhile.
    Attaching {
        request: u64,
        close: Option<u64>,
    },
    /// Attached in order to wait for a place: commands go nowhere yet, but the topic knows of it.
    Waiting {
        request: u64,
        topic: TopicRef,
    },
    Attached {
        topic: TopicRef,
        slot: S,
    },
}

impl<S: Copy> Route<S> {
    pub(crate) fn attaching(request: u64, partition: Option<u32>) -> Route<S> {
        let partition = partition.and_then(|p| i32::try_from(p).ok()).unwrap_or(-1);
        Route { partition, stage: Stage::Attaching { request, close: None } }
    }

    pub(crate) fn attached(&self) -> Option<(TopicRef, S)> {
        match self.stage {
            Stage::Attached { topic, slot } => Some((topic, slot)),
            Stage::Attaching { .. } | Stage::Waiting { .. } => None,
        }
    }

    /// The topic that has to be told when it goes.
    pub(crate) fn topic(&self) -> Option<TopicRef> {
        match self.stage {
            Stage::Attached { topic, .. } | Stage::Waiting { topic, .. } => Some(topic),
            Stage::Attaching { .. } => None,
        }
    }

    /// The topic has it wait. Returns the request to close it, if one came in meanwhile.
    pub(crate) fn wait(&mut self, topic: TopicRef) -> Option<u64> {
        if let Stage::Attaching { request, close } = self.stage {
            self.stage = Stage::Waiting { request, topic };
            return close;
        }
        None
    }

    /// Notes that the client wants it closed although it is not attached yet; false if it is.
    pub(crate) fn close_when_attached(&mut self, closing: u64) -> bool {
        match &mut self.stage {
            Stage::Attaching { close, .. } => {
                *close = Some(closing);
                true
            }
            Stage::Attached { .. } | Stage::Waiting { .. } => false,
        }
    }

    /// The topic answered: commands go there from now on. Returns the request to close it, if one came in meanwhile.
    pub(crate) fn attach(&mut self, topic: TopicRef, slot: S) -> Option<u64> {
        let close = match self.stage {
            Stage::Attaching { close, .. } => close,
            Stage::Attached { .. } | Stage::Waiting { .. } => None,
        };
        self.stage = Stage::Attached { topic, slot };
        close
    }
}

/// Removes the route that waits for the answer to `request`; returns whether there was one, and the request to close it.
pub(crate) fn give_up<S>(routes: &mut IdMap<Route<S>>, request: u64) -> Option<Option<u64>> {
    let (id, close) = routes.iter().find_map(|(id, route)| match route.stage {
        Stage::Attaching { request: waiting, close } if waiting == request => Some((*id, close)),
        Stage::Waiting { request: waiting, .. } if waiting == request => Some((*id, None)),
        _ => None,
    })?;
    routes.remove(&id);
    Some(close)
}
