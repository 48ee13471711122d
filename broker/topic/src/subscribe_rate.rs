//! How often one consumer may subscribe: a client in a loop of failing and coming back costs others less then.

use std::collections::HashMap;

use crate::event::AttachConsumer;
use crate::rate::{Limiter, Rate};
use crate::{Now, Topic};

/// With more consumers known than this, and twice as many each time, those are forgotten that have not come of late.
const FIRST_SWEEP: usize = 256;

/// Who came how often, of late.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    by_consumer: HashMap<Visitor, Limiter>,
    sweep_at: usize,
}

/// A consumer as its client's host knows it: ports change with each connection.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Visitor {
    host: String,
    name: String,
    id: u64,
}

impl Visits {
    /// Counts a visit; false if it is one too many.
    fn admit(&mut self, attach: &AttachConsumer, rate: Rate, now: Now) -> bool {
        let host = attach.address.rsplit_once(':').map_or(attach.address.as_str(), |(host, _)| host);
        let visitor = Visitor { host: host.to_owned(), name: attach.name.clone(), id: attach.key.id };
        if self.by_consumer.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.by_consumer.retain(|_, limiter| !limiter.is_full(now));
            self.sweep_at = self.by_consumer.len() * 2;
        }
        let before = self.by_consumer.get(&visitor).copied();
        let Some(mut limiter) = Limiter::changed(before, rate, now) else { return true };
        let open = limiter.is_open(now);
        if open {
            limiter.take(1, 0);
        }
        self.by_consumer.insert(visitor, limiter);
        open
    }
}

impl Topic {
    /// Whether a consumer that wants in does not come too often.
    pub(crate) fn may_subscribe(&mut self, attach: &AttachConsumer, now: Now) -> bool {
        let rate = self.settings.rates.subscribe;
        if !rate.is_limited() {
            self.visits = None;
            return true;
        }
        self.visits.get_or_insert_default().admit(attach, rate, now)
    }
}
