//! Rates and quotas that come, change and go.

use std::sync::Arc;

use topic::{DispatchRates, PublishRates, Quota, QuotaPolicy, Quotas, Rate, Rates, SharedLimiter};

use super::Play;

/// What is due within this time is waited for; quotas are looked at more rarely.
const SOON_MS: u64 = 2_000;

impl Play {
    /// Other rates hold, or none.
    pub(super) fn change_rates(&mut self) {
        if !self.rated {
            return;
        }
        let mut settings = self.settings.clone();
        if self.rng.u8(..4) == 0 {
            (settings.rates, settings.quota) = (Rates::default(), Quotas::default());
        } else {
            settings.rates = Rates {
                publish: PublishRates { topic: self.some_rate(), broker: self.some_shared_rate() },
                dispatch: DispatchRates {
                    topic: self.some_rate(),
                    subscription: self.some_rate(),
                    broker: self.some_shared_rate(),
                    batch_counts_once: self.rng.bool(),
                    spares_followers: self.rng.u8(..4) == 0,
                },
                subscribe: Rate::default(),
            };
            settings.quota = Quotas { size: self.some_quota(3_000), age: self.some_quota(20_000), check_ms: 30_000 };
        }
        self.note(|| format!("rates change to {:?}, quotas to {:?}", settings.rates, settings.quota));
        self.tally.rate_changes += 1;
        self.settings = settings.clone();
        self.owner.change_settings(settings);
    }

    fn some_rate(&mut self) -> Rate {
        let messages = if self.rng.bool() { 0 } else { self.rng.u64(10..200) };
        let bytes = if self.rng.bool() { 0 } else { self.rng.u64(2_000..50_000) };
        Rate { messages, bytes, period_ms: if self.rng.bool() { 1_000 } else { 100 } }
    }

    fn some_shared_rate(&mut self) -> Option<Arc<SharedLimiter>> {
        let rate = self.some_rate();
        SharedLimiter::new(rate).filter(|_| self.rng.u8(..4) == 0).map(Arc::new)
    }

    /// What is evicted never comes, so that is looked at elsewhere.
    fn some_quota(&mut self, most: u64) -> Option<Quota> {
        let policy = if self.rng.bool() { QuotaPolicy::ProducerRequestHold } else { QuotaPolicy::ProducerException };
        let limit = self.rng.u64(most / 10..most);
        (self.rng.u8(..4) == 0).then_some(Quota { limit, policy })
    }

    /// Time passes until rates hold nothing back any more.
    pub(super) fn wait_for_rates(&mut self) -> Result<(), String> {
        for _ in 0..20_000 {
            if !self.rated || self.owner.unload_reason.is_some() {
                return Ok(());
            }
            self.owner.settle();
            self.listen()?;
            let now = self.owner.now.monotonic_ms;
            match self.owner.topic.next_deadline().filter(|at| *at <= now + SOON_MS) {
                Some(at) => self.owner.wait(at.saturating_sub(now)),
                None => return Ok(()),
            }
        }
        Err("something is held back for ever".to_owned())
    }
}
