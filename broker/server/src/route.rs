//! Where the commands of an attached producer or consumer go.

use crate::id_map::IdMap;
use crate::letter::TopicRef;

/// A producer's or consumer's way to its topic; `S` is its slot there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route<S> {
    /// The topic's partition index, or -1; clients want it in every message id.
    pub(crate) partition: i32,
    /// Of a consumer: how many more messages its client will take.
    pub(crate) permits: i64,
    /// That of the schema a producer brought along.
    pub(crate) schema_version: Option<i64>,
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
        Route { partition, permits: 0, schema_version: None, stage: Stage::Attaching { request, close: None } }
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

    /// The topic has it wait, unless the client has thought better of it.
    pub(crate) fn wait(&mut self, topic: TopicRef) -> Welcome {
        match self.stage {
            Stage::Attaching { close: Some(close), .. } => Welcome::Closed { close },
            Stage::Attaching { request, close: None } => {
                self.stage = Stage::Waiting { request, topic };
                Welcome::In
            }
            Stage::Waiting { .. } | Stage::Attached { .. } => Welcome::Stranger,
        }
    }

    /// Whether it is attached to this very topic.
    pub(crate) fn leads_to(&self, topic: TopicRef) -> bool {
        self.attached().is_some_and(|(to, _)| to == topic)
    }

    /// Notes that the client wants it closed although it is not attached yet, and returns an earlier such request, which is
    /// answered by this one; `Err` if it is attached.
    pub(crate) fn close_when_attached(&mut self, closing: u64) -> Result<Option<u64>, ()> {
        match &mut self.stage {
            Stage::Attaching { close, .. } => Ok(close.replace(closing)),
            Stage::Attached { .. } | Stage::Waiting { .. } => Err(()),
        }
    }

    /// The topic answered: commands go there from now on, unless the client has thought better of it.
    pub(crate) fn attach(&mut self, topic: TopicRef, slot: S) -> Welcome {
        match self.stage {
            Stage::Attaching { close: Some(close), .. } => return Welcome::Closed { close },
            Stage::Attached { topic: before, .. } if before != topic => return Welcome::Elsewhere,
            Stage::Waiting { topic: before, .. } if before != topic => return Welcome::Elsewhere,
            Stage::Attaching { .. } | Stage::Waiting { .. } | Stage::Attached { .. } => {}
        }
        self.stage = Stage::Attached { topic, slot };
        Welcome::In
    }
}

/// What a topic's answer to a request to attach meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Welcome {
    /// It is attached.
    In,
    /// The client asked to close it meanwhile, by this request.
    Closed { close: u64 },
    /// Nobody waits for it any more.
    Stranger,
    /// Its id is attached to another topic.
    Elsewhere,
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
