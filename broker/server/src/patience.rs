//! Letters that may wait: publishes, and what must not overtake them. A turn reads some of them, behind whatever delivery lives on,
//! and none for a topic that gives way to its consumers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::letter::{Letter, TopicEvent, TopicRef};
use crate::worker::Worker;

/// Letters that one turn reads: so many publishes take about a millisecond, and delivery goes first again.
const PER_TURN: usize = 1024;

/// The letters of one worker.
#[derive(Default)]
pub(crate) struct Patience {
    letters: VecDeque<Letter>,
    /// Topics that give way, or still have letters from when they did.
    topics: Vec<TopicRef>,
}

impl Patience {
    pub(crate) fn push(&mut self, letter: Letter) {
        self.letters.push_back(letter);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }
}

impl Worker {
    /// Reads some of the letters that may wait; the rest wait for the next turn.
    pub(crate) fn read_patient(&mut self, me: &Rc<RefCell<Worker>>) {
        let read = self.read_held();
        if read > 0 || !self.patience.letters.is_empty() {
            self.catch_up.live(self.now.monotonic_ms);
        }
        for _ in read..PER_TURN {
            let Some(letter) = self.patience.letters.pop_front() else { return };
            match letter {
                Letter::ToTopic { topic, event } => self.on_topic_in_time(topic, event),
                letter => self.read(letter, me),
            }
        }
    }

    fn on_topic_in_time(&mut self, topic: TopicRef, event: TopicEvent) {
        if let Some(hosted) = self.topics.get_mut(topic.slot, topic.generation)
            && (hosted.gives_way || !hosted.kept_back.is_empty())
        {
            return hosted.kept_back.push_back(event);
        }
        self.on_topic(topic, event);
    }

    /// Goes on with topics that gave way and do not any more. Returns how many letters that were.
    fn read_held(&mut self) -> usize {
        let mut read = 0;
        let mut topics = std::mem::take(&mut self.patience.topics);
        topics.retain(|topic| {
            while read < PER_TURN
                && let Some(hosted) = self.topics.get_mut(topic.slot, topic.generation)
                && !hosted.gives_way
                && let Some(event) = hosted.kept_back.pop_front()
            {
                self.on_topic(*topic, event);
                read += 1;
            }
            self.topics.get_mut(topic.slot, topic.generation).is_some_and(|hosted| hosted.gives_way || !hosted.kept_back.is_empty())
        });
        self.patience.topics = topics;
        read
    }

    /// Asks topics that gave way in the turn before whether they still do.
    pub(crate) fn reconsider_giving_way(&mut self) {
        for index in 0..self.patience.topics.len() {
            if let Some(topic) = self.patience.topics.get(index).copied() {
                self.consider_giving_way(topic);
            }
        }
    }

    /// Asks a topic whether it gives way to its consumers.
    pub(crate) fn consider_giving_way(&mut self, topic: TopicRef) {
        let Some(hosted) = self.topics.get_mut(topic.slot, topic.generation) else { return };
        let now = self.now;
        // Publishes that do not even queue need not wait for anybody.
        let is_pressed = hosted.gives_way || !hosted.kept_back.is_empty() || self.patience.letters.len() >= PER_TURN;
        let gives_way = is_pressed && hosted.topic.persistent().is_some_and(|topic| topic.gives_way(now));
        let is_new = gives_way && !hosted.gives_way && hosted.kept_back.is_empty();
        hosted.gives_way = gives_way;
        if is_new {
            self.patience.topics.push(topic);
        }
    }

    /// When a topic that gives way is to be asked again, and at once if held letters can be read.
    pub(crate) fn patience_ends(&mut self) -> Option<u64> {
        let (now, topics) = (self.now.monotonic_ms, &mut self.topics);
        let next = |topic: &TopicRef| topics.get_mut(topic.slot, topic.generation).map(|hosted| now + u64::from(hosted.gives_way));
        self.patience.topics.iter().filter_map(next).min()
    }
}
