//! Acknowledgements that are held for a while, as stock clients hold them: a consumer's leave together, after a time or when
//! there are many.

use std::collections::VecDeque;

use client::{Consumer, MessageId};

/// What the consumers of a thread have not yet acknowledged.
#[derive(Debug)]
pub(super) struct Acks {
    /// By the consumer's place.
    held: Vec<Vec<MessageId>>,
    /// Who has to be served when; since all wait for the same time, in that order.
    due: VecDeque<(u64, usize)>,
    micros: u64,
    count: usize,
}

impl Acks {
    pub(super) fn new(places: usize, millis: u64, count: usize) -> Self {
        Self { held: vec![Vec::new(); places], due: VecDeque::new(), micros: millis * 1000, count }
    }

    /// Notes one; sends what the consumer has when that is enough.
    pub(super) fn add(&mut self, place: usize, consumer: Option<&Consumer>, id: MessageId, now: u64) {
        let held = &mut self.held[place];
        if held.is_empty() {
            self.due.push_back((now + self.micros, place));
        }
        held.push(id);
        if held.len() >= self.count {
            self.send(place, consumer);
        }
    }

    /// When the next have to leave.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.due.front().map(|(due, _)| *due)
    }

    /// A consumer whose acknowledgements have to leave by now.
    pub(super) fn take_due(&mut self, now: u64) -> Option<usize> {
        let (_, place) = self.due.pop_front_if(|(due, _)| *due <= now)?;
        Some(place)
    }

    /// Sends what a consumer has. Without a consumer it is forgotten: the messages will come again.
    pub(super) fn send(&mut self, place: usize, consumer: Option<&Consumer>) {
        let held = &mut self.held[place];
        if let Some(consumer) = consumer.filter(|_| !held.is_empty()) {
            consumer.ack_many(held);
        }
        held.clear();
    }

    /// Sends everything.
    pub(super) fn send_all<'a>(&mut self, consumer: impl Fn(usize) -> Option<&'a Consumer>) {
        self.due.clear();
        (0..self.held.len()).for_each(|place| self.send(place, consumer(place)));
    }
}
