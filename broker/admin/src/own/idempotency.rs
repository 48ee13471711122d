//! Answers to POSTs that were sent with an `Idempotency-Key`, so that one that is sent again is not carried out again.
//!
//! They are kept in memory, for a day and in a bounded number: a restart forgets them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::HeaderName;

use crate::errors::Refusal;
use crate::reply::{Kept, Reply};

/// How long an answer is kept.
const LASTS: Duration = Duration::from_secs(24 * 3600);
/// Answers kept at most; beyond it the oldest goes.
const MOST: usize = 1_000;
/// Answers larger than this are not kept: a request that comes again is carried out again.
const MOST_BYTES: usize = 64 * 1024;
/// The longest key.
const LONGEST: usize = 64;

/// Whose key it is, and the key.
type Key = (String, String);

/// See the module.
#[derive(Default)]
pub(crate) struct Answers(Mutex<Known>);

#[derive(Default)]
struct Known {
    answers: HashMap<Key, Entry>,
    /// In the order in which they came.
    order: VecDeque<Key>,
}

struct Entry {
    since: Instant,
    /// Of the request.
    digest: [u8; 32],
    /// None while it is being carried out.
    answer: Option<Kept>,
}

/// What is to be done with a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Carry it out, and say what came of it.
    Act(Key),
    /// It was answered before.
    Repeat(Kept),
}

impl Answers {
    /// Takes a request in.
    ///
    /// # Errors
    /// 400 for a key that is none, 409 while the first request is being carried out, 422 for a key that stood for another request.
    pub(crate) fn begin(&self, principal: &str, key: &str, digest: [u8; 32]) -> Result<Turn, Refusal> {
        if key.is_empty() || key.len() > LONGEST {
            return Err(Refusal::bad_request(format!("An Idempotency-Key has 1 to {LONGEST} characters, not {}", key.len())));
        }
        let mut known = self.lock();
        known.forget_old(Instant::now());
        let key = (principal.to_owned(), key.to_owned());
        match known.answers.get(&key) {
            Some(entry) if entry.digest != digest => {
                Err(Refusal::unprocessable("This Idempotency-Key was used for another request").coded("idempotency-key-reused"))
            }
            Some(Entry { answer: Some(answer), .. }) => Ok(Turn::Repeat(answer.clone())),
            Some(Entry { answer: None, .. }) => {
                Err(Refusal::conflict("The first request with this Idempotency-Key is still being carried out").coded("still-running"))
            }
            None => {
                known.order.push_back(key.clone());
                known.answers.insert(key.clone(), Entry { since: Instant::now(), digest, answer: None });
                Ok(Turn::Act(key))
            }
        }
    }

    /// A request was carried out; faults of ours are not kept, so that it can be tried again.
    pub(crate) fn end(&self, key: &Key, reply: Option<&Reply>) {
        let mut known = self.lock();
        match reply.filter(|reply| !reply.status().is_server_error() && reply.status() != StatusCode::TOO_MANY_REQUESTS) {
            Some(reply) => {
                if let (Some(entry), Some(kept)) = (known.answers.get_mut(key), reply.keep(MOST_BYTES)) {
                    entry.answer = Some(kept);
                }
            }
            None => known.forget(key),
        }
    }

    /// Nothing came of a request that was taken in.
    pub(crate) fn give_up(&self, key: &Key) {
        let mut known = self.lock();
        if known.answers.get(key).is_some_and(|entry| entry.answer.is_none()) {
            known.forget(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn forget_old(&mut self, now: Instant) {
        while let Some(oldest) = self.order.front() {
            let is_old = self.answers.get(oldest).is_none_or(|entry| now.duration_since(entry.since) >= LASTS);
            if !is_old && self.order.len() < MOST {
                return;
            }
            let Some(oldest) = self.order.pop_front() else { return };
            self.answers.remove(&oldest);
        }
    }

    fn forget(&mut self, key: &Key) {
        self.answers.remove(key);
        self.order.retain(|other| other != key);
    }
}

/// What says that an answer was given before.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &'static str) -> Reply {
        Reply::text(text)
    }

    #[test]
    fn a_request_that_comes_again_gets_the_first_answer() {
        let answers = Answers::default();
        let Ok(Turn::Act(key)) = answers.begin("a", "k", [1; 32]) else { panic!("the first is carried out") };
        assert_eq!(answers.begin("a", "k", [1; 32]).unwrap_err().status.as_u16(), 409);
        answers.end(&key, Some(&answer("one")));
        assert_eq!(answers.begin("a", "k", [1; 32]).unwrap(), Turn::Repeat(answer("one").keep(99).unwrap()));
        assert_eq!(answers.begin("a", "k", [2; 32]).unwrap_err().status.as_u16(), 422);
        assert!(matches!(answers.begin("b", "k", [2; 32]), Ok(Turn::Act(_))), "another principal's key is another key");
    }

    #[test]
    fn a_fault_of_ours_may_be_tried_again() {
        let answers = Answers::default();
        let Ok(Turn::Act(key)) = answers.begin("a", "k", [1; 32]) else { panic!("the first is carried out") };
        answers.end(&key, Some(&Refusal::internal("disk").into()));
        assert!(matches!(answers.begin("a", "k", [1; 32]), Ok(Turn::Act(_))));
    }

    #[test]
    fn the_number_of_keys_has_a_bound_and_so_has_their_length() {
        let answers = Answers::default();
        for n in 0..3 * MOST {
            assert!(matches!(answers.begin("a", &n.to_string(), [0; 32]), Ok(Turn::Act(_))));
        }
        assert!(answers.lock().answers.len() <= MOST && answers.lock().order.len() <= MOST);
        assert_eq!(answers.begin("a", &"k".repeat(65), [0; 32]).unwrap_err().status.as_u16(), 400);
    }
}
