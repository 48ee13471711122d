//! When the gateways of a thread come back to a broker that was gone.

use std::{future::pending, time::Duration};

use client::Producer;
use tokio::time::{Instant, sleep_until};

use super::Return;

/// How exactly it is known when producers were attached again.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// See the module.
pub(super) struct Returns {
    gateways: Vec<Return>,
    /// By gateway, its producers that are still away.
    away: Vec<usize>,
    /// Places of producers that are still away, with how often a broker had taken each before.
    watched: Vec<(usize, u64)>,
    /// Places of a gateway.
    each: usize,
    next_look: Instant,
}

/// When to look again; never when everybody is back.
pub(super) async fn next_look(returns: Option<&Returns>) {
    match returns {
        Some(returns) if !returns.watched.is_empty() => sleep_until(returns.next_look).await,
        _ => pending().await,
    }
}

impl Returns {
    /// Of all producers that are there; the broker must not be.
    pub(super) fn new(each: usize, producers: &[Option<Producer>]) -> Self {
        let there = producers.iter().enumerate().filter_map(|(place, producer)| Some((place, producer.as_ref()?.attachments())));
        let watched: Vec<_> = there.collect();
        let gateways = producers.len() / each;
        let mut away = vec![0; gateways];
        watched.iter().for_each(|(place, _)| away[place / each] += 1);
        Self { gateways: vec![Return::default(); gateways], away, watched, each, next_look: Instant::now() }
    }

    /// Looks who is back.
    pub(super) fn look(&mut self, producers: &[Option<Producer>], now: u64) {
        let Self { gateways, away, watched, each, next_look } = self;
        *next_look = Instant::now() + LOOK_EVERY;
        watched.retain(|(place, before)| {
            let is_away = producers[*place].as_ref().is_some_and(|producer| producer.attachments() == *before);
            if !is_away {
                let gateway = place / *each;
                away[gateway] -= 1;
                if away[gateway] == 0 {
                    gateways[gateway].attached = Some(now);
                }
            }
            is_away
        });
    }

    /// A gateway got a receipt.
    pub(super) fn published(&mut self, gateway: usize, now: u64) {
        self.gateways[gateway].published.get_or_insert(now);
    }

    pub(super) fn told(self) -> Vec<Return> {
        self.gateways
    }
}
